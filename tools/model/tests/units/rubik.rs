// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares `src/rubik` with its reference over random operations.

use nvdla_model::registers::Registers;
use nvdla_model::rubik::{reference, run};
use nvdla_uapi::config::NV_FULL;
use nvdla_uapi::reg::values::{Precision, RamType, RubikMode};
use nvdla_uapi::reg::{rbk, Block};
use proptest::prelude::*;

use crate::support::bytes::{noise, set, Bytes};

const BASE: u64 = 0x1000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_fast_implementation_gives_the_reference_s_bytes(
        mode in prop::sample::select(RubikMode::ALL),
        precision in prop::sample::select(Precision::ALL),
        (width, height, channels) in (1usize..70, 1usize..4, 1usize..70),
        (stride_x, stride_y) in (1usize..5, 1usize..4),
        seed in any::<u64>(),
    ) {
        let bytes = if precision == Precision::Int8 { 1 } else { 2 };
        let surfaces = (channels * bytes).div_ceil(32);
        let cubes = if mode == RubikMode::Contract { stride_x * stride_y } else { 1 };
        let (line, plane) = (width * 32, height * width * 32);
        let flat = (width * bytes).next_multiple_of(32);
        let size = (channels * height * flat).max(cubes * surfaces * plane);
        let ram = RamType::Mcif;
        let mut registers = Registers::reset(Block::Rbk);
        let merge = mode == RubikMode::Merge;
        let out_line = match mode {
            RubikMode::Contract => line * stride_x,
            RubikMode::Split => flat,
            RubikMode::Merge => line,
        };
        set(&mut registers, &[
            (rbk::D_MISC_CFG, rbk::D_MISC_CFG::RUBIK_MODE.put(mode) | rbk::D_MISC_CFG::IN_PRECISION.put(precision)),
            (rbk::D_DAIN_RAM_TYPE, rbk::D_DAIN_RAM_TYPE::DATAIN_RAM_TYPE.put(ram)),
            (rbk::D_DATAIN_SIZE_0, (width - 1) as u32 | ((height - 1) as u32) << 16),
            (rbk::D_DATAIN_SIZE_1, (channels - 1) as u32),
            (rbk::D_DAIN_ADDR_LOW, BASE as u32),
            (rbk::D_DAIN_LINE_STRIDE, if merge { flat } else { line } as u32),
            (rbk::D_DAIN_SURF_STRIDE, plane as u32),
            (rbk::D_DAIN_PLANAR_STRIDE, (height * flat) as u32),
            (rbk::D_DAOUT_RAM_TYPE, rbk::D_DAOUT_RAM_TYPE::DATAOUT_RAM_TYPE.put(ram)),
            (rbk::D_DATAOUT_SIZE_1, (channels - 1) as u32),
            (rbk::D_DAOUT_ADDR_LOW, (BASE as usize + size) as u32),
            (rbk::D_DAOUT_LINE_STRIDE, out_line as u32),
            (rbk::D_CONTRACT_STRIDE_1, (out_line * stride_y) as u32),
            (rbk::D_DAOUT_SURF_STRIDE, (plane * cubes) as u32),
            (rbk::D_DAOUT_PLANAR_STRIDE, (height * flat) as u32),
            (rbk::D_DECONV_STRIDE, (stride_x - 1) as u32 | ((stride_y - 1) as u32) << 16),
        ]);
        let mut memory = Bytes { base: BASE, bytes: noise(seed, 2 * size) };
        let mut expected = memory.clone();
        let done = run(&NV_FULL, &registers, &mut memory);
        prop_assert!(done.is_ok(), "{:?}", done);
        prop_assert_eq!(done, reference::run(&NV_FULL, &registers, &mut expected));
        prop_assert!(memory == expected);
    }
}
