// SPDX-License-Identifier: MIT OR Apache-2.0

//! The runs of a session: its tasks in order, on the device or emulated.

use std::time::{Duration, Instant};

use super::error::Error;
use super::flight::{Limits, Stage};
use super::memory::range;
use super::options::{Completed, Report, RunOptions, TaskRun};
use super::plan::TaskPlan;
use super::state::Session;
use crate::{
    cancel::Cancel,
    device::{Buffers, Completion, Device, EmulatedMemory},
    emulator,
    loadable::Interface,
    operations::{self, races},
};

impl<D: Device> Session<D> {
    /// Runs the tasks in order.
    ///
    /// # Errors
    ///
    /// When a task is refused, fails, or does not end in time. The session can run again afterwards.
    pub fn run(&mut self) -> Result<Report, Error> {
        self.run_with(RunOptions::default())
    }

    /// Runs the tasks in order, with options.
    ///
    /// # Errors
    ///
    /// As [`Self::run`]; and when operations are to be observed on a device that cannot report them.
    pub fn run_with(&mut self, mut options: RunOptions<'_>) -> Result<Report, Error> {
        if options.on_operation.is_some() && !self.device.can_observe() {
            return Err(Error::CannotObserve { device: self.device.info().to_string() });
        }
        if !std::mem::replace(&mut self.warned, true) {
            self.warn();
        }
        let (timeout, run_timeout) = (options.timeout, options.run_timeout);
        let cancel = options.cancel.clone().unwrap_or_default();
        let limits = Limits::new(timeout, run_timeout, self.device.time_limit(), self.order.len(), cancel);
        self.device.stop_on(options.cancel.clone());
        let _run = tracing::debug_span!("run", device = %self.device.info(), tasks = self.order.len()).entered();
        let mut report = Report::default();
        let order = std::mem::take(&mut self.order);
        let result = order.iter().enumerate().try_for_each(|(done, &at)| {
            let timeout = limits.of_task(done)?;
            let started = Instant::now();
            let run = self.run_task(at, timeout, &mut options).map_err(|error| limits.explain(done, error))?;
            report.tasks.push(TaskRun { duration: started.elapsed(), ..run });
            Ok(())
        });
        self.order = order;
        self.device.stop_on(None);
        result.map(|()| report)
    }

    /// The tasks of a run, ready to be submitted.
    pub(super) fn stages(&mut self) -> Result<Vec<Stage>, Error> {
        if !std::mem::replace(&mut self.warned, true) {
            self.warn();
        }
        let once: std::collections::HashSet<_> = self.order.iter().collect();
        let changes = |task: &&TaskPlan| task.refill.is_some() || !self.device.keeps_graphs() && task.graph.is_some();
        if let Some(task) = self.tasks.iter().find(changes).filter(|_| once.len() < self.order.len()) {
            return Err(Error::Repeated { task: task.id });
        }
        for at in 0..self.tasks.len() {
            self.renew(at)?;
        }
        let stage = |&at: &usize| {
            let task = self.tasks.get(at)?;
            let addresses = self.addresses(task);
            Some(Stage { id: task.id, interface: task.interface, operations: task.operations, addresses })
        };
        Ok(self.order.iter().filter_map(stage).collect())
    }

    /// Logs warnings about properties of the loadable that make results differ from run to run or from device to device.
    fn warn(&self) {
        if let (true, Ok(races::Races { pairs, .. })) = (self.ordered.is_empty(), races::races(&self.loadable)) {
            if let Some(first) = pairs.first() {
                tracing::warn!(
                    "the loadable has races, so its results depend on how long operations take: {} pairs of operations \
                     access the same bytes in no fixed order, the first: {first}; the option order runs them in the \
                     list's order",
                    pairs.len()
                );
            }
        }
        for found in operations::statistics(&self.loadable).unwrap_or_default() {
            tracing::warn!("{found}: these bytes differ from run to run");
        }
    }

    fn run_task(
        &mut self,
        at: usize,
        timeout: Option<Duration>,
        options: &mut RunOptions<'_>,
    ) -> Result<TaskRun, Error> {
        let Some(&TaskPlan { id, interface, operations, .. }) = self.tasks.get(at) else {
            return Err(Error::Nothing { what: "such task" });
        };
        let _task = tracing::debug_span!("task", id, %interface, operations).entered();
        let operations = if interface == Interface::Emu1 {
            self.run_emulated(at, timeout.or(self.device.time_limit()), options.cancel.as_ref())?
        } else {
            self.run_on_device(at, timeout, options)?;
            operations
        };
        Ok(TaskRun { id, interface, duration: Duration::ZERO, operations })
    }

    fn run_on_device(
        &mut self,
        at: usize,
        timeout: Option<Duration>,
        options: &mut RunOptions<'_>,
    ) -> Result<(), Error> {
        self.renew(at)?;
        let Some(task) = self.tasks.get(at) else { return Ok(()) };
        let id = task.id;
        let addresses = self.addresses(task);
        let mut unsaved = None;
        let result = match &mut options.on_operation {
            None => self.device.submit(&addresses, timeout, None),
            Some(on_operation) => {
                let mut observer = |completion: Completion, buffers: &dyn Buffers| {
                    let Completion { operation, roi, unit, output, measured } = completion;
                    let surface = output.and_then(|(position, offset, size)| {
                        let address = addresses.get(position)?;
                        range(buffers.bytes(address.handle), address.offset.checked_add(offset)?, size)
                    });
                    let completed = Completed { task: id, operation, roi, unit, surface, measured };
                    if let Err(error) = on_operation(completed) {
                        unsaved.get_or_insert((operation, error));
                    }
                };
                self.device.submit(&addresses, timeout, Some(&mut observer))
            }
        };
        result.map_err(|source| Error::Task { task: id, source })?;
        match unsaved {
            Some((operation, source)) => Err(Error::Save { task: id, operation, source }),
            None => Ok(()),
        }
    }

    fn run_emulated(&mut self, at: usize, timeout: Option<Duration>, cancel: Option<&Cancel>) -> Result<usize, Error> {
        let Some(task) = self.tasks.get(at) else { return Ok(0) };
        let id = task.id;
        let addresses = self.addresses(task);
        let mut memory = EmulatedMemory::new(&mut self.device, addresses);
        let operations = emulator::run_within(&mut memory, timeout, cancel)
            .map_err(|source| Error::Emulated { task: id, source })?;
        Ok(operations.into())
    }
}
