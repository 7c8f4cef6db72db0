// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loadables: the files that a compiler makes and the runtime runs.
//!
//! A loadable is a FlatBuffer with eight lists: tasks, memories, addresses, events, blobs, tensor descriptors,
//! relocations and submissions. [`Loadable::open`] maps the file, verifies its structure and everything that one entry
//! says about another, and gives typed views of the lists: no blob is copied, and no later step meets an index that is
//! out of range. A malformed file gives an error that names list, entry and field.
//!
//! ```no_run
//! use nvdla_runtime::loadable::Loadable;
//!
//! let loadable = Loadable::open("lenet.nvdla")?;
//! for task in loadable.tasks().iter() {
//!     println!("task {} for {}, {} addresses", task.id(), task.interface(), task.address_list().len());
//! }
//! # Ok::<(), nvdla_runtime::loadable::Error>(())
//! ```

mod check;
mod error;
pub mod schema;
pub mod write;

use std::{fmt, fs::File, path::Path};

use memmap2::Mmap;

pub use check::{MAX_ADDRESSES_PER_TASK, MAX_ALIGNMENT, MAX_MEMORY_SIZE};
pub use error::{Error, Malformed, Place, Problem};
pub use schema::{
    Address, Blob, DataCategory, DataFormat, DataType, Event, EventOp, Interface, List, Memory, MemoryDomain,
    MemoryFlags, PixelFormat, PixelMapping, Relocation, Submit, Task, Tensor, Version,
};

/// Where the bytes are.
enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(vec) => vec,
        }
    }
}

/// A verified loadable.
pub struct Loadable {
    bytes: Bytes,
    index: check::Index,
}

impl fmt::Debug for Loadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loadable").field("bytes", &self.bytes.get().len()).finish_non_exhaustive()
    }
}

impl Loadable {
    /// Maps and verifies a file.
    ///
    /// The file stays mapped while the value lives. As with every mapped file, another program that shortens it in that
    /// time takes the bytes away under the reader (the system then ends the process with SIGBUS); replace a file that is
    /// in use by renaming a new one over it. Where that cannot be promised, read the file and use [`Self::from_bytes`].
    ///
    /// # Errors
    ///
    /// When the file cannot be mapped, or is not a loadable that can be run.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(Error::NotALoadable { reason: format!("{} is not a regular file", path.display()) });
        }
        if metadata.len() == 0 {
            // An empty range cannot be mapped.
            return Err(Error::NotALoadable { reason: "the file is empty".into() });
        }
        // SAFETY: the mapping is private and read-only. What remains is a change of the file by someone else while it
        // is mapped, which the documentation of this function forbids.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Self::new(Bytes::Mapped(map))
    }

    /// Verifies bytes in memory.
    ///
    /// # Errors
    ///
    /// When they are not a loadable that can be run.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, Error> {
        Self::new(Bytes::Owned(bytes.into()))
    }

    fn new(bytes: Bytes) -> Result<Self, Error> {
        let index = check::check(bytes.get())?;
        Ok(Self { bytes, index })
    }

    /// The root table.
    pub fn root(&self) -> schema::Root<'_> {
        // SAFETY: `new` verified these bytes as a `Root`, and they do not change.
        unsafe { flatbuffers::root_unchecked::<schema::Root<'_>>(self.bytes.get()) }
    }

    /// The file's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get()
    }

    /// The version of the format.
    pub fn version(&self) -> Version {
        self.root().version()
    }

    /// The tasks.
    pub fn tasks(&self) -> List<'_, Task<'_>> {
        self.root().task_list()
    }

    /// The memories, in the order in which they are allocated.
    pub fn memories(&self) -> List<'_, Memory<'_>> {
        self.root().memory_list()
    }

    /// The addresses.
    pub fn addresses(&self) -> List<'_, Address<'_>> {
        self.root().address_list()
    }

    /// The events.
    pub fn events(&self) -> List<'_, Event<'_>> {
        self.root().event_list()
    }

    /// The blobs.
    pub fn blobs(&self) -> List<'_, Blob<'_>> {
        self.root().blobs()
    }

    /// The tensors.
    pub fn tensors(&self) -> List<'_, Tensor<'_>> {
        self.root().tensor_desc_list()
    }

    /// The relocations.
    pub fn relocations(&self) -> List<'_, Relocation<'_>> {
        self.root().reloc_list()
    }

    /// The submissions, in file order.
    pub fn submits(&self) -> List<'_, Submit<'_>> {
        self.root().submit_list()
    }

    /// The tasks in the order in which they are submitted: by the id of their submission.
    pub fn tasks_in_order(&self) -> impl Iterator<Item = Task<'_>> {
        let mut submits: Vec<_> = self.submits().iter().collect();
        submits.sort_by_key(|submit| submit.id());
        submits.into_iter().flat_map(|submit| submit.task_id().iter()).filter_map(|id| self.task(id))
    }

    /// The task with that id.
    pub fn task(&self, id: u16) -> Option<Task<'_>> {
        self.tasks().get(self.index.tasks.position(id)?)
    }

    /// The memory with that id.
    pub fn memory(&self, id: u16) -> Option<Memory<'_>> {
        self.memories().get(self.memory_position(id)?)
    }

    /// Where in the list the memory with that id is.
    pub fn memory_position(&self, id: u16) -> Option<usize> {
        self.index.memories.position(id)
    }

    /// The address with that id.
    pub fn address(&self, id: u16) -> Option<Address<'_>> {
        self.addresses().get(self.index.addresses.position(id)?)
    }

    /// The event with that id.
    pub fn event(&self, id: u16) -> Option<Event<'_>> {
        self.events().get(self.index.events.position(id)?)
    }

    /// The tensor with that id.
    pub fn tensor(&self, id: u16) -> Option<Tensor<'_>> {
        self.tensors().get(self.index.tensors.position(id)?)
    }

    /// The blob of that name.
    pub fn blob(&self, name: &str) -> Option<Blob<'_>> {
        let blobs = self.blobs();
        let order = &self.index.blobs_by_name;
        let found = order.binary_search_by(|&at| blobs.get(at as usize).map_or("", Blob::name).cmp(name)).ok()?;
        blobs.get(*order.get(found)? as usize)
    }

    /// The memories that an application binds as inputs, by bind id.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = Memory<'_>> {
        self.index.inputs.iter().filter_map(|&at| self.memories().get(at)).collect::<Vec<_>>().into_iter()
    }

    /// The memories that an application binds as outputs, by bind id.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = Memory<'_>> {
        self.index.outputs.iter().filter_map(|&at| self.memories().get(at)).collect::<Vec<_>>().into_iter()
    }

    /// The blobs that fill a memory, each with its offset. Empty where the memory is not to be set.
    pub fn contents<'a>(&'a self, memory: Memory<'a>) -> impl Iterator<Item = (Blob<'a>, u64)> + 'a {
        let count = if memory.flags().has(MemoryFlags::SET) { memory.contents().len() } else { 0 };
        let names = memory.contents().iter().take(count);
        names.zip(memory.offsets().iter()).filter_map(|(name, offset)| Some((self.blob(name)?, offset)))
    }
}
