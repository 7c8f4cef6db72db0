// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Kernel groups: how many kernels lie together, and the sizes that follow.

use super::super::super::config::Config;
use super::super::super::reg::values::Precision;
use super::super::align;
use super::super::contract::Layout;
use super::super::error::{Error, Rule};
use super::super::extents::{bytes, round_up};

/// Bytes of an entry of the group-size surface (WGS).
pub const WGS_ENTRY: u64 = 4;

/// What weight mappings take from the hardware and the precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Precision of the weights.
    pub precision: Precision,
    /// Channels of a small cube (atomic-C: 64 in the document, for every precision).
    pub cube_channels: u32,
    /// Kernels of a group (32 in the document for int8, 16 for int16 and fp16).
    pub group_kernels: u32,
    /// The mapped weights' size is padded to a multiple of this (128 in the document).
    pub alignment: u32,
}

impl Geometry {
    /// The document's hardware, nv_full.
    pub const fn documented(precision: Precision) -> Self {
        Self { precision, cube_channels: 64, group_kernels: 32 / bytes(precision), alignment: 128 }
    }

    /// The geometry of a configuration. A 16-bit weight takes two multipliers, so a group has half as many kernels.
    pub const fn of(config: &Config, precision: Precision) -> Self {
        Self {
            precision,
            cube_channels: config.mac_atomic_c,
            group_kernels: config.mac_atomic_k / bytes(precision),
            alignment: align::weight_size(config),
        }
    }

    /// Kernels of the largest group.
    pub const fn largest_group(self, kernels: u32) -> u64 {
        (if kernels < self.group_kernels { kernels } else { self.group_kernels }) as u64
    }

    /// The group of a kernel.
    pub const fn group_of(self, kernel: u32) -> u32 {
        kernel / self.group_kernels
    }

    /// The index, along the channels, of the small cube that holds a channel.
    pub const fn cube_of(self, channel: u32) -> u32 {
        channel / self.cube_channels
    }

    /// The number of groups of this many kernels.
    pub const fn groups(self, kernels: u32) -> u32 {
        kernels.div_ceil(if self.group_kernels == 0 { 1 } else { self.group_kernels })
    }

    /// The bytes of group sizes that a configuration reads for this many compressed kernels: whole atoms.
    pub const fn wgs_read(self, config: &Config, kernels: u32) -> u64 {
        round_up(self.groups(kernels) as u64 * WGS_ENTRY, config.memory_atomic as u64)
    }

    /// Bytes of an element.
    pub const fn element_bytes(self) -> u32 {
        bytes(self.precision)
    }

    pub(super) const fn check(self) -> Result<Self, Error> {
        if self.cube_channels == 0 {
            return Err(Error::new(Rule::AtomicC, 0, 1));
        }
        if self.group_kernels == 0 {
            return Err(Error::new(Rule::AtomicK, 0, 1));
        }
        if self.alignment == 0 {
            return Err(Error::new(Rule::WeightAlignment, 0, 1));
        }
        Ok(self)
    }
}

/// Mapped weights that can be compressed: kernel groups one after another, without gaps.
pub trait Groups: Layout {
    /// Kernel groups.
    fn groups(&self) -> u32;
    /// Elements of a group.
    fn group_elements(&self, group: u32) -> u64;
}
