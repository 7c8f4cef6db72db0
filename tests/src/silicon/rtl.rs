// SPDX-License-Identifier: MIT OR Apache-2.0

//! A simulator, its memory, and the scheduler that drives it.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use nvdla_engine::{Engine, Hardware, Slot, Task};
use nvdla_model::memory::Stop;
use nvdla_model::simulation::{Measured, Simulation};
use nvdla_rtl::{Selection, Simulator};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;

use crate::drive::{drive, simulated, Answer, Done, Double};
use crate::hostile::bench::FIRST_ADDRESS;

/// Bytes of memory from [`FIRST_ADDRESS`].
const MEMORY: u64 = 64 << 20;
/// Cycles between two looks at a register that the engine polls.
const POLL: u64 = 256;
/// DMA accesses are whole words of the interface. The bytes around an allowed range that share a word with it may be read.
const WORD: u64 = 64;

/// Why a task did not end well on the RTL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It did not end within the cycles that it was given.
    Deadline(String),
    /// It accessed memory outside its operations' footprints.
    Outside(String),
    /// An assertion failed.
    Assertion(String),
    /// The simulator ended, or something else that no task causes.
    Simulator(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline(what) => write!(f, "no end: {what}"),
            Self::Outside(what) => write!(f, "access outside: {what}"),
            Self::Assertion(what) => write!(f, "assertion: {what}"),
            Self::Simulator(what) => write!(f, "simulator: {what}"),
        }
    }
}

/// What a task did on the RTL.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Cycles from its submission to its end.
    pub cycles: u64,
    /// Its operations in the order of their completion: position, unit, and cycles.
    pub operations: Vec<(u32, OpType, Option<Measured>)>,
}

/// A simulator that runs one task after another.
#[derive(Debug)]
pub struct Rtl {
    device: Double<Simulator, Answer<Simulator>>,
    engine: Engine<Vec<Slot>>,
    memory: File,
}

impl Rtl {
    /// Starts the program.
    ///
    /// # Errors
    ///
    /// If it does not start, or there is no memory.
    pub fn start(selection: &Selection) -> Result<Self, String> {
        let mut simulator = Simulator::start(selection).map_err(|error| error.to_string())?;
        let path = std::env::temp_dir().join(format!("nvdla-silicon-{}-{:p}", std::process::id(), &simulator));
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let memory = File::options().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
        // Both processes use the file by its descriptor.
        std::fs::remove_file(&path).map_err(failed)?;
        memory.set_len(MEMORY).map_err(failed)?;
        simulator.map(FIRST_ADDRESS, MEMORY, &memory, 0, 3, true).map_err(failed)?;
        let engine = Engine::new(simulator.config());
        Ok(Self { device: simulated(simulator), engine, memory })
    }

    /// The configuration of the simulator.
    pub fn config(&self) -> &'static Config {
        self.device.0.config()
    }

    /// Brings the design and the scheduler to their states after reset.
    pub fn reset(&mut self) {
        self.engine.abort(&mut self.device);
        Simulation::reset(&mut self.device.0);
        self.engine.reset();
    }

    /// Runs a task in the memories `areas` (address and bytes), which then have what it wrote. Only `allowed` may be accessed.
    ///
    /// # Errors
    ///
    /// If it does not end well within `limit` cycles. The design was then reset.
    pub fn run(
        &mut self,
        task: Task<Vec<Slot>>,
        areas: &mut [(u64, Vec<u8>)],
        allowed: &[Range<u64>],
        limit: u64,
    ) -> Result<Ran, Trouble> {
        let failed = |error: std::io::Error| Trouble::Simulator(error.to_string());
        for (address, bytes) in &*areas {
            self.memory.write_all_at(bytes, address - FIRST_ADDRESS).map_err(failed)?;
        }
        let words = |range: &Range<u64>| range.start / WORD * WORD..range.end.next_multiple_of(WORD);
        let mut allowed: Vec<Range<u64>> = allowed.iter().map(words).collect();
        allowed.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in allowed {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        self.device.0.allow(Some(&joined)).map_err(failed)?;
        let ran = self.perform(task, limit);
        if ran.is_err() {
            self.reset();
        }
        for (address, bytes) in areas {
            self.memory.read_exact_at(bytes, *address - FIRST_ADDRESS).map_err(failed)?;
        }
        ran
    }

    fn perform(&mut self, task: Task<Vec<Slot>>, limit: u64) -> Result<Ran, Trouble> {
        let (start, mut operations) = (self.device.0.cycle(), Vec::new());
        self.engine
            .submit(&mut self.device, task, 0, u64::MAX)
            .map_err(|submission| Trouble::Simulator(submission.error.to_string()))?;
        let completed = |device: &mut Double<Simulator, Answer<Simulator>>, (operation, _, unit): Done| {
            operations.push((operation, unit, device.0.completed(unit)));
        };
        let ended = drive(&mut self.engine, &mut self.device, completed, |engine, device, poll| {
            let left = limit.saturating_sub(device.0.cycle() - start);
            if left == 0 {
                return Err(Trouble::Deadline(format!("{limit} cycles{}", doing(engine, device))));
            }
            device.0.run_cycles(if poll { left.min(POLL) } else { left });
            if let Some(trouble) = stopped(engine, device) {
                return Err(trouble);
            }
            if device.0.interrupt() {
                engine.interrupt(device);
            }
            Ok(())
        });
        if ended?.is_none() {
            return Err(Trouble::Simulator("the engine has lost the task".into()));
        }
        let ran = Ran { cycles: self.device.0.cycle() - start, operations };
        // An assertion may have failed since the last run.
        stopped(&mut self.engine, &mut self.device).map_or(Ok(ran), Err)
    }
}

/// What the engine is doing, if it has a task.
fn doing(engine: &mut Engine<Vec<Slot>>, device: &mut impl Hardware) -> String {
    engine.observe(device).map_or_else(String::new, |failure| format!(" ({failure})"))
}

/// What has stopped the design.
fn stopped(engine: &mut Engine<Vec<Slot>>, device: &mut Double<Simulator, Answer<Simulator>>) -> Option<Trouble> {
    let stop = device.0.take_stop()?;
    let text = format!("{stop}{}", doing(engine, device));
    Some(match stop {
        Stop::Fault(_) => Trouble::Outside(text),
        Stop::Assertion { .. } => Trouble::Assertion(text),
        _ => Trouble::Simulator(text),
    })
}
