// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loadables: the files that a compiler makes and the runtime runs.
//!
//! A loadable is a FlatBuffer with eight lists: tasks, memories, addresses, events, blobs, tensor descriptors,
//! relocations and submissions. [`Loadable::open`] reads the file, verifies its structure and all references between
//! entries, and gives typed views of the lists. Blobs are not copied, and no later step can find an index out of range.
//! The error for a malformed file names list, entry and field.
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
pub mod names;
pub mod schema;
mod tensor;
pub mod write;

use std::{fmt, io, path::Path};

use crate::files;

pub use check::{MAX_ADDRESSES_PER_TASK, MAX_ALIGNMENT, MAX_MEMORY_SIZE};
pub use error::{Error, Location, Malformed, Problem};
pub use schema::{
    Address, Blob, DataCategory, DataFormat, DataType, Event, EventOp, Interface, List, Memory, MemoryDomain,
    MemoryFlags, PixelFormat, PixelMapping, Relocation, Submit, Task, Tensor, Version,
};
pub(crate) use tensor::atom;

/// A verified loadable.
pub struct Loadable {
    bytes: Vec<u8>,
    index: check::Index,
}

impl fmt::Debug for Loadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loadable").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Loadable {
    /// Reads and verifies a file, or the standard input for `-`.
    ///
    /// Its bytes are copied to memory of this process, so later changes of the file have no effect.
    ///
    /// # Errors
    ///
    /// When the file cannot be read (see [`files::read`]), or is not a loadable that can be run.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        match files::read(path, check::MAX_FILE_SIZE as u64) {
            Ok(bytes) => Self::new(bytes),
            Err(source) if source.kind() == io::ErrorKind::IsADirectory => {
                Err(Error::NotALoadable { reason: format!("{} is not a regular file", path.display()) })
            }
            Err(source) => Err(Error::Open { path: path.to_owned(), source }),
        }
    }

    /// Verifies bytes in memory.
    ///
    /// # Errors
    ///
    /// When they are not a loadable that can be run.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, Error> {
        Self::new(bytes.into())
    }

    fn new(bytes: Vec<u8>) -> Result<Self, Error> {
        let index = check::check(&bytes)?;
        Ok(Self { bytes, index })
    }

    /// The root table.
    pub fn root(&self) -> schema::Root<'_> {
        // SAFETY: `new` verified these bytes as a `Root`, and they do not change.
        unsafe { flatbuffers::root_unchecked::<schema::Root<'_>>(&self.bytes) }
    }

    /// The file's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
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

    /// The tasks that are submitted, in the order of their first submission; each task once.
    pub fn distinct_tasks(&self) -> impl Iterator<Item = Task<'_>> {
        let mut seen = std::collections::HashSet::new();
        self.tasks_in_order().filter(move |task| seen.insert(task.id()))
    }

    /// The task with that id.
    pub fn task(&self, id: u16) -> Option<Task<'_>> {
        self.tasks().get(self.index.tasks.position(id)?)
    }

    /// The memory with that id.
    pub fn memory(&self, id: u16) -> Option<Memory<'_>> {
        self.memories().get(self.memory_position(id)?)
    }

    /// The position in the list of the memory with that id.
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

    /// The blobs that fill a memory, each with its offset. Empty for a memory that is not to be filled.
    pub fn contents<'a>(&'a self, memory: Memory<'a>) -> impl Iterator<Item = (Blob<'a>, u64)> + 'a {
        let contents = self.memory_position(memory.id()).and_then(|at| self.index.contents.get(at));
        let blobs = self.blobs();
        let blob = move |&(blob, offset): &(u32, u64)| Some((blobs.get(blob as usize)?, offset));
        contents.into_iter().flatten().filter_map(blob)
    }

    /// The compiler's names, if the loadable has them and they can be read.
    pub fn names(&self) -> Option<names::Names> {
        names::Names::parse(self.blobs().iter().find(|blob| blob.name() == names::BLOB)?.data())
    }
}
