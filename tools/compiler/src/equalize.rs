// SPDX-License-Identifier: MIT OR Apache-2.0

//! Cross-layer equalisation, after Nagel, van Baalen, Blankevoort and Welling, "Data-Free Quantization Through Weight Equalization
//! and Bias Correction", ICCV 2019, section 4.1.
//!
//! Channels of a tensor share one int8 scale, so a channel with small values has few steps. Every value of a channel can be
//! divided by a factor if the convolution before divides its kernel and bias, and the convolution behind multiplies its weights
//! of that channel. What lies between must be linear, or positively homogeneous: f(x / s) = f(x) / s for s > 0. The network then
//! computes the same function. Kernels have scales of their own, so those of the convolution before lose nothing. Behind it, the
//! weights of a kernel become less even.
//!
//! An operator without that property keeps the factors of its tensors at 1. A limit above 0 (ReLU6) is such an operator. A limit
//! per channel would compute the same function, but on other pictures values reach far beyond those of the samples, where the
//! common scale saturates.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use crate::ir::{Binary, Graph, Node, Op, PadMode, TensorId, Unary};

/// The least range of a channel that counts, relative to the tensor's. Channels that are nearly zero on the samples may have
/// larger values on other data.
const MIN_RANGE: f32 = 1.0 / 64.0;

/// The set whose factor is 1.
const FIXED: usize = 0;

/// The kernel and the input's channel of each plane of a convolution's weights, in their order, and the elements of a plane. None
/// for other operators, and if the weights are not constant.
pub(crate) fn planes(graph: &Graph, node: &Node) -> Option<(impl Iterator<Item = (usize, usize)> + Clone, usize)> {
    let (group, forward) = match &node.op {
        Op::Convolution(op) => (op.group, true),
        Op::Deconvolution(op, _) => (op.group, false),
        _ => return None,
    };
    graph.constant(node.inputs[1])?;
    let &[rows, columns, height, width] = graph.shape(node.inputs[1]) else { return None };
    let of_row = move |row: usize| {
        let first = row / (rows / group) * columns;
        (first..first + columns).map(move |other| if forward { (row, other) } else { (other, row) })
    };
    Some(((0..rows).flat_map(of_row), height * width))
}

/// The sets of channels that have one factor: a forest of the channels of all tensors.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    /// The number of each tensor's first channel.
    first: Vec<usize>,
    /// The channels of each tensor.
    counts: Vec<usize>,
    parents: Vec<usize>,
    /// The largest weight of each channel that a node reads, relative to the largest of its kernel.
    weights: Arc<OnceLock<Vec<Vec<f32>>>>,
}

impl Sets {
    pub(crate) fn new(graph: &Graph) -> Self {
        let channels = |tensor: &crate::ir::Tensor| match tensor.nchw() {
            Some([_, channels, ..]) if tensor.constant.is_none() => channels,
            _ => 1,
        };
        let counts: Vec<usize> = graph.tensors.iter().map(channels).collect();
        let mut next = FIXED + 1;
        let mut first = Vec::new();
        for count in &counts {
            first.push(next);
            next += count;
        }
        let mut sets = Self { first, counts, parents: (0..next).collect(), weights: Arc::default() };
        for (k, tensor) in graph.tensors.iter().enumerate() {
            let id = TensorId(k);
            let known = tensor.constant.is_some() || graph.inputs.contains(&id) || graph.outputs.contains(&id);
            if known || tensor.quantization.is_some() || tensor.nchw().is_none() {
                sets.fix(id);
            }
        }
        graph.nodes.iter().for_each(|node| sets.node(graph, node));
        for k in 0..sets.parents.len() {
            sets.parents[k] = sets.root(k);
        }
        sets
    }

    fn root(&self, mut at: usize) -> usize {
        while self.parents[at] != at {
            at = self.parents[at];
        }
        at
    }

    /// The smaller number becomes the root, so [`FIXED`] always stays a root.
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b)] = a.min(b);
    }

    fn fix(&mut self, id: TensorId) {
        (0..self.counts[id.0]).for_each(|c| self.join(FIXED, self.first[id.0] + c));
    }

    /// Joins channel `of(k)` of x with channel k of y. Tensors without such channels have no factors.
    fn joined(&mut self, x: TensorId, y: TensorId, of: impl Fn(usize) -> usize) {
        if (0..self.counts[y.0]).any(|k| of(k) >= self.counts[x.0]) {
            for id in [x, y] {
                self.fix(id);
            }
            return;
        }
        (0..self.counts[y.0]).for_each(|k| self.join(self.first[x.0] + of(k), self.first[y.0] + k));
    }

    fn node(&mut self, graph: &Graph, node: &Node) {
        let (inputs, y) = (&node.inputs, node.output);
        let x = inputs[0];
        let constant = |at: usize| graph.constant(inputs[at]).is_some();
        let rank = graph.shape(y).len();
        let same = |id: TensorId| {
            let shape = graph.tensor(id).nchw().filter(|_| graph.shape(id).len() == rank)?;
            Some([shape[0], shape[1]])
        };
        let alike = same(x).is_some() && same(x) == same(y);
        match &node.op {
            Op::Convolution(_) | Op::Deconvolution(..)
                if planes(graph, node).is_some()
                    && inputs[1..].iter().all(|&id| graph.tensor(id).quantization.is_none()) => {}
            Op::Unary(
                Unary::Relu | Unary::LeakyRelu(_) | Unary::Neg | Unary::Abs | Unary::Clip(0.0, f32::INFINITY),
            )
            | Op::PRelu
            | Op::Pool(_)
            | Op::Resize(_)
            | Op::Pad { mode: PadMode::Constant(0.0) | PadMode::Reflect | PadMode::Edge, .. }
                if alike =>
            {
                self.joined(x, y, |k| k);
            }
            Op::Binary(Binary::Mul) if alike && constant(1) => self.joined(x, y, |k| k),
            Op::Binary(Binary::Add | Binary::Sub | Binary::Max | Binary::Min)
                if alike && same(inputs[1]) == same(y) && !constant(0) && !constant(1) =>
            {
                for &id in inputs {
                    self.joined(id, y, |k| k);
                }
            }
            // One value per channel times a tensor.
            Op::Binary(Binary::Mul)
                if same(x).is_some() && same(x) == same(inputs[1]) && !constant(0) && !constant(1) =>
            {
                let [a, b] = [x, inputs[1]].map(|id| graph.tensor(id).elements());
                let (data, gate) = if a < b { (inputs[1], x) } else { (x, inputs[1]) };
                self.fix(gate);
                self.joined(data, y, |k| k);
            }
            Op::Concat { axis: 1 } if same(y).is_some() && (0..inputs.len()).all(|at| !constant(at)) => {
                let mut before = 0;
                for &id in inputs {
                    for c in 0..self.counts[id.0] {
                        self.join(self.first[id.0] + c, self.first[y.0] + before + c);
                    }
                    before += self.counts[id.0];
                }
            }
            Op::ChannelPermutation { from } => self.joined(x, y, |k| from[k]),
            Op::Slice { starts, steps, .. } if rank >= 2 => {
                self.joined(x, y, |k| (starts[1] as isize + k as isize * steps[1]) as usize);
            }
            _ => inputs.iter().chain([&y]).for_each(|&id| self.fix(id)),
        }
    }

    /// The sets of a tensor's channels, by their numbers.
    fn of(&self, id: TensorId) -> &[usize] {
        &self.parents[self.first[id.0]..][..self.counts[id.0]]
    }

    /// Whether a channel of a tensor may have a factor.
    pub(crate) fn free(&self, id: TensorId) -> bool {
        self.of(id).iter().any(|&set| set != FIXED)
    }

    /// The largest weight of each channel that a node reads, relative to the largest of its kernel. Empty if the channels have no
    /// factors or no weights.
    fn largest_weights(&self, graph: &Graph, node: &Node) -> Vec<f32> {
        let Some((planes, taps)) = planes(graph, node).filter(|_| self.free(node.inputs[0])) else { return Vec::new() };
        let Some(weights) = graph.constant(node.inputs[1]) else { return Vec::new() };
        let of_plane = |plane: &[f32]| plane.iter().fold(0f32, |largest, weight| largest.max(weight.abs()));
        let largest: Vec<f32> = weights.chunks_exact(taps).map(of_plane).collect();
        let mut kernels = vec![f32::MIN_POSITIVE; self.counts[node.output.0]];
        let mut channels = vec![MIN_RANGE; self.counts[node.inputs[0].0]];
        for ((kernel, _), &weight) in planes.clone().zip(&largest) {
            kernels[kernel] = kernels[kernel].max(weight);
        }
        for ((kernel, channel), weight) in planes.zip(&largest) {
            channels[channel] = channels[channel].max(weight / kernels[kernel]);
        }
        channels
    }

    /// The factors of each tensor's channels. `largest` has the largest magnitude of each channel of the tensors that are
    /// [`Self::free`].
    ///
    /// A channel's factor is `sqrt(range / sqrt(weight))`, where the range is relative to the tensor's largest, and the weight is the
    /// largest of that channel, relative to the largest of its kernel. The paper takes the square root of range / weight. Here
    /// activations and weights are not equally sensitive.
    pub(crate) fn factors(&self, graph: &Graph, largest: impl Fn(TensorId) -> Option<Vec<f32>>) -> Factors {
        let weights =
            self.weights.get_or_init(|| graph.nodes.par_iter().map(|node| self.largest_weights(graph, node)).collect());
        let mut ranges: BTreeMap<usize, (f32, f32)> = BTreeMap::new();
        for (node, weights) in graph.nodes.iter().zip(weights).filter(|(_, weights)| !weights.is_empty()) {
            let Some(values) = largest(node.inputs[0]) else { continue };
            let most = values.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
            for ((&set, value), &weight) in self.of(node.inputs[0]).iter().zip(&values).zip(weights) {
                let (range, heaviest) = ranges.entry(set).or_insert((MIN_RANGE, MIN_RANGE));
                (*range, *heaviest) = (range.max(value / most), heaviest.max(weight));
            }
        }
        ranges.remove(&FIXED);
        let of = |set: &usize| ranges.get(set).map_or(1.0, |(range, weight)| (range / weight.sqrt()).sqrt());
        let tensor = |k| {
            let sets = self.of(TensorId(k));
            sets.iter().any(|set| ranges.contains_key(set)).then(|| sets.iter().map(of).collect())
        };
        Factors((0..graph.tensors.len()).map(tensor).collect())
    }
}

/// The weights of a node, and its bias if it has one.
type OfNode = [Option<Arc<[f32]>>; 2];

/// The factor by which each channel of a tensor is divided. None: all are 1.
pub(crate) struct Factors(Vec<Option<Vec<f32>>>);

impl Factors {
    pub(crate) fn of(&self, id: TensorId) -> Option<&[f32]> {
        self.0[id.0].as_deref()
    }

    /// Whether all factors are 1.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The network with other weights. Its activations have the same numbers.
    pub(crate) fn apply(&self, graph: &Graph) -> Graph {
        let factor = |factors: Option<&[f32]>, c: usize| factors.map_or(1.0, |factors| factors[c]);
        let others = graph.nodes.par_iter().map(|node| {
            let (planes, taps) = planes(graph, node)?;
            let [x, y] = [node.inputs[0], node.output].map(|id| self.of(id));
            if x.is_none() && y.is_none() {
                return None;
            }
            let mut weights = graph.constant(node.inputs[1])?.clone();
            for ((kernel, channel), plane) in planes.zip(Arc::make_mut(&mut weights).chunks_exact_mut(taps)) {
                let by = factor(x, channel) / factor(y, kernel);
                for weight in plane {
                    *weight *= by;
                }
            }
            let bias = node.inputs.get(2).and_then(|&id| graph.constant(id));
            let divided = |(kernel, bias): (usize, &f32)| bias / factor(y, kernel);
            Some([Some(weights), bias.map(|bias| bias.iter().enumerate().map(divided).collect())])
        });
        let others: Vec<Option<OfNode>> = others.collect();
        let mut new = graph.clone();
        for (k, node) in graph.nodes.iter().enumerate() {
            for (at, values) in (1..).zip(others[k].iter().flatten()) {
                if let Some(values) = values {
                    new.nodes[k].inputs[at] = replaced(&mut new, node.inputs[at], values.clone());
                }
            }
        }
        new
    }
}

/// A constant with other values: itself, or another one if several nodes read it.
fn replaced(graph: &mut Graph, id: TensorId, values: Arc<[f32]>) -> TensorId {
    let mut tensor = graph.tensor(id).clone();
    tensor.constant = Some(values);
    if graph.users(id).nth(1).is_none() {
        graph.tensors[id.0] = tensor;
        return id;
    }
    graph.tensors.push(tensor);
    TensorId(graph.tensors.len() - 1)
}
