// SPDX-License-Identifier: MIT OR Apache-2.0

//! A loadable's tasks for the engine, without a device or a session. The memories are in host memory, each in whole pages on a
//! 4096-byte boundary of an invented DMA address space. Every device allocates whole pages, and compilers rely on that, because
//! units read whole atoms, beyond the end of operands that have a separate memory.

use std::cell::RefCell;
use std::rc::Rc;

use nvdla_engine::{Buffer, Error, OutOfRange, Slot, Task, TaskMemory};
use nvdla_runtime::loadable::{Interface, Loadable, MemoryFlags};
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::RamType;

/// The device address of the first memory.
const FIRST_ADDRESS: u64 = 0x1000_0000;
const PAGE: u64 = 4096;

/// The bytes at an address of the device.
#[derive(Debug)]
struct Area {
    address: u64,
    bytes: Vec<u8>,
    memory: RamType,
}

/// A task's address list in host memory.
#[derive(Clone, Debug)]
pub struct HostTask {
    areas: Rc<RefCell<Vec<Area>>>,
    /// Memory, offset and size of each entry.
    entries: Vec<(usize, u64, u64)>,
}

impl HostTask {
    /// The tasks for NVDLA of a loadable, in the order of its list. They share its memories.
    ///
    /// # Panics
    ///
    /// Never: loading has checked what entries say about one another.
    pub fn all(loadable: &Loadable) -> Vec<Self> {
        let mut areas = Vec::new();
        let mut address = FIRST_ADDRESS;
        for memory in loadable.memories().iter() {
            let size = memory.size().next_multiple_of(PAGE).max(PAGE);
            let mut bytes = vec![0; size as usize];
            if memory.flags().has(MemoryFlags::SET) {
                for (blob, offset) in loadable.contents(memory) {
                    let data = blob.data();
                    bytes[offset as usize..][..data.len()].copy_from_slice(data);
                }
            }
            areas.push(Area { address, bytes, memory: RamType::Mcif });
            address += size;
        }
        let areas = Rc::new(RefCell::new(areas));
        let tasks = loadable.tasks().iter().filter(|task| task.interface() == Interface::Dla1);
        tasks
            .map(|task| {
                let entry = |id: u16| {
                    let entry = loadable.address(id).expect("the loader checked addresses");
                    let memory = loadable.memory_position(entry.mem_id()).expect("the loader checked memories");
                    let room = areas.borrow()[memory].bytes.len() as u64 - entry.offset();
                    // A driver gets only the start of an entry; the entry ends at the end of its memory.
                    (memory, entry.offset(), room)
                };
                Self { areas: Rc::clone(&areas), entries: task.address_list().iter().map(entry).collect() }
            })
            .collect()
    }

    /// A task in memory from the caller: one buffer per entry.
    pub fn from_buffers(buffers: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let (mut areas, mut entries, mut address) = (Vec::new(), Vec::new(), FIRST_ADDRESS);
        for (index, bytes) in buffers.into_iter().enumerate() {
            let size = bytes.len() as u64;
            entries.push((index, 0, size));
            areas.push(Area { address, bytes, memory: RamType::Mcif });
            address += size.next_multiple_of(PAGE).max(PAGE);
        }
        Self { areas: Rc::new(RefCell::new(areas)), entries }
    }

    /// Moves the buffer of an entry of the address list to another memory.
    ///
    /// # Panics
    ///
    /// If there is no such entry.
    pub fn place(&self, entry: usize, memory: RamType) {
        self.areas.borrow_mut()[self.entries[entry].0].memory = memory;
    }

    /// Validates the task.
    pub fn parse(&self, config: &'static Config) -> Result<Task<Vec<Slot>>, Error> {
        Task::parse(config, self, |count| Ok(vec![Slot::Empty; count]))
    }
}

impl TaskMemory for HostTask {
    fn count(&self) -> usize {
        self.entries.len()
    }

    fn buffer(&self, index: usize) -> Option<Buffer> {
        let (area, offset, size) = *self.entries.get(index)?;
        let area = &self.areas.borrow()[area];
        Some(Buffer { address: area.address + offset, size, memory: area.memory })
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let (area, start, size) = *self.entries.get(index).ok_or(OutOfRange)?;
        let end = offset.checked_add(into.len() as u64).filter(|&end| end <= size).ok_or(OutOfRange)?;
        let areas = self.areas.borrow();
        into.copy_from_slice(&areas[area].bytes[(start + offset) as usize..(start + end) as usize]);
        Ok(())
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> Result<(), OutOfRange> {
        let (area, start, size) = *self.entries.get(index).ok_or(OutOfRange)?;
        let end = offset.checked_add(from.len() as u64).filter(|&end| end <= size).ok_or(OutOfRange)?;
        let mut areas = self.areas.borrow_mut();
        areas[area].bytes[(start + offset) as usize..(start + end) as usize].copy_from_slice(from);
        Ok(())
    }
}
