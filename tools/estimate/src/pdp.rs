// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP: input bytes / throughput, or the speed at which its reader gets data, plus the outputs whose windows end in padding.
//!
//! **Padding after the input.** After the last input there are as many outputs as whole strides fit in the padding after it
//! (`NV_NVDLA_PDP_CORE_cal1d.v` for the columns of a line, `_cal2d.v` for the lines of a surface: `flush_num`). They are written
//! while the first window of the next line, or surface, fills (`first_out_num`). For the outputs that do not fit there the input
//! waits, one atom per output (`bubble_num`). It also waits for lines whose banks of the line buffer the first windows of the next
//! surface need (`bubble_add`). After the last input all outputs take time.
//!
//! **Lines of one atom** take longer than their elements: the reader takes each line for itself.
//!
//! **One after another.** Where the next pooling is already enabled, its reader begins when the reader of this one has all data.
//!
//! Its reader has at most as many outstanding atoms as its latency FIFO holds; see [`crate::memory::Reader`]. The cycles for
//! starting and ending were fitted on poolings of nv_small and nv_large.

use crate::estimate::{Estimate, Limit};
use crate::memory::{interface, Bytes, Cube, Memory, Reader, Unit};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{MemoryType, PdpOp, PdpSurface};

/// A pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PdpShape {
    /// The input, from memory or from SDP on the fly.
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
    /// Columns of padding on the left.
    pub pad_left: u32,
    /// Columns of padding on the right.
    pub pad_right: u32,
    /// Lines of padding at the top.
    pub pad_top: u32,
    /// Lines of padding at the bottom.
    pub pad_bottom: u32,
    /// Parts that the width is divided into; 1 for no division.
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
            pad_left: 0,
            pad_right: 0,
            pad_top: 0,
            pad_bottom: 0,
            parts: 1,
        }
    }

    /// The shape of an operation's descriptors.
    pub fn from_descriptors(operation: &PdpOp, surface: &PdpSurface) -> Self {
        Self {
            input: Cube::from_descriptor(&surface.src_data, operation.precision),
            output: Cube::from_descriptor(&surface.dst_data, operation.precision),
            kernel_height: u32::from(operation.pool_height) + 1,
            kernel_width: u32::from(operation.pool_width) + 1,
            stride_x: operation.stride_x.into(),
            stride_y: operation.stride_y.into(),
            pad_left: operation.pad_left.into(),
            pad_right: operation.pad_right.into(),
            pad_top: operation.pad_top.into(),
            pad_bottom: operation.pad_bottom.into(),
            parts: operation.split_num.max(1).into(),
        }
    }

    /// Bytes that it moves.
    pub fn bytes(&self, config: &Config) -> Bytes {
        self.input.bytes(config) + self.output.bytes(config)
    }
}

/// Cycles from a read request to the request that replaces it, without the memory's latency. Fitted.
const TURNAROUND: u64 = 15;
/// Cycles from enabling to the done interrupt besides streaming and latency. Fitted.
const FIXED: u64 = 56;
/// The same if output lines follow the last input. Fitted.
const FLUSH: u64 = 7;
/// The least cycles of a line, and what the first one saves. Measured on lines of one atom.
const LINE: u64 = 11;
const FIRST_LINE: u64 = 3;
/// Cycles from the last input to the done interrupt, without the memory's latency and lines that follow. Measured.
const TAIL: u64 = 35;

impl PdpShape {
    /// Bytes read. Columns that two parts share are read twice, and those between the last window of a part and the first one of the next
    /// are not read.
    fn read(&self, config: &Config) -> u64 {
        let [again, between] =
            [self.kernel_width.saturating_sub(self.stride_x), self.stride_x.saturating_sub(self.kernel_width)];
        let of_all = |columns: u32| u64::from(self.parts.max(1) - 1) * u64::from(columns);
        let columns = (u64::from(self.input.width) + of_all(again)).saturating_sub(of_all(between));
        self.input.surfaces(config) * u64::from(self.input.height) * columns * u64::from(config.memory_atomic)
    }

    /// The outputs at the end of its lines.
    fn columns(&self) -> Ends {
        Ends::new(self.input.width, self.kernel_width, self.stride_x, self.pad_left, self.pad_right)
    }

    /// The outputs at the end of its surfaces.
    fn lines(&self) -> Ends {
        Ends::new(self.input.height, self.kernel_height, self.stride_y, self.pad_top, self.pad_bottom).in_banks(
            self.output.height,
            self.kernel_height,
            self.stride_y,
            self.pad_top,
        )
    }

    /// Cycles in which the input waits for outputs at the ends of lines and surfaces, except the last ones.
    fn waiting(&self, config: &Config) -> u64 {
        let surfaces = self.input.surfaces(config);
        let lines = surfaces * u64::from(self.input.height);
        let between = surfaces.saturating_sub(1) * self.lines().waiting * u64::from(self.output.width);
        (lines.saturating_sub(1) * self.columns().waiting + between) * Self::position(config)
    }

    /// The least cycles for its lines, each of which is a request in each part.
    fn requests(&self, config: &Config) -> u64 {
        let lines = self.input.surfaces(config) * u64::from(self.input.height) * u64::from(self.parts.max(1));
        (lines * LINE).saturating_sub(FIRST_LINE)
    }

    /// Cycles of the outputs that follow the last input.
    pub(crate) fn flush(&self, config: &Config) -> u64 {
        let lines = self.lines().behind * u64::from(self.output.width);
        let latency = if lines == 0 { 0 } else { FLUSH };
        latency + (self.columns().behind + lines) * Self::position(config)
    }

    /// The cycles by which it is shorter than alone if it is enabled early enough before the end of the pooling `before` it: its reader
    /// fetches meanwhile. A pooling that takes its input on the fly leaves the reader to the next one.
    pub(crate) fn beside(&self, before: &Self, config: &Config, memory: &Memory) -> u64 {
        let latency = |cube: &Cube| u64::from(interface(cube.memory, memory).latency);
        let whole = FIXED + latency(&self.input) + latency(&self.output);
        match (self.input.memory, before.input.memory) {
            (MemoryType::Hw, _) => 0,
            (_, MemoryType::Hw) => whole,
            _ => whole.min(TAIL + latency(&before.output) + before.flush(config)),
        }
    }

    /// Cycles per atom. The throughput is one of bytes: 16-bit elements take twice as long (nv_full's RTL).
    pub(crate) fn position(config: &Config) -> u64 {
        config.memory_atomic.div_ceil(config.pdp_throughput.max(1)).into()
    }
}

/// The outputs of a line or a surface whose windows end in padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    /// The outputs that follow the last input.
    behind: u64,
    /// The part of `behind` for which the next line or surface waits.
    waiting: u64,
}

impl Ends {
    const fn new(input: u32, kernel: u32, stride: u32, before: u32, after: u32) -> Self {
        let stride = if stride == 0 { 1 } else { stride };
        let mut behind = after / stride;
        let mut first = kernel.saturating_sub(before);
        // Even the first window ends in padding.
        if input + before < kernel {
            let left = (input + before + after).saturating_sub(kernel) / stride;
            behind = if behind < left { behind } else { left };
            first = input;
        }
        Self { behind: behind as u64, waiting: (behind + 1).saturating_sub(if first == 0 { 1 } else { first }) as u64 }
    }

    /// With the lines that wait because the next surface needs their banks: output line `n` has bank `n` modulo the number of lines
    /// that are kept (`NV_NVDLA_PDP_CORE_cal2d.v`: `bubble_add`). The first input line of a surface begins as many output lines as
    /// whole strides fit in the padding before it, and one.
    fn in_banks(self, lines: u32, kernel: u32, stride: u32, before: u32) -> Self {
        let (stride, beside) = (stride.max(1), self.behind - self.waiting);
        let kept = u64::from(kernel.div_ceil(stride).max(1));
        if beside < 2 {
            return self;
        }
        let first = u64::from(lines).saturating_sub(beside);
        let taken = |at: &u64| (first + at) % kept <= u64::from(before / stride);
        let more = (0..beside).rev().find(taken).map_or(0, |at| at + 1);
        Self { waiting: self.waiting + more, ..self }
    }
}

/// A pooling's time.
pub fn pdp(shape: &PdpShape, config: &Config, memory: &Memory) -> Estimate {
    let read = shape.read(config);
    let atoms = read / u64::from(config.memory_atomic.max(1));
    let compute = atoms * PdpShape::position(config) + shape.waiting(config);
    let input = interface(shape.input.memory, memory);
    let flies = shape.input.memory == MemoryType::Hw;
    let reading = Reader::input(config.pdp_throughput, Unit::Other, config)
        .cycles(if flies { 0 } else { read }, compute, TURNAROUND, input, config)
        .max(if flies { 0 } else { shape.requests(config) });
    let latency = u64::from(input.latency) + u64::from(interface(shape.output.memory, memory).latency);
    let flush = shape.flush(config);
    let bytes = shape.bytes(config);
    Estimate::new(compute + flush, reading + flush, FIXED, latency, Limit::Throughput, bytes, memory)
}

#[cfg(test)]
mod tests {
    use super::Ends;

    /// Poolings of the hardware project's traces, whose cycles on the RTL equal these.
    #[test]
    fn what_does_not_fit_beside_the_next_line_waits() {
        let ends = |behind, waiting| Ends { behind, waiting };
        assert_eq!(Ends::new(24, 8, 1, 5, 6), ends(6, 4));
        assert_eq!(Ends::new(12, 8, 2, 6, 4), ends(2, 1));
        assert_eq!(Ends::new(9, 3, 2, 2, 2), ends(1, 1));
        assert_eq!(Ends::new(28, 3, 1, 1, 1), ends(1, 0));
        assert_eq!(Ends::new(28, 2, 2, 0, 1), ends(0, 0));
        assert_eq!(Ends::new(1, 3, 2, 1, 1), ends(0, 0));
    }

    /// Two poolings whose lines wait for banks on nv_small's RTL.
    #[test]
    fn lines_wait_for_the_banks_of_the_next_surface() {
        let ends = |behind, waiting| Ends { behind, waiting };
        assert_eq!(Ends::new(6, 6, 1, 1, 5).in_banks(7, 6, 1, 1), ends(5, 5));
        assert_eq!(Ends::new(13, 5, 1, 1, 2).in_banks(12, 5, 1, 1), ends(2, 2));
        // Here they have other banks, or one line follows.
        assert_eq!(Ends::new(15, 5, 1, 1, 2).in_banks(14, 5, 1, 1), ends(2, 0));
        assert_eq!(Ends::new(28, 3, 1, 1, 1).in_banks(28, 3, 1, 1), ends(1, 0));
    }
}
