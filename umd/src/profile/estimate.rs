// SPDX-License-Identifier: MIT OR Apache-2.0

//! The formulas, a unit each, from the hardware's published parameters ([`Config`]).
//!
//! | unit | compute cycles |
//! | --- | --- |
//! | convolution | ceil(C / atomic-C) x ceil(K / atomic-K) x R x S x P x Q; 16-bit data halves atomic-K |
//! | Winograd | ceil(C / atomic-C) x ceil(K / atomic-K) x 4 x P x Q: four multiplications an output instead of nine |
//! | SDP | output elements / the least throughput of the sub-units in use |
//! | PDP, CDP | input elements / throughput |
//! | Rubik, BDMA | bytes in and out / width of the memory interface |
//!
//! C, R and S are what the convolution's sequencer is given: in image mode with a kernel's columns laid into channels. K
//! kernels make P x Q outputs each. Elements count with the channels that fill up atoms. Memory takes bytes x clock /
//! bandwidth cycles; registers take a write each of all that a unit's operation has (all but the `S_` registers of its blocks).

use super::Conditions;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{ConvOp, ConvSurface, OpType};
use nvdla_uapi::reg::values::{ConvMode, Precision};
use nvdla_uapi::reg::Block;
use std::ops::{Add, AddAssign};

/// Bytes that an operation moves, by memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Through the primary memory interface.
    pub dram: u64,
    /// Through the secondary one.
    pub sram: u64,
}

impl Bytes {
    /// Both.
    pub const fn total(self) -> u64 {
        self.dram + self.sram
    }

    /// Cycles that DRAM and SRAM need.
    pub fn cycles(self, conditions: &Conditions) -> (u64, u64) {
        // MHz over GB/s is cycles over 1000 bytes.
        let cycles = |bytes: u64, bandwidth: f64| (bytes as f64 * conditions.clock / bandwidth / 1e3).ceil() as u64;
        (cycles(self.dram, conditions.dram), cycles(self.sram, conditions.sram))
    }
}

impl Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { dram: self.dram + other.dram, sram: self.sram + other.sram }
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// A convolution as the sequencer is given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Channels of a kernel.
    pub channels: u32,
    /// Kernels.
    pub kernels: u32,
    /// Lines of a kernel.
    pub kernel_height: u32,
    /// Columns of a kernel.
    pub kernel_width: u32,
    /// Lines of the output.
    pub height: u32,
    /// Columns of the output.
    pub width: u32,
    /// Inputs that are convolved with the same weights.
    pub batch: u32,
    /// Winograd: kernels of 3 x 3 in a quarter of the multiplications of 16 outputs' patches.
    pub winograd: bool,
    /// Precision of the input.
    pub precision: Precision,
}

impl Convolution {
    pub(super) fn from_descriptor(operation: &ConvOp, surface: &ConvSurface) -> Self {
        let winograd = operation.conv_mode == ConvMode::Winograd;
        let side = |field: u16| if winograd { 3 } else { u32::from(field) };
        Self {
            channels: operation.kernel_channel_csc.into(),
            kernels: surface.dst_data.channel.into(),
            kernel_height: side(operation.kernel_height_csc),
            kernel_width: side(operation.kernel_width_csc),
            height: surface.dst_data.height.into(),
            width: surface.dst_data.width.into(),
            batch: u32::from(operation.batch.max(1)),
            winograd,
            precision: operation.in_precision,
        }
    }

    /// Outputs of one kernel.
    fn outputs(&self) -> u64 {
        u64::from(self.height) * u64::from(self.width) * u64::from(self.batch)
    }

    /// Multiply-accumulate steps, as the algorithm counts them.
    pub fn macs(&self) -> u64 {
        let kernel = u64::from(self.channels) * u64::from(self.kernel_height) * u64::from(self.kernel_width);
        kernel * u64::from(self.kernels) * self.outputs()
    }

    /// Cycles that the multiply-accumulate cells are busy.
    pub fn cycles(&self, config: &Config) -> u64 {
        let atomic_k = match self.precision {
            Precision::Int8 => config.mac_atomic_k,
            Precision::Int16 | Precision::Fp16 => config.mac_atomic_k / 2,
        };
        let groups = u64::from(self.channels.div_ceil(config.mac_atomic_c.max(1)))
            * u64::from(self.kernels.div_ceil(atomic_k.max(1)));
        let steps = if self.winograd { 4 } else { u64::from(self.kernel_height) * u64::from(self.kernel_width) };
        groups * steps * self.outputs()
    }
}

/// Cycles to write all registers of an operation.
pub fn set_up(unit: OpType, conditions: &Conditions) -> u64 {
    let blocks: &[Block] = match unit {
        OpType::Bdma => &[Block::Bdma],
        OpType::Conv => &[Block::Cdma, Block::Csc, Block::CmacA, Block::CmacB, Block::Cacc],
        OpType::Sdp => &[Block::SdpRdma, Block::Sdp],
        OpType::Pdp => &[Block::PdpRdma, Block::Pdp],
        OpType::Cdp => &[Block::CdpRdma, Block::Cdp],
        OpType::Rubik => &[Block::Rbk],
    };
    let writes = blocks.iter().flat_map(|block| block.registers()).filter(|register| {
        // S_ registers choose the group; statistics are only read.
        !register.name.starts_with("S_") && register.register.writable != 0
    });
    (writes.count() as f64 * conditions.register_write * conditions.clock / 1e3).ceil() as u64
}

#[cfg(test)]
mod tests;
