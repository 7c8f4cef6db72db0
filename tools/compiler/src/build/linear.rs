// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators that no unit computes directly and that are linear in small tensors: a product with a matrix.
//!
//! Every element of the output is a constant plus a sum of elements of the inputs, each with a factor. A convolution with kernels
//! as large as the input computes all elements as channels of one pixel. SDP copies move them to their lines and columns. The
//! factors are found by evaluating the operator for inputs with a single 1.

use std::sync::Arc;

use nvdla_uapi::layout::bytes;
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::layout::weight::Geometry;
use nvdla_uapi::reg::values::Precision;

use crate::build::nodes::Builder;
use crate::codegen::cbuf::{self, WeightSize};
use crate::float;
use crate::ir::{self, Op};
use crate::net::step::{Combine, Convolution, Kind, PostOp, Tensor, TensorId};
use crate::target::{
    LARGEST_DILATION, LARGEST_EXTENT, LARGEST_KERNEL, LARGEST_PADDING_AFTER, LARGEST_PADDING_BEFORE, LARGEST_STRIDE,
    MAX_FACTORS,
};

/// The greatest number of elements of an input or output.
const MAX_ELEMENTS: usize = 4096;

/// An input of a linear operator.
pub(crate) struct Operand {
    /// The tensor; unused for a constant.
    pub(crate) tensor: TensorId,
    /// Its shape in the model.
    pub(crate) shape: Vec<usize>,
    /// Its values, if it is constant.
    pub(crate) constant: Option<Arc<[f32]>>,
}

impl Builder<'_> {
    /// The inputs of a node.
    pub(crate) fn operands(&self, node: &ir::Node) -> Vec<Operand> {
        let operand = |&id: &ir::TensorId| {
            let ir::Tensor { shape, constant, .. } = self.graph.tensor(id);
            Operand { tensor: id.0, shape: shape.clone(), constant: constant.clone() }
        };
        node.inputs.iter().map(operand).collect()
    }

    /// Computes a node that is linear in its inputs that are not constant. If that is not possible, returns an error with
    /// `reason`, why the node could not be computed otherwise.
    pub(crate) fn linear_node(&mut self, node: &ir::Node, reason: String) -> Result<(), String> {
        let operands = self.operands(node);
        let shape = self.graph.shape(node.output).to_vec();
        self.linear(node, &node.op, &operands, (node.output.0, &shape), reason)
    }

    /// Computes an operator that is linear in its inputs that are not constant, for a node. `output` has its shape in the model.
    pub(crate) fn linear(
        &mut self,
        node: &ir::Node,
        op: &Op,
        operands: &[Operand],
        output: (TensorId, &[usize]),
        reason: String,
    ) -> Result<(), String> {
        let (output, shape) = output;
        let [channels, height, width] = self.net.tensors[output].shape.map(|extent| extent as usize);
        let (elements, positions) = (channels * height * width, height * width);
        let given = || operands.iter().enumerate().filter(|(_, operand)| operand.constant.is_none());
        let sizes: Vec<usize> = given().map(|(_, operand)| operand.shape.iter().product()).collect();
        let apart = positions * Atoms::of(self.config, Precision::Int8).filled(channels);
        if sizes.iter().chain([&elements]).any(|&size| size > MAX_ELEMENTS)
            || sizes.iter().sum::<usize>() * elements > MAX_FACTORS
            || positions > 1 && apart > LARGEST_EXTENT as usize
        {
            return Err(format!("{reason}, and {elements} elements are too many for a product with a matrix"));
        }
        // The output where element `at` of an input is 1.
        let evaluate = |number: usize, at: Option<usize>| {
            let values: Vec<Vec<f32>> = operands
                .iter()
                .enumerate()
                .map(|(k, operand)| {
                    let mut values = vec![0.0; operand.shape.iter().product()];
                    if let (true, Some(at)) = (k == number, at) {
                        values[at] = 1.0;
                    }
                    values
                })
                .collect();
            let values: Vec<float::Values<'_>> = operands
                .iter()
                .zip(&values)
                .map(|(operand, values)| (&operand.shape[..], operand.constant.as_deref().unwrap_or(values)))
                .collect();
            float::apply(op, &values, shape)
        };
        let constant = evaluate(0, None);
        if constant.iter().any(|value| !value.is_finite()) {
            return Err(reason);
        }
        // Channel = position, then the output's channel.
        let element = |row: usize| row % channels * positions + row / channels;
        let Tensor { name, range, .. } = self.net.tensors[output].clone();
        let mut sum: Option<TensorId> = None;
        for (number, operand) in given() {
            let factors: Vec<Vec<f32>> = (0..operand.shape.iter().product())
                .map(|at| evaluate(number, Some(at)).iter().zip(&constant).map(|(value, zero)| value - zero).collect())
                .collect();
            let [c, h, w] = self.net.tensors[operand.tensor].shape.map(|extent| extent as usize);
            if (h, w, positions, given().count()) == (1, 1, 1, 1) && constant.iter().all(|&value| value == 0.0) {
                // Channels of one pixel that only change their order.
                let one = |element: usize| {
                    let mut from = (0..c).filter(|&at| factors[at][element] != 0.0);
                    let first = from.next().filter(|&at| factors[at][element].to_bits() == 1f32.to_bits())?;
                    from.next().is_none().then_some(first as u32)
                };
                if let Some(from) = (0..elements).map(one).collect::<Option<Vec<u32>>>() {
                    self.step(node, Kind::Channels(from), &[operand.tensor], Vec::new(), output);
                    return Ok(());
                }
            }
            for y in (0..h).step_by(LARGEST_KERNEL) {
                for x in (0..w).step_by(LARGEST_KERNEL) {
                    let (rows, columns) = ((h - y).min(LARGEST_KERNEL), (w - x).min(LARGEST_KERNEL));
                    let source = self.window(node, operand.tensor, [y, x], [rows, columns]);
                    let mut weights = Vec::with_capacity(elements * c * rows * columns);
                    for row in 0..elements {
                        for at in 0..c * rows * columns {
                            let (k, r, s) = (at / (rows * columns), at / columns % rows, at % columns);
                            weights.push(factors[(k * h + y + r) * w + x + s][element(row)]);
                        }
                    }
                    let first = sum.is_none();
                    let bias = |row| if first { constant[element(row)] } else { 0.0 };
                    let op = ir::Convolution {
                        group: 1,
                        kernel: [rows, columns],
                        stride: [1; 2],
                        dilation: [1; 2],
                        padding: ir::Padding::default(),
                    };
                    let bias = (0..elements).map(bias).collect();
                    let kind = Convolution { op, kernels: elements, weights: weights.into(), bias };
                    let post_ops = sum.map(|sum| PostOp::With(Combine::Add { negate: false }, sum));
                    let made = self.net.tensor(format!("{name} as channels"), [elements as u32, 1, 1], range);
                    let (kind, post_ops) = (Kind::Convolution(Box::new(kind)), post_ops.into_iter().collect());
                    self.step(node, kind, &[source], post_ops, made);
                    sum = Some(made);
                }
            }
        }
        let Some(sum) = sum else { return Err("all of its inputs are constant".to_owned()) };
        if positions == 1 {
            self.net.steps.last_mut().into_iter().for_each(|step| step.output = output);
        } else {
            self.step(node, Kind::Spread([height as u32, width as u32]), &[sum], Vec::new(), output);
        }
        Ok(())
    }

    /// A part of a tensor: first line and column, number of lines and columns.
    pub(crate) fn window(&mut self, node: &ir::Node, of: TensorId, start: [usize; 2], size: [usize; 2]) -> TensorId {
        let Tensor { name, shape, range, .. } = self.net.tensors[of].clone();
        let size = size.map(|extent| extent as u32);
        if shape[1..] == size {
            return of;
        }
        let part = self.net.tensor(format!("{name} part"), [shape[0], size[0], size[1]], range);
        let start = [0, start[0] as u32, start[1] as u32];
        self.step(node, Kind::Slice { start, step: [1; 2] }, &[of], Vec::new(), part);
        part
    }

    /// A tensor broadcast to a larger shape, as an operand of a binary operator.
    pub(crate) fn extended(
        &mut self,
        node: &ir::Node,
        small: ir::TensorId,
        shape: &[usize],
    ) -> Result<TensorId, String> {
        let Tensor { name, range, .. } = self.net.tensors[small.0].clone();
        let like = self.net.tensors[node.output.0].shape;
        debug_assert_eq!(like.iter().product::<u32>() as usize, shape.iter().product::<usize>());
        let whole = self.net.tensor(format!("{name} extended"), like, range);
        let extents = [&vec![1; shape.len() - self.graph.shape(small).len()], self.graph.shape(small)].concat();
        let planes = match extents[..] {
            [1, c, h, w] => Some([c, h, w]),
            [1, c, w] => Some([c, 1, w]),
            _ => None,
        };
        let own = self.net.tensors[small.0].shape.map(|extent| extent as usize);
        if shape[0] == 1 && planes == Some(own) {
            return self.repeated(node, small.0, whole);
        }
        let zeros =
            Operand { tensor: 0, shape: shape.to_vec(), constant: Some(vec![0.0; shape.iter().product()].into()) };
        let operand = Operand { tensor: small.0, shape: self.graph.shape(small).to_vec(), constant: None };
        let reason = "the operands have different shapes, and neither is one value per channel".to_owned();
        self.linear(node, &Op::Binary(ir::Binary::Add), &[operand, zeros], (whole, shape), reason)?;
        Ok(whole)
    }

    /// Repeats the lines, columns and channels of which a tensor has one. Channels repeat by a convolution with weights of 1.
    fn repeated(&mut self, node: &ir::Node, x: TensorId, whole: TensorId) -> Result<TensorId, String> {
        let Tensor { name, shape: [kernels, lines, columns], range, .. } = self.net.tensors[whole].clone();
        let [channels, h, w] = self.net.tensors[x].shape;
        if channels == kernels {
            self.repeat(node, x, whole);
            return Ok(whole);
        }
        let mut plane = x;
        if [h, w] != [lines, columns] {
            plane = self.net.tensor(format!("{name} plane"), [channels, lines, columns], range);
            self.repeat(node, x, plane);
        }
        let kernels = kernels as usize;
        let op = ir::Convolution::pointwise();
        let conv = Convolution { op, kernels, weights: vec![1.0; kernels].into(), bias: vec![0.0; kernels] };
        self.convolve(node, conv, plane, whole)?;
        Ok(whole)
    }

    /// Repeats each element of a tensor as often as the other has more lines and columns. One column that becomes many does so
    /// before its lines repeat, because there is an operation per column and per line.
    pub(crate) fn repeat(&mut self, node: &ir::Node, mut x: TensorId, output: TensorId) {
        let ([c, h, w], Tensor { name, shape: [_, lines, columns], range, .. }) =
            (self.net.tensors[x].shape, self.net.tensors[output].clone());
        let mut by = [lines / h, columns / w];
        if w == 1 && by.iter().all(|&by| by > 2) {
            let line = self.net.tensor(format!("{name} columns"), [c, h, columns], range);
            self.step(node, Kind::Repeat([1, by[1]]), &[x], Vec::new(), line);
            (x, by) = (line, [by[0], 1]);
        }
        self.step(node, Kind::Repeat(by), &[x], Vec::new(), output);
    }

    /// A convolution, in parts if its kernels are larger than the hardware's, or too far dilated. Each part has a part of the
    /// kernel's lines and columns, and adds the result of the parts before. Padding beyond the hardware's is added before. Fails
    /// before it adds steps.
    pub(crate) fn convolve(
        &mut self,
        node: &ir::Node,
        mut conv: Convolution,
        x: TensorId,
        output: TensorId,
    ) -> Result<(), String> {
        let ir::Padding { top, left, bottom, right } = conv.op.padding;
        for (axis, padding) in [top + bottom, left + right].into_iter().enumerate() {
            let size = self.net.tensors[x].shape[1 + axis] as usize + padding;
            // A window as large as the input has no next one.
            if size == conv.op.window()[axis] {
                conv.op.stride[axis] = 1;
            }
        }
        if conv.op.stride.iter().any(|&stride| stride > LARGEST_STRIDE) {
            return self.strided(node, &conv, x, output);
        }
        let conv = nearer(conv);
        let [rows, columns] = conv.op.kernel;
        let fits = self.fits(&conv, x);
        let apart = |dilation: usize| dilation > LARGEST_DILATION || dilation > 1 && !fits;
        let most = conv.op.dilation.map(|dilation| if apart(dilation) { 1 } else { LARGEST_KERNEL });
        if rows <= most[0] && columns <= most[1] {
            self.padded(node, conv, x, Vec::new(), output);
            return Ok(());
        }
        if self.side_by_side(node, &conv, x, output, most) {
            return Ok(());
        }
        let Tensor { name, shape, range, .. } = self.net.tensors[output].clone();
        let [_, h, w] = self.net.tensors[x].shape.map(|extent| extent as usize);
        let each = conv.weights.len() / conv.kernels / (rows * columns);
        // The inputs of a part of the kernel's lines: first line, lines, padding before and after.
        let axis = |axis: usize, size: usize, first: usize, count: usize, before: usize| {
            let (stride, dilation) = (conv.op.stride[axis], conv.op.dilation[axis]);
            let begin = first * dilation;
            let end = (shape[1 + axis] as usize - 1) * stride + (first + count - 1) * dilation + 1;
            let start = begin.saturating_sub(before);
            let stop = end.saturating_sub(before).min(size);
            (stop > start).then(|| {
                let after = end.saturating_sub(before + size);
                (start, stop - start, before.saturating_sub(begin), after)
            })
        };
        let mut parts = Vec::new();
        for r in (0..rows).step_by(most[0]) {
            for s in (0..columns).step_by(most[1]) {
                let kernel = [(rows - r).min(most[0]), (columns - s).min(most[1])];
                let padding = conv.op.padding;
                let y = axis(0, h, r, kernel[0], padding.top);
                let column = axis(1, w, s, kernel[1], padding.left);
                // Other parts read padding alone.
                parts.extend(y.zip(column).map(|(y, column)| ([r, s], kernel, y, column)));
            }
        }
        if parts.is_empty() {
            return Err("its windows lie in the padding alone".to_owned());
        }
        let mut sum: Option<TensorId> = None;
        let last = parts.len() - 1;
        for (at, ([r, s], kernel, y, column)) in parts.into_iter().enumerate() {
            let source = self.window(node, x, [y.0, column.0], [y.1, column.1]);
            let mut weights = Vec::with_capacity(conv.kernels * each * kernel[0] * kernel[1]);
            for plane in conv.weights.chunks_exact(rows * columns) {
                for line in plane.chunks_exact(columns).skip(r).take(kernel[0]) {
                    weights.extend_from_slice(&line[s..s + kernel[1]]);
                }
            }
            let padding = ir::Padding { top: y.2, left: column.2, bottom: y.3, right: column.3 };
            let bias = if sum.is_none() { conv.bias.clone() } else { vec![0.0; conv.kernels] };
            let op = ir::Convolution { kernel, padding, ..conv.op };
            let part = nearer(Convolution { op, kernels: conv.kernels, weights: weights.into(), bias });
            let post_ops = sum.map(|sum| PostOp::With(Combine::Add { negate: false }, sum));
            let made = if at == last { output } else { self.net.tensor(format!("{name} part"), shape, range) };
            self.padded(node, part, source, post_ops.into_iter().collect(), made);
            sum = Some(made);
        }
        Ok(())
    }

    /// Whether the convolution buffer holds a kernel group and the elements between the first and the last of a window.
    fn fits(&self, conv: &Convolution, x: TensorId) -> bool {
        let [channels, height, width] = self.net.tensors[x].shape;
        let precision = if self.net.integers { Precision::Int8 } else { Precision::Fp16 };
        let [lines, columns] = conv.op.window().map(|extent| extent as u32);
        // Groups are computed in blocks of atoms.
        let each = channels as usize / conv.op.group;
        let surfaces = Atoms::of(self.config, precision).surfaces(each) as u32;
        let entries = cbuf::surface_entries(self.config, surfaces, columns.min(width));
        let kernel = (conv.weights.len() / conv.kernels) as u64 * u64::from(bytes(precision));
        let kernels = u64::from(Geometry::of(self.config, precision).group_kernels).min(conv.kernels as u64);
        let weights = WeightSize { all: kernel * conv.kernels as u64, group: kernel * kernels };
        cbuf::most_lines(self.config, entries, weights) >= lines.min(height)
    }

    /// A step with a convolution. Padding beyond the hardware's is added by steps of one weight per channel.
    fn padded(
        &mut self,
        node: &ir::Node,
        mut conv: Convolution,
        mut x: TensorId,
        post_ops: Vec<PostOp>,
        output: TensorId,
    ) {
        let own = within(conv.op.padding);
        x = self.widened(node, x, less(conv.op.padding, own));
        conv.op.padding = own;
        self.step(node, Kind::Convolution(Box::new(conv)), &[x], post_ops, output);
    }

    /// A tensor with zeros around it, by steps of one weight per channel.
    fn widened(&mut self, node: &ir::Node, mut x: TensorId, mut before: ir::Padding) -> TensorId {
        while before != ir::Padding::default() {
            let padding = within(before);
            before = less(before, padding);
            let Tensor { name, shape: [c, h, w], range, .. } = self.net.tensors[x].clone();
            let lines = h + (padding.top + padding.bottom) as u32;
            let columns = w + (padding.left + padding.right) as u32;
            let wider = self.net.tensor(format!("{name} padded"), [c, lines, columns], range);
            let copy = Convolution::copy(c as usize, padding);
            self.step(node, Kind::Convolution(Box::new(copy)), &[x], Vec::new(), wider);
            x = wider;
        }
        x
    }

    /// A convolution with kernels larger than `most`: windows of the input that are as far apart as parts of the kernel lie beside
    /// one another as channels, so that all products are added before anything is rounded. False, and nothing is done, if these are
    /// too many channels.
    fn side_by_side(
        &mut self,
        node: &ir::Node,
        conv: &Convolution,
        x: TensorId,
        output: TensorId,
        most: [usize; 2],
    ) -> bool {
        let Tensor { name, shape: [channels, height, width], range, .. } = self.net.tensors[x].clone();
        let [_, out_height, out_width] = self.net.tensors[output].shape;
        let (op, size) = (&conv.op, [height, width].map(|extent| extent as usize));
        let counts = [0, 1].map(|axis| op.kernel[axis].div_ceil(most[axis]));
        let kernel = [0, 1].map(|axis| op.kernel[axis].div_ceil(counts[axis]));
        let parts = counts[0] * counts[1];
        if parts * self.filled(channels) > LARGEST_EXTENT as usize {
            return false;
        }
        let out = [out_height, out_width].map(|extent| extent as usize);
        let reach = |axis: usize, taps: usize| (out[axis] - 1) * op.stride[axis] + (taps - 1) * op.dilation[axis] + 1;
        let before = [op.padding.top, op.padding.left];
        let after =
            [0, 1].map(|axis| reach(axis, counts[axis] * kernel[axis]).saturating_sub(before[axis] + size[axis]));
        let padding = ir::Padding { top: before[0], left: before[1], bottom: after[0], right: after[1] };
        let whole = self.widened(node, x, padding);
        let extent = [0, 1].map(|axis| reach(axis, kernel[axis]));
        let mut windows = Vec::new();
        for at in 0..parts {
            let place = [at / counts[1], at % counts[1]];
            let start = [0, 1].map(|axis| place[axis] * kernel[axis] * op.dilation[axis]);
            windows.push(self.window(node, whole, start, extent));
        }
        let shape = [channels * parts as u32, extent[0] as u32, extent[1] as u32];
        let mut from = self.net.tensor(format!("{name} parts"), shape, range);
        self.step(node, Kind::Concat(0), &windows, Vec::new(), from);
        let each = channels as usize / op.group;
        if op.group > 1 {
            // The channels of a group are adjacent.
            let of = |at: usize| {
                let (group, part, channel) = (at / (parts * each), at / each % parts, at % each);
                (part * channels as usize + group * each + channel) as u32
            };
            let sorted = self.net.tensor(format!("{name} groups"), shape, range);
            let order = (0..shape[0] as usize).map(of).collect();
            self.step(node, Kind::Channels(order), &[from], Vec::new(), sorted);
            from = sorted;
        }
        let mut weights = vec![0.0; conv.kernels * each * parts * kernel[0] * kernel[1]];
        let [rows, columns] = op.kernel;
        for (at, &weight) in conv.weights.iter().enumerate() {
            let (plane, tap) = (at / (rows * columns), [at / columns % rows, at % columns]);
            let part = tap[0] / kernel[0] * counts[1] + tap[1] / kernel[1];
            let plane = (plane / each * parts + part) * each + plane % each;
            let [r, s] = [0, 1].map(|axis| tap[axis] % kernel[axis]);
            weights[(plane * kernel[0] + r) * kernel[1] + s] = weight;
        }
        let dilation = [0, 1].map(|axis| if kernel[axis] == 1 { 1 } else { op.dilation[axis] });
        let op = ir::Convolution { kernel, dilation, padding: ir::Padding::default(), ..*op };
        let conv = Convolution { op, kernels: conv.kernels, weights: weights.into(), bias: conv.bias.clone() };
        self.step(node, Kind::Convolution(Box::new(conv)), &[from], Vec::new(), output);
        true
    }

    /// Softmax along any axis: the axis is moved to the channels, and the result is moved back.
    pub(crate) fn softmax(&mut self, node: &ir::Node, axis: usize) -> Result<(), String> {
        let shape = self.graph.shape(node.inputs[0]).to_vec();
        let (x, output) = (node.inputs[0].0, node.output.0);
        let outer: usize = shape[..axis].iter().product();
        if outer == 1 {
            let [channels, ..] = self.net.tensors[x].shape;
            if channels as usize == shape[axis] {
                let alone = self.graph.users(node.output).next().is_none() && self.graph.outputs.contains(&node.output);
                if channels == 2 && self.net.integers && !(alone && self.halves) {
                    return self.softmax_of_two(node);
                }
                self.step(node, Kind::Softmax(1), &[x], Vec::new(), output);
                return Ok(());
            }
        }
        let reason = format!("softmax along axis {axis}: the emulator computes it along the channels");
        let order: Vec<usize> = [axis].into_iter().chain((0..shape.len()).filter(|&at| at != axis)).collect();
        let moved: Vec<usize> = order.iter().map(|&at| shape[at]).collect();
        let back: Vec<usize> = (0..shape.len()).map(|at| order.iter().position(|&k| k == at).unwrap_or(0)).collect();
        let rest = shape.iter().product::<usize>() / shape[axis];
        let across = [shape[axis] as u32, rest as u32, 1];
        let Tensor { name, range, .. } = self.net.tensors[x].clone();
        let source = self.net.tensor(format!("{name} moved"), across, range);
        let target = self.net.tensor(format!("{name} softmax"), across, self.net.tensors[output].range);
        let operand = |tensor: TensorId, shape: &[usize]| Operand { tensor, shape: shape.to_vec(), constant: None };
        let op = Op::Transpose { perm: order };
        self.linear(node, &op, &[operand(x, &shape)], (source, &moved), reason.clone())?;
        self.step(node, Kind::Softmax(1), &[source], Vec::new(), target);
        self.linear(node, &Op::Transpose { perm: back }, &[operand(target, &moved)], (output, &shape), reason)
    }
}

/// The part of a padding that the hardware adds.
fn within(padding: ir::Padding) -> ir::Padding {
    ir::Padding {
        top: padding.top.min(LARGEST_PADDING_BEFORE),
        left: padding.left.min(LARGEST_PADDING_BEFORE),
        bottom: padding.bottom.min(LARGEST_PADDING_AFTER),
        right: padding.right.min(LARGEST_PADDING_AFTER),
    }
}

/// What is left of a padding without a part.
fn less(a: ir::Padding, b: ir::Padding) -> ir::Padding {
    ir::Padding { top: a.top - b.top, left: a.left - b.left, bottom: a.bottom - b.bottom, right: a.right - b.right }
}

/// The same convolution with a dilation that the hardware has, if there is one: with more elements per kernel, of which those
/// between are 0.
fn nearer(mut conv: Convolution) -> Convolution {
    for axis in [0, 1] {
        let (dilation, kernel) = (conv.op.dilation[axis], conv.op.kernel[axis]);
        if dilation <= LARGEST_DILATION {
            continue;
        }
        if kernel == 1 {
            conv.op.dilation[axis] = 1;
            continue;
        }
        let fits =
            |by: &usize| dilation % by == 0 && dilation / by <= LARGEST_DILATION && (kernel - 1) * by < LARGEST_KERNEL;
        let Some(by) = (2..=LARGEST_KERNEL).find(fits) else { continue };
        let [rows, columns] = conv.op.kernel;
        let mut wider = conv.op.kernel;
        wider[axis] = (kernel - 1) * by + 1;
        let mut weights = vec![0.0; conv.weights.len() / (rows * columns) * wider[0] * wider[1]];
        for (at, &weight) in conv.weights.iter().enumerate() {
            let mut place = [at / columns % rows, at % columns];
            place[axis] *= by;
            weights[(at / (rows * columns) * wider[0] + place[0]) * wider[1] + place[1]] = weight;
        }
        conv.op.kernel = wider;
        conv.op.dilation[axis] = dilation / by;
        conv.weights = weights.into();
    }
    conv
}
