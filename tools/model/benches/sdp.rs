// SPDX-License-Identifier: MIT OR Apache-2.0

//! SDP against memory bandwidth.
//!
//! Each operation's throughput counts every byte that it must read or write once (data, operands, result). After
//! criterion's own figures, one line per operation gives the ratio to a plain copy of the same number of bytes, half
//! read and half written: 1.00 is as fast as `memcpy`. With a filter only the selected operations have a line. A filter
//! that selects nothing (`-- NOTHING`) prints all lines, without criterion's figures.

mod shortest;
mod table;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use nvdla_model::memory::{Memory, Port};
use nvdla_model::registers::Registers;
use nvdla_model::sdp::{run, State};
use nvdla_model::stream::{Samples, Stream};
use nvdla_uapi::config::NV_FULL;
use nvdla_uapi::reg::{sdp as reg, sdp_rdma as rdma_reg, Block, Register};

use shortest::shortest;
use table::Table;

/// Width and height of a cube that the second-level cache holds, and of one that no cache holds.
const SIZES: [(&str, u32); 2] = [("cache", 28), ("memory", 448)];
const ATOM: u32 = 32;
/// Bytes of the largest cube here, of 16 bits and 256 channels.
const CUBE: u32 = 448 * 448 * 256 * 2;
const DATA: u32 = 0;
const OPERANDS: u32 = CUBE;
const RESULT: u32 = 3 * CUBE;

struct Bytes(Vec<u8>);

impl Memory for Bytes {
    fn read(&self, _: Port, address: u64, length: usize) -> Option<&[u8]> {
        self.0.get(usize::try_from(address).ok()?..)?.get(..length)
    }

    fn write(&mut self, _: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        self.0.get_mut(usize::try_from(address).ok()?..)?.get_mut(..length)
    }
}

/// An operation and what it moves.
struct Operation {
    name: &'static str,
    rdma: Registers,
    sdp: Registers,
    stream: Option<Stream>,
    bytes: u64,
}

const INT8: u32 = 0;
const FP16: u32 = 2;

impl Operation {
    /// A conversion of a packed cube of 256 channels, with every sub-unit bypassed.
    fn new(
        name: &'static str,
        size: u32,
        precision: u32,
        on_flying: bool,
        set: &[(Register, u32)],
        rdma_set: &[(Register, u32)],
    ) -> Self {
        let (mut rdma, mut sdp) = (Registers::reset(Block::SdpRdma), Registers::reset(Block::Sdp));
        let line = size * ATOM;
        let flying = u32::from(on_flying);
        for (register, value) in [
            (rdma_reg::D_DATA_CUBE_WIDTH, size - 1),
            (rdma_reg::D_DATA_CUBE_HEIGHT, size - 1),
            (rdma_reg::D_DATA_CUBE_CHANNEL, 255),
            (rdma_reg::D_SRC_BASE_ADDR_LOW, DATA),
            (rdma_reg::D_SRC_LINE_STRIDE, line),
            (rdma_reg::D_SRC_SURFACE_STRIDE, line * size),
            (rdma_reg::D_FEATURE_MODE_CFG, flying | precision << 2 | precision << 4 | precision << 6),
        ] {
            rdma.set(register, value);
        }
        for (register, value) in [
            (reg::D_DATA_CUBE_WIDTH, size - 1),
            (reg::D_DATA_CUBE_HEIGHT, size - 1),
            (reg::D_DATA_CUBE_CHANNEL, 255),
            (reg::D_DST_BASE_ADDR_LOW, RESULT),
            (reg::D_DST_LINE_STRIDE, line),
            (reg::D_DST_SURFACE_STRIDE, line * size),
            (reg::D_FEATURE_MODE_CFG, flying),
            (reg::D_DATA_FORMAT, precision | precision << 2),
            (reg::D_CVT_SCALE, 23_170),
            (reg::D_CVT_SHIFT, 15),
        ] {
            sdp.set(register, value);
        }
        for &(register, value) in set {
            sdp.set(register, value);
        }
        for &(register, value) in rdma_set {
            rdma.set(register, value);
        }
        let elements = u64::from(size * size * 256);
        let element = if precision == INT8 { 1 } else { 2 };
        let lanes = if precision == INT8 { 32 } else { 16 };
        let stream = on_flying.then(|| Stream {
            width: size as usize,
            height: size as usize,
            channels: 256,
            lanes,
            batch: 1,
            samples: if precision == INT8 {
                Samples::Int(
                    (0..elements as i32).map(|index| index.wrapping_mul(0x9e37_79b1_u32 as i32) >> 12).collect(),
                )
            } else {
                Samples::Float((0..elements).map(|index| (index % 1000) as f32 * 0.25 - 100.0).collect())
            },
        });
        let per_element = rdma_set.iter().any(|&(register, value)| register == rdma_reg::D_ERDMA_CFG && value & 1 == 0);
        let bytes = elements * (element + if on_flying { 4 } else { element } + if per_element { element } else { 0 });
        Self { name, rdma, sdp, stream, bytes }
    }

    fn run(&self, state: &mut State, memory: &mut Bytes) {
        let done = run(state, &NV_FULL, &self.rdma, &self.sdp, self.stream.as_ref(), memory);
        assert!(black_box(done).is_ok());
    }
}

/// X1 adds a bias and applies ReLU; two bytes per kernel.
const BIAS_RELU: [(Register, u32); 2] = [(reg::D_DP_BS_CFG, 0x18), (reg::D_DP_BS_ALU_CFG, 1)];
const BIAS_RDMA: [(Register, u32); 2] =
    [(rdma_reg::D_BRDMA_CFG, 1 << 1 | 1 << 3), (rdma_reg::D_BS_BASE_ADDR_LOW, OPERANDS)];

fn operations(size: u32) -> Vec<Operation> {
    let line = size * ATOM;
    let elementwise = |precision| {
        let two_bytes = u32::from(precision != INT8);
        vec![
            (rdma_reg::D_ERDMA_CFG, 1 << 1 | two_bytes << 3 | 1 << 4),
            (rdma_reg::D_EW_BASE_ADDR_LOW, OPERANDS),
            (rdma_reg::D_EW_LINE_STRIDE, line),
            (rdma_reg::D_EW_SURFACE_STRIDE, line * size),
        ]
    };
    let elementwise_set = [(reg::D_DP_EW_CFG, 0x58), (reg::D_DP_EW_ALU_CFG, 3)];
    let batch_norm = [(reg::D_DP_BN_CFG, 0x08), (reg::D_DP_BN_ALU_CFG, 1), (reg::D_DP_BN_MUL_CFG, 1 | 8 << 8)];
    let batch_norm_rdma = [(rdma_reg::D_NRDMA_CFG, 2 << 1 | 1 << 3), (rdma_reg::D_BN_BASE_ADDR_LOW, OPERANDS)];
    let lookup = [
        (reg::D_DP_EW_CFG, 0x12),
        (reg::S_LUT_CFG, 0x71),
        (reg::S_LUT_INFO, 12 << 16),
        (reg::S_LUT_LO_START, (-(1i32 << 19)) as u32),
        (reg::S_LUT_LO_END, 1 << 19),
    ];
    vec![
        Operation::new("int8 convert", size, INT8, false, &[], &[]),
        Operation::new("int8 bias relu", size, INT8, false, &BIAS_RELU, &BIAS_RDMA),
        Operation::new("int8 batch norm relu", size, INT8, false, &batch_norm, &batch_norm_rdma),
        Operation::new("int8 element-wise add", size, INT8, false, &elementwise_set, &elementwise(INT8)),
        Operation::new("int8 lookup", size, INT8, false, &lookup, &[]),
        Operation::new("int8 sums, bias relu", size, INT8, true, &BIAS_RELU, &BIAS_RDMA),
        Operation::new("int8 sums, lookup", size, INT8, true, &lookup, &[]),
        Operation::new("fp16 convert", size, FP16, false, &[], &[]),
        Operation::new("fp16 bias relu", size, FP16, false, &BIAS_RELU, &BIAS_RDMA),
        Operation::new("fp16 batch norm relu", size, FP16, false, &batch_norm, &batch_norm_rdma),
        Operation::new("fp16 element-wise add", size, FP16, false, &elementwise_set, &elementwise(FP16)),
        Operation::new("fp16 sums, bias relu", size, FP16, true, &BIAS_RELU, &BIAS_RDMA),
    ]
}

fn main() {
    println!("instruction set: {}", nvdla_model::Isa::in_use().expect("NVDLA_ISA").name());
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .configure_from_args();
    let mut memory = Bytes(vec![0x11; RESULT as usize + CUBE as usize]);
    for (index, byte) in memory.0.iter_mut().enumerate() {
        *byte = (index as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0] & 0x7b;
    }
    let mut state = State::default();
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let is_chosen = |operation: &Operation| {
        SIZES.map(|(place, _)| format!("sdp/{place}/{}", operation.name).contains(&filter)).contains(&true)
    };
    let all = !operations(1).iter().any(is_chosen);
    let mut table = Table::default();
    for (place, size) in SIZES {
        let mut group = criterion.benchmark_group(format!("sdp/{place}"));
        for (row, operation) in operations(size).into_iter().filter(|operation| all || is_chosen(operation)).enumerate()
        {
            group.throughput(Throughput::Bytes(operation.bytes));
            group.bench_function(BenchmarkId::from_parameter(operation.name), |bencher| {
                bencher.iter(|| operation.run(&mut state, &mut memory));
            });
            let half = operation.bytes as usize / 2;
            let plain = shortest(|| {
                let (from, to) = memory.0.split_at_mut(RESULT as usize / 2);
                to[..half].copy_from_slice(black_box(&from[..half]));
            });
            let own = shortest(|| operation.run(&mut state, &mut memory));
            table.add(row, operation.name, operation.bytes, [own, plain]);
        }
        group.finish();
    }
    table.print(SIZES.map(|(place, _)| place));
}
