// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Weights: direct, image, Winograd and deconvolution mappings, each of which can be compressed.
//!
//! Kernels are distributed into groups of as many kernels as the hardware processes at once. Kernels are cut into small
//! cubes of as many channels as it processes at once. Both numbers depend on the configuration ([`Geometry`]); the
//! document describes nv_full. In this module `n` counts kernels, `h` rows (R) and `w` columns (S).
//!
//! Source: "In-memory data formats", section "Weight Format".

mod compress;
mod deconvolution;
pub(super) mod direct;
mod geometry;
mod image;
mod winograd;

pub use compress::{Compressed, Surfaces};
pub use deconvolution::Deconvolution;
pub use direct::Direct;
pub use geometry::{Geometry, Groups, WGS_ENTRY};
pub use image::{Image, ImageWindows, PostExtension};
pub use winograd::{convert_plane, Scaling, Winograd};
