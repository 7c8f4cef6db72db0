// SPDX-License-Identifier: MIT OR Apache-2.0

//! Outputs of an int8 network that a softmax makes are in half precision, because no unit of NVDLA reads them: in int8 the emulator
//! would round them down to steps of 1/127. The emulator of this project's runtime writes them; NVIDIA's refuses to.

use crate::net::step::{Kind, Net, Step, TensorId};

/// Gives the results of softmaxes that only the user reads half precision. The channels of the others, and their groups, lie as
/// integers do.
pub(crate) fn shares(net: &mut Net) {
    let readers = net.readers();
    let mut chosen: Vec<TensorId> = Vec::new();
    for step in net.steps.iter().filter(|step| step.kind == Kind::Softmax(1)) {
        let mut names = vec![step.output];
        // An output may be another name for what the softmax makes.
        let same = |id: TensorId| match readers.get(&id).map(Vec::as_slice) {
            Some(&[only]) => Some(&net.steps[only]).filter(|step| is_name(net, step)).map(|step| step.output),
            _ => None,
        };
        names.extend(std::iter::successors(same(step.output), |&id| same(id)));
        let last = names.last().copied().unwrap_or(step.output);
        let outputs = names.iter().filter(|id| net.outputs.contains(id)).count();
        if outputs == 1 && net.outputs.contains(&last) && !readers.contains_key(&last) {
            chosen.extend(names);
        }
    }
    for id in chosen {
        net.tensors[id].half = true;
    }
}

/// Whether a step only gives its input another name.
fn is_name(net: &Net, step: &Step) -> bool {
    let [from, to] = [step.inputs[0], step.output].map(|id| net.tensors[id].shape);
    step.kind == Kind::Same && step.post_ops.is_empty() && from == to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::example::{net, step};

    /// A softmax that is an output, under its own name or another one, and those that something else reads or that have groups.
    #[test]
    fn what_only_the_user_reads_is_in_half_precision() {
        let softmax = |groups, from, to| step(Kind::Softmax(groups), &[from], vec![], to);
        let halves = |steps: Vec<Step>, outputs: &[TensorId]| {
            let mut net = net(&[[8, 1, 1]; 4], steps);
            net.outputs = outputs.to_vec();
            shares(&mut net);
            net.tensors.iter().map(|tensor| tensor.half).collect::<Vec<_>>()
        };
        let same = |from, to| step(Kind::Same, &[from], vec![], to);
        assert_eq!(halves(vec![softmax(1, 0, 1)], &[1]), [false, true, false, false]);
        assert_eq!(halves(vec![softmax(1, 0, 1), same(1, 2), same(2, 3)], &[3]), [false, true, true, true]);
        assert_eq!(halves(vec![softmax(1, 0, 1), step(Kind::Copy, &[1], vec![], 2)], &[2]), [false; 4]);
        assert_eq!(halves(vec![softmax(1, 0, 1), same(1, 2)], &[1, 2]), [false; 4]);
        assert_eq!(halves(vec![softmax(2, 0, 1)], &[1]), [false; 4]);
    }
}
