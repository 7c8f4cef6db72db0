// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP: input elements / throughput, or the speed at which its reader gets data.
//!
//! Its reader has at most as many outstanding atoms as its latency FIFO holds; see [`crate::memory::Reader`]. The cycles for
//! starting and ending were fitted on normalisations of nv_small and nv_large.

use crate::estimate::{Estimate, Limit};
use crate::memory::{interface, Bytes, Cube, Memory, Reader, Unit};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{CdpOp, CdpSurface};

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
/// Cycles from enabling to the done interrupt besides streaming and latency. Fitted.
const FIXED: u64 = 77;

/// A normalisation's time.
pub fn cdp(shape: &CdpShape, config: &Config, memory: &Memory) -> Estimate {
    let compute = shape.input.elements(config).div_ceil(config.cdp_throughput.max(1).into());
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
    Estimate::new(compute, reading, FIXED, latency, Limit::Throughput, shape.bytes(config), memory)
}
