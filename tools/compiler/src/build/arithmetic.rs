// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lowers functions of elements and operations on two tensors to SDP.

use crate::build::nodes::Builder;
use crate::float;
use crate::ir::{self, infer::Broadcast, Binary, Op, Range, Unary};
use crate::net::step::{ends_at_limit, Combine, Convolution, Elements, Kind, Pipe, PostOp, Power, Tensor, TensorId};
use crate::numbers::doubts::is_steep;
use crate::numbers::tails;
use crate::quantize::LARGEST;
use crate::target::UNKNOWN;

/// The most elements of a function that the processor computes, because the configuration has no tables: some milliseconds.
const EMULATED_ELEMENTS: u32 = 1 << 16;

/// The range of the two results of a softmax over two channels in int8. The emulator truncates a result p to a multiple of its
/// step, so with 127 steps up to 1 it would be wrong by half a step on average. With a step of 1/255, the greater of p and 1 - p
/// saturates at 127 steps, and 1/2 + p - (1 - p) is the value in the middle of what the other's step stands for.
const HALVES: Range =
    Range { min: 0.0, max: 127.0 / 255.0, scale: 1.0 / 255.0, span: (0.0, 127.0 / 255.0), given: false };

/// The slope of a step without tables, per integer of its argument.
const STEEP: f32 = 4.0;

/// Beyond this argument, which is ln(254), the emulator's sigmoid in steps of [`HALVES`] is 0 or 1.
const ENDS: f32 = 5.537_334;

/// A range whose values saturate at a magnitude. The integers of a quantized model stay.
fn within(range: Range, most: f32) -> Range {
    if range.given {
        return range;
    }
    Range {
        min: range.min.clamp(-most, most),
        max: range.max.clamp(-most, most),
        scale: range.scale.min(most / 127.0),
        span: (range.span.0.max(-most), range.span.1.min(most)),
        ..range
    }
}

impl Builder<'_> {
    pub(crate) fn unary(&mut self, node: &ir::Node, unary: Unary) -> Result<(), String> {
        let config = self.config;
        let tables = config.sdp_lut && config.sdp_ew;
        let post_ops = match unary {
            Unary::Relu => vec![PostOp::Relu],
            Unary::LeakyRelu(slope) => vec![PostOp::Slopes(vec![slope])],
            Unary::Clip(low, high) => {
                self.clip(node, low, high);
                return Ok(());
            }
            Unary::Neg => vec![PostOp::Affine(vec![-1.0], vec![0.0])],
            Unary::Abs => vec![PostOp::Slopes(vec![-1.0])],
            Unary::HardSigmoid { alpha, beta } if !tables => {
                let affine = PostOp::Affine(vec![alpha], vec![beta]);
                [affine].into_iter().chain(PostOp::limits(0.0, 1.0)).collect()
            }
            Unary::Step(at) if !tables => self.step_at(node.inputs[0], at),
            Unary::Threshold(at) if !tables => {
                let x = node.inputs[0];
                let Tensor { name, shape, .. } = self.net.tensors[x.0].clone();
                let above = self.net.tensor(format!("{name} above {at}"), shape, Some(Range::of(0.0, 1.0)));
                self.split(node, Kind::Copy, x.0, self.step_at(x, at), above);
                vec![PostOp::With(Combine::Mul, above)]
            }
            Unary::HardSwish if !tables => {
                let x = node.inputs[0].0;
                let Tensor { name, shape, .. } = self.net.tensors[x].clone();
                let gate = self.net.tensor(format!("{name} gate"), shape, Some(Range::of(0.0, 1.0)));
                let post_ops =
                    [PostOp::Affine(vec![1.0 / 6.0], vec![0.5])].into_iter().chain(PostOp::limits(0.0, 1.0)).collect();
                self.split(node, Kind::Copy, x, post_ops, gate);
                vec![PostOp::With(Combine::Mul, gate)]
            }
            Unary::Floor | Unary::Ceil | Unary::Round => {
                return Err(format!("{} has steps, which a lookup table cannot represent", unary.name()));
            }
            _ if tables => {
                let range = self.arguments(node.inputs[0], unary);
                let function = |x: f64| f64::from(unary.apply(x as f32));
                let [low, high] = tails::shortened(&function, range.map(f64::from), false, tails::ERROR);
                vec![PostOp::Table(unary.into(), low as f32, high as f32)]
            }
            Unary::Sigmoid | Unary::Tanh | Unary::Silu => return self.emulated(node, unary),
            Unary::Sqrt => return self.power(node, unary, 0.5),
            Unary::Reciprocal => return self.power(node, unary, -1.0),
            Unary::Power(exponent) => return self.power(node, unary, exponent),
            _ => return Err(format!("{} needs lookup tables, which this configuration does not have", unary.name())),
        };
        self.split(node, Kind::Copy, node.inputs[0].0, post_ops, node.output.0);
        Ok(())
    }

    /// 1 for the integers above a limit, and 0 for the others. Two of them differ by the tensor's scale.
    fn step_at(&self, x: ir::TensorId, at: f32) -> Vec<PostOp> {
        let steep = self.net.tensors[x.0].range.map_or(1.0, |range| STEEP / range.scale);
        let affine = PostOp::Affine(vec![steep], vec![-at * steep]);
        [affine].into_iter().chain(PostOp::limits(0.0, 1.0)).collect()
    }

    /// Functions of small tensors on configurations without tables. sigmoid(x) is the first of softmax([x, 0]), which the emulator
    /// computes; tanh(x) is 2 sigmoid(2 x) - 1, and silu(x) is x sigmoid(x). [`HALVES`] says how two results become one.
    fn emulated(&mut self, node: &ir::Node, unary: Unary) -> Result<(), String> {
        let x = node.inputs[0].0;
        self.is_small(x, unary)?;
        let Tensor { name: of, shape: [c, h, w], range, .. } = self.net.tensors[x].clone();
        let factor = if unary == Unary::Tanh { 2.0 } else { 1.0 };
        let scaled = range.map(|range| {
            let scaled = Range {
                min: range.min * factor,
                max: range.max * factor,
                scale: range.scale * factor,
                span: (range.span.0 * factor, range.span.1 * factor),
                ..range
            };
            within(scaled, ENDS)
        });
        let id = node.inputs[0];
        let alone = self.graph.users(id).nth(1).is_none() && !self.graph.outputs.contains(&id);
        let computed = self.graph.producer(id).is_some() && unary != Unary::Silu;
        if let (Some(range), true) = (range, alone && computed) {
            self.net.tensors[x].range = Some(within(range, ENDS / factor));
        }
        let pairs = self.net.tensor(format!("{of} and 0"), [2 * c, h, w], scaled);
        let channels = c as usize;
        let op = ir::Convolution::per_channel(channels, ir::Padding::default());
        self.depthwise(node, op, [factor, 0.0].repeat(channels), x, pairs)?;
        // A sigmoid whose values end before 1/2 is the first result alone, in smaller steps.
        let small = self.net.tensors[node.output.0].range.filter(|range| range.scale * LARGEST as f32 <= HALVES.max);
        let small = small.filter(|range| unary == Unary::Sigmoid && range.scale > 0.0);
        let results = small.map_or(HALVES, |range| Range::of(0.0, range.scale * LARGEST as f32));
        let both = self.net.tensor(format!("{of} softmax"), [2 * c, h, w], Some(results));
        self.step(node, Kind::Softmax(c), &[pairs], Vec::new(), both);
        if small.is_some() {
            let weights = [1.0, 0.0].repeat(channels).into();
            let first = Convolution { op, kernels: channels, weights, bias: vec![0.0; channels] };
            return self.convolve(node, first, both, node.output.0);
        }
        let of_pairs = |factor: f32, bias: f32| Convolution {
            op,
            kernels: channels,
            weights: [factor, -factor].repeat(channels).into(),
            bias: vec![bias; channels],
        };
        if unary == Unary::Tanh {
            return self.convolve(node, of_pairs(2.0, 0.0), both, node.output.0);
        }
        if unary == Unary::Sigmoid {
            return self.convolve(node, of_pairs(1.0, 0.5), both, node.output.0);
        }
        let gate = self.net.tensor(format!("{of} sigmoid"), [c, h, w], Some(Range::of(0.0, 1.0)));
        self.convolve(node, of_pairs(1.0, 0.5), both, gate)?;
        self.step(node, Kind::Copy, &[x], vec![PostOp::With(Combine::Mul, gate)], node.output.0);
        Ok(())
    }

    /// Whether the processor may compute a function of a tensor.
    fn is_small(&self, x: TensorId, unary: Unary) -> Result<(), String> {
        let elements: u32 = self.net.tensors[x].shape.iter().product();
        if elements <= EMULATED_ELEMENTS {
            return Ok(());
        }
        Err(format!(
            "{} needs lookup tables, which this configuration does not have, and its {elements} elements are more than the \
             {EMULATED_ELEMENTS} that the processor may compute in their place",
            unary.name()
        ))
    }

    /// A power of a small tensor on configurations without tables. The emulator truncates results to steps. The factor makes up for
    /// the half of a step that this takes on average.
    fn power(&mut self, node: &ir::Node, unary: Unary, exponent: f32) -> Result<(), String> {
        self.is_small(node.inputs[0].0, unary)?;
        let power = self.power_of_mean(exponent, self.mean(node.output), node.output.0);
        self.simple(node, Kind::Power(power), Vec::new());
        Ok(())
    }

    /// The mean of a tensor on the samples, or 0.
    fn mean(&self, id: ir::TensorId) -> f32 {
        let means = self.ranges.means(id).map(|means| &means.values);
        means.map_or(0.0, |means| means.iter().sum::<f32>() / means.len() as f32)
    }

    /// A power whose results are a tensor with this mean.
    fn power_of_mean(&self, exponent: f32, mean: f32, output: TensorId) -> Power {
        let factor = match self.net.tensors[output].range {
            Some(range) if mean > range.scale => (1.0 + range.scale / 2.0 / mean).powf(1.0 / exponent),
            _ => 1.0,
        };
        Power { exponent, factor }
    }

    /// A softmax over two channels in int8: see [`HALVES`].
    pub(crate) fn softmax_of_two(&mut self, node: &ir::Node) -> Result<(), String> {
        let (x, output) = (node.inputs[0].0, node.output.0);
        let Tensor { name, shape, .. } = self.net.tensors[x].clone();
        let both = self.net.tensor(format!("{name} softmax"), shape, Some(HALVES));
        self.step(node, Kind::Softmax(1), &[x], Vec::new(), both);
        let op = ir::Convolution::pointwise();
        let weights = [1.0, -1.0, -1.0, 1.0].into();
        self.convolve(node, Convolution { op, kernels: 2, weights, bias: vec![0.5; 2] }, both, output)
    }

    /// The arguments that the table of a function covers. In half precision these are more than those of the samples, because the values
    /// of other data do not saturate, as integers do: three times the range, as far as a table without samples reaches.
    fn arguments(&self, id: ir::TensorId, unary: Unary) -> [f32; 2] {
        let [low, high] = self.range_of(id);
        if self.net.integers || is_steep(unary) {
            return [low, high];
        }
        let (bounds, width) = (self.bounds[id.0], high - low);
        let below = (low - width).max(UNKNOWN[0]).min(low).max(bounds.0);
        let above = (high + width).min(UNKNOWN[1]).max(high).min(bounds.1);
        [below, above]
    }

    /// The arguments of a table for a tensor: the values on the samples, or those that are possible.
    fn range_of(&self, id: ir::TensorId) -> [f32; 2] {
        let (low, high) = self.bounds[id.0];
        let [from, to] = match self.net.tensors[id.0].range {
            Some(range) => [range.min, range.max],
            None => [low, high],
        };
        let end = |value: f32, unknown: f32| if value.is_finite() { value.clamp(low, high) } else { unknown };
        let (from, to) = (end(from, UNKNOWN[0]), end(to, UNKNOWN[1]));
        [from.min(to), to]
    }

    /// Limits. Those that no value exceeds are left out; in integers, those that none exceeds by a half of the model's steps, and those
    /// of a quantized tensor where its integers saturate there.
    fn clip(&mut self, node: &ir::Node, low: f32, high: f32) {
        let x = node.inputs[0];
        let (least, most) = self.bounds[x.0];
        let quantization = self.graph.tensor(node.output).quantization.as_ref();
        let half = quantization.filter(|_| self.net.integers).map_or(0.0, |q| q.scale[0] / 2.0);
        let (low, high) = (
            if least < low - half { low } else { f32::NEG_INFINITY },
            if most > high + half { high } else { f32::INFINITY },
        );
        let maker = self.graph.producer(x).map(|maker| &self.graph.node(maker).op);
        let joins = maker.is_some_and(|op| {
            matches!(op, Op::Convolution(_) | Op::Deconvolution(..) | Op::Unary(_) | Op::Binary(_) | Op::PRelu)
        });
        // The bytes of a picture have a scale of their own.
        let picture = maker.is_none() && least.is_finite() && most.is_finite();
        let nothing = (low, high) == (f32::NEG_INFINITY, f32::INFINITY);
        let saturates = quantization.is_some() && self.saturates(node.output);
        let post_ops = match (nothing, saturates && !picture) {
            (true, _) => Vec::new(),
            (false, true) => vec![PostOp::Within(low, high, node.output.0)],
            (false, false) => PostOp::limits(low, high),
        };
        if !joins && (nothing || saturates && !picture) {
            self.simple(node, Kind::Same, post_ops);
        } else {
            self.split(node, Kind::Copy, x.0, post_ops, node.output.0);
        }
    }

    /// Adds a step with its post-operations. It is divided into several steps if it needs more sub-units than SDP has.
    pub(crate) fn split(
        &mut self,
        node: &ir::Node,
        kind: Kind,
        mut input: TensorId,
        mut post_ops: Vec<PostOp>,
        output: TensorId,
    ) {
        let mut kind = kind;
        // If readers share the output's scale, the output cannot have a separate one.
        let own = self.net.integers
            && ends_at_limit(self.net.tensors[output].range, &post_ops)
            && (output >= self.graph.tensors.len()
                || self.graph.users(ir::TensorId(output)).all(|user| {
                    matches!(
                        self.graph.node(user).op,
                        Op::Convolution(_)
                            | Op::Unary(_)
                            | Op::Binary(_)
                            | Op::PRelu
                            | Op::Softmax { .. }
                            | Op::Lrn { .. }
                    )
                }));
        let assign = |conv: bool, post_ops: &[PostOp], own: bool| {
            Pipe::assign(self.config, conv, post_ops, own, |_| false).is_some()
        };
        while !assign(matches!(kind, Kind::Convolution(_)), &post_ops, own) && post_ops.len() > 1 {
            let fits = |&count: &usize| assign(false, &post_ops[..count], false);
            let count = (1..post_ops.len()).rev().find(fits).unwrap_or(1);
            let rest = post_ops.split_off(count);
            let Tensor { name, shape, .. } = self.net.tensors[output].clone();
            // The part's range is not known. That of its input is used, extended by the output's if that reaches beyond it.
            let range = self.net.tensors[input].range.map(|own| match self.net.tensors[output].range {
                Some(other) if !own.holds(&other) => Range::of(own.min.min(other.min), own.max.max(other.max)),
                _ => own,
            });
            let part = self.net.tensor(format!("{name} part"), shape, range);
            self.step(node, std::mem::replace(&mut kind, Kind::Copy), &[input], post_ops, part);
            (input, post_ops) = (part, rest);
        }
        self.step(node, kind, &[input], post_ops, output);
    }

    pub(crate) fn binary(&mut self, node: &ir::Node, binary: Binary) -> Result<(), String> {
        let graph = self.graph;
        let [a, b] = [node.inputs[0], node.inputs[1]];
        let shape = |id| graph.shape(id);
        match (graph.constant(a), graph.constant(b)) {
            (Some(_), Some(_)) => return Err("both operands are constant".to_owned()),
            (constant_a, constant_b) if constant_a.is_some() || constant_b.is_some() => {
                let (data, constant, values) = if let Some(values) = constant_b {
                    (a, b, values)
                } else {
                    (b, a, constant_a.ok_or("no constant")?)
                };
                let reversed = constant == a;
                let one_channel = self.net.tensors[data.0].shape[0] == 1;
                let channels = self.net.tensors[node.output.0].shape[0] as usize;
                // With more than four dimensions, channels do not correspond to the indices of dimension 1, which a constant has
                // one value for.
                let few = shape(node.output).len() <= 4;
                let fits = match ir::infer::broadcast(shape(constant), shape(node.output)) {
                    Broadcast::Scalar => true,
                    Broadcast::Channel => few,
                    Broadcast::Element => self.net.tensors[data.0].shape[1..] == [1, 1] || values.len() == 1,
                    Broadcast::Other => one_channel && values.len() == 1,
                };
                let extended = self.net.tensors[data.0].shape != self.net.tensors[node.output.0].shape;
                if !fits || extended {
                    let reason =
                        format!("a constant of shape {:?} beside a tensor of {:?}", shape(constant), shape(data));
                    let mut from = data.0;
                    if extended {
                        let linear = matches!(
                            (binary, reversed),
                            (Binary::Add | Binary::Sub | Binary::Mul, _) | (Binary::Div, false)
                        );
                        let ones = values.iter().all(|&value| value.to_bits() == 1f32.to_bits());
                        let repeats = binary == Binary::Mul && ones && matches!(shape(node.output), [1, _, _, _]);
                        let made = if linear && !repeats { self.linear_node(node, reason) } else { Err(reason) };
                        if made.is_ok() || shape(data).len() > shape(node.output).len() {
                            return made;
                        }
                        from = self.extended(node, data, shape(node.output))?;
                        if repeats {
                            self.net.steps.last_mut().into_iter().for_each(|step| step.output = node.output.0);
                            return Ok(());
                        }
                    }
                    return self.elements(node, binary, from, (shape(constant), values), reversed);
                }
                // With a batch, values per channel are repeated for each image.
                let values = if values.len() > 1 && values.len() < channels {
                    values.repeat(channels / values.len())
                } else {
                    values.to_vec()
                };
                let all = |value: f32| vec![value; values.len()];
                let post = match (binary, reversed) {
                    (Binary::Add, _) => PostOp::Affine(all(1.0), values),
                    (Binary::Sub, false) => PostOp::Affine(all(1.0), values.iter().map(|value| -value).collect()),
                    (Binary::Sub, true) => PostOp::Affine(all(-1.0), values),
                    (Binary::Mul, _) => {
                        let shift = all(0.0);
                        PostOp::Affine(values, shift)
                    }
                    (Binary::Div, false) => {
                        let shift = all(0.0);
                        PostOp::Affine(values.iter().map(|value| 1.0 / value).collect(), shift)
                    }
                    (Binary::Max, _) if values.len() == 1 && values[0] == 0.0 => PostOp::Relu,
                    (Binary::Max, _) if values.len() == 1 => PostOp::Least(values[0]),
                    (Binary::Min, _) if values.len() == 1 => PostOp::Most(values[0]),
                    (Binary::Pow, false) if values[..] == [1.0] => PostOp::Affine(vec![1.0], vec![0.0]),
                    (Binary::Pow, false) if values[..] == [2.0] => PostOp::With(Combine::Mul, data.0),
                    _ => {
                        let given: Vec<_> = values.iter().take(4).map(f32::to_string).collect();
                        let more = if values.len() > 4 { ", …" } else { "" };
                        let what = if reversed { "the first operand" } else { "the second operand" };
                        return Err(format!(
                            "{what} is a constant of {} ({}{more}), and {} is computed with one number only",
                            values.len(),
                            given.join(", "),
                            node.op.name()
                        ));
                    }
                };
                if let PostOp::Affine(scale, shift) = &post {
                    if scale.iter().chain(shift).any(|value| !value.is_finite()) {
                        return Err("a constant is not finite".to_owned());
                    }
                }
                self.split(node, Kind::Copy, data.0, vec![post], node.output.0);
            }
            _ => {
                let out = self.net.tensors[node.output.0].shape;
                let output_shape = shape(node.output).to_vec();
                let rank = output_shape.len();
                let extents = |id: ir::TensorId| {
                    let small = shape(id);
                    [&vec![1; rank - small.len()], small].concat()
                };
                // An operand of fewer dimensions may have its elements in other channels, lines and columns.
                let channels = [out[0], 1, 1];
                let same = |id: ir::TensorId| extents(id) == output_shape && self.net.tensors[id.0].shape == out;
                // One value per channel: the dimensions after the channels have one element.
                let outer = if rank < 3 { rank } else { (rank - 2).max(2) };
                let gate = |id: ir::TensorId| {
                    let extents = extents(id);
                    extents[..outer] == output_shape[..outer]
                        && extents[outer..].iter().all(|&extent| extent == 1)
                        && self.net.tensors[id.0].shape == channels
                };
                let (full, gates) = ([same(a), same(b)], [gate(a), gate(b)]);
                let (first, second) = (a, b);
                let (mut a, mut b) = (a.0, b.0);
                // An operand that is neither as large as the output nor one value per channel is extended by a product.
                if !(full[0] || full[1] && gates[0]) {
                    a = self.extended(node, first, &output_shape)?;
                }
                if !(full[1] || full[0] && gates[1]) {
                    b = self.extended(node, second, &output_shape)?;
                }
                let [x, y] = [a, b].map(|id| self.net.tensors[id].shape);
                let swapped = x != out;
                let (own, other) = if swapped { (b, a) } else { (a, b) };
                let combine = match binary {
                    Binary::Add => Combine::Add { negate: false },
                    Binary::Max => Combine::Max,
                    Binary::Min => Combine::Min,
                    Binary::Mul => Combine::Mul,
                    // a - b is -b + a.
                    Binary::Sub if x == y => {
                        let post = PostOp::With(Combine::Add { negate: true }, a);
                        self.step(node, Kind::Copy, &[b], vec![post], node.output.0);
                        return Ok(());
                    }
                    Binary::Sub if swapped => Combine::Add { negate: true },
                    Binary::Sub => {
                        let Tensor { name, shape, range, .. } = self.net.tensors[other].clone();
                        let range = range.map(|range| Range { min: -range.max, max: -range.min, ..range });
                        let negative = self.net.tensor(format!("{name} negative"), shape, range);
                        let negate = vec![PostOp::Affine(vec![-1.0], vec![0.0])];
                        self.step(node, Kind::Copy, &[other], negate, negative);
                        let add = vec![PostOp::With(Combine::Add { negate: false }, negative)];
                        self.step(node, Kind::Copy, &[own], add, node.output.0);
                        return Ok(());
                    }
                    Binary::Div => return self.quotient(node, a, b),
                    Binary::Pow => return Err("the hardware has no such operation of two tensors".to_owned()),
                };
                self.step(node, Kind::Copy, &[own], vec![PostOp::With(combine, other)], node.output.0);
            }
        }
        Ok(())
    }

    /// A tensor combined with one constant per element. `reversed`: the constant is the first operand.
    fn elements(
        &mut self,
        node: &ir::Node,
        binary: Binary,
        data: TensorId,
        constant: (&[usize], &[f32]),
        reversed: bool,
    ) -> Result<(), String> {
        let shape = self.graph.shape(node.output);
        let zeros = vec![0.0; shape.iter().product()];
        let values = float::apply(&Op::Binary(Binary::Add), &[(shape, &zeros), constant], shape);
        let all = |f: fn(&f32) -> f32| values.iter().map(f).collect::<Vec<f32>>();
        let add = Combine::Add { negate: false };
        let (combine, values) = match (binary, reversed) {
            (Binary::Add, _) | (Binary::Sub, true) => (add, values),
            (Binary::Sub, false) => (add, all(|value| -value)),
            (Binary::Mul, _) => (Combine::Mul, values),
            (Binary::Div, false) => (Combine::Mul, all(|value| 1.0 / value)),
            (Binary::Max, _) => (Combine::Max, values),
            (Binary::Min, _) => (Combine::Min, values),
            _ => return Err(format!("{} with a constant per element", node.op.name())),
        };
        if values.iter().any(|value| !value.is_finite()) {
            return Err("a constant is not finite".to_owned());
        }
        let shape = self.net.tensors[node.output.0].shape;
        let mut post_ops = vec![PostOp::Elements(combine, Elements { shape, values: values.into() })];
        if (binary, reversed) == (Binary::Sub, true) {
            post_ops.insert(0, PostOp::Affine(vec![-1.0], vec![0.0]));
        }
        self.split(node, Kind::Copy, data, post_ops, node.output.0);
        Ok(())
    }

    /// a / b, computed as a times the reciprocal of b.
    fn quotient(&mut self, node: &ir::Node, a: TensorId, b: TensorId) -> Result<(), String> {
        let Tensor { name, shape, .. } = self.net.tensors[b].clone();
        let [low, high] = self.range_of(node.inputs[1]);
        if low <= 0.0 && high >= 0.0 {
            return Err(
                "a division by a tensor whose values may be near 0, unless samples show that they are not".to_owned()
            );
        }
        let inverse = Some(Range::of(1.0 / high, 1.0 / low));
        let inverse = self.net.tensor(format!("{name} reciprocal"), shape, inverse);
        if self.config.sdp_lut && self.config.sdp_ew {
            let table = PostOp::Table(Unary::Reciprocal.into(), low, high);
            self.step(node, Kind::Copy, &[b], vec![table], inverse);
        } else {
            self.is_small(b, Unary::Reciprocal)?;
            // The mean of the reciprocals is not measured; that of the divisors is near to it.
            let power = self.power_of_mean(-1.0, self.mean(node.inputs[1]).recip(), inverse);
            self.step(node, Kind::Power(power), &[b], Vec::new(), inverse);
        }
        let whole = self.net.tensors[a].shape == self.net.tensors[node.output.0].shape;
        let (own, other) = if whole { (a, inverse) } else { (inverse, a) };
        self.step(node, Kind::Copy, &[own], vec![PostOp::With(Combine::Mul, other)], node.output.0);
        Ok(())
    }
}
