// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Weights: direct, image, Winograd and deconvolution mappings, each of which can be compressed.
//!
//! Kernels are distributed into groups of as many kernels as the hardware makes at once, and kernels are cut into small
//! cubes of as many channels as it takes at once; both depend on the configuration ([`Geometry`]), of which the document
//! describes nv_full. Here an extent `n` is kernels, `h` rows (R) and `w` columns (S).
//!
//! Source: "In-memory data formats", section "Weight Format".

mod compress;
mod deconvolution;
mod direct;
mod image;
mod winograd;

pub use compress::{Compressed, Surfaces};
pub use deconvolution::Deconvolution;
pub use direct::Direct;
pub use image::{Image, PostExtension};
pub use winograd::{convert_plane, Scaling, Winograd};

use super::super::config::Config;
use super::super::reg::values::Precision;
use super::{align, bytes, Error, Layout, Rule};

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

    /// A configuration's. 16-bit weights take two multipliers each, so a group has half the kernels.
    pub const fn of(config: &Config, precision: Precision) -> Self {
        Self {
            precision,
            cube_channels: config.mac_atomic_c,
            group_kernels: config.mac_atomic_k / bytes(precision),
            alignment: align::weight_size(config),
        }
    }

    /// Bytes of an element.
    pub const fn element_bytes(self) -> u32 {
        bytes(self.precision)
    }

    const fn check(self) -> Result<Self, Error> {
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
