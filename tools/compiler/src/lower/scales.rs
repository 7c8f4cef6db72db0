// SPDX-License-Identifier: MIT OR Apache-2.0

//! The scale and the zero of every tensor in int8, or int16. [`super::numbers`] defines them.

use std::collections::HashMap;

use nvdla_uapi::reg::values::Precision;

use super::numbers::{Scale, LARGEST, LARGEST_WIDE};
use super::step::{may_saturate, Combine, Kind, Net, Pipe, PostOp, Step, Tensor, TensorId};
use super::Inputs;
use crate::error::Error;
use crate::ir::{Padding, PoolKind, Range};

/// The zero of tensors without negative values.
const ONE_SIDED: i32 = -128;

/// Groups of tensors that share a scale, as a forest.
pub(super) struct Groups(Vec<usize>);

impl Groups {
    pub(super) fn new(net: &Net) -> Self {
        let mut groups = Self((0..net.tensors.len()).collect());
        for step in &net.steps {
            if matches!(step.kind, Kind::Convolution(_) | Kind::Copy | Kind::Softmax | Kind::Lrn(_)) {
                continue;
            }
            for &input in &step.inputs {
                let (a, b) = (groups.root(input), groups.root(step.output));
                groups.0[a.max(b)] = a.min(b);
            }
        }
        groups
    }

    pub(super) fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }
}

/// The tensors that a step combines with its own value in a way that does not allow subtracting their zero. The zero of a tensor
/// that X2 adds to a convolution's value is subtracted in the bias, if no ReLU lies between.
fn needs_zero(step: &Step, pipe: Option<Pipe>) -> impl Iterator<Item = TensorId> + '_ {
    let convolution = matches!(step.kind, Kind::Convolution(_));
    step.post_ops.iter().enumerate().filter_map(move |(at, post)| {
        let PostOp::With(combine, other) = post else { return None };
        let added = matches!(combine, Combine::Add { .. });
        let taken_off = pipe.is_some_and(|pipe| pipe.x2 == Some(at) && !pipe.x1_relu);
        (!(convolution && added && taken_off)).then_some(*other)
    })
}

/// How far the integers of 16 bits reach, relative to the largest value on the samples. Other data have larger values, and a bit
/// less does no harm.
const HEADROOM: f32 = 2.0;

/// The scale of 16 bits. The method that chose the scale of 8 bits may let values saturate, of which 16 bits hold all.
fn wide(range: Range) -> f32 {
    let threshold = range.scale * LARGEST as f32;
    HEADROOM * range.min.abs().max(range.max.abs()).max(threshold) / LARGEST_WIDE as f32
}

/// The scale of every tensor; 1 in fp16. Tensors that views, concatenations and poolings connect have the same scale, which is
/// the largest of theirs.
pub fn scales(net: &Net, inputs: &Inputs, precision: Precision) -> Result<Vec<Scale>, Error> {
    if precision == Precision::Fp16 {
        return Ok(vec![Scale { scale: 1.0, zero: 0 }; net.tensors.len()]);
    }
    let mut groups = Groups::new(net);
    let mut used = vec![false; net.tensors.len()];
    net.inputs.iter().for_each(|&id| used[id] = true);
    net.steps.iter().for_each(|step| used[step.output] = true);
    let mut symmetric = vec![false; net.tensors.len()];
    for (id, tensor) in net.tensors.iter().enumerate().filter(|(id, _)| used[*id]) {
        symmetric[groups.root(id)] |= tensor.wide || tensor.range.is_none_or(|range| range.one_sided <= 0.0);
    }
    // Tensors that the user or the emulator accesses have zero 0.
    for &id in net.inputs.iter().chain(&net.outputs) {
        symmetric[groups.root(id)] = true;
    }
    let mut limits: HashMap<TensorId, f64> = HashMap::new();
    for step in &net.steps {
        let conv = matches!(step.kind, Kind::Convolution(_));
        let pipe = Pipe::assign(inputs.config, conv, &step.post_ops, may_saturate(net, step.output));
        if let Some(PostOp::Most(limit)) = pipe.and_then(|pipe| pipe.saturate).map(|at| &step.post_ops[at]) {
            limits.insert(step.output, f64::from(*limit));
        }
        for other in needs_zero(step, pipe) {
            symmetric[groups.root(other)] = true;
        }
        let excluded = match &step.kind {
            // CDP squares and sums values, so their zero is 0.
            Kind::Softmax | Kind::Lrn(_) => true,
            // PDP's padding of averages is 0.
            Kind::Pool(pool) => {
                pool.kind == (PoolKind::Average { count_include_pad: true }) && pool.padding != Padding::default()
            }
            _ => false,
        };
        if excluded {
            symmetric[groups.root(step.inputs[0])] = true;
            symmetric[groups.root(step.output)] = true;
        }
    }
    let mut largest: HashMap<usize, f64> = HashMap::new();
    for (id, tensor) in net.tensors.iter().enumerate().filter(|(id, _)| used[*id]) {
        let root = groups.root(id);
        let (steps, one) = if tensor.wide {
            (LARGEST_WIDE, tensor.range.map(wide))
        } else if symmetric[root] {
            (LARGEST, tensor.range.map(|r| r.scale))
        } else {
            (255.0, tensor.range.map(|r| r.one_sided))
        };
        let scale = match (inputs.fixed(id), limits.get(&id), one) {
            (Some(scale), ..) => scale,
            (_, Some(&limit), _) => limit / steps,
            (.., Some(scale)) if scale.is_finite() && scale > 0.0 => f64::from(scale),
            _ => continue,
        };
        let group = largest.entry(root).or_insert(0.0);
        *group = group.max(scale);
    }
    let scale = |(id, tensor): (usize, &Tensor)| {
        let root = groups.root(id);
        let zero = if symmetric[root] { 0 } else { ONE_SIDED };
        match largest.get(&root) {
            Some(&scale) => Ok(Scale { scale, zero }),
            None if !used[id] => Ok(Scale { scale: 1.0, zero: 0 }),
            None => Err(Error::Network(format!("the range of tensor \"{}\" is not known", tensor.name))),
        }
    };
    net.tensors.iter().enumerate().map(scale).collect()
}
