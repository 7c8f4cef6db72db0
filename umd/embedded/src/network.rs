// SPDX-License-Identifier: MIT OR Apache-2.0

//! A network in its arena.

use core::mem::take;

use nvdla_engine::{Buffer, OutOfRange, Slot, Task as Validated, TaskMemory};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::Version;
use nvdla_uapi::reg::values::RamType;

use super::arena::Arena;
use super::error::Error;
use super::loadable::{Interface, Loadable, Task, INPUT, OUTPUT};
use super::tensor::Tensor;

/// The most tasks for NVDLA that a network may have. A task of the emulator needs no place.
pub const MAX_TASKS: usize = 16;

/// What a network needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// Bytes of the arena.
    pub arena: u64,
    /// The alignment of the arena's address for the device, in bytes.
    pub alignment: u64,
    /// Slots: one per operation, and one per lookup table.
    pub slots: usize,
}

impl Requirements {
    /// Those of a loadable on a device of that configuration.
    ///
    /// # Errors
    ///
    /// When the bytes are no loadable that this crate runs.
    pub fn of(loadable: &[u8], config: &'static Config) -> Result<Self, Error> {
        let loadable = Loadable::new(loadable)?;
        let (arena, alignment) = loadable.arena()?;
        let mut slots = 0;
        for at in 0..loadable.task_count() {
            let task = loadable.task_at(at)?;
            if task.interface == Interface::Nvdla {
                slots += slots_of(loadable, task, config)?;
            }
        }
        Ok(Self { arena, alignment, slots })
    }
}

/// Why parsing a task ended before it was validated.
enum Stopped {
    /// It needs so many slots.
    Slots(usize),
    /// The engine refuses it.
    Refused(nvdla_engine::Error),
}

impl From<nvdla_engine::Error> for Stopped {
    fn from(error: nvdla_engine::Error) -> Self {
        Self::Refused(error)
    }
}

/// The slots that a task needs.
fn slots_of(loadable: Loadable<'_>, task: Task<'_>, config: &'static Config) -> Result<usize, Error> {
    let stopped =
        Validated::<&mut [Slot]>::parse(config, &InFile { loadable, task }, |count| Err(Stopped::Slots(count)));
    match stopped {
        Err(Stopped::Slots(count)) => Ok(count),
        Err(Stopped::Refused(error)) => Err(Error::Refused { task: task.id, error }),
        Ok(_) => Ok(0),
    }
}

/// The memory of a task as the file has it.
struct InFile<'a> {
    loadable: Loadable<'a>,
    task: Task<'a>,
}

impl TaskMemory for InFile<'_> {
    fn count(&self) -> usize {
        self.task.addresses()
    }

    fn buffer(&self, index: usize) -> Option<Buffer> {
        let place = self.loadable.reach(self.task, index).ok()?;
        Some(Buffer { address: place.offset, size: place.size, memory: RamType::Mcif })
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let bytes = self.loadable.initial(self.task, index).map_err(|_| OutOfRange)?;
        let start = usize::try_from(offset).map_err(|_| OutOfRange)?;
        let end = start.checked_add(into.len()).ok_or(OutOfRange)?;
        into.copy_from_slice(bytes.get(start..end).ok_or(OutOfRange)?);
        Ok(())
    }

    fn write(&mut self, _: usize, _: u64, _: &[u8]) -> Result<(), OutOfRange> {
        Err(OutOfRange)
    }
}

/// The memory of a task in the arena.
pub(crate) struct InArena<'n, 'a> {
    pub(crate) loadable: Loadable<'a>,
    pub(crate) task: Task<'a>,
    pub(crate) arena: &'n mut Arena<'a>,
}

impl InArena<'_, '_> {
    /// The range in the arena of bytes of an entry.
    fn range(&self, index: usize, offset: u64, length: usize) -> Option<core::ops::Range<usize>> {
        let place = self.loadable.place(self.task, index).ok()?;
        let end = offset.checked_add(length as u64).filter(|&end| end <= place.size)?;
        Some((place.offset + offset) as usize..(place.offset + end) as usize)
    }
}

impl TaskMemory for InArena<'_, '_> {
    fn count(&self) -> usize {
        self.task.addresses()
    }

    fn buffer(&self, index: usize) -> Option<Buffer> {
        let place = self.loadable.reach(self.task, index).ok()?;
        Some(Buffer { address: self.arena.address() + place.offset, size: place.size, memory: RamType::Mcif })
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let range = self.range(index, offset, into.len()).ok_or(OutOfRange)?;
        into.copy_from_slice(self.arena.bytes().get(range).ok_or(OutOfRange)?);
        Ok(())
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> Result<(), OutOfRange> {
        let range = self.range(index, offset, from.len()).ok_or(OutOfRange)?;
        self.arena.bytes_mut().get_mut(range).ok_or(OutOfRange)?.copy_from_slice(from);
        Ok(())
    }
}

impl nvdla_emulator::Memory for InArena<'_, '_> {
    fn size(&self, index: usize) -> Option<u64> {
        self.loadable.place(self.task, index).ok().map(|place| place.size)
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> bool {
        TaskMemory::read(self, index, offset, into).is_ok()
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> bool {
        TaskMemory::write(self, index, offset, from).is_ok()
    }
}

/// A validated task for NVDLA.
pub(crate) type Ready<'a> = Validated<&'a mut [Slot]>;

/// A network: a loadable whose memories are in an arena and whose tasks are validated.
pub struct Network<'a> {
    pub(crate) loadable: Loadable<'a>,
    pub(crate) arena: Arena<'a>,
    /// The validated tasks, each with its id. A task that runs is with the engine.
    pub(crate) tasks: [Option<(u16, Ready<'a>)>; MAX_TASKS],
}

impl core::fmt::Debug for Network<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Network").field("tasks", &self.loadable.task_count()).finish_non_exhaustive()
    }
}

impl<'a> Network<'a> {
    /// Loads a network: fills the arena, and validates every task for a device of that configuration.
    ///
    /// # Errors
    ///
    /// When the bytes are no loadable that this crate runs, when arena or slots are too small, and when the engine refuses a task.
    ///
    /// # Safety
    ///
    /// `address` must be the address at which the device sees the first byte of `arena`, and the whole arena must lie there in one
    /// piece: the device reads and writes the memory at these addresses. The arena must not be used for anything else as long as
    /// the device may access it, also after a run that did not end in time.
    pub unsafe fn load(
        loadable: &'a [u8],
        config: &'static Config,
        arena: &'a mut [u8],
        address: u64,
        slots: &'a mut [Slot],
    ) -> Result<Self, Error> {
        let loadable = Loadable::new(loadable)?;
        let (needed, alignment) = loadable.arena()?;
        let size = arena.len() as u64;
        // What is behind the memories of the network is neither cleared nor kept coherent.
        let used = usize::try_from(needed).ok().and_then(|needed| arena.get_mut(..needed));
        let Some(arena) = used else { return Err(Error::Arena { needed, size }) };
        if !address.is_multiple_of(alignment) || address.checked_add(size).is_none() {
            return Err(Error::Alignment { address, alignment });
        }
        let mut network = Self { loadable, arena: Arena::new(arena, address), tasks: [const { None }; MAX_TASKS] };
        loadable.fill(network.arena.bytes_mut())?;
        network.validate(config, slots)?;
        // Every place that a run looks at is read once, so that a run can only fail on the device.
        for task in loadable.order()? {
            task?;
        }
        for flag in [INPUT, OUTPUT] {
            let mut position = 0;
            while let Some(memory) = loadable.bound(flag, position)? {
                Tensor::new(loadable, memory)?;
                position += 1;
            }
        }
        Ok(network)
    }

    /// Validates the tasks for NVDLA. Their slots are taken one after another.
    fn validate(&mut self, config: &'static Config, mut slots: &'a mut [Slot]) -> Result<(), Error> {
        let (mut count, mut used, available) = (0, 0, slots.len());
        for at in 0..self.loadable.task_count() {
            let task = self.loadable.task_at(at)?;
            if task.interface != Interface::Nvdla {
                continue;
            }
            let version = self.loadable.version(task)?;
            if version != Version::CURRENT {
                return Err(Error::Descriptors { task: task.id, version });
            }
            let memory = InArena { loadable: self.loadable, task, arena: &mut self.arena };
            let own = |needed| {
                used += needed;
                let (own, rest) = take(&mut slots).split_at_mut_checked(needed).ok_or(Stopped::Slots(needed))?;
                slots = rest;
                Ok(own)
            };
            let ready = Validated::parse(config, &memory, own).map_err(|stopped| match stopped {
                Stopped::Slots(_) => Error::Slots { needed: used, available },
                Stopped::Refused(error) => Error::Refused { task: task.id, error },
            })?;
            count += 1;
            let place = self.tasks.get_mut(count - 1).ok_or(Error::Tasks { tasks: count, limit: MAX_TASKS })?;
            *place = Some((task.id, ready));
        }
        Ok(())
    }

    /// The input at that position.
    pub fn input(&self, position: usize) -> Option<Tensor<'a>> {
        self.bound(INPUT, position)
    }

    /// The output at that position.
    pub fn output(&self, position: usize) -> Option<Tensor<'a>> {
        self.bound(OUTPUT, position)
    }

    fn bound(&self, flag: u16, position: usize) -> Option<Tensor<'a>> {
        let memory = self.loadable.bound(flag, position).ok()??;
        Tensor::new(self.loadable, memory).ok()
    }

    /// The bytes of a tensor of this network, which the last run has written or the next one reads.
    pub fn bytes(&self, tensor: &Tensor<'_>) -> &[u8] {
        let start = tensor.place.offset as usize;
        self.arena.bytes().get(start..start.saturating_add(tensor.size())).unwrap_or_default()
    }

    /// The bytes of a tensor of this network, to be written.
    pub fn bytes_mut(&mut self, tensor: &Tensor<'_>) -> &mut [u8] {
        let start = tensor.place.offset as usize;
        self.arena.bytes_mut().get_mut(start..start.saturating_add(tensor.size())).unwrap_or_default()
    }
}
