// SPDX-License-Identifier: MIT OR Apache-2.0

//! Masks: constants that are added to what a softmax reads, and say by a large negative number which elements have no share. In int8 a
//! constant's step is a part of its largest number, and the sums would be multiples of that step. The sum's integers end where no
//! element has a share, so the constants need not be smaller than what brings each sum there.

use std::collections::HashMap;

use crate::ir::{Binary, Graph, Op, Ranges, TensorId};

/// The graph with masks that are no larger than their sums' integers. `None` if it has no larger ones.
pub(crate) fn limited(graph: &Graph, ranges: &Ranges) -> Option<Graph> {
    let only = graph.only_for_softmax();
    // The least number that each constant needs. Others may read it too.
    let mut least: HashMap<TensorId, f32> = HashMap::new();
    for node in &graph.nodes {
        for (at, &id) in node.inputs.iter().enumerate() {
            if graph.constant(id).is_none() {
                continue;
            }
            let other = node.inputs.get(1 - at.min(1)).and_then(|&other| ranges.get(other));
            let low = match (&node.op, ranges.get(node.output), other) {
                (Op::Binary(Binary::Add), Some(sum), Some(x)) if only[node.output.0] => sum.min - x.max,
                _ => f32::NEG_INFINITY,
            };
            least.entry(id).and_modify(|least| *least = least.min(low)).or_insert(low);
        }
    }
    let mut limited = None;
    for (id, low) in least.into_iter().filter(|(_, low)| *low > f32::NEG_INFINITY) {
        let Some(values) = graph.constant(id).filter(|values| values.iter().any(|&value| value < low)) else {
            continue;
        };
        let values: Vec<f32> = values.iter().map(|value| value.max(low)).collect();
        limited.get_or_insert_with(|| graph.clone()).tensors[id.0].constant = Some(values.into());
    }
    limited
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Range;

    /// A mask of a softmax, and the same constant added to what another operator reads.
    #[test]
    fn masks_of_softmaxes_alone_are_limited() {
        for also in [false, true] {
            let mut graph = Graph::new("mask");
            let x = graph.input("x", &[1, 3, 1, 1]).unwrap();
            let mask = graph.add_constant("mask", &[1, 3, 1, 1], vec![0.0, -1e9, -2.0]).unwrap();
            let sum = graph.add("sum", Op::Binary(Binary::Add), &[x, mask], "sum").unwrap();
            let y = graph.add("softmax", Op::Softmax { axis: 1 }, &[sum], "y").unwrap();
            graph.outputs.push(y);
            if also {
                let other = graph.add("other", Op::Binary(Binary::Add), &[x, mask], "other").unwrap();
                graph.outputs.push(other);
            }
            let mut ranges = Ranges::new();
            ranges.set(x, Range::of(-3.0, 4.0));
            ranges.set(sum, Range::of(-15.0, 4.0));
            let found = limited(&graph, &ranges).map(|graph| graph.constant(mask).unwrap().to_vec());
            assert_eq!(found, (!also).then(|| vec![0.0, -19.0, -2.0]));
        }
    }
}
