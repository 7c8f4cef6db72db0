// SPDX-License-Identifier: MIT OR Apache-2.0

//! Decoded pictures: 8 bits per sample; grey, or red, green, blue.

use super::error::Error;
use super::sample::luma;
use crate::loadable::names::Color;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage, RgbaImage};
use std::borrow::Cow;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use crate::files;

/// The greatest size of an image file in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The most memory that a decoder takes beside the samples. A small file can have a colour profile that fills gigabytes.
const MAX_EXTRA: u64 = 16 << 20;
/// The most memory that a decoder takes.
const MAX_DECODED: u64 = 512 << 20;

/// The limits for a decoder that returns `samples` bytes.
fn limits(samples: u64) -> Limits {
    let mut limits = Limits::default();
    limits.max_alloc = Some(samples.saturating_add(MAX_EXTRA).min(MAX_DECODED));
    limits
}

/// A decoded picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    channels: usize,
    samples: Vec<u8>,
}

/// The endings of the names of files that are taken for pictures where a folder holds them, in small letters.
pub const ENDINGS: [&str; 6] = ["jpeg", "jpg", "pgm", "png", "pnm", "ppm"];

/// Whether a file's name is one of a picture ([`ENDINGS`], also in capital letters).
pub fn is_picture(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// A picture in a file, whose size is known and which is not decoded yet.
#[derive(Debug)]
pub struct PictureFile {
    path: PathBuf,
    bytes: Vec<u8>,
    format: Option<ImageFormat>,
    /// How the file's pixels are turned to be upright (EXIF).
    orientation: Orientation,
    width: u32,
    height: u32,
}

impl PictureFile {
    /// Reads a pgm, ppm, png or jpeg file, or the standard input for `-`, and its size. The format is recognised by the file's
    /// contents, not by its name. A photograph that is stored turned (EXIF) is read upright.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let read = |cause| Error::Read { path: path.to_owned(), cause };
        Self::new(path.to_owned(), files::read(path, MAX_BYTES).map_err(read)?)
    }

    fn new(path: PathBuf, bytes: Vec<u8>) -> Result<Self, Error> {
        let failed = |cause| Error::Decode { path: path.clone(), cause };
        let mut reader =
            ImageReader::new(Cursor::new(&bytes)).with_guessed_format().map_err(|error| failed(error.into()))?;
        reader.limits(limits(0));
        let format = reader.format();
        let mut decoder = reader.into_decoder().map_err(failed)?;
        let (width, height) = decoder.dimensions();
        // The photograph may have to be turned. A file whose orientation cannot be read stays as it is.
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        drop(decoder);
        use Orientation::{Rotate270, Rotate270FlipH, Rotate90, Rotate90FlipH};
        let (width, height) = match orientation {
            Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH => (height, width),
            _ => (width, height),
        };
        if width == 0 || height == 0 {
            return Err(Error::Empty { path, width, height });
        }
        if format == Some(ImageFormat::Jpeg) && !has_end(&bytes) {
            return Err(Error::Truncated { path, bytes: bytes.len() });
        }
        Ok(Self { path, bytes, format, orientation, width, height })
    }

    /// Pixels per line.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Lines.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Decodes the picture. Transparent pixels are blended with the colour `background` (red, green, blue).
    ///
    /// # Errors
    ///
    /// When the file is damaged, or the picture is transparent and there is no background.
    pub fn decode(self, background: Option<[u8; 3]>) -> Result<Picture, Error> {
        let failed = |cause| Error::Decode { path: self.path.clone(), cause };
        let mut reader = ImageReader::new(Cursor::new(&self.bytes));
        if let Some(format) = self.format {
            reader.set_format(format);
        }
        // Four samples of 16 bits, and what the decoder computes them from.
        reader.limits(limits(16 * u64::from(self.width) * u64::from(self.height)));
        let mut decoded = reader.decode().map_err(failed)?;
        decoded.apply_orientation(self.orientation);
        if !decoded.color().has_alpha() {
            return Ok(Picture::from_decoded(decoded));
        }
        let (width, height, has_color) = (decoded.width(), decoded.height(), decoded.color().has_color());
        let pixels = decoded.into_rgba8();
        if pixels.pixels().all(|pixel| pixel[3] == u8::MAX) {
            return Ok(Picture::from_samples(width, height, has_color, &pixels, |pixel| {
                [pixel[0], pixel[1], pixel[2]]
            }));
        }
        let Some(background) = background else { return Err(Error::Transparent { path: self.path }) };
        let has_color = has_color || background.iter().any(|&sample| sample != background[0]);
        Ok(Picture::from_samples(width, height, has_color, &pixels, |pixel| {
            std::array::from_fn(|at| {
                let (ink, alpha) = (u32::from(pixel[at]), u32::from(pixel[3]));
                ((ink * alpha + u32::from(background[at]) * (255 - alpha) + 127) / 255) as u8
            })
        }))
    }
}

/// Whether the data of a JPEG are complete. Decoders fill missing data with grey.
///
/// Source: ITU-T T.81, annex B: segments with their length, then entropy-coded data in which a marker other than a restart
/// ends the scan.
fn has_end(bytes: &[u8]) -> bool {
    let mut at = 2;
    while let Some(&[mark, code]) = bytes.get(at..at + 2) {
        match (mark, code) {
            (0xff, 0xd9) => return true,
            // A fill byte, a restart marker, a zero after a byte of data; and data.
            (0xff, 0xff) => at += 1,
            (0xff, 0x00 | 0x01 | 0xd0..=0xd8) => at += 2,
            (0xff, _) => match bytes.get(at + 2..at + 4) {
                Some(&[high, low]) => at += 2 + usize::from(u16::from_be_bytes([high, low])).max(2),
                _ => return false,
            },
            _ => at += 1,
        }
    }
    false
}

impl Picture {
    /// Decodes a pgm, ppm, png or jpeg file, or the standard input for `-`. The format is recognised by the file's contents.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is damaged, or is transparent (see [`PictureFile::decode`]).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        PictureFile::open(path)?.decode(None)
    }

    /// Decodes a file's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        PictureFile::new("(bytes in memory)".into(), bytes.to_vec())?.decode(None)
    }

    fn from_samples(
        width: u32,
        height: u32,
        has_color: bool,
        pixels: &RgbaImage,
        opaque: impl Fn(&[u8; 4]) -> [u8; 3],
    ) -> Self {
        let pixels = pixels.pixels().map(|pixel| opaque(&pixel.0));
        if has_color {
            Self { width, height, channels: 3, samples: pixels.flatten().collect() }
        } else {
            Self { width, height, channels: 1, samples: pixels.map(|[grey, ..]| grey).collect() }
        }
    }

    /// A picture of these samples, pixel by pixel; `None` unless there are `width` x `height` x 1 or 3 samples.
    pub fn new(width: u32, height: u32, samples: Vec<u8>) -> Option<Self> {
        let pixels = usize::try_from(u64::from(width) * u64::from(height)).ok()?;
        let channels = if samples.len() == pixels { 1 } else { 3 };
        (samples.len() == pixels.checked_mul(channels)? && pixels > 0).then_some(Self {
            width,
            height,
            channels,
            samples,
        })
    }

    fn from_decoded(picture: DynamicImage) -> Self {
        let (width, height) = (picture.width(), picture.height());
        if picture.color().has_color() {
            Self { width, height, channels: 3, samples: picture.into_rgb8().into_raw() }
        } else {
            Self { width, height, channels: 1, samples: picture.into_luma8().into_raw() }
        }
    }

    /// Pixels per line.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Lines.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Samples per pixel: 1, or 3 (red, green, blue).
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The samples, pixel by pixel, line by line.
    pub fn samples(&self) -> &[u8] {
        &self.samples
    }

    /// The picture at another size, with bilinear interpolation.
    pub fn resized(&self, width: u32, height: u32) -> Cow<'_, Self> {
        self.fitted(width, height, |picture| picture.resize_exact(width, height, FilterType::Triangle))
    }

    /// The middle of the picture at another size: its shorter side is scaled, with bilinear interpolation.
    pub fn cropped(&self, width: u32, height: u32) -> Cow<'_, Self> {
        // Of a picture of one line, the ends go first: scaled, it would have gigabytes.
        let keep = |size: u32, other: u32, to: u32, other_to: u32| {
            let needed = (u64::from(other) * u64::from(to)).div_ceil(u64::from(other_to.max(1)));
            let keep = u32::try_from(needed.saturating_mul(4)).unwrap_or(size).min(size);
            keep + (size - keep) % 2
        };
        self.fitted(width, height, |picture| {
            let (from_width, from_height) = (picture.width(), picture.height());
            let kept = (keep(from_width, from_height, width, height), keep(from_height, from_width, height, width));
            let middle = picture.crop_imm((from_width - kept.0) / 2, (from_height - kept.1) / 2, kept.0, kept.1);
            middle.resize_to_fill(width, height, FilterType::Triangle)
        })
    }

    fn fitted(&self, width: u32, height: u32, fit: impl Fn(DynamicImage) -> DynamicImage) -> Cow<'_, Self> {
        if (width, height) == (self.width, self.height) {
            return Cow::Borrowed(self);
        }
        let samples = self.samples.clone();
        let picture = if self.channels == 1 {
            GrayImage::from_raw(self.width, self.height, samples).map(DynamicImage::from)
        } else {
            RgbImage::from_raw(self.width, self.height, samples).map(DynamicImage::from)
        };
        // The number of samples matches width, height and channels, so `new` succeeds.
        picture.map_or(Cow::Borrowed(self), |picture| Cow::Owned(Self::from_decoded(fit(picture))))
    }

    /// The picture's values as a network reads them, channel by channel: one channel of luminance, or three in the order `color`.
    pub fn planes(&self, channels: usize, color: Color) -> Option<Vec<u8>> {
        let pixels = || self.samples.chunks_exact(self.channels);
        match (channels, self.channels) {
            (1, 1) => Some(self.samples.clone()),
            (1, _) => Some(pixels().map(|rgb| luma([rgb[0], rgb[1], rgb[2]])).collect()),
            (3, 1) => Some(self.samples.repeat(3)),
            (3, _) => {
                let order = if color == Color::Bgr { [2, 1, 0] } else { [0, 1, 2] };
                Some(order.iter().flat_map(|&c| pixels().map(move |pixel| pixel[c])).collect())
            }
            _ => None,
        }
    }
}
