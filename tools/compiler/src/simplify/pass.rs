// SPDX-License-Identifier: MIT OR Apache-2.0

//! The simplification of a graph: its rules are tried until none applies.

use std::sync::Arc;

use crate::ir::{infer, Binary, Graph, Node, Op, Tensor, TensorId, Unary};

/// Applies all rules until none changes the graph.
pub fn simplify(graph: &mut Graph) {
    // Each rule removes a node, merges two, or moves one towards the outputs, so this terminates; the limit is a safeguard.
    for _ in 0..64 {
        let mut pass = Pass::new(graph);
        let mut changed = false;
        let mut k = 0;
        while k < pass.graph.nodes.len() {
            while pass.node(k) {
                changed = true;
            }
            k += 1;
        }
        prune(graph);
        if !changed {
            break;
        }
    }
    debug_assert_eq!(graph.check(), Ok(()));
}

/// Removes nodes and tensors that no output needs. Inputs stay.
pub fn prune(graph: &mut Graph) {
    let mut needed = vec![false; graph.tensors.len()];
    graph.inputs.iter().chain(&graph.outputs).for_each(|id| needed[id.0] = true);
    for node in graph.nodes.iter().rev() {
        if needed[node.output.0] {
            node.inputs.iter().for_each(|id| needed[id.0] = true);
        }
    }
    graph.nodes.retain(|node| needed[node.output.0]);
    let mut next = 0;
    let place: Vec<TensorId> = (needed.iter())
        .map(|&needed| {
            next += usize::from(needed);
            TensorId(next.saturating_sub(1))
        })
        .collect();
    let mut needed = needed.iter();
    graph.tensors.retain(|_| needed.next() == Some(&true));
    for node in &mut graph.nodes {
        node.inputs.iter_mut().chain([&mut node.output]).for_each(|id| *id = place[id.0]);
    }
    graph.inputs.iter_mut().chain(&mut graph.outputs).for_each(|id| *id = place[id.0]);
}

/// A graph, with the producer and the number of readers of each tensor.
pub(super) struct Pass<'a> {
    pub(super) graph: &'a mut Graph,
    pub(super) producer: Vec<Option<usize>>,
    pub(super) readers: Vec<usize>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(graph: &'a mut Graph) -> Self {
        let (mut producer, mut readers) = (vec![None; graph.tensors.len()], vec![0; graph.tensors.len()]);
        for (k, node) in graph.nodes.iter().enumerate() {
            producer[node.output.0] = Some(k);
            node.inputs.iter().for_each(|id| readers[id.0] += 1);
        }
        // Outputs have an additional reader, the user.
        graph.outputs.iter().for_each(|id| readers[id.0] += 2);
        Self { graph, producer, readers }
    }

    /// Applies the first rule that fits a node. Returns whether one did.
    pub(super) fn node(&mut self, k: usize) -> bool {
        self.readers[self.graph.nodes[k].output.0] > 0
            && (self.identity(k)
                || self.rounded_again(k)
                || self.exponentials_over_their_sum(k)
                || self.factor_behind_mask(k)
                || self.arithmetic(k)
                || self.repeated(k)
                || self.function(k)
                || self.moves_of_products(k)
                || self.merge_moves(k)
                || self.sink_moves(k)
                || self.sink_transposes(k)
                || self.sink_reshapes(k)
                || self.turned_steps(k)
                || self.slice_of_joined(k)
                || self.before_heads(k)
                || self.permutation(k)
                || self.softmax_of_groups(k)
                || self.layer_of_groups(k)
                || self.layer_of_pixels(k)
                || self.parts_of_groups(k)
                || self.fold_into_weights(k)
                || self.log_softmax(k)
                || self.padding(k)
                || self.large_average(k)
                || self.whole_input(k)
                || self.whole_lines(k))
    }

    pub(super) fn inputs(&self, k: usize) -> &[TensorId] {
        &self.graph.nodes[k].inputs
    }

    pub(super) fn output(&self, k: usize) -> TensorId {
        self.graph.nodes[k].output
    }

    /// The node that computes a tensor, if the tensor may be removed: the model does not round it.
    pub(super) fn origin(&self, id: TensorId) -> Option<usize> {
        self.producer[id.0].filter(|_| self.graph.tensor(id).quantization.is_none())
    }

    /// As [`Self::origin`], if the tensor has no other reader.
    pub(super) fn only_origin(&self, id: TensorId) -> Option<usize> {
        self.origin(id).filter(|_| self.readers[id.0] == 1)
    }

    /// The value of a constant with one element.
    pub(super) fn scalar(&self, id: TensorId) -> Option<f32> {
        let values = self.graph.constant(id)?;
        if let [value] = values[..] {
            Some(value)
        } else {
            None
        }
    }

    /// Inserts a node before another. Its output is a new tensor at the end.
    pub(super) fn insert(&mut self, at: usize, node: Node) {
        for id in &node.inputs {
            self.readers[id.0] += 1;
        }
        self.producer.push(Some(at));
        self.readers.push(0);
        self.graph.nodes.insert(at, node);
        for later in self.producer.iter_mut().rev().skip(1).flatten().filter(|later| **later >= at) {
            *later += 1;
        }
    }

    /// Replaces the operator of a node. The shape of its output must stay the same.
    pub(super) fn replace(&mut self, k: usize, op: Op, inputs: &[TensorId]) -> bool {
        let shapes: Vec<_> = inputs.iter().map(|&id| self.graph.shape(id)).collect();
        let output = self.output(k);
        if infer::infer(&op, &shapes).as_deref() != Ok(self.graph.shape(output)) {
            return false;
        }
        for &id in inputs {
            self.readers[id.0] += 1;
        }
        let old = std::mem::replace(&mut self.graph.nodes[k].inputs, inputs.to_vec());
        self.graph.nodes[k].op = op;
        for id in old {
            self.release(id);
        }
        true
    }

    /// Removes one reader. A node without readers is also removed as a reader of its inputs.
    pub(super) fn release(&mut self, id: TensorId) {
        let mut released = vec![id];
        while let Some(id) = released.pop() {
            self.readers[id.0] -= 1;
            if let (0, Some(k)) = (self.readers[id.0], self.producer[id.0]) {
                released.extend(&self.graph.nodes[k].inputs);
            }
        }
    }

    pub(super) fn constant(
        &mut self,
        like: TensorId,
        shape: &[usize],
        values: impl Into<Arc<[f32]>>,
    ) -> Option<TensorId> {
        let name = format!("{}'", self.graph.tensor(like).name);
        let quantization = self.graph.tensor(like).quantization.clone();
        let id = self.graph.add_constant(name, shape, values).ok()?;
        // Scales per channel belong to an axis, which another shape may not have.
        self.graph.tensors[id.0].quantization = quantization.filter(|q| q.axis.is_none_or(|axis| axis == 0));
        self.producer.push(None);
        self.readers.push(0);
        Some(id)
    }

    /// If a node has no effect, its output's readers read its input instead.
    pub(super) fn identity(&mut self, k: usize) -> bool {
        let (x, y) = (self.inputs(k)[0], self.output(k));
        let shape = self.graph.shape(x);
        let nothing = match &self.graph.nodes[k].op {
            Op::Transpose { perm } => perm.iter().enumerate().all(|(k, &axis)| k == axis),
            Op::Slice { starts, steps, .. } => starts.iter().all(|&s| s == 0) && steps.iter().all(|&s| s == 1),
            Op::Pad { before, after, .. } => before.iter().chain(after).all(|&pad| pad == 0),
            Op::Concat { .. } => self.inputs(k).len() == 1,
            Op::ChannelPermutation { from } => from.iter().enumerate().all(|(k, &channel)| k == channel),
            Op::Reshape { .. } | Op::Unary(Unary::Clip(f32::NEG_INFINITY, f32::INFINITY)) => true,
            Op::Binary(op) => {
                let neutral = match op {
                    Binary::Add | Binary::Sub => 0.0,
                    Binary::Mul | Binary::Div | Binary::Pow => 1.0,
                    Binary::Max | Binary::Min => return false,
                };
                self.graph.constant(self.inputs(k)[1]).is_some_and(|c| c.iter().all(|&c| c == neutral))
            }
            _ => false,
        };
        let rounds = &self.graph.tensor(y).quantization;
        let rounded = rounds.is_none() || *rounds == self.graph.tensor(x).quantization;
        if !(nothing && shape == self.graph.shape(y) && rounded || self.limited_before(k)) {
            return false;
        }
        if self.graph.outputs.contains(&y) {
            // The remaining tensor gets the output's name, unless it has a name that the user knows.
            if self.producer[x.0].is_none() || self.graph.outputs.contains(&x) {
                return false;
            }
            let name = self.graph.tensor(y).name.clone();
            self.graph.tensors[x.0].name = name;
            // An output keeps its scale, although what was moved before has none.
            let scale = self.graph.tensors[y.0].quantization.clone();
            self.graph.tensors[x.0].quantization = self.graph.tensors[x.0].quantization.take().or(scale);
            self.graph.outputs.iter_mut().filter(|id| **id == y).for_each(|id| *id = x);
        }
        self.read_instead(k, x);
        self.release(x);
        true
    }

    /// Makes the readers of a node's output read another tensor, which is computed before.
    fn read_instead(&mut self, k: usize, x: TensorId) {
        let y = self.output(k);
        for user in k + 1..self.graph.nodes.len() {
            self.graph.nodes[user].inputs.iter_mut().filter(|id| **id == y).for_each(|id| *id = x);
        }
        self.readers[x.0] += self.readers[y.0];
        self.readers[y.0] = 0;
    }

    /// If a node rounds a tensor in the same way as one before, its readers read that. Tools that quantize write a pair of
    /// QuantizeLinear and DequantizeLinear for each reader.
    fn rounded_again(&mut self, k: usize) -> bool {
        let y = self.output(k);
        let rounds = &self.graph.tensor(y).quantization;
        if rounds.is_none() || self.graph.outputs.contains(&y) {
            return false;
        }
        let node = &self.graph.nodes[k];
        let same = |other: &&Node| {
            (&other.op, &other.inputs) == (&node.op, &node.inputs)
                && self.graph.tensor(other.output).quantization == *rounds
                && self.readers[other.output.0] > 0
        };
        let Some(x) = self.graph.nodes[..k].iter().find(same).map(|other| other.output) else { return false };
        self.read_instead(k, x);
        let inputs = self.inputs(k).to_vec();
        for id in inputs {
            self.release(id);
        }
        true
    }

    /// Whether a node limits integers of a quantized model that have been moved since they were limited in the same way.
    fn limited_before(&self, k: usize) -> bool {
        let (mut at, y) = (self.inputs(k)[0], self.output(k));
        let limits = |node: &Node| match node.op {
            Op::Unary(Unary::Clip(low, high)) => Some((low, high)),
            _ => None,
        };
        let (Some(own), Some((low, high))) = (&self.graph.tensor(y).quantization, limits(&self.graph.nodes[k])) else {
            return false;
        };
        while let Some(maker) = self.origin(at).map(|maker| &self.graph.nodes[maker]) {
            if !matches!(maker.op, Op::Reshape { .. } | Op::Transpose { .. } | Op::Slice { .. }) {
                return false;
            }
            at = maker.inputs[0];
        }
        // A Relu or a Clip between both may have become a part of the later limits.
        let before = self.producer[at.0].and_then(|maker| limits(&self.graph.nodes[maker]));
        self.graph.tensor(at).quantization.as_ref() == Some(own)
            && before.is_some_and(|(from, to)| low <= from && to <= high)
    }

    /// Normalises arithmetic with constants: the constant is second, and there is no subtraction of or division by a constant.
    pub(super) fn arithmetic(&mut self, k: usize) -> bool {
        let Op::Binary(op) = self.graph.nodes[k].op else { return false };
        let (a, b) = (self.inputs(k)[0], self.inputs(k)[1]);
        let commutes = matches!(op, Binary::Add | Binary::Mul | Binary::Max | Binary::Min);
        if commutes && self.graph.constant(a).is_some() {
            return self.replace(k, Op::Binary(op), &[b, a]);
        }
        if op == Binary::Div && self.graph.constant(a).is_some_and(|values| values.iter().all(|v| v.is_finite())) {
            return self.over(k, a, b);
        }
        if op == Binary::Div && self.over_root(k, a, b) {
            return true;
        }
        let Some(values) = self.graph.constant(b).cloned() else { return false };
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        let (op, other): (Binary, Vec<f32>) = match (op, self.scalar(b)) {
            (Binary::Sub, _) => (Binary::Add, values.iter().map(|value| -value).collect()),
            (Binary::Div, _) => (Binary::Mul, values.iter().map(|value| 1.0 / value).collect()),
            (Binary::Pow, Some(2.0)) => return self.replace(k, Op::Binary(Binary::Mul), &[a, a]),
            (Binary::Pow, Some(power @ (3.0 | 4.0))) => {
                let Some(square) = self.before(k, Op::Binary(Binary::Mul), &[a, a]) else { return false };
                let other = if power == 3.0 { a } else { square };
                return self.replace(k + 1, Op::Binary(Binary::Mul), &[square, other]);
            }
            (Binary::Pow, Some(-1.0)) => return self.replace(k, Op::Unary(Unary::Reciprocal), &[a]),
            (Binary::Pow, Some(0.5)) => return self.replace(k, Op::Unary(Unary::Sqrt), &[a]),
            (Binary::Pow, Some(power)) if power.fract() != 0.0 => {
                return self.replace(k, Op::Unary(Unary::Power(power)), &[a]);
            }
            (Binary::Max, Some(low)) => return self.replace(k, Op::Unary(Unary::Clip(low, f32::INFINITY)), &[a]),
            (Binary::Max | Binary::Min, None) if finite(&values) => return self.limits_of_channels(k, a, b),
            (Binary::Min, Some(high)) => return self.replace(k, Op::Unary(Unary::Clip(f32::NEG_INFINITY, high)), &[a]),
            _ => return false,
        };
        if !finite(&other) {
            return false;
        }
        let shape = self.graph.shape(b).to_vec();
        let Some(other) = self.constant(b, &shape, other) else { return false };
        self.graph.tensors[other.0].quantization = None;
        self.replace(k, Op::Binary(op), &[a, other])
    }

    /// An operand that a model repeats first, as ONNX's Expand does, which arithmetic repeats by itself.
    fn repeated(&mut self, k: usize) -> bool {
        let Op::Binary(op) = self.graph.nodes[k].op else { return false };
        let inputs = self.inputs(k).to_vec();
        (0..inputs.len()).any(|side| {
            let Some(Node { op: Op::Binary(Binary::Mul), inputs: factors, .. }) =
                self.origin(inputs[side]).map(|m| &self.graph.nodes[m])
            else {
                return false;
            };
            if !self.graph.constant(factors[1]).is_some_and(|values| values.iter().all(|&value| value == 1.0)) {
                return false;
            }
            let mut shorter = inputs.clone();
            shorter[side] = factors[0];
            self.replace(k, Op::Binary(op), &shorter)
        })
    }

    /// a / sqrt(b + c) with a positive constant c is a product with one function of b + c: the divisor of a normalisation. The root and
    /// the sum may have been moved.
    fn over_root(&mut self, k: usize, a: TensorId, b: TensorId) -> bool {
        let (root, moves) = self.moved_from(b);
        let made = |pass: &Self, id: TensorId| pass.origin(id).map(|m| pass.graph.nodes[m].clone());
        let Some(Node { op: Op::Unary(Unary::Sqrt), inputs: root, .. }) = made(self, root) else { return false };
        let (sum, _) = self.moved_from(root[0]);
        let Some(Node { op: Op::Binary(Binary::Add), inputs: sum, .. }) = made(self, sum) else { return false };
        let positive = |id: &TensorId| {
            self.graph.constant(*id).is_some_and(|values| values.iter().all(|value| *value > 0.0 && value.is_finite()))
        };
        if !sum.iter().any(positive) {
            return false;
        }
        let Some(mut inverse) = self.before(k, Op::Unary(Unary::Power(-0.5)), &[root[0]]) else { return false };
        let mut at = k + 1;
        for m in moves {
            let op = self.graph.nodes[m].op.clone();
            let Some(moved) = self.before(at, op, &[inverse]) else { return false };
            (inverse, at) = (moved, at + 1);
        }
        self.replace(at, Op::Binary(Binary::Mul), &[a, inverse])
    }

    /// A constant divided by a tensor is the tensor's reciprocal times the constant.
    fn over(&mut self, k: usize, constant: TensorId, x: TensorId) -> bool {
        if self.graph.constant(x).is_some() || self.graph.shape(x) != self.graph.shape(self.output(k)) {
            return false;
        }
        if self.scalar(constant) == Some(1.0) {
            return self.replace(k, Op::Unary(Unary::Reciprocal), &[x]);
        }
        let Some(inverse) = self.before(k, Op::Unary(Unary::Reciprocal), &[x]) else { return false };
        self.replace(k + 1, Op::Binary(Binary::Mul), &[inverse, constant])
    }

    /// The larger of a tensor and one constant per channel is relu(x - c) + c, and the smaller is c - relu(c - x).
    fn limits_of_channels(&mut self, k: usize, x: TensorId, limits: TensorId) -> bool {
        let least = matches!(self.graph.nodes[k].op, Op::Binary(Binary::Min));
        let (shape, of) = (self.graph.shape(limits).to_vec(), self.graph.shape(x));
        let channels =
            infer::broadcast(&shape, of) == infer::Broadcast::Channel && of == self.graph.shape(self.output(k));
        let (true, Some(values)) = (channels, self.graph.constant(limits).cloned()) else { return false };
        let Some(negative) = self.constant(limits, &shape, values.iter().map(|value| -value).collect::<Vec<_>>())
        else {
            return false;
        };
        let chain = if least {
            vec![
                (Op::Unary(Unary::Neg), None),
                (Op::Binary(Binary::Add), Some(limits)),
                (Op::Unary(Unary::Relu), None),
                (Op::Unary(Unary::Neg), None),
            ]
        } else {
            vec![(Op::Binary(Binary::Add), Some(negative)), (Op::Unary(Unary::Relu), None)]
        };
        let (mut at, mut value) = (k, x);
        for (op, operand) in chain {
            let inputs: Vec<TensorId> = [value].into_iter().chain(operand).collect();
            let Some(next) = self.before(at, op, &inputs) else { return false };
            (at, value) = (at + 1, next);
        }
        self.replace(at, Op::Binary(Binary::Add), &[value, limits])
    }

    /// Inserts a node before another, and returns its output.
    pub(super) fn before(&mut self, at: usize, op: Op, inputs: &[TensorId]) -> Option<TensorId> {
        let shapes: Vec<_> = inputs.iter().map(|&id| self.graph.shape(id)).collect();
        let shape = infer::infer(&op, &shapes).ok()?;
        let Node { name, output, .. } = &self.graph.nodes[at];
        let (name, tensor) = (name.clone(), format!("{}'", self.graph.tensor(*output).name));
        self.graph.tensors.push(Tensor { name: tensor, shape, constant: None, quantization: None });
        let output = TensorId(self.graph.tensors.len() - 1);
        self.insert(at, Node { name, op, inputs: inputs.to_vec(), output });
        Some(output)
    }
}
