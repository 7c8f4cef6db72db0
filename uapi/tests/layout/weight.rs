// SPDX-License-Identifier: GPL-2.0-only OR MIT

use crate::naive::{check, check_addresses, pad, values, Slots};
use nvdla_uapi::config::Config;
use nvdla_uapi::layout::weight::{
    convert_plane, Deconvolution, Direct, Geometry, Groups, Image, PostExtension, Scaling, Winograd,
};
use nvdla_uapi::layout::{bytes, Extents, Index, Layout, Order, Rule};
use nvdla_uapi::reg::values::Precision;
use proptest::prelude::*;

/// The document's steps: groups of kernels, small cubes of channels, scanned C', K, W, H, C.
fn direct(extents: Extents, geometry: Geometry) -> Slots {
    let Extents { n: kernels, c: channels, h: rows, w: columns } = extents;
    let mut slots = Slots::new();
    for first_kernel in (0..kernels).step_by(geometry.group_kernels as usize) {
        let group = first_kernel..kernels.min(first_kernel + geometry.group_kernels);
        for first_channel in (0..channels).step_by(geometry.cube_channels as usize) {
            let cube = first_channel..channels.min(first_channel + geometry.cube_channels);
            for r in 0..rows {
                for s in 0..columns {
                    for k in group.clone() {
                        slots.extend(cube.clone().map(|c| Some(Index::new(k, c, r, s))));
                    }
                }
            }
        }
    }
    slots
}

fn padded(mut slots: Slots, geometry: Geometry) -> Slots {
    pad(&mut slots, (geometry.alignment / bytes(geometry.precision)) as usize);
    slots
}

/// Pre-extension (a line becomes channels) and post-extension (`lines` lines share a small cube), then the mapping.
fn image(extents: Extents, geometry: Geometry, lines: u32) -> Slots {
    let Extents { n: kernels, c: channels, h: rows, w: columns } = extents;
    let extended = channels * columns;
    let mut slots = Slots::new();
    if lines == 1 {
        let mapped = direct(Extents::new(kernels, extended, rows, 1), geometry);
        return mapped
            .into_iter()
            .map(|slot| slot.map(|at| Index::new(at.n, at.c % channels, at.h, at.c / channels)))
            .collect();
    }
    for first_kernel in (0..kernels).step_by(geometry.group_kernels as usize) {
        for first_row in (0..rows).step_by(lines as usize) {
            for k in first_kernel..kernels.min(first_kernel + geometry.group_kernels) {
                for r in first_row..rows.min(first_row + lines) {
                    for s in 0..columns {
                        slots.extend((0..channels).map(|c| Some(Index::new(k, c, r, s))));
                    }
                }
            }
        }
    }
    slots
}

/// Phase 2 of Winograd weights: in a group, 4x4x4 cubes with the kernel changing before the block of channels.
fn winograd(kernels: u32, channels: u32, geometry: Geometry) -> Slots {
    let mut slots = Slots::new();
    for first_kernel in (0..kernels).step_by(geometry.group_kernels as usize) {
        for block in 0..channels / 4 {
            for k in first_kernel..kernels.min(first_kernel + geometry.group_kernels) {
                for y in 0..4 {
                    for x in 0..4 {
                        slots.extend((0..4).map(|c| Some(Index::new(k, block * 4 + c, y, x))));
                    }
                }
            }
        }
    }
    slots
}

fn geometry() -> impl Strategy<Value = Geometry> {
    let configured = (0..Config::ALL.len()).prop_map(|i| Geometry::of(Config::ALL[i], Precision::Int8));
    let documented = prop_oneof![Just(Precision::Int8), Just(Precision::Int16), Just(Precision::Fp16)]
        .prop_map(Geometry::documented);
    let any =
        (1..20u32, 1..9u32, prop_oneof![Just(8u32), Just(64)]).prop_map(|(cube_channels, group_kernels, alignment)| {
            Geometry { precision: Precision::Int8, cube_channels, group_kernels, alignment }
        });
    prop_oneof![configured, documented, any]
}

fn extents() -> impl Strategy<Value = Extents> {
    (1..40u32, 1..140u32, 1..4u32, 1..4u32).prop_map(|(n, c, h, w)| Extents::new(n, c, h, w))
}

fn check_of<L: Layout>(layout: L, naive: &Slots) {
    match layout.element_bytes() {
        1 => check::<_, i8>(layout, naive),
        _ => check::<_, i16>(layout, naive),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn direct_weights_are_the_documents(extents in extents(), geometry in geometry()) {
        let layout = Direct::new(extents, geometry).unwrap();
        let slots = direct(extents, geometry);
        prop_assert_eq!(layout.mapped_bytes(), slots.len() as u64 * u64::from(layout.element_bytes()));
        let total: u64 = (0..layout.groups()).map(|group| layout.group_elements(group)).sum();
        prop_assert_eq!(total, slots.len() as u64);
        check_of(layout, &padded(slots, geometry));
    }

    #[test]
    fn image_weights_are_the_documents(
        kernels in 1..40u32, channels in 1..5u32, rows in 1..12u32, columns in 1..9u32, geometry in geometry(), lines in 0..3u32,
    ) {
        let extents = Extents::new(kernels, channels, rows, columns);
        let lines = 1 << lines;
        let post = PostExtension::from_lines(lines).unwrap();
        match Image::new(extents, geometry, post) {
            Ok(layout) => check_of(layout, &padded(image(extents, geometry, lines), geometry)),
            Err(error) => {
                prop_assert_eq!(error.rule, Rule::PostExtensionChannels);
                prop_assert!(channels * columns > geometry.cube_channels / lines);
            }
        }
    }

    #[test]
    fn winograd_weights_are_the_documents(
        kernels in 1..40u32, channels in 1..40u32, stride_x in 1..3u32, stride_y in 1..3u32, less in 0..2u32,
        precision in prop_oneof![Just(Precision::Int8), Just(Precision::Int16), Just(Precision::Fp16)],
    ) {
        let (rows, columns) = (3 * stride_y - less.min(stride_y - 1), 3 * stride_x - less.min(stride_x - 1));
        let extents = Extents::new(kernels, channels, rows, columns);
        let geometry = Geometry::documented(precision);
        let layout = Winograd::new(extents, stride_x, stride_y, geometry).unwrap();
        // Channels are filled up to 32 bytes, and extended for each position of the stride.
        let filled = (channels * bytes(precision)).next_multiple_of(32) / bytes(precision);
        let extended = filled * stride_x * stride_y;
        prop_assert_eq!((layout.padded_channels(), layout.extended_channels()), (filled, extended));
        check_of(layout, &padded(winograd(kernels, extended, geometry), geometry));
        // Each original weight enters exactly one place of the extended kernel.
        let mut seen = std::collections::HashSet::new();
        for c in 0..extended {
            for y in 0..3 {
                for x in 0..3 {
                    if let Some(source) = layout.source(c, y, x) {
                        prop_assert!(seen.insert(source));
                        prop_assert_eq!(c % filled, source.0);
                        prop_assert_eq!(y, source.1 / stride_y);
                        prop_assert_eq!(x, source.2 / stride_x);
                        let position = (source.1 % stride_y) * stride_x + source.2 % stride_x;
                        prop_assert_eq!(c / filled, position);
                    }
                }
            }
        }
        prop_assert_eq!(seen.len() as u32, channels * rows * columns);
    }

    #[test]
    fn deconvolution_sets_are_direct_weights(
        kernels in 1..40u32, channels in 1..40u32, rows in 1..6u32, columns in 1..6u32, stride_x in 1..4u32, stride_y in 1..4u32,
        geometry in geometry(),
    ) {
        let extents = Extents::new(kernels, channels, rows, columns);
        let layout = Deconvolution::new(extents, stride_x, stride_y, geometry).unwrap();
        prop_assert_eq!(layout.sets(), stride_x * stride_y);
        let set = Extents::new(kernels, channels, rows.div_ceil(stride_y), columns.div_ceil(stride_x));
        prop_assert_eq!(layout.set().extents(), set);
        let mut slots = Slots::new();
        for y in 0..stride_y {
            for x in 0..stride_x {
                let of_set = direct(set, geometry).into_iter().map(|slot| {
                    slot.map(|at| Index::new(at.n, at.c, at.h * stride_y + y, at.w * stride_x + x))
                        .filter(|at| at.h < rows && at.w < columns)
                });
                slots.extend(padded(of_set.collect(), geometry));
            }
        }
        check_of(layout, &slots);
    }

    #[test]
    fn winograd_conversion_is_gwgt(plane in prop::array::uniform3(prop::array::uniform3(any::<i16>())), scale in 1..200i16, truncate in 0..12u8) {
        const G: [[f64; 3]; 4] = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]];
        for precision in [Precision::Int8, Precision::Int16] {
            let plane = plane.map(|row| row.map(|w| if precision == Precision::Int8 { w >> 8 } else { w }));
            let scaling = Scaling { scale, truncate };
            let converted = convert_plane(plane.map(|row| row.map(|w| w as u16)), precision, scaling);
            let (low, high) = nvdla_uapi::layout::precision::saturation(precision);
            for y in 0..4 {
                for x in 0..4 {
                    let mut sum = 0.0;
                    for i in 0..3 {
                        for j in 0..3 {
                            sum += G[y][i] * f64::from(plane[i][j]) * G[x][j];
                        }
                    }
                    // f64::round rounds half away from zero.
                    let expected = (sum * f64::from(scale) / f64::from(1u32 << truncate)).round();
                    let expected = expected.clamp(f64::from(low), f64::from(high)) as i32;
                    let got = if precision == Precision::Int8 { i32::from(converted[y][x] as i8) } else { i32::from(converted[y][x] as i16) };
                    prop_assert_eq!(got, expected);
                }
            }
        }
    }
}

/// The value of an fp16, and the fp16 nearest to a value, by table.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        _ => sign * (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

fn nearest_half(value: f64) -> u16 {
    let candidates = (0..0x7c00u16).min_by(|a, b| {
        let (da, db) = ((half(*a) - value.abs()).abs(), (half(*b) - value.abs()).abs());
        da.total_cmp(&db).then((a & 1).cmp(&(b & 1)))
    });
    candidates.unwrap() | if value < 0.0 { 0x8000 } else { 0 }
}

#[test]
fn winograd_conversion_of_fp16_rounds_once() {
    const G: [[f64; 3]; 4] = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]];
    let planes: [[[u16; 3]; 3]; 3] = [
        [[0x3c01, 0xbc02, 0x0001], [0x4200, 0x3555, 0x8001], [0x7bff, 0x0400, 0x3bff]],
        [[0x3555; 3]; 3],
        [[0x0001, 0x0002, 0x0003], [0x03ff, 0x0400, 0x0401], [0x8003, 0x1234, 0x9abc]],
    ];
    for plane in planes {
        let converted = convert_plane(plane, Precision::Fp16, Scaling::NONE);
        for y in 0..4 {
            for x in 0..4 {
                let mut sum = 0.0;
                for i in 0..3 {
                    for j in 0..3 {
                        sum += G[y][i] * half(plane[i][j]) * G[x][j];
                    }
                }
                let expected = nearest_half(sum);
                assert!(converted[y][x] == expected || (sum == 0.0 && converted[y][x] == 0), "{y} {x}: {sum}");
            }
        }
    }
    // A NaN stays where it enters; an infinity counts as 65504.
    let mut plane = [[0u16; 3]; 3];
    plane[0][0] = 0x7e00;
    let converted = convert_plane(plane, Precision::Fp16, Scaling::NONE);
    let nans: Vec<bool> = converted.iter().flatten().map(|w| nvdla_uapi::layout::precision::is_nan(*w)).collect();
    assert_eq!(nans, [[true, true, true, false]; 3].concat().into_iter().chain([false; 4]).collect::<Vec<_>>());
    plane[0][0] = 0x7c00;
    assert_eq!(convert_plane(plane, Precision::Fp16, Scaling::NONE)[0][0], 0x7bff);
}

#[test]
fn winograd_weights_are_extended_converted_and_mapped() {
    let extents = Extents::new(5, 3, 6, 5);
    let layout = Winograd::new(extents, 2, 2, Geometry::documented(Precision::Int16)).unwrap();
    for order in [Order::Nchw, Order::Nhwc] {
        let plain: Vec<i16> = values(extents.elements());
        let mut memory = vec![0xff; layout.size() as usize];
        layout.convert(order, &plain, Scaling { scale: 1, truncate: 2 }, &mut memory).unwrap();
        let mut converted = vec![0i16; layout.extents().elements() as usize];
        layout.unpack(Order::Nchw, &memory, &mut converted).unwrap();
        for k in 0..5 {
            for c in 0..layout.extended_channels() {
                let mut plane = [[0u16; 3]; 3];
                for (y, row) in plane.iter_mut().enumerate() {
                    for (x, weight) in row.iter_mut().enumerate() {
                        let (position, c) = (c / 16, c % 16);
                        let (r, s) = (y as u32 * 2 + position / 2, x as u32 * 2 + position % 2);
                        if c < 3 && r < 6 && s < 5 {
                            *weight = plain[extents.plain(order, Index::new(k, c, r, s)) as usize] as u16;
                        }
                    }
                }
                let expected = convert_plane(plane, Precision::Int16, Scaling { scale: 1, truncate: 2 });
                for y in 0..4 {
                    for x in 0..4 {
                        let at = layout.extents().plain(Order::Nchw, Index::new(k, c, y, x)) as usize;
                        assert_eq!(converted[at] as u16, expected[y as usize][x as usize]);
                    }
                }
            }
        }
    }
}

#[test]
fn the_documents_hardware_is_nv_full() {
    for precision in [Precision::Int8, Precision::Int16, Precision::Fp16] {
        let config = Config::by_name("nv_full").unwrap();
        assert_eq!(Geometry::of(config, precision), Geometry::documented(precision));
    }
    // One group has 32 kernels of int8 and 16 of int16 and fp16; small cubes have 64 elements: 64 or 128 bytes.
    let int8 = Geometry::documented(Precision::Int8);
    let int16 = Geometry::documented(Precision::Int16);
    assert_eq!((int8.group_kernels, int8.cube_channels * int8.element_bytes()), (32, 64));
    assert_eq!((int16.group_kernels, int16.cube_channels * int16.element_bytes()), (16, 128));
    let small = Geometry::of(Config::by_name("nv_small").unwrap(), Precision::Int8);
    assert_eq!((small.group_kernels, small.cube_channels, small.alignment), (8, 8, 8));
}

#[test]
fn a_group_of_3x3x192_bytes() {
    // Figure 13: three blocks of 64 channels; in each, nine positions of 32 kernels.
    let weights = Direct::new(Extents::new(32, 192, 3, 3), Geometry::documented(Precision::Int8)).unwrap();
    assert_eq!(weights.offset(1, 0, 0, 0), 64);
    assert_eq!(weights.offset(0, 0, 0, 1), 32 * 64);
    assert_eq!(weights.offset(0, 0, 1, 0), 3 * 32 * 64);
    assert_eq!(weights.offset(0, 64, 0, 0), 9 * 32 * 64);
    assert_eq!(weights.size(), 32 * 192 * 9);
}

#[test]
fn only_the_end_is_padded() {
    let weights = Direct::new(Extents::new(33, 70, 1, 1), Geometry::documented(Precision::Int8)).unwrap();
    assert_eq!(weights.offset(1, 64, 0, 0) - weights.offset(0, 64, 0, 0), 6);
    assert_eq!(weights.offset(32, 0, 0, 0), 32 * 70);
    assert_eq!((weights.mapped_bytes(), weights.size()), (33 * 70, 2432));
}

#[test]
fn pre_extension_makes_a_line_one_column() {
    // Figure 14: int16 image input of three channels.
    let image =
        Image::new(Extents::new(2, 3, 3, 3), Geometry::documented(Precision::Int16), PostExtension::One).unwrap();
    assert_eq!(image.pre_extended().extents(), Extents::new(2, 9, 3, 1));
    assert_eq!(image.extended_channel(2, 1), 5);
    assert_eq!(image.offset(0, 2, 0, 1), 10);
}

#[test]
fn post_extension_limits_channels_and_pads_no_rows() {
    let int8 = Geometry::documented(Precision::Int8);
    let new = |channels, rows, lines| {
        Image::new(Extents::new(2, channels, rows, 1), int8, PostExtension::from_lines(lines).unwrap())
    };
    assert!(new(32, 4, 2).is_ok() && new(16, 4, 4).is_ok());
    let error = new(33, 4, 2).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::PostExtensionChannels, 33, 32));
    assert_eq!(new(17, 4, 4).unwrap_err().limit, 16);
    // Five lines by two: the fifth is a group alone.
    let odd = new(4, 5, 2).unwrap();
    assert_eq!(odd.mapped_bytes(), 2 * 4 * 5);
    assert_eq!(odd.offset(1, 0, 0, 0), 8);
    assert_eq!(odd.offset(0, 0, 4, 0), 32);
    assert_eq!(odd.offset(1, 0, 4, 0), 36);
    assert_eq!(PostExtension::from_lines(3).unwrap_err().rule, Rule::PostExtension);
}

#[test]
fn winograd_kernels_are_three_wide_after_extension() {
    let geometry = Geometry::documented(Precision::Int8);
    assert!(Winograd::new(Extents::new(1, 32, 3, 3), 1, 1, geometry).is_ok());
    assert!(Winograd::new(Extents::new(1, 32, 6, 5), 2, 2, geometry).is_ok());
    let error = Winograd::new(Extents::new(1, 32, 5, 5), 1, 1, geometry).unwrap_err();
    assert_eq!((error.rule, error.value, error.limit), (Rule::WinogradKernel, 5, 3));
    assert_eq!(Winograd::new(Extents::new(1, 1, 3, 3), 0, 1, geometry).unwrap_err().rule, Rule::Stride);
    assert_eq!(Deconvolution::new(Extents::new(1, 1, 3, 3), 1, 0, geometry).unwrap_err().rule, Rule::Stride);
    let none = Geometry { cube_channels: 0, ..geometry };
    assert_eq!(Direct::new(Extents::new(1, 1, 1, 1), none).unwrap_err().rule, Rule::AtomicC);
    let none = Geometry { group_kernels: 0, ..geometry };
    assert_eq!(Direct::new(Extents::new(1, 1, 1, 1), none).unwrap_err().rule, Rule::AtomicK);
    let none = Geometry { alignment: 0, ..geometry };
    assert_eq!(Direct::new(Extents::new(1, 1, 1, 1), none).unwrap_err().rule, Rule::WeightAlignment);
    let huge = Extents::new(u32::MAX, u32::MAX, u32::MAX, u32::MAX);
    assert_eq!(Direct::new(huge, geometry).unwrap_err().rule, Rule::Size);
    assert_eq!(Deconvolution::new(huge, 1, 1, geometry).unwrap_err().rule, Rule::Size);
    assert_eq!(Image::new(huge, geometry, PostExtension::One).unwrap_err().rule, Rule::Size);
}

#[test]
fn winograd_cubes_take_64_or_128_bytes_and_kernels_change_before_channels() {
    for (precision, cube, kernels) in
        [(Precision::Int8, 64, 32), (Precision::Int16, 128, 16), (Precision::Fp16, 128, 16)]
    {
        let layout = Winograd::new(Extents::new(33, 64, 3, 3), 1, 1, Geometry::documented(precision)).unwrap();
        assert_eq!(layout.offset(1, 0, 0, 0), cube);
        assert_eq!(layout.offset(0, 4, 0, 0), cube * kernels);
        assert_eq!(layout.offset(kernels as u32, 0, 0, 0), cube * kernels * 16);
        check_addresses(
            &layout,
            &padded(winograd(33, 64, Geometry::documented(precision)), Geometry::documented(precision)),
        );
    }
}
