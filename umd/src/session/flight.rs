// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs in flight: tasks that the device has, and tasks that wait for them.
//!
//! Tasks for NVDLA are added to the device's queue. If the driver has a queue, consecutive tasks are all queued at once, and each
//! waits for the fence of the previous one. An emulated task begins when the fence of the previous task has signalled. A thread
//! of the shared device computes it, while the device runs tasks of other contexts.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tracing::Span;

use super::error::Error;
use super::options::{Report, TaskRun};
use crate::cancel::Cancel;
use crate::device::{lock, AddressEntry, EmulatedMemory, Fence, Follow, Holding, Shared, Signal, Waited};
use crate::emulator;
use crate::loadable::Interface;

/// The time limits of a run.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    began: Instant,
    /// The limit of each task.
    task: Option<Duration>,
    /// The limit of the whole run.
    run: Option<Duration>,
    /// Whether the caller gave the limit of the whole run.
    is_given: bool,
    /// Number of tasks of the run.
    of: usize,
    cancel: Cancel,
}

impl Limits {
    /// The limits for a run of `of` tasks that begins now, from the caller's values and the device's own limit `own`.
    pub(super) fn new(
        task: Option<Duration>,
        run: Option<Duration>,
        own: Option<Duration>,
        of: usize,
        cancel: Cancel,
    ) -> Self {
        let longest = |own: Duration| task.map_or(own, |task| task.max(own));
        Self { began: Instant::now(), task, run: run.or(own.map(longest)), is_given: run.is_some(), of, cancel }
    }

    fn late(&self, limit: Duration, done: usize) -> Error {
        Error::RunTime { limit, done, of: self.of }
    }

    /// The time limit of a task that begins now, after `done` others; none for the device's own limit.
    pub(super) fn of_task(&self, done: usize) -> Result<Option<Duration>, Error> {
        if self.cancel.is_cancelled() {
            return Err(Error::Cancelled { done, of: self.of });
        }
        let left = self.run.map(|limit| limit.saturating_sub(self.began.elapsed()));
        if let (Some(limit), Some(Duration::ZERO)) = (self.run, left) {
            return Err(self.late(limit, done));
        }
        // The device enforces its own limit, which is about as long as the default limit of a run.
        Ok(match (self.task, left.filter(|_| self.is_given)) {
            (Some(limit), Some(left)) => Some(limit.min(left)),
            (limit, left) => limit.or(left),
        })
    }

    /// The error of a task after `done` others. If the run's time is over, it is the run's error.
    pub(super) fn explain(&self, done: usize, error: Error) -> Error {
        match self.run {
            Some(limit) if error.is_timeout() && self.began.elapsed() >= limit => self.late(limit, done),
            _ => error,
        }
    }
}

/// A task that is ready to run.
pub(super) struct Stage {
    pub(super) id: u16,
    pub(super) interface: Interface,
    pub(super) operations: usize,
    pub(super) addresses: Vec<AddressEntry>,
}

impl Stage {
    fn run(&self) -> TaskRun {
        TaskRun { id: self.id, interface: self.interface, duration: Duration::ZERO, operations: self.operations }
    }

    /// The span of the task.
    fn span(&self, of: &Span) -> Span {
        let Self { id, interface, operations, .. } = self;
        tracing::debug_span!(parent: of, "task", id, %interface, operations)
    }
}

/// A task in the device's queue.
pub(super) struct Queued {
    run: TaskRun,
    since: Instant,
    fence: Fence,
    /// The task's span, which ends when the end of the task is noticed.
    span: Span,
}

impl Queued {
    fn ended(&self, result: Result<impl Sized, crate::device::Error>) -> Result<TaskRun, Error> {
        match result {
            Ok(_) => Ok(TaskRun { duration: self.since.elapsed(), ..self.run }),
            Err(source) => Err(Error::Task { task: self.run.id, source }),
        }
    }
}

/// The remaining tasks of a submitted run.
struct Flight {
    shared: Shared,
    held: Holding,
    limits: Limits,
    /// The run's span.
    span: Span,
    waiting: VecDeque<Stage>,
    queued: VecDeque<Queued>,
    /// Why a task could not be queued.
    broken: Option<Error>,
    report: Report,
    signal: Arc<Signal<Result<Report, Error>>>,
}

impl Flight {
    /// Queues the tasks that can be queued now.
    fn queue(&mut self) -> Result<(), Error> {
        while let Some(stage) = self.waiting.front() {
            let can = self.queued.is_empty() || self.shared.has_queue();
            if stage.interface == Interface::Emu1 || !can {
                break;
            }
            let done = self.report.tasks.len() + self.queued.len();
            let run = stage.run();
            let timeout = self.limits.of_task(done)?;
            let Some(stage) = self.waiting.pop_front() else { break };
            let after = self.queued.back().map(|queued| &queued.fence);
            let since = Instant::now();
            let span = stage.span(&self.span);
            let fence = self
                .shared
                .queue(&self.held, stage.addresses, (timeout, self.limits.cancel.clone()), after, &span)
                .map_err(|source| Error::Task { task: run.id, source })?;
            self.queued.push_back(Queued { run, since, fence, span });
        }
        Ok(())
    }

    /// Continues as far as possible without waiting. Returns the result if the run has ended.
    fn go_on(&mut self) -> Option<Result<Report, Error>> {
        loop {
            let done = self.report.tasks.len();
            let fail = |limits: &Limits, error| Some(Err(limits.explain(done, error)));
            if let Some(queued) = self.queued.front() {
                match fenced(queued) {
                    Waited::NotYet => return None,
                    Waited::Ended(Ok(run)) => self.report.tasks.push(run),
                    Waited::Ended(Err(error)) => return fail(&self.limits, error),
                }
                self.queued.pop_front();
                continue;
            }
            if let Some(error) = self.broken.take() {
                return fail(&self.limits, error);
            }
            match self.waiting.front() {
                None => return Some(Ok(std::mem::take(&mut self.report))),
                Some(stage) if stage.interface == Interface::Emu1 => {
                    let limit = match self.limits.of_task(done) {
                        Ok(limit) => limit.or(self.limits.run),
                        Err(error) => return Some(Err(error)),
                    };
                    let started = Instant::now();
                    let _task = stage.span(&self.span).entered();
                    let mut memory = EmulatedMemory::new(Arc::clone(&self.held), stage.addresses.clone());
                    match emulator::run_within(&mut memory, limit, Some(&self.limits.cancel)) {
                        Ok(operations) => self.report.tasks.push(TaskRun {
                            duration: started.elapsed(),
                            operations: operations.into(),
                            ..stage.run()
                        }),
                        Err(source) => return fail(&self.limits, Error::Emulated { task: stage.id, source }),
                    }
                    self.waiting.pop_front();
                }
                Some(_) => {
                    if let Err(error) = self.queue() {
                        self.waiting.clear();
                        self.broken = Some(error);
                    }
                }
            }
        }
    }

    /// After the signal, the waiting thread may free or access the run's memory at once.
    fn finish(self, result: Result<Report, Error>) {
        let Self { signal, held, shared, queued, span, .. } = self;
        drop((held, shared, queued, span));
        signal.set(result);
    }
}

fn fenced(queued: &Queued) -> Waited<Result<TaskRun, Error>> {
    match queued.fence.wait(Some(Instant::now())) {
        Waited::NotYet => Waited::NotYet,
        Waited::Ended(result) => Waited::Ended(queued.ended(result)),
    }
}

impl Follow for Flight {
    fn fence(&self) -> BorrowedFd<'_> {
        self.queued.front().map_or(self.signal.as_fd(), |queued| queued.fence.as_fd())
    }

    fn advance(mut self: Box<Self>) -> Option<Box<dyn Follow>> {
        match self.go_on() {
            None => Some(self),
            Some(result) => {
                self.finish(result);
                None
            }
        }
    }
}

/// A run that was submitted.
pub(super) enum InFlight {
    /// One task; the run uses its fence.
    Direct {
        queued: Box<Queued>,
        limits: Limits,
        /// The task's span, until the result is returned to a caller.
        open: Mutex<Option<Span>>,
    },
    /// Several tasks, which a thread runs.
    Followed(Arc<Signal<Result<Report, Error>>>, Cancel),
}

impl InFlight {
    /// Submits tasks in order for the holder of these buffers.
    pub(super) fn launch(shared: &Shared, held: &Holding, stages: Vec<Stage>, limits: Limits) -> Result<Self, Error> {
        let signal = Signal::new().map_err(|source| Error::Wait { source })?;
        let cancel = limits.cancel.clone();
        let mut flight = Flight {
            shared: shared.clone(),
            held: Arc::clone(held),
            limits: limits.clone(),
            span: tracing::debug_span!("run", device = %shared.info(), tasks = stages.len()),
            waiting: stages.into(),
            queued: VecDeque::new(),
            broken: None,
            report: Report::default(),
            signal: Arc::clone(&signal),
        };
        if let Err(error) = flight.queue() {
            if flight.queued.is_empty() {
                return Err(error);
            }
            // The tasks that are already queued must end first.
            flight.waiting.clear();
            flight.broken = Some(error);
        }
        if flight.waiting.is_empty() && flight.queued.len() == 1 && flight.broken.is_none() {
            if let Some(mut queued) = flight.queued.pop_front() {
                let open = Mutex::new(Some(std::mem::replace(&mut queued.span, Span::none())));
                return Ok(Self::Direct { queued: Box::new(queued), limits, open });
            }
        }
        shared.follow(Box::new(flight)).map_err(|source| Error::Follow { source })?;
        Ok(Self::Followed(signal, cancel))
    }

    /// Ends the run.
    pub(super) fn cancel(&self) {
        match self {
            Self::Direct { limits, .. } => limits.cancel.cancel(),
            Self::Followed(_, cancel) => cancel.cancel(),
        }
    }

    /// Whether the run has ended.
    pub(super) fn is_ended(&self) -> bool {
        match self {
            Self::Direct { queued, .. } => queued.fence.is_ended(),
            Self::Followed(signal, _) => signal.is_set(),
        }
    }

    /// Waits for the run's end. Returns its result once.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> Result<Report, Error> {
        match self {
            Self::Followed(signal, _) => match signal.take(deadline) {
                Waited::NotYet => Err(Error::NotYet),
                Waited::Ended(result) => result.ok_or(Error::Taken)?,
            },
            Self::Direct { queued, limits, open } => {
                // Other threads may wait too, so nothing is locked during the wait.
                if lock(open).is_some() && !queued.fence.ends(deadline) {
                    return Err(Error::NotYet);
                }
                let mut open = lock(open);
                if open.is_none() {
                    return Err(Error::Taken);
                }
                match queued.fence.wait(Some(Instant::now())) {
                    Waited::NotYet => Err(Error::NotYet),
                    Waited::Ended(result) => {
                        *open = None;
                        let run = queued.ended(result).map_err(|error| limits.explain(0, error))?;
                        Ok(Report { tasks: vec![run] })
                    }
                }
            }
        }
    }
}

impl AsFd for InFlight {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Direct { queued, .. } => queued.fence.as_fd(),
            Self::Followed(signal, _) => signal.as_fd(),
        }
    }
}
