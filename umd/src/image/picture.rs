// SPDX-License-Identifier: MIT OR Apache-2.0

//! Decoded pictures: 8 bits a sample, grey or red, green, blue.

use super::Error;
use image::imageops::FilterType;
use image::{DynamicImage, GrayImage, ImageReader, RgbImage};
use std::borrow::Cow;
use std::io::Cursor;
use std::path::Path;

use crate::files;

/// The most bytes that an image file may have.
const MOST: u64 = 256 << 20;

/// A decoded picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    channels: usize,
    samples: Vec<u8>,
}

impl Picture {
    /// Decodes a pgm, ppm, png or jpeg file, or the standard input for `-`. What is in the file counts, not its name.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let read = |cause| Error::Read { path: path.to_owned(), cause };
        let bytes = files::read(path, MOST).map_err(read)?;
        Self::decode(&bytes).map_err(|error| match error {
            Error::Decode { cause, .. } => Error::Decode { path: path.to_owned(), cause },
            error => error,
        })
    }

    /// Decodes a file's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let failed = |cause| Error::Decode { path: "(bytes in memory)".into(), cause };
        let reader =
            ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| failed(error.into()))?;
        Ok(Self::from_decoded(reader.decode().map_err(failed)?))
    }

    /// A picture of these samples, pixel by pixel; `None` unless there are `width` x `height` times 1 or 3 of them.
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

    /// Pixels a line.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Lines.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Samples a pixel: 1, or 3 (red, green, blue).
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The samples, pixel by pixel, line by line.
    pub fn samples(&self) -> &[u8] {
        &self.samples
    }

    /// The picture at another size, with bilinear interpolation.
    pub fn resized(&self, width: u32, height: u32) -> Cow<'_, Self> {
        if (width, height) == (self.width, self.height) {
            return Cow::Borrowed(self);
        }
        let samples = self.samples.clone();
        let picture = if self.channels == 1 {
            GrayImage::from_raw(self.width, self.height, samples).map(DynamicImage::from)
        } else {
            RgbImage::from_raw(self.width, self.height, samples).map(DynamicImage::from)
        };
        // The number of samples is that of width, height and channels, so there is a picture.
        picture.map_or(Cow::Borrowed(self), |picture| {
            Cow::Owned(Self::from_decoded(picture.resize_exact(width, height, FilterType::Triangle)))
        })
    }
}
