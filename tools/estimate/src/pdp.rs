// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP: input elements / throughput.

use crate::{Bytes, Cube, Estimate, Limit, Memory};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{PdpOp, PdpSurface};

/// A pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PdpShape {
    /// The input: of memory, or handed over by SDP.
    pub input: Cube,
    /// The output.
    pub output: Cube,
    /// Lines of the window.
    pub kernel_height: u32,
    /// Columns of the window.
    pub kernel_width: u32,
    /// Horizontal stride.
    pub stride_x: u32,
    /// Vertical stride.
    pub stride_y: u32,
    /// Parts that the width is split into; 1 is no split.
    pub parts: u32,
}

impl PdpShape {
    /// A pooling with a window of (lines, columns) and a stride of (vertical, horizontal), in one part.
    pub const fn new(input: Cube, output: Cube, kernel: (u32, u32), stride: (u32, u32)) -> Self {
        Self {
            input,
            output,
            kernel_height: kernel.0,
            kernel_width: kernel.1,
            stride_x: stride.1,
            stride_y: stride.0,
            parts: 1,
        }
    }

    /// From an operation's descriptors.
    pub fn from_descriptors(operation: &PdpOp, surface: &PdpSurface) -> Self {
        Self {
            input: Cube::from_descriptor(&surface.src_data, operation.precision),
            output: Cube::from_descriptor(&surface.dst_data, operation.precision),
            kernel_height: u32::from(operation.pool_height) + 1,
            kernel_width: u32::from(operation.pool_width) + 1,
            stride_x: operation.stride_x.into(),
            stride_y: operation.stride_y.into(),
            parts: operation.split_num.max(1).into(),
        }
    }

    /// Bytes that it moves.
    pub fn bytes(&self, config: &Config) -> Bytes {
        self.input.bytes(config) + self.output.bytes(config)
    }
}

/// A pooling's time.
pub fn pdp(shape: &PdpShape, config: &Config, memory: &Memory) -> Estimate {
    let compute = shape.input.elements(config).div_ceil(config.pdp_throughput.max(1).into());
    Estimate::new(compute, Limit::Throughput, shape.bytes(config), memory)
}
