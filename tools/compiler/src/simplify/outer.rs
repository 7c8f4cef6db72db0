// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reshapes and transpositions beside inputs and outputs. The elements of an input or output are given and received in the
//! order N, C, H, W, whatever their order in memory, so that two kinds of moves need not be computed:
//!
//! - Reshapes keep the order of elements.
//! - The channels of TensorFlow's networks are last, `[N, H, W, C]`, and so are those of many detectors' outputs. The hardware
//!   stores a tensor of either order in the same way.

use super::moves::{indices, long_axes, same_extents};
use super::pass::simplify;
use crate::float;
use crate::ir::{Graph, Node, Op, Tensor, TensorId};

/// An input or an output that has another shape than in the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reshaped {
    /// Its name.
    pub name: String,
    /// Its shape in the model.
    pub model: Vec<usize>,
    /// Its shape in the graph.
    pub graph: Vec<usize>,
    /// Whether its channels are last in the model; otherwise the order of its elements is the same, or that after `moves`.
    pub channels_last: bool,
    /// What the model does with an output in the loadable's shape.
    pub moves: Vec<Move>,
    /// The part of a model's output that it is.
    pub part: Option<Joined>,
}

/// A move that is left to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// The same elements in another shape.
    Reshape(Vec<usize>),
    /// Axis i is axis `perm[i]` of the tensor before.
    Transpose(Vec<usize>),
}

/// The part of an output of the model that an output of the loadable is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The model's output.
    pub of: String,
    /// The axis along which the model joins the parts.
    pub axis: usize,
    /// The first index along the axis.
    pub first: usize,
    /// How many indices.
    pub count: usize,
    /// The part that `of` is of a larger output, if it is one.
    pub within: Option<Box<Joined>>,
}

impl Reshaped {
    /// A tensor as it is.
    fn of(graph: &Graph, id: TensorId) -> Self {
        let Tensor { name, shape, .. } = graph.tensor(id);
        Self::new(name, shape, shape)
    }

    /// Whether it is a whole tensor with its elements in the same order.
    pub fn keeps_order(&self) -> bool {
        let moves = self.moves.iter().any(|step| matches!(step, Move::Transpose(_)));
        !self.channels_last && !moves && self.part.is_none()
    }

    /// The same elements in the same order.
    pub(super) fn new(name: &str, model: &[usize], graph: &[usize]) -> Self {
        let (name, model, graph) = (name.to_owned(), model.to_vec(), graph.to_vec());
        Self { name, model, graph, channels_last: false, moves: Vec::new(), part: None }
    }
}

impl std::fmt::Display for Reshaped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, model, graph, channels_last, moves, part } = self;
        write!(f, "{name:?} ")?;
        let mut within = part.as_ref();
        while let Some(Joined { of, axis, first, count, within: next }) = within {
            let (start, last) = (if within == part.as_ref() { "is " } else { "" }, first + count - 1);
            write!(f, "{start}the part {first} to {last} along axis {axis} of ")?;
            within = next.as_deref();
            if within.is_none() {
                write!(f, "{of:?}; it ")?;
            }
        }
        write!(f, "is {model:?} in the model, {graph:?} in the loadable, ")?;
        if moves.is_empty() {
            let order = if *channels_last { "with the channels first" } else { "with its elements in the same order" };
            return f.write_str(order);
        }
        f.write_str("which the model changes:")?;
        for (k, step) in moves.iter().enumerate() {
            f.write_str(if k == 0 { " " } else { ", then " })?;
            match step {
                Move::Reshape(shape) => write!(f, "reshaped to {shape:?}")?,
                Move::Transpose(perm) => write!(f, "transposed by {perm:?}")?,
            }
        }
        Ok(())
    }
}

/// Leaves moves beside inputs and outputs to the user, in a network with convolutions, deconvolutions or poolings.
pub fn outer_moves(graph: &mut Graph) -> Vec<Reshaped> {
    let mut reshaped = Vec::new();
    let windows = |node: &Node| matches!(node.op, Op::Convolution(_) | Op::Deconvolution(..) | Op::Pool(_));
    if !graph.nodes.iter().any(windows) {
        return reshaped;
    }
    for k in 0..graph.inputs.len() {
        let id = graph.inputs[k];
        // Scales per channel belong to an axis.
        if graph.tensor(id).has_scales_of_an_axis() {
            continue;
        }
        let (own, other) = (Reshaped::of(graph, id), reshaped_input(graph, id));
        let candidates = [first_input(&own), other.as_ref().and_then(first_input), other].into_iter().flatten();
        let found = candidates.map(|change| (with_input(graph, id, &change), change));
        if let Some((better, change)) = found.min_by_key(|(graph, _)| moves(graph)) {
            if moves(&better) < moves(graph) {
                *graph = better;
                reshaped.push(change);
            }
        }
    }
    first_together(graph, &mut reshaped);
    for k in 0..graph.outputs.len() {
        if let Some(change) = without_moves(graph, k) {
            reshaped.push(change);
            simplify(graph);
        }
    }
    reshaped
}

/// Gives all inputs that are left their channels first. One alone may be worth nothing, because an operator reads several of them.
fn first_together(graph: &mut Graph, reshaped: &mut Vec<Reshaped>) {
    let left = |id: &TensorId| {
        let tensor = graph.tensor(*id);
        !tensor.has_scales_of_an_axis()
            && first_input(&Reshaped::of(graph, *id)).is_some()
            && reshaped.iter().all(|change| change.name != tensor.name)
    };
    let names: Vec<String> =
        graph.inputs.iter().filter(|id| left(id)).map(|&id| graph.tensor(id).name.clone()).collect();
    if names.len() < 2 {
        return;
    }
    let (mut better, mut changes) = (graph.clone(), Vec::new());
    for name in names {
        let id = better.inputs.iter().copied().find(|&id| better.tensor(id).name == name);
        if let Some((id, change)) = id.and_then(|id| Some((id, first_input(&Reshaped::of(&better, id))?))) {
            better = with_input(&better, id, &change);
            changes.push(change);
        }
    }
    if moves(&better) < moves(graph) {
        *graph = better;
        reshaped.extend(changes);
    }
}

/// Whether an operator moves elements. Dimensions of 1 are added and removed without a move, unless that gives elements another
/// channel, line or column.
pub(super) fn is_move(graph: &Graph, node: &Node) -> bool {
    match node.op {
        Op::Transpose { .. } => true,
        Op::Reshape { .. } => {
            let [from, to] = [node.inputs[0], node.output].map(|id| graph.tensor(id));
            !same_extents(&from.shape, &to.shape) || from.nchw() != to.nchw()
        }
        _ => false,
    }
}

fn moves(graph: &Graph) -> usize {
    graph.nodes.iter().filter(|node| is_move(graph, node)).count()
}

/// The axes of `[N, C, …]` in the order `[N, …, C]`.
fn last(rank: usize) -> Vec<usize> {
    [&[0][..], &(2..rank).collect::<Vec<_>>(), &[1]].concat()
}

/// An input with its channels first. If only dimensions of 1 move, which the model does not have in this place, its elements are in
/// the same order.
fn first_input(input: &Reshaped) -> Option<Reshaped> {
    let (&[n, ref size @ .., c], 3 | 4) = (&input.graph[..], input.graph.len()) else { return None };
    let moved = c != 1 && size.iter().any(|&extent| extent != 1);
    let channels_last = moved || input.model.last() == Some(&c);
    Some(Reshaped { graph: [&[n, c], size].concat(), channels_last, ..input.clone() })
}

/// An input, and the tensors that functions of its elements alone make of it, such as the limits of a quantized model.
fn with_functions(graph: &Graph, id: TensorId) -> Vec<TensorId> {
    let mut chain = vec![id];
    let mut at = id;
    loop {
        let mut users = graph.users(at);
        let (Some(user), None) = (users.next(), users.next()) else { return chain };
        let Node { op, output, .. } = graph.node(user);
        let per_axis = graph.tensor(*output).has_scales_of_an_axis();
        if !matches!(op, Op::Unary(_)) || per_axis || graph.outputs.contains(&at) || graph.outputs.contains(output) {
            return chain;
        }
        at = *output;
        chain.push(at);
    }
}

/// An input with the shape that a reshape gives it. Arithmetic and padding before the reshape are possible in that shape too.
fn reshaped_input(graph: &Graph, id: TensorId) -> Option<Reshaped> {
    let Tensor { name, shape, .. } = graph.tensor(id);
    let mut last = with_functions(graph, id).pop()?;
    let reader = loop {
        let reader = graph.node(graph.users(last).next()?);
        match reader.op {
            Op::Unary(_) | Op::Binary(_) | Op::Pad { .. } if graph.shape(reader.output).len() == shape.len() => {
                last = reader.output;
            }
            Op::Reshape { .. } => break reader,
            _ => return None,
        }
    };
    let (from, mut to) = (graph.shape(last), graph.shape(reader.output).to_vec());
    if from != shape {
        // Padding before a reshape that adds dimensions of 1: the input's extents in the places of the others.
        let mut axes = long_axes(&to).into_iter();
        if from.contains(&1) || !same_extents(from, &to) {
            return None;
        }
        for &extent in shape {
            to[axes.next()?] = extent;
        }
    }
    let fits = matches!(to.len(), 3 | 4) && to != *shape && (to[0] == shape[0] || to[0] == 1);
    fits.then(|| Reshaped::new(name, shape, &to))
}

/// The simplified network with an input changed.
fn with_input(graph: &Graph, id: TensorId, change: &Reshaped) -> Graph {
    let mut graph = graph.clone();
    let chain = with_functions(&graph, id);
    let end = chain.last().copied().unwrap_or(id);
    let inner = TensorId(graph.tensors.len());
    let Reshaped { name, model, .. } = change;
    graph.tensors.push(Tensor { name: format!("{name}'"), shape: model.clone(), constant: None, quantization: None });
    for node in &mut graph.nodes {
        node.inputs.iter_mut().filter(|input| **input == end).for_each(|input| *input = inner);
    }
    graph.outputs.iter_mut().filter(|output| **output == end).for_each(|output| *output = inner);
    let mut behind = graph.nodes.iter().position(|node| node.output == end).map_or(0, |maker| maker + 1);
    let mut from = end;
    if change.channels_last {
        let perm = last(change.graph.len());
        let shape: Vec<usize> = perm.iter().map(|&axis| change.graph[axis]).collect();
        let turned = if shape == *model { inner } else { TensorId(inner.0 + 1) };
        if turned != inner {
            graph.tensors.push(Tensor { name: format!("{name}''"), shape, constant: None, quantization: None });
        }
        let op = Op::Transpose { perm };
        graph.nodes.insert(behind, Node { name: name.clone(), op, inputs: vec![end], output: turned });
        (behind, from) = (behind + 1, turned);
    }
    if from != inner {
        let op = Op::Reshape { shape: model.clone() };
        graph.nodes.insert(behind, Node { name: name.clone(), op, inputs: vec![from], output: inner });
    }
    for id in chain {
        graph.tensors[id.0].shape.clone_from(&change.graph);
    }
    simplify(&mut graph);
    graph
}

/// Removes the moves that compute an output.
fn without_moves(graph: &mut Graph, k: usize) -> Option<Reshaped> {
    let output = graph.outputs[k];
    let mut chain = Vec::new();
    let mut found = None;
    let mut at = output;
    while let Some(node) = graph.producer(at).map(|id| graph.node(id)) {
        let rounds = &graph.tensor(at).quantization;
        let (Op::Reshape { .. } | Op::Transpose { .. }, source) = (&node.op, node.inputs[0]) else { break };
        if rounds.is_some() && *rounds != graph.tensor(quantized(graph, source)).quantization
            || graph.producer(source).is_none()
            || graph.outputs.contains(&source)
        {
            break;
        }
        chain.insert(0, node);
        at = source;
        if graph.shape(source).len() <= 4 && chain.iter().any(|node| is_move(graph, node)) {
            found = order(graph, source, &chain).map(|last| (source, last)).or(found);
        }
    }
    let (source, channels_last) = found?;
    let scale = graph.tensor(output).quantization.clone().filter(|scale| scale.axis.is_none());
    if graph.tensor(source).quantization.is_none() {
        graph.tensors[source.0].quantization = scale;
    }
    Some(Reshaped { channels_last, ..end_at(graph, k, source) })
}

/// The tensor with the scale of a tensor that has none: what it is moved from.
pub(super) fn quantized(graph: &Graph, mut at: TensorId) -> TensorId {
    while let (None, Some(maker)) = (&graph.tensor(at).quantization, graph.producer(at)) {
        let Node { op: Op::Reshape { .. } | Op::Transpose { .. }, inputs, .. } = graph.node(maker) else { break };
        at = inputs[0];
    }
    at
}

/// Makes the tensor from which an output is moved the output, under its name.
pub(super) fn end_at(graph: &mut Graph, k: usize, source: TensorId) -> Reshaped {
    let output = graph.outputs[k];
    let name = graph.tensor(output).name.clone();
    let change = Reshaped::new(&name, graph.shape(output), graph.shape(source));
    graph.tensors[output.0].name = std::mem::replace(&mut graph.tensors[source.0].name, name);
    graph.outputs[k] = source;
    change
}

/// Whether moves put the channels last; `None` if they do more than that.
fn order(graph: &Graph, source: TensorId, chain: &[&Node]) -> Option<bool> {
    let shape = graph.shape(source);
    let indices = indices(graph.tensor(source).elements())?;
    let moved = chain.iter().fold(indices.clone(), |values, node| {
        float::apply(&node.op, &[(graph.shape(node.inputs[0]), &values)], graph.shape(node.output))
    });
    if moved == indices {
        return Some(false);
    }
    if shape.len() < 3 {
        return None;
    }
    let perm = last(shape.len());
    let to: Vec<usize> = perm.iter().map(|&axis| shape[axis]).collect();
    (float::apply(&Op::Transpose { perm }, &[(shape, &indices)], &to) == moved).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flattened input has its elements in the model's order in one channel, too.
    #[test]
    fn dimensions_of_one_change_no_order() {
        for (model, shape, first, moved) in [
            (&[1, 16, 96][..], &[1, 1536, 1, 1][..], &[1, 1, 1536, 1][..], false),
            (&[1, 28, 28, 1], &[1, 28, 28, 1], &[1, 1, 28, 28], true),
            (&[1, 24, 2], &[1, 4, 6, 2], &[1, 2, 4, 6], true),
        ] {
            let found = first_input(&Reshaped::new("x", model, shape)).unwrap();
            assert_eq!((&found.graph[..], found.channels_last), (first, moved), "{model:?}");
        }
    }
}
