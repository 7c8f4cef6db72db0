// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pixel formats: how CDMA maps the bits of a pixel to channels.
//!
//! Every format has one, three or four channels in the order R, G, B, A (Y, U, V, A). Components of 10 and 12 bits that
//! have their own 16 bits stay in place. Components that share 32 bits move to the upper end of 16 bits.
//!
//! Source: "In-memory data formats", table 33, and CDMA's image sequencer (`cmod/cdma`).

use nvdla_uapi::layout::pixel::Format;
use nvdla_uapi::reg::values::{PixelFormat, Precision};

/// Bytes of the widest pixel, all planes.
pub const MAX_BYTES: usize = 8;

/// Channels of a format.
pub const fn components(format: PixelFormat) -> usize {
    Format::new(format).channels as usize
}

/// The input precision of a format.
pub const fn precision(format: PixelFormat) -> Precision {
    Format::new(format).input_precision()
}

/// Bytes of a pixel in each plane.
pub const fn pixel_bytes(format: &Format) -> [usize; 2] {
    [format.bytes_per_pixel[0] as usize, format.bytes_per_pixel[1] as usize]
}

/// Extracts the channels of one pixel, given the bytes of its planes one after another.
pub fn channels(format: &Format, pixel: &[u8; MAX_BYTES]) -> [u16; 4] {
    let all = u64::from_le_bytes(*pixel);
    let planes = [all, all >> (8 * format.bytes_per_pixel[0] % 64)];
    let mut channels = [0; 4];
    for (channel, component) in channels.iter_mut().zip(format.components()) {
        *channel = component.fetched(component.extract(planes[usize::from(component.plane)]));
    }
    channels
}
