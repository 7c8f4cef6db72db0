// SPDX-License-Identifier: MIT OR Apache-2.0

//! A loadable, read where it lies: its lists, and where its memories lie in an arena.
//!
//! Source of the facts: `umd/core/src/common/loadable.fbs` of nvdla/sw. The constants are positions of fields in it.

use nvdla_uapi::desc::Version;

use super::error::Error;
use super::flat::{Broken, Table, Vector};

/// Fields of the root table.
mod root {
    pub(super) const VERSION: usize = 0;
    pub(super) const TASKS: usize = 1;
    pub(super) const MEMORIES: usize = 2;
    pub(super) const ADDRESSES: usize = 3;
    pub(super) const BLOBS: usize = 5;
    pub(super) const TENSORS: usize = 6;
    pub(super) const SUBMITS: usize = 8;
}

/// Alignment of every memory in bytes: the longest burst of the memory interfaces, so that no two memories share one.
const ALIGNMENT: u64 = 256;

/// The largest alignment that a memory may ask for.
const MAX_ALIGNMENT: u64 = 1 << 20;

/// The most bytes of a memory: sizes and strides in the descriptors have 32 bits.
const MAX_SIZE: u64 = 1 << 32;

/// Bits of a memory's flags.
const ALLOC: u16 = 1;
const SET: u16 = 2;
/// The memory is an input.
pub(crate) const INPUT: u16 = 4;
/// The memory is an output.
pub(crate) const OUTPUT: u16 = 8;

impl From<Broken> for Error {
    fn from(_: Broken) -> Self {
        Self::NotALoadable
    }
}

/// Who executes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    Nvdla,
    Emulator,
}

/// A task.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) id: u16,
    pub(crate) interface: Interface,
    /// Ids of addresses.
    addresses: Vector<'a>,
}

impl Task<'_> {
    /// Entries of its address list.
    pub(crate) fn addresses(&self) -> usize {
        self.addresses.len()
    }
}

/// A part of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Bytes from the arena's start.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) size: u64,
}

/// A memory of the network.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    table: Table<'a>,
    pub(crate) flags: u16,
    /// Where it lies in the arena.
    pub(crate) place: Place,
    /// Its position among the inputs or outputs.
    pub(crate) bind: u16,
    /// The id of the tensor that describes it.
    pub(crate) tensor: u16,
}

/// A loadable.
#[derive(Clone, Copy)]
pub(crate) struct Loadable<'a> {
    tasks: Vector<'a>,
    memories: Vector<'a>,
    addresses: Vector<'a>,
    blobs: Vector<'a>,
    tensors: Vector<'a>,
    submits: Vector<'a>,
}

impl<'a> Loadable<'a> {
    /// Reads the lists of a file.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let table = Table::root(bytes)?;
        let [major, minor, _] = table.number(root::VERSION)?;
        if (major, minor) != (0, 7) {
            return Err(Error::Format { major, minor });
        }
        Ok(Self {
            tasks: table.offsets(root::TASKS)?,
            memories: table.offsets(root::MEMORIES)?,
            addresses: table.offsets(root::ADDRESSES)?,
            blobs: table.offsets(root::BLOBS)?,
            tensors: table.offsets(root::TENSORS)?,
            submits: table.offsets(root::SUBMITS)?,
        })
    }

    /// The memories, each with its place: one after another, in the order of the list.
    pub(crate) fn memories(self) -> impl Iterator<Item = Result<Memory<'a>, Error>> {
        let mut end = 0u64;
        (0..self.memories.len()).map(move |entry| {
            let table = self.memories.table(entry)?;
            let refuse = |field, value| Err(Error::Entry { list: "memory list", entry, field, value });
            let (domain, flags, size, alignment) = (table.u8(1)?, table.u16(2)?, table.u64(3)?, table.u32(4)?);
            if domain > 1 {
                return refuse("domain", domain.into());
            }
            if flags & !(ALLOC | SET | INPUT | OUTPUT) != 0 || flags & ALLOC == 0 || flags & (INPUT | OUTPUT) == 12 {
                return refuse("flags", flags.into());
            }
            if size == 0 || size > MAX_SIZE {
                return refuse("size", size);
            }
            let alignment = u64::from(alignment);
            if alignment != 0 && !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
                return refuse("alignment", alignment);
            }
            // Both are below 2^33, and a list has less than 2^30 entries.
            let offset = end.next_multiple_of(alignment.max(ALIGNMENT));
            end = offset + size;
            Ok(Memory { table, flags, place: Place { offset, size }, bind: table.u16(7)?, tensor: table.u16(8)? })
        })
    }

    /// Bytes of an arena that holds all memories, and its alignment in bytes.
    pub(crate) fn arena(self) -> Result<(u64, u64), Error> {
        let (mut end, mut largest) = (0, ALIGNMENT);
        for memory in self.memories() {
            let memory = memory?;
            end = memory.place.offset + memory.place.size.next_multiple_of(ALIGNMENT);
            largest = largest.max(memory.table.u32(4)?.into());
        }
        Ok((end, largest))
    }

    /// The blobs that fill a memory, each with its offset in the memory and inside it.
    pub(crate) fn contents(self, memory: Memory<'a>) -> impl Iterator<Item = Result<(Table<'a>, u64), Error>> {
        let blob = move |at| {
            let name = memory.table.offsets(5)?.text(at)?;
            let offset = memory.table.vector(6, 8)?.u64(at)?;
            let blob = self.blob(name)?;
            let end = offset.checked_add(blob.bytes(5)?.len() as u64);
            if end.is_none_or(|end| end > memory.place.size) {
                return Err(Error::Entry { list: "memory list", entry: at, field: "offsets", value: offset });
            }
            Ok((blob, offset))
        };
        // A vector of names that cannot be read has one element, which cannot be read either.
        let count = if memory.flags & SET == 0 { 0 } else { memory.table.offsets(5).map_or(1, Vector::len) };
        (0..count).map(blob)
    }

    /// The blob of that name.
    fn blob(self, name: &[u8]) -> Result<Table<'a>, Error> {
        for at in 0..self.blobs.len() {
            let blob = self.blobs.table(at)?;
            if blob.bytes(0)? == name {
                return Ok(blob);
            }
        }
        Err(Error::NotALoadable)
    }

    /// Fills the memories in the arena; what no blob fills is zero.
    pub(crate) fn fill(self, arena: &mut [u8]) -> Result<(), Error> {
        arena.fill(0);
        for memory in self.memories() {
            let memory = memory?;
            for content in self.contents(memory) {
                let (blob, offset) = content?;
                let (from, start) = (blob.bytes(5)?, (memory.place.offset + offset) as usize);
                arena.get_mut(start..start + from.len()).ok_or(Error::NotALoadable)?.copy_from_slice(from);
            }
        }
        Ok(())
    }

    /// The entry with that id of a list whose entries have their id in field `slot`. It is nearly always at the position of its id.
    fn by_id(list: Vector<'a>, slot: usize, id: u16) -> Result<Table<'a>, Error> {
        if let Ok(table) = list.table(id.into()) {
            if table.u16(slot)? == id {
                return Ok(table);
            }
        }
        for at in 0..list.len() {
            let table = list.table(at)?;
            if table.u16(slot)? == id {
                return Ok(table);
            }
        }
        Err(Error::NotALoadable)
    }

    /// The number of places in the order of the tasks.
    fn runs(self) -> Result<usize, Error> {
        let mut runs = 0;
        for at in 0..self.submits.len() {
            runs += self.submits.table(at)?.vector(1, 2)?.len();
        }
        Ok(runs)
    }

    /// The tasks in the order in which they run: by the id of their submission.
    pub(crate) fn order(self) -> Result<impl Iterator<Item = Result<Task<'a>, Error>>, Error> {
        let mut last: Option<(u16, usize)> = None;
        let mut submit: Option<(Vector<'a>, usize)> = None;
        Ok((0..self.runs()?).map(move |_| loop {
            if let Some((tasks, next)) = &mut submit {
                if *next < tasks.len() {
                    *next += 1;
                    return self.task(tasks.u16(*next - 1)?);
                }
            }
            // The submission with the next id; equal ids in the order of the list.
            let mut best: Option<(u16, usize)> = None;
            for at in 0..self.submits.len() {
                let key = (self.submits.table(at)?.u16(0)?, at);
                if last.is_none_or(|last| key > last) && best.is_none_or(|best| key < best) {
                    best = Some(key);
                }
            }
            let (id, at) = best.ok_or(Error::NotALoadable)?;
            last = Some((id, at));
            submit = Some((self.submits.table(at)?.vector(1, 2)?, 0));
        }))
    }

    /// The number of tasks in the file.
    pub(crate) fn task_count(self) -> usize {
        self.tasks.len()
    }

    /// The task at a position of the list.
    pub(crate) fn task_at(self, entry: usize) -> Result<Task<'a>, Error> {
        let table = self.tasks.table(entry)?;
        let interface = match table.u32(1)? {
            1 => Interface::Nvdla,
            2 => Interface::Emulator,
            other => {
                return Err(Error::Entry { list: "task list", entry, field: "interface", value: other.into() });
            }
        };
        Ok(Task { id: table.u16(0)?, interface, addresses: table.vector(3, 2)? })
    }

    fn task(self, id: u16) -> Result<Task<'a>, Error> {
        for entry in 0..self.tasks.len() {
            if self.tasks.table(entry)?.u16(0)? == id {
                return self.task_at(entry);
            }
        }
        Err(Error::NotALoadable)
    }

    /// The part of the arena that an entry of a task's address list makes accessible, clipped to its memory's end.
    pub(crate) fn place(self, task: Task<'a>, index: usize) -> Result<Place, Error> {
        let (memory, offset, size) = self.address(task, index)?;
        let room = memory.place.size - offset;
        // Files of older interfaces have 0 as the size of descriptor addresses.
        let size = if size == 0 { room } else { size.min(room) };
        Ok(Place { offset: memory.place.offset + offset, size })
    }

    /// The part of the arena from an entry of a task's address list to the end of its memory, with the unused bytes behind it:
    /// units read whole atoms, and some compilers make a memory that ends within one.
    pub(crate) fn reach(self, task: Task<'a>, index: usize) -> Result<Place, Error> {
        let (memory, offset, _) = self.address(task, index)?;
        let size = memory.place.size.next_multiple_of(ALIGNMENT) - offset;
        Ok(Place { offset: memory.place.offset + offset, size })
    }

    /// The memory, the offset in it and the size of an entry of a task's address list.
    fn address(self, task: Task<'a>, index: usize) -> Result<(Memory<'a>, u64, u64), Error> {
        let address = Self::by_id(self.addresses, 0, task.addresses.u16(index)?)?;
        let id = address.u16(1)?;
        let (offset, size) = (address.u64(2)?, address.u64(3)?);
        for memory in self.memories() {
            let memory = memory?;
            if memory.table.u16(0)? == id {
                if offset > memory.place.size {
                    return Err(Error::Entry { list: "address list", entry: index, field: "offset", value: offset });
                }
                return Ok((memory, offset, size));
            }
        }
        Err(Error::Entry { list: "address list", entry: index, field: "mem_id", value: id.into() })
    }

    /// The blob that the file puts at an entry of a task's address list, and the entry's place in its bytes; none if there is no blob.
    fn blob_at(self, task: Task<'a>, index: usize) -> Result<Option<(Table<'a>, usize)>, Error> {
        let (memory, offset, _) = self.address(task, index)?;
        for content in self.contents(memory) {
            let (blob, at) = content?;
            let length = blob.bytes(5)?.len() as u64;
            if let Some(within) = offset.checked_sub(at).filter(|&within| within < length) {
                return Ok(Some((blob, within as usize)));
            }
        }
        Ok(None)
    }

    /// The bytes that the file puts at an entry of a task's address list; none if no blob does.
    pub(crate) fn initial(self, task: Task<'a>, index: usize) -> Result<&'a [u8], Error> {
        let Some((blob, within)) = self.blob_at(task, index)? else { return Ok(&[]) };
        Ok(blob.bytes(5)?.get(within..).unwrap_or_default())
    }

    /// The version of a task's descriptors: that of the blob that holds its network descriptor.
    pub(crate) fn version(self, task: Task<'a>) -> Result<Version, Error> {
        let Some((blob, _)) = self.blob_at(task, 0)? else { return Ok(Version { major: 0, minor: 0 }) };
        let [major, minor, _] = blob.number(4)?;
        Ok(Version { major, minor })
    }

    /// The memory of an input or output, by its position among them.
    pub(crate) fn bound(self, flag: u16, position: usize) -> Result<Option<Memory<'a>>, Error> {
        for memory in self.memories() {
            let memory = memory?;
            if memory.flags & flag != 0 && usize::from(memory.bind) == position {
                return Ok(Some(memory));
            }
        }
        Ok(None)
    }

    /// The tensor with that id.
    pub(crate) fn tensor(self, id: u16) -> Result<Table<'a>, Error> {
        Self::by_id(self.tensors, 1, id)
    }
}
