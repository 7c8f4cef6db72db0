// SPDX-License-Identifier: MIT OR Apache-2.0

//! The numbers of a step in int8 or int16. [`crate::numbers::quantizer`] explains values, units and scales.

use nvdla_uapi::reg::values::AluAlgorithm;
use rayon::prelude::*;

use crate::error::Error;
use crate::ir;
use crate::net::step::Mode;
use crate::net::step::{added_last, Combine, Convolution, Kind, Pipe, PostOp, Step};
use crate::numbers::quantizer::{
    algorithm, is_mul, negates, transformed, Converter, Numbers, Operand, Quantizer, Scale, Stages, Weights,
    XActivation, SUM_BITS, X, Y,
};
use crate::numbers::tables::Table;
use crate::options::Bytes;
use crate::quantize::{bias_values, exponent, keep_sums, largest_of, round, round_all, Factor, Granularity, LARGEST};
use crate::target::{LARGEST_WIDE, PRA_TRUNCATE};
use crate::vector::vectorised;

/// The least factor. Kernels with smaller weights use fewer of their eight bits instead.
const SMALLEST_FACTOR: f64 = 256.0;

/// The largest weight of a convolution, divided by that of a kernel whose factor is [`SMALLEST_FACTOR`].
const SMALL_KERNEL: f64 = 128.0;
/// The least step of a table's entries, in steps of the output.
const LEAST_ENTRY: f64 = 1.0 / (1 << 22) as f64;
/// The least factor that X2 corrects.
const SMALLEST_CORRECTED: f64 = 32.0;
/// The parts of X2's factor.
const ONE: f64 = 16384.0;
/// How many powers of two X1's unit is smaller than the step of the output, if X2 corrects X1.
const FINER: f64 = 18.0;
/// How far a multiple of a step may be from a whole number.
const WHOLE: f64 = 1e-3;
/// How much larger sums can be because factors and weights are rounded.
const ROUNDING: f64 = 1.02;
/// The largest difference of an image's byte from its mean.
const BYTES: f64 = 256.0;
/// The right shift of a product with a tensor of 16 bits.
const PRODUCT_SHIFT: u8 = 14;
/// The largest bias, in its steps. 16 bits and a shift of 16 hold twice as much. The rest is for the values that rounding and
/// zeros add.
const LARGEST_BIAS: f64 = (1 << 30) as f64;
/// The largest limit, in units. Values stay below it.
const LARGEST_LIMIT: f64 = (1 << 30) as f64;

/// The greatest number of steps of a weight on a [`grid`].
const STEPS: usize = 128;

vectorised! {
    /// For each number of steps that the largest weight may be, from 1, whether a weight is a whole number of these steps.
    fn whole_steps(weight: f64, largest: f64) -> [bool; STEPS] {
        // As in `round_all`. The middle between two integers is far from both.
        const SUM: f64 = (3u64 << 51) as f64;
        let mut fits = [false; STEPS];
        for (k, fits) in fits.iter_mut().enumerate() {
            let steps = weight / (largest / (k as f64 + 1.0));
            let whole = steps + SUM - SUM;
            *fits = (steps - whole).abs() < WHOLE && whole <= LARGEST;
        }
        fits
    }
}

/// The step of which all weights of a kernel are whole multiples from -128 to 127, as in a quantized model, if there is one. `largest` is
/// the largest magnitude.
fn grid(kernel: &[f64], largest: f64) -> Option<f64> {
    let fits = |weight: &f64, step: f64| {
        let (steps, whole) = (weight / step, f64::from(round(weight / step)));
        (steps - whole).abs() < WHOLE && whole <= LARGEST
    };
    if largest == 0.0 {
        return Some(0.0);
    }
    // The first weight leaves few.
    let first = whole_steps(*kernel.first()?, largest);
    let steps = (1..=STEPS).rev().filter(|count| first[count - 1]).map(|count| largest / count as f64);
    let mut steps = steps.filter(|&step| kernel.iter().all(|weight| fits(weight, step)));
    steps.next()
}

vectorised! {
    /// How much the rounding of a kernel's weights changes its sums on average. `means` has the mean of each channel, of which a kernel
    /// has as many weights as a window has elements.
    fn mean_change(reals: &[f64], integers: &[i16], step: f64, window: usize, means: &[f32]) -> f64 {
        const LANES: usize = 4;
        let change = |real: f64, integer: i16| real - f64::from(integer) * step;
        if window > 1 {
            let planes = reals.chunks_exact(window).zip(integers.chunks_exact(window)).zip(means);
            let of_plane = |((reals, integers), mean): ((&[f64], &[i16]), &f32)| {
                reals.iter().zip(integers).map(|(&real, &integer)| change(real, integer)).sum::<f64>() * f64::from(*mean)
            };
            return planes.map(of_plane).sum();
        }
        let mut sums = [0.0; LANES];
        let mut add = |reals: &[f64], integers: &[i16], means: &[f32]| {
            for (((sum, &real), &integer), &mean) in sums.iter_mut().zip(reals).zip(integers).zip(means) {
                *sum += change(real, integer) * f64::from(mean);
            }
        };
        let (all, rest) = reals.as_chunks::<LANES>();
        let (all_integers, rest_integers) = integers.as_chunks::<LANES>();
        let (all_means, rest_means) = means[..reals.len()].as_chunks::<LANES>();
        for ((reals, integers), means) in all.iter().zip(all_integers).zip(all_means) {
            add(reals, integers, means);
        }
        add(rest, rest_integers, rest_means);
        sums.iter().sum()
    }
}

/// The factor of X1 near `ideal`, and the factor of X2 in parts of [`ONE`], whose product is nearest to `ideal`.
fn product(ideal: f64) -> (f64, f64) {
    let pair = |offset: i32| {
        let first = (ideal.round() + f64::from(offset)).clamp(1.0, f64::from(i16::MAX));
        (first, (ideal / first * ONE).round().min(f64::from(i16::MAX)))
    };
    let off = |(first, second): &(f64, f64)| (first * second / ONE - ideal).abs();
    (-256..=256).map(pair).min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or((ideal.round(), ONE))
}

/// The greatest shift for which factors up to `largest` fit 16 bits.
fn factor_shift(largest: f64) -> f64 {
    (f64::from(i16::MAX) / largest).log2().floor().clamp(0.0, 31.0)
}

fn of(values: &[f32], k: usize) -> f64 {
    f64::from(values[if values.len() == 1 { 0 } else { k }])
}

/// Memory of a thread that rounds kernels: the weights in steps, and as they are; the integers; what [`keep_sums`] needs.
type Scratch = (Vec<f64>, Vec<f64>, Vec<i16>, Vec<f64>);

/// The integers of all kernels, and the result of `rounded` for each.
fn all_kernels<T: Copy + Default + Send>(
    kernels: usize,
    each: usize,
    rounded: impl Fn(&mut Scratch, usize) -> f64 + Sync,
    element: impl Fn(i16) -> T + Sync,
) -> (Vec<T>, Vec<f64>) {
    let mut all = vec![T::default(); kernels * each];
    let results = all.par_chunks_exact_mut(each).enumerate().map_init(Scratch::default, |scratch, (k, kernel)| {
        let result = rounded(scratch, k);
        kernel.iter_mut().zip(&scratch.2).for_each(|(to, &integer)| *to = element(integer));
        result
    });
    let results = results.collect();
    (all, results)
}

impl Quantizer<'_> {
    pub(crate) fn int_convolution(
        &mut self,
        step: &Step,
        conv: &Convolution,
        pipe: Pipe,
        mode: Mode,
    ) -> Result<Numbers, Error> {
        let input = step.inputs[0];
        let name = self.net.tensors[step.output].name.clone();
        let channels = self.net.tensors[input].shape[0] as usize;
        let winograd = mode == Mode::Winograd;
        let wide = self.net.tensors[input].wide;
        let most = if wide { LARGEST_WIDE } else { LARGEST };
        let transformed = winograd.then(|| transformed(conv.weights.iter().map(|&weight| f64::from(weight))));
        let each = transformed.as_ref().map_or(conv.weights.len(), Vec::len) / conv.kernels;
        let per_group = channels / conv.op.group;
        let window = each / per_group;
        // The contribution of each weight of a window for an input that is 1 everywhere. Winograd's transform makes it zero, except 4
        // at (1, 1).
        let ones = |at: usize| match (winograd, at) {
            (false, _) => 1.0,
            (true, 5) => f64::from(PRA_TRUNCATE).exp2(),
            (true, _) => 0.0,
        };
        // The first channel of a kernel's weights.
        let first = |k: usize| k / (conv.kernels / conv.op.group) * per_group;
        let real = |k: usize, reals: &mut Vec<f64>| {
            reals.clear();
            match &transformed {
                Some(weights) => reals.extend_from_slice(&weights[k * each..][..each]),
                None => reals.extend(conv.weights[k * each..][..each].iter().map(|&weight| f64::from(weight))),
            }
        };
        let (Scale { scale: mut own, zero }, mut converter) = (self.scales[input], None);
        // How many steps of the tensor a step of each channel of an input is.
        let (relative, zeros) = match self.inputs.of(input) {
            Some(known) => {
                let relative: Vec<f64> = (0..channels).map(|c| known.scale(c) / own).collect();
                let zeros: Vec<f64> = (0..channels).map(|c| known.zero(c)).collect();
                if mode == Mode::Image {
                    converter = Converter::new(&zeros, known.bytes == Bytes::Eight, wide);
                }
                (relative, zeros)
            }
            None => (Vec::new(), vec![f64::from(zero); channels]),
        };
        let factor = converter.map_or(1.0, |converter| converter.factor());
        own /= factor;
        // The weights of a kernel for the integers of the input.
        let kernel = |k: usize, kernel: &mut Vec<f64>| {
            real(k, kernel);
            for (plane, relative) in kernel.chunks_exact_mut(window).zip(relative.iter().skip(first(k))) {
                for weight in plane {
                    *weight *= relative;
                }
            }
        };
        // Kernels with the integers of a quantized model.
        let exact = !wide && !winograd && self.granularity == Granularity::Kernel;
        let measured = (0..conv.kernels).into_par_iter().map_init(Vec::new, |weights, k| {
            kernel(k, weights);
            let (kernel, largest) = (&weights[..], largest_of(weights));
            let grid = if exact { grid(kernel, largest) } else { None };
            let sum = if wide { kernel.iter().map(|weight| weight.abs()).sum::<f64>() } else { 0.0 };
            (grid.map_or(largest, |step| step * most), grid, sum)
        });
        let measured: Vec<(f64, Option<f64>, f64)> = measured.collect();
        let grids: Vec<Option<f64>> = measured.iter().map(|measured| measured.1).collect();
        let mut largest: Vec<f64> = measured.iter().map(|measured| measured.0).collect();
        let sign = if negates(step, pipe) { -1.0 } else { 1.0 };
        // The zero of the tensor that X2 adds. Behind a ReLU the output converter subtracts it (`added_last`).
        let added = match pipe.x2.map(|x2| &step.post_ops[x2]) {
            Some(PostOp::With(Combine::Add { .. }, other)) if !pipe.x1_relu => {
                let Scale { scale, zero } = self.scales[*other];
                -sign * scale * f64::from(zero)
            }
            _ => 0.0,
        };
        // If the products are far smaller than the bias, as behind a gate that is closed, the bias decides how small a step is.
        for (largest, &bias) in largest.iter_mut().zip(&conv.bias) {
            *largest = largest.max((f64::from(bias) + added).abs() / LARGEST_BIAS * most / own);
        }
        let over_all = largest.iter().copied().fold(1e-30, f64::max);
        if self.granularity == Granularity::Layer {
            largest.fill(over_all);
        }
        let cacc = if wide {
            // The largest sum or bias of each kernel, in its steps.
            let input = if mode == Mode::Image { BYTES } else { LARGEST_WIDE + 1.0 };
            let sums = measured.iter().zip(&largest).zip(&conv.bias).map(|((&(.., sum), &largest), &bias)| {
                (sum * input + f64::from(bias.abs()) / own) / (largest.max(over_all / SMALL_KERNEL) / most)
            });
            (exponent(sums.fold(1.0, f64::max) * ROUNDING) - SUM_BITS).max(0.0)
        } else {
            0.0
        };
        let transform = if winograd { f64::from(PRA_TRUNCATE).exp2() } else { cacc.exp2() };
        own *= transform;
        let finest = over_all / most * own;
        let least = finest * 32768.0 / 32767.0;
        let own_step = self.scales[step.output].scale;
        let last = pipe.x2.is_none() && pipe.y.is_none() && pipe.table.is_none();
        let free = self.unit(step, pipe, finest);
        // In a quantized model X2 corrects what X1's 16 bits round of factors and bias, so that the integers are the model's own.
        let given = self.net.tensors[step.output].range.is_some_and(|range| range.given);
        let corrected = last
            && given
            && exact
            && free.is_none()
            && self.inputs.config.sdp_bn
            && !conv.is_average()
            && grids.iter().all(Option::is_some);
        let (unit, shift) = match free {
            Some(found) => found,
            None if corrected => {
                let finer = (ONE * own_step / finest).log2().floor().clamp(0.0, FINER);
                (own_step / finer.exp2(), 0)
            }
            // X1 makes the output's integers, which are rounded once. The output converter then is the same in all such layers,
            // and the driver need not write it again.
            None if last && !wide && own_step > least => (own_step, 0),
            None => (least, 0),
        };
        let truncate = factor_shift(finest / unit);
        let least_factor = if corrected { SMALLEST_CORRECTED } else { SMALLEST_FACTOR };
        let least_factor = least_factor.min((finest / unit * truncate.exp2()).floor().max(1.0));
        let products: Vec<(f64, f64)> = largest
            .iter()
            .map(|&largest| {
                let ideal = largest / most * own / unit * truncate.exp2();
                if corrected && ideal >= least_factor {
                    product(ideal)
                } else {
                    (ideal.round().clamp(least_factor, f64::from(i16::MAX)), ONE)
                }
            })
            .collect();
        let factors: Vec<f64> = products.iter().map(|product| product.0).collect();
        // The weights are computed from the rounded factors, and not the factors from the weights.
        let steps: Vec<f64> =
            products.iter().map(|(factor, by)| factor * by / ONE * unit / truncate.exp2() / own).collect();
        // An image's zero is subtracted when it is read, rounded to an integer. The remainder, or an input's zero that is not
        // subtracted, adds a constant to every sum, which the bias subtracts.
        let rests: Vec<f64> = zeros
            .iter()
            .enumerate()
            .map(|(c, zero)| (zero - converter.map_or(0.0, |converter| f64::from(converter.offsets[c]))) * factor)
            .collect();
        let outside = rests[0].round() as i16;
        // The mean change of the output by the rounding of weights.
        let original = self.copies.get(&input).copied().unwrap_or(input);
        let means = self.ranges.means(ir::TensorId(original)).filter(|means| means.values.len() == channels);
        // The emulator rounds the shares of a softmax down. What that takes is in proportion to the step.
        let steps_of_shares = self.scales[input].scale * 127.0;
        let lost = |c: usize| match means.and_then(|means| means.losses.as_ref()) {
            Some(losses) => f64::from(losses[c]) * steps_of_shares,
            None => 0.0,
        };
        // All rests of a tensor that is no input are one whole number, and a weight has one factor, so that sums of integers are enough.
        let alike = relative.is_empty() && !winograd && means.is_none_or(|means| means.losses.is_none());
        // Rounds a kernel's weights, and returns its bias.
        let rounded = |(stepped, reals, integers, errors): &mut Scratch, k: usize| {
            let (grid, step) = (grids[k], steps[k]);
            integers.resize(each, 0);
            kernel(k, stepped);
            let least = if grid.is_some() { -most - 1.0 } else { -most };
            round_all(stepped, step, [least, most], integers);
            // The transformed elements of a window are not alike.
            if grid.is_none() && !winograd && window > 1 {
                keep_sums(stepped, window, most, integers, errors);
            }
            let (mut rest, mut change) = (0.0, 0.0);
            if rests.iter().all(|&rest| rest == 0.0) {
                // Nothing is added.
            } else if alike {
                rest = rests[0] * integers.iter().map(|&weight| i64::from(weight)).sum::<i64>() as f64;
            } else {
                for (plane, by) in integers.chunks_exact(window).zip(&rests[first(k)..]) {
                    let products = plane.iter().enumerate().map(|(at, &weight)| f64::from(weight) * by * ones(at));
                    products.for_each(|product| rest += product);
                }
            }
            // A power of two.
            rest /= transform;
            if let Some(means) = means {
                let means = &means.values[first(k)..];
                real(k, reals);
                if alike {
                    change = mean_change(reals, integers, step, window, means);
                } else {
                    let planes = integers.chunks_exact(window).zip(reals.chunks_exact(window));
                    for ((plane, real), (c, mean)) in planes.zip((first(k)..).zip(means)) {
                        let loss = lost(c);
                        let (own, mean) = (relative.get(c).map_or(step, |by| step / by), f64::from(*mean));
                        for (at, (&weight, real)) in plane.iter().zip(real).enumerate() {
                            let integer = f64::from(weight) * own;
                            change += ((real - integer) * mean + integer * loss) * ones(at);
                        }
                    }
                }
            }
            (f64::from(conv.bias[k]) + change + added) / (own * step) - rest
        };
        let (weights, sums) = if wide {
            let (weights, sums) = all_kernels(conv.kernels, each, rounded, |weight| weight);
            (Weights::Wide(weights), sums)
        } else {
            let (weights, sums) = all_kernels(conv.kernels, each, rounded, |weight| weight as i8);
            (Weights::Narrow(weights), sums)
        };
        let (bias, bias_shift) = bias_values(&name, &sums)?;
        let remainder = |k: usize| (sums[k] - f64::from(bias[k]) * f64::from(bias_shift).exp2()) * factors[k];
        let remainders = (0..conv.kernels).map(|k| (remainder(k) / truncate.exp2()).round() as i16).collect();
        // One factor for all kernels is the output converter's, so that it is not stored per kernel.
        let converted = last && !wide && sign > 0.0 && self.granularity == Granularity::Layer;
        let mul = Operand::Kernel(factors.iter().map(|factor| (sign * factor) as i16).collect());
        let unit = if converted { own * steps[0] } else { unit };
        let x1 = X {
            alu: Some((AluAlgorithm::Sum, Operand::Kernel(bias))),
            shift: bias_shift,
            mul: (!converted).then_some(mul),
            truncate: if converted { 0 } else { truncate as u8 },
            activation: if pipe.x1_relu && !corrected { XActivation::Relu } else { XActivation::Nothing },
        };
        let mut stages = self.int_rest(step, pipe, Some(x1), unit, shift, if wide { PRODUCT_SHIFT } else { 4 })?;
        if corrected {
            stages.x2 = Some(X {
                alu: Some((AluAlgorithm::Sum, Operand::Kernel(remainders))),
                mul: Some(Operand::Kernel(products.iter().map(|product| product.1 as i16).collect())),
                truncate: ONE.log2() as u8,
                activation: if pipe.x1_relu { XActivation::Relu } else { XActivation::Nothing },
                ..X::default()
            });
        }
        Ok(Numbers { weights, winograd, truncate: cacc as u8, converter, outside, stages, normalisation: None })
    }

    /// A copy, or a product of two tensors.
    pub(crate) fn int_copy(&mut self, step: &Step, pipe: Pipe) -> Result<Numbers, Error> {
        let input = step.inputs[0];
        let (own, zero) = (self.own_scale(step), self.scales[input].zero);
        let product = step.kind == Kind::Product;
        let wide = [input, step.output].map(|id| self.net.tensors[id].wide);
        let activation = if pipe.x1_relu { XActivation::Relu } else { XActivation::Nothing };
        let channels = self.net.tensors[step.output].shape[0] as usize;
        let (mut scale, shift) = match step.post_ops.first() {
            Some(PostOp::Affine(scale, shift)) if pipe.affine => (scale.clone(), shift.clone()),
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
        let addend = shift.iter().fold(0f64, |most, shift| most.max(shift.abs()));
        // The sums of a product have as many bits as those of a convolution.
        let finer = if product {
            32767.0 / 32768.0
        } else if wide[0] {
            16.0
        } else {
            4096.0
        };
        let fine = (largest / finer).max(addend / LARGEST_BIAS);
        let free = self.unit(step, pipe, fine);
        // Integers without any change.
        let moved = step.post_ops.is_empty()
            && plain
            && !product
            && self.scales[step.output] == self.scales[input]
            && wide[0] == wide[1];
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
            Some(X { alu, mul: Some(mul), truncate: truncate as u8, activation, ..X::default() })
        } else {
            (activation != XActivation::Nothing).then(|| X { activation, ..X::default() })
        };
        if shifts && !pipe.x2_shift {
            let name = &self.net.tensors[step.output].name;
            return Err(Error::unsupported(name, "an input's mean cannot be subtracted in this step"));
        }
        let truncate = match multiplies {
            true if wide == [true; 2] => PRODUCT_SHIFT,
            true => 8,
            false if product => 8,
            false => 0,
        };
        let mut stages = self.int_rest(step, pipe, x1, unit, operand_shift, truncate)?;
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
                activation: if pipe.x2_relu { XActivation::Relu } else { XActivation::Nothing },
                ..X::default()
            });
        }
        Ok(Numbers { stages, ..Numbers::default() })
    }

    /// X2, Y and the output converter, for a value in steps of `unit` after X1. `truncate` is the right shift of products.
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
        if let Some(post) = pipe.x2.map(|x2| &step.post_ops[x2]) {
            let mut x2 =
                X { activation: if pipe.x2_relu { XActivation::Relu } else { XActivation::Nothing }, ..X::default() };
            match post {
                PostOp::With(..) | PostOp::Elements(..) => match self.combined(step, post) {
                    Some((Combine::Mul, scale, _)) => {
                        x2.mul = self.operand_of(step, post);
                        x2.truncate = truncate;
                        unit *= scale * f64::from(truncate).exp2();
                    }
                    Some((combine, ..)) => {
                        x2.alu = self.operand_of(step, post).map(|operand| (algorithm(combine), operand));
                        x2.shift = shift;
                    }
                    None => {}
                },
                PostOp::Slopes(slopes) => {
                    let largest = slopes.iter().fold(1e-6f64, |largest, &slope| largest.max(f64::from(slope.abs())));
                    let truncate = factor_shift(largest).min(15.0);
                    let value = |&slope: &f32| (f64::from(slope) * truncate.exp2()).round() as i16;
                    x2.mul = Some(match slopes[..] {
                        [slope] => Operand::Layer(value(&slope).into()),
                        _ => Operand::Kernel(slopes.iter().map(value).collect()),
                    });
                    x2.truncate = truncate as u8;
                    x2.activation = XActivation::Prelu;
                }
                PostOp::Most(limit) | PostOp::Least(limit) => {
                    let limit = (f64::from(*limit) / unit).clamp(-LARGEST_LIMIT, LARGEST_LIMIT);
                    let (values, left) = bias_values(&name, &[limit])?;
                    let algorithm = if matches!(post, PostOp::Most(_)) { AluAlgorithm::Min } else { AluAlgorithm::Max };
                    x2.alu = Some((algorithm, Operand::Layer(values[0].into())));
                    x2.shift = left;
                }
                PostOp::Affine(..) | PostOp::Mean | PostOp::Relu | PostOp::Table(..) | PostOp::Within(..) => {}
            }
            stages.x2 = Some(x2);
        }
        if pipe.y.is_some() || pipe.table.is_some() {
            let mut y = Y::default();
            let post = pipe.y.map(|y| &step.post_ops[y]);
            if let Some(PostOp::With(_, other)) = post {
                y.zero = self.scales[*other].zero;
            }
            match post {
                Some(post @ (PostOp::With(..) | PostOp::Elements(..))) => match self.combined(step, post) {
                    Some((Combine::Mul, scale, _)) => {
                        y.mul = self.operand_of(step, post);
                        y.truncate = truncate;
                        unit *= scale * f64::from(truncate).exp2();
                    }
                    Some((combine, scale, _)) => {
                        let factor = Factor::nearest(&name, scale / unit)?;
                        let operand = self.operand_of(step, post);
                        y.alu = operand.map(|operand| (algorithm(combine), operand, Some(factor)));
                    }
                    None => {}
                },
                Some(post @ (PostOp::Most(limit) | PostOp::Least(limit))) => {
                    let algorithm = if matches!(post, PostOp::Most(_)) { AluAlgorithm::Min } else { AluAlgorithm::Max };
                    let value = (f64::from(*limit) / unit).round().clamp(f64::from(i32::MIN), f64::from(i32::MAX));
                    y.alu = Some((algorithm, Operand::Layer(value as i32), None));
                }
                _ => {}
            }
            if let Some(PostOp::Table(function, low, high)) = pipe.table.map(|table| &step.post_ops[table]) {
                let own = self.scales[step.output].scale;
                let jump = function.jump();
                let function = |x: f64| function.at(x);
                let mut range = [f64::from(*low), f64::from(*high)];
                let table = if self.entry_per_integer(step) {
                    let Scale { scale, zero } = self.scales[step.inputs[0]];
                    range = [-128, 127].map(|integer| f64::from(integer - zero) * scale);
                    Table::per_integer(&function, zero, scale)
                } else if let Some(&shared) = self.shared.get(&step.output) {
                    Table::new(&function, jump, shared, unit, true)
                } else {
                    Table::new(&function, jump, range, unit, false)
                };
                let (number, entry) = self.table(&name, &function, range, &table, own);
                // With a far smaller step all entries together are less than a step of the output, whose zero would have no place.
                (y.table, unit) = (Some(number), entry.max(own * LEAST_ENTRY));
            }
            stages.y = Some(y);
        }
        let Scale { scale, zero } = self.scales[step.output];
        // Beyond these ends all values saturate, or are 0.
        let factor = Factor::nearest(&name, (unit / scale).clamp(Factor::LEAST, Factor::MOST))?;
        let added = added_last(step, pipe).map_or(0.0, |other| {
            let Scale { scale, zero } = self.scales[other];
            f64::from(zero) * scale / unit
        });
        let offset = (f64::from(-zero) * f64::from(factor.truncate).exp2() / f64::from(factor.scale) + added).round();
        if offset.abs() > f64::from(i32::MAX) {
            return Err(Error::unsupported(
                &name,
                format!("its output needs an offset of {offset:e}, which does not fit int32"),
            ));
        }
        (stages.out, stages.offset) = (Some(factor), offset as i32);
        Ok(stages)
    }

    /// Adds a table unless it is there: its number, and the step of its entries. `own` is the scale of its output.
    pub(crate) fn table(
        &mut self,
        name: &str,
        function: &dyn Fn(f64) -> f64,
        range: [f64; 2],
        table: &Table,
        own: f64,
    ) -> (usize, f64) {
        self.errors.push((name.to_owned(), table.error(function, range) / own));
        let number = self.tables.iter().position(|other| *other == table.lut).unwrap_or(self.tables.len());
        if number == self.tables.len() {
            self.tables.push(table.lut);
        }
        (number, table.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_on_a_grid_are_found() {
        let plain = |kernel: &[f64], largest: f64| {
            let whole = |step: &f64| {
                kernel.iter().all(|weight| {
                    let (steps, whole) = (weight / step, (weight / step).round());
                    (steps - whole).abs() < WHOLE && whole <= LARGEST
                })
            };
            (1..=STEPS).rev().map(|count| largest / count as f64).find(whole)
        };
        for seed in 1..400i32 {
            let step = f64::from(seed % 17 + 1) * 0.013;
            let exact: Vec<f64> = (0..9).map(|k| f64::from((seed * 7 + k * k * 31) % 129 - 64) * step).collect();
            let rough: Vec<f64> = exact.iter().enumerate().map(|(k, weight)| weight + k as f64 * 0.002).collect();
            for kernel in [&exact[..], &rough, &exact[..1], &rough[..2]] {
                let largest = largest_of(kernel);
                if largest > 0.0 {
                    assert_eq!(grid(kernel, largest), plain(kernel, largest), "{kernel:?}");
                }
            }
            assert!(grid(&exact, largest_of(&exact)).is_some());
        }
        assert_eq!(grid(&[0.0; 3], 0.0), Some(0.0));
    }
}
