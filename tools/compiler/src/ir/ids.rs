// SPDX-License-Identifier: MIT OR Apache-2.0

//! What names the parts of a graph, and the size of its tensors.

/// The greatest number of elements of a tensor. A shape with more elements is an error in the model.
pub const MAX_ELEMENTS: usize = 1 << 31;

/// Identifies a tensor of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub usize);

/// Identifies a node of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);
