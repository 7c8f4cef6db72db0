// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver's part in the time of a loadable: the register writes of its scheduler, and the waits between operations.

use std::collections::HashMap;

use nvdla_engine::{Buffer, OutOfRange, Slot as EngineSlot, Task, TaskMemory, WriteCounter};
use nvdla_estimate::Writes;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::Event;
use nvdla_uapi::reg::values::RamType;

use crate::emulator::Memory as _;
use crate::loadable::{Interface, Loadable, Memory};
use crate::operations::lists::{self, wants_sram};
use crate::operations::{FileMemory, NetworkOperation};

/// The first memory's address on the assumed device. Memories follow each other, as in a carve-out below 4 GiB, so that the high
/// words of addresses are 0.
const FIRST_ADDRESS: u64 = 0x1000_0000;

/// The writes per task and operation when the loadable runs again, which is the usual case. Tasks that the scheduler refuses are
/// not included, nor are those whose descriptors have an older form.
pub(super) fn writes(loadable: &Loadable, config: &'static Config) -> HashMap<(u16, usize), Writes> {
    let sizes = loadable.memories().iter().map(Memory::size);
    let addresses = sizes.scan(FIRST_ADDRESS, |next, size| {
        let address = *next;
        *next = next.saturating_add(size).saturating_add(4095) & !4095;
        Some(address)
    });
    let addresses: Vec<u64> = addresses.collect();
    let tasks = loadable.distinct_tasks().filter(|task| task.interface() == Interface::Dla1);
    let tasks = tasks.filter_map(|task| {
        let slots = lists::slots(loadable, task);
        if lists::interface_version(loadable, &slots).needs_upgrade() {
            return None;
        }
        let memory = AddressList {
            file: FileMemory { loadable, slots: &slots },
            addresses: &addresses,
            has_sram: config.secondary_memif,
        };
        let allocate = |count| Ok::<_, nvdla_engine::Error>(vec![EngineSlot::default(); count]);
        Some((task.id(), Task::parse(config, &memory, allocate).ok()?))
    });
    let tasks: Vec<_> = tasks.collect();
    let mut writes = HashMap::new();
    let mut counter = WriteCounter::new(config);
    for _ in ["first run", "later run"] {
        for (id, task) in &tasks {
            counter.run(task, |operation, counted| {
                let counted = Writes { registers: counted.registers, table: counted.table };
                writes.insert((*id, operation as usize), counted);
            });
        }
    }
    writes
}

/// The operations whose end each operation waits for, by task and position.
pub(super) type Predecessors = HashMap<(u16, usize), Vec<usize>>;

pub(super) fn predecessors(operations: &[NetworkOperation]) -> Predecessors {
    let mut after = Predecessors::new();
    for operation in operations {
        let ends = operation.common.consumers.iter().flatten().filter(|consumer| consumer.event == Event::OpCompleted);
        for consumer in ends {
            let consumer = usize::try_from(consumer.index).unwrap_or(usize::MAX);
            after.entry((operation.task, consumer)).or_default().push(operation.index);
        }
    }
    after
}

/// The task and the operations of the last two groups of operations that are connected on the fly.
#[derive(Default)]
pub(super) struct Groups {
    task: u16,
    before: Vec<usize>,
    current: Vec<usize>,
}

impl Groups {
    /// Whether an operation waits for one of the previous group. The first operation of a task waits for the end of the task
    /// before.
    pub(super) fn waits(&mut self, operation: &NetworkOperation, joins: bool, after: &Predecessors) -> bool {
        if self.task != operation.task {
            *self = Self { task: operation.task, ..Self::default() };
        }
        if !joins {
            self.before = std::mem::take(&mut self.current);
        }
        self.current.push(operation.index);
        let waits_for = after.get(&(operation.task, operation.index)).map(Vec::as_slice).unwrap_or_default();
        self.before.is_empty() || waits_for.iter().any(|index| self.before.contains(index))
    }
}

/// The address list of a task whose memories hold what the file puts there.
struct AddressList<'a> {
    file: FileMemory<'a>,
    addresses: &'a [u64],
    has_sram: bool,
}

impl TaskMemory for AddressList<'_> {
    fn count(&self) -> usize {
        self.file.slots.len()
    }

    fn buffer(&self, index: usize) -> Option<Buffer> {
        let slot = self.file.slots.get(index)?;
        let memory = self.file.loadable.memories().get(slot.memory)?;
        let ram = if self.has_sram && wants_sram(memory) { RamType::Cvif } else { RamType::Mcif };
        let address = self.addresses.get(slot.memory)?.checked_add(slot.offset)?;
        Some(Buffer { address, size: memory.size().checked_sub(slot.offset)?, memory: ram })
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let end = offset.checked_add(into.len() as u64).ok_or(OutOfRange)?;
        if self.buffer(index).is_none_or(|buffer| end > buffer.size) {
            return Err(OutOfRange);
        }
        self.file.read(index, offset, into);
        Ok(())
    }

    fn write(&mut self, _: usize, _: u64, _: &[u8]) -> Result<(), OutOfRange> {
        // Validation writes nothing.
        Err(OutOfRange)
    }
}
