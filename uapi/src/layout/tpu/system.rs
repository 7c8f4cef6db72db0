// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Tensors in system memory: four strides.
//!
//! Source: "Strides in System Memory", "Continuous Layout".

use super::super::contract::Layout;
use super::super::error::{Error, Rule};
use super::super::extents::{Extents, Index};
use super::local::{self, Strides};

/// A tensor in system memory; offsets count from its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct System {
    extents: Extents,
    element: u32,
    strides: Strides,
    reach: u64,
}

impl System {
    /// The continuous layout: W stride 1, H stride W, C stride H x W, N stride C x H x W.
    pub const fn continuous(extents: Extents, element: u32) -> Result<Self, Error> {
        let h = extents.w as u64;
        let c = h.saturating_mul(extents.h as u64);
        Self::strided(extents, element, Strides { n: c.saturating_mul(extents.c as u64), c, h, w: 1 })
    }

    /// A tensor with these strides in elements. A stride of a size of one makes no sense and is ignored.
    pub const fn strided(extents: Extents, element: u32, strides: Strides) -> Result<Self, Error> {
        if let Err(error) = extents.check() {
            return Err(error);
        }
        if !matches!(element, 1 | 2 | 4 | 8) {
            return Err(Error::new(Rule::TpuElement, element as u64, 0));
        }
        let dimensions = local::sorted(strides, [extents.n, extents.c, extents.h, extents.w]);
        match local::reach(dimensions, element) {
            Ok(reach) => Ok(Self { extents, element, strides, reach }),
            Err(error) => Err(error),
        }
    }

    /// The strides.
    pub const fn strides(&self) -> Strides {
        self.strides
    }

    /// Offset of an element.
    pub const fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        self.strides.elements(n, c, h, w).wrapping_mul(self.element as u64)
    }

    const fn dimensions(&self) -> [local::Dimension; 4] {
        let Extents { n, c, h, w } = self.extents;
        local::sorted(self.strides, [n, c, h, w])
    }
}

impl Layout for System {
    fn extents(&self) -> Extents {
        self.extents
    }

    fn element_bytes(&self) -> u32 {
        self.element
    }

    fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        Self::offset(self, n, c, h, w)
    }

    fn size(&self) -> u64 {
        self.reach
    }

    fn at(&self, offset: u64) -> Option<Index> {
        let [n, c, h, w] = local::decompose(self.dimensions(), offset / u64::from(self.element))?;
        Some(Index::new(n, c, h, w))
    }

    fn following(&self, at: Index) -> Option<Index> {
        let mut place = [at.n, at.c, at.h, at.w];
        local::increment(self.dimensions(), &mut place, [0; 4]).then(|| {
            let [n, c, h, w] = place;
            Index::new(n, c, h, w)
        })
    }
}
