// SPDX-License-Identifier: MIT OR Apache-2.0

//! NVDLA without its kernel driver: the engine runs in this process and drives the registers itself.
//!
//! [`DirectDevice`] is the same for all kinds of access to a device. They differ in the [`Transport`]: how registers are read and
//! written, how an interrupt is waited for, and how the device accesses buffers. There are three:
//!
//! - [`vfio`]: PCI and platform devices behind an IOMMU, through the kernel's VFIO. The device can access only this process's
//!   buffers.
//! - [`uio`]: devices without an IOMMU, through the kernel's UIO and reserved memory.
//! - [`vfio_user`]: a simulator in another process, through a UNIX socket.
//!
//! `docs/direct.md` says which of them suits which board.

mod checks;
pub(super) mod error;
mod messages;
pub(super) mod selection;
mod transport;
mod uio;
mod vfio;
mod vfio_user;
mod window;

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nvdla_engine::{identify, Engine, Failure, Hardware, Progress, Slot, SubmitError, Task};
use nvdla_estimate::Measured;
use nvdla_uapi::config::Config;

use super::contract::{Device, TIME_LIMIT};
use super::drive::{self, Clock, Done, Driven};
use super::error::Error;
use super::pages::Pages;
use super::process::Owner;
use super::store::{reachable, Buffer, Store};
use super::tasks::{Tasks, Ticket};
use super::types::{AddressEntry, Buffers, DeviceInfo, Handle, Kind, Observer, TaskReport};
use crate::cancel::Cancel;

pub use checks::{InterruptCheck, ResetCheck, WrongValue};
pub use error::OpenError;
pub use selection::{DirectSelection, DirectSelectionError};
use transport::{OpenedTransport, Transport};

/// How long to wait for an interrupt before the device's status is read.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(1);
/// The same after an interrupt was lost, because the interrupt line is then not reliable.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The interval at which a device that is not ready for an operation is polled.
const RETRY_INTERVAL: Duration = Duration::from_micros(200);
/// The longest wait between two looks at whether the run was cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(20);
/// The default time limit of a task on hardware, as in the kernel module.
const HARDWARE_LIMIT: Duration = Duration::from_secs(10);
/// How long a device without reset has to complete the running operations.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The registers, as the engine drives them.
struct Registers<'a>(&'a mut dyn Transport);

impl Hardware for Registers<'_> {
    fn read(&mut self, offset: u32) -> u32 {
        self.0.read(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.0.write(offset, value);
    }
}

/// An NVDLA that this process drives by itself.
pub struct DirectDevice {
    config: &'static Config,
    selection: DirectSelection,
    transport: Box<dyn Transport>,
    engine: Box<Engine<Vec<Slot>>>,
    store: Store,
    tasks: Tasks,
    /// The version of each buffer that the device's memory holds, if buffers are copied.
    copied: HashMap<Handle, u64>,
    /// The bytes that operations of the running task write, by number and region, if buffers are copied.
    writes: HashMap<(u32, u32), Vec<Write>>,
    /// How long one wait for an interrupt lasts.
    interrupt_timeout: Duration,
    simulated: bool,
    /// Whether an interrupt did not arrive.
    polls: Arc<AtomicBool>,
    /// Why the device accepts no more tasks.
    broken: Option<String>,
    /// The process that opened it.
    owner: Owner,
    /// Ends the running task.
    cancel: Option<Cancel>,
    /// How long the interrupt has been waited for.
    waited: Duration,
}

impl std::fmt::Debug for DirectDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectDevice").field("selection", &self.selection).finish_non_exhaustive()
    }
}

impl DirectDevice {
    /// Opens a device, resets it and identifies its configuration.
    ///
    /// # Errors
    ///
    /// The step that failed: the device does not exist, belongs to a driver or to another process, may not be used by this user,
    /// or is not an NVDLA.
    pub fn open(selection: &DirectSelection) -> Result<Self, OpenError> {
        let opened = match selection {
            DirectSelection::VfioUser(socket) => vfio_user::open(selection, socket),
            DirectSelection::Vfio(name) => vfio::open(selection, name),
            DirectSelection::Uio { node, memory } => uio::open(selection, node, memory.clone()),
        }?;
        Self::over(selection, opened)
    }

    fn over(selection: &DirectSelection, opened: OpenedTransport) -> Result<Self, OpenError> {
        let OpenedTransport { mut transport, ranges, files, simulated } = opened;
        let hardware = &mut Registers(&mut *transport);
        let failed = |step: &str| OpenError::new(selection, step);
        // Another process may have left the device running.
        let reset = hardware.0.reset().map_err(|error| failed("the device cannot be reset").because(error))?;
        let Some(identity) = identify(hardware) else {
            return Err(match hardware.0.failure() {
                Some(why) => failed("no NVDLA answers").because(why),
                None => failed(&format!("no NVDLA answers: {}", checks::whereabouts(hardware.0))),
            });
        };
        let config = identity.config;
        let mut engine = Box::new(Engine::new(config));
        if !settle(&engine, hardware) {
            let how = if reset { "after its reset" } else { "and has no reset" };
            return Err(failed(&format!("the device answers as {}, and is busy {how}", config.name)));
        }
        engine.adopt(hardware);
        let reach = reachable(config);
        let ranges: Vec<_> = ranges
            .into_iter()
            .map(|range| range.start..range.end.min(reach.end))
            .filter(|range| range.start < range.end)
            .collect();
        if ranges.is_empty() {
            let step = format!("{} reaches addresses below {:#x}, and the memory lies above", config.name, reach.end);
            return Err(failed(&step));
        }
        tracing::info!("{selection}: {}, hardware version {:#x}", config.name, identity.version);
        Ok(Self {
            config,
            selection: selection.clone(),
            engine,
            store: Store::within(ranges, window::page_size(), files),
            transport,
            tasks: Tasks::default(),
            copied: HashMap::new(),
            writes: HashMap::new(),
            interrupt_timeout: INTERRUPT_TIMEOUT,
            simulated,
            polls: Arc::default(),
            broken: None,
            owner: Owner::current(),
            cancel: None,
            waited: Duration::ZERO,
        })
    }

    /// Becomes true when an operation was seen to end without an interrupt. From then on the device is polled.
    pub fn polls(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.polls)
    }

    /// The device's memory, if it is a part of the machine's that was reserved for it.
    pub fn reserved(&self) -> Option<Range<u64>> {
        self.transport.copies().then(|| self.store.range()).flatten()
    }

    /// While it is true, buffers are taken from the end of the device's memory.
    pub fn top_down(&self) -> Arc<AtomicBool> {
        self.store.top_down()
    }

    /// Writes to registers and reads them. Returns the first that holds another value.
    ///
    /// # Errors
    ///
    /// In a process that was forked from that of the device.
    pub fn check_registers(&mut self) -> io::Result<Option<WrongValue>> {
        self.owner.check().map_err(io::Error::other)?;
        let found = checks::registers(&mut *self.transport, self.config);
        self.engine.adopt(&mut Registers(&mut *self.transport));
        Ok(found)
    }

    /// Sets bits of the interrupt's status, and looks whether an interrupt arrives for each.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to wait for the interrupt or to unmask it, or the process was forked from that of the device.
    pub fn check_interrupt(&mut self) -> io::Result<InterruptCheck> {
        self.owner.check().map_err(io::Error::other)?;
        checks::interrupt(&mut *self.transport, self.config)
    }

    /// Writes to registers, resets the device, and looks whether they hold what was written.
    ///
    /// # Errors
    ///
    /// When the kernel refuses the reset, or the process was forked from that of the device.
    pub fn check_reset(&mut self) -> io::Result<ResetCheck> {
        self.owner.check().map_err(io::Error::other)?;
        let found = checks::reset(&mut *self.transport, self.config);
        if !self.adopt() {
            self.broken = Some("it is busy after its reset".into());
        }
        found
    }

    /// Brings the registers to their values after reset, and forgets the task. False if the device is not idle in time.
    fn adopt(&mut self) -> bool {
        let hardware = &mut Registers(&mut *self.transport);
        let ready = settle(&self.engine, hardware);
        if ready {
            self.engine.reset();
            self.engine.adopt(hardware);
        }
        ready
    }

    /// Makes the device usable again after a task that was ended early.
    fn recover(&mut self) {
        let reset = self.transport.reset();
        if self.adopt() {
            return;
        }
        let why = match (self.transport.failure(), reset) {
            (Some(why), _) => why,
            (None, Err(error)) => format!("its reset failed: {error}"),
            (None, Ok(true)) => "it is busy after its reset".into(),
            (None, Ok(false)) => "it does not end its operation and has no reset".into(),
        };
        self.broken = Some(why);
    }

    /// Ends the running task after a failure.
    fn end(&mut self) -> Option<Box<Failure>> {
        let failure = self.engine.abort(&mut Registers(&mut *self.transport)).map(|(_, failure)| Box::new(failure));
        self.recover();
        failure
    }

    fn lost(&self, why: String, failure: Option<Box<Failure>>) -> Error {
        Error::Lost { device: self.selection.to_string(), why, failure }
    }

    /// Copies the task's buffers that have changed to the device.
    fn copy_to_device(&mut self, addresses: &[AddressEntry]) {
        for entry in addresses {
            let Some(buffer) = self.store.get(entry.handle) else { continue };
            if self.copied.get(&entry.handle) != Some(&buffer.version()) {
                self.transport.copy_to(buffer.address(), buffer.pages());
                self.copied.insert(entry.handle, buffer.version());
            }
        }
    }

    /// Copies the bytes that an operation of the task has written from the device.
    fn copy_from_device(&mut self, writes: &[Write]) {
        for Write { handle, range } in writes {
            let Some(address) = self.store.get(*handle).map(Buffer::address) else { continue };
            if let Some(bytes) = self.store.pages_mut(*handle).and_then(|pages| pages.get_mut(range.clone())) {
                self.transport.copy_from(address + range.start as u64, bytes);
            }
            // Both copies are equal now.
            if let Some(buffer) = self.store.get(*handle) {
                self.copied.insert(*handle, buffer.version());
            }
        }
    }

    /// The ranges that a task's operations write, with each operation's number and region.
    fn writes(&self, task: &Task<Vec<Slot>>, addresses: &[AddressEntry]) -> HashMap<(u32, u32), Vec<Write>> {
        let mut writes: HashMap<_, Vec<Write>> = HashMap::new();
        for operation in task.iter() {
            let of = writes.entry((operation.index(), operation.roi())).or_default();
            operation.accesses(self.config, |access| {
                let inside = |entry: &AddressEntry| {
                    let buffer = self.store.get(entry.handle)?;
                    let start = access.start.checked_sub(buffer.address())?;
                    let end = access.end.checked_sub(buffer.address())?;
                    let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
                    (range.end <= buffer.pages().len()).then_some(Write { handle: entry.handle, range })
                };
                if access.write {
                    of.extend(addresses.iter().find_map(inside));
                }
            });
        }
        writes
    }
}

/// A range of a buffer that an operation writes.
struct Write {
    handle: Handle,
    range: Range<usize>,
}

/// Waits until the device is idle; false if it is not idle in time.
fn settle(engine: &Engine<Vec<Slot>>, hardware: &mut Registers<'_>) -> bool {
    let start = Instant::now();
    while !engine.is_idle(hardware) {
        if start.elapsed() > SETTLE_TIMEOUT || hardware.0.failure().is_some() {
            return false;
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
    true
}

impl Buffers for DirectDevice {
    fn bytes(&self, handle: Handle) -> &[u8] {
        self.store.bytes(handle)
    }
}

impl Device for DirectDevice {
    fn info(&self) -> DeviceInfo {
        let path = PathBuf::from(self.selection.to_string());
        DeviceInfo { kind: Kind::Hardware, config: Some(self.config), path: Some(path) }
    }

    fn allocate(&mut self, size: u64) -> Result<Handle, Error> {
        let failed = |source| Error::Allocate { size, device: self.selection.to_string(), source };
        let handle = self.store.allocate(size).map_err(failed)?;
        if let Some(buffer) = self.store.get(handle) {
            if let Err(error) = self.transport.map(buffer) {
                self.store.free(handle);
                return Err(failed(error));
            }
        }
        Ok(handle)
    }

    fn free(&mut self, handle: Handle) {
        let Some(buffer) = self.store.take(handle) else { return };
        self.copied.remove(&handle);
        if let Err(error) = self.transport.unmap(&buffer) {
            // The device may still access the buffer, so its pages must not be used again.
            tracing::error!("{}: {} bytes stay mapped: {error}", self.selection, buffer.size());
            std::mem::forget(buffer);
        }
    }

    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        let size = self.store.get(handle).map_or(0, Buffer::size);
        self.store.pages_mut(handle).and_then(|pages| pages.get_mut(..size as usize)).unwrap_or_default()
    }

    fn pages(&self, handle: Handle) -> Option<Arc<Pages>> {
        self.store.share(handle)
    }

    fn stop_on(&mut self, cancel: Option<Cancel>) {
        self.cancel = cancel;
    }

    fn can_observe(&self) -> bool {
        true
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(if self.simulated { TIME_LIMIT } else { HARDWARE_LIMIT })
    }

    fn submit(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        observer: Option<Observer<'_>>,
    ) -> Result<TaskReport, Error> {
        let limit = timeout.or(self.time_limit()).unwrap_or(TIME_LIMIT);
        drive::run(self, addresses, limit, observer)
    }
}

impl Driven for DirectDevice {
    fn config(&self) -> &'static Config {
        self.config
    }

    fn name(&self) -> String {
        self.selection.to_string()
    }

    fn parts(&mut self) -> (&mut Store, &mut Tasks) {
        (&mut self.store, &mut self.tasks)
    }

    fn prepare(&mut self, _: &Ticket, task: &Task<Vec<Slot>>, addresses: &[AddressEntry]) -> Result<(), Error> {
        self.owner.check()?;
        if let Some(why) = &self.broken {
            return Err(self.lost(why.clone(), None));
        }
        self.waited = Duration::ZERO;
        self.writes.clear();
        if self.transport.copies() {
            self.writes = self.writes(task, addresses);
            self.copy_to_device(addresses);
        }
        Ok(())
    }

    fn start(&mut self, task: Task<Vec<Slot>>, now: u64, deadline: u64) -> Result<(), SubmitError> {
        let hardware = &mut Registers(&mut *self.transport);
        self.engine.submit(hardware, task, now, deadline).map_err(|submission| submission.error)
    }

    fn process(&mut self, now: u64) -> Progress<Vec<Slot>> {
        self.engine.process_events(&mut Registers(&mut *self.transport), now)
    }

    fn completed(&mut self, done: &Done, _: &[AddressEntry]) -> Option<Measured> {
        if let Some(writes) = self.writes.remove(&(done.operation, done.roi)) {
            self.copy_from_device(&writes);
        }
        None
    }

    fn advance(&mut self, _: &Ticket, clock: &Clock, now: u64, poll: bool, _: bool) -> Result<(), Error> {
        if let Some(found) = self.engine.check_deadline(&mut Registers(&mut *self.transport), now) {
            let gone = self.engine.is_gone();
            let why = self.transport.failure();
            self.end();
            let failure = Box::new(found);
            return Err(match (why, gone) {
                (Some(why), _) => self.lost(why, Some(failure)),
                (None, true) => self.lost("its registers read as all ones".into(), Some(failure)),
                (None, false) => Error::Deadline { timeout: clock.limit, failure },
            });
        }
        let mut longest = self.interrupt_timeout;
        if let Some(cancel) = &self.cancel {
            if cancel.is_cancelled() {
                self.end();
                return Err(Error::Cancelled);
            }
            longest = longest.min(CANCEL_INTERVAL);
        }
        let left = Duration::from_nanos(clock.deadline().saturating_sub(clock.now()));
        let nap = left.min(if poll { RETRY_INTERVAL } else { longest });
        let came = match self.transport.wait(nap) {
            Ok(came) => came,
            Err(error) => {
                let failure = self.end();
                return Err(self.lost(format!("waiting for its interrupt failed: {error}"), failure));
            }
        };
        self.waited = if came { Duration::ZERO } else { self.waited + nap };
        if !came && (poll || self.waited < left.min(self.interrupt_timeout)) {
            return Ok(());
        }
        self.waited = Duration::ZERO;
        let taken = self.engine.interrupt(&mut Registers(&mut *self.transport));
        if taken && !came && !self.engine.is_gone() {
            if self.interrupt_timeout != POLL_INTERVAL {
                tracing::warn!(
                    "{}: an interrupt did not arrive; from now on the device is polled every {POLL_INTERVAL:?}",
                    self.selection
                );
            }
            self.interrupt_timeout = POLL_INTERVAL;
            self.polls.store(true, Ordering::Relaxed);
        }
        if let Err(error) = self.transport.unmask() {
            let failure = self.end();
            return Err(self.lost(format!("its interrupt cannot be unmasked: {error}"), failure));
        }
        Ok(())
    }
}

impl Drop for DirectDevice {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // The device works for the process that has forked this one.
            return;
        }
        if self.engine.is_busy() || self.broken.is_some() {
            // The result of this task was not awaited. The device must not access buffers after they are freed.
            if let Err(error) = self.transport.reset() {
                tracing::error!("{}: the device may still be running: {error}", self.selection);
            }
        }
        for handle in self.store.handles() {
            self.free(handle);
        }
    }
}

#[cfg(test)]
mod tests;
