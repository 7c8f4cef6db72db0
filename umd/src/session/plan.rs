// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a session finds out about a loadable's tasks before it runs them.

use nvdla_uapi::desc::{self, CommonOp, Descriptor, Network, OpType, Surface, Wire};

use super::Error;
use crate::loadable::{Interface, Loadable, Task, Version};

/// An entry of a task's address list: a place in a memory of the loadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Position in the memory list.
    pub(super) memory: usize,
    /// Bytes from the memory's start.
    pub(super) offset: u64,
    /// Bytes, clipped to the memory's end.
    pub(super) size: u64,
}

/// Where an operation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    /// The unit that executes the operation.
    pub(super) unit: OpType,
    /// Position in the address list, bytes from there, and bytes; none when it writes to no memory.
    pub(super) surface: Option<(usize, u64, u64)>,
}

/// A task, ready to be submitted.
#[derive(Debug)]
pub(super) struct TaskPlan {
    pub(super) id: u16,
    pub(super) interface: Interface,
    pub(super) slots: Vec<Slot>,
    /// Of a task for NVDLA: where each operation writes.
    pub(super) destinations: Vec<Destination>,
    /// Of a task for NVDLA: the dependency graph's slot and bytes. The first driver counts down in them, so that they
    /// are put back before each run.
    pub(super) graph: Option<(usize, Vec<u8>)>,
}

/// The address list of a task, each entry clipped to its memory's end.
pub(super) fn slots(loadable: &Loadable, task: Task<'_>) -> Vec<Slot> {
    let slot = |id| {
        let address = loadable.address(id)?;
        let memory = loadable.memory_position(address.mem_id())?;
        let room = loadable.memories().get(memory)?.size().saturating_sub(address.offset());
        // Files of interface 0.10 and 0.11 leave the size of descriptor addresses 0.
        let size = if address.size() == 0 { room } else { address.size().min(room) };
        Some(Slot { memory, offset: address.offset(), size })
    };
    task.address_list().iter().filter_map(slot).collect()
}

/// The version of a task's descriptors: that of the blob that holds its network descriptor.
pub(super) fn version(loadable: &Loadable, slots: &[Slot]) -> Option<Version> {
    let slot = slots.first()?;
    let memory = loadable.memories().get(slot.memory)?;
    let mut contents = loadable.contents(memory);
    contents.find(|(blob, at)| (*at..at.saturating_add(blob.size())).contains(&slot.offset)).map(|(b, _)| b.version())
}

/// The lists of a task for NVDLA that a session looks at.
pub(super) struct Lists {
    task: u16,
    /// Operations in all regions of interest.
    pub(super) operations: usize,
    pub(super) graph: i16,
    pub(super) surfaces: i16,
}

impl Lists {
    /// Reads the network descriptor of a task whose address list `bytes` gives access to.
    pub(super) fn new<'b>(task: u16, bytes: &impl Fn(usize) -> Option<&'b [u8]>) -> Result<Self, Error> {
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
            graph: network.dependency_graph_index,
            surfaces: network.surface_desc_index,
        })
    }

    /// The bytes of a list of `operations` entries.
    pub(super) fn list<'b>(
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

    pub(super) fn graph<'b>(&self, bytes: &impl Fn(usize) -> Option<&'b [u8]>) -> Result<&'b [u8], Error> {
        self.list(("dependency graph", self.graph, CommonOp::SIZE), bytes)
    }

    pub(super) fn surfaces<'b>(&self, bytes: &impl Fn(usize) -> Option<&'b [u8]>) -> Result<&'b [u8], Error> {
        self.list(("surface list", self.surfaces, Surface::SIZE), bytes)
    }
}

/// The unit of each operation of a dependency graph.
pub(super) fn units(task: u16, graph: &[u8]) -> Result<Vec<OpType>, Error> {
    let unit = |(entry, bytes)| {
        let failed = |problem| Error::Descriptor { task, list: "dependency graph", entry, problem };
        CommonOp::peek_op_type(bytes).map_err(failed)
    };
    graph.chunks_exact(CommonOp::SIZE).enumerate().map(unit).collect()
}

/// Where each operation writes. A surface that cannot be read is the scheduler's to refuse, with all its context.
pub(super) fn destinations(units: &[OpType], surfaces: &[u8]) -> Vec<Destination> {
    let destination = |(&unit, bytes): (&OpType, &[u8])| {
        let cube = match Surface::parse(unit, bytes) {
            Ok(Surface::Sdp(surface)) => Some(surface.dst_data),
            Ok(Surface::Pdp(surface)) => Some(surface.dst_data),
            Ok(Surface::Cdp(surface)) => Some(surface.dst_data),
            Ok(Surface::Rubik(surface)) => Some(surface.dst_data),
            // A convolution hands its sums to SDP; BDMA copies lines and has no cube.
            Ok(Surface::Conv(_) | Surface::Bdma(_)) | Err(_) => None,
        };
        let surface = cube
            .filter(|cube| cube.mem_type != desc::MemoryType::Hw)
            .and_then(|cube| Some((usize::try_from(cube.address).ok()?, cube.offset.into(), cube.size.into())));
        Destination { unit, surface }
    };
    units.iter().zip(surfaces.chunks_exact(Surface::SIZE)).map(destination).collect()
}
