// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a device does not do what it is asked to.

use std::{io, path::PathBuf, time::Duration};

use thiserror::Error;

#[cfg(feature = "direct")]
use super::direct::error::OpenError;

/// Why a call of a device failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The node cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The node.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The node belongs to another driver.
    #[error("{} belongs to the driver \"{driver}\", not to NVDLA's", path.display())]
    OtherDriver {
        /// The node.
        path: PathBuf,
        /// The driver's name.
        driver: String,
    },
    /// A buffer cannot be allocated.
    #[error("cannot allocate {size} bytes on {device}")]
    Allocate {
        /// Bytes.
        size: u64,
        /// The device.
        device: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// An ioctl failed.
    #[error("{ioctl} on {} failed", path.display())]
    Ioctl {
        /// The ioctl's name.
        ioctl: &'static str,
        /// The node.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The driver reported that the task did not end in time.
    #[error("the task did not end within {} on {device}", .timeout.map_or("the driver's limit".into(), |limit| format!("{limit:?}")))]
    TimedOut {
        /// The time that it had; none for the driver's own limit.
        timeout: Option<Duration>,
        /// The device.
        device: String,
    },
    /// The driver reported that the task failed.
    #[error("the task failed on {device}")]
    Failed {
        /// The device.
        device: String,
        /// The driver's reason.
        #[source]
        source: io::Error,
    },
    /// No device was found, and the model is not built in.
    #[error("no NVDLA device was found, and this program was built without the model (feature \"model\")")]
    NoDevice,
    /// Only a simulated device can be recorded.
    #[error("only the model and simulators of the RTL can be recorded")]
    NotRecorded,
    /// The simulator cannot be started.
    #[cfg(feature = "model")]
    #[error(transparent)]
    Simulator(#[from] nvdla_rtl::StartError),
    /// A task names a buffer that the device does not have, or bytes outside it.
    #[error("address {position} of the task is outside the device's buffers")]
    Address {
        /// Position in the address list.
        position: usize,
    },
    /// The task was refused before the device was started.
    #[error("the task is refused: {0}{hint}", hint = hint(.0))]
    Refused(nvdla_engine::Error),
    /// The task could not be started.
    #[error("the task could not be started: {0}")]
    NotTaken(nvdla_engine::SubmitError),
    /// The model stopped: an access outside the task's memory, or something that the hardware does not have.
    #[cfg(feature = "model")]
    #[error("the device stopped: {stop}{}", detail(.failure.as_deref()))]
    Stopped {
        /// Why.
        stop: nvdla_model::memory::Stop,
        /// What was running.
        failure: Option<Box<nvdla_engine::Failure>>,
    },
    /// The task did not end in time.
    #[error("the task did not end within {timeout:?}: {failure}")]
    Deadline {
        /// The time that it had.
        timeout: Duration,
        /// What was running.
        failure: Box<nvdla_engine::Failure>,
    },
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The device belongs to a process that has forked this one.
    #[error(
        "this process ({process}) was forked by process {owner}, which has the device and the threads that compute; open the \
         device in this process, and start it without fork (in Python: multiprocessing's \"spawn\" or \"forkserver\")"
    )]
    Forked {
        /// The process that has the device or the threads.
        owner: u32,
        /// This process.
        process: u32,
    },
    /// The device cannot be reached without its driver.
    #[cfg(feature = "direct")]
    #[error(transparent)]
    Direct(#[from] OpenError),
    /// The device stopped answering, or cannot be used any more.
    #[error("{device} is lost: {why}{}", detail(.failure.as_deref()))]
    Lost {
        /// The device.
        device: String,
        /// What is wrong with it.
        why: String,
        /// What was running.
        failure: Option<Box<nvdla_engine::Failure>>,
    },
    /// The counters of the units could not be written to the task's statistics list.
    #[error("the task's statistics list is outside its memory")]
    Statistics,
    /// The model is idle, but the task has not ended.
    #[error("the device is idle, but the task has not ended{}", detail(.failure.as_deref()))]
    Stuck {
        /// What was running.
        failure: Option<Box<nvdla_engine::Failure>>,
    },
    /// A buffer cannot be given to or taken from another driver or process.
    #[error("{device} cannot share the buffer")]
    Share {
        /// The device.
        device: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The end of a task cannot be waited for.
    #[error("cannot wait for the end of a task")]
    Fence {
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A thread that works for the device cannot be started.
    #[error("a thread for {device} cannot be started")]
    Thread {
        /// The device.
        device: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The device gives no access to its buffers' pages.
    #[error("{device} cannot be shared: it does not give access to its buffers' pages")]
    NotShared {
        /// The device.
        device: String,
    },
    /// A task has more addresses than the driver takes.
    #[error("the task has {count} addresses; the driver takes {limit}")]
    TooManyAddresses {
        /// Addresses.
        count: usize,
        /// The limit.
        limit: usize,
    },
}

/// What a user can do about a refusal; it follows the reason.
pub(crate) fn hint(error: &nvdla_engine::Error) -> &'static str {
    match error.reason {
        nvdla_engine::Reason::LineBuffer { can_split: true, .. } => {
            "; --repair divides the pooling into parts that fit"
        }
        nvdla_engine::Reason::Unread { can_crop: true, .. } => "; --repair leaves out what no window reads",
        _ => "",
    }
}

fn detail(failure: Option<&nvdla_engine::Failure>) -> String {
    failure.map(|failure| format!(" ({failure})")).unwrap_or_default()
}
