// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a user specifies about a model that its file leaves open.

use std::collections::HashMap;

use nvdla_runtime::Cancel;

/// What a user specifies about a model that its file leaves open.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The shape of an input, by its name.
    pub shapes: HashMap<String, Vec<usize>>,
    /// The names of the tensors that are to be inputs in place of the nodes that compute them, in ONNX. Empty: the model's inputs.
    pub inputs: Vec<String>,
    /// The names of the tensors that are to be outputs. Empty: the model's outputs.
    pub outputs: Vec<String>,
    /// Ends the reading, and every later computation with the network.
    pub cancel: Cancel,
}
