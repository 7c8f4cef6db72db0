// SPDX-License-Identifier: MIT OR Apache-2.0

//! The options of a run, and its report.

use std::{io, time::Duration};

use nvdla_uapi::desc::OpType;

use crate::{cancel::Cancel, device::Measured, loadable::Interface};

/// An operation that has completed, for [`RunOptions::on_operation`].
#[derive(Clone, Copy, Debug)]
pub struct Completed<'a> {
    /// The task's id.
    pub task: u16,
    /// Position in the task's operation list.
    pub operation: usize,
    /// The region of interest that it worked on; 0 in nearly every task.
    pub roi: usize,
    /// The unit that executed it.
    pub unit: OpType,
    /// The bytes of its destination, from the surface's address on; none when it writes to no memory.
    pub surface: Option<&'a [u8]>,
    /// The measured values, if the device counts cycles.
    pub measured: Option<Measured>,
}

/// Called with each operation that has completed.
pub type OnOperation<'a> = &'a mut dyn FnMut(Completed<'_>) -> io::Result<()>;

/// The options of a run.
#[derive(Default)]
pub struct RunOptions<'a> {
    /// The time limit of each task, on its device or emulated; none for the device's own limit.
    pub timeout: Option<Duration>,
    /// The time limit of all tasks together, counted per submission; none for
    /// [`Device::time_limit`](crate::device::Device::time_limit), or for `timeout` if that is longer. It is checked before each
    /// task.
    pub run_timeout: Option<Duration>,
    /// Ends the run with [`crate::ErrorKind::Cancelled`] when it says so.
    pub cancel: Option<Cancel>,
    /// Called when an operation of a task for NVDLA has completed. If it returns an error, the run ends after that task.
    pub on_operation: Option<OnOperation<'a>>,
}

impl std::fmt::Debug for RunOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("timeout", &self.timeout)
            .field("run_timeout", &self.run_timeout)
            .finish_non_exhaustive()
    }
}

/// The report of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each task in the order in which it ran.
    pub tasks: Vec<TaskRun>,
}

impl Report {
    /// The time of all tasks.
    pub fn duration(&self) -> Duration {
        self.tasks.iter().map(|task| task.duration).sum()
    }
}

/// A task that has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRun {
    /// Its id.
    pub id: u16,
    /// The executor.
    pub interface: Interface,
    /// The time from its submission to its end.
    pub duration: Duration,
    /// The number of its operations.
    pub operations: usize,
}
