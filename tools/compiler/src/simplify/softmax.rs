// SPDX-License-Identifier: MIT OR Apache-2.0

//! The logarithm of a softmax, without the logarithm of small numbers: half precision ends at exp(-16.6), and integers at 1/127.

use super::pass::Pass;
use crate::ir::{Binary, Convolution, Op, Unary};

/// The greatest number of classes: a sum over them has the square of that many weights.
const CLASSES: usize = 2048;

impl Pass<'_> {
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
