// SPDX-License-Identifier: MIT OR Apache-2.0

//! A network that is divided between NVDLA and the processor.

use super::cost::Estimate;
use super::extract::Bound;
use crate::output::report::Report;

/// Nodes that NVDLA runs as one.
#[derive(Clone, Debug)]
pub struct Group {
    /// The nodes, by their index in [`crate::survey::Survey::nodes`].
    pub nodes: Vec<usize>,
    /// The tensors that it reads.
    pub inputs: Vec<Bound>,
    /// The tensors that it computes and that something else reads.
    pub outputs: Vec<Bound>,
    /// The compiled group.
    pub loadable: Vec<u8>,
    /// The compiler's report.
    pub report: Report,
    /// The batch of its inputs and outputs, if no picture of an output depends on another picture of an input; else 1.
    pub pictures: usize,
    /// Its time here and there.
    pub estimate: Estimate,
}

/// A network that is divided between NVDLA and the processor.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    /// The groups, each after the groups that it depends on.
    pub groups: Vec<Group>,
    /// For each node of the survey, the reason why the processor runs it. None: it is in a group.
    pub reasons: Vec<Option<String>>,
    /// What concerns the network as a whole.
    pub warnings: Vec<String>,
}
