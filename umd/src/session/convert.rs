// SPDX-License-Identifier: MIT OR Apache-2.0

//! Converts a tensor's bytes from and to plain numbers in NCHW order.
//!
//! A number is an element times a scale. The caller gives the scale, or the compiler has stored it in the loadable (see
//! [`crate::loadable::names`]). When a tensor is written, the quotient is rounded to the nearest element (ties away from zero)
//! and clamped to the element's range. [`nvdla_uapi::layout`] has the offsets of the elements. Padding of atoms and lines becomes
//! zero.

use nvdla_uapi::layout::{
    align::{Alignment, Data},
    feature::Cube,
    pixel::{Format, Image, Kind},
    Element, Extents, Layout, Order,
};
use nvdla_uapi::reg::{values::Precision, FieldValue};

use super::tensor::{TensorError, TensorInfo};
use crate::{half, loadable::names::Scale, loadable::DataType};

/// The number format of an element.
#[derive(Clone, Copy)]
enum Number {
    /// Signed integers of 8 bits. NVIDIA's compiler reads 8-bit pixels as signed too.
    Int8,
    /// Signed integers of 16 bits.
    Int16,
    /// Unsigned integers of 8 bits, if the loadable says that pixels are read so.
    Uint8,
    /// Unsigned integers of up to 16 bits.
    Unsigned(u8),
    /// Half precision.
    Half,
}

impl Number {
    fn bytes(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            _ => 2,
        }
    }

    /// The element nearest to `value`. Rust's float casts clamp. Only half precision has an element for NaN.
    fn encode(self, value: f32) -> u16 {
        match self {
            Self::Int8 => u16::from(value.round() as i8 as u8),
            Self::Uint8 => u16::from(value.round() as u8),
            Self::Int16 => value.round() as i16 as u16,
            Self::Unsigned(bits) => (value.round() as u16).min(((1u32 << bits) - 1) as u16),
            Self::Half => half::from_f32(value).to_bits(),
        }
    }

    fn decode(self, bits: u16) -> f32 {
        match self {
            Self::Int8 => f32::from(bits as u8 as i8),
            Self::Int16 => f32::from(bits as i16),
            Self::Uint8 | Self::Unsigned(_) => f32::from(bits),
            Self::Half => half::to_f32(half::f16::from_bits(bits)),
        }
    }
}

/// The layout of one image of a tensor.
enum ImageLayout {
    Feature(Cube),
    Pixels(Image),
}

/// A tensor that can be converted.
struct Plan {
    number: Number,
    layout: ImageLayout,
    /// Bytes from one image of the batch to the next.
    image_bytes: usize,
    /// Elements of one image.
    elements: usize,
}

impl Plan {
    fn new(info: &TensorInfo) -> Result<Self, TensorError> {
        let format_error = || TensorError::Format { format: info.pixel_format, data_type: info.data_type };
        let image_bytes = usize::try_from(info.size / u64::from(info.n.max(1))).map_err(|_| format_error())?;
        let elements =
            usize::try_from(Extents::new(1, info.c, info.h, info.w).elements()).map_err(|_| format_error())?;
        let (number, layout) = if info.is_feature() {
            let (number, precision) = match info.data_type {
                DataType::Int8 => (Number::Int8, Precision::Int8),
                DataType::Int16 => (Number::Int16, Precision::Int16),
                DataType::Half => (Number::Half, Precision::Fp16),
                _ => return Err(format_error()),
            };
            let cube = Cube::as_programmed(
                Extents::new(1, info.c, info.h, info.w),
                precision,
                info.atom().ok_or_else(format_error)?,
                info.line_stride().into(),
                info.surface_stride().into(),
                0,
            );
            let cube = cube.map_err(layout_error)?;
            (number, ImageLayout::Feature(cube))
        } else {
            let number: u8 = info.pixel_format.into();
            let pixel = FieldValue::from_bits(number.into()).ok_or_else(format_error)?;
            let format = Format::new(pixel);
            // The loadable does not contain the offset of the second plane.
            if format.planes != 1 || info.c > format.channels {
                return Err(format_error());
            }
            let number = match (format.kind, format.component(0)) {
                (Kind::Float, _) => Number::Half,
                (Kind::Signed, _) => Number::Int16,
                (Kind::Unsigned, Some(component)) if component.stored == 8 => {
                    if info.meaning.as_ref().is_some_and(|meaning| meaning.unsigned) {
                        Number::Uint8
                    } else {
                        Number::Int8
                    }
                }
                (Kind::Unsigned, Some(component)) => Number::Unsigned(component.bits),
                (Kind::Unsigned, None) => return Err(format_error()),
            };
            // The loadable does not name its configuration.
            let alignment = Alignment::of_all(Data::Pixel).start;
            // With a single line the line stride is not used, and may have any value.
            let line = match info.h {
                1 => format.bytes_of(info.w).next_multiple_of(alignment.into()),
                _ => info.line_stride().into(),
            };
            let strides = [line, 0];
            let image = Image::unpacked(pixel, info.w, info.h, 0, alignment, strides).map_err(layout_error)?;
            (number, ImageLayout::Pixels(image))
        };
        let needed = match &layout {
            ImageLayout::Feature(cube) => cube.size(),
            ImageLayout::Pixels(image) => image.span(0),
        };
        // The last line needs no padding.
        if needed > image_bytes as u64 && matches!(layout, ImageLayout::Feature(_)) {
            return Err(TensorError::Size { needed, given: image_bytes as u64 });
        }
        Ok(Self { number, layout, image_bytes, elements })
    }

    fn pack<T: Element>(&self, plain: &[T], memory: &mut [u8]) -> Result<(), TensorError> {
        match &self.layout {
            ImageLayout::Feature(cube) => cube.pack(Order::Nchw, plain, memory).map_err(layout_error),
            ImageLayout::Pixels(image) => {
                // The layout packs all channels of the format.
                let all = image.extents().elements() as usize;
                let mut every = plain.to_vec();
                every.resize(all, T::default());
                padded(image, memory, |memory| image.pack(Order::Nchw, &every, [memory, &mut []])).map_err(layout_error)
            }
        }
    }

    fn unpack<T: Element>(&self, memory: &[u8], plain: &mut [T]) -> Result<(), TensorError> {
        match &self.layout {
            ImageLayout::Feature(cube) => cube.unpack(Order::Nchw, memory, plain).map_err(layout_error),
            ImageLayout::Pixels(image) => {
                let mut every = vec![T::default(); image.extents().elements() as usize];
                let mut memory = memory.to_vec();
                padded(image, &mut memory, |memory| image.unpack(Order::Nchw, [memory, &[]], &mut every))
                    .map_err(layout_error)?;
                let count = plain.len();
                plain.copy_from_slice(every.get(..count).unwrap_or_default());
                Ok(())
            }
        }
    }
}

/// Calls `work` with the memory of an image, which may lack the padding of the last line.
fn padded<R>(image: &Image, memory: &mut [u8], work: impl FnOnce(&mut [u8]) -> R) -> R {
    let span = image.span(0) as usize;
    if memory.len() >= span {
        return work(memory);
    }
    let mut whole = memory.to_vec();
    whole.resize(span, 0);
    let result = work(&mut whole);
    memory.copy_from_slice(whole.get(..memory.len()).unwrap_or_default());
    result
}

fn layout_error(error: nvdla_uapi::layout::Error) -> TensorError {
    TensorError::Layout(error.to_string())
}

fn check_scale(scale: f32) -> Result<(), TensorError> {
    if scale.is_finite() && scale > 0.0 {
        Ok(())
    } else {
        Err(TensorError::Scale(scale))
    }
}

/// Writes numbers in NCHW order into a tensor's bytes.
pub(super) fn encode(info: &TensorInfo, values: &[f32], scale: f32, memory: &mut [u8]) -> Result<(), TensorError> {
    check_scale(scale)?;
    write(info, values, memory, |value| value / scale)
}

/// A tensor's numbers in NCHW order.
pub(super) fn decode(info: &TensorInfo, scale: f32, memory: &[u8]) -> Result<Vec<f32>, TensorError> {
    check_scale(scale)?;
    read(info, memory, |element| element * scale)
}

/// The scale and the zero point of a channel.
fn of_channel(meaning: &Scale, channel: usize) -> (f32, f32) {
    let of = |numbers: &[f64]| numbers.get(channel).or(numbers.first()).copied().unwrap_or_default() as f32;
    (of(&meaning.scale), of(&meaning.zero_point))
}

/// Writes real numbers in NCHW order, with the scale that the compiler has stored in the loadable. For an input that was compiled
/// for pictures, values of the network's own channels are in the network's order; in memory blue is first.
pub(super) fn quantise(info: &TensorInfo, values: &[f32], memory: &mut [u8]) -> Result<(), TensorError> {
    let Some(meaning) = &info.meaning else { return encode(info, values, 1.0, memory) };
    let (plane, channels) = (((info.h as usize) * (info.w as usize)).max(1), info.c.max(1) as usize);
    let own = meaning.pictures.as_ref().zip(info.own_channels());
    let all = |own: usize| own.checked_mul(plane).and_then(|image| image.checked_mul(info.n as usize));
    let own = own.map(|(pictures, own)| (pictures, own as usize)).filter(|(_, own)| all(*own) == Some(values.len()));
    let mut elements = match own {
        Some((pictures, own)) => {
            // A channel that the network does not have is zero.
            let mut elements = vec![0.0; values.len() / own * channels];
            for (at, plane_of) in values.chunks_exact(plane).enumerate() {
                let into = (at / own * channels + pictures.in_memory(at % own)) * plane;
                elements[into..into + plane].copy_from_slice(plane_of);
            }
            elements
        }
        None => values.to_vec(),
    };
    for (at, plane) in elements.chunks_mut(plane).enumerate() {
        let (scale, zero) = of_channel(meaning, at % channels);
        for value in plane.iter_mut() {
            *value = *value / scale + zero;
        }
    }
    write(info, &elements, memory, |element| element)
}

/// Returns real numbers in NCHW order, with the scale that the compiler has stored in the loadable.
pub(super) fn dequantise(info: &TensorInfo, memory: &[u8]) -> Result<Vec<f32>, TensorError> {
    let Some(meaning) = &info.meaning else { return decode(info, 1.0, memory) };
    let mut values = read(info, memory, |element| element)?;
    let (plane, channels) = (((info.h as usize) * (info.w as usize)).max(1), info.c.max(1) as usize);
    for (at, plane) in values.chunks_mut(plane).enumerate() {
        let (scale, zero) = of_channel(meaning, at % channels);
        for value in plane.iter_mut() {
            *value = (*value - zero) * scale;
        }
    }
    Ok(values)
}

fn write(
    info: &TensorInfo,
    values: &[f32],
    memory: &mut [u8],
    element: impl Fn(f32) -> f32,
) -> Result<(), TensorError> {
    let plan = Plan::new(info)?;
    let needed = plan.elements as u64 * u64::from(info.n);
    if values.len() as u64 != needed {
        return Err(TensorError::Elements { needed, given: values.len() as u64 });
    }
    if !matches!(plan.number, Number::Half) {
        if let Some(at) = values.iter().position(|value| value.is_nan()) {
            return Err(TensorError::NotANumber { at });
        }
    }
    for (values, memory) in values.chunks_exact(plan.elements).zip(memory.chunks_exact_mut(plan.image_bytes)) {
        let elements = values.iter().map(|&value| plan.number.encode(element(value)));
        if plan.number.bytes() == 1 {
            plan.pack(&elements.map(|bits| bits as u8).collect::<Vec<_>>(), memory)?;
        } else {
            plan.pack(&elements.collect::<Vec<_>>(), memory)?;
        }
    }
    Ok(())
}

fn read(info: &TensorInfo, memory: &[u8], value: impl Fn(f32) -> f32) -> Result<Vec<f32>, TensorError> {
    let plan = Plan::new(info)?;
    let mut values = Vec::with_capacity(plan.elements * info.n as usize);
    for memory in memory.chunks_exact(plan.image_bytes).take(info.n as usize) {
        if plan.number.bytes() == 1 {
            let mut plain = vec![0u8; plan.elements];
            plan.unpack(memory, &mut plain)?;
            values.extend(plain.iter().map(|&byte| value(plan.number.decode(byte.into()))));
        } else {
            let mut plain = vec![0u16; plan.elements];
            plan.unpack(memory, &mut plain)?;
            values.extend(plain.iter().map(|&bits| value(plan.number.decode(bits))));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loadable::{DataCategory, DataFormat, PixelFormat};
    use crate::session::tensor::Direction;

    fn tensor(
        pixel_format: PixelFormat,
        data_type: DataType,
        [n, c, h, w]: [u32; 4],
        strides: [u32; 3],
        size: u64,
    ) -> TensorInfo {
        let [element, line, surface] = strides;
        TensorInfo {
            direction: Direction::Input,
            index: 0,
            name: "data".into(),
            n,
            c,
            h,
            w,
            data_format: DataFormat::Nchw,
            data_type,
            data_category: DataCategory::Feature,
            pixel_format,
            strides: [element, line, surface, 0, 0, 0, 0, 0],
            size,
            offset: 0,
            meaning: None,
        }
    }

    #[test]
    fn a_feature_cube_comes_back() {
        let info = tensor(PixelFormat::FEATURE_X8, DataType::Int8, [2, 10, 3, 2], [1, 16, 48], 192);
        let values: Vec<f32> = (0..120).map(|value| value as f32 * 0.5 - 30.0).collect();
        let mut memory = vec![0xff; 192];
        encode(&info, &values, 0.5, &mut memory).unwrap();
        assert_eq!(decode(&info, 0.5, &memory).unwrap(), values);
        // Channel 1 of the first pixel is the second byte; the second surface is two channels and padding.
        assert_eq!(memory[1], (values[6] / 0.5) as i8 as u8);
        assert_eq!(memory[50..56], [0; 6]);
    }

    #[test]
    fn numbers_are_rounded_and_clamped() {
        let info = tensor(PixelFormat::FEATURE_X8, DataType::Int8, [1, 4, 1, 1], [1, 8, 8], 8);
        let mut memory = vec![0; 8];
        encode(&info, &[1.5, -300.0, 300.0, f32::INFINITY], 1.0, &mut memory).unwrap();
        assert_eq!(memory[..4], [2, 0x80, 0x7f, 0x7f]);
        let error = encode(&info, &[1.5, 0.0, f32::NAN, 0.0], 1.0, &mut memory).unwrap_err();
        assert_eq!(error.to_string(), "its value 2 is not a number, and its elements are integers");
        assert_eq!(memory[..4], [2, 0x80, 0x7f, 0x7f], "nothing is written");
        assert_eq!(encode(&info, &[0.0; 4], 0.0, &mut memory), Err(TensorError::Scale(0.0)));
        assert_eq!(encode(&info, &[0.0; 3], 1.0, &mut memory), Err(TensorError::Elements { needed: 4, given: 3 }));
    }

    #[test]
    fn an_image_takes_its_channels_in_the_convolution_s_order() {
        let info = tensor(PixelFormat::A8B8G8R8, DataType::Int8, [1, 3, 1, 2], [1, 8, 0], 8);
        let mut memory = vec![0xff; 8];
        encode(&info, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 1.0, &mut memory).unwrap();
        assert_eq!(memory, [1, 3, 5, 0, 2, 4, 6, 0]);
        assert_eq!(decode(&info, 1.0, &memory).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn unsigned_pixels_have_all_eight_bits() {
        let scale = |unsigned| Scale {
            tensor: "data".to_owned(),
            scale: vec![0.5],
            zero_point: vec![100.0],
            unsigned,
            channels_last: false,
            pictures: None,
        };
        let of = |unsigned| TensorInfo {
            meaning: Some(scale(unsigned)),
            ..tensor(PixelFormat::R8, DataType::Int8, [1, 1, 1, 4], [1, 32, 0], 32)
        };
        let (values, mut memory) = ([-50.0, 0.0, 77.5, 100.0], vec![0xff; 32]);
        quantise(&of(true), &values, &mut memory).unwrap();
        assert_eq!(memory[..4], [0, 100, 255, 255]);
        assert_eq!(dequantise(&of(true), &memory).unwrap(), [-50.0, 0.0, 77.5, 77.5]);
        quantise(&of(false), &values, &mut memory).unwrap();
        assert_eq!(memory[..4], [0, 100, 127, 127]);
    }

    #[test]
    fn half_precision_keeps_fractions() {
        let info = tensor(PixelFormat::FEATURE, DataType::Half, [1, 2, 1, 1], [2, 32, 32], 32);
        let mut memory = vec![0; 32];
        encode(&info, &[0.25, -2.0], 1.0, &mut memory).unwrap();
        assert_eq!(memory[..4], [0x00, 0x34, 0x00, 0xc0]);
        assert_eq!(decode(&info, 2.0, &memory).unwrap(), [0.5, -4.0]);
    }
}
