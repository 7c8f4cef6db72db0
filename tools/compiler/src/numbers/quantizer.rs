// SPDX-License-Identifier: MIT OR Apache-2.0

//! The numbers of each step: weights, operands, shifts and converters, in int8 or fp16.
//!
//! In int8 a tensor's real value is `scale * (q - zero)`. If the steps that write and read a tensor can account for a zero
//! ([`crate::passes::scales`]), it is chosen so that all 256 integers stand for values: -128 for tensors without negative values. Else it
//! is 0. A convolution pads with `zero` and subtracts it in its bias. The output converter's offset adds it. Within a step, values
//! are integers of a unit that X1's factor defines, so that an operand with another scale can be shifted to that unit:
//!
//! ```text
//! X1   v = ((sum + (bias << bias shift)) * factor[k]) >> 15 or so        in units of U
//! X2   v = v + (operand << s), where the operand's scale is U * 2^s      in units of U
//! Y    v = v + ((operand - its zero) * factor >> truncate)               in units of U
//! out  q = (v - offset) * scale >> truncate                              in units of the output's scale
//! ```
//!
//! In int16 the sums have up to 48 bits. CACC shifts them right so that the largest possible one has `SUM_BITS`, which leaves
//! bits for operands of 16 bits in SDP's 32.

use std::collections::HashMap;
use std::ops;

use nvdla_runtime::half;
use nvdla_uapi::desc::Lut;
use nvdla_uapi::reg::values::{AluAlgorithm, Precision};

use crate::error::Error;
use crate::ir::{Range, Ranges};
use crate::net::step::Mode;
use crate::net::step::{Combine, Elements, Kind, Lrn, Net, Pipe, PostOp, Step, Tensor, TensorId};
use crate::numbers::tables::{self, Table, User};
use crate::passes::inputs::Inputs;
use crate::quantize::{exponent, Factor, Granularity, LARGEST};
use crate::target::LARGEST_WIDE;

/// Bits of the largest sum of a convolution in int16.
pub(crate) const SUM_BITS: f64 = 27.0;
/// The largest left shift of an operand of 8 bits, and of one of 16.
const LARGEST_SHIFTS: [f64; 2] = [20.0, 12.0];

/// The source of a sub-unit's operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// One value, in a register.
    Layer(i32),
    /// One value per channel; bits of fp16 in fp16.
    Kernel(Vec<i16>),
    /// One value per element of a tensor.
    Element(TensorId),
    /// One constant per element; bits of fp16 in fp16.
    Elements(Elements<i16>),
    /// One value per channel of a tensor of one line and column.
    Gate(TensorId),
}

/// The activation after a sub-unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XActivation {
    /// Nothing.
    #[default]
    Nothing,
    /// ReLU.
    Relu,
    /// PReLU: the factor applies only to negative values.
    Prelu,
}

/// Sub-unit X1 or X2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct X {
    /// The ALU, which comes first.
    pub alu: Option<(AluAlgorithm, Operand)>,
    /// Left shift of the ALU's operand.
    pub shift: u8,
    /// The multiplier, which comes second.
    pub mul: Option<Operand>,
    /// Right shift of the product.
    pub truncate: u8,
    /// The activation, which comes last.
    pub activation: XActivation,
}

/// Sub-unit Y.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Y {
    /// The multiplier, which comes first.
    pub mul: Option<Operand>,
    /// Right shift of the product.
    pub truncate: u8,
    /// The ALU, which comes second, with the converter of an operand from memory.
    pub alu: Option<(AluAlgorithm, Operand, Option<Factor>)>,
    /// The zero of an operand from memory, which its converter subtracts first.
    pub zero: i32,
    /// The lookup table, which comes last.
    pub table: Option<usize>,
}

/// The functions of SDP's sub-units in a step.
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
    /// The offset that the output converter subtracts first.
    pub offset: i32,
}

/// CDMA's converter: integer = (component - offset) * scale >> truncate, limited to the precision of the convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converter {
    /// Whether components are bytes from 0 to 255. Otherwise they are int8.
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

    /// The converter for an image whose components represent zero as `zeros`. It maps zero to 0, or, if all components have the
    /// same zero, to an integer that lets it use more bits. None: components are used unchanged. A `wide` convolution takes all
    /// differences, and only the converter makes 16 bits of bytes.
    pub(crate) fn new(zeros: &[f64], unsigned: bool, wide: bool) -> Option<Self> {
        let mut offsets = [0; 4];
        if wide {
            zeros.iter().zip(&mut offsets).for_each(|(zero, offset)| *offset = zero.round() as i16);
            return Some(Self { unsigned, offsets, scale: 1, truncate: 0 });
        }
        if !unsigned {
            zeros.iter().zip(&mut offsets).for_each(|(zero, offset)| *offset = zero.round() as i16);
            return (offsets != [0; 4]).then_some(Self { unsigned, offsets, scale: 1, truncate: 0 });
        }
        // The greatest distance from zero. One more than int8 can hold does not justify a factor.
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

/// The integers of a convolution's weights.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// int8.
    Narrow(Vec<i8>),
    /// int16, or bits of fp16.
    Wide(Vec<i16>),
}

impl Weights {
    /// One of them.
    pub fn at(&self, at: usize) -> i16 {
        match self {
            Self::Narrow(weights) => weights[at].into(),
            Self::Wide(weights) => weights[at],
        }
    }

    /// Copies some of them, one after another.
    pub(crate) fn copy<T>(&self, at: ops::Range<usize>, to: &mut [T], element: impl Fn(i16) -> T) {
        match self {
            Self::Narrow(weights) => {
                to.iter_mut().zip(&weights[at]).for_each(|(to, &weight)| *to = element(weight.into()));
            }
            Self::Wide(weights) => to.iter_mut().zip(&weights[at]).for_each(|(to, &weight)| *to = element(weight)),
        }
    }
}

impl Default for Weights {
    fn default() -> Self {
        Self::Wide(Vec::new())
    }
}

/// The numbers of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// A convolution's weights, as in `Convolution::weights`. For Winograd's mode `[K, C, 4, 4]`, transformed.
    pub weights: Weights,
    /// Whether a convolution runs in Winograd's mode.
    pub winograd: bool,
    /// The right shift of a convolution's sums before they are limited to 32 bits.
    pub truncate: u8,
    /// The converter from an image's components to the integers of the convolution.
    pub converter: Option<Converter>,
    /// The padding integer, which represents 0.
    pub outside: i16,
    /// The functions of SDP.
    pub stages: Stages,
    /// CDP's lookup table, and its output converter.
    pub normalisation: Option<(usize, Factor)>,
}

/// The scale of a tensor: value = scale * (integer - zero).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The real value of one step.
    pub scale: f64,
    /// The integer that represents 0.
    pub zero: i32,
}
/// The least factor of 2 by which a unit grows when it is multiplied by that of another tensor.
const PRODUCT: f64 = 16.0;

/// Computes numbers.
pub struct Quantizer<'a> {
    /// The network.
    pub net: &'a Net,
    /// The preprocessing of its inputs.
    pub inputs: &'a Inputs,
    /// The scale of every tensor.
    pub scales: &'a [Scale],
    /// The means of the channels of the graph's tensors.
    pub ranges: &'a Ranges,
    /// The tensors that copies in another precision are made of.
    pub copies: &'a HashMap<TensorId, TensorId>,
    /// int8 or fp16.
    pub precision: Precision,
    /// How weights are scaled.
    pub granularity: Granularity,
    /// The ranges of lookup tables that steps share, by their outputs.
    pub shared: HashMap<TensorId, [f64; 2]>,
    /// Lookup tables so far.
    pub tables: Vec<Lut>,
    /// The largest error of each table, in steps of the output, with the tensor's name.
    pub errors: Vec<(String, f64)>,
}

/// Winograd's transform of each kernel's 3 x 3 planes: G W G^T.
pub(crate) fn transformed(weights: impl IntoIterator<Item = f64>) -> Vec<f64> {
    const G: [[f64; 3]; 4] = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]];
    let weights: Vec<f64> = weights.into_iter().collect();
    let planes = weights.chunks_exact(9).map(|plane| -> [f64; 16] {
        std::array::from_fn(|at| {
            let products =
                plane.iter().enumerate().map(|(tap, weight)| G[at / 4][tap / 3] * G[at % 4][tap % 3] * weight);
            products.sum()
        })
    });
    planes.flatten().collect()
}

impl Quantizer<'_> {
    /// The numbers of all steps. `mode` gives the mode of a convolution.
    pub(crate) fn steps(&mut self, mode: impl Fn(&Step) -> Mode) -> Result<Vec<Numbers>, Error> {
        let net = self.net;
        if self.precision != Precision::Fp16 {
            let users = net.steps.iter().filter_map(|step| self.table_user(step)).collect();
            self.shared = tables::shared(users);
        }
        let numbers = net.steps.iter().map(|step| match step.kind {
            Kind::Convolution(_) => self.step(step, mode(step)),
            Kind::Product | Kind::Copy => self.step(step, Mode::Direct),
            Kind::Lrn(ref lrn) => self.normalisation(step, lrn),
            _ => Ok(Numbers::default()),
        });
        numbers.collect()
    }

    /// The numbers of a step. `mode` is the mode of a convolution.
    fn step(&mut self, step: &Step, mode: Mode) -> Result<Numbers, Error> {
        let name = &self.net.tensors[step.output].name;
        let pipe = self.net.pipe(self.inputs.config, &step.kind, &step.post_ops, step.output);
        let pipe = pipe.ok_or_else(|| Error::unsupported(name, "SDP has too few sub-units for what follows"))?;
        match (&step.kind, self.precision) {
            (Kind::Convolution(conv), Precision::Fp16) => Ok(self.float_convolution(step, conv, pipe, mode)),
            (_, Precision::Fp16) => {
                let x1 = Self::float_copy(step, pipe);
                Ok(Numbers { stages: self.float_rest(step, pipe, x1), ..Numbers::default() })
            }
            (Kind::Convolution(conv), _) => self.int_convolution(step, conv, pipe, mode),
            _ => self.int_copy(step, pipe),
        }
    }

    /// A step in 8 bits that ends with a table of arguments whose unit X1 can choose.
    fn table_user(&self, step: &Step) -> Option<User> {
        if self.entry_per_integer(step) {
            return None;
        }
        let narrow = !step.reads().chain([step.output]).any(|id| self.net.tensors[id].wide);
        if !narrow || !step.kind.in_sdp() {
            return None;
        }
        let pipe = self.net.pipe(self.inputs.config, &step.kind, &step.post_ops, step.output)?;
        let combines = pipe.x2.is_some_and(|x2| matches!(step.post_ops[x2], PostOp::With(..) | PostOp::Elements(..)));
        match step.post_ops[pipe.table.filter(|_| pipe.y.is_none() && !combines)?] {
            PostOp::Table(function, low, high) => {
                let (output, range) = (step.output, [low, high].map(f64::from));
                Some(User { output, function, range, scale: self.scales[output].scale, step: self.argument_step(step) })
            }
            _ => None,
        }
    }

    /// The scale of the integers of a copy, or of the sums of a product.
    pub(crate) fn own_scale(&self, step: &Step) -> f64 {
        let factors = if step.kind == Kind::Product { &step.inputs[..] } else { &step.inputs[..1] };
        factors.iter().map(|&id| self.scales[id].scale).product()
    }

    /// The greatest step of the integers that X1 multiplies.
    fn argument_step(&self, step: &Step) -> f64 {
        let own = self.own_scale(step);
        let largest = |values: &[f32]| f64::from(values.iter().fold(0f32, |largest, value| largest.max(value.abs())));
        match (&step.kind, step.post_ops.first()) {
            (Kind::Convolution(conv), _) => largest(&conv.weights) / LARGEST * own,
            (_, Some(PostOp::Affine(scale, _))) => largest(scale) * own,
            _ => own,
        }
    }

    /// Whether a step is a table of the integers of a quantized model. Such a table has an entry for each of them, so that nothing is
    /// interpolated.
    pub(crate) fn entry_per_integer(&self, step: &Step) -> bool {
        let input = step.inputs[0];
        let Tensor { range, wide, .. } = &self.net.tensors[input];
        let table = matches!(&step.post_ops[..], [PostOp::Table(..)] | [PostOp::Table(..), PostOp::Within(..)]);
        let own = range.is_some_and(|range| range.given) && !wide && self.inputs.of(input).is_none();
        table && own && step.kind == Kind::Copy
    }

    /// The numbers of a normalisation. In int8 the table's argument is the sum of squares of integers.
    pub fn normalisation(&mut self, step: &Step, lrn: &Lrn) -> Result<Numbers, Error> {
        let name = self.net.tensors[step.output].name.clone();
        let range = self.net.tensors[step.inputs[0]].range;
        let (table, out) = if self.precision == Precision::Fp16 {
            let square = |range: Range| f64::from(range.min.abs().max(range.max.abs())).powi(2) * lrn.size as f64;
            let most = range.map_or_else(|| lrn.usual(), square);
            let factor = |sum: f64| if sum < 0.0 { f64::NAN } else { lrn.factor(sum) };
            self.float_table(&name, &factor, None, [0.0, most]);
            (self.tables.len() - 1, Factor { scale: 1, truncate: 0 })
        } else {
            let own = self.scales[step.inputs[0]].scale;
            let most = LARGEST * LARGEST * lrn.size as f64;
            // The scale of the factor in the table.
            let (square, target) = (own * own, self.scales[step.output].scale);
            let (function, range) = (|sum| lrn.factor(sum), [0.0, most * square]);
            let table = Table::new(&function, None, range, square, false);
            let (number, unit) = self.table(&name, &function, range, &table, target / own / LARGEST);
            (number, Factor::nearest(&name, unit * own / target)?)
        };
        Ok(Numbers { normalisation: Some((table, out)), ..Numbers::default() })
    }

    /// A unit near `finest` that the following sub-units can use, and the left shift of the tensor that X2 combines.
    pub(crate) fn unit(&self, step: &Step, pipe: Pipe, finest: f64) -> Option<(f64, u8)> {
        let least = self.least_unit(step, pipe);
        if let Some((combine, scale, wide)) = pipe.x2.and_then(|x2| self.combined(step, &step.post_ops[x2])) {
            if combine != Combine::Mul {
                let most = LARGEST_SHIFTS[usize::from(wide)];
                let fitting = (scale / least).log2().floor();
                let shift = exponent(scale / finest).min(fitting).clamp(0.0, most);
                return Some((scale / shift.exp2(), shift as u8));
            }
            return (finest < least).then_some((least, 0));
        }
        if self.entry_per_integer(step) {
            return Some((self.scales[step.inputs[0]].scale, 0));
        }
        if let (Some(PostOp::Table(_, low, high)), None) = (pipe.table.map(|table| &step.post_ops[table]), pipe.y) {
            if let Some([low, high]) = self.shared.get(&step.output) {
                return Some(((high - low) / 256.0 / tables::UNITS, 0));
            }
            let range = (f64::from(*high) - f64::from(*low)).max(1e-6);
            let select = exponent(range / 256.0 / finest).max(0.0);
            return Some((range / 256.0 / select.exp2(), 0));
        }
        (finest < least).then_some((least, 0))
    }

    /// The least unit for which the factor of the tensor that Y combines fits 16 bits, and the output's zero 31 bits.
    fn least_unit(&self, step: &Step, pipe: Pipe) -> f64 {
        let combined = |at: Option<usize>| {
            let (combine, scale, _) = self.combined(step, &step.post_ops[at?])?;
            Some((combine, scale))
        };
        let Scale { scale, zero } = self.scales[step.output];
        let of_zero = if pipe.table.is_some() { 0.0 } else { f64::from(zero.abs()) * scale / f64::from(1 << 30) };
        let of_y = match combined(pipe.y) {
            Some((Combine::Mul, factor)) => of_zero / factor / PRODUCT,
            Some((_, scale)) => of_zero.max(scale / f64::from(i16::MAX)),
            None => of_zero,
        };
        match combined(pipe.x2) {
            Some((Combine::Mul, factor)) => of_y / factor / PRODUCT,
            _ => of_y,
        }
    }

    /// How a post-operation combines a step's value with an operand of its own scale, that scale, and whether the operand has 16 bits.
    pub(crate) fn combined(&self, step: &Step, post: &PostOp) -> Option<(Combine, f64, bool)> {
        match post {
            PostOp::With(combine, other) => Some((*combine, self.scales[*other].scale, self.net.tensors[*other].wide)),
            PostOp::Elements(combine, elements) => {
                let wide = self.net.computes(step, self.precision) == Precision::Int16;
                let largest = elements.values.iter().fold(1e-20f32, |largest, value| largest.max(value.abs()));
                let most = if wide { LARGEST_WIDE } else { LARGEST };
                Some((*combine, f64::from(largest) / most, wide))
            }
            _ => None,
        }
    }

    /// The operand of such a post-operation.
    pub(crate) fn operand_of(&self, step: &Step, post: &PostOp) -> Option<Operand> {
        match post {
            PostOp::With(_, other) => Some(self.operand(step, *other)),
            PostOp::Elements(_, Elements { shape, values }) => {
                let (_, scale, _) = self.combined(step, post)?;
                let integer = |value: &f32| match self.precision {
                    Precision::Fp16 => half::from_f32(*value).to_bits() as i16,
                    _ => (f64::from(*value) / scale).round() as i16,
                };
                Some(Operand::Elements(Elements { shape: *shape, values: values.iter().map(integer).collect() }))
            }
            _ => None,
        }
    }

    fn operand(&self, step: &Step, other: TensorId) -> Operand {
        let [shape, own] = [other, step.output].map(|id| self.net.tensors[id].shape);
        if shape == own {
            Operand::Element(other)
        } else {
            Operand::Gate(other)
        }
    }
}

pub(crate) fn algorithm(combine: Combine) -> AluAlgorithm {
    match combine {
        Combine::Max => AluAlgorithm::Max,
        Combine::Min => AluAlgorithm::Min,
        Combine::Add { .. } | Combine::Mul => AluAlgorithm::Sum,
    }
}

pub(crate) fn is_mul(step: &Step, at: usize) -> bool {
    matches!(step.post_ops[at], PostOp::With(Combine::Mul, _) | PostOp::Elements(Combine::Mul, _))
}

/// Whether the step's own value is negated before another one is added.
pub(crate) fn negates(step: &Step, pipe: Pipe) -> bool {
    let of = |at: Option<usize>| {
        at.is_some_and(|at| matches!(step.post_ops[at], PostOp::With(Combine::Add { negate: true }, _)))
    };
    of(pipe.x2) || of(pipe.y)
}
