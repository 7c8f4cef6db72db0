// SPDX-License-Identifier: MIT OR Apache-2.0

//! Converts a picture to the bytes of an input tensor.
//!
//! [`Picture`] is a decoded file and [`Target`] the tensor. An [`Encoder`] converts any number of pictures for one target.
//!
//! # The value of a sample
//!
//! As in NVIDIA's program (nvdla/sw, `umd/apps/runtime/TestUtils.cpp`):
//!
//! - 8 bits: floor(sample * 127 / 255 + 0.5). The convolution reads them as signed numbers, so 0..255 is scaled to 0..127. mean
//!   and normalize have no effect, because the formats have no sign;
//! - 8 bits that the compiler's blob of names calls unsigned: the sample itself;
//!
//! NVIDIA's program does not support these formats:
//!
//! - 10, 12 and 16 bits: (sample - mean) / normalize, rounded to the nearest integer that the format can hold. The
//!   hardware converts it to half precision of the same value.
//!
//! # The order of channels
//!
//! Networks come from Caffe: channel 0 is blue, 1 green, 2 red ([`Order::Bgr`]); [`Order::Rgb`] is the reverse. The components of
//! a format take the channels in the order of the convolution (R, G, B, A or Y, U, V, A), so a network gets the same channels in
//! every format. Channels that the picture does not have are zero: a grey picture fills only channel 0, and alpha is zero. A loadable
//! of this project's compiler carries the network's own order, mean and fitting ([`Given`]); its grey pictures fill all channels. For a
//! tensor of one channel a coloured picture is converted to grey. Formats with Y, U and V get the picture in full-range YCbCr, as
//! in JPEG files.

mod encode;
mod error;
mod given;
mod picture;
mod sample;
mod vector;

pub use encode::{Encoder, Order, Settings, Target};
pub use error::Error;
pub use given::Given;
pub use picture::{is_picture, Picture, PictureFile, ENDINGS};

#[cfg(test)]
mod tests;
