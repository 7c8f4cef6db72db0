// SPDX-License-Identifier: MIT OR Apache-2.0

//! The network in real numbers: what calibration measures the ranges of. Plain loops; exactness matters more than time.

use crate::graph::{Convolution, Graph, Op, Pooling, PoolingMode, Shape};

/// The output of every node, for one set of inputs (in the order of the graph's inputs).
///
/// # Panics
/// If `inputs` has fewer tensors than the graph has inputs.
pub fn evaluate(graph: &Graph, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let mut inputs = inputs.iter();
    let mut values: Vec<Vec<f32>> = Vec::with_capacity(graph.len());
    for (_, node) in graph.nodes() {
        let from = node.input.map(|id| (&values[id.0], graph.node(id).shape));
        let value = match (&node.op, from) {
            (Op::Convolution(op), Some((from, shape))) => convolution(op, from, shape, node.shape),
            (Op::Pooling(op), Some((from, shape))) => pooling(op, from, shape, node.shape),
            (Op::Relu, Some((from, _))) => from.iter().map(|x| x.max(0.0)).collect(),
            (Op::Softmax, Some((from, shape))) => softmax(from, shape),
            (Op::Sum(other), Some((from, _))) => from.iter().zip(&values[other.0]).map(|(a, b)| a + b).collect(),
            (Op::Input(_), _) | (_, None) => inputs.next().expect("a tensor for every input").clone(),
        };
        values.push(value);
    }
    values
}

fn convolution(op: &Convolution, from: &[f32], shape: Shape, into: Shape) -> Vec<f32> {
    let mut out = Vec::with_capacity(into.elements());
    let window = Shape { channels: shape.channels, height: op.window.y, width: op.window.x };
    for (kernel, &bias) in op.weights.chunks_exact(window.elements()).zip(&op.bias) {
        for y in 0..into.height {
            for x in 0..into.width {
                let mut sum = bias;
                for r in 0..window.height {
                    let Some(iy) = (y * op.stride.y + r * op.dilation.y).checked_sub(op.padding.top) else { continue };
                    for s in 0..window.width {
                        let Some(ix) = (x * op.stride.x + s * op.dilation.x).checked_sub(op.padding.left) else {
                            continue;
                        };
                        if iy < shape.height && ix < shape.width {
                            for c in 0..window.channels {
                                sum += kernel[window.index(c, r, s)] * from[shape.index(c, iy, ix)];
                            }
                        }
                    }
                }
                out.push(sum);
            }
        }
    }
    out
}

fn pooling(op: &Pooling, from: &[f32], shape: Shape, into: Shape) -> Vec<f32> {
    let mut out = Vec::with_capacity(into.elements());
    for c in 0..into.channels {
        for y in 0..into.height {
            for x in 0..into.width {
                let (mut sum, mut max) = (0.0, f32::NEG_INFINITY);
                for r in 0..op.window.y {
                    for s in 0..op.window.x {
                        let (iy, ix) = (y * op.stride.y + r, x * op.stride.x + s);
                        let (Some(iy), Some(ix)) = (iy.checked_sub(op.padding.top), ix.checked_sub(op.padding.left))
                        else {
                            continue;
                        };
                        if iy < shape.height && ix < shape.width {
                            let value = from[shape.index(c, iy, ix)];
                            sum += value;
                            max = value.max(max);
                        }
                    }
                }
                out.push(match op.mode {
                    PoolingMode::Max => max,
                    PoolingMode::Average => sum / (op.window.y * op.window.x) as f32,
                });
            }
        }
    }
    out
}

fn softmax(from: &[f32], shape: Shape) -> Vec<f32> {
    let mut out = vec![0.0; from.len()];
    for y in 0..shape.height {
        for x in 0..shape.width {
            let at = |c| shape.index(c, y, x);
            let max = (0..shape.channels).map(|c| from[at(c)]).fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = (0..shape.channels).map(|c| (from[at(c)] - max).exp()).sum();
            for c in 0..shape.channels {
                out[at(c)] = (from[at(c)] - max).exp() / sum;
            }
        }
    }
    out
}
