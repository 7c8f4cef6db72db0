// SPDX-License-Identifier: MIT OR Apache-2.0

//! A network in int8 with the plainest loops there are: what a compiled one must give, bit for bit.
//!
//! It shares nothing with the compiler but the graph and the integers of each layer: no layouts, no descriptors, no
//! bands, no memory plan; and nothing with runtime, engine and model. Rounding and saturation are written down here a
//! second time, from the description of the units.

#![allow(dead_code)] // each test file uses its part

use std::collections::BTreeMap;

use nvdla_compiler::graph::{Convolution, Graph, NodeId, Op, Pooling, PoolingMode, Shape};
use nvdla_compiler::quantize::{image_value, Granularity, Quantized, Scales, MULTIPLIER_SHIFT};

/// The int8 of every node that has a value in memory. `inputs` are bytes of images, in the order of the inputs.
pub(crate) fn evaluate(
    graph: &Graph,
    scales: &Scales,
    granularity: Granularity,
    inputs: &[Vec<u8>],
) -> BTreeMap<NodeId, Vec<i8>> {
    let mut inputs = inputs.iter();
    let mut values: BTreeMap<NodeId, Vec<i8>> = BTreeMap::new();
    for (id, node) in graph.nodes() {
        let Some(from) = node.input else {
            values.insert(id, inputs.next().unwrap().iter().map(|&byte| image_value(byte)).collect());
            continue;
        };
        let shape = graph.node(from).shape;
        let value = match &node.op {
            Op::Convolution(op) if relu_takes_it(graph, id).is_none() => {
                convolution(graph, scales, granularity, (from, id, id), op, &values[&from])
            }
            Op::Relu => match &graph.node(from).op {
                Op::Convolution(op) if relu_takes_it(graph, from) == Some(id) => {
                    let source = graph.node(from).input.unwrap();
                    convolution(graph, scales, granularity, (source, from, id), op, &values[&source])
                }
                Op::Sum(other) if relu_takes_it(graph, from) == Some(id) => {
                    let source = graph.node(from).input.unwrap();
                    sum(scales, (source, id), &values[&source], &values[other], true)
                }
                _ => relu(scales, from, id, &values[&from]),
            },
            Op::Sum(other) if relu_takes_it(graph, id).is_none() => {
                sum(scales, (from, id), &values[&from], &values[other], false)
            }
            // Their ReLU stands for both.
            Op::Convolution(_) | Op::Sum(_) => continue,
            Op::Pooling(op) => pooling(op, &values[&from], shape, node.shape),
            Op::Softmax => softmax(scales, from, id, &values[&from], shape),
            Op::Input(_) => unreachable!(),
        };
        values.insert(id, value);
    }
    values
}

/// The ReLU that is a convolution's or a sum's only user.
fn relu_takes_it(graph: &Graph, id: NodeId) -> Option<NodeId> {
    let users: Vec<NodeId> = graph.users(id).collect();
    match users[..] {
        [user] if graph.node(user).op == Op::Relu && !graph.outputs().contains(&id) => Some(user),
        _ => None,
    }
}

/// Shifted right, half away from zero.
fn shift(value: i64, by: u8) -> i64 {
    if by == 0 {
        return value;
    }
    let half = 1i64 << (by - 1);
    if value >= 0 {
        (value + half) >> by
    } else {
        -((-value + half) >> by)
    }
}

fn saturate32(value: i64) -> i64 {
    value.clamp(i32::MIN.into(), i32::MAX.into())
}

fn saturate8(value: i64) -> i8 {
    value.clamp(-128, 127) as i8
}

/// Convolution pipeline, X1, output converter.
fn convolution(
    graph: &Graph,
    scales: &Scales,
    granularity: Granularity,
    (from, id, result): (NodeId, NodeId, NodeId),
    op: &Convolution,
    input: &[i8],
) -> Vec<i8> {
    let (shape, into) = (graph.node(from).shape, graph.node(id).shape);
    let q = Quantized::new("", op, scales.of(from), scales.of(result), granularity).unwrap();
    let outside = scales.of(from).zero.round() as i64;
    let window = Shape { channels: shape.channels, height: op.window.y, width: op.window.x };
    let mut out = Vec::new();
    for k in 0..into.channels {
        let kernel = &q.weights[k as usize * window.elements()..][..window.elements()];
        for y in 0..into.height {
            for x in 0..into.width {
                let mut sum = 0i64;
                for r in 0..window.height {
                    for s in 0..window.width {
                        let iy = i64::from(y * op.stride.y + r * op.dilation.y) - i64::from(op.padding.top);
                        let ix = i64::from(x * op.stride.x + s * op.dilation.x) - i64::from(op.padding.left);
                        let inside =
                            (0..i64::from(shape.height)).contains(&iy) && (0..i64::from(shape.width)).contains(&ix);
                        for c in 0..window.channels {
                            let value =
                                if inside { i64::from(input[shape.index(c, iy as u32, ix as u32)]) } else { outside };
                            sum += value * i64::from(kernel[window.index(c, r, s)]);
                        }
                    }
                }
                let mut value = saturate32(sum) + (i64::from(q.bias[k as usize]) << q.bias_shift);
                if let Some(multipliers) = &q.multipliers {
                    value = shift(value * i64::from(multipliers[k as usize]), MULTIPLIER_SHIFT);
                }
                value = saturate32(value);
                if result != id {
                    value = value.max(0);
                }
                out.push(saturate8(shift(value * i64::from(q.output.scale), q.output.truncate)));
            }
        }
    }
    out
}

/// SDP alone.
fn relu(scales: &Scales, from: NodeId, id: NodeId, input: &[i8]) -> Vec<i8> {
    let factor = nvdla_compiler::quantize::Factor::nearest("", scales.of(from).scale / scales.of(id).scale).unwrap();
    let zero = scales.of(from).zero.round() as i64;
    let convert = |x: &i8| saturate8(shift((i64::from(*x) - zero).max(0) * i64::from(factor.scale), factor.truncate));
    input.iter().map(convert).collect()
}

/// SDP alone, with an operand an element.
fn sum(scales: &Scales, (from, id): (NodeId, NodeId), a: &[i8], b: &[i8], relu: bool) -> Vec<i8> {
    let factor = nvdla_compiler::quantize::Factor::nearest("", scales.of(from).scale / scales.of(id).scale).unwrap();
    let least = if relu { 0 } else { i64::MIN };
    let add = |(&a, &b): (&i8, &i8)| (i64::from(a) + i64::from(b)).max(least);
    let convert = |sum| saturate8(shift(sum * i64::from(factor.scale), factor.truncate));
    a.iter().zip(b).map(add).map(convert).collect()
}

fn pooling(op: &Pooling, input: &[i8], shape: Shape, into: Shape) -> Vec<i8> {
    let mut out = Vec::new();
    for c in 0..into.channels {
        for y in 0..into.height {
            for x in 0..into.width {
                let mut found = Vec::new();
                for r in 0..op.window.y {
                    for s in 0..op.window.x {
                        let iy = (y * op.stride.y + r).wrapping_sub(op.padding.top);
                        let ix = (x * op.stride.x + s).wrapping_sub(op.padding.left);
                        if iy < shape.height && ix < shape.width {
                            found.push(i64::from(input[shape.index(c, iy, ix)]));
                        }
                    }
                }
                out.push(match op.mode {
                    PoolingMode::Max => found.into_iter().max().unwrap() as i8,
                    PoolingMode::Average => {
                        // Two factors of sixteen fraction bits, each product rounded.
                        let sum: i64 = found.into_iter().sum();
                        let across = shift(sum * i64::from(65536 / op.window.x), 16);
                        saturate8(shift(across * i64::from(65536 / op.window.y), 16))
                    }
                });
            }
        }
    }
    out
}

/// A number with the eleven bits of half precision, ties away from zero.
fn half(value: f32) -> f32 {
    if value == 0.0 {
        return value;
    }
    let exponent = value.abs().log2().floor().max(-14.0);
    let step = f64::from(exponent - 10.0).exp2();
    let magnitude = (f64::from(value.abs()) / step + 0.5).floor() * step;
    (magnitude * f64::from(value.signum())) as f32
}

/// The emulator's softmax: single precision inside, half precision on the way in and out, cut towards zero.
fn softmax(scales: &Scales, from: NodeId, id: NodeId, input: &[i8], shape: Shape) -> Vec<i8> {
    let (input_scale, output_scale) = (scales.of(from).scale as f32, scales.of(id).scale as f32);
    let mut out = vec![0; input.len()];
    for y in 0..shape.height {
        for x in 0..shape.width {
            let real: Vec<f32> =
                (0..shape.channels).map(|c| half(f32::from(input[shape.index(c, y, x)]) * input_scale)).collect();
            let most = real.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let powers: Vec<f32> = real.iter().map(|x| (x - most).exp()).collect();
            let mut sum = 0.0f32;
            for power in &powers {
                sum += power;
            }
            for (c, power) in powers.iter().enumerate() {
                let value = half(power / sum) / output_scale;
                out[shape.index(c as u32, y, x)] = value.clamp(-128.0, 127.0).trunc() as i8;
            }
        }
    }
    out
}

/// The elements of a feature cube of `atom` bytes of channels, channel by channel.
pub(crate) fn unpack(bytes: &[u8], shape: Shape, atom: u32) -> Vec<i8> {
    let mut out = Vec::new();
    for c in 0..shape.channels {
        for y in 0..shape.height {
            for x in 0..shape.width {
                let at = ((c / atom * shape.height + y) * shape.width + x) * atom + c % atom;
                out.push(bytes[at as usize] as i8);
            }
        }
    }
    out
}

/// The bytes of an input as the compiler declares it: an image with lines of a multiple of 32 bytes and one or four
/// components a pixel, or a feature cube.
pub(crate) fn pack(values: &[i8], shape: Shape, atom: u32, image: bool) -> Vec<u8> {
    let (components, line) = match (image, shape.channels) {
        (true, 1) => (1, shape.width.div_ceil(32) * 32),
        (true, _) => (4, (shape.width * 4).div_ceil(32) * 32),
        (false, _) => (0, 0),
    };
    let surfaces = shape.channels.div_ceil(atom);
    let size = if image { line * shape.height } else { surfaces * atom * shape.height * shape.width };
    let mut out = vec![0; size as usize];
    for c in 0..shape.channels {
        for y in 0..shape.height {
            for x in 0..shape.width {
                let at = if image {
                    y * line + x * components + c
                } else {
                    ((c / atom * shape.height + y) * shape.width + x) * atom + c % atom
                };
                out[at as usize] = values[shape.index(c, y, x)] as u8;
            }
        }
    }
    out
}
