// SPDX-License-Identifier: MIT OR Apache-2.0

//! An SDP operation as typed values.
//!
//! Data passes through X1 (`BS`), X2 (`BN`), Y (`EW`) and the output converter. Each sub-unit has an ALU and a
//! multiplier with an operand each: one for the layer, from a register, or one per kernel or element, from memory
//! through SDP_RDMA. Source: register manual (SDP, SDP_RDMA), "In-memory data formats" (operands).

use nvdla_uapi::layout::feature::{Atoms, Cube, View};
use nvdla_uapi::layout::operand::Operands;
use nvdla_uapi::reg::values::{AluAlgorithm, Precision};

use crate::lut::sdp::Lookup;
use crate::memory::Port;

/// An operation.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// Elements per line.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// Surfaces of the data path: channel groups of [`Self::lanes`].
    pub surfaces: usize,
    /// Channels per surface: the number of elements of the processing precision in an atom.
    pub lanes: usize,
    /// Atoms of the processing precision.
    pub atoms: Atoms,
    /// Channels.
    pub channels: usize,
    /// Cubes (a hardware batch).
    pub batch: usize,
    /// The precision of the data path: 32-bit integers for int8 and int16, fp32 for fp16.
    pub processing: Precision,
    /// The output precision.
    pub output: Precision,
    /// Where data comes from.
    pub source: Source,
    /// Where the output is written.
    pub destination: Destination,
    /// Sub-unit X1.
    pub x1: Option<X>,
    /// Sub-unit X2.
    pub x2: Option<X>,
    /// Sub-unit Y.
    pub y: Option<Y>,
    /// The output converter (integer processing).
    pub converter: Converter,
    /// Whether NaNs in data and operands count as zero.
    pub nan_to_zero: bool,
    /// The enabled counters.
    pub count: Count,
}

/// A feature cube in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataCube {
    /// The memory interface.
    pub port: Port,
    /// Address of the first byte.
    pub base: u64,
    /// The layout.
    pub layout: Cube,
}

/// Where data comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// A feature cube.
    Memory(DataCube),
    /// The output of CACC. No integer has a magnitude above `largest`.
    Stream { largest: u32 },
}

/// The destination of data.
#[derive(Clone, Copy, Debug)]
pub(super) enum Destination {
    /// A feature cube.
    Memory(DataCube),
    /// PDP.
    Pdp,
    /// None. Y compares two cubes, and the status register tells whether they are equal.
    Comparison,
}

/// Operands in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperandSurface {
    /// The memory interface.
    pub port: Port,
    /// Address of the first byte.
    pub base: u64,
    /// The layout.
    pub layout: Operands,
}

/// An operand of a sub-unit's ALU or multiplier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandOrigin {
    /// One operand for the layer.
    Register(i32),
    /// One per kernel or element, in the sub-unit's operand surface.
    Memory,
}

/// A sub-unit's ALU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alu {
    /// Its operation.
    pub algorithm: AluAlgorithm,
    /// Its operand.
    pub operand: OperandOrigin,
}

/// A sub-unit's multiplier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Multiplier {
    /// Its operand.
    pub operand: OperandOrigin,
    /// Whether values that are not negative pass unchanged.
    pub prelu: bool,
}

/// Sub-unit X1 or X2: ALU, multiplier, ReLU.
#[derive(Clone, Copy, Debug)]
pub(super) struct X {
    /// The ALU.
    pub alu: Option<Alu>,
    /// Left shift of integer ALU operands.
    pub alu_shift: u32,
    /// The multiplier.
    pub multiplier: Option<Multiplier>,
    /// Right shift of integers after the multiplier, also if there is no multiplier.
    pub shift: u32,
    /// Whether negative values become zero.
    pub relu: bool,
    /// The operands in memory, where one is used.
    pub operands: Option<OperandSurface>,
}

/// Sub-unit Y: multiplier, ALU, lookup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Y {
    /// The multiplier.
    pub multiplier: Option<Multiplier>,
    /// Converts its integer operands from memory.
    pub multiplier_converter: Option<Converter>,
    /// Right shift of integer products.
    pub shift: u32,
    /// The ALU.
    pub alu: Option<Alu>,
    /// Converts its integer operands from memory.
    pub alu_converter: Option<Converter>,
    /// The lookup.
    pub lookup: Option<Lookup>,
    /// The operands in memory, where one is used.
    pub operands: Option<OperandSurface>,
}

/// `(value - offset) * scale / 2^shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Converter {
    /// The offset, which is subtracted first.
    pub offset: i32,
    /// The factor.
    pub scale: i16,
    /// The right shift.
    pub shift: u32,
}

/// The counters that `D_PERF_ENABLE` of SDP and its read DMA enable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    /// Lookups.
    pub lookups: bool,
    /// Saturations of the output converter.
    pub saturation: bool,
    /// NaNs in the output.
    pub nan_output: bool,
    /// NaNs and infinities in the input.
    pub nan_input: bool,
}

impl Count {
    /// Whether anything is counted.
    pub(super) fn any(self) -> bool {
        self.lookups || self.saturation || self.nan_output || self.nan_input
    }
}

impl Operation {
    /// The position of a cube's elements in a stream.
    pub(super) fn view(&self) -> View {
        View::packed(self.surfaces, self.height, self.width, self.lanes)
    }

    /// Whether this operation is the element-wise comparison.
    pub(super) fn compares(&self) -> bool {
        matches!(self.destination, Destination::Comparison)
    }
}
