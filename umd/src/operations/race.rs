// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two operations that access the same bytes in no fixed order.

use std::fmt;

use nvdla_uapi::desc::OpType;

/// An operation's access to shared bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// Position in the task's operation list.
    pub operation: usize,
    /// Its unit.
    pub unit: OpType,
    /// The surface.
    pub surface: &'static str,
    /// Whether it writes the surface.
    pub writes: bool,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.writes { "writes" } else { "reads" };
        write!(f, "operation {} ({}) {verb} {}", self.operation, self.unit, self.surface)
    }
}

/// Two operations that access the same bytes in no fixed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Race {
    /// The task's id.
    pub task: u16,
    /// The operation that comes first in the list.
    pub first: Party,
    /// The other one.
    pub second: Party,
    /// The id of the memory with the shared bytes.
    pub memory: u16,
    /// The first shared byte, and the byte after the last shared one.
    pub bytes: (u64, u64),
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, first, second, memory, bytes: (start, end) } = self;
        write!(f, "task {task}: {first} and {second} at {start:#x} to {end:#x} of memory {memory}")
    }
}
