// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Vector code and threads against the portable code, on shapes with whole tiles and cut ones.

use std::process::Command;

use crate::naive::values;
use nvdla_uapi::isa::Isa;
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::pixel::{Format, Image, Kind};
use nvdla_uapi::layout::weight::{Direct, Geometry};
use nvdla_uapi::layout::{half, pack_portable, unpack_portable, Element, Extents, Layout, Order, Rule};
use nvdla_uapi::reg::values::{PixelFormat, Precision};

fn check<L: Layout, T: Element + std::fmt::Debug>(layout: L) {
    let plain: Vec<T> = values(layout.extents().elements());
    for order in [Order::Nchw, Order::Nhwc] {
        let mut memory = vec![0x5a; layout.size() as usize];
        let mut expected = memory.clone();
        layout.pack(order, &plain, &mut memory).unwrap();
        pack_portable(&layout, order, &plain, &mut expected);
        assert!(memory == expected, "{:?} {order:?}", layout.extents());
        let mut back = vec![T::default(); plain.len()];
        layout.unpack(order, &memory, &mut back).unwrap();
        let mut expected = vec![T::default(); plain.len()];
        unpack_portable(&layout, order, &memory, &mut expected);
        assert!(back == expected && back == plain, "{:?} {order:?}", layout.extents());
    }
}

#[test]
fn cubes_of_many_shapes() {
    let shapes = [(1, 32, 8, 16), (2, 70, 3, 65), (1, 31, 1, 128), (1, 16, 9, 64), (3, 8, 2, 100), (1, 100, 11, 67)];
    for (n, c, h, w) in shapes {
        let extents = Extents::new(n, c, h, w);
        for atom in [8, 16, 32] {
            for gap in [0, 1] {
                let of = |precision| {
                    let line = u64::from((w + gap) * atom);
                    Cube::unpacked(extents, precision, atom, line, line * u64::from(h + gap)).unwrap()
                };
                check::<_, i8>(of(Precision::Int8));
                check::<_, u16>(of(Precision::Fp16));
            }
        }
    }
}

#[test]
fn a_cube_that_threads_share() {
    check::<_, i8>(Cube::packed(Extents::new(1, 100, 290, 301), Precision::Int8, 32).unwrap());
    check::<_, i16>(Cube::packed(Extents::new(2, 33, 290, 301), Precision::Int16, 32).unwrap());
}

#[test]
fn weights_of_many_shapes() {
    for (side, kernels, channels) in [(1, 40, 130), (2, 33, 64), (3, 35, 200), (4, 3, 64), (5, 33, 65), (7, 2, 64)] {
        let extents = Extents::new(kernels, channels, side, side);
        check::<_, i8>(Direct::new(extents, Geometry::documented(Precision::Int8)).unwrap());
        check::<_, u16>(Direct::new(extents, Geometry::documented(Precision::Fp16)).unwrap());
        for cube_channels in [16, 80] {
            let other = Geometry { cube_channels, group_kernels: 5, alignment: 8, precision: Precision::Int8 };
            check::<_, i8>(Direct::new(extents, other).unwrap());
            check::<_, u16>(Direct::new(extents, Geometry { precision: Precision::Fp16, ..other }).unwrap());
        }
        let small = Geometry { cube_channels: 8, group_kernels: 8, alignment: 8, precision: Precision::Int8 };
        check::<_, i8>(Direct::new(extents, small).unwrap());
    }
}

#[test]
fn rgb_of_every_format() {
    for format in PixelFormat::ALL {
        let it = Format::new(*format);
        for (width, height, gap) in [(1, 3, 0), (15, 2, 1), (16, 1, 0), (17, 3, 2), (47, 2, 0), (64, 4, 1)] {
            let tight = Image::packed(*format, width, height, 1.min(it.max_x_offset), 32).unwrap();
            let strides = [0, 1].map(|plane| tight.line_stride(plane) + gap * 32);
            let image = Image::unpacked(*format, width, height, tight.x_offset(), 32, strides).unwrap();
            let rgb: Vec<u8> = values((width * height * 3).into());
            let mut planes = [0, 1].map(|plane| vec![0x77; image.span(plane) as usize]);
            let [first, second] = &mut planes;
            let result = image.pack_rgb(&rgb, 0x9c, [first, second]);
            if it.channels == 1 {
                assert_eq!(result.unwrap_err().rule, Rule::PixelRgb);
                continue;
            }
            result.unwrap();
            // The same through plain values: bits repeated, or the number as fp16.
            let widen = |value: u8, bits: u8| match it.kind {
                Kind::Float => half::from_fixed(i64::from(value), 0),
                _ => ((u32::from(value) * 0x0101) >> (16 - bits)) as u16,
            };
            let mut plain = Vec::new();
            for pixel in rgb.chunks(3) {
                for (channel, component) in it.components().iter().enumerate() {
                    plain.push(widen(pixel.get(channel).copied().unwrap_or(0x9c), component.bits));
                }
            }
            let mut expected = [0, 1].map(|plane| vec![0; image.span(plane) as usize]);
            let [a, b] = &mut expected;
            if it.component_bytes() == 1 {
                let plain: Vec<u8> = plain.iter().map(|value| *value as u8).collect();
                image.pack(Order::Nhwc, &plain, [a, b]).unwrap();
            } else {
                image.pack(Order::Nhwc, &plain, [a, b]).unwrap();
            }
            let different =
                (0..2).find_map(|plane| planes[plane].iter().zip(&expected[plane]).position(|(a, b)| a != b));
            assert_eq!(different, None, "{} {width}x{height}", it.name);
        }
    }
}

/// The program of this test, run as Cargo runs it, which may be under an emulator.
fn this_program() -> Command {
    let runner = format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER", std::env::consts::ARCH.to_uppercase());
    let runner = std::env::var(runner).unwrap_or_default();
    let program = std::env::current_exe().unwrap();
    let mut words = runner.split_whitespace();
    let Some(first) = words.next() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(words).arg(program);
    command
}

/// The instruction set of a process cannot change, so each has a process of its own, which runs the tests of vector code.
#[test]
fn each_instruction_set_of_this_machine() {
    for isa in Isa::available() {
        let output = this_program()
            .args(["bulk::", "compress::", "--skip", "each_instruction_set_of_this_machine"])
            .env("NVDLA_ISA", isa.name())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !printed.contains("running 0 tests"), "{}:\n{printed}{failed}", isa.name());
    }
}
