// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rules that fold into a convolution: factors and offsets per channel, padding, and the flattening of its input.

use super::moves::indices;
use super::pass::Pass;
use crate::bounds::bounds;
use crate::ir::infer::{broadcast, Broadcast};
use crate::ir::{Binary, Convolution, Node, Op, PadMode, Padding, Pool, PoolKind, Tensor, TensorId};
use crate::target::LARGEST_KERNEL;

/// The least number of half precision. What the hardware computes is never below it.
const LEAST: f32 = -65504.0;
/// The largest height or width of PDP's windows.
const PDP_WINDOW: usize = 8;

impl Pass<'_> {
    /// A product with, or a sum with, constants per channel after a convolution: new weights and a new bias.
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
            // Weights that a quantized model rounds are not changed.
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
            // The node is now the convolution, and keeps its name in reports.
            self.graph.nodes[k].name = name;
        }
        done
    }

    /// Zeros around the input of a convolution or an average become the operator's own padding, and so do values around the input
    /// of a maximum that are not above any other.
    pub(super) fn padding(&mut self, k: usize) -> bool {
        let x = self.inputs(k)[0];
        let Some(pad) = self.origin(x).map(|k| &self.graph.nodes[k]) else { return false };
        let Op::Pad { mode: PadMode::Constant(value), before, after } = &pad.op else { return false };
        let fits = match self.graph.nodes[k].op {
            Op::Pool(Pool { kind: PoolKind::Max, .. }) => {
                *value <= LEAST || *value <= bounds(self.graph, &[])[pad.inputs[0].0].0
            }
            _ => *value == 0.0,
        };
        if !fits {
            return false;
        }
        let (&[0, 0, top, left], &[0, 0, bottom, right]) = (&before[..], &after[..]) else { return false };
        let sum = |own: Padding| Padding {
            top: own.top + top,
            left: own.left + left,
            bottom: own.bottom + bottom,
            right: own.right + right,
        };
        let op = match self.graph.nodes[k].op {
            Op::Convolution(op) => Op::Convolution(Convolution { padding: sum(op.padding), ..op }),
            Op::Pool(pool)
                if pool.kind == PoolKind::Max
                    || pool.dilation == [1; 2]
                        && (pool.kind == PoolKind::Average { count_include_pad: true }
                            || pool.padding == Padding::default()) =>
            {
                let pool = match pool.kind {
                    PoolKind::Max => pool,
                    PoolKind::Average { .. } => Pool { kind: PoolKind::Average { count_include_pad: true }, ..pool },
                };
                Op::Pool(Pool { padding: sum(pool.padding), ..pool })
            }
            _ => return false,
        };
        let mut inputs = self.inputs(k).to_vec();
        inputs[0] = pad.inputs[0];
        self.replace(k, op, &inputs)
    }

    /// An average over windows above [`LARGEST_KERNEL`] that do not overlap becomes an average of averages, if the size has a
    /// divisor that PDP supports.
    pub(super) fn large_average(&mut self, k: usize) -> bool {
        let Op::Pool(pool @ Pool { kind: PoolKind::Average { .. }, .. }) = self.graph.nodes[k].op else { return false };
        let (x, y) = (self.inputs(k)[0], self.output(k));
        let plain = pool.padding == Padding::default() && pool.dilation == [1; 2];
        if !plain || self.graph.tensor(x).quantization.is_some() {
            return false;
        }
        let size = self.graph.shape(y)[2..].to_vec();
        let part = [0, 1].map(|axis| {
            let divides = |by: &usize| pool.kernel[axis] % by == 0 && (size[axis] == 1 || pool.stride[axis] % by == 0);
            let large = pool.kernel[axis] > LARGEST_KERNEL;
            if large {
                (2..=PDP_WINDOW).rev().find(divides)
            } else {
                Some(1)
            }
        });
        let [Some(rows), Some(columns)] = part else { return false };
        if (rows, columns) == (1, 1) {
            return false;
        }
        let name = format!("{}'", self.graph.tensor(y).name);
        let shape = self.graph.shape(x);
        let shape = [shape[0], shape[1], shape[2] / rows, shape[3] / columns];
        self.graph.tensors.push(Tensor { name, shape: shape.to_vec(), constant: None, quantization: None });
        let inner = TensorId(self.graph.tensors.len() - 1);
        let first = Pool { kernel: [rows, columns], stride: [rows, columns], ..pool };
        let rest = |of: [usize; 2]| [(of[0] / rows).max(1), (of[1] / columns).max(1)];
        let second = Pool { kernel: rest(pool.kernel), stride: rest(pool.stride), ..pool };
        let node = Node { name: self.graph.nodes[k].name.clone(), op: Op::Pool(first), inputs: vec![x], output: inner };
        self.insert(k, node);
        self.replace(k + 1, Op::Pool(second), &[inner])
    }

    /// A 1 x 1 convolution of a flattened tensor becomes a convolution with kernels as large as the tensor. A transposition
    /// before the flattening becomes a transposition of the weights.
    pub(super) fn whole_input(&mut self, k: usize) -> bool {
        let Op::Convolution(op @ Convolution { group: 1, kernel: [1, 1], .. }) = self.graph.nodes[k].op else {
            return false;
        };
        let (x, weights) = (self.inputs(k)[0], self.inputs(k)[1]);
        let rounds = self.graph.tensor(x).quantization.clone();
        let Some(node) = self.producer[x.0].map(|k| &self.graph.nodes[k]) else { return false };
        let (Op::Reshape { .. }, mut from) = (&node.op, node.inputs[0]) else { return false };
        let turned = self.origin(from).and_then(|k| match (&self.graph.nodes[k].op, &self.graph.nodes[k].inputs[..]) {
            (Op::Transpose { perm }, &[source]) if perm.len() == 4 && perm[0] == 0 => {
                Some((perm.clone(), source, self.graph.shape(from).to_vec()))
            }
            _ => None,
        });
        if let Some((_, source, _)) = &turned {
            from = *source;
        }
        let (&[n, c, h, w], &[batch, flat, 1, 1]) = (self.graph.shape(from), self.graph.shape(x)) else { return false };
        if op.padding != Padding::default()
            || n != batch
            || c * h * w != flat
            || rounds.is_some() && rounds != self.graph.tensor(from).quantization
        {
            return false;
        }
        let (Some(mut values), kernels) = (self.graph.constant(weights).cloned(), self.graph.shape(weights)[0]) else {
            return false;
        };
        if let Some((perm, _, shape)) = turned {
            let mut inverse = vec![0; 4];
            perm.iter().enumerate().for_each(|(k, &axis)| inverse[axis] = k);
            let before = [&[kernels], &shape[1..]].concat();
            values = crate::float::apply(&Op::Transpose { perm: inverse }, &[(&before, &values)], &[kernels, c, h, w])
                .into();
        }
        let Some(weights) = self.constant(weights, &[kernels, c, h, w], values) else { return false };
        let mut inputs = self.inputs(k).to_vec();
        (inputs[0], inputs[1]) = (from, weights);
        self.replace(k, Op::Convolution(Convolution { kernel: [h, w], stride: [1, 1], ..op }), &inputs)
    }

    /// A 1 x 1 convolution over the lines of a picture, of which each is all channels and columns, or over its columns in the same way:
    /// the fully connected layer between the convolutions and the sequence of a network that reads text or sound. It becomes a
    /// convolution with kernels of one line or one column.
    pub(super) fn whole_lines(&mut self, k: usize) -> bool {
        let Op::Convolution(op @ Convolution { group: 1, kernel: [1, 1], stride: [1, 1], .. }) = self.graph.nodes[k].op
        else {
            return false;
        };
        let (z, weights) = (self.inputs(k)[0], self.inputs(k)[1]);
        let (&[1, flat, height, width], true) = (self.graph.shape(z), op.padding == Padding::default()) else {
            return false;
        };
        let count = height * width;
        if height.min(width) != 1 || count == 1 {
            return false;
        }
        // The moves before, the last first.
        let (mut chain, mut x) = (Vec::new(), z);
        while let Some(m) = self.origin(x) {
            if !matches!(self.graph.nodes[m].op, Op::Reshape { .. } | Op::Transpose { .. }) {
                break;
            }
            chain.push(m);
            x = self.inputs(m)[0];
        }
        let &[1, channels, lines, columns] = self.graph.shape(x) else { return false };
        let along = [lines == count && columns > 1, columns == count && lines > 1];
        let Some(mut places) = indices(flat * count).filter(|_| along != [false; 2]) else { return false };
        for &m in chain.iter().rev() {
            let Node { op, inputs, output, .. } = &self.graph.nodes[m];
            places = crate::float::apply(op, &[(self.graph.shape(inputs[0]), &places)], self.graph.shape(*output));
        }
        // Element t of channel d is as far from its first one as line or column t from the first.
        let fits = |step: usize| {
            let mut rows = places.chunks_exact(count);
            rows.all(|row| row.iter().enumerate().all(|(t, &at)| at as usize == row[0] as usize + t * step))
        };
        let kernel = match along {
            [true, _] if fits(columns) => [1, columns],
            [_, true] if fits(1) => [lines, 1],
            _ => return false,
        };
        let Some(values) = self.graph.constant(weights).cloned() else { return false };
        let (kernels, taps) = (self.graph.shape(weights)[0], kernel[0] * kernel[1]);
        let mut turned = vec![0.0; values.len()];
        for (at, &weight) in values.iter().enumerate() {
            let place = places[at % flat * count] as usize;
            let (channel, pixel) = (place / (lines * columns), place % (lines * columns));
            let tap = if kernel[0] == 1 { pixel % columns } else { pixel / columns };
            turned[(at / flat * channels + channel) * taps + tap] = weight;
        }
        let Some(weights) = self.constant(weights, &[kernels, channels, kernel[0], kernel[1]], turned) else {
            return false;
        };
        let inputs = [&[x, weights], &self.inputs(k)[2..]].concat();
        let shape = self.graph.shape(self.output(k)).to_vec();
        let Some(made) = self.before(k, Op::Convolution(Convolution { kernel, ..op }), &inputs) else { return false };
        self.replace(k + 1, Op::Reshape { shape }, &[made])
    }
}
