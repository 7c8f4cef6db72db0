// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tensors of more columns than the hardware has, such as the 8,400 boxes of a detector for pictures of 640 x 640, or a second of sound:
//! `[1, C, L]` becomes `[1, C, H, W]` with its elements in the same order. Copies put the neighbours of a line beside it where a
//! convolution reads them.

use super::outer::Reshaped;
use super::pass::simplify;
use crate::ir::{Convolution, Graph, Node, Op, PadMode, Padding, Tensor, TensorId};
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

/// The columns that a window of lines reads.
struct Reach {
    /// Beside a line of the input, before and behind it.
    beside: [usize; 2],
    /// The number by which the columns of a line are divided.
    divisor: usize,
}

impl Reach {
    /// The reach of an operator over windows of one line; `None` for others.
    fn of(op: &Op) -> Option<Self> {
        let one_line = |kernel: [usize; 2], stride: [usize; 2], padding: &Padding| {
            (kernel[0], stride[0], padding.top, padding.bottom) == (1, 1, 0, 0)
        };
        match op {
            Op::Convolution(conv) if one_line(conv.kernel, conv.stride, &conv.padding) => {
                let (window, stride, left) = (conv.window()[1], conv.stride[1], conv.padding.left);
                Some(Self { beside: [left, window.saturating_sub(stride + left)], divisor: stride })
            }
            Op::Deconvolution(conv, [0, _]) if one_line(conv.kernel, conv.stride, &conv.padding) => {
                let (window, stride, left) = (conv.window()[1], conv.stride[1], conv.padding.left);
                let before = (window - 1).saturating_sub(left).div_ceil(stride);
                Some(Self { beside: [before, left.div_ceil(stride)], divisor: stride })
            }
            Op::Pool(pool) if one_line(pool.kernel, pool.stride, &pool.padding) => {
                let whole = pool.window()[1] <= pool.stride[1] && pool.padding == Padding::default();
                whole.then_some(Self { beside: [0; 2], divisor: pool.stride[1] })
            }
            _ => None,
        }
    }
}

/// The columns of a line: a number that divides all lengths, and the width of a picture that becomes a line where that is possible.
fn width(graph: &Graph, group: &[TensorId]) -> Option<usize> {
    let mut common = 0;
    let mut most = 0;
    let (mut wanted, mut reach, mut divisor_of_windows) = (None, 0, 1);
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
        if let Some(Reach { beside, divisor: own }) = Reach::of(&node.op) {
            reach = beside.into_iter().fold(reach, usize::max);
            divisor_of_windows *= own / divisor(divisor_of_windows, own);
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
    // A line is much longer than what is beside it, which is copied.
    let best = most.isqrt().max(16 * reach);
    let fits = |width: &usize| {
        common.is_multiple_of(*width)
            && most / width <= MOST
            && (*width >= reach && width.is_multiple_of(divisor_of_windows) && width + 2 * reach <= MOST)
    };
    let divisors = (2..=MOST.min(common)).filter(fits);
    let pictures = wanted.map(|(_, columns)| columns).filter(fits);
    pictures.or_else(|| divisors.min_by_key(|width| width.abs_diff(best)))
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

    /// The folded graph; `None` if a node reads neighbours in another way than a window, or moves columns in another way.
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
            op if Reach::of(op).is_some() => return self.window(graph, node),
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
                        *id = Self::reshaped(graph, *id, shape)?;
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
                    node.inputs[0] = Self::reshaped(graph, node.inputs[0], vec![1, lines, columns, channels])?;
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

    /// Adds a window over lines, each of which has its neighbours beside it.
    fn window(&self, graph: &mut Graph, mut node: Node) -> Option<()> {
        let (x, name) = (node.inputs[0], node.name.clone());
        let Reach { beside: [before, after], .. } = Reach::of(&node.op)?;
        let (&[1, _, 1, long], &[1, kernels, 1, outputs]) = (self.graph.shape(x), self.graph.shape(node.output)) else {
            return None;
        };
        // Lines of the input and of the output that belong together.
        let (stride, grows) = match &node.op {
            Op::Convolution(conv) => (conv.stride[1], false),
            Op::Pool(pool) => (pool.stride[1], false),
            Op::Deconvolution(conv, _) => (conv.stride[1], true),
            _ => return None,
        };
        let from_group = self.group.contains(&x);
        let wide =
            if from_group { self.width } else { self.width.is_multiple_of(stride).then(|| self.width / stride)? };
        let made = if grows { wide * stride } else { wide.is_multiple_of(stride).then(|| wide / stride)? };
        let lines = long.is_multiple_of(wide).then_some(long / wide)?;
        if lines > MOST || made > MOST || outputs > lines * made || !from_group && !grows {
            return None;
        }
        let channels = self.graph.shape(x)[1];
        let own = if from_group { x } else { Self::reshaped(graph, x, vec![1, channels, lines, wide])? };
        let beside = |graph: &mut Graph, first: [usize; 2], count: usize, pads: [usize; 2]| {
            let (starts, lengths) = (vec![0, 0, first[0], first[1]], vec![1, channels, lines - 1, count]);
            let cut = Self::add(graph, &name, Op::Slice { starts, steps: vec![1; 4], lengths }, &[own])?;
            let [before, after] = pads.map(|pad| vec![0, 0, pad, 0]);
            Self::add(graph, &name, Op::Pad { mode: PadMode::Constant(0.0), before, after }, &[cut])
        };
        let mut parts = vec![own];
        if before > 0 && lines > 1 {
            parts.insert(0, beside(graph, [0, wide - before], before, [1, 0])?);
        }
        if after > 0 && lines > 1 {
            parts.push(beside(graph, [1, 0], after, [0, 1])?);
        }
        let mut value = if parts.len() > 1 { Self::add(graph, &name, Op::Concat { axis: 3 }, &parts)? } else { own };
        let operands = [&[value], &node.inputs[1..]].concat();
        let op = match node.op {
            Op::Deconvolution(conv, _) => {
                let first = conv.padding.left + before * stride;
                let whole = (before + wide + after - 1) * stride + conv.window()[1];
                let more = (first + made).saturating_sub(whole);
                let op = Op::Deconvolution(Convolution { padding: Padding::default(), ..conv }, [0, more]);
                value = Self::add(graph, &name, op, &operands)?;
                let (starts, lengths) = (vec![0, 0, 0, first], vec![1, kernels, lines, made]);
                node.inputs = vec![value];
                Op::Slice { starts, steps: vec![1; 4], lengths }
            }
            op => {
                node.inputs = operands;
                match op {
                    Op::Convolution(conv) => Op::Convolution(Convolution { padding: Padding::default(), ..conv }),
                    op => op,
                }
            }
        };
        let whole = vec![1, kernels, lines, made];
        if self.group.contains(&node.output) && made == self.width && outputs == lines * made {
            graph.nodes.push(Node { op, ..node });
            return Some(());
        }
        value = Self::add(graph, &name, op, &node.inputs).filter(|&id| graph.shape(id) == whole)?;
        // The windows of the last line that the model does not have are cut off, which needs all in one line.
        if outputs < lines * made {
            if lines * made > MOST {
                return None;
            }
            let line = Self::reshaped(graph, value, vec![1, kernels, 1, lines * made])?;
            let (starts, lengths) = (vec![0; 4], vec![1, kernels, 1, outputs]);
            graph.nodes.push(Node { op: Op::Slice { starts, steps: vec![1; 4], lengths }, inputs: vec![line], ..node });
        } else {
            let shape = graph.shape(node.output).to_vec();
            graph.nodes.push(Node { op: Op::Reshape { shape }, inputs: vec![value], ..node });
        }
        Some(())
    }

    /// Adds a node, and returns its output.
    fn add(graph: &mut Graph, name: &str, op: Op, inputs: &[TensorId]) -> Option<TensorId> {
        let shapes: Vec<_> = inputs.iter().map(|&id| graph.shape(id)).collect();
        let shape = crate::ir::infer::infer(&op, &shapes).ok()?;
        let output = TensorId(graph.tensors.len());
        graph.tensors.push(Tensor { name: format!("{name}'"), shape, constant: None, quantization: None });
        graph.nodes.push(Node { name: name.to_owned(), op, inputs: inputs.to_vec(), output });
        Some(output)
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
    fn reshaped(graph: &mut Graph, id: TensorId, shape: Vec<usize>) -> Option<TensorId> {
        let name = graph.tensor(id).name.clone();
        Self::add(graph, &name, Op::Reshape { shape }, &[id])
    }
}
