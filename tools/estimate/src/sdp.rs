// SPDX-License-Identifier: MIT OR Apache-2.0

//! SDP: elements / the least throughput of the sub-units in use, or the speed at which its readers get data.
//!
//! Each reader (input, operands of X1, X2 and Y) has at most as many outstanding atoms as its latency FIFO holds; see
//! [`crate::memory::Reader`]. The cycles for starting and ending were fitted on SDP operations of nv_small and nv_large.

use crate::estimate::{Estimate, Limit};
use crate::memory::{interface, Bytes, Cube, Memory, Reader, Unit};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{DataCube, MemoryType, SdpOp, SdpOperandMode, SdpOperation, SdpSubUnit, SdpSurface};
use nvdla_uapi::layout;

/// The operands of a sub-unit in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SdpOperand {
    /// One operand per layer (in a register), per kernel or per element.
    pub mode: SdpOperandMode,
    /// Bytes of one element's operands: twice as many if both ALU and multiplier have one.
    pub bytes: u32,
    /// The memory that holds them.
    pub memory: MemoryType,
}

impl SdpOperand {
    fn from_descriptors(unit: &SdpSubUnit, operands: &DataCube) -> Self {
        let sides = if unit.op_type == SdpOperation::Both { 2 } else { 1 };
        Self { mode: unit.mode, bytes: sides * layout::bytes(unit.precision), memory: operands.mem_type }
    }

    /// Bytes read for an output cube.
    fn read(self, output: &Cube, config: &Config) -> Bytes {
        let count = match self.mode {
            SdpOperandMode::PerLayer => 0,
            SdpOperandMode::PerKernel => u64::from(output.channels),
            SdpOperandMode::PerPoint => output.elements(config),
        };
        Bytes::of(self.memory, count * u64::from(self.bytes))
    }
}

/// An SDP operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SdpShape {
    /// The input, from memory or from a convolution on the fly.
    pub input: Cube,
    /// The output, to memory or to PDP on the fly.
    pub output: Cube,
    /// Sub-unit X1, if it is used.
    pub x1: Option<SdpOperand>,
    /// Sub-unit X2, if it is used.
    pub x2: Option<SdpOperand>,
    /// Sub-unit Y, if it is used.
    pub y: Option<SdpOperand>,
}

impl SdpShape {
    /// An operation without sub-units.
    pub const fn new(input: Cube, output: Cube) -> Self {
        Self { input, output, x1: None, x2: None, y: None }
    }

    /// The shape of an operation's descriptors.
    pub fn from_descriptors(operation: &SdpOp, surface: &SdpSurface) -> Self {
        let operand =
            |unit: &Option<SdpSubUnit>, cube| unit.as_ref().map(|unit| SdpOperand::from_descriptors(unit, cube));
        Self {
            input: Cube::from_descriptor(&surface.src_data, operation.src_precision),
            output: Cube::from_descriptor(&surface.dst_data, operation.dst_precision),
            x1: operand(&operation.x1_op, &surface.x1_data),
            x2: operand(&operation.x2_op, &surface.x2_data),
            y: operand(&operation.y_op, &surface.y_data),
        }
    }

    /// Bytes that it moves.
    pub fn bytes(&self, config: &Config) -> Bytes {
        let operands = [self.x1, self.x2, self.y].into_iter().flatten();
        operands.fold(self.input.bytes(config) + self.output.bytes(config), |sum, operand| {
            sum + operand.read(&self.output, config)
        })
    }

    /// Elements per cycle that the sub-units in use process.
    fn throughput(&self, config: &Config) -> u64 {
        let units = [
            (self.x1, config.sdp_bs_throughput),
            (self.x2, config.sdp_bn_throughput),
            (self.y, config.sdp_ew_throughput.unwrap_or(1)),
        ];
        let used = units.into_iter().filter(|(unit, _)| unit.is_some()).map(|(_, throughput)| throughput.max(1));
        used.fold(config.sdp_bs_throughput.max(1), u32::min).into()
    }
}

/// Cycles from a read request to the request that replaces it, without the memory's latency. Fitted.
const TURNAROUND: u64 = 14;
/// Cycles from enabling to the done interrupt besides streaming and latency. Fitted.
const FIXED: u64 = 51;
/// The same for operands that come from memory. Fitted.
const OPERANDS: u64 = 9;
/// Cycles from the last input to the done interrupt, without the memory's latency. Measured.
const TAIL: u64 = 33;

impl SdpShape {
    /// Cycles in which the sub-units process one position of `channels` channels.
    pub(crate) fn position(&self, channels: u64, config: &Config) -> u64 {
        channels.div_ceil(self.throughput(config))
    }

    /// The cycles by which it is shorter than alone if it is enabled early enough before the end of the operation `before` it: its readers
    /// fetch meanwhile.
    pub(crate) fn beside(&self, before: &Self, memory: &Memory) -> u64 {
        match self.input.memory {
            MemoryType::Hw => 0,
            _ => TAIL + u64::from(interface(before.output.memory, memory).latency),
        }
    }

    /// Cycles that the readers of operands need.
    pub(crate) fn operands(&self, config: &Config, memory: &Memory) -> u64 {
        let units = [
            (self.x1, config.sdp_bs_throughput),
            (self.x2, config.sdp_bn_throughput),
            (self.y, config.sdp_ew_throughput.unwrap_or(1)),
        ];
        let cycles = units.into_iter().filter_map(|(unit, throughput)| {
            let operand = unit.filter(|operand| operand.mode == SdpOperandMode::PerPoint)?;
            let reader = Reader::operands(throughput, config);
            let bytes = operand.read(&self.output, config).total();
            Some(reader.cycles(bytes, 0, TURNAROUND, interface(operand.memory, memory), config))
        });
        cycles.max().unwrap_or(0)
    }
}

/// An SDP operation's time.
pub fn sdp(shape: &SdpShape, config: &Config, memory: &Memory) -> Estimate {
    let (compute, reading, fixed) = parts(shape, config, memory);
    let interface = |cube: &Cube| u64::from(interface(cube.memory, memory).latency);
    let latency = interface(&shape.input) + interface(&shape.output);
    Estimate::new(compute, reading, fixed, latency, Limit::Throughput, shape.bytes(config), memory)
}

/// The cycles of its sub-units, those of its readers, and those for starting and ending.
pub(crate) fn parts(shape: &SdpShape, config: &Config, memory: &Memory) -> (u64, u64, u64) {
    let elements = shape.output.elements(config).max(shape.input.elements(config));
    let compute = elements.div_ceil(shape.throughput(config));
    let input = interface(shape.input.memory, memory);
    let volume = if shape.input.memory == MemoryType::Hw { 0 } else { shape.input.volume(config) };
    let reading = Reader::input(config.sdp_bs_throughput, Unit::Sdp, config)
        .cycles(volume, compute, TURNAROUND, input, config)
        .max(shape.operands(config, memory));
    let used = [shape.x1, shape.x2, shape.y].into_iter().flatten();
    let operands = used.filter(|operand| operand.mode != SdpOperandMode::PerLayer).count() as u64;
    (compute, reading, FIXED + OPERANDS * operands.min(1))
}
