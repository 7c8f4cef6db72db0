// SPDX-License-Identifier: MIT OR Apache-2.0

//! A simulated device, driven by [`nvdla_engine`] in this process: the built-in model, or a simulator of the RTL.
//!
//! The scheduler is the one of the kernel module. The simulation answers register accesses like the hardware. A task
//! can access only the buffers of its address list, each through the memory interface behind which it lies; any other access is
//! a fault.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use nvdla_engine::{Engine, Failure, Hardware, Progress, Slot, SubmitError, Task};
use nvdla_estimate::Measured;
use nvdla_model::threads::{inside::inside_pool, inside::Lease, keep_awake::Awake};
use nvdla_model::{device::Model, limit::Limit, memory::Stop, simulation::Simulation, Isa};
use nvdla_rtl::Simulator;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::RamType;

use super::contract::{Device, TIME_LIMIT};
use super::drive::{self, Clock, Done, Driven};
use super::error::Error;
use super::pages::Pages;
use super::process::{may_compute, same_process};
#[cfg(feature = "cli")]
use super::record::Recording;
use super::store::{Buffer, Store};
use super::tasks::{Tasks, Ticket};
use super::types::{AddressEntry, Buffers, DeviceInfo, Handle, Kind, Observer, TaskReport};
use super::view::{Reach, TaskView};
use crate::cancel::Cancel;

/// The interval at which a device that does not answer is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The built-in model of a configuration, or a simulator of the RTL.
pub struct ModelDevice {
    config: &'static Config,
    info: DeviceInfo,
    model: Box<dyn Simulation>,
    engine: Engine<Vec<Slot>>,
    store: Store,
    tasks: Tasks,
    mute: bool,
    /// Whether the model has worked or raised an interrupt since the engine last processed its events.
    active: bool,
    /// Ends the running task.
    cancel: Option<Cancel>,
    /// The threads that share its operations, since the first task.
    lease: Option<Lease>,
    /// Whether the running task has a deadline of the caller's.
    timed: bool,
    /// The end of the running task, once it is known.
    limit: Option<Limit>,
    #[cfg(feature = "cli")]
    recording: Option<Recording>,
}

impl std::fmt::Debug for ModelDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelDevice").field("config", &self.config.name).finish_non_exhaustive()
    }
}

impl ModelDevice {
    /// Makes the model of that configuration.
    ///
    /// It uses the fastest vector instruction set of this machine, or the one that the environment variable `NVDLA_ISA` names. If
    /// this machine does not have that one, every operation that needs vector code fails, and its error lists the instruction
    /// sets that the machine has.
    ///
    /// ```
    /// use nvdla_runtime::device::{Device, ModelDevice};
    /// use nvdla_uapi::config::NV_SMALL;
    ///
    /// let device = ModelDevice::new(&NV_SMALL);
    /// assert_eq!(device.info().to_string(), "the built-in model of nv_small");
    /// ```
    pub fn new(config: &'static Config) -> Self {
        if let Ok(isa) = Isa::in_use() {
            tracing::info!("the model uses the instruction set {}", isa.name());
        }
        let info = DeviceInfo { kind: Kind::Model, config: Some(config), path: None };
        Self::over(Box::new(Model::new(config)), info)
    }

    /// The RTL of a program that `cargo xtask rtl` has built.
    pub fn rtl(simulator: Simulator) -> Self {
        let path = Some(simulator.program().to_owned());
        let info = DeviceInfo { kind: Kind::Rtl, config: Some(simulator.config()), path };
        Self::over(Box::new(simulator), info)
    }

    fn over(model: Box<dyn Simulation>, info: DeviceInfo) -> Self {
        let config = model.config();
        Self {
            config,
            info,
            engine: Engine::new(config),
            store: Store::new(config, model.shares_memory()),
            model,
            tasks: Tasks::default(),
            mute: false,
            active: false,
            cancel: None,
            lease: None,
            timed: false,
            limit: None,
            #[cfg(feature = "cli")]
            recording: None,
        }
    }

    /// Records everything from now on. The device must not have run a task before, because a trace begins after reset.
    #[cfg(feature = "cli")]
    pub fn record(&mut self, recording: &Recording) {
        self.recording = Some(recording.clone());
    }

    /// The device's register window, for the engine.
    fn window(&mut self) -> (Window<'_>, &mut Engine<Vec<Slot>>) {
        let window = Window {
            model: &mut *self.model,
            #[cfg(feature = "cli")]
            recording: self.recording.as_ref(),
        };
        (window, &mut self.engine)
    }

    /// Makes the device stop answering, for tests: it accepts operations and never completes them, as hardware that hangs.
    pub fn set_mute(&mut self, mute: bool) {
        self.mute = mute;
    }

    /// Maps a new buffer in a simulator. If this fails, the buffer is freed.
    fn map(&mut self, handle: Handle) -> io::Result<Handle> {
        if let Some((buffer, file)) = self.store.file(handle).filter(|_| self.model.shares_memory()) {
            let interfaces = match buffer.memory() {
                RamType::Mcif => 0b01,
                RamType::Cvif => 0b10,
            };
            let shared = self.model.map(buffer.address(), buffer.pages().len() as u64, file, 0, interfaces, true);
            if let Err(error) = shared {
                self.store.free(handle);
                return Err(error);
            }
        }
        Ok(handle)
    }

    /// Ends the running task. Returns what was running.
    fn end(&mut self) -> Option<Box<Failure>> {
        let (mut window, engine) = self.window();
        let failure = engine.abort(&mut window).map(|(_, failure)| Box::new(failure));
        self.model.reset();
        self.engine.reset();
        failure
    }
}

/// The device's register window.
struct Window<'a> {
    model: &'a mut dyn Simulation,
    #[cfg(feature = "cli")]
    recording: Option<&'a Recording>,
}

impl Hardware for Window<'_> {
    fn read(&mut self, offset: u32) -> u32 {
        let value = self.model.read(offset);
        #[cfg(feature = "cli")]
        if let Some(recording) = self.recording {
            recording.read(self.model.config(), offset, value);
        }
        value
    }

    fn write(&mut self, offset: u32, value: u32) {
        #[cfg(feature = "cli")]
        if let Some(recording) = self.recording {
            recording.write(self.model.config(), offset, value);
        }
        self.model.write(offset, value);
    }
}

impl Buffers for ModelDevice {
    fn bytes(&self, handle: Handle) -> &[u8] {
        self.store.bytes(handle)
    }
}

impl Device for ModelDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn allocate(&mut self, size: u64) -> Result<Handle, Error> {
        let result = self.store.allocate(size).and_then(|handle| self.map(handle));
        result.map_err(|source| Error::Allocate { size, device: self.info.to_string(), source })
    }

    /// The SRAM has the size of all buffers that are made in it.
    fn allocate_sram(&mut self, size: u64) -> Result<Option<Handle>, Error> {
        if !self.config.secondary_memif {
            return Ok(None);
        }
        let result = self.store.allocate_in(RamType::Cvif, size).and_then(|handle| self.map(handle));
        result.map(Some).map_err(|source| Error::Allocate { size, device: self.info.to_string(), source })
    }

    fn pages(&self, handle: Handle) -> Option<Arc<Pages>> {
        self.store.share(handle)
    }

    fn export(&mut self, handle: Handle) -> Result<OwnedFd, Error> {
        let result = self.store.export(handle);
        result.map_err(|source| Error::Share { device: self.info.to_string(), source })
    }

    fn import(&mut self, fd: BorrowedFd<'_>) -> Result<Handle, Error> {
        let result = self.store.import(fd).and_then(|handle| self.map(handle));
        result.map_err(|source| Error::Share { device: self.info.to_string(), source })
    }

    fn free(&mut self, handle: Handle) {
        if let Some((buffer, _)) = self.store.file(handle).filter(|_| self.model.shares_memory()) {
            if let Err(error) = self.model.unmap(buffer.address(), buffer.pages().len() as u64) {
                tracing::error!("a buffer stays mapped: {error}");
            }
        }
        self.store.free(handle);
    }

    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        let size = self.store.get(handle).map_or(0, Buffer::size);
        self.store.pages_mut(handle).and_then(|pages| pages.get_mut(..size as usize)).unwrap_or_default()
    }

    fn stop_on(&mut self, cancel: Option<Cancel>) {
        self.cancel = cancel;
    }

    fn can_observe(&self) -> bool {
        true
    }

    fn submit(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        observer: Option<Observer<'_>>,
    ) -> Result<TaskReport, Error> {
        same_process()?;
        let limit = timeout.unwrap_or(TIME_LIMIT);
        self.timed = timeout.is_some();
        // An observer need not be able to run on another thread.
        if self.info.kind == Kind::Model && observer.is_none() {
            let no_thread = |source| Error::Thread { device: "the model".into(), source };
            let lease = match &self.lease {
                Some(lease) => lease.clone(),
                None => self.lease.insert(Lease::new().map_err(no_thread)?).clone(),
            };
            return inside_pool(&lease, || {
                let _awake = Awake::new();
                drive::run(self, addresses, limit, None)
            })
            .map_err(no_thread)?;
        }
        may_compute()?;
        let _awake = (self.info.kind == Kind::Model).then(Awake::new);
        drive::run(self, addresses, limit, observer)
    }
}

impl Driven for ModelDevice {
    fn config(&self) -> &'static Config {
        self.config
    }

    fn name(&self) -> String {
        self.info.to_string()
    }

    fn parts(&mut self) -> (&mut Store, &mut Tasks) {
        (&mut self.store, &mut self.tasks)
    }

    fn prepare(&mut self, ticket: &Ticket, task: &Task<Vec<Slot>>, _: &[AddressEntry]) -> Result<(), Error> {
        if self.model.shares_memory() {
            let ranges: Vec<_> = ticket.reach.iter().map(Reach::range).collect();
            if let Err(error) = self.model.allow(Some(&ranges)) {
                return Err(Error::Stopped { stop: Stop::Simulator { what: error.to_string() }, failure: None });
            }
        }
        #[cfg(feature = "cli")]
        if let Some(recording) = &self.recording {
            recording.begin(self.config, task, &self.store, &ticket.reach);
        }
        #[cfg(not(feature = "cli"))]
        let _ = task;
        self.active = true;
        self.limit = None;
        Ok(())
    }

    fn start(&mut self, task: Task<Vec<Slot>>, now: u64, deadline: u64) -> Result<(), SubmitError> {
        let (mut window, engine) = self.window();
        engine.submit(&mut window, task, now, deadline).map_err(|submission| submission.error)
    }

    fn process(&mut self, now: u64) -> Progress<Vec<Slot>> {
        let (mut window, engine) = self.window();
        engine.process_events(&mut window, now)
    }

    fn completed(&mut self, done: &Done, addresses: &[AddressEntry]) -> Option<Measured> {
        #[cfg(feature = "cli")]
        if let Some((recording, (position, offset, size))) = self.recording.as_ref().zip(done.output) {
            let entry = addresses.get(position);
            let buffer = entry.and_then(|entry| Some((entry, self.store.get(entry.handle)?)));
            if let Some((entry, buffer)) = buffer {
                let start = entry.offset + offset;
                let bytes = buffer.pages().get(start as usize..(start + size) as usize);
                recording.completed(buffer.memory(), buffer.address() + start, bytes.unwrap_or_default());
            }
        }
        #[cfg(not(feature = "cli"))]
        let _ = (addresses, done.output);
        self.model.completed(done.unit)
    }

    fn ended(&mut self, ticket: &Ticket) {
        #[cfg(feature = "cli")]
        if let Some(recording) = &self.recording {
            recording.end(&self.store, &ticket.reach);
        }
        #[cfg(not(feature = "cli"))]
        let _ = ticket;
    }

    fn advance(&mut self, ticket: &Ticket, clock: &Clock, now: u64, poll: bool, progressed: bool) -> Result<(), Error> {
        let stop = self.model.take_stop();
        if let Some(stop) = stop.filter(|stop| *stop != Stop::Late) {
            return Err(Error::Stopped { stop, failure: self.end() });
        }
        if self.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            self.end();
            return Err(Error::Cancelled);
        }
        let (mut window, engine) = self.window();
        if let Some(failure) = engine.check_deadline(&mut window, now) {
            self.end();
            return Err(Error::Deadline { timeout: clock.limit, failure: Box::new(failure) });
        }
        if !(self.active || progressed) {
            let awaited = self.timed || self.cancel.is_some();
            if !(self.mute && awaited || poll) {
                // The device will not become active again, and neither a deadline nor another thread ends the task.
                return Err(Error::Stuck { failure: self.end() });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        // An operation that exceeds the limit stops by itself.
        let cancel = &self.cancel;
        let limit = self.limit.get_or_insert_with(|| Limit::new(clock.end(), cancel.as_ref().map(Cancel::flag)));
        let end = limit.clone();
        let mut memory = TaskView::new(&mut self.store, &ticket.reach);
        let ran = !self.mute && self.model.run_until(&mut memory, &end);
        let interrupted = self.model.interrupt() && {
            let (mut window, engine) = self.window();
            engine.interrupt(&mut window)
        };
        self.active = ran || interrupted;
        Ok(())
    }
}
