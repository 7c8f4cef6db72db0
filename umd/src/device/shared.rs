// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device for several users: networks, and contexts in several threads.
//!
//! [`Shared`] holds the device. Each user has a [`Client`] with its own buffers. These rules apply to shared memory:
//!
//! - A buffer belongs to one client, and only that client accesses its bytes. Constants are the exception: several
//!   clients read them, and no client writes them.
//! - A task accesses only the buffers of its address list, which belong to its client. While a submitted task is in
//!   flight, the client's owner does not access them. [`crate::session::Context`] enforces this.
//! - A submitted task keeps its buffers alive until it has ended, even if its client is dropped.
//!
//! A driver with a queue takes tasks at once. For any other device a thread runs the tasks one after another.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use tracing::Span;

use super::contract::Device;
use super::dma_buf;
use super::emulated::Owned;
use super::error::Error;
use super::fence::{lock, readable, Fence, Signal, Waited};
use super::pages::Pages;
use super::process::Owner;
use super::types::{AddressEntry, Buffers, DeviceInfo, Handle, Observer, TaskReport};
use crate::cancel::Cancel;

/// A device that any number of networks and contexts use, from any thread. Clones are the same device.
#[derive(Clone)]
pub struct Shared(Arc<Inner>);

/// The time between two attempts to lock the device.
const LOCK_INTERVAL: Duration = Duration::from_micros(200);

type Locked = Arc<Mutex<Box<dyn Device>>>;

struct Inner {
    device: Locked,
    info: DeviceInfo,
    can_observe: bool,
    time_limit: Option<Duration>,
    keeps_graphs: bool,
    has_queue: bool,
    worker: Mutex<Option<Sender<QueuedTask>>>,
    follower: Mutex<Option<Follower>>,
    /// The process that has the device.
    owner: Owner,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // A forked process does not close the device of its parent.
            std::mem::forget(Arc::clone(&self.device));
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.0.info).finish()
    }
}

impl Shared {
    /// Takes a device, to share it.
    ///
    /// ```
    /// use nvdla_runtime::device::{ModelDevice, Shared};
    /// use nvdla_uapi::config::NV_SMALL;
    ///
    /// let device = Shared::new(ModelDevice::new(&NV_SMALL));
    /// assert_eq!(device.info().to_string(), "the built-in model of nv_small");
    /// ```
    pub fn new(device: impl Device + 'static) -> Self {
        Self(Arc::new(Inner {
            info: device.info(),
            can_observe: device.can_observe(),
            time_limit: device.time_limit(),
            keeps_graphs: device.keeps_graphs(),
            has_queue: device.has_queue(),
            device: Arc::new(Mutex::new(Box::new(device))),
            worker: Mutex::new(None),
            follower: Mutex::new(None),
            owner: Owner::current(),
        }))
    }

    /// The description of the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// A user of the device, with no buffers yet.
    pub fn client(&self) -> Client {
        Client { shared: self.clone(), held: Arc::default(), cancel: None }
    }

    /// An error in a process that was forked from the one that has the device.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.0.owner.check()
    }

    /// Queues a task for the holder of these buffers.
    pub(crate) fn queue(
        &self,
        held: &Holding,
        addresses: Vec<AddressEntry>,
        (timeout, cancel): (Option<Duration>, Cancel),
        after: Option<&Fence>,
        span: &Span,
    ) -> Result<Fence, Error> {
        if self.0.has_queue {
            return lock(&self.0.device).queue(&addresses, timeout, after);
        }
        let signal = Signal::new().map_err(|source| Error::Fence { source })?;
        let (held, span) = (Arc::clone(held), span.clone());
        let task = QueuedTask { addresses, timeout, cancel, held, signal: Arc::clone(&signal), span };
        let mut worker = lock(&self.0.worker);
        let sender = match &*worker {
            Some(sender) => sender,
            None => worker.insert(start_worker(&self.0.device).map_err(|source| self.no_thread(source))?),
        };
        // The thread ends only when the sender is dropped.
        sender.send(task).map_err(|_| self.no_thread(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Fence::signal(signal))
    }

    /// Whether the driver has a queue, so that tasks that wait for one another can be queued at once.
    pub fn has_queue(&self) -> bool {
        self.0.has_queue
    }

    /// Makes a thread run the next step of `follow` each time its fence has signalled.
    pub(crate) fn follow(&self, follow: Box<dyn Follow>) -> Result<(), Error> {
        let mut follower = lock(&self.0.follower);
        let follower = match &mut *follower {
            Some(follower) => follower,
            None => follower.insert(Follower::start().map_err(|source| self.no_thread(source))?),
        };
        follower.send(follow).map_err(|source| self.no_thread(source))
    }

    fn no_thread(&self, source: io::Error) -> Error {
        Error::Thread { device: self.0.info.to_string(), source }
    }
}

/// Locks the device, unless a run of another context lasts until the caller's run is cancelled.
fn lock_until<'a>(device: &'a Locked, cancel: Option<&Cancel>) -> Result<MutexGuard<'a, Box<dyn Device>>, Error> {
    let Some(cancel) = cancel else { return Ok(lock(device)) };
    loop {
        match device.try_lock() {
            Ok(device) => return Ok(device),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if cancel.is_cancelled() => return Err(Error::Cancelled),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_INTERVAL),
        }
    }
}

/// A task for the thread that runs them.
struct QueuedTask {
    addresses: Vec<AddressEntry>,
    timeout: Option<Duration>,
    cancel: Cancel,
    held: Holding,
    signal: Arc<Signal<Result<TaskReport, Error>>>,
    /// The task's span.
    span: Span,
}

/// Runs a task on a device, and ends it if it is cancelled.
fn cancellable(
    device: &mut dyn Device,
    cancel: Option<Cancel>,
    addresses: &[AddressEntry],
    timeout: Option<Duration>,
    observer: Option<Observer<'_>>,
) -> Result<TaskReport, Error> {
    if cancel.as_ref().is_some_and(Cancel::is_cancelled) {
        return Err(Error::Cancelled);
    }
    device.stop_on(cancel);
    let result = device.submit(addresses, timeout, observer);
    device.stop_on(None);
    result
}

fn start_worker(device: &Locked) -> io::Result<Sender<QueuedTask>> {
    let (sender, receiver) = channel::<QueuedTask>();
    let device = Arc::clone(device);
    std::thread::Builder::new().name("nvdla tasks".into()).spawn(move || {
        for QueuedTask { addresses, timeout, cancel, held, signal, span } in receiver {
            let mut device = lock(&device);
            let result = span.in_scope(|| cancellable(&mut **device, Some(cancel), &addresses, timeout, None));
            drop((device, span));
            // Waiters may read the device's state as soon as the result is there.
            drop(held);
            signal.set(result);
        }
    })?;
    Ok(sender)
}

/// Steps of which each runs after the previous one's fence has signalled.
pub(crate) trait Follow: Send {
    /// The fence after which the next step runs.
    fn fence(&self) -> BorrowedFd<'_>;

    /// Runs the next step; returns `None` after the last one.
    fn advance(self: Box<Self>) -> Option<Box<dyn Follow>>;
}

/// The thread that follows fences.
struct Follower {
    sender: Option<Sender<Box<dyn Follow>>>,
    wake: Arc<EventFd>,
}

impl Follower {
    fn start() -> io::Result<Self> {
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let (sender, receiver) = channel();
        let woken = Arc::clone(&wake);
        std::thread::Builder::new().name("nvdla fences".into()).spawn(move || follow(&receiver, &woken))?;
        Ok(Self { sender: Some(sender), wake })
    }

    fn send(&self, follow: Box<dyn Follow>) -> io::Result<()> {
        let sender = self.sender.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        sender.send(follow).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        self.wake.write(1)?;
        Ok(())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.sender = None;
        // The thread ends when it has nothing left to follow.
        if let Err(error) = self.wake.write(1) {
            tracing::error!("a thread cannot be told to end: {error}");
        }
    }
}

fn follow(receiver: &Receiver<Box<dyn Follow>>, wake: &EventFd) {
    let mut all: Vec<Box<dyn Follow>> = Vec::new();
    let mut connected = true;
    while connected || !all.is_empty() {
        let fds: Vec<_> = std::iter::once(wake.as_fd()).chain(all.iter().map(|follow| follow.fence())).collect();
        let ready = match readable(&fds, None) {
            Ok(ready) => ready,
            Err(error) => {
                tracing::error!("cannot wait for fences: {error}");
                return;
            }
        };
        let mut ready = ready.into_iter();
        if ready.next() == Some(true) {
            // The counter is zero again after this; its value does not matter.
            let _ = wake.read();
        }
        all = all
            .into_iter()
            .filter_map(|follow| if ready.next() == Some(true) { follow.advance() } else { Some(follow) })
            .collect();
        loop {
            match receiver.try_recv() {
                // The first step may need no fence.
                Ok(follow) => all.extend(follow.advance()),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    connected = false;
                    break;
                }
            }
        }
    }
}

/// Frees a buffer when its last reference is dropped.
struct Freed {
    device: Locked,
    handle: Handle,
    process: Owner,
}

impl Drop for Freed {
    fn drop(&mut self) {
        // In a forked process a thread that does not exist there may hold the lock.
        if self.process.is_current() {
            lock(&self.device).free(self.handle);
        }
    }
}

/// A buffer of a client.
#[derive(Clone)]
pub(crate) struct Held {
    _freed: Arc<Freed>,
    pages: Arc<Pages>,
    /// The descriptor of the buffer, if it is shared with others.
    fd: Option<Arc<OwnedFd>>,
}

/// The buffers of a client.
pub(crate) type Holding = Arc<HashMap<Handle, Held>>;

/// A user of a shared device: a [`Device`] with its own buffers, which it can access while the device runs tasks of
/// others.
pub struct Client {
    shared: Shared,
    held: Holding,
    /// Ends the next run.
    cancel: Option<Cancel>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("shared", &self.shared)
            .field("buffers", &self.held.len())
            .finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn held(&self) -> &Holding {
        &self.held
    }

    /// Makes a buffer a constant. It is read-only from now on.
    pub(crate) fn seal(&mut self, handle: Handle) {
        if let Some(held) = self.held.get(&handle) {
            held.pages.seal();
        }
    }

    /// Allows reading the constants of another client too.
    pub(crate) fn read_constants(&mut self, of: &Client) {
        let constants = of.held.iter().filter(|(_, held)| held.pages.is_sealed());
        Arc::make_mut(&mut self.held).extend(constants.map(|(handle, held)| (*handle, held.clone())));
    }

    fn hold(&mut self, device: &mut dyn Device, handle: Handle, fd: Option<Arc<OwnedFd>>) -> Result<Handle, Error> {
        let Some(pages) = device.pages(handle) else {
            device.free(handle);
            return Err(Error::NotShared { device: self.shared.0.info.to_string() });
        };
        let freed = Freed { device: Arc::clone(&self.shared.0.device), handle, process: self.shared.0.owner };
        Arc::make_mut(&mut self.held).insert(handle, Held { _freed: Arc::new(freed), pages, fd });
        Ok(handle)
    }

    /// Called before and after the processor accesses buffers that are shared with others.
    pub(crate) fn access(&self, end: bool) -> Result<(), Error> {
        for fd in self.held.values().filter_map(|held| held.fd.as_ref()) {
            let result = dma_buf::access(fd.as_fd(), end);
            result.map_err(|source| Error::Share { device: self.shared.0.info.to_string(), source })?;
        }
        Ok(())
    }
}

impl Buffers for Client {
    fn bytes(&self, handle: Handle) -> &[u8] {
        let Some(held) = self.held.get(&handle) else { return &[] };
        // SAFETY: the buffer is this client's, and no task of it is in flight; or it holds constants.
        unsafe { held.pages.bytes() }.get(..held.pages.size()).unwrap_or_default()
    }
}

impl Device for Client {
    fn info(&self) -> DeviceInfo {
        self.shared.0.info.clone()
    }

    fn allocate(&mut self, size: u64) -> Result<Handle, Error> {
        self.shared.check_process()?;
        let device = Arc::clone(&self.shared.0.device);
        let mut device = lock(&device);
        let handle = device.allocate(size)?;
        self.hold(&mut **device, handle, None)
    }

    fn allocate_sram(&mut self, size: u64) -> Result<Option<Handle>, Error> {
        self.shared.check_process()?;
        let device = Arc::clone(&self.shared.0.device);
        let mut device = lock(&device);
        device.allocate_sram(size)?.map(|handle| self.hold(&mut **device, handle, None)).transpose()
    }

    fn free(&mut self, handle: Handle) {
        // The buffers of a task in flight are freed when the task has ended.
        Arc::make_mut(&mut self.held).remove(&handle);
    }

    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        let Some(held) = self.held.get(&handle) else { return &mut [] };
        // SAFETY: as in `bytes`, and the exclusive reference keeps every other slice of this client away. Constants are not
        // returned.
        unsafe { held.pages.bytes_mut() }.get_mut(..held.pages.size()).unwrap_or_default()
    }

    fn submit(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        observer: Option<Observer<'_>>,
    ) -> Result<TaskReport, Error> {
        self.shared.check_process()?;
        self.check(addresses)?;
        self.access(true)?;
        let result = if self.shared.0.has_queue {
            let fence = lock(&self.shared.0.device).queue(addresses, timeout, None);
            fence.and_then(|fence| match fence.wait(None) {
                Waited::Ended(result) => result,
                Waited::NotYet => Err(Error::TimedOut { timeout, device: self.shared.0.info.to_string() }),
            })
        } else {
            let mut device = lock_until(&self.shared.0.device, self.cancel.as_ref())?;
            cancellable(&mut **device, self.cancel.clone(), addresses, timeout, observer)
        };
        self.access(false)?;
        result
    }

    fn stop_on(&mut self, cancel: Option<Cancel>) {
        self.cancel = cancel;
    }

    fn can_observe(&self) -> bool {
        self.shared.0.can_observe
    }

    fn time_limit(&self) -> Option<Duration> {
        self.shared.0.time_limit
    }

    fn keeps_graphs(&self) -> bool {
        self.shared.0.keeps_graphs
    }

    fn export(&mut self, handle: Handle) -> Result<OwnedFd, Error> {
        self.shared.check_process()?;
        let failed = |source| Error::Share { device: self.shared.0.info.to_string(), source };
        let Some(held) = self.held.get(&handle).filter(|held| !held.pages.is_sealed()) else {
            return Err(failed(io::ErrorKind::NotFound.into()));
        };
        let mut held = held.clone();
        let device = Arc::clone(&self.shared.0.device);
        let mut device = lock(&device);
        let fd = device.export(handle)?;
        if held.fd.is_none() {
            let own = fd.try_clone().map_err(failed)?;
            dma_buf::access(own.as_fd(), false).map_err(failed)?;
            held.fd = Some(Arc::new(own));
        }
        // An export may replace the buffer's pages.
        held.pages = device.pages(handle).unwrap_or(held.pages);
        Arc::make_mut(&mut self.held).insert(handle, held);
        Ok(fd)
    }

    fn import(&mut self, fd: BorrowedFd<'_>) -> Result<Handle, Error> {
        self.shared.check_process()?;
        let failed = |source| Error::Share { device: self.shared.0.info.to_string(), source };
        let own = fd.try_clone_to_owned().map_err(failed)?;
        dma_buf::access(own.as_fd(), false).map_err(failed)?;
        let device = Arc::clone(&self.shared.0.device);
        let mut device = lock(&device);
        let handle = device.import(fd)?;
        self.hold(&mut **device, handle, Some(Arc::new(own)))
    }
}

impl Client {
    /// Checks that each address lies in a buffer of this client.
    pub(crate) fn check(&self, addresses: &[AddressEntry]) -> Result<(), Error> {
        match addresses.iter().position(|entry| !self.held.contains_key(&entry.handle)) {
            Some(position) => Err(Error::Address { position }),
            None => Ok(()),
        }
    }
}

impl Owned for Holding {
    fn bytes(&self, handle: Handle) -> &[u8] {
        let Some(held) = self.get(&handle) else { return &[] };
        // SAFETY: the run that the emulated task belongs to has exclusive use of these buffers; or they hold constants.
        unsafe { held.pages.bytes() }.get(..held.pages.size()).unwrap_or_default()
    }

    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        let Some(held) = self.get(&handle) else { return &mut [] };
        // SAFETY: as above, and only the emulated task uses this memory.
        unsafe { held.pages.bytes_mut() }.get_mut(..held.pages.size()).unwrap_or_default()
    }
}
