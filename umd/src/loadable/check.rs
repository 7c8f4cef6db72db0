// SPDX-License-Identifier: MIT OR Apache-2.0

//! The checks of a loadable when it is opened, and the index of ids that they make.

use std::collections::{HashMap, HashSet};

use flatbuffers::{buffer_has_identifier, root_with_opts, Follow, VerifierOptions};

use super::{
    error::{structure, Error, Location, Malformed, Problem},
    schema::{
        self, Address, Blob, EventOp, Interface, List, Memory, MemoryDomain, MemoryFlags, Numbers, Root, Task, Tensor,
    },
};

/// The most addresses that a task may have, a limit of the kernel interface.
pub const MAX_ADDRESSES_PER_TASK: usize = nvdla_uapi::ioctl::MAX_BUFFERS_PER_TASK as usize;

/// The most bytes that one memory may have: sizes and strides in the descriptors have 32 bits.
pub const MAX_MEMORY_SIZE: u64 = 1 << 32;

/// The largest alignment that a memory may ask for.
pub const MAX_ALIGNMENT: u32 = 1 << 20;

/// The greatest size of a file in bytes: the format's offsets reach no further.
pub(super) const MAX_FILE_SIZE: usize = i32::MAX as usize;

/// How many times its own size a file may fill memories with blobs, so that opening a small file is cheap.
const MAX_FILLING: u64 = 64;

/// Maps an id to a position in its list.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// Sorted by id.
    pairs: Vec<(u16, u16)>,
}

impl Ids {
    pub(super) fn position(&self, id: u16) -> Option<usize> {
        // In nearly every file an entry's id is its position.
        match self.pairs.get(usize::from(id)) {
            Some(&(first, position)) if first == id => Some(usize::from(position)),
            _ => {
                let found = self.pairs.binary_search_by_key(&id, |&(id, _)| id).ok()?;
                self.pairs.get(found).map(|&(_, position)| usize::from(position))
            }
        }
    }
}

/// The index for the lookups in a checked loadable.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) tasks: Ids,
    pub(super) memories: Ids,
    pub(super) addresses: Ids,
    pub(super) events: Ids,
    pub(super) tensors: Ids,
    /// Positions of blobs, sorted by name.
    pub(super) blobs_by_name: Vec<u32>,
    /// The blobs that fill each memory: positions of blobs, and offsets. Empty for a memory that is not to be filled.
    pub(super) contents: Vec<Vec<(u32, u64)>>,
    /// Positions of the memories that are inputs, by bind id.
    pub(super) inputs: Vec<usize>,
    /// Positions of the memories that are outputs, by bind id.
    pub(super) outputs: Vec<usize>,
}

type Checked<T> = Result<T, Malformed>;

/// A problem with an entry's field.
fn entry(list: &str, entry: usize, field: &str, problem: Problem) -> Malformed {
    Malformed {
        location: Location { list: list.into(), entry: Some(entry), field: Some(field.into()) },
        problem: Box::new(problem),
    }
}

/// Verifies the structure, then the references between entries.
pub(super) fn check(bytes: &[u8]) -> Result<Index, Error> {
    let root = root(bytes)?;
    let version = root.version();
    if (version.major(), version.minor()) != (schema::VERSION.major(), schema::VERSION.minor()) {
        return Err(Error::Version { found: version });
    }
    let mut index = Index {
        tasks: ids("task_list", root.task_list(), Task::id)?,
        memories: ids("memory_list", root.memory_list(), Memory::id)?,
        addresses: ids("address_list", root.address_list(), Address::id)?,
        events: ids("event_list", root.event_list(), schema::Event::id)?,
        tensors: ids("tensor_desc_list", root.tensor_desc_list(), Tensor::id)?,
        blobs_by_name: blobs(root.blobs())?,
        ..Index::default()
    };
    index.contents = memories(root, &index, bytes.len())?;
    index.inputs = bindings(root.memory_list(), MemoryFlags::INPUT, "input")?;
    index.outputs = bindings(root.memory_list(), MemoryFlags::OUTPUT, "output")?;
    tensors(root, &index)?;
    addresses(root, &index)?;
    events(root)?;
    tasks(root, &index)?;
    relocations(root, &index)?;
    submits(root, &index)?;
    event_order(root, &index)?;
    Ok(index)
}

/// The root table of bytes with a verified structure.
fn root(bytes: &[u8]) -> Result<Root<'_>, Error> {
    let refuse = |reason: String| Err(Error::NotALoadable { reason });
    if bytes.len() < 8 {
        return refuse(format!("{} bytes are too few", bytes.len()));
    }
    if bytes.len() > MAX_FILE_SIZE {
        return refuse(format!("{} bytes are more than the format's offsets reach", bytes.len()));
    }
    let options = VerifierOptions {
        // A crafted file can let many entries share the same bytes; other files share only vtables.
        max_apparent_size: bytes.len().saturating_mul(8).saturating_add(1 << 20),
        ..VerifierOptions::default()
    };
    match root_with_opts::<Root<'_>>(&options, bytes) {
        Ok(root) => Ok(root),
        // Some files of the hardware's own tests have no identifier, so its absence alone is no error.
        Err(error) if buffer_has_identifier(bytes, schema::IDENTIFIER, false) => Err(structure(&error).into()),
        Err(error) => refuse(format!(
            "no identifier \"{}\", and the structure is broken: {}",
            schema::IDENTIFIER,
            structure(&error)
        )),
    }
}

/// The ids of a list. An id that occurs twice is an error.
fn ids<'a, T: Follow<'a, Inner = T> + 'a>(name: &str, list: List<'a, T>, id: fn(T) -> u16) -> Checked<Ids> {
    let count = list.len();
    if count > usize::from(u16::MAX) + 1 {
        let location = Location { list: name.into(), entry: None, field: None };
        return Err(Malformed { location, problem: Box::new(Problem::TooMany { count }) });
    }
    let mut pairs: Vec<(u16, u16)> = list.iter().enumerate().map(|(at, e)| (id(e), at as u16)).collect();
    pairs.sort_unstable();
    for pair in pairs.windows(2) {
        if let [(first, other), (second, at)] = *pair {
            if first == second {
                let problem = Problem::DuplicateId { id: first, other: usize::from(other) };
                return Err(entry(name, usize::from(at), "id", problem));
            }
        }
    }
    Ok(Ids { pairs })
}

/// Sizes and names of blobs.
fn blobs(list: List<'_, Blob<'_>>) -> Checked<Vec<u32>> {
    for (at, blob) in list.iter().enumerate() {
        let actual = blob.data().len() as u64;
        if blob.size() != actual {
            return Err(entry("blobs", at, "size", Problem::SizeMismatch { stated: blob.size(), actual }));
        }
    }
    let name = |at: u32| list.get(at as usize).map_or("", Blob::name);
    let mut order: Vec<u32> = (0..list.len() as u32).collect();
    order.sort_by(|&a, &b| name(a).cmp(name(b)));
    for pair in order.windows(2) {
        if let [other, at] = *pair {
            if name(other) == name(at) {
                let problem = Problem::DuplicateName { name: name(at).into(), other: other as usize };
                return Err(entry("blobs", at as usize, "name", problem));
            }
        }
    }
    Ok(order)
}

/// Checks flags, sizes and contents of memories. Returns [`Index::contents`].
fn memories(root: Root<'_>, index: &Index, file: usize) -> Checked<Vec<Vec<(u32, u64)>>> {
    let blobs = root.blobs();
    let mut sizes: HashMap<&str, (u32, u64)> = HashMap::new();
    for &at in &index.blobs_by_name {
        if let Some(blob) = blobs.get(at as usize) {
            sizes.insert(blob.name(), (at, blob.size()));
        }
    }
    let mut filled = 0u64;
    let mut all = Vec::with_capacity(root.memory_list().len());
    for (at, memory) in root.memory_list().iter().enumerate() {
        let fail = |field: &str, problem| Err(entry("memory_list", at, field, problem));
        if let MemoryDomain::Other(value) = memory.domain() {
            return fail("domain", Problem::UnknownValue { value: value.into() });
        }
        let flags = memory.flags();
        if flags.0 & !MemoryFlags::ALL.0 != 0 {
            return fail("flags", Problem::UnknownValue { value: flags.0.into() });
        }
        if flags.has(MemoryFlags::INPUT | MemoryFlags::OUTPUT) {
            return fail("flags", Problem::InputAndOutput);
        }
        let size = memory.size();
        if flags.has(MemoryFlags::ALLOC) && size == 0 {
            return fail("size", Problem::ZeroSize);
        }
        if size > MAX_MEMORY_SIZE {
            return fail("size", Problem::TooLarge { size, limit: MAX_MEMORY_SIZE });
        }
        let alignment = memory.alignment();
        if alignment != 0 && !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
            return fail("alignment", Problem::Alignment { value: alignment, limit: MAX_ALIGNMENT });
        }
        let mut contents = Vec::new();
        if !flags.has(MemoryFlags::SET) {
            all.push(contents);
            continue;
        }
        let (names, offsets) = (memory.contents(), memory.offsets());
        if names.len() != offsets.len() {
            return fail(
                "contents",
                Problem::CountMismatch { count: names.len(), other: "offsets", other_count: offsets.len() },
            );
        }
        for (name, offset) in names.iter().zip(offsets.iter()) {
            let Some(&(blob, bytes)) = sizes.get(name) else {
                return fail("contents", Problem::UnknownBlob { name: name.into() });
            };
            let end = offset.saturating_add(bytes);
            if end > size {
                let what = format!("blob {name:?} at {offset:#x}");
                return fail("offsets", Problem::Outside { what, end, container: "the memory".into(), size });
            }
            filled = filled.saturating_add(bytes);
            if filled > MAX_FILLING * file as u64 {
                return fail("contents", Problem::TooMuchContent { bytes: filled, file });
            }
            contents.push((blob, offset));
        }
        all.push(contents);
    }
    Ok(all)
}

/// The inputs or outputs, which must be numbered from 0 without gaps.
fn bindings(list: List<'_, Memory<'_>>, flag: MemoryFlags, direction: &'static str) -> Checked<Vec<usize>> {
    let bound: Vec<(usize, u16)> =
        list.iter().enumerate().filter(|(_, m)| m.flags().has(flag)).map(|(at, m)| (at, m.bind_id())).collect();
    let count = bound.len();
    let mut by_id: Vec<Option<usize>> = vec![None; count];
    for (at, bind_id) in bound {
        let fail = |problem| Err(entry("memory_list", at, "bind_id", problem));
        match by_id.get_mut(usize::from(bind_id)) {
            None => return fail(Problem::BindingGap { direction, bind_id, count }),
            Some(Some(other)) => return fail(Problem::DuplicateBinding { direction, bind_id, other: *other }),
            Some(slot) => *slot = Some(at),
        }
    }
    Ok(by_id.into_iter().flatten().collect())
}

/// Checks the tensors of the bound memories.
fn tensors(root: Root<'_>, index: &Index) -> Checked<()> {
    for (&at, memory) in
        index.inputs.iter().chain(&index.outputs).filter_map(|at| Some((at, root.memory_list().get(*at)?)))
    {
        let id = memory.tensor_desc_id();
        let Some(position) = index.tensors.position(id) else {
            return Err(entry(
                "memory_list",
                at,
                "tensor_desc_id",
                Problem::UnknownId { list: "tensor_desc_list", id },
            ));
        };
        let Some(tensor) = root.tensor_desc_list().get(position) else { continue };
        for (field, value) in [("n", tensor.n()), ("c", tensor.c()), ("h", tensor.h()), ("w", tensor.w())] {
            if value <= 0 {
                return Err(entry("tensor_desc_list", position, field, Problem::Dimension { value }));
            }
        }
        let end = tensor.offset().saturating_add(tensor.size());
        if end > memory.size() {
            let problem = Problem::Outside {
                what: format!("tensor {:?}", tensor.name()),
                end,
                container: format!("memory {}", memory.id()),
                size: memory.size(),
            };
            return Err(entry("tensor_desc_list", position, "size", problem));
        }
        super::tensor::check(tensor).map_err(|problem| entry("tensor_desc_list", position, "size", problem))?;
    }
    Ok(())
}

/// Checks that every address starts within its memory. Its end is clipped to the memory's end.
fn addresses(root: Root<'_>, index: &Index) -> Checked<()> {
    for (at, address) in root.address_list().iter().enumerate() {
        let id = address.mem_id();
        let memory = index.memories.position(id).and_then(|position| root.memory_list().get(position));
        let Some(memory) = memory else {
            return Err(entry("address_list", at, "mem_id", Problem::UnknownId { list: "memory_list", id }));
        };
        if address.offset() > memory.size() {
            let problem = Problem::Outside {
                what: "the offset".into(),
                end: address.offset(),
                container: format!("memory {id}"),
                size: memory.size(),
            };
            return Err(entry("address_list", at, "offset", problem));
        }
    }
    Ok(())
}

fn events(root: Root<'_>) -> Checked<()> {
    for (at, event) in root.event_list().iter().enumerate() {
        if let EventOp::Other(value) = event.op() {
            return Err(entry("event_list", at, "op", Problem::UnknownValue { value: value.into() }));
        }
    }
    Ok(())
}

/// Checks that each of `numbers` is the id of an entry.
fn known(
    at: usize,
    (list, field): (&str, &str),
    numbers: Numbers<'_, u16>,
    ids: &Ids,
    of: &'static str,
) -> Checked<()> {
    match numbers.iter().find(|&id| ids.position(id).is_none()) {
        Some(id) => Err(entry(list, at, field, Problem::UnknownId { list: of, id })),
        None => Ok(()),
    }
}

fn tasks(root: Root<'_>, index: &Index) -> Checked<()> {
    const LIST: &str = "task_list";
    for (at, task) in root.task_list().iter().enumerate() {
        match task.interface() {
            Interface::Dla1 | Interface::Emu1 => {}
            other => {
                return Err(entry(LIST, at, "interface", Problem::UnknownValue { value: other.into() }));
            }
        }
        let count = task.address_list().len();
        if count > MAX_ADDRESSES_PER_TASK {
            let problem = Problem::TooManyAddresses { count, limit: MAX_ADDRESSES_PER_TASK };
            return Err(entry(LIST, at, "address_list", problem));
        }
        known(at, (LIST, "address_list"), task.address_list(), &index.addresses, "address_list")?;
        known(at, (LIST, "pre_actions"), task.pre_actions(), &index.events, "event_list")?;
        known(at, (LIST, "post_actions"), task.post_actions(), &index.events, "event_list")?;
    }
    Ok(())
}

fn relocations(root: Root<'_>, index: &Index) -> Checked<()> {
    const LIST: &str = "reloc_list";
    for (at, relocation) in root.reloc_list().iter().enumerate() {
        let fail = |field: &str, problem| Err(entry(LIST, at, field, problem));
        let id = relocation.address_id();
        if index.addresses.position(id).is_none() {
            return fail("address_id", Problem::UnknownId { list: "address_list", id });
        }
        if !matches!(relocation.reloc_type(), 1 | 2) {
            return fail("reloc_type", Problem::UnknownValue { value: relocation.reloc_type().into() });
        }
        let id = relocation.write_id();
        let memory = index.memories.position(id).and_then(|position| root.memory_list().get(position));
        let Some(memory) = memory else {
            return fail("write_id", Problem::UnknownId { list: "memory_list", id });
        };
        let end = relocation.offset().saturating_add(4);
        if end > memory.size() {
            let (what, container) = ("the stride".into(), format!("memory {id}"));
            return fail("offset", Problem::Outside { what, end, container, size: memory.size() });
        }
    }
    Ok(())
}

fn submits(root: Root<'_>, index: &Index) -> Checked<()> {
    ids("submit_list", root.submit_list(), schema::Submit::id)?;
    for (at, submit) in root.submit_list().iter().enumerate() {
        known(at, ("submit_list", "task_id"), submit.task_id(), &index.tasks, "task_list")?;
    }
    Ok(())
}

/// Checks that no task waits for an event that no earlier task signals. Tasks run one after another, in the order of submission.
fn event_order(root: Root<'_>, index: &Index) -> Checked<()> {
    let event = |id| index.events.position(id).and_then(|at| Some((at, root.event_list().get(at)?)));
    let mut reached: HashMap<u16, u32> = HashMap::new();
    let mut submits: Vec<_> = root.submit_list().iter().collect();
    submits.sort_by_key(|submit| submit.id());
    // A task that is submitted again needs no second check.
    let mut seen = HashSet::new();
    for id in submits.into_iter().flat_map(|submit| submit.task_id().iter()).filter(|&id| seen.insert(id)) {
        let Some(task) = index.tasks.position(id).and_then(|at| root.task_list().get(at)) else { continue };
        for (at, event) in task.pre_actions().iter().chain(task.post_actions().iter()).filter_map(event) {
            let chain = reached.entry(event.target()).or_default();
            match event.op() {
                EventOp::Signal => *chain = event.val().max(*chain),
                _ if event.val() <= *chain => {}
                _ => {
                    let problem = Problem::NeverSignalled { task: id, target: event.target(), value: event.val() };
                    return Err(entry("event_list", at, "val", problem));
                }
            }
        }
    }
    Ok(())
}
