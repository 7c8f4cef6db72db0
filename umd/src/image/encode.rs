// SPDX-License-Identifier: MIT OR Apache-2.0

//! Writes pictures into tensors.
//!
//! Tables hold the result of every step on a sample. They are made once: for each plane of the tensor and each sample of a pixel,
//! the 256 words that the sample can contribute. A pixel is the "or" of its samples' words, for every format. The offsets of
//! pixels come from [`nvdla_uapi::layout`].

use super::error::Error;
use super::picture::Picture;
use super::sample::{luma, yuv, Store};
use super::vector::{self, scale_to_127, Sources};
use crate::loadable::names::Fit;
use crate::loadable::{DataType, PixelFormat, Tensor};
use crate::session::TensorInfo;
use nvdla_uapi::layout::align::{Alignment, Data};
use nvdla_uapi::layout::feature::{Atoms, Cube};
use nvdla_uapi::layout::pixel::{Format, Image, Kind};
use nvdla_uapi::layout::{Extents, Nest};
use nvdla_uapi::reg::values::{self, Precision};
use nvdla_uapi::reg::FieldValue;
use std::borrow::Cow;

/// The greatest number of channels of a tensor that NVIDIA's program fills with a picture.
const MAX_CHANNELS: u32 = 16;
/// Hardware sizes have 13 bits.
const MAX_PIXELS: u32 = 8192;
/// The alignment of lines in every configuration.
const ALIGNMENT: u32 = Alignment::of_all(Data::Pixel).start;

/// Which colour is channel 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Blue, green, red.
    #[default]
    Bgr,
    /// Red, green, blue.
    Rgb,
}

/// How pictures are converted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Subtracted from each channel's samples.
    pub mean: [f32; 4],
    /// The divisor, applied after the mean is subtracted.
    pub normalize: f32,
    /// Order of the tensor's channels.
    pub order: Order,
    /// What happens to pictures of another size.
    pub fit: Fit,
    /// Whether a grey picture fills all channels of colour, and not only channel 0.
    pub grey_everywhere: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { mean: [0.0; 4], normalize: 1.0, order: Order::Bgr, fit: Fit::Exact, grey_everywhere: false }
    }
}

/// A tensor to be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name, for errors.
    pub name: String,
    /// Its format.
    pub format: PixelFormat,
    /// Its type of elements, which distinguishes feature formats.
    pub data_type: DataType,
    /// Channels.
    pub channels: i32,
    /// Lines.
    pub height: i32,
    /// Pixels per line.
    pub width: i32,
    /// Bytes from a line to the next.
    pub line_stride: u32,
    /// Bytes from a surface to the next. For semi-planar formats, from luma to chroma (0: chroma follows immediately).
    pub surface_stride: u32,
    /// Whether pixels of 8 bits hold 0 to 255. Otherwise they hold 0 to 127.
    pub unsigned: bool,
}

impl From<&TensorInfo> for Target {
    fn from(tensor: &TensorInfo) -> Self {
        // Sizes that do not fit are reported as too large.
        let size = |size: u32| i32::try_from(size).unwrap_or(i32::MAX);
        Self {
            name: tensor.name.clone(),
            format: tensor.pixel_format,
            data_type: tensor.data_type,
            channels: size(tensor.c),
            height: size(tensor.h),
            width: size(tensor.w),
            line_stride: tensor.line_stride(),
            surface_stride: tensor.surface_stride(),
            unsigned: tensor.meaning.as_ref().is_some_and(|meaning| meaning.unsigned),
        }
    }
}

impl From<Tensor<'_>> for Target {
    fn from(tensor: Tensor<'_>) -> Self {
        Self {
            name: tensor.name().to_owned(),
            format: tensor.pixel_format(),
            data_type: tensor.data_type(),
            channels: tensor.c(),
            height: tensor.h(),
            width: tensor.w(),
            line_stride: tensor.stride_1(),
            surface_stride: tensor.stride_2(),
            unsigned: false,
        }
    }
}

/// Words that the 256 values of a sample contribute to a pixel.
type Words = [u64; 256];

/// Lines of pixels in the tensor.
struct Plane {
    /// Offset of the first line.
    first: usize,
    /// Its lines.
    lines: Nest<1>,
    /// Bytes from a pixel to the next.
    step: usize,
    /// Bytes of a pixel's word: 1, 2, 4 or 8, not more than `step`.
    word: usize,
    /// The words of a grey picture's samples.
    grey: Box<Words>,
    /// `grey` is [`scale_to_127`].
    is_scaled: bool,
    /// `colour` is [`scale_to_127`] into these of the word's four bytes.
    sources: Option<Sources>,
    /// The words of a coloured picture's samples: red, green, blue, or Y, U, V.
    colour: Box<[Words; 3]>,
}

/// One component of a plane: where its bits are, and how they are stored.
struct Component {
    channel: usize,
    lsb: u8,
    store: Store,
}

/// Writes pictures into a tensor.
///
/// ```
/// use nvdla_runtime::image::{Encoder, Picture, Settings, Target};
/// use nvdla_runtime::loadable::{DataType, PixelFormat};
///
/// let target = Target {
///     name: "data".into(), format: PixelFormat::A8B8G8R8, data_type: DataType::Int8,
///     channels: 4, height: 1, width: 2, line_stride: 8, surface_stride: 0,
///     unsigned: false,
/// };
/// let encoder = Encoder::new(&target, &Settings::default())?;
/// // A red pixel and a grey one.
/// let picture = Picture::new(2, 1, vec![255, 0, 0, 128, 128, 128]).unwrap();
/// let mut tensor = [0xee; 8];
/// encoder.encode(&picture, &mut tensor)?;
/// assert_eq!(tensor, [0, 0, 127, 0, 64, 64, 64, 0]);
/// # Ok::<(), nvdla_runtime::image::Error>(())
/// ```
pub struct Encoder {
    name: String,
    width: u32,
    height: u32,
    channels: u32,
    fit: Fit,
    is_bytes: bool,
    colour: Colour,
    planes: Vec<Plane>,
    /// Bytes that the planes span.
    span: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    /// The picture's own samples.
    Rgb,
    /// The samples are converted to Y, U, V.
    Yuv,
    /// The samples are converted to grey, because there is only one channel.
    Grey,
}

impl Encoder {
    /// Prepares the conversion for `target`.
    pub fn new(target: &Target, settings: &Settings) -> Result<Self, Error> {
        if !settings.normalize.is_normal() {
            return Err(Error::Normalize(settings.normalize));
        }
        let size = |what, value: i32, most| match u32::try_from(value) {
            Ok(size @ 1..) if size <= most => Ok(size),
            _ => Err(Error::Shape { tensor: target.name.clone(), what, value: value.into(), most }),
        };
        let width = size("pixels per line", target.width, MAX_PIXELS)?;
        let height = size("lines", target.height, MAX_PIXELS)?;
        let channels = size("channels", target.channels, MAX_CHANNELS)?;

        let builder = Builder { target, settings, width, height, channels };
        let (planes, is_yuv, is_bytes) = match target.format {
            PixelFormat::FEATURE => {
                let atom = builder.atom();
                (builder.feature(atom)?, false, target.data_type == DataType::Int8)
            }
            PixelFormat::FEATURE_X8 => (builder.feature(8)?, false, target.data_type == DataType::Int8),
            other => builder.pixels(other)?,
        };
        let colour = match (is_yuv, channels) {
            (true, _) => Colour::Yuv,
            (false, 1) => Colour::Grey,
            (false, _) => Colour::Rgb,
        };
        let end = |plane: &Plane| plane.first + plane.lines.span() as usize;
        let span = planes.iter().map(end).max().unwrap_or(0);
        Ok(Self {
            name: target.name.clone(),
            width,
            height,
            channels,
            fit: settings.fit,
            is_bytes,
            colour,
            planes,
            span,
        })
    }

    /// Whether samples become bytes; mean and normalize have no effect on them.
    pub fn is_bytes(&self) -> bool {
        self.is_bytes
    }

    /// Fills every byte of `tensor`. Bytes without a sample become zero.
    pub fn encode(&self, picture: &Picture, tensor: &mut [u8]) -> Result<(), Error> {
        if tensor.len() < self.span {
            let (got, needed) = (tensor.len(), self.span as u64);
            return Err(Error::Bytes { tensor: self.name.clone(), got, needed });
        }
        let picture = self.fitted(picture)?;
        if picture.channels() == 3 && self.channels == 2 {
            return Err(Error::TwoChannels { tensor: self.name.clone() });
        }
        let picture = self.recoloured(picture);
        // Planes follow one another.
        let mut written = 0;
        for plane in &self.planes {
            tensor[written..plane.first].fill(0);
            written = self.plane(plane, &picture, tensor);
        }
        tensor[written..].fill(0);
        Ok(())
    }

    /// Checks the size of a picture before it is decoded.
    ///
    /// # Errors
    ///
    /// When the picture has another size than the tensor, and pictures are not resized.
    pub fn check_size(&self, width: u32, height: u32) -> Result<(), Error> {
        if (width, height) == (self.width, self.height) || self.fit != Fit::Exact {
            return Ok(());
        }
        Err(Error::Size {
            tensor: self.name.clone(),
            got_width: width,
            got_height: height,
            width: self.width,
            height: self.height,
        })
    }

    fn fitted<'a>(&self, picture: &'a Picture) -> Result<Cow<'a, Picture>, Error> {
        self.check_size(picture.width(), picture.height())?;
        Ok(match self.fit {
            Fit::Crop => picture.cropped(self.width, self.height),
            Fit::Exact | Fit::Stretch => picture.resized(self.width, self.height),
        })
    }

    fn recoloured<'a>(&self, picture: Cow<'a, Picture>) -> Cow<'a, Picture> {
        if picture.channels() == 1 || self.colour == Colour::Rgb {
            return picture;
        }
        let pixels = picture.samples().chunks_exact(3).map(|rgb| [rgb[0], rgb[1], rgb[2]]);
        let samples = match self.colour {
            Colour::Yuv => pixels.flat_map(yuv).collect(),
            _ => pixels.map(luma).collect(),
        };
        // The number of pixels has not changed.
        Picture::new(self.width, self.height, samples).map_or(picture, Cow::Owned)
    }

    /// Fills a plane's lines and the gaps between them, and returns the offset after them.
    fn plane(&self, plane: &Plane, picture: &Picture, tensor: &mut [u8]) -> usize {
        let line_bytes = plane.lines.bytes() as usize;
        let samples = self.width as usize * picture.channels();
        let mut end = plane.first;
        for (y, samples) in picture.samples().chunks_exact(samples).enumerate() {
            let start = plane.first + plane.lines.offset([y as u64]) as usize;
            tensor[end..start].fill(0);
            end = start + line_bytes;
            let line = &mut tensor[start..end];
            match plane.word {
                1 => plane.line::<1>(samples, line),
                2 => plane.line::<2>(samples, line),
                4 => plane.line::<4>(samples, line),
                _ => plane.line::<8>(samples, line),
            }
        }
        end
    }
}

impl Plane {
    fn line<const WORD: usize>(&self, samples: &[u8], line: &mut [u8]) {
        let grey = samples.len() * self.step == line.len();
        let word = |pixel: &[u8]| {
            let [r, g, b] = &*self.colour;
            r[usize::from(pixel[0])] | g[usize::from(pixel[1])] | b[usize::from(pixel[2])]
        };
        let put = |bytes: &mut [u8], word: u64| bytes[..WORD].copy_from_slice(&word.to_le_bytes()[..WORD]);
        if WORD == 1 && self.step == 1 && grey && self.is_scaled {
            // Computed without a table, so that the compiler vectorises it.
            line.iter_mut().zip(samples).for_each(|(place, &sample)| *place = scale_to_127(sample));
        } else if self.step == WORD {
            let done = match self.sources {
                Some(sources) if !grey => vector::pixels(sources, samples, line),
                _ => 0,
            };
            let samples = &samples[if grey { 0 } else { 3 * done }..];
            let places = line[WORD * done..].chunks_exact_mut(WORD);
            if grey {
                places.zip(samples).for_each(|(place, &sample)| put(place, self.grey[usize::from(sample)]));
            } else {
                places.zip(samples.chunks_exact(3)).for_each(|(place, pixel)| put(place, word(pixel)));
            }
        } else {
            line.fill(0);
            let places = line.chunks_exact_mut(self.step);
            if grey {
                places.zip(samples).for_each(|(place, &sample)| put(place, self.grey[usize::from(sample)]));
            } else {
                places.zip(samples.chunks_exact(3)).for_each(|(place, pixel)| put(place, word(pixel)));
            }
        }
    }
}

/// The byte to which each sample is written, if the tables write only scaled bytes.
fn sources(colour: &[Words; 3]) -> Option<Sources> {
    let mut sources = Sources::default();
    for (source, words) in colour.iter().enumerate() {
        if words.iter().all(|&word| word == 0) {
            continue;
        }
        let byte = (0..4)
            .find(|byte| (0..=u8::MAX).all(|s| words[usize::from(s)] == u64::from(scale_to_127(s)) << (8 * byte)))?;
        sources[byte] = Some(source as u8);
    }
    Some(sources)
}

/// What the planes are made from.
struct Builder<'a> {
    target: &'a Target,
    settings: &'a Settings,
    width: u32,
    height: u32,
    channels: u32,
}

impl Builder<'_> {
    fn layout(&self, cause: nvdla_uapi::layout::Error) -> Error {
        Error::Layout { tensor: self.target.name.clone(), cause }
    }

    fn unsupported(&self) -> Error {
        Error::Format {
            tensor: self.target.name.clone(),
            format: self.target.format.to_string(),
            data_type: self.target.data_type.to_string(),
        }
    }

    /// Bytes of an atom of FEATURE. Loadables of interface 0.10 use FEATURE for nv_small's cubes too; the line stride
    /// distinguishes them.
    fn atom(&self) -> u32 {
        let atoms = Atoms::of_line(self.width, self.target.line_stride, Precision::Int8);
        atoms.map_or(32, |atoms| atoms.bytes() as u32)
    }

    /// A feature cube: all channels of a picture lie in the first atom.
    fn feature(&self, atom: u32) -> Result<Vec<Plane>, Error> {
        let (precision, store) = match self.target.data_type {
            DataType::Int8 => (Precision::Int8, Store::Byte),
            DataType::Int16 => (Precision::Int16, Store::Integer { bits: 16, signed: true }),
            DataType::Half => (Precision::Fp16, Store::Half),
            _ => return Err(self.unsupported()),
        };
        let extents = Extents::new(1, self.channels, self.height, self.width);
        let strides = (self.target.line_stride.into(), self.target.surface_stride.into());
        let cube =
            Cube::unpacked(extents, precision, atom, strides.0, strides.1).map_err(|cause| self.layout(cause))?;
        let components: Vec<_> = (0..self.channels.min(cube.atom_elements()))
            .map(|c| Component { channel: c as usize, lsb: (8 * cube.element_offset(c, 0, 0)) as u8, store })
            .take(4)
            .collect();
        let lines = self.lines(atom, cube.line_stride())?;
        Ok(vec![self.plane(0, lines, [atom, 8], &components, false)])
    }

    /// The planes of an image format; whether they hold Y, U, V; whether their samples are bytes.
    fn pixels(&self, format: PixelFormat) -> Result<(Vec<Plane>, bool, bool), Error> {
        let number = u8::from(format);
        let value = values::PixelFormat::from_bits(number.into()).ok_or_else(|| self.unsupported())?;
        let parts = Format::new(value);
        if self.channels > parts.channels {
            let most = parts.channels;
            let (tensor, value) = (self.target.name.clone(), self.channels.into());
            return Err(Error::Shape { tensor, what: "channels", value, most });
        }
        // The lines of both planes. A pixel of the second plane has twice the bytes.
        let line_strides = [1, 2].map(|planes| Nest::of_strides([self.target.line_stride.into()]).offset([planes]));
        let image = Image::unpacked(value, self.width, self.height, 0, ALIGNMENT, line_strides)
            .map_err(|cause| self.layout(cause))?;
        let is_yuv = parts.name.contains('Y');
        let second = match self.target.surface_stride {
            0 => image.line_offset(0, self.height),
            stride => stride.into(),
        };
        if parts.planes == 2 && second < image.pixel_offset(0, self.height - 1, self.width) {
            return Err(Error::Bytes {
                tensor: self.target.name.clone(),
                got: second as usize,
                needed: image.pixel_offset(0, self.height - 1, self.width),
            });
        }
        let planes = (0..parts.planes).map(|plane| {
            let of_plane = parts.components().iter().enumerate().filter(|(_, part)| u32::from(part.plane) == plane);
            let components: Vec<_> = of_plane
                .take_while(|(channel, _)| (*channel as u32) < self.channels)
                .map(|(channel, part)| {
                    let store = match (parts.kind, part.stored) {
                        (_, 8) if self.target.unsigned => Store::Sample,
                        (_, 8) => Store::Byte,
                        (Kind::Float, _) => Store::Half,
                        (kind, _) => Store::Integer { bits: part.bits, signed: kind == Kind::Signed },
                    };
                    Component { channel, lsb: part.lsb, store }
                })
                .collect();
            let first = if plane == 0 { 0 } else { second };
            let step = parts.bytes_per_pixel[plane as usize];
            let lines = self.lines(step, image.line_stride(plane))?;
            Ok(self.plane(first, lines, [step; 2], &components, is_yuv))
        });
        Ok((planes.collect::<Result<_, _>>()?, is_yuv, parts.component_bytes() == 1))
    }

    /// Lines of all pixels, `step` bytes each.
    fn lines(&self, step: u32, line_stride: u64) -> Result<Nest<1>, Error> {
        let pixels = Nest::of_strides([u64::from(step)]);
        Nest::as_programmed(pixels.offset([self.width.into()]), [self.height.into()], [line_stride])
            .map_err(|cause| self.layout(cause))
    }

    /// A plane with pixels that are `step` bytes apart and written `word` bytes at a time.
    fn plane(
        &self,
        first: u64,
        lines: Nest<1>,
        [step, word]: [u32; 2],
        components: &[Component],
        is_yuv: bool,
    ) -> Plane {
        let mut grey = Box::new([0; 256]);
        let mut colour = Box::new([[0; 256]; 3]);
        for component in components {
            let channel = component.channel;
            if channel > 2 {
                continue; // alpha is not an input of networks
            }
            let source = match self.settings.order {
                Order::Bgr if !is_yuv && self.channels > 1 => 2 - channel,
                _ => channel,
            };
            for sample in 0..=u8::MAX {
                let bits = |sample| {
                    let mean = self.settings.mean[channel];
                    u64::from(component.store.encode(sample, mean, self.settings.normalize)) << component.lsb
                };
                let at = usize::from(sample);
                colour[source][at] |= bits(sample);
                match (channel, is_yuv) {
                    (0, _) => grey[at] |= bits(sample),
                    (_, false) if self.settings.grey_everywhere => grey[at] |= bits(sample),
                    // No colour.
                    (_, true) => grey[at] |= bits(128),
                    (_, false) => {}
                }
            }
        }
        let sources = if word == 4 && step == 4 { sources(&colour) } else { None };
        let is_scaled = (0..=u8::MAX).all(|sample| grey[usize::from(sample)] == u64::from(scale_to_127(sample)));
        Plane {
            is_scaled,
            sources,
            first: first as usize,
            lines,
            step: step as usize,
            word: word as usize,
            grey,
            colour,
        }
    }
}
