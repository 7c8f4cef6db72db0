// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operations that are connected on the fly: they run together, at the speed of the slowest of them.
//!
//! SDP takes the accumulator's results at the throughput of the sub-units in use, or of the PDP after it. While the accumulator
//! waits, the sequencer waits too (see [`crate::conv`]).

use crate::bdma::{bdma, BdmaShape};
use crate::cdp::{cdp, CdpShape};
use crate::conv::{self, ConvShape};
use crate::estimate::{Estimate, Limit};
use crate::memory::{interface, Bytes, Memory};
use crate::pdp::{self, PdpShape};
use crate::rubik::{rubik, RubikShape};
use crate::sdp::{self, SdpShape};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{MemoryType, OpType, Operation, Surface};
use nvdla_uapi::layout;

/// An operation of any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the units' names
pub enum Shape {
    Bdma(BdmaShape),
    Conv(ConvShape),
    Sdp(SdpShape),
    Pdp(PdpShape),
    Cdp(CdpShape),
    Rubik(RubikShape),
}

impl Shape {
    /// The shape of an operation's descriptors; none if the operation and the surface are of different units.
    pub fn from_descriptors(operation: &Operation, surface: &Surface) -> Option<Self> {
        Some(match (operation, surface) {
            (Operation::Bdma(_), Surface::Bdma(surface)) => Self::Bdma(BdmaShape::from_descriptors(surface)),
            (Operation::Conv(conv), Surface::Conv(surface)) => Self::Conv(ConvShape::from_descriptors(conv, surface)),
            (Operation::Sdp(sdp), Surface::Sdp(surface)) => Self::Sdp(SdpShape::from_descriptors(sdp, surface)),
            (Operation::Pdp(pdp), Surface::Pdp(surface)) => Self::Pdp(PdpShape::from_descriptors(pdp, surface)),
            (Operation::Cdp(cdp), Surface::Cdp(surface)) => Self::Cdp(CdpShape::from_descriptors(cdp, surface)),
            (Operation::Rubik(rubik), Surface::Rubik(surface)) => {
                Self::Rubik(RubikShape::from_descriptors(rubik, surface))
            }
            _ => return None,
        })
    }

    /// The time of the operation without others.
    pub fn estimate(&self, config: &Config, memory: &Memory) -> Estimate {
        match self {
            Self::Bdma(shape) => bdma(shape, config, memory),
            Self::Conv(shape) => convolution(shape, config, memory),
            Self::Sdp(shape) => sdp::sdp(shape, config, memory),
            Self::Pdp(shape) => pdp::pdp(shape, config, memory),
            Self::Cdp(shape) => cdp(shape, config, memory),
            Self::Rubik(shape) => rubik(shape, config, memory),
        }
    }

    /// The cycles by which it is shorter than alone if it directly follows the unit's operation `before`, and was enabled `ahead` cycles
    /// before that one ended. SDP and PDP fetch meanwhile; a convolution's share is in [`crate::schedule`].
    pub fn beside(&self, before: &Self, ahead: u64, config: &Config, memory: &Memory) -> u64 {
        let most = match (self, before) {
            (Self::Sdp(shape), Self::Sdp(before)) => shape.beside(before, memory),
            (Self::Pdp(shape), Self::Pdp(before)) => shape.beside(before, config, memory),
            _ => 0,
        };
        most.min(ahead)
    }

    /// The unit that runs it.
    pub const fn unit(&self) -> OpType {
        match self {
            Self::Bdma(_) => OpType::Bdma,
            Self::Conv(_) => OpType::Conv,
            Self::Sdp(_) => OpType::Sdp,
            Self::Pdp(_) => OpType::Pdp,
            Self::Cdp(_) => OpType::Cdp,
            Self::Rubik(_) => OpType::Rubik,
        }
    }

    /// Multiply-accumulate steps of the algorithm; 0 for other units than the convolution.
    pub fn macs(&self) -> u64 {
        match self {
            Self::Conv(shape) => shape.macs(),
            _ => 0,
        }
    }
}

/// Additional cycles of a pooling that takes its input from SDP. Fitted on one case of nv_large.
const POOLING_BEHIND: u64 = 22;

/// The time of a convolution whose SDP uses no sub-unit and writes to DRAM.
pub fn convolution(shape: &ConvShape, config: &Config, memory: &Memory) -> Estimate {
    pipeline(Some(shape), None, None, config, memory)
}

/// The time of operations that are connected on the fly, in the order of the data: a convolution, an SDP and a PDP operation,
/// each of them optional. For a single operation it is the result of its own function.
pub fn pipeline(
    conv: Option<&ConvShape>,
    sdp: Option<&SdpShape>,
    pdp: Option<&PdpShape>,
    config: &Config,
    memory: &Memory,
) -> Estimate {
    let bytes = [
        conv.map(|shape| shape.bytes(config)),
        sdp.map(|shape| shape.bytes(config)),
        pdp.map(|shape| shape.bytes(config)),
    ]
    .into_iter()
    .flatten()
    .fold(Bytes::default(), |sum, bytes| sum + bytes);
    let Some(conv) = conv else {
        return match (sdp, pdp) {
            (Some(shape), None) => sdp::sdp(shape, config, memory),
            (None, Some(shape)) => pdp::pdp(shape, config, memory),
            (Some(before), Some(shape)) => {
                let (compute, reading, fixed) = sdp::parts(before, config, memory);
                let compute = compute.max(pdp::pdp(shape, config, memory).compute);
                let latency = |memory_type| u64::from(interface(memory_type, memory).latency);
                let latency = latency(before.input.memory) + latency(shape.output.memory);
                Estimate::new(compute, reading, fixed + POOLING_BEHIND, latency, Limit::Throughput, bytes, memory)
            }
            (None, None) => Estimate::new(0, 0, 0, 0, Limit::Throughput, bytes, memory),
        };
    };
    // A position is the channels of a kernel group at one output.
    let channels = conv.group(config);
    let mut position = match sdp {
        Some(shape) => shape.position(channels, config),
        None => channels.div_ceil(config.sdp_bs_throughput.max(1).into()),
    };
    let (mut output, mut behind) = (sdp.map_or(MemoryType::Mc, |shape| shape.output.memory), 0);
    let mut written = sdp.map_or(Bytes::default(), |shape| shape.output.bytes(config));
    position += conv::delivery(config);
    if let Some(shape) = pdp {
        written += shape.output.bytes(config);
        let bytes = channels * u64::from(layout::bytes(shape.input.precision));
        position = position.max(bytes.div_ceil(config.pdp_throughput.max(1).into()));
        (output, behind) = (shape.output.memory, POOLING_BEHIND + shape.flush(config));
    }
    let run = conv::run(conv, position, config, memory);
    let operands = sdp.map_or(0, |shape| shape.operands(config, memory));
    let (dram, sram) = bytes.cycles(memory);
    let moving = dram.max(sram);
    let fixed = behind + u64::from(interface(output, memory).latency);
    // A convolution starts when its whole input has arrived, so reading the input and writing the output do not overlap.
    let (dram_written, sram_written) = written.cycles(memory);
    let writing = run.around + dram_written.max(sram_written);
    let cycles = run.cycles.max(writing).max(operands).max(moving) + fixed;
    let macs = conv.mac_cycles(config);
    let limit = if run.compute.max(operands) >= cycles - run.compute.max(operands) {
        // Either the cells are busy, or the units that take their sums make them wait.
        if macs * 4 >= run.compute.max(operands) * 3 {
            Limit::Macs
        } else {
            Limit::Throughput
        }
    } else if 2 * moving < cycles {
        Limit::Latency
    } else if moving == dram {
        Limit::Dram
    } else {
        Limit::Sram
    };
    Estimate { cycles, compute: run.compute.max(operands), memory: moving, bytes, limit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Cube;
    use crate::sdp::SdpOperand;
    use nvdla_uapi::config::{NV_FULL, NV_SMALL};
    use nvdla_uapi::desc::SdpOperandMode;
    use nvdla_uapi::reg::values::Precision;

    #[test]
    fn one_operation_alone_is_as_its_own_function_says() {
        let cube = Cube::int8(16, 8, 8);
        let memory = Memory::new(&NV_SMALL, 50, 8.0);
        let shape = SdpShape::new(cube, cube);
        assert_eq!(pipeline(None, Some(&shape), None, &NV_SMALL, &memory), sdp::sdp(&shape, &NV_SMALL, &memory));
    }

    #[test]
    fn a_pipeline_takes_as_long_as_its_slowest_part_and_reads_what_they_all_read() {
        let memory = Memory::new(&NV_FULL, 50, 64.0);
        let output = Cube::int8(64, 28, 28);
        let conv = ConvShape::direct(Cube::int8(64, 30, 30), 64, (3, 3), output);
        // Element-wise: 4 elements per cycle.
        let y = SdpOperand { mode: SdpOperandMode::PerPoint, bytes: 1, memory: MemoryType::Mc };
        let after = SdpShape { y: Some(y), ..SdpShape::new(output.on_the_fly(), output) };
        let (first, second) = (convolution(&conv, &NV_FULL, &memory), sdp::sdp(&after, &NV_FULL, &memory));
        let both = pipeline(Some(&conv), Some(&after), None, &NV_FULL, &memory);
        assert_eq!(both.bytes, first.bytes + second.bytes);
        assert!(both.cycles >= first.cycles.max(second.cycles));
        assert!(both.cycles <= first.cycles + second.cycles);
    }

    /// Cycles of convolutions with SDP on the Verilog of nv_full, with a latency of 50 cycles and 64 bytes per cycle each way
    /// (`docs/profile.md`). SDP limits those of 1 x 1.
    #[test]
    fn sdp_of_nv_full_takes_16_sums_per_cycle() {
        let memory = Memory::new(&NV_FULL, 50, 128.0);
        let cube = |channels, side, precision| Cube { precision, ..Cube::int8(channels, side, side) };
        let (int8, fp16) = (Precision::Int8, Precision::Fp16);
        for (channels, side, kernels, size, precision, measured) in [
            (32, 8, 96, 1, int8, 617),
            (32, 8, 96, 1, fp16, 687),
            (32, 28, 128, 1, int8, 6897),
            (64, 14, 256, 1, int8, 3769),
            (64, 14, 256, 1, fp16, 4230),
            (32, 14, 32, 3, int8, 2191),
            (32, 14, 32, 3, fp16, 4177),
        ] {
            let (input, output) = (cube(channels, side, precision), cube(kernels, side, precision));
            let sdp = SdpShape::new(output.on_the_fly(), output);
            let conv = ConvShape::direct(input, kernels, (size, size), output);
            // The measured cycles end with the convolution, and SDP ends one write later.
            let estimate = pipeline(Some(&conv), Some(&sdp), None, &NV_FULL, &memory).cycles - 50;
            assert!(estimate.abs_diff(measured) * 100 < measured * 5, "{estimate}, measured {measured}");
        }
    }

    #[test]
    fn more_takes_no_less() {
        let memory = |latency, bandwidth| Memory::new(&NV_SMALL, latency, bandwidth);
        let shape = ConvShape::direct(Cube::int8(32, 16, 16), 64, (3, 3), Cube::int8(64, 14, 14));
        let cycles = |shape: &ConvShape, memory: &Memory| convolution(shape, &NV_SMALL, memory).cycles;
        let base = cycles(&shape, &memory(50, 8.0));
        assert!(cycles(&shape, &memory(200, 8.0)) > base);
        assert!(cycles(&shape, &memory(50, 2.0)) > base);
        for nothing in [0.0, -1.0, f64::NAN] {
            assert!(cycles(&shape, &memory(u32::MAX, nothing)) > base, "{nothing}");
        }
        // Weights of one kernel group in the buffer at a time.
        assert!(cycles(&ConvShape { weight_banks: 1, ..shape }, &memory(50, 8.0)) > base);
        assert!(cycles(&ConvShape { data_reuse: true, ..shape }, &memory(50, 8.0)) < base);
    }
}
