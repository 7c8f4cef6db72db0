// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device that measures its own calls, for `nvdla bench`.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nvdla_runtime::device::{
    AddressEntry, Buffers, Device, DeviceInfo, Error, Fence, Handle, Observer, Pages, TaskReport,
};

/// Nanoseconds spent in the device's calls that run or queue tasks.
pub(crate) type Spent = Arc<AtomicU64>;

/// A device and the time that its calls took.
pub(crate) struct Timed {
    device: Box<dyn Device>,
    spent: Spent,
}

impl Timed {
    pub(crate) fn new(device: Box<dyn Device>) -> (Self, Spent) {
        let spent = Spent::default();
        (Self { device, spent: Arc::clone(&spent) }, spent)
    }

    fn time<T>(&mut self, call: impl FnOnce(&mut dyn Device) -> T) -> T {
        let since = Instant::now();
        let result = call(&mut *self.device);
        self.spent.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    }
}

impl Buffers for Timed {
    fn bytes(&self, handle: Handle) -> &[u8] {
        self.device.bytes(handle)
    }
}

impl Device for Timed {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn allocate(&mut self, size: u64) -> Result<Handle, Error> {
        self.device.allocate(size)
    }

    fn allocate_sram(&mut self, size: u64) -> Result<Option<Handle>, Error> {
        self.device.allocate_sram(size)
    }

    fn free(&mut self, handle: Handle) {
        self.device.free(handle);
    }

    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        self.device.bytes_mut(handle)
    }

    fn submit(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        observer: Option<Observer<'_>>,
    ) -> Result<TaskReport, Error> {
        self.time(|device| device.submit(addresses, timeout, observer))
    }

    fn can_observe(&self) -> bool {
        self.device.can_observe()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.device.time_limit()
    }

    fn keeps_graphs(&self) -> bool {
        self.device.keeps_graphs()
    }

    fn pages(&self, handle: Handle) -> Option<Arc<Pages>> {
        self.device.pages(handle)
    }

    fn has_queue(&self) -> bool {
        self.device.has_queue()
    }

    fn queue(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        after: Option<&Fence>,
    ) -> Result<Fence, Error> {
        self.time(|device| device.queue(addresses, timeout, after))
    }

    fn export(&mut self, handle: Handle) -> Result<OwnedFd, Error> {
        self.device.export(handle)
    }

    fn import(&mut self, fd: BorrowedFd<'_>) -> Result<Handle, Error> {
        self.device.import(fd)
    }
}
