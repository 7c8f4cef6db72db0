// SPDX-License-Identifier: MIT OR Apache-2.0

//! Separable pairs: a convolution within groups, and one of 1 x 1 behind it that alone reads its sums. Together they are one
//! convolution of all channels, whose weights are the products of theirs. NVDLA computes convolutions within groups in blocks of
//! whole atoms, most of whose weights are zero, so one convolution may take less time although it multiplies more. Its sums are
//! also rounded once, and not twice.

use std::collections::HashMap;

use crate::ir::{Convolution, Graph, Node, Op, Padding, TensorId};

/// The greatest number of weights of the one convolution.
const MAX_WEIGHTS: usize = 1 << 22;

/// A pair: the positions of its nodes, and what they compute.
struct Pair {
    nodes: [usize; 2],
    convolutions: [Convolution; 2],
}

/// The graph with one convolution in place of each separable pair for which `cycles` says that this takes less time. None if there
/// is no such pair. `cycles` estimates a small graph.
pub(crate) fn join(graph: &Graph, mut cycles: impl FnMut(&Graph) -> Option<u64>) -> Option<Graph> {
    let mut known = HashMap::new();
    let mut joined: Option<Graph> = None;
    for pair in pairs(graph) {
        let [first, second] = pair.nodes.map(|k| &graph.nodes[k]);
        let shapes = [first.inputs[0], second.output].map(|id| graph.shape(id).to_vec());
        let [input, output] = shapes;
        let less = *known.entry((input, output, pair.convolutions)).or_insert_with(|| {
            let one = alone(graph, &pair).and_then(|one| cycles(&one));
            let two = graph.part(&pair.nodes).ok().and_then(|(two, _)| cycles(&two));
            matches!((one, two), (Some(one), Some(two)) if one < two)
        });
        if !less {
            continue;
        }
        let new = joined.get_or_insert_with(|| graph.clone());
        let (name, input, output) = (second.name.clone(), first.inputs[0], second.output);
        if let Some((op, inputs)) = product(new, graph, &pair, input) {
            new.nodes[pair.nodes[1]] = Node { name, op, inputs, output };
            // Without readers the first is left out.
            new.nodes[pair.nodes[0]].inputs.clear();
        }
    }
    let mut joined = joined?;
    joined.nodes.retain(|node| !node.inputs.is_empty());
    Some(joined)
}

/// The separable pairs of a graph.
fn pairs(graph: &Graph) -> Vec<Pair> {
    let readers = graph.readers();
    let constant = |node: &Node| {
        node.inputs[1..].iter().all(|&id| graph.constant(id).is_some() && graph.tensor(id).quantization.is_none())
    };
    let pair = |(k, node): (usize, &Node)| {
        let Op::Convolution(first) = node.op else { return None };
        let (middle, input) = (graph.tensor(node.output), graph.tensor(node.inputs[0]));
        let [reader] = readers[node.output.0][..] else { return None };
        let Op::Convolution(second) = graph.nodes[reader].op else { return None };
        let point = second.kernel == [1, 1] && second.stride == [1, 1] && second.group == 1;
        let plain = point && second.padding == Padding::default();
        let of_channels = graph.nodes[reader].inputs[0] == node.output && input.nchw()?[1] == first.group;
        let weights = first.kernel.iter().product::<usize>()
            * input.nchw()?[1]
            * graph.tensor(graph.nodes[reader].output).nchw()?[1];
        let free = middle.quantization.is_none() && !graph.outputs.contains(&node.output);
        let fits = plain && of_channels && first.group > 1 && weights <= MAX_WEIGHTS && free;
        let known = fits && constant(node) && constant(&graph.nodes[reader]);
        known.then_some(Pair { nodes: [k, reader], convolutions: [first, second] })
    };
    graph.nodes.iter().enumerate().filter_map(pair).collect()
}

/// A graph of a pair alone, as one convolution.
fn alone(graph: &Graph, pair: &Pair) -> Option<Graph> {
    let mut new = Graph::new("pair");
    let input = new.input("input", graph.shape(graph.nodes[pair.nodes[0]].inputs[0])).ok()?;
    let (op, inputs) = product(&mut new, graph, pair, input)?;
    let output = new.add("convolution", op, &inputs, "sums").ok()?;
    new.outputs.push(output);
    Some(new)
}

/// The convolution that computes what both compute one after the other. Its constants are added to a graph.
fn product(new: &mut Graph, graph: &Graph, pair: &Pair, input: TensorId) -> Option<(Op, Vec<TensorId>)> {
    let [first, second] = pair.nodes.map(|k| &graph.nodes[k]);
    let [filters, points] = [first, second].map(|node| graph.constant(node.inputs[1]));
    let (filters, points) = (filters?, points?);
    let [first_bias, second_bias] = [first, second].map(|node| node.inputs.get(2).and_then(|&id| graph.constant(id)));
    let [op, _] = pair.convolutions;
    let taps = op.kernel[0] * op.kernel[1];
    let middle = filters.len() / taps;
    let (channels, kernels) = (op.group, points.len() / middle);
    let each = middle / channels;
    let mut weights = vec![0.0; kernels * channels * taps];
    let mut sums = second_bias.map_or(vec![0.0; kernels], |bias| bias.to_vec());
    for (k, row) in points.chunks_exact(middle).enumerate() {
        for (j, &point) in row.iter().enumerate() {
            let into = &mut weights[(k * channels + j / each) * taps..][..taps];
            into.iter_mut().zip(&filters[j * taps..]).for_each(|(weight, filter)| *weight += point * filter);
            sums[k] += first_bias.map_or(0.0, |bias| point * bias[j]);
        }
    }
    let shape = [kernels, channels, op.kernel[0], op.kernel[1]];
    let name = format!("{} by {}", first.name, second.name);
    let weights = new.add_constant(format!("{name}: weights"), &shape, weights).ok()?;
    let bias = new.add_constant(format!("{name}: bias"), &[kernels], sums).ok()?;
    Some((Op::Convolution(Convolution { group: 1, ..op }), vec![input, weights, bias]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::float;

    /// Both graphs compute the same, also where padding meets the first bias, and a pair stays apart if that takes less time.
    #[test]
    fn one_convolution_computes_what_a_pair_computes() {
        let mut graph = Graph::new("pair");
        let numbers = |count: usize, seed: usize| -> Vec<f32> {
            (0..count).map(|k| ((k * 37 + seed * 11) % 19) as f32 / 9.0 - 1.0).collect()
        };
        let x = graph.input("x", &[1, 3, 5, 6]).unwrap();
        let mut constant = |shape: &[usize], seed: usize| {
            let values = numbers(shape.iter().product(), seed);
            graph.add_constant(format!("constant {seed}"), shape, values).unwrap()
        };
        let parts = [constant(&[6, 1, 3, 2], 1), constant(&[6], 2), constant(&[4, 6, 1, 1], 3), constant(&[4], 4)];
        let padding = Padding { top: 1, left: 2, bottom: 0, right: 1 };
        let op = Convolution { group: 3, kernel: [3, 2], stride: [2, 1], dilation: [1, 2], padding };
        let middle = graph.add("filters", Op::Convolution(op), &[x, parts[0], parts[1]], "middle").unwrap();
        let op = Convolution::pointwise();
        let y = graph.add("points", Op::Convolution(op), &[middle, parts[2], parts[3]], "y").unwrap();
        graph.outputs.push(y);
        let one = join(&graph, |part| Some(part.nodes.len() as u64)).unwrap();
        one.check().unwrap();
        assert_eq!((one.nodes.len(), one.nodes[0].output), (1, y));
        let sample = [numbers(90, 5)];
        let run = |graph: &Graph| float::run(graph, &sample, &mut |_, _| {}).unwrap().remove(0);
        for (found, expected) in run(&one).iter().zip(run(&graph)) {
            assert!((found - expected).abs() < 1e-4, "{found} instead of {expected}");
        }
        assert!(join(&graph, |part| Some(3 - part.nodes.len() as u64)).is_none());
        graph.outputs.push(middle);
        assert!(join(&graph, |part| Some(part.nodes.len() as u64)).is_none());
    }
}
