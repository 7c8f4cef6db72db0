// SPDX-License-Identifier: MIT OR Apache-2.0

//! What becomes part of a convolution: factors and offsets per channel, padding, and the flattening of its input.

use super::Pass;
use crate::ir::infer::{broadcast, Broadcast};
use crate::ir::{Binary, Convolution, Op, PadMode, Padding, Pool, PoolKind};

impl Pass<'_> {
    /// A product with, or a sum of, constants per channel behind a convolution: new weights and a new bias.
    pub(super) fn fold_into_weights(&mut self, k: usize) -> bool {
        let Op::Binary(op @ (Binary::Add | Binary::Mul)) = self.graph.nodes[k].op else { return false };
        let (x, operand) = (self.inputs(k)[0], self.inputs(k)[1]);
        let (Some(values), Some(c)) = (self.graph.constant(operand).cloned(), self.only_origin(x)) else {
            return false;
        };
        let shape = self.graph.shape(x);
        let single = shape.first() == Some(&1) && shape.iter().skip(2).all(|&extent| extent == 1);
        let fits = match broadcast(self.graph.shape(operand), shape) {
            Broadcast::Scalar | Broadcast::Channel => true,
            Broadcast::Element => single,
            Broadcast::Other => false,
        };
        let node = &self.graph.nodes[c];
        let (data, weights, old_bias) = match (&node.op, &node.inputs[..]) {
            (Op::Convolution(_) | Op::Deconvolution(..), &[data, weights]) => (data, weights, None),
            (Op::Convolution(_) | Op::Deconvolution(..), &[data, weights, bias]) => (data, weights, Some(bias)),
            _ => return false,
        };
        if !fits || shape != self.graph.shape(self.output(k)) {
            return false;
        }
        let kernels = shape[1];
        let of = |k: usize| if values.len() == 1 { values[0] } else { values[k] };
        let bias = old_bias.and_then(|bias| self.graph.constant(bias).cloned());
        let bias = |k: usize| bias.as_ref().map_or(0.0, |bias| bias[k]);
        let (mut new_weights, new_bias) = (
            weights,
            match op {
                Binary::Add => (0..kernels).map(|k| bias(k) + of(k)).collect::<Vec<_>>(),
                _ => (0..kernels).map(|k| bias(k) * of(k)).collect(),
            },
        );
        let new_op = node.op.clone();
        if op == Binary::Mul {
            // Weights that a quantized model rounds keep their values.
            if self.graph.tensor(weights).quantization.is_some() {
                return false;
            }
            let (Some(old), shape) = (self.graph.constant(weights).cloned(), self.graph.shape(weights).to_vec()) else {
                return false;
            };
            let taps = shape[2] * shape[3];
            let forward = matches!(new_op, Op::Convolution(_));
            let kernel = |at: usize| {
                let first = at / (shape[1] * taps);
                // A deconvolution's weights are [C][K / group][R][S]: the group follows from the input's channel.
                if forward {
                    first
                } else {
                    first / (shape[0] / (kernels / shape[1])) * shape[1] + at / taps % shape[1]
                }
            };
            let scaled: Vec<f32> = old.iter().enumerate().map(|(at, weight)| weight * of(kernel(at))).collect();
            let Some(id) = self.constant(weights, &shape, scaled) else { return false };
            new_weights = id;
        }
        let like = old_bias.unwrap_or(operand);
        let Some(bias) = self.constant(like, &[kernels], new_bias) else { return false };
        self.graph.tensors[bias.0].quantization = None;
        let name = self.graph.nodes[c].name.clone();
        let done = self.replace(k, new_op, &[data, new_weights, bias]);
        if done {
            // The node is the convolution now, and reports name it so.
            self.graph.nodes[k].name = name;
        }
        done
    }

    /// Zeros around the input of a convolution or of an average are the operator's own padding.
    pub(super) fn padding(&mut self, k: usize) -> bool {
        let x = self.inputs(k)[0];
        let Some(pad) = self.origin(x).map(|k| &self.graph.nodes[k]) else { return false };
        let Op::Pad { mode: PadMode::Constant(0.0), before, after } = &pad.op else { return false };
        let (&[0, 0, top, left], &[0, 0, bottom, right]) = (&before[..], &after[..]) else { return false };
        let sum = |own: Padding| Padding {
            top: own.top + top,
            left: own.left + left,
            bottom: own.bottom + bottom,
            right: own.right + right,
        };
        let op = match self.graph.nodes[k].op {
            Op::Convolution(op) => Op::Convolution(Convolution { padding: sum(op.padding), ..op }),
            Op::Pool(pool) if pool.kind == (PoolKind::Average { count_include_pad: true }) => {
                Op::Pool(Pool { padding: sum(pool.padding), ..pool })
            }
            _ => return false,
        };
        let mut inputs = self.inputs(k).to_vec();
        inputs[0] = pad.inputs[0];
        self.replace(k, op, &inputs)
    }

    /// A 1 x 1 convolution of a flattened tensor is a convolution whose kernels are as large as the tensor.
    pub(super) fn whole_input(&mut self, k: usize) -> bool {
        let Op::Convolution(op @ Convolution { group: 1, kernel: [1, 1], .. }) = self.graph.nodes[k].op else {
            return false;
        };
        let (x, weights) = (self.inputs(k)[0], self.inputs(k)[1]);
        let rounds = self.graph.tensor(x).quantization.clone();
        let Some(node) = self.producer[x.0].map(|k| &self.graph.nodes[k]) else { return false };
        let (Op::Reshape { .. }, from) = (&node.op, node.inputs[0]) else { return false };
        let (&[n, c, h, w], &[batch, flat, 1, 1]) = (self.graph.shape(from), self.graph.shape(x)) else { return false };
        if op.padding != Padding::default()
            || n != batch
            || c * h * w != flat
            || rounds.is_some() && rounds != self.graph.tensor(from).quantization
        {
            return false;
        }
        let (Some(values), kernels) = (self.graph.constant(weights).cloned(), self.graph.shape(weights)[0]) else {
            return false;
        };
        let Some(weights) = self.constant(weights, &[kernels, c, h, w], values) else { return false };
        let mut inputs = self.inputs(k).to_vec();
        (inputs[0], inputs[1]) = (from, weights);
        self.replace(k, Op::Convolution(Convolution { kernel: [h, w], stride: [1, 1], ..op }), &inputs)
    }
}
