// SPDX-License-Identifier: MIT OR Apache-2.0

//! Validated tasks of the built-in model, kept for their next submission.
//!
//! An application submits the same task for each of its inputs. The result of validation depends on the task's address list and
//! on the bytes of the buffers that hold its descriptors. As long as none of those buffers is written, the result stays the same.

use std::cell::RefCell;
use std::ops::Range;

use nvdla_engine::{OutOfRange, Slot, Task, TaskMemory};
use nvdla_uapi::config::Config;

use super::store::Store;
use super::types::{AddressEntry, Handle};
#[cfg(feature = "model")]
use super::view::{reach, Reach};

/// The number of tasks that are kept: more than a loadable has, and few enough to search.
const MAX_TASKS: usize = 16;

/// What the result of validation depends on, and the bytes that the task can access.
pub(super) struct Ticket {
    addresses: Vec<AddressEntry>,
    /// The buffer of each entry.
    buffers: Vec<Option<nvdla_engine::Buffer>>,
    /// The buffers that validation read, with their versions at that time.
    read: Vec<(Handle, u64)>,
    /// The bytes that the task may touch.
    #[cfg(feature = "model")]
    pub(super) reach: Vec<Reach>,
}

impl Ticket {
    /// Whether validating the task of that address list would give the same result again.
    fn holds(&self, store: &mut Store, addresses: &[AddressEntry]) -> bool {
        self.addresses == addresses
            && self.read.iter().all(|&(handle, version)| store.get(handle).is_some_and(|b| b.version() == version))
            && self.buffers.iter().copied().eq(buffers(&AddressList::new(store, addresses)))
    }
}

fn buffers<'l>(list: &'l AddressList<'_>) -> impl Iterator<Item = Option<nvdla_engine::Buffer>> + 'l {
    (0..list.count()).map(|index| list.buffer(index))
}

/// Why a task cannot run.
pub(super) enum Refusal {
    /// The engine refuses it.
    Task(nvdla_engine::Error),
    /// There is not enough memory for this many slots.
    Slots(usize),
}

impl From<nvdla_engine::Error> for Refusal {
    fn from(error: nvdla_engine::Error) -> Self {
        Self::Task(error)
    }
}

/// Validated tasks. The most recently used one is last.
#[derive(Default)]
pub(super) struct Tasks {
    kept: Vec<(Ticket, Task<Vec<Slot>>)>,
}

impl Tasks {
    /// The task of an address list with entries in the store's buffers.
    pub(super) fn take(
        &mut self,
        config: &'static Config,
        store: &mut Store,
        addresses: &[AddressEntry],
    ) -> Result<(Ticket, Task<Vec<Slot>>), Refusal> {
        if let Some(at) = self.kept.iter().position(|(ticket, _)| ticket.holds(store, addresses)) {
            return Ok(self.kept.remove(at));
        }
        // The kept task of this address list is out of date.
        self.kept.retain(|(ticket, _)| ticket.addresses != addresses);
        #[cfg(feature = "model")]
        let reach = reach(store, addresses);
        let list = AddressList::new(store, addresses);
        let task = Task::parse(config, &list, |slots| {
            let mut storage = Vec::new();
            storage.try_reserve_exact(slots).map_err(|_| Refusal::Slots(slots))?;
            storage.resize_with(slots, Slot::default);
            Ok::<_, Refusal>(storage)
        })?;
        let buffers = buffers(&list).collect();
        let read = list.read.take();
        let version = |handle| Some((handle, store.get(handle)?.version()));
        let read = read.into_iter().filter_map(version).collect();
        let ticket = Ticket {
            addresses: addresses.to_vec(),
            buffers,
            read,
            #[cfg(feature = "model")]
            reach,
        };
        Ok((ticket, task))
    }

    /// Keeps a task that has ended.
    pub(super) fn keep(&mut self, ticket: Ticket, task: Task<Vec<Slot>>) {
        if self.kept.len() == MAX_TASKS {
            self.kept.remove(0);
        }
        self.kept.push((ticket, task));
    }
}

/// A task's address list for the scheduler.
pub(super) struct AddressList<'a> {
    store: &'a mut Store,
    addresses: &'a [AddressEntry],
    /// The buffers that validation has read.
    read: RefCell<Vec<Handle>>,
}

impl<'a> AddressList<'a> {
    /// The address list of a task with entries in the store's buffers.
    pub(super) fn new(store: &'a mut Store, addresses: &'a [AddressEntry]) -> Self {
        Self { store, addresses, read: RefCell::default() }
    }

    /// The handle and the byte range of the buffer for `offset` and `length` in an entry.
    fn place(&self, index: usize, offset: u64, length: usize) -> Option<(Handle, Range<usize>)> {
        let entry = self.addresses.get(index)?;
        let reach = self.store.get(entry.handle)?.reach(entry);
        let end = offset.checked_add(length as u64).filter(|&end| end <= reach)?;
        let start = usize::try_from(entry.offset.checked_add(offset)?).ok()?;
        Some((entry.handle, start..usize::try_from(entry.offset.checked_add(end)?).ok()?))
    }
}

impl TaskMemory for AddressList<'_> {
    fn count(&self) -> usize {
        self.addresses.len()
    }

    fn buffer(&self, index: usize) -> Option<nvdla_engine::Buffer> {
        let entry = self.addresses.get(index)?;
        let buffer = self.store.get(entry.handle)?;
        Some(nvdla_engine::Buffer {
            address: buffer.address().checked_add(entry.offset)?,
            size: buffer.reach(entry),
            memory: buffer.memory(),
        })
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let (handle, range) = self.place(index, offset, into.len()).ok_or(OutOfRange)?;
        let bytes = self.store.get(handle).and_then(|buffer| buffer.pages().get(range)).ok_or(OutOfRange)?;
        into.copy_from_slice(bytes);
        let mut read = self.read.borrow_mut();
        if !read.contains(&handle) {
            read.push(handle);
        }
        Ok(())
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> Result<(), OutOfRange> {
        let (handle, range) = self.place(index, offset, from.len()).ok_or(OutOfRange)?;
        let bytes = self.store.pages_mut(handle).and_then(|pages| pages.get_mut(range)).ok_or(OutOfRange)?;
        bytes.copy_from_slice(from);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::NV_SMALL;

    use super::*;

    /// A task without operations in the first of two buffers.
    fn store() -> (Store, [AddressEntry; 2]) {
        let mut store = Store::new(&NV_SMALL, false);
        let entry = [(); 2].map(|()| AddressEntry { handle: store.allocate(4096).unwrap(), offset: 0, size: 4096 });
        (store, entry)
    }

    fn is_kept(tasks: &mut Tasks, store: &mut Store, addresses: &[AddressEntry]) -> bool {
        let kept = tasks.kept.iter().any(|(ticket, _)| ticket.holds(store, addresses));
        let Ok((ticket, task)) = tasks.take(&NV_SMALL, store, addresses) else { panic!("the task is refused") };
        tasks.keep(ticket, task);
        kept
    }

    #[test]
    fn a_task_is_read_again_when_its_descriptors_or_addresses_have_changed() {
        let (mut store, [first, second]) = store();
        let (store, mut tasks) = (&mut store, Tasks::default());
        let both = [first, second];
        assert!(!is_kept(&mut tasks, store, &both));
        assert!(is_kept(&mut tasks, store, &both));
        store.pages_mut(second.handle);
        assert!(is_kept(&mut tasks, store, &both), "no descriptor lies in the second buffer");
        assert!(!is_kept(&mut tasks, store, &[first]));
        assert!(is_kept(&mut tasks, store, &both));
        store.pages_mut(first.handle);
        assert!(!is_kept(&mut tasks, store, &both));
        assert!(is_kept(&mut tasks, store, &both));
        store.free(first.handle);
        assert_eq!(store.allocate(4096).unwrap(), first.handle);
        assert!(!is_kept(&mut tasks, store, &both), "the first buffer is another");
    }

    #[test]
    fn a_refused_task_is_refused_again() {
        let (mut store, both) = store();
        store.pages_mut(both[0].handle).unwrap().fill(0xff);
        let mut tasks = Tasks::default();
        for _ in 0..2 {
            assert!(matches!(tasks.take(&NV_SMALL, &mut store, &both), Err(Refusal::Task(_))));
        }
    }

    #[test]
    fn few_tasks_are_kept() {
        let (mut store, [first, _]) = store();
        let mut tasks = Tasks::default();
        for size in 0..2 * MAX_TASKS as u64 {
            assert!(!is_kept(&mut tasks, &mut store, &[AddressEntry { size: 4096 - size, ..first }]));
        }
        assert_eq!(tasks.kept.len(), MAX_TASKS);
    }
}
