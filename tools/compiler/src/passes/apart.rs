// SPDX-License-Identifier: MIT OR Apache-2.0

//! Scales of a quantized model where tensors share memory.
//!
//! A pooling, a concatenation and a view have the scale of their inputs, but the model may quantize an input and the output
//! differently. A copy then changes the scale.

use crate::ir::Range;
use crate::net::step::{Kind, Net, Step, TensorId};

/// The least relative difference of two steps, and of two zeros, with which tensors have separate scales.
const DIFFERENT: f32 = 1e-3;

/// Whether a quantized model gives both ranges, and they differ.
fn differ(a: Option<Range>, b: Option<Range>) -> bool {
    let (Some(a), Some(b)) = (a.filter(|range| range.given), b.filter(|range| range.given)) else { return false };
    let reach = DIFFERENT * (a.span.1 - a.span.0);
    (a.span.0 - b.span.0).abs() > reach || (a.span.1 - b.span.1).abs() > reach
}

/// Separates tensors that share memory, but not a scale.
pub(crate) fn apart(net: &mut Net) {
    for index in (0..net.steps.len()).rev() {
        if net.steps[index].kind.rescales() {
            continue;
        }
        let into = net.tensors[net.steps[index].output].range;
        let mut copies = Vec::new();
        for at in 0..net.steps[index].inputs.len() {
            let (step, input) = (&net.steps[index], net.steps[index].inputs[at]);
            if !differ(net.tensors[input].range, into) {
                continue;
            }
            let nodes = step.nodes.clone();
            let copy =
                |from: TensorId, to| Step { nodes, kind: Kind::Copy, inputs: vec![from], post_ops: vec![], output: to };
            if let Kind::Concat(_) = step.kind {
                let part = net.like(input);
                net.tensors[part].range = into;
                net.steps[index].inputs[at] = part;
                copies.push(copy(input, part));
            } else {
                let (output, made) = (step.output, net.like(step.output));
                net.tensors[made].range = net.tensors[input].range;
                net.steps[index].output = made;
                net.steps.insert(index + 1, copy(made, output));
            }
        }
        net.steps.splice(index..index, copies);
    }
}
