// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memory that a device reads and writes, and the faults of accesses outside of it.

use std::fmt;
use std::ops::Range;

use nvdla_uapi::reg::values::RamType;
use thiserror::Error;

use nvdla_uapi::isa::{UnknownIsa, VARIABLE};

/// Which of the two memory interfaces an access uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Port {
    /// DRAM.
    Primary,
    /// SRAM.
    Secondary,
}

impl From<RamType> for Port {
    fn from(ram: RamType) -> Self {
        match ram {
            RamType::Cvif => Self::Secondary,
            RamType::Mcif => Self::Primary,
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary => "primary memory",
            Self::Secondary => "secondary memory",
        })
    }
}

/// The device's view of memory: the byte ranges that it was given.
///
/// Both functions return `None` if any byte of the range is outside: the unit then stops and the device reports a [`Fault`]. A
/// range that an implementation stores in two pieces counts as outside, so a buffer must be in one piece.
pub trait Memory: Sync {
    /// The `length` bytes at `address`.
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]>;

    /// The `length` bytes at `address`, to be written.
    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]>;

    /// Bytes to read and others to write at the same time, so that threads need not buffer their results.
    ///
    /// `None` also if both share a byte, and if an implementation does not support this: the unit then requests one after the
    /// other.
    fn both(&mut self, read: Span, write: Span) -> Option<(&[u8], &mut [u8])> {
        let _ = (read, write);
        None
    }

    /// Calls `work` with bytes to write and the memory without them, so that a unit can write its output while it reads.
    ///
    /// Returns false, and does not call, if an implementation does not support this, or if the bytes are outside.
    fn beside(&mut self, write: Span, work: &mut dyn FnMut(&dyn Memory, &mut [u8])) -> bool {
        let _ = (write, work);
        false
    }

    /// As [`Memory::read`], for a range of which only some bytes are used. If the answer is `None`, the unit reads only
    /// those bytes.
    fn view(&self, span: Span) -> Option<&[u8]> {
        self.read(span.port, span.address, span.length)
    }

    /// A number for the contents of the range. While it stays the same for this range, so do the bytes, and results
    /// that a unit computed from them stay valid. The numbers of all memories of a device come from the same counter.
    ///
    /// `None` if an implementation does not notice all writes.
    fn version(&self, span: Span) -> Option<u64> {
        let _ = span;
        None
    }
}

/// A memory without a byte.
pub(crate) struct NoMemory;

impl Memory for NoMemory {
    fn read(&self, _: Port, _: u64, _: usize) -> Option<&[u8]> {
        None
    }

    fn write(&mut self, _: Port, _: u64, _: usize) -> Option<&mut [u8]> {
        None
    }
}

/// A range of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The memory interface.
    pub port: Port,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub length: usize,
}

/// Two ranges of the same bytes, the first to read and the second to write; `None` if one is outside or both share a byte.
pub fn disjoint(bytes: &mut [u8], read: Range<usize>, write: Range<usize>) -> Option<(&[u8], &mut [u8])> {
    let (read_length, write_length) = (read.end.checked_sub(read.start)?, write.end.checked_sub(write.start)?);
    if read.end <= write.start {
        let (before, after) = bytes.split_at_mut_checked(write.start)?;
        Some((before.get(read)?, after.get_mut(..write_length)?))
    } else if write.end <= read.start {
        let (before, after) = bytes.split_at_mut_checked(read.start)?;
        Some((after.get(..read_length)?, before.get_mut(write)?))
    } else {
        None
    }
}

/// The direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The device read.
    Read,
    /// The device wrote.
    Write,
}

/// An access outside the memory that the device was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{unit} {} {length} bytes at {address:#x} of {port}, outside the memory it was given",
    match access { Access::Read => "reads", Access::Write => "writes" })]
pub struct Fault {
    /// The unit that made the access ("CDMA", "SDP").
    pub unit: &'static str,
    /// Read or write.
    pub access: Access,
    /// The memory interface.
    pub port: Port,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub length: u64,
}

/// Why a unit did not finish its operation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Stop {
    /// An access was outside its memory.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The operation did not end in time: see [`crate::limit`].
    #[error("the operation did not end in time")]
    Late,
    /// The registers select a function that the hardware does not define or that this configuration does not have.
    #[error("{unit}: {what}")]
    Unsupported {
        /// The unit.
        unit: &'static str,
        /// Register, field and value, as text.
        what: String,
    },
    /// An assertion of the simulated design has failed.
    #[error("an assertion of the design failed in cycle {cycle}: {what}")]
    Assertion {
        /// Its file, line and message.
        what: String,
        /// The cycle up to which the simulator had run.
        cycle: u64,
    },
    /// The simulator that is the device does not answer any more, or refuses a request.
    #[error("{what}")]
    Simulator {
        /// The simulator, and the reason.
        what: String,
    },
}

impl From<UnknownIsa> for Stop {
    fn from(error: UnknownIsa) -> Self {
        Self::unsupported(VARIABLE, error.to_string())
    }
}

impl Stop {
    /// An [`Stop::Unsupported`].
    pub fn unsupported(unit: &'static str, what: impl Into<String>) -> Self {
        Self::Unsupported { unit, what: what.into() }
    }
}

/// Reads for `unit`, and converts an access outside to a [`Fault`].
pub fn read<'m>(
    memory: &'m dyn Memory,
    unit: &'static str,
    port: Port,
    address: u64,
    length: usize,
) -> Result<&'m [u8], Fault> {
    memory.read(port, address, length).ok_or(Fault { unit, access: Access::Read, port, address, length: length as u64 })
}

/// Writes for `unit`, and converts an access outside to a [`Fault`].
pub fn write<'m>(
    memory: &'m mut dyn Memory,
    unit: &'static str,
    port: Port,
    address: u64,
    length: usize,
) -> Result<&'m mut [u8], Fault> {
    memory.write(port, address, length).ok_or(Fault {
        unit,
        access: Access::Write,
        port,
        address,
        length: length as u64,
    })
}
