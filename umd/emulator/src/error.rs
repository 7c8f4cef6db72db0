// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of emulated tasks.

use core::fmt;
use core::time::Duration;

use nvdla_uapi::emu::{Buffer, Format};

/// Why an emulated task cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A list is missing or too short.
    #[error("the emulated task's {list} needs {needed} bytes at address entry {index}, which has {}", Room(*.size))]
    List {
        /// The list.
        list: &'static str,
        /// Position in the address list.
        index: usize,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes of the entry, if it exists.
        size: Option<u64>,
    },
    /// A descriptor cannot be read.
    #[error("emulated operation {operation}: {cause}")]
    Descriptor {
        /// Position in the operation list.
        operation: u16,
        /// What is wrong.
        cause: nvdla_uapi::emu::Error,
    },
    /// The network descriptor cannot be read.
    #[error("the emulated task's network descriptor: {0}")]
    Network(nvdla_uapi::emu::Error),
    /// A surface ends outside its memory.
    #[error(
        "{side} of emulated operation {operation} ({name}) ends at {end:#x} of address entry {index}, which has {}",
        Room(*.size)
    )]
    OutOfRange {
        /// Source or destination.
        side: &'static str,
        /// Position in the operation list.
        operation: u16,
        /// Power or softmax.
        name: &'static str,
        /// First byte behind the surface, from the entry's start.
        end: u64,
        /// Position in the address list.
        index: u16,
        /// Bytes of the entry, if it exists.
        size: Option<u64>,
    },
    /// A stride is too small, so that lines or surfaces overlap.
    #[error("{side} of emulated operation {operation} ({name}) has a {field} of {value} bytes, and at least {least} are needed")]
    Stride {
        /// Source or destination.
        side: &'static str,
        /// Position in the operation list.
        operation: u16,
        /// Power or softmax.
        name: &'static str,
        /// The stride.
        field: &'static str,
        /// Its value.
        value: u32,
        /// The least value that the stride may have.
        least: u64,
    },
    /// A surface with a size that does not fit 64 bits.
    #[error("{side} of emulated operation {operation} ({name}): {cause}")]
    Layout {
        /// Source or destination.
        side: &'static str,
        /// Position in the operation list.
        operation: u16,
        /// Power or softmax.
        name: &'static str,
        /// The rule that it breaks.
        cause: nvdla_uapi::layout::Error,
    },
    /// A surface without elements.
    #[error(
        "{side} of emulated operation {operation} ({name}) is empty: {width} x {height} pixels of {channels} channels"
    )]
    Empty {
        /// Source or destination.
        side: &'static str,
        /// Position in the operation list.
        operation: u16,
        /// Power or softmax.
        name: &'static str,
        /// Elements per line.
        width: u16,
        /// Lines.
        height: u16,
        /// Channels.
        channels: u16,
    },
    /// A format that is not emulated.
    #[error(
        "{side} of emulated operation {operation} ({name}) is {format:?}; only Fp16, Int8 and Int8x8 are emulated"
    )]
    Format {
        /// Source or destination.
        side: &'static str,
        /// Position in the operation list.
        operation: u16,
        /// Power or softmax.
        name: &'static str,
        /// Its format.
        format: Format,
    },
    /// The task did not end in time.
    #[error("the emulated task did not end within {limit:?}: operation {operation} ({name}) was running")]
    TimedOut {
        /// The time that it had.
        limit: Duration,
        /// Position in the operation list.
        operation: u16,
        /// Power or softmax.
        name: &'static str,
    },
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// Source and destination do not match.
    #[error("emulated operation {operation} ({name}) reads {} and writes {}", .shapes[0], .shapes[1])]
    Mismatch {
        /// Position in the operation list.
        operation: u16,
        /// Power or softmax.
        name: &'static str,
        /// The source's and the destination's.
        shapes: [Shape; 2],
    },
}

/// The shape and the format of a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements per line.
    pub width: u16,
    /// Lines.
    pub height: u16,
    /// Channels.
    pub channels: u16,
    /// How its elements lie.
    pub format: Format,
}

impl Shape {
    pub(super) fn of(buffer: &Buffer) -> Self {
        let &Buffer { width, height, channels, format, .. } = buffer;
        Self { width, height, channels, format }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, channels, format } = self;
        write!(f, "{width} x {height} pixels of {channels} channels in {format:?}")
    }
}

/// The bytes of an address entry, if it exists.
struct Room(Option<u64>);

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(size) => write!(f, "{size:#x} bytes"),
            None => f.write_str("no memory"),
        }
    }
}
