// SPDX-License-Identifier: MIT OR Apache-2.0

//! What every reader does at a node of its file: it adds nodes and constants, which have names after that node.

use std::sync::Arc;

use crate::ir::{Graph, Op, TensorId};

/// The graph so far, and the name of the node of the file that is read.
pub(super) struct At<'a> {
    pub(super) graph: &'a mut Graph,
    pub(super) node: &'a str,
}

impl At<'_> {
    /// A name for the next tensor.
    fn name(&self) -> String {
        format!("{}/{}", self.node, self.graph.tensors.len())
    }

    /// Adds a node, or a constant if all of its inputs are constant.
    pub(super) fn emit(&mut self, op: Op, inputs: &[TensorId]) -> Result<TensorId, String> {
        let name = self.name();
        crate::float::add(self.graph, self.node, op, inputs, &name)
    }

    /// Adds a constant.
    pub(super) fn constant(&mut self, shape: &[usize], values: impl Into<Arc<[f32]>>) -> Result<TensorId, String> {
        let (name, values) = (self.name(), values.into());
        self.graph.budget.spend(4 * values.len() as u64, 0)?;
        self.graph.add_constant(name, shape, values)
    }
}
