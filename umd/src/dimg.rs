// SPDX-License-Identifier: MIT OR Apache-2.0

//! `.dimg`, the file in which NVIDIA's runtime stores a tensor: a header of 36 bytes, then every element in the order channel,
//! line, pixel, without the padding that the tensor has in memory.
//!
//! | offset | bytes | contents |
//! | --- | --- | --- |
//! | 0 | 4 | `DIMG` |
//! | 4 | 4 | version, 0 |
//! | 8 | 4 | surface format, see [`SurfaceFormat`] |
//! | 12, 16, 20 | 4 each | width, height, channels |
//! | 24, 28 | 4 each | line stride, surface stride of the tensor in memory |
//! | 32 | 4 | bytes of the tensor in memory |
//!
//! Files from before the format `FeatureInt8x8` existed have the number of `FeatureInt8` for it, and every later format's number
//! is lower by one.
//!
//! `--rawdump` writes the elements as text instead: numbers with a space after each. Every element is written with its value,
//! including NaN. (The existing program's source replaces NaN by 31744.0 and 32768.0 by 0, where it means to replace bit
//! patterns; the reference outputs have NaN as the hardware wrote it.)
//!
//! Source: nvdla/sw, `umd/apps/runtime/DlaImage.{h,cpp}` and `TestUtils.cpp`.

use crate::half;
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::Extents;
use nvdla_uapi::reg::values::Precision;
use std::fmt::Write as _;

const MAGIC: &[u8; 4] = b"DIMG";
const VERSION: u32 = 0;
/// Bytes before the elements.
pub const HEADER_SIZE: usize = 36;

/// The formats in which a runtime's output tensor can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SurfaceFormat {
    /// int8 feature data, atoms of 32 bytes.
    FeatureInt8 = 40,
    /// int8 feature data, atoms of 8 bytes.
    FeatureInt8x8 = 41,
    /// int16 feature data.
    FeatureInt16 = 42,
    /// Half-precision feature data.
    FeatureFp16 = 43,
}

impl SurfaceFormat {
    /// Bytes of an element.
    pub const fn element_size(self) -> usize {
        match self {
            Self::FeatureInt8 | Self::FeatureInt8x8 => 1,
            Self::FeatureInt16 | Self::FeatureFp16 => 2,
        }
    }

    /// The type of the elements.
    pub const fn precision(self) -> Precision {
        match self {
            Self::FeatureInt8 | Self::FeatureInt8x8 => Precision::Int8,
            Self::FeatureInt16 => Precision::Int16,
            Self::FeatureFp16 => Precision::Fp16,
        }
    }

    /// Bytes of an atom: the channels of one pixel that lie side by side.
    pub const fn atom_size(self) -> usize {
        match self {
            Self::FeatureInt8x8 => 8,
            _ => 32,
        }
    }
}

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the surface format; older files number some differently.
    pub surface_format: u32,
    /// Elements per line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Channels.
    pub channels: u32,
    /// Bytes from a line to the next in the tensor.
    pub line_stride: u32,
    /// Bytes from a surface to the next in the tensor.
    pub surface_stride: u32,
    /// Bytes of the tensor.
    pub size: u32,
}

/// Why a tensor cannot be written as a `.dimg`, or why bytes are not a `.dimg`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An element lies outside the tensor.
    #[error("element (c {c}, y {y}, x {x}) of the tensor ends at byte {end}, and the tensor has {size}")]
    OutOfRange {
        /// Channel.
        c: u32,
        /// Line.
        y: u32,
        /// Pixel.
        x: u32,
        /// First byte behind the element.
        end: u64,
        /// Bytes of the tensor.
        size: u64,
    },
    /// The sizes or strides do not fit 64 bits.
    #[error(transparent)]
    Layout(#[from] nvdla_uapi::layout::Error),
    /// The file ends within the header.
    #[error("a .dimg starts with a header of 36 bytes, and this file has {0}")]
    Short(usize),
    /// The file is something else.
    #[error("a .dimg starts with the letters DIMG, and this file with {0:02x?}")]
    Magic([u8; 4]),
    /// The version is unknown.
    #[error("this .dimg has version {0}, and only version 0 is known")]
    Version(u32),
    /// The elements do not have the length that the header promises.
    #[error("{header} have {expected} bytes or twice as many, and this .dimg has {got} after its header")]
    Length {
        /// The shape.
        header: String,
        /// Bytes at one byte per element.
        expected: u64,
        /// Bytes that there are.
        got: usize,
    },
}

/// A tensor in memory, with the fields that a `.dimg` file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// How its elements lie.
    pub format: SurfaceFormat,
    /// Elements per line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Channels.
    pub channels: u32,
    /// Bytes from a line to the next.
    pub line_stride: u32,
    /// Bytes from a surface to the next.
    pub surface_stride: u32,
    /// Bytes of an atom, if they are not those of the format: a configuration may have atoms of 16 bytes.
    pub atom: Option<u32>,
    /// The whole tensor, padding included.
    pub bytes: &'a [u8],
}

impl Tensor<'_> {
    /// The file's bytes.
    ///
    /// ```
    /// use nvdla_runtime::dimg::{SurfaceFormat, Tensor};
    /// let bytes = [1, 2, 3, 0, 0, 0, 0, 0];
    /// let tensor = Tensor {
    ///     format: SurfaceFormat::FeatureInt8x8, width: 1, height: 1, channels: 3,
    ///     line_stride: 8, surface_stride: 8, atom: None, bytes: &bytes,
    /// };
    /// let file = tensor.to_dimg()?;
    /// assert_eq!(file.len(), 36 + 3);
    /// assert_eq!(file[36..], [1, 2, 3]);
    /// assert_eq!(tensor.to_text()?, "1 2 3 ");
    /// # Ok::<(), nvdla_runtime::dimg::Error>(())
    /// ```
    pub fn to_dimg(&self) -> Result<Vec<u8>, Error> {
        let mut file = Vec::with_capacity(HEADER_SIZE);
        file.extend_from_slice(MAGIC);
        let fields = [
            VERSION,
            self.format as u32,
            self.width,
            self.height,
            self.channels,
            self.line_stride,
            self.surface_stride,
            self.bytes.len() as u32,
        ];
        file.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        self.each(|element| file.extend_from_slice(element))?;
        Ok(file)
    }

    /// The elements as text, as `--rawdump` writes them.
    pub fn to_text(&self) -> Result<String, Error> {
        let mut text = String::new();
        self.each(|element| {
            // Writing to a string cannot fail.
            let _ = match (self.format, element) {
                (SurfaceFormat::FeatureFp16, &[low, high]) => {
                    write!(text, "{} ", General(half::to_f32(half::f16::from_le_bytes([low, high]))))
                }
                (_, &[low, high]) => write!(text, "{} ", i16::from_le_bytes([low, high])),
                (_, &[byte]) => write!(text, "{} ", byte as i8),
                _ => Ok(()),
            };
        })?;
        Ok(text)
    }

    /// Every element in the file's order.
    fn each(&self, mut take: impl FnMut(&[u8])) -> Result<(), Error> {
        if [self.channels, self.height, self.width].contains(&0) {
            return Ok(());
        }
        let element = self.format.element_size();
        let extents = Extents::new(1, self.channels, self.height, self.width);
        let (line_stride, surface_stride) = (self.line_stride.into(), self.surface_stride.into());
        // Strides are taken as they are, as the existing program does; what leaves the tensor is refused below.
        let cube = Cube::as_programmed(
            extents,
            self.format.precision(),
            self.atom.unwrap_or(self.format.atom_size() as u32),
            line_stride,
            surface_stride,
            0,
        )?;
        for c in 0..self.channels {
            for y in 0..self.height {
                for x in 0..self.width {
                    let start = cube.element_offset(c, y, x);
                    let end = start + element as u64;
                    if end > self.bytes.len() as u64 {
                        return Err(Error::OutOfRange { c, y, x, end, size: self.bytes.len() as u64 });
                    }
                    take(&self.bytes[start as usize..end as usize]);
                }
            }
        }
        Ok(())
    }
}

/// A `.dimg` that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimg<'a> {
    /// What the header says.
    pub header: Header,
    /// The elements in the order channel, line, pixel.
    pub elements: &'a [u8],
}

impl<'a> Dimg<'a> {
    /// Reads a file's bytes.
    pub fn parse(file: &'a [u8]) -> Result<Self, Error> {
        let Some((header, elements)) = file.split_at_checked(HEADER_SIZE) else {
            return Err(Error::Short(file.len()));
        };
        let word = |n: usize| u32::from_le_bytes([header[n], header[n + 1], header[n + 2], header[n + 3]]);
        if !header.starts_with(MAGIC) {
            return Err(Error::Magic([header[0], header[1], header[2], header[3]]));
        }
        if word(4) != VERSION {
            return Err(Error::Version(word(4)));
        }
        let header = Header {
            surface_format: word(8),
            width: word(12),
            height: word(16),
            channels: word(20),
            line_stride: word(24),
            surface_stride: word(28),
            size: word(32),
        };
        let expected = [header.width, header.height, header.channels]
            .iter()
            .try_fold(1_u64, |product, &side| product.checked_mul(side.into()))
            .unwrap_or(u64::MAX);
        // The older numbers do not distinguish int8 with small atoms from other formats, so the length decides.
        if ![Some(expected), expected.checked_mul(2)].contains(&Some(elements.len() as u64)) {
            let shape = format!("{} x {} pixels of {} channels", header.width, header.height, header.channels);
            return Err(Error::Length { header: shape, expected, got: elements.len() });
        }
        Ok(Self { header, elements })
    }
}

/// A number as C++ streams print it: six significant digits, no trailing zeros, an exponent where that is shorter.
struct General(f32);

impl std::fmt::Display for General {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.0;
        if value.is_nan() {
            return f.write_str(if value.is_sign_negative() { "-nan" } else { "nan" });
        }
        if value.is_infinite() {
            return f.write_str(if value < 0.0 { "-inf" } else { "inf" });
        }
        let scientific = format!("{value:.5e}");
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if (-4..6).contains(&exponent) {
            let fixed = format!("{value:.*}", (5 - exponent) as usize);
            f.write_str(trim(&fixed))
        } else {
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(f, "{}e{sign}{:02}", trim(digits), exponent.abs())
        }
    }
}

fn trim(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cube(format: SurfaceFormat, bytes: &[u8]) -> Tensor<'_> {
        let line_stride = 3 * format.atom_size() as u32 + 32;
        let surface_stride = 2 * line_stride + 64;
        Tensor { format, width: 3, height: 2, channels: 20, line_stride, surface_stride, atom: None, bytes }
    }

    #[test]
    fn elements_come_channel_by_channel() {
        let bytes: Vec<u8> = (0..1024_u32).map(|n| (n % 251) as u8).collect();
        for format in [
            SurfaceFormat::FeatureInt8,
            SurfaceFormat::FeatureInt8x8,
            SurfaceFormat::FeatureInt16,
            SurfaceFormat::FeatureFp16,
        ] {
            let tensor = cube(format, &bytes);
            let file = tensor.to_dimg().unwrap();
            let read = Dimg::parse(&file).unwrap();
            assert_eq!(read.header.surface_format, format as u32);
            assert_eq!(read.header.size, 1024);
            let (element, atom) = (format.element_size(), format.atom_size());
            let mut expected = Vec::new();
            for c in 0..20 {
                for y in 0..2 {
                    for x in 0..3 {
                        let at = c / (atom / element) * tensor.surface_stride as usize
                            + y * tensor.line_stride as usize
                            + x * atom
                            + c % (atom / element) * element;
                        expected.extend_from_slice(&bytes[at..at + element]);
                    }
                }
            }
            assert_eq!(read.elements, expected, "{format:?}");
        }
    }

    #[test]
    fn nans_infinities_and_signed_zeros_are_kept() {
        let halves = [0x7800_u16, 0x7e01, 0xfe01, 0x8000, 0xf800, 0x7c00, 0x3555, 0x0001];
        let mut bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        bytes.resize(32, 0);
        let tensor = Tensor {
            format: SurfaceFormat::FeatureFp16,
            width: 1,
            height: 1,
            channels: 8,
            line_stride: 32,
            surface_stride: 32,
            atom: None,
            bytes: &bytes,
        };
        assert_eq!(tensor.to_text().unwrap(), "32768 nan -nan -0 -32768 inf 0.333252 5.96046e-08 ");
        assert_eq!(tensor.to_dimg().unwrap()[HEADER_SIZE..], bytes[..16]);
    }

    #[test]
    fn numbers_as_streams_print_them() {
        for (value, text) in [
            (0.0, "0"),
            (100.0, "100"),
            (65504.0, "65504"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.333333"),
            (123_456.7, "123457"),
            (999_999.5, "1e+06"),
            (1.0e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(General(value).to_string(), text);
        }
    }

    #[test]
    fn strides_outside_the_tensor_are_refused() {
        let bytes = [0; 64];
        let tensor = cube(SurfaceFormat::FeatureInt8, &bytes);
        assert_eq!(
            tensor.to_dimg().unwrap_err().to_string(),
            "element (c 0, y 0, x 2) of the tensor ends at byte 65, and the tensor has 64"
        );
        let huge = Tensor { line_stride: u32::MAX, surface_stride: u32::MAX, channels: u32::MAX, ..tensor };
        assert!(huge.to_text().is_err());
    }

    #[test]
    fn what_is_no_dimg_is_refused() {
        assert_eq!(Dimg::parse(b"DIMG"), Err(Error::Short(4)));
        assert_eq!(Dimg::parse(&[b'P'; 40]), Err(Error::Magic(*b"PPPP")));
        let mut file = cube(SurfaceFormat::FeatureInt8, &[0; 1024]).to_dimg().unwrap();
        file.pop();
        assert_eq!(
            Dimg::parse(&file).unwrap_err().to_string(),
            "3 x 2 pixels of 20 channels have 120 bytes or twice as many, and this .dimg has 119 after its header"
        );
        file[4] = 1;
        assert_eq!(Dimg::parse(&file), Err(Error::Version(1)));
        let mut file = [0xff; 40];
        file[..8].copy_from_slice(b"DIMG\0\0\0\0");
        assert!(matches!(Dimg::parse(&file), Err(Error::Length { .. })));
    }
}
