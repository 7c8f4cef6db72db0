// SPDX-License-Identifier: MIT OR Apache-2.0

//! A network of steps as text in the language of Graphviz, which Netron shows too.

use std::fmt::Write as _;

use super::step::{Elements, Net, PostOp, Tabulated, Tensor};

/// What a post-operation is called.
fn name(post: &PostOp) -> String {
    match post {
        PostOp::Affine(scale, shift) => format!("affine of {} values", scale.len().max(shift.len())),
        PostOp::Mean => "minus the mean".to_owned(),
        PostOp::Relu => "ReLU".to_owned(),
        PostOp::Slopes(slopes) => format!("{} slopes", slopes.len()),
        PostOp::Most(limit) => format!("at most {limit}"),
        PostOp::Least(limit) => format!("at least {limit}"),
        PostOp::Within(low, high, _) => format!("within {low} and {high}, by saturation"),
        PostOp::Elements(combine, Elements { shape, .. }) => format!("{combine:?} with {shape:?} constants"),
        PostOp::With(combine, other) => format!("{combine:?} with {other}"),
        PostOp::Table(Tabulated { unary, factor, offset }, low, high) => {
            format!("table of {factor} * {unary:?} + {offset} from {low} to {high}")
        }
    }
}

/// The network as a graph: a box per step, with its nodes and what SDP does, and an arrow per tensor, with its number and shape.
pub fn dot(net: &Net) -> String {
    // Rust's form of a text with quotation marks is also Graphviz's, with `\n` for the end of a line.
    let mut text = String::from("digraph network {\n    node [shape=box];\n");
    let mut maker: Vec<Option<String>> = vec![None; net.tensors.len()];
    let mut line = |line: String| {
        text.push_str("    ");
        text.push_str(&line);
        text.push('\n');
    };
    for &id in &net.inputs {
        let box_name = format!("input{id}");
        line(format!("{box_name} [label={:?}, shape=ellipse];", net.tensors[id].name));
        maker[id] = Some(box_name);
    }
    for (number, step) in net.steps.iter().enumerate() {
        let mut label = format!("{number}: {}", step.kind.name());
        if !step.nodes.is_empty() {
            let _ = write!(label, "\n{}", step.nodes.join(", "));
        }
        for post in &step.post_ops {
            let _ = write!(label, "\n{}", name(post));
        }
        line(format!("step{number} [label={label:?}];"));
        for id in step.reads() {
            let tensor = &net.tensors[id];
            let [c, h, w] = tensor.shape;
            let bits = match tensor {
                Tensor { wide: true, .. } => ", 16 bits",
                Tensor { half: true, .. } => ", half precision",
                _ => "",
            };
            let from = maker[id].clone().unwrap_or_else(|| format!("tensor{id}"));
            line(format!("{from} -> step{number} [label=\"{id}: {c}x{h}x{w}{bits}\"];"));
        }
        maker[step.output] = Some(format!("step{number}"));
    }
    for &id in &net.outputs {
        let from = maker[id].clone().unwrap_or_else(|| format!("tensor{id}"));
        line(format!("output{id} [label={:?}, shape=ellipse];", net.tensors[id].name));
        let [c, h, w] = net.tensors[id].shape;
        line(format!("{from} -> output{id} [label=\"{id}: {c}x{h}x{w}\"];"));
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::super::example::net;
    use super::super::step::{Kind, Step};
    use super::*;

    #[test]
    fn steps_are_boxes_and_tensors_arrows() {
        let nodes = vec!["a \"node\"".to_owned()];
        let step = Step { nodes, kind: Kind::Copy, inputs: vec![0], post_ops: vec![PostOp::Relu], output: 1 };
        let text = dot(&net(&[[4, 3, 2]; 2], vec![step]));
        for line in [
            "input0 [label=\"tensor 0\", shape=ellipse];",
            "step0 [label=\"0: copy\\na \\\"node\\\"\\nReLU\"];",
            "input0 -> step0 [label=\"0: 4x3x2\"];",
            "step0 -> output1 [label=\"1: 4x3x2\"];",
        ] {
            assert!(text.lines().any(|found| found.trim() == line), "{line} is not in\n{text}");
        }
    }
}
