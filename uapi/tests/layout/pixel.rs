// SPDX-License-Identifier: GPL-2.0-only OR MIT

use crate::naive::{indices, values};
use nvdla_uapi::layout::pixel::{Format, Image, Kind};
use nvdla_uapi::layout::{Order, Rule};
use nvdla_uapi::reg::values::{PixelFormat, Precision};
use proptest::prelude::*;

/// Table 33: name, planes, channels, precision, largest x offset.
const TABLE_33: [(&str, u32, u32, Precision, u32); 36] = {
    use Precision::{Fp16, Int16, Int8};
    [
        ("T_R8", 1, 1, Int8, 31),
        ("T_R10", 1, 1, Int16, 15),
        ("T_R12", 1, 1, Int16, 15),
        ("T_R16", 1, 1, Int16, 15),
        ("T_R16_I", 1, 1, Int16, 15),
        ("T_R16_F", 1, 1, Int16, 15),
        ("T_A16B16G16R16", 1, 4, Int16, 3),
        ("T_X16B16G16R16", 1, 4, Int16, 3),
        ("T_A16B16G16R16_F", 1, 4, Fp16, 3),
        ("T_A16Y16U16V16", 1, 4, Int16, 3),
        ("T_V16U16Y16A16", 1, 4, Int16, 3),
        ("T_A16Y16U16V16_F", 1, 4, Fp16, 3),
        ("T_A8B8G8R8", 1, 4, Int8, 7),
        ("T_A8R8G8B8", 1, 4, Int8, 7),
        ("T_B8G8R8A8", 1, 4, Int8, 7),
        ("T_R8G8B8A8", 1, 4, Int8, 7),
        ("T_X8B8G8R8", 1, 4, Int8, 7),
        ("T_X8R8G8B8", 1, 4, Int8, 7),
        ("T_B8G8R8X8", 1, 4, Int8, 7),
        ("T_R8G8B8X8", 1, 4, Int8, 7),
        ("T_A2B10G10R10", 1, 4, Int16, 7),
        ("T_A2R10G10B10", 1, 4, Int16, 7),
        ("T_B10G10R10A2", 1, 4, Int16, 7),
        ("T_R10G10B10A2", 1, 4, Int16, 7),
        ("T_A2Y10U10V10", 1, 4, Int16, 7),
        ("T_V10U10Y10A2", 1, 4, Int16, 7),
        ("T_A8Y8U8V8", 1, 4, Int8, 7),
        ("T_V8U8Y8A8", 1, 4, Int8, 7),
        ("T_Y8___U8V8_N444", 2, 3, Int8, 31),
        ("T_Y8___V8U8_N444", 2, 3, Int8, 31),
        ("T_Y10___U10V10_N444", 2, 3, Int16, 15),
        ("T_Y10___V10U10_N444", 2, 3, Int16, 15),
        ("T_Y12___U12V12_N444", 2, 3, Int16, 15),
        ("T_Y12___V12U12_N444", 2, 3, Int16, 15),
        ("T_Y16___U16V16_N444", 2, 3, Int16, 15),
        ("T_Y16___V16U16_N444", 2, 3, Int16, 15),
    ]
};

#[test]
fn table_33() {
    assert_eq!(PixelFormat::ALL.len(), 36);
    for (format, row) in PixelFormat::ALL.iter().zip(TABLE_33) {
        let it = Format::from(*format);
        assert_eq!((it.name, it.planes, it.channels, it.precision, it.max_x_offset), row);
        // Floating point is converted to fp16 only, and said so by the name.
        assert_eq!(it.kind == Kind::Float, it.name.ends_with("_F"));
        assert_eq!(it.kind == Kind::Signed, it.name.ends_with("_I"));
        if it.kind == Kind::Float {
            assert_eq!(it.input_precision(), Precision::Fp16);
        }
    }
}

/// A format's components as its name spells them: plane, letter, bits, from the most significant down.
fn spelled(name: &str) -> Vec<Vec<(char, u32)>> {
    let body = name.strip_prefix("T_").unwrap();
    let body = body.trim_end_matches("_N444").trim_end_matches("_F").trim_end_matches("_I");
    body.split("___")
        .map(|plane| {
            let mut components: Vec<(char, u32)> = Vec::new();
            for character in plane.chars() {
                match character.to_digit(10) {
                    None => components.push((character, 0)),
                    Some(digit) => {
                        let last = components.last_mut().unwrap();
                        last.1 = last.1 * 10 + digit;
                    }
                }
            }
            components
        })
        .collect()
}

/// Where the convolution puts a letter.
fn channel(letter: char) -> u32 {
    match letter {
        'R' | 'Y' => 0,
        'G' | 'U' => 1,
        'B' | 'V' => 2,
        _ => 3,
    }
}

#[test]
fn components_lie_where_the_name_says() {
    for format in PixelFormat::ALL {
        let it = Format::from(*format);
        for (plane, components) in spelled(it.name).into_iter().enumerate() {
            // Alone in 16 bits are 10 and 12 bits; three tens and a two share 32 bits.
            let shared = components.len() == 4 && components.iter().any(|(_, bits)| *bits == 10);
            let mut lsb = 0;
            for (letter, bits) in components.into_iter().rev() {
                let stored = if shared || bits == 8 { bits } else { 16 };
                let got = it.component(channel(letter)).unwrap();
                let expected = (plane as u8, lsb as u8, stored as u8, bits as u8);
                assert_eq!((got.plane, got.lsb, got.stored, got.bits), expected, "{} {letter}", it.name);
                // The DMA fills 16 bits from the top.
                assert_eq!(got.fetched(1), if shared { 1 << (16 - bits) } else { 1 });
                lsb += stored;
            }
            assert_eq!(it.bytes_per_pixel[plane] * 8, lsb, "{}", it.name);
        }
        assert_eq!(it.components().len() as u32, it.channels);
        assert_eq!(it.component(it.channels), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn images_are_pitch_linear(
        which in 0..36usize, width in 1..20u32, height in 1..5u32, x_offset in 0..32u32, gaps in prop::array::uniform2(0..3u64),
        alignment in prop_oneof![Just(8u32), Just(16), Just(32)],
    ) {
        let format = Format::from(PixelFormat::ALL[which]);
        let x_offset = x_offset % (alignment / format.bytes_per_pixel[0]).max(1);
        let tight = Image::packed(format.format, width, height, x_offset, alignment).unwrap();
        let unit = u64::from(alignment);
        let strides = [tight.line_stride(0) + gaps[0] * unit, tight.line_stride(1) + gaps[1] * unit];
        let image = Image::unpacked(format.format, width, height, x_offset, alignment, strides).unwrap();
        // A bit map of both planes: each component's bits once, all inside the plane.
        let mut taken = [0, 1].map(|plane| vec![false; image.span(plane) as usize * 8]);
        for at in indices(image.extents()) {
            let component = format.component(at.c).unwrap();
            let plane = u32::from(component.plane);
            let bytes = u64::from(format.bytes_per_pixel[plane as usize]);
            let skipped = u64::from(x_offset) * bytes;
            let first = if plane == 0 { skipped } else { skipped % unit };
            let pixel = u64::from(at.h) * strides[plane as usize] + first + u64::from(at.w) * bytes;
            prop_assert_eq!(image.pixel_offset(plane, at.h, at.w), pixel);
            for bit in 0..u64::from(component.stored) {
                let bit = (pixel * 8 + u64::from(component.lsb) + bit) as usize;
                prop_assert!(!std::mem::replace(&mut taken[plane as usize][bit], true));
            }
        }
        let plain: Vec<u16> = values::<u16>(image.extents().elements()).into_iter().enumerate().map(|(i, value)| {
            let channel = i as u32 % format.channels;
            value & ((1u32 << format.component(channel).unwrap().stored) - 1) as u16
        }).collect();
        let mut planes = [0, 1].map(|plane| vec![0x5a; image.span(plane) as usize]);
        let [first, second] = &mut planes;
        if format.component_bytes() == 1 {
            let bytes: Vec<u8> = plain.iter().map(|value| *value as u8).collect();
            image.pack(Order::Nhwc, &bytes, [first, second]).unwrap();
            let mut back = vec![0; bytes.len()];
            image.unpack(Order::Nhwc, [first, second], &mut back).unwrap();
            prop_assert_eq!(back, bytes);
        } else {
            image.pack(Order::Nhwc, &plain, [first, second]).unwrap();
            let mut back = vec![0; plain.len()];
            image.unpack(Order::Nhwc, [first, second], &mut back).unwrap();
            prop_assert_eq!(back, plain);
        }
        // Every bit that holds no component is zero.
        for (taken, memory) in taken.iter().zip(&planes) {
            for (bit, taken) in taken.iter().enumerate() {
                prop_assert!(*taken || memory[bit / 8] >> (bit % 8) & 1 == 0);
            }
        }
    }

    #[test]
    fn no_image_panics(which in 0..36usize, width in any::<u32>(), height in any::<u32>(), x_offset in any::<u32>(), alignment in 0..40u32, strides in prop::array::uniform2(any::<u64>())) {
        let format = PixelFormat::ALL[which];
        let _ = Image::packed(format, width, height, x_offset, alignment);
        let _ = Image::unpacked(format, width, height, x_offset, 32, strides);
    }
}

#[test]
fn planes_and_orders_agree() {
    let image = Image::packed(PixelFormat::Y8_U8V8N444, 3, 2, 20, 32).unwrap();
    // 20 pixels are 20 bytes of luma, and 40 bytes of chroma, of which 32 lie before the plane's address.
    assert_eq!((image.first_pixel(0), image.first_pixel(1)), (20, 8));
    assert_eq!((image.line_stride(0), image.line_stride(1)), (32, 32));
    let nhwc: Vec<u8> = (1..=18).collect();
    let nchw: Vec<u8> = (0..3).flat_map(|c| (0..6).map(move |p| p * 3 + c + 1)).collect();
    let mut first = [vec![0; 64], vec![0; 64]];
    let mut second = [vec![0; 64], vec![0; 64]];
    let [a, b] = &mut first;
    image.pack(Order::Nhwc, &nhwc, [a, b]).unwrap();
    let [a, b] = &mut second;
    image.pack(Order::Nchw, &nchw, [a, b]).unwrap();
    assert_eq!(first, second);
    assert_eq!(first[0][20..23], [1, 4, 7]);
    // U8V8: V in the low byte.
    assert_eq!(first[1][8..12], [3, 2, 6, 5]);
}

#[test]
fn errors_name_the_rule_and_the_values() {
    let error = Image::packed(PixelFormat::R8, 4, 4, 32, 32).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::PixelXOffset, 32, 31));
    let error = Image::unpacked(PixelFormat::R8, 40, 4, 0, 32, [48, 0]).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::PixelLineStride, 48, 32));
    let error = Image::unpacked(PixelFormat::R8, 40, 4, 0, 32, [32, 0]).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::PixelLineOverlap, 32, 40));
    let image = Image::packed(PixelFormat::R16, 4, 4, 0, 32).unwrap();
    assert_eq!(image.pack(Order::Nchw, &[0u8; 16], [&mut [0; 128], &mut []]).unwrap_err().rule, Rule::ElementBytes);
    assert_eq!(image.pack(Order::Nchw, &[0u16; 15], [&mut [0; 128], &mut []]).unwrap_err().rule, Rule::PlainLength);
    assert_eq!(image.pack(Order::Nchw, &[0u16; 16], [&mut [0; 127], &mut []]).unwrap_err().rule, Rule::MemoryLength);
}
