// SPDX-License-Identifier: MIT OR Apache-2.0

//! The numbers of each step: weights, operands, shifts and converters, in int8 or fp16.
//!
//! In int8 a tensor's real value is `scale * (q - zero)`. `zero` is -128 for tensors without negative values if the
//! steps that write and read them can account for it ([`scales`]), so that they have all 256 integers; else it is 0. A
//! convolution pads with it and subtracts it in its bias. The output converter's offset adds it. Within a step, values
//! are integers of a unit that X1's factor chooses, so that an operand of another scale can be shifted to it:
//!
//! ```text
//! X1   v = ((sum + (bias << bias shift)) * factor[k]) >> 15 or so        in units of U
//! X2   v = v + (operand << s), where the operand's scale is U * 2^s      in units of U
//! out  q = (v - offset) * scale >> truncate                              in units of the output's scale
//! ```

use std::collections::HashMap;

use nvdla_uapi::desc::{Lut, LutSlope, LUT_LINEAR_EXP_ENTRIES, LUT_LINEAR_ONLY_ENTRIES};
use nvdla_uapi::reg::values::{AluAlgorithm, LutFunction, LutTable, Precision};

use super::step::{may_saturate, Combine, Convolution, Kind, Lrn, Net, Pipe, Post, Step, Tensor, TensorId};
use super::{Bytes, Inputs};
use crate::error::Error;
use crate::half;
use crate::ir::{self, Padding, PoolKind, Ranges};
use crate::quantize::{bias_values, Factor, Granularity};

/// The largest int8 that is used for weights.
const LARGEST: f64 = 127.0;
/// A factor is at least this. Kernels with smaller weights use fewer of their eight bits instead.
const SMALLEST_FACTOR: f64 = 256.0;
/// The largest left shift of an operand.
const LARGEST_SHIFT: f64 = 20.0;

/// Where a sub-unit's operand comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// One value, in a register.
    Layer(i32),
    /// One value per channel; bits of fp16 in fp16.
    Kernel(Vec<i16>),
    /// One value per element of a tensor.
    Element(TensorId),
    /// One value per channel of a tensor of one line and column.
    Gate(TensorId),
}

/// What follows a sub-unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// Nothing.
    #[default]
    Nothing,
    /// ReLU.
    Relu,
    /// The factor is for negative values only.
    Prelu,
}

/// Sub-unit X1 or X2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct X {
    /// First.
    pub alu: Option<(AluAlgorithm, Operand)>,
    /// Left shift of the ALU's operand.
    pub shift: u8,
    /// Then.
    pub mul: Option<Operand>,
    /// Right shift of the product.
    pub truncate: u8,
    /// Then.
    pub follow: Follow,
}

/// Sub-unit Y.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Y {
    /// First.
    pub mul: Option<Operand>,
    /// Right shift of the product.
    pub truncate: u8,
    /// Then, with the converter of an operand from memory.
    pub alu: Option<(AluAlgorithm, Operand, Option<Factor>)>,
    /// Then.
    pub table: Option<usize>,
}

/// What SDP does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stages {
    /// X1.
    pub x1: Option<X>,
    /// X2.
    pub x2: Option<X>,
    /// Y.
    pub y: Option<Y>,
    /// The output converter.
    pub out: Option<Factor>,
    /// What the output converter subtracts first.
    pub offset: i32,
}

/// CDMA's converter: integer = (component - offset) * scale >> truncate, limited to int8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converter {
    /// Whether components are bytes from 0 to 255, and not int8.
    pub unsigned: bool,
    /// The offset of each component.
    pub offsets: [i16; 4],
    /// The factor.
    pub scale: i16,
    /// The right shift of the product.
    pub truncate: u8,
}

impl Converter {
    /// The factor in real numbers.
    pub fn factor(&self) -> f64 {
        f64::from(self.scale) / f64::from(self.truncate).exp2()
    }

    /// The converter for an image whose components represent zero as `zeros`. It makes zero 0, or if all components
    /// have the same zero, an integer that allows more bits to be used. None: components are taken unchanged.
    fn new(zeros: &[f64], unsigned: bool) -> Option<Self> {
        let mut offsets = [0; 4];
        if !unsigned {
            zeros.iter().zip(&mut offsets).for_each(|(zero, offset)| *offset = zero.round() as i16);
            return (offsets != [0; 4]).then_some(Self { unsigned, offsets, scale: 1, truncate: 0 });
        }
        // The farthest integer from zero; one more than int8 holds is not worth a factor.
        let reach = zeros.iter().fold(0f64, |reach, zero| reach.max(255.0 - zero.round()).max(zero.round()));
        let uniform = zeros.iter().all(|zero| (zero - zeros[0]).abs() < 1e-9);
        if reach > LARGEST + 1.0 && uniform {
            return Some(Self { unsigned, offsets: [128; 4], scale: 1, truncate: 0 });
        }
        zeros.iter().zip(&mut offsets).for_each(|(zero, offset)| *offset = zero.round() as i16);
        let (scale, truncate) =
            if reach > LARGEST + 1.0 { ((LARGEST / reach * 16384.0).floor() as i16, 14) } else { (1, 0) };
        Some(Self { unsigned, offsets, scale, truncate })
    }
}

/// The numbers of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// A convolution's weights, as in [`Convolution::weights`]: int8, or bits of fp16.
    pub weights: Vec<i16>,
    /// How an image's components become integers before the convolution.
    pub converter: Option<Converter>,
    /// The integer of the values around the input, which represents 0.
    pub outside: i16,
    /// What SDP does.
    pub stages: Stages,
    /// CDP's lookup table, and its output converter.
    pub normalisation: Option<(usize, Factor)>,
}

/// The scale of a tensor: value = scale * (integer - zero).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The real value of one step.
    pub scale: f64,
    /// The integer that represents 0: 0 or -128.
    pub zero: i32,
}

/// The zero of tensors without negative values.
const ONE_SIDED: i32 = -128;

/// Tensors that share a scale, as a forest.
struct Groups(Vec<usize>);

impl Groups {
    fn new(net: &Net) -> Self {
        let mut groups = Self((0..net.tensors.len()).collect());
        for step in &net.steps {
            if matches!(step.kind, Kind::Convolution(_) | Kind::Copy | Kind::Softmax | Kind::Lrn(_)) {
                continue;
            }
            for &input in &step.inputs {
                let (a, b) = (groups.root(input), groups.root(step.output));
                groups.0[a.max(b)] = a.min(b);
            }
        }
        groups
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }
}

/// The tensors that a step combines with its own value in such a way that their zero cannot be taken off. What X2 adds to a
/// convolution's value can: the bias takes it off, if no ReLU lies between.
fn needs_zero(step: &Step, pipe: Option<Pipe>) -> impl Iterator<Item = TensorId> + '_ {
    let convolution = matches!(step.kind, Kind::Convolution(_));
    step.posts.iter().enumerate().filter_map(move |(at, post)| {
        let Post::With(combine, other) = post else { return None };
        let added = matches!(combine, Combine::Add { .. });
        let taken_off = pipe.is_some_and(|pipe| pipe.x2 == Some(at) && !pipe.x1_relu);
        (!(convolution && added && taken_off)).then_some(*other)
    })
}

/// The scale of every tensor: 1 in fp16. Tensors that views, concatenations and poolings connect have the same, which is the
/// largest of theirs.
pub fn scales(net: &Net, inputs: &Inputs, precision: Precision) -> Result<Vec<Scale>, Error> {
    if precision == Precision::Fp16 {
        return Ok(vec![Scale { scale: 1.0, zero: 0 }; net.tensors.len()]);
    }
    let mut groups = Groups::new(net);
    let mut used = vec![false; net.tensors.len()];
    net.inputs.iter().for_each(|&id| used[id] = true);
    net.steps.iter().for_each(|step| used[step.output] = true);
    let mut symmetric = vec![false; net.tensors.len()];
    for (id, tensor) in net.tensors.iter().enumerate().filter(|(id, _)| used[*id]) {
        symmetric[groups.root(id)] |= tensor.range.is_none_or(|range| range.one_sided <= 0.0);
    }
    // Tensors that the user or the emulator accesses have zero 0.
    for &id in net.inputs.iter().chain(&net.outputs) {
        symmetric[groups.root(id)] = true;
    }
    let mut limits: HashMap<TensorId, f64> = HashMap::new();
    for step in &net.steps {
        let conv = matches!(step.kind, Kind::Convolution(_));
        let pipe = Pipe::assign(inputs.config, conv, &step.posts, may_saturate(net, step.output));
        if let Some(Post::Most(limit)) = pipe.and_then(|pipe| pipe.saturate).map(|at| &step.posts[at]) {
            limits.insert(step.output, f64::from(*limit));
        }
        for other in needs_zero(step, pipe) {
            symmetric[groups.root(other)] = true;
        }
        let excluded = match &step.kind {
            // CDP squares and sums values, so their zero is 0.
            Kind::Softmax | Kind::Lrn(_) => true,
            // PDP's padding of averages is 0.
            Kind::Pool(pool) => {
                pool.kind == (PoolKind::Average { count_include_pad: true }) && pool.padding != Padding::default()
            }
            _ => false,
        };
        if excluded {
            symmetric[groups.root(step.inputs[0])] = true;
            symmetric[groups.root(step.output)] = true;
        }
    }
    let mut largest: HashMap<usize, f64> = HashMap::new();
    for (id, tensor) in net.tensors.iter().enumerate().filter(|(id, _)| used[*id]) {
        let root = groups.root(id);
        let (steps, one) = if symmetric[root] {
            (LARGEST, tensor.range.map(|r| r.scale))
        } else {
            (255.0, tensor.range.map(|r| r.one_sided))
        };
        let scale = match (inputs.fixed(id), limits.get(&id), one) {
            (Some(scale), ..) => scale,
            (_, Some(&limit), _) => limit / steps,
            (.., Some(scale)) if scale.is_finite() && scale > 0.0 => f64::from(scale),
            _ => continue,
        };
        let group = largest.entry(root).or_insert(0.0);
        *group = group.max(scale);
    }
    let scale = |(id, tensor): (usize, &Tensor)| {
        let root = groups.root(id);
        let zero = if symmetric[root] { 0 } else { ONE_SIDED };
        match largest.get(&root) {
            Some(&scale) => Ok(Scale { scale, zero }),
            None if !used[id] => Ok(Scale { scale: 1.0, zero: 0 }),
            None => Err(Error::Network(format!("the range of tensor \"{}\" is not known", tensor.name))),
        }
    };
    net.tensors.iter().enumerate().map(scale).collect()
}

/// Computes numbers.
pub struct Quantizer<'a> {
    /// The network.
    pub net: &'a Net,
    /// What is known of its inputs.
    pub inputs: &'a Inputs,
    /// The scale of every tensor.
    pub scales: &'a [Scale],
    /// The means of the channels of the graph's tensors.
    pub ranges: &'a Ranges,
    /// int8 or fp16.
    pub precision: Precision,
    /// How weights are scaled.
    pub granularity: Granularity,
    /// Lookup tables that were made.
    pub tables: Vec<Lut>,
    /// The largest error of each, in steps of the output, with the tensor's name.
    pub errors: Vec<(String, f64)>,
}

fn exponent(value: f64) -> f64 {
    value.log2().ceil()
}

/// The shift that makes the most of 16 bits for factors up to `largest`.
fn factor_shift(largest: f64) -> f64 {
    (f64::from(i16::MAX) / largest).log2().floor().clamp(0.0, 31.0)
}

fn of(values: &[f32], k: usize) -> f64 {
    f64::from(values[if values.len() == 1 { 0 } else { k }])
}

fn bits(value: f64) -> i16 {
    half::from_f32(value as f32) as i16
}

impl Quantizer<'_> {
    /// The numbers of a step. `image` means that the input of a convolution is an image.
    pub fn step(&mut self, step: &Step, image: bool) -> Result<Numbers, Error> {
        let conv = matches!(step.kind, Kind::Convolution(_));
        let name = &self.net.tensors[step.output].name;
        let pipe = Pipe::assign(self.inputs.config, conv, &step.posts, may_saturate(self.net, step.output));
        let pipe = pipe.ok_or_else(|| Error::unsupported(name, "SDP has too few sub-units for what follows"))?;
        match (&step.kind, self.precision) {
            (Kind::Convolution(conv), Precision::Fp16) => Ok(self.float_convolution(step, conv, pipe, image)),
            (_, Precision::Fp16) => {
                let x1 = Self::float_copy(step, pipe);
                Ok(Numbers { stages: self.float_rest(step, pipe, x1), ..Numbers::default() })
            }
            (Kind::Convolution(conv), _) => self.int_convolution(step, conv, pipe, image),
            _ => self.int_copy(step, pipe),
        }
    }

    /// The numbers of a normalisation: in int8 the table's argument is the sum of squares of integers.
    pub fn normalisation(&mut self, step: &Step, lrn: &Lrn) -> Result<Numbers, Error> {
        let name = self.net.tensors[step.output].name.clone();
        let table = self.tables.len();
        let range = self.net.tensors[step.inputs[0]].range;
        let out = if self.precision == Precision::Fp16 {
            let largest = range.map_or(8.0, |range| f64::from(range.min.abs().max(range.max.abs())));
            let most = largest * largest * lrn.size as f64;
            self.float_table(&name, &|sum| lrn.factor(sum), 0.0, most);
            Factor { scale: 1, truncate: 0 }
        } else {
            let own = self.scales[step.inputs[0]].scale;
            let most = LARGEST * LARGEST * lrn.size as f64;
            // The factor's step in the table, in real numbers.
            let (square, target) = (own * own, self.scales[step.output].scale);
            let unit = self.table(&name, &|sum| lrn.factor(sum), (0.0, most * square), square, target / own / LARGEST);
            Factor::nearest(&name, unit * own / target)?
        };
        Ok(Numbers { normalisation: Some((table, out)), ..Numbers::default() })
    }

    /// The unit that suits what follows, near `finest`; and the left shift of the tensor that X2 combines.
    fn unit(&self, step: &Step, pipe: Pipe, finest: f64) -> Option<(f64, u8)> {
        if let Some(Post::With(combine, other)) = pipe.x2.map(|x2| &step.posts[x2]) {
            if *combine != Combine::Mul {
                let scale = self.scales[*other].scale;
                let shift = exponent(scale / finest).clamp(0.0, LARGEST_SHIFT);
                return Some((scale / shift.exp2(), shift as u8));
            }
            return None;
        }
        if let (Some(Post::Table(_, low, high)), None) = (pipe.table.map(|table| &step.posts[table]), pipe.y) {
            let range = f64::from(high - low).max(1e-6);
            let select = exponent(range / 256.0 / finest).max(0.0);
            return Some((range / 256.0 / select.exp2(), 0));
        }
        None
    }

    fn int_convolution(&mut self, step: &Step, conv: &Convolution, pipe: Pipe, image: bool) -> Result<Numbers, Error> {
        let input = step.inputs[0];
        let name = self.net.tensors[step.output].name.clone();
        let channels = self.net.tensors[input].shape[0] as usize;
        let each = conv.weights.len() / conv.kernels;
        let per_group = channels / conv.op.group;
        let window = conv.op.kernel[0] * conv.op.kernel[1];
        let from = |at: usize| {
            let (k, c) = (at / each, at % each / window);
            k / (conv.kernels / conv.op.group) * per_group + c
        };
        let (Scale { scale: mut own, zero }, mut converter) = (self.scales[input], None);
        let (relative, zeros) = match self.inputs.of(input) {
            Some(known) => {
                let relative: Vec<f64> = (0..channels).map(|c| known.scale(c) / own).collect();
                let zeros: Vec<f64> = (0..channels).map(|c| known.zero(c)).collect();
                if image {
                    converter = Converter::new(&zeros, known.bytes == Bytes::Eight);
                }
                (relative, zeros)
            }
            None => (vec![1.0; channels], vec![f64::from(zero); channels]),
        };
        let factor = converter.map_or(1.0, |converter| converter.factor());
        own /= factor;
        let weights: Vec<f64> =
            conv.weights.iter().enumerate().map(|(at, &weight)| f64::from(weight) * relative[from(at)]).collect();
        let kernels = || weights.chunks_exact(each);
        let mut largest: Vec<f64> =
            kernels().map(|kernel| kernel.iter().fold(0f64, |largest, &w| largest.max(w.abs()))).collect();
        let over_all = largest.iter().copied().fold(1e-30, f64::max);
        if self.granularity == Granularity::Layer {
            largest.fill(over_all);
        }
        let finest = over_all / LARGEST * own;
        let (unit, shift) = self.unit(step, pipe, finest).unwrap_or((finest * 32768.0 / 32767.0, 0));
        let truncate = factor_shift(finest / unit);
        let factors: Vec<f64> = largest
            .iter()
            .map(|&largest| {
                let factor = (largest / LARGEST * own / unit * truncate.exp2()).round();
                factor
                    .clamp(SMALLEST_FACTOR.min((finest / unit * truncate.exp2()).floor().max(1.0)), f64::from(i16::MAX))
            })
            .collect();
        // The weights follow the factor's rounding, not the other way round.
        let steps: Vec<f64> = factors.iter().map(|factor| factor * unit / truncate.exp2() / own).collect();
        let quantized: Vec<i16> = weights
            .iter()
            .enumerate()
            .map(|(at, weight)| (weight / steps[at / each]).round().clamp(-LARGEST, LARGEST) as i16)
            .collect();
        // An image's zero is subtracted as it is read, to the nearest integer. The rest of it, or an input's zero that
        // is not subtracted, adds a constant to every sum, which the bias subtracts.
        let rests: Vec<f64> = zeros
            .iter()
            .enumerate()
            .map(|(c, zero)| (zero - converter.map_or(0.0, |converter| f64::from(converter.offsets[c]))) * factor)
            .collect();
        let outside = rests[0].round() as i16;
        let sign = if negates(step, pipe) { -1.0 } else { 1.0 };
        // The zero of what X2 adds.
        let added = match pipe.x2.map(|x2| &step.posts[x2]) {
            Some(Post::With(Combine::Add { .. }, other)) => {
                let Scale { scale, zero } = self.scales[*other];
                -sign * scale * f64::from(zero)
            }
            _ => 0.0,
        };
        // What the rounding of weights changes on average.
        let means = self.ranges.means(ir::TensorId(input)).filter(|means| means.len() == channels);
        let sums: Vec<f64> = quantized
            .chunks_exact(each)
            .enumerate()
            .map(|(k, kernel)| {
                let (mut rest, mut change) = (0.0, 0.0);
                for (at, &weight) in kernel.iter().enumerate() {
                    let c = from(k * each + at);
                    rest += f64::from(weight) * rests[c];
                    if let Some(means) = means {
                        let rounded = f64::from(weight) * steps[k] / relative[c];
                        change += (f64::from(conv.weights[k * each + at]) - rounded) * f64::from(means[c]);
                    }
                }
                (f64::from(conv.bias[k]) + change + added) / (own * steps[k]) - rest
            })
            .collect();
        let (bias, bias_shift) = bias_values(&name, &sums)?;
        let x1 = X {
            alu: Some((AluAlgorithm::Sum, Operand::Kernel(bias))),
            shift: bias_shift,
            mul: Some(Operand::Kernel(factors.iter().map(|factor| (sign * factor) as i16).collect())),
            truncate: truncate as u8,
            follow: if pipe.x1_relu { Follow::Relu } else { Follow::Nothing },
        };
        let stages = self.int_rest(step, pipe, Some(x1), unit, shift, 4)?;
        Ok(Numbers { weights: quantized, converter, outside, stages, normalisation: None })
    }

    fn int_copy(&mut self, step: &Step, pipe: Pipe) -> Result<Numbers, Error> {
        let input = step.inputs[0];
        let Scale { scale: own, zero } = self.scales[input];
        let follow = if pipe.x1_relu { Follow::Relu } else { Follow::Nothing };
        let channels = self.net.tensors[input].shape[0] as usize;
        let (mut scale, shift) = match step.posts.first() {
            Some(Post::Affine(scale, shift)) if pipe.affine => (scale.clone(), shift.clone()),
            _ => (vec![1.0], vec![0.0]),
        };
        // The scale of an input.
        let mut shift: Vec<f64> = shift.iter().map(|&shift| f64::from(shift)).collect();
        if let Some(known) = self.inputs.of(input) {
            let all = |k: usize| known.scale(k) / own;
            shift = (0..channels)
                .map(|k| shift[if shift.len() == 1 { 0 } else { k }] - of(&scale, k) * known.scale(k) * known.zero(k))
                .collect();
            scale = (0..channels).map(|k| (of(&scale, k) * all(k)) as f32).collect();
        }
        let largest = scale.iter().fold(1e-30, |largest, &scale| f64::from(scale.abs()).max(largest)) * own;
        let shifts = shift.iter().any(|&shift| shift != 0.0);
        let plain = scale.iter().all(|scale| scale.to_bits() == 1f32.to_bits()) && !shifts;
        let fine = largest / 4096.0;
        let free = self.unit(step, pipe, fine);
        // The same integers, if nothing happens to them.
        let moved = step.posts.is_empty() && plain && self.scales[step.output] == self.scales[input];
        let zeros = !moved && (zero != 0 || self.scales[step.output].zero != 0);
        let multiplies = !plain
            || zeros
            || free.is_some()
            || negates(step, pipe)
            || pipe.x2.is_some_and(|x2| !is_mul(step, x2))
            || pipe.y.is_some();
        let (unit, operand_shift) = match free {
            Some(found) => found,
            None if multiplies => (fine, 0),
            None => (own, 0),
        };
        let sign = if negates(step, pipe) { -1.0 } else { 1.0 };
        let x1 = if multiplies {
            let truncate = factor_shift(largest / unit);
            let factor = |k: usize| (sign * of(&scale, k) * own / unit * truncate.exp2()).round() as i16;
            let mul = if scale.len() == 1 {
                Operand::Layer(factor(0).into())
            } else {
                Operand::Kernel((0..channels).map(factor).collect())
            };
            let alu = (zero != 0).then_some((AluAlgorithm::Sum, Operand::Layer(-zero)));
            Some(X { alu, mul: Some(mul), truncate: truncate as u8, follow, ..X::default() })
        } else {
            (follow != Follow::Nothing).then(|| X { follow, ..X::default() })
        };
        if shifts && !pipe.x2_shift {
            let name = &self.net.tensors[step.output].name;
            return Err(Error::unsupported(name, "an input's mean cannot be taken off in this step"));
        }
        let mut stages = self.int_rest(step, pipe, x1, unit, operand_shift, if multiplies { 8 } else { 0 })?;
        if moved {
            stages.offset = 0;
        }
        if pipe.x2_shift {
            let name = &self.net.tensors[step.output].name;
            let sums: Vec<f64> = (0..channels).map(|k| shift[if shift.len() == 1 { 0 } else { k }] / unit).collect();
            let (values, left) = bias_values(name, &sums)?;
            stages.x2 = Some(X {
                alu: Some((AluAlgorithm::Sum, Operand::Kernel(values))),
                shift: left,
                follow: if pipe.x2_relu { Follow::Relu } else { Follow::Nothing },
                ..X::default()
            });
        }
        Ok(Numbers { stages, ..Numbers::default() })
    }

    /// X2, Y and the output converter, of a value in steps of `unit` after X1. `truncate` is the right shift of products.
    fn int_rest(
        &mut self,
        step: &Step,
        pipe: Pipe,
        x1: Option<X>,
        unit: f64,
        shift: u8,
        truncate: u8,
    ) -> Result<Stages, Error> {
        let name = self.net.tensors[step.output].name.clone();
        let mut unit = unit;
        let mut stages = Stages { x1, ..Stages::default() };
        if let Some(post) = pipe.x2.map(|x2| &step.posts[x2]) {
            let mut x2 = X { follow: if pipe.x2_relu { Follow::Relu } else { Follow::Nothing }, ..X::default() };
            match post {
                Post::With(Combine::Mul, other) => {
                    x2.mul = Some(self.operand(step, *other));
                    x2.truncate = truncate;
                    unit *= self.scales[*other].scale * f64::from(truncate).exp2();
                }
                Post::With(combine, other) => {
                    x2.alu = Some((algorithm(*combine), self.operand(step, *other)));
                    x2.shift = shift;
                }
                Post::Slopes(slopes) => {
                    let largest = slopes.iter().fold(1e-6f64, |largest, &slope| largest.max(f64::from(slope.abs())));
                    let truncate = factor_shift(largest).min(15.0);
                    let value = |&slope: &f32| (f64::from(slope) * truncate.exp2()).round() as i16;
                    x2.mul = Some(match slopes[..] {
                        [slope] => Operand::Layer(value(&slope).into()),
                        _ => Operand::Kernel(slopes.iter().map(value).collect()),
                    });
                    x2.truncate = truncate as u8;
                    x2.follow = Follow::Prelu;
                }
                Post::Most(limit) | Post::Least(limit) => {
                    let (values, left) = bias_values(&name, &[f64::from(*limit) / unit])?;
                    let algorithm = if matches!(post, Post::Most(_)) { AluAlgorithm::Min } else { AluAlgorithm::Max };
                    x2.alu = Some((algorithm, Operand::Layer(values[0].into())));
                    x2.shift = left;
                }
                Post::Affine(..) | Post::Relu | Post::Table(..) => {}
            }
            stages.x2 = Some(x2);
        }
        if pipe.y.is_some() || pipe.table.is_some() {
            let mut y = Y::default();
            match pipe.y.map(|y| &step.posts[y]) {
                Some(Post::With(Combine::Mul, other)) => {
                    y.mul = Some(self.operand(step, *other));
                    y.truncate = truncate;
                    unit *= self.scales[*other].scale * f64::from(truncate).exp2();
                }
                Some(Post::With(combine, other)) => {
                    let factor = Factor::nearest(&name, self.scales[*other].scale / unit)?;
                    y.alu = Some((algorithm(*combine), self.operand(step, *other), Some(factor)));
                }
                Some(post @ (Post::Most(limit) | Post::Least(limit))) => {
                    let algorithm = if matches!(post, Post::Most(_)) { AluAlgorithm::Min } else { AluAlgorithm::Max };
                    let value = (f64::from(*limit) / unit).round().clamp(f64::from(i32::MIN), f64::from(i32::MAX));
                    y.alu = Some((algorithm, Operand::Layer(value as i32), None));
                }
                _ => {}
            }
            if let Some(Post::Table(unary, low, high)) = pipe.table.map(|table| &step.posts[table]) {
                let own = self.scales[step.output].scale;
                y.table = Some(self.tables.len());
                let function = |x: f64| f64::from(unary.apply(x as f32));
                unit = self.table(&name, &function, (f64::from(*low), f64::from(*high)), unit, own);
            }
            stages.y = Some(y);
        }
        let Scale { scale, zero } = self.scales[step.output];
        let factor = Factor::nearest(&name, unit / scale)?;
        let offset = (f64::from(-zero) * f64::from(factor.truncate).exp2() / f64::from(factor.scale)).round();
        if offset > f64::from(i32::MAX) {
            return Err(Error::unsupported(
                &name,
                format!("its output needs an offset of {offset:e}, which has no int32"),
            ));
        }
        (stages.out, stages.offset) = (Some(factor), offset as i32);
        Ok(stages)
    }

    fn operand(&self, step: &Step, other: TensorId) -> Operand {
        let [shape, own] = [other, step.output].map(|id| self.net.tensors[id].shape);
        if shape == own {
            Operand::Element(other)
        } else {
            Operand::Gate(other)
        }
    }

    /// A table of a function over `low` to `high`, of arguments in steps of `unit`. The step of its entries.
    fn table(
        &mut self,
        name: &str,
        function: &dyn Fn(f64) -> f64,
        (low, high): (f64, f64),
        unit: f64,
        own: f64,
    ) -> f64 {
        let entries = LUT_LINEAR_ONLY_ENTRIES - 1;
        let select = exponent((high - low).max(1e-6) / unit / entries as f64 - 1e-9).max(0.0);
        let start = (low / unit).floor();
        let at = |index: f64| function((start + index * select.exp2()) * unit);
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        let values: Vec<f64> = (0..=entries).map(|index| finite(at(index as f64))).collect();
        let largest = values.iter().fold(1e-12f64, |largest, value| largest.max(value.abs()));
        let step = largest / f64::from(i16::MAX);
        let entry = |value: f64| (value / step).round() as i16;
        let mut table = Lut {
            linear_exp_start: start as i64 as u64,
            linear_exp_end: (start + entries as f64 * select.exp2()) as i64 as u64,
            linear_exp_offset: (select + 2.0) as i8,
            linear_only_offset: select as i8,
            linear_exp_underflow_slope: LutSlope::default(),
            hybrid_priority: LutTable::Lo,
            underflow_priority: LutTable::Lo,
            overflow_priority: LutTable::Lo,
            method: LutFunction::Linear,
            ..Lut::default()
        };
        table.linear_only_start = table.linear_exp_start;
        table.linear_only_end = table.linear_exp_end;
        for (entry_of, value) in table.linear_only_table.iter_mut().zip(&values) {
            *entry_of = entry(*value);
        }
        for (index, entry_of) in table.linear_exp_table.iter_mut().enumerate() {
            *entry_of = entry(values[index * entries / (LUT_LINEAR_EXP_ENTRIES - 1)]);
        }
        let error = (0..entries * 4)
            .map(|quarter| {
                let index = quarter as f64 / 4.0;
                let (whole, part) = (quarter / 4, index.fract());
                let line = values[whole] * (1.0 - part) + values[whole + 1] * part;
                (finite(at(index)) - line).abs()
            })
            .fold(0f64, f64::max);
        self.errors.push((name.to_owned(), error / own));
        self.tables.push(table);
        step
    }

    fn float_convolution(&mut self, step: &Step, conv: &Convolution, pipe: Pipe, image: bool) -> Numbers {
        debug_assert!(!image, "fp16 inputs are feature cubes");
        let sign = if negates(step, pipe) { -1.0 } else { 1.0 };
        let weights = conv.weights.iter().map(|&weight| bits(sign * f64::from(weight))).collect();
        let bias = conv.bias.iter().map(|&bias| bits(sign * f64::from(bias))).collect();
        let x1 = X {
            alu: Some((AluAlgorithm::Sum, Operand::Kernel(bias))),
            follow: if pipe.x1_relu { Follow::Relu } else { Follow::Nothing },
            ..X::default()
        };
        Numbers { weights, stages: self.float_rest(step, pipe, Some(x1)), ..Numbers::default() }
    }

    fn float_copy(step: &Step, pipe: Pipe) -> Option<X> {
        let follow = if pipe.x1_relu { Follow::Relu } else { Follow::Nothing };
        let sign = if negates(step, pipe) { -1.0 } else { 1.0 };
        let mul = match step.posts.first() {
            Some(Post::Affine(scale, _)) if pipe.affine => {
                let values: Vec<i16> = scale.iter().map(|&scale| bits(sign * f64::from(scale))).collect();
                Some(if let [value] = values[..] { Operand::Layer(value.into()) } else { Operand::Kernel(values) })
            }
            _ if sign < 0.0 => Some(Operand::Layer(bits(-1.0).into())),
            _ => None,
        };
        (mul.is_some() || follow != Follow::Nothing).then(|| X { mul, follow, ..X::default() })
    }

    fn float_rest(&mut self, step: &Step, pipe: Pipe, x1: Option<X>) -> Stages {
        let mut stages = Stages { x1, ..Stages::default() };
        let follow = if pipe.x2_relu { Follow::Relu } else { Follow::Nothing };
        let layer = |value: f64| Operand::Layer(bits(value).into());
        let many = |values: &[f32]| match values {
            [value] => layer(f64::from(*value)),
            _ => Operand::Kernel(values.iter().map(|&value| bits(f64::from(value))).collect()),
        };
        if pipe.x2_shift {
            if let Some(Post::Affine(_, shift)) = step.posts.first() {
                stages.x2 = Some(X { alu: Some((AluAlgorithm::Sum, many(shift))), follow, ..X::default() });
            }
        }
        if let Some(post) = pipe.x2.map(|x2| &step.posts[x2]) {
            let mut x2 = X { follow, ..X::default() };
            match post {
                Post::With(Combine::Mul, other) => x2.mul = Some(self.operand(step, *other)),
                Post::With(combine, other) => x2.alu = Some((algorithm(*combine), self.operand(step, *other))),
                Post::Slopes(slopes) => {
                    x2.mul = Some(many(slopes));
                    x2.follow = Follow::Prelu;
                }
                Post::Most(limit) => x2.alu = Some((AluAlgorithm::Min, layer(f64::from(*limit)))),
                Post::Least(limit) => x2.alu = Some((AluAlgorithm::Max, layer(f64::from(*limit)))),
                Post::Affine(..) | Post::Relu | Post::Table(..) => {}
            }
            stages.x2 = Some(x2);
        }
        if pipe.y.is_some() || pipe.table.is_some() {
            let mut y = Y::default();
            let single = |value: f32| Operand::Layer(value.to_bits() as i32);
            match pipe.y.map(|y| &step.posts[y]) {
                Some(Post::With(Combine::Mul, other)) => y.mul = Some(self.operand(step, *other)),
                Some(Post::With(combine, other)) => {
                    y.alu = Some((algorithm(*combine), self.operand(step, *other), None));
                }
                Some(Post::Most(limit)) => y.alu = Some((AluAlgorithm::Min, single(*limit), None)),
                Some(Post::Least(limit)) => y.alu = Some((AluAlgorithm::Max, single(*limit), None)),
                _ => {}
            }
            if let Some(Post::Table(unary, low, high)) = pipe.table.map(|table| &step.posts[table]) {
                y.table = Some(self.tables.len());
                let name = self.net.tensors[step.output].name.clone();
                let function = |x: f64| f64::from(unary.apply(x as f32));
                self.float_table(&name, &function, f64::from(*low), f64::from(*high));
            }
            stages.y = Some(y);
        }
        stages
    }

    /// A table in fp16: arguments are not scaled, so that the distance of entries is a power of two. The second table covers
    /// the range. The first has closer entries in the part of it where that makes the largest error least, and goes before
    /// the second.
    fn float_table(&mut self, name: &str, function: &dyn Fn(f64) -> f64, low: f64, high: f64) {
        let entries = LUT_LINEAR_ONLY_ENTRIES - 1;
        let close = LUT_LINEAR_EXP_ENTRIES - 1;
        let select = exponent((high - low).max(1e-3) / entries as f64);
        let step = select.exp2();
        let start = (low / step).floor() * step;
        let finite = |value: f64| if value.is_finite() { value.clamp(-65504.0, 65504.0) } else { 0.0 };
        // The function need not have a value below the range: there it goes on as it does between the range's first
        // argument and the next entry.
        let next = start + step;
        let slope = if next > low { (finite(function(next)) - finite(function(low))) / (next - low) } else { 0.0 };
        let at = |x: f64| finite(if x < low { finite(function(low)) + (x - low) * slope } else { function(x) });
        let values: Vec<f64> = (0..=entries).map(|index| at(start + index as f64 * step)).collect();
        // The largest error of lines between so many entries that begin at an argument.
        let error = |first: f64, step: f64, count: usize| {
            let lines = (0..count * 4).map(|quarter| {
                let (x, part) = (first + (quarter / 4) as f64 * step, (quarter % 4) as f64 / 4.0);
                let line = at(x) * (1.0 - part) + at(x + step) * part;
                (at(x + part * step) - line).abs()
            });
            lines.fold(0f64, f64::max)
        };
        let errors: Vec<f64> = (0..entries).map(|index| error(start + index as f64 * step, step, 1)).collect();
        let most = |errors: &[f64]| errors.iter().copied().fold(0f64, f64::max);
        let worst = (0..entries).max_by(|&a, &b| errors[a].total_cmp(&errors[b])).unwrap_or(0);
        // Error, first entry of the second table, and by how many powers of two the first table's entries are closer.
        let mut best = (f64::INFINITY, 0, 0);
        for closer in 1..=close.ilog2() {
            let covered = close >> closer;
            for first in (worst + 1).saturating_sub(covered)..=worst.min(entries - covered) {
                let outside = most(&errors[..first]).max(most(&errors[first + covered..]));
                let within = error(start + first as f64 * step, step / f64::from(1 << closer), close);
                let largest = outside.max(within);
                if largest < best.0 {
                    best = (largest, first, closer);
                }
            }
        }
        let (error, first, closer) = best;
        let (begin, near) = (start + first as f64 * step, step / f64::from(1 << closer));
        let single = |value: f64| u64::from((value as f32).to_bits());
        let mut table = Lut {
            linear_exp_start: single(begin),
            linear_exp_end: single(begin + close as f64 * near),
            linear_only_start: single(start),
            linear_only_end: single(start + entries as f64 * step),
            linear_exp_offset: (select - f64::from(closer)) as i8,
            linear_only_offset: select as i8,
            hybrid_priority: LutTable::Le,
            underflow_priority: LutTable::Lo,
            overflow_priority: LutTable::Lo,
            method: LutFunction::Linear,
            ..Lut::default()
        };
        for (entry, value) in table.linear_only_table.iter_mut().zip(&values) {
            *entry = bits(*value);
        }
        for (index, entry) in table.linear_exp_table.iter_mut().enumerate() {
            *entry = bits(at(begin + index as f64 * near));
        }
        self.errors.push((name.to_owned(), error));
        self.tables.push(table);
    }
}

fn algorithm(combine: Combine) -> AluAlgorithm {
    match combine {
        Combine::Max => AluAlgorithm::Max,
        Combine::Min => AluAlgorithm::Min,
        Combine::Add { .. } | Combine::Mul => AluAlgorithm::Sum,
    }
}

fn is_mul(step: &Step, at: usize) -> bool {
    matches!(step.posts[at], Post::With(Combine::Mul, _))
}

/// Whether the step's own value is negated before another is added.
fn negates(step: &Step, pipe: Pipe) -> bool {
    let of =
        |at: Option<usize>| at.is_some_and(|at| matches!(step.posts[at], Post::With(Combine::Add { negate: true }, _)));
    of(pipe.x2) || of(pipe.y)
}
