// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The components of each pixel format.
//!
//! A name lists components from the most significant bits down, and values are little-endian: the last component of a
//! name lies lowest in memory. The convolution always sees them as R, G, B, A or Y, U, V, A: [`Format::components`] has
//! them in that order.
//!
//! Source: "In-memory data formats", table 33.

use super::super::super::reg::values::{PixelFormat, Precision};

/// How a component's bits are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Unsigned integers, which the DMA turns into signed ones.
    Unsigned,
    /// Signed integers.
    Signed,
    /// Half-precision floating point.
    Float,
}

/// Where one component lies in a pixel of its plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    /// The plane: 0, or 1 for the chroma of semi-planar formats.
    pub plane: u8,
    /// Lowest bit within the pixel (little-endian).
    pub lsb: u8,
    /// Bits that the component occupies.
    pub stored: u8,
    /// Bits that carry the value: fewer than stored where 10 or 12 bits lie in 16.
    pub bits: u8,
    /// How far the DMA shifts the component left: packed 10-bit and 2-bit components fill 16 bits from the top.
    pub align: u8,
}

/// A pixel format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// Its encoding.
    pub format: PixelFormat,
    /// Its name in the document.
    pub name: &'static str,
    /// Planes: two for semi-planar formats.
    pub planes: u32,
    /// Channels that the convolution sees: 1, 3 or 4.
    pub channels: u32,
    /// The valid input precision, as the table gives it.
    pub precision: Precision,
    /// The largest x offset, in pixels, with 32-byte alignment.
    pub max_x_offset: u32,
    /// How components are read.
    pub kind: Kind,
    /// Bytes of a pixel in each plane; 0 where there is no second plane.
    pub bytes_per_pixel: [u32; 2],
    components: [Component; 4],
}

const ABSENT: Component = Component { plane: 0, lsb: 0, stored: 0, bits: 0, align: 0 };

/// `positions` of R, G, B, A counted from the pixel's low end, each `stored` bits wide.
const fn four(stored: u8, positions: [u8; 4]) -> [Component; 4] {
    let mut components = [ABSENT; 4];
    let mut channel = 0;
    while channel < 4 {
        components[channel] = Component { plane: 0, lsb: positions[channel] * stored, stored, bits: stored, align: 0 };
        channel += 1;
    }
    components
}

/// Lowest bits of three 10-bit components and the 2-bit one.
const fn packed(lsb: [u8; 4]) -> [Component; 4] {
    let mut components = [ABSENT; 4];
    let mut channel = 0;
    while channel < 4 {
        let bits = if channel == 3 { 2 } else { 10 };
        components[channel] = Component { plane: 0, lsb: lsb[channel], stored: bits, bits, align: 16 - bits };
        channel += 1;
    }
    components
}

/// One component of `bits` in `stored`.
const fn one(stored: u8, bits: u8) -> [Component; 4] {
    [Component { plane: 0, lsb: 0, stored, bits, align: 0 }, ABSENT, ABSENT, ABSENT]
}

/// Luma in plane 0; chroma in plane 1 with U at position `u` and V at the other.
const fn semi_planar(stored: u8, bits: u8, u: u8) -> [Component; 4] {
    [
        Component { plane: 0, lsb: 0, stored, bits, align: 0 },
        Component { plane: 1, lsb: u * stored, stored, bits, align: 0 },
        Component { plane: 1, lsb: (1 - u) * stored, stored, bits, align: 0 },
        ABSENT,
    ]
}

const ABGR: [u8; 4] = [0, 1, 2, 3];
const ARGB: [u8; 4] = [2, 1, 0, 3];
const BGRA: [u8; 4] = [1, 2, 3, 0];
const RGBA: [u8; 4] = [3, 2, 1, 0];

impl Format {
    /// The bytes of this many pixels of the first plane.
    pub const fn bytes_of(&self, pixels: u32) -> u64 {
        pixels as u64 * self.bytes_per_pixel[0] as u64
    }

    /// The format's planes, channels and components.
    #[allow(clippy::match_same_arms, clippy::enum_glob_use)] // one row per format, as in the table
    pub const fn new(format: PixelFormat) -> Self {
        use Kind::{Float, Signed, Unsigned};
        use PixelFormat::*;
        let (name, kind, components) = match format {
            R8 => ("T_R8", Unsigned, one(8, 8)),
            R10 => ("T_R10", Unsigned, one(16, 10)),
            R12 => ("T_R12", Unsigned, one(16, 12)),
            R16 => ("T_R16", Unsigned, one(16, 16)),
            R16I => ("T_R16_I", Signed, one(16, 16)),
            R16F => ("T_R16_F", Float, one(16, 16)),
            A16B16G16R16 => ("T_A16B16G16R16", Unsigned, four(16, ABGR)),
            X16B16G16R16 => ("T_X16B16G16R16", Unsigned, four(16, ABGR)),
            A16B16G16R16F => ("T_A16B16G16R16_F", Float, four(16, ABGR)),
            A16Y16U16V16 => ("T_A16Y16U16V16", Unsigned, four(16, ARGB)),
            V16U16Y16A16 => ("T_V16U16Y16A16", Unsigned, four(16, BGRA)),
            A16Y16U16V16F => ("T_A16Y16U16V16_F", Float, four(16, ARGB)),
            A8B8G8R8 => ("T_A8B8G8R8", Unsigned, four(8, ABGR)),
            A8R8G8B8 => ("T_A8R8G8B8", Unsigned, four(8, ARGB)),
            B8G8R8A8 => ("T_B8G8R8A8", Unsigned, four(8, BGRA)),
            R8G8B8A8 => ("T_R8G8B8A8", Unsigned, four(8, RGBA)),
            X8B8G8R8 => ("T_X8B8G8R8", Unsigned, four(8, ABGR)),
            X8R8G8B8 => ("T_X8R8G8B8", Unsigned, four(8, ARGB)),
            B8G8R8X8 => ("T_B8G8R8X8", Unsigned, four(8, BGRA)),
            R8G8B8X8 => ("T_R8G8B8X8", Unsigned, four(8, RGBA)),
            A2B10G10R10 => ("T_A2B10G10R10", Unsigned, packed([0, 10, 20, 30])),
            A2R10G10B10 => ("T_A2R10G10B10", Unsigned, packed([20, 10, 0, 30])),
            B10G10R10A2 => ("T_B10G10R10A2", Unsigned, packed([2, 12, 22, 0])),
            R10G10B10A2 => ("T_R10G10B10A2", Unsigned, packed([22, 12, 2, 0])),
            A2Y10U10V10 => ("T_A2Y10U10V10", Unsigned, packed([20, 10, 0, 30])),
            V10U10Y10A2 => ("T_V10U10Y10A2", Unsigned, packed([2, 12, 22, 0])),
            A8Y8U8V8 => ("T_A8Y8U8V8", Unsigned, four(8, ARGB)),
            V8U8Y8A8 => ("T_V8U8Y8A8", Unsigned, four(8, BGRA)),
            Y8_U8V8N444 => ("T_Y8___U8V8_N444", Unsigned, semi_planar(8, 8, 1)),
            Y8_V8U8N444 => ("T_Y8___V8U8_N444", Unsigned, semi_planar(8, 8, 0)),
            Y10_U10V10N444 => ("T_Y10___U10V10_N444", Unsigned, semi_planar(16, 10, 1)),
            Y10_V10U10N444 => ("T_Y10___V10U10_N444", Unsigned, semi_planar(16, 10, 0)),
            Y12_U12V12N444 => ("T_Y12___U12V12_N444", Unsigned, semi_planar(16, 12, 1)),
            Y12_V12U12N444 => ("T_Y12___V12U12_N444", Unsigned, semi_planar(16, 12, 0)),
            Y16_U16V16N444 => ("T_Y16___U16V16_N444", Unsigned, semi_planar(16, 16, 1)),
            Y16_V16U16N444 => ("T_Y16___V16U16_N444", Unsigned, semi_planar(16, 16, 0)),
        };
        let first = components[0];
        let channels = if components[3].stored != 0 {
            4
        } else if components[1].stored != 0 {
            3
        } else {
            1
        };
        let is_packed = first.align != 0;
        let bytes_per_pixel = match (channels, is_packed) {
            (4, true) => [4, 0],
            (4, false) => [first.stored as u32 / 2, 0],
            (3, _) => [first.stored as u32 / 8, first.stored as u32 / 4],
            _ => [first.stored as u32 / 8, 0],
        };
        // The table gives int16 for T_R16_F as well; the formats with four fp16 components have fp16.
        let precision = match (kind, first.stored, channels) {
            (Float, _, 4) => Precision::Fp16,
            (_, 8, _) => Precision::Int8,
            _ => Precision::Int16,
        };
        Self {
            format,
            name,
            planes: if channels == 3 { 2 } else { 1 },
            channels,
            precision,
            max_x_offset: 32 / bytes_per_pixel[0] - 1,
            kind,
            bytes_per_pixel,
            components,
        }
    }

    /// The components that the convolution sees, in its order (R, G, B, A or Y, U, V, A).
    pub fn components(&self) -> &[Component] {
        &self.components[..self.channels as usize]
    }

    /// One of the components.
    pub const fn component(&self, channel: u32) -> Option<Component> {
        if channel < self.channels {
            Some(self.components[channel as usize])
        } else {
            None
        }
    }

    /// Bytes of a plain slice's element that holds a component: 1 for 8-bit formats, else 2.
    pub const fn component_bytes(&self) -> u32 {
        if self.components[0].stored == 8 {
            1
        } else {
            2
        }
    }

    /// Whether components share bytes (10-bit formats).
    pub const fn is_packed(&self) -> bool {
        self.components[0].align != 0
    }

    /// The precision in which the hardware reads the pixels: the table's, but fp16 for every format that holds it.
    pub const fn input_precision(&self) -> Precision {
        match self.kind {
            Kind::Float => Precision::Fp16,
            Kind::Unsigned | Kind::Signed => self.precision,
        }
    }
}

impl From<PixelFormat> for Format {
    fn from(format: PixelFormat) -> Self {
        Self::new(format)
    }
}

impl Component {
    /// The component's bits in a little-endian pixel.
    pub const fn extract(self, pixel: u64) -> u16 {
        (pixel >> self.lsb & ((1 << self.stored) - 1)) as u16
    }

    /// A pixel with the component's bits set to `value` (its high bits dropped).
    pub const fn insert(self, pixel: u64, value: u16) -> u64 {
        let mask = ((1u64 << self.stored) - 1) << self.lsb;
        pixel & !mask | (value as u64) << self.lsb & mask
    }

    /// What the DMA takes for a component's bits before it converts them.
    pub const fn fetched(self, bits: u16) -> u16 {
        bits << self.align
    }
}
