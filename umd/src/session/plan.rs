// SPDX-License-Identifier: MIT OR Apache-2.0

//! A task as a session submits it.

use crate::loadable::Interface;
use crate::operations::lists::Slot;

/// A task, ready to be submitted.
#[derive(Debug)]
pub(crate) struct TaskPlan {
    pub(crate) id: u16,
    pub(crate) interface: Interface,
    pub(crate) slots: Vec<Slot>,
    /// For a task for NVDLA: the number of its operations, in all regions of interest.
    pub(crate) operations: usize,
    /// For a task for NVDLA: the dependency graph's position and bytes. The first driver changes the graph during a run, so the
    /// bytes are restored before each run.
    pub(crate) graph: Option<(usize, Vec<u8>)>,
    /// The memory that is filled again before each run, because the task writes its statistics into it.
    pub(crate) refill: Option<usize>,
    /// Whether it has run.
    pub(crate) ran: bool,
}
