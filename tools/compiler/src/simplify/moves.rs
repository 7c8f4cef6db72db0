// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rules for operators that only move elements or rename dimensions. Two of them are merged, and arithmetic is moved before them,
//! so that it can be folded into its convolution.

use super::pass::Pass;
use crate::ir::{Binary, BlockOrder, Node, Op, TensorId};

/// The most elements of a tensor for which a permutation is examined, so that each index is exact as f32.
const MAX_INDICES: usize = 1 << 24;

/// The most elements of a constant that has a value for each element of a tensor, so that a reshape is behind it.
const MAX_CONSTANT: usize = 1 << 20;

/// The index of each element, with which the source of each moved element is found; `None` if there are too many.
pub(super) fn indices(count: usize) -> Option<Vec<f32>> {
    (count <= MAX_INDICES).then(|| (0..count).map(|at| at as f32).collect())
}

/// The axes of a shape that are no dimensions of 1.
pub(super) fn long_axes(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).filter(|&axis| shape[axis] != 1).collect()
}

/// Whether two shapes differ only in dimensions of 1.
pub(super) fn same_extents(a: &[usize], b: &[usize]) -> bool {
    let extents = |shape: &'_ [usize]| shape.iter().copied().filter(|&extent| extent != 1).collect::<Vec<_>>();
    extents(a) == extents(b)
}

/// The axis of a reshaped tensor that is an axis of the other shape: it has as many elements, and as many are before it.
pub(super) fn same_axis(reshaped: &[usize], shape: &[usize], axis: usize) -> Option<usize> {
    let place = |shape: &[usize], axis: usize| (shape[..axis].iter().product::<usize>(), shape[axis]);
    (0..reshaped.len()).find(|&at| place(reshaped, at) == place(shape, axis))
}

impl Pass<'_> {
    /// Merges two reshapes or two transpositions, and replaces transpositions that only move dimensions of 1.
    pub(super) fn merge_moves(&mut self, k: usize) -> bool {
        let (node, x) = (&self.graph.nodes[k], self.inputs(k)[0]);
        let origin = self.origin(x).map(|k| &self.graph.nodes[k]);
        match (&node.op, origin.map(|origin| (&origin.op, origin.inputs[0]))) {
            (Op::Reshape { shape }, Some((Op::Reshape { .. }, from))) => {
                let shape = shape.clone();
                self.replace(k, Op::Reshape { shape }, &[from])
            }
            (Op::Transpose { perm: outer }, Some((Op::Transpose { perm: inner }, from))) => {
                let perm = outer.iter().map(|&axis| inner[axis]).collect();
                self.replace(k, Op::Transpose { perm }, &[from])
            }
            (Op::Transpose { perm }, _) => {
                let extents = self.graph.shape(x);
                let moved: Vec<usize> = perm.iter().copied().filter(|&axis| extents[axis] != 1).collect();
                if !moved.is_sorted() {
                    return false;
                }
                let shape = self.graph.shape(self.output(k)).to_vec();
                self.replace(k, Op::Reshape { shape }, &[x])
            }
            _ => false,
        }
    }

    /// A constant operand in the shape before a reshape or transposition; `None` if it has no such shape.
    fn operand_before(
        &mut self,
        moves: &Op,
        constant: TensorId,
        before: &[usize],
        after: &[usize],
    ) -> Option<TensorId> {
        let values = self.graph.constant(constant)?.clone();
        if values.len() == 1 {
            return Some(constant);
        }
        let shape = self.graph.shape(constant).to_vec();
        let rank = after.len();
        let aligned = [vec![1; rank.checked_sub(shape.len())?], shape].concat();
        match moves {
            Op::Transpose { perm } => {
                let mut inverse = vec![0; rank];
                perm.iter().enumerate().for_each(|(k, &axis)| inverse[axis] = k);
                let op = Op::Transpose { perm: inverse.clone() };
                let to: Vec<usize> = inverse.iter().map(|&axis| aligned[axis]).collect();
                let turned = crate::float::apply(&op, &[(&aligned, &values)], &to);
                self.constant(constant, &to, turned)
            }
            // Only dimensions of 1 are added or removed; the others keep their order.
            Op::Reshape { .. } => {
                if !same_extents(before, after) {
                    return self.repeated_before(constant, &aligned, &values, before, after);
                }
                let (from, to) = (long_axes(before), long_axes(after));
                let mut own = vec![1; before.len()];
                from.iter().zip(&to).for_each(|(&from, &to)| own[from] = aligned[to]);
                self.constant(constant, &own, values)
            }
            _ => None,
        }
    }

    /// A constant of that shape with a value for each element of a reshaped tensor, or for each channel if that is enough.
    fn repeated_before(
        &mut self,
        constant: TensorId,
        shape: &[usize],
        values: &[f32],
        before: &[usize],
        after: &[usize],
    ) -> Option<TensorId> {
        let elements: usize = after.iter().product();
        let repeat = Op::Binary(Binary::Mul);
        if elements > MAX_CONSTANT || crate::ir::infer::infer(&repeat, &[shape, after]).as_deref() != Ok(after) {
            return None;
        }
        let ones = vec![1.0; elements];
        let mut all = crate::float::apply(&repeat, &[(shape, values), (after, &ones)], after);
        let mut own = before.to_vec();
        if let &[1, channels, ref pixels @ ..] = before {
            let pixels: usize = pixels.iter().product();
            if all.chunks_exact(pixels).all(|of| of.iter().all(|value| value.to_bits() == of[0].to_bits())) {
                all = all.chunks_exact(pixels).map(|of| of[0]).collect();
                own[2..].fill(1);
                debug_assert_eq!(all.len(), channels);
            }
        }
        self.constant(constant, &own, all)
    }

    /// f(reshape(x)) becomes reshape(f(x)), for arithmetic with constants. Softmax moves too if its
    /// axis is one before the move.
    pub(super) fn sink_moves(&mut self, k: usize) -> bool {
        let inner = match self.graph.nodes[k].op {
            Op::Unary(_) | Op::Softmax { .. } => 0,
            Op::Binary(_) => {
                let constant = |at: usize| self.graph.constant(self.inputs(k)[at]).is_some();
                if constant(1) {
                    0
                } else if constant(0) {
                    1
                } else {
                    return false;
                }
            }
            _ => return false,
        };
        let (y, moved) = (self.output(k), self.inputs(k)[inner]);
        let Some(m) = self.only_origin(moved) else { return false };
        let moves = self.graph.nodes[m].op.clone();
        if !matches!(moves, Op::Reshape { .. } | Op::Transpose { .. }) || self.graph.shape(moved) != self.graph.shape(y)
        {
            return false;
        }
        let x = self.inputs(m)[0];
        let before = self.graph.shape(x).to_vec();
        let after = self.graph.shape(y).to_vec();
        let mut inputs = self.inputs(k).to_vec();
        if inputs.len() == 2 {
            let Some(operand) = self.operand_before(&moves, inputs[1 - inner], &before, &after) else { return false };
            inputs[1 - inner] = operand;
        }
        inputs[inner] = x;
        let op = match (&self.graph.nodes[k].op, &moves) {
            (&Op::Softmax { axis }, Op::Transpose { perm }) => Op::Softmax { axis: perm[axis] },
            (&Op::Softmax { axis }, _) => {
                if same_extents(&before, &after) {
                    return false;
                }
                let Some(axis) = same_axis(&before, &after, axis) else { return false };
                Op::Softmax { axis }
            }
            (op, _) => op.clone(),
        };
        let shapes: Vec<_> = inputs.iter().map(|&id| self.graph.shape(id)).collect();
        if crate::ir::infer::infer(&op, &shapes).as_deref() != Ok(&before) {
            return false;
        }
        // The two nodes are swapped; the tensor between them is now the output of the arithmetic.
        self.graph.tensors[moved.0].shape = before;
        self.rounds_before(moved, y);
        self.graph.tensors[moved.0].name = format!("{}'", self.graph.tensor(y).name);
        for &id in &inputs {
            self.readers[id.0] += 1;
        }
        let name = self.graph.nodes[k].name.clone();
        let old = std::mem::replace(&mut self.graph.nodes[m].inputs, inputs);
        let old_operands: Vec<_> = self.inputs(k).iter().copied().filter(|&id| id != moved).collect();
        self.graph.nodes[m].op = op;
        self.graph.nodes[k].name = std::mem::replace(&mut self.graph.nodes[m].name, name);
        self.graph.nodes[k].op = moves;
        self.graph.nodes[k].inputs = vec![moved];
        old.into_iter().chain(old_operands).for_each(|id| self.release(id));
        true
    }

    /// f(transpose(a), b) becomes transpose(f(a, b')), for arithmetic, concatenations, padding and slices, if each
    /// other operand is transposed in the same way or only dimensions of 1 move when it is transposed back. TensorFlow's exporters leave such
    /// islands with the channels last.
    pub(super) fn sink_transposes(&mut self, k: usize) -> bool {
        let op = &self.graph.nodes[k].op;
        if !matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Concat { .. } | Op::Pad { .. } | Op::Slice { .. }) {
            return false;
        }
        let (y, inputs) = (self.output(k), self.inputs(k).to_vec());
        let rank = self.graph.shape(y).len();
        let perm_of = |pass: &Self, id: TensorId| match pass.origin(id).map(|m| &pass.graph.nodes[m]) {
            Some(Node { op: Op::Transpose { perm }, inputs, .. }) if perm.len() == rank => {
                Some((perm.clone(), inputs[0]))
            }
            _ => None,
        };
        let Some((perm, _)) = inputs.iter().find_map(|&id| perm_of(self, id)) else { return false };
        let mut inverse = vec![0; rank];
        perm.iter().enumerate().for_each(|(k, &axis)| inverse[axis] = k);
        // The operands before the transposition. Those that are not transposed get a reshape, which moves no element.
        let mut sources = Vec::new();
        for &id in &inputs {
            let shape = self.graph.shape(id);
            let aligned = [vec![1; rank.saturating_sub(shape.len())], shape.to_vec()].concat();
            match perm_of(self, id) {
                Some((own, source)) if own == perm => sources.push((source, None)),
                _ if self.graph.constant(id).is_some() && !matches!(op, Op::Binary(_)) => return false,
                _ => {
                    let moved: Vec<usize> = inverse.iter().copied().filter(|&axis| aligned[axis] != 1).collect();
                    if !moved.is_sorted() {
                        return false;
                    }
                    sources.push((id, Some(inverse.iter().map(|&axis| aligned[axis]).collect::<Vec<usize>>())));
                }
            }
        }
        let back = |values: &[usize]| inverse.iter().map(|&axis| values[axis]).collect::<Vec<usize>>();
        let op = match op {
            Op::Concat { axis } => Op::Concat { axis: perm[*axis] },
            Op::Pad { mode, before, after } => Op::Pad { mode: *mode, before: back(before), after: back(after) },
            Op::Slice { starts, steps, lengths } => Op::Slice {
                starts: back(starts),
                steps: inverse.iter().map(|&axis| steps[axis]).collect(),
                lengths: back(lengths),
            },
            op => op.clone(),
        };
        let mut at = k;
        let mut operands = Vec::new();
        for (source, shape) in sources {
            let scalar = self.graph.tensor(source).elements() == 1 && self.graph.constant(source).is_some();
            let values = self.graph.constant(source).cloned();
            match (shape.filter(|shape| !scalar && shape != self.graph.shape(source)), values) {
                (Some(shape), Some(values)) => {
                    let Some(constant) = self.constant(source, &shape, values) else { return false };
                    operands.push(constant);
                }
                (Some(shape), None) => {
                    let Some(reshaped) = self.before(at, Op::Reshape { shape }, &[source]) else { return false };
                    at += 1;
                    operands.push(reshaped);
                }
                (None, _) => operands.push(source),
            }
        }
        if self.graph.tensor(y).has_scales_of_an_axis() {
            return false;
        }
        let Some(inner) = self.before(at, op, &operands) else { return false };
        self.rounds_before(inner, y);
        self.replace(at + 1, Op::Transpose { perm }, &[inner])
    }

    /// pad(reshape(x)) becomes reshape(pad(x)), and the same for slices and for functions, if the reshape keeps the axes that are padded
    /// or cut. So a picture without a batch is padded as one with a batch, and only the part of a tensor that is needed is moved. Two
    /// transpositions with a reshape between them that adds dimensions of 1 become adjacent.
    pub(super) fn sink_reshapes(&mut self, k: usize) -> bool {
        if matches!(self.graph.nodes[k].op, Op::Binary(_)) {
            return self.sink_reshapes_of_both(k);
        }
        let (y, moved) = (self.output(k), self.inputs(k)[0]);
        let m = match self.graph.nodes[k].op {
            Op::Pad { .. } => self.only_origin(moved),
            Op::Slice { .. } | Op::Transpose { .. } => self.origin(moved),
            // What computes with all of it is behind the reshape, too.
            Op::Unary(_) if !self.graph.outputs.contains(&moved) && self.computes_alone(moved) => self.origin(moved),
            _ => return false,
        };
        let Some(m) = m.filter(|&m| matches!(self.graph.nodes[m].op, Op::Reshape { .. })) else { return false };
        let x = self.inputs(m)[0];
        let (before, after) = (self.graph.shape(x).to_vec(), self.graph.shape(moved).to_vec());
        let turned = |pass: &Self, id: TensorId| {
            pass.origin(id).is_some_and(|maker| matches!(pass.graph.nodes[maker].op, Op::Transpose { .. }))
        };
        let axis = |at: usize| same_axis(&before, &after, at);
        let op = match &self.graph.nodes[k].op {
            Op::Pad { mode, before: first, after: last } => {
                let mut pads = [vec![0; before.len()], vec![0; before.len()]];
                for at in (0..after.len()).filter(|&at| (first[at], last[at]) != (0, 0)) {
                    let Some(axis) = axis(at).filter(|&axis| (pads[0][axis], pads[1][axis]) == (0, 0)) else {
                        return false;
                    };
                    (pads[0][axis], pads[1][axis]) = (first[at], last[at]);
                }
                let [before, after] = pads;
                Op::Pad { mode: *mode, before, after }
            }
            Op::Slice { starts, steps, lengths } => {
                let (mut start, mut step, mut length) = (vec![0; before.len()], vec![1; before.len()], before.clone());
                for at in (0..after.len()).filter(|&at| lengths[at] != after[at] || steps[at] != 1) {
                    let Some(axis) = axis(at) else { return false };
                    (start[axis], step[axis], length[axis]) = (starts[at], steps[at], lengths[at]);
                }
                Op::Slice { starts: start, steps: step, lengths: length }
            }
            Op::Transpose { perm } if turned(self, x) && same_extents(&before, &after) => {
                let (own, others) = (long_axes(&before), long_axes(&after));
                let mut order = perm.iter().filter_map(|axis| others.iter().position(|other| other == axis));
                let mut inner: Vec<usize> = (0..before.len()).collect();
                for &axis in &own {
                    let Some(from) = order.next() else { return false };
                    inner[axis] = own[from];
                }
                Op::Transpose { perm: inner }
            }
            Op::Unary(unary) => Op::Unary(*unary),
            _ => return false,
        };
        if self.graph.tensor(y).has_scales_of_an_axis() {
            return false;
        }
        let shape = self.graph.shape(y).to_vec();
        let Some(inner) = self.before(k, op, &[x]) else { return false };
        self.rounds_before(inner, y);
        self.replace(k + 1, Op::Reshape { shape }, &[inner])
    }

    /// Whether arithmetic alone reads a tensor.
    fn computes_alone(&self, id: TensorId) -> bool {
        let arithmetic = |node: &Node| matches!(node.op, Op::Unary(_) | Op::Binary(_));
        self.graph.users(id).all(|user| arithmetic(self.graph.node(user)))
    }

    /// f(reshape(a), reshape(b)) becomes reshape(f(a, b)), for arithmetic on two tensors that have one shape before and behind.
    fn sink_reshapes_of_both(&mut self, k: usize) -> bool {
        let (op, inputs, y) = (self.graph.nodes[k].op.clone(), self.inputs(k).to_vec(), self.output(k));
        let shape = self.graph.shape(y).to_vec();
        let source = |pass: &Self, id: TensorId| {
            let node = &pass.graph.nodes[pass.origin(id)?];
            let same = matches!(node.op, Op::Reshape { .. }) && pass.graph.shape(id) == shape;
            same.then_some(node.inputs[0])
        };
        let (Some(a), Some(b)) = (source(self, inputs[0]), source(self, inputs[1])) else { return false };
        if self.graph.shape(a) != self.graph.shape(b) || self.graph.tensor(y).has_scales_of_an_axis() {
            return false;
        }
        let Some(inner) = self.before(k, op, &[a, b]) else { return false };
        self.rounds_before(inner, y);
        self.replace(k + 1, Op::Reshape { shape }, &[inner])
    }

    /// A transposition of tensors that a model has joined, and each of which has only dimensions of 1 that move: the joined steps of a
    /// recurrent layer. They are joined along the axis that it then is.
    pub(super) fn turned_steps(&mut self, k: usize) -> bool {
        let Op::Transpose { perm } = &self.graph.nodes[k].op else { return false };
        let perm = perm.clone();
        let from = self.inputs(k)[0];
        // A reshape between both may join and divide other axes, such as both directions of a layer.
        let joined = match self.origin(from).map(|m| &self.graph.nodes[m]) {
            Some(Node { op: Op::Reshape { .. }, inputs, .. }) => inputs[0],
            _ => from,
        };
        let Some(c) = self.origin(joined) else { return false };
        let Op::Concat { axis } = self.graph.nodes[c].op else { return false };
        let after = long_axes(self.graph.shape(from));
        let Some(place) = same_axis(self.graph.shape(from), self.graph.shape(joined), axis) else { return false };
        let parts = self.inputs(c).to_vec();
        let single = parts.iter().all(|&part| self.graph.shape(part)[axis] == 1);
        let order = perm.iter().filter(|axis| after.contains(axis) && !(single && **axis == place));
        let y = self.output(k);
        let Some(along) = perm.iter().position(|&axis| axis == place) else { return false };
        if self.graph.tensor(y).has_scales_of_an_axis() || !order.is_sorted() {
            return false;
        }
        let (mut at, mut made) = (k, Vec::new());
        for part in parts {
            let mut shape = self.graph.shape(y).to_vec();
            shape[along] = self.graph.shape(part)[axis];
            let Some(turned) = self.before(at, Op::Reshape { shape }, &[part]) else { return false };
            made.push(turned);
            at += 1;
        }
        self.replace(at, Op::Concat { axis: along }, &made)
    }

    /// A part of joined tensors is the joined parts of those from which it comes, if nothing reads the whole. So the scores and the boxes
    /// of a detector, which a model joins and divides again, have scales of their own.
    pub(super) fn slice_of_joined(&mut self, k: usize) -> bool {
        let Op::Slice { starts, steps, lengths } = self.graph.nodes[k].op.clone() else { return false };
        let (x, y) = (self.inputs(k)[0], self.output(k));
        let Some(c) = self.origin(x) else { return false };
        let Op::Concat { axis } = self.graph.nodes[c].op else { return false };
        let other = |node: &Node| node.inputs.contains(&x) && !matches!(node.op, Op::Slice { .. });
        if self.graph.nodes.iter().any(other)
            || self.graph.outputs.contains(&x)
            || self.graph.tensor(y).has_scales_of_an_axis()
        {
            return false;
        }
        let shape = self.graph.shape(x).to_vec();
        let cut: Vec<usize> = (0..shape.len()).filter(|&at| lengths[at] != shape[at] || steps[at] != 1).collect();
        let [along] = cut[..] else { return false };
        // Along another axis only what is joined along that one.
        let joins = |id: TensorId| {
            let maker = |id| self.origin(id).map(|m| &self.graph.nodes[m]);
            let made = match maker(id) {
                Some(Node { op: Op::Reshape { .. }, inputs, .. }) => maker(inputs[0]),
                made => made,
            };
            made.is_some_and(|node| matches!(node.op, Op::Concat { .. }))
        };
        let parts = self.inputs(c).to_vec();
        if steps[along] != 1 || along != axis && !parts.iter().all(|&part| joins(part)) {
            return false;
        }
        let (first, last) = (starts[along], starts[along] + lengths[along]);
        let (mut at, mut place, mut made) = (k, 0, Vec::new());
        for part in parts {
            let own = self.graph.shape(part).to_vec();
            let (mut start, mut length) = (vec![0; own.len()], own.clone());
            if along == axis {
                let (from, to) = (first.max(place), last.min(place + own[axis]));
                place += own[axis];
                if from >= to {
                    continue;
                }
                (start[axis], length[axis]) = (from + own[axis] - place, to - from);
            } else {
                (start[along], length[along]) = (first, last - first);
            }
            if length == own {
                made.push(part);
                continue;
            }
            let op = Op::Slice { starts: start, steps: vec![1; own.len()], lengths: length };
            let Some(cut) = self.before(at, op, &[part]) else { return false };
            made.push(cut);
            at += 1;
        }
        self.replace(at, Op::Concat { axis }, &made)
    }

    /// The model rounds a tensor before it is moved, and not behind, so that the moved tensor may be removed. An output keeps its
    /// scale.
    pub(super) fn rounds_before(&mut self, inner: TensorId, moved: TensorId) {
        if self.graph.tensor(moved).has_scales_of_an_axis() {
            return;
        }
        let quantization = &mut self.graph.tensors[moved.0].quantization;
        let output = self.graph.outputs.contains(&moved);
        self.graph.tensors[inner.0].quantization = if output { quantization.clone() } else { quantization.take() };
    }

    /// f(concat(moved a, moved b)) becomes concat(f(a), f(b)), so that the moves and the concatenation are last and need not be
    /// computed. The same for products, so that the function is joined with them.
    pub(super) fn before_heads(&mut self, k: usize) -> bool {
        let (op, inputs) = (self.graph.nodes[k].op.clone(), self.inputs(k).to_vec());
        let fits = match op {
            Op::Unary(_) | Op::Softmax { .. } => true,
            Op::Binary(_) => self.scalar(inputs[1]).is_some(),
            _ => false,
        };
        let (x, y) = (inputs[0], self.output(k));
        let Some(c) = self.only_origin(x).filter(|_| fits && self.graph.shape(x) == self.graph.shape(y)) else {
            return false;
        };
        let Op::Concat { axis } = self.graph.nodes[c].op else { return false };
        let parts = self.inputs(c).to_vec();
        let moved = |&id: &TensorId| match self.origin(id).map(|m| &self.graph.nodes[m]) {
            Some(Node { op: Op::Reshape { shape }, inputs, .. }) => !same_extents(shape, self.graph.shape(inputs[0])),
            Some(Node { op: Op::Transpose { .. } | Op::Product, .. }) => true,
            _ => false,
        };
        let quantization = self.graph.tensor(y).quantization.clone();
        let along = matches!(op, Op::Softmax { axis: own } if own == axis);
        let scales = self.graph.tensor(y).has_scales_of_an_axis();
        if along || scales || !parts.iter().any(moved) || parts.iter().any(|&id| self.graph.constant(id).is_some()) {
            return false;
        }
        let (mut at, mut made) = (k, Vec::new());
        for part in parts {
            let operands: Vec<TensorId> = [&[part], &inputs[1..]].concat();
            let Some(value) = self.before(at, op.clone(), &operands) else { return false };
            self.graph.tensors[value.0].quantization.clone_from(&quantization);
            made.push(value);
            at += 1;
        }
        // The parts are rounded, so the whole need not be.
        if !self.graph.outputs.contains(&y) {
            self.graph.tensors[y.0].quantization = None;
        }
        self.replace(at, Op::Concat { axis }, &made)
    }

    /// Reshape, Transpose, Reshape that together permute channels or move blocks between channels and pixels.
    pub(super) fn permutation(&mut self, k: usize) -> bool {
        let chain = |k: usize| {
            let middle = self.origin(self.inputs(k)[0])?;
            let first = self.origin(self.inputs(middle)[0])?;
            let ops = [first, middle, k].map(|k| &self.graph.nodes[k].op);
            matches!(ops, [Op::Reshape { .. }, Op::Transpose { .. }, Op::Reshape { .. }]).then_some([first, middle])
        };
        let Some([first, middle]) = chain(k) else { return false };
        let (x, y) = (self.inputs(first)[0], self.output(k));
        let (&[n, c, h, w], &[_, channels, height, width]) = (self.graph.shape(x), self.graph.shape(y)) else {
            return false;
        };
        if n != self.graph.shape(y)[0] {
            return false;
        }
        let Some(indices) = indices(n * c * h * w) else { return false };
        let (inner, op) = (self.graph.shape(self.inputs(middle)[0]), &self.graph.nodes[middle].op);
        let moved = crate::float::apply(op, &[(inner, &indices)], self.graph.shape(self.output(middle)));
        let mut candidates = Vec::new();
        if (h, w) == (height, width) {
            candidates.push(Op::ChannelPermutation {
                from: (0..channels).map(|k| moved[k * h * w] as usize / (h * w)).collect(),
            });
        }
        if height.is_multiple_of(h) && width.is_multiple_of(w) {
            let block = [height / h, width / w];
            candidates.extend([BlockOrder::Dcr, BlockOrder::Crd].map(|order| Op::DepthToSpace { block, order }));
        }
        if h.is_multiple_of(height) && w.is_multiple_of(width) {
            candidates.push(Op::SpaceToDepth { block: [h / height, w / width] });
        }
        let shape = self.graph.shape(y).to_vec();
        let same = |op: &Op| {
            let fits = crate::ir::infer::infer(op, &[&[n, c, h, w]]).as_ref() == Ok(&shape);
            fits && crate::float::apply(op, &[(&[n, c, h, w], &indices)], &shape) == moved
        };
        if let Some(op) = candidates.into_iter().find(same) {
            return self.replace(k, op, &[x]);
        }
        // Blocks that become channels in another order, as PyTorch's exporter writes them.
        if height == 0 || width == 0 || !h.is_multiple_of(height) || !w.is_multiple_of(width) {
            return false;
        }
        let block = [h / height, w / width];
        let from = (0..channels).map(|k| {
            let first = moved[k * height * width] as usize;
            let (channel, line, column) = (first / (h * w), first / w % h, first % w);
            (line * block[1] + column) * c + channel
        });
        let from: Vec<usize> = from.collect();
        if from.iter().any(|&channel| channel >= channels) {
            return false;
        }
        let (first, then) = (Op::SpaceToDepth { block }, Op::ChannelPermutation { from });
        if crate::ir::infer::infer(&first, &[&[n, c, h, w]]).as_ref() != Ok(&shape) {
            return false;
        }
        let blocks = crate::float::apply(&first, &[(&[n, c, h, w], &indices)], &shape);
        if crate::float::apply(&then, &[(&shape, &blocks)], &shape) != moved {
            return false;
        }
        let Some(blocks) = self.before(k, first, &[x]) else { return false };
        self.replace(k + 1, then, &[blocks])
    }
}
