// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Extents and indices of tensors, and the arithmetic that the layouts share.

use super::super::reg::values::Precision;
use super::error::{Error, Rule};

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
    pub(super) const fn check(self) -> Result<Self, Error> {
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

/// The element after `at` in atoms of `lanes` channels: C', W, then H and surfaces, or with `between` surfaces and H,
/// then N.
pub(super) fn next_in_atoms(extents: Extents, lanes: u32, between: bool, at: Index) -> Option<Index> {
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

/// The number of whole strides, at most `count - 1`, before `offset`, and the rest.
pub(super) const fn split(offset: u64, stride: u64, count: u32) -> (u32, u64) {
    if stride == 0 || count == 1 {
        return (0, offset);
    }
    let index = offset / stride;
    let index = if index < count as u64 { index } else { count as u64 - 1 };
    (index as u32, offset - index * stride)
}

/// `a * b + c` where the result fits.
pub(super) const fn multiply_add(a: u64, b: u64, c: u64) -> Option<u64> {
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
