// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submits a task to the engine, runs accepted tasks on the model, and compares the accesses with the allowed ranges.

use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};

use nvdla_engine::{Buffer, Engine, Error, OutOfRange, Slot, Task, TaskMemory};
use nvdla_model::device::Model;
use nvdla_model::memory::{Memory, Port};
use nvdla_model::operation::Finished;
use nvdla_model::record::{Recorder, Touched};
use nvdla_model::registers::WORDS;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::RamType;

use super::base::{Base, Field};
use super::{footprint, steps};
use crate::drive::{drive, simulated};

/// The device address of the first memory.
pub const FIRST_ADDRESS: u64 = 0x1000_0000;
const PAGE: u64 = 4096;

/// The outcome of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The engine refused it, for this kind of reason.
    Refused(String),
    /// It was accepted, but not run because the model would take too long.
    TooLong,
    /// It was accepted and ran to its end. The number is a hash of the register values of its operations.
    Ran(u64),
}

/// A violation of the conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A task's memories at their device addresses.
#[derive(Debug, Default)]
struct Memories {
    /// Addresses and bytes, sorted, with an unused page between them.
    areas: Vec<(u64, Vec<u8>)>,
    /// The ranges that the address list makes accessible: start and end.
    reach: Vec<(u64, u64)>,
    /// Whether the device wrote to the memory.
    dirty: Vec<bool>,
}

impl Memories {
    /// The memory and the offset in it for bytes of one entry of the address list.
    fn place(&self, address: u64, length: usize) -> Option<(usize, usize)> {
        let end = address.checked_add(length as u64)?;
        self.reach.iter().find(|&&(from, to)| from <= address && end <= to)?;
        let at = self.areas.partition_point(|&(start, _)| start <= address).checked_sub(1)?;
        Some((at, (address - self.areas[at].0) as usize))
    }
}

impl Memory for Memories {
    fn read(&self, _: Port, address: u64, length: usize) -> Option<&[u8]> {
        let (at, offset) = self.place(address, length)?;
        self.areas[at].1.get(offset..offset + length)
    }

    fn write(&mut self, _: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        let (at, offset) = self.place(address, length)?;
        self.dirty[at] = true;
        self.areas[at].1.get_mut(offset..offset + length)
    }
}

/// A function that is called with each operation.
pub type Observe<'o> = &'o mut dyn FnMut(&Finished, &[Touched]);

/// A task that is changed and checked. Storage is reused for the next task.
#[derive(Debug)]
pub struct Bench {
    config: &'static Config,
    memories: Memories,
    /// The address list: memory, offset, size.
    pub entries: Vec<(usize, u64, u64)>,
    /// The changes: memory, offset, old bytes.
    changed: Vec<(usize, usize, Vec<u8>)>,
    slots: Vec<Slot>,
    touched: Vec<Touched>,
}

impl Bench {
    /// A bench for tasks of that configuration.
    pub fn new(config: &'static Config) -> Self {
        Self {
            config,
            memories: Memories::default(),
            entries: Vec::new(),
            changed: Vec::new(),
            slots: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// A task with one buffer per entry of its address list.
    pub fn of_buffers(config: &'static Config, buffers: &[Vec<u8>]) -> Self {
        let mut bench = Self::new(config);
        bench.entries = buffers.iter().enumerate().map(|(area, bytes)| (area, 0, bytes.len() as u64)).collect();
        bench.place(buffers);
        bench
    }

    /// Assigns addresses to memories.
    fn place(&mut self, areas: &[Vec<u8>]) {
        self.memories.areas.clear();
        let mut address = FIRST_ADDRESS;
        for bytes in areas {
            self.memories.areas.push((address, bytes.clone()));
            address += (bytes.len() as u64).next_multiple_of(PAGE) + PAGE;
        }
        self.memories.dirty = vec![false; areas.len()];
    }

    /// Loads a valid task, and removes the previous one.
    pub fn load(&mut self, base: &Base) {
        self.config = base.config;
        self.place(&base.areas);
        self.entries.clone_from(&base.entries);
        self.changed.clear();
    }

    /// Restores the task that was loaded last.
    pub fn restore(&mut self, base: &Base) {
        while let Some((area, offset, old)) = self.changed.pop() {
            self.memories.areas[area].1[offset..offset + old.len()].copy_from_slice(&old);
        }
        for ((area, dirty), bytes) in self.memories.areas.iter_mut().zip(&mut self.memories.dirty).zip(&base.areas) {
            if std::mem::take(dirty) {
                area.1.copy_from_slice(bytes);
            }
        }
        self.entries.clone_from(&base.entries);
    }

    /// The value of a field as an unsigned number; `None` if its entry no longer contains it.
    pub fn value(&self, field: &Field) -> Option<u64> {
        let mut bytes = [0; 8];
        TaskMemory::read(self, field.entry.into(), field.offset as u64, &mut bytes[..field.size]).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Sets a field.
    pub fn set(&mut self, field: &Field, value: u64) {
        self.put(field.entry.into(), field.offset, &value.to_le_bytes()[..field.size]);
    }

    /// Replaces bytes of an entry of the address list, if it contains them.
    pub fn put(&mut self, entry: usize, offset: usize, bytes: &[u8]) {
        let Some(&(area, start, size)) = self.entries.get(entry) else { return };
        if (offset + bytes.len()) as u64 <= size {
            let at = start as usize + offset;
            let place = &mut self.memories.areas[area].1[at..at + bytes.len()];
            self.changed.push((area, at, place.to_vec()));
            place.copy_from_slice(bytes);
        }
    }

    /// Exchanges the bytes at two positions.
    pub fn exchange(&mut self, a: (usize, usize), b: (usize, usize), size: usize) {
        let mut both = [vec![0; size], vec![0; size]];
        for ((entry, offset), bytes) in [a, b].into_iter().zip(&mut both) {
            if TaskMemory::read(self, entry, offset as u64, bytes).is_err() {
                return;
            }
        }
        self.put(a.0, a.1, &both[1]);
        self.put(b.0, b.1, &both[0]);
    }

    /// The memories' bytes.
    pub fn areas(&self) -> impl Iterator<Item = &[u8]> {
        self.memories.areas.iter().map(|(_, bytes)| bytes.as_slice())
    }

    /// The memories: device addresses and bytes.
    pub fn memories(&self) -> &[(u64, Vec<u8>)] {
        &self.memories.areas
    }

    /// Validates the task without running it. Returns the steps ([`steps::of_task`]) of an accepted task.
    ///
    /// # Errors
    ///
    /// The kind of reason for a refusal.
    pub fn verdict(&self) -> Result<u64, String> {
        let allocate = |count| Ok::<_, Error>(vec![Slot::Empty; count]);
        Task::parse(self.config, self, allocate).map_err(|error| kind(&error))?;
        Ok(steps::of_task(self))
    }

    /// Submits the task, and runs it if the engine accepts it and it takes at most `most` steps ([`steps::of_task`]).
    ///
    /// # Errors
    ///
    /// A violated condition.
    pub fn check(&mut self, most: u64) -> Result<Outcome, Violation> {
        self.check_with(most, &mut |_, _| {})
    }

    /// As [`Bench::check`]; `observe` is called with each operation that was performed and the bytes that it accessed.
    ///
    /// # Errors
    ///
    /// A violated condition.
    pub fn check_with(&mut self, most: u64, observe: Observe<'_>) -> Result<Outcome, Violation> {
        match catch_unwind(AssertUnwindSafe(|| self.submit(most, observe))) {
            Ok(result) => result,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
                Err(Violation(format!("panic: {text}")))
            }
        }
    }

    fn submit(&mut self, most: u64, observe: Observe<'_>) -> Result<Outcome, Violation> {
        // The slots of refused tasks are lost.
        let mut slots = std::mem::take(&mut self.slots);
        let allocate = |count| {
            slots.resize(count, Slot::Empty);
            Ok::<_, Error>(slots)
        };
        let task = match Task::parse(self.config, self, allocate) {
            Ok(task) => task,
            Err(error) => return Ok(Outcome::Refused(kind(&error))),
        };
        if steps::of_task(self) > most {
            self.slots = task.into_slots();
            return Ok(Outcome::TooLong);
        }
        self.memories.reach.clear();
        for index in 0..self.entries.len() {
            if let Some(buffer) = TaskMemory::buffer(self, index) {
                self.memories.reach.push((buffer.address, buffer.address + buffer.size));
            }
        }
        self.run(task, observe)
    }

    fn run(&mut self, task: Task<Vec<Slot>>, observe: Observe<'_>) -> Result<Outcome, Violation> {
        let (mut engine, mut device) = (Engine::new(self.config), simulated(Model::new(self.config)));
        if let Err(submission) = engine.submit(&mut device, task, 0, u64::MAX) {
            return Err(Violation(format!("a free engine does not take the task: {}", submission.error)));
        }
        let mut hash = Hash::default();
        let ended = drive(
            &mut engine,
            &mut device,
            |_, _| {},
            |engine, device, poll| {
                if poll {
                    return Ok(());
                }
                while let Some(work) = device.0.start() {
                    let mut touched = std::mem::take(&mut self.touched);
                    touched.clear();
                    let mut recorder = Recorder::new(&mut self.memories, touched);
                    let finished = work.run(&mut recorder);
                    self.touched = recorder.finish();
                    observe(&finished, &self.touched);
                    self.hold(&finished)?;
                    hash.add(&finished);
                    device.0.finish(finished);
                }
                if let Some(stop) = device.0.take_stop() {
                    return Err(Violation(format!("stopped after acceptance: {stop}")));
                }
                if !engine.interrupt(device) {
                    let failure = engine.observe(device).map(|failure| failure.to_string());
                    return Err(Violation(format!("stuck after acceptance: {}", failure.unwrap_or_default())));
                }
                Ok(())
            },
        );
        let Some(task) = ended? else { return Err(Violation("the engine forgot the task".into())) };
        if task.write_statistics(self).is_err() {
            return Err(Violation("statistics leave their list".into()));
        }
        self.slots = task.into_slots();
        Ok(Outcome::Ran(hash.0))
    }

    /// Checks that an operation accessed only the task's buffers and the operation's footprint.
    fn hold(&self, finished: &Finished) -> Result<(), Violation> {
        if let Some(Touched { access, span, .. }) = self.touched.iter().find(|touched| !touched.allowed) {
            return Err(Violation(format!(
                "{access:?} of {} bytes at {:#x} of {}, outside the task's buffers",
                span.length, span.address, span.port
            )));
        }
        let ranges = footprint::ranges(self.config, finished);
        let ranges =
            ranges.map_err(|refusal| Violation(format!("an accepted operation has no footprint: {refusal}")))?;
        footprint::outside(&ranges, &self.touched).map_or(Ok(()), |what| Err(Violation(what)))
    }
}

impl TaskMemory for Bench {
    fn count(&self) -> usize {
        self.entries.len()
    }

    fn buffer(&self, index: usize) -> Option<Buffer> {
        let (area, offset, size) = *self.entries.get(index)?;
        let address = self.memories.areas.get(area).map_or(0, |area| area.0) + offset;
        Some(Buffer { address, size, memory: RamType::Mcif })
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let (area, start, size) = *self.entries.get(index).ok_or(OutOfRange)?;
        let end = offset.checked_add(into.len() as u64).filter(|&end| end <= size).ok_or(OutOfRange)?;
        let bytes = self.memories.areas[area].1.get((start + offset) as usize..(start + end) as usize);
        into.copy_from_slice(bytes.ok_or(OutOfRange)?);
        Ok(())
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> Result<(), OutOfRange> {
        let (area, start, size) = *self.entries.get(index).ok_or(OutOfRange)?;
        let end = offset.checked_add(from.len() as u64).filter(|&end| end <= size).ok_or(OutOfRange)?;
        self.memories.dirty[area] = true;
        let bytes = self.memories.areas[area].1.get_mut((start + offset) as usize..(start + end) as usize);
        bytes.ok_or(OutOfRange)?.copy_from_slice(from);
        Ok(())
    }
}

/// FNV-1a of register values.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    fn add(&mut self, finished: &Finished) {
        let blocks = finished.blocks().filter_map(|block| finished.registers(block));
        for registers in blocks.chain(finished.copies()) {
            for &word in registers.words().iter().take(WORDS) {
                self.0 = (self.0 ^ u64::from(word)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
}

/// The kind of a refusal: the name of its reason in the engine.
fn kind(error: &Error) -> String {
    /// The part of a text up to the first character that is not a letter.
    struct Letters(String);

    impl fmt::Write for Letters {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let count = text.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(text.len());
            self.0.push_str(&text[..count]);
            if count == text.len() {
                Ok(())
            } else {
                Err(fmt::Error)
            }
        }
    }

    let mut letters = Letters(String::new());
    // Formatting ends with an error at the end of the name.
    let _ = fmt::write(&mut letters, format_args!("{:?}", error.reason));
    letters.0
}
