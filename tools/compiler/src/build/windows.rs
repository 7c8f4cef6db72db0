// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators over windows that no unit computes directly: large poolings, deconvolutions, and resizing.

use nvdla_uapi::reg::values::Precision;

use crate::build::nodes::Builder;
use crate::codegen::average;
use crate::ir::{self, Pool};
use crate::net::step::{Convolution, Kind, Tensor, TensorId};
use crate::target::{LARGEST_KERNEL, LARGEST_WINDOW};

impl Builder<'_> {
    /// A pooling, whose window may be larger than PDP's. Fails only for averages.
    pub(crate) fn pool(&mut self, node: &ir::Node, mut pool: Pool) -> Result<(), String> {
        let most = LARGEST_WINDOW;
        let mut input = node.inputs[0].0;
        let Tensor { name, shape, range, .. } = self.net.tensors[input].clone();
        let channels = shape[0] as usize;
        let op = |kernel, stride, padding| {
            let [rows, columns]: [usize; 2] = kernel;
            let weights = vec![1.0 / (rows * columns) as f32; channels * rows * columns];
            (ir::Convolution { group: channels, kernel, stride, dilation: [1; 2], padding }, weights)
        };
        let large = pool.kernel.iter().any(|&side| side > most);
        if (large || self.rounds_better(node)) && self.is_convolution(&pool, shape) {
            let (op, weights) = op(pool.kernel, [1; 2], pool.padding);
            return self.depthwise(node, op, weights, input, node.output.0);
        }
        if !large {
            self.simple(node, Kind::Pool(pool), Vec::new());
            return Ok(());
        }
        if let ir::PoolKind::Average { count_include_pad } = pool.kind {
            if !count_include_pad && pool.padding != ir::Padding::default() {
                let reason = format!("an average over windows of {:?} that does not count padding", pool.kernel);
                return Err(reason);
            }
            let [tall, wide] = pool.kernel;
            if tall == 1 || wide == 1 {
                let (op, weights) = op(pool.kernel, pool.stride, pool.padding);
                return self.depthwise(node, op, weights, input, node.output.0);
            }
            // The means of columns, and the means of these. A single convolution would have as many weights as the window has
            // elements.
            let ir::Padding { top, left, bottom, right } = pool.padding;
            let [_, height, _] = self.net.tensors[node.output.0].shape;
            let means = self.net.tensor(format!("{name} columns"), [shape[0], height, shape[2]], range);
            let none = ir::Padding::default();
            let (down, weights) = op([tall, 1], [pool.stride[0], 1], ir::Padding { top, bottom, ..none });
            self.depthwise(node, down, weights, input, means)?;
            let (along, weights) = op([1, wide], [1, pool.stride[1]], ir::Padding { left, right, ..none });
            return self.depthwise(node, along, weights, means, node.output.0);
        }
        // The maximum over a window is the maximum over the maxima of smaller windows in it.
        let mut size = [shape[1] as usize, shape[2] as usize];
        while pool.kernel.iter().any(|&side| side > most) {
            let ir::Padding { top, left, bottom, right } = pool.padding;
            let part = |axis: usize, before: usize, after: usize| {
                if pool.kernel[axis] > most {
                    (most, before.min(most - 1), after.min(most - 1))
                } else {
                    (1, 0, 0)
                }
            };
            let (rows, columns) = (part(0, top, bottom), part(1, left, right));
            let padding = ir::Padding { top: rows.1, left: columns.1, bottom: rows.2, right: columns.2 };
            let kernel = [rows.0, columns.0];
            for (size, (kernel, before, after)) in size.iter_mut().zip([rows, columns]) {
                *size = *size + before + after + 1 - kernel;
            }
            let inner = Pool { kind: pool.kind, kernel, stride: [1; 2], padding };
            let maxima = self.net.tensor(format!("{name} maxima"), [shape[0], size[0] as u32, size[1] as u32], range);
            self.step(node, Kind::Pool(inner), &[input], Vec::new(), maxima);
            input = maxima;
            pool.kernel = [pool.kernel[0] + 1 - rows.0, pool.kernel[1] + 1 - columns.0];
            pool.padding = ir::Padding {
                top: top - rows.1,
                left: left - columns.1,
                bottom: bottom - rows.2,
                right: right - columns.2,
            };
        }
        self.step(node, Kind::Pool(pool), &[input], Vec::new(), node.output.0);
        Ok(())
    }

    /// Whether an average is one convolution ([`average`]): it is over all lines and columns, and the convolution buffer holds the
    /// weights beside data.
    fn is_convolution(&self, pool: &Pool, [_, height, width]: [u32; 3]) -> bool {
        let precision = if self.net.integers { Precision::Int8 } else { Precision::Fp16 };
        let few = height.max(width) as usize <= LARGEST_KERNEL && height.max(width) > 1;
        matches!(pool.kind, ir::PoolKind::Average { .. })
            && pool.kernel == [height, width].map(|extent| extent as usize)
            && pool.padding == ir::Padding::default()
            && few
            && average::weight_bytes(self.config, height * width, precision)
                <= u64::from(self.config.cbuf_banks / 2 * self.config.cbuf_bank_bytes())
    }

    /// Whether an average that PDP could compute is a convolution: in int8, of a quantized model. PDP rounds the mean of the lines
    /// and the mean of these, halves away from zero, and its output has the scale of its input, whose values reach farther than
    /// their means. A convolution rounds once to a scale of its own.
    fn rounds_better(&self, node: &ir::Node) -> bool {
        self.net.integers && self.graph.tensor(node.output).quantization.is_some()
    }

    /// A deconvolution of stride s is s x s convolutions, each with every s-th weight, whose outputs are interleaved.
    /// The images of a batch are groups.
    pub(crate) fn deconvolution(&mut self, node: &ir::Node, op: &ir::Convolution, batch: usize) -> Result<(), String> {
        let graph = self.graph;
        let weights = graph.constant(node.inputs[1]).ok_or("its weights are not constant")?;
        let [c, per_group, r, s] =
            graph.shape(node.inputs[1]).try_into().map_err(|_| "its weights do not have four dimensions")?;
        let bias = node.inputs.get(2).and_then(|&id| graph.constant(id));
        let bias = bias.map_or(vec![0.0; per_group * op.group], |bias| bias.to_vec()).repeat(batch);
        let (weights, c) = (weights.repeat(batch), c * batch);
        let op = &ir::Convolution { group: op.group * batch, ..*op };
        let kernels = per_group * op.group;
        if op.dilation != [1, 1] {
            return Err(format!("a deconvolution of dilation {:?}", op.dilation));
        }
        let (x, out) = (node.inputs[0].0, node.output.0);
        let ([_, h, w], [_, out_h, out_w]) = (self.net.tensors[x].shape, self.net.tensors[out].shape);
        let before = [op.padding.top, op.padding.left];
        // Along one axis: output line `o` reads input line `i` with weight `o + pad - i * stride`. The lines of one phase, o = q
        // * stride + p, use the weights with one remainder: a convolution with taps in reverse order. All phases get the kernel
        // size of the largest, so that they are one convolution.
        let axis = |size: u32, out: u32, kernel: usize, stride: usize, pad: usize| {
            let taps = |p: usize| (0..kernel).filter(move |t| (p + pad) % stride == t % stride);
            // Tap t of phase p reads line q + (p + pad - t) / stride.
            let shift = |p: usize, t: usize| (p as i64 + pad as i64 - t as i64).div_euclid(stride as i64);
            let all = (0..stride).flat_map(|p| taps(p).map(move |t| shift(p, t)));
            let (first, last) = (all.clone().min().unwrap_or(0), all.max().unwrap_or(0));
            let lines = (out as usize).div_ceil(stride);
            let before = -first;
            let after = lines as i64 - 1 + last - (i64::from(size) - 1);
            (first, (last - first + 1) as usize, before, after, lines)
        };
        let (first_y, tall, top, bottom, lines) = axis(h, out_h, r, op.stride[0], before[0]);
        let (first_x, wide, left, right, columns) = axis(w, out_w, s, op.stride[1], before[1]);
        let (bottom, right) = (bottom.max(0), right.max(0));
        if [top, left].iter().any(|&pad| pad < 0) {
            return Err("a deconvolution whose padding cuts off whole input lines".to_owned());
        }
        let phases = op.stride[0] * op.stride[1];
        let from_group = c / op.group;
        // Kernel = group, then phase, then the group's kernel, so that groups stay contiguous.
        let mut all = vec![0f32; phases * kernels * from_group * tall * wide];
        for group in 0..op.group {
            for py in 0..op.stride[0] {
                for px in 0..op.stride[1] {
                    let phase = py * op.stride[1] + px;
                    for k in 0..per_group {
                        let row = (group * phases + phase) * per_group + k;
                        for ci in 0..from_group {
                            for ty in (0..r).filter(|t| (py + before[0]) % op.stride[0] == t % op.stride[0]) {
                                for tx in (0..s).filter(|t| (px + before[1]) % op.stride[1] == t % op.stride[1]) {
                                    let at = |p: usize, pad: usize, t: usize, stride: usize, first: i64| {
                                        ((p as i64 + pad as i64 - t as i64).div_euclid(stride as i64) - first) as usize
                                    };
                                    let y = at(py, before[0], ty, op.stride[0], first_y);
                                    let x = at(px, before[1], tx, op.stride[1], first_x);
                                    let from = ((group * from_group + ci) * per_group + k) * r * s + ty * s + tx;
                                    all[((row * from_group + ci) * tall + y) * wide + x] = weights[from];
                                }
                            }
                        }
                    }
                }
            }
        }
        let padding =
            ir::Padding { top: top as usize, left: left as usize, bottom: bottom as usize, right: right as usize };
        let conv = ir::Convolution { group: op.group, kernel: [tall, wide], stride: [1, 1], dilation: [1, 1], padding };
        let bias =
            (0..phases * kernels).map(|row| bias[row / (phases * per_group) * per_group + row % per_group]).collect();
        let kernels_all = phases * kernels;
        let kind = Convolution { op: conv, kernels: kernels_all, weights: all.into(), bias };
        let range = self.net.tensors[out].range;
        let name = self.net.tensors[out].name.clone();
        let size = [kernels_all as u32, lines as u32, columns as u32];
        let parts = self.net.tensor(format!("{name} phases"), size, range);
        self.convolve(node, kind, x, parts)?;
        if phases == 1 && size == self.net.tensors[out].shape {
            self.net.steps.last_mut().into_iter().for_each(|step| step.output = out);
            return Ok(());
        }
        // The inputs of the interleaving, by phase, then by group.
        let order = |at: usize| {
            let (phase, k) = (at / kernels, at % kernels);
            ((k / per_group * phases + phase) * per_group + k % per_group) as u32
        };
        let sorted = self.net.tensor(format!("{name} sorted"), size, range);
        self.step(node, Kind::Channels((0..kernels_all).map(order).collect()), &[parts], Vec::new(), sorted);
        let stride = [op.stride[0] as u32, op.stride[1] as u32];
        self.spread(node, Kind::Spread(stride), sorted, [lines as u32 * stride[0], columns as u32 * stride[1]], out);
        Ok(())
    }

    /// Adds a step that makes blocks, and a view of the needed part of its output.
    fn spread(&mut self, node: &ir::Node, kind: Kind, from: TensorId, [h, w]: [u32; 2], out: TensorId) {
        let Tensor { name, shape, range, .. } = self.net.tensors[out].clone();
        if shape[1..] == [h, w] {
            self.step(node, kind, &[from], Vec::new(), out);
            return;
        }
        let whole = self.net.tensor(format!("{name} whole"), [shape[0], h, w], range);
        self.step(node, kind, &[from], Vec::new(), whole);
        self.step(node, Kind::Slice { start: [0; 3], step: [1; 2] }, &[whole], Vec::new(), out);
    }

    pub(crate) fn resize(&mut self, node: &ir::Node, resize: &ir::Resize) -> Result<(), String> {
        let (x, out) = (node.inputs[0].0, node.output.0);
        let ([_, h, w], [_, out_h, out_w]) = (self.net.tensors[x].shape, self.net.tensors[out].shape);
        if [out_h, out_w] == [h, w] {
            self.simple(node, Kind::Same, Vec::new());
            return Ok(());
        }
        if out_h % h != 0 || out_w % w != 0 {
            return Err(format!("from {h} x {w} to {out_h} x {out_w}: only whole factors"));
        }
        let factors = [out_h / h, out_w / w];
        match resize.mode {
            ir::ResizeMode::Nearest(rounding) => {
                let map = |axis: usize, o: u32, size: u32| {
                    let scale = f64::from(factors[axis]);
                    let x = match resize.coordinates {
                        ir::Coordinates::HalfPixel | ir::Coordinates::PytorchHalfPixel => {
                            (f64::from(o) + 0.5) / scale - 0.5
                        }
                        ir::Coordinates::TensorFlowHalfPixel => (f64::from(o) + 0.5) / scale,
                        ir::Coordinates::Asymmetric => f64::from(o) / scale,
                        ir::Coordinates::AlignCorners => {
                            f64::from(o) * f64::from(size - 1) / f64::from((size * factors[axis]).max(2) - 1)
                        }
                    };
                    let x = match rounding {
                        ir::Rounding::HalfDown => (x - 0.5).ceil(),
                        ir::Rounding::HalfUp => (x + 0.5).floor(),
                        ir::Rounding::Floor => x.floor(),
                        ir::Rounding::Ceil => x.ceil(),
                    };
                    x.clamp(0.0, f64::from(size - 1)) as u32
                };
                let plain =
                    |axis: usize, size: u32| (0..size * factors[axis]).all(|o| map(axis, o, size) == o / factors[axis]);
                if !plain(0, h) || !plain(1, w) {
                    return Err("a nearest resize in which elements do not become equal blocks".to_owned());
                }
                self.simple(node, Kind::Repeat(factors), Vec::new());
                Ok(())
            }
            ir::ResizeMode::Bilinear => {
                if [h, w] != [1, 1] {
                    return self.bilinear(node, resize, factors);
                }
                self.simple(node, Kind::Repeat(factors), Vec::new());
                Ok(())
            }
        }
    }
}
