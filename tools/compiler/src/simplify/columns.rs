// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tensors of more columns than the hardware has, such as the 8,400 boxes of a detector for pictures of 640 x 640. Where no operator
//! reads neighbours, the columns need not be in one line: `[1, C, L]` becomes `[1, C, H, W]` with its elements in the same order.

use super::outer::Reshaped;
use super::pass::simplify;
use crate::ir::{Convolution, Graph, Node, Op, Padding, Tensor, TensorId};
use crate::target::LARGEST_EXTENT;

const MOST: usize = LARGEST_EXTENT as usize;

/// Gives lines to tensors with too many columns. Returns the inputs and outputs among them, with the shapes before as the model's.
pub(super) fn fold_columns(graph: &mut Graph) -> Vec<Reshaped> {
    let mut changes = Vec::new();
    let mut done = vec![false; graph.tensors.len()];
    for k in 0..graph.tensors.len() {
        if done[k] || columns(graph, TensorId(k)).is_none() {
            continue;
        }
        let group = connected(graph, TensorId(k));
        for id in &group {
            done[id.0] = true;
        }
        let Some(width) = width(graph, &group) else { continue };
        let folding = Folding { graph, group: &group, width };
        if let Some(folded) = folding.apply() {
            let ends = group.iter().filter(|id| graph.inputs.contains(id) || graph.outputs.contains(id));
            changes.extend(ends.map(|&id| {
                let Tensor { name, shape, .. } = graph.tensor(id);
                Reshaped::new(name, shape, folded.shape(id))
            }));
            done.resize(folded.tensors.len(), true);
            *graph = folded;
        }
    }
    if !changes.is_empty() || done.len() > graph.tensors.len() {
        simplify(graph);
    }
    changes
}

/// The columns of a tensor `[1, C, L]` or `[1, C, 1, L]`, if they are too many.
fn columns(graph: &Graph, id: TensorId) -> Option<usize> {
    let (&[1, _, columns] | &[1, _, 1, columns], None) = (graph.shape(id), graph.constant(id)) else { return None };
    (columns > MOST).then_some(columns)
}

/// The tensors with too many columns that nodes join to one of them.
fn connected(graph: &Graph, start: TensorId) -> Vec<TensorId> {
    let mut group = vec![start];
    loop {
        let before = group.len();
        for node in &graph.nodes {
            let all = || node.inputs.iter().copied().chain([node.output]).filter(|&id| columns(graph, id).is_some());
            if all().any(|id| group.contains(&id)) {
                let new: Vec<TensorId> = all().filter(|id| !group.contains(id)).collect();
                group.extend(new);
            }
        }
        if group.len() == before {
            group.sort_unstable_by_key(|id| id.0);
            group.dedup();
            return group;
        }
    }
}

fn divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The columns of a line: a number that divides all lengths, and the width of a picture that becomes a line where that is possible.
fn width(graph: &Graph, group: &[TensorId]) -> Option<usize> {
    let mut common = 0;
    let mut most = 0;
    let mut wanted = None;
    for &id in group {
        let length = columns(graph, id)?;
        common = divisor(common, length);
        most = most.max(length);
    }
    for node in &graph.nodes {
        let of_group = |id: &TensorId| group.contains(id);
        if !(of_group(&node.output) || node.inputs.iter().any(of_group)) {
            continue;
        }
        match &node.op {
            Op::Concat { axis } if *axis + 1 == graph.shape(node.output).len() => {
                common = node.inputs.iter().fold(common, |common, &id| divisor(common, graph.shape(id)[*axis]));
            }
            Op::Slice { starts, lengths, .. } => {
                let last = starts.len() - 1;
                common = divisor(divisor(common, starts[last]), lengths[last]);
            }
            _ => {}
        }
    }
    // Pictures that a concatenation of the group reads as lines.
    for node in graph.nodes.iter().filter(|node| matches!(node.op, Op::Reshape { .. })) {
        let read = graph.users(node.output).any(|user| group.contains(&graph.node(user).output));
        if let (true, &[1, _, lines, columns]) = (read || group.contains(&node.output), graph.shape(node.inputs[0])) {
            if common.is_multiple_of(columns) && most / columns <= MOST && wanted.is_none_or(|(size, _)| size < lines) {
                wanted = Some((lines, columns));
            }
        }
    }
    let root = most.isqrt();
    let divisors = (2..=MOST.min(common)).filter(|width| common.is_multiple_of(*width) && most / width <= MOST);
    wanted.map(|(_, columns)| columns).or_else(|| divisors.min_by_key(|width| width.abs_diff(root)))
}

/// A graph of which the tensors of a group get lines of that width.
struct Folding<'a> {
    graph: &'a Graph,
    group: &'a [TensorId],
    width: usize,
}

impl Folding<'_> {
    fn folded(&self, shape: &[usize]) -> Option<Vec<usize>> {
        let (&[1, channels, columns] | &[1, channels, 1, columns]) = shape else { return None };
        let lines = columns.is_multiple_of(self.width).then_some(columns / self.width)?;
        Some(vec![1, channels, lines, self.width])
    }

    /// The folded graph; `None` if a node reads neighbours, or moves columns in another way.
    fn apply(&self) -> Option<Graph> {
        let mut graph = self.graph.clone();
        for id in self.group {
            let tensor = &mut graph.tensors[id.0];
            if tensor.quantization.as_ref().is_some_and(|scales| scales.axis.is_some_and(|axis| axis != 1)) {
                return None;
            }
            tensor.shape = self.folded(&tensor.shape)?;
        }
        let nodes = std::mem::take(&mut graph.nodes);
        for node in nodes {
            let of_group = |id: &TensorId| self.group.contains(id);
            if of_group(&node.output) || node.inputs.iter().any(of_group) {
                self.node(&mut graph, node)?;
            } else {
                graph.nodes.push(node);
            }
        }
        graph.check().ok()?;
        Some(graph)
    }

    /// Adds a node that reads or makes a folded tensor.
    fn node(&self, graph: &mut Graph, mut node: Node) -> Option<()> {
        let rank = self.graph.shape(node.output).len();
        let of_group = |id: &TensorId| self.group.contains(id);
        let (from_group, to_group) = (of_group(&node.inputs[0]), of_group(&node.output));
        match &mut node.op {
            Op::Unary(_) | Op::PRelu | Op::ChannelPermutation { .. } | Op::Softmax { axis: 1 } => {}
            Op::Convolution(Convolution { kernel: [1, 1], stride: [1, 1], padding, .. })
                if *padding == Padding::default() => {}
            Op::Binary(_) => {
                for id in &mut node.inputs {
                    if !of_group(id) {
                        *id = self.operand(graph, *id, rank)?;
                    }
                }
            }
            Op::Concat { axis } => {
                if *axis + 1 == rank {
                    *axis = 2;
                }
                for id in &mut node.inputs {
                    if self.graph.constant(*id).is_some() {
                        *id = self.operand(graph, *id, rank)?;
                    } else if !of_group(id) {
                        let shape = self.folded(graph.shape(*id))?;
                        *id = Self::reshaped(graph, *id, shape);
                    }
                }
            }
            Op::Slice { starts, steps, lengths } => {
                let (channel, start, length) = (steps[1], starts[rank - 1], lengths[rank - 1]);
                if steps[rank - 1] != 1 {
                    return None;
                }
                *steps = vec![1, channel, 1, 1];
                *starts = vec![0, starts[1], start / self.width, 0];
                *lengths = vec![1, lengths[1], length / self.width, self.width];
                if !to_group {
                    let shape = lengths.clone();
                    self.then_reshaped(graph, node, shape);
                    return Some(());
                }
            }
            Op::Reshape { shape } => {
                if to_group {
                    *shape = self.folded(shape)?;
                }
            }
            Op::Transpose { perm } if *perm == [0, 2, 1] && from_group != to_group => {
                let id = if from_group { node.inputs[0] } else { node.output };
                let &[_, channels, lines, columns] = graph.shape(id) else { return None };
                if to_group {
                    node.inputs[0] = Self::reshaped(graph, node.inputs[0], vec![1, lines, columns, channels]);
                    *perm = vec![0, 3, 1, 2];
                } else {
                    *perm = vec![0, 2, 3, 1];
                    self.then_reshaped(graph, node, vec![1, lines, columns, channels]);
                    return Some(());
                }
            }
            _ => return None,
        }
        graph.nodes.push(node);
        Some(())
    }

    /// A constant operand of folded tensors.
    fn operand(&self, graph: &mut Graph, id: TensorId, rank: usize) -> Option<TensorId> {
        let values = self.graph.constant(id)?.clone();
        if values.len() == 1 {
            return Some(id);
        }
        let shape = self.graph.shape(id);
        let mut aligned = [vec![1; rank.checked_sub(shape.len())?], shape.to_vec()].concat();
        aligned = match aligned[..] {
            [1, channels, 1] | [1, channels, 1, 1] => vec![1, channels, 1, 1],
            _ => self.folded(&aligned)?,
        };
        let name = format!("{}'", self.graph.tensor(id).name);
        let folded = graph.add_constant(name, &aligned, values).ok()?;
        graph.tensors[folded.0].quantization.clone_from(&self.graph.tensor(id).quantization);
        Some(folded)
    }

    /// Adds a node that makes a tensor of that shape, which then gets the shape that it has in the graph.
    fn then_reshaped(&self, graph: &mut Graph, mut node: Node, made: Vec<usize>) {
        let Tensor { name, shape, quantization, .. } = self.graph.tensor(node.output).clone();
        let output = std::mem::replace(&mut node.output, TensorId(graph.tensors.len()));
        let inner = node.output;
        let quantization = quantization.filter(|scales| scales.axis.is_none());
        graph.tensors.push(Tensor { name: format!("{name}'"), shape: made, constant: None, quantization });
        graph.nodes.push(Node { name: node.name.clone(), op: Op::Reshape { shape }, inputs: vec![inner], output });
        let last = graph.nodes.len() - 1;
        graph.nodes.insert(last, node);
    }

    /// A tensor in another shape.
    fn reshaped(graph: &mut Graph, id: TensorId, shape: Vec<usize>) -> TensorId {
        let (name, output) = (graph.tensor(id).name.clone(), TensorId(graph.tensors.len()));
        let tensor = Tensor { name: format!("{name}'"), shape: shape.clone(), constant: None, quantization: None };
        graph.tensors.push(tensor);
        graph.nodes.push(Node { name, op: Op::Reshape { shape }, inputs: vec![id], output });
        output
    }
}
