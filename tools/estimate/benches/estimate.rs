// SPDX-License-Identifier: MIT OR Apache-2.0

//! Measures nanoseconds per call. A compiler calls the estimate for each of its decisions, millions of times, so the limit is 200
//! ns.

#![allow(missing_docs)] // criterion's macros

use criterion::{criterion_group, criterion_main, Criterion};
use nvdla_estimate::{pdp, pipeline, sdp, ConvShape, Cube, Image, Memory, PdpShape, SdpShape};
use nvdla_uapi::config::{NV_FULL, NV_LARGE, NV_SMALL};
use std::hint::black_box;
use std::time::Instant;

const LIMIT: f64 = 200.0;
const CALLS: u32 = 200_000;

fn measure(criterion: &mut Criterion, name: &str, mut call: impl FnMut() -> u64) {
    criterion.bench_function(name, |bencher| bencher.iter(&mut call));
    let start = Instant::now();
    let sum: u64 = (0..CALLS).map(|_| call() & 1).sum();
    black_box(sum);
    let each = start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS);
    println!("{name}: {each:.0} ns per call, {:.2} of the limit of {LIMIT} ns", each / LIMIT);
}

fn estimate(criterion: &mut Criterion) {
    for config in [&NV_SMALL, &NV_LARGE, &NV_FULL] {
        let memory = Memory::new(config, 100, 10.0);
        let output = Cube::int8(128, 28, 27);
        let direct = ConvShape { weight_banks: 4, ..ConvShape::direct(Cube::int8(64, 30, 29), 128, (3, 3), output) };
        let image = ConvShape {
            image: Some(Image { pixel_bytes: [4, 0], lines: 1 }),
            ..ConvShape::direct(Cube::int8(4, 224, 224), 64, (7, 1), Cube::int8(64, 112, 109))
        };
        let after = SdpShape::new(output.on_the_fly(), output);
        let alone = SdpShape::new(output, output);
        let pooling = PdpShape::new(output, Cube::int8(128, 14, 14), (2, 2), (2, 2));
        let name = |kind: &str| format!("{} {kind}", config.name);
        measure(criterion, &name("convolution"), || {
            pipeline(Some(black_box(&direct)), Some(black_box(&after)), None, config, &memory).cycles
        });
        measure(criterion, &name("image"), || {
            pipeline(Some(black_box(&image)), Some(black_box(&after)), None, config, &memory).cycles
        });
        measure(criterion, &name("SDP"), || sdp(black_box(&alone), config, &memory).cycles);
        measure(criterion, &name("PDP"), || pdp(black_box(&pooling), config, &memory).cycles);
    }
}

criterion_group!(benches, estimate);
criterion_main!(benches);
