// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors.

use core::fmt;
use core::time::Duration;

use nvdla_engine::{Failure, SubmitError};
use nvdla_uapi::desc::Version;

/// Why a network is not loaded, or a run fails.
#[derive(Debug)]
pub enum Error {
    /// The bytes are no loadable, or an offset in them leaves the file.
    NotALoadable,
    /// The format has another version.
    Format {
        /// Major number.
        major: u8,
        /// Minor number.
        minor: u8,
    },
    /// A field of an entry has a value that cannot be.
    Entry {
        /// The list.
        list: &'static str,
        /// Position in it.
        entry: usize,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The descriptors of a task have a version that is not supported here.
    Descriptors {
        /// The task's id.
        task: u16,
        /// The version.
        version: Version,
    },
    /// There are more tasks for NVDLA than a [`Network`](crate::Network) has places.
    Tasks {
        /// The tasks.
        tasks: usize,
        /// The places.
        limit: usize,
    },
    /// The arena is too small.
    Arena {
        /// Bytes that the network needs.
        needed: u64,
        /// Bytes of the arena.
        size: u64,
    },
    /// The arena's address for the device is not aligned as the network needs it.
    Alignment {
        /// The address.
        address: u64,
        /// The alignment in bytes.
        alignment: u64,
    },
    /// There are too few slots.
    Slots {
        /// Slots that the network needs.
        needed: usize,
        /// Slots that there are.
        available: usize,
    },
    /// The engine refuses a task.
    Refused {
        /// The task's id.
        task: u16,
        /// Why.
        error: nvdla_engine::Error,
    },
    /// An emulated task fails.
    Emulated {
        /// The task's id.
        task: u16,
        /// Why.
        error: nvdla_emulator::Error,
    },
    /// The engine does not take a task.
    NotTaken {
        /// The task's id.
        task: u16,
        /// Why.
        error: SubmitError,
    },
    /// A task did not end in time, or the device is gone.
    TimedOut {
        /// The task's id.
        task: u16,
        /// The time of the run.
        limit: Duration,
        /// What the device did.
        failure: Failure,
    },
    /// The statistics of a task do not fit their list.
    Statistics {
        /// The task's id.
        task: u16,
    },
    /// No NVDLA of a known configuration answers at the register window.
    NoDevice,
    /// The device runs something, and it cannot be reset.
    Busy,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotALoadable => f.write_str("the bytes are not a loadable, or an offset in them leaves the file"),
            Self::Format { major, minor } => {
                write!(f, "the loadable has version {major}.{minor}, and 0.7 is supported")
            }
            Self::Entry { list, entry, field, value } => {
                write!(f, "entry {entry} of the {list}: {field} is {value}, which is not possible")
            }
            Self::Descriptors { task, version } => {
                write!(f, "task {task} has descriptors of version {version}, and {} is supported", Version::CURRENT)
            }
            Self::Tasks { tasks, limit } => write!(f, "the loadable has {tasks} tasks for NVDLA, and {limit} fit"),
            Self::Arena { needed, size } => write!(f, "the network needs an arena of {needed} bytes, and has {size}"),
            Self::Alignment { address, alignment } => {
                write!(f, "the arena's address is {address:#x}, and the network needs a multiple of {alignment}")
            }
            Self::Slots { needed, available } => write!(f, "the network needs {needed} slots, and has {available}"),
            Self::Refused { task, error } => write!(f, "task {task}: {error}"),
            Self::Emulated { task, error } => write!(f, "task {task}: {error}"),
            Self::NotTaken { task, error } => write!(f, "task {task}: {error}"),
            Self::TimedOut { task, limit, failure } => {
                write!(f, "task {task} did not end, and the run had {limit:?}: {failure}")
            }
            Self::Statistics { task } => write!(f, "task {task}: its statistics do not fit their list"),
            Self::NoDevice => f.write_str("no NVDLA of a known configuration answers at the register window"),
            Self::Busy => f.write_str("the device runs something, and the board cannot reset it"),
        }
    }
}

impl core::error::Error for Error {}
