// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bounds of each tensor's values that follow from the operators alone, whatever the inputs are: interval arithmetic over the
//! graph. A softmax lies between 0 and 1, a tensor behind a ReLU is not negative, and a quantized tensor lies between the values of
//! its least and its greatest integer.

use crate::equalize::planes;
use crate::ir::{Binary, Graph, Op, PadMode, Padding, PoolKind, Preprocess, ResizeMode, Taps, TensorId, Unary};

/// The least and the greatest value of a tensor; infinite where nothing is known.
pub type Bounds = (f32, f32);

/// Nothing is known.
pub(crate) const UNKNOWN: Bounds = (f32::NEG_INFINITY, f32::INFINITY);

/// The bounds of each tensor of a graph. `inputs` has the preprocessing of each input that is given as a picture's bytes.
pub fn bounds(graph: &Graph, inputs: &[Option<Preprocess>]) -> Vec<Bounds> {
    let picture = |id: TensorId| {
        let k = graph.inputs.iter().position(|&input| input == id)?;
        let preprocess = inputs.get(k)?.as_ref()?;
        let count = preprocess.mean.len().max(preprocess.std.len()).max(1);
        let ends = (0..count).flat_map(|channel| {
            let (mean, std) = preprocess.channel(channel);
            [-mean / std, (255.0 - mean) / std]
        });
        Some(of_values(&ends.collect::<Vec<f32>>()))
    };
    bounds_from(graph, picture, true)
}

/// The bounds of each tensor of a graph, given those of some tensors. Without `sums`, those of sums of convolutions are left open.
pub(crate) fn bounds_from(graph: &Graph, known: impl Fn(TensorId) -> Option<Bounds>, sums: bool) -> Vec<Bounds> {
    let mut bounds = vec![UNKNOWN; graph.tensors.len()];
    for &id in &graph.inputs {
        bounds[id.0] = known(id).unwrap_or(UNKNOWN);
        limit(graph, id, &mut bounds);
    }
    for node in &graph.nodes {
        // Those of a convolution's weights say nothing of its sums.
        let read = if matches!(node.op, Op::Convolution(_) | Op::Deconvolution(..)) { 1 } else { node.inputs.len() };
        for &id in &node.inputs[..read] {
            if let Some(values) = graph.constant(id) {
                bounds[id.0] = of_values(values);
            }
        }
        let of = |k: usize| node.inputs.get(k).map_or(UNKNOWN, |id| bounds[id.0]);
        let x = of(0);
        if let Some(bound) = known(node.output) {
            bounds[node.output.0] = bound;
            continue;
        }
        bounds[node.output.0] = match &node.op {
            Op::Unary(unary) => of_unary(*unary, x),
            Op::Binary(binary) => of_binary(*binary, x, of(1), node.inputs[0] == node.inputs[1]),
            Op::PRelu => {
                let (low, high) = of(1);
                joined([of_unary(Unary::LeakyRelu(low), x), of_unary(Unary::LeakyRelu(high), x)])
            }
            Op::Pool(pool) => {
                let padded =
                    pool.kind == PoolKind::Average { count_include_pad: true } && pool.padding != Padding::default();
                if padded {
                    with_zero(x)
                } else {
                    x
                }
            }
            Op::Pad { mode: PadMode::Constant(value), .. } => joined([x, (*value, *value)]),
            // The weights of a cubic resize are negative in part, so it goes beyond the values that it reads.
            Op::Resize(resize) if matches!(resize.mode, ResizeMode::Cubic(_)) => {
                let size = graph.shape(node.inputs[0]);
                (0..2).fold(x, |x, axis| joined(resize.taps(axis, size[2 + axis]).iter().map(|taps| weighted(taps, x))))
            }
            Op::Pad { .. }
            | Op::Resize(_)
            | Op::DepthToSpace { .. }
            | Op::SpaceToDepth { .. }
            | Op::Slice { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::ChannelPermutation { .. } => x,
            Op::Concat { .. } => joined((0..node.inputs.len()).map(of)),
            Op::Softmax { .. } => (0.0, 1.0),
            Op::Convolution(_) | Op::Deconvolution(..) if sums => of_sums(graph, node, with_zero(x)).unwrap_or(UNKNOWN),
            Op::Lrn { alpha, beta, bias, .. } if *alpha >= 0.0 && *beta >= 0.0 && *bias > 0.0 => {
                let factor = bias.powf(-beta);
                product(with_zero(x), (0.0, factor))
            }
            Op::Convolution(_) | Op::Deconvolution(..) | Op::Product | Op::Lrn { .. } => UNKNOWN,
        };
        limit(graph, node.output, &mut bounds);
    }
    bounds
}

/// Applies the limits of a quantized tensor.
fn limit(graph: &Graph, id: TensorId, bounds: &mut [Bounds]) {
    if let Some(q) = graph.tensor(id).quantization.as_ref().filter(|_| graph.constant(id).is_none()) {
        let (low, high) = joined(q.values());
        let (from, to) = bounds[id.0];
        bounds[id.0] = (from.clamp(low, high), to.clamp(low, high));
    }
}

fn of_values(values: &[f32]) -> Bounds {
    let ends = |(low, high): Bounds, &value: &f32| (low.min(value), high.max(value));
    values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), ends)
}

fn joined(all: impl IntoIterator<Item = Bounds>) -> Bounds {
    all.into_iter().reduce(|(a, b), (c, d)| (a.min(c), b.max(d))).unwrap_or(UNKNOWN)
}

fn with_zero((low, high): Bounds) -> Bounds {
    (low.min(0.0), high.max(0.0))
}

/// The bounds of a function that has its extremes at the ends of its argument's range and at some points between.
fn of_unary(unary: Unary, (low, high): Bounds) -> Bounds {
    // The arguments of the least values of functions that fall and then rise.
    let turns: &[f32] = match unary {
        Unary::Abs | Unary::Cosh | Unary::Elu(_) | Unary::Selu { .. } | Unary::LeakyRelu(_) => &[0.0],
        Unary::HardSwish => &[-1.5, -3.0],
        Unary::Silu => &[-1.278_464_5],
        Unary::Gelu => &[-0.751_791_5],
        Unary::GeluTanh => &[-0.752_461_4],
        Unary::Mish => &[-1.192_438_1],
        Unary::XLogX if low >= 0.0 => &[0.367_879_44],
        Unary::Threshold(at) => {
            return if low > at { (low, high) } else { (0f32.min(low.max(at)), high.max(0.0)) };
        }
        Unary::Sin | Unary::Cos => return (-1.0, 1.0),
        Unary::Reciprocal if low <= 0.0 && high >= 0.0 => return UNKNOWN,
        Unary::XLogX => return UNKNOWN,
        Unary::Log | Unary::Sqrt | Unary::Power(_) | Unary::Octaves(_) if low < 0.0 => return UNKNOWN,
        Unary::Power(power) | Unary::Octaves(power) if low == 0.0 && power < 0.0 => return UNKNOWN,
        _ => &[],
    };
    let at = |x: f32| match unary {
        // Far from 0 these are 0 or their argument.
        Unary::HardSwish | Unary::Silu | Unary::Gelu | Unary::GeluTanh | Unary::Mish if x.is_infinite() => x.max(0.0),
        Unary::Softsign if x.is_infinite() => 1f32.copysign(x),
        _ => unary.apply(x),
    };
    let inside = turns.iter().copied().filter(|turn| low < *turn && *turn < high);
    let values: Vec<f32> = [low, high].into_iter().chain(inside).map(at).collect();
    if values.iter().any(|value| value.is_nan()) {
        return UNKNOWN;
    }
    of_values(&values)
}

fn product((a, b): Bounds, (c, d): Bounds) -> Bounds {
    let times = |a: f32, b: f32| if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
    of_values(&[times(a, c), times(a, d), times(b, c), times(b, d)])
}

/// The bounds of a sum of elements with weights.
pub(crate) fn weighted(taps: &Taps, x: Bounds) -> Bounds {
    let terms = taps.weights.iter().map(|&weight| product((weight, weight), x));
    terms.fold((0.0, 0.0), |sum, term| (sum.0 + term.0, sum.1 + term.1))
}

fn of_binary(binary: Binary, a: Bounds, b: Bounds, same: bool) -> Bounds {
    let (low, high) = match binary {
        Binary::Add => (a.0 + b.0, a.1 + b.1),
        Binary::Sub => (a.0 - b.1, a.1 - b.0),
        Binary::Mul if same => {
            let (low, high) = product(a, a);
            (low.max(0.0), high)
        }
        Binary::Mul => product(a, b),
        Binary::Div if b.0 > 0.0 || b.1 < 0.0 => product(a, (1.0 / b.1, 1.0 / b.0)),
        Binary::Max => (a.0.max(b.0), a.1.max(b.1)),
        Binary::Min => (a.0.min(b.0), a.1.min(b.1)),
        Binary::Div | Binary::Pow => UNKNOWN,
    };
    if low.is_nan() || high.is_nan() {
        UNKNOWN
    } else {
        (low, high)
    }
}

/// The bounds of a convolution's or deconvolution's sums for elements between two values, one of which is at most 0 and the other
/// at least 0.
fn of_sums(graph: &Graph, node: &crate::ir::Node, (low, high): Bounds) -> Option<Bounds> {
    if low.is_infinite() || high.is_infinite() {
        return None;
    }
    let weights = graph.constant(*node.inputs.get(1)?)?;
    let bias = node.inputs.get(2).map(|&id| graph.constant(id)).map_or(Some(None), |bias| bias.map(Some))?;
    let (planes, taps) = planes(graph, node)?;
    let mut sums = vec![(0f64, 0f64); *graph.shape(node.output).get(1)?];
    for ((kernel, _), plane) in planes.zip(weights.chunks_exact(taps)) {
        let (least, most) = sums.get_mut(kernel)?;
        for &weight in plane {
            let ends = [f64::from(weight) * f64::from(low), f64::from(weight) * f64::from(high)];
            *least += ends[0].min(ends[1]);
            *most += ends[0].max(ends[1]);
        }
    }
    let ends = sums.into_iter().enumerate().map(|(kernel, (least, most))| {
        let bias = bias.and_then(|bias| bias.get(kernel)).map_or(0.0, |&bias| f64::from(bias));
        ((least + bias) as f32, (most + bias) as f32)
    });
    Some(joined(ends)).filter(|(low, high)| low.is_finite() && high.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_within_the_bounds_of_functions() {
        let functions = [
            Unary::Relu,
            Unary::LeakyRelu(0.1),
            Unary::LeakyRelu(-0.5),
            Unary::Clip(-0.5, 0.7),
            Unary::Sigmoid,
            Unary::Tanh,
            Unary::HardSigmoid { alpha: 0.2, beta: 0.5 },
            Unary::HardSwish,
            Unary::Silu,
            Unary::Elu(1.0),
            Unary::Elu(-1.0),
            Unary::Selu { alpha: 1.6, gamma: 1.05 },
            Unary::Gelu,
            Unary::GeluTanh,
            Unary::Mish,
            Unary::Softplus,
            Unary::Softsign,
            Unary::Exp,
            Unary::Log,
            Unary::XLogX,
            Unary::Sqrt,
            Unary::Reciprocal,
            Unary::Erf,
            Unary::Neg,
            Unary::Abs,
            Unary::Sin,
            Unary::Cos,
            Unary::Acos,
            Unary::Acosh,
            Unary::Asin,
            Unary::Asinh,
            Unary::Atan,
            Unary::Atanh,
            Unary::Cosh,
            Unary::Sinh,
            Unary::Floor,
            Unary::Ceil,
            Unary::Round,
            Unary::Threshold(1.0),
            Unary::Threshold(-1.0),
            Unary::Step(0.3),
            Unary::Power(0.7),
            Unary::Power(-1.5),
        ];
        let ends = [f32::NEG_INFINITY, -9.0, -2.5, -1.0, -0.3, 0.0, 0.2, 1.0, 1.5, 4.0, f32::INFINITY];
        for unary in functions {
            for (at, &low) in ends.iter().enumerate() {
                for &high in &ends[at..] {
                    if low.is_infinite() && high.is_infinite() && low.to_bits() == high.to_bits() {
                        continue;
                    }
                    let (least, most) = of_unary(unary, (low, high));
                    let (from, to) = (low.max(-50.0), high.min(50.0));
                    for k in 0..=400 {
                        let x = from + (to - from) * k as f32 / 400.0;
                        let value = unary.apply(x);
                        if x.is_nan() || x < low || x > high || !value.is_finite() {
                            continue;
                        }
                        let near = 1e-6 * (1.0 + value.abs());
                        assert!(
                            least <= value + near && value - near <= most,
                            "{}({x}) = {value}, between {least} and {most} for {low} to {high}",
                            unary.name()
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn sums_and_products_have_bounds() {
        assert_eq!(of_binary(Binary::Mul, (-2.0, 3.0), (-1.0, 4.0), false), (-8.0, 12.0));
        assert_eq!(of_binary(Binary::Mul, (-2.0, 3.0), (-2.0, 3.0), true), (0.0, 9.0));
        assert_eq!(of_binary(Binary::Mul, (0.0, 1.0), UNKNOWN, false), UNKNOWN);
        assert_eq!(of_binary(Binary::Div, (-1.0, 1.0), (0.5, f32::INFINITY), false), (-2.0, 2.0));
        assert_eq!(of_binary(Binary::Sub, (0.0, 1.0), (0.0, 1.0), false), (-1.0, 1.0));
        let mut graph = Graph::new("sums");
        let x = graph.input("x", &[1, 2, 1, 1]).unwrap();
        let x = graph.add("sigmoid", Op::Unary(Unary::Sigmoid), &[x], "y").unwrap();
        let weights = graph.add_constant("w", &[1, 2, 1, 1], vec![2.0, -1.0]).unwrap();
        let bias = graph.add_constant("b", &[1], vec![0.5]).unwrap();
        let op = crate::ir::Convolution {
            group: 1,
            kernel: [1; 2],
            stride: [1; 2],
            dilation: [1; 2],
            padding: Padding::default(),
        };
        let y = graph.add("conv", Op::Convolution(op), &[x, weights, bias], "z").unwrap();
        graph.outputs.push(y);
        assert_eq!(bounds(&graph, &[])[y.0], (-0.5, 2.5));
    }
}
