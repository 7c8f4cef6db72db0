// SPDX-License-Identifier: MIT OR Apache-2.0

//! The state of a session: a loadable's memories on a device, and what the application has changed.

use std::{collections::HashMap, sync::Arc};

use super::error::Error;
use super::plan::TaskPlan;
use super::tensor::{Direction, TensorInfo};
use crate::{
    device::{Device, DeviceInfo, Handle},
    loadable::{Loadable, Memory},
    operations::races,
};

/// A memory of the loadable on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocated {
    /// The buffer; none if the loadable does not allocate the memory.
    pub(super) handle: Option<Handle>,
    /// The size that the session has requested.
    pub(super) size: u64,
    /// Whether the buffer holds constants that other sessions also read.
    pub(super) shared: bool,
    /// An application's buffer that replaces it. Address entries then extend to the end of that buffer.
    pub(super) bound: Option<(Handle, u64)>,
}

impl Allocated {
    pub(super) fn handle(&self) -> Option<Handle> {
        self.bound.map(|(handle, _)| handle).or(self.handle)
    }
}

/// A bound tensor with the application's changes.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) info: TensorInfo,
    /// Position of its memory.
    pub(super) memory: usize,
    /// Whether the application has changed the loadable's strides.
    pub(super) restrided: bool,
}

/// A loadable on a device.
#[derive(Debug)]
pub struct Session<D: Device = Box<dyn Device>> {
    pub(super) loadable: Arc<Loadable>,
    pub(super) device: D,
    pub(super) memories: Vec<Allocated>,
    pub(super) inputs: Vec<Bound>,
    pub(super) outputs: Vec<Bound>,
    /// Tasks that are submitted, each once.
    pub(super) tasks: Vec<TaskPlan>,
    /// Positions in `tasks`, in the order of submission.
    pub(super) order: Vec<usize>,
    /// Buffers of the application.
    pub(super) extra: Vec<Handle>,
    /// The dependency graphs of tasks with added edges, by task id.
    pub(super) ordered: HashMap<u16, Vec<u8>>,
    /// Whether [`Session::warn`] has run.
    pub(super) warned: bool,
}

impl<D: Device> Session<D> {
    /// Allocates and fills a loadable's memories on a device.
    ///
    /// # Errors
    ///
    /// When the device lacks memory, or the loadable's tasks cannot be run by this runtime.
    pub fn new(loadable: impl Into<Arc<Loadable>>, device: D) -> Result<Self, Error> {
        Self::with_constants(loadable.into(), device, &[])
    }

    /// As [`Self::new`], with memories that exist already, are filled, and are only read.
    pub(super) fn with_constants(
        loadable: Arc<Loadable>,
        device: D,
        constants: &[Option<Handle>],
    ) -> Result<Self, Error> {
        for (what, empty) in [
            ("task", loadable.tasks().is_empty()),
            ("submission", loadable.submits().is_empty()),
            ("memory", loadable.memories().is_empty()),
        ] {
            if empty {
                return Err(Error::Nothing { what });
            }
        }
        let names = loadable.names().unwrap_or_default();
        let bound = |direction, memories: Vec<Memory<'_>>| -> Vec<Bound> {
            let bound = |(index, memory): (usize, &Memory<'_>)| {
                let tensor = loadable.tensor(memory.tensor_desc_id())?;
                let memory = loadable.memory_position(memory.id())?;
                Some(Bound { info: TensorInfo::new(direction, index, tensor, &names), memory, restrided: false })
            };
            memories.iter().enumerate().filter_map(bound).collect()
        };
        let inputs = bound(Direction::Input, loadable.inputs().collect());
        let outputs = bound(Direction::Output, loadable.outputs().collect());
        let mut session = Self {
            loadable,
            device,
            memories: Vec::new(),
            inputs,
            outputs,
            tasks: Vec::new(),
            order: Vec::new(),
            extra: Vec::new(),
            ordered: HashMap::new(),
            warned: false,
        };
        session.allocate_memories(constants)?;
        session.fill(|_| true);
        session.plan()?;
        session.prepare_descriptors()?;
        Ok(session)
    }

    /// From the next run on, runs operations that race in the order of their list: see [`races::order`]. Returns the edges that
    /// were missing in the dependency graphs.
    ///
    /// Only this session's copy of the graphs is changed, so this works on every device.
    ///
    /// # Errors
    ///
    /// If a dependency graph cannot hold a missing edge.
    pub fn order(&mut self) -> Result<Vec<races::Edge>, Error> {
        let races::Ordered { graphs, edges } = races::order(&self.loadable)?;
        self.ordered = graphs;
        self.prepare_descriptors()?;
        Ok(edges)
    }

    /// The loadable.
    pub fn loadable(&self) -> &Loadable {
        &self.loadable
    }

    /// The device that runs it.
    pub fn device(&self) -> DeviceInfo {
        self.device.info()
    }

    /// The number of operations of tasks for NVDLA per run.
    pub fn operations(&self) -> usize {
        self.order.iter().filter_map(|&at| self.tasks.get(at)).map(|task| task.operations).sum()
    }

    fn release(&mut self) {
        for handle in self.memories.drain(..).filter_map(|memory| memory.handle).chain(self.extra.drain(..)) {
            self.device.free(handle);
        }
    }
}

impl<D: Device> Drop for Session<D> {
    fn drop(&mut self) {
        self.release();
    }
}
