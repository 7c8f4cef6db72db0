// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares `src/cdp` with its reference over random operations, on every instruction set.

use nvdla_model::cdp::{reference, run_with, State};
use nvdla_model::registers::Registers;
use nvdla_model::Isa;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::{LutFunction, NormalizationLength, Precision, RamType};
use nvdla_uapi::reg::{cdp, cdp_rdma, Block, Register};
use proptest::prelude::*;

use crate::support::bytes::{formats, noise, set, Bytes};

const BASE: u64 = 0x1000;

/// The contents of the tables.
#[derive(Clone, Copy, Debug)]
enum Entries {
    /// Any bits.
    Noise,
    /// Numbers that fall slowly, as factors of local response normalisation do.
    Falling,
    /// Finite numbers of both signs, some of them zero.
    Signs,
}

impl Entries {
    /// Makes entry number `at` from random bits.
    fn entry(self, precision: Precision, at: usize, bits: u16) -> u16 {
        let half = precision == Precision::Fp16;
        match self {
            Self::Noise => bits,
            // From 2 to 0.3 in fp16, from 0x7f00 to 0x1b00 in integers.
            Self::Falling if half => 0x4000 - 11 * at as u16 - (bits & 7),
            Self::Falling => 0x7f00 - 100 * at as u16 - (bits & 63),
            Self::Signs if bits & 0x700 == 0 => 0,
            Self::Signs if half => (bits & 0x8fff) + 0x2000,
            Self::Signs => bits & 0x80ff,
        }
    }
}

#[derive(Clone, Debug)]
struct Case {
    config: &'static Config,
    precision: Precision,
    size: (usize, usize, usize),
    /// Atoms of gap after each line and after each surface.
    gaps: [usize; 2],
    in_place: bool,
    window: NormalizationLength,
    bypass: u32,
    flush: bool,
    function: LutFunction,
    /// `S_LUT_CFG`'s priorities.
    priorities: u32,
    info: u32,
    limits: [u32; 8],
    slopes: [u32; 4],
    entries: Entries,
    input: (u32, u32, u32),
    output: (u32, u32, u32),
    seed: u64,
    /// Mask for input bytes, for fp16 without NaN and for small integers.
    mask: u8,
}

fn case() -> impl Strategy<Value = Case> {
    let shape = (
        formats(),
        (1usize..4, 1usize..12, 1usize..70),
        (prop_oneof![Just([0, 0]), [0usize..3, 0usize..3]], prop::bool::weighted(0.2)),
        prop::sample::select(NormalizationLength::ALL),
        0u32..4,
        any::<bool>(),
        any::<u64>(),
        prop::sample::select(vec![0xffu8, 0x3f, 0x0f, 0xb7]),
    );
    let table = (
        prop::sample::select(LutFunction::ALL),
        any::<u32>(),
        prop_oneof![any::<u32>(), (0u32..20).prop_map(|select| select * 0x1_0101)],
        prop_oneof![
            any::<[u32; 8]>(),
            Just([0; 8]),
            Just([100, 0, 70_000, 0, 5, 0, 9000, 0]),
            Just([0x3f80_0000, 0, 0x4700_0000, 0, 0x4000_0000, 0, 0x4600_0000, 0]),
            Just([0, 0x3f, 70_000, 0, 0x4000_0000, 0x3e, 9000, 0]),
        ],
        prop_oneof![any::<[u32; 4]>(), Just([0; 4]), any::<u32>().prop_map(|slope| [slope, 0, 0, slope >> 16])],
        prop::sample::select(vec![Entries::Noise, Entries::Falling, Entries::Signs]),
    );
    let converters = (
        prop_oneof![
            (any::<u32>(), any::<u32>(), 0u32..32),
            (-9i32..9, -9i32..9, 0u32..4).prop_map(|(offset, scale, shift)| (offset as u32, scale as u32, shift)),
            Just((0, 1, 0))
        ],
        prop_oneof![
            (any::<u32>(), any::<u32>(), prop_oneof![0u32..24, 0u32..64]),
            (-999i32..999, -9i32..9, 0u32..20).prop_map(|(offset, scale, shift)| (offset as u32, scale as u32, shift)),
            (8u32..18).prop_map(|shift| (0, 1, shift))
        ],
    );
    (shape, table, converters).prop_map(|(shape, table, (input, output))| {
        let ((config, precision), size, (gaps, in_place), window, bypass, flush, seed, mask) = shape;
        let (function, priorities, info, limits, slopes, entries) = table;
        Case {
            config,
            precision,
            size,
            gaps,
            in_place,
            window,
            bypass,
            flush,
            function,
            priorities,
            info,
            limits,
            slopes,
            entries,
            input,
            output,
            seed,
            mask,
        }
    })
}

fn program(case: &Case) -> (State, Registers, Registers, Bytes) {
    let (width, height, channels) = case.size;
    let atom = case.config.memory_atomic as usize;
    let bytes = if case.precision == Precision::Int8 { 1 } else { 2 };
    let line = (width + case.gaps[0]) * atom;
    let surface = height * line + case.gaps[1] * atom;
    let size = (channels * bytes).div_ceil(atom) * surface;
    let (line, surface) = (line as u32, surface as u32);
    let ram = RamType::Mcif as u32;
    let mut rdma = Registers::reset(Block::CdpRdma);
    set(
        &mut rdma,
        &[
            (cdp_rdma::D_DATA_CUBE_WIDTH, width as u32 - 1),
            (cdp_rdma::D_DATA_CUBE_HEIGHT, height as u32 - 1),
            (cdp_rdma::D_DATA_CUBE_CHANNEL, channels as u32 - 1),
            (cdp_rdma::D_SRC_BASE_ADDR_LOW, BASE as u32),
            (cdp_rdma::D_SRC_LINE_STRIDE, line),
            (cdp_rdma::D_SRC_SURFACE_STRIDE, surface),
            (cdp_rdma::D_SRC_DMA_CFG, ram),
            (cdp_rdma::D_DATA_FORMAT, case.precision as u32),
        ],
    );
    let mut registers = Registers::reset(Block::Cdp);
    let masked = |register: Register, value: u32| (register, value & register.writable);
    let [le_start, le_start_high, le_end, le_end_high, lo_start, lo_start_high, lo_end, lo_end_high] = case.limits;
    set(
        &mut registers,
        &[
            masked(cdp::S_LUT_CFG, (case.priorities & !1) | case.function as u32),
            masked(cdp::S_LUT_INFO, case.info),
            masked(cdp::S_LUT_LE_START_LOW, le_start),
            masked(cdp::S_LUT_LE_START_HIGH, le_start_high),
            masked(cdp::S_LUT_LE_END_LOW, le_end),
            masked(cdp::S_LUT_LE_END_HIGH, le_end_high),
            masked(cdp::S_LUT_LO_START_LOW, lo_start),
            masked(cdp::S_LUT_LO_START_HIGH, lo_start_high),
            masked(cdp::S_LUT_LO_END_LOW, lo_end),
            masked(cdp::S_LUT_LO_END_HIGH, lo_end_high),
            masked(cdp::S_LUT_LE_SLOPE_SCALE, case.slopes[0]),
            masked(cdp::S_LUT_LE_SLOPE_SHIFT, case.slopes[1]),
            masked(cdp::S_LUT_LO_SLOPE_SCALE, case.slopes[2]),
            masked(cdp::S_LUT_LO_SLOPE_SHIFT, case.slopes[3]),
            masked(cdp::D_FUNC_BYPASS, case.bypass),
            (cdp::D_DST_BASE_ADDR_LOW, BASE as u32 + if case.in_place { 0 } else { size as u32 }),
            (cdp::D_DST_LINE_STRIDE, line),
            (cdp::D_DST_SURFACE_STRIDE, surface),
            (cdp::D_DST_DMA_CFG, ram),
            (cdp::D_DATA_FORMAT, case.precision as u32),
            (cdp::D_NAN_FLUSH_TO_ZERO, case.flush.into()),
            (cdp::D_LRN_CFG, case.window as u32),
            masked(cdp::D_DATIN_OFFSET, case.input.0),
            masked(cdp::D_DATIN_SCALE, case.input.1),
            masked(cdp::D_DATIN_SHIFTER, case.input.2),
            masked(cdp::D_DATOUT_OFFSET, case.output.0),
            masked(cdp::D_DATOUT_SCALE, case.output.1),
            masked(cdp::D_DATOUT_SHIFTER, case.output.2),
        ],
    );
    let mut state = State::default();
    for (access, entries) in [(1 << 17, 65), (3 << 16, 257)] {
        state.tables.write_access(access);
        for (at, bits) in noise(case.seed ^ u64::from(access), 2 * entries).chunks_exact(2).enumerate() {
            let bits = u16::from_le_bytes([bits[0], bits[1]]);
            state.tables.write_data(case.entries.entry(case.precision, at, bits).into());
        }
    }
    let bytes = noise(case.seed, 2 * size).into_iter().map(|byte| byte & case.mask).collect();
    (state, rdma, registers, Bytes { base: BASE, bytes })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn the_fast_implementation_gives_the_reference_s_bytes(case in case()) {
        let (mut state, rdma, registers, memory) = program(&case);
        let mut expected = memory.clone();
        let right = reference::run(&state.tables, case.config, &rdma, &registers, &mut expected);
        for isa in Isa::available() {
            let mut memory = memory.clone();
            let done = run_with(isa, &mut state, case.config, &rdma, &registers, &mut memory);
            prop_assert!(done.is_ok(), "{:?}", done);
            prop_assert_eq!(&done, &right, "{}", isa.name());
            prop_assert!(memory == expected, "{}", isa.name());
        }
    }
}
