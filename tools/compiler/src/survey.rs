// SPDX-License-Identifier: MIT OR Apache-2.0

//! A network as its file has it, with nodes that cannot be read: what [`crate::partition`] divides.
//!
//! A reader that surveys a file does not stop at a node that it cannot read. The node's outputs become inputs of the graph, if
//! their shapes are known, and the reader goes on behind it.

use std::collections::{HashMap, HashSet};

use crate::ir::{Graph, Quantization, TensorId};

/// What a node of the file does for its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It computes.
    Compute,
    /// It rounds real numbers to integers of a quantized model.
    Quantize,
    /// It converts integers of a quantized model to real numbers.
    Dequantize,
    /// All of its outputs are known before the network runs.
    Constant,
}

/// A node of the file.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name; no two nodes of a survey have the same.
    pub name: String,
    /// Its operator, as the format spells it.
    pub operator: String,
    /// Its position in the file.
    pub position: usize,
    /// The tensors that it reads; constants of the file are among them, omitted inputs are not.
    pub inputs: Vec<String>,
    /// The tensors that it computes.
    pub outputs: Vec<String>,
    /// Its role.
    pub role: Role,
    /// Why it was not read. None: it was.
    pub refusal: Option<String>,
}

/// The value of a tensor of the file.
#[derive(Clone, Debug)]
pub enum Value {
    /// The tensor of the graph with its real numbers. With a quantization, the file's tensor has integers.
    Activation(TensorId, Option<Quantization>),
    /// It is known before the network runs.
    Constant,
}

/// A network whose nodes were read as far as possible.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// What the nodes compute that were read. Tensors that they read and do not compute are inputs.
    pub graph: Graph,
    /// The nodes of the file, each after the nodes that it reads.
    pub nodes: Vec<Node>,
    /// For each node of the graph, the node of the file that it belongs to, by its index in `nodes`.
    pub origins: Vec<usize>,
    /// The tensors of the file whose values or shapes are known.
    pub values: HashMap<String, Value>,
    /// The tensors that the network gives to the user.
    pub outputs: Vec<String>,
    /// The constants that hold infinities, and the tensors that a node fills with one.
    pub infinite: HashSet<String>,
}

impl Survey {
    /// The node that computes each tensor of the file.
    pub fn makers(&self) -> HashMap<&str, usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes.flat_map(|(k, node)| node.outputs.iter().map(move |output| (output.as_str(), k))).collect()
    }
}
