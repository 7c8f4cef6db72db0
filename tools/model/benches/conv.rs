// SPDX-License-Identifier: MIT OR Apache-2.0

//! Convolution: multiplications per second for layers of known networks, with each instruction set on one thread,
//! beside the machine's own limit, which is a loop of the multiply instruction alone.

use std::time::Duration;

use criterion::{criterion_group, Criterion, Throughput};
use nvdla_model::conv::operation::Size;
use nvdla_model::conv::{run_with, State};
use nvdla_model::num::convert::fp32_to_fp16;
use nvdla_model::Isa;
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};
use nvdla_uapi::reg::values::{PixelFormat, Precision};

mod peak;
#[path = "../tests/support/program.rs"]
#[expect(dead_code, reason = "the benchmark changes no register")]
mod program;

use peak::peak;
use peak::shortest::shortest;
use program::{Program, Source, Surfaces};

fn surfaces(program: &Program) -> Surfaces {
    let mut seed = 1u64;
    let mut next = move || {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        seed >> 32
    };
    let half = program.precision == Precision::Fp16;
    // Half-precision operands as networks have them: bell-shaped weights, and data after a ReLU.
    let mut noise = |length: usize, weights: bool| -> Vec<u8> {
        let mut bell = || (0..6).map(|_| next() as f32 / 4_294_967_296.0).sum::<f32>() - 3.0;
        let mut bytes = Vec::with_capacity(length + 2);
        while bytes.len() < length {
            let value = bell();
            if half {
                let value = if weights { value * 0.05 } else { value.max(0.0) };
                bytes.extend_from_slice(&fp32_to_fp16(value.to_bits()).to_le_bytes());
            } else {
                bytes.extend_from_slice(&((value * 8000.0) as i16).to_le_bytes());
            }
        }
        bytes.truncate(length);
        bytes
    };
    let data = noise(program.input_bytes(), false);
    let weights = noise(program.weight_bytes(), true);
    Surfaces::new(program, data, weights)
}

fn layer(
    config: &'static Config,
    precision: Precision,
    side: usize,
    channels: usize,
    kernel: usize,
    kernels: usize,
) -> Program {
    Program::feature(config, precision, Size { width: side, height: side, channels }, kernel, kernels)
}

fn layers() -> Vec<(&'static str, Program)> {
    let int8 = |side, channels, kernel, kernels| layer(&NV_LARGE, Precision::Int8, side, channels, kernel, kernels);
    let image = Size { width: 224, height: 230, channels: 4 };
    let first = Program {
        source: Source::Pixel(PixelFormat::A8B8G8R8, 1),
        kernel: [7; 2],
        stride: [2; 2],
        pads: [3, 3, 0, 0],
        ..Program::feature(&NV_LARGE, Precision::Int8, image, 7, 64)
    };
    vec![
        ("int8 7x7x3/2, 64 kernels, 112x112 (image)", first),
        ("int8 3x3x64, 64 kernels, 56x56", int8(56, 64, 3, 64)),
        ("int8 1x1x64, 256 kernels, 56x56", int8(56, 64, 1, 256)),
        ("int8 1x1x512, 128 kernels, 28x28", int8(28, 512, 1, 128)),
        ("int8 3x3x256, 256 kernels, 14x14", int8(14, 256, 3, 256)),
        ("int8 3x3x512, 512 kernels, 7x7", int8(7, 512, 3, 512)),
        ("int8 1x1x2048, 1000 kernels, 1x1", int8(1, 2048, 1, 1000)),
        ("int8 3x3x16, 16 kernels, 32x32 (nv_small)", layer(&NV_SMALL, Precision::Int8, 32, 16, 3, 16)),
        ("int16 3x3x64, 64 kernels, 28x28", layer(&NV_FULL, Precision::Int16, 28, 64, 3, 64)),
        ("fp16 3x3x64, 64 kernels, 28x28", layer(&NV_FULL, Precision::Fp16, 28, 64, 3, 64)),
        ("fp16 1x1x256, 64 kernels, 14x14", layer(&NV_FULL, Precision::Fp16, 14, 256, 1, 64)),
        (
            "int8 Winograd 3x3x64, 64 kernels, 28x28",
            Program { source: Source::Winograd, pads: [1, 3, 1, 3], ..layer(&NV_FULL, Precision::Int8, 28, 64, 1, 64) },
        ),
        (
            "fp16 Winograd 3x3x64, 64 kernels, 28x28",
            Program { source: Source::Winograd, pads: [1, 3, 1, 3], ..layer(&NV_FULL, Precision::Fp16, 28, 64, 1, 64) },
        ),
    ]
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("conv");
    group.sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600));
    for (name, program) in layers() {
        let (Some(registers), Some(macs)) = (program.registers(), program.macs()) else { continue };
        let memory = surfaces(&program);
        let mut state = State::new();
        group.throughput(Throughput::Elements(macs as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let done = run_with(
                    Isa::in_use().expect("NVDLA_ISA"),
                    &mut state,
                    program.config,
                    &registers.blocks(),
                    &memory,
                );
                state.recycle(done.expect("the layer runs").output);
            });
        });
    }
    group.finish();
}

/// One row per layer: each instruction set's rate, and for int8 its share of the peak.
fn table() {
    let sets = Isa::available();
    let peaks: Vec<Option<f64>> = sets.iter().map(|&isa| peak(isa)).collect();
    println!("\nGMAC/s on one thread, and their share of a loop of the multiply instruction alone:");
    for (isa, peak) in sets.iter().zip(&peaks) {
        if let Some(peak) = peak {
            println!("  peak of int8 with {}: {:.1} GMAC/s", isa.name(), peak / 1e9);
        }
    }
    for (name, program) in layers() {
        let (Some(registers), Some(macs)) = (program.registers(), program.macs()) else { continue };
        let memory = surfaces(&program);
        let mut state = State::new();
        print!("  {name:45}");
        for (&isa, peak) in sets.iter().zip(&peaks) {
            let seconds = shortest(|| {
                let done = run_with(isa, &mut state, program.config, &registers.blocks(), &memory);
                state.recycle(done.expect("the layer runs").output);
            });
            let rate = macs as f64 / seconds.as_secs_f64();
            print!("{:>9} {:7.2}", isa.name(), rate / 1e9);
            match peak {
                Some(peak) if program.precision == Precision::Int8 => print!(" ({:3.0}%)", 100.0 * rate / peak),
                _ => print!("       "),
            }
        }
        println!();
    }
}

#[allow(missing_docs)]
mod group {
    use super::*;
    criterion_group!(benches, bench);
}
use group::benches;

fn main() {
    // The table first: it is for one thread, the benchmarks after it for all.
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    one.install(table);
    benches();
    Criterion::default().configure_from_args().final_summary();
}
