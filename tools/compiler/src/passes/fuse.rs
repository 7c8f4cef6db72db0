// SPDX-License-Identifier: MIT OR Apache-2.0

//! Joins steps: a fully connected layer with the flattening before it, and steps of SDP with the step that computes their input.

use std::collections::HashMap;

use nvdla_uapi::config::Config;

use crate::ir::Padding;
use crate::net::step::{Combine, Convolution, Kind, Net, PostOp, Step, TensorId, Within};
use crate::passes::apart::apart;
use crate::target::LARGEST_KERNEL;

/// Joins the steps of a network, and removes those whose results no step reads.
pub(crate) fn fuse(net: &mut Net, config: &Config) {
    skip_same(net);
    fold_reshapes(net);
    join(net, config);
    // A copy that changes the scale is not joined with the step before, because the model rounds twice.
    if net.integers {
        apart(net);
    }
    drop_unused(net);
}

/// Lets the readers of a tensor that is the same as another one read that. The limits of such a tensor are kept: the integers of
/// the other one have to saturate there.
fn skip_same(net: &mut Net) {
    let mut index = 0;
    while index < net.steps.len() {
        let step = &net.steps[index];
        let (input, output) = (step.inputs[0], step.output);
        let same = step.kind == Kind::Same && net.tensors[input].shape == net.tensors[output].shape;
        if !same || net.outputs.contains(&output) {
            index += 1;
            continue;
        }
        if let Some(PostOp::Within(low, high, limited)) = step.post_ops.first() {
            net.within.push(Within { tensor: input, limited: *limited, low: *low, high: *high });
        }
        net.steps.remove(index);
        let replace = |id: &mut TensorId| *id = if *id == output { input } else { *id };
        for step in &mut net.steps[index..] {
            step.inputs.iter_mut().for_each(replace);
            for post in &mut step.post_ops {
                if let PostOp::With(_, other) = post {
                    replace(other);
                }
            }
        }
    }
}

/// A fully connected layer after a flattening becomes a convolution whose kernels are as large as the tensor before.
fn fold_reshapes(net: &mut Net) {
    let makers: HashMap<TensorId, usize> =
        net.steps.iter().enumerate().map(|(index, step)| (step.output, index)).collect();
    for index in 0..net.steps.len() {
        let step = &net.steps[index];
        let (Kind::Convolution(conv), from) = (&step.kind, step.inputs[0]) else { continue };
        let [_, h, w] = net.tensors[from].shape;
        // Around the tensor before, there would be other windows.
        let padded = conv.op.padding != Padding::default();
        if (h, w) != (1, 1) || conv.op.kernel != [1, 1] || conv.op.group != 1 || padded {
            continue;
        }
        let (mut source, mut nodes) = (from, Vec::new());
        while let Some(maker) =
            makers.get(&source).map(|&maker| &net.steps[maker]).filter(|maker| maker.kind == Kind::Same)
        {
            nodes.splice(0..0, maker.nodes.iter().cloned());
            source = maker.inputs[0];
        }
        if source == from {
            continue;
        }
        let [_, h, w] = net.tensors[source].shape;
        if h.max(w) > LARGEST_KERNEL as u32 || net.tensors[source].elements() != net.tensors[from].elements() {
            continue;
        }
        let mut conv = conv.clone();
        conv.op.kernel = [h as usize, w as usize];
        conv.op.stride = [1, 1];
        let step = &mut net.steps[index];
        step.inputs[0] = source;
        step.nodes = nodes.into_iter().chain(step.nodes.drain(..)).collect();
        step.kind = Kind::Convolution(conv);
    }
}

/// Joins steps through SDP's sub-units.
fn join(net: &mut Net, config: &Config) {
    let mut index = 0;
    while index < net.steps.len() {
        if net.steps[index].kind == Kind::Copy {
            if let Some((maker, step)) = joined(net, index, config) {
                net.steps[index] = step;
                net.steps.remove(maker);
                continue;
            }
        }
        index += 1;
    }
}

/// The step that computes the input of a copy, if the copy can be joined to it, with its number.
fn joined(net: &Net, index: usize, config: &Config) -> Option<(usize, Step)> {
    let step = &net.steps[index];
    let mut variants = vec![(step.inputs[0], step.post_ops.clone())];
    if let [PostOp::With(combine, other), rest @ ..] = &step.post_ops[..] {
        let same = net.tensors[*other].shape == net.tensors[step.inputs[0]].shape;
        if same && *combine != (Combine::Add { negate: true }) {
            let mut post_ops = vec![PostOp::With(*combine, step.inputs[0])];
            post_ops.extend_from_slice(rest);
            variants.push((*other, post_ops));
        }
    }
    // The later maker is tried first, because its operand is certainly known then.
    let maker_of = |tensor: TensorId| net.steps[..index].iter().rposition(|maker| maker.output == tensor);
    variants.sort_by_key(|(tensor, _)| std::cmp::Reverse(maker_of(*tensor)));
    for (tensor, post_ops) in variants {
        let Some(maker) = maker_of(tensor) else { continue };
        let before = &net.steps[maker];
        let reads = net.steps.iter().flat_map(Step::reads).filter(|&read| read == tensor).count();
        if reads != 1 || net.outputs.contains(&tensor) || !before.kind.in_sdp() {
            continue;
        }
        // Averages over all lines and columns share weights among channels (`codegen::average`).
        let average = matches!(&before.kind, Kind::Convolution(conv) if conv.is_average());
        if average && net.tensors[tensor].shape[1..] == [1, 1] && !post_ops.iter().all(PostOp::is_shared) {
            continue;
        }
        let mut kind = before.kind.clone();
        let mut all = before.post_ops.clone();
        if let (Some(PostOp::Within(low, high, _)), false) = (all.last(), post_ops.is_empty()) {
            // The tensor with these limits is not stored, so its integers do not saturate.
            let limits = PostOp::limits(*low, *high);
            all.pop();
            all.extend(limits);
        }
        for post in post_ops {
            let only = all.len() == 1;
            match (&mut kind, all.last_mut(), post) {
                (Kind::Convolution(conv), None, PostOp::Affine(scale, shift)) => scale_weights(conv, &scale, &shift),
                (Kind::Copy, Some(PostOp::Affine(scale, shift)), PostOp::Affine(by, add)) if only => {
                    (*scale, *shift) = both(scale, shift, &by, &add);
                }
                // One factor and one addend behind a table are a part of its function.
                (_, Some(PostOp::Table(function, ..)), PostOp::Affine(by, add)) if by.len() == 1 && add.len() == 1 => {
                    function.factor *= by[0];
                    function.offset = function.offset * by[0] + add[0];
                }
                (_, _, post) => all.push(post),
            }
        }
        if let Kind::Copy = kind {
            // A factor of one without an addend has no effect.
            if let Some(PostOp::Affine(scale, shift)) = all.first() {
                if all.len() > 1
                    && scale.iter().all(|s| s.to_bits() == 1f32.to_bits())
                    && shift.iter().all(|&s| s == 0.0)
                {
                    all.remove(0);
                }
            }
        }
        if net.pipe(config, &kind, &all, step.output).is_some() {
            let nodes = before.nodes.iter().chain(&step.nodes).cloned().collect();
            return Some((
                maker,
                Step { nodes, kind, inputs: before.inputs.clone(), post_ops: all, output: step.output },
            ));
        }
    }
    None
}
fn scale_weights(conv: &mut Convolution, scale: &[f32], shift: &[f32]) {
    let of = |values: &[f32], k: usize| values[if values.len() == 1 { 0 } else { k }];
    let each = conv.weights.len() / conv.kernels;
    let weights = conv.weights.iter().enumerate().map(|(at, weight)| weight * of(scale, at / each));
    conv.weights = weights.collect();
    for (k, bias) in conv.bias.iter_mut().enumerate() {
        *bias = *bias * of(scale, k) + of(shift, k);
    }
}

/// (x * scale + shift) * by + add.
fn both(scale: &[f32], shift: &[f32], by: &[f32], add: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let count = scale.len().max(by.len());
    let of = |values: &[f32], k: usize| values[if values.len() == 1 { 0 } else { k }];
    (0..count).map(|k| (of(scale, k) * of(by, k), of(shift, k) * of(by, k) + of(add, k))).unzip()
}

fn drop_unused(net: &mut Net) {
    loop {
        let readers = net.readers();
        let before = net.steps.len();
        let outputs = net.outputs.clone();
        net.steps.retain(|step| outputs.contains(&step.output) || readers.contains_key(&step.output));
        if net.steps.len() == before {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::NV_SMALL;

    use super::*;
    use crate::net::example::{convolution, net, step};

    /// SDP's functions join the convolution before them, unless something else reads its output.
    #[test]
    fn functions_join_the_step_that_makes_their_argument() {
        let steps = || vec![step(convolution(3, 4, 3), &[0], vec![], 1), step(Kind::Copy, &[1], vec![PostOp::Relu], 2)];
        let shapes = [[3, 5, 5], [4, 5, 5], [4, 5, 5]];
        let mut joined = net(&shapes, steps());
        fuse(&mut joined, &NV_SMALL);
        assert_eq!(joined.steps.len(), 1);
        assert_eq!((joined.steps[0].output, &joined.steps[0].post_ops), (2, &vec![PostOp::Relu]));
        let mut apart = net(&shapes, steps());
        apart.outputs.push(1);
        fuse(&mut apart, &NV_SMALL);
        assert_eq!(apart.steps.len(), 2);
    }

    /// A layer behind a flattening has kernels as large as the tensor before, unless it is padded.
    #[test]
    fn a_layer_reads_the_tensor_before_a_flattening() {
        for (pad, kernel, shape) in [(0, [2, 3], [5, 1, 1]), (1, [1, 1], [5, 3, 3])] {
            let padding = Padding { top: pad, left: pad, bottom: pad, right: pad };
            let mut kind = convolution(24, 5, 1);
            if let Kind::Convolution(conv) = &mut kind {
                conv.op.padding = padding;
            }
            let steps = vec![step(Kind::Same, &[0], vec![], 1), step(kind, &[1], vec![], 2)];
            let mut net = net(&[[4, 2, 3], [24, 1, 1], shape], steps);
            fuse(&mut net, &NV_SMALL);
            let Some(Kind::Convolution(conv)) = net.steps.last().map(|step| &step.kind) else { panic!() };
            assert_eq!((conv.op.kernel, conv.op.padding), (kernel, padding));
        }
    }
}
