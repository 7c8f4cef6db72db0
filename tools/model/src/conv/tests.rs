// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares the fast implementation with the reference, for random convolutions on each instruction set.

use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE};
use nvdla_uapi::reg::values::{PixelFormat, Precision};
use nvdla_uapi::reg::Block;
use proptest::prelude::*;

use super::cbuf::{Input, Weights};
use super::fast::fp16;
use super::fast::sink::{Bounds, BoundsSink, Exact, Position};
use super::operation::{Operation, Size};
use super::{fast, reference, State};
use crate::stream::{Samples, Stream};
use crate::support::bytes::{bits, noise};
use crate::support::program::{Program, Source, Surfaces};
use nvdla_uapi::isa::Isa;

fn surfaces(program: &Program, seed: u64) -> Surfaces {
    let (data, mut weights) = (noise(seed, program.input_bytes()), noise(!seed, program.weight_bytes()));
    let mut data = data;
    if program.precision == Precision::Fp16 {
        // Most exponents near each other, some far away, and some zeros.
        for bytes in [&mut data, &mut weights] {
            for (index, pair) in bytes.chunks_exact_mut(2).enumerate() {
                match (index as u64 ^ seed) % 7 {
                    0 => pair.fill(0),
                    1 | 2 => pair[1] &= 0xbf,
                    _ => pair[1] = pair[1] & 0x87 | 0x38,
                }
            }
            for pair in bytes.chunks_exact_mut(2) {
                if pair[1] & 0x7c == 0x7c && (seed & 3 != 0 || pair[0] & 0x3f != 0) {
                    pair[1] &= 0xbf;
                }
            }
        }
    }
    Surfaces::new(program, data, weights)
}

/// Largest number of multiplications per test case, for which the reference is fast enough.
const MACS: usize = 400_000;

/// Reduces the sizes until at most [`MACS`] multiplications remain.
fn smaller(mut program: Program) -> Program {
    while program.macs().is_some_and(|macs| macs > MACS) {
        if program.kernels > 40 {
            program.kernels -= 32;
        } else if program.input.channels > 70 {
            program.input.channels -= 64;
        } else if program.source != Source::Winograd && program.input.height > program.kernel[1] * 2 {
            program.input.height -= program.kernel[1];
        } else if program.kernels > 8 {
            program.kernels -= 8;
        } else {
            break;
        }
    }
    program
}

/// A sink that checks the bounds and the exact sums.
struct Checking<'a> {
    expected: &'a Stream,
    isa: Isa,
}

impl BoundsSink for Checking<'_> {
    type Out = u32;

    fn begin(&self, _: Position) {}

    fn take(&self, position: Position, bounds: Bounds<'_>, exact: Exact<'_>, out: &mut [u32]) {
        let Samples::Float(samples) = &self.expected.samples else { panic!("fp16 gives floats") };
        let Stream { width, height, lanes, .. } = *self.expected;
        let surface = position.batch * self.expected.surfaces() + position.surface;
        let samples = &samples[(surface * height * width + position.first) * lanes..][..out.len()];
        let mut sums = vec![0.0; out.len()];
        let wanted: Vec<u16> = (0..out.len() as u16).filter(|index| index % 5 != 3).collect();
        exact(&wanted, &mut sums);
        let rest: Vec<u16> = (0..out.len() as u16).filter(|index| index % 5 == 3).collect();
        exact(&rest, &mut sums);
        for (index, out) in out.iter_mut().enumerate() {
            let (low, sum, high) = (bounds.low[index], samples[index], bounds.high[index]);
            assert!(low <= sum && sum <= high, "{}: {low:e} {sum:e} {high:e}", self.isa.name());
            // Compare bits, to include the signs of zeros.
            *out = sums[index].to_bits();
            assert_eq!(*out, sum.to_bits(), "{}: {sum:e} at {index}", self.isa.name());
        }
    }
}

/// Compares the bounds of an fp16 operation with the reference. Returns whether bounds were computed.
fn compare_bounds(
    scratch: &mut fp16::Buffers,
    isa: Isa,
    operation: &Operation,
    input: &Input<'_>,
    weights: &[u8],
    expected: &Stream,
) -> bool {
    let sink = Checking { expected, isa };
    // Packed for this run; packed for the cache; and from the cache.
    let given = [None, Some(1), Some(1)].map(|version| {
        let mut out = vec![0; operation.sums()];
        let weights = Weights { bytes: weights.into(), version };
        let given = fp16::bounds::run(scratch, isa, operation, input, &weights, &sink, &mut out);
        if given {
            assert_eq!(bits(expected), out, "{}", isa.name());
        }
        given
    });
    assert_eq!(given, [given[0]; 3]);
    given[0]
}

/// Compares each instruction set with the reference.
fn compare(program: &Program, seed: u64) -> Result<(), TestCaseError> {
    let program = &smaller(*program);
    compare_on(program, &surfaces(program, seed))
}

/// Like [`compare`], with the given input and weights.
fn compare_on(program: &Program, memory: &Surfaces) -> Result<(), TestCaseError> {
    let Some(registers) = program.registers() else { return Ok(()) };
    let operation = Operation::new(program.config, &registers.blocks());
    let operation = operation.map_err(|stop| TestCaseError::fail(format!("{program:?}: {stop}")))?;
    let mut state = State::new();
    let weights = state.buffer.weights(&operation, memory).map_err(|stop| TestCaseError::fail(stop.to_string()))?;
    let mut fetch = |isa| {
        let input = state.buffer.input(isa, &operation, memory);
        input.map_err(|stop| TestCaseError::fail(stop.to_string()))
    };
    let input: Input<'_> = fetch(Isa::Portable)?;
    for isa in Isa::available() {
        prop_assert!(fetch(isa)?.bytes == input.bytes, "{isa:?}: the fetched input of {program:?}");
    }
    let (expected, limited) = reference::run(&operation, &input, &weights);
    let mut scratch = fast::Scratch::default();
    let mut buffers = fp16::Buffers::default();
    for isa in Isa::available() {
        if fp16::bounds::suits(&operation) {
            let bounded = compare_bounds(&mut buffers, isa, &operation, &input, &weights, &expected);
            let Samples::Float(samples) = &expected.samples else { panic!("fp16 gives floats") };
            // Bounds are not computed if a sum is a NaN.
            prop_assert!(!bounded || samples.iter().all(|sample| sample.is_finite()));
        }
        // Twice, because the second run reuses the buffers of the first, and twice with cached panels.
        for version in [None, None, Some(1), Some(1)] {
            let weights = Weights { version, ..weights.clone() };
            let (got, got_limited) = fast::run(&mut scratch, isa, &operation, &input, &weights);
            let difference = bits(&expected).iter().zip(bits(&got)).position(|(&a, b)| a != b);
            prop_assert_eq!(difference, None, "{} {:?}", isa.name(), program);
            prop_assert_eq!((got.width, got.height, got.lanes), (expected.width, expected.height, expected.lanes));
            prop_assert_eq!(got_limited, limited);
            scratch.recycle(got);
        }
    }
    Ok(())
}

fn sizes(channels: usize) -> impl Strategy<Value = Size> {
    (1..30usize, 1..14usize, 1..channels).prop_map(|(width, height, channels)| Size { width, height, channels })
}

prop_compose! {
    fn feature(precision: Precision)(
        config in proptest::sample::select(match precision {
            Precision::Int8 => Config::ALL.to_vec(),
            _ => vec![&NV_FULL],
        }),
        input in sizes(160),
        kernel in [1..6usize, 1..5usize],
        kernels in 1..70usize,
        stride in [1..4usize, 1..4usize],
        dilation in [1..3usize, 1..3usize],
        pads in [0..4usize, 0..4usize, 0..4usize, 0..4usize],
        pad_value in any::<u16>(),
        batch in 1..4usize,
        truncate in prop_oneof![Just(0), 0..32u32],
    ) -> Program {
        let batch = if config.batch { batch } else { 1 };
        let pad_value = if precision == Precision::Fp16 { pad_value & 0x3fff } else { pad_value };
        Program { kernel, stride, dilation, pads, pad_value, batch, truncate,
            ..Program::feature(config, precision, input, 1, kernels) }
    }
}

prop_compose! {
    fn image()(
        config in proptest::sample::select(Config::ALL.to_vec()),
        format in proptest::sample::select(vec![PixelFormat::R8, PixelFormat::A8B8G8R8, PixelFormat::R8G8B8X8]),
        input in sizes(2),
        kernel in [1..8usize, 1..8usize],
        kernels in 1..70usize,
        stride in [1..4usize, 1..4usize],
        pads in [0..4usize, 0..4usize, 0..4usize, 0..4usize],
        pad_value in any::<u16>(),
        extension in 0..3u32,
    ) -> Program {
        let channels = kernel[0] * if format == PixelFormat::R8 { 1 } else { 4 };
        let fits = channels << extension <= config.mac_atomic_c as usize;
        let extension = if fits { 1 << extension } else { 1 };
        Program { source: Source::Pixel(format, extension), stride, pads, pad_value, kernel,
            ..Program::feature(config, Precision::Int8, input, 1, kernels) }
    }
}

prop_compose! {
    fn winograd(precision: Precision)(
        tiles in [2..6usize, 2..4usize],
        channels in 1..70usize,
        kernels in 1..50usize,
        stride in [1..3usize, 1..3usize],
        pads in [0..4usize, 0..4usize, 0..4usize, 0..4usize],
        pad_value in any::<u16>(),
        pra_truncate in 0..4u32,
        truncate in prop_oneof![Just(0), 0..32u32],
    ) -> Program {
        let input = Size {
            width: tiles[0] * 4 * stride[0] - pads[0] - pads[1],
            height: tiles[1] * 4 * stride[1] - pads[2] - pads[3],
            channels,
        };
        let pad_value = if precision == Precision::Fp16 { pad_value & 0x3fff } else { pad_value };
        Program { source: Source::Winograd, stride, pads, pad_value, truncate, pra_truncate,
            ..Program::feature(&NV_FULL, precision, input, 1, kernels) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn int8_features(program in feature(Precision::Int8), seed in any::<u64>()) {
        compare(&program, seed)?;
    }

    /// Multiples of 16 channels and kernels, for which some instruction sets have their own packing.
    #[test]
    fn int8_round_features(program in feature(Precision::Int8), seed in any::<u64>()) {
        let input = Size { channels: program.input.channels.next_multiple_of(16), ..program.input };
        compare(&Program { input, kernels: program.kernels.next_multiple_of(16), ..program }, seed)?;
    }

    #[test]
    fn images(program in image(), seed in any::<u64>()) {
        compare(&program, seed)?;
    }

    #[test]
    fn int16_features(program in feature(Precision::Int16), seed in any::<u64>()) {
        compare(&program, seed)?;
    }

    #[test]
    fn fp16_features(program in feature(Precision::Fp16), seed in any::<u64>()) {
        compare(&program, seed)?;
    }

    #[test]
    fn int8_winograd(program in winograd(Precision::Int8), seed in any::<u64>()) {
        compare(&program, seed)?;
    }

    #[test]
    fn int16_winograd(program in winograd(Precision::Int16), seed in any::<u64>()) {
        compare(&program, seed)?;
    }

    #[test]
    fn fp16_winograd(program in winograd(Precision::Fp16), seed in any::<u64>()) {
        compare(&program, seed)?;
    }

    /// Any register values lead to an output or an error, never to a panic.
    #[test]
    fn random_registers(
        program in feature(Precision::Int8),
        changes in proptest::collection::vec((0..5usize, 4..0x3a_usize, any::<u32>()), 0..4),
    ) {
        let Some(mut registers) = program.registers() else { return Ok(()) };
        for (block, word, value) in changes {
            let block = [Block::Cdma, Block::Csc, Block::CmacA, Block::CmacB, Block::Cacc][block];
            let described = block.registers().iter().find(|known| usize::from(known.register.offset) == 4 * word);
            if let Some(described) = described {
                registers.set(block, described.register, value & described.register.writable);
            }
        }
        let memory = surfaces(&program, 1);
        let _ = super::run(&mut State::new(), program.config, &registers.blocks(), &memory);
    }
}

#[test]
fn the_largest_products_are_exact() {
    // Two products (-128)^2 = 2^14 overflow 16 bits.
    for kernels in [16, 17] {
        let input = Size { width: 9, height: 4, channels: 80 };
        let program = Program::feature(&NV_LARGE, Precision::Int8, input, 3, kernels);
        assert!(program.registers().is_some());
        let [data, weights] = [program.input_bytes(), program.weight_bytes()].map(|length| vec![0x80; length]);
        compare_on(&program, &Surfaces::new(&program, data, weights)).unwrap();
    }
}
