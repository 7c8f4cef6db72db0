// SPDX-License-Identifier: GPL-2.0-only

//! Running a task on the device: its start, the ends of its operations, its end, and the notification of its client.
//!
//! Every function here runs under the accelerator's mutex.

use kernel::prelude::*;

use super::{
    accelerator::{
        Accelerator,
        RESET_RETRY_NS, //
    },
    engine::{
        Failure,
        Progress, //
    },
    ffi::Worker,
    job::Job,
    show::Show,
    state::{
        now_ns,
        Phase,
        Running,
        State, //
    },
    trace,
};

impl Accelerator {
    /// Lets the engine handle the interrupts so far. Ends the running task if it has completed.
    pub(super) fn process(&self, state: &mut State) {
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
                    self.finish(state, Ok(()));
                    return;
                }
                Progress::Waiting { poll } => {
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
        while matches!(state.phase, Phase::Idle) && !state.suspended && state.worker.is_some() {
            let Some(mut job) = state.clients.next() else { return };
            let (client, sequence) = (job.client, job.sequence);
            let now = now_ns();
            let deadline = job.deadline.from(now, self.default_timeout_ns());
            // If a fence failed or the deadline passed while the task was queued, the task fails without using the device.
            let refused = job.dependency().and_then(Result::err).or((deadline <= now).then_some(ETIMEDOUT));
            let deadline = deadline.max(now.saturating_add(self.min_timeout_ns()));
            let deadline = deadline.min(now.saturating_add(self.max_timeout_ns()));
            let task = job.task.take();
            state.phase = Phase::Running(Running { job, started_ns: now, orphan_until: None });
            let (Some(task), None) = (task, refused) else {
                self.finish(state, Err(refused.unwrap_or(EIO)));
                continue;
            };
            trace::task_start(&self.dev, client, sequence);
            if let Err(submission) = state.engine.submit(&mut self.hardware(), task, now, deadline) {
                // The engine is idle and was reset, and the task was validated for its configuration, so this cannot fail.
                if let Phase::Running(Running { job, .. }) = &mut state.phase {
                    job.task = Some(submission.task);
                }
                self.finish(state, Err(EIO));
                continue;
            }
            state.arm();
            self.process(state);
        }
    }

    /// Ends the running task, if there is one, with an error, and resets the device.
    ///
    /// If the bus cannot reset the device now, the task stays on the device and the watchdog tries again, because the device may
    /// still write the task's buffers. `held` means that the driver core holds the device for the caller, as during an unbinding
    /// and a suspend.
    pub(super) fn end_running(&self, state: &mut State, error: Error, held: bool) {
        let hardware = &mut self.hardware();
        let running = match core::mem::replace(&mut state.phase, Phase::Idle) {
            Phase::Running(mut running) => {
                running.job.task = state.engine.abort(hardware).map(|(task, _)| task);
                state.failed += 1;
                running
            }
            Phase::Ending(running, _) => running,
            other => {
                state.phase = other;
                return;
            }
        };
        let reset = state.power.reset(held);
        if reset.is_ok() {
            state.engine.reset();
            state.engine.adopt(hardware);
        } else if state.engine.is_idle(hardware) {
            // No reset is available, but the device's operations have ended.
            state.engine.adopt(hardware);
        } else if let (Err(EAGAIN), false, Some(worker)) = (reset, held, &state.worker) {
            worker.arm(RESET_RETRY_NS);
            state.phase = Phase::Ending(running, error);
            // If a suspend holds the device, the suspend can reset it.
            self.ended.notify_all();
            return;
        } else {
            if !state.power.isolate() {
                // SAFETY: The state is locked.
                unsafe { running.job.address_list.lose() };
            }
            state.phase = Phase::Dead;
            dev_err!(self.dev, "the device neither ends its operation nor can be reset: it takes no more tasks\n");
        }
        self.complete(state, running, Err(error));
        if matches!(state.phase, Phase::Dead) {
            self.fail_queued(state, EIO);
        }
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
