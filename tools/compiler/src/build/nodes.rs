// SPDX-License-Identifier: MIT OR Apache-2.0

//! Converts nodes to steps: one function per operator or group of operators. `fuse` then joins steps.

use std::collections::HashSet;

use nvdla_uapi::config::Config;

use crate::bounds::Bounds;
use crate::ir::{self, Graph, Op, Ranges, Refusal, Unreadable};
use crate::net::step::{Combine, Convolution, Elements, Kind, Lrn, Net, PostOp, Step, Tensor, TensorId};
use crate::target::{LARGEST_KERNEL, LARGEST_STRIDE};

/// The greatest number of lines or columns that single copies put beside a tensor or one another.
pub(super) const MAX_COPIES: usize = 64;

/// The most pieces of tensors that are joined one by one. Each is a copy.
const MOST_PIECES: usize = 1024;
/// The greatest value around a tensor. Integers that stand for it would be too far apart for the tensor's own values.
const LARGEST_CONSTANT: f32 = 1024.0;

/// What is known of a graph's values beside their ranges.
pub(crate) struct Known<'a> {
    /// The bounds that follow from the operators.
    pub(crate) bounds: &'a [Bounds],
    /// The quantized tensors whose limits need functions of SDP, because their integers do not saturate there. None: all.
    pub(crate) limited: Option<&'a HashSet<TensorId>>,
    /// Whether tensors have integers, and not half precision.
    pub(crate) integers: bool,
    /// Whether the results of a softmax that only the user reads are in half precision all the same.
    pub(crate) halves: bool,
}

/// Converts a graph to steps. The error lists all nodes that cannot be mapped, and all outputs that are constant.
pub(crate) fn build(
    graph: &Graph,
    ranges: &Ranges,
    known: &Known<'_>,
    config: &'static Config,
) -> Result<Net, Unreadable> {
    let Known { bounds, limited, integers, halves } = *known;
    let net = Net::empty(graph, ranges, integers);
    let (left, refusals) = (HashSet::new(), Vec::new());
    let mut builder = Builder { graph, config, bounds, limited, halves, ranges, net, left, refusals };
    let live = live(graph);
    let mut refused = vec![false; graph.nodes.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        if !live[index] {
            continue;
        }
        let first = builder.net.steps.len();
        if let Err(reason) = builder.node(node).and_then(|()| builder.reads_no_constant(first)) {
            refused[index] = true;
            builder.refusals.push(Refusal {
                node: node.name.clone(),
                operator: node.op.name().to_owned(),
                shapes: node.inputs.iter().map(|&id| graph.shape(id).to_vec()).collect(),
                reason: format!("{reason} ({})", config.name),
            });
        }
    }
    for &id in graph.outputs.iter().filter(|&&id| graph.constant(id).is_some()) {
        let ir::Tensor { name, shape, .. } = graph.tensor(id);
        builder.refusals.push(Refusal {
            node: name.clone(),
            operator: "output".to_owned(),
            shapes: vec![shape.clone()],
            reason: format!("the output {name:?} does not depend on the inputs"),
        });
    }
    if !builder.refusals.is_empty() {
        return Err(Unreadable(builder.refusals, before(graph, &live, refused)));
    }
    Ok(builder.net)
}

/// The names of tensors that need no refused node, and that are outputs, or inputs of a node that needs a refused one.
fn before(graph: &Graph, live: &[bool], mut refused: Vec<bool>) -> Vec<String> {
    let mut missing = vec![false; graph.tensors.len()];
    let mut last = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|id| last[id.0] = true);
    for (node, refused) in graph.nodes.iter().zip(&mut refused) {
        *refused |= node.inputs.iter().any(|id| missing[id.0]);
        missing[node.output.0] = *refused;
    }
    for (node, _) in graph.nodes.iter().zip(live.iter().zip(refused)).filter(|(_, (live, refused))| **live && *refused)
    {
        node.inputs.iter().for_each(|id| last[id.0] = true);
    }
    let made = graph.nodes.iter().map(|node| node.output).filter(|id| last[id.0] && !missing[id.0]);
    made.map(|id| graph.tensor(id).name.clone()).collect()
}

fn live(graph: &Graph) -> Vec<bool> {
    let mut needed = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|id| needed[id.0] = true);
    let mut live = vec![false; graph.nodes.len()];
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        if needed[node.output.0] {
            live[index] = true;
            node.inputs.iter().for_each(|id| needed[id.0] = true);
        }
    }
    live
}
impl Net {
    fn empty(graph: &Graph, ranges: &Ranges, integers: bool) -> Self {
        let tensor = |(id, tensor): (usize, &ir::Tensor)| Tensor {
            name: tensor.name.clone(),
            shape: folded(tensor),
            range: ranges.get(ir::TensorId(id)).copied(),
            wide: false,
            half: false,
        };
        Self {
            tensors: graph.tensors.iter().enumerate().map(tensor).collect(),
            steps: Vec::new(),
            inputs: graph.inputs.iter().map(|id| id.0).collect(),
            outputs: graph.outputs.iter().map(|id| id.0).collect(),
            within: Vec::new(),
            integers,
        }
    }
}

/// Channels, height and width of a tensor. The dimensions before the channels become channels too, so that elements keep their
/// order.
pub(crate) fn folded(tensor: &ir::Tensor) -> [u32; 3] {
    let [n, c, h, w] = tensor.nchw().unwrap_or_else(|| {
        let [outer @ .., h, w] = &tensor.shape[..] else { return [1, tensor.elements(), 1, 1] };
        [1, outer.iter().product(), *h, *w]
    });
    [n * c, h, w].map(|extent| extent as u32)
}

/// The state of building a network of steps.
pub(crate) struct Builder<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) config: &'static Config,
    pub(crate) bounds: &'a [Bounds],
    limited: Option<&'a HashSet<TensorId>>,
    /// See [`Known`].
    pub(super) halves: bool,
    /// What is known of the graph's tensors.
    pub(super) ranges: &'a Ranges,
    pub(crate) net: Net,
    /// The moved tensors that only a later move reads, which computes both.
    pub(super) left: HashSet<ir::TensorId>,
    refusals: Vec<Refusal>,
}

impl Builder<'_> {
    /// Whether the integers of a quantized tensor saturate at its limits.
    pub(super) fn saturates(&self, id: ir::TensorId) -> bool {
        self.limited.is_some_and(|limited| !limited.contains(&id.0))
    }

    /// Adds a step of a node.
    pub(crate) fn step(
        &mut self,
        node: &ir::Node,
        kind: Kind,
        inputs: &[TensorId],
        post_ops: Vec<PostOp>,
        output: TensorId,
    ) {
        let nodes = vec![node.name.clone()];
        self.net.steps.push(Step { nodes, kind, inputs: inputs.to_vec(), post_ops, output });
    }

    /// Adds a step with one input and the node's own output.
    pub(crate) fn simple(&mut self, node: &ir::Node, kind: Kind, post_ops: Vec<PostOp>) {
        self.step(node, kind, &[node.inputs[0].0], post_ops, node.output.0);
    }

    /// The channels of tensors in so many pieces each: the first pieces of all, the second ones, and so on. So the pictures of a batch
    /// are joined one by one.
    fn alternately(&mut self, node: &ir::Node, inputs: &[TensorId], pieces: u32) -> Vec<TensorId> {
        let mut all = Vec::new();
        for piece in 0..pieces {
            for &input in inputs {
                let Tensor { name, shape: [channels, height, width], range, .. } = self.net.tensors[input].clone();
                let own = channels / pieces;
                let part = self.net.tensor(format!("{name} part"), [own, height, width], range);
                let start = [piece * own, 0, 0];
                self.step(node, Kind::Slice { start, step: [1; 2] }, &[input], Vec::new(), part);
                all.push(part);
            }
        }
        all
    }

    /// Refuses the steps from `first` on that begin with a constant, because only activations are in buffers.
    fn reads_no_constant(&self, first: usize) -> Result<(), String> {
        let tensors = self.net.steps[first..].iter().flat_map(Step::reads).filter_map(|id| self.graph.tensors.get(id));
        match tensors.into_iter().find(|tensor| tensor.constant.is_some()) {
            Some(tensor) => Err(format!("it reads {:?}, which is constant", tensor.name)),
            None => Ok(()),
        }
    }

    fn node(&mut self, node: &ir::Node) -> Result<(), String> {
        let (graph, output) = (self.graph, node.output.0);
        if self.left.contains(&node.inputs[0]) {
            return self.moved(node, String::new());
        }
        let shape = graph.shape(node.inputs[0]).to_vec();
        // The images of a batch are stored one after another, as more channels.
        let batch = if shape.len() > 1 { shape[0] } else { 1 };
        let several = |values: &[f32]| values.repeat(batch);
        let windows = matches!(node.op, Op::Convolution(_) | Op::Deconvolution(..) | Op::Pool(_) | Op::PRelu);
        if windows && shape.len() > 4 {
            return Err("more than two dimensions after the channels".to_owned());
        }
        let constant = |at: usize| node.inputs.get(at).and_then(|&id| graph.constant(id).cloned());
        match &node.op {
            Op::Convolution(op) => {
                let weights = constant(1).ok_or("its weights are not constant")?;
                let kernels = graph.shape(node.inputs[1])[0];
                let bias = constant(2).map_or_else(|| vec![0.0; kernels], |bias| bias.to_vec());
                let (weights, bias) =
                    if batch > 1 { (several(&weights).into(), several(&bias)) } else { (weights, bias) };
                let op = ir::Convolution { group: op.group * batch, ..*op };
                let conv = Convolution { op, kernels: kernels * batch, weights, bias };
                if let Err(reason) = self.convolve(node, conv, node.inputs[0].0, output) {
                    self.linear_node(node, reason)?;
                }
            }
            Op::Deconvolution(op, _) => {
                let steps = self.net.steps.len();
                if let Err(reason) = self.deconvolution(node, op, batch) {
                    self.net.steps.truncate(steps);
                    self.linear_node(node, reason)?;
                }
            }
            Op::Product => self.step(node, Kind::Product, &[node.inputs[0].0, node.inputs[1].0], Vec::new(), output),
            Op::Unary(unary) => self.unary(node, *unary)?,
            Op::PRelu => {
                let slopes = constant(1).ok_or("its slopes are not constant")?;
                let slopes = if slopes.len() == 1 { slopes.to_vec() } else { several(&slopes) };
                self.simple(node, Kind::Copy, vec![PostOp::Slopes(slopes)]);
            }
            Op::Binary(binary) => self.binary(node, *binary)?,
            Op::Pool(pool) => {
                let (input, pool) = self.without_pad(node, *pool).unwrap_or((node.inputs[0], *pool));
                let made = if pool.dilation == [1; 2] {
                    self.pool(node, pool, input.0, output)
                } else {
                    self.dilated_pool(node, pool, input.0)
                };
                if let Err(reason) = made {
                    self.linear_node(node, reason)?;
                }
            }
            Op::Softmax { axis } => self.softmax(node, *axis)?,
            Op::Concat { axis } => {
                let outer: usize = shape[..*axis].iter().product();
                // The axis in memory: channels, or the dimensions before them; lines; columns.
                let along = match (shape.len(), *axis) {
                    (0..=3, 0 | 1) => 0,
                    (rank, axis) => (axis + 3).saturating_sub(rank),
                };
                let constants = node.inputs.iter().any(|&id| graph.constant(id).is_some());
                let inputs =
                    if constants { self.even_parts(node) } else { Some(node.inputs.iter().map(|id| id.0).collect()) };
                let pieces = if along == 0 { outer } else { 1 };
                let Some(inputs) = inputs.filter(|inputs| pieces == 1 || pieces * inputs.len() <= MOST_PIECES) else {
                    let what = if constants { " with constants" } else { "" };
                    return self.linear_node(node, format!("a concatenation along axis {axis} of {shape:?}{what}"));
                };
                let inputs = if pieces == 1 { inputs } else { self.alternately(node, &inputs, pieces as u32) };
                self.step(node, Kind::Concat(along), &inputs, Vec::new(), output);
            }
            Op::Slice { starts, steps, lengths } => self.slice(node, starts, steps, lengths)?,
            Op::ChannelPermutation { from } => {
                let x = graph.shape(node.inputs[0]);
                let channels = x[1];
                // The dimensions between the permuted one and the lines are channels too.
                let inner: usize = x.get(2..x.len() - 2).map_or(1, |between| between.iter().product());
                let of = |n: usize, k: usize| (n * channels + k) * inner..(n * channels + k + 1) * inner;
                let from = (0..batch).flat_map(|n| from.iter().flat_map(move |&k| of(n, k)));
                let from = from.map(|channel| channel as u32).collect();
                self.simple(node, Kind::Channels(from), Vec::new());
            }
            Op::Reshape { .. } => {
                if !self.in_order(node) {
                    let reason = format!("{shape:?} as {:?}", graph.shape(node.output));
                    self.linear_node(node, reason).or_else(|reason| self.moved(node, reason))?;
                }
            }
            Op::Transpose { perm } => {
                // If only dimensions of 1 move, no element moves.
                let order: Vec<usize> = perm.iter().copied().filter(|&axis| shape[axis] != 1).collect();
                let stays = order.windows(2).all(|pair| pair[0] < pair[1]);
                let last = perm.len().saturating_sub(2);
                let turns = perm.len() >= 4 && perm[last..] == [last + 1, last] && perm[..last].is_sorted();
                if turns && !stays {
                    self.simple(node, Kind::Transpose, Vec::new());
                } else if !(stays && self.in_order(node)) {
                    let reason = format!("the order {perm:?} of {shape:?}");
                    self.linear_node(node, reason).or_else(|reason| self.moved(node, reason))?;
                }
            }
            Op::Pad { mode, before, after } => {
                if let Err(reason) = self.pad(node, *mode, before, after) {
                    self.linear_node(node, reason)?;
                }
            }
            Op::DepthToSpace { .. } if batch > 1 => self.linear_node(node, format!("a batch of {batch}"))?,
            Op::DepthToSpace { block, order } => {
                let [c, ..] = self.net.tensors[node.inputs[0].0].shape;
                let block = block.map(|extent| extent as u32);
                let (phases, mut input) = (block[0] * block[1], node.inputs[0].0);
                if *order == ir::BlockOrder::Crd && c > phases {
                    let of = |at: u32| (at % (c / phases)) * phases + at / (c / phases);
                    let tensor = self.net.tensors[input].clone();
                    let sorted = self.net.tensor(format!("{} sorted", tensor.name), tensor.shape, tensor.range);
                    self.step(node, Kind::Channels((0..c).map(of).collect()), &[input], Vec::new(), sorted);
                    input = sorted;
                }
                self.step(node, Kind::Spread(block), &[input], Vec::new(), output);
            }
            Op::Resize(resize) => {
                let steps = self.net.steps.len();
                let made = self.resize(node, resize).or_else(|reason| self.linear_node(node, reason));
                if let Err(reason) = made {
                    self.net.steps.truncate(steps);
                    self.resize_along_axes(node, resize).map_err(|why| format!("{reason}, and {why}"))?;
                }
            }
            Op::SpaceToDepth { block } => {
                if batch > 1 || block.iter().any(|&extent| extent > LARGEST_STRIDE) {
                    return self.linear_node(node, format!("a batch of {batch}, blocks of {block:?}"));
                }
                // Kernel (y * width + x) * C + c takes channel c at line y and column x.
                let (channels, taps) = (shape[1], block[0] * block[1]);
                let mut weights = vec![0f32; channels * taps * channels * taps];
                for row in 0..channels * taps {
                    weights[(row * channels + row % channels) * taps + row / channels] = 1.0;
                }
                let op = ir::Convolution {
                    group: 1,
                    kernel: *block,
                    stride: *block,
                    dilation: [1; 2],
                    padding: ir::Padding::default(),
                };
                let kernels = channels * taps;
                let conv = Convolution { op, kernels, weights: weights.into(), bias: vec![0.0; kernels] };
                self.simple(node, Kind::Convolution(Box::new(conv)), Vec::new());
            }
            Op::Lrn { size, alpha, beta, bias } => {
                if !self.config.cdp {
                    return Err("the configuration has no CDP".to_owned());
                }
                if ![3, 5, 7, 9].contains(size) {
                    return Err(format!("a window of {size} channels: CDP has 3, 5, 7 or 9"));
                }
                if batch > 1 || shape.len() < 3 {
                    return Err(format!(
                        "{shape:?}: CDP's windows would include channels of other images of the batch"
                    ));
                }
                let lrn = Lrn { size: *size, alpha: *alpha, beta: *beta, bias: *bias };
                self.simple(node, Kind::Lrn(lrn), Vec::new());
            }
        }
        Ok(())
    }

    /// The elements of a node's input in the same order, with another shape: a view, or a copy if the channels stay. Elements become
    /// channels in a convolution (`passes::place`), if its kernels are not too large. Otherwise returns false, and nothing is done.
    fn in_order(&mut self, node: &ir::Node) -> bool {
        let [before, after] = [node.inputs[0], node.output].map(|id| self.net.tensors[id.0].shape);
        let kind = match (before, after) {
            _ if before == after => Kind::Same,
            _ if before[0] == after[0] => Kind::Pixels,
            ([_, lines, columns], [_, 1, 1]) if lines.max(columns) as usize <= LARGEST_KERNEL => Kind::Same,
            _ => return false,
        };
        self.simple(node, kind, Vec::new());
        true
    }

    /// A part of a tensor. It is a view if its columns are adjacent.
    fn slice(&mut self, node: &ir::Node, starts: &[usize], steps: &[isize], lengths: &[usize]) -> Result<(), String> {
        let shape = self.graph.shape(node.inputs[0]);
        let rank = shape.len();
        // The axes of lines and columns; the others are channels.
        let [lines, columns] = match rank {
            0..=2 => [None, None],
            3 => [None, Some(2)],
            _ => [Some(rank - 2), Some(rank - 1)],
        };
        let of = |axis: Option<usize>| axis.map_or((0, 1, 1), |axis| (starts[axis], steps[axis], lengths[axis]));
        let ((mut y, mut by, height), (mut x, mut along, width)) = (of(lines), of(columns));
        let mut input = node.inputs[0].0;
        if height > 1 && by < 0 || width > 1 && along < 0 {
            let Err(reason) = self.linear_node(node, format!("a slice in steps of {steps:?}")) else { return Ok(()) };
            if by < 0 && height > MAX_COPIES || along < 0 && width > MAX_COPIES {
                return Err(reason);
            }
            if height > 1 && by < 0 {
                input = self.backwards(node, input, 1, (0..height).map(|k| (y as isize + k as isize * by) as u32));
                (y, by) = (0, 1);
            }
            if width > 1 && along < 0 {
                input = self.backwards(node, input, 2, (0..width).map(|k| (x as isize + k as isize * along) as u32));
                (x, along) = (0, 1);
            }
        }
        // If the columns are apart, a view of all columns between them comes first.
        let mut output = node.output.0;
        if width > 1 && along > 1 {
            let Tensor { name, shape: [c, h, w], range, .. } = self.net.tensors[output].clone();
            output = self.net.tensor(format!("{name} all columns"), [c, h, (w - 1) * along as u32 + 1], range);
        }
        let outer = rank - [lines, columns].iter().flatten().count();
        let mut channels = vec![0usize];
        for axis in 0..outer {
            let at = |k: usize| (starts[axis] as isize + k as isize * steps[axis]) as usize;
            let next =
                channels.iter().flat_map(|&before| (0..lengths[axis]).map(move |k| before * shape[axis] + at(k)));
            channels = next.collect();
        }
        let first = channels[0];
        let distance = channels.get(1).map_or(1, |&second| second.wrapping_sub(first));
        let even = channels.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == distance)
            && distance <= shape.iter().product();
        let step = [distance as u32, if height > 1 { by as u32 } else { 1 }];
        if even {
            let start = [first as u32, y as u32, x as u32];
            self.step(node, Kind::Slice { start, step }, &[input], Vec::new(), output);
        } else {
            let Tensor { name, shape: [_, h, w], range, .. } = self.net.tensors[output].clone();
            let whole = self.net.tensors[input].shape[0];
            let part = self.net.tensor(format!("{name} lines"), [whole, h, w], range);
            self.step(
                node,
                Kind::Slice { start: [0, y as u32, x as u32], step: [1, step[1]] },
                &[input],
                Vec::new(),
                part,
            );
            let from = channels.into_iter().map(|channel| channel as u32).collect();
            self.step(node, Kind::Channels(from), &[part], Vec::new(), output);
        }
        if output != node.output.0 {
            self.step(node, Kind::Columns(along as u32), &[output], Vec::new(), node.output.0);
        }
        Ok(())
    }

    /// The given lines (axis 1) or columns (axis 2) of a tensor in their order, which copies put beside one another.
    fn backwards(&mut self, node: &ir::Node, x: TensorId, axis: usize, order: impl Iterator<Item = u32>) -> TensorId {
        let Tensor { name, mut shape, range, .. } = self.net.tensors[x].clone();
        let mut parts = Vec::new();
        for at in order {
            let (mut one, mut start) = (shape, [0; 3]);
            (one[axis], start[axis]) = (1, at);
            let part = self.net.tensor(format!("{name} part"), one, range);
            self.step(node, Kind::Slice { start, step: [1; 2] }, &[x], Vec::new(), part);
            parts.push(part);
        }
        shape[axis] = parts.len() as u32;
        let all = self.net.tensor(format!("{name} backwards"), shape, range);
        self.step(node, Kind::Concat(axis), &parts, Vec::new(), all);
        all
    }

    /// In int8, a maximum of a tensor that is padded with a value below all of its integers: the tensor and the maximum with this
    /// padding as its own.
    fn without_pad(&self, node: &ir::Node, pool: ir::Pool) -> Option<(ir::TensorId, ir::Pool)> {
        let pad = self.graph.node(self.graph.producer(node.inputs[0])?);
        let Op::Pad { mode: ir::PadMode::Constant(value), before, after } = &pad.op else { return None };
        let ir::Range { scale, span, .. } = self.net.tensors[pad.inputs[0].0].range?;
        let below = self.net.integers && *value <= span.0.min(-128.0 * scale);
        let (&[0, 0, top, left], &[0, 0, bottom, right]) = (&before[..], &after[..]) else { return None };
        let own = pool.padding;
        let padding = ir::Padding {
            top: own.top + top,
            left: own.left + left,
            bottom: own.bottom + bottom,
            right: own.right + right,
        };
        let fits = [(padding.top, 0), (padding.bottom, 0), (padding.left, 1), (padding.right, 1)]
            .iter()
            .all(|(side, axis)| *side < pool.window()[*axis]);
        (below && fits && pool.kind == ir::PoolKind::Max).then_some((pad.inputs[0], ir::Pool { padding, ..pool }))
    }

    /// Padding. Lines and columns of zeros are the padding of a convolution with one weight per channel, which CDMA adds; channels
    /// are concatenated.
    fn pad(&mut self, node: &ir::Node, mode: ir::PadMode, before: &[usize], after: &[usize]) -> Result<(), String> {
        let shape = self.graph.shape(node.inputs[0]);
        let rank = before.len();
        let lines = rank.saturating_sub(2).max(rank.min(2));
        let channels = || before[..lines].iter().zip(&after[..lines]).enumerate().filter(|(_, ends)| ends != &(&0, &0));
        let side = |ends: &[usize], axis: usize| if rank < 3 || axis >= rank { 0 } else { ends[axis] };
        let places = if rank == 3 { [rank, 2] } else { [rank.wrapping_sub(2), rank.wrapping_sub(1)] };
        let [first, last] = [before, after].map(|ends| places.map(|axis| side(ends, axis)));
        let outer = channels().next().map_or(1, |(axis, _)| shape[..axis].iter().product::<usize>());
        if channels().count() > 1 || outer != 1 {
            return Err("padding of several dimensions before the lines".to_owned());
        }
        let mut from = node.inputs[0].0;
        let ir::PadMode::Constant(value) = mode else {
            if channels().count() > 0 {
                return Err("padding of channels that repeats or mirrors them".to_owned());
            }
            if self.surrounded(node, from, mode, first, last)? == from {
                self.simple(node, Kind::Same, Vec::new());
            }
            self.net.steps.last_mut().into_iter().for_each(|step| step.output = node.output.0);
            return Ok(());
        };
        let around = first.iter().chain(&last).any(|&side| side > 0);
        if value.abs() > LARGEST_CONSTANT && around {
            return Err(format!("padding with {value}"));
        }
        let Tensor { name, shape: out, range, .. } = self.net.tensors[node.output.0].clone();
        let [own, ..] = self.net.tensors[from].shape;
        let Some((axis, _)) = channels().next() else {
            return self.surrounded_by(node, value, from, first, last, node.output.0);
        };
        if around {
            let wider = self.net.tensor(format!("{name} padded"), [own, out[1], out[2]], range);
            self.surrounded_by(node, value, from, first, last, wider)?;
            from = wider;
        }
        let inner = own / shape[axis] as u32;
        let mut parts = Vec::new();
        for (at, count) in [before[axis], after[axis]].into_iter().enumerate() {
            if at == 1 {
                parts.push(from);
            }
            if count > 0 {
                let values = vec![value; count * inner as usize];
                parts.push(self.even(node, from, values, [out[1], out[2]], range)?);
            }
        }
        self.step(node, Kind::Concat(0), &parts, Vec::new(), node.output.0);
        Ok(())
    }

    /// A tensor with lines and columns of a value around it: those of zeros, to which SDP adds constants.
    fn surrounded_by(
        &mut self,
        node: &ir::Node,
        value: f32,
        from: TensorId,
        before: [usize; 2],
        after: [usize; 2],
        to: TensorId,
    ) -> Result<(), String> {
        if value == 0.0 {
            return self.surrounded_by_zeros(node, from, before, after, to);
        }
        let (range, Tensor { name, shape, .. }) = (self.net.tensors[from].range, self.net.tensors[to].clone());
        let zeros = self.net.tensor(format!("{name} in zeros"), shape, range);
        self.surrounded_by_zeros(node, from, before, after, zeros)?;
        let [c, h, w] = shape.map(|extent| extent as usize);
        let inside = |at: usize, axis: usize, size: usize| (before[axis]..size - after[axis]).contains(&at);
        let of = |at: usize| {
            let both = inside(at / w % h, 0, h) && inside(at % w, 1, w);
            if both {
                0.0
            } else {
                value
            }
        };
        let values = (0..c * h * w).map(of).collect();
        let add = PostOp::Elements(Combine::Add { negate: false }, Elements { shape, values });
        self.split(node, Kind::Copy, zeros, vec![add], to);
        Ok(())
    }

    /// A tensor with lines and columns of zeros around it.
    pub(crate) fn surrounded_by_zeros(
        &mut self,
        node: &ir::Node,
        from: TensorId,
        [top, left]: [usize; 2],
        [bottom, right]: [usize; 2],
        to: TensorId,
    ) -> Result<(), String> {
        let [c, ..] = self.net.tensors[from].shape.map(|extent| extent as usize);
        let padding = ir::Padding { top, left, bottom, right };
        self.convolve(node, Convolution::copy(c, padding), from, to)
    }

    /// The parts of a concatenation, of which some are constants.
    fn even_parts(&mut self, node: &ir::Node) -> Option<Vec<TensorId>> {
        let graph = self.graph;
        let source = node.inputs.iter().find(|&&id| graph.constant(id).is_none())?.0;
        let Tensor { range, .. } = self.net.tensors[node.output.0].clone();
        let mut parts = Vec::new();
        for &id in &node.inputs {
            let Some(values) = graph.constant(id) else {
                parts.push(id.0);
                continue;
            };
            let [c, h, w] = self.net.tensors[id.0].shape;
            let plane = (h * w) as usize;
            if values.len() != c as usize * plane {
                return None;
            }
            let even = |plane: &[f32]| plane.iter().all(|value| value.to_bits() == plane[0].to_bits());
            if values.chunks_exact(plane).all(even) {
                let values = values.chunks_exact(plane).map(|plane| plane[0]).collect();
                parts.push(self.even(node, source, values, [h, w], range).ok()?);
                continue;
            }
            // The elements are added to zeros.
            let zeros = self.even(node, source, vec![0.0; c as usize], [h, w], range).ok()?;
            let name = format!("{} elements", graph.tensor(id).name);
            let part = self.net.tensor(name, [c, h, w], range);
            let elements = Elements { shape: [c, h, w], values: values.clone() };
            let post = PostOp::Elements(Combine::Add { negate: false }, elements);
            self.step(node, Kind::Copy, &[zeros], vec![post], part);
            parts.push(part);
        }
        Some(parts)
    }

    /// A tensor with one value per channel: a convolution of weights of zero over the first channel of another tensor.
    fn even(
        &mut self,
        node: &ir::Node,
        source: TensorId,
        values: Vec<f32>,
        [height, width]: [u32; 2],
        range: Option<ir::Range>,
    ) -> Result<TensorId, String> {
        let Tensor { name, shape: [_, h, w], range: of, .. } = self.net.tensors[source].clone();
        let size = [h.min(height), w.min(width)];
        let first = self.net.tensor(format!("{name} first"), [1, size[0], size[1]], of);
        self.step(node, Kind::Slice { start: [0; 3], step: [1; 2] }, &[source], Vec::new(), first);
        let out = self.net.tensors[node.output.0].name.clone();
        let made = self.net.tensor(format!("{out} constant"), [values.len() as u32, height, width], range);
        let (bottom, right) = ((height - size[0]) as usize, (width - size[1]) as usize);
        let padding = ir::Padding { bottom, right, ..ir::Padding::default() };
        let op = ir::Convolution { group: 1, kernel: [1; 2], stride: [1; 2], dilation: [1; 2], padding };
        let conv = Convolution { op, kernels: values.len(), weights: vec![0.0; values.len()].into(), bias: values };
        self.convolve(node, conv, first, made)?;
        Ok(made)
    }

    /// A convolution whose kernels read one channel each, with as many kernels per channel as there are weights for it.
    pub(crate) fn depthwise(
        &mut self,
        node: &ir::Node,
        op: ir::Convolution,
        weights: Vec<f32>,
        from: TensorId,
        to: TensorId,
    ) -> Result<(), String> {
        let kernels = weights.len() / (op.kernel[0] * op.kernel[1]);
        let conv = Convolution { op, kernels, weights: weights.into(), bias: vec![0.0; kernels] };
        self.convolve(node, conv, from, to)
    }
}
