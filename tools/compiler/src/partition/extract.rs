// SPDX-License-Identifier: MIT OR Apache-2.0

//! The part of a network that a group computes, as a network of its own.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::import::model::Model;
use crate::ir::{Graph, Node, Quantization, TensorId};
use crate::simplify::{outer_moves, prune, simplify, Reshaped};
use crate::survey::{Survey, Value};
use nvdla_runtime::npy::transposed;

/// A tensor of the file that a group reads or computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Its name in the file.
    pub tensor: String,
    /// Its shape in the file.
    pub shape: Vec<usize>,
    /// The number of the loadable's input or output.
    pub index: usize,
    /// Batch, pixels and channels, if the file's tensor has its channels last: its elements are those of `[batch, pixels, channels]`,
    /// the loadable's those of `[batch, channels, pixels]`. Otherwise the order of elements is the same.
    pub channels_last: Option<[usize; 3]>,
    /// The scale of its integers, if the file's tensor has integers of a quantized model.
    pub quantization: Option<Quantization>,
}

/// A group as a network.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// What it computes.
    pub(super) model: Model,
    /// The tensors that it reads.
    pub(super) inputs: Vec<Bound>,
    /// The tensors that it computes and that something else reads.
    pub(super) outputs: Vec<Bound>,
}

/// Why a group is no network.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// The nodes of the survey that prevent it, and why.
    pub(super) nodes: Vec<(usize, String)>,
    /// If there are none: what prevents the group as a whole.
    pub(super) reason: String,
}

/// Makes the network of a group. `read` are the tensors of the file that nodes outside the group or the user read.
///
/// # Errors
///
/// If a node does nothing but pass on a tensor that something outside reads, or the group computes nothing.
pub(super) fn extract(survey: &Survey, group: &[usize], read: &HashSet<&str>) -> Result<Piece, Failure> {
    let inside: HashSet<usize> = group.iter().copied().collect();
    let nodes = survey.graph.nodes.iter().zip(&survey.origins).filter(|(_, origin)| inside.contains(origin));
    let nodes: Vec<(&Node, &usize)> = nodes.collect();
    let made: HashSet<TensorId> = nodes.iter().map(|(node, _)| node.output).collect();
    let computed: HashSet<&str> = group.iter().flat_map(|&k| &survey.nodes[k].outputs).map(String::as_str).collect();

    let mut part = Part { survey, graph: Graph::new(survey.graph.name.clone()), places: HashMap::new() };
    let mut inputs: Vec<Bound> = Vec::new();
    for name in group.iter().flat_map(|&k| &survey.nodes[k].inputs) {
        let Some(Value::Activation(id, quantization)) = survey.values.get(name) else { continue };
        if computed.contains(name.as_str()) || made.contains(id) || part.places.contains_key(id) {
            continue;
        }
        let place = part.tensor(*id);
        let input = &mut part.graph.tensors[place.0];
        input.name.clone_from(name);
        // A tensor that is only moved has its scale where it is computed.
        if input.quantization.is_none() {
            input.quantization.clone_from(quantization);
        }
        part.graph.inputs.push(place);
        inputs.push(bound(name, survey.graph.shape(*id), quantization.as_ref()));
    }
    for (node, &origin) in &nodes {
        let known =
            |id: &TensorId| made.contains(id) || part.places.contains_key(id) || survey.graph.constant(*id).is_some();
        if let Some(&id) = node.inputs.iter().find(|id| !known(id)) {
            let reason = format!("it needs {:?}, which is no tensor of the file", survey.graph.tensor(id).name);
            return Err(Failure { nodes: vec![(origin, reason)], reason: String::new() });
        }
        let inputs = node.inputs.iter().map(|&id| part.tensor(id)).collect();
        let output = part.tensor(node.output);
        part.graph.nodes.push(Node { name: node.name.clone(), op: node.op.clone(), inputs, output });
    }
    let mut outputs: Vec<Bound> = Vec::new();
    for &k in group {
        for name in survey.nodes[k].outputs.iter().filter(|name| read.contains(name.as_str())) {
            let fail = |reason: String| Failure { nodes: vec![(k, reason)], reason: String::new() };
            let Some(Value::Activation(id, quantization)) = survey.values.get(name) else {
                return Err(fail(format!("its output {name:?} is constant and something else reads it")));
            };
            if !made.contains(id) {
                return Err(fail(format!("it passes {name:?} on and computes nothing")));
            }
            let place = part.tensor(*id);
            let index = part.graph.outputs.iter().position(|&other| other == place).unwrap_or_else(|| {
                part.graph.tensors[place.0].name.clone_from(name);
                part.graph.outputs.push(place);
                part.graph.outputs.len() - 1
            });
            outputs.push(Bound { index, ..bound(name, survey.graph.shape(*id), quantization.as_ref()) });
        }
    }
    let fail = |reason: String| Failure { nodes: Vec::new(), reason };
    if outputs.is_empty() {
        return Err(fail("nothing reads what it computes".to_owned()));
    }
    let mut graph = part.graph;
    prune(&mut graph);
    graph.check().map_err(fail)?;
    simplify(&mut graph);
    joined(&mut graph, &mut outputs);
    let reshaped = outer_moves(&mut graph);
    let named = |name: &str| reshaped.iter().find(|reshaped| reshaped.name == name);
    // The file's own shape may be another, because a reshape behind the transposition moves no element.
    let last = |change: Option<&Reshaped>| match change {
        Some(Reshaped { channels_last: true, graph, .. }) => match graph[..] {
            [batch, channels, ref size @ ..] => Some([batch, size.iter().product(), channels]),
            _ => None,
        },
        _ => None,
    };
    let names: Vec<String> = graph.outputs.iter().map(|&id| graph.tensor(id).name.clone()).collect();
    for output in &mut outputs {
        output.channels_last = last(names.get(output.index).and_then(|name| named(name)));
    }
    // Inputs that nothing needs are not part of the network.
    let used: HashSet<TensorId> = graph.nodes.iter().flat_map(|node| &node.inputs).copied().collect();
    graph.inputs.retain(|id| used.contains(id) || names.contains(&graph.tensors[id.0].name));
    prune(&mut graph);
    let places: HashMap<&str, usize> =
        graph.inputs.iter().enumerate().map(|(index, &id)| (graph.tensor(id).name.as_str(), index)).collect();
    inputs.retain_mut(|input| {
        input.channels_last = last(named(&input.tensor));
        let place = places.get(input.tensor.as_str());
        input.index = place.copied().unwrap_or_default();
        place.is_some()
    });
    Ok(Piece { model: Model { graph, reshaped }, inputs, outputs })
}

fn bound(name: &str, shape: &[usize], quantization: Option<&Quantization>) -> Bound {
    Bound {
        tensor: name.to_owned(),
        shape: shape.to_vec(),
        index: 0,
        channels_last: None,
        quantization: quantization.cloned(),
    }
}

/// Joins outputs that are the same tensor after simplification.
fn joined(graph: &mut Graph, outputs: &mut [Bound]) {
    let mut first: Vec<TensorId> = Vec::new();
    let all = std::mem::take(&mut graph.outputs);
    for output in outputs {
        let id = all[output.index];
        output.index = first.iter().position(|&other| other == id).unwrap_or_else(|| {
            first.push(id);
            first.len() - 1
        });
    }
    graph.outputs = first;
}

/// A graph that takes tensors from that of a survey.
struct Part<'a> {
    survey: &'a Survey,
    graph: Graph,
    places: HashMap<TensorId, TensorId>,
}

impl Part<'_> {
    /// The place of a tensor in the part.
    fn tensor(&mut self, id: TensorId) -> TensorId {
        *self.places.entry(id).or_insert_with(|| {
            self.graph.tensors.push(self.survey.graph.tensor(id).clone());
            TensorId(self.graph.tensors.len() - 1)
        })
    }
}

impl Bound {
    /// The values of the file's tensor in the order of the loadable's, which is N, C, H, W.
    pub fn to_loadable<'a>(&self, values: &'a [f32]) -> Cow<'a, [f32]> {
        match self.channels_last {
            Some([batch, pixels, channels]) => transposed(values, batch, pixels, channels).into(),
            None => values.into(),
        }
    }

    /// The values of the loadable's tensor in the order of the file's.
    pub fn from_loadable(&self, values: Vec<f32>) -> Vec<f32> {
        match self.channels_last {
            Some([batch, pixels, channels]) => transposed(&values, batch, channels, pixels),
            None => values,
        }
    }
}
