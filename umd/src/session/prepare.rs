// SPDX-License-Identifier: MIT OR Apache-2.0

//! Prepares a session for its first run: the tasks' address lists, and descriptors in their current form with the application's
//! strides.

use std::{collections::HashMap, sync::Arc};

use nvdla_uapi::desc::upgrade_surfaces;

use super::error::Error;
use super::plan::TaskPlan;
use super::state::Session;
use crate::{
    device::Device,
    loadable::{schema, Interface, Memory, MemoryFlags},
    operations::{
        self,
        lists::{self, Lists},
    },
};

impl<D: Device> Session<D> {
    /// Determines each task's address list and checks its version.
    pub(super) fn plan(&mut self) -> Result<(), Error> {
        let loadable = Arc::clone(&self.loadable);
        let mut places = HashMap::new();
        for task in loadable.distinct_tasks() {
            let id = task.id();
            places.insert(id, self.tasks.len());
            let slots = lists::slots(&loadable, task);
            for (position, slot) in slots.iter().enumerate() {
                let allocated = self.memories.get(slot.memory).is_some_and(|memory| memory.handle.is_some());
                if !allocated {
                    let memory = loadable.memories().get(slot.memory).map_or(0, Memory::id);
                    return Err(Error::NotAllocated { task: id, position, memory });
                }
            }
            let version = lists::version(&loadable, &slots).unwrap_or_default();
            let supported = match task.interface() {
                Interface::Dla1 => lists::interface_version(&loadable, &slots).is_supported(),
                // Only version 0.0.1 exists, in two forms that the emulator distinguishes.
                _ => (version.major(), version.minor()) == (0, 0),
            };
            if !supported {
                return Err(Error::Version { task: id, interface: task.interface(), version });
            }
            let interface = task.interface();
            self.tasks.push(TaskPlan { id, interface, slots, operations: 0, graph: None, refill: None, ran: false });
        }
        self.order = loadable.tasks_in_order().filter_map(|task| places.get(&task.id()).copied()).collect();
        Ok(())
    }

    /// After the memories are filled, writes changed strides and converts older descriptors to the current form.
    pub(super) fn prepare_descriptors(&mut self) -> Result<(), Error> {
        self.relocate();
        let loadable = Arc::clone(&self.loadable);
        // A list that two tasks share is converted once.
        let mut upgraded: Vec<lists::Slot> = Vec::new();
        for at in 0..self.tasks.len() {
            let Some(task) = self.tasks.get(at).filter(|task| task.interface == Interface::Dla1) else { continue };
            let id = task.id;
            let bytes = |position: usize| self.slot_bytes(&self.device, at, position);
            let found = Lists::new(id, &bytes)?;
            let graph = found.graph(&bytes)?;
            let units = lists::units(id, graph)?;
            let mut surfaces = found.surfaces(&bytes)?.to_vec();
            let slot = usize::try_from(found.surfaces).ok().and_then(|position| task.slots.get(position)).copied();
            let version = lists::interface_version(&loadable, &task.slots);
            let upgrade = version.needs_upgrade() && slot.is_some_and(|slot| !upgraded.contains(&slot));
            if upgrade {
                upgrade_surfaces(units.iter().copied(), &mut surfaces).map_err(|problem| {
                    operations::Error::Descriptor { task: id, list: "surface list", entry: 0, problem }
                })?;
                upgraded.extend(slot);
            }
            // The bytes that statistics overwrite are restored before the next run.
            let statistics = usize::try_from(found.statistics).ok().and_then(|at| task.slots.get(at));
            let filled = |memory: &usize| {
                loadable.memories().get(*memory).is_some_and(|memory| memory.flags().has(MemoryFlags::SET))
            };
            let statistics = statistics.map(|slot| slot.memory).filter(filled);
            let graph = self.ordered.get(&id).map_or(graph, Vec::as_slice);
            let graph = usize::try_from(found.graph).ok().map(|position| (position, graph.to_vec()));
            if upgrade {
                self.write_slot(at, found.surfaces, &surfaces)?;
            }
            if let Some(task) = self.tasks.get_mut(at) {
                task.operations = units.len();
                task.refill = statistics;
                task.graph = graph;
            }
        }
        Ok(())
    }

    /// Checks that every relocation of the tensor in this memory can be written.
    pub(super) fn check_relocations(&self, tensor_memory: usize) -> Result<(), Error> {
        for (position, relocation) in self.loadable.relocations().iter().enumerate() {
            if self.relocated_memory(relocation) != Some(tensor_memory) {
                continue;
            }
            let target = self.loadable.memory(relocation.write_id());
            if !target.is_some_and(|memory| memory.flags().has(MemoryFlags::SET)) {
                return Err(Error::Relocation { relocation: position, memory: relocation.write_id() });
            }
        }
        Ok(())
    }

    /// The memory of the tensor whose stride a relocation writes.
    fn relocated_memory(&self, relocation: schema::Relocation<'_>) -> Option<usize> {
        let address = self.loadable.address(relocation.address_id())?;
        self.loadable.memory_position(address.mem_id())
    }

    /// Writes the strides that the application has changed.
    fn relocate(&mut self) {
        let changed: HashMap<usize, [u32; 2]> = self
            .inputs
            .iter()
            .chain(&self.outputs)
            .filter(|bound| bound.restrided)
            .map(|bound| (bound.memory, [bound.info.line_stride(), bound.info.surface_stride()]))
            .collect();
        if changed.is_empty() {
            return;
        }
        let loadable = Arc::clone(&self.loadable);
        for relocation in loadable.relocations().iter() {
            let strides = self.relocated_memory(relocation).and_then(|memory| changed.get(&memory));
            let Some(&[line, surface]) = strides else { continue };
            let stride = if relocation.reloc_type() == 1 { line } else { surface };
            let target = loadable.memory_position(relocation.write_id()).and_then(|at| self.memories.get(at)?.handle);
            let place = target.and_then(|handle| {
                let offset = usize::try_from(relocation.offset()).ok()?;
                self.device.bytes_mut(handle).get_mut(offset..)?.get_mut(..4)
            });
            if let Some(place) = place {
                place.copy_from_slice(&stride.to_le_bytes());
            }
        }
    }

    /// Restores the memory that a run of a task has changed.
    pub(super) fn renew(&mut self, at: usize) -> Result<(), Error> {
        if let Some(TaskPlan { ran, refill: Some(memory), .. }) = self.tasks.get_mut(at) {
            let memory = *memory;
            if std::mem::replace(ran, true) {
                self.fill(|at| at == memory);
                self.prepare_descriptors()?;
            }
        }
        self.restore_graph(at)
    }

    /// Restores the dependency graph that a run has changed.
    fn restore_graph(&mut self, at: usize) -> Result<(), Error> {
        let Some((position, graph)) = self.tasks.get(at).and_then(|task| task.graph.clone()) else { return Ok(()) };
        let now = self.slot_bytes(&self.device, at, position).and_then(|bytes| bytes.get(..graph.len()));
        if now == Some(&graph[..]) {
            return Ok(());
        }
        self.write_slot(at, position as i16, &graph)
    }
}
