// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memory that a device reads and writes, and what happens when it reaches outside.

use std::fmt;

use nvdla_uapi::reg::values::RamType;
use thiserror::Error;

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

/// Memory as the device sees it: byte ranges that it was given, and nothing else.
///
/// Both functions answer `None` where any byte of the range is outside: the unit then stops and the device reports a
/// [`Fault`]. A range that an implementation keeps in two pieces is outside too, so give a buffer one piece.
pub trait Memory: Sync {
    /// The `length` bytes at `address`.
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]>;

    /// The `length` bytes at `address`, to be written.
    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]>;
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
    /// It reached outside its memory.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The registers ask for something that the hardware does not define or that this configuration does not have.
    #[error("{unit}: {what}")]
    Unsupported {
        /// The unit.
        unit: &'static str,
        /// Register, field and value, in words.
        what: String,
    },
}

impl Stop {
    /// An [`Stop::Unsupported`].
    pub fn unsupported(unit: &'static str, what: impl Into<String>) -> Self {
        Self::Unsupported { unit, what: what.into() }
    }
}

/// Reads for `unit`, turning an access outside into a [`Fault`].
pub fn read<'m>(
    memory: &'m dyn Memory,
    unit: &'static str,
    port: Port,
    address: u64,
    length: usize,
) -> Result<&'m [u8], Fault> {
    memory.read(port, address, length).ok_or(Fault { unit, access: Access::Read, port, address, length: length as u64 })
}

/// Writes for `unit`, turning an access outside into a [`Fault`].
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
