// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP: input elements / throughput, or as fast as its reader gets data; output lines that end in padding come after the
//! last input.
//!
//! Its reader has so many atoms under way at most as its latency FIFO holds; see [`crate::memory::Reader`]. Its cycles for
//! starting and ending were fitted on poolings of nv_small and nv_large.

use crate::memory::{interface, Reader, Unit};
use crate::{Bytes, Cube, Estimate, Limit, Memory};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{MemoryType, PdpOp, PdpSurface};
use nvdla_uapi::layout;

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
    /// Lines of padding at the top.
    pub pad_top: u32,
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
            pad_top: 0,
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
            pad_top: operation.pad_top.into(),
            parts: operation.split_num.max(1).into(),
        }
    }

    /// Bytes that it moves.
    pub fn bytes(&self, config: &Config) -> Bytes {
        self.input.bytes(config) + self.output.bytes(config)
    }
}

/// Cycles from a read request to the next one that takes its place, without the memory's latency. Fitted.
const TURNAROUND: u64 = 15;
/// Cycles from enabling to the done interrupt that are neither streaming nor latency. Fitted.
const FIXED: u64 = 56;
/// The same when output lines follow the last input. Fitted.
const FLUSH: u64 = 7;

impl PdpShape {
    /// Bytes read: columns that two parts share are read twice.
    fn read(&self, config: &Config) -> u64 {
        let shared = u64::from(self.parts.max(1) - 1) * u64::from(self.kernel_width.saturating_sub(self.stride_x));
        let columns = u64::from(self.input.width) + shared;
        self.input.surfaces(config) * u64::from(self.input.height) * columns * u64::from(config.memory_atomic)
    }

    /// Cycles of the output lines of the last surface whose windows end below the input.
    pub(crate) fn flush(&self, config: &Config) -> u64 {
        let reached = (self.input.height + self.pad_top).checked_sub(self.kernel_height);
        let lines = reached.map_or(0, |rows| rows / self.stride_y.max(1) + 1);
        match u64::from(self.output.height.saturating_sub(lines)) {
            0 => 0,
            lines => FLUSH + lines * u64::from(self.output.width) * self.position(config),
        }
    }

    /// Cycles of an atom.
    pub(crate) fn position(&self, config: &Config) -> u64 {
        let elements = config.memory_atomic / layout::bytes(self.input.precision);
        elements.div_ceil(config.pdp_throughput.max(1)).into()
    }
}

/// A pooling's time.
pub fn pdp(shape: &PdpShape, config: &Config, memory: &Memory) -> Estimate {
    let read = shape.read(config);
    let compute = read / u64::from(config.memory_atomic.max(1)) * shape.position(config);
    let input = interface(shape.input.memory, memory);
    let volume = if shape.input.memory == MemoryType::Hw { 0 } else { read };
    let reading =
        Reader::input(config.pdp_throughput, Unit::Other, config).cycles(volume, compute, TURNAROUND, input, config);
    let latency = u64::from(input.latency) + u64::from(interface(shape.output.memory, memory).latency);
    let flush = shape.flush(config);
    Estimate::new(compute + flush, reading + flush, FIXED + latency, Limit::Throughput, shape.bytes(config), memory)
}
