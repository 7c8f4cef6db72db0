// SPDX-License-Identifier: MIT OR Apache-2.0

//! Small networks of steps, for the tests of passes.

use super::step::{Convolution, Kind, Net, PostOp, Step, Tensor, TensorId};
use crate::ir::{self, Padding, Range};

/// A step without names: its kind, what it reads, what follows in SDP, and what it computes.
pub(crate) fn step(kind: Kind, inputs: &[TensorId], post_ops: Vec<PostOp>, output: TensorId) -> Step {
    Step { nodes: Vec::new(), kind, inputs: inputs.to_vec(), post_ops, output }
}

/// A network of tensors of these shapes, with values from -1 to 1. The first is its input, the last its output.
pub(crate) fn net(shapes: &[[u32; 3]], steps: Vec<Step>) -> Net {
    let tensor = |(number, &shape): (usize, &[u32; 3])| Tensor {
        name: format!("tensor {number}"),
        shape,
        range: Some(Range::of(-1.0, 1.0)),
        wide: false,
        half: false,
    };
    let tensors: Vec<Tensor> = shapes.iter().enumerate().map(tensor).collect();
    Net { inputs: vec![0], outputs: vec![tensors.len() - 1], tensors, steps, within: Vec::new(), integers: false }
}

/// A concatenation (tensor 3) of two convolutions with 5 and 3 channels (1 and 2).
pub(crate) fn joined() -> Net {
    let steps = vec![
        step(convolution(3, 5, 3), &[0], vec![], 1),
        step(convolution(3, 3, 1), &[0], vec![], 2),
        step(Kind::Concat(0), &[1, 2], vec![], 3),
    ];
    net(&[[3, 4, 4], [5, 4, 4], [3, 4, 4], [8, 4, 4]], steps)
}

/// A convolution with stride 1 that keeps the size.
pub(crate) fn convolution(channels: usize, kernels: usize, side: usize) -> Kind {
    let pad = side / 2;
    let op = ir::Convolution {
        group: 1,
        kernel: [side; 2],
        stride: [1; 2],
        dilation: [1; 2],
        padding: Padding { top: pad, left: pad, bottom: pad, right: pad },
    };
    let weights = vec![0.5; kernels * channels * side * side];
    Kind::Convolution(Box::new(Convolution { op, kernels, weights: weights.into(), bias: vec![0.0; kernels] }))
}
