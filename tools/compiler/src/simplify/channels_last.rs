// SPDX-License-Identifier: MIT OR Apache-2.0

//! Networks whose inputs and outputs have their channels last, as TensorFlow's have: `[N, H, W, C]`, and a transposition beside
//! each. The hardware stores a tensor of either order in the same way, so the transpositions need not be computed.

use super::simplify;
use crate::ir::{Graph, Node, Op, Tensor, TensorId};

/// The axes of `[N, C, H, W]` in the order `[N, H, W, C]`.
const LAST: [usize; 4] = [0, 2, 3, 1];

/// An input or an output whose channels come first instead of last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reordered {
    /// Its name.
    pub name: String,
    /// Its shape in the model, `[N, H, W, C]`.
    pub model: Vec<usize>,
    /// Its shape in the graph, `[N, C, H, W]`.
    pub graph: Vec<usize>,
}

/// Puts the channels of inputs and outputs first if this removes transpositions, in a network with convolutions.
pub fn channels_first(graph: &mut Graph) -> Vec<Reordered> {
    let mut reordered = Vec::new();
    if !graph.nodes.iter().any(|node| matches!(node.op, Op::Convolution(_))) {
        return reordered;
    }
    for k in 0..graph.inputs.len() {
        if let Some((candidate, change)) = input_first(graph, graph.inputs[k]) {
            if transpositions(&candidate) < transpositions(graph) {
                *graph = candidate;
                reordered.push(change);
            }
        }
    }
    for k in 0..graph.outputs.len() {
        if let Some(change) = output_first(graph, k) {
            reordered.push(change);
            simplify(graph);
        }
    }
    reordered
}

fn transpositions(graph: &Graph) -> usize {
    graph.nodes.iter().filter(|node| matches!(node.op, Op::Transpose { .. })).count()
}

/// The simplified network with the channels of an input first.
fn input_first(graph: &Graph, id: TensorId) -> Option<(Graph, Reordered)> {
    let &[n, h, w, c] = graph.shape(id) else { return None };
    if graph.outputs.contains(&id) || graph.tensor(id).quantization.as_ref().is_some_and(|q| q.axis.is_some()) {
        return None;
    }
    let mut graph = graph.clone();
    let name = graph.tensor(id).name.clone();
    let last = TensorId(graph.tensors.len());
    graph.tensors.push(Tensor {
        name: format!("{name}'"),
        shape: vec![n, h, w, c],
        constant: None,
        quantization: None,
    });
    for node in &mut graph.nodes {
        node.inputs.iter_mut().filter(|input| **input == id).for_each(|input| *input = last);
    }
    let op = Op::Transpose { perm: LAST.to_vec() };
    graph.nodes.insert(0, Node { name: name.clone(), op, inputs: vec![id], output: last });
    let change = Reordered { name, model: vec![n, h, w, c], graph: vec![n, c, h, w] };
    graph.tensors[id.0].shape.clone_from(&change.graph);
    simplify(&mut graph);
    Some((graph, change))
}

/// Removes the transposition that computes an output.
fn output_first(graph: &mut Graph, k: usize) -> Option<Reordered> {
    let output = graph.outputs[k];
    let node = graph.node(graph.producer(output)?);
    let source = node.inputs[0];
    let rounds = &graph.tensor(output).quantization;
    let same = rounds.is_none() || *rounds == graph.tensor(source).quantization;
    let activation = graph.producer(source).is_some() && !graph.outputs.contains(&source);
    if !matches!(&node.op, Op::Transpose { perm } if perm[..] == LAST) || !same || !activation {
        return None;
    }
    let name = graph.tensor(output).name.clone();
    let inner = std::mem::replace(&mut graph.tensors[source.0].name, name.clone());
    graph.tensors[output.0].name = inner;
    graph.outputs[k] = source;
    Some(Reordered { name, model: graph.shape(output).to_vec(), graph: graph.shape(source).to_vec() })
}
