// SPDX-License-Identifier: GPL-2.0-only

//! One device: the engine, the queues of its clients, and who is told when a task ends.
//!
//! All state lies under one mutex, which nobody holds while waiting for the device. Tasks start and end in three places:
//! the interrupt thread, the worker that is kicked when something may start, and the watchdog.
//!
//! A task runs alone. When one ends, the next client in turn gets the device for one task, so a client that queues
//! a thousand tasks delays another's by one.

use kernel::{
    bindings,
    device::{
        self,
        Bound, //
    },
    drm,
    new_condvar,
    new_mutex,
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::{
        aref::ARef,
        Arc,
        CondVar,
        CondVarTimeoutResult,
        Mutex, //
    },
    time::{
        msecs_to_jiffies,
        Jiffies, //
    },
};

use super::{
    engine::{
        Engine,
        Failure,
        Hardware,
        Progress, //
    },
    driver::{
        Driver,
        Found, //
    },
    ffi::{
        Fence,
        Power,
        Watch,
        Worker, //
    },
    identity,
    job::{
        Deadline,
        Job,
        Place,
        Places,
        Slots, //
    },
    show::Show,
    trace,
    uapi::{
        config::Config,
        queue::MAX_QUEUED, //
    },
    window::{
        Registers,
        Window, //
    },
};

/// How many of a client's ended tasks keep their status for a later wait: all that it can have queued.
const REMEMBERED: usize = MAX_QUEUED as usize;
/// How long until a reset is tried again for which the bus had no time.
const RESET_RETRY_NS: u64 = 20_000_000;

/// A device.
#[pin_data]
pub(crate) struct Accelerator {
    dev: ARef<device::Device>,
    window: Window,
    identity: identity::Identity,
    /// It is a model, not hardware.
    model: bool,
    #[pin]
    state: Mutex<State>,
    /// Some task has ended, or the device has gone.
    #[pin]
    ended: CondVar,
}

struct State {
    /// Behind a pointer, because its shadow of the registers is a good part of a kernel stack.
    engine: KBox<Engine<Slots>>,
    power: Power,
    /// The works; gone once the device stops.
    worker: Option<Worker>,
    running: Option<Running>,
    /// Why the running task was ended, while the device could not be reset yet.
    ending: Option<Error>,
    /// The machine sleeps: nothing starts.
    suspended: bool,
    clients: KVec<Queue>,
    /// Where in `clients` the search for the next task begins.
    turn: usize,
    last_client: u64,
    /// The device did not come back from a reset: nothing runs any more.
    dead: bool,
    /// What the last task that was ended by the driver was doing.
    last_failure: Option<Failure>,
    completed: u64,
    failed: u64,
}

/// The task on the device. Its buffers stay until it has ended.
struct Running {
    client: u64,
    sequence: u64,
    places: Places,
    fence: Fence,
    started_ns: u64,
}

/// A client's tasks.
struct Queue {
    client: u64,
    jobs: KVec<Job>,
    /// Sequence numbers: given out last, and ended last.
    submitted: u64,
    ended: u64,
    /// How the last tasks ended, by sequence number modulo the length, which is [`REMEMBERED`].
    results: KVec<Result>,
    busy_ns: u64,
}

/// The clock of all deadlines: `CLOCK_MONOTONIC`, in nanoseconds.
fn now_ns() -> u64 {
    // SAFETY: May be called in any context of this module.
    unsafe { bindings::ktime_get() }.unsigned_abs()
}

/// How long to wait at once for a deadline; `None` once it has passed. A long wait is made of short ones, so that no
/// conversion can overflow.
fn jiffies_until(deadline_ns: u64) -> Option<Jiffies> {
    let left = deadline_ns.saturating_sub(now_ns());
    (left != 0).then(|| msecs_to_jiffies(left.div_ceil(1_000_000).min(60_000) as u32))
}

impl Accelerator {
    /// Takes a device over: finds out what it is and brings its registers to a known state.
    pub(crate) fn new(
        dev: &device::Device<Bound>,
        found: Found,
        power: Power,
    ) -> Result<Arc<Self>> {
        let Found { window, config, model } = found;
        let identity = identity::identify(dev, &mut Registers(&window), config)?;
        power.reach(identity.config.address_width.unwrap_or(u64::BITS).min(u64::BITS))?;
        let mut engine = boxed_engine(identity.config)?;
        // A loader or an earlier driver may have used the device, or left it hanging.
        if !engine.is_idle(&mut Registers(&window)) {
            power.reset(true).inspect_err(|_| dev_err!(dev, "the device is busy and cannot be reset\n"))?;
        }
        engine.adopt(&mut Registers(&window));
        let accelerator = Arc::pin_init(
            try_pin_init!(Self {
                dev: dev.into(),
                window,
                identity,
                model,
                state <- new_mutex!(State {
                    engine,
                    power,
                    worker: None,
                    running: None,
                    ending: None,
                    suspended: false,
                    clients: KVec::new(),
                    turn: 0,
                    last_client: 0,
                    dead: false,
                    last_failure: None,
                    completed: 0,
                    failed: 0,
                }),
                ended <- new_condvar!(),
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: `stop` drops the worker before the accelerator goes; whoever holds the registration calls it.
        let worker = unsafe { Worker::new(core::ptr::from_ref(&*accelerator).cast())? };
        {
            let mut state = accelerator.state.lock();
            state.worker = Some(worker);
            // SAFETY: The bus device's data holds the accelerator until it is unbound.
            unsafe { state.power.manage(core::ptr::from_ref(&*accelerator).cast()) };
        }
        Ok(accelerator)
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

    /// Tells who traces that a submission has come in.
    pub(crate) fn trace_submit(&self, client: u64, tasks: u32) {
        trace::submit(&self.dev, client, tasks);
    }

    /// Nanoseconds that a task without a deadline may run.
    pub(crate) fn default_timeout_ns(&self) -> u64 {
        self.max_timeout_ns().min(u64::from(super::module_parameters::timeout_ms.value()) * 1_000_000)
    }

    /// Nanoseconds that a task may run whatever its deadline: a client cannot keep the device from the others for longer.
    pub(crate) fn max_timeout_ns(&self) -> u64 {
        match super::module_parameters::max_timeout_ms.value() {
            0 => u64::MAX,
            milliseconds => u64::from(milliseconds) * 1_000_000,
        }
    }

    /// A new client's number.
    pub(crate) fn add_client(&self) -> Result<u64> {
        let results = KVec::from_elem(Ok(()), REMEMBERED, GFP_KERNEL)?;
        let mut state = self.state.lock();
        let client = state.last_client + 1;
        let queue = Queue { client, jobs: KVec::new(), submitted: 0, ended: 0, results, busy_ns: 0 };
        state.clients.push(queue, GFP_KERNEL)?;
        state.last_client = client;
        Ok(client)
    }

    /// Forgets a client: cancels what it has queued and ends what it runs.
    pub(crate) fn remove_client(&self, client: u64) {
        let cancelled;
        {
            let mut state = self.state.lock();
            if state.running.as_ref().is_some_and(|running| running.client == client) {
                self.end_running(&mut state, ECANCELED, false);
                state.kick();
            }
            let Some(position) = state.clients.iter().position(|queue| queue.client == client) else { return };
            cancelled = state.clients.remove(position).ok();
        }
        // Fences of cancelled tasks signal here, outside the lock.
        drop(cancelled);
    }

    /// Nanoseconds that the device has worked for the client.
    pub(crate) fn busy_ns(&self, client: u64) -> u64 {
        let mut state = self.state.lock();
        let now = now_ns();
        let current = match &state.running {
            Some(running) if running.client == client => now.saturating_sub(running.started_ns),
            _ => 0,
        };
        state.queue(client).map_or(0, |queue| queue.busy_ns) + current
    }

    /// Validates a task.
    pub(crate) fn job(&self, places: KVVec<Place>, deadline: Deadline) -> Result<Job> {
        Job::new(self.config(), Places::new(places), deadline, Fence::new()?).map_err(|refusal| {
            if let Some(reason) = refusal.reason {
                // A program that keeps sending bad tasks shall not fill the log; the developer of one turns this on.
                dev_dbg!(self.dev, "task refused: {}\n", Show(&reason));
            }
            refusal.error
        })
    }

    /// A watch on the fence behind a sync_file descriptor.
    pub(crate) fn watch(&self, fd: i32) -> Result<Watch> {
        self.state.lock().worker.as_ref().ok_or(ENODEV)?.watch(fd)
    }

    /// Queues tasks in order and gives the sequence number of the last. Never waits for the device.
    pub(crate) fn submit(&self, client: u64, jobs: KVVec<Job>) -> Result<u64> {
        let mut state = self.state.lock();
        if state.worker.is_none() {
            return Err(ENODEV);
        }
        if state.dead {
            return Err(EIO);
        }
        let queue = state.queue(client).ok_or(ENODEV)?;
        if queue.jobs.len() + jobs.len() > MAX_QUEUED as usize {
            return Err(EBUSY);
        }
        queue.jobs.reserve(jobs.len(), GFP_KERNEL)?;
        for mut job in jobs {
            queue.submitted += 1;
            job.sequence = queue.submitted;
            // The room was reserved.
            queue.jobs.push(job, GFP_KERNEL)?;
        }
        let sequence = queue.submitted;
        self.start_next(&mut state);
        Ok(sequence)
    }

    /// Waits until a client's task has ended, and says how. Interrupted by signals.
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

    /// Waits until a client's task has ended, however long, and says how. A signal ends the wait and not the task.
    ///
    /// Unlike [`Self::wait`] it cannot be begun again after a signal, because its ioctl also submits; so it lets the
    /// machine sleep meanwhile.
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

    /// The machine goes to sleep: nothing starts any more, and what runs ends first.
    fn suspend(&self) -> Result {
        let limit = now_ns().saturating_add(self.default_timeout_ns());
        let mut state = self.state.lock();
        state.suspended = true;
        while state.running.is_some() {
            if let Some(error) = state.ending {
                self.end_running(&mut state, error, true);
                continue;
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
        Ok(())
    }

    /// The machine wakes up: the device may have lost its registers.
    fn resume(&self) {
        let hardware = &mut Registers(&self.window);
        let mut state = self.state.lock();
        state.engine.reset();
        state.engine.adopt(hardware);
        state.suspended = false;
        // Its power was off, which ends whatever a reset could not.
        state.dead &= !state.engine.is_idle(hardware);
        self.start_next(&mut state);
    }

    /// The interrupt thread. False when the interrupt was not this device's.
    pub(crate) fn interrupt(&self) -> bool {
        let mut state = self.state.lock();
        // While it sleeps it has no clock, and no register may be asked: a shared line's interrupt is another's.
        if state.suspended && state.running.is_none() {
            return false;
        }
        if !state.engine.interrupt(&mut Registers(&self.window)) {
            return false;
        }
        trace::interrupt(&self.dev);
        self.process(&mut state);
        self.start_next(&mut state);
        true
    }

    /// Something may be ready to start.
    fn advance(&self) {
        let mut state = self.state.lock();
        self.process(&mut state);
        self.start_next(&mut state);
    }

    /// The watchdog fired.
    fn expired(&self) {
        let mut state = self.state.lock();
        if let Some(error) = state.ending {
            self.end_running(&mut state, error, false);
            self.start_next(&mut state);
            return;
        }
        let now = now_ns();
        let Some(failure) = state.engine.check_deadline(&mut Registers(&self.window), now) else {
            // The task that it was armed for has ended, or it fired a little early.
            if let (true, Some(worker)) = (state.running.is_some(), &state.worker) {
                worker.arm(state.engine.deadline_ns().saturating_sub(now));
            }
            return;
        };
        dev_err!(self.dev, "task ended by the driver: {}\n", Show(&failure));
        state.last_failure = Some(failure);
        self.end_running(&mut state, ETIMEDOUT, false);
        self.start_next(&mut state);
    }

    /// Takes the device down: nothing starts any more, what runs is ended, who waits is told.
    pub(crate) fn stop(&self) {
        let (worker, cancelled) = {
            let mut state = self.state.lock();
            let worker = state.worker.take();
            if state.running.is_some() {
                self.end_running(&mut state, ENODEV, true);
            }
            let mut cancelled = KVec::new();
            for queue in &mut state.clients {
                let mut jobs = core::mem::replace(&mut queue.jobs, KVec::new());
                for job in &mut jobs {
                    job.fence.signal(Err(ENODEV));
                    queue.end(job.sequence, Err(ENODEV));
                }
                // Without memory the jobs go right here, which only means under the lock.
                let _ = cancelled.push(jobs, GFP_KERNEL);
            }
            (worker, cancelled)
        };
        // The works take the lock: it must be free.
        drop(cancelled);
        drop(worker);
        self.ended.notify_all();
    }

    /// Lets the engine do what the interrupts so far allow, to the end of the running task.
    fn process(&self, state: &mut State) {
        loop {
            match state.engine.process_events(&mut Registers(&self.window), now_ns()) {
                Progress::Completed { operation, unit, .. } => trace::operation_end(&self.dev, operation, unit as u8),
                Progress::Ended(task) => {
                    if let Some(running) = &mut state.running {
                        // The list was found inside its buffer when the task was validated.
                        let _ = task.write_statistics(&mut running.places);
                    }
                    state.completed += 1;
                    self.finish(state, Ok(()));
                    return;
                }
                Progress::Waiting { poll } => {
                    if poll {
                        state.kick();
                    }
                    // A device that is gone will not say that anything ended.
                    if let (true, Some(worker)) = (state.engine.is_gone(), &state.worker) {
                        worker.arm(0);
                    }
                    return;
                }
                Progress::Idle => return,
            }
        }
    }

    /// Gives the device to the next client in turn whose first task is ready.
    fn start_next(&self, state: &mut State) {
        while state.running.is_none() && !state.dead && !state.suspended && state.worker.is_some() {
            let count = state.clients.len();
            let Some(position) =
                (0..count).map(|step| (state.turn + step) % count).find(|&at| state.clients[at].is_ready())
            else {
                return;
            };
            state.turn = (position + 1) % count;
            let queue = &mut state.clients[position];
            let client = queue.client;
            let Ok(mut job) = queue.jobs.remove(0) else { return };
            let dependency = job.dependency();
            let Some(task) = job.task.take() else { continue };
            let now = now_ns();
            let deadline = job.deadline.from(now, self.default_timeout_ns());
            let deadline = deadline.min(now.saturating_add(self.max_timeout_ns()));
            let Job { sequence, places, fence, .. } = job;
            state.running = Some(Running { client, sequence, places, fence, started_ns: now });
            // A fence that failed, or a deadline that passed while it was queued: the device is not asked.
            let refused = dependency.and_then(Result::err).or((deadline <= now).then_some(ETIMEDOUT));
            if let Some(error) = refused {
                self.finish(state, Err(error));
                continue;
            }
            trace::task_start(&self.dev, client, sequence);
            if state.engine.submit(&mut Registers(&self.window), task, now, deadline).is_err() {
                // The engine is idle, was reset, and the task is for its configuration.
                self.finish(state, Err(EIO));
                continue;
            }
            if let Some(worker) = &state.worker {
                worker.arm(deadline.saturating_sub(now));
            }
            self.process(state);
        }
    }

    /// Ends the running task for a reason of the driver's, and brings the device back.
    ///
    /// While the bus has no time for a reset the task stays where it is, and the watchdog tries again: its buffers are
    /// what the device still writes. `held` says that the driver core holds the device for the caller, as
    /// it does for an unbinding and a suspend.
    fn end_running(&self, state: &mut State, error: Error, held: bool) {
        let hardware = &mut Registers(&self.window);
        if state.ending.is_none() {
            state.engine.abort(hardware);
            state.failed += 1;
        }
        let reset = state.power.reset(held);
        if reset.is_ok() {
            state.engine.reset();
            state.engine.adopt(hardware);
        } else if state.engine.is_idle(hardware) {
            // Nothing resets it, but what it was given has ended.
            state.engine.adopt(hardware);
        } else if let (Err(EAGAIN), false, Some(worker)) = (reset, held, &state.worker) {
            state.ending = Some(error);
            worker.arm(RESET_RETRY_NS);
            // If it is the suspend that holds the device, it can do what we could not.
            self.ended.notify_all();
            return;
        } else {
            if let (false, Some(running)) = (state.power.isolate(), &state.running) {
                // SAFETY: The state is locked.
                unsafe { running.places.lose() };
            }
            state.dead = true;
            dev_err!(self.dev, "the device neither ends its operation nor can be reset: it takes no more tasks\n");
        }
        state.ending = None;
        self.finish(state, Err(error));
        if state.dead {
            self.fail_queued(state);
        }
    }

    /// Fails whatever is queued on a device that is dead.
    fn fail_queued(&self, state: &mut State) {
        for queue in &mut state.clients {
            while let Ok(mut job) = queue.jobs.remove(0) {
                queue.end(job.sequence, Err(EIO));
                job.fence.signal(Err(EIO));
            }
        }
        self.ended.notify_all();
    }

    /// Tells everybody that the running task has ended.
    fn finish(&self, state: &mut State, result: Result) {
        let Some(mut running) = state.running.take() else { return };
        if let Some(worker) = &state.worker {
            worker.disarm();
        }
        let busy = now_ns().saturating_sub(running.started_ns);
        if let Some(queue) = state.queue(running.client) {
            queue.busy_ns += busy;
            queue.end(running.sequence, result);
        }
        running.fence.signal(result);
        trace::task_end(&self.dev, running.client, running.sequence, result, busy);
        self.ended.notify_all();
    }
}

impl Accelerator {
    /// What an operator looks at, a line a fact.
    fn show(&self, to: &SeqFile) {
        let mut state = self.state.lock();
        seq_print!(to, "configuration: {}\n", self.config().name);
        seq_print!(to, "hardware version: {:#x}\n", self.identity.version);
        seq_print!(to, "device: {}\n", if self.model { "model" } else { "hardware" });
        let condition = match (&state.worker, state.dead, state.suspended, &state.running) {
            (None, ..) => "gone",
            (_, true, ..) => "dead: it could not be reset",
            (_, _, true, _) => "suspended",
            (_, _, _, Some(_)) => "busy",
            _ => "idle",
        };
        seq_print!(to, "state: {}\n", condition);
        let now = now_ns();
        if let Some(running) = &state.running {
            seq_print!(
                to,
                "running: client {} task {} for {} us, {} us left\n",
                running.client,
                running.sequence,
                now.saturating_sub(running.started_ns) / 1000,
                state.engine.deadline_ns().saturating_sub(now) / 1000
            );
        }
        if let Some(doing) = state.engine.observe(&mut Registers(&self.window)) {
            seq_print!(to, "engine: {}\n", Show(&doing));
        }
        for queue in &state.clients {
            seq_print!(
                to,
                "client {}: {} tasks queued, {} submitted, {} ended, busy for {} us\n",
                queue.client,
                queue.jobs.len(),
                queue.submitted,
                queue.ended,
                queue.busy_ns / 1000
            );
        }
        seq_print!(to, "tasks: {} completed, {} ended by the driver\n", state.completed, state.failed);
        match &state.last_failure {
            Some(failure) => seq_print!(to, "last failure: {}\n", Show(failure)),
            None => seq_print!(to, "last failure: none\n"),
        }
    }
}

/// An engine in memory of its own. Apart from its caller, so that the copy on the stack is gone when the rest is built.
#[inline(never)]
fn boxed_engine(config: &'static Config) -> Result<KBox<Engine<Slots>>> {
    let room = KBox::<Engine<Slots>>::new_uninit(GFP_KERNEL)?;
    Ok(KBox::write(room, Engine::new(config)))
}

impl State {
    /// How a client's task has ended; `None` while it has not.
    fn outcome(&mut self, client: u64, sequence: u64) -> Result<Option<Result>> {
        let gone = self.worker.is_none();
        let queue = self.queue(client).ok_or(ENODEV)?;
        if sequence == 0 || sequence > queue.submitted {
            return Err(EINVAL);
        }
        if sequence <= queue.ended {
            return queue.result(sequence).ok_or(ESTALE).map(Some);
        }
        if gone { Err(ENODEV) } else { Ok(None) }
    }

    fn queue(&mut self, client: u64) -> Option<&mut Queue> {
        self.clients.iter_mut().find(|queue| queue.client == client)
    }

    fn kick(&self) {
        if let Some(worker) = &self.worker {
            worker.kick();
        }
    }
}

impl Queue {
    /// A task has ended. A client's tasks end in the order of their numbers.
    fn end(&mut self, sequence: u64, result: Result) {
        self.ended = sequence;
        if let Some(slot) = self.results.get_mut(sequence as usize % REMEMBERED) {
            *slot = result;
        }
    }

    /// How a task that has ended did; `None` once it is forgotten.
    fn result(&self, sequence: u64) -> Option<Result> {
        if sequence + REMEMBERED as u64 <= self.ended {
            return None;
        }
        self.results.get(sequence as usize % REMEMBERED).copied()
    }

    /// Whether the first task may run: what it waits for has happened.
    fn is_ready(&self) -> bool {
        self.jobs.first().is_some_and(|job| job.dependency().is_some())
    }
}

/// The worker was kicked.
///
/// # Safety
///
/// `core` must be the accelerator that the worker was made with.
#[no_mangle]
unsafe extern "C" fn nvdla_core_advance(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.advance();
}

/// The machine goes to sleep.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_suspend(core: *mut c_void) -> c_int {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.suspend().map_or_else(Error::to_errno, |()| 0)
}

/// The machine wakes up.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_resume(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.resume();
}

/// Writes the device's state for an operator.
///
/// # Safety
///
/// `drm` must be a registered device of this driver, `file` one that is being read.
#[no_mangle]
#[allow(improper_ctypes_definitions)]
unsafe extern "C" fn nvdla_core_show(drm: *mut bindings::drm_device, file: *mut bindings::seq_file) {
    // SAFETY: By this function's condition.
    let device: &drm::Device<Driver> = unsafe { drm::Device::from_raw(drm) };
    // SAFETY: As above; the reader holds it.
    (**device).show(unsafe { SeqFile::from_raw(file) });
}

/// The watchdog fired.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_expired(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.expired();
}
