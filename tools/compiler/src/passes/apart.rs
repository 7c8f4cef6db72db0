// SPDX-License-Identifier: MIT OR Apache-2.0

//! Scales where tensors share memory.
//!
//! A pooling, a concatenation and a view have the scale of their inputs, but a quantized model may quantize an input and the output
//! differently. In other models the steps of a concatenation may be far too large for another reader of one of its parts: the boxes of
//! a detector are hundreds of pixels, and the numbers from which they are computed are not. A copy then changes the scale.

use std::collections::HashMap;

use crate::ir::Range;
use crate::net::step::{Kind, Net, Step, TensorId};

/// The least relative difference of two steps, and of two zeros, with which tensors have separate scales.
const DIFFERENT: f32 = 1e-3;

/// How many times larger the steps of a concatenation may be than those of a part that something else reads: 3 of 8 bits are lost.
const COARSER: f32 = 8.0;

/// Whether a quantized model gives both ranges, and they differ.
fn differ(a: Option<Range>, b: Option<Range>) -> bool {
    let (Some(a), Some(b)) = (a.filter(|range| range.given), b.filter(|range| range.given)) else { return false };
    let reach = DIFFERENT * (a.span.1 - a.span.0);
    (a.span.0 - b.span.0).abs() > reach || (a.span.1 - b.span.1).abs() > reach
}

/// Whether a part of a concatenation with steps of that size shares its scale with a tensor of far smaller steps, which something else
/// reads.
fn coarser(net: &Net, readers: &[usize], part: TensorId, into: f32) -> bool {
    let (mut at, mut others) = (part, false);
    loop {
        others |= readers[at] > 1 || net.outputs.contains(&at);
        match net.steps.iter().find(|step| step.output == at).map(|step| (&step.kind, step.inputs[0])) {
            Some((kind, from)) if !kind.rescales() && !matches!(kind, Kind::Concat(_)) => at = from,
            _ => break,
        }
    }
    let own = net.tensors[at].range.map_or(f32::INFINITY, |range| range.scale);
    others && !net.tensors[part].wide && into > COARSER * own
}

/// Separates tensors that share memory, but not a scale.
pub(crate) fn apart(net: &mut Net) {
    let mut readers = vec![0; net.tensors.len()];
    net.steps.iter().flat_map(Step::reads).for_each(|read| readers[read] += 1);
    // The largest steps of the concatenations to which a tensor hands its scale.
    let mut largest: HashMap<TensorId, f32> = HashMap::new();
    for index in (0..net.steps.len()).rev() {
        if net.steps[index].kind.rescales() {
            continue;
        }
        let output = net.steps[index].output;
        let into = net.tensors[output].range;
        let steps = into.map_or(0.0, |range| range.scale).max(largest.get(&output).copied().unwrap_or(0.0));
        let mut copies = Vec::new();
        for at in 0..net.steps[index].inputs.len() {
            let (step, input) = (&net.steps[index], net.steps[index].inputs[at]);
            let joined = matches!(step.kind, Kind::Concat(_));
            if !(differ(net.tensors[input].range, into) || joined && coarser(net, &readers, input, steps)) {
                largest.insert(input, steps.max(largest.get(&input).copied().unwrap_or(0.0)));
                continue;
            }
            let nodes = step.nodes.clone();
            let copy =
                |from: TensorId, to| Step { nodes, kind: Kind::Copy, inputs: vec![from], post_ops: vec![], output: to };
            if joined {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::example::{convolution, net, step};

    /// Boxes that are joined with the numbers from which they are computed, and those numbers' scale.
    #[test]
    fn a_part_that_something_else_reads_keeps_its_steps() {
        for (largest, copies) in [(500.0, 1), (2.0, 0)] {
            let steps = vec![
                step(convolution(3, 4, 1), &[0], vec![], 1),
                step(convolution(4, 4, 1), &[1], vec![], 2),
                step(Kind::Concat(0), &[1, 2], vec![], 3),
            ];
            let mut net = net(&[[3, 4, 4], [4, 4, 4], [4, 4, 4], [8, 4, 4]], steps);
            (net.tensors[2].range, net.tensors[3].range) =
                (Some(Range::of(-largest, largest)), Some(Range::of(-largest, largest)));
            apart(&mut net);
            assert_eq!(net.steps.iter().filter(|step| step.kind == Kind::Copy).count(), copies);
        }
    }
    /// The scale goes through a concatenation that is joined again.
    #[test]
    fn a_part_of_a_part_keeps_its_steps() {
        let shapes = [[3, 4, 4], [4, 4, 4], [4, 4, 4], [4, 4, 4], [8, 4, 4], [4, 4, 4], [12, 4, 4]];
        let steps = vec![
            step(convolution(3, 4, 1), &[0], vec![], 1),
            step(convolution(3, 4, 1), &[0], vec![], 2),
            step(convolution(4, 4, 1), &[1], vec![], 3),
            step(Kind::Concat(0), &[1, 2], vec![], 4),
            step(convolution(4, 4, 1), &[3], vec![], 5),
            step(Kind::Concat(0), &[4, 5], vec![], 6),
        ];
        let mut net = net(&shapes, steps);
        for large in [5, 6] {
            net.tensors[large].range = Some(Range::of(-500.0, 500.0));
        }
        apart(&mut net);
        let copies: Vec<_> =
            net.steps.iter().filter(|step| step.kind == Kind::Copy).map(|step| step.inputs[0]).collect();
        assert_eq!(copies, [1]);
    }
}
