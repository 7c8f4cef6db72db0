// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs a task on the mock device, as a driver would, and measures the cost.

use nvdla_engine::{Engine, Hardware, Progress, Slot, Task};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;

use crate::mock::Mock;

/// An operation that completed: index, region, unit.
pub type Done = (u32, u32, OpType);

/// Runs the submitted task to its end. Returns the task and its operations in the order in which they completed. The task is
/// `None` if the device is idle and the task has not ended.
pub fn finish(engine: &mut Engine<Vec<Slot>>, mock: &mut Mock) -> (Option<Task<Vec<Slot>>>, Vec<Done>) {
    let mut order = Vec::new();
    loop {
        match engine.process_events(mock, 0) {
            Progress::Completed { operation, roi, unit, .. } => order.push((operation, roi, unit)),
            Progress::Ended(task) => return (Some(task), order),
            Progress::Waiting { poll: true } => {}
            Progress::Waiting { poll: false } => {
                if !mock.step() && !mock.line() {
                    return (None, order);
                }
                if mock.line() {
                    engine.interrupt(mock);
                }
            }
            Progress::Idle => return (None, order),
        }
    }
}

/// A device that repeats recorded answers, with a small, constant cost per access.
#[derive(Debug)]
pub struct Replay {
    reads: Vec<u32>,
    at: usize,
    /// Writes so far.
    pub writes: u64,
    written: u32,
}

impl Hardware for Replay {
    #[inline(never)]
    fn read(&mut self, _offset: u32) -> u32 {
        let value = self.reads.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        value
    }

    #[inline(never)]
    fn write(&mut self, _offset: u32, value: u32) {
        self.written ^= value;
        self.writes += 1;
    }
}

/// Records the mock's answers.
struct Record<'a> {
    mock: &'a mut Mock,
    reads: Vec<u32>,
}

impl Hardware for Record<'_> {
    fn read(&mut self, offset: u32) -> u32 {
        let value = self.mock.read(offset);
        self.reads.push(value);
        value
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.mock.write(offset, value);
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
    replays: [Replay; 2],
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
            let before = (mock.writes(), mock.reads());
            let mut hw = Record { mock: &mut mock, reads: Vec::new() };
            engine.submit(&mut hw, task, 0, u64::MAX).expect("the engine is free");
            interrupts = 0;
            task = loop {
                match engine.process_events(&mut hw, 0) {
                    Progress::Completed { .. } => {}
                    Progress::Ended(task) => break task,
                    Progress::Waiting { .. } | Progress::Idle => {
                        assert!(hw.mock.step(), "nothing is left to run, and the task has not ended");
                        engine.interrupt(&mut hw);
                        interrupts += 1;
                    }
                }
            };
            answers.push(hw.reads);
            costs.push((mock.writes() - before.0, mock.reads() - before.1));
        }
        let replay = |run: usize| Replay { reads: answers[run].clone(), at: 0, writes: 0, written: 0 };
        let (accesses, replays) = ([costs[0], costs[3]], [replay(2), replay(3)]);
        Self { engine, task: Some(task), accesses, interrupts, operations, replays, runs: 0 }
    }

    /// Runs the task once more, on recorded answers.
    ///
    /// # Panics
    ///
    /// Never: the task ended with the same answers before.
    #[inline(never)]
    pub fn run(&mut self) {
        let hw = &mut self.replays[self.runs % 2];
        self.runs += 1;
        hw.at = 0;
        let task = self.task.take().expect("the last run gave the task back");
        self.engine.submit(hw, task, 0, u64::MAX).expect("the engine is free");
        loop {
            match self.engine.process_events(hw, 0) {
                Progress::Completed { .. } => {}
                Progress::Ended(task) => {
                    self.task = Some(task);
                    return;
                }
                Progress::Waiting { .. } | Progress::Idle => {
                    assert!(self.engine.interrupt(hw), "the answers have ended");
                }
            }
        }
    }
}
