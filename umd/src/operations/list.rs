// SPDX-License-Identifier: MIT OR Apache-2.0

//! The operations of a loadable's tasks.

use std::fmt;

use nvdla_uapi::desc::{
    upgrade_surface, CommonOp, DataCube, Descriptor, MemoryType, OpType, Operation, Stat, Surface, Wire,
};
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::{Extents, Index, Layout};
use nvdla_uapi::reg::values::Precision;

use super::error::Error;
use super::lists::{self, contents, Lists, Slot};
use super::timeline::Graph;
use crate::loadable::{Interface, Loadable, MemoryFlags, Tensor};

/// An operation of a task for NVDLA.
#[derive(Clone, Debug)]
pub struct NetworkOperation {
    /// The task's id.
    pub task: u16,
    /// Position in the task's operation list.
    pub index: usize,
    /// The unit that executes it.
    pub unit: OpType,
    /// Its entry in the dependency graph.
    pub common: CommonOp,
    /// Its parameters.
    pub operation: Operation,
    /// Its surfaces, in the current form of the descriptors, also if the loadable has an older form.
    pub surface: Surface,
}

/// The name of the file with the surface that an operation wrote.
pub(crate) fn surface_file(task: u16, operation: usize, unit: OpType, roi: usize) -> String {
    match roi {
        0 => format!("op_t{task}_{operation:03}_{unit}.bin"),
        _ => format!("op_t{task}_{operation:03}_{unit}_roi{roi}.bin"),
    }
}

impl NetworkOperation {
    /// The name under which its surface is saved: see [`crate::session::dump_to`].
    pub fn file_name(&self) -> String {
        surface_file(self.task, self.index, self.unit, 0)
    }
}

/// Reads all operations of a loadable's tasks for NVDLA, in the order of tasks and lists. A task that is submitted several times
/// is read once.
///
/// # Errors
///
/// When a descriptor is missing or cannot be read.
///
/// ```no_run
/// use nvdla_runtime::{loadable::Loadable, operations};
/// let loadable = Loadable::open("lenet.nvdla")?;
/// for operation in operations::operations(&loadable)? {
///     println!("{} {}: {:?}", operation.index, operation.unit, operation.destination());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn operations(loadable: &Loadable) -> Result<Vec<NetworkOperation>, Error> {
    Ok(tasks(loadable)?.into_iter().flat_map(|task| task.operations).collect())
}

/// A task for NVDLA.
pub(super) struct TaskOperations {
    /// Its id.
    pub(super) id: u16,
    /// Its address list.
    pub(super) slots: Vec<Slot>,
    /// Its operations, in all regions of interest.
    pub(super) operations: Vec<NetworkOperation>,
    /// The order of its operations.
    pub(super) graph: Graph,
    /// The position of its statistics.
    pub(super) statistics: Option<Slot>,
    /// The position of its dependency graph.
    pub(super) graph_slot: Option<Slot>,
    /// Its descriptors have an older form, and are converted to the current form before they run.
    pub(super) is_old: bool,
}

/// Bytes of a tensor or a blob that a task overwrites with its statistics. The statistics contain times, which differ from run to
/// run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The task's id.
    pub task: u16,
    /// The name of the bound tensor or the blob that they overwrite.
    pub over: String,
    /// The id of its memory.
    pub memory: u16,
    /// The first byte of the statistics in the memory, and the first byte behind them.
    pub bytes: (u64, u64),
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, over, memory, bytes: (start, end) } = self;
        write!(f, "task {task} writes its statistics over {over:?}, at {start:#x} to {end:#x} of memory {memory}")
    }
}

/// The bound tensors and blobs over which tasks write statistics.
///
/// # Errors
///
/// As [`operations`].
pub fn statistics(loadable: &Loadable) -> Result<Vec<Statistics>, Error> {
    let mut found = Vec::new();
    for task in tasks(loadable)? {
        let Some(slot) = task.statistics.filter(|_| !task.operations.is_empty()) else { continue };
        let Some(memory) = loadable.memories().get(slot.memory) else { continue };
        let bytes = (slot.offset, slot.offset.saturating_add((task.operations.len() * Stat::SIZE) as u64));
        let shares = |start: u64, size: u64| bytes.0 < start.saturating_add(size) && start < bytes.1;
        let is_bound = memory.flags().has(MemoryFlags::INPUT) || memory.flags().has(MemoryFlags::OUTPUT);
        let tensor = loadable.tensor(memory.tensor_desc_id()).filter(|_| is_bound);
        let tensor = tensor.filter(|tensor| shares(tensor.offset(), tensor.size())).map(Tensor::name);
        let mut blobs = loadable.contents(memory).filter(|(blob, at)| shares(*at, blob.size()));
        if let Some(over) = tensor.or_else(|| Some(blobs.next()?.0.name())) {
            found.push(Statistics { task: task.id, over: over.into(), memory: memory.id(), bytes });
        }
    }
    Ok(found)
}

/// The tasks of a loadable for NVDLA, each once.
pub(super) fn tasks(loadable: &Loadable) -> Result<Vec<TaskOperations>, Error> {
    let mut all = Vec::new();
    for task in loadable.distinct_tasks().filter(|task| task.interface() == Interface::Dla1) {
        let id = task.id();
        let slots = lists::slots(loadable, task);
        let bytes = |position: usize| contents(loadable, *slots.get(position)?);
        let found = Lists::new(id, &bytes)?;
        let (graph, list, surfaces) = (found.graph(&bytes)?, found.operation_list(&bytes)?, found.surfaces(&bytes)?);
        let old = lists::interface_version(loadable, &slots).needs_upgrade();
        let entries = graph.chunks_exact(CommonOp::SIZE);
        let entries = entries.zip(list.chunks_exact(Operation::SIZE)).zip(surfaces.chunks_exact(Surface::SIZE));
        let mut operations = Vec::new();
        for (index, ((common, operation), surface)) in entries.enumerate() {
            let at = |list| move |problem| Error::Descriptor { task: id, list, entry: index, problem };
            let common = CommonOp::parse(common).map_err(at("dependency graph"))?;
            let unit = common.op_type;
            let mut upgraded = [0; Surface::SIZE];
            let surface = if old {
                upgrade_surface(unit, surface, &mut upgraded).map_err(at("surface list"))?;
                &upgraded
            } else {
                surface
            };
            let operation = Operation::parse(unit, operation).map_err(at("operation list"))?;
            let surface = Surface::parse(unit, surface).map_err(at("surface list"))?;
            operations.push(NetworkOperation { task: id, index, unit, common, operation, surface });
        }
        let entries = operations.iter().map(|operation| operation.common).collect();
        let graph = Graph { entries, stride: found.of_a_region, heads: found.heads };
        let slot = |position: i16| usize::try_from(position).ok().and_then(|position| slots.get(position)).copied();
        let (statistics, graph_slot) = (slot(found.statistics), slot(found.graph));
        all.push(TaskOperations { id, slots, operations, graph, statistics, graph_slot, is_old: old });
    }
    Ok(all)
}

impl NetworkOperation {
    /// The cube that it writes. None if it passes its output on to another unit, and for BDMA, which copies lines.
    pub fn destination(&self) -> Option<&DataCube> {
        let cube = match &self.surface {
            Surface::Sdp(surface) => &surface.dst_data,
            Surface::Pdp(surface) => &surface.dst_data,
            Surface::Cdp(surface) => &surface.dst_data,
            Surface::Rubik(surface) => &surface.dst_data,
            Surface::Conv(_) | Surface::Bdma(_) => return None,
        };
        (cube.mem_type != MemoryType::Hw).then_some(cube)
    }

    /// The precision of what it writes.
    pub fn precision(&self) -> Precision {
        match &self.operation {
            Operation::Conv(operation) => operation.out_precision,
            Operation::Sdp(operation) => operation.dst_precision,
            Operation::Pdp(operation) => operation.precision,
            Operation::Cdp(operation) => operation.out_precision,
            Operation::Rubik(operation) => operation.precision,
            Operation::Bdma(_) => Precision::Int8,
        }
    }

    /// The element at byte `offset` of its destination, for a device with atoms of `atom` bytes. None for padding.
    pub fn position(&self, offset: u64, atom: u32) -> Option<Index> {
        let cube = self.destination()?;
        let extents = Extents::new(1, cube.channel.into(), cube.height.into(), cube.width.into());
        let strides = (cube.line_stride.into(), cube.surf_stride.into());
        Cube::as_programmed(extents, self.precision(), atom, strides.0, strides.1, 0).ok()?.at(offset)
    }
}
