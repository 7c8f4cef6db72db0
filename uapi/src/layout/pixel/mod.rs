// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Pixel data: images as a convolution's first input, pitch linear, in 36 formats.
//!
//! [`Format`] has the components of a format, [`Image`] the places of its pixels, and [`Converter`] the DMA's
//! conversion.
//!
//! Source: "In-memory data formats", section "Pixel Format" and table 33; the order of components within a pixel, the
//! alignment of 10-bit components and the second plane's x offset as the reference model reads them (CDMA).

pub(super) mod convert;
pub(super) mod format;
pub(super) mod image;

pub use convert::{saturating_shift, Converter};
pub use format::{Component, Format, Kind};
pub use image::Image;
