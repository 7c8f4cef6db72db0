// SPDX-License-Identifier: MIT OR Apache-2.0

//! A network for a batch of pictures that do not depend on each other, as the network of one picture.
//!
//! Usually the pictures of a batch are computed at once: the channels of all pictures are the channels of one tensor
//! ([`crate::build::nodes`]). That is not possible where these are more than the hardware's, or where a unit or the emulator takes the
//! channels of one picture only. Then a run computes one picture after the other ([`crate::schedule::pictures`]).

use crate::ir::{Graph, Op, TensorId};

/// The most pictures that a run computes, because each operation is there once for each picture.
pub(crate) const MOST_PICTURES: u32 = 64;

/// The network of one picture and the number of pictures, if all inputs and outputs have the same batch and no node combines
/// elements of several pictures. Tensors keep their numbers.
pub(crate) fn picture(graph: &Graph) -> Option<(Graph, u32)> {
    let batch = *graph.shape(*graph.inputs.first()?).first()?;
    let pictures = u32::try_from(batch).ok().filter(|&count| count > 1)?;
    let whole = |id: &TensorId| graph.shape(*id).first() == Some(&batch);
    if !graph.inputs.iter().chain(&graph.outputs).all(whole) {
        return None;
    }
    let mut one = graph.clone();
    for &id in &graph.inputs {
        first(&mut one, id)?;
    }
    for (k, node) in graph.nodes.iter().enumerate() {
        if !apart(graph, k, batch) {
            return None;
        }
        first(&mut one, node.output)?;
        match &mut one.nodes[k].op {
            Op::Reshape { shape } => *shape.first_mut()? = 1,
            Op::Slice { lengths, .. } => *lengths.first_mut()? = 1,
            _ => {}
        }
    }
    one.check().ok()?;
    Some((one, pictures))
}

/// Gives a tensor a batch of 1.
fn first(graph: &mut Graph, id: TensorId) -> Option<()> {
    let tensor = &mut graph.tensors[id.0];
    *tensor.shape.first_mut()? = 1;
    let apart = tensor.constant.is_none() && tensor.quantization.as_ref().is_none_or(|own| own.axis != Some(0));
    apart.then_some(())
}

/// Whether a picture of a node's output depends on the same picture of its inputs alone.
fn apart(graph: &Graph, k: usize, batch: usize) -> bool {
    let node = &graph.nodes[k];
    let shape = graph.shape(node.output);
    let rank = shape.len();
    let given = |id: &TensorId| graph.constant(*id).is_none();
    let whole = |id: &TensorId| graph.shape(*id).first() == Some(&batch);
    if !whole(&node.output) || !node.inputs.iter().filter(|id| given(id)).all(whole) || !node.inputs.iter().any(given) {
        return false;
    }
    match &node.op {
        Op::Convolution(_) | Op::Deconvolution(..) | Op::PRelu => {
            given(&node.inputs[0]) && !node.inputs[1..].iter().any(given)
        }
        Op::Product => false,
        Op::Unary(_)
        | Op::Pool(_)
        | Op::Resize(_)
        | Op::DepthToSpace { .. }
        | Op::SpaceToDepth { .. }
        | Op::ChannelPermutation { .. }
        | Op::Lrn { .. }
        | Op::Reshape { .. } => true,
        Op::Binary(_) => node.inputs.iter().all(|id| {
            let own = graph.shape(*id);
            if given(id) {
                own.len() == rank
            } else {
                own.len() < rank || own[0] == 1
            }
        }),
        Op::Softmax { axis } => *axis > 0,
        Op::Concat { axis } => *axis > 0 && node.inputs.iter().all(given),
        Op::Slice { starts, steps, lengths } => (starts[0], steps[0], lengths[0]) == (0, 1, batch),
        Op::Pad { before, after, .. } => (before[0], after[0]) == (0, 0),
        Op::Transpose { perm } => perm[0] == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::float;
    use crate::ir::{Binary, Convolution, Unary};
    use crate::random::Random;

    /// A batch of three pictures through a convolution and the given node.
    fn network(add: impl Fn(&mut Graph, TensorId) -> Result<TensorId, String>) -> Graph {
        let mut graph = Graph::new("batch");
        let x = graph.input("x", &[3, 2, 4, 4]).unwrap();
        let mut random = Random::new(3);
        let weights: Vec<f32> = (0..8).map(|_| random.real()).collect();
        let weights = graph.add_constant("w", &[4, 2, 1, 1], weights).unwrap();
        let op = Convolution::pointwise();
        let x = graph.add("conv", Op::Convolution(op), &[x, weights], "conv").unwrap();
        let y = add(&mut graph, x).unwrap();
        graph.outputs.push(y);
        graph
    }

    #[test]
    fn pictures_that_do_not_depend_on_each_other_are_apart() {
        let graph = network(|graph, x| {
            let x = graph.add("softmax", Op::Softmax { axis: 1 }, &[x], "s")?;
            let constant = graph.add_constant("c", &[4, 1, 1], vec![1.0, -2.0, 0.5, 3.0])?;
            let x = graph.add("mul", Op::Binary(Binary::Mul), &[x, constant], "m")?;
            let x = graph.add("flat", Op::Reshape { shape: vec![3, 64] }, &[x], "f")?;
            graph.add("relu", Op::Unary(Unary::Relu), &[x], "y")
        });
        let (one, pictures) = picture(&graph).unwrap();
        assert_eq!((pictures, one.shape(one.outputs[0])), (3, &[1, 64][..]));
        let mut random = Random::new(4);
        let x: Vec<f32> = (0..96).map(|_| random.real()).collect();
        let all = float::run(&graph, std::slice::from_ref(&x), &mut |_, _| {}).unwrap().remove(0);
        let each = x.chunks(32).flat_map(|x| float::run(&one, &[x.to_vec()], &mut |_, _| {}).unwrap().remove(0));
        assert_eq!(all, each.collect::<Vec<f32>>());
    }

    #[test]
    fn pictures_that_depend_on_each_other_are_not_apart() {
        let turned = network(|graph, x| graph.add("turn", Op::Transpose { perm: vec![1, 0, 2, 3] }, &[x], "y"));
        let chosen = network(|graph, x| graph.add("softmax", Op::Softmax { axis: 0 }, &[x], "y"));
        let joined = network(|graph, x| graph.add("join", Op::Concat { axis: 0 }, &[x, x], "y"));
        let own = network(|graph, x| {
            let constant = graph.add_constant("c", &[3, 1, 1, 1], vec![1.0, 2.0, 3.0])?;
            graph.add("mul", Op::Binary(Binary::Mul), &[x, constant], "y")
        });
        let moved = network(|graph, x| {
            let x = graph.add("flat", Op::Reshape { shape: vec![4, 48] }, &[x], "f")?;
            graph.add("back", Op::Reshape { shape: vec![3, 64] }, &[x], "y")
        });
        for graph in [turned, chosen, joined, own, moved] {
            assert!(picture(&graph).is_none());
        }
    }
}
