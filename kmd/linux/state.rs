// SPDX-License-Identifier: GPL-2.0-only

//! The mutable state of a device: what it is doing, for which client, and who waits.

use kernel::{
    bindings,
    prelude::*, //
};

use super::{
    clients::Clients,
    engine::{
        Engine,
        Failure, //
    },
    ffi::{
        Power,
        Worker, //
    },
    job::{
        Job,
        Slots, //
    }, //
};

/// The clock of all deadlines: `CLOCK_MONOTONIC`, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    // SAFETY: May be called in any context of this module.
    unsafe { bindings::ktime_get() }.unsigned_abs()
}

/// The mutable state of a device, protected by the accelerator's mutex.
pub(crate) struct State {
    /// On the heap, because its copy of the registers takes a large part of a kernel stack.
    pub(crate) engine: KBox<Engine<Slots>>,
    pub(crate) power: Power,
    /// The works; `None` once the device has been stopped.
    pub(crate) worker: Option<Worker>,
    pub(crate) phase: Phase,
    /// Whether the machine sleeps or is about to: no task is started.
    pub(crate) suspended: bool,
    /// Whether somebody else resets the device: no task is started.
    pub(crate) in_reset: bool,
    /// Whether a work attaches a client's domain, without the lock: no task is given to the device.
    pub(crate) attaching: bool,
    pub(crate) clients: Clients,
    /// What the last task that was ended by the driver was doing.
    pub(crate) last_failure: Option<Failure>,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
}

/// The activity of the device.
pub(crate) enum Phase {
    /// It waits for a task.
    Idle,
    /// It runs one, or is about to.
    Running(Running),
    /// A task was ended, but the device was not reset yet.
    Ending(Ending),
    /// The device could not be reset, and runs no more tasks.
    Dead,
}

/// A task that was ended and that the device may still be running.
pub(crate) struct Ending {
    pub(crate) running: Running,
    /// How it ended.
    pub(crate) error: Error,
    /// Whether a thread is resetting the device, without the lock.
    pub(crate) resetting: bool,
}

/// The task on the device. Its buffers are kept until it has ended.
pub(crate) struct Running {
    pub(crate) job: KBox<Job>,
    pub(crate) started_ns: u64,
    /// The time until which the task may continue after its client has closed the file.
    pub(crate) orphan_until: Option<u64>,
}

impl State {
    /// The result of a client's task; `None` while it has not ended.
    pub(crate) fn outcome(&mut self, client: u64, sequence: u64) -> Result<Option<Result>> {
        let gone = self.worker.is_none();
        match self.clients.queue(client).ok_or(ENODEV)?.outcome(sequence)? {
            None if gone => Err(ENODEV),
            outcome => Ok(outcome),
        }
    }

    /// Whether the client may queue this many tasks now.
    pub(crate) fn has_room(&mut self, client: u64, tasks: usize) -> Result {
        if self.worker.is_none() {
            return Err(ENODEV);
        }
        if matches!(self.phase, Phase::Dead) {
            return Err(EIO);
        }
        let queue = self.clients.queue(client).ok_or(ENODEV)?;
        if queue.is_banned() {
            return Err(ECANCELED);
        }
        if queue.is_full(tasks) {
            Err(EBUSY)
        } else {
            Ok(())
        }
    }

    /// Looks after the running task shortly.
    pub(crate) fn kick(&self) {
        if let Some(worker) = &self.worker {
            worker.kick();
        }
    }

    /// The task on the device.
    pub(crate) fn running(&self) -> Option<&Running> {
        match &self.phase {
            Phase::Running(running) | Phase::Ending(Ending { running, .. }) => Some(running),
            Phase::Idle | Phase::Dead => None,
        }
    }

    /// The task that was chosen and that the engine does not have yet.
    pub(crate) fn chosen(&self) -> Option<&Job> {
        match &self.phase {
            Phase::Running(Running { job, .. }) if job.task.is_some() => Some(job),
            _ => None,
        }
    }

    /// Whether a thread is resetting the device.
    pub(crate) fn is_resetting(&self) -> bool {
        matches!(self.phase, Phase::Ending(Ending { resetting: true, .. }))
    }

    /// Queues the work that frees ended jobs. It runs without any of the driver's locks.
    pub(crate) fn clean(&self) {
        if let Some(worker) = &self.worker {
            worker.clean();
        }
    }

    /// The time at which the running task must be ended.
    pub(crate) fn end_ns(&self) -> u64 {
        match &self.phase {
            // The engine's deadline is that of the task before.
            Phase::Running(Running { job, orphan_until, .. }) if job.task.is_some() => orphan_until.unwrap_or(u64::MAX),
            Phase::Running(Running { orphan_until: Some(until), .. }) => self.engine.deadline_ns().min(*until),
            _ => self.engine.deadline_ns(),
        }
    }

    /// Arms the watchdog for the running task.
    pub(crate) fn arm(&self) {
        if let (Some(worker), Phase::Running(_)) = (&self.worker, &self.phase) {
            worker.arm(self.end_ns().saturating_sub(now_ns()));
        }
    }
}
