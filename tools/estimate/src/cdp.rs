// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP: input elements / throughput.

use crate::{Bytes, Cube, Estimate, Limit, Memory};
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
    /// From an operation's descriptors.
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

/// A normalisation's time.
pub fn cdp(shape: &CdpShape, config: &Config, memory: &Memory) -> Estimate {
    let compute = shape.input.elements(config).div_ceil(config.cdp_throughput.max(1).into());
    Estimate::new(compute, Limit::Throughput, shape.bytes(config), memory)
}
