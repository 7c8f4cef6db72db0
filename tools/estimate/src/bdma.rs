// SPDX-License-Identifier: MIT OR Apache-2.0

//! BDMA: the larger of the bytes read and the bytes written, divided by the width of the memory interface, which has a channel
//! for each direction; plus the latencies of the first read and the last write.
//!
//! Only nv_full has BDMA. There are no measurements of it.

use crate::estimate::{bus, Estimate, Limit};
use crate::memory::{interface, Bytes, Memory};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{BdmaSurface, MemoryType};

/// Copies between memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BdmaShape {
    /// Bytes that are read. The same number is written.
    pub bytes: u64,
    /// The number of lines.
    pub lines: u64,
    /// The memory read.
    pub source: MemoryType,
    /// The memory written.
    pub destination: MemoryType,
}

impl BdmaShape {
    /// The shape of an operation's transfers.
    pub fn from_descriptors(surface: &BdmaSurface) -> Self {
        let mut shape = Self { bytes: 0, lines: 0, source: surface.source_type, destination: surface.destination_type };
        for transfer in surface.transfers.iter().take(surface.num_transfers.into()) {
            let lines = u64::from(transfer.line_repeat.max(1)) * u64::from(transfer.surface_repeat.max(1));
            shape.lines += lines;
            shape.bytes += lines * u64::from(transfer.line_size);
        }
        shape
    }

    /// Bytes that it moves.
    pub fn bytes(&self) -> Bytes {
        Bytes::of(self.source, self.bytes) + Bytes::of(self.destination, self.bytes)
    }
}

/// The time of the copies.
pub fn bdma(shape: &BdmaShape, config: &Config, memory: &Memory) -> Estimate {
    let moved = shape.bytes.div_ceil(bus(config)).max(shape.lines);
    let latency = [shape.source, shape.destination].map(|of| u64::from(interface(of, memory).latency)).iter().sum();
    Estimate::new(moved, moved, 0, latency, Limit::Throughput, shape.bytes(), memory)
}
