// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Weights for direct convolution, from which the other mappings are made.
//!
//! In a group: C' (inside the small cube), K, W, H, C. Small cubes and groups are not padded. The end of all weights is padded.
//!
//! Source: "In-memory data formats", section "Basic Weight for Direct Convolution".

use super::super::error::{Error, Rule};
use super::super::extents::{multiply_add, round_up, Extents};
use super::geometry::{Geometry, Groups};

/// Direct weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Direct {
    pub(in super::super) extents: Extents,
    pub(in super::super) geometry: Geometry,
    pub(in super::super) bytes: u64,
}

impl Direct {
    /// Weights of `extents` (kernels, channels, rows, columns).
    pub const fn new(extents: Extents, geometry: Geometry) -> Result<Self, Error> {
        if let Err(error) = extents.check() {
            return Err(error);
        }
        if let Err(error) = geometry.check() {
            return Err(error);
        }
        let lines = multiply_add(extents.h as u64, extents.w as u64, 0);
        let kernel = match lines {
            Some(lines) => multiply_add(lines, extents.c as u64, 0),
            None => None,
        };
        let elements = match kernel {
            Some(kernel) => multiply_add(kernel, extents.n as u64, 0),
            None => None,
        };
        match elements {
            Some(elements) => match multiply_add(elements, geometry.element_bytes() as u64, 0) {
                Some(bytes) if bytes <= u64::MAX - geometry.alignment as u64 => Ok(Self { extents, geometry, bytes }),
                _ => Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
            },
            None => Err(Error::new(Rule::Size, u64::MAX, u64::MAX)),
        }
    }

    /// What the mapping takes from the hardware.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Kernels of a group: the last may have fewer.
    pub const fn kernels_in(&self, group: u32) -> u32 {
        let rest = self.extents.n.saturating_sub(group.saturating_mul(self.geometry.group_kernels));
        if rest < self.geometry.group_kernels {
            rest
        } else {
            self.geometry.group_kernels
        }
    }

    /// Channels of small cube `block`: the last may have fewer.
    pub const fn channels_in(&self, block: u32) -> u32 {
        let rest = self.extents.c.saturating_sub(block.saturating_mul(self.geometry.cube_channels));
        if rest < self.geometry.cube_channels {
            rest
        } else {
            self.geometry.cube_channels
        }
    }

    /// Elements of one kernel.
    pub(in super::super) const fn kernel_elements(&self) -> u64 {
        self.extents.c as u64 * self.extents.h as u64 * self.extents.w as u64
    }

    /// Bytes of the weights without the padding at the end.
    pub const fn mapped_bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the weights with the padding at the end.
    pub const fn size(&self) -> u64 {
        round_up(self.bytes, self.geometry.alignment as u64)
    }

    /// Offset of kernel group `group`.
    pub const fn group_offset(&self, group: u32) -> u64 {
        (group as u64)
            .wrapping_mul(self.geometry.group_kernels as u64)
            .wrapping_mul(self.kernel_elements())
            .wrapping_mul(self.geometry.element_bytes() as u64)
    }

    /// The offset of small cube `block` of kernel `k` at row `r`, column `s`. The elements of the small cube follow it.
    pub const fn cube_offset(&self, k: u32, block: u32, r: u32, s: u32) -> u64 {
        let group = k / self.geometry.group_kernels;
        let kernels = self.kernels_in(group) as u64;
        let Extents { h: rows, w: columns, .. } = self.extents;
        let before = (block as u64).wrapping_mul(self.geometry.cube_channels as u64);
        let plane = (rows as u64).wrapping_mul(columns as u64).wrapping_mul(kernels);
        let place = (r as u64).wrapping_mul(columns as u64).wrapping_add(s as u64).wrapping_mul(kernels);
        let place = place.wrapping_add((k % self.geometry.group_kernels) as u64);
        let elements = before.wrapping_mul(plane).wrapping_add(place.wrapping_mul(self.channels_in(block) as u64));
        self.group_offset(group).wrapping_add(elements.wrapping_mul(self.geometry.element_bytes() as u64))
    }

    /// Offset of a weight.
    pub const fn offset(&self, k: u32, c: u32, r: u32, s: u32) -> u64 {
        let channels = self.geometry.cube_channels;
        self.cube_offset(k, c / channels, r, s)
            .wrapping_add((c % channels) as u64 * self.geometry.element_bytes() as u64)
    }
}

impl Groups for Direct {
    fn groups(&self) -> u32 {
        self.extents.n.div_ceil(self.geometry.group_kernels)
    }

    fn group_elements(&self, group: u32) -> u64 {
        u64::from(self.kernels_in(group)) * self.kernel_elements()
    }
}
