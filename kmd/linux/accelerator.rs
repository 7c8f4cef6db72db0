// SPDX-License-Identifier: GPL-2.0-only

//! One device: the engine, the queues of its clients, and the notification of clients when a task ends.
//!
//! One mutex protects all state. No thread holds it while it waits for the device. Tasks start and end in three contexts:
//! the interrupt thread, works that are queued when a task may be able to start, and the watchdog.
//!
//! One task runs at a time. When it ends, the device goes to the next client for one task. So a client that queues a
//! thousand tasks delays another client by one task.
//!
//! The mutex is taken on the path to a fence's signal, for which memory reclaim may wait. So no memory is allocated while it
//! is held, and nothing is freed whose release takes locks of buffers: ended jobs are added to a list that a separate work
//! empties ([`Accelerator::clean`]).

use kernel::{
    device::{
        self,
        Bound, //
    },
    new_condvar, new_mutex, new_spinlock, new_spinlock_irq,
    prelude::*,
    seq_file::SeqFile,
    sync::{
        aref::ARef,
        lock::mutex::MutexGuard,
        Arc,
        CondVar,
        CondVarTimeoutResult,
        Mutex,
        SpinLock,
        SpinLockIrq, //
    },
    time::{
        delay::fsleep,
        msecs_to_jiffies,
        Delta,
        Jiffies, //
    },
};

use super::{
    budget::Charge,
    clients::Clients,
    dump::{
        self,
        Dump, //
    },
    engine::Engine,
    ffi::{
        self,
        Domain,
        Power,
        PowerReference,
        Signalling,
        Worker,
        WorkerReference, //
    },
    identity,
    job::{
        AddressEntry,
        AddressList,
        Deadline,
        Job,
        Jobs,
        Refusal,
        Slots, //
    },
    show::{
        self,
        Show, //
    },
    state::{
        now_ns,
        Ending,
        Phase,
        State, //
    },
    trace,
    uapi::{
        config::Config,
        reg::{
            glb,
            Block, //
        }, //
    },
    window::{
        Device,
        Interrupts,
        Registers,
        Window, //
    },
};

/// The delay before a reset is tried again if the bus could not reset the device.
pub(crate) const RESET_RETRY_NS: u64 = 20_000_000;
/// The time for which a task may continue after its client has closed the file. Ending a task costs all clients a reset, and most
/// tasks end sooner.
const ORPHAN_NS: u64 = 1_000_000_000;

/// How often, and after which time each, a device is looked at that was reset and is not idle. A few milliseconds are longer than any
/// unit needs for the memory accesses that it has begun.
pub(crate) const IDLE_POLLS: u32 = 20;
pub(crate) const IDLE_POLL: Delta = Delta::from_micros(250);

/// The locked state of a device.
pub(crate) type Locked<'a> = MutexGuard<'a, State>;

/// A device's properties that its bus driver knows.
pub(crate) struct Found {
    /// Its registers.
    pub(crate) window: Window,
    /// Its configuration; with `None` it is read from the hardware's registers.
    pub(crate) config: Option<&'static Config>,
    /// Whether it is a model, not hardware.
    pub(crate) model: bool,
}

/// A device.
#[pin_data]
pub(crate) struct Accelerator {
    pub(crate) dev: ARef<device::Device>,
    window: Window,
    identity: identity::Identity,
    /// Whether it is a model, not hardware.
    model: bool,
    /// The offset of the interrupt status register.
    status: u32,
    #[pin]
    pub(crate) interrupts: SpinLockIrq<Interrupts>,
    #[pin]
    pub(crate) state: Mutex<State>,
    /// Signalled when a task has ended, or the device is gone.
    #[pin]
    pub(crate) ended: CondVar,
    /// Jobs that have ended and wait to be freed. They are not freed before their fence signals, because freeing a buffer takes
    /// locks that are held during allocations. They have a separate lock, because the work that frees them may run while the next
    /// task is submitted.
    #[pin]
    pub(crate) garbage: SpinLock<Jobs>,
    /// The evidence of the last task that was ended, or reset that failed. Taken inside `state`, and alone by the work that makes it
    /// available.
    #[pin]
    dump: Mutex<Dump>,
}

/// The length of one wait for a deadline; `None` once the deadline has passed. A long wait is divided into short ones, so that no
/// conversion can overflow.
fn jiffies_until(deadline_ns: u64) -> Option<Jiffies> {
    let left = deadline_ns.saturating_sub(now_ns());
    (left != 0).then(|| msecs_to_jiffies(left.div_ceil(1_000_000).min(60_000) as u32))
}

impl Accelerator {
    /// Initialises a device: identifies its configuration and brings its registers to a known state.
    pub(crate) fn new(dev: &device::Device<Bound>, found: Found, power: Power) -> Result<Arc<Self>> {
        let Found { window, config, model } = found;
        let identity = identity::identify(dev, &mut Registers(&window), config)?;
        let bits = identity.config.address_width.unwrap_or(u64::BITS).min(u64::BITS);
        power.reach(bits)?;
        if identity.config.secondary_memif {
            ffi::start_sram(dev, bits)?;
        }
        let mut engine = boxed_engine(identity.config)?;
        // A loader or an earlier driver may have used the device, or left it hanging.
        let mut busy = !engine.is_idle(&mut Registers(&window));
        if busy {
            let reset = power.reset().run(true);
            for _ in 0..IDLE_POLLS {
                busy = !engine.is_idle(&mut Registers(&window));
                if !busy {
                    break;
                }
                fsleep(IDLE_POLL);
            }
            if busy {
                power.isolate();
                dev_err!(dev, "the device is busy, and a reset ({reset:?}) does not stop it\n");
                return Err(EBUSY);
            }
        }
        engine.adopt(&mut Registers(&window));
        power.connect();
        let status = Block::Glb.base(identity.config.family).ok_or(ENODEV)? + u32::from(glb::S_INTR_STATUS.offset);
        let evidence = Dump::new()?;
        let accelerator = Arc::pin_init(
            try_pin_init!(Self {
                dev: dev.into(),
                window,
                identity,
                model,
                status,
                interrupts <- new_spinlock_irq!(Interrupts::new(*status)),
                state <- new_mutex!(State {
                    engine,
                    power,
                    worker: None,
                    phase: Phase::Idle,
                    suspended: false,
                    in_reset: false,
                    attaching: false,
                    clients: Clients::new(),
                    last_failure: None,
                    completed: 0,
                    failed: 0,
                }),
                ended <- new_condvar!(),
                garbage <- new_spinlock!(Jobs::new()),
                dump <- new_mutex!(evidence),
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: `stop` drops the worker before the accelerator is freed; the holder of the registration calls it.
        let worker = unsafe { Worker::new(core::ptr::from_ref(&*accelerator).cast())? };
        accelerator.state.lock().worker = Some(worker);
        Ok(accelerator)
    }

    /// Enables system sleep and runtime power management of the device. The last step of a probe.
    pub(crate) fn manage(&self) {
        // SAFETY: The bus device's data holds the accelerator until it is unbound.
        unsafe { self.state.lock().power.manage(core::ptr::from_ref(self).cast()) };
    }

    pub(crate) fn config(&self) -> &'static Config {
        self.identity.config
    }

    pub(crate) fn hardware_version(&self) -> u32 {
        self.identity.version
    }

    pub(crate) fn is_model(&self) -> bool {
        self.model
    }

    /// Whether the processor caches only buffers that are asked for with that.
    pub(crate) fn is_uncached(&self) -> bool {
        ffi::is_uncached(&self.dev)
    }

    /// Bytes of the device's SRAM, and those in use; 0 once the device is not bound any more.
    pub(crate) fn sram(&self) -> (u64, u64) {
        ffi::sram_size(&self.dev)
    }

    /// The registers as the engine drives them.
    pub(crate) fn hardware(&self) -> Device<'_> {
        Device::new(&self.window, &self.interrupts, self.status)
    }

    /// Emits the trace event of a submission.
    pub(crate) fn trace_submit(&self, client: u64, tasks: u32) {
        trace::submit(&self.dev, client, tasks);
    }

    /// Nanoseconds that a task without a deadline may run.
    pub(crate) fn default_timeout_ns(&self) -> u64 {
        self.max_timeout_ns().min(u64::from(super::module_parameters::timeout_ms.value()) * 1_000_000)
    }

    /// The longest time in nanoseconds that a task may run, whatever its deadline. It limits how long a client can keep
    /// the device from others.
    pub(crate) fn max_timeout_ns(&self) -> u64 {
        match super::module_parameters::max_timeout_ms.value() {
            0 => u64::MAX,
            milliseconds => u64::from(milliseconds) * 1_000_000,
        }
    }

    /// The time in nanoseconds that a started task has, even if its deadline is earlier. Ending a task costs all
    /// clients a reset, so a client must not be able to cause resets at will.
    pub(crate) fn min_timeout_ns(&self) -> u64 {
        self.max_timeout_ns().min(u64::from(super::module_parameters::min_timeout_ms.value()) * 1_000_000)
    }

    /// A new client of that number.
    pub(crate) fn add_client(&self, client: u64) -> Result {
        let node = Clients::node(client)?;
        self.state.lock().clients.add(node);
        Ok(())
    }

    /// Removes a client and cancels its queued tasks. Its running task may continue for a limited time.
    pub(crate) fn remove_client(&self, client: u64) {
        let mut state = self.state.lock();
        let until = now_ns().saturating_add(ORPHAN_NS);
        if let Phase::Running(running) = &mut state.phase {
            if running.job.client == client {
                running.orphan_until = Some(until);
                state.arm();
            }
        }
        let cancelled = state.clients.remove(client);
        drop(state);
        // Fences of cancelled tasks signal here, outside the lock.
        drop(cancelled);
    }

    /// Nanoseconds that the device has worked for the client.
    pub(crate) fn busy_ns(&self, client: u64) -> u64 {
        let mut state = self.state.lock();
        let now = now_ns();
        let current = state.running().filter(|running| running.job.client == client);
        let current = current.map_or(0, |running| now.saturating_sub(running.started_ns));
        state.clients.queue(client).map_or(0, |queue| queue.busy_ns) + current
    }

    /// Checks whether the client may submit this many tasks now. It is checked before the tasks are read, and again when they are
    /// queued.
    pub(crate) fn has_room(&self, client: u64, tasks: usize) -> Result {
        self.state.lock().has_room(client, tasks)
    }

    /// Validates a task, the one at `number` of its submission. `charge` is the cost of its address list.
    pub(crate) fn job(
        &self,
        client: u64,
        number: u32,
        entries: KVVec<AddressEntry>,
        deadline: Deadline,
        charge: Charge,
    ) -> Result<KBox<Job>, Refusal> {
        let list = AddressList::new(entries);
        Job::new(self.config(), client, list, deadline, charge, |work| self.with_room(work)).inspect_err(|refusal| {
            // A trace event, so that a program that keeps submitting invalid tasks does not fill the log.
            if let Some(reason) = &refusal.reason {
                trace::refused(&self.dev, client, number, Show(reason));
            }
        })
    }

    /// The works, through which a task waits for fences.
    pub(crate) fn worker(&self) -> Result<WorkerReference> {
        Ok(self.state.lock().worker.as_ref().ok_or(ENODEV)?.reference())
    }

    /// Frees the jobs that have ended, and makes evidence of the last one available.
    pub(crate) fn clean(&self) {
        self.publish();
        let ended = {
            let state = self.state.lock();
            // The end of the attachment calls this again.
            if state.attaching {
                return;
            }
            self.garbage.lock().take()
        };
        drop(ended);
    }

    /// Frees the jobs that have ended, and waits until other threads have freed theirs.
    pub(crate) fn settle(&self) {
        self.clean();
        if let Ok(worker) = self.worker() {
            worker.flush();
        }
    }

    /// Calls `work`, and once more if memory or a budget is used up. A job that has ended may still hold what its client counts as
    /// free.
    pub(crate) fn with_room<R>(&self, mut work: impl FnMut() -> Result<R>) -> Result<R> {
        work().or_else(|error| {
            if !matches!(error, EBUSY | ENOMEM | ENOSPC) {
                return Err(error);
            }
            self.settle();
            work()
        })
    }

    /// Queues tasks in order and returns the sequence number of the last. Never waits for a task. A suspended device is resumed. After
    /// an error the jobs are still the caller's, who may hold locks under which buffers cannot be freed.
    pub(crate) fn submit(&self, client: u64, jobs: &mut Jobs) -> Result<u64> {
        jobs.try_for_each(|job| {
            job.keep_active(PowerReference::new(&self.dev)?);
            Ok(())
        })?;
        let mut state = self.state.lock();
        state.has_room(client, jobs.len())?;
        let sequence = state.clients.push(client, jobs.take())?;
        self.start_next(&mut state);
        Ok(sequence)
    }

    /// Waits until a client's task has ended, and returns its result. Interrupted by signals.
    ///
    /// Holds no reference to the device while it waits, so devices can be unbound.
    pub(crate) fn wait(&self, client: u64, sequence: u64, deadline_ns: u64) -> Result<Result> {
        let mut state = self.state.lock();
        loop {
            if let Some(result) = state.outcome(client, sequence)? {
                return Ok(result);
            }
            let jiffies = jiffies_until(deadline_ns).ok_or(ETIMEDOUT)?;
            if let CondVarTimeoutResult::Signal { .. } = self.ended.wait_interruptible_timeout(&mut state, jiffies) {
                return Err(ERESTARTSYS);
            }
        }
    }

    /// Waits until a client's task has ended, without a time limit, and returns its result. A signal ends the wait but not the
    /// task.
    ///
    /// Unlike [`Self::wait`] it cannot be restarted after a signal, because its ioctl also submits. So it allows the machine to
    /// sleep during the wait.
    pub(crate) fn wait_for_end(&self, client: u64, sequence: u64) -> Result<Result> {
        let mut state = self.state.lock();
        loop {
            if let Some(result) = state.outcome(client, sequence)? {
                return Ok(result);
            }
            if self.ended.wait_interruptible_freezable(&mut state) {
                return Err(EINTR);
            }
        }
    }

    /// Suspends the device with the machine: no task is started any more, and the running one ends first.
    pub(crate) fn suspend(&self) -> Result {
        let limit = now_ns().saturating_add(self.default_timeout_ns());
        let mut state = self.state.lock();
        state.suspended = true;
        loop {
            match &state.phase {
                Phase::Idle | Phase::Dead => break,
                Phase::Running(_) | Phase::Ending(Ending { resetting: true, .. }) => {}
                Phase::Ending(Ending { error, .. }) => {
                    let error = *error;
                    state = self.end_running(state, error, true);
                    continue;
                }
            }
            let called_off = match jiffies_until(limit) {
                None => EBUSY,
                Some(jiffies) => match self.ended.wait_interruptible_timeout(&mut state, jiffies) {
                    CondVarTimeoutResult::Signal { .. } => EINTR,
                    _ => continue,
                },
            };
            state.suspended = false;
            self.start_next(&mut state);
            return Err(called_off);
        }
        drop(state);
        // From now on an interrupt on a shared line is another device's.
        self.rest();
        Ok(())
    }

    /// Resumes the device with the machine. The device may have lost its registers. A runtime-suspended device stays suspended.
    pub(crate) fn resume(&self, asleep: bool) {
        if !asleep {
            self.wake();
        }
        let mut state = self.state.lock();
        state.suspended = false;
        self.start_next(&mut state);
    }

    /// The sleep of the machine has ended, and the driver core holds the device. A device that was given up has another chance, because
    /// the sleep may have taken its power.
    pub(crate) fn revive(&self) {
        if !matches!(self.state.lock().phase, Phase::Dead) {
            return;
        }
        let Ok(_awake) = PowerReference::new(&self.dev) else { return };
        // Whether it had an effect is seen below.
        let (mut state, _) = self.reset(self.state.lock(), true);
        if !state.in_reset {
            self.take_over(&mut state);
        }
    }

    /// Prepares for runtime suspend: the device has no task, and its clock is about to stop.
    pub(crate) fn rest(&self) {
        self.state.lock().power.rest();
        self.interrupts.lock().set_accessible(false);
    }

    /// Restores the device after runtime suspend. It may have lost its registers. A device that was given up is left alone, because no
    /// reset has preceded this.
    pub(crate) fn wake(&self) {
        let mut state = self.state.lock();
        // Whoever resets the device says when that has ended.
        if !state.in_reset {
            self.interrupts.lock().set_accessible(true);
            if !matches!(state.phase, Phase::Dead) {
                self.take_over(&mut state);
            }
        }
    }

    /// Somebody else is about to reset the device: an administrator, or the bus after an error. The running task is ended, because
    /// the reset ends it on the device.
    pub(crate) fn reset_prepare(&self) {
        let mut state = self.state.lock();
        state.in_reset = true;
        self.abort(&mut state, EIO);
        self.interrupts.lock().set_accessible(false);
    }

    /// The reset of somebody else has ended: registers hold the values after reset. `asleep` says that the device is
    /// runtime-suspended.
    pub(crate) fn reset_done(&self, asleep: bool) {
        let mut state = self.state.lock();
        state.in_reset = false;
        if !asleep {
            self.recover(&mut state, Ok(()));
        }
        self.start_next(&mut state);
    }

    /// The bus could not make the device answer again after an error, and does not try any more.
    pub(crate) fn reset_failed(&self) {
        let mut state = self.state.lock();
        self.abort(&mut state, EIO);
        state.in_reset = false;
        self.recover(&mut state, Err(EIO));
    }

    /// A reset of somebody else has ended with that result.
    fn recover(&self, state: &mut State, result: Result) {
        self.interrupts.lock().set_accessible(true);
        match state.phase {
            // The thread that resets the device concludes it.
            Phase::Ending(Ending { resetting: true, .. }) => {}
            Phase::Ending(_) => self.conclude(state, result, true),
            _ => self.take_over(state),
        }
    }

    /// The first interrupt handler. Returns false if the interrupt was not this device's.
    pub(crate) fn take_interrupt(&self) -> bool {
        self.interrupts.lock().handle(&self.window)
    }

    /// The interrupt thread, which runs if the first handler has read status bits.
    pub(crate) fn interrupt(&self) {
        let _signalling = Signalling::begin();
        let mut state = self.state.lock();
        if !state.engine.interrupt(&mut self.hardware()) {
            return;
        }
        trace::interrupt(&self.dev);
        self.process(&mut state);
        self.start_next(&mut state);
    }

    /// Starts a task if one is ready.
    pub(crate) fn advance(&self) {
        let mut state = self.state.lock();
        self.process(&mut state);
        self.start_next(&mut state);
    }

    /// A fence that tasks wait for has signalled.
    ///
    /// The lock is free between a few clients and the next, so that many waiting clients do not keep the others waiting.
    pub(crate) fn unblock(&self) {
        let mut from = Some(0);
        while let Some(client) = from {
            let mut state = self.state.lock();
            from = state.clients.unblock(client);
            self.start_next(&mut state);
        }
    }

    /// Attaches the domain of the client whose task was chosen, and starts the task. No lock is held during the attachment, because
    /// the IOMMU layer allocates memory.
    pub(crate) fn attach(&self) {
        while let Some((domain, task)) = self.begin_attachment() {
            let result = domain.attach();
            self.end_attachment(domain, task, result);
        }
    }

    /// The domain of the task that was chosen, and the task's client and number. No task is given to the device and no job is freed
    /// before [`Self::end_attachment`].
    fn begin_attachment(&self) -> Option<(Domain, (u64, u64))> {
        let mut state = self.state.lock();
        let job = state.chosen()?;
        let task = (job.client, job.sequence);
        let domain = job.address_list.domain()?.clone();
        state.attaching = true;
        Some((domain, task))
    }

    /// The attachment has ended: starts the task, unless it was ended meanwhile. Another may have taken its place.
    fn end_attachment(&self, domain: Domain, task: (u64, u64), result: Result) {
        let _signalling = Signalling::begin();
        let mut state = self.state.lock();
        let chosen = state.chosen().map(|job| (job.address_list.domain() == Some(&domain), (job.client, job.sequence)));
        // Not the last reference, because no job was freed. The end of a domain takes locks under which memory is allocated.
        drop(domain);
        state.attaching = false;
        state.clean();
        match (chosen, result) {
            (Some((true, _)), Ok(())) => self.launch(&mut state),
            (Some((_, chosen)), Err(error)) if chosen == task => {
                if state.worker.as_ref().is_some_and(Worker::may_log) {
                    dev_err!(self.dev, "the IOMMU does not take the domain of a client: {error:?}\n");
                }
                self.finish(&mut state, Err(EIO));
            }
            // The next attachment is the other task's.
            _ => return,
        }
        self.start_next(&mut state);
    }

    /// Handles the watchdog's expiry.
    pub(crate) fn expired(&self) {
        let mut state = self.state.lock();
        let now = now_ns();
        match &state.phase {
            Phase::Idle | Phase::Dead | Phase::Ending(Ending { resetting: true, .. }) => return,
            Phase::Ending(Ending { error, .. }) => {
                let error = *error;
                state = self.end_running(state, error, false);
            }
            Phase::Running(running) if running.orphan_until.is_some_and(|until| until <= now) => {
                state = self.end_running(state, ECANCELED, false);
            }
            Phase::Running(_) => {
                let Some(failure) = state.engine.check_deadline(&mut self.hardware(), now) else {
                    // The task that the watchdog was armed for has ended, or the watchdog expired slightly early.
                    state.arm();
                    return;
                };
                self.report(&state, &failure);
                self.keep_evidence(&mut state, &failure);
                state.last_failure = Some(failure);
                state = self.end_running(state, ETIMEDOUT, false);
            }
        }
        self.start_next(&mut state);
    }

    /// Writes what is known of the device and of the task on it. The device is reset after that, or takes no more tasks.
    pub(super) fn keep_evidence(&self, state: &mut State, reason: impl core::fmt::Display) {
        let history = self.interrupts.lock().history();
        let history = history.into_iter().filter(|&(time, _)| time != 0);
        dump::take(&mut self.dump.lock(), &self.identity, state, reason, history, self.hardware(), now_ns());
    }

    /// Makes the evidence available. Not on the way to a fence's signal, because it allocates.
    fn publish(&self) {
        // The lock is taken on that way, so nothing is allocated under it.
        let taken = self.dump.lock().take();
        if let Some(dump) = taken {
            ffi::dump(&self.dev, &dump);
            self.dump.lock().give_back(dump);
        }
    }

    /// Stops the device: no task is started any more, the running task is ended, waiters are woken, and the device accesses no
    /// memory. The driver core holds the device. Has no effect the second time.
    pub(crate) fn stop(&self) {
        let worker = {
            let mut state = self.state.lock();
            let worker = state.worker.take();
            let mut state = self.end_running(state, ENODEV, true);
            self.fail_queued(&mut state, ENODEV);
            worker
        };
        // The works take the lock, so it must not be held here.
        drop(worker);
        self.clean();
        // No task accesses the SRAM any more. DRM removes the mappings after this.
        ffi::stop_sram(&self.dev);
        ffi::stop_space(&self.dev);
    }

    /// Prints the device's state for debugfs, one line per fact.
    pub(crate) fn show(&self, to: &SeqFile) {
        let sram = self.sram();
        let mut state = self.state.lock();
        let doing = match &state.phase {
            // Without a task no register is read, because the device may be suspended.
            Phase::Running(_) => state.engine.observe(&mut self.hardware()),
            _ => None,
        };
        show::device(to, &self.identity, self.model, sram);
        show::state(to, &state, now_ns(), doing.as_ref());
    }
}

/// Allocates an engine. It is a separate function, so that the copy on the stack is released before the rest is built.
#[inline(never)]
fn boxed_engine(config: &'static Config) -> Result<KBox<Engine<Slots>>> {
    let room = KBox::<Engine<Slots>>::new_uninit(GFP_KERNEL)?;
    Ok(KBox::write(room, Engine::new(config)))
}
