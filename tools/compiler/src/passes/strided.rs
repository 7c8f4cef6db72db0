// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tensors of which only every n-th line and column is read, such as the input of a stage of ResNet v1, whose first convolutions are
//! of 1 x 1 in strides of two. The stride moves up through sums, functions and convolutions of 1 x 1 to the convolution or pooling
//! that makes the values, which then makes no others. An operand that others read as a whole is sliced.

use std::collections::HashMap;

use crate::ir::{Convolution, Graph, Node, Op, Padding, Pool, Ranges, Tensor, TensorId};

/// The graph in which strides have moved up wherever `cycles` says that this takes less time, and its ranges. None if there is no
/// such place. `cycles` estimates a small graph.
pub fn move_up(
    graph: &Graph,
    ranges: &Ranges,
    mut cycles: impl FnMut(&Graph) -> Option<u64>,
) -> Option<(Graph, Ranges)> {
    let strides = strides(graph);
    let mut wanted = vec![None; strides.len()];
    for nodes in regions(graph, &strides) {
        let Ok((whole, known)) = graph.part(&nodes) else { continue };
        let mut own = vec![None; whole.tensors.len()];
        for (id, at) in known {
            own[at.0] = strides[id.0];
        }
        let Some((thin, _)) = applied(&whole, &Ranges::new(), &own) else { continue };
        if matches!((cycles(&thin), cycles(&whole)), (Some(thin), Some(whole)) if thin < whole) {
            let made = nodes.iter().map(|&k| graph.nodes[k].output.0);
            made.for_each(|id| wanted[id] = strides[id]);
        }
    }
    applied(graph, ranges, &wanted)
}

/// A convolution of 1 x 1 without padding.
fn point(op: &Op) -> Option<&Convolution> {
    match op {
        Op::Convolution(op) if op.kernel == [1, 1] && op.padding == Padding::default() => Some(op),
        _ => None,
    }
}

/// The activations that a node reads element by element with its output, if it is a function, a sum or the like, or a convolution of
/// 1 x 1 in strides of one. The other operands have one value per channel, or one for all.
fn elements(graph: &Graph, node: &Node) -> Option<Vec<TensorId>> {
    match &node.op {
        Op::Unary(_) | Op::PRelu => return Some(vec![node.inputs[0]]),
        Op::Convolution(_) if point(&node.op)?.stride == [1, 1] => return Some(vec![node.inputs[0]]),
        Op::Binary(_) => (),
        _ => return None,
    }
    // Operands are aligned at their last dimensions, and the first ones are missing.
    let size = |id: TensorId| match graph.shape(id)[..] {
        [] => [1, 1],
        [width] => [1, width],
        [.., height, width] => [height, width],
    };
    let output = size(node.output);
    let (each, others): (Vec<_>, Vec<_>) = node.inputs.iter().partition(|&&id| size(id) == output);
    let whole = |id: &TensorId| graph.constant(*id).is_none() && graph.shape(*id).len() == 4;
    let plain = each.iter().all(whole) && others.iter().all(|&id| size(id) == [1, 1]);
    plain.then_some(each)
}

/// The strides in which tensors are read, where their nodes can make only what is read.
fn strides(graph: &Graph) -> Vec<Option<[usize; 2]>> {
    let readers = graph.readers();
    let mut strides: Vec<Option<[usize; 2]>> = vec![None; graph.tensors.len()];
    for node in graph.nodes.iter().rev() {
        let makes = matches!(node.op, Op::Convolution(_) | Op::Pool(_)) || elements(graph, node).is_some();
        let id = node.output;
        let large = matches!(graph.shape(id)[..], [_, _, height, width] if height > 1 && width > 1);
        if !makes || !large || graph.outputs.contains(&id) {
            continue;
        }
        let of = |&reader: &usize| {
            let reader = &graph.nodes[reader];
            match point(&reader.op) {
                Some(op) if op.stride != [1, 1] => Some(op.stride).filter(|_| reader.inputs[0] == id),
                _ => {
                    strides[reader.output.0].filter(|_| elements(graph, reader).is_some_and(|each| each.contains(&id)))
                }
            }
        };
        let first = readers[id.0].first().and_then(of);
        strides[id.0] = first.filter(|_| readers[id.0].iter().all(|reader| of(reader) == first));
    }
    strides
}

/// The nodes that make or read tensors in strides, by connected region.
fn regions(graph: &Graph, strides: &[Option<[usize; 2]>]) -> Vec<Vec<usize>> {
    let mut regions: Vec<(Vec<TensorId>, Vec<usize>)> = Vec::new();
    for (k, node) in graph.nodes.iter().enumerate() {
        let of_node = node.inputs.iter().copied().chain([node.output]).filter(|id| strides[id.0].is_some());
        let (mut tensors, mut nodes) = (of_node.collect::<Vec<_>>(), vec![k]);
        if tensors.is_empty() {
            continue;
        }
        let (own, others): (Vec<_>, Vec<_>) =
            regions.into_iter().partition(|(ids, _)| ids.iter().any(|id| tensors.contains(id)));
        regions = others;
        for (ids, before) in own.into_iter().rev() {
            tensors.extend(ids);
            nodes.splice(0..0, before);
        }
        nodes.sort_unstable();
        regions.push((tensors, nodes));
    }
    regions.into_iter().map(|(_, nodes)| nodes).collect()
}

/// The graph in which tensors have only what is read in these strides. New tensors take their place. None if there are none.
fn applied(graph: &Graph, ranges: &Ranges, strides: &[Option<[usize; 2]>]) -> Option<(Graph, Ranges)> {
    if strides.iter().all(Option::is_none) {
        return None;
    }
    let (mut new, mut ranges) = (graph.clone(), ranges.clone());
    let mut less = |new: &mut Graph, id: TensorId, [by, along]: [usize; 2]| {
        let Tensor { name, shape, quantization, .. } = graph.tensor(id);
        let shape = vec![shape[0], shape[1], shape[2].div_ceil(by), shape[3].div_ceil(along)];
        let name = format!("{name} in strides of {by} x {along}");
        new.tensors.push(Tensor { name, shape, constant: None, quantization: quantization.clone() });
        let added = TensorId(new.tensors.len() - 1);
        ranges.get(id).copied().into_iter().for_each(|range| ranges.set(added, range));
        ranges.means(id).cloned().into_iter().for_each(|means| ranges.set_means(added, means));
        added
    };
    // What takes the place of tensors, and slices of tensors that stay.
    let (mut made, mut slices) = (HashMap::new(), HashMap::new());
    new.nodes = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let Node { name, mut op, mut inputs, mut output } = node.clone();
        if let Some(stride) = strides[output.0] {
            let each = elements(graph, node).unwrap_or_default();
            match &mut op {
                Op::Convolution(_) if each.iter().any(|id| made.contains_key(id)) => (),
                Op::Convolution(Convolution { stride: own, .. }) | Op::Pool(Pool { stride: own, .. }) => {
                    *own = [0, 1].map(|axis| own[axis] * stride[axis]);
                }
                _ => {
                    for id in inputs.iter_mut().filter(|id| each.contains(id) && !made.contains_key(&**id)) {
                        *id = *slices.entry((*id, stride)).or_insert_with(|| {
                            let part = less(&mut new, *id, stride);
                            let steps = vec![1, 1, stride[0] as isize, stride[1] as isize];
                            let op = Op::Slice { starts: vec![0; 4], steps, lengths: new.shape(part).to_vec() };
                            let name = new.tensor(part).name.clone();
                            new.nodes.push(Node { name, op, inputs: vec![*id], output: part });
                            part
                        });
                    }
                }
            }
            let whole = output;
            output = less(&mut new, whole, stride);
            made.insert(whole, output);
        } else if let (Op::Convolution(op), true) = (&mut op, made.contains_key(&inputs[0])) {
            op.stride = [1, 1];
        }
        for id in &mut inputs {
            *id = *made.get(id).unwrap_or(id);
        }
        new.nodes.push(Node { name, op, inputs, output });
    }
    Some((new, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::float;
    use crate::ir::{Binary, PoolKind, Unary};
    use crate::random::Random;

    /// The end of a stage and the start of the next one, as in ResNet v1, with a convolution or a pooling in the middle.
    fn stage(pooled: bool) -> Graph {
        let mut random = Random::from_state(3);
        let mut graph = Graph::new("stage");
        let x = graph.input("x", &[1, 4, 9, 8]).unwrap();
        let mut convolution = |graph: &mut Graph, name: &str, x: TensorId, kernel: usize, stride: usize| {
            let weights = (0..4 * 4 * kernel * kernel).map(|_| random.real()).collect::<Vec<_>>();
            let weights = graph.add_constant(format!("{name} weights"), &[4, 4, kernel, kernel], weights).unwrap();
            let pad = kernel / 2;
            let padding = Padding { top: pad, left: pad, bottom: pad, right: pad };
            let (kernel, stride) = ([kernel; 2], [stride; 2]);
            let op = Convolution { group: 1, kernel, stride, dilation: [1; 2], padding };
            graph.add(name, Op::Convolution(op), &[x, weights], format!("{name} sums")).unwrap()
        };
        let before = convolution(&mut graph, "before", x, 3, 1);
        let middle = if pooled {
            let padding = Padding { top: 1, left: 1, bottom: 1, right: 1 };
            let pool = Pool { padding, ..Pool::new(PoolKind::Max, [3; 2]) };
            graph.add("middle", Op::Pool(pool), &[before], "largest").unwrap()
        } else {
            convolution(&mut graph, "middle", before, 3, 1)
        };
        let last = convolution(&mut graph, "last", middle, 1, 1);
        let sum = graph.add("sum", Op::Binary(Binary::Add), &[before, last], "sum").unwrap();
        let relu = graph.add("relu", Op::Unary(Unary::Relu), &[sum], "relu").unwrap();
        for name in ["main", "shortcut"] {
            let output = convolution(&mut graph, name, relu, 1, 2);
            graph.outputs.push(output);
        }
        graph
    }

    #[test]
    fn strides_move_up_to_what_makes_the_values() {
        for pooled in [false, true] {
            let graph = stage(pooled);
            let (thin, _) = move_up(&graph, &Ranges::new(), |part| Some(part.nodes.len() as u64 % 7)).unwrap();
            thin.check().unwrap();
            let run = |graph: &Graph| {
                let sample: Vec<f32> = (0..4 * 9 * 8).map(|k| (k * 37 % 19) as f32 / 9.0 - 1.0).collect();
                float::run(graph, &[sample], &mut |_, _| {}).unwrap()
            };
            assert_eq!(run(&thin), run(&graph));
            // The convolution or pooling in the middle makes a quarter, and the other operand of the sum is sliced.
            let of = |name: &str| thin.nodes.iter().find(|node| node.name == name).unwrap();
            assert_eq!(thin.shape(of("middle").output), [1, 4, 5, 4]);
            assert_eq!(thin.shape(of("before").output), [1, 4, 9, 8]);
            assert_eq!(thin.nodes.len(), graph.nodes.len() + 1);
            assert!(move_up(&graph, &Ranges::new(), |part| Some(part.nodes.len() as u64)).is_none());
        }
    }

    /// Constants of lines and columns have fewer dimensions than what they are combined with.
    #[test]
    fn constants_of_lines_and_columns_stay() {
        for shape in [&[9, 8][..], &[8], &[9, 1], &[4, 9, 1]] {
            let mut graph = Graph::new("constants");
            let x = graph.input("x", &[1, 4, 9, 8]).unwrap();
            let constant = |graph: &mut Graph, name: &str, shape: &[usize]| {
                let count: usize = shape.iter().product();
                graph.add_constant(name, shape, (0..count).map(|k| (k % 7) as f32 - 2.5).collect::<Vec<_>>()).unwrap()
            };
            let (factors, weights) = (constant(&mut graph, "c", shape), constant(&mut graph, "w", &[2, 4, 1, 1]));
            let product = graph.add("product", Op::Binary(Binary::Mul), &[x, factors], "product").unwrap();
            let op = Convolution { stride: [2, 1], ..Convolution::pointwise() };
            let y = graph.add("y", Op::Convolution(op), &[product, weights], "y").unwrap();
            graph.outputs.push(y);
            assert!(move_up(&graph, &Ranges::new(), |part| Some(part.tensors.len() as u64)).is_none(), "{shape:?}");
            assert!(
                move_up(&graph, &Ranges::new(), |part| Some(100 - part.tensors.len() as u64)).is_none(),
                "{shape:?}"
            );
        }
    }

    #[test]
    fn what_is_read_otherwise_stays() {
        let mut graph = stage(false);
        let relu = graph.find("relu").unwrap();
        graph.outputs.push(relu);
        assert!(move_up(&graph, &Ranges::new(), |_| Some(0)).is_none());
        let last = graph.outputs.pop().unwrap();
        // Two strides.
        let reader = graph.nodes.iter_mut().rfind(|node| node.inputs[0] == last).unwrap();
        let Op::Convolution(op) = &mut reader.op else { unreachable!() };
        op.stride = [1, 2];
        let output = reader.output;
        graph.tensors[output.0].shape = vec![1, 4, 9, 4];
        graph.check().unwrap();
        assert!(move_up(&graph, &Ranges::new(), |_| Some(0)).is_none());
    }
}
