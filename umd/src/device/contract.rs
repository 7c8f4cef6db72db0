// SPDX-License-Identifier: MIT OR Apache-2.0

//! The trait of all devices.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use super::error::Error;
use super::fence::{Fence, Signal};
use super::pages::Pages;
use super::types::{AddressEntry, Buffers, DeviceInfo, Handle, Observer, TaskReport};
use crate::cancel::Cancel;

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

    /// From now on, tasks end with [`Error::Cancelled`] once `cancel` says so.
    ///
    /// The default ignores it: a task of such a device ends by itself or at its time limit.
    fn stop_on(&mut self, cancel: Option<Cancel>) {
        let _ = cancel;
    }

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
    /// `Shared`.
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
            fn stop_on(&mut self, cancel: Option<Cancel>) {
                (**self).stop_on(cancel);
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
