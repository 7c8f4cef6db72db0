// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a loadable does not run.

use std::time::Duration;

use thiserror::Error;

use crate::{
    device, emulator,
    loadable::{Interface, Version},
    operations,
};

use super::tensor::{Direction, TensorError};

/// Why a session could not be made or a run did not end well.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to run.
    #[error("the loadable has no {what}")]
    Nothing {
        /// What is missing.
        what: &'static str,
    },
    /// A memory cannot be allocated.
    #[error("memory {memory} ({size} bytes) cannot be allocated")]
    Allocate {
        /// The memory's id.
        memory: u16,
        /// Bytes.
        size: u64,
        /// The device's reason.
        #[source]
        source: device::Error,
    },
    /// A task uses a memory that is neither allocated nor bound.
    #[error("address {position} of task {task} is in memory {memory}, which the loadable does not allocate")]
    NotAllocated {
        /// The task's id.
        task: u16,
        /// Position in its address list.
        position: usize,
        /// The memory's id.
        memory: u16,
    },
    /// A task's descriptors are of another version.
    #[error("task {task} has {interface} descriptors of version {version}, which this runtime does not know")]
    Version {
        /// The task's id.
        task: u16,
        /// The executor of the descriptors.
        interface: Interface,
        /// The descriptors' version.
        version: Version,
    },
    /// The operations of the loadable cannot be read or ordered.
    #[error(transparent)]
    Operations(#[from] operations::Error),
    /// A relocation writes a memory that no blob fills.
    #[error("relocation {relocation} writes memory {memory}, which no blob fills")]
    Relocation {
        /// Position in the relocation list.
        relocation: usize,
        /// The memory's id.
        memory: u16,
    },
    /// A task failed on its device.
    #[error("task {task} failed")]
    Task {
        /// The task's id.
        task: u16,
        /// The device's reason.
        #[source]
        source: device::Error,
    },
    /// An emulated task failed.
    #[error("task {task} failed")]
    Emulated {
        /// The task's id.
        task: u16,
        /// The emulator's reason.
        #[source]
        source: emulator::Error,
    },
    /// The run as a whole did not end in time.
    #[error("the run did not end within {limit:?}: {done} of its {of} tasks had ended")]
    RunTime {
        /// The time limit.
        limit: Duration,
        /// Tasks that had ended.
        done: usize,
        /// Tasks of the run, counted per submission.
        of: usize,
    },
    /// The run was cancelled between two tasks.
    #[error("the run was cancelled: {done} of its {of} tasks had ended")]
    Cancelled {
        /// Tasks that had ended.
        done: usize,
        /// Tasks of the run, counted per submission.
        of: usize,
    },
    /// The run is of a process that has forked this one.
    #[error(transparent)]
    Forked(device::Error),
    /// The deadline of a wait has passed; the run continues.
    #[error("the run has not ended yet")]
    NotYet,
    /// The result of a run was requested twice.
    #[error("an earlier wait has returned the result of the run")]
    Taken,
    /// The memory of a context was requested while a run of it is in flight.
    #[error("a run of this context is in flight: wait for it first")]
    Busy,
    /// A task that changes its own descriptors is submitted several times per run.
    #[error("task {task} overwrites its input with its statistics and runs several times, so it cannot be queued")]
    Repeated {
        /// The task's id.
        task: u16,
    },
    /// The end of a submitted run cannot be waited for.
    #[error("cannot wait for the end of a submitted run")]
    Follow {
        /// The device's reason.
        #[source]
        source: device::Error,
    },
    /// A buffer cannot be given to or taken from another driver or process.
    #[error("a buffer cannot be shared")]
    Share {
        /// The device's reason.
        #[source]
        source: device::Error,
    },
    /// An event descriptor cannot be made.
    #[error("cannot make an event descriptor")]
    Wait {
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// An operation's result could not be saved.
    #[error("cannot save the result of operation {operation} of task {task}")]
    Save {
        /// The task's id.
        task: u16,
        /// The operation.
        operation: usize,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// Operations were to be observed, but the device does not report when one completes.
    #[error("{device} does not report when an operation completes, so its result cannot be saved")]
    CannotObserve {
        /// The device.
        device: String,
    },
    /// There is no such tensor.
    #[error("there is no {direction} {which}; the loadable has {known}")]
    NoTensor {
        /// Input or output.
        direction: Direction,
        /// The requested name or number.
        which: String,
        /// The names that there are.
        known: String,
    },
    /// A tensor cannot be set, bound or read in this way.
    #[error("{direction} {index} ({name:?})")]
    Tensor {
        /// Input or output.
        direction: Direction,
        /// Its bind id.
        index: usize,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: TensorError,
    },
}

impl Error {
    /// Whether a task or the run exceeded its time limit.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Task { source, .. } => {
                matches!(source, device::Error::TimedOut { .. } | device::Error::Deadline { .. })
            }
            Self::Emulated { source, .. } => matches!(source, emulator::Error::TimedOut { .. }),
            Self::RunTime { .. } => true,
            _ => false,
        }
    }
}
