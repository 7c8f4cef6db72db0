// SPDX-License-Identifier: MIT OR Apache-2.0

//! The softmax that a model writes as exponentials and their sum. The logarithm of a softmax, without the logarithm of small numbers:
//! half precision ends at exp(-16.6), and integers at 1/127.

use super::pass::Pass;
use crate::float;
use crate::ir::{Binary, Convolution, Node, Op, TensorId, Unary};

/// The most nodes that make a sum.
const SUM_NODES: usize = 16;
/// The most elements of a softmax that is written as arithmetic.
const ELEMENTS: usize = 1 << 20;
/// How far a sum may be from another order of adding.
const ROUNDING: f32 = 1e-4;

/// The greatest number of classes: a sum over them has the square of that many weights.
const CLASSES: usize = 2048;

/// A number that gives an element no share, whatever it is added to.
const MASKED: f32 = -100.0;

impl Pass<'_> {
    /// exp(x) divided by its sum along an axis is a softmax. So is exp(x - m) where m is the same along the axis, as the largest element.
    pub(super) fn exponentials_over_their_sum(&mut self, k: usize) -> bool {
        let (Op::Binary(Binary::Div), &[shares, sum]) = (&self.graph.nodes[k].op, self.inputs(k)) else { return false };
        let Some(Node { op: Op::Unary(Unary::Exp), inputs, .. }) = self.origin(shares).map(|m| &self.graph.nodes[m])
        else {
            return false;
        };
        let mut x = inputs[0];
        let Some(axis) = self.axis_of_sum(shares, sum) else { return false };
        if let Some(Node { op: Op::Binary(Binary::Sub), inputs, .. }) = self.origin(x).map(|m| &self.graph.nodes[m]) {
            let (whole, shared) = (self.graph.shape(inputs[0]), self.graph.shape(inputs[1]));
            let aligned = (axis + shared.len()).checked_sub(whole.len());
            if whole == self.graph.shape(x) && aligned.is_none_or(|axis| shared[axis] == 1) {
                x = inputs[0];
            }
        }
        self.replace(k, Op::Softmax { axis }, &[x])
    }

    /// A mask whose sum has a factor before the softmax: the factor comes first, because [`crate::passes::masks`] limits masks that
    /// only a softmax reads.
    pub(super) fn factor_behind_mask(&mut self, k: usize) -> bool {
        let Op::Softmax { .. } = self.graph.nodes[k].op else { return false };
        let Some(product) = self.only_origin(self.inputs(k)[0]) else { return false };
        let (Op::Binary(Binary::Mul), &[sum, by]) = (&self.graph.nodes[product].op, self.inputs(product)) else {
            return false;
        };
        let (Some(factor), Some(adds)) = (self.scalar(by).filter(|by| *by > 0.0), self.only_origin(sum)) else {
            return false;
        };
        let (Op::Binary(Binary::Add), &[x, mask]) = (&self.graph.nodes[adds].op, self.inputs(adds)) else {
            return false;
        };
        let Some(values) = self.graph.constant(mask) else { return false };
        let values: Vec<f32> = values.iter().map(|value| value * factor).collect();
        if !values.iter().any(|&value| value < MASKED) {
            return false;
        }
        let shape = self.graph.shape(mask).to_vec();
        let Some(mask) = self.constant(mask, &shape, values) else { return false };
        let Some(first) = self.before(product, Op::Binary(Binary::Mul), &[x, by]) else { return false };
        self.replace(product + 1, Op::Binary(Binary::Add), &[first, mask])
    }

    /// The axis along which a tensor is the sum of another one, whatever operators add. They are tried with numbers.
    fn axis_of_sum(&self, of: TensorId, sum: TensorId) -> Option<usize> {
        let shape = self.graph.shape(of);
        let elements: usize = shape.iter().product();
        let mut nodes = Vec::new();
        let mut left = vec![sum];
        while let Some(id) = left.pop() {
            if id == of || self.graph.constant(id).is_some() {
                continue;
            }
            let maker = self.origin(id)?;
            if !nodes.contains(&maker) {
                nodes.push(maker);
                left.extend(self.inputs(maker));
            }
            if nodes.len() > SUM_NODES {
                return None;
            }
        }
        nodes.sort_unstable();
        if nodes.is_empty() || elements > ELEMENTS {
            return None;
        }
        let (part, known) = self.graph.part(&nodes).ok()?;
        let at = part.outputs.iter().position(|id| known.get(&sum) == Some(id))?;
        if part.inputs.len() != 1 {
            return None;
        }
        let values: Vec<f32> = (0..elements).map(|k| 0.5 + (k * 37 % 101) as f32 / 101.0).collect();
        let found = float::run(&part, std::slice::from_ref(&values), &mut |_, _| {}).ok()?.swap_remove(at);
        let own = self.graph.shape(sum);
        let aligned = [vec![1; shape.len().checked_sub(own.len())?], own.to_vec()].concat();
        (0..shape.len()).filter(|&axis| shape[axis] > 1).find(|&axis| {
            let (count, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
            let one_less = (0..shape.len()).all(|at| aligned[at] == if at == axis { 1 } else { shape[at] });
            let sums = values
                .chunks_exact(count * inner)
                .flat_map(|block| (0..inner).map(move |at| block[at..].iter().step_by(inner).sum::<f32>()));
            one_less && sums.zip(&found).all(|(sum, found)| (sum - found).abs() <= ROUNDING * sum)
        })
    }

    /// log(softmax(x)) is x minus a number that all classes share, log(sum(exp(x))), and that is x - log(p) for each of them. Its mean,
    /// weighted by p, is sum(p * x - p * log(p)), in which nothing is large where p is small.
    pub(super) fn log_softmax(&mut self, k: usize) -> bool {
        if self.graph.nodes[k].op != Op::Unary(Unary::Log) || self.graph.tensor(self.output(k)).quantization.is_some() {
            return false;
        }
        let shares = self.inputs(k)[0];
        let Some(softmax) = self.origin(shares).map(|k| &self.graph.nodes[k]) else { return false };
        let (&Op::Softmax { axis }, x) = (&softmax.op, softmax.inputs[0]) else { return false };
        let shape = self.graph.shape(x).to_vec();
        let rank = shape.len();
        if !(2..=4).contains(&rank) || axis == 0 || shape[axis] > CLASSES {
            return false;
        }
        // Where the classes are no channels, they become channels and move back.
        let mut order: Vec<usize> = (0..rank).filter(|&at| at != axis).collect();
        order.insert(1, axis);
        let back: Vec<usize> = (0..rank).filter_map(|at| order.iter().position(|&from| from == at)).collect();
        let ordered: Vec<usize> = order.iter().map(|&at| shape[at]).collect();
        let (classes, moved) = (shape[axis], axis != 1);
        let mut four = ordered.clone();
        while four.len() < 4 {
            four.insert(2, 1);
        }
        let mut nodes = vec![Op::Binary(Binary::Sub)];
        nodes.extend(moved.then_some(Op::Transpose { perm: order }));
        nodes.extend((rank < 4).then_some(Op::Reshape { shape: four }));
        nodes.push(Op::Convolution(Convolution::pointwise()));
        nodes.extend((rank < 4).then_some(Op::Reshape { shape: ordered }));
        nodes.extend(moved.then_some(Op::Transpose { perm: back }));

        let ones = vec![1.0; classes * classes];
        let Some(ones) = self.constant(x, &[classes, classes, 1, 1], ones) else { return false };
        let mut at = k;
        let mut add = |pass: &mut Self, op, inputs: &[_]| {
            let output = pass.before(at, op, inputs);
            at += usize::from(output.is_some());
            output
        };
        let products = add(self, Op::Binary(Binary::Mul), &[shares, x]);
        let logarithms = add(self, Op::Unary(Unary::XLogX), &[shares]);
        let (Some(products), Some(mut value)) = (products, logarithms) else { return false };
        for op in nodes {
            let inputs = match op {
                Op::Binary(_) => vec![products, value],
                Op::Convolution(_) => vec![value, ones],
                _ => vec![value],
            };
            let Some(next) = add(self, op, &inputs) else { return false };
            value = next;
        }
        self.replace(at, Op::Binary(Binary::Sub), &[x, value])
    }
}
