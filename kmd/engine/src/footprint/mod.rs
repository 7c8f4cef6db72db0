// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What an operation's DMA touches, computed from the registers that it runs with.
//!
//! [`footprint`] walks an operation's registers and names every range of memory that the operation reads or writes. It
//! knows nothing of descriptors: the registers may be an operation of the engine that is not enabled yet, or the register
//! file of a device. What it says holds for any value of any register. Sub-units that have copies of one size (CDMA and
//! CSC, PDP and its read DMA) are each taken at their own copy, because that is the copy that their address counters use.
//!
//! A range is the hull of one surface: from its lowest to its highest byte, so that the gaps which strides leave between
//! lines lie in it. Its first and last byte are touched, with these exceptions, in which the range is larger:
//! - Reuse: CDMA is said to fetch also when it finds data or weights in the convolution buffer. What it finds depends on
//!   the operation before.
//! - Winograd: CDMA is said to read all lines of the input. It leaves out those that the extended height does not reach.
//! - Pixels of more than eight bits on configurations that compute in int8 alone: those decode such a format as one of
//!   four bytes a pixel, and the larger of both sizes is taken.
//! - Where the hardware's RTL and its C-model differ, the range covers both: a 1x1 cube that is read as packed surfaces
//!   and has a surface stride of more than an atom, a 1x1 cube that SDP writes in batches, int8 to fp16 in SDP, strides of
//!   a contraction that contradict one another, and a split or merge whose channels differ inside the last surface.
//!
//! What the memory interfaces add is not counted: they read whole beats of their bus, aligned to the bus, and mask the
//! bytes of a beat that are not written.
//!
//! Sources: the register manual (`spec/manual` of the hardware project) for fields; NVIDIA's RTL (`vmod/nvdla`, branch
//! `nvdlav1` for nv_full and `master` as generated for nv_small and nv_large) for addresses. Files and lines stand with
//! each unit; without a branch they are those of `nvdlav1`.

mod bdma;
mod cdp;
mod conv;
mod pdp;
mod rubik;
mod sdp;

use crate::uapi::config::Config;
use crate::uapi::desc::OpType;
use crate::uapi::reg::values::{Precision, RamType};
use crate::uapi::reg::{Block, Field, FieldValue, Register};
use core::fmt;

/// A range of memory that an operation touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The block whose registers describe the surface.
    pub block: Block,
    /// The register with the low half of the surface's address.
    pub register: Register,
    /// The range is written; else it is read.
    pub write: bool,
    /// The memory interface: primary (`Mcif`) or secondary (`Cvif`).
    pub memory: RamType,
    /// DMA address of the first byte.
    pub start: u64,
    /// DMA address after the last byte. Always above `start`.
    pub end: u64,
}

impl Access {
    /// The name of [`Self::register`] in the manual.
    pub fn register_name(&self) -> &'static str {
        self.block.register_name(self.register)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.write { "writes" } else { "reads" };
        let memory = match self.memory {
            RamType::Mcif => "primary",
            RamType::Cvif => "secondary",
        };
        let (block, register) = (self.block.name(), self.register_name());
        write!(f, "{block} {verb} {:#x}..{:#x} of {memory} memory, by {register}", self.start, self.end)
    }
}

/// Why registers have no footprint: hardware that ran with them could touch anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A register that steers an address has no value: the operation would run with what an earlier one left.
    Missing {
        /// The block.
        block: Block,
        /// The register.
        register: Register,
    },
    /// A register that steers an address holds what the manual does not define, or what contradicts another register.
    Value {
        /// The block.
        block: Block,
        /// The register.
        register: Register,
        /// Its value.
        value: u32,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Missing { block, register } => {
                let (name, register) = (block.name(), block.register_name(register));
                write!(f, "{name}.{register} steers an address, and the operation does not set it")
            }
            Self::Value { block, register, value, why } => {
                let (name, register) = (block.name(), block.register_name(register));
                write!(f, "{name}.{register} is {value:#x}: {why}")
            }
        }
    }
}

impl core::error::Error for Refusal {}

/// Tells `visit` every range that an operation of `unit` reads or writes with these registers, and stops at the first
/// error of either side.
///
/// `rdma` says whether the unit's read DMA (SDP_RDMA, PDP_RDMA) is enabled with it. `registers` gives the value of a
/// block's register, and `None` for one that has no value which the operation itself has set. For BDMA they are those of
/// one transfer.
///
/// Does not allocate. Nothing that registers hold makes it panic.
#[inline]
pub fn footprint<E: From<Refusal>>(
    config: &Config,
    unit: OpType,
    rdma: bool,
    registers: impl Fn(Block, Register) -> Option<u32>,
    visit: impl FnMut(Access) -> Result<(), E>,
) -> Result<(), E> {
    let mut walk = Walk { config, registers, visit };
    match unit {
        OpType::Bdma => bdma::transfer(&mut walk),
        OpType::Conv => conv::reader(&mut walk),
        OpType::Sdp => {
            if rdma {
                sdp::reader(&mut walk)?;
            }
            sdp::writer(&mut walk)
        }
        OpType::Pdp => {
            if rdma {
                pdp::reader(&mut walk)?;
            }
            pdp::writer(&mut walk)
        }
        OpType::Cdp => cdp::both(&mut walk),
        OpType::Rubik => rubik::both(&mut walk),
    }
}

/// A surface's address registers.
#[derive(Clone, Copy)]
struct Base {
    low: Register,
    high: Register,
}

/// Registers, and who is told what they touch.
struct Walk<'a, R, V> {
    config: &'a Config,
    registers: R,
    visit: V,
}

impl<R: Fn(Block, Register) -> Option<u32>, V> Walk<'_, R, V> {
    /// A register's value.
    #[inline]
    fn get(&self, block: Block, register: Register) -> Result<u32, Refusal> {
        (self.registers)(block, register).ok_or(Refusal::Missing { block, register })
    }

    /// A size or count, which registers hold minus one.
    #[inline]
    fn count(&self, block: Block, register: Register, field: Field<u32>) -> Result<u64, Refusal> {
        Ok(u64::from(field.value(self.get(block, register)?)) + 1)
    }

    /// A stride in bytes.
    #[inline]
    fn stride(&self, block: Block, register: Register) -> Result<u64, Refusal> {
        self.get(block, register).map(u64::from)
    }

    /// A field with named encodings.
    #[inline]
    fn field<T: FieldValue>(&self, block: Block, register: Register, field: Field<T>) -> Result<T, Refusal> {
        let value = self.get(block, register)?;
        field.get(value).ok_or(Refusal::Value { block, register, value, why: "an encoding that no field has" })
    }

    /// A field of a precision that the configuration has.
    #[inline]
    fn precision(&self, block: Block, register: Register, field: Field<Precision>) -> Result<Precision, Refusal> {
        let precision = self.field(block, register, field)?;
        if self.config.has_feature_type(precision) {
            return Ok(precision);
        }
        self.refuse(block, register, "the configuration does not have the precision")
    }

    /// Refuses a register's value.
    #[cold]
    fn refuse<T>(&self, block: Block, register: Register, why: &'static str) -> Result<T, Refusal> {
        Err(Refusal::Value { block, register, value: self.get(block, register)?, why })
    }

    /// Bytes of an atom.
    #[inline]
    fn atom(&self) -> u64 {
        u64::from(self.config.memory_atomic)
    }

    /// Surfaces of so many channels. An atom's elements are a power of two.
    #[inline]
    fn surfaces(&self, channels: u64, precision: Precision) -> u64 {
        let wide = u32::from(precision != Precision::Int8);
        ((channels - 1) >> (self.config.memory_atomic.trailing_zeros() - wide)) + 1
    }
}

impl<R: Fn(Block, Register) -> Option<u32>, E: From<Refusal>, V: FnMut(Access) -> Result<(), E>> Walk<'_, R, V> {
    /// Tells of the `span` bytes from an address on. No count has more than 24 bits and no stride more than 32, so that a
    /// span is below 2^60.
    #[inline]
    fn touch(
        &mut self,
        write: bool,
        block: Block,
        base: Base,
        ram: (Register, Field<RamType>),
        span: u64,
    ) -> Result<(), E> {
        let memory = self.field(block, ram.0, ram.1)?;
        if memory == RamType::Cvif && !self.config.secondary_memif {
            return Ok(self.refuse(block, ram.0, "the configuration has no secondary memory interface")?);
        }
        let (low, high) = (self.get(block, base.low)?, self.get(block, base.high)?);
        if low & (self.config.memory_atomic - 1) != 0 {
            return Ok(self.refuse(block, base.low, "the address is not that of an atom")?);
        }
        let start = u64::from(high) << 32 | u64::from(low);
        let Some(end) = start.checked_add(span) else {
            return Ok(self.refuse(block, base.high, "the surface ends above the last address")?);
        };
        (self.visit)(Access { block, register: base.low, write, memory, start, end })
    }
}

/// Lines in surfaces, each of both at a stride.
#[derive(Clone, Copy)]
struct Lines {
    /// Bytes of a line.
    bytes: u64,
    height: u64,
    line_stride: u64,
    surfaces: u64,
    surface_stride: u64,
}

impl Lines {
    /// Bytes from the first to the last of all.
    #[inline]
    fn span(&self) -> u64 {
        (self.surfaces - 1) * self.surface_stride + (self.height - 1) * self.line_stride + self.bytes
    }
}
