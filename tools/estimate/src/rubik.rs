// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rubik: the larger of the bytes read and the bytes written, divided by the width of the memory interface, which has a channel
//! for each direction; plus the latencies of the first read and the last write.
//!
//! Only nv_full has Rubik. There are no measurements of it.

use crate::estimate::{bus, Estimate, Limit};
use crate::memory::{interface, Bytes, Cube, Memory};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{RubikOp, RubikSurface};

/// A Rubik operation, which rearranges a cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RubikShape {
    /// The input.
    pub input: Cube,
    /// The output.
    pub output: Cube,
}

impl RubikShape {
    /// The shape of an operation's descriptors.
    pub fn from_descriptors(operation: &RubikOp, surface: &RubikSurface) -> Self {
        Self {
            input: Cube::from_descriptor(&surface.src_data, operation.precision),
            output: Cube::from_descriptor(&surface.dst_data, operation.precision),
        }
    }

    /// Bytes that it moves.
    pub fn bytes(&self, config: &Config) -> Bytes {
        self.input.bytes(config) + self.output.bytes(config)
    }
}

/// The time of a Rubik operation.
pub fn rubik(shape: &RubikShape, config: &Config, memory: &Memory) -> Estimate {
    let moved = shape.input.volume(config).max(shape.output.volume(config)).div_ceil(bus(config));
    let latency =
        [shape.input.memory, shape.output.memory].map(|of| u64::from(interface(of, memory).latency)).iter().sum();
    Estimate::new(moved, moved, 0, latency, Limit::Throughput, shape.bytes(config), memory)
}
