// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The text that an operator reads when a task does not end.

use super::schedule::GROUPS;
use crate::uapi::desc::{OpType, PROCESSORS};
use crate::uapi::reg::glb;
use core::fmt;

/// Why a task was ended before its operations were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its deadline passed.
    Deadline,
    /// The device's registers read as all ones: it is off, or behind a link that is down.
    Gone,
    /// The caller ended it.
    Aborted,
    /// It was not delivered; the status register was polled.
    Observed,
}

/// An operation that a register group held when the task was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The operation's index.
    pub operation: u32,
    /// Its region of interest.
    pub roi: u32,
    /// The unit.
    pub unit: OpType,
    /// The unit's register group.
    pub group: u8,
    /// It was enabled; otherwise it was programmed and waited for events.
    pub enabled: bool,
    /// Events that it still waited for.
    pub waits: u8,
    /// The unit's interrupt for this group is pending: the operation completed, but the engine was not notified.
    pub interrupt: bool,
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, unit, group, waits, .. } = self;
        write!(f, "operation {operation} ({unit}, group {group}) ")?;
        match (self.enabled, self.interrupt) {
            (true, true) => f.write_str("ended, but its interrupt was not delivered"),
            (true, false) => f.write_str("was running, and its interrupt did not come"),
            (false, _) => write!(f, "was waiting for {waits} events"),
        }
    }
}

/// A task that did not end by itself, or that runs and was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why it was ended.
    pub cause: Cause,
    /// Operations that had completed, regions counted apart.
    pub completed: u32,
    /// Operations of the task.
    pub total: u32,
    /// What the register groups held, unit by unit.
    pub running: [Option<Running>; PROCESSORS * GROUPS],
    /// The interrupt status (`S_INTR_STATUS`) when the task was ended.
    pub status: u32,
    /// The status that the last interrupt brought; 0 when none came.
    pub last_status: u32,
    /// Interrupts that were handled since the task was submitted.
    pub interrupts: u32,
}

/// For each unit, by number, and each group: the bits of the interrupt status that say that the group's operation is done.
pub(crate) const DONE: [[u32; GROUPS]; PROCESSORS] = {
    use glb::S_INTR_STATUS as status;
    [
        [status::BDMA_DONE_STATUS0.mask(), status::BDMA_DONE_STATUS1.mask()],
        [status::CACC_DONE_STATUS0.mask(), status::CACC_DONE_STATUS1.mask()],
        [status::SDP_DONE_STATUS0.mask(), status::SDP_DONE_STATUS1.mask()],
        [status::PDP_DONE_STATUS0.mask(), status::PDP_DONE_STATUS1.mask()],
        [status::CDP_DONE_STATUS0.mask(), status::CDP_DONE_STATUS1.mask()],
        [status::RUBIK_DONE_STATUS0.mask(), status::RUBIK_DONE_STATUS1.mask()],
    ]
};

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { completed, total, status, last_status, interrupts, .. } = self;
        let cause = match self.cause {
            Cause::Deadline => "the deadline passed",
            Cause::Gone => "the device is gone (its registers read as all ones)",
            Cause::Aborted => "the task was aborted",
            Cause::Observed => "the task runs",
        };
        write!(f, "{cause} after {completed} of {total} operations")?;
        // What runs says more than what waits for it.
        for enabled in [true, false] {
            for running in self.running.iter().flatten().filter(|running| running.enabled == enabled) {
                write!(f, "; {running}")?;
            }
        }
        write!(f, "; interrupt status {status:#x}, {interrupts} interrupts, the last {last_status:#x}")
    }
}

impl core::error::Error for Failure {}
