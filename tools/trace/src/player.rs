// SPDX-License-Identifier: MIT OR Apache-2.0

//! Performs a trace's commands in order on a fresh device.
//!
//! The model runs after each register write, so an operation ends as early as possible, and all interrupts of a convolution
//! arrive together. A later `wait_interrupt` of such a trace is satisfied by an interrupt that was cleared together with another
//! one. An `expect` for a running operation also accepts that the operation has ended.
//!
//! A simulator of the RTL takes time for operations. There each line that waits for a condition runs the simulator until the
//! condition holds.

use std::time::Duration;

use nvdla_model::device::Model;
use nvdla_model::glb::Source;
use nvdla_model::memory::{Memory, Port, Stop};
use nvdla_model::operation::Finished;
use nvdla_model::record::{Recorder, Touched};
use nvdla_model::simulation::Simulation;
use nvdla_model::Like;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::{cdma, glb, Block};
use thiserror::Error;

use crate::memory::TraceMemory;
use crate::trace::{Check, Command, Named, Region, Trace};

/// Why a trace does not pass.
#[derive(Debug, Error)]
pub enum Failure {
    /// A unit stopped.
    #[error("line {line}: {stop}")]
    Stopped {
        /// The line after which it stopped.
        line: usize,
        /// Why.
        stop: Stop,
    },
    /// A condition of a line was not met.
    #[error("line {line}: {what}")]
    Unmet {
        /// The line.
        line: usize,
        /// What.
        what: String,
    },
    /// The address space for the trace's memory cannot be allocated.
    #[error("no address space for the device's memory: {0}")]
    Memory(std::io::Error),
}

/// How long a simulator runs between two checks of a register or an interrupt.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
const WAIT: Duration = Duration::from_millis(100);

/// The number of runs without activity after which waiting for a simulator ends: about 20,000 cycles in total, more than the
/// design needs to clear its convolution buffer after reset.
const MAX_QUIET_RUNS: usize = 256;

/// The state of a device after a trace has passed.
pub struct Played<D = Model> {
    /// The device.
    pub device: D,
    /// Its memory.
    pub memory: TraceMemory,
}

/// Plays the trace on the model of that configuration, which follows the C-model, because it has made the traces' results.
pub fn play(trace: &Trace, config: &'static Config) -> Result<Played, Failure> {
    play_like(trace, config, Like::CModel)
}

/// As [`play`], on the model that follows the RTL or the C-model.
pub fn play_like(trace: &Trace, config: &'static Config, like: Like) -> Result<Played, Failure> {
    play_with(trace, Model::new(config).like(like), |model, memory| {
        model.run(memory);
    })
}

/// As [`play`]; `observe` is called with each operation that was performed and the memory that it accessed.
pub fn play_observed(
    trace: &Trace,
    config: &'static Config,
    mut observe: impl FnMut(&Finished, &[Touched]),
) -> Result<Played, Failure> {
    play_with(trace, Model::new(config).like(Like::CModel), |model, memory| {
        while let Some(work) = model.start() {
            let mut recorder = Recorder::new(memory, Vec::new());
            let finished = work.run(&mut recorder);
            observe(&finished, &recorder.finish());
            model.finish(finished);
        }
    })
}

/// Plays the trace on a device that has just been reset.
pub fn play_on<D: Simulation>(trace: &Trace, device: D) -> Result<Played<D>, Failure> {
    play_with(trace, device, |device, memory| {
        // Simulators run only when the trace waits.
        if !device.shares_memory() {
            device.run(memory, WAIT);
        }
    })
}

/// Plays the trace; `run` performs the operations that are enabled.
fn play_with<D: Simulation>(
    trace: &Trace,
    mut device: D,
    run: impl FnMut(&mut D, &mut TraceMemory),
) -> Result<Played<D>, Failure> {
    let mut memory = TraceMemory::new().map_err(Failure::Memory)?;
    if device.shares_memory() {
        for region in trace.regions() {
            memory.share(region.port, region.address, &mut device).map_err(Failure::Memory)?;
        }
    }
    let mut player = Player { run, trace, device, memory, unseen: 0, quiet: 0, line: 0 };
    for (line, command) in &trace.commands {
        player.line = *line;
        player.perform(command)?;
    }
    Ok(Played { device: player.device, memory: player.memory })
}

struct Player<'t, D, R> {
    run: R,
    trace: &'t Trace,
    device: D,
    memory: TraceMemory,
    /// Interrupt status bits that were cleared before the trace waited for them.
    unseen: u32,
    /// The number of consecutive runs without activity.
    quiet: usize,
    line: usize,
}

impl<D: Simulation, R: FnMut(&mut D, &mut TraceMemory)> Player<'_, D, R> {
    fn perform(&mut self, command: &Command) -> Result<(), Failure> {
        match command {
            Command::Zero(region) => self.target(region)?.fill(0),
            Command::Load(region, bytes) => {
                let trace = self.trace;
                self.target(region)?.copy_from_slice(trace.bytes(region, bytes));
            }
            Command::Write(register, value) => self.write(register, *value)?,
            Command::Poll(register, value) => {
                let mut found = self.read(register)?;
                while found != *value {
                    if !self.wait(CHECK_INTERVAL)? {
                        return Err(self.register_differs(register, found, !0, *value));
                    }
                    found = self.read(register)?;
                }
            }
            Command::Expect { register, mask, value } => self.expect(register, *mask, *value)?,
            Command::WaitInterrupt => {
                while !self.device.interrupt() {
                    if self.wait(WAIT)? {
                        continue;
                    }
                    // It may have arrived with another interrupt, and was cleared with it.
                    if self.unseen == 0 {
                        return Err(self.unmet("no interrupt arrives"));
                    }
                    break;
                }
            }
            Command::Interrupt { source, group, id } => self.interrupt(*source, *group, id)?,
            Command::Compare(region, bytes) => {
                let expected = self.trace.bytes(region, bytes);
                let found = self.bytes(region)?;
                if let Some(first) = (0..region.length).find(|&at| found[at] != expected[at]) {
                    let count = found.iter().zip(expected).filter(|(a, b)| a != b).count();
                    let (found, expected) = (found[first], expected[first]);
                    return Err(self.unmet(format!(
                        "{} differs at {:#x} (byte {first:#x}, then {} more of {:#x}): {expected:#04x} expected, \
                         {found:#04x} found",
                        region.port,
                        region.address + first as u64,
                        count - 1,
                        region.length,
                    )));
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, register: &Named, value: u32) -> Result<(), Failure> {
        if register.block == Block::Glb && register.register.register == glb::S_INTR_STATUS {
            self.unseen |= self.read(register)? & value;
        }
        if register.block == Block::Cdma && register.register.name == "D_OP_ENABLE" {
            self.clear_convolution_buffer()?;
        }
        let offset = self.offset(register)?;
        self.device.write(offset, value);
        (self.run)(&mut self.device, &mut self.memory);
        self.stopped()
    }

    /// Waits until the RTL has cleared its convolution buffer after reset, because clearing would destroy the data of a
    /// convolution that starts too early. Not all traces wait for that themselves.
    fn clear_convolution_buffer(&mut self) -> Result<(), Failure> {
        let status =
            Named { block: Block::Cdma, register: &cdma::ALL[usize::from(cdma::S_CBUF_FLUSH_STATUS.offset) / 4] };
        while self.device.shares_memory() && self.read(&status)? == 0 {
            if !self.wait(CHECK_INTERVAL)? {
                return Err(self.unmet("the convolution buffer is not cleared"));
            }
        }
        Ok(())
    }

    /// Lets a simulator run. Returns whether further waiting is useful. For the model it is not, because the model performs
    /// everything after each write.
    fn wait(&mut self, limit: Duration) -> Result<bool, Failure> {
        if !self.device.shares_memory() {
            return Ok(false);
        }
        // A status register changes slightly later than the pulse that ends an operation.
        self.quiet = if self.device.run(&mut self.memory, limit) { 0 } else { self.quiet + 1 };
        self.stopped()?;
        Ok(self.quiet < MAX_QUIET_RUNS)
    }

    fn stopped(&mut self) -> Result<(), Failure> {
        match self.device.take_stop() {
            Some(stop) => Err(Failure::Stopped { line: self.line, stop }),
            None => Ok(()),
        }
    }

    fn expect(&mut self, register: &Named, mask: u32, value: u32) -> Result<(), Failure> {
        loop {
            let mut found = self.read(register)?;
            if register.block == Block::Glb && register.register.register == glb::S_INTR_STATUS && value != 0 {
                found |= self.unseen;
                self.unseen &= !value;
            }
            let may_have_ended = register.register.name == "D_OP_ENABLE" && found == 0;
            if found & mask == value || may_have_ended {
                return Ok(());
            }
            if !self.wait(CHECK_INTERVAL)? {
                return Err(self.register_differs(register, found, mask, value));
            }
        }
    }

    fn interrupt(&mut self, source: Source, group: usize, id: &str) -> Result<(), Failure> {
        let status = Named { block: Block::Glb, register: &glb::ALL[usize::from(glb::S_INTR_STATUS.offset) / 4] };
        while self.read(&status)? & source.bit(group) == 0 {
            if self.wait(WAIT)? {
                continue;
            }
            return Err(self.unmet(format!("{source:?}'s interrupt for group {group} does not arrive")));
        }
        for (_, check) in self.trace.checks.iter().filter(|(name, _)| name == id) {
            if let Check::Crc(region, expected) = check {
                let found = crc32fast::hash(self.bytes(region)?);
                if found != *expected {
                    return Err(self.unmet(format!(
                        "{:#x} bytes of {} at {:#x} have CRC-32 {found:#010x}, not {expected:#010x}",
                        region.length, region.port, region.address,
                    )));
                }
            }
        }
        let offset = self.offset(&status)?;
        self.device.write(offset, source.bit(group));
        self.stopped()
    }

    fn read(&mut self, register: &Named) -> Result<u32, Failure> {
        let offset = self.offset(register)?;
        let value = self.device.read(offset);
        self.stopped()?;
        Ok(value)
    }

    fn offset(&self, register: &Named) -> Result<u32, Failure> {
        let config = self.device.config();
        let base = register.block.base(config.family);
        let base = base.ok_or_else(|| self.unmet(format!("{} has no {}", config.name, register.block.name())))?;
        Ok(base + u32::from(register.register.register.offset))
    }

    fn bytes(&self, region: &Region) -> Result<&[u8], Failure> {
        self.memory.read(region.port, region.address, region.length).ok_or_else(|| self.outside(region))
    }

    fn target(&mut self, region: &Region) -> Result<&mut [u8], Failure> {
        let outside = self.outside(region);
        self.memory.write(region.port, region.address, region.length).ok_or(outside)
    }

    fn outside(&self, region: &Region) -> Failure {
        let Region { port, address, length } = region;
        self.unmet(format!("{length:#x} bytes at {address:#x} of {port} are more than this player maps"))
    }

    fn register_differs(&self, register: &Named, found: u32, mask: u32, value: u32) -> Failure {
        let (block, name) = (register.block.name(), register.register.name);
        self.unmet(format!("{block}.{name} reads {found:#x}, expected {value:#x} under mask {mask:#x}"))
    }

    fn unmet(&self, what: impl Into<String>) -> Failure {
        Failure::Unmet { line: self.line, what: what.into() }
    }
}

impl<D> Played<D> {
    /// Bytes of the device's memory at the trace's end.
    pub fn bytes(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        self.memory.read(port, address, length)
    }
}
