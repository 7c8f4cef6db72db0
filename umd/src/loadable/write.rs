// SPDX-License-Identifier: MIT OR Apache-2.0

//! Writes a loadable from owned entries. The counterpart of the views in [`super::schema`].

use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, Push, TableFinishedWIPOffset, VOffsetT, Vector, WIPOffset};
use thiserror::Error;

use super::schema::{
    self, DataCategory, DataFormat, DataType, EventOp, Interface, MemoryDomain, MemoryFlags, Numbered, PixelFormat,
    PixelMapping, Version,
};

/// A task. See [`schema::Task`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Task {
    pub id: u16,
    pub interface: Interface,
    pub instance: i16,
    pub address_list: Vec<u16>,
    pub pre_actions: Vec<u16>,
    pub post_actions: Vec<u16>,
}

impl Default for Task {
    /// The defaults: any device.
    fn default() -> Self {
        Self {
            id: 0,
            interface: Interface::default(),
            instance: -1,
            address_list: Vec::new(),
            pre_actions: Vec::new(),
            post_actions: Vec::new(),
        }
    }
}

/// A memory. See [`schema::Memory`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Memory {
    pub id: u16,
    pub domain: MemoryDomain,
    pub flags: MemoryFlags,
    pub size: u64,
    pub alignment: u32,
    /// Blob names with the offset of each.
    pub contents: Vec<(String, u64)>,
    pub bind_id: u16,
    pub tensor_desc_id: u16,
}

impl Default for Memory {
    /// The defaults: system memory, allocated on a page boundary.
    fn default() -> Self {
        Self {
            id: 0,
            domain: MemoryDomain::System,
            flags: MemoryFlags::ALLOC,
            size: 0,
            alignment: 4096,
            contents: Vec::new(),
            bind_id: 0,
            tensor_desc_id: 0,
        }
    }
}

/// An address. See [`schema::Address`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Address {
    pub id: u16,
    pub mem_id: u16,
    pub offset: u64,
    pub size: u64,
}

/// An event. See [`schema::Event`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Event {
    pub id: u16,
    pub kind: u8,
    pub target: u16,
    pub val: u32,
    pub op: EventOp,
}

/// A blob. See [`schema::Blob`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Blob {
    pub name: String,
    pub interface: Interface,
    pub sub_interface: u32,
    pub version: Version,
    pub data: Vec<u8>,
}

/// A tensor. See [`schema::Tensor`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Tensor {
    pub name: String,
    pub id: u16,
    pub mem_id: u16,
    pub size: u64,
    pub offset: u64,
    pub data_format: DataFormat,
    pub data_type: DataType,
    pub data_category: DataCategory,
    pub pixel_format: PixelFormat,
    pub pixel_mapping: PixelMapping,
    pub n: i32,
    pub c: i32,
    pub h: i32,
    pub w: i32,
    pub strides: [u32; 8],
}

/// A relocation. See [`schema::Relocation`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Relocation {
    pub address_id: u16,
    pub write_id: u16,
    pub offset: u64,
    pub interface: Interface,
    pub sub_interface: u32,
    pub reloc_type: u8,
}

/// A submission. See [`schema::Submit`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Submit {
    pub id: u16,
    pub task_id: Vec<u16>,
}

/// Everything that a loadable holds.
///
/// ```
/// use nvdla_runtime::loadable::{self, write, MemoryFlags};
///
/// let contents = write::Contents {
///     memories: vec![write::Memory {
///         flags: MemoryFlags::ALLOC | MemoryFlags::SET,
///         size: 4096,
///         contents: vec![("weights".into(), 0)],
///         ..Default::default()
///     }],
///     blobs: vec![write::Blob { name: "weights".into(), data: vec![1, 2, 3], ..Default::default() }],
///     ..Default::default()
/// };
/// let file = contents.to_bytes()?;
/// let loadable = loadable::Loadable::from_bytes(file)?;
/// assert_eq!(loadable.memories().iter().next().map(|memory| memory.size()), Some(4096));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Contents {
    pub version: Version,
    pub tasks: Vec<Task>,
    pub memories: Vec<Memory>,
    pub addresses: Vec<Address>,
    pub events: Vec<Event>,
    pub blobs: Vec<Blob>,
    pub tensors: Vec<Tensor>,
    pub relocations: Vec<Relocation>,
    pub submits: Vec<Submit>,
}

impl Default for Contents {
    fn default() -> Self {
        Self {
            version: schema::VERSION,
            tasks: Vec::new(),
            memories: Vec::new(),
            addresses: Vec::new(),
            events: Vec::new(),
            blobs: Vec::new(),
            tensors: Vec::new(),
            relocations: Vec::new(),
            submits: Vec::new(),
        }
    }
}

/// The blobs are larger than a loadable can hold, because its offsets have 31 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the blobs have {bytes} bytes, more than a loadable holds ({})", Contents::MAX_BLOB_BYTES)]
pub struct TooLarge {
    /// Bytes of all blobs.
    pub bytes: u64,
}

/// A table's field in the builder.
type Table = WIPOffset<TableFinishedWIPOffset>;
type Fbb = FlatBufferBuilder<'static>;

/// Writes a number, leaving out a zero as the format does.
fn number<T: Push + Default + PartialEq>(fbb: &mut Fbb, slot: VOffsetT, value: T) {
    fbb.push_slot(slot, value, T::default());
}

/// Writes a named value.
fn named<T: Numbered>(fbb: &mut Fbb, slot: VOffsetT, value: T)
where
    T::Number: Push,
{
    number::<T::Number>(fbb, slot, value.into());
}

/// Writes a reference to an object that was written before.
fn refer<T>(fbb: &mut Fbb, slot: VOffsetT, to: WIPOffset<T>) {
    fbb.push_slot_always(slot, to);
}

/// Writes a table; `fields` adds its fields.
fn table(fbb: &mut Fbb, fields: impl FnOnce(&mut Fbb)) -> Table {
    let start = fbb.start_table();
    fields(fbb);
    fbb.end_table(start)
}

/// Writes a table for each entry, and the list of them.
fn list<T>(
    fbb: &mut Fbb,
    entries: &[T],
    mut write: impl FnMut(&mut Fbb, &T) -> Table,
) -> WIPOffset<Vector<'static, ForwardsUOffset<TableFinishedWIPOffset>>> {
    let tables: Vec<Table> = entries.iter().map(|entry| write(fbb, entry)).collect();
    fbb.create_vector(&tables)
}

impl Contents {
    /// The most bytes that all blobs together may have. The rest of the format's 2 GiB is for the lists.
    pub const MAX_BLOB_BYTES: u64 = (1 << 31) - (1 << 26);

    /// The file.
    ///
    /// # Errors
    ///
    /// When the blobs do not fit into one file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, TooLarge> {
        let bytes = self.blobs.iter().map(|blob| blob.data.len() as u64).sum();
        if bytes > Self::MAX_BLOB_BYTES {
            return Err(TooLarge { bytes });
        }
        let mut builder = Fbb::with_capacity(bytes as usize + (1 << 16));
        let fbb = &mut builder;
        let tasks = list(fbb, &self.tasks, write_task);
        let submits = list(fbb, &self.submits, write_submit);
        let memories = list(fbb, &self.memories, write_memory);
        let addresses = list(fbb, &self.addresses, write_address);
        let events = list(fbb, &self.events, write_event);
        let blobs = list(fbb, &self.blobs, write_blob);
        let tensors = list(fbb, &self.tensors, write_tensor);
        let relocations = list(fbb, &self.relocations, write_relocation);
        let root = table(fbb, |fbb| {
            use schema::Root;
            refer(fbb, Root::TASK_LIST, tasks);
            refer(fbb, Root::MEMORY_LIST, memories);
            refer(fbb, Root::ADDRESS_LIST, addresses);
            refer(fbb, Root::EVENT_LIST, events);
            refer(fbb, Root::BLOBS, blobs);
            refer(fbb, Root::TENSOR_DESC_LIST, tensors);
            refer(fbb, Root::RELOC_LIST, relocations);
            refer(fbb, Root::SUBMIT_LIST, submits);
            fbb.push_slot_always(Root::VERSION, self.version);
        });
        fbb.finish(root, Some(schema::IDENTIFIER));
        let (mut bytes, start) = builder.collapse();
        bytes.drain(..start);
        Ok(bytes)
    }
}

fn write_task(fbb: &mut Fbb, task: &Task) -> Table {
    use schema::Task as S;
    let address_list = fbb.create_vector(&task.address_list);
    let pre_actions = fbb.create_vector(&task.pre_actions);
    let post_actions = fbb.create_vector(&task.post_actions);
    table(fbb, |fbb| {
        refer(fbb, S::ADDRESS_LIST, address_list);
        refer(fbb, S::PRE_ACTIONS, pre_actions);
        refer(fbb, S::POST_ACTIONS, post_actions);
        named(fbb, S::INTERFACE, task.interface);
        number(fbb, S::ID, task.id);
        number(fbb, S::INSTANCE, task.instance);
    })
}

fn write_submit(fbb: &mut Fbb, submit: &Submit) -> Table {
    use schema::Submit as S;
    let tasks = fbb.create_vector(&submit.task_id);
    table(fbb, |fbb| {
        refer(fbb, S::TASK_ID, tasks);
        number(fbb, S::ID, submit.id);
    })
}

fn write_memory(fbb: &mut Fbb, memory: &Memory) -> Table {
    use schema::Memory as S;
    let names: Vec<_> = memory.contents.iter().map(|(name, _)| fbb.create_string(name)).collect();
    let names = fbb.create_vector(&names);
    let offsets: Vec<u64> = memory.contents.iter().map(|&(_, offset)| offset).collect();
    let offsets = fbb.create_vector(&offsets);
    table(fbb, |fbb| {
        number(fbb, S::SIZE, memory.size);
        refer(fbb, S::CONTENTS, names);
        refer(fbb, S::OFFSETS, offsets);
        number(fbb, S::ALIGNMENT, memory.alignment);
        number(fbb, S::ID, memory.id);
        named(fbb, S::FLAGS, memory.flags);
        number(fbb, S::BIND_ID, memory.bind_id);
        number(fbb, S::TENSOR_DESC_ID, memory.tensor_desc_id);
        named(fbb, S::DOMAIN, memory.domain);
    })
}

fn write_address(fbb: &mut Fbb, address: &Address) -> Table {
    use schema::Address as S;
    table(fbb, |fbb| {
        number(fbb, S::SIZE, address.size);
        number(fbb, S::OFFSET, address.offset);
        number(fbb, S::ID, address.id);
        number(fbb, S::MEM_ID, address.mem_id);
    })
}

fn write_event(fbb: &mut Fbb, event: &Event) -> Table {
    use schema::Event as S;
    table(fbb, |fbb| {
        number(fbb, S::VAL, event.val);
        number(fbb, S::ID, event.id);
        number(fbb, S::TARGET, event.target);
        number(fbb, S::KIND, event.kind);
        named(fbb, S::OP, event.op);
    })
}

fn write_blob(fbb: &mut Fbb, blob: &Blob) -> Table {
    use schema::Blob as S;
    let data = fbb.create_vector(&blob.data);
    let name = fbb.create_string(&blob.name);
    table(fbb, |fbb| {
        number(fbb, S::SIZE, blob.data.len() as u64);
        refer(fbb, S::NAME, name);
        refer(fbb, S::DATA, data);
        named(fbb, S::INTERFACE, blob.interface);
        number(fbb, S::SUB_INTERFACE, blob.sub_interface);
        fbb.push_slot_always(S::VERSION, blob.version);
    })
}

fn write_tensor(fbb: &mut Fbb, tensor: &Tensor) -> Table {
    use schema::Tensor as S;
    let name = fbb.create_string(&tensor.name);
    table(fbb, |fbb| {
        number(fbb, S::SIZE, tensor.size);
        number(fbb, S::OFFSET, tensor.offset);
        refer(fbb, S::NAME, name);
        number(fbb, S::N, tensor.n);
        number(fbb, S::C, tensor.c);
        number(fbb, S::H, tensor.h);
        number(fbb, S::W, tensor.w);
        for (index, stride) in tensor.strides.into_iter().enumerate() {
            number(fbb, S::STRIDE_0 + 2 * index as VOffsetT, stride);
        }
        number(fbb, S::ID, tensor.id);
        number(fbb, S::MEM_ID, tensor.mem_id);
        named(fbb, S::DATA_FORMAT, tensor.data_format);
        named(fbb, S::DATA_TYPE, tensor.data_type);
        named(fbb, S::DATA_CATEGORY, tensor.data_category);
        named(fbb, S::PIXEL_FORMAT, tensor.pixel_format);
        named(fbb, S::PIXEL_MAPPING, tensor.pixel_mapping);
    })
}

fn write_relocation(fbb: &mut Fbb, relocation: &Relocation) -> Table {
    use schema::Relocation as S;
    table(fbb, |fbb| {
        number(fbb, S::OFFSET, relocation.offset);
        named(fbb, S::INTERFACE, relocation.interface);
        number(fbb, S::SUB_INTERFACE, relocation.sub_interface);
        number(fbb, S::ADDRESS_ID, relocation.address_id);
        number(fbb, S::WRITE_ID, relocation.write_id);
        number(fbb, S::RELOC_TYPE, relocation.reloc_type);
    })
}
