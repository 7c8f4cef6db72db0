// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Moving elements between a plain slice and a layout, one at a time: the definition that faster code must match.

use super::{Element, Error, Extents, Index, Layout, Order, Rule};

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
