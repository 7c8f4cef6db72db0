// SPDX-License-Identifier: MIT OR Apache-2.0

//! The lists of a loadable's tasks, before their descriptors are parsed.

use nvdla_uapi::desc::{self, CommonOp, Descriptor, Network, OpType, Operation, Surface, Wire, PROCESSORS};

use super::error::Error;
use crate::loadable::{Loadable, Memory, MemoryDomain, MemoryFlags, Task, Version};

/// An entry of a task's address list: a range of a memory of the loadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Position in the memory list.
    pub(crate) memory: usize,
    /// Bytes from the memory's start.
    pub(crate) offset: u64,
    /// Bytes, clipped to the memory's end.
    pub(crate) size: u64,
}

/// Whether a memory is in SRAM where the device has enough. A memory with contents never is, because it may hold descriptors,
/// which a driver reads in normal memory only.
pub(crate) fn wants_sram(memory: Memory<'_>) -> bool {
    memory.domain() == MemoryDomain::Sram && !memory.flags().has(MemoryFlags::SET)
}

/// The address list of a task, each entry clipped to its memory's end.
pub(crate) fn slots(loadable: &Loadable, task: Task<'_>) -> Vec<Slot> {
    let slot = |id| {
        let address = loadable.address(id)?;
        let memory = loadable.memory_position(address.mem_id())?;
        let room = loadable.memories().get(memory)?.size().saturating_sub(address.offset());
        // Files of interface 0.10 and 0.11 have 0 as the size of descriptor addresses.
        let size = if address.size() == 0 { room } else { address.size().min(room) };
        Some(Slot { memory, offset: address.offset(), size })
    };
    task.address_list().iter().filter_map(slot).collect()
}

/// The version of a task's descriptors: that of the blob that holds its network descriptor.
pub(crate) fn version(loadable: &Loadable, slots: &[Slot]) -> Option<Version> {
    let slot = slots.first()?;
    let memory = loadable.memories().get(slot.memory)?;
    let mut contents = loadable.contents(memory);
    contents.find(|(blob, at)| (*at..at.saturating_add(blob.size())).contains(&slot.offset)).map(|(b, _)| b.version())
}

/// The same version as [`nvdla_uapi::desc`] represents it.
pub(crate) fn interface_version(loadable: &Loadable, slots: &[Slot]) -> desc::Version {
    let version = version(loadable, slots).unwrap_or_default();
    desc::Version { major: version.major(), minor: version.minor() }
}

/// The lists of a task for NVDLA that a session reads.
pub(crate) struct Lists {
    task: u16,
    /// Operations in all regions of interest.
    pub(crate) operations: usize,
    /// Operations of one region.
    pub(crate) of_a_region: usize,
    /// Each unit's first operation.
    pub(crate) heads: [i16; PROCESSORS],
    operation_list: i16,
    pub(crate) graph: i16,
    pub(crate) surfaces: i16,
    pub(crate) statistics: i16,
}

impl Lists {
    /// Reads the network descriptor of a task. `bytes` gives access to the memory of its address list.
    pub(crate) fn new<'b>(task: u16, bytes: &impl Fn(usize) -> Option<&'b [u8]>) -> Result<Self, Error> {
        let descriptor = bytes(0).unwrap_or_default();
        let network = Network::parse(descriptor).map_err(|problem| Error::Descriptor {
            task,
            list: "network descriptor",
            entry: 0,
            problem,
        })?;
        let regions = usize::from(network.num_rois.max(1));
        Ok(Self {
            task,
            operations: usize::from(network.num_operations) * regions,
            of_a_region: network.num_operations.into(),
            heads: network.op_head,
            operation_list: network.operation_desc_index,
            graph: network.dependency_graph_index,
            surfaces: network.surface_desc_index,
            statistics: network.stat_list_index,
        })
    }

    /// The bytes of a list of `operations` entries.
    fn list<'b>(
        &self,
        (list, position, entry): (&'static str, i16, usize),
        bytes: &impl Fn(usize) -> Option<&'b [u8]>,
    ) -> Result<&'b [u8], Error> {
        let found = usize::try_from(position).ok().and_then(bytes).unwrap_or_default();
        let needed = self.operations * entry;
        found.get(..needed).ok_or(Error::ShortList {
            task: self.task,
            list,
            position: position.into(),
            size: found.len() as u64,
            needed: needed as u64,
        })
    }

    pub(crate) fn graph<'b>(&self, bytes: &impl Fn(usize) -> Option<&'b [u8]>) -> Result<&'b [u8], Error> {
        self.list(("dependency graph", self.graph, CommonOp::SIZE), bytes)
    }

    pub(crate) fn operation_list<'b>(&self, bytes: &impl Fn(usize) -> Option<&'b [u8]>) -> Result<&'b [u8], Error> {
        self.list(("operation list", self.operation_list, Operation::SIZE), bytes)
    }

    pub(crate) fn surfaces<'b>(&self, bytes: &impl Fn(usize) -> Option<&'b [u8]>) -> Result<&'b [u8], Error> {
        self.list(("surface list", self.surfaces, Surface::SIZE), bytes)
    }
}

/// The unit of each operation of a dependency graph.
pub(crate) fn units(task: u16, graph: &[u8]) -> Result<Vec<OpType>, Error> {
    let unit = |(entry, bytes)| {
        let failed = |problem| Error::Descriptor { task, list: "dependency graph", entry, problem };
        CommonOp::peek_op_type(bytes).map_err(failed)
    };
    graph.chunks_exact(CommonOp::SIZE).enumerate().map(unit).collect()
}

/// The bytes that a loadable puts into a slot of an address list.
pub(crate) fn contents(loadable: &Loadable, slot: Slot) -> Option<&[u8]> {
    let memory = loadable.memories().get(slot.memory)?;
    loadable.contents(memory).find_map(|(blob, at)| {
        let start = usize::try_from(slot.offset.checked_sub(at)?).ok()?;
        blob.data().get(start..)
    })
}
