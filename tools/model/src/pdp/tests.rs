// SPDX-License-Identifier: MIT OR Apache-2.0

use nvdla_uapi::config::{NV_FULL, NV_SMALL};
use nvdla_uapi::reg::values::{PdpFlyingMode, PoolingMethod, RamType};
use proptest::prelude::*;

use super::*;
use crate::support::bytes::{formats, noise, set, Bytes};

/// One direction of a random operation: input, kernel, stride, padding before and after.
type Direction = (usize, usize, usize, usize, usize);

fn direction() -> impl Strategy<Value = Direction> {
    (1usize..=8, 1usize..=9, 0usize..8, 0usize..8, 1usize..=20).prop_map(|(kernel, stride, before, after, input)| {
        (input, kernel, stride, before.min(kernel - 1), after.min(kernel - 1))
    })
}

/// The number of windows, if every window has an element.
fn windows((input, kernel, stride, before, after): Direction) -> Option<usize> {
    let windows = (before + input + after).checked_sub(kernel)? / stride + 1;
    ((windows - 1) * stride < before + input).then_some(windows)
}

#[derive(Clone, Debug)]
struct Case {
    config: &'static Config,
    precision: Precision,
    method: PoolingMethod,
    horizontal: Direction,
    vertical: Direction,
    channels: usize,
    values: [u32; 9],
    flush: bool,
    seed: u64,
    /// Input bytes are masked with this: fp16 without NaN, small numbers.
    mask: u8,
}

fn case() -> impl Strategy<Value = Case> {
    let method = prop::sample::select(PoolingMethod::ALL);
    let values = prop::array::uniform9(prop_oneof![0u32..0x8_0000, 0x5000u32..0x9000]);
    let seed = (any::<u64>(), prop::sample::select(vec![0xffu8, 0xbf, 0x9b]));
    (formats(), method, direction(), direction(), 1usize..70, values, any::<bool>(), seed).prop_map(
        |((config, precision), method, horizontal, vertical, channels, values, flush, (seed, mask))| Case {
            config,
            precision,
            method,
            horizontal,
            vertical,
            channels,
            values,
            flush,
            seed,
            mask,
        },
    )
}

const SOURCE: u64 = 0x1000;

/// The operation's registers and memory; `None` if it has no windows.
fn program(case: &Case) -> Option<(Registers, Registers, Bytes)> {
    use pdp::{
        D_DATA_FORMAT as Format, D_OPERATION_MODE_CFG as Mode, D_POOLING_KERNEL_CFG as Kernel,
        D_POOLING_PADDING_CFG as Pad,
    };
    let (width, kernel_width, stride_width, left, right) = case.horizontal;
    let (height, kernel_height, stride_height, top, bottom) = case.vertical;
    let (out_width, out_height) = (windows(case.horizontal)?, windows(case.vertical)?);
    let atom = case.config.memory_atomic as usize;
    let lanes = if case.precision == Precision::Int8 { atom } else { atom / 2 };
    let surfaces = case.channels.div_ceil(lanes);
    let destination = SOURCE as usize + surfaces * height * width * atom;
    let bytes = surfaces * (height * width + out_height * out_width) * atom;
    let less = |value: usize| value as u32 - 1;

    let mut rdma = Registers::reset(Block::PdpRdma);
    set(
        &mut rdma,
        &[
            (pdp_rdma::D_DATA_CUBE_IN_WIDTH, less(width)),
            (pdp_rdma::D_DATA_CUBE_IN_HEIGHT, less(height)),
            (pdp_rdma::D_DATA_CUBE_IN_CHANNEL, less(case.channels)),
            (pdp_rdma::D_SRC_BASE_ADDR_LOW, SOURCE as u32),
            (pdp_rdma::D_SRC_LINE_STRIDE, (width * atom) as u32),
            (pdp_rdma::D_SRC_SURFACE_STRIDE, (height * width * atom) as u32),
            (pdp_rdma::D_SRC_RAM_CFG, pdp_rdma::D_SRC_RAM_CFG::SRC_RAM_TYPE.put(RamType::Mcif)),
            (pdp_rdma::D_DATA_FORMAT, pdp_rdma::D_DATA_FORMAT::INPUT_DATA.put(case.precision)),
        ],
    );
    let mut registers = Registers::reset(Block::Pdp);
    let mode = Mode::POOLING_METHOD.put(case.method) | Mode::FLYING_MODE.put(PdpFlyingMode::OffFlying);
    let kernels = Kernel::KERNEL_WIDTH.put(less(kernel_width))
        | Kernel::KERNEL_HEIGHT.put(less(kernel_height))
        | Kernel::KERNEL_STRIDE_WIDTH.put(less(stride_width))
        | Kernel::KERNEL_STRIDE_HEIGHT.put(less(stride_height));
    let pads = Pad::PAD_LEFT.put(left as u32)
        | Pad::PAD_RIGHT.put(right as u32)
        | Pad::PAD_TOP.put(top as u32)
        | Pad::PAD_BOTTOM.put(bottom as u32);
    set(
        &mut registers,
        &[
            (pdp::D_DATA_CUBE_IN_WIDTH, less(width)),
            (pdp::D_DATA_CUBE_IN_HEIGHT, less(height)),
            (pdp::D_DATA_CUBE_IN_CHANNEL, less(case.channels)),
            (pdp::D_DATA_CUBE_OUT_WIDTH, less(out_width)),
            (pdp::D_DATA_CUBE_OUT_HEIGHT, less(out_height)),
            (pdp::D_OPERATION_MODE_CFG, mode),
            (pdp::D_NAN_FLUSH_TO_ZERO, case.flush.into()),
            (pdp::D_POOLING_KERNEL_CFG, kernels),
            (pdp::D_POOLING_PADDING_CFG, pads),
            (pdp::D_RECIP_KERNEL_WIDTH, case.values[7] & 0x1_ffff),
            (pdp::D_RECIP_KERNEL_HEIGHT, case.values[8] & 0x1_ffff),
            (pdp::D_DST_BASE_ADDR_LOW, destination as u32),
            (pdp::D_DST_LINE_STRIDE, (out_width * atom) as u32),
            (pdp::D_DST_SURFACE_STRIDE, (out_height * out_width * atom) as u32),
            (pdp::D_DST_RAM_CFG, pdp::D_DST_RAM_CFG::DST_RAM_TYPE.put(RamType::Mcif)),
            (pdp::D_DATA_FORMAT, Format::INPUT_DATA.put(case.precision)),
        ],
    );
    let pad_values = [
        pdp::D_POOLING_PADDING_VALUE_1_CFG,
        pdp::D_POOLING_PADDING_VALUE_2_CFG,
        pdp::D_POOLING_PADDING_VALUE_3_CFG,
        pdp::D_POOLING_PADDING_VALUE_4_CFG,
        pdp::D_POOLING_PADDING_VALUE_5_CFG,
        pdp::D_POOLING_PADDING_VALUE_6_CFG,
        pdp::D_POOLING_PADDING_VALUE_7_CFG,
    ];
    for (register, value) in pad_values.into_iter().zip(case.values) {
        registers.set(register, value);
    }
    let memory =
        Bytes { base: SOURCE, bytes: noise(case.seed, bytes).into_iter().map(|byte| byte & case.mask).collect() };
    Some((rdma, registers, memory))
}

/// Compares each instruction set with the reference.
fn compare(case: &Case) -> Result<(), TestCaseError> {
    let Some((rdma, registers, memory)) = program(case) else { return Ok(()) };
    let mut expected = memory.clone();
    let reference = perform(Isa::Portable, case.config, &rdma, &registers, None, &mut expected, reference::pool);
    for isa in Isa::available() {
        let mut memory = memory.clone();
        let done = run_with(isa, case.config, &rdma, &registers, None, &mut memory);
        prop_assert_eq!(&done, &reference, "{:?}", isa);
        prop_assert!(done.is_ok(), "{:?}", done);
        prop_assert!(memory == expected, "{:?}", isa);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_fast_implementation_gives_the_reference_s_bytes(case in case()) {
        compare(&case)?;
    }

    /// Averages of fp16 whose padding and factors are ordinary numbers; among the elements are NaNs, infinities and
    /// denormals, or so many zeros of both signs that sums cancel.
    #[test]
    fn averages_of_fp16_are_the_reference_s(
        case in case(),
        padding in prop::array::uniform7(prop_oneof![Just(0u32), 0x5000u32..0x9000, 0x1_5000u32..0x1_9000]),
        padded in any::<bool>(),
        factors in prop::array::uniform2(prop_oneof![0x7000u32..0x8400, 0x4000u32..=0x7c00]),
        mask in prop::sample::select(vec![0xffu8, 0x7f, 0xbf, 0x9b, 0x80, 0x81, 0x00]),
    ) {
        let padding = if padded { padding } else { [0; 7] };
        let [a, b, c, d, e, f, g] = padding;
        let values = [a, b, c, d, e, f, g, factors[0], factors[1]];
        let case =
            Case { config: &NV_FULL, precision: Precision::Fp16, method: PoolingMethod::Average, values, mask, ..case };
        compare(&case)?;
    }

    #[test]
    fn random_registers_never_reach_outside(seed in any::<u64>()) {
        let noise = noise(seed, 512);
        let mut words = noise.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let mut random = |block: Block| {
            let mut registers = Registers::reset(block);
            for described in block.registers() {
                // Small values, so that some operations run.
                let value = words.next().unwrap_or(0);
                registers.set(described.register, value & described.register.writable & (0x1_001f >> (value >> 30)));
            }
            registers
        };
        let (rdma, registers) = (random(Block::PdpRdma), random(Block::Pdp));
        let mut memory = Bytes { base: 0, bytes: noise.clone() };
        let _ = run(&NV_FULL, &rdma, &registers, None, &mut memory);
        prop_assert_eq!(memory.bytes.len(), 512);
    }
}

#[test]
fn parts_give_what_the_whole_gives() {
    let case = Case {
        config: &NV_SMALL,
        precision: Precision::Int8,
        method: PoolingMethod::Average,
        horizontal: (17, 3, 2, 1, 1),
        vertical: (5, 2, 1, 1, 0),
        channels: 11,
        values: [3, 0, 0, 0, 0, 0, 0, 0x5555, 0x8000],
        flush: false,
        seed: 7,
        mask: 0xff,
    };
    let (mut rdma, mut registers, mut whole) = program(&case).unwrap();
    let mut parts = whole.clone();
    run(case.config, &rdma, &registers, None, &mut whole).unwrap();
    // 9 outputs as 3, 2, 2, 2. The first part reads 6 columns; each later one 4 of its own and the one it shares.
    use pdp::{D_OPERATION_MODE_CFG as Mode, D_PARTIAL_WIDTH_IN as Input, D_PARTIAL_WIDTH_OUT as Output};
    let widths =
        Input::PARTIAL_WIDTH_IN_FIRST.put(5) | Input::PARTIAL_WIDTH_IN_MID.put(3) | Input::PARTIAL_WIDTH_IN_LAST.put(2);
    let out = Output::PARTIAL_WIDTH_OUT_FIRST.put(2)
        | Output::PARTIAL_WIDTH_OUT_MID.put(1)
        | Output::PARTIAL_WIDTH_OUT_LAST.put(1);
    let method = registers.get(pdp::D_OPERATION_MODE_CFG);
    set(
        &mut registers,
        &[
            (pdp::D_PARTIAL_WIDTH_IN, widths),
            (pdp::D_PARTIAL_WIDTH_OUT, out),
            (pdp::D_OPERATION_MODE_CFG, method | Mode::SPLIT_NUM.put(3)),
        ],
    );
    set(
        &mut rdma,
        &[
            (pdp_rdma::D_PARTIAL_WIDTH_IN, widths),
            (pdp_rdma::D_OPERATION_MODE_CFG, 3),
            (pdp_rdma::D_POOLING_KERNEL_CFG, 2 | 1 << 4),
        ],
    );
    run(case.config, &rdma, &registers, None, &mut parts).unwrap();
    assert_eq!(whole, parts);
}

#[test]
fn refusals_name_the_values() {
    let case = Case {
        config: &NV_SMALL,
        precision: Precision::Int8,
        method: PoolingMethod::Max,
        horizontal: (4, 2, 2, 0, 0),
        vertical: (4, 2, 2, 0, 0),
        channels: 8,
        values: [0; 9],
        flush: false,
        seed: 0,
        mask: 0xff,
    };
    let (rdma, mut registers, mut memory) = program(&case).unwrap();
    registers.set(pdp::D_DATA_CUBE_OUT_WIDTH, 2);
    let stop = run(case.config, &rdma, &registers, None, &mut memory).unwrap_err();
    assert_eq!(stop.to_string(), "PDP: width: 4 elements with padding 0 and 0 give 2 windows of 2 at stride 2, not 3");
    registers.set(pdp::D_DATA_CUBE_OUT_WIDTH, 1);
    registers.set(pdp::D_DATA_FORMAT, pdp::D_DATA_FORMAT::INPUT_DATA.put(Precision::Fp16));
    let stop = run(case.config, &rdma, &registers, None, &mut memory).unwrap_err();
    assert_eq!(stop.to_string(), "PDP: nv_small has no Fp16");
}
