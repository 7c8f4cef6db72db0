// SPDX-License-Identifier: MIT OR Apache-2.0

//! The interface of a simulated NVDLA: registers, an interrupt line, memory, and time that passes only while it runs.
//! The model implements it, and so does a simulator of the RTL in a separate process.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::time::Duration;

pub use nvdla_estimate::Measured;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;

use crate::device::Model;
use crate::limit::Limit;
use crate::memory::{Memory, Stop};

/// How long [`Simulation::run_until`] runs at once.
const SLICE: Duration = Duration::from_millis(100);

/// A simulated NVDLA.
///
/// It either reads and writes the [`Memory`] that [`Simulation::run`] is given, or, in another process, files that both
/// map: [`Simulation::shares_memory`] says which, and the functions below it are for the second kind.
pub trait Simulation: Send {
    /// Its configuration.
    fn config(&self) -> &'static Config;

    /// Reads the register at byte `offset` of the window; zero where there is none.
    fn read(&mut self, offset: u32) -> u32;

    /// Writes the register at byte `offset` of the window.
    fn write(&mut self, offset: u32, value: u32);

    /// Whether the interrupt line is up.
    fn interrupt(&self) -> bool;

    /// Works until nothing is left to do, the interrupt line is asserted, or `limit` has passed. Returns false if nothing
    /// happened, and nothing will happen until software accesses the device.
    fn run(&mut self, memory: &mut dyn Memory, limit: Duration) -> bool;

    /// Like [`Simulation::run`], for a caller that checks the time between calls. An operation of the model that is still running
    /// at `end` stops with [`Stop::Late`].
    fn run_until(&mut self, memory: &mut dyn Memory, end: &Limit) -> bool {
        let _ = end;
        self.run(memory, SLICE)
    }

    /// The oldest reason, not yet taken, for which it stopped.
    fn take_stop(&mut self) -> Option<Stop>;

    /// Brings it back to its state after reset.
    fn reset(&mut self);

    /// Called when software has noticed that the unit's oldest unnoticed operation is complete. Returns its
    /// measurement, if cycles are counted.
    fn completed(&mut self, unit: OpType) -> Option<Measured> {
        let _ = unit;
        None
    }

    /// Whether memory is files that are mapped on both sides.
    fn shares_memory(&self) -> bool {
        false
    }

    /// Maps `length` bytes of `file` from `offset` at the device's `address`, on its memory interfaces: bit 0 is the
    /// primary one, bit 1 the secondary one.
    fn map(
        &mut self,
        address: u64,
        length: u64,
        file: &File,
        offset: u64,
        interfaces: u32,
        writable: bool,
    ) -> io::Result<()> {
        let _ = (address, length, file, offset, interfaces, writable);
        Ok(())
    }

    /// Unmaps the range from both interfaces.
    fn unmap(&mut self, address: u64, length: u64) -> io::Result<()> {
        let _ = (address, length);
        Ok(())
    }

    /// Restricts both interfaces to these ranges of the mapped memory; `None` allows all of it.
    fn allow(&mut self, ranges: Option<&[Range<u64>]>) -> io::Result<()> {
        let _ = ranges;
        Ok(())
    }
}

/// The model's operations take no time between two calls: when [`Simulation::run`] returns, every operation that can
/// run has run.
impl Simulation for Model {
    fn config(&self) -> &'static Config {
        Self::config(self)
    }

    fn read(&mut self, offset: u32) -> u32 {
        Self::read(self, offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        Self::write(self, offset, value);
    }

    fn interrupt(&self) -> bool {
        Self::interrupt(self)
    }

    fn run(&mut self, memory: &mut dyn Memory, _limit: Duration) -> bool {
        Self::run(self, memory)
    }

    fn run_until(&mut self, memory: &mut dyn Memory, end: &Limit) -> bool {
        self.run_within(end, memory)
    }

    fn take_stop(&mut self) -> Option<Stop> {
        Self::take_stop(self)
    }

    fn reset(&mut self) {
        Self::reset(self);
    }
}
