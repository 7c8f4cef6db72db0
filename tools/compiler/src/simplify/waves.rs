// SPDX-License-Identifier: MIT OR Apache-2.0

//! Inputs of more columns than the hardware has, such as a second of sound. If one convolution reads such an input of one line and one
//! channel with a stride, the elements of each stride become channels. The input's elements keep their order.

use super::outer::Reshaped;
use super::pass::prune;
use crate::ir::{Convolution, Graph, Op, Padding, TensorId};
use crate::target::LARGEST_EXTENT;

/// Gives inputs of too many columns channels instead.
pub(super) fn fold_waves(graph: &mut Graph) -> Vec<Reshaped> {
    (0..graph.inputs.len()).filter_map(|at| fold(graph, graph.inputs[at])).collect()
}

fn fold(graph: &mut Graph, id: TensorId) -> Option<Reshaped> {
    let columns = graph.tensor(id).elements();
    if columns <= LARGEST_EXTENT as usize {
        return None;
    }
    // Reshapes alone are before the convolution, and functions of each element.
    let (mut x, mut functions) = (id, Vec::new());
    let reader = loop {
        // Scales per channel belong to an axis.
        let per_axis = graph.tensor(x).has_scales_of_an_axis();
        let (mut users, output) = (graph.users(x), graph.outputs.contains(&x));
        let (Some(user), None, false) = (users.next(), users.next(), output || per_axis) else { return None };
        let node = graph.node(user);
        let one = |id: &TensorId| graph.constant(*id).is_some_and(|values| values.len() == 1);
        match node.op {
            Op::Reshape { .. } => {}
            Op::Unary(_) => functions.push(user),
            Op::Binary(_) if node.inputs[0] == x && one(&node.inputs[1]) => functions.push(user),
            _ => break user,
        }
        x = node.output;
    };
    let node = graph.node(reader);
    let &Op::Convolution(Convolution { group: 1, kernel: [1, taps], stride: [_, stride], dilation, padding }) =
        &node.op
    else {
        return None;
    };
    let Padding { top: 0, bottom: 0, left, .. } = padding else { return None };
    let (weights, bias) = (*node.inputs.get(1)?, node.inputs.get(2).copied());
    let count = columns / stride;
    if graph.shape(x) != [1, 1, 1, columns]
        || dilation[1] != 1 && taps > 1
        || stride < 2
        || !columns.is_multiple_of(stride)
        || count > LARGEST_EXTENT as usize
    {
        return None;
    }
    // Tap k of window i reads element (i + column) * stride + channel.
    let place = |tap: usize| {
        let at = tap as isize - left as isize;
        (at.div_euclid(stride as isize), at.rem_euclid(stride as isize) as usize)
    };
    let (first, last) = (place(0).0, place(taps - 1).0);
    let wide = (last - first + 1) as usize;
    let kernels = graph.shape(weights)[0];
    let values = graph.constant(weights)?;
    let mut folded = vec![0.0; kernels * stride * wide];
    for (at, &weight) in values.iter().enumerate() {
        let (column, channel) = place(at % taps);
        folded[(at / taps * stride + channel) * wide + (column - first) as usize] = weight;
    }
    let before = usize::try_from(-first).ok()?;
    let after = (graph.shape(node.output)[3] + wide - 1).checked_sub(count + before)?;
    let shape = vec![1, stride, 1, count];
    let (input, name) = (graph.tensor(id).name.clone(), format!("{}'", graph.tensor(weights).name));
    let scales = graph.tensor(weights).quantization.clone();
    let folded = graph.add_constant(name, &[kernels, stride, 1, wide], folded).ok()?;
    graph.tensors[folded.0].quantization = scales.filter(|scales| scales.axis.is_none_or(|axis| axis == 0));
    let padding = Padding { left: before, right: after, ..padding };
    let op = Convolution { group: 1, kernel: [1, wide], stride: [1; 2], dilation: [1; 2], padding };
    let model = std::mem::replace(&mut graph.tensors[id.0].shape, shape.clone());
    let mut from = id;
    for function in functions {
        graph.nodes[function.0].inputs[0] = from;
        from = graph.nodes[function.0].output;
        graph.tensors[from.0].shape.clone_from(&shape);
    }
    // What is only another shape of a tensor may have its scale.
    let rounds = graph.tensors[from.0].quantization.take().or(graph.tensors[x.0].quantization.take());
    graph.tensors[from.0].quantization = rounds;
    let node = &mut graph.nodes[reader.0];
    node.op = Op::Convolution(op);
    node.inputs = [from, folded].into_iter().chain(bias).collect();
    prune(graph);
    Some(Reshaped { channels_last: true, ..Reshaped::new(&input, &model, &shape) })
}
