// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares the vector code with the reference over random operations.

use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_MEDIUM_512, NV_SMALL};
use nvdla_uapi::reg::values::{Precision, RamType};
use nvdla_uapi::reg::{sdp as reg, sdp_rdma as rdma_reg, Block, Register};
use proptest::prelude::*;

use super::vector::{Decoded, OnFlying, Settings};
use super::{reference, run, vector, State};
use crate::conv::fast::sink::{Bounds, BoundsSink, Position, Sink};
use crate::memory::Stop;
use crate::registers::Registers;
use crate::stream::{Done, Form, Samples, Stream};
use crate::support::bytes::{bits, noise, set, Bytes};
use crate::support::random::Random;
use crate::support::sdp_copy::{copy, INPUT};
use nvdla_uapi::isa::Isa;

const BASE: u64 = INPUT as u64;
const OPERANDS: [u32; 3] = [0x18_0000, 0x1c_0000, 0x20_0000];
const OUTPUT: u32 = 0x28_0000;
const SIZE: usize = 0x20_0000;

fn word(random: &mut Random) -> u32 {
    (random.next() >> 32) as u32
}

/// Bits of any magnitude.
fn any_bits(random: &mut Random) -> u32 {
    let bits = word(random) >> random.below(32);
    if random.one_in(2) {
        bits
    } else {
        bits.wrapping_neg()
    }
}

/// An fp32 that can occur in the data path, including special values.
fn any_float(random: &mut Random) -> u32 {
    match random.below(40) {
        0 => word(random),
        1 => 0x7f80_0000 | (word(random) & 0x8000_0000),
        2 => word(random) & 0x8000_0000,
        _ => (word(random) & 0x80ff_ffff) + 0x3e00_0000 + (random.below(8) << 24),
    }
}

/// A random operation.
#[derive(Clone)]
struct Case {
    config: &'static Config,
    rdma: Registers,
    sdp: Registers,
    stream: Option<Stream>,
    state: State,
    memory: Bytes,
}

impl Case {
    fn new(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let config = random.pick(&[&NV_FULL, &NV_FULL, &NV_FULL, &NV_LARGE, &NV_MEDIUM_512, &NV_SMALL]);
        let full = config.name == "nv_full";
        let on_flying = random.one_in(2);
        // Operations as in networks: sums, products and ReLU, without counters.
        let simple = random.one_in(2);
        let int8 = [Precision::Int8; 3];
        let [input, processing, output] = if full {
            use Precision::{Fp16, Int16, Int8};
            random.pick(&[
                int8,
                int8,
                [Int16, Int16, Int16],
                [Fp16, Fp16, Fp16],
                [Fp16, Fp16, Fp16],
                [Int16, Int8, Int8],
                [Int8, Int8, Int16],
                [Int8, Int8, Fp16],
                [Int16, Int16, Fp16],
                [Fp16, Fp16, Int16],
            ])
        } else {
            int8
        };
        let (width, height): (u32, u32) = match random.below(4) {
            0 => (1, 1),
            1 => (1 + random.below(200), 1 + random.below(2)),
            _ => (1 + random.below(20), 1 + random.below(9)),
        };
        let (width, height, winograd) = if full && on_flying && random.one_in(8) {
            (width.next_multiple_of(2), height.next_multiple_of(4), true)
        } else {
            (width, height, false)
        };
        let channels: u32 = 1 + random.below(if width * height == 1 { 2000 } else { 70 });
        let batch = if full && on_flying && !winograd && random.one_in(8) { 1 + random.below(3) } else { 1 };

        let mut case = Self {
            config,
            rdma: Registers::reset(Block::SdpRdma),
            sdp: Registers::reset(Block::Sdp),
            stream: None,
            state: State::default(),
            memory: Bytes { base: BASE, bytes: noise(seed, SIZE) },
        };
        let atom = config.memory_atomic;
        let lanes = if processing == Precision::Int8 { atom } else { atom / 2 };
        let surfaces = channels.div_ceil(lanes);
        let to_pdp = batch == 1 && !winograd && random.one_in(6);

        for registers in [&mut case.rdma, &mut case.sdp] {
            let (width_register, height_register, channel_register) = if registers.block() == Block::Sdp {
                (reg::D_DATA_CUBE_WIDTH, reg::D_DATA_CUBE_HEIGHT, reg::D_DATA_CUBE_CHANNEL)
            } else {
                (rdma_reg::D_DATA_CUBE_WIDTH, rdma_reg::D_DATA_CUBE_HEIGHT, rdma_reg::D_DATA_CUBE_CHANNEL)
            };
            let extents =
                [(width_register, width - 1), (height_register, height - 1), (channel_register, channels - 1)];
            set(registers, &extents);
        }
        let mut stride = |atoms: u32, atom: u32| {
            let gap = if random.one_in(2) { 0 } else { atom * random.below(3) };
            atoms * atom + gap
        };
        let line = stride(width, atom);
        let output_line = stride(width, atom);
        let ram = RamType::Mcif as u32;
        set(
            &mut case.rdma,
            &[
                (rdma_reg::D_SRC_BASE_ADDR_LOW, INPUT),
                (rdma_reg::D_SRC_LINE_STRIDE, line),
                (rdma_reg::D_SRC_SURFACE_STRIDE, line * height),
                (rdma_reg::D_SRC_DMA_CFG, ram),
                (
                    rdma_reg::D_FEATURE_MODE_CFG,
                    u32::from(on_flying)
                        | u32::from(winograd) << 1
                        | (input as u32) << 2
                        | (processing as u32) << 4
                        | (output as u32) << 6
                        | (batch - 1) << 8,
                ),
                (rdma_reg::D_PERF_ENABLE, if simple { 0 } else { 3 }),
            ],
        );
        set(
            &mut case.sdp,
            &[
                (reg::D_DST_BASE_ADDR_LOW, OUTPUT),
                (reg::D_DST_LINE_STRIDE, output_line),
                (reg::D_DST_SURFACE_STRIDE, output_line * height),
                (reg::D_DST_BATCH_STRIDE, output_line * height * surfaces),
                (reg::D_DST_DMA_CFG, ram),
                (reg::D_DATA_FORMAT, processing as u32 | (output as u32) << 2),
                (
                    reg::D_FEATURE_MODE_CFG,
                    u32::from(on_flying)
                        | u32::from(to_pdp) << 1
                        | u32::from(winograd) << 2
                        | random.below(2) << 3
                        | (batch - 1) << 8,
                ),
                (reg::D_CVT_OFFSET, if random.one_in(2) { 0 } else { any_bits(random) }),
                (reg::D_CVT_SCALE, if random.one_in(3) { 1 } else { word(random) & 0xffff }),
                (reg::D_CVT_SHIFT, if random.one_in(3) { 0 } else { random.below(64) }),
                (reg::D_PERF_ENABLE, if simple { 0 } else { random.pick(&[0, 0xf]) }),
            ],
        );
        case.sub_units(random, width, height, lanes, simple);
        case.tables(random);
        if on_flying {
            case.stream = Some(stream(random, processing, [width, height, channels, lanes, batch]));
        }
        case
    }

    fn sub_units(&mut self, random: &mut Random, width: u32, height: u32, lanes: u32, simple: bool) {
        let float = self.sdp.get(reg::D_DATA_FORMAT) & 3 == Precision::Fp16 as u32;
        let dma: [(Register, Register, Register, Register); 3] = [
            (
                rdma_reg::D_BRDMA_CFG,
                rdma_reg::D_BS_BASE_ADDR_LOW,
                rdma_reg::D_BS_LINE_STRIDE,
                rdma_reg::D_BS_SURFACE_STRIDE,
            ),
            (
                rdma_reg::D_NRDMA_CFG,
                rdma_reg::D_BN_BASE_ADDR_LOW,
                rdma_reg::D_BN_LINE_STRIDE,
                rdma_reg::D_BN_SURFACE_STRIDE,
            ),
            (
                rdma_reg::D_ERDMA_CFG,
                rdma_reg::D_EW_BASE_ADDR_LOW,
                rdma_reg::D_EW_LINE_STRIDE,
                rdma_reg::D_EW_SURFACE_STRIDE,
            ),
        ];
        for (unit, (cfg, base, line_stride, surface_stride)) in dma.into_iter().enumerate() {
            let two_bytes = float || random.one_in(2);
            let data_use = random.pick(&[0, 1, 2, 2]);
            let per_element = random.below(2);
            let components = if data_use == 2 { 2 } else { 1 };
            let line = width * lanes * components * (1 + u32::from(two_bytes)) + 32 * random.pick(&[0, 0, 1]);
            let values = [
                (cfg, data_use << 1 | u32::from(two_bytes) << 3 | per_element << 4 | (RamType::Mcif as u32) << 5),
                (base, OPERANDS[unit]),
                (line_stride, line),
                (surface_stride, line * height),
            ];
            set(&mut self.rdma, &values);
            // The operands that this unit may take from memory.
            let alu_memory = u32::from(data_use != 0 && !random.one_in(3));
            let mul_memory = u32::from(data_use != 1 && !random.one_in(3));
            let bypass = u32::from(random.one_in(3));
            let algorithm = if simple {
                2
            } else if unit == 2 && random.one_in(4) {
                3
            } else {
                random.below(3)
            };
            let mul_bypass = u32::from(random.one_in(2) || (simple && random.one_in(2)));
            let prelu = if simple && random.one_in(2) { 0 } else { random.below(2) };
            // ReLU or, in Y, the lookup.
            let last_bypass = u32::from(random.one_in(2) || (simple && unit == 2 && !random.one_in(4)));
            let unit_cfg =
                bypass | random.below(2) << 1 | algorithm << 2 | mul_bypass << 4 | prelu << 5 | last_bypass << 6;
            let most = if simple { 12 } else { 64 };
            let shift = if random.one_in(2) { 0 } else { random.below(most) };
            let alu_shift = if random.one_in(2) { 0 } else { random.below(most) };
            match unit {
                0 | 1 => {
                    let registers = if unit == 0 {
                        [
                            reg::D_DP_BS_CFG,
                            reg::D_DP_BS_ALU_CFG,
                            reg::D_DP_BS_ALU_SRC_VALUE,
                            reg::D_DP_BS_MUL_CFG,
                            reg::D_DP_BS_MUL_SRC_VALUE,
                        ]
                    } else {
                        [
                            reg::D_DP_BN_CFG,
                            reg::D_DP_BN_ALU_CFG,
                            reg::D_DP_BN_ALU_SRC_VALUE,
                            reg::D_DP_BN_MUL_CFG,
                            reg::D_DP_BN_MUL_SRC_VALUE,
                        ]
                    };
                    let values = [
                        unit_cfg,
                        alu_memory | alu_shift << 8,
                        any_bits(random) & 0xffff,
                        mul_memory | shift << 8,
                        any_bits(random) & 0xffff,
                    ];
                    for (register, value) in registers.into_iter().zip(values) {
                        self.sdp.set(register, value);
                    }
                }
                _ => {
                    let value = |random: &mut Random| if float { any_float(random) } else { any_bits(random) };
                    let values = [
                        (reg::D_DP_EW_CFG, unit_cfg),
                        (reg::D_DP_EW_ALU_CFG, alu_memory | random.below(2) << 1),
                        (reg::D_DP_EW_ALU_SRC_VALUE, value(random)),
                        (reg::D_DP_EW_ALU_CVT_OFFSET_VALUE, any_bits(random)),
                        (reg::D_DP_EW_ALU_CVT_SCALE_VALUE, any_bits(random) & 0xffff),
                        (reg::D_DP_EW_ALU_CVT_TRUNCATE_VALUE, random.below(64)),
                        (reg::D_DP_EW_MUL_CFG, mul_memory | random.below(2) << 1),
                        (reg::D_DP_EW_MUL_SRC_VALUE, value(random)),
                        (reg::D_DP_EW_MUL_CVT_OFFSET_VALUE, any_bits(random)),
                        (reg::D_DP_EW_MUL_CVT_SCALE_VALUE, any_bits(random) & 0xffff),
                        (reg::D_DP_EW_MUL_CVT_TRUNCATE_VALUE, random.below(64)),
                        (reg::D_DP_EW_TRUNCATE_VALUE, random.pick(&[0, 1, 8, 31, 61, 62, 63, 64, 1023])),
                    ];
                    set(&mut self.sdp, &values);
                }
            }
        }
    }

    fn tables(&mut self, random: &mut Random) {
        for (table, entries) in [(0, 65), (1, 257)] {
            self.state.tables.write_access(1 << 17 | table << 16);
            for _ in 0..entries {
                self.state.tables.write_data(any_bits(random));
            }
        }
        let float = self.sdp.get(reg::D_DATA_FORMAT) & 3 == Precision::Fp16 as u32;
        let mut limit = || if float { any_float(random) } else { any_bits(random) };
        let limits = [
            (reg::S_LUT_LE_START, limit()),
            (reg::S_LUT_LE_END, limit()),
            (reg::S_LUT_LO_START, limit()),
            (reg::S_LUT_LO_END, limit()),
        ];
        set(&mut self.sdp, &limits);
        let small = |random: &mut Random| random.pick(&[0, 1, 2, 4, 8, 16, 33, 0xff, 0xf8, 0x80, 0x7f]);
        let info = small(random) | small(random) << 8 | small(random) << 16;
        let values = [
            (reg::S_LUT_CFG, word(random) & 0x71),
            (reg::S_LUT_INFO, info),
            (reg::S_LUT_LE_SLOPE_SCALE, word(random)),
            (reg::S_LUT_LE_SLOPE_SHIFT, word(random) & 0x3ff),
            (reg::S_LUT_LO_SLOPE_SCALE, word(random)),
            (reg::S_LUT_LO_SLOPE_SHIFT, word(random) & 0x3ff),
        ];
        set(&mut self.sdp, &values);
    }
}

fn stream(random: &mut Random, processing: Precision, sizes: [u32; 5]) -> Stream {
    let [width, height, channels, lanes, batch] = sizes.map(|size| size as usize);
    let samples = batch * channels.div_ceil(lanes) * height * width * lanes;
    let small = random.one_in(2);
    Stream {
        width,
        height,
        channels,
        lanes,
        batch,
        samples: if processing == Precision::Fp16 {
            Samples::Float((0..samples).map(|_| f32::from_bits(any_float(random))).collect())
        } else {
            Samples::Int(
                (0..samples)
                    .map(|_| if small { any_bits(random) as i32 >> 10 } else { any_bits(random) as i32 })
                    .collect(),
            )
        },
    }
}

/// Every instruction set that this machine has, and threads.
pub(super) fn settings() -> Vec<Settings> {
    let one = |isa: Isa| Settings { isa, threads_from: usize::MAX, non_temporal_from: usize::MAX };
    let mut settings: Vec<_> = Isa::available().into_iter().map(one).collect();
    settings.push(Settings { threads_from: 0, ..Settings::detect().unwrap() });
    settings.extend([usize::MAX, 0].map(|threads_from| Settings {
        threads_from,
        non_temporal_from: 0,
        ..Settings::detect().unwrap()
    }));
    settings
}

/// Passes the case's sums to SDP a few at a time, if SDP accepts them so: surface by surface, or in units of that many `kernels`.
fn fly(
    settings: Settings,
    case: &mut Case,
    seed: u64,
    kernels: Option<usize>,
) -> Option<Result<Done<Option<Stream>>, Stop>> {
    let Case { config, rdma, sdp, stream, state, memory, .. } = case;
    let stream = stream.as_ref()?;
    let mut form = stream.form();
    if let Samples::Int(samples) = &stream.samples {
        form.largest = samples.iter().map(|sample| sample.unsigned_abs()).max().unwrap_or(0);
    }
    let decoded = match Decoded::new(settings.isa, state.like, config, rdma, sdp, form) {
        Ok(decoded) => decoded?,
        Err(stop) => return Some(Err(stop)),
    };
    let flying = OnFlying::new(&decoded, state);
    let sink = flying.sink(memory);
    if kernels.is_some_and(|kernels| kernels < stream.lanes || !sink.takes_units(kernels)) {
        return None;
    }
    let bytes = match &stream.samples {
        Samples::Int(samples) if kernels.is_some() => in_units(&sink, stream, samples, kernels?, seed),
        Samples::Int(samples) => {
            let mut bytes = vec![0; samples.len()];
            for (position, range, begins) in pieces(stream, seed) {
                if begins {
                    Sink::begin(&sink, position);
                }
                Sink::take(&sink, position, &samples[range.clone()], &mut bytes[range]);
            }
            bytes
        }
        Samples::Float(samples) => {
            // No sum is a NaN or infinite.
            if samples.iter().any(|sample| !sample.is_finite()) {
                return None;
            }
            let mut halves = vec![[0; 2]; samples.len()];
            let mut random = Random::new(!seed | 1);
            for (position, range, begins) in pieces(stream, seed) {
                if begins {
                    BoundsSink::begin(&sink, position);
                }
                let samples = &samples[range.clone()];
                // Bounds near and far, and at the sum itself.
                let mut beside = |by: f32| -> Vec<f32> {
                    let mut one = |&sample: &f32| {
                        sample + by * sample.abs() * [0.0, 1e-7, 1e-4, 0.3][word(&mut random) as usize % 4]
                    };
                    samples.iter().map(&mut one).map(|bound| bound.clamp(f32::MIN, f32::MAX)).collect()
                };
                let (low, high) = (beside(-1.0), beside(1.0));
                let bounds = Bounds { low: &low, high: &high };
                let mut exact = |wanted: &[u16], into: &mut [f32]| {
                    for &index in wanted {
                        into[usize::from(index)] = samples[usize::from(index)];
                    }
                };
                BoundsSink::take(&sink, position, bounds, &mut exact, &mut halves[range]);
            }
            halves.into_flattened()
        }
    };
    let found = sink.found();
    Some(flying.finish(&found, Some(&bytes), memory).map(|Done { output, status }| {
        let stream = |form: Form| Stream {
            width: form.width,
            height: form.height,
            channels: form.channels,
            lanes: form.lanes,
            batch: form.batch,
            samples: Samples::Int(bytes.iter().map(|&byte| i32::from(byte as i8)).collect()),
        };
        Done { output: output.map(stream), status }
    }))
}

/// What SDP makes of samples that it takes a few elements at a time, in one to three units of `kernels` kernels.
fn in_units(sink: &impl Sink<Out = u8>, stream: &Stream, samples: &[i32], kernels: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(!seed | 1);
    let Stream { lanes, width, height, .. } = *stream;
    let (surface, per_unit) = (width * height * lanes, kernels / lanes);
    let mut bytes = vec![0; samples.len()];
    let cubes = bytes.chunks_mut(surface * stream.surfaces()).zip(samples.chunks(surface * stream.surfaces()));
    for (batch, (bytes, samples)) in cubes.enumerate() {
        let most = 1 + word(&mut random) as usize % 3;
        let parts = bytes.chunks_mut(surface * per_unit * most).zip(samples.chunks(surface * per_unit * most));
        for (number, (bytes, samples)) in parts.enumerate() {
            let mut out: Vec<_> = bytes.chunks_mut(surface).collect();
            let units = out.len().div_ceil(per_unit);
            let mut first = 0;
            while first < width * height {
                let count = (1 + word(&mut random) as usize % 40).min(width * height - first);
                // Kernels that do not exist have any sum.
                let mut sums: Vec<_> = (0..units * count * kernels).map(|_| word(&mut random) as i32).collect();
                for (own, samples) in samples.chunks(surface).enumerate() {
                    let (unit, place) = (own / per_unit, own % per_unit * lanes);
                    let samples = samples[first * lanes..].chunks(lanes).take(count);
                    for (sums, samples) in sums[unit * count * kernels..].chunks_mut(kernels).zip(samples) {
                        sums[place..place + lanes].copy_from_slice(samples);
                    }
                }
                let position = Position { batch, surface: number * most * per_unit, first, index: 0 };
                sink.take_units(position, &sums, kernels, &mut out, first * lanes);
                first += count;
            }
        }
    }
    bytes
}

/// The elements of a stream, a few at a time, surface by surface: their positions, their samples, and whether they are the first
/// of a surface.
fn pieces(stream: &Stream, seed: u64) -> impl Iterator<Item = (Position, std::ops::Range<usize>, bool)> + '_ {
    let elements = stream.width * stream.height;
    let surfaces = stream.surfaces();
    let mut random = Random::new(seed | 1);
    let mut done = 0;
    std::iter::from_fn(move || {
        let (number, first) = (done / elements, done % elements);
        if number == stream.batch * surfaces {
            return None;
        }
        let count = (1 + word(&mut random) as usize % 40).min(elements - first);
        let position = Position { batch: number / surfaces, surface: number % surfaces, first, index: number % 3 };
        let range = done * stream.lanes..(done + count) * stream.lanes;
        done += count;
        Some((position, range, first == 0))
    })
}

/// Runs the reference and the vector code. Returns whether the operation was performed and not refused.
fn compare(seed: u64) -> Result<bool, TestCaseError> {
    let case = Case::new(seed);
    let Case { config, rdma, sdp, stream, .. } = &case;
    let mut plain = case.clone();
    let expected = reference::run(&mut plain.state, config, rdma, sdp, stream.as_ref(), &mut plain.memory);
    for settings in settings() {
        let Case { mut state, mut memory, .. } = case.clone();
        let given = vector::run(settings, &mut state, config, rdma, sdp, stream.as_ref(), &mut memory);
        match (&expected, given) {
            (Ok(expected), Ok(given)) => {
                prop_assert_eq!(&expected.status, &given.status);
                prop_assert_eq!(expected.output.is_some(), given.output.is_some());
                if let (Some(expected), Some(given)) = (&expected.output, &given.output) {
                    prop_assert_eq!((expected.width, expected.lanes), (given.width, given.lanes));
                    prop_assert_eq!(bits(expected), bits(given));
                }
                let differs = plain.memory.bytes.iter().zip(&memory.bytes).position(|(a, b)| a != b);
                prop_assert_eq!(differs, None, "{}, {:?}: first byte that differs", config.name, settings);
            }
            (Err(expected), Err(given)) => prop_assert_eq!(expected, &given),
            (expected, given) => prop_assert_eq!(expected.is_ok(), given.is_ok()),
        }
        for kernels in [None, Some(8), Some(16), Some(32)] {
            let mut flown = case.clone();
            match (&expected, fly(settings, &mut flown, seed, kernels)) {
                (_, None) => {}
                (Ok(expected), Some(Ok(given))) => {
                    prop_assert_eq!(&expected.status, &given.status);
                    prop_assert_eq!(&expected.output, &given.output);
                    let differs = plain.memory.bytes.iter().zip(&flown.memory.bytes).position(|(a, b)| a != b);
                    prop_assert_eq!(differs, None, "{}, {:?}, {:?}: flying", config.name, settings, kernels);
                }
                (expected, Some(given)) => prop_assert_eq!(expected.is_ok(), given.is_ok()),
            }
        }
    }
    Ok(expected.is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn vector_code_agrees_with_the_reference(seed in any::<u64>()) {
        compare(seed)?;
    }
}

/// Outputs of a batch, of one line each, with a gap after each.
#[test]
fn gaps_between_the_cubes_of_a_batch_stay() {
    assert!(compare(6_644_408_307_260_056_225).unwrap(), "the operation is performed");
}

#[test]
fn most_random_operations_are_performed() {
    let performed = (0..100).filter(|&seed| compare(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15)).unwrap()).count();
    assert!(performed > 60, "{performed} of 100");
}

#[test]
fn any_registers_give_a_result_or_an_error() {
    let mut memory = Bytes { base: 0, bytes: noise(3, 0x1_0000) };
    let mut performed = 0;
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let (mut rdma, mut sdp) = (Registers::reset(Block::SdpRdma), Registers::reset(Block::Sdp));
        for registers in [&mut rdma, &mut sdp] {
            for described in registers.block().registers() {
                registers.set(described.register, word(&mut random) & described.register.writable);
            }
        }
        // Without these changes nearly all operations are refused or access memory outside.
        let small = |random: &mut Random, mask: u32| word(random) & mask;
        let sizes = [small(&mut random, 0xf), small(&mut random, 0xf), small(&mut random, 0x3f)];
        let strides = [small(&mut random, 0x1e0), small(&mut random, 0x1e0)];
        for (registers, extents, address, lines) in [
            (
                &mut rdma,
                [rdma_reg::D_DATA_CUBE_WIDTH, rdma_reg::D_DATA_CUBE_HEIGHT, rdma_reg::D_DATA_CUBE_CHANNEL],
                [rdma_reg::D_SRC_BASE_ADDR_LOW, rdma_reg::D_SRC_BASE_ADDR_HIGH],
                [rdma_reg::D_SRC_LINE_STRIDE, rdma_reg::D_SRC_SURFACE_STRIDE],
            ),
            (
                &mut sdp,
                [reg::D_DATA_CUBE_WIDTH, reg::D_DATA_CUBE_HEIGHT, reg::D_DATA_CUBE_CHANNEL],
                [reg::D_DST_BASE_ADDR_LOW, reg::D_DST_BASE_ADDR_HIGH],
                [reg::D_DST_LINE_STRIDE, reg::D_DST_SURFACE_STRIDE],
            ),
        ] {
            for (register, value) in extents.into_iter().zip(sizes).chain(lines.into_iter().zip(strides)) {
                registers.set(register, value);
            }
            for (register, value) in address.into_iter().zip([0x4000, 0]) {
                registers.set(register, value);
            }
            let ram = if registers.block() == Block::Sdp { reg::D_DST_DMA_CFG } else { rdma_reg::D_SRC_DMA_CFG };
            registers.set(ram, RamType::Mcif as u32);
        }
        let processing = random.below(3);
        let flying = word(&mut random) & 1;
        rdma.set(rdma_reg::D_FEATURE_MODE_CFG, flying | processing << 2 | processing << 4);
        sdp.set(reg::D_DATA_FORMAT, processing | random.below(3) << 2);
        if random.one_in(2) {
            for register in [reg::D_DP_BS_ALU_CFG, reg::D_DP_BS_MUL_CFG, reg::D_DP_BN_ALU_CFG, reg::D_DP_BN_MUL_CFG] {
                sdp.set(register, sdp.get(register) & !1);
            }
            sdp.set(reg::D_FEATURE_MODE_CFG, flying | word(&mut random) & 0xa);
        }
        let input = (flying == 1).then(|| {
            let precision = [Precision::Int8, Precision::Int16, Precision::Fp16][processing as usize];
            let lanes = if processing == 0 { 32 } else { 16 };
            stream(&mut random, precision, [sizes[0] + 1, sizes[1] + 1, sizes[2] + 1, lanes, 1])
        });
        let done = run(&mut State::default(), &NV_FULL, &rdma, &sdp, input.as_ref(), &mut memory);
        performed += u32::from(done.is_ok());
    }
    assert!(performed > 100, "{performed}");
}

#[test]
fn threads_agree_with_one_thread_over_many_strips() {
    let (mut rdma, mut sdp) = copy(300, 200);
    set(&mut rdma, &[(rdma_reg::D_DATA_CUBE_CHANNEL, 15), (rdma_reg::D_BRDMA_CFG, 1 << 1 | 1 << 3 | 1 << 5)]);
    set(&mut rdma, &[(rdma_reg::D_BS_BASE_ADDR_LOW, INPUT)]);
    set(
        &mut sdp,
        &[
            (reg::D_DATA_CUBE_CHANNEL, 15),
            (reg::D_DST_BASE_ADDR_LOW, OUTPUT - 0x8_0000),
            (reg::D_DP_BS_CFG, 0x18),
            (reg::D_DP_BS_ALU_CFG, 1),
            (reg::D_CVT_SHIFT, 3),
        ],
    );
    let before = Bytes { base: BASE, bytes: noise(5, SIZE) };
    let after = |threads_from, non_temporal_from| {
        let mut memory = before.clone();
        let settings = Settings { threads_from, non_temporal_from, ..Settings::detect().unwrap() };
        vector::run(settings, &mut State::default(), &NV_SMALL, &rdma, &sdp, None, &mut memory).unwrap();
        memory
    };
    let one = after(usize::MAX, usize::MAX);
    assert_ne!(one, before);
    for (threads_from, non_temporal_from) in [(0, usize::MAX), (usize::MAX, 0), (0, 0)] {
        assert!(
            one == after(threads_from, non_temporal_from),
            "threads from {threads_from}, non-temporal from {non_temporal_from}"
        );
    }
}
