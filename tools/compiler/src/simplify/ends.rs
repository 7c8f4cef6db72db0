// SPDX-License-Identifier: MIT OR Apache-2.0

//! The form of a whole network: its operators are simplified, and what stands beside its inputs and outputs and need not be
//! computed is left to the user.

use super::columns::fold_columns;
use super::heads::{last_moves, split_heads};
use super::outer::{outer_moves, Reshaped};
use super::pass::simplify;
use super::waves::fold_waves;
use crate::ir::{Binary, Graph, Op, Quantization};

/// Simplifies a network with its ends. Returns the inputs and outputs that have another shape than in the model.
pub fn simplify_ends(graph: &mut Graph) -> Vec<Reshaped> {
    simplify(graph);
    scaled_outputs(graph);
    let mut heads = split_heads(graph);
    let mut reshaped = fold_waves(graph);
    reshaped.extend(outer_moves(graph));
    reshaped.extend(last_moves(graph));
    for change in &mut reshaped {
        if let Some(at) = heads.iter().position(|head| head.name == change.name) {
            change.part = heads.remove(at).part;
        }
    }
    reshaped.extend(heads);
    for change in fold_columns(graph) {
        match reshaped.iter_mut().find(|before| before.name == change.name) {
            Some(before) => before.graph = change.graph,
            None => reshaped.push(change),
        }
    }
    let last = |change: &&Reshaped| change.channels_last && change.model.last() == change.graph.get(1);
    let names = reshaped.iter().filter(last).map(|change| change.name.clone());
    let is_input = |name: &String| graph.inputs.iter().any(|&id| graph.tensor(id).name == *name);
    graph.channels_last = names.filter(is_input).collect();
    reshaped
}

/// Gives outputs that are a number times a quantized tensor the scale with which they have the same integers.
fn scaled_outputs(graph: &mut Graph) {
    for id in graph.outputs.clone() {
        let Some(node) = graph.producer(id).map(|maker| graph.node(maker)) else { continue };
        if node.op != Op::Binary(Binary::Mul) || graph.tensor(id).quantization.is_some() {
            continue;
        }
        let (of, by) = (graph.tensor(node.inputs[0]), graph.constant(node.inputs[1]).map(|values| &values[..]));
        let (Some(quantization), Some(&[by])) = (&of.quantization, by) else { continue };
        if quantization.axis.is_none() && by.is_normal() && by > 0.0 && of.shape == graph.shape(id) {
            let scale = quantization.scale.iter().map(|scale| scale * by).collect();
            graph.tensors[id.0].quantization = Some(Quantization { scale, ..quantization.clone() });
        }
    }
}
