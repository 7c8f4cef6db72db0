// SPDX-License-Identifier: MIT OR Apache-2.0

//! Evaluates the network in real numbers. Calibration measures these values, and a compiled network is compared with them.
//!
//! The definitions are those of ONNX; `scripts/node_cases.py` compares this evaluation with ONNX Runtime.

mod convolution;
mod copy;
mod values;
mod window;

use std::borrow::Cow;

use rayon::prelude::*;

pub use values::Values;

use crate::ir::{infer, Binary, Convolution, Graph, Op, Quantization, TensorId, Unary};

/// Computes a network's outputs. `inputs` are the values of the graph's inputs, in their order. `visit` is called with
/// the values of each input and of each node's output as soon as they are known.
///
/// A tensor to which a quantized model gives a scale is rounded and limited as the model specifies.
pub fn run(
    graph: &Graph,
    inputs: &[Vec<f32>],
    visit: &mut dyn FnMut(TensorId, &[f32]),
) -> Result<Vec<Vec<f32>>, String> {
    if inputs.len() != graph.inputs.len() {
        return Err(format!("{} inputs given, the network has {}", inputs.len(), graph.inputs.len()));
    }
    let mut readers = vec![0usize; graph.tensors.len()];
    for id in graph.nodes.iter().flat_map(|node| &node.inputs).chain(&graph.outputs) {
        readers[id.0] += 1;
    }
    let mut known: Vec<Option<Vec<f32>>> = vec![None; graph.tensors.len()];
    let constant = |id: TensorId| graph.constant(id).map(|values| &values[..]);
    for (&id, values) in graph.inputs.iter().zip(inputs) {
        let tensor = graph.tensor(id);
        if values.len() != tensor.elements() {
            return Err(format!("{} values for the input {:?} {:?}", values.len(), tensor.name, tensor.shape));
        }
        let mut values = values.clone();
        quantize(tensor.quantization.as_ref(), &tensor.shape, &mut values);
        visit(id, &values);
        known[id.0] = Some(values);
    }
    for node in &graph.nodes {
        graph.budget.check()?;
        let tensor = graph.tensor(node.output);
        let mut from = Vec::with_capacity(node.inputs.len());
        for &id in &node.inputs {
            let values = known[id.0].as_deref().or_else(|| constant(id));
            from.push((graph.shape(id), values.ok_or_else(|| format!("node {:?} stands too early", node.name))?));
        }
        let mut values = apply(&node.op, &from, &tensor.shape);
        quantize(tensor.quantization.as_ref(), &tensor.shape, &mut values);
        visit(node.output, &values);
        known[node.output.0] = Some(values);
        for id in &node.inputs {
            readers[id.0] -= 1;
            if readers[id.0] == 0 {
                known[id.0] = None;
            }
        }
    }
    let output = |id: &TensorId| {
        let values = known[id.0].as_deref().or_else(|| constant(*id));
        values.map(<[f32]>::to_vec).ok_or("an output is not computed")
    };
    Ok(graph.outputs.iter().map(output).collect::<Result<_, _>>()?)
}

/// Rounds values to the integers of a quantized model, and limits them to the model's type.
pub(crate) fn quantize(quantization: Option<&Quantization>, shape: &[usize], values: &mut [f32]) {
    let Some(Quantization { scale, zero_point, axis, limits }) = quantization else { return };
    // Elements with the same scale are adjacent: `inner` at a time, repeatedly.
    let (count, inner) = axis.map_or((1, values.len()), |axis| (shape[axis], shape[axis + 1..].iter().product()));
    for (k, run) in values.chunks_mut(inner.max(1)).enumerate() {
        let (scale, zero) = (scale[k % count], zero_point[k % count] as f32);
        let (low, high) = (limits.0 as f32, limits.1 as f32);
        run.par_iter_mut().with_min_len(4096).for_each(|value| {
            *value = (((*value / scale).round_ties_even() + zero).clamp(low, high) - zero) * scale;
        });
    }
}

/// Adds a node to a graph. If all of its inputs are constant, adds its output as a constant instead.
pub fn add(graph: &mut Graph, name: &str, op: Op, inputs: &[TensorId], output: &str) -> Result<TensorId, String> {
    let constants: Option<Vec<_>> =
        inputs.iter().map(|&id| graph.constant(id).map(|x| (graph.shape(id), &x[..]))).collect();
    let Some(constants) = constants.filter(|constants| !constants.is_empty()) else {
        return graph.add(name, op, inputs, output);
    };
    let shape = infer::infer(&op, &constants.iter().map(|(shape, _)| *shape).collect::<Vec<_>>())?;
    let work = work(&op, &constants, &shape);
    let mut budget = graph.budget.clone();
    budget.spend(bytes(&shape), work)?;
    let values = apply(&op, &constants, &shape);
    graph.budget = budget;
    graph.add_constant(output, &shape, values)
}

/// Bytes of real numbers of a shape.
fn bytes(shape: &[usize]) -> u64 {
    shape.iter().fold(4_u64, |product, &extent| product.saturating_mul(extent as u64))
}

/// About how many multiplications [`apply`] takes.
fn work(op: &Op, inputs: &[Values<'_>], shape: &[usize]) -> u64 {
    let elements = |shape: &[usize]| shape.iter().fold(1_u64, |product, &extent| product.saturating_mul(extent as u64));
    let weights = || inputs.get(1).map_or(1, |(_, weights)| weights.len() as u64);
    let extent = |shape: &[usize], axis: usize| shape.get(axis).map_or(1, |&extent| extent.max(1) as u64);
    match op {
        // Each element of the output is a sum over one kernel, and each of the input goes into one kernel per channel.
        Op::Convolution(_) => elements(shape).saturating_mul(weights() / extent(shape, 1)),
        Op::Product => elements(shape).saturating_mul(extent(inputs[0].0, 1)),
        Op::Deconvolution(..) => elements(inputs[0].0).saturating_mul(weights() / extent(inputs[0].0, 1)),
        Op::Pool(pool) => pool.kernel.iter().fold(elements(shape), |work, &taps| work.saturating_mul(taps as u64)),
        Op::Lrn { size, .. } => elements(shape).saturating_mul(*size as u64),
        _ => elements(shape),
    }
}

/// Computes one operator. `shape` is the shape of its output, from [`crate::ir::infer::infer`].
pub fn apply(op: &Op, inputs: &[Values<'_>], shape: &[usize]) -> Vec<f32> {
    let (from, x) = inputs[0];
    match op {
        Op::Convolution(op) => convolution::convolve(op, inputs, shape),
        Op::Deconvolution(op, _) => convolution::deconvolve(op, inputs, shape),
        Op::Product => {
            let (of, weights) = inputs[1];
            let kernels = copy::permuted(&Op::Transpose { perm: vec![1, 0] }, (&[of[1], of[2] * of[3]], weights));
            let inputs = [inputs[0], (&[of[2] * of[3], of[1], 1, 1], &kernels)];
            convolution::convolve(&Convolution::pointwise(), &inputs, shape)
        }
        Op::Binary(op) => binary(*op, inputs[0], inputs[1], shape),
        // Without a choice and a call per element.
        Op::Unary(Unary::Relu) => x.par_iter().with_min_len(4096).map(|&x| x.max(0.0)).collect(),
        Op::Unary(unary) => x.par_iter().with_min_len(4096).map(|&x| unary.apply(x)).collect(),
        Op::PRelu => {
            let plane = (from[2..].iter().product::<usize>()).max(1);
            let slope = |k: usize| inputs[1].1[k / plane % from[1]];
            x.iter().enumerate().map(|(k, &x)| if x < 0.0 { slope(k) * x } else { x }).collect()
        }
        Op::Pool(pool) => window::pool(pool, inputs[0], shape),
        Op::Resize(resize) => window::resize(resize, inputs[0]),
        Op::DepthToSpace { .. } | Op::SpaceToDepth { .. } | Op::Transpose { .. } => copy::permuted(op, inputs[0]),
        Op::Concat { axis } => copy::concat(inputs, *axis),
        Op::Slice { starts, steps, lengths } => copy::slice(inputs[0], starts, steps, lengths),
        Op::Pad { mode, before, .. } => copy::pad(*mode, inputs[0], before, shape),
        Op::Reshape { .. } => x.to_vec(),
        Op::ChannelPermutation { from: channels } => {
            let plane: usize = from[2..].iter().product();
            let of = |n: usize, c: usize| &x[(n * from[1] + c) * plane..][..plane];
            (0..from[0]).flat_map(|n| channels.iter().flat_map(move |&c| of(n, c))).copied().collect()
        }
        Op::Lrn { size, alpha, beta, bias } => window::lrn(inputs[0], *size, *alpha, *beta, *bias),
        Op::Softmax { axis } => softmax(inputs[0], *axis),
    }
}

fn binary(op: Binary, a: Values<'_>, b: Values<'_>, shape: &[usize]) -> Vec<f32> {
    match op {
        Binary::Add => zip(a, b, shape, |a, b| a + b),
        Binary::Sub => zip(a, b, shape, |a, b| a - b),
        Binary::Mul => zip(a, b, shape, |a, b| a * b),
        Binary::Div => zip(a, b, shape, |a, b| a / b),
        Binary::Max => zip(a, b, shape, f32::max),
        Binary::Min => zip(a, b, shape, f32::min),
        Binary::Pow => zip(a, b, shape, f32::powf),
    }
}

/// An operand with as many values as the output's last dimensions, so that repetitions of it fill the output.
fn repeated<'a>((from, values): Values<'a>, shape: &[usize]) -> Cow<'a, [f32]> {
    if values.len() == 1 || values.len() == shape.iter().product::<usize>() {
        return values.into();
    }
    copy::expand((from, values), shape).into()
}

fn zip(a: Values<'_>, b: Values<'_>, shape: &[usize], f: impl Fn(f32, f32) -> f32 + Sync) -> Vec<f32> {
    let (a, b) = (repeated(a, shape), repeated(b, shape));
    match (a.len(), b.len()) {
        (1, _) => b.par_iter().with_min_len(4096).map(|&b| f(a[0], b)).collect(),
        (_, 1) => a.par_iter().with_min_len(4096).map(|&a| f(a, b[0])).collect(),
        _ => a.par_iter().zip(&b[..]).with_min_len(4096).map(|(&a, &b)| f(a, b)).collect(),
    }
}

fn softmax((shape, x): Values<'_>, axis: usize) -> Vec<f32> {
    let (count, inner): (usize, usize) = (shape[axis], shape[axis + 1..].iter().product());
    let mut out = x.to_vec();
    for block in out.chunks_mut(count * inner) {
        for at in 0..inner {
            let max = block[at..].iter().step_by(inner).fold(f32::NEG_INFINITY, |max, &x| max.max(x));
            let mut sum = 0.0;
            for x in block[at..].iter_mut().step_by(inner) {
                *x = (*x - max).exp();
                sum += *x;
            }
            for x in block[at..].iter_mut().step_by(inner) {
                *x /= sum;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
