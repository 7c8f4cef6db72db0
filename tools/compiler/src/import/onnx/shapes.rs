// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators that move elements, and the arithmetic on integers by which models compute shapes.

use std::path::Path;

use super::convert::{axes, axis, sizes};
use super::proto;
use super::reader::{Node, Reader, TensorValue};
use super::value::{self, count, index, types, Integers, Value};
use crate::ir::{Binary, BlockOrder, Op, PadMode, TensorId};

/// The greatest number of slices that a `Gather` of activations becomes.
const MAX_SLICES: usize = 1024;

/// Starts, steps and lengths along all dimensions.
type Slice = (Vec<usize>, Vec<isize>, Vec<usize>);

/// A slice by ONNX's rules: negative indices count from the end, and indices are clamped to the tensor.
fn slice(shape: &[usize], starts: &[i64], ends: &[i64], list: &[usize], steps: &[i64]) -> Result<Slice, String> {
    let (mut from, mut by, mut lengths) = (vec![0; shape.len()], vec![1; shape.len()], shape.to_vec());
    for (k, &axis) in list.iter().enumerate() {
        let (extent, step) = (shape[axis] as i64, steps[k]);
        if step == 0 || step == i64::MIN {
            return Err(format!("a step of {step}"));
        }
        let (low, high) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
        let place = |at: i64| if at < 0 { at.saturating_add(extent) } else { at }.clamp(low, high);
        let (start, end) = (place(starts[k]), place(ends[k]));
        let distance = if step > 0 { end - start } else { start - end };
        lengths[axis] = (distance.max(0) as u64).div_ceil(step.unsigned_abs()) as usize;
        from[axis] = start.max(0) as usize;
        by[axis] = step as isize;
    }
    Ok((from, by, lengths))
}

impl Reader {
    /// The slice that a node reads from a tensor of that shape.
    fn slice_of(n: &Node<'_>, inputs: &[TensorValue], shape: &[usize]) -> Result<Slice, String> {
        let list = |name: &str, k| Self::attribute_or_list(n, name, inputs, k);
        let starts = list("starts", 1)?.ok_or("it has no starts")?;
        let ends = list("ends", 2)?.ok_or("it has no ends")?;
        let given = list("axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let chosen: Vec<usize> = given.iter().map(|&a| axis(a, shape.len())).collect::<Result<_, _>>()?;
        let steps = list("steps", 4)?.unwrap_or_else(|| vec![1; starts.len()]);
        if starts.len() != chosen.len() || ends.len() != chosen.len() || steps.len() != chosen.len() {
            return Err(format!(
                "starts {starts:?}, ends {ends:?}, axes {given:?} and steps {steps:?} differ in number"
            ));
        }
        slice(shape, &starts, &ends, &chosen, &steps)
    }

    /// The output shape of `Reshape`, `Flatten`, `Squeeze` and `Unsqueeze`; `None` for any other node.
    fn reshaped(n: &Node<'_>, inputs: &[TensorValue], from: &[usize]) -> Result<Option<Vec<usize>>, String> {
        Ok(Some(match n.proto.op_type.as_str() {
            "Reshape" => {
                let wanted = Self::attribute_or_list(n, "shape", inputs, 1)?.ok_or("its shape is not a constant")?;
                let zero_is_zero = n.int("allowzero", 0) != 0;
                let mut shape = Vec::new();
                for (k, &extent) in wanted.iter().enumerate() {
                    shape.push(match extent {
                        -1 => 1,
                        0 if !zero_is_zero => *from.get(k).ok_or_else(|| format!("{from:?} to {wanted:?}"))?,
                        _ => {
                            usize::try_from(extent).map_err(|_| format!("the shape {wanted:?} has a negative size"))?
                        }
                    });
                }
                let open: Vec<usize> = (0..wanted.len()).filter(|&k| wanted[k] == -1).collect();
                match (&open[..], count(&shape)?) {
                    ([], _) => {}
                    (&[k], known) if known > 0 && count(from)? % known == 0 => shape[k] = count(from)? / known,
                    _ => return Err(format!("{from:?} cannot become {wanted:?}")),
                }
                shape
            }
            "Flatten" => {
                let at = n.int("axis", 1);
                let at = if at == from.len() as i64 { from.len() } else { axis(at, from.len())? };
                vec![from[..at].iter().product(), from[at..].iter().product()]
            }
            "Squeeze" => {
                let removed = match Self::attribute_or_list(n, "axes", inputs, 1)? {
                    Some(list) => axes(&list, from.len())?,
                    None => (0..from.len()).filter(|&axis| from[axis] == 1).collect(),
                };
                if let Some(axis) = removed.iter().find(|&&axis| from[axis] != 1) {
                    return Err(format!("axis {axis} of {from:?} is not 1"));
                }
                (0..from.len()).filter(|axis| !removed.contains(axis)).map(|axis| from[axis]).collect()
            }
            "Unsqueeze" => {
                let list = Self::attribute_or_list(n, "axes", inputs, 1)?.ok_or("it has no axes")?;
                let added = axes(&list, from.len() + list.len())?;
                let mut rest = from.iter();
                let extent = |axis| if added.contains(&axis) { 1 } else { rest.next().copied().unwrap_or(1) };
                (0..from.len() + list.len()).map(extent).collect()
            }
            _ => return Ok(None),
        }))
    }

    pub(super) fn shaping(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let x = self.real(n, inputs, 0)?;
        let shape = self.graph.shape(x).to_vec();
        if let Some(to) = Self::reshaped(n, inputs, &shape)? {
            return self.reshape(n, x, &to);
        }
        match n.proto.op_type.as_str() {
            "Transpose" => {
                let reversed = || (0..shape.len()).rev().collect();
                let perm = n.ints("perm").map_or_else(|| Ok(reversed()), |ints| sizes(ints, "perm"))?;
                self.transpose(n, x, &perm)
            }
            "Concat" => {
                let axis = axis(n.int("axis", 1), shape.len())?;
                let parts: Vec<_> = (0..inputs.len()).map(|k| self.real(n, inputs, k)).collect::<Result<_, _>>()?;
                if let [only] = parts[..] {
                    Ok(only)
                } else {
                    self.emit(n, Op::Concat { axis }, &parts)
                }
            }
            "Slice" => {
                let (starts, steps, lengths) = Self::slice_of(n, inputs, &shape)?;
                self.emit(n, Op::Slice { starts, steps, lengths }, &[x])
            }
            "Pad" => self.pad(n, x, inputs),
            "CenterCropPad" => self.center(n, x, inputs),
            "Gather" | "GatherND" => {
                let Some(TensorValue::Integers(indices)) = inputs.get(1) else {
                    return Err("its indices are not constant".to_owned());
                };
                if n.proto.op_type == "Gather" {
                    let at = axis(n.int("axis", 0), shape.len())?;
                    return self.gather(n, x, at, &indices.values, &indices.shape);
                }
                match (indices.shape.split_last(), n.int("batch_dims", 0)) {
                    (Some((1, outer)), 0) if !shape.is_empty() => self.gather(n, x, 0, &indices.values, outer),
                    _ => Err(format!("indices of the shape {:?} for several dimensions", indices.shape)),
                }
            }
            "Expand" => {
                let to = sizes(&Self::list(inputs, 1)?.ok_or("its shape is not a constant")?, "sizes")?;
                // A product with ones, which broadcasts the operand as Expand requires.
                let missing = to.len().saturating_sub(shape.len());
                let own = |k: usize| k.checked_sub(missing).and_then(|k| shape.get(k)).copied().unwrap_or(1);
                let ones: Vec<usize> =
                    to.iter().enumerate().map(|(k, &to)| if own(k) == to { 1 } else { to }).collect();
                self.graph.budget.spend(4 * count(&ones)? as u64, 0)?;
                let ones = self.emit_constant(n, &ones, vec![1.0; count(&ones)?])?;
                self.emit(n, Op::Binary(Binary::Mul), &[x, ones])
            }
            "Tile" => {
                let repeats = match Self::list(inputs, 1)? {
                    _ if n.opset < 6 => Self::old_repeats(inputs, shape.len())?,
                    Some(repeats) => repeats,
                    None => return Err("its repeats are not constant".to_owned()),
                };
                let repeats = sizes(&repeats, "repeats")?;
                if repeats.len() != shape.len() || repeats.iter().any(|&count| count > MAX_SLICES) {
                    return Err(format!("repeats {repeats:?} of {shape:?}"));
                }
                let mut tiled = x;
                for (axis, &repeats) in repeats.iter().enumerate().filter(|(_, repeats)| **repeats != 1) {
                    tiled = self.emit(n, Op::Concat { axis }, &vec![tiled; repeats])?;
                }
                Ok(tiled)
            }
            operator => {
                let block = usize::try_from(n.int("blocksize", 0)).map_err(|_| "its block size is negative")?;
                let column = n.text("mode", "DCR") == "CRD";
                if operator == "DepthToSpace" {
                    let order = if column { BlockOrder::Crd } else { BlockOrder::Dcr };
                    return self.emit(n, Op::DepthToSpace { block: [block; 2], order }, &[x]);
                }
                let y = self.emit(n, Op::SpaceToDepth { block: [block; 2] }, &[x])?;
                if !column {
                    return Ok(y);
                }
                let (channels, square) = (shape[1], block * block);
                let from = (0..channels * square).map(|k| k % square * channels + k / square).collect();
                self.emit(n, Op::ChannelPermutation { from }, &[y])
            }
        }
    }

    fn pad(&mut self, n: &Node<'_>, mut x: TensorId, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let shape = self.graph.shape(x).to_vec();
        let list = match n.ints("paddings") {
            Some(old) => old.to_vec(),
            None => Self::attribute_or_list(n, "pads", inputs, 1)?.ok_or("its pads are not constant")?,
        };
        let value = match n.attribute("value") {
            Some(value) if n.opset < 11 => value.f,
            _ => self.scalar(inputs, 2, 0.0)?,
        };
        let chosen = match Self::list(inputs, 3)? {
            Some(list) => list.iter().map(|&a| axis(a, shape.len())).collect::<Result<Vec<_>, _>>()?,
            None => (0..shape.len()).collect(),
        };
        if list.len() != 2 * chosen.len() {
            return Err(format!("pads {list:?} for {} dimensions", chosen.len()));
        }
        let mode = match n.text("mode", "constant").as_str() {
            "constant" => PadMode::Constant(value),
            "reflect" => PadMode::Reflect,
            "edge" => PadMode::Edge,
            other => return Err(format!("mode {other} is not supported")),
        };
        let (mut before, mut after) = (vec![0; shape.len()], vec![0; shape.len()]);
        let (mut starts, mut lengths) = (vec![0; shape.len()], shape.clone());
        for (k, &axis) in chosen.iter().enumerate() {
            let (first, last) = (list[k], list[k + chosen.len()]);
            let amount = |pad: i64| usize::try_from(pad.max(0)).map_err(|_| format!("padding {pad}"));
            let cut = |pad: i64| pad.min(0).unsigned_abs() as usize;
            (before[axis], after[axis], starts[axis]) = (amount(first)?, amount(last)?, cut(first));
            let left = shape[axis].checked_sub(cut(first)).and_then(|left| left.checked_sub(cut(last)));
            lengths[axis] = left.ok_or_else(|| format!("pads {list:?} cut off all of {shape:?}"))?;
        }
        if lengths != shape {
            x = self.emit(n, Op::Slice { starts, steps: vec![1; shape.len()], lengths }, &[x])?;
        }
        if before.iter().chain(&after).all(|&pad| pad == 0) {
            return Ok(x);
        }
        self.emit(n, Op::Pad { mode, before, after }, &[x])
    }

    /// The middle of a tensor, or the tensor in the middle of zeros, along each axis.
    fn center(&mut self, n: &Node<'_>, mut x: TensorId, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let shape = self.graph.shape(x).to_vec();
        let targets = sizes(&Self::list(inputs, 1)?.ok_or("its shape is not a constant")?, "sizes")?;
        let chosen = match n.ints("axes") {
            Some(list) => list.iter().map(|&a| axis(a, shape.len())).collect::<Result<Vec<_>, _>>()?,
            None => (0..shape.len()).collect(),
        };
        if targets.len() != chosen.len() {
            return Err(format!("sizes {targets:?} for {} dimensions", chosen.len()));
        }
        let (mut starts, mut lengths) = (vec![0; shape.len()], shape.clone());
        let (mut before, mut after) = (vec![0; shape.len()], vec![0; shape.len()]);
        for (&at, &target) in chosen.iter().zip(&targets) {
            let (more, less) = (target.saturating_sub(shape[at]), shape[at].saturating_sub(target));
            (starts[at], lengths[at]) = (less / 2, shape[at] - less);
            (before[at], after[at]) = (more / 2, more - more / 2);
        }
        if lengths != shape {
            x = self.emit(n, Op::Slice { starts, steps: vec![1; shape.len()], lengths }, &[x])?;
        }
        if before.iter().chain(&after).all(|&pad| pad == 0) {
            return Ok(x);
        }
        self.emit(n, Op::Pad { mode: PadMode::Constant(0.0), before, after }, &[x])
    }

    /// The elements along an axis that a list has, in its order. The axis then has the list's shape.
    fn gather(
        &mut self,
        n: &Node<'_>,
        x: TensorId,
        at: usize,
        indices: &[i64],
        list_shape: &[usize],
    ) -> Result<TensorId, String> {
        let shape = self.graph.shape(x).to_vec();
        let list: Vec<usize> = indices.iter().map(|&k| index(k, shape[at])).collect::<Result<_, _>>()?;
        let (Some(&first), true) = (list.first(), list.len() <= MAX_SLICES || at == 1) else {
            return Err(format!("{} indices", list.len()));
        };
        let part = |start: usize, step: isize, count: usize| {
            let (mut starts, mut steps, mut lengths) = (vec![0; shape.len()], vec![1; shape.len()], shape.clone());
            (starts[at], steps[at], lengths[at]) = (start, step, count);
            Op::Slice { starts, steps, lengths }
        };
        let step = list.get(1).map_or(1, |&second| second as isize - first as isize);
        let even = step != 0 && list.windows(2).all(|pair| pair[1] as isize - pair[0] as isize == step);
        let y = if even {
            self.emit(n, part(first, step, list.len()), &[x])?
        } else if at == 1 {
            self.emit(n, Op::ChannelPermutation { from: list }, &[x])?
        } else {
            let parts: Vec<_> = list.iter().map(|&k| self.emit(n, part(k, 1, 1), &[x])).collect::<Result<_, _>>()?;
            if let [only] = parts[..] {
                only
            } else {
                self.emit(n, Op::Concat { axis: at }, &parts)?
            }
        };
        let to = [&shape[..at], list_shape, &shape[at + 1..]].concat();
        self.reshape(n, y, &to)
    }

    /// The lengths of a `Split`'s outputs along its axis.
    fn split_lengths(n: &Node<'_>, inputs: &[TensorValue], extent: usize) -> Result<Vec<usize>, String> {
        if let Some(list) = Self::attribute_or_list(n, "split", inputs, 1)? {
            let lengths = sizes(&list, "lengths")?;
            let sum = lengths.iter().try_fold(0usize, |sum, &length| sum.checked_add(length));
            return if sum == Some(extent) { Ok(lengths) } else { Err(format!("lengths {lengths:?} of {extent}")) };
        }
        let outputs = n.proto.output.len().max(1);
        let each = extent.div_ceil(outputs);
        Ok((0..outputs).map(|k| each.min(extent.saturating_sub(k * each))).collect())
    }

    pub(super) fn split(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<Vec<TensorValue>, String> {
        let x = self.real(n, inputs, 0)?;
        let shape = self.graph.shape(x).to_vec();
        let axis = axis(n.int("axis", 0), shape.len())?;
        let mut start = 0;
        let mut outputs = Vec::new();
        for length in Self::split_lengths(n, inputs, shape[axis])? {
            outputs.push(TensorValue::Real(self.part(n, x, axis, (start, length))?));
            start += length;
        }
        Ok(outputs)
    }

    /// A part of a tensor along an axis: the first index, and how many.
    pub(super) fn part(
        &mut self,
        n: &Node<'_>,
        x: TensorId,
        axis: usize,
        (first, count): (usize, usize),
    ) -> Result<TensorId, String> {
        let mut lengths = self.graph.shape(x).to_vec();
        let (mut starts, steps) = (vec![0; lengths.len()], vec![1; lengths.len()]);
        (starts[axis], lengths[axis]) = (first, count);
        self.emit(n, Op::Slice { starts, steps, lengths }, &[x])
    }

    /// Computes a node whose inputs are constant integers or constants; `None` for a node on real numbers.
    pub(super) fn integers(
        &mut self,
        n: &Node<'_>,
        inputs: &[TensorValue],
        folder: Option<&Path>,
    ) -> Result<Option<Vec<TensorValue>>, String> {
        let operator = n.proto.op_type.as_str();
        if !proto::is_standard(&n.proto.domain) {
            return Ok(None);
        }
        let one = |integers: Integers| Ok(Some(vec![TensorValue::Integers(integers)]));
        match operator {
            "Constant" => return self.constant_node(n, folder).map(|value| Some(vec![value])),
            "Shape" | "Size" => {
                let shape = inputs.first().and_then(|value| self.shape_of(value)).ok_or("its input has no shape")?;
                let shape: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
                if operator == "Size" {
                    let size = shape.iter().product();
                    return one(Integers { shape: vec![], values: [size].into(), kind: types::INT64 });
                }
                let place = |at: i64| {
                    let rank = shape.len() as i64;
                    if at < 0 { at.saturating_add(rank) } else { at }.clamp(0, rank) as usize
                };
                let (start, end) = (place(n.int("start", 0)), place(n.int("end", i64::MAX)));
                return one(Integers::vector(shape.get(start..end).unwrap_or_default().to_vec()));
            }
            "ConstantOfShape" => {
                let shape = sizes(&Self::list(inputs, 0)?.ok_or("its shape is not a constant")?, "sizes")?;
                let count = count(&shape)?;
                self.graph.budget.spend(4 * count as u64, 0)?;
                let value = n.attribute("value").and_then(|attribute| attribute.t.as_ref());
                return match value.map_or(Ok(Value::Real(vec![1], [0.0].into())), |t| value::tensor(t, folder))? {
                    Value::Real(_, value) if value.len() == 1 => {
                        let value = Value::Real(shape, vec![value[0]; count].into());
                        self.constant(&n.name, value).map(|value| Some(vec![value]))
                    }
                    Value::Integers(Integers { values, kind, .. }) if values.len() == 1 => {
                        one(Integers { shape, values: vec![values[0]; count].into(), kind })
                    }
                    _ => Err("its value does not have one element".to_owned()),
                };
            }
            "Cast" => {
                let to = n.target();
                return match &inputs.first() {
                    Some(TensorValue::Integers(integers)) if types::is_real(to) => {
                        let value = Value::Real(integers.shape.clone(), integers.real());
                        self.constant(&n.name, value).map(|value| Some(vec![value]))
                    }
                    Some(TensorValue::Integers(integers)) => one(Integers { kind: to, ..integers.clone() }),
                    Some(TensorValue::Real(id)) if !types::is_real(to) => match self.graph.constant(*id) {
                        Some(values) => {
                            let integer =
                                |&value: &f32| if to == types::BOOL { i64::from(value != 0.0) } else { value as i64 };
                            let values = values.iter().map(integer).collect();
                            one(Integers { shape: self.graph.shape(*id).to_vec(), values, kind: to })
                        }
                        None => Ok(None),
                    },
                    _ => Ok(None),
                };
            }
            "Where" => return self.choose(inputs).map(|value| value.map(|value| vec![value])),
            _ => {}
        }
        let all: Option<Vec<&Integers>> = inputs
            .iter()
            .filter(|value| !matches!(value, TensorValue::Nothing))
            .map(|value| if let TensorValue::Integers(integers) = value { Some(integers) } else { None })
            .collect();
        let Some(all) = all.filter(|all| !all.is_empty()) else { return Ok(None) };
        let first = all[0];
        if operator == "Split" {
            let axis = axis(n.int("axis", 0), first.shape.len())?;
            let mut at = 0;
            let mut outputs = Vec::new();
            for length in Self::split_lengths(n, inputs, first.shape[axis])? {
                let (mut starts, mut lengths) = (vec![0; first.shape.len()], first.shape.clone());
                (starts[axis], lengths[axis]) = (at, length);
                at += length;
                outputs.push(TensorValue::Integers(first.slice(&starts, &vec![1; lengths.len()], &lengths)?));
            }
            return Ok(Some(outputs));
        }
        if let Some(to) = Self::reshaped(n, inputs, &first.shape)? {
            return one(first.reshape(to)?);
        }
        Self::integer(n, inputs, &all).map(|integers| integers.map(|integers| vec![TensorValue::Integers(integers)]))
    }

    fn integer(n: &Node<'_>, inputs: &[TensorValue], all: &[&Integers]) -> Result<Option<Integers>, String> {
        let first = all[0];
        let fold = |f: &dyn Fn(i64, i64) -> Result<i64, String>| {
            all[1..].iter().try_fold(first.clone(), |sum, other| sum.zip(other, f)).map(Some)
        };
        let over = |what: &str| format!("{what} of integers overflows");
        let compare = |f: fn(&i64, &i64) -> bool| {
            let [a, b] = all[..] else { return Err("two inputs are compared".to_owned()) };
            let truth = a.zip(b, |a, b| Ok(i64::from(f(&a, &b))))?;
            Ok(Some(Integers { kind: types::BOOL, ..truth }))
        };
        let reduce = |start: i64, f: &dyn Fn(i64, i64) -> Option<i64>| {
            let list = Self::attribute_or_list(n, "axes", inputs, 1)?.unwrap_or_default();
            if first.shape.len() > 1 || axes(&list, first.shape.len())?.len() > 1 {
                return Err(format!("integers of the shape {:?} are reduced", first.shape));
            }
            let value =
                first.values.iter().try_fold(start, |sum, &value| f(sum, value)).ok_or_else(|| over("a reduction"))?;
            let shape = if n.int("keepdims", 1) != 0 { vec![1; first.shape.len()] } else { vec![] };
            Ok(Some(Integers { shape, values: [value].into(), kind: first.kind }))
        };
        match n.proto.op_type.as_str() {
            "Identity" | "Dropout" | "Floor" | "Ceil" | "Round" | "CastLike" => Ok(Some(first.clone())),
            "Gather" => {
                let at = axis(n.int("axis", 0), first.shape.len())?;
                first.gather(all.get(1).ok_or("it has no indices")?, at).map(Some)
            }
            "Slice" => {
                let (starts, steps, lengths) = Self::slice_of(n, inputs, &first.shape)?;
                first.slice(&starts, &steps, &lengths).map(Some)
            }
            "Concat" => {
                let at = axis(n.int("axis", 0), first.shape.len())?;
                Integers::concat(&all.iter().map(|&part| part.clone()).collect::<Vec<_>>(), at).map(Some)
            }
            "Transpose" => {
                let reversed = (0..first.shape.len()).rev().collect();
                let perm = n.ints("perm").map_or(Ok(reversed), |ints| sizes(ints, "perm"))?;
                first.transpose(&perm).map(Some)
            }
            "Expand" => {
                let to = all.get(1).ok_or("it has no shape")?;
                let to = Integers { kind: types::INT64, ..(*to).clone() };
                let missing = to.values.len().saturating_sub(first.shape.len());
                let own = |k: usize| k.checked_sub(missing).and_then(|k| first.shape.get(k)).copied().unwrap_or(1);
                let sizes = sizes(&to.values, "sizes")?;
                first.expand(&sizes.iter().enumerate().map(|(k, &to)| to.max(own(k))).collect::<Vec<_>>()).map(Some)
            }
            "Range" => {
                let [start, limit, step] = all[..] else { return Err("it does not have three inputs".to_owned()) };
                let value = |integers: &Integers| integers.values.first().copied().ok_or("it has an empty input");
                let (start, limit, step) =
                    (i128::from(value(start)?), i128::from(value(limit)?), i128::from(value(step)?));
                if step == 0 {
                    return Err("a step of 0".to_owned());
                }
                let distance = if step > 0 { limit - start } else { start - limit };
                let numbers = (distance.max(0) + step.abs() - 1) / step.abs();
                let numbers = count(&[usize::try_from(numbers).unwrap_or(usize::MAX)])?;
                let values: Vec<i64> = (0..numbers as i128).map(|k| (start + k * step) as i64).collect();
                Ok(Some(Integers { kind: first.kind, ..Integers::vector(values) }))
            }
            "Add" | "Sum" => fold(&|a, b| a.checked_add(b).ok_or_else(|| over("a sum"))),
            "Sub" => fold(&|a, b| a.checked_sub(b).ok_or_else(|| over("a difference"))),
            "Mul" => fold(&|a, b| a.checked_mul(b).ok_or_else(|| over("a product"))),
            "Div" => fold(&|a, b| a.checked_div(b).ok_or_else(|| format!("{a} is divided by {b}"))),
            "Mod" if n.int("fmod", 0) != 0 => fold(&|a, b| a.checked_rem(b).ok_or_else(|| format!("{a} modulo {b}"))),
            "Mod" => fold(&|a, b| {
                let rest = a.checked_rem(b).ok_or_else(|| format!("{a} modulo {b}"))?;
                Ok(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
            }),
            "Pow" => fold(&|a, b| u32::try_from(b).ok().and_then(|b| a.checked_pow(b)).ok_or_else(|| over("a power"))),
            "Min" => fold(&|a, b| Ok(a.min(b))),
            "Max" => fold(&|a, b| Ok(a.max(b))),
            "And" => fold(&|a, b| Ok(a & b)),
            "Or" => fold(&|a, b| Ok(a | b)),
            "Not" => Ok(Some(first.map(|value| i64::from(value == 0)))),
            "Neg" => Ok(Some(first.map(i64::wrapping_neg))),
            "Abs" => Ok(Some(first.map(i64::wrapping_abs))),
            "Equal" => compare(i64::eq),
            "Less" => compare(i64::lt),
            "LessOrEqual" => compare(i64::le),
            "Greater" => compare(i64::gt),
            "GreaterOrEqual" => compare(i64::ge),
            "ReduceProd" => reduce(1, &i64::checked_mul),
            "ReduceSum" => reduce(0, &i64::checked_add),
            "ReduceMax" => reduce(i64::MIN, &|a, b| Some(a.max(b))),
            "ReduceMin" => reduce(i64::MAX, &|a, b| Some(a.min(b))),
            // All other operators compute on real numbers.
            _ => Ok(None),
        }
    }

    /// `Where` with a constant condition.
    fn choose(&mut self, inputs: &[TensorValue]) -> Result<Option<TensorValue>, String> {
        let [TensorValue::Integers(condition), a, b] = inputs else {
            return Ok(None);
        };
        if let (TensorValue::Integers(a), TensorValue::Integers(b)) = (a, b) {
            // The three inputs are broadcast to each other.
            let (zero, one) = (|_, _| Ok(0), |_, b| Ok(b));
            let all = condition.zip(a, zero)?.zip(b, zero)?;
            let (a, b, condition) = (all.zip(a, one)?, all.zip(b, one)?, all.zip(condition, one)?);
            let choice = |((&c, &a), &b)| if c != 0 { a } else { b };
            let values = condition.values.iter().zip(&a.values[..]).zip(&b.values[..]).map(choice).collect();
            return Ok(Some(TensorValue::Integers(Integers { values, ..a })));
        }
        let chosen = if condition.values.iter().all(|&c| c != 0) {
            a
        } else if condition.values.iter().all(|&c| c == 0) {
            b
        } else {
            return Ok(None);
        };
        let shapes = [self.shape_of(a), self.shape_of(b)];
        if shapes[0] != shapes[1] || shapes[0].as_ref().is_none_or(|shape| count(&condition.shape) > count(shape)) {
            return Ok(None);
        }
        Ok(Some(chosen.clone()))
    }

    fn constant_node(&mut self, n: &Node<'_>, folder: Option<&Path>) -> Result<TensorValue, String> {
        let [attribute] = &n.proto.attribute[..] else { return Err("it does not have one value".to_owned()) };
        let real = |shape: Vec<usize>, values: &[f32]| Value::Real(shape, values.into());
        let integer =
            |shape, values: &[i64]| Value::Integers(Integers { shape, values: values.into(), kind: types::INT64 });
        let value = match attribute.name.as_str() {
            "value" => value::tensor(attribute.t.as_ref().ok_or("its value is missing")?, folder)?,
            "value_float" => real(vec![], &[attribute.f]),
            "value_floats" => real(vec![attribute.floats.len()], &attribute.floats),
            "value_int" => integer(vec![], &[attribute.i]),
            "value_ints" => integer(vec![attribute.ints.len()], &attribute.ints),
            other => return Err(format!("a constant given as {other} is not supported")),
        };
        self.constant(&n.name, value)
    }
}
