// SPDX-License-Identifier: MIT OR Apache-2.0

//! A task from its submission to its end, on a device that the engine of this process drives.

use std::io;
use std::time::{Duration, Instant};

use nvdla_engine::{OutOfRange, Progress, Slot, SubmitError, Task};
use nvdla_estimate::Measured;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;

use super::error::Error;
use super::spans::Operations;
use super::store::{Buffer, Store};
use super::tasks::{AddressList, Refusal, Tasks, Ticket};
use super::types::{AddressEntry, Completion, Observer, TaskReport};

/// An operation that has completed: its number, its region of interest and its unit, and where it has written.
pub(super) struct Done {
    pub(super) operation: u32,
    pub(super) roi: u32,
    pub(super) unit: OpType,
    /// Position in the address list, offset in bytes from there, and size in bytes.
    pub(super) output: Option<(usize, u64, u64)>,
}

/// The time of a task.
pub(super) struct Clock {
    started: Instant,
    pub(super) limit: Duration,
}

impl Clock {
    /// A task that begins now and has that time.
    fn new(limit: Duration) -> Self {
        Self { started: Instant::now(), limit }
    }

    /// The end of its time; none if that is beyond the clock's range.
    pub(super) fn end(&self) -> Option<Instant> {
        self.started.checked_add(self.limit)
    }

    /// Nanoseconds since its start.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Its limit in nanoseconds.
    pub(super) fn deadline(&self) -> u64 {
        u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A device that the engine of this process drives.
pub(super) trait Driven {
    /// Its configuration.
    fn config(&self) -> &'static Config;

    /// Its name in messages.
    fn name(&self) -> String;

    /// Its buffers, and the tasks that were validated.
    fn parts(&mut self) -> (&mut Store, &mut Tasks);

    /// Prepares the device for a task.
    fn prepare(&mut self, ticket: &Ticket, task: &Task<Vec<Slot>>, addresses: &[AddressEntry]) -> Result<(), Error>;

    /// Gives the engine a task.
    fn start(&mut self, task: Task<Vec<Slot>>, now: u64, deadline: u64) -> Result<(), SubmitError>;

    /// Lets the engine process its next event.
    fn process(&mut self, now: u64) -> Progress<Vec<Slot>>;

    /// An operation has completed: its bytes are made visible. Returns what was measured.
    fn completed(&mut self, done: &Done, addresses: &[AddressEntry]) -> Option<Measured>;

    /// The task has ended.
    fn ended(&mut self, ticket: &Ticket) {
        let _ = ticket;
    }

    /// Lets the device work after the engine has processed all its events, as of the time `now`. `poll` is whether the engine must look again without an
    /// interrupt, and `progressed` is whether it has completed an operation.
    fn advance(&mut self, ticket: &Ticket, clock: &Clock, now: u64, poll: bool, progressed: bool) -> Result<(), Error>;
}

/// Runs a task.
pub(super) fn run(
    device: &mut impl Driven,
    addresses: &[AddressEntry],
    limit: Duration,
    mut observer: Option<Observer<'_>>,
) -> Result<TaskReport, Error> {
    let config = device.config();
    let (store, tasks) = device.parts();
    for (position, entry) in addresses.iter().enumerate() {
        let size = store.get(entry.handle).map(Buffer::size);
        let end = entry.offset.checked_add(entry.size);
        if !matches!((size, end), (Some(size), Some(end)) if end <= size) {
            return Err(Error::Address { position });
        }
    }
    let (ticket, task) = match tasks.take(config, store, addresses) {
        Ok(ready) => ready,
        Err(Refusal::Task(error)) => return Err(Error::Refused(error)),
        Err(Refusal::Slots(slots)) => {
            let (size, source) = ((slots * size_of::<Slot>()) as u64, io::ErrorKind::OutOfMemory.into());
            return Err(Error::Allocate { size, device: device.name(), source });
        }
    };
    device.prepare(&ticket, &task, addresses)?;
    let clock = Clock::new(limit);
    let mut operations = Operations::new(task.operations());
    device.start(task, clock.now(), clock.deadline()).map_err(Error::NotTaken)?;
    let mut completed = 0;
    loop {
        let (before, now) = (completed, clock.now());
        let poll = loop {
            match device.process(now) {
                Progress::Completed { operation, roi, unit, output } => {
                    completed += 1;
                    operations.completed(operation, roi, unit);
                    let output = output.map(|region| (usize::from(region.address), region.offset, region.size));
                    let measured = device.completed(&Done { operation, roi, unit, output }, addresses);
                    if let Some(observer) = &mut observer {
                        let (operation, roi) = (operation as usize, roi as usize);
                        observer(Completion { operation, roi, unit, output, measured }, device.parts().0);
                    }
                }
                Progress::Ended(task) => {
                    let written = task.write_statistics(&mut AddressList::new(device.parts().0, addresses));
                    device.ended(&ticket);
                    device.parts().1.keep(ticket, task);
                    written.map_err(|OutOfRange| Error::Statistics)?;
                    return Ok(TaskReport { operations: Some(completed) });
                }
                Progress::Waiting { poll } => break poll,
                Progress::Idle => return Ok(TaskReport { operations: Some(completed) }),
            }
        };
        device.advance(&ticket, &clock, now, poll, completed != before)?;
    }
}
