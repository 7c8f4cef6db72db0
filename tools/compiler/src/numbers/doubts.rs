// SPDX-License-Identifier: MIT OR Apache-2.0

//! Warnings about a network's numbers.

use nvdla_uapi::reg::values::Precision;

use crate::bounds::Bounds;
use crate::ir::Unary::{Acos, Acosh, Asin, Atanh, Cos, Cosh, Exp, Log, Reciprocal, Sin, Sinh, Sqrt};
use crate::ir::{self, Graph, Ranges};
use crate::net::step::{Net, Tensor};
use crate::target::UNKNOWN;

/// Functions that approach no line, or have no value for some arguments.
const STEEP: [ir::Unary; 12] = [Acos, Acosh, Asin, Atanh, Cos, Cosh, Exp, Log, Reciprocal, Sin, Sinh, Sqrt];
/// The largest number of half precision.
const LARGEST_HALF: f32 = 65504.0;

/// What is known to be wrong or uncertain of a network's numbers: values beyond half precision, and tables of functions that are
/// steep everywhere, over arguments of which nothing is known.
pub(crate) fn doubts(
    graph: &Graph,
    ranges: &Ranges,
    bounds: &[Bounds],
    net: &Net,
    tables: &[(String, f64)],
    precision: Precision,
) -> Vec<String> {
    let mut doubts = Vec::new();
    if precision == Precision::Fp16 {
        for id in net.inputs.iter().copied().chain(net.steps.iter().map(|step| step.output)) {
            let Tensor { name, range, .. } = &net.tensors[id];
            let largest = range.map_or(0.0, |range| range.max.abs().max(range.min.abs()));
            if largest > LARGEST_HALF {
                doubts.push(format!(
                    "\"{name}\" has values up to {largest} on the samples, and half precision ends at {LARGEST_HALF}: larger \
                     values become {LARGEST_HALF}"
                ));
            }
        }
    }
    for (node, unary) in unknown_arguments(graph, ranges, bounds) {
        let Some(step) = net.steps.iter().find(|step| step.nodes.contains(&node.name)) else { continue };
        let name = &net.tensors[step.output].name;
        let error = tables.iter().find(|(table, _)| table == name).map_or(0.0, |(_, error)| *error);
        doubts.push(format!(
            "\"{}\" ({}): nothing is known of its arguments, so its table covers {:?}, with errors of up to {error:.3}, and is \
             constant beyond; give samples (--calibrate)",
            node.name,
            unary.name(),
            UNKNOWN
        ));
    }
    doubts
}

/// The functions that are steep everywhere, of whose arguments nothing is known.
pub(crate) fn unknown_arguments<'a>(
    graph: &'a Graph,
    ranges: &'a Ranges,
    bounds: &'a [Bounds],
) -> impl Iterator<Item = (&'a ir::Node, ir::Unary)> {
    graph.nodes.iter().filter_map(move |node| {
        let ir::Op::Unary(unary) = node.op else { return None };
        let (x, (low, high)) = (node.inputs[0], bounds[node.inputs[0].0]);
        let unknown = ranges.get(x).is_none() && !(low.is_finite() && high.is_finite());
        (STEEP.contains(&unary) && unknown).then_some((node, unary))
    })
}
