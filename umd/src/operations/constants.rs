// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memories of a loadable that no task changes.

use super::list::tasks;
use super::lists::{self, contents, Slot};
use super::races::accesses;
use super::recognise::recognise;
use crate::emulator;
use crate::loadable::{Interface, Loadable, Memory, MemoryFlags};

/// The memories, by position, whose bytes no task changes and the device reads as they are in the file. Several sessions can
/// share them. `keeps_graphs` says that the device does not change dependency graphs.
pub(crate) fn constants(loadable: &Loadable, keeps_graphs: bool) -> Vec<bool> {
    let Ok(tasks) = tasks(loadable) else {
        // The error is reported when the loadable runs.
        return vec![false; loadable.memories().len()];
    };
    let set = |memory: Memory<'_>| {
        let has = |flag| memory.flags().has(flag);
        has(MemoryFlags::ALLOC) && has(MemoryFlags::SET) && !has(MemoryFlags::INPUT) && !has(MemoryFlags::OUTPUT)
    };
    let mut constant: Vec<bool> = loadable.memories().iter().map(set).collect();
    let mut changes = |memory: usize| {
        if let Some(constant) = constant.get_mut(memory) {
            *constant = false;
        }
    };
    for task in tasks {
        let atom = recognise(loadable).config.memory_atomic;
        for access in accesses(&task, atom).iter().filter(|access| access.writes) {
            changes(access.memory);
        }
        task.statistics.iter().for_each(|slot| changes(slot.memory));
        if task.is_old {
            // Older descriptors are converted to the current form in their memory.
            task.slots.iter().for_each(|slot| changes(slot.memory));
        }
        if !keeps_graphs {
            task.graph_slot.iter().for_each(|slot| changes(slot.memory));
        }
    }
    for task in loadable.distinct_tasks().filter(|task| task.interface() == Interface::Emu1) {
        let slots = lists::slots(loadable, task);
        let targets = emulator::targets(&FileMemory { loadable, slots: &slots });
        // A task that cannot be read is refused when it runs.
        let targets = targets.unwrap_or_else(|_| (0..slots.len()).collect());
        targets.iter().filter_map(|&at| slots.get(at)).for_each(|slot| changes(slot.memory));
    }
    constant
}

/// The memory of a task's address list, as it is in the file.
pub(crate) struct FileMemory<'a> {
    pub(crate) loadable: &'a Loadable,
    pub(crate) slots: &'a [Slot],
}

impl emulator::Memory for FileMemory<'_> {
    fn size(&self, index: usize) -> Option<u64> {
        self.slots.get(index).map(|slot| slot.size)
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> bool {
        let bytes = self.slots.get(index).and_then(|slot| contents(self.loadable, *slot));
        let from = bytes.zip(usize::try_from(offset).ok()).and_then(|(bytes, at)| bytes.get(at..));
        // Bytes that no blob fills are zero.
        let have = from.map_or(0, |from| from.len().min(into.len()));
        into.fill(0);
        into[..have].copy_from_slice(&from.unwrap_or_default()[..have]);
        have > 0
    }

    fn write(&mut self, _: usize, _: u64, _: &[u8]) -> bool {
        false
    }
}
