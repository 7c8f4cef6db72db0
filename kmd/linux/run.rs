// SPDX-License-Identifier: GPL-2.0-only

//! Running a task on the device: its start, the ends of its operations, its end, and the notification of its client.
//!
//! Every function here runs under the accelerator's mutex. A reset may take long, so the mutex is free meanwhile.

use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    },
};

use super::{
    accelerator::{
        Accelerator,
        Locked,
        IDLE_POLL,
        IDLE_POLLS,
        RESET_RETRY_NS, //
    },
    engine::{
        Failure,
        Progress, //
    },
    ffi::{
        Domain,
        Worker, //
    },
    job::Job,
    show::Show,
    state::{
        now_ns,
        Ending,
        Phase,
        Running,
        State, //
    },
    trace,
};

/// How often, and after which time each, a device is looked at that is not ready for an operation, before the worker does.
const READY_POLLS: u32 = 10;
const READY_POLL: Delta = Delta::from_micros(20);

/// Why a device is given up.
const UNSTOPPABLE: &str = "the device neither ends its operation nor can be reset";

impl Accelerator {
    /// Lets the engine handle the interrupts so far. Ends the running task if it has completed.
    pub(super) fn process(&self, state: &mut State) {
        let mut polls = 0;
        loop {
            match state.engine.process_events(&mut self.hardware(), now_ns()) {
                Progress::Completed { operation, unit, .. } => trace::operation_end(&self.dev, operation, unit as u8),
                Progress::Ended(task) => {
                    if let Phase::Running(Running { job, .. }) = &mut state.phase {
                        // Validation has checked that the list is inside its buffer.
                        let _ = task.write_statistics(&mut job.address_list);
                        job.task = Some(task);
                    }
                    state.completed += 1;
                    if let Some(queue) =
                        state.running().map(|running| running.job.client).and_then(|client| state.clients.queue(client))
                    {
                        queue.used(false);
                    }
                    self.finish(state, Ok(()));
                    return;
                }
                Progress::Waiting { poll } => {
                    if poll && polls < READY_POLLS {
                        polls += 1;
                        fsleep(READY_POLL);
                        continue;
                    }
                    if poll {
                        state.kick();
                    }
                    // A device that is gone raises no interrupt, so the work must check again.
                    if let (true, Some(worker)) = (state.engine.is_gone(), &state.worker) {
                        worker.arm(0);
                    }
                    return;
                }
                Progress::Idle => return,
            }
        }
    }

    /// Gives the device to the next client whose first task is ready.
    pub(super) fn start_next(&self, state: &mut State) {
        while matches!(state.phase, Phase::Idle) && !state.suspended && !state.in_reset && state.worker.is_some() {
            let Some(job) = state.clients.next() else { return };
            let client = job.client;
            let now = now_ns();
            let is_late = job.deadline.from(now, self.default_timeout_ns()) <= now;
            // If a fence failed or the deadline passed while the task was queued, the task fails without using the device.
            let refused = job.dependency().and_then(Result::err).or(is_late.then_some(ETIMEDOUT));
            let banned = state.clients.queue(client).is_some_and(|queue| queue.is_banned());
            let refused = refused.or(banned.then_some(ECANCELED));
            let is_attached = job.address_list.domain().is_none_or(Domain::is_attached);
            state.phase = Phase::Running(Running { job, started_ns: now, orphan_until: None });
            if let Some(error) = refused {
                self.finish(state, Err(error));
            } else if is_attached && !state.attaching {
                self.launch(state);
            } else if let Some(worker) = &state.worker {
                worker.attach();
            }
        }
    }

    /// Starts the task that was chosen.
    pub(super) fn launch(&self, state: &mut State) {
        let Phase::Running(Running { job, .. }) = &mut state.phase else { return };
        let now = now_ns();
        let deadline = job.deadline.from(now, self.default_timeout_ns());
        let deadline = deadline.max(now.saturating_add(self.min_timeout_ns()));
        let deadline = deadline.min(now.saturating_add(self.max_timeout_ns()));
        trace::task_start(&self.dev, job.client, job.sequence);
        let Some(task) = job.task.take() else {
            self.finish(state, Err(EIO));
            return;
        };
        if let Err(submission) = state.engine.submit(&mut self.hardware(), task, now, deadline) {
            // The engine is idle and was reset, and the task was validated for its configuration, so this cannot fail.
            job.task = Some(submission.task);
            self.finish(state, Err(EIO));
            return;
        }
        state.arm();
        self.process(state);
    }

    /// Takes the running task, if there is one, from the engine: it is to end with an error. The device may still be running it.
    pub(super) fn abort(&self, state: &mut State, error: Error) {
        match core::mem::replace(&mut state.phase, Phase::Idle) {
            // The device has not seen a task that was chosen and not started.
            Phase::Running(running) if running.job.task.is_some() => {
                state.failed += 1;
                self.complete(state, running, Err(error));
            }
            Phase::Running(mut running) => {
                running.job.task = state.engine.abort(&mut self.hardware()).map(|(task, _)| task);
                state.failed += 1;
                state.phase = Phase::Ending(Ending { running, error, resetting: false });
            }
            other => state.phase = other,
        }
    }

    /// Ends the running task, if there is one, with an error, and resets the device. The mutex is free during the reset.
    ///
    /// If the bus cannot reset the device now, the task stays on the device and the watchdog tries again, because the device may
    /// still write the task's buffers. `held` means that the driver core holds the device for the caller, as during an unbinding
    /// and a suspend. Such a caller waits until the reset of another thread has ended.
    pub(super) fn end_running<'a>(&'a self, mut state: Locked<'a>, error: Error, held: bool) -> Locked<'a> {
        self.abort(&mut state, error);
        while held && state.is_resetting() {
            self.ended.wait(&mut state);
        }
        // Whoever else resets the device concludes this. They hold the device meanwhile, except for the bus between the steps of its
        // recovery from an error.
        let is_others = state.in_reset && !held;
        match &mut state.phase {
            Phase::Ending(ending) if !ending.resetting && !is_others => ending.resetting = true,
            _ => return state,
        }
        let (mut state, result) = self.reset(state, held);
        self.conclude(&mut state, result, held);
        state
    }

    /// Resets the device. The mutex is free during the reset. An operation may end just before it, and the interrupt's handler then
    /// finds the device in reset. It must not access registers, because on some buses such an access is an error.
    pub(super) fn reset<'a>(&'a self, state: Locked<'a>, held: bool) -> (Locked<'a>, Result) {
        let reset = state.power.reset();
        self.interrupts.lock().set_accessible(false);
        drop(state);
        let result = reset.run(held);
        let state = self.state.lock();
        // Whoever else resets the device says when that has ended.
        if !state.in_reset {
            self.interrupts.lock().set_accessible(true);
        }
        (state, result)
    }

    /// A reset has ended with that result: completes the task that was ended, if the device does not run it any more.
    ///
    /// The result is not relied on. Behind the endpoint that a bus resets, the device may go on.
    pub(super) fn conclude(&self, state: &mut State, result: Result, held: bool) {
        if let (true, false, Phase::Ending(ending)) = (state.in_reset, held, &mut state.phase) {
            // Somebody else has begun to reset the device, and concludes this.
            ending.resetting = false;
            self.ended.notify_all();
            return;
        }
        let idle = self.is_idle(state);
        let Phase::Ending(ending) = &mut state.phase else { return };
        if let (false, Err(EAGAIN), false, Some(worker)) = (idle, result, held, &state.worker) {
            worker.arm(RESET_RETRY_NS);
            ending.resetting = false;
            // If a suspend holds the device, the suspend can reset it.
            self.ended.notify_all();
            return;
        }
        let ended = if idle {
            self.adopt(state);
            core::mem::replace(&mut state.phase, Phase::Idle)
        } else {
            // SAFETY: The state is locked.
            unsafe { ending.running.job.address_list.lose() };
            self.die(state)
        };
        if let Phase::Ending(Ending { running, error, .. }) = ended {
            if let (ETIMEDOUT, Some(queue)) = (error, state.clients.queue(running.job.client)) {
                queue.used(true);
            }
            self.complete(state, running, Err(error));
        }
        if matches!(state.phase, Phase::Dead) {
            self.fail_queued(state, EIO);
        }
    }

    /// The device cannot be stopped: it is isolated, and runs no more tasks. Returns what it was doing.
    fn die(&self, state: &mut State) -> Phase {
        self.isolate(state);
        dev_err!(self.dev, "{UNSTOPPABLE}: it takes no more tasks\n");
        core::mem::replace(&mut state.phase, Phase::Dead)
    }

    /// Isolates a device that cannot be stopped, as far as its bus allows, and keeps evidence of it.
    fn isolate(&self, state: &mut State) {
        state.power.isolate();
        self.keep_evidence(state, UNSTOPPABLE);
        state.clean();
    }

    /// Whether no unit of the device runs anything, now or within a few milliseconds. Only then does it not access memory.
    pub(super) fn is_idle(&self, state: &State) -> bool {
        for _ in 0..IDLE_POLLS {
            if state.engine.is_idle(&mut self.hardware()) {
                return true;
            }
            fsleep(IDLE_POLL);
        }
        false
    }

    /// The device was reset or without power, and nobody knows what its registers hold. A device that could not be stopped before
    /// may have been stopped by that.
    pub(super) fn take_over(&self, state: &mut State) {
        match (self.is_idle(state), &state.phase) {
            (true, Phase::Dead) => {
                self.adopt(state);
                state.phase = Phase::Idle;
                dev_info!(self.dev, "the device is idle again: it takes tasks\n");
            }
            (true, _) => self.adopt(state),
            // Whoever has reset the device may have restored the bit by which it masters the bus.
            (false, Phase::Dead) => self.isolate(state),
            (false, _) => {
                self.die(state);
                self.fail_queued(state, EIO);
            }
        }
    }

    /// Brings the registers of an idle device to a known state, and lets it access memory: a reset of the bus may have taken that.
    fn adopt(&self, state: &mut State) {
        state.engine.adopt(&mut self.hardware());
        state.power.connect();
    }

    /// Fails the queued tasks of a device that is dead or being removed.
    pub(super) fn fail_queued(&self, state: &mut State, error: Error) {
        state.clients.end_all(|queue| {
            while let Some(mut job) = queue.pop() {
                queue.end(job.sequence, Err(error));
                job.fence.signal(Err(error));
                self.garbage.lock().push(job);
            }
        });
        state.clean();
        self.ended.notify_all();
    }

    /// Ends the running task with a result, after which the device is free.
    pub(super) fn finish(&self, state: &mut State, result: Result) {
        match core::mem::replace(&mut state.phase, Phase::Idle) {
            Phase::Running(running) => self.complete(state, running, result),
            other => state.phase = other,
        }
    }

    /// Notifies the client and all waiters that a task has ended.
    pub(super) fn complete(&self, state: &mut State, running: Running, result: Result) {
        let Running { mut job, started_ns, .. } = running;
        if let Some(worker) = &state.worker {
            worker.disarm();
        }
        let busy = now_ns().saturating_sub(started_ns);
        if let Some(queue) = state.clients.queue(job.client) {
            queue.busy_ns += busy;
            queue.end(job.sequence, result);
        }
        job.fence.signal(result);
        trace::task_end(&self.dev, job.client, job.sequence, result, busy);
        self.garbage.lock().push(job);
        state.clean();
        self.ended.notify_all();
    }

    /// Logs why the running task is ended, unless its client has caused too many such messages recently.
    pub(super) fn report(&self, state: &State, failure: &Failure) {
        let Phase::Running(Running { job, .. }) = &state.phase else { return };
        if state.worker.as_ref().is_some_and(Worker::may_log) {
            let Job { client, process, sequence, .. } = &**job;
            dev_err!(
                self.dev,
                "client {} ({}): task {} ended by the driver: {}\n",
                client,
                process,
                sequence,
                Show(failure)
            );
        }
    }
}
