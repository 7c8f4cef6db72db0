// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::half;
use crate::loadable::{DataType, PixelFormat};
use nvdla_uapi::layout::pixel::{Format, Image, Kind};
use nvdla_uapi::layout::Order as Plain;
use nvdla_uapi::reg::values;
use nvdla_uapi::reg::FieldValue;

const WIDTH: u32 = 5;
const HEIGHT: u32 = 3;

fn target(format: PixelFormat, data_type: DataType, channels: i32) -> Target {
    Target {
        name: "data".into(),
        format,
        data_type,
        channels,
        height: HEIGHT as i32,
        width: WIDTH as i32,
        line_stride: 192,
        surface_stride: 0,
        unsigned: false,
    }
}

fn coloured() -> Picture {
    let samples = (0..WIDTH * HEIGHT * 3).map(|n| (n * 37 % 256) as u8).collect();
    Picture::new(WIDTH, HEIGHT, samples).unwrap()
}

fn grey() -> Picture {
    Picture::new(WIDTH, HEIGHT, (0..WIDTH * HEIGHT).map(|n| (n * 73 % 256) as u8).collect()).unwrap()
}

/// The expected value of a sample, from an independent implementation.
fn expected(format: &Format, channel: u32, sample: u8) -> u16 {
    let component = format.component(channel).unwrap();
    match (format.kind, component.stored) {
        (_, 8) => (u16::from(sample) * 254 + 255) / 510,
        (Kind::Float, _) => half::from_f32(sample.into()).to_bits(),
        (_, 2) => u16::from(sample).min(3),
        _ => sample.into(),
    }
}

#[test]
fn every_pixel_format_gets_each_channel_where_the_convolution_sees_it() {
    for number in 0..36_u8 {
        let name = PixelFormat::from(number);
        let value = values::PixelFormat::from_bits(number.into()).unwrap();
        let format = Format::new(value);
        let channels = format.channels;
        let encoder = Encoder::new(&target(name, DataType::Unknown, channels as i32), &Settings::default()).unwrap();
        let image = Image::unpacked(value, WIDTH, HEIGHT, 0, 32, [192, 384]).unwrap();
        for picture in [coloured(), grey()] {
            let mut tensor = vec![0xee; 192 * 3 + 384 * 3 + 17];
            encoder.encode(&picture, &mut tensor).unwrap();

            // Unpacked through the layout, channel by channel.
            let (luma, chroma) = tensor.split_at(192 * 3);
            let mut plain = vec![0_u16; (channels * WIDTH * HEIGHT) as usize];
            if format.component_bytes() == 1 {
                let mut bytes = vec![0_u8; plain.len()];
                image.unpack(Plain::Nhwc, [luma, chroma], &mut bytes).unwrap();
                plain = bytes.into_iter().map(u16::from).collect();
            } else {
                image.unpack(Plain::Nhwc, [luma, chroma], &mut plain).unwrap();
            }
            let is_yuv = format.name.contains('Y');
            for (n, (pixel, got)) in
                picture.samples().chunks(picture.channels()).zip(plain.chunks(channels as usize)).enumerate()
            {
                let rgb = [pixel[0], pixel[pixel.len() / 2], pixel[pixel.len() - 1]];
                let seen: [Option<u8>; 4] = match (is_yuv, pixel.len(), channels) {
                    (true, 3, _) => {
                        let [y, u, v] = sample::yuv(rgb);
                        [Some(y), Some(u), Some(v), None]
                    }
                    (true, ..) => [Some(pixel[0]), Some(128), Some(128), None],
                    (_, 3, 1) => [Some(sample::luma(rgb)), None, None, None],
                    (_, 3, _) => [Some(pixel[2]), Some(pixel[1]), Some(pixel[0]), None],
                    _ => [Some(pixel[0]), None, None, None],
                };
                for (channel, &got) in got.iter().enumerate() {
                    let want = seen[channel].map_or(0, |sample| expected(&format, channel as u32, sample));
                    assert_eq!(got, want, "{name}: channel {channel} of pixel {n}");
                }
            }
        }
    }
}

#[test]
fn feature_formats() {
    for (format, data_type, atom, element) in [
        (PixelFormat::FEATURE, DataType::Int8, 32, 1),
        (PixelFormat::FEATURE, DataType::Half, 32, 2),
        (PixelFormat::FEATURE, DataType::Int16, 32, 2),
        (PixelFormat::FEATURE_X8, DataType::Int8, 8, 1),
    ] {
        for (picture, channels) in [(coloured(), 3), (grey(), 1), (coloured(), 4), (grey(), 2)] {
            let mut tensor = vec![0xee; 1024];
            let target = Target { surface_stride: 3 * 192, ..target(format, data_type, channels) };
            Encoder::new(&target, &Settings::default()).unwrap().encode(&picture, &mut tensor).unwrap();
            let mut want = vec![0; 1024];
            for (n, pixel) in picture.samples().chunks(picture.channels()).enumerate() {
                for (c, &sample) in pixel.iter().rev().enumerate() {
                    let at = n / 5 * 192 + n % 5 * atom + c * element;
                    let bits = match data_type {
                        DataType::Int8 => (u16::from(sample) * 254 + 255) / 510,
                        DataType::Half => half::from_f32(sample.into()).to_bits(),
                        _ => sample.into(),
                    };
                    want[at..at + element].copy_from_slice(&bits.to_le_bytes()[..element]);
                }
            }
            assert!(tensor == want, "{format} {data_type} {channels}");
        }
    }
}

/// Long lines go through vector instructions, where the machine has them.
#[test]
fn unsigned_pixels_are_the_samples() {
    let tensor = Target { unsigned: true, ..target(PixelFormat::A8B8G8R8, DataType::Int8, 4) };
    let picture = coloured();
    let mut bytes = vec![0xee; 192 * HEIGHT as usize];
    Encoder::new(&tensor, &Settings::default()).unwrap().encode(&picture, &mut bytes).unwrap();
    for (pixel, rgb) in bytes.chunks_exact(4).take(WIDTH as usize).zip(picture.samples().chunks_exact(3)) {
        assert_eq!(pixel, [rgb[2], rgb[1], rgb[0], 0]);
    }
    let tensor = Target { unsigned: true, ..target(PixelFormat::R8, DataType::Int8, 1) };
    let samples: Vec<u8> = (0..WIDTH * HEIGHT).map(|n| (n * 18) as u8).collect();
    let grey = Picture::new(WIDTH, HEIGHT, samples.clone()).unwrap();
    Encoder::new(&tensor, &Settings::default()).unwrap().encode(&grey, &mut bytes).unwrap();
    assert_eq!(bytes[..WIDTH as usize], samples[..WIDTH as usize]);
}

#[test]
fn a_long_line_is_many_pixels() {
    const LONG: u32 = 61;
    let samples: Vec<u8> = (0..LONG * 3).map(|n| (n * 101 % 256) as u8).collect();
    let picture = Picture::new(LONG, 1, samples.clone()).unwrap();
    for number in 0..28_u8 {
        let format = PixelFormat::from(number);
        let parts = Format::new(values::PixelFormat::from_bits(number.into()).unwrap());
        let (step, stride) = (parts.bytes_per_pixel[0], 512);
        for order in [Order::Bgr, Order::Rgb] {
            let settings = Settings { order, ..Settings::default() };
            let encoder = |width| {
                let target = target(format, DataType::Unknown, parts.channels as i32);
                Encoder::new(&Target { width, height: 1, line_stride: stride, ..target }, &settings).unwrap()
            };
            let mut line = vec![0xee; stride as usize];
            encoder(LONG as i32).encode(&picture, &mut line).unwrap();
            let one = encoder(1);
            for (x, sample) in samples.chunks(3).enumerate() {
                let mut pixel = vec![0; step as usize];
                one.encode(&Picture::new(1, 1, sample.to_vec()).unwrap(), &mut pixel).unwrap();
                assert_eq!(line[x * step as usize..][..step as usize], pixel, "{format} {order:?} {x}");
            }
        }
    }
}

#[test]
fn mean_normalize_and_order() {
    let settings =
        Settings { mean: [104.25, 117.0, 123.5, 9.0], normalize: 0.5, order: Order::Rgb, ..Settings::default() };
    let target = Target { width: 1, height: 1, ..target(PixelFormat::A16B16G16R16_F, DataType::Half, 4) };
    let picture = Picture::new(1, 1, vec![200, 100, 50]).unwrap();
    let mut tensor = [0xee; 8];
    Encoder::new(&target, &settings).unwrap().encode(&picture, &mut tensor).unwrap();
    let halves: Vec<f32> = tensor.chunks(2).map(|b| half::to_f32(half::f16::from_le_bytes([b[0], b[1]]))).collect();
    assert_eq!(halves, [191.5, -34.0, -147.0, 0.0]);
    assert!(matches!(
        Encoder::new(&target, &Settings { normalize: 0.0, ..settings }),
        Err(Error::Normalize(value)) if value == 0.0
    ));
    assert!(Encoder::new(&target, &Settings { normalize: f32::NAN, ..settings }).is_err());
}

#[test]
fn another_size_is_refused_or_scaled() {
    let picture = Picture::new(10, 6, vec![77; 60]).unwrap();
    let target = target(PixelFormat::R8, DataType::Int8, 1);
    let mut tensor = vec![0; 576];
    let strict = Encoder::new(&target, &Settings::default()).unwrap();
    assert_eq!(
        strict.encode(&picture, &mut tensor).unwrap_err().to_string(),
        "the image has 10 x 6 pixels and the input tensor \"data\" 5 x 3; the option resize scales it"
    );
    let scaling =
        Encoder::new(&target, &Settings { fit: crate::loadable::names::Fit::Stretch, ..Settings::default() }).unwrap();
    scaling.encode(&picture, &mut tensor).unwrap();
    assert_eq!(tensor[..6], [38, 38, 38, 38, 38, 0]);
}

#[test]
fn tensors_that_no_picture_fits_are_refused() {
    let settings = Settings::default();
    let refuse = |target: Target| Encoder::new(&target, &settings).err().unwrap().to_string();
    let good = target(PixelFormat::FEATURE, DataType::Half, 3);
    assert_eq!(
        refuse(Target { channels: 64, ..good.clone() }),
        "the input tensor \"data\" has 64 channels, but a picture fills 1 to 16; it can be filled with raw bytes"
    );
    assert!(refuse(Target { width: -1, ..good.clone() }).contains("-1 pixels per line"));
    assert!(refuse(Target { height: 0, ..good.clone() }).contains("0 lines"));
    assert!(refuse(Target { data_type: DataType::Float, ..good.clone() }).contains("FEATURE of Float"));
    assert!(refuse(Target { format: PixelFormat::Other(99), ..good.clone() }).contains("unknown value 99"));
    assert!(refuse(Target { line_stride: 32, ..good.clone() }).contains("line stride"));
    assert!(refuse(Target { format: PixelFormat::R8, ..good.clone() }).contains("3 channels"));
    let semi_planar = Target { format: PixelFormat::Y8_U8V8_N444, surface_stride: 8, ..good.clone() };
    assert!(refuse(semi_planar).contains("has 8 bytes"));

    let mut short = vec![0; 543];
    let error = Encoder::new(&good, &settings).unwrap().encode(&coloured(), &mut short).unwrap_err();
    assert_eq!(error.to_string(), "the input tensor \"data\" has 543 bytes, but its lines need 544");
    let two = target(PixelFormat::FEATURE, DataType::Half, 2);
    assert!(matches!(
        Encoder::new(&two, &settings).unwrap().encode(&coloured(), &mut [0; 2048]),
        Err(Error::TwoChannels { .. })
    ));
}

#[test]
fn files_of_every_kind_are_decoded() {
    let picture = coloured();
    let rgb = ::image::RgbImage::from_raw(WIDTH, HEIGHT, picture.samples().to_vec()).unwrap();
    for format in [::image::ImageFormat::Pnm, ::image::ImageFormat::Png] {
        let mut file = std::io::Cursor::new(Vec::new());
        rgb.write_to(&mut file, format).unwrap();
        assert_eq!(Picture::decode(file.get_ref()).unwrap(), picture, "{format:?}");
    }
    let mut jpeg = std::io::Cursor::new(Vec::new());
    ::image::RgbImage::from_pixel(16, 16, [200, 100, 50].into())
        .write_to(&mut jpeg, ::image::ImageFormat::Jpeg)
        .unwrap();
    let decoded = Picture::decode(jpeg.get_ref()).unwrap();
    assert_eq!(decoded.channels(), 3);
    assert!(decoded.samples().iter().zip([200, 100, 50].iter().cycle()).all(|(a, b)| a.abs_diff(*b) < 4));

    let pgm = Picture::decode(b"P5\n# a comment\n2 1\n255\n\x10\x20").unwrap();
    assert_eq!((pgm.channels(), pgm.samples()), (1, &[16, 32][..]));
}

#[test]
fn what_is_no_picture_is_refused() {
    for bytes in [&b""[..], b"P5\n2 2\n255\n\0", b"\x89PNG\r\n\x1a\nxxxx", b"hello", b"P5\n9999999 9999999\n255\n"] {
        assert!(matches!(Picture::decode(bytes), Err(Error::Decode { .. })), "{bytes:?}");
    }
    let missing = Picture::open("/nowhere/at all.png").unwrap_err().to_string();
    assert!(missing.starts_with("cannot read the image /nowhere/at all.png: "), "{missing}");
    assert!(Picture::open("/").is_err());
    assert_eq!(Picture::new(2, 2, vec![0; 5]), None);
    assert_eq!(Picture::new(0, 2, vec![]), None);
}

/// A file of a picture in that format.
fn encoded(picture: &image::DynamicImage, format: image::ImageFormat) -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut file, format).unwrap();
    file.into_inner()
}

#[test]
fn a_jpeg_that_ends_early_is_no_picture() {
    let picture = image::DynamicImage::from(image::RgbImage::from_fn(64, 64, |x, y| image::Rgb([x as u8, y as u8, 7])));
    let file = encoded(&picture, image::ImageFormat::Jpeg);
    assert!(Picture::decode(&file).is_ok());
    // Bytes after the end of the picture are ignored.
    assert!(Picture::decode(&[&file[..], b"more"].concat()).is_ok());
    for length in [file.len() - 1, file.len() - 2, file.len() * 3 / 4] {
        assert!(matches!(Picture::decode(&file[..length]), Err(Error::Truncated { .. })), "{length} of {}", file.len());
    }
}

#[test]
fn a_picture_without_pixels_is_none() {
    for (file, size) in [("P5 0 0 255\n", (0, 0)), ("P5\n0 7\n255\n", (0, 7)), ("P6\n3 0\n255\n", (3, 0))] {
        let found = Picture::decode(file.as_bytes());
        assert!(matches!(found, Err(Error::Empty { width, height, .. }) if (width, height) == size), "{file:?}");
    }
}

#[test]
fn transparent_pictures_need_a_background() {
    let path = std::env::temp_dir().join(format!("nvdla-transparent-{}.png", std::process::id()));
    let decode = |picture: &image::DynamicImage, background| {
        std::fs::write(&path, encoded(picture, image::ImageFormat::Png)).unwrap();
        PictureFile::open(&path).unwrap().decode(background)
    };
    // Black ink on a transparent background.
    let ink =
        image::DynamicImage::from(image::GrayAlphaImage::from_fn(2, 1, |x, _| image::LumaA([0, [255, 0][x as usize]])));
    let error = decode(&ink, None).unwrap_err();
    assert!(matches!(error, Error::Transparent { .. }) && error.to_string().contains("background"), "{error}");
    assert_eq!(decode(&ink, Some([200; 3])).unwrap(), Picture::new(2, 1, vec![0, 200]).unwrap());
    assert_eq!(decode(&ink, Some([1, 2, 3])).unwrap(), Picture::new(2, 1, vec![0, 0, 0, 1, 2, 3]).unwrap());
    let half = image::DynamicImage::from(image::RgbaImage::from_pixel(1, 1, image::Rgba([255, 0, 100, 128])));
    assert_eq!(decode(&half, Some([0, 255, 100])).unwrap(), Picture::new(1, 1, vec![128, 127, 100]).unwrap());
    // An opaque picture needs no background.
    let opaque = image::DynamicImage::from(image::RgbaImage::from_pixel(1, 1, image::Rgba([9, 8, 7, 255])));
    assert_eq!(decode(&opaque, None).unwrap(), Picture::new(1, 1, vec![9, 8, 7]).unwrap());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_picture_of_one_line_is_cropped_in_little_memory() {
    const LONG: u32 = 1 << 20;
    let mut samples = vec![9; LONG as usize];
    samples[LONG as usize / 2 - 8..][..16].fill(200);
    let lines = [Picture::new(LONG, 1, samples.clone()).unwrap(), Picture::new(1, LONG, samples).unwrap()];
    for line in lines {
        let cropped = line.cropped(64, 64);
        assert_eq!((cropped.width(), cropped.height()), (64, 64));
        assert!(cropped.samples().iter().all(|&sample| sample == 200));
    }
}
