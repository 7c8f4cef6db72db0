// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Where each element of a tensor lies in memory: NVDLA's feature cubes, pixel images, weights and operands.
//!
//! This is the project's one source of truth for addresses. Every layout is a small value with
//!
//! - constructors that check the document's rules and name the one that is broken ([`Error`]),
//! - [`Layout::offset`], the byte offset of an element, its inverse [`Layout::at`], and [`Layout::size`],
//! - [`Layout::elements`], all elements in memory order,
//! - [`Layout::pack`] and [`Layout::unpack`], between the layout and a plain NCHW or NHWC slice.
//!
//! Source: "In-memory data formats" of the hardware's documentation; each module names its section. Values in memory
//! are little-endian. Offsets count from the surface's address; they are `u64` and never overflow for an element
//! inside the extents, because constructors refuse a layout whose [`Layout::size`] does not fit.
//!
//! ```
//! use nvdla_uapi::layout::{feature::Cube, Extents, Layout, Order};
//! use nvdla_uapi::reg::values::Precision;
//!
//! // A 3 x 2 feature cube of 20 channels on nv_small (8-byte atoms): three surfaces.
//! let cube = Cube::packed(Extents::new(1, 20, 2, 3), Precision::Int8, 8)?;
//! assert_eq!(cube.surfaces(), 3);
//! assert_eq!(cube.offset(0, 9, 1, 2), 1 * 48 + 1 * 24 + 2 * 8 + 1);
//! assert_eq!(cube.size(), 3 * 2 * 3 * 8);
//!
//! let plain = [7i8; 20 * 2 * 3];
//! let mut memory = [0u8; 144];
//! cube.pack(Order::Nchw, &plain, &mut memory)?;
//! # Ok::<(), nvdla_uapi::layout::Error>(())
//! ```

pub mod align;
pub mod buffer;
#[cfg(feature = "bulk")]
pub mod bulk;
mod element;
mod error;
pub mod feature;
pub mod half;
mod nest;
pub mod operand;
pub mod pixel;
pub mod precision;
pub mod tpu;
mod transfer;
pub mod weight;

pub use element::Element;
pub use error::{Document, Error, Relation, Rule};
pub use nest::Nest;
pub use transfer::{pack_portable, unpack_portable};

use super::reg::values::Precision;

/// Bytes of an element: one for int8, two for int16 and fp16.
pub const fn bytes(precision: Precision) -> u32 {
    match precision {
        Precision::Int8 => 1,
        Precision::Int16 | Precision::Fp16 => 2,
    }
}

/// The sizes of a tensor: batches (or kernels), channels, height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extents {
    /// Batches; of weights, kernels.
    pub n: u32,
    /// Channels.
    pub c: u32,
    /// Lines.
    pub h: u32,
    /// Elements of a line.
    pub w: u32,
}

impl Extents {
    /// Sizes in the order N, C, H, W.
    pub const fn new(n: u32, c: u32, h: u32, w: u32) -> Self {
        Self { n, c, h, w }
    }

    /// How many elements there are.
    pub const fn elements(self) -> u64 {
        (self.n as u64).saturating_mul(self.c as u64).saturating_mul(self.h as u64).saturating_mul(self.w as u64)
    }

    /// Whether `at` lies inside.
    pub const fn contains(self, at: Index) -> bool {
        at.n < self.n && at.c < self.c && at.h < self.h && at.w < self.w
    }

    /// The position of an element in a plain slice of that order, in elements.
    pub const fn plain(self, order: Order, at: Index) -> u64 {
        let (n, c, h, w) = (at.n as u64, at.c as u64, at.h as u64, at.w as u64);
        let (cs, hs, ws) = (self.c as u64, self.h as u64, self.w as u64);
        match order {
            Order::Nchw => {
                n.wrapping_mul(cs).wrapping_add(c).wrapping_mul(hs).wrapping_add(h).wrapping_mul(ws).wrapping_add(w)
            }
            Order::Nhwc => {
                n.wrapping_mul(hs).wrapping_add(h).wrapping_mul(ws).wrapping_add(w).wrapping_mul(cs).wrapping_add(c)
            }
        }
    }

    /// Every size is at least one.
    const fn check(self) -> Result<Self, Error> {
        if self.n == 0 || self.c == 0 || self.h == 0 || self.w == 0 {
            return Err(Error::new(Rule::Extents, 0, 1));
        }
        Ok(self)
    }
}

/// An element's position in its tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Index {
    /// Batch; of weights, kernel.
    pub n: u32,
    /// Channel.
    pub c: u32,
    /// Line.
    pub h: u32,
    /// Element of the line.
    pub w: u32,
}

impl Index {
    /// A position in the order N, C, H, W.
    pub const fn new(n: u32, c: u32, h: u32, w: u32) -> Self {
        Self { n, c, h, w }
    }
}

/// How a plain slice orders its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Width changes fastest, then height, channel, batch. Weights: KCRS.
    Nchw,
    /// Channel changes fastest, then width, height, batch. Weights: KRSC.
    Nhwc,
}

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
        transfer::check(self, plain, memory.len())?;
        transfer::pack_portable(self, order, plain, memory);
        Ok(())
    }

    /// Reads `memory` into a plain slice of `order`.
    fn unpack<T: Element>(&self, order: Order, memory: &[u8], plain: &mut [T]) -> Result<(), Error> {
        transfer::check(self, plain, memory.len())?;
        transfer::unpack_portable(self, order, memory, plain);
        Ok(())
    }
}

/// The elements of a layout in memory order, each with its byte offset.
#[derive(Clone, Debug)]
pub struct Elements<L> {
    layout: L,
    next: Option<Index>,
}

impl<L: Layout> Iterator for Elements<L> {
    type Item = (u64, Index);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.next?;
        self.next = self.layout.following(at);
        Some((self.layout.offset(at.n, at.c, at.h, at.w), at))
    }
}

/// The element after `at` in atoms of `lanes` channels: C', W, then H and surfaces, or with `between` surfaces and H,
/// then N.
fn next_in_atoms(extents: Extents, lanes: u32, between: bool, at: Index) -> Option<Index> {
    let Index { n, c, h, w } = at;
    let surface = c - c % lanes;
    if c % lanes + 1 < lanes && c + 1 < extents.c {
        return Some(Index::new(n, c + 1, h, w));
    }
    if w + 1 < extents.w {
        return Some(Index::new(n, surface, h, w + 1));
    }
    let next_line = (h + 1 < extents.h).then(|| h + 1);
    let next_surface = (extents.c - surface > lanes).then(|| surface + lanes);
    let next = if between {
        next_surface.map(|c| (c, h)).or(next_line.map(|h| (0, h)))
    } else {
        next_line.map(|h| (surface, h)).or(next_surface.map(|c| (c, 0)))
    };
    match next {
        Some((c, h)) => Some(Index::new(n, c, h, 0)),
        None => (n + 1 < extents.n).then(|| Index::new(n + 1, 0, 0, 0)),
    }
}

/// How many whole strides, at most `count - 1`, lie before `offset`, and what is left.
const fn split(offset: u64, stride: u64, count: u32) -> (u32, u64) {
    if stride == 0 || count == 1 {
        return (0, offset);
    }
    let index = offset / stride;
    let index = if index < count as u64 { index } else { count as u64 - 1 };
    (index as u32, offset - index * stride)
}

/// `a * b + c` where the result fits.
const fn multiply_add(a: u64, b: u64, c: u64) -> Option<u64> {
    match a.checked_mul(b) {
        Some(product) => product.checked_add(c),
        None => None,
    }
}

/// The next multiple of `alignment` (not zero) that is at least `value`; saturates.
pub const fn round_up(value: u64, alignment: u64) -> u64 {
    match value.checked_next_multiple_of(alignment) {
        Some(value) => value,
        None => u64::MAX,
    }
}
