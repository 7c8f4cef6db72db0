// SPDX-License-Identifier: MIT OR Apache-2.0

//! The time to write a decoded picture into an input tensor, compared with memcpy of the tensor's bytes.

#![allow(missing_docs)] // criterion's macros

use std::hint::black_box;
use std::time::Instant;

use criterion::{criterion_group, criterion_main, Criterion};
use nvdla_runtime::image::{Encoder, Picture, Settings, Target};
use nvdla_runtime::loadable::{DataType, PixelFormat};

const SIDE: u32 = 224;

/// The seconds of one call: the least of many calls.
fn time(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..300 {
        let started = Instant::now();
        work();
        best = best.min(started.elapsed().as_secs_f64());
    }
    best
}

fn encoding(criterion: &mut Criterion) {
    let samples = |channels: u32| (0..SIDE * SIDE * channels).map(|n| (n * 37 % 256) as u8).collect::<Vec<_>>();
    let coloured = Picture::new(SIDE, SIDE, samples(3)).expect("3 samples per pixel");
    let grey = Picture::new(SIDE, SIDE, samples(1)).expect("1 sample per pixel");
    for (name, picture, format, data_type, channels, pixel) in [
        ("colour to A8B8G8R8", &coloured, PixelFormat::A8B8G8R8, DataType::Int8, 4, 4),
        ("colour to B8G8R8X8", &coloured, PixelFormat::B8G8R8X8, DataType::Int8, 4, 4),
        ("colour to A16B16G16R16_F", &coloured, PixelFormat::A16B16G16R16_F, DataType::Half, 4, 8),
        ("colour to A2B10G10R10", &coloured, PixelFormat::A2B10G10R10, DataType::Int16, 4, 4),
        ("colour to FEATURE int8", &coloured, PixelFormat::FEATURE, DataType::Int8, 3, 32),
        ("colour to FEATURE_X8", &coloured, PixelFormat::FEATURE_X8, DataType::Int8, 3, 8),
        ("grey to R8", &grey, PixelFormat::R8, DataType::Int8, 1, 1),
        ("grey to A8B8G8R8", &grey, PixelFormat::A8B8G8R8, DataType::Int8, 4, 4),
        ("grey to FEATURE fp16", &grey, PixelFormat::FEATURE, DataType::Half, 1, 32),
    ] {
        let line_stride = SIDE * pixel;
        let target = Target {
            name: "data".into(),
            format,
            data_type,
            channels,
            height: SIDE as i32,
            width: SIDE as i32,
            line_stride,
            surface_stride: line_stride * SIDE,
            unsigned: false,
        };
        let encoder = Encoder::new(&target, &Settings::default()).expect("a format for pictures");
        let mut tensor = vec![0; (line_stride * SIDE) as usize];
        let source = vec![1_u8; tensor.len()];
        criterion.bench_function(name, |bench| {
            bench.iter(|| encoder.encode(black_box(picture), black_box(&mut tensor)).expect("it fits"));
        });
        let encode = time(|| encoder.encode(black_box(picture), black_box(&mut tensor)).expect("it fits"));
        let copy = time(|| black_box(&mut tensor).copy_from_slice(black_box(&source)));
        println!(
            "{name}: {:.2} GB/s, {:.2} of memcpy's speed ({:.2} GB/s)",
            tensor.len() as f64 / encode / 1e9,
            copy / encode,
            tensor.len() as f64 / copy / 1e9
        );
    }
}

criterion_group!(benches, encoding);
criterion_main!(benches);
