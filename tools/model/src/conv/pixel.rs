// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pixel formats as CDMA reads them: which bits of a pixel become which channel.
//!
//! Every format gives one, three or four channels in the order R, G, B, A (Y, U, V, A). Components of 10 and 12 bits
//! that have their own 16 bits stay where they lie; those that share 32 bits move to the top of 16. Source: "In-memory
//! data formats", table 33, and CDMA's image sequencer (`cmod/cdma`).

use nvdla_uapi::reg::values::{PixelFormat, Precision};

/// How a pixel's channels lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Channels of 8 bits; channel `i` is byte `order[i]`.
    Bytes,
    /// Channels of 16 bits; channel `i` is word `order[i]`.
    Words,
    /// Four channels in 32 bits, of which the lowest bit is `order[i]`; A has two bits, the others ten.
    Tens,
}

/// A pixel format's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of a component.
    pub packing: Packing,
    /// Where each channel lies; as many entries count as there are components.
    pub order: [u8; 4],
    /// Channels.
    pub components: usize,
    /// Planes: one, or luma and interleaved chroma.
    pub planes: usize,
    /// Whether components are fp16.
    pub float: bool,
}

/// The shape of a format.
#[allow(clippy::enum_glob_use)]
pub const fn shape(format: PixelFormat) -> Shape {
    use PixelFormat::*;
    const RGBA: [u8; 4] = [0, 1, 2, 3];
    const BGRA: [u8; 4] = [2, 1, 0, 3];
    const ARGB: [u8; 4] = [1, 2, 3, 0];
    const ABGR: [u8; 4] = [3, 2, 1, 0];
    const YVU: [u8; 4] = [0, 2, 1, 3];
    let (packing, order, components, planes) = match format {
        R8 => (Packing::Bytes, RGBA, 1, 1),
        R10 | R12 | R16 | R16I | R16F => (Packing::Words, RGBA, 1, 1),
        A16B16G16R16 | X16B16G16R16 | A16B16G16R16F => (Packing::Words, RGBA, 4, 1),
        A16Y16U16V16 | A16Y16U16V16F => (Packing::Words, BGRA, 4, 1),
        V16U16Y16A16 => (Packing::Words, ARGB, 4, 1),
        A8B8G8R8 | X8B8G8R8 => (Packing::Bytes, RGBA, 4, 1),
        A8R8G8B8 | X8R8G8B8 | A8Y8U8V8 => (Packing::Bytes, BGRA, 4, 1),
        B8G8R8A8 | B8G8R8X8 | V8U8Y8A8 => (Packing::Bytes, ARGB, 4, 1),
        R8G8B8A8 | R8G8B8X8 => (Packing::Bytes, ABGR, 4, 1),
        A2B10G10R10 => (Packing::Tens, [0, 10, 20, 30], 4, 1),
        A2R10G10B10 | A2Y10U10V10 => (Packing::Tens, [20, 10, 0, 30], 4, 1),
        B10G10R10A2 | V10U10Y10A2 => (Packing::Tens, [2, 12, 22, 0], 4, 1),
        R10G10B10A2 => (Packing::Tens, [22, 12, 2, 0], 4, 1),
        Y8_U8V8N444 => (Packing::Bytes, YVU, 3, 2),
        Y8_V8U8N444 => (Packing::Bytes, RGBA, 3, 2),
        Y10_U10V10N444 | Y12_U12V12N444 | Y16_U16V16N444 => (Packing::Words, YVU, 3, 2),
        Y10_V10U10N444 | Y12_V12U12N444 | Y16_V16U16N444 => (Packing::Words, RGBA, 3, 2),
    };
    let float = matches!(format, R16F | A16B16G16R16F | A16Y16U16V16F);
    Shape { packing, order, components, planes, float }
}

impl Shape {
    /// Bytes of a pixel in plane 0 and in plane 1.
    pub const fn pixel_bytes(self) -> [usize; 2] {
        let component = match self.packing {
            Packing::Bytes => 1,
            Packing::Words => 2,
            Packing::Tens => return [4, 0],
        };
        match self.planes {
            1 => [component * self.components, 0],
            _ => [component, 2 * component],
        }
    }

    /// The bits of each channel of one pixel, which has all its planes' bytes one after another.
    pub fn components_of(self, pixel: &[u8]) -> [u16; 4] {
        let mut channels = [0; 4];
        for (channel, &place) in channels.iter_mut().zip(&self.order[..self.components]) {
            let place = place as usize;
            *channel = match self.packing {
                Packing::Bytes => u16::from(pixel[place]),
                Packing::Words => u16::from_le_bytes([pixel[2 * place], pixel[2 * place + 1]]),
                Packing::Tens => {
                    let all = u32::from_le_bytes([pixel[0], pixel[1], pixel[2], pixel[3]]);
                    ((all >> place) << 6) as u16
                }
            };
        }
        if self.packing == Packing::Tens {
            let all = u32::from_le_bytes([pixel[0], pixel[1], pixel[2], pixel[3]]);
            channels[3] = ((all >> self.order[3]) << 14) as u16;
        }
        channels
    }
}

/// Channels of a format.
pub const fn components(format: PixelFormat) -> usize {
    shape(format).components
}

/// The input precision that a format has.
pub const fn precision(format: PixelFormat) -> Precision {
    let shape = shape(format);
    match shape.packing {
        Packing::Bytes => Precision::Int8,
        _ if shape.float => Precision::Fp16,
        Packing::Words | Packing::Tens => Precision::Int16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_come_in_the_order_red_green_blue_alpha() {
        let pixel = [1, 2, 3, 4];
        assert_eq!(shape(PixelFormat::A8B8G8R8).components_of(&pixel), [1, 2, 3, 4]);
        assert_eq!(shape(PixelFormat::A8R8G8B8).components_of(&pixel), [3, 2, 1, 4]);
        assert_eq!(shape(PixelFormat::B8G8R8A8).components_of(&pixel), [2, 3, 4, 1]);
        assert_eq!(shape(PixelFormat::R8G8B8A8).components_of(&pixel), [4, 3, 2, 1]);
        assert_eq!(shape(PixelFormat::Y8_U8V8N444).components_of(&pixel), [1, 3, 2, 0]);
    }

    #[test]
    fn shared_words_give_their_bits_to_the_top() {
        let all: u32 = 0b11 << 30 | 0x3ff << 20 | 0x155 << 10 | 0x001;
        let channels = shape(PixelFormat::A2B10G10R10).components_of(&all.to_le_bytes());
        assert_eq!(channels, [0x0040, 0x5540, 0xffc0, 0xc000]);
        let all: u32 = 0x3ff << 22 | 0x155 << 12 | 0x001 << 2 | 0b01;
        let channels = shape(PixelFormat::R10G10B10A2).components_of(&all.to_le_bytes());
        assert_eq!(channels, [0xffc0, 0x5540, 0x0040, 0x4000]);
    }
}
