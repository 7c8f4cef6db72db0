// SPDX-License-Identifier: MIT OR Apache-2.0

//! What devices and their users exchange: buffers, places in them, descriptions and reports.

use std::{fmt, path::PathBuf};

use nvdla_estimate::Measured;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;

/// A buffer of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub(crate) u32);

impl Handle {
    /// The handle of the buffer that a `Device` gave this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The buffer's number on its device.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// An entry of a task's address list: a place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressEntry {
    /// The buffer.
    pub handle: Handle,
    /// Bytes from its start.
    pub offset: u64,
    /// Bytes that the entry gives access to.
    pub size: u64,
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The built-in model.
    Model,
    /// A simulator of the RTL, in a separate process.
    Rtl,
    /// Hardware, or a simulation that a kernel driver treats as hardware.
    Hardware,
}

/// A description of a device, for messages and for choosing a device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Model or hardware.
    pub kind: Kind,
    /// Its configuration, if it is known: the first kernel driver has no query for it.
    pub config: Option<&'static Config>,
    /// Its node in the file system.
    pub path: Option<PathBuf>,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, self.config) {
            (Some(path), Some(config)) if self.kind == Kind::Rtl => {
                write!(f, "the RTL of {} in {}", config.name, path.display())
            }
            (Some(path), Some(config)) => write!(f, "{} ({})", path.display(), config.name),
            (Some(path), None) => write!(f, "{}", path.display()),
            (None, Some(config)) => write!(f, "the built-in model of {}", config.name),
            (None, None) => f.write_str("an unnamed device"),
        }
    }
}

/// Buffers that can be read while a task runs.
pub trait Buffers {
    /// The buffer's bytes; empty when there is no such buffer.
    fn bytes(&self, handle: Handle) -> &[u8];
}

/// An operation of the running task that has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its position in the operation list.
    pub operation: usize,
    /// The region of interest that it worked on.
    pub roi: usize,
    /// The unit that executed it.
    pub unit: OpType,
    /// Its output: position in the address list, offset in bytes from there, and size in bytes. None if it wrote no memory.
    pub output: Option<(usize, u64, u64)>,
    /// Its times and traffic, if the device counts cycles.
    pub measured: Option<Measured>,
}

/// Called when an operation of the running task has completed, with the buffers as they are then.
pub type Observer<'a> = &'a mut dyn FnMut(Completion, &dyn Buffers);

/// What a device reports about a task that has succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskReport {
    /// Operations that have completed, if the device reports them.
    pub operations: Option<usize>,
}
