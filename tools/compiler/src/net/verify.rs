// SPDX-License-Identifier: MIT OR Apache-2.0

//! The rules that a network of steps keeps after every pass. A broken one is a fault of the pass.

use super::step::{Kind, Net, Step};

/// Checks a network.
///
/// # Errors
///
/// The first broken rule, with the step.
pub fn verify(net: &Net) -> Result<(), String> {
    let mut made = vec![false; net.tensors.len()];
    let known = |id: usize| id < net.tensors.len();
    if let Some(id) = net.inputs.iter().chain(&net.outputs).find(|id| !known(**id)) {
        return Err(format!("there is no tensor {id}"));
    }
    net.inputs.iter().for_each(|&id| made[id] = true);
    for (number, step) in net.steps.iter().enumerate() {
        let at = |what: String| format!("step {number} ({}): {what}", step.kind.name());
        if let Some(id) = step.reads().chain([step.output]).find(|id| !known(*id)) {
            return Err(at(format!("there is no tensor {id}")));
        }
        let name = |id: usize| &net.tensors[id].name;
        if let Some(id) = step.reads().find(|&id| !made[id]) {
            return Err(at(format!("tensor {id} ({:?}) is read before it is made", name(id))));
        }
        if std::mem::replace(&mut made[step.output], true) {
            return Err(at(format!("tensor {} ({:?}) is made twice", step.output, name(step.output))));
        }
        shapes(net, step).map_err(at)?;
    }
    match net.outputs.iter().find(|&&id| !made[id]) {
        Some(id) => Err(format!("output {id} ({:?}) is not made", net.tensors[*id].name)),
        None => Ok(()),
    }
}

/// Checks the shapes of a step. After lines and columns that no step reads were removed, an output can be smaller than its inputs
/// allow, but never larger.
fn shapes(net: &Net, step: &Step) -> Result<(), String> {
    let shape = |id: usize| net.tensors[id].shape;
    let out = shape(step.output);
    let Some(&first) = step.inputs.first() else { return Err("it has no input".to_owned()) };
    let input = shape(first);
    if out.contains(&0) {
        return Err(format!("its output has the shape {out:?}"));
    }
    let channels = match &step.kind {
        Kind::Convolution(conv) => {
            let [rows, columns] = conv.op.kernel;
            let weights = conv.kernels * input[0] as usize / conv.op.group.max(1) * rows * columns;
            if conv.weights.len() != weights || conv.bias.len() != conv.kernels {
                let (found, bias) = (conv.weights.len(), conv.bias.len());
                return Err(format!("it has {found} weights and {bias} addends for {weights} and {}", conv.kernels));
            }
            conv.kernels as u32
        }
        Kind::Product => {
            let &[_, weights] = &step.inputs[..] else { return Err(format!("it has {} inputs", step.inputs.len())) };
            let [channels, rows, columns] = shape(weights);
            if channels != input[0] {
                return Err(format!("it multiplies {} channels by {channels}", input[0]));
            }
            rows * columns
        }
        Kind::Turn => {
            if out[1..] != [1, input[0]] {
                return Err(format!("its output of {out:?} has {} columns", input[0]));
            }
            input[1] * input[2]
        }
        Kind::Concat(0) => step.inputs.iter().map(|&id| shape(id)[0]).sum(),
        Kind::Channels(from) => {
            if let Some(&channel) = from.iter().find(|&&channel| channel >= input[0]) {
                return Err(format!("it takes channel {channel} of {}", input[0]));
            }
            from.len() as u32
        }
        Kind::Spread([y, x]) => input[0] / (y * x),
        Kind::Same | Kind::Slice { .. } => out[0],
        _ => input[0],
    };
    if out[0] != channels {
        return Err(format!("its output has {} channels, and it computes {channels}", out[0]));
    }
    for other in step.operands() {
        let with = shape(other);
        // A gate has one value per channel.
        if with[0] != out[0] || with[1..] != [1, 1] && (with[1] < out[1] || with[2] < out[2]) {
            return Err(format!("its output of {out:?} is combined with a tensor of {with:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::example::{self, step};
    use super::super::step::Net;
    use super::*;

    /// What breaks a rule.
    type Change = fn(&mut Net);

    fn net() -> Net {
        example::net(&[[4, 3, 3]; 2], vec![step(Kind::Copy, &[0], Vec::new(), 1)])
    }

    /// Each rule finds the network that breaks it.
    #[test]
    fn broken_rules_are_found() {
        assert_eq!(verify(&net()), Ok(()));
        let broken: [(&str, Change); 6] = [
            ("is made twice", |net| net.steps.push(net.steps[0].clone())),
            ("is read before it is made", |net| net.inputs.clear()),
            ("is not made", |net| net.steps.clear()),
            ("there is no tensor 7", |net| net.outputs.push(7)),
            ("it computes 4", |net| net.tensors[1].shape[0] = 5),
            ("takes channel 9", |net| net.steps[0].kind = Kind::Channels(vec![0, 1, 2, 9])),
        ];
        for (expected, change) in broken {
            let mut net = net();
            change(&mut net);
            let error = verify(&net).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
