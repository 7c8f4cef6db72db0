// SPDX-License-Identifier: MIT OR Apache-2.0

//! The scale and the zero of every tensor in int8, or int16. [`crate::numbers::quantizer`] defines them.

use std::collections::HashMap;

use nvdla_uapi::reg::values::Precision;

use crate::error::Error;
use crate::ir::{zero_point, Padding, PoolKind, Range};
use crate::net::step::{added_last, Combine, Kind, Net, Pipe, PostOp, Step, Tensor, TensorId, Within};
use crate::numbers::quantizer::Scale;
use crate::passes::inputs::Inputs;
use crate::passes::place::is_identity;
use crate::quantize::LARGEST;
use crate::target::LARGEST_WIDE;

/// Groups of tensors that share a scale, as a forest.
pub(crate) struct Groups(Vec<usize>);

impl Groups {
    pub(crate) fn new(net: &Net) -> Self {
        let mut groups = Self((0..net.tensors.len()).collect());
        let mut readers = vec![0; net.tensors.len()];
        net.steps.iter().flat_map(|step| &step.inputs).for_each(|&input| readers[input] += 1);
        for step in &net.steps {
            // A tensor that is only read to be copied is rounded once.
            let copied = is_identity(step)
                && readers[step.inputs[0]] == 1
                && net.tensors[step.inputs[0]].wide == net.tensors[step.output].wide;
            if step.kind.rescales() && !copied {
                continue;
            }
            for &input in &step.inputs {
                let (a, b) = (groups.root(input), groups.root(step.output));
                groups.0[a.max(b)] = a.min(b);
            }
        }
        groups
    }

    pub(crate) fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }
}

/// The tensors that a step combines with its own value in a way that does not allow subtracting their zero. The zero of a tensor
/// that X2 adds to a convolution's value is subtracted in the bias, if no ReLU lies between. Y's converter subtracts that of its
/// operand.
fn needs_zero(step: &Step, pipe: Option<Pipe>) -> impl Iterator<Item = TensorId> + '_ {
    let convolution = matches!(step.kind, Kind::Convolution(_));
    step.post_ops.iter().enumerate().filter_map(move |(at, post)| {
        let PostOp::With(combine, other) = post else { return None };
        let added = matches!(combine, Combine::Add { .. });
        let taken_off = pipe.is_some_and(|pipe| pipe.x2 == Some(at) && !pipe.x1_relu);
        let converted = pipe.is_some_and(|pipe| pipe.y == Some(at));
        (!(convolution && added && taken_off || converted)).then_some(*other)
    })
}

/// How far the integers of 16 bits reach, relative to the largest value on the samples. Other data have larger values, and the
/// lost bit of resolution does no harm.
const HEADROOM: f32 = 2.0;

/// The scale of 16 bits. The method that chose the scale of 8 bits may let values saturate; 16 bits hold all values.
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
        symmetric[groups.root(id)] |= tensor.wide;
    }
    // Tensors that the user accesses have zero 0, unless their integers are those of a quantized model.
    for &id in net.inputs.iter().chain(&net.outputs) {
        symmetric[groups.root(id)] |= !net.tensors[id].range.is_some_and(|range| range.given);
    }
    // The least limit of each group at which the largest integer has to saturate.
    let mut limits: HashMap<usize, f64> = HashMap::new();
    for step in &net.steps {
        let pipe = net.pipe(inputs.config, &step.kind, &step.post_ops, step.output);
        if let Some(PostOp::Most(limit)) = pipe.and_then(|pipe| pipe.saturate).map(|at| &step.post_ops[at]) {
            let limit = f64::from(*limit);
            limits.entry(groups.root(step.output)).and_modify(|least| *least = least.min(limit)).or_insert(limit);
        }
        let late = pipe.and_then(|pipe| added_last(step, pipe));
        let given = |id: TensorId| net.tensors[id].range.is_some_and(|range| range.given) && !net.tensors[id].wide;
        // The output converter subtracts the zero of the tensor that is added last, once.
        let once = |id: TensorId| {
            step.post_ops.iter().filter(|post| matches!(post, PostOp::With(_, other) if *other == id)).count() == 1
        };
        let subtracted = |id: TensorId| late == Some(id) && given(id) && once(id);
        for other in needs_zero(step, pipe).filter(|&other| !subtracted(other)) {
            symmetric[groups.root(other)] = true;
        }
        let excluded = match &step.kind {
            // CDP squares and sums values, so their zero is 0.
            Kind::Lrn(_) => true,
            // The emulator knows no zero. Only differences of a softmax's values count, so the zero of a quantized model may stay.
            Kind::Softmax(_) => {
                let given = net.tensors[step.inputs[0]].range.is_some_and(|range| range.given);
                symmetric[groups.root(step.output)] = true;
                !given
            }
            // The addend of the emulator's function accounts for the zero of the input.
            Kind::Power(_) => {
                symmetric[groups.root(step.output)] = true;
                false
            }
            // A zero of one factor would add a multiple of the other one's sum.
            Kind::Product => {
                step.inputs.iter().for_each(|&id| symmetric[groups.root(id)] = true);
                false
            }
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
    // A group's symmetric scale, and its span if it may have a zero.
    let mut largest: HashMap<usize, f64> = HashMap::new();
    let mut spans: HashMap<usize, (f32, f32)> = HashMap::new();
    for (id, tensor) in net.tensors.iter().enumerate().filter(|(id, _)| used[*id]) {
        let root = groups.root(id);
        let (steps, one) =
            if tensor.wide { (LARGEST_WIDE, tensor.range.map(wide)) } else { (LARGEST, tensor.range.map(|r| r.scale)) };
        let scale = match (inputs.fixed(id), limits.get(&root), one) {
            (Some(scale), ..) => scale,
            // Integers that end below the limit saturate there.
            (_, Some(&limit), Some(scale)) if scale.is_finite() && scale > 0.0 => f64::from(scale).min(limit / steps),
            (_, Some(&limit), _) => limit / steps,
            (.., Some(scale)) if scale.is_finite() && scale > 0.0 => f64::from(scale),
            _ => continue,
        };
        let group = largest.entry(root).or_insert(0.0);
        *group = group.max(scale);
        if let Some(Range { span: (low, high), .. }) = tensor.range {
            let group = spans.entry(root).or_insert((0.0, 0.0));
            *group = (group.0.min(low), group.1.max(high));
        }
    }
    let scale = |(id, tensor): (usize, &Tensor)| {
        if tensor.half {
            return Ok(Scale { scale: 1.0, zero: 0 });
        }
        let root = groups.root(id);
        // The bytes of a picture have their own scale and zero, and not those of the quantized tensor that they become.
        if let Some(scale) = inputs.fixed(id).filter(|_| tensor.range.is_some_and(|range| range.given)) {
            return Ok(Scale { scale, zero: 0 });
        }
        let span = spans.get(&root).filter(|_| !symmetric[root]);
        match (largest.get(&root), limits.get(&root), span) {
            // The largest integer is the limit or less.
            (Some(_), Some(&limit), Some(&(low, high))) if f64::from(high) > limit => {
                let zero = zero_point((low, limit as f32)).1.min(126);
                Ok(Scale { scale: limit / f64::from(127 - zero), zero })
            }
            (Some(_), _, Some(&span)) => {
                let (scale, zero) = zero_point(span);
                Ok(Scale { scale, zero })
            }
            (Some(&scale), _, None) => Ok(Scale { scale, zero: 0 }),
            (None, ..) if !used[id] => Ok(Scale { scale: 1.0, zero: 0 }),
            (None, ..) => Err(tensor.name.clone()),
        }
    };
    let all: Vec<Result<Scale, String>> = net.tensors.iter().enumerate().map(scale).collect();
    let mut unknown: Vec<String> = all.iter().filter_map(|scale| scale.as_ref().err().cloned()).collect();
    // The range of an input of a group is not that of the others.
    let rescaled = net.steps.iter().filter(|step| step.kind.rescales()).map(|step| step.output);
    let made = net.inputs.iter().copied().chain(rescaled);
    let known = |id: usize| net.tensors[id].range.is_some() || inputs.fixed(id).is_some();
    unknown.extend(made.filter(|&id| !known(id)).map(|id| net.tensors[id].name.clone()));
    unknown.sort();
    unknown.dedup();
    if unknown.is_empty() {
        Ok(all.into_iter().flatten().collect())
    } else {
        Err(Error::NoRange(unknown))
    }
}

/// The quantized tensors whose integers do not saturate at the limits that the model gives. A value that rounds to the integer of
/// a limit may be outside. Symmetric integers have one more below 0.
pub(crate) fn unsaturated(net: &Net, scales: &[Scale]) -> Vec<TensorId> {
    let stored = net.steps.iter().filter_map(|step| match step.post_ops.last() {
        Some(PostOp::Within(low, high, limited)) => {
            Some(Within { tensor: step.output, limited: *limited, low: *low, high: *high })
        }
        _ => None,
    });
    let exceeds = |within: &Within| {
        let Scale { scale, zero } = scales[within.tensor];
        let (least, most) = (f64::from(-128 - zero) * scale, f64::from(127 - zero) * scale);
        let below = if zero == 0 { 1.01 } else { 0.51 } * scale;
        net.tensors[within.tensor].wide
            || least < f64::from(within.low) - below
            || most > f64::from(within.high) + 0.51 * scale
    };
    stored.chain(net.within.iter().copied()).filter(exceeds).map(|within| within.limited).collect()
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::NV_SMALL;

    use super::*;
    use crate::net::example::joined;
    use crate::options::Options;
    use crate::passes::inputs::inputs;

    /// Tensors that a concatenation joins have one scale, the largest of theirs.
    #[test]
    fn joined_tensors_have_one_scale() {
        let mut net = joined();
        net.tensors[1].range = Some(Range::of(-4.0, 4.0));
        let given = inputs(&mut net, &Options::new(&NV_SMALL));
        let scales = scales(&net, &given.inputs, Precision::Int8).unwrap();
        assert!((scales[1].scale - 4.0 / 127.0).abs() < 1e-6, "{scales:?}");
        assert_eq!((scales[1], scales[2]), (scales[3], scales[3]));
        assert!(scales[0].scale < scales[1].scale);
    }
}
