// SPDX-License-Identifier: MIT OR Apache-2.0

//! Outputs that join the heads of a detector. Their moves and concatenations need not be computed: each head becomes an output of
//! its own, and what the model does with it is left to the user.

use std::collections::HashSet;

use super::moves::{same_axis, same_extents};
use super::outer::{end_at, is_move, quantized, Joined, Move, Reshaped};
use super::pass::{prune, simplify};
use crate::bounds::{bounds, Bounds};
use crate::ir::{Graph, Node, Op, Tensor, TensorId};

/// Outputs with fewer elements are moved by products with matrices.
const FEW: usize = 2048;
/// The most elements of an output whose heads are joined by products with matrices. Each element of a column is in an atom of its own,
/// and the channels of all of them have a limit of 8,192: 256 atoms of 32 channels on nv_full.
const FEW_JOINED: usize = 256;
/// How many times larger a part's values may be than those of another part that is a score, in one output of integers.
const LARGER: f32 = 8.0;

/// Replaces each output that is a concatenation of moved tensors by these tensors.
pub(super) fn split_heads(graph: &mut Graph) -> Vec<Reshaped> {
    let mut heads = Vec::new();
    let mut k = 0;
    while k < graph.outputs.len() {
        let name = graph.tensor(graph.outputs[k]).name.clone();
        if let Some(parts) = split(graph, k) {
            let whole = heads.iter().find(|head: &&Reshaped| head.name == name).and_then(|head| head.part.clone());
            heads.extend(parts.into_iter().map(|head| Reshaped {
                part: head.part.map(|part| Joined { within: whole.clone().map(Box::new), ..part }),
                ..head
            }));
            prune(graph);
        } else {
            k += 1;
        }
    }
    if !heads.is_empty() {
        simplify(graph);
    }
    // A part that was divided again is none.
    heads.retain(|head: &Reshaped| graph.outputs.iter().any(|&id| graph.tensor(id).name == head.name));
    heads
}

/// Leaves all moves that end in a large output to the user, also those that are no change of order alone.
pub(super) fn last_moves(graph: &mut Graph) -> Vec<Reshaped> {
    let mut reshaped = Vec::new();
    for k in 0..graph.outputs.len() {
        let output = graph.outputs[k];
        let (mut at, mut moves, mut found) = (output, Vec::new(), None);
        while let Some(node) = graph.producer(at).map(|id| graph.node(id)) {
            let source = node.inputs[0];
            let step = match &node.op {
                Op::Reshape { shape } => Move::Reshape(shape.clone()),
                Op::Transpose { perm } => Move::Transpose(perm.clone()),
                _ => break,
            };
            if !may_end(graph, source, at) || at != output && graph.users(at).count() > 1 {
                break;
            }
            moves.insert(0, step);
            found = if graph.shape(source).len() <= 4 && is_move(graph, node) {
                Some((source, moves.clone()))
            } else {
                found
            };
            at = source;
        }
        let Some((source, moves)) = found else { continue };
        if graph.tensor(source).elements() <= FEW {
            continue;
        }
        reshaped.push(Reshaped { moves, ..end_at(graph, k, source) });
    }
    if !reshaped.is_empty() {
        simplify(graph);
    }
    reshaped
}

/// Whether a tensor may be an output in place of one that is computed from it.
fn may_end(graph: &Graph, source: TensorId, output: TensorId) -> bool {
    let rounds = &graph.tensor(output).quantization;
    (rounds.is_none() || *rounds == graph.tensor(quantized(graph, source)).quantization)
        && graph.producer(source).is_some()
        && !graph.outputs.contains(&source)
}

fn split(graph: &mut Graph, k: usize) -> Option<Vec<Reshaped>> {
    let output = graph.outputs[k];
    let (mut joined, mut turned, mut merged) = (output, None, None);
    let mut node: &Node = graph.node(graph.producer(joined)?);
    loop {
        match &node.op {
            Op::Reshape { .. }
                if turned.is_none() && same_extents(graph.shape(node.inputs[0]), graph.shape(joined)) => {}
            // A reshape of all parts is one of each, if it keeps the axis along which they are joined.
            Op::Reshape { .. } if turned.is_none() && merged.is_none() => merged = Some(joined),
            // A transposition of all parts is one of each.
            Op::Transpose { perm } if turned.is_none() => turned = Some((perm.clone(), joined)),
            _ => break,
        }
        if !may_end(graph, node.inputs[0], joined) || graph.users(node.inputs[0]).count() > 1 {
            return None;
        }
        joined = node.inputs[0];
        node = graph.node(graph.producer(joined)?);
    }
    let Op::Concat { axis } = node.op else { return None };
    let parts = node.inputs.clone();
    let usable =
        parts.iter().all(|&id| may_end(graph, id, joined) && parts.iter().filter(|&&other| other == id).count() == 1);
    let moves = graph.tensor(output).elements() > FEW_JOINED && parts.iter().any(|&id| moved(graph, id));
    if !usable
        || !(moves || has_scores(&bounds(graph, &[]), &parts))
        || graph.users(output).next().is_some()
        || graph.users(joined).count() > usize::from(joined != output)
    {
        return None;
    }
    let (mut parts, mut axis, mut whole) = (parts, axis, graph.shape(joined).to_vec());
    if let Some((perm, _)) = &turned {
        axis = perm.iter().position(|&from| from == axis)?;
        whole = perm.iter().map(|&from| whole[from]).collect();
    }
    // All that may fail is before the first node is added.
    let merged = match merged {
        Some(merged) => Some((merged, same_axis(graph.shape(merged), &whole, axis)?)),
        None => None,
    };
    if let Some((perm, turned)) = turned {
        parts = parts.iter().map(|&id| transposed(graph, id, &perm, turned)).collect();
    }
    if let Some((merged, behind)) = merged {
        for id in &mut parts {
            let mut shape = graph.shape(merged).to_vec();
            shape[behind] = graph.shape(*id)[axis];
            *id = before(graph, *id, Op::Reshape { shape: shape.clone() }, shape, merged);
        }
        axis = behind;
    }
    let of = graph.tensor(output).name.clone();
    let mut first = 0;
    let mut heads = Vec::new();
    for (at, &id) in parts.iter().enumerate() {
        let name = format!("{of}/{at}");
        let shape = graph.shape(id);
        let part = Some(Joined { of: of.clone(), axis, first, count: shape[axis], within: None });
        first += shape[axis];
        heads.push(Reshaped { part, ..Reshaped::new(&name, shape, shape) });
        graph.tensors[id.0].name = name;
    }
    graph.outputs.splice(k..=k, parts);
    Some(heads)
}

/// Whether a move makes a tensor, or parts of it.
fn moved(graph: &Graph, id: TensorId) -> bool {
    let (mut ends, mut seen) = (vec![id], HashSet::new());
    while let Some(id) = ends.pop() {
        let Some(node) = graph.producer(id).map(|maker| graph.node(maker)).filter(|_| seen.insert(id)) else {
            continue;
        };
        match node.op {
            Op::Concat { .. } => ends.extend(&node.inputs),
            _ if is_move(graph, node) => return true,
            _ => {}
        }
    }
    false
}

/// Whether one part has scores, from -1 to 1, and another has values that may be many times larger, such as the numbers of boxes. With
/// one scale for all, the scores would be 0.
fn has_scores(bounds: &[Bounds], parts: &[TensorId]) -> bool {
    let most = |id: &TensorId| bounds[id.0].0.abs().max(bounds[id.0].1.abs());
    let of_parts = || parts.iter().map(most);
    of_parts().any(|most| most <= 1.0) && of_parts().any(|most| most > LARGER)
}

/// Whether joined tensors are scores and larger values, and only moved and joined again before they are an output.
pub(super) fn ends_with_scores(graph: &Graph, mut joined: TensorId, parts: &[TensorId]) -> bool {
    while !graph.outputs.contains(&joined) {
        let mut users = graph.users(joined).map(|user| graph.node(user));
        let (Some(user), None) = (users.next(), users.next()) else { return false };
        if !matches!(user.op, Op::Concat { .. } | Op::Reshape { .. } | Op::Transpose { .. }) {
            return false;
        }
        joined = user.output;
    }
    has_scores(&bounds(graph, &[]), parts)
}

/// The concatenations of scores and larger values that end in an output, and to which no quantized model gives a scale.
pub(crate) fn joined_scores(graph: &Graph) -> Vec<&Node> {
    let bounds = bounds(graph, &[]);
    let (mut ends, mut seen, mut found) = (graph.outputs.clone(), HashSet::new(), Vec::new());
    while let Some(id) = ends.pop() {
        let Some(node) = graph.producer(id).map(|maker| graph.node(maker)).filter(|_| seen.insert(id)) else {
            continue;
        };
        match node.op {
            Op::Concat { .. } if graph.tensor(id).quantization.is_none() && has_scores(&bounds, &node.inputs) => {
                found.push(node);
            }
            Op::Concat { .. } | Op::Reshape { .. } | Op::Transpose { .. } => ends.extend(&node.inputs),
            _ => {}
        }
    }
    found
}

/// Transposes a tensor before the node that makes another.
fn transposed(graph: &mut Graph, id: TensorId, perm: &[usize], other: TensorId) -> TensorId {
    let shape = perm.iter().map(|&axis| graph.shape(id)[axis]).collect();
    before(graph, id, Op::Transpose { perm: perm.to_vec() }, shape, other)
}

/// Moves a tensor before the node that makes another.
fn before(graph: &mut Graph, id: TensorId, op: Op, shape: Vec<usize>, other: TensorId) -> TensorId {
    let Tensor { name, quantization, .. } = graph.tensor(id).clone();
    let output = TensorId(graph.tensors.len());
    let quantization = quantization.filter(|scales| scales.axis.is_none());
    graph.tensors.push(Tensor { name: format!("{name}'"), shape, constant: None, quantization });
    let at = graph.producer(other).map_or(graph.nodes.len(), |node| node.0);
    graph.nodes.insert(at, Node { name, op, inputs: vec![id], output });
    output
}
