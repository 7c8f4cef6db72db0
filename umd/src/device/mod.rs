// SPDX-License-Identifier: MIT OR Apache-2.0

//! Devices, which run tasks: NVDLA behind its kernel driver, NVDLA driven by this process, and the built-in model. They
//! share one trait.
//!
//! A device has buffers, which the application uses as bytes, and runs one task at a time. A task is a list of addresses: places
//! in buffers. The first address is that of the network descriptor. A device does not interpret tasks further.

mod contract;
#[cfg(feature = "direct")]
#[allow(clippy::single_range_in_vec_init)] // a list of one range of addresses
mod direct;
mod dma_buf;
#[cfg(any(feature = "direct", feature = "model"))]
mod drive;
mod emulated;
mod error;
mod fence;
mod ioctl;
#[cfg(feature = "kernel")]
mod kernel;
#[cfg(feature = "model")]
mod model;
mod pages;
mod process;
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
mod types;
#[cfg(feature = "model")]
mod view;

pub use nvdla_estimate::Measured;

pub use crate::operations::{recognise, Recognised};
pub use contract::{Device, TIME_LIMIT};
#[cfg(feature = "direct")]
pub use direct::{
    DirectDevice, DirectSelection, DirectSelectionError, InterruptCheck, OpenError, ResetCheck, WrongValue,
};
pub(crate) use emulated::EmulatedMemory;
#[cfg(feature = "model")]
pub(crate) use error::hint;
pub use error::Error;
pub use fence::Fence;
pub(crate) use fence::{lock, Signal, Waited};
#[cfg(feature = "kernel")]
pub use kernel::{discover, KernelDevice};
#[cfg(feature = "model")]
pub use model::ModelDevice;
pub use pages::Pages;
pub use process::may_compute;
#[cfg(all(feature = "cli", feature = "model"))]
pub use record::Recording;
#[cfg(all(feature = "cli", feature = "model"))]
pub use select::open_recorded;
pub use select::{open, Opened, Selection, SelectionError};
pub use shared::{Client, Shared};
pub(crate) use shared::{Follow, Holding};
pub use types::{AddressEntry, Buffers, Completion, DeviceInfo, Handle, Kind, Observer, TaskReport};
