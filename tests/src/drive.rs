// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs a task on a device of a test, as a driver would, and measures the cost.

use nvdla_engine::{Engine, Hardware, Progress, Slot, Task};
use nvdla_model::simulation::Simulation;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;

use crate::mock::{Access, Mock};

/// An operation that completed: index, region, unit.
pub type Done = (u32, u32, OpType);

/// A device with state `S` that a function answers: it gets the offset of a register and the value of a write, and returns the
/// value of a read.
#[derive(Debug)]
pub struct Double<S, F>(pub S, pub F);

impl<S, F: FnMut(&mut S, u32, Option<u32>) -> u32> Hardware for Double<S, F> {
    #[inline(never)]
    fn read(&mut self, offset: u32) -> u32 {
        (self.1)(&mut self.0, offset, None)
    }

    #[inline(never)]
    fn write(&mut self, offset: u32, value: u32) {
        (self.1)(&mut self.0, offset, Some(value));
    }
}

/// The function of a [`Double`].
pub type Answer<S> = fn(&mut S, u32, Option<u32>) -> u32;

/// A simulation as the engine's device.
pub fn simulated<S: Simulation>(simulation: S) -> Double<S, Answer<S>> {
    Double(simulation, |simulation, offset, written| match written {
        None => simulation.read(offset),
        Some(value) => {
            simulation.write(offset, value);
            0
        }
    })
}

/// Runs the submitted task to its end. `completed` is called for each operation that completes. When the engine has no more events,
/// `work` lets the device work; it is told whether the engine must look again without an interrupt. The result is `None` if the
/// engine has no task.
///
/// # Errors
///
/// Those of `work`.
pub fn drive<H: Hardware, E>(
    engine: &mut Engine<Vec<Slot>>,
    device: &mut H,
    mut completed: impl FnMut(&mut H, Done),
    mut work: impl FnMut(&mut Engine<Vec<Slot>>, &mut H, bool) -> Result<(), E>,
) -> Result<Option<Task<Vec<Slot>>>, E> {
    loop {
        match engine.process_events(device, 0) {
            Progress::Completed { operation, roi, unit, .. } => completed(device, (operation, roi, unit)),
            Progress::Ended(task) => return Ok(Some(task)),
            Progress::Waiting { poll } => work(engine, device, poll)?,
            Progress::Idle => return Ok(None),
        }
    }
}

/// The device is idle, and its task has not ended.
struct Idle;

/// Runs the submitted task to its end. Returns the task and its operations in the order in which they completed. The task is
/// `None` if the device is idle and the task has not ended.
pub fn finish(engine: &mut Engine<Vec<Slot>>, mock: &mut Mock) -> (Option<Task<Vec<Slot>>>, Vec<Done>) {
    let mut order = Vec::new();
    let completed = |_: &mut Mock, done| order.push(done);
    let task = drive(engine, mock, completed, |engine, mock, poll| {
        if !poll && !mock.step() && !mock.line() {
            return Err(Idle);
        }
        if mock.line() {
            engine.interrupt(mock);
        }
        Ok(())
    });
    (task.unwrap_or(None), order)
}

/// Recorded answers of a device, with a small, constant cost per access.
#[derive(Debug)]
struct Replay {
    reads: Vec<u32>,
    at: usize,
    written: u32,
}

impl Replay {
    fn answer(&mut self, _: u32, written: Option<u32>) -> u32 {
        match written {
            None => {
                let value = self.reads.get(self.at).copied().unwrap_or(0);
                self.at += 1;
                value
            }
            Some(value) => {
                self.written ^= value;
                0
            }
        }
    }
}

/// The cost of a task's runs, and an engine that can repeat them.
#[derive(Debug)]
pub struct Measure {
    engine: Engine<Vec<Slot>>,
    task: Option<Task<Vec<Slot>>>,
    /// Writes and reads of the first run after reset, and of each later one.
    pub accesses: [(usize, usize); 2],
    /// Interrupts of a run.
    pub interrupts: usize,
    /// Operations of the task.
    pub operations: u32,
    /// For runs that begin with the device's current register groups, and for runs after them: after a task with an odd number of
    /// operations a unit uses its other group next.
    replays: [Double<Replay, Answer<Replay>>; 2],
    runs: usize,
}

impl Measure {
    /// Runs a task a few times on the mock.
    ///
    /// # Panics
    ///
    /// When the task does not end.
    pub fn new(config: &'static Config, task: Task<Vec<Slot>>) -> Self {
        let (mut engine, mut mock) = (Engine::new(config), Mock::new(config));
        let operations = task.operations();
        let (mut task, mut answers, mut costs, mut interrupts) = (task, Vec::new(), Vec::new(), 0);
        for _ in 0..4 {
            mock.log.clear();
            engine.submit(&mut mock, task, 0, u64::MAX).expect("the engine is free");
            interrupts = 0;
            let ended = drive(
                &mut engine,
                &mut mock,
                |_, _| {},
                |engine, mock, _| {
                    interrupts += usize::from(mock.step());
                    if engine.interrupt(mock) {
                        Ok(())
                    } else {
                        Err(Idle)
                    }
                },
            );
            task = ended.ok().flatten().expect("the task ends");
            costs.push((mock.writes(), mock.reads()));
            let value = |access: &Access| if let Access::Read(_, value) = *access { Some(value) } else { None };
            answers.push(mock.log.iter().filter_map(value).collect::<Vec<_>>());
        }
        let replay = |run: usize| {
            Double(Replay { reads: answers[run].clone(), at: 0, written: 0 }, Replay::answer as Answer<Replay>)
        };
        let (accesses, replays) = ([costs[0], costs[3]], [replay(2), replay(3)]);
        Self { engine, task: Some(task), accesses, interrupts, operations, replays, runs: 0 }
    }

    /// Runs the task once more, on recorded answers.
    ///
    /// # Panics
    ///
    /// If the last run has not ended, which does not happen: the task ended with the same answers before.
    #[inline(never)]
    pub fn run(&mut self) {
        let device = &mut self.replays[self.runs % 2];
        self.runs += 1;
        device.0.at = 0;
        let task = self.task.take().expect("the last run gave the task back");
        self.engine.submit(device, task, 0, u64::MAX).expect("the engine is free");
        let ended = drive(
            &mut self.engine,
            device,
            |_, _| {},
            |engine, device, _| {
                if engine.interrupt(device) {
                    Ok(())
                } else {
                    Err(Idle)
                }
            },
        );
        self.task = ended.ok().flatten();
    }
}
