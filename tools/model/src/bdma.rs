// SPDX-License-Identifier: MIT OR Apache-2.0

//! BDMA: copies between the two memories.
//!
//! It has no ping-pong groups: `CFG_OP` puts the copy that the `CFG_` registers describe into a queue of 20, and
//! `CFG_LAUNCH0` or `CFG_LAUNCH1` starts all copies queued since the last launch as a group. The group raises its
//! interrupt when its last copy ends. A copy moves lines of `CFG_LINE + 1` atoms of 32 bytes. Source and destination
//! each have a line stride and a surface stride.
//!
//! Source: the register specification (BDMA) and the hardware manual ("BDMA").

use std::collections::VecDeque;

use nvdla_uapi::layout::Nest;
use nvdla_uapi::reg::bdma::*;
use nvdla_uapi::reg::{Block, Family, Register};

use crate::cube::check_overlap;
use crate::memory::{read, write, Memory, Port, Stop};
use crate::registers::{writable, Registers};

/// The unit's name in faults.
const UNIT: &str = "BDMA";
/// Copies that the queue holds.
const SLOTS: usize = 20;
/// Bytes of an atom. `CFG_LINE` counts atoms.
const ATOM: u64 = 32;
/// Largest number of bytes that are read before they are written.
const CHUNK: usize = 4096;

/// A launched group of copies.
#[derive(Clone, Copy, Debug)]
struct Launch {
    group: usize,
    copies: usize,
}

/// BDMA's registers and queue.
#[derive(Clone, Debug)]
pub struct Bdma {
    registers: Registers,
    queue: VecDeque<Registers>,
    /// Copies queued since the last launch.
    unlaunched: usize,
    launches: VecDeque<Launch>,
    refused: Option<Stop>,
}

impl Bdma {
    /// BDMA after reset.
    pub fn reset() -> Self {
        Self {
            registers: Registers::reset(Block::Bdma),
            queue: VecDeque::with_capacity(SLOTS),
            unlaunched: 0,
            launches: VecDeque::with_capacity(2),
            refused: None,
        }
    }

    /// Returns the value that software reads at `offset` of the block.
    pub fn read(&self, offset: u32) -> u32 {
        if offset == STATUS.offset.into() {
            return STATUS::FREE_SLOT.put((SLOTS - self.queue.len()) as u32)
                | STATUS::IDLE.put(self.launches.is_empty() && self.queue.is_empty())
                | STATUS::GRP0_BUSY.put(self.busy(0))
                | STATUS::GRP1_BUSY.put(self.busy(1));
        }
        self.registers.at(offset)
    }

    /// Performs a register write of software. Returns whether it launched copies.
    pub fn write(&mut self, offset: u32, value: u32) -> bool {
        // Writing CFG_OP and the launch registers has an effect, and they keep the written value.
        self.registers.write(writable(Block::Bdma, Family::NvFull), offset, value);
        if value & 1 == 0 {
            return false;
        }
        let is = |register: Register| offset == register.offset.into();
        if is(CFG_OP) && self.queue.len() < SLOTS {
            self.queue.push_back(self.registers.clone());
            self.unlaunched += 1;
            return false;
        }
        if is(CFG_OP) {
            self.refused = Some(Stop::unsupported(UNIT, format!("CFG_OP with all {SLOTS} slots full")));
            return true;
        }
        is(CFG_LAUNCH0) && self.launch(0) || is(CFG_LAUNCH1) && self.launch(1)
    }

    /// Performs the oldest launched group. Returns its number, or `None` if no group is launched.
    pub fn run(&mut self, memory: &mut dyn Memory) -> Result<Option<usize>, Stop> {
        if !self.start()? {
            return Ok(None);
        }
        let mut copies = Vec::new();
        self.take(&mut copies);
        for registers in &copies {
            copy(registers, memory)?;
        }
        Ok(Some(self.finish()))
    }

    /// Returns whether a launched group waits, or an error if software wrote `CFG_OP` while the queue was full.
    pub(crate) fn start(&mut self) -> Result<bool, Stop> {
        self.refused.take().map_or(Ok(!self.launches.is_empty()), Err)
    }

    /// Moves the copies of the oldest launched group from the queue to `copies`.
    pub(crate) fn take(&mut self, copies: &mut Vec<Registers>) {
        copies.clear();
        let count = self.launches.front().map_or(0, |launch| launch.copies).min(self.queue.len());
        copies.extend(self.queue.drain(..count));
    }

    /// Removes the oldest launched group, which has ended. Returns its number.
    pub(crate) fn finish(&mut self) -> usize {
        self.launches.pop_front().map_or(0, |launch| launch.group)
    }

    fn busy(&self, group: usize) -> bool {
        self.launches.iter().any(|launch| launch.group == group)
    }

    fn launch(&mut self, group: usize) -> bool {
        // A launch has no effect without queued copies, or if its group is still busy.
        if self.unlaunched == 0 || self.busy(group) {
            return false;
        }
        self.launches.push_back(Launch { group, copies: self.unlaunched });
        self.unlaunched = 0;
        true
    }
}

/// One side of a copy.
struct Side {
    port: Port,
    address: u64,
    /// Strides of surfaces and of lines.
    lines: Nest<2>,
}

impl Side {
    fn line(&self, surface: u64, line: u64) -> u64 {
        self.address.wrapping_add(self.lines.offset([surface, line]))
    }
}

/// Performs the copy that the registers describe.
pub(crate) fn copy(registers: &Registers, memory: &mut dyn Memory) -> Result<(), Stop> {
    let length = (u64::from(registers.get(CFG_LINE)) + 1) * ATOM;
    let surfaces = u64::from(registers.get(CFG_SURF_REPEAT)) + 1;
    let lines = u64::from(registers.get(CFG_LINE_REPEAT)) + 1;
    let nest = |strides: [Register; 2]| {
        Nest::as_programmed(length, [surfaces, lines], strides.map(|stride| registers.get(stride).into()))
            .map_err(|error| Stop::unsupported(UNIT, error.to_string()))
    };
    let source = Side {
        port: registers.field(CFG_CMD::SRC_RAM_TYPE)?.into(),
        address: registers.address(CFG_SRC_ADDR_HIGH, CFG_SRC_ADDR_LOW),
        lines: nest([CFG_SRC_SURF, CFG_SRC_LINE])?,
    };
    let destination = Side {
        port: registers.field(CFG_CMD::DST_RAM_TYPE)?.into(),
        address: registers.address(CFG_DST_ADDR_HIGH, CFG_DST_ADDR_LOW),
        lines: nest([CFG_DST_SURF, CFG_DST_LINE])?,
    };
    for side in [&source, &destination] {
        check_overlap(UNIT, side.lines.volume(), side.lines.span())?;
    }
    for surface in 0..surfaces {
        for line in 0..lines {
            let (mut from, mut to) = (source.line(surface, line), destination.line(surface, line));
            let mut left = length as usize;
            let mut chunk = [0; CHUNK];
            while left != 0 {
                let chunk = &mut chunk[..left.min(CHUNK)];
                chunk.copy_from_slice(read(memory, UNIT, source.port, from, chunk.len())?);
                write(memory, UNIT, destination.port, to, chunk.len())?.copy_from_slice(chunk);
                from = from.wrapping_add(chunk.len() as u64);
                to = to.wrapping_add(chunk.len() as u64);
                left -= chunk.len();
            }
        }
    }
    Ok(())
}
