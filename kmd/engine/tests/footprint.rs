// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The ranges that a unit touches with given registers, compared with ranges computed by hand.

use std::collections::HashMap;

use nvdla_engine::footprint::{footprint, Access, Refusal, Registers};
use nvdla_runtime::loadable::Loadable;
use nvdla_tests::reference;
use nvdla_tests::tasks::HostTask;
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};
use nvdla_uapi::desc::OpType;
use nvdla_uapi::reg::values::{PixelFormat, RamType};
use nvdla_uapi::reg::{bdma, cdma, cdp, cdp_rdma, pdp, pdp_rdma, rbk, sdp, sdp_rdma, Block, FieldValue, Register};

/// A register file of some registers.
#[derive(Clone, Default)]
struct File(HashMap<(Block, u16), u32>);

impl File {
    fn new(block: Block, registers: &[(Register, u32)]) -> Self {
        Self::default().and(block, registers)
    }

    fn and(mut self, block: Block, registers: &[(Register, u32)]) -> Self {
        self.0.extend(registers.iter().map(|(register, value)| ((block, register.offset), *value)));
        self
    }

    fn without(mut self, block: Block, register: Register) -> Self {
        self.0.remove(&(block, register.offset));
        self
    }

    fn accesses(&self, config: &Config, unit: OpType, rdma: bool) -> Result<Vec<Access>, Refusal> {
        let mut accesses = Vec::new();
        let mut registers = Registers::EMPTY;
        for (&(block, offset), &value) in &self.0 {
            registers.set(block, usize::from(offset / 4), value);
        }
        footprint(config, unit, rdma, &registers, |access| {
            accesses.push(access);
            Ok::<_, Refusal>(())
        })?;
        Ok(accesses)
    }

    /// The accesses as lines of text: the register, read or write, and the range.
    fn ranges(&self, config: &Config, unit: OpType, rdma: bool) -> Vec<String> {
        match self.accesses(config, unit, rdma) {
            Ok(accesses) => accesses.iter().map(Access::to_string).collect(),
            Err(refusal) => vec![refusal.to_string()],
        }
    }
}

const MCIF: u32 = RamType::Mcif as u32;

/// A pooling of 8 columns, 4 lines and 20 channels to 4 columns and 2 lines.
fn pooling() -> File {
    let reader = [
        (pdp_rdma::D_DATA_CUBE_IN_WIDTH, 7),
        (pdp_rdma::D_DATA_CUBE_IN_HEIGHT, 3),
        (pdp_rdma::D_DATA_CUBE_IN_CHANNEL, 19),
        (pdp_rdma::D_SRC_BASE_ADDR_LOW, 0x1000),
        (pdp_rdma::D_SRC_BASE_ADDR_HIGH, 0),
        (pdp_rdma::D_SRC_LINE_STRIDE, 0x80),
        (pdp_rdma::D_SRC_SURFACE_STRIDE, 0x400),
        (pdp_rdma::D_SRC_RAM_CFG, MCIF),
        (pdp_rdma::D_DATA_FORMAT, 0),
        (pdp_rdma::D_OPERATION_MODE_CFG, 0),
        (pdp_rdma::D_POOLING_KERNEL_CFG, 0x11),
        (pdp_rdma::D_PARTIAL_WIDTH_IN, 0),
    ];
    let writer = [
        (pdp::D_DATA_CUBE_IN_CHANNEL, 19),
        (pdp::D_DATA_CUBE_OUT_WIDTH, 3),
        (pdp::D_DATA_CUBE_OUT_HEIGHT, 1),
        (pdp::D_DATA_CUBE_OUT_CHANNEL, 19),
        (pdp::D_OPERATION_MODE_CFG, 0),
        (pdp::D_PARTIAL_WIDTH_OUT, 0),
        (pdp::D_DST_BASE_ADDR_LOW, 0x8000),
        (pdp::D_DST_BASE_ADDR_HIGH, 1),
        (pdp::D_DST_LINE_STRIDE, 0x40),
        (pdp::D_DST_SURFACE_STRIDE, 0x100),
        (pdp::D_DST_RAM_CFG, MCIF),
        (pdp::D_DATA_FORMAT, 0),
    ];
    File::new(Block::PdpRdma, &reader).and(Block::Pdp, &writer)
}

#[test]
fn pdp_walks_lines_and_surfaces() {
    // 20 channels are three atoms of 8: 2 * 0x400 + 3 * 0x80 + 8 * 8, and 2 * 0x100 + 0x40 + 4 * 8.
    let whole = [
        "PDP_RDMA reads 0x1000..0x19c0 of primary memory, by D_SRC_BASE_ADDR_LOW",
        "PDP writes 0x100008000..0x100008260 of primary memory, by D_DST_BASE_ADDR_LOW",
    ];
    assert_eq!(pooling().ranges(&NV_SMALL, OpType::Pdp, true), whole);
    assert_eq!(pooling().ranges(&NV_SMALL, OpType::Pdp, false), whole[1..]);
    // One atom of 32, or two of int16.
    let one = "PDP_RDMA reads 0x1000..0x1280 of primary memory, by D_SRC_BASE_ADDR_LOW";
    assert_eq!(pooling().ranges(&NV_FULL, OpType::Pdp, true)[0], one);
    let wide = pooling().and(Block::PdpRdma, &[(pdp_rdma::D_DATA_FORMAT, 1)]);
    let two = "PDP_RDMA reads 0x1000..0x1680 of primary memory, by D_SRC_BASE_ADDR_LOW";
    assert_eq!(wide.ranges(&NV_FULL, OpType::Pdp, true)[0], two);
    let none = "PDP_RDMA.D_DATA_FORMAT is 0x1: the configuration does not have the precision";
    assert_eq!(wide.ranges(&NV_SMALL, OpType::Pdp, true), [none]);
}

#[test]
fn pdp_in_parts_ignores_the_width() {
    // Parts of 64 columns, eight of them: the cube's width is one.
    let part = 63 | 63 << 10 | 63 << 20;
    let split = pooling()
        .and(
            Block::PdpRdma,
            &[
                (pdp_rdma::D_DATA_CUBE_IN_WIDTH, 0),
                (pdp_rdma::D_OPERATION_MODE_CFG, 7),
                (pdp_rdma::D_PARTIAL_WIDTH_IN, part),
            ],
        )
        .and(Block::Pdp, &[(pdp::D_OPERATION_MODE_CFG, 7 << 8), (pdp::D_PARTIAL_WIDTH_OUT, part)]);
    assert_eq!(
        split.ranges(&NV_SMALL, OpType::Pdp, true),
        [
            "PDP_RDMA reads 0x1000..0x2980 of primary memory, by D_SRC_BASE_ADDR_LOW",
            "PDP writes 0x100008000..0x100009240 of primary memory, by D_DST_BASE_ADDR_LOW",
        ]
    );
    // First 3, middle 5, last 2, and a window that is two wider than its stride: the last part ends where it would else.
    let split = pooling().and(
        Block::PdpRdma,
        &[
            (pdp_rdma::D_OPERATION_MODE_CFG, 3),
            (pdp_rdma::D_PARTIAL_WIDTH_IN, 2 | 1 << 10 | 4 << 20),
            (pdp_rdma::D_POOLING_KERNEL_CFG, 0x02),
        ],
    );
    let fifteen = "PDP_RDMA reads 0x1000..0x19f8 of primary memory, by D_SRC_BASE_ADDR_LOW";
    assert_eq!(split.ranges(&NV_SMALL, OpType::Pdp, true)[0], fifteen);
    // Seven wider: the second part would begin before the address.
    let split = split.and(Block::PdpRdma, &[(pdp_rdma::D_POOLING_KERNEL_CFG, 0x07)]);
    let before = "PDP_RDMA.D_PARTIAL_WIDTH_IN is 0x400402: the second part begins before the cube";
    assert_eq!(split.ranges(&NV_SMALL, OpType::Pdp, true), [before]);
    // Two narrower: the last part would be empty, and its size would wrap.
    let split = split.and(Block::PdpRdma, &[(pdp_rdma::D_POOLING_KERNEL_CFG, 0x20)]);
    let empty = "PDP_RDMA.D_PARTIAL_WIDTH_IN is 0x400402: a part has no column";
    assert_eq!(split.ranges(&NV_SMALL, OpType::Pdp, true), [empty]);
}

/// SDP on a cube of 6 columns, 5 lines and 40 channels, without operands.
fn single(input: u32, processing: u32, output: u32) -> File {
    let reader = [
        (sdp_rdma::D_DATA_CUBE_WIDTH, 5),
        (sdp_rdma::D_DATA_CUBE_HEIGHT, 4),
        (sdp_rdma::D_DATA_CUBE_CHANNEL, 39),
        (sdp_rdma::D_SRC_BASE_ADDR_LOW, 0x1000),
        (sdp_rdma::D_SRC_BASE_ADDR_HIGH, 0),
        (sdp_rdma::D_SRC_LINE_STRIDE, 0x100),
        (sdp_rdma::D_SRC_SURFACE_STRIDE, 0x800),
        (sdp_rdma::D_SRC_DMA_CFG, MCIF),
        (sdp_rdma::D_BRDMA_CFG, 1),
        (sdp_rdma::D_NRDMA_CFG, 1),
        (sdp_rdma::D_ERDMA_CFG, 1),
        (sdp_rdma::D_FEATURE_MODE_CFG, input << 2 | processing << 4 | output << 6),
    ];
    let writer = [
        (sdp::D_DATA_CUBE_WIDTH, 5),
        (sdp::D_DATA_CUBE_HEIGHT, 4),
        (sdp::D_DATA_CUBE_CHANNEL, 39),
        (sdp::D_DST_BASE_ADDR_LOW, 0x8000),
        (sdp::D_DST_BASE_ADDR_HIGH, 0),
        (sdp::D_DST_LINE_STRIDE, 0x200),
        (sdp::D_DST_SURFACE_STRIDE, 0x1000),
        (sdp::D_DST_BATCH_STRIDE, 0x10000),
        (sdp::D_DST_DMA_CFG, MCIF),
        (sdp::D_DP_EW_CFG, sdp::D_DP_EW_CFG.reset),
        (sdp::D_FEATURE_MODE_CFG, 0),
        (sdp::D_DATA_FORMAT, processing | output << 2),
    ];
    File::new(Block::SdpRdma, &reader).and(Block::Sdp, &writer)
}

#[test]
fn sdp_counts_surfaces_of_the_processing_precision() {
    // Two surfaces of int8: 0x800 + 4 * 0x100 + 6 * 32, 0x1000 + 4 * 0x200 + 6 * 32.
    assert_eq!(
        single(0, 0, 0).ranges(&NV_FULL, OpType::Sdp, true),
        [
            "SDP_RDMA reads 0x1000..0x1cc0 of primary memory, by D_SRC_BASE_ADDR_LOW",
            "SDP writes 0x8000..0x98c0 of primary memory, by D_DST_BASE_ADDR_LOW",
        ]
    );
    // 16 bits on the 8-bit side's two surfaces are four, also where 40 channels fill three.
    assert_eq!(
        single(1, 0, 0).ranges(&NV_FULL, OpType::Sdp, true)[0],
        "SDP_RDMA reads 0x1000..0x2cc0 of primary memory, by D_SRC_BASE_ADDR_LOW"
    );
    assert_eq!(
        single(0, 0, 1).ranges(&NV_FULL, OpType::Sdp, true)[1],
        "SDP writes 0x8000..0xb8c0 of primary memory, by D_DST_BASE_ADDR_LOW"
    );
    assert_eq!(
        single(2, 2, 2).ranges(&NV_FULL, OpType::Sdp, true)[1],
        "SDP writes 0x8000..0xa8c0 of primary memory, by D_DST_BASE_ADDR_LOW"
    );
    assert_eq!(
        single(2, 2, 0).ranges(&NV_FULL, OpType::Sdp, false),
        ["SDP.D_DATA_FORMAT is 0x2: an int8 output needs int8 processing"]
    );
    assert_eq!(
        single(2, 0, 0).ranges(&NV_FULL, OpType::Sdp, true),
        ["SDP_RDMA.D_FEATURE_MODE_CFG is 0x8: the input is not of the processing precision"]
    );
}

#[test]
fn sdp_takes_a_cube_of_one_column_and_line_as_one_run() {
    let one = |file: File| {
        file.and(Block::SdpRdma, &[(sdp_rdma::D_DATA_CUBE_WIDTH, 0), (sdp_rdma::D_DATA_CUBE_HEIGHT, 0)])
            .and(Block::Sdp, &[(sdp::D_DATA_CUBE_WIDTH, 0), (sdp::D_DATA_CUBE_HEIGHT, 0)])
    };
    assert_eq!(
        one(single(1, 0, 0)).ranges(&NV_FULL, OpType::Sdp, true),
        [
            "SDP_RDMA reads 0x1000..0x1080 of primary memory, by D_SRC_BASE_ADDR_LOW",
            "SDP writes 0x8000..0x8040 of primary memory, by D_DST_BASE_ADDR_LOW",
        ]
    );
}

#[test]
fn sdp_writes_winograds_tiles_and_batches() {
    // 6 columns stay, 5 lines are two tiles of four.
    let winograd = single(0, 0, 0).and(Block::Sdp, &[(sdp::D_FEATURE_MODE_CFG, 1 << 2)]);
    let eight = "SDP writes 0x8000..0x9ec0 of primary memory, by D_DST_BASE_ADDR_LOW";
    assert_eq!(winograd.ranges(&NV_FULL, OpType::Sdp, false), [eight]);
    let none = "SDP.D_FEATURE_MODE_CFG is 0x4: the configuration has no Winograd";
    assert_eq!(winograd.ranges(&NV_LARGE, OpType::Sdp, false), [none]);
    let batch = single(0, 0, 0).and(Block::Sdp, &[(sdp::D_FEATURE_MODE_CFG, 2 << 8)]);
    let three = "SDP writes 0x8000..0x298c0 of primary memory, by D_DST_BASE_ADDR_LOW";
    assert_eq!(batch.ranges(&NV_FULL, OpType::Sdp, false), [three]);
    let both =
        "SDP.D_FEATURE_MODE_CFG is 0x204: Winograd, batches and conversion from 8 to 16 bits exclude one another";
    let mixed = batch.and(Block::Sdp, &[(sdp::D_FEATURE_MODE_CFG, 2 << 8 | 1 << 2)]);
    assert_eq!(mixed.ranges(&NV_FULL, OpType::Sdp, false), [both]);
}

#[test]
fn sdp_writes_nothing_for_pdp_or_a_comparison() {
    let flying = single(0, 0, 0).and(Block::Sdp, &[(sdp::D_FEATURE_MODE_CFG, 1 << 1)]);
    assert_eq!(flying.ranges(&NV_FULL, OpType::Sdp, false), [""; 0]);
    // EW and its ALU work, and the ALU is EQL.
    let compares = single(0, 0, 0).and(Block::Sdp, &[(sdp::D_DP_EW_CFG, 3 << 2 | 1 << 4)]);
    assert_eq!(compares.ranges(&NV_FULL, OpType::Sdp, false), [""; 0]);
}

#[test]
fn sdp_reads_operands_per_kernel_and_per_element() {
    let operand = |cfg: u32| {
        single(0, 0, 0).and(
            Block::SdpRdma,
            &[
                (sdp_rdma::D_FEATURE_MODE_CFG, 1),
                (sdp_rdma::D_NRDMA_CFG, cfg),
                (sdp_rdma::D_BN_BASE_ADDR_LOW, 0x4000),
                (sdp_rdma::D_BN_BASE_ADDR_HIGH, 0),
                (sdp_rdma::D_BN_LINE_STRIDE, 0x400),
                (sdp_rdma::D_BN_SURFACE_STRIDE, 0x2000),
            ],
        )
    };
    let range = |file: File, config| file.ranges(config, OpType::Sdp, true).remove(0);
    // Use (1 ALU, 2 both), size, mode, memory. Per kernel: 40 channels are two atoms, of one to four bytes per element.
    let of = |data_use: u32, size: u32, mode: u32| operand(data_use << 1 | size << 3 | mode << 4 | MCIF << 5);
    let reads = |end: &str| format!("SDP_RDMA reads 0x4000..{end} of primary memory, by D_BN_BASE_ADDR_LOW");
    assert_eq!(range(of(1, 0, 0), &NV_FULL), reads("0x4040"));
    assert_eq!(range(of(1, 1, 0), &NV_FULL), reads("0x4080"));
    assert_eq!(range(of(2, 1, 0), &NV_FULL), reads("0x4100"));
    assert_eq!(range(of(2, 1, 0), &NV_SMALL), reads("0x40a0"));
    // Per element: 0x2000 + 4 * 0x400 + 6 atoms of 128.
    assert_eq!(range(of(2, 1, 1), &NV_FULL), reads("0x7300"));
    let winograd = of(2, 1, 1).and(Block::SdpRdma, &[(sdp_rdma::D_FEATURE_MODE_CFG, 0b11)]);
    assert_eq!(range(winograd, &NV_FULL), reads("0x7f00"));
    assert_eq!(
        range(of(3, 1, 1), &NV_FULL),
        "SDP_RDMA.D_NRDMA_CFG is 0x3e: a field holds an encoding that is not defined"
    );
    let half = of(1, 0, 0).and(Block::SdpRdma, &[(sdp_rdma::D_FEATURE_MODE_CFG, 1 | 2 << 4)]);
    assert_eq!(range(half, &NV_FULL), "SDP_RDMA.D_NRDMA_CFG is 0x22: operands of one byte are for int8 alone");
    // Secondary memory.
    let cv = of(1, 0, 0).and(Block::SdpRdma, &[(sdp_rdma::D_NRDMA_CFG, 1 << 1)]);
    assert_eq!(range(cv.clone(), &NV_FULL), "SDP_RDMA reads 0x4000..0x4040 of secondary memory, by D_BN_BASE_ADDR_LOW");
    assert_eq!(
        range(cv, &NV_SMALL),
        "SDP_RDMA.D_NRDMA_CFG is 0x2: the configuration has no secondary memory interface"
    );
}

#[test]
fn cdp_writes_what_its_reader_reads() {
    let file = File::new(
        Block::CdpRdma,
        &[
            (cdp_rdma::D_DATA_CUBE_WIDTH, 9),
            (cdp_rdma::D_DATA_CUBE_HEIGHT, 2),
            (cdp_rdma::D_DATA_CUBE_CHANNEL, 32),
            (cdp_rdma::D_SRC_BASE_ADDR_LOW, 0x2000),
            (cdp_rdma::D_SRC_BASE_ADDR_HIGH, 0),
            (cdp_rdma::D_SRC_LINE_STRIDE, 0x140),
            (cdp_rdma::D_SRC_SURFACE_STRIDE, 0x400),
            (cdp_rdma::D_SRC_DMA_CFG, MCIF),
            (cdp_rdma::D_DATA_FORMAT, 0),
        ],
    )
    .and(
        Block::Cdp,
        &[
            (cdp::D_DST_BASE_ADDR_LOW, 0x9000),
            (cdp::D_DST_BASE_ADDR_HIGH, 0),
            (cdp::D_DST_LINE_STRIDE, 0x200),
            (cdp::D_DST_SURFACE_STRIDE, 0x800),
            (cdp::D_DST_DMA_CFG, 0),
            (cdp::D_DATA_FORMAT, 0),
        ],
    );
    assert_eq!(
        file.ranges(&NV_FULL, OpType::Cdp, true),
        [
            "CDP_RDMA reads 0x2000..0x27c0 of primary memory, by D_SRC_BASE_ADDR_LOW",
            "CDP writes 0x9000..0x9d40 of secondary memory, by D_DST_BASE_ADDR_LOW",
        ]
    );
    let other = file.and(Block::Cdp, &[(cdp::D_DATA_FORMAT, 1)]);
    let refused = "CDP.D_DATA_FORMAT is 0x1: CDP_RDMA reads another precision";
    assert_eq!(other.ranges(&NV_FULL, OpType::Cdp, true), [refused]);
}

#[test]
fn bdma_repeats_lines_and_surfaces() {
    let file = File::new(
        Block::Bdma,
        &[
            (bdma::CFG_SRC_ADDR_LOW, 0x1000),
            (bdma::CFG_SRC_ADDR_HIGH, 2),
            (bdma::CFG_DST_ADDR_LOW, 0x40),
            (bdma::CFG_DST_ADDR_HIGH, 0),
            (bdma::CFG_LINE, 1),
            (bdma::CFG_CMD, 1),
            (bdma::CFG_LINE_REPEAT, 2),
            (bdma::CFG_SRC_LINE, 0x100),
            (bdma::CFG_DST_LINE, 0x40),
            (bdma::CFG_SURF_REPEAT, 3),
            (bdma::CFG_SRC_SURF, 0x1000),
            (bdma::CFG_DST_SURF, 0xc0),
        ],
    );
    assert_eq!(
        file.ranges(&NV_FULL, OpType::Bdma, false),
        [
            "BDMA reads 0x200001000..0x200004240 of primary memory, by CFG_SRC_ADDR_LOW",
            "BDMA writes 0x40..0x340 of secondary memory, by CFG_DST_ADDR_LOW",
        ]
    );
    let high = file.and(Block::Bdma, &[(bdma::CFG_DST_ADDR_LOW, 0xffff_ffc0), (bdma::CFG_DST_ADDR_HIGH, u32::MAX)]);
    assert_eq!(
        high.accesses(&NV_FULL, OpType::Bdma, false),
        Err(Refusal::Value {
            block: Block::Bdma,
            register: bdma::CFG_DST_ADDR_HIGH,
            value: u32::MAX,
            why: "the surface ends above the last address",
        })
    );
}

/// Rubik on 10 columns, 3 lines and 40 channels.
fn rubik(mode: u32, precision: u32) -> File {
    File::new(
        Block::Rbk,
        &[
            (rbk::D_MISC_CFG, mode | precision << 8),
            (rbk::D_DAIN_RAM_TYPE, MCIF),
            (rbk::D_DATAIN_SIZE_0, 9 | 2 << 16),
            (rbk::D_DATAIN_SIZE_1, 39),
            (rbk::D_DAIN_ADDR_HIGH, 0),
            (rbk::D_DAIN_ADDR_LOW, 0x1000),
            (rbk::D_DAIN_LINE_STRIDE, 0x200),
            (rbk::D_DAIN_SURF_STRIDE, 0x1000),
            (rbk::D_DAIN_PLANAR_STRIDE, 0x800),
            (rbk::D_DAOUT_RAM_TYPE, MCIF),
            (rbk::D_DATAOUT_SIZE_1, 39),
            (rbk::D_DAOUT_ADDR_HIGH, 0),
            (rbk::D_DAOUT_ADDR_LOW, 0x10_0000),
            (rbk::D_DAOUT_LINE_STRIDE, 0x400),
            (rbk::D_CONTRACT_STRIDE_0, 0x2000),
            (rbk::D_CONTRACT_STRIDE_1, 0x800),
            (rbk::D_DAOUT_SURF_STRIDE, 0x4000),
            (rbk::D_DAOUT_PLANAR_STRIDE, 0xc00),
            (rbk::D_DECONV_STRIDE, 2 | 1 << 16),
        ],
    )
}

#[test]
fn rubik_contracts() {
    // Six places 0x2000 apart, of two surfaces each: 5 * 0x2000 + 0x1000 + 2 * 0x200 + 10 * 32. Out: two surfaces of six
    // lines of 30 atoms.
    assert_eq!(
        rubik(0, 0).ranges(&NV_FULL, OpType::Rubik, false),
        [
            "RBK reads 0x1000..0xc540 of primary memory, by D_DAIN_ADDR_LOW",
            "RBK writes 0x100000..0x1057c0 of primary memory, by D_DAOUT_ADDR_LOW",
        ]
    );
    // Lines of a cell are farther apart than the register for lines says. The range also covers what the C-model
    // writes.
    let apart = rubik(0, 0).and(Block::Rbk, &[(rbk::D_CONTRACT_STRIDE_1, 0x3000)]);
    let end = "RBK writes 0x100000..0x10a7c0 of primary memory, by D_DAOUT_ADDR_LOW";
    assert_eq!(apart.ranges(&NV_FULL, OpType::Rubik, false)[1], end);
    let wide = rubik(0, 0).and(Block::Rbk, &[(rbk::D_DATAIN_SIZE_0, 8191), (rbk::D_DECONV_STRIDE, 1)]);
    let refused = "RBK.D_DECONV_STRIDE is 0x1: an output line has more than 8192 atoms";
    assert_eq!(wide.ranges(&NV_FULL, OpType::Rubik, false), [refused]);
}

#[test]
fn rubik_splits_and_merges() {
    // Two surfaces of 10 atoms per line, 40 planes of one atom per line.
    assert_eq!(
        rubik(1, 0).ranges(&NV_FULL, OpType::Rubik, false),
        [
            "RBK reads 0x1000..0x2540 of primary memory, by D_DAIN_ADDR_LOW",
            "RBK writes 0x100000..0x11dc20 of primary memory, by D_DAOUT_ADDR_LOW",
        ]
    );
    assert_eq!(
        rubik(2, 0).ranges(&NV_FULL, OpType::Rubik, false),
        [
            "RBK reads 0x1000..0x14c20 of primary memory, by D_DAIN_ADDR_LOW",
            "RBK writes 0x100000..0x104940 of primary memory, by D_DAOUT_ADDR_LOW",
        ]
    );
    // int16: three surfaces; 17 elements of a plane's line are two atoms.
    let wide = rubik(1, 1).and(Block::Rbk, &[(rbk::D_DATAIN_SIZE_0, 16 | 2 << 16)]);
    assert_eq!(
        wide.ranges(&NV_FULL, OpType::Rubik, false),
        [
            "RBK reads 0x1000..0x3620 of primary memory, by D_DAIN_ADDR_LOW",
            "RBK writes 0x100000..0x11dc40 of primary memory, by D_DAOUT_ADDR_LOW",
        ]
    );
    let other = rubik(1, 0).and(Block::Rbk, &[(rbk::D_DATAOUT_SIZE_1, 64)]);
    let refused = "RBK.D_DATAOUT_SIZE_1 is 0x40: the input has another number of surfaces than the output";
    assert_eq!(other.ranges(&NV_FULL, OpType::Rubik, false), [refused]);
    let none = "RBK.D_MISC_CFG is 0x3: a field holds an encoding that is not defined";
    assert_eq!(rubik(3, 0).ranges(&NV_FULL, OpType::Rubik, false), [none]);
}

/// A convolution of 10 columns, 6 lines and 40 channels.
fn convolution() -> File {
    File::new(
        Block::Cdma,
        &[
            (cdma::D_MISC_CFG, 0),
            (cdma::D_DATAIN_FORMAT, 0),
            (cdma::D_DATAIN_SIZE_0, 9 | 5 << 16),
            (cdma::D_DATAIN_SIZE_1, 39),
            (cdma::D_PIXEL_OFFSET, 0),
            (cdma::D_DAIN_RAM_TYPE, MCIF),
            (cdma::D_DAIN_ADDR_HIGH_0, 0),
            (cdma::D_DAIN_ADDR_LOW_0, 0x1000),
            (cdma::D_DAIN_ADDR_HIGH_1, 0),
            (cdma::D_DAIN_ADDR_LOW_1, 0x8000),
            (cdma::D_LINE_STRIDE, 0x200),
            (cdma::D_LINE_UV_STRIDE, 0x300),
            (cdma::D_SURF_STRIDE, 0x1000),
            (cdma::D_DAIN_MAP, 0),
            (cdma::D_BATCH_NUMBER, 0),
            (cdma::D_BATCH_STRIDE, 0x10000),
            (cdma::D_WEIGHT_FORMAT, 0),
            (cdma::D_WEIGHT_SIZE_1, 299),
            (cdma::D_WEIGHT_RAM_TYPE, MCIF),
            (cdma::D_WEIGHT_ADDR_HIGH, 0),
            (cdma::D_WEIGHT_ADDR_LOW, 0x10_0000),
            (cdma::D_WEIGHT_BYTES, 0x480),
            (cdma::D_WGS_ADDR_HIGH, 0),
            (cdma::D_WGS_ADDR_LOW, 0x20_0000),
            (cdma::D_WMB_ADDR_HIGH, 0),
            (cdma::D_WMB_ADDR_LOW, 0x30_0000),
            (cdma::D_WMB_BYTES, 0x80),
        ],
    )
}

const WEIGHTS: &str = "CDMA reads 0x100000..0x100480 of primary memory, by D_WEIGHT_ADDR_LOW";

#[test]
fn cdma_reads_features() {
    // Two surfaces: 0x1000 + 5 * 0x200 + 10 * 32.
    let data = "CDMA reads 0x1000..0x2b40 of primary memory, by D_DAIN_ADDR_LOW_0";
    assert_eq!(convolution().ranges(&NV_FULL, OpType::Conv, false), [data, WEIGHTS]);
    // Five surfaces of 8 channels, lines of 80 bytes.
    let small = "CDMA reads 0x1000..0x5a50 of primary memory, by D_DAIN_ADDR_LOW_0";
    assert_eq!(convolution().ranges(&NV_SMALL, OpType::Conv, false), [small, WEIGHTS]);
    let batch = convolution().and(Block::Cdma, &[(cdma::D_BATCH_NUMBER, 2)]);
    let three = "CDMA reads 0x1000..0x22b40 of primary memory, by D_DAIN_ADDR_LOW_0";
    assert_eq!(batch.ranges(&NV_FULL, OpType::Conv, false)[0], three);
    // Winograd pads in the buffer.
    let winograd = convolution().and(Block::Cdma, &[(cdma::D_MISC_CFG, 1), (cdma::D_ZERO_PADDING, 0x0101_0101)]);
    assert_eq!(winograd.ranges(&NV_FULL, OpType::Conv, false)[0], data);
    let packed = convolution().and(Block::Cdma, &[(cdma::D_DAIN_MAP, 1)]);
    let refused = "CDMA.D_DAIN_MAP is 0x1: LINE_PACKED is set, but the line stride is not the size of a line";
    assert_eq!(packed.ranges(&NV_FULL, OpType::Conv, false), [refused]);
}

#[test]
fn cdma_reads_compressed_weights() {
    // 300 kernels are ten groups of 32. Their sizes take 40 bytes.
    let compressed = convolution().and(Block::Cdma, &[(cdma::D_WEIGHT_FORMAT, 1)]);
    assert_eq!(
        compressed.ranges(&NV_FULL, OpType::Conv, false)[1..],
        [
            WEIGHTS,
            "CDMA reads 0x300000..0x300080 of primary memory, by D_WMB_ADDR_LOW",
            "CDMA reads 0x200000..0x200040 of primary memory, by D_WGS_ADDR_LOW",
        ]
    );
    // 19 groups of 16 in 16 bits.
    let wide = compressed.clone().and(Block::Cdma, &[(cdma::D_MISC_CFG, 0x1100)]);
    let sizes = "CDMA reads 0x200000..0x200060 of primary memory, by D_WGS_ADDR_LOW";
    assert_eq!(wide.ranges(&NV_FULL, OpType::Conv, false)[3], sizes);
    let refused = "CDMA.D_WEIGHT_FORMAT is 0x1: the configuration has no weight compression";
    assert_eq!(compressed.ranges(&NV_SMALL, OpType::Conv, false), [refused]);
}

#[test]
fn cdma_reads_images() {
    let image = |format: PixelFormat, offset: u32| {
        let value = 1 | format.to_bits() << 8;
        convolution().and(Block::Cdma, &[(cdma::D_DATAIN_FORMAT, value), (cdma::D_PIXEL_OFFSET, offset)])
    };
    let planes = |file: File, config| {
        let mut ranges = file.ranges(config, OpType::Conv, false);
        assert_eq!(ranges.pop().as_deref(), Some(WEIGHTS));
        ranges
    };
    let first = |end: &str| format!("CDMA reads 0x1000..{end} of primary memory, by D_DAIN_ADDR_LOW_0");
    let second = |end: &str| format!("CDMA reads 0x8000..{end} of primary memory, by D_DAIN_ADDR_LOW_1");
    // 10 pixels of four bytes are two atoms, and three when they begin at the seventh of eight.
    assert_eq!(planes(image(PixelFormat::A8B8G8R8, 0), &NV_FULL), [first("0x1a40")]);
    assert_eq!(planes(image(PixelFormat::A8B8G8R8, 7), &NV_FULL), [first("0x1a60")]);
    assert_eq!(planes(image(PixelFormat::A8B8G8R8, 0), &NV_SMALL), [first("0x1a28")]);
    // Semi-planar: 10 bytes and 20; at offset 30 the second plane begins at its fifteenth pixel.
    let ranges = planes(image(PixelFormat::Y8_U8V8N444, 30), &NV_FULL);
    assert_eq!(ranges, [first("0x1a40"), second("0x8f40")]);
    assert_eq!(planes(image(PixelFormat::Y8_U8V8N444, 0), &NV_SMALL), [first("0x1a10"), second("0x8f18")]);
    // nv_small has no pixels of 16 bits, and takes these for four bytes each.
    assert_eq!(planes(image(PixelFormat::R16, 0), &NV_FULL), [first("0x1a20")]);
    assert_eq!(planes(image(PixelFormat::R16, 0), &NV_SMALL), [first("0x1a28")]);
    let refused = |offset: u32, format: u32| {
        convolution().and(Block::Cdma, &[(cdma::D_DATAIN_FORMAT, format), (cdma::D_PIXEL_OFFSET, offset)]).ranges(
            &NV_FULL,
            OpType::Conv,
            false,
        )
    };
    let line = "CDMA.D_PIXEL_OFFSET is 0x10000: pitch linear images have no line offset";
    assert_eq!(refused(1 << 16, 1), [line]);
    assert_eq!(
        refused(0, 1 | 36 << 8),
        ["CDMA.D_DATAIN_FORMAT is 0x2401: a field holds an encoding that is not defined"]
    );
    let mapped = "CDMA.D_DATAIN_FORMAT is 0x10001: images are pitch linear, which is PIXEL_MAPPING 0";
    assert_eq!(refused(0, 1 | 1 << 16), [mapped]);
}

#[test]
fn a_steering_register_without_a_value_is_refused() {
    for (unit, rdma, file) in [
        (OpType::Pdp, true, pooling()),
        (OpType::Sdp, true, single(0, 0, 0).without(Block::Sdp, sdp::D_DST_BATCH_STRIDE)),
        (OpType::Rubik, false, rubik(0, 0).without(Block::Rbk, rbk::D_DAIN_PLANAR_STRIDE)),
    ] {
        let whole = file.accesses(&NV_FULL, unit, rdma).unwrap();
        for &(block, offset) in file.0.keys() {
            let described = block.registers().iter().find(|described| described.register.offset == offset).unwrap();
            match file.clone().without(block, described.register).accesses(&NV_FULL, unit, rdma) {
                Err(Refusal::Missing { block: missing, register }) => {
                    assert_eq!((missing, register), (block, described.register));
                }
                // A register that does not steer an address changes nothing.
                answer => assert_eq!(answer.as_deref(), Ok(&whole[..]), "{}", described.name),
            }
        }
    }
}

#[test]
fn an_address_inside_an_atom_is_refused() {
    let file = pooling().and(Block::Pdp, &[(pdp::D_DST_BASE_ADDR_LOW, 0x8004)]);
    let refused = "PDP.D_DST_BASE_ADDR_LOW is 0x8004: the address is not aligned to an atom";
    assert_eq!(file.ranges(&NV_SMALL, OpType::Pdp, false), [refused]);
}

/// A loadable with a pooling in eight parts, for which its cube is too small.
#[test]
fn parts_outside_the_buffers_are_refused() {
    let Some(folder) = reference::folder() else { return };
    let loadable = Loadable::open(folder.join("loadables-hostile/pdp_parts.nvdla")).unwrap();
    let refusal = HostTask::all(&loadable).iter().find_map(|task| task.parse(&NV_SMALL).err());
    let expected =
        "operation 2 (PDP): PDP_RDMA reads 0x10003000..0x10007f00 of primary memory, by D_SRC_BASE_ADDR_LOW, \
                    but the buffer of address list entry 2 is 0x10003000..0x10007000 of primary memory";
    assert_eq!(refusal.unwrap().to_string(), expected);
}
