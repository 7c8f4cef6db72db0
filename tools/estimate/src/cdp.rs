// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP: input elements / throughput, or the speed at which its reader gets data.
//!
//! Its reader has at most as many outstanding atoms as its latency FIFO holds; see [`crate::memory::Reader`]. It processes a line in
//! blocks of eight columns. The cycles for starting and ending, and for a last block that is not whole, were fitted on normalisations of
//! nv_small with lines of 1 to 24 atoms.

use crate::estimate::{Estimate, Limit};
use crate::memory::{interface, Bytes, Cube, Memory, Reader, Unit};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{CdpOp, CdpSurface};
use nvdla_uapi::layout;

/// A local response normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CdpShape {
    /// The input.
    pub input: Cube,
    /// The output.
    pub output: Cube,
    /// Channels of the window: 3, 5, 7 or 9.
    pub window: u32,
}

impl CdpShape {
    /// The shape of an operation's descriptors.
    pub fn from_descriptors(operation: &CdpOp, surface: &CdpSurface) -> Self {
        Self {
            input: Cube::from_descriptor(&surface.src_data, operation.in_precision),
            output: Cube::from_descriptor(&surface.dst_data, operation.out_precision),
            window: operation.local_size.into(),
        }
    }

    /// Bytes that it moves.
    pub fn bytes(&self, config: &Config) -> Bytes {
        self.input.bytes(config) + self.output.bytes(config)
    }
}

/// Cycles from a read request to the request that replaces it, without the memory's latency. Fitted.
const TURNAROUND: u64 = 14;
/// The same if lines are not whole requests of eight atoms. Fitted.
const TURNAROUND_UNALIGNED: u64 = 15;
/// Cycles from enabling to the done interrupt besides streaming and latency, with one column. Fitted.
const FIXED: u64 = 77;
/// Columns of a block.
const BLOCK: u64 = 8;

/// Additional cycles at the start, until the first block is complete. Fitted.
fn filling(columns: u64, position: u64) -> u64 {
    (columns.min(BLOCK) - 1) * position.saturating_sub(2)
}

/// Additional cycles of all lines whose last block is not whole and not the first. Fitted.
fn partial(lines: u64, columns: u64, position: u64) -> u64 {
    match columns % BLOCK {
        0 => 0,
        _ if columns < BLOCK => 0,
        left => lines * (BLOCK - left) * position * 15 / 32,
    }
}

/// A normalisation's time.
pub fn cdp(shape: &CdpShape, config: &Config, memory: &Memory) -> Estimate {
    let (lines, columns) = (u64::from(shape.input.height), u64::from(shape.input.width).max(1));
    let position =
        u64::from(config.memory_atomic / layout::bytes(shape.input.precision) / config.cdp_throughput.max(1));
    let compute =
        shape.input.elements(config).div_ceil(config.cdp_throughput.max(1).into()) + partial(lines, columns, position);
    let input = interface(shape.input.memory, memory);
    let turnaround = if shape.input.width.is_multiple_of(8) { TURNAROUND } else { TURNAROUND_UNALIGNED };
    let reading = Reader::input(config.cdp_throughput, Unit::Other, config).cycles(
        shape.input.volume(config),
        compute,
        turnaround,
        input,
        config,
    );
    let latency = u64::from(input.latency) + u64::from(interface(shape.output.memory, memory).latency);
    let fixed = FIXED + filling(columns, position);
    Estimate::new(compute, reading, fixed, latency, Limit::Throughput, shape.bytes(config), memory)
}
