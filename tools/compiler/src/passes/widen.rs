// SPDX-License-Identifier: MIT OR Apache-2.0

//! Mixed precision: the steps that were chosen compute in int16, all others in int8.
//!
//! A convolution's input and weights have one precision, and SDP computes in the convolution's. A step in int16 therefore reads
//! and writes tensors of 16 bits. SDP writes 16 bits behind a convolution in int8, but not 8 bits behind one in int16. Tensors that
//! views, concatenations and poolings connect have one precision. Inputs of the network, what the emulator and CDP read and
//! write, and the factors and results of products and turns have 8 bits. Where a step needs another precision than a tensor has, SDP makes a copy.
//!
//! Sources: "In-memory data formats" and the register manual for the pairs of precisions; the engine's validation checks them.

use std::collections::{HashMap, HashSet};

use crate::net::step::{Kind, Net, PostOp, Step, TensorId};
use crate::passes::inputs::Inputs;
use crate::passes::scales::Groups;

/// Makes the tensors of chosen steps 16 bits wide, and adds the copies that convert. `chosen` has the outputs of the steps.
/// `images` are the inputs that are images, of which CDMA makes either precision. Returns the tensor that each copy is made of.
pub(crate) fn widen(
    net: &mut Net,
    chosen: &HashSet<TensorId>,
    images: impl Fn(TensorId) -> bool,
    inputs: &Inputs,
) -> HashMap<TensorId, TensorId> {
    let is_chosen = |step: &Step| step.kind.in_sdp() && chosen.contains(&step.output);
    let mut groups = Groups::new(net);
    let mut narrow = vec![false; net.tensors.len()];
    for &id in &net.inputs {
        narrow[groups.root(id)] = true;
    }
    for step in net.steps.iter().filter(|step| {
        matches!(step.kind, Kind::Softmax(_) | Kind::Power(_) | Kind::Lrn(_) | Kind::Product | Kind::Turn)
    }) {
        for id in step.reads().chain([step.output]) {
            narrow[groups.root(id)] = true;
        }
    }
    let mut wide = HashSet::new();
    for step in net.steps.iter().filter(|step| is_chosen(step)) {
        for id in step.reads().chain([step.output]) {
            let root = groups.root(id);
            if !narrow[root] {
                wide.insert(root);
            }
            if images(id) {
                net.tensors[id].wide = true;
            }
        }
    }
    for id in 0..net.tensors.len() {
        net.tensors[id].wide |= wide.contains(&groups.root(id));
    }
    let mut converter = Converter { net, steps: Vec::new(), copies: HashMap::new() };
    for mut step in std::mem::take(&mut converter.net.steps) {
        if !step.kind.in_sdp() {
            converter.steps.push(step);
            continue;
        }
        let (input, output) = (step.inputs[0], step.output);
        let [reads, writes] = [input, output].map(|id| converter.net.tensors[id].wide);
        let convolution = matches!(step.kind, Kind::Convolution(_));
        // A copy of an input that is given as bytes would have to subtract its mean.
        let computes_wide = if convolution {
            images(input) && reads || is_chosen(&step) && (reads || inputs.of(input).is_none())
        } else {
            reads && writes
        };
        if convolution {
            step.inputs[0] = converter.of(input, computes_wide);
        }
        for post in &mut step.post_ops {
            if let PostOp::With(_, other) = post {
                *other = converter.of(*other, computes_wide);
            }
        }
        if computes_wide && !writes {
            step.output = converter.like(output, true);
            let from = step.output;
            converter.steps.push(step);
            converter.copy(from, output);
        } else {
            converter.steps.push(step);
        }
    }
    let Converter { steps, copies, .. } = converter;
    net.steps = steps;
    copies.into_iter().map(|(of, copy)| (copy, of)).collect()
}

struct Converter<'a> {
    net: &'a mut Net,
    steps: Vec<Step>,
    /// The copy of each tensor in the other precision.
    copies: HashMap<TensorId, TensorId>,
}

impl Converter<'_> {
    /// A tensor in a precision: itself, or its copy.
    fn of(&mut self, tensor: TensorId, wide: bool) -> TensorId {
        if self.net.tensors[tensor].wide == wide {
            return tensor;
        }
        if let Some(&copy) = self.copies.get(&tensor) {
            return copy;
        }
        let copy = self.like(tensor, wide);
        self.copy(tensor, copy);
        self.copies.insert(tensor, copy);
        copy
    }

    /// A new tensor like another one.
    fn like(&mut self, tensor: TensorId, wide: bool) -> TensorId {
        let like = self.net.like(tensor);
        self.net.tensors[like].wide = wide;
        like
    }

    fn copy(&mut self, from: TensorId, into: TensorId) {
        let (nodes, inputs, post_ops) = (Vec::new(), vec![from], Vec::new());
        self.steps.push(Step { nodes, kind: Kind::Copy, inputs, post_ops, output: into });
    }
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::NV_FULL;

    use super::*;
    use crate::net::example::{convolution, net, step};
    use crate::options::Options;
    use crate::passes::inputs::inputs;

    /// A chosen convolution reads a copy of 16 bits of the network's input, which has 8.
    #[test]
    fn a_copy_converts_what_has_another_precision() {
        let steps = vec![step(convolution(3, 4, 3), &[0], vec![], 1)];
        let mut net = net(&[[3, 5, 5], [4, 5, 5]], steps);
        let given = inputs(&mut net, &Options::new(&NV_FULL));
        let copies = widen(&mut net, &HashSet::from([1]), |_| false, &given.inputs);
        let kinds: Vec<&str> = net.steps.iter().map(|step| step.kind.name()).collect();
        assert_eq!(kinds, ["copy", "convolution"]);
        let copy = net.steps[0].output;
        assert_eq!(copies, HashMap::from([(copy, 0)]));
        assert_eq!([0, 1, copy].map(|id| net.tensors[id].wide), [false, true, true]);
    }
}
