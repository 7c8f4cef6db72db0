// SPDX-License-Identifier: MIT OR Apache-2.0

//! The numbers of a step in fp16. Tensors have no scales.

use nvdla_uapi::desc::{Lut, LutSlope, LUT_LINEAR_EXP_ENTRIES, LUT_LINEAR_ONLY_ENTRIES};
use nvdla_uapi::reg::values::{AluAlgorithm, LutFunction, LutTable};

use crate::ir::{Binary, Graph, Node, Op, Unary};
use crate::net::step::Mode;
use crate::net::step::{Combine, Convolution, Kind, Net, Pipe, PostOp, Step};
use crate::numbers::quantizer::{
    algorithm, negates, transformed, Numbers, Operand, Quantizer, Stages, Weights, XActivation, X, Y,
};
use crate::numbers::tables::{bend, closest, crossed, Halves};
use crate::numbers::tails;
use crate::quantize::exponent;
use nvdla_runtime::half;

fn bits(value: f64) -> i16 {
    half::from_f32(value as f32).to_bits() as i16
}

/// The least number above 0 in half precision.
const LEAST_HALF: f64 = 1.0 / (1 << 24) as f64;
/// The greatest number in half precision.
pub(crate) const GREATEST: f32 = 65504.0;

/// The nodes with a factor that half precision does not hold, and their greatest factor. An addend that is too large only makes its sum
/// the greatest number, which sums beyond it are in any case. A factor would be an infinity, and its product with 0 no number.
pub(crate) fn large_factors(graph: &Graph) -> impl Iterator<Item = (&Node, f32)> {
    graph.nodes.iter().filter_map(|node| {
        let factors = match node.op {
            Op::Binary(Binary::Mul) => &node.inputs[..],
            Op::Convolution(_) | Op::Deconvolution(..) | Op::PRelu => &node.inputs[1..2],
            _ => return None,
        };
        let factors = factors.iter().filter_map(|&id| graph.constant(id)).flat_map(|values| values.iter());
        let most = factors.fold(0.0f32, |most, factor| most.max(factor.abs()));
        (most > GREATEST).then_some((node, most))
    })
}

/// Warnings of constants that half precision does not hold.
pub(crate) fn saturated(net: &Net) -> Vec<String> {
    let mut warnings = Vec::new();
    for step in &net.steps {
        let mut values: Vec<&[f32]> = Vec::new();
        if let Kind::Convolution(conv) = &step.kind {
            values.extend([&conv.weights[..], &conv.bias[..]]);
        }
        for post in &step.post_ops {
            match post {
                PostOp::Affine(scale, shift) => values.extend([&scale[..], &shift[..]]),
                PostOp::Slopes(slopes) => values.push(slopes),
                PostOp::Elements(_, elements) => values.push(&elements.values),
                _ => {}
            }
        }
        let beyond: Vec<f32> = values.iter().flat_map(|values| values.iter()).map(|value| value.abs()).collect();
        let count = beyond.iter().filter(|value| **value > GREATEST).count();
        if count > 0 {
            let (name, most) = (&net.tensors[step.output].name, beyond.iter().copied().fold(0.0, f32::max));
            warnings.push(format!(
                "{name:?}: {count} of its constants, up to {most}, are beyond half precision, which ends at {GREATEST}"
            ));
        }
    }
    warnings
}

/// A factor and an addend as SDP computes them in half precision: `(x + before) * factor + after`.
struct Term {
    before: f64,
    factor: f64,
    after: f64,
}

/// The terms of factors and addends. The addend is added before the factor as far as it can be, because the sum is then as small as
/// the result: the error of the rounded factor is a part of the result, and not of a large addend. What rounding takes from the addend
/// is added afterwards.
fn terms(scale: &[f32], shift: &[f32], sign: f64) -> Vec<Term> {
    let of = |values: &[f32], k: usize| f64::from(values[if values.len() == 1 { 0 } else { k }]);
    let term = |k: usize| {
        let (scale, shift) = (of(scale, k), of(shift, k));
        let rounded = |value: f64| f64::from(half::to_f32(half::from_f32(value as f32)));
        let (factor, before) = (rounded(scale), rounded(shift / scale));
        if scale == 0.0 || factor == 0.0 || before.abs() >= f64::from(GREATEST) {
            return Term { before: 0.0, factor: sign * scale, after: shift };
        }
        Term { before, factor: sign * scale, after: factor * (shift / scale - before) }
    };
    (0..scale.len().max(shift.len())).map(term).collect()
}

/// One value for all channels, or one per channel.
fn many(values: impl Iterator<Item = f64>) -> Operand {
    let values: Vec<i16> = values.map(bits).collect();
    match values[..] {
        [first, ref rest @ ..] if rest.iter().all(|value| *value == first) => Operand::Layer(first.into()),
        _ => Operand::Kernel(values),
    }
}

impl Quantizer<'_> {
    pub(crate) fn float_convolution(&mut self, step: &Step, conv: &Convolution, pipe: Pipe, mode: Mode) -> Numbers {
        debug_assert!(mode != Mode::Image, "fp16 inputs are feature cubes");
        let sign = if negates(step, pipe) { -1.0 } else { 1.0 };
        let winograd = mode == Mode::Winograd;
        let weights = conv.weights.iter().map(|&weight| sign * f64::from(weight));
        let weights =
            if winograd { transformed(weights).into_iter().map(bits).collect() } else { weights.map(bits).collect() };
        let bias = conv.bias.iter().map(|&bias| bits(sign * f64::from(bias))).collect();
        let x1 = X {
            alu: Some((AluAlgorithm::Sum, Operand::Kernel(bias))),
            activation: if pipe.x1_relu { XActivation::Relu } else { XActivation::Nothing },
            ..X::default()
        };
        let weights = Weights::Wide(weights);
        Numbers { weights, winograd, stages: self.float_rest(step, pipe, Some(x1)), ..Numbers::default() }
    }

    pub(crate) fn float_copy(step: &Step, pipe: Pipe) -> Option<X> {
        let activation = if pipe.x1_relu { XActivation::Relu } else { XActivation::Nothing };
        let sign = if negates(step, pipe) { -1.0 } else { 1.0 };
        let (alu, mul) = match step.post_ops.first() {
            Some(PostOp::Affine(scale, shift)) if pipe.affine => {
                let terms = terms(scale, shift, sign);
                let before = many(terms.iter().map(|term| term.before));
                let alu = pipe.x2_shift.then_some((AluAlgorithm::Sum, before));
                (alu, Some(many(terms.iter().map(|term| term.factor))))
            }
            _ if sign < 0.0 => (None, Some(Operand::Layer(bits(-1.0).into()))),
            _ => (None, None),
        };
        (mul.is_some() || activation != XActivation::Nothing).then(|| X { alu, mul, activation, ..X::default() })
    }

    pub(crate) fn float_rest(&mut self, step: &Step, pipe: Pipe, x1: Option<X>) -> Stages {
        let mut stages = Stages { x1, ..Stages::default() };
        let activation = if pipe.x2_relu { XActivation::Relu } else { XActivation::Nothing };
        let layer = |value: f64| Operand::Layer(bits(value).into());
        if pipe.x2_shift {
            if let Some(PostOp::Affine(scale, shift)) = step.post_ops.first() {
                let after = many(terms(scale, shift, 1.0).iter().map(|term| term.after));
                stages.x2 = Some(X { alu: Some((AluAlgorithm::Sum, after)), activation, ..X::default() });
            }
        }
        if let Some(post) = pipe.x2.map(|x2| &step.post_ops[x2]) {
            let mut x2 = X { activation, ..X::default() };
            match post {
                PostOp::With(Combine::Mul, _) | PostOp::Elements(Combine::Mul, _) => {
                    x2.mul = self.operand_of(step, post);
                }
                PostOp::With(combine, _) | PostOp::Elements(combine, _) => {
                    x2.alu = self.operand_of(step, post).map(|operand| (algorithm(*combine), operand));
                }
                PostOp::Slopes(slopes) => {
                    x2.mul = Some(many(slopes.iter().map(|&slope| f64::from(slope))));
                    x2.activation = XActivation::Prelu;
                }
                PostOp::Most(limit) => x2.alu = Some((AluAlgorithm::Min, layer(f64::from(*limit)))),
                PostOp::Least(limit) => x2.alu = Some((AluAlgorithm::Max, layer(f64::from(*limit)))),
                PostOp::Affine(..) | PostOp::Mean | PostOp::Relu | PostOp::Table(..) | PostOp::Within(..) => {}
            }
            stages.x2 = Some(x2);
        }
        if pipe.y.is_some() || pipe.table.is_some() {
            let mut y = Y::default();
            let single = |value: f32| Operand::Layer(value.to_bits() as i32);
            match pipe.y.map(|y| &step.post_ops[y]) {
                Some(post @ (PostOp::With(Combine::Mul, _) | PostOp::Elements(Combine::Mul, _))) => {
                    y.mul = self.operand_of(step, post);
                }
                Some(post @ (PostOp::With(combine, _) | PostOp::Elements(combine, _))) => {
                    let operand = self.operand_of(step, post);
                    y.alu = operand.map(|operand| (algorithm(*combine), operand, None));
                }
                Some(PostOp::Most(limit)) => y.alu = Some((AluAlgorithm::Min, single(*limit), None)),
                Some(PostOp::Least(limit)) => y.alu = Some((AluAlgorithm::Max, single(*limit), None)),
                _ => {}
            }
            if let Some(PostOp::Table(function, low, high)) = pipe.table.map(|table| &step.post_ops[table]) {
                y.table = Some(self.tables.len());
                let name = self.net.tensors[step.output].name.clone();
                if matches!(function.unary, Unary::Octaves(_)) {
                    self.octaves(&|x| function.at(x));
                } else {
                    self.float_table(&name, &|x| function.at(x), function.jump(), [*low, *high].map(f64::from));
                }
            }
            stages.y = Some(y);
        }
        stages
    }

    /// A table in fp16 with one line per octave, for all positive arguments. Its error is that of the step that follows.
    fn octaves(&mut self, function: &dyn Fn(f64) -> f64) {
        let (first, greatest) = (LEAST_HALF.log2(), f64::from(GREATEST));
        let at = |index: f64| {
            let octave = index.floor();
            function((first + octave).exp2() * (1.0 + index - octave)).clamp(-greatest, greatest)
        };
        let values = crossed(&at, LUT_LINEAR_EXP_ENTRIES - 1);
        let single = |value: f64| u64::from((value as f32).to_bits());
        // The first table has priority everywhere.
        let mut table = Lut {
            linear_exp_start: single(0.0),
            linear_exp_end: single((first + (LUT_LINEAR_EXP_ENTRIES - 1) as f64).exp2()),
            linear_only_start: single(0.0),
            linear_only_end: single((LUT_LINEAR_ONLY_ENTRIES - 1) as f64),
            linear_exp_offset: first as i8,
            linear_only_offset: 0,
            hybrid_priority: LutTable::Le,
            underflow_priority: LutTable::Le,
            overflow_priority: LutTable::Le,
            method: LutFunction::Exponent,
            ..Lut::default()
        };
        for (entry, value) in table.linear_exp_table.iter_mut().zip(&values) {
            *entry = bits(*value);
        }
        self.tables.push(table);
    }

    /// A table in fp16. Arguments are not scaled, so the distance between entries is a power of two. The second table covers the
    /// range. The first table has closer entries in the part of the range where they reduce the largest error most, and has
    /// priority. Where the function jumps, the first table begins, so that no entries lie on both sides.
    pub(crate) fn float_table(
        &mut self,
        name: &str,
        function: &dyn Fn(f64) -> f64,
        jump: Option<f64>,
        [low, high]: [f64; 2],
    ) {
        let entries = LUT_LINEAR_ONLY_ENTRIES - 1;
        let close = LUT_LINEAR_EXP_ENTRIES - 1;
        let range = tails::shortened(function, [low, high], true, tails::ERROR);
        let [low, high] = if jump.is_some() { range } else { tails::widened(function, range, [entries, close]) };
        let select = exponent((high - low).max(1e-3) / entries as f64);
        let step = select.exp2();
        let start = (low / step).floor() * step;
        let middle = f64::midpoint(low, high);
        let limited = |value: f64| if value.is_finite() { value.clamp(-65504.0, 65504.0) } else { 0.0 };
        let ends = start + entries as f64 * step;
        let jump = jump.filter(|jump| (start..ends).contains(jump));
        let halves = Halves::new(function, jump);
        let value = |x: f64| limited(tails::finite(function, halves.below(x), LEAST_HALF, middle));
        // The function may have no value below the range. There it continues as between the range's first argument and the next
        // entry.
        let next = start + step;
        let slope = if next > low { (value(next) - value(low)) / (next - low) } else { 0.0 };
        // So it may have none above.
        let end = |x: f64| {
            let before = (high - step).max(low);
            let slope = if high > before { (value(high) - value(before)) / (high - before) } else { 0.0 };
            value(high) + (x - high) * slope
        };
        let at = |x: f64| {
            limited(match x {
                _ if x < low => value(low) + (x - low) * slope,
                _ if x > high && !function(x).is_finite() => end(x),
                _ => value(x),
            })
        };
        let far = |index: f64| at(start + index * step);
        let values = crossed(&far, entries);
        // Of the arguments that the table has besides the range, no error counts.
        let of_range = |begin: f64, step: f64, count: usize| {
            let [first, last] = [(range[0] - begin) / step, (range[1] - begin) / step];
            first.floor().max(0.0) as usize..(last.ceil().max(0.0) as usize).min(count)
        };
        let lines = of_range(start, step, entries);
        let worst =
            |from: usize, to: usize| bend(&far, &|index| values[index], from.max(lines.start)..to.min(lines.end));
        let (begin, near, rest) = if jump.is_some() {
            // It ends at or behind the end of the other one.
            (halves.jump, exponent((ends - halves.jump) / close as f64).exp2(), worst(0, entries))
        } else {
            let (_, first, closer) = closest(&far, u32::MAX);
            let rest = worst(0, first).max(worst(first + (close >> closer), entries));
            (start + first as f64 * step, step / f64::from(1 << closer), rest)
        };
        let nearby = |index: f64| {
            let x = begin + index * near;
            if jump.is_some() {
                limited(halves.above(x))
            } else {
                at(x)
            }
        };
        let closer = crossed(&nearby, close);
        let error = rest.max(bend(&nearby, &|index| closer[index], of_range(begin, near, close)));
        let single = |value: f64| u64::from((value as f32).to_bits());
        let close_end = begin + close as f64 * near;
        let tail = |end: f64, length: f64| LutSlope { scale: bits(tails::slope(function, end, length)), shifter: 0 };
        // Arguments beyond both tables belong to the last curve.
        let (last, close_slope) = match jump {
            Some(_) => (LutTable::Le, tail(close_end, ends - start)),
            None => (LutTable::Lo, LutSlope::default()),
        };
        let mut table = Lut {
            linear_exp_start: single(begin),
            linear_exp_end: single(close_end),
            linear_only_start: single(start),
            linear_only_end: single(ends),
            linear_exp_offset: near.log2() as i8,
            linear_only_offset: select as i8,
            linear_exp_overflow_slope: close_slope,
            linear_only_underflow_slope: tail(start, start - ends),
            linear_only_overflow_slope: tail(ends, ends - start),
            hybrid_priority: LutTable::Le,
            underflow_priority: LutTable::Lo,
            overflow_priority: last,
            method: LutFunction::Linear,
            ..Lut::default()
        };
        for (entry, value) in table.linear_only_table.iter_mut().zip(&values) {
            *entry = bits(*value);
        }
        for (entry, value) in table.linear_exp_table.iter_mut().zip(&closer) {
            *entry = bits(*value);
        }
        self.errors.push((name.to_owned(), error));
        self.tables.push(table);
    }
}
