// SPDX-License-Identifier: MIT OR Apache-2.0

//! The int8 scale of each activation: measured on samples, read from a table, or given by a quantized model.
//!
//! NVDLA's int8 is symmetric: value = integer * scale, integers from -128 to 127.

mod histogram;
pub mod samples;
pub mod table;

use crate::float;
use crate::ir::{Graph, Op, PoolKind, Range, Ranges, TensorId, Unary};
use histogram::Histogram;
pub use histogram::Method;

/// Why there are no scales.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A sample cannot be read, or does not fit the network.
    #[error("{0}")]
    Sample(String),
    /// The table of scales cannot be read.
    #[error("{0}")]
    Table(String),
    /// Tensors without a scale.
    #[error("no scale is known for {}; give samples to measure them (--calibrate)", .0.join(", "))]
    Missing(Vec<String>),
    /// A tensor that has no finite values.
    #[error("the tensor \"{0}\" has values that are not finite on the samples")]
    NotFinite(String),
}

/// Measures the range of each activation on samples: the values of the graph's inputs, in their order.
pub fn measure(
    graph: &Graph,
    samples: impl IntoIterator<Item = Result<Vec<Vec<f32>>, Error>>,
    method: Method,
) -> Result<Ranges, Error> {
    let mut histograms: Vec<Option<Histogram>> = vec![None; graph.tensors.len()];
    for sample in samples {
        let mut visit = |id: TensorId, values: &[f32]| histograms[id.0].get_or_insert_default().add(values);
        float::run(graph, &sample?, &mut visit).map_err(Error::Sample)?;
    }
    let mut ranges = Ranges::new();
    for (k, histogram) in histograms.iter().enumerate() {
        let Some(histogram) = histogram else { continue };
        if !histogram.is_finite() {
            return Err(Error::NotFinite(graph.tensors[k].name.clone()));
        }
        ranges.set(TensorId(k), histogram.range(method));
    }
    Ok(ranges)
}

/// The range of integers of a quantized model. Scales without a zero point are used as they are; others, and those of
/// unsigned integers, become the symmetric scale that holds the same values.
pub fn of_model(graph: &Graph) -> Ranges {
    let mut ranges = Ranges::new();
    for (k, tensor) in graph.tensors.iter().enumerate() {
        let (Some(q), None) = (&tensor.quantization, &tensor.constant) else { continue };
        let (scale, zero) = (q.scale[0], q.zero_point[0]);
        let value = |integer: i32| (f64::from(integer) - f64::from(zero)) as f32 * scale;
        let mut range = Range::of(value(q.limits.0), value(q.limits.1));
        if zero == 0 && q.limits == (-128, 127) {
            range.scale = scale;
        }
        ranges.set(TensorId(k), range);
    }
    ranges
}

/// Whether an operator's output has values of its input only, so that both can have one range.
fn keeps_values(op: &Op) -> bool {
    match op {
        Op::Pool(pool) => pool.kind == PoolKind::Max,
        Op::Unary(unary) => matches!(unary, Unary::Relu | Unary::Clip(..) | Unary::Round),
        Op::DepthToSpace { .. }
        | Op::SpaceToDepth { .. }
        | Op::Slice { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::ChannelPermutation { .. } => true,
        _ => false,
    }
}

/// Completes the ranges of a graph: those in `given` stay, those that an operator only passes on are derived, the rest
/// is taken from `measured`. An error names what is still missing.
pub fn complete(graph: &Graph, given: Ranges, measured: Option<&Ranges>) -> Result<Ranges, Error> {
    let mut ranges = given;
    if let Some(measured) = measured {
        for k in 0..graph.tensors.len() {
            if let (None, Some(range)) = (ranges.get(TensorId(k)), measured.get(TensorId(k))) {
                ranges.set(TensorId(k), *range);
            }
        }
    }
    for node in &graph.nodes {
        if keeps_values(&node.op) && ranges.get(node.output).is_none() {
            if let Some(range) = ranges.get(node.inputs[0]).copied() {
                ranges.set(node.output, range);
            }
        }
    }
    // What only feeds a limit needs no more range than what the limit leaves.
    for node in graph.nodes.iter().rev() {
        let x = node.inputs[0];
        if keeps_values(&node.op)
            && ranges.get(x).is_none()
            && graph.users(x).count() == 1
            && !graph.outputs.contains(&x)
        {
            if let Some(range) = ranges.get(node.output).copied() {
                ranges.set(x, range);
            }
        }
    }
    let activations = graph.inputs.iter().copied().chain(graph.nodes.iter().map(|node| node.output));
    let missing = activations.filter(|&id| ranges.get(id).is_none());
    let missing: Vec<String> = missing.map(|id| format!("\"{}\"", graph.tensor(id).name)).collect();
    if missing.is_empty() {
        Ok(ranges)
    } else {
        Err(Error::Missing(missing))
    }
}

#[cfg(test)]
mod tests;
