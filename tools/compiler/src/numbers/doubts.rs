// SPDX-License-Identifier: MIT OR Apache-2.0

//! Warnings about a network's numbers.

use std::collections::HashSet;

use nvdla_uapi::reg::values::Precision;

use crate::bounds::Bounds;
use crate::calibrate::kept;
use crate::ir::Unary::{
    Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Exp, Log, Reciprocal, Sin, Sinh, Softsign, Sqrt, XLogX,
};
use crate::ir::{self, Graph, Ranges};
use crate::net::step::{Kind, Lrn, Net, PostOp, Step, Tensor, TensorId};
use crate::quantize::LARGEST;
use crate::target::UNKNOWN;

/// Functions that approach no line, approach it so slowly that they are several percent away from it where a table without known
/// arguments ends, or have no value for some arguments.
const STEEP: [ir::Unary; 16] =
    [Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Exp, Log, Reciprocal, Sin, Sinh, Softsign, Sqrt, XLogX];
/// The error of a table that is worth a warning, relative to the greatest value: results have about 34 dB.
const COARSE: f64 = 0.02;
/// The change of a result between two integers of the argument that is worth a warning, relative to the largest result: about 20 dB.
const COARSE_ARGUMENT: f64 = 0.25;
/// The least number of steps that the values of a part of an output reach.
const FEW_STEPS: f32 = 8.0;
/// How much larger steps than a quantized model's are worth a warning.
const LARGER: f32 = 1.5;
/// Arguments at which the greatest value of a function is looked for.
const SAMPLES: u32 = 256;
/// The largest number of half precision.
const LARGEST_HALF: f32 = 65504.0;

/// Whether a function approaches no line beyond the arguments of a table, or only slowly.
pub(crate) fn is_steep(unary: ir::Unary) -> bool {
    STEEP.contains(&unary) || matches!(unary, ir::Unary::Power(_))
}

/// What is known to be wrong or uncertain of a network's numbers: values beyond half precision, tables whose entries are too far
/// apart, and tables of functions that are steep everywhere, over arguments of which nothing is known.
pub(crate) fn doubts(
    graph: &Graph,
    ranges: &Ranges,
    bounds: &[Bounds],
    net: &Net,
    tables: &[(String, f64)],
    precision: Precision,
) -> Vec<String> {
    let mut doubts = ranges.doubts.clone();
    let wide = |(id, tensor): &(usize, &ir::Tensor)| {
        let is_wide = tensor.quantization.as_ref().is_some_and(ir::Quantization::is_wide);
        is_wide && tensor.constant.is_none() && !net.tensors[*id].wide
    };
    let coarse: Vec<_> = graph.tensors.iter().enumerate().filter(wide).collect();
    if let (Some((_, tensor)), false) = (coarse.first(), precision == Precision::Fp16) {
        doubts.push(format!(
            "the model quantizes {} tensors, such as \"{}\", to more than the 8 bits that they have here; fp16 and mixed precision \
             have more, on configurations with these",
            coarse.len(),
            tensor.name
        ));
    }
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
    if precision == Precision::Fp16 {
        for (node, lrn) in unknown_squares(graph, ranges, bounds) {
            let most = (lrn.usual() / lrn.size as f64).sqrt();
            doubts.push(format!(
                "\"{}\" (LRN): nothing is known of its values, so its table is for values up to about {most:.0}, and wrong for much \
                 larger ones; give samples (--calibrate)",
                graph.tensor(node.output).name
            ));
        }
    }
    let error_of = |name: &String| tables.iter().find(|(table, _)| table == name).map_or(0.0, |(_, error)| *error);
    let mut unknown = Vec::new();
    for (node, unary) in unknown_arguments(graph, ranges, bounds) {
        // A node of the model may be several steps.
        let computes = |step: &&Step| {
            let table = |post: &PostOp| matches!(post, PostOp::Table(function, ..) if function.unary == unary);
            step.nodes.contains(&node.name) && step.post_ops.iter().any(table)
        };
        let Some(step) = net.steps.iter().find(computes) else { continue };
        let name = &net.tensors[step.output].name;
        let error = error_of(name);
        unknown.push(name);
        doubts.push(format!(
            "\"{}\" ({}): nothing is known of its arguments, so its table covers {:?}, with errors of up to {error:.3}, and is \
             constant beyond; give samples (--calibrate)",
            node.name,
            unary.name(),
            UNKNOWN
        ));
    }
    for step in &net.steps {
        let name = &net.tensors[step.output].name;
        let table = step.post_ops.iter().find(|post| matches!(post, PostOp::Table(..)));
        let (what, [low, high], greatest) = match (&step.kind, table) {
            (_, Some(PostOp::Table(function, low, high))) => {
                (function.unary.name(), [*low, *high], greatest(&|x| function.at(x), [*low, *high]))
            }
            (Kind::Lrn(lrn), _) => {
                let largest =
                    net.tensors[step.inputs[0]].range.map_or(0.0, |range| range.min.abs().max(range.max.abs()));
                ("LRN, by sums of squares", [0.0, largest * largest * lrn.size as f32], lrn.factor(0.0))
            }
            _ => continue,
        };
        // In int8 the error is in steps of the output.
        let (most, unit) = if precision == Precision::Fp16 { (greatest, "") } else { (LARGEST, " steps") };
        let error = error_of(name);
        if error > COARSE * most && !unknown.contains(&name) {
            doubts.push(format!(
                "\"{name}\" ({what}): between {low} and {high} the entries of its table are far apart, with errors of up to \
                 {error:.3}{unit}"
            ));
        }
    }
    if precision != Precision::Fp16 {
        doubts.extend(coarse_parts(net));
        doubts.extend(coarse_inputs(graph, ranges, net));
        doubts.extend(coarse_softmaxes(graph, net));
        doubts.extend(net.steps.iter().filter_map(|step| coarse_argument(step, net)));
    }
    doubts
}

/// A function that changes much between two integers of its argument, where its result is greatest: 1 / x of values near 0 beside large
/// ones.
fn coarse_argument(step: &Step, net: &Net) -> Option<String> {
    let (unary, function): (_, &dyn Fn(f64) -> f64) = match (&step.kind, step.post_ops.first()) {
        (Kind::Copy, Some(PostOp::Table(function, ..))) => (function.unary, &|x| function.at(x)),
        (Kind::Power(power), _) => (ir::Unary::Power(power.exponent), &|x| x.powf(power.exponent.into())),
        _ => return None,
    };
    let (argument, result) = (&net.tensors[step.inputs[0]], &net.tensors[step.output]);
    let (from, to) = (argument.range?, result.range?);
    if argument.wide || !is_steep(unary) {
        return None;
    }
    let [low, high, least, most] = [from.span.0, from.span.1, from.min, from.max].map(f64::from);
    let integer = (high - low) / 255.0;
    let largest = f64::from(to.min.abs().max(to.max.abs()));
    let change = |x: f64| (function((x + integer).min(most)) - function(x), function(x));
    let reached = (0..=SAMPLES).map(|at| change(least + (most - least) * f64::from(at) / f64::from(SAMPLES)));
    let reached = reached.filter(|(by, value)| by.is_finite() && value.abs() <= largest * (1.0 + COARSE));
    let change = reached.map(|(by, _)| by.abs()).fold(0.0, f64::max);
    (change > COARSE_ARGUMENT * largest).then(|| {
        format!(
            "{:?} ({}): its argument has steps of {integer}, between which the result changes by up to {change:.3}, and the largest \
             result is {largest}: small arguments have coarse results",
            result.name,
            unary.name()
        )
    })
}

/// The softmaxes of a quantized model whose steps are larger than in the model, because they have no zero point.
fn coarse_softmaxes<'a>(graph: &'a Graph, net: &'a Net) -> impl Iterator<Item = String> + 'a {
    net.steps.iter().filter(|step| matches!(step.kind, Kind::Softmax(_))).filter_map(|step| {
        let own = net.tensors[step.output].range?.scale;
        graph.tensors.get(step.output)?;
        let all = kept(graph, ir::TensorId(step.output));
        let quantization = all.iter().find_map(|&id| graph.tensor(id).quantization.as_ref())?;
        let &[scale] = &quantization.scale[..] else { return None };
        let read = all.last().is_some_and(|&last| graph.users(last).next().is_some());
        (read && own > LARGER * scale).then(|| {
            format!(
                "{:?} (softmax) has steps of {own}, and {scale} in the model: if its values are much smaller than 1, give samples \
                 (--calibrate), which show how large they become",
                graph.tensors[step.output].name
            )
        })
    })
}

/// The parts of outputs whose values are few steps of the scale that all parts have: the scores beside the boxes of a detector.
fn coarse_parts(net: &Net) -> Vec<String> {
    let maker = |id: TensorId| net.steps.iter().find(|step| step.output == id);
    let mut doubts = Vec::new();
    for &output in &net.outputs {
        let name = &net.tensors[output].name;
        // Nothing but copies, views and what moves channels between a concatenation and the output.
        let moves = |step: &&Step| {
            step.post_ops.is_empty() && (step.kind == Kind::Copy || step.kind.is_view() || step.nodes.is_empty())
        };
        let mut made = maker(output);
        while let Some(step) = made.filter(|step| moves(step) && !matches!(step.kind, Kind::Concat(_))) {
            made = maker(step.inputs[0]);
        }
        let Some(Step { kind: Kind::Concat(_), inputs, output: joined, .. }) = made else { continue };
        let Some(all) = net.tensors[*joined].range else { continue };
        for &part in inputs {
            let source = maker(part).filter(moves).map_or(part, |copy| copy.inputs[0]);
            let Tensor { name: of, range: Some(own), .. } = &net.tensors[source] else { continue };
            let largest = own.min.abs().max(own.max.abs());
            if largest > 0.0 && largest < FEW_STEPS * all.scale && !net.tensors[part].wide {
                doubts.push(format!(
                    "{name:?} joins {of:?}, whose values end at {largest}, with larger ones: a step of the output is {}; as an \
                     output of its own (--outputs) {of:?} has smaller steps",
                    all.scale
                ));
            }
        }
    }
    doubts
}

/// The inputs that a model divides into parts, of which one has values of few steps of the scale that all parts have: the hidden
/// elements beside the cells of a recurrent layer.
fn coarse_inputs(graph: &Graph, ranges: &Ranges, net: &Net) -> Vec<String> {
    let mut doubts = Vec::new();
    for &input in &graph.inputs {
        let Some(all) = net.tensors[input.0].range else { continue };
        let mut moved = HashSet::from([input]);
        let mut least = f32::INFINITY;
        for node in &graph.nodes {
            let moves = matches!(node.op, ir::Op::Slice { .. } | ir::Op::Reshape { .. } | ir::Op::Transpose { .. });
            if !moves || !moved.contains(&node.inputs[0]) {
                continue;
            }
            moved.insert(node.output);
            let largest = ranges.get(node.output).map_or(0.0, |own| own.min.abs().max(own.max.abs()));
            if largest > 0.0 {
                least = least.min(largest);
            }
        }
        if least < FEW_STEPS * all.scale {
            doubts.push(format!(
                "{:?} has a part whose values end at {least} beside larger ones, and one step for all, {}: as inputs of their own \
                 (--inputs) the parts have steps of their own",
                graph.tensor(input).name,
                all.scale
            ));
        }
    }
    doubts
}

/// The greatest magnitude of a function between two arguments.
fn greatest(function: &dyn Fn(f64) -> f64, [low, high]: [f32; 2]) -> f64 {
    let [low, high] = [low, high].map(f64::from);
    let values = (0..=SAMPLES).map(|at| function(low + (high - low) * f64::from(at) / f64::from(SAMPLES)).abs());
    values.filter(|value| value.is_finite()).fold(0.0, f64::max)
}

/// Whether nothing is known of a tensor's values.
fn is_unknown(id: ir::TensorId, ranges: &Ranges, bounds: &[Bounds]) -> bool {
    let (low, high) = bounds[id.0];
    ranges.get(id).is_none() && !(low.is_finite() && high.is_finite())
}

/// The normalisations over channels, of whose values nothing is known.
pub(crate) fn unknown_squares<'a>(
    graph: &'a Graph,
    ranges: &'a Ranges,
    bounds: &'a [Bounds],
) -> impl Iterator<Item = (&'a ir::Node, Lrn)> {
    graph.nodes.iter().filter_map(move |node| {
        let ir::Op::Lrn { size, alpha, beta, bias } = node.op else { return None };
        is_unknown(node.inputs[0], ranges, bounds).then_some((node, Lrn { size, alpha, beta, bias }))
    })
}

/// The functions that are steep everywhere, of whose arguments nothing is known.
pub(crate) fn unknown_arguments<'a>(
    graph: &'a Graph,
    ranges: &'a Ranges,
    bounds: &'a [Bounds],
) -> impl Iterator<Item = (&'a ir::Node, ir::Unary)> {
    graph.nodes.iter().filter_map(move |node| {
        let ir::Op::Unary(unary) = node.op else { return None };
        (is_steep(unary) && is_unknown(node.inputs[0], ranges, bounds)).then_some((node, unary))
    })
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::{NV_FULL, NV_SMALL};

    use crate::calibrate::{measure, Method};
    use crate::ir::{Convolution, Graph, Op, Unary};
    use crate::options::Options;
    use crate::pipeline::compile;

    /// 1 / x of values from 0.1 on.
    #[test]
    fn steep_functions_of_few_steps_are_warned_of() {
        for (config, most, warned) in [(&NV_SMALL, 2.0, false), (&NV_SMALL, 100.0, true), (&NV_FULL, 100.0, true)] {
            let mut graph = Graph::new("function");
            let x = graph.input("x", &[1, 1, 8, 8]).unwrap();
            let y = graph.add("inverse", Op::Unary(Unary::Reciprocal), &[x], "y").unwrap();
            graph.outputs.push(y);
            let sample: Vec<f32> = (0..64).map(|k| 0.1 + (most - 0.1) * k as f32 / 63.0).collect();
            let ranges = measure(&graph, [Ok(vec![sample])], Method::Max).unwrap();
            let warnings = compile(&graph, &ranges, &Options::new(config)).unwrap().report.warnings;
            let found = warnings.iter().any(|warning| warning.contains("small arguments have coarse results"));
            assert_eq!(found, warned, "{}, {most}: {warnings:?}", config.name);
        }
    }

    /// A state of hidden elements up to 1 and cells up to 200.
    #[test]
    fn small_parts_of_an_input_are_warned_of() {
        for (cells, warned) in [(200.0, true), (2.0, false)] {
            let mut graph = Graph::new("state");
            let x = graph.input("state", &[1, 8, 2, 2]).unwrap();
            let part = |start| Op::Slice { starts: vec![0, start, 0, 0], steps: vec![1; 4], lengths: vec![1, 4, 2, 2] };
            for (start, name) in [(0, "hidden"), (4, "cells")] {
                let part = graph.add(name, part(start), &[x], name).unwrap();
                let weights = graph.add_constant(format!("{name} weights"), &[4, 4, 1, 1], vec![0.5; 16]).unwrap();
                let op = Op::Convolution(Convolution::pointwise());
                let y = graph.add("y", op, &[part, weights], format!("{name} out")).unwrap();
                graph.outputs.push(y);
            }
            let sample: Vec<f32> = (0..32).map(|k| if k < 16 { k as f32 / 16.0 } else { cells }).collect();
            let ranges = measure(&graph, [Ok(vec![sample])], Method::Max).unwrap();
            let warnings = compile(&graph, &ranges, &Options::new(&NV_SMALL)).unwrap().report.warnings;
            assert_eq!(warnings.iter().any(|warning| warning.contains("\"state\" has a part")), warned, "{warnings:?}");
        }
    }
}
