// SPDX-License-Identifier: MIT OR Apache-2.0

//! Devices, which run tasks: NVDLA behind its kernel driver, NVDLA driven by this process, and the built-in model. They
//! share one trait.
//!
//! A device has buffers, which the application uses as bytes, and runs one task at a time. A task is a list of addresses: places
//! in buffers. The first address is that of the network descriptor. A device does not interpret tasks further.

#[cfg(feature = "direct")]
#[allow(clippy::single_range_in_vec_init)] // a list of one range of addresses
mod direct;
mod dma_buf;
mod fence;
mod ioctl;
#[cfg(feature = "kernel")]
mod kernel;
#[cfg(feature = "model")]
mod model;
mod pages;
mod recognise;
#[cfg(all(feature = "cli", feature = "model"))]
mod record;
#[cfg(any(feature = "kernel", feature = "model"))]
pub(crate) mod refusal;
mod select;
mod shared;
#[cfg(any(feature = "direct", feature = "model"))]
mod spans;
#[cfg(any(feature = "direct", feature = "model"))]
mod store;
#[cfg(any(feature = "direct", feature = "model"))]
mod tasks;
#[cfg(feature = "model")]
mod view;

use std::{
    fmt, io,
    os::fd::{BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

pub use nvdla_estimate::Measured;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;
use thiserror::Error;

#[cfg(feature = "direct")]
pub use direct::{DirectDevice, DirectSelection, DirectSelectionError, OpenError};
pub use fence::Fence;
pub(crate) use fence::{lock, readable, Signal, Waited};
#[cfg(feature = "kernel")]
pub use kernel::{discover, KernelDevice};
#[cfg(feature = "model")]
pub use model::ModelDevice;
pub use pages::Pages;
pub use recognise::{recognise, Recognised};
#[cfg(all(feature = "cli", feature = "model"))]
pub use record::Recording;
#[cfg(all(feature = "cli", feature = "model"))]
pub use select::open_recorded;
pub use select::{open, Opened, Selection, SelectionError};
pub use shared::{Client, Shared};
pub(crate) use shared::{EmulatedMemory, Follow, Holding};

/// A buffer of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub(crate) u32);

impl Handle {
    /// The handle of the buffer that a [`Device`] gave this number.
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

/// A device that runs tasks.
pub trait Device: Buffers + Send {
    /// The description of the device.
    fn info(&self) -> DeviceInfo;

    /// Makes a buffer of at least `size` bytes, all zero, on a 4096-byte boundary.
    fn allocate(&mut self, size: u64) -> Result<Handle, Error>;

    /// Makes a buffer as [`Device::allocate`], but in the SRAM behind the device's secondary memory interface. None if the
    /// device has no SRAM, or less than `size` bytes in one piece are free.
    ///
    /// The default is a device without SRAM.
    fn allocate_sram(&mut self, size: u64) -> Result<Option<Handle>, Error> {
        let _ = size;
        Ok(None)
    }

    /// Gives a buffer back.
    fn free(&mut self, handle: Handle);

    /// The buffer's bytes, to be written; empty when there is no such buffer.
    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8];

    /// Runs a task and returns when it has ended.
    ///
    /// A task that has not ended after `timeout` (none: the device's own limit) is an error, and so is one that the device
    /// refuses. In both cases the device is ready for the next task. `observer` is called if the device can report when
    /// operations complete: see [`Device::can_observe`].
    fn submit(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        observer: Option<Observer<'_>>,
    ) -> Result<TaskReport, Error>;

    /// Whether [`Device::submit`] calls its observer.
    fn can_observe(&self) -> bool {
        false
    }

    /// The default time limit of a run, and of each of its tasks. None for a device on which a task may take any time.
    fn time_limit(&self) -> Option<Duration> {
        Some(TIME_LIMIT)
    }

    /// Whether a task leaves its dependency graph as it was. The first kernel driver counts down in it.
    fn keeps_graphs(&self) -> bool {
        true
    }

    /// The buffer's pages, which its owner accesses while the device works for another. Without them a device cannot be
    /// [`Shared`].
    fn pages(&self, handle: Handle) -> Option<Arc<Pages>> {
        let _ = handle;
        None
    }

    /// Whether [`Device::queue`] queues tasks.
    fn has_queue(&self) -> bool {
        false
    }

    /// Queues a task and returns before it has run; it begins when the task of `after` has ended.
    ///
    /// The default runs the task and returns when it has ended, as [`Device::submit`].
    fn queue(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        after: Option<&Fence>,
    ) -> Result<Fence, Error> {
        let _ = after;
        let signal = Signal::new().map_err(|source| Error::Fence { source })?;
        signal.set(self.submit(addresses, timeout, None));
        Ok(Fence::signal(signal))
    }

    /// A descriptor of the buffer's bytes: a dma-buf, or for the model a file that other processes can map.
    fn export(&mut self, handle: Handle) -> Result<OwnedFd, Error> {
        let _ = handle;
        Err(Error::Share { device: self.info().to_string(), source: io::ErrorKind::Unsupported.into() })
    }

    /// A buffer that shares the memory of a descriptor from outside: a dma-buf, or for the model any file that can be
    /// mapped.
    fn import(&mut self, fd: BorrowedFd<'_>) -> Result<Handle, Error> {
        let _ = fd;
        Err(Error::Share { device: self.info().to_string(), source: io::ErrorKind::Unsupported.into() })
    }
}

/// The default time limit of a run. It is far more than any network of the reference data takes.
pub const TIME_LIMIT: Duration = Duration::from_secs(600);

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<D: Device + ?Sized> Buffers for $type {
            fn bytes(&self, handle: Handle) -> &[u8] {
                (**self).bytes(handle)
            }
        }

        impl<D: Device + ?Sized> Device for $type {
            fn info(&self) -> DeviceInfo {
                (**self).info()
            }
            fn allocate(&mut self, size: u64) -> Result<Handle, Error> {
                (**self).allocate(size)
            }
            fn allocate_sram(&mut self, size: u64) -> Result<Option<Handle>, Error> {
                (**self).allocate_sram(size)
            }
            fn free(&mut self, handle: Handle) {
                (**self).free(handle);
            }
            fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
                (**self).bytes_mut(handle)
            }
            fn submit(
                &mut self,
                addresses: &[AddressEntry],
                timeout: Option<Duration>,
                observer: Option<Observer<'_>>,
            ) -> Result<TaskReport, Error> {
                (**self).submit(addresses, timeout, observer)
            }
            fn can_observe(&self) -> bool {
                (**self).can_observe()
            }
            fn time_limit(&self) -> Option<Duration> {
                (**self).time_limit()
            }
            fn keeps_graphs(&self) -> bool {
                (**self).keeps_graphs()
            }
            fn pages(&self, handle: Handle) -> Option<Arc<Pages>> {
                (**self).pages(handle)
            }
            fn has_queue(&self) -> bool {
                (**self).has_queue()
            }
            fn queue(
                &mut self,
                addresses: &[AddressEntry],
                timeout: Option<Duration>,
                after: Option<&Fence>,
            ) -> Result<Fence, Error> {
                (**self).queue(addresses, timeout, after)
            }
            fn export(&mut self, handle: Handle) -> Result<OwnedFd, Error> {
                (**self).export(handle)
            }
            fn import(&mut self, fd: BorrowedFd<'_>) -> Result<Handle, Error> {
                (**self).import(fd)
            }
        }
    )*};
}
forward!(Box<D>, &mut D);

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
    #[error("the task is refused: {0}")]
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

fn detail(failure: Option<&nvdla_engine::Failure>) -> String {
    failure.map(|failure| format!(" ({failure})")).unwrap_or_default()
}
