// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Weights for deconvolution: set split.
//!
//! A deconvolution with a stride runs as stride x stride convolutions, one for each phase of the output, which Rubik
//! then interleaves (contract). The weights are split into one set for each phase: set (y, x) takes every stride-th row
//! from y and column from x. All sets have the same size; where a kernel ends early, a set's last row or column is
//! zero. Each set is mapped as direct weights, sets one after another, x changing before y.
//!
//! Source: "In-memory data formats", section "Weight Format" (table 34, "Set split for deconvolution"); the phases as
//! the reference compiler splits them.

use super::super::contract::Layout;
use super::super::error::{Error, Rule};
use super::super::extents::{multiply_add, Extents, Index};
use super::direct::Direct;
use super::geometry::Geometry;

/// Deconvolution weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deconvolution {
    extents: Extents,
    stride_x: u32,
    stride_y: u32,
    set: Direct,
}

impl Deconvolution {
    /// Weights of `extents` (kernels, channels, rows, columns) for a deconvolution with these strides.
    pub const fn new(extents: Extents, stride_x: u32, stride_y: u32, geometry: Geometry) -> Result<Self, Error> {
        if let Err(error) = extents.check() {
            return Err(error);
        }
        if stride_x == 0 || stride_y == 0 {
            return Err(Error::new(Rule::Stride, 0, 1));
        }
        let (rows, columns) = (extents.h.div_ceil(stride_y), extents.w.div_ceil(stride_x));
        let set = match Direct::new(Extents::new(extents.n, extents.c, rows, columns), geometry) {
            Ok(set) => set,
            Err(error) => return Err(error),
        };
        let size = match stride_x.checked_mul(stride_y) {
            Some(sets) => multiply_add(sets as u64, set.size(), 0),
            None => None,
        };
        match size {
            Some(_) => Ok(Self { extents, stride_x, stride_y, set }),
            None => Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
        }
    }

    /// How many sets there are.
    pub const fn sets(&self) -> u32 {
        self.stride_x * self.stride_y
    }

    /// One set's weights: all sets have this layout.
    pub const fn set(&self) -> Direct {
        self.set
    }

    /// Offset of a set.
    pub const fn set_offset(&self, set: u32) -> u64 {
        (set as u64).wrapping_mul(self.set.size())
    }

    /// The set of a weight and its row and column there.
    pub const fn split(&self, r: u32, s: u32) -> (u32, u32, u32) {
        let set = (r % self.stride_y) * self.stride_x + s % self.stride_x;
        (set, r / self.stride_y, s / self.stride_x)
    }

    /// The row and column of the whole kernel at a set's row and column; `None` where the kernel has ended.
    pub const fn source(&self, set: u32, r: u32, s: u32) -> Option<(u32, u32)> {
        let row = r.wrapping_mul(self.stride_y).wrapping_add(set / self.stride_x);
        let column = s.wrapping_mul(self.stride_x).wrapping_add(set % self.stride_x);
        if row < self.extents.h && column < self.extents.w {
            Some((row, column))
        } else {
            None
        }
    }

    /// Offset of a weight.
    pub const fn offset(&self, k: u32, c: u32, r: u32, s: u32) -> u64 {
        let (set, r, s) = self.split(r, s);
        self.set_offset(set).wrapping_add(self.set.offset(k, c, r, s))
    }

    /// Bytes of all sets, each padded at its end.
    pub const fn size(&self) -> u64 {
        self.set_offset(self.sets())
    }
}

impl Layout for Deconvolution {
    fn extents(&self) -> Extents {
        self.extents
    }

    fn element_bytes(&self) -> u32 {
        self.set.element_bytes()
    }

    fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        Self::offset(self, n, c, h, w)
    }

    fn size(&self) -> u64 {
        Self::size(self)
    }

    fn at(&self, offset: u64) -> Option<Index> {
        let set = u32::try_from(offset / self.set.size()).ok().filter(|set| *set < self.sets())?;
        let at = self.set.at(offset % self.set.size())?;
        let (r, s) = self.source(set, at.h, at.w)?;
        Some(Index::new(at.n, at.c, r, s))
    }

    fn following(&self, at: Index) -> Option<Index> {
        let step = u64::from(self.element_bytes());
        let mut offset = self.offset(at.n, at.c, at.h, at.w) + step;
        while offset < self.size() {
            if let Some(index) = self.at(offset) {
                return Some(index);
            }
            offset += step;
        }
        None
    }
}
