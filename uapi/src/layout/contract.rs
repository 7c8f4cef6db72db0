// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What every layout provides ([`Layout`]), and moving elements one at a time: the definition that faster code must match.

use super::element::Element;
use super::error::{Error, Rule};
use super::extents::{Extents, Index, Order};

/// A layout: each element of a tensor has one address, no two share one, and all lie inside [`Layout::size`].
pub trait Layout: Copy {
    /// The tensor's sizes.
    fn extents(&self) -> Extents;

    /// Bytes of an element.
    fn element_bytes(&self) -> u32;

    /// Byte offset of an element. Meaningful inside [`Layout::extents`] only; never panics.
    fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64;

    /// Bytes that the layout needs in memory, padding at the end included.
    fn size(&self) -> u64;

    /// The element to which the byte at `offset` belongs; `None` for padding and outside.
    fn at(&self, offset: u64) -> Option<Index>;

    /// The first element in memory.
    fn first(&self) -> Index {
        Index::new(0, 0, 0, 0)
    }

    /// The element after `at` in memory order.
    fn following(&self, at: Index) -> Option<Index>;

    /// All elements with their byte offsets, in memory order.
    fn elements(&self) -> Elements<Self> {
        Elements { layout: *self, next: Some(self.first()) }
    }

    /// Writes a plain slice of `order` into `memory`, padding as zeros (so never NaN).
    fn pack<T: Element>(&self, order: Order, plain: &[T], memory: &mut [u8]) -> Result<(), Error> {
        check(self, plain, memory.len())?;
        pack_portable(self, order, plain, memory);
        Ok(())
    }

    /// Reads `memory` into a plain slice of `order`.
    fn unpack<T: Element>(&self, order: Order, memory: &[u8], plain: &mut [T]) -> Result<(), Error> {
        check(self, plain, memory.len())?;
        unpack_portable(self, order, memory, plain);
        Ok(())
    }
}

/// The elements of a layout in memory order, each with its byte offset.
#[derive(Clone, Debug)]
pub struct Elements<L> {
    pub(super) layout: L,
    pub(super) next: Option<Index>,
}

impl<L: Layout> Iterator for Elements<L> {
    type Item = (u64, Index);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.next?;
        self.next = self.layout.following(at);
        Some((self.layout.offset(at.n, at.c, at.h, at.w), at))
    }
}

/// Checks that the element type has the layout's size, that `plain` holds exactly its elements, and that `memory`
/// bytes hold the layout.
pub(super) fn check<L: Layout, T: Element>(layout: &L, plain: &[T], memory: usize) -> Result<(), Error> {
    check_sizes(layout.extents(), layout.element_bytes(), layout.size(), T::BYTES, plain.len(), memory)
}

pub(super) const fn check_sizes(
    extents: Extents,
    bytes: u32,
    size: u64,
    plain_bytes: usize,
    plain: usize,
    memory: usize,
) -> Result<(), Error> {
    if plain_bytes != bytes as usize {
        return Err(Error::new(Rule::ElementBytes, plain_bytes as u64, bytes as u64));
    }
    if plain as u64 != extents.elements() {
        return Err(Error::new(Rule::PlainLength, plain as u64, extents.elements()));
    }
    if (memory as u64) < size {
        return Err(Error::new(Rule::MemoryLength, memory as u64, size));
    }
    Ok(())
}

/// Calls `visit` with each element's position in the plain slice and byte offset in memory.
fn each<L: Layout>(layout: &L, order: Order, mut visit: impl FnMut(usize, usize)) {
    let extents = layout.extents();
    for n in 0..extents.n {
        for h in 0..extents.h {
            for w in 0..extents.w {
                for c in 0..extents.c {
                    let plain = extents.plain(order, Index::new(n, c, h, w));
                    visit(plain as usize, layout.offset(n, c, h, w) as usize);
                }
            }
        }
    }
}

/// Packs one element at a time, after clearing the layout's bytes. Sizes must have been checked.
///
/// # Panics
/// If `plain` or `memory` is too short.
pub fn pack_portable<L: Layout, T: Element>(layout: &L, order: Order, plain: &[T], memory: &mut [u8]) {
    memory[..layout.size() as usize].fill(0);
    write_portable(layout, order, plain, memory);
}

/// Packs one element at a time and touches nothing else. Sizes must have been checked.
pub(super) fn write_portable<L: Layout, T: Element>(layout: &L, order: Order, plain: &[T], memory: &mut [u8]) {
    each(layout, order, |from, to| plain[from].write(&mut memory[to..]));
}

/// Unpacks one element at a time. Sizes must have been checked.
///
/// # Panics
/// If `plain` or `memory` is too short.
pub fn unpack_portable<L: Layout, T: Element>(layout: &L, order: Order, memory: &[u8], plain: &mut [T]) {
    each(layout, order, |to, from| plain[to] = T::read(&memory[from..]));
}
