// SPDX-License-Identifier: MIT OR Apache-2.0

//! From real numbers to int8: the scale of every tensor, and the integers of every convolution.
//!
//! A tensor's real value is `scale * (q - zero)`. Scales come from the largest magnitude that calibration saw, so that it
//! becomes 127; `zero` is 0 for all but image inputs. A kernel's weights are `scale[k] * q` in the same manner.
//!
//! The convolution pipeline adds up products of int8; SDP's X1 adds the bias and, with a scale a kernel, multiplies;
//! SDP's output converter brings the sum to the scale of the output. All are integers with a right shift:
//!
//! ```text
//! out = ((acc + (bias << bias_shift)) * multiplier >> 15) * scale >> truncate
//! ```

use crate::error::Error;
use crate::evaluate::evaluate;
use crate::graph::{Convolution, Graph, Image, NodeId, Op};

/// The largest int8 that is used: ranges are symmetric.
const LARGEST: f64 = 127.0;
/// The right shift of X1's product, with which a multiplier of `1 << 15` would be one.
pub const MULTIPLIER_SHIFT: u8 = 15;
/// The largest left shift of the bias that a 32-bit sum allows.
const LARGEST_BIAS_SHIFT: u8 = 16;
/// A multiplier is at least this: kernels whose weights are smaller use fewer of their eight bits instead.
const SMALLEST_MULTIPLIER: f64 = 256.0;

/// How weights are scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// A scale each kernel.
    #[default]
    Kernel,
    /// One scale a layer.
    Layer,
}

/// What a tensor's int8 stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The real difference of two neighbouring int8.
    pub scale: f64,
    /// The int8 that stands for zero.
    pub zero: f64,
}

impl Scale {
    /// Zero is zero, `largest` is 127.
    fn symmetric(largest: f64) -> Self {
        Self { scale: if largest > 0.0 { largest / LARGEST } else { 1.0 / LARGEST }, zero: 0.0 }
    }

    /// An image's: the runtime makes int8 of a byte by `floor(byte * 127 / 255 + 0.5)`.
    fn of_image(image: Image) -> Self {
        let byte = 255.0 / LARGEST;
        Self { scale: byte / f64::from(image.divisor), zero: f64::from(image.mean) / byte }
    }
}

/// The scale of each node's output.
#[derive(Clone, Debug, PartialEq)]
pub struct Scales(Vec<Scale>);

impl Scales {
    /// Runs the network in real numbers for every image (bytes, one tensor an input) and measures.
    pub fn calibrate(graph: &Graph, images: &[Vec<Vec<u8>>]) -> Self {
        let mut largest = vec![0f64; graph.len()];
        for image in images {
            let inputs: Vec<Vec<f32>> = graph
                .nodes()
                .filter_map(
                    |(_, node)| if let Op::Input(image) = node.op { Some(Scale::of_image(image)) } else { None },
                )
                .zip(image)
                .map(|(scale, bytes)| bytes.iter().map(|&byte| real(scale, image_value(byte))).collect())
                .collect();
            for (largest, values) in largest.iter_mut().zip(evaluate(graph, &inputs)) {
                *largest = values.iter().fold(*largest, |largest, &value| largest.max(f64::from(value.abs())));
            }
        }
        Self::of_largest(graph, largest)
    }

    /// Scales for a network of which nothing is known but its shape: no value but an input's passes `largest`.
    pub fn uniform(graph: &Graph, largest: f64) -> Self {
        Self::of_largest(graph, vec![largest; graph.len()])
    }

    /// The scales of nodes whose values are not larger than these.
    fn of_largest(graph: &Graph, mut largest: Vec<f64>) -> Self {
        // SDP adds integers: what is added up has one scale, and so has what is pooled to or from it. A node's scale is
        // handed on in both directions, so until nothing changes.
        loop {
            let mut changed = false;
            for (id, node) in graph.nodes() {
                let (a, b) = match (&node.op, node.input) {
                    (Op::Sum(other), Some(from)) => (from.0, other.0),
                    (Op::Pooling(_), Some(from)) => (from.0, id.0),
                    _ => continue,
                };
                let most = largest[a].max(largest[b]);
                changed |= largest[a] < most || largest[b] < most;
                (largest[a], largest[b]) = (most, most);
            }
            if !changed {
                break;
            }
        }
        let mut scales: Vec<Scale> = Vec::with_capacity(graph.len());
        for ((_, node), largest) in graph.nodes().zip(largest) {
            scales.push(match (&node.op, node.input) {
                (Op::Input(image), _) => Scale::of_image(*image),
                // PDP has no converter: what comes out is of the scale of what goes in.
                (Op::Pooling(_), Some(from)) => scales[from.0],
                (Op::Softmax, _) => Scale::symmetric(1.0),
                _ => Scale::symmetric(largest),
            });
        }
        Self(scales)
    }

    /// The scale of a node's output.
    pub fn of(&self, node: NodeId) -> Scale {
        self.0[node.0]
    }
}

/// The int8 that the runtime makes of an image's byte.
pub fn image_value(byte: u8) -> i8 {
    ((u32::from(byte) * 254 + 255) / 510) as i8
}

fn real(scale: Scale, value: i8) -> f32 {
    ((f64::from(value) - scale.zero) * scale.scale) as f32
}

/// A factor as an integer and a right shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// The integer.
    pub scale: i16,
    /// The shift.
    pub truncate: u8,
}

impl Factor {
    /// The nearest to `factor`, with as many bits as there are.
    pub fn nearest(layer: &str, factor: f64) -> Result<Self, Error> {
        let refuse =
            || Error::unsupported(layer, format!("its output needs a factor of {factor:e}, which has no int16"));
        if !(factor.is_finite() && factor > 0.0) {
            return Err(refuse());
        }
        // The largest shift for which the integer fits.
        let bits = (f64::from(i16::MAX) / factor).log2().floor().min(63.0);
        if bits < 0.0 {
            return Err(refuse());
        }
        let scale = (factor * bits.exp2()).round();
        if scale < 1.0 {
            return Err(refuse());
        }
        Ok(Self { scale: scale as i16, truncate: bits as u8 })
    }
}

/// A convolution in integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantized {
    /// As in [`Convolution::weights`].
    pub weights: Vec<i8>,
    /// What X1 adds, one a kernel, before its shift.
    pub bias: Vec<i16>,
    /// The left shift of `bias`.
    pub bias_shift: u8,
    /// What X1 multiplies with, one a kernel, to be shifted right by [`MULTIPLIER_SHIFT`]; none with one scale a layer.
    pub multipliers: Option<Vec<i16>>,
    /// The output converter.
    pub output: Factor,
}

impl Quantized {
    /// The integers of a convolution whose input and output have these scales.
    pub fn new(
        layer: &str,
        convolution: &Convolution,
        input: Scale,
        output: Scale,
        granularity: Granularity,
    ) -> Result<Self, Error> {
        let each = convolution.weights.len() / convolution.kernels as usize;
        let kernels = || convolution.weights.chunks_exact(each);
        let largest: Vec<f64> =
            kernels().map(|kernel| kernel.iter().fold(0f64, |largest, &w| largest.max(f64::from(w.abs())))).collect();
        let over_all = largest.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let one = f64::from(1u16 << MULTIPLIER_SHIFT);
        let (scales, multipliers, unit) = match granularity {
            Granularity::Layer => (vec![over_all / LARGEST; largest.len()], None, over_all / LARGEST),
            Granularity::Kernel => {
                // Multiplier 32767, the largest, is for the kernel of the largest weights.
                let unit = over_all / LARGEST * one / f64::from(i16::MAX);
                let multiplier = |largest: f64| (largest / LARGEST / unit * one).round().max(SMALLEST_MULTIPLIER);
                let multipliers: Vec<i16> = largest.iter().map(|&largest| multiplier(largest) as i16).collect();
                // The weights follow the multiplier's rounding, not the other way round.
                let scales = multipliers.iter().map(|&m| f64::from(m) / one * unit).collect();
                (scales, Some(multipliers), unit)
            }
        };
        let weights: Vec<i8> = kernels()
            .zip(&scales)
            .flat_map(|(kernel, scale)| {
                kernel.iter().map(move |&w| (f64::from(w) / scale).round().clamp(-LARGEST, LARGEST) as i8)
            })
            .collect();
        // An input whose zero is not 0 adds a constant to every sum: the bias takes it back.
        let sums: Vec<f64> = weights
            .chunks_exact(each)
            .zip(&scales)
            .zip(&convolution.bias)
            .map(|((kernel, scale), &bias)| {
                let weights: f64 = kernel.iter().map(|&w| f64::from(w)).sum();
                f64::from(bias) / (input.scale * scale) - input.zero * weights
            })
            .collect();
        let (bias, bias_shift) = bias(layer, &sums)?;
        let output = Factor::nearest(layer, input.scale * unit / output.scale)?;
        Ok(Self { weights, bias, bias_shift, multipliers, output })
    }
}

/// As [`bias`], also for the limits and addends of other sub-units.
pub(crate) fn bias_values(layer: &str, sums: &[f64]) -> Result<(Vec<i16>, u8), Error> {
    bias(layer, sums)
}

/// The sums as int16, and the smallest left shift with which all fit.
fn bias(layer: &str, sums: &[f64]) -> Result<(Vec<i16>, u8), Error> {
    let largest = sums.iter().fold(0f64, |largest, sum| largest.max(sum.abs()));
    let shift = (0..=LARGEST_BIAS_SHIFT)
        .find(|&shift| (largest / f64::from(shift).exp2()).round() <= f64::from(i16::MAX))
        .ok_or_else(|| {
            let reason = format!("a bias of {largest:.0} steps of its sums does not fit 16 bits and a shift of 16");
            Error::unsupported(layer, reason)
        })?;
    Ok((sums.iter().map(|sum| (sum / f64::from(shift).exp2()).round() as i16).collect(), shift))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Extent, Padding};

    #[test]
    fn bytes_become_int8_as_in_the_runtime() {
        for byte in 0..=255u8 {
            let expected = (f64::from(byte) * 127.0 / 255.0 + 0.5).floor() as i8;
            assert_eq!(image_value(byte), expected, "{byte}");
        }
    }

    #[test]
    fn factors_use_fifteen_bits() {
        for factor in [1.0, 0.001_234, 3.9, 1e-6, 32767.0, 0.5] {
            let Factor { scale, truncate } = Factor::nearest("a", factor).unwrap();
            let found = f64::from(scale) / f64::from(truncate).exp2();
            assert!((found / factor - 1.0).abs() < 1.0 / 16384.0, "{factor}: {scale} >> {truncate}");
        }
        assert!(Factor::nearest("a", 40000.0).is_err());
        assert!(Factor::nearest("a", 0.0).is_err());
        assert!(Factor::nearest("a", f64::NAN).is_err());
        assert!(Factor::nearest("a", 1e-30).is_err());
    }

    /// Integers and real numbers agree to within a step of the output.
    #[test]
    fn integers_follow_the_real_convolution() {
        let convolution = Convolution {
            kernels: 3,
            window: Extent::ONE,
            stride: Extent::ONE,
            dilation: Extent::ONE,
            padding: Padding::default(),
            weights: vec![0.5, -0.25, 0.000_01, 0.01, 0.002, -0.003],
            bias: vec![0.1, -0.002, 0.0],
        };
        let input = Scale { scale: 1.0 / 127.0, zero: 10.5 };
        let output = Scale::symmetric(0.7);
        for granularity in [Granularity::Kernel, Granularity::Layer] {
            let q = Quantized::new("a", &convolution, input, output, granularity).unwrap();
            for k in 0..3 {
                for x in [[0i8, 127], [40, -3], [127, 127]] {
                    let real_sum: f64 = (0..2)
                        .map(|c| {
                            f64::from(convolution.weights[2 * k + c]) * (f64::from(x[c]) - input.zero) * input.scale
                        })
                        .sum::<f64>()
                        + f64::from(convolution.bias[k]);
                    let acc: i64 = (0..2).map(|c| i64::from(q.weights[2 * k + c]) * i64::from(x[c])).sum();
                    let acc = acc + (i64::from(q.bias[k]) << q.bias_shift);
                    let x1 = q.multipliers.as_ref().map_or(acc, |m| (acc * i64::from(m[k])) >> MULTIPLIER_SHIFT);
                    let out = (x1 * i64::from(q.output.scale)) as f64 / f64::from(q.output.truncate).exp2();
                    let error = out - real_sum / output.scale;
                    assert!(error.abs() < 1.0, "{granularity:?} kernel {k}: {out} for {}", real_sum / output.scale);
                }
            }
        }
    }

    #[test]
    fn large_biases_are_shifted_and_too_large_ones_refused() {
        let (values, shift) = bias("a", &[100_000.0, -3.0]).unwrap();
        assert_eq!((values, shift), (vec![25000, -1], 2));
        assert!(bias("a", &[1e12]).is_err());
    }
}
