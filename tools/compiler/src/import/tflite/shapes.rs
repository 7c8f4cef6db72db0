// SPDX-License-Identifier: MIT OR Apache-2.0

//! The order of axes, and operators that move elements.

use super::file::Operator;
use super::reader::Reader;
use super::value::{axis, first_axes, in_order, last_axes, same_in_both, sizes, Operands, Value};
use crate::ir::{BlockOrder, Op, PadMode, TensorId};

impl Reader<'_> {
    /// A tensor with its axes in one of the two orders.
    pub(super) fn ordered(&mut self, n: &str, value: &Value, first: bool) -> Result<Value, String> {
        let rank = value.shape.len();
        if rank < 3 || value.first == first {
            return Ok(Value { first, ..value.clone() });
        }
        if let Some(&id) = self.turned.get(&value.id) {
            return Ok(Value { id, first, ..value.clone() });
        }
        let id = self.transpose(n, value.id, &if first { first_axes(rank) } else { last_axes(rank) })?;
        self.turned.extend([(value.id, id), (id, value.id)]);
        Ok(Value { id, first, ..value.clone() })
    }

    /// A transposition. A constant keeps its scales.
    pub(super) fn transpose(&mut self, n: &str, x: TensorId, perm: &[usize]) -> Result<TensorId, String> {
        if perm.is_sorted() {
            return Ok(x);
        }
        let y = self.emit(n, Op::Transpose { perm: perm.to_vec() }, &[x])?;
        if self.graph.constant(y).is_some() {
            let mut q = self.graph.tensor(x).quantization.clone();
            if let Some(along) = q.as_mut().and_then(|q| q.axis.as_mut()) {
                *along = perm.iter().position(|axis| axis == along).unwrap_or_default();
            }
            self.graph.tensors[y.0].quantization = q;
        }
        Ok(y)
    }

    fn emit_reshape(&mut self, n: &str, x: TensorId, shape: &[usize]) -> Result<TensorId, String> {
        if self.graph.shape(x) == shape {
            return Ok(x);
        }
        let y = self.emit(n, Op::Reshape { shape: shape.to_vec() }, &[x])?;
        // The weights of a product keep their scales, which are along their first axis.
        if self.graph.constant(y).is_some() && self.graph.shape(x).first() == shape.first() {
            let q = self.graph.tensor(x).quantization.clone();
            self.graph.tensors[y.0].quantization = q.filter(|q| q.axis.is_none_or(|axis| axis == 0));
        }
        Ok(y)
    }

    /// The same elements, in TFLite's order, in another shape.
    pub(super) fn reshape(&mut self, n: &str, value: &Value, to: &[usize]) -> Result<Value, String> {
        let from = &value.shape;
        let kept = from.len() > 1 && to.len() > 1 && from[0] == to[0] && from.last() == to.last();
        let count = |shape: &[usize]| shape.iter().product::<usize>();
        if count(from) != count(to) {
            return Err(format!("{from:?} does not have as many elements as {to:?}"));
        }
        let first = if kept {
            // The pixels are divided or joined; the channels are the same.
            value.first || from.len() < 3 && same_in_both(to)
        } else {
            same_in_both(to)
        };
        let x = if kept && value.first == first || same_in_both(from) {
            value.id
        } else {
            self.ordered(n, value, false)?.id
        };
        let id = self.emit_reshape(n, x, &in_order(to, first))?;
        Ok(Value { id, shape: to.to_vec(), first })
    }

    /// An operand of an element-wise operator with that number of dimensions, in that order. Shapes are aligned at their last
    /// dimensions.
    pub(super) fn aligned(&mut self, n: &str, value: &Value, rank: usize, first: bool) -> Result<TensorId, String> {
        let missing = rank.saturating_sub(value.shape.len());
        if missing == 0 || value.shape.iter().product::<usize>() == 1 && self.graph.constant(value.id).is_some() {
            return Ok(self.ordered(n, value, first)?.id);
        }
        let last = self.ordered(n, value, false)?;
        let shape = [vec![1; missing], value.shape.clone()].concat();
        let id = self.emit_reshape(n, last.id, &shape)?;
        Ok(self.ordered(n, &Value { id, shape, first: false }, first)?.id)
    }

    /// Operands in one order: channels first, unless all tensors that are computed are in TFLite's order.
    pub(super) fn together(&mut self, n: &str, values: &[&Value]) -> Result<(Vec<TensorId>, bool), String> {
        let rank = values.iter().map(|value| value.shape.len()).max().unwrap_or(0);
        let computed = |value: &&&Value| self.graph.constant(value.id).is_none() && value.shape.len() > 2;
        let first = values.iter().filter(computed).any(|value| value.first);
        let ids = values.iter().map(|value| self.aligned(n, value, rank, first)).collect::<Result<_, _>>()?;
        Ok((ids, first))
    }

    pub(super) fn shaping(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        match o.name.as_str() {
            "FILL" => {
                let (shape, values) = (self.integers(x.get(0)?)?, self.numbers(x.get(1)?)?);
                let (shape, &[value]) = (sizes(&shape)?, &values[..]) else {
                    return Err("its value is not one".to_owned());
                };
                let count = crate::ir::infer::elements(&shape)?;
                if count > 1 << 24 {
                    return Err(format!("a constant of {count} elements"));
                }
                let id = self.emit_constant(n, &shape, vec![value; count])?;
                return Ok(self.value(id, false));
            }
            "PACK" => {
                let all = x.all()?;
                let rank = all.first().ok_or("it has no inputs")?.shape.len() + 1;
                let along = axis(o.int(1, 0)?.into(), rank)?;
                let mut parts = Vec::new();
                for value in all {
                    let mut shape = value.shape.clone();
                    shape.insert(along.min(shape.len()), 1);
                    parts.push(self.reshape(n, value, &shape)?);
                }
                return self.concat(n, &parts.iter().collect::<Vec<_>>(), along);
            }
            _ => {}
        }
        let value = x.get(0)?;
        let shape = value.shape.clone();
        let rank = shape.len();
        match o.name.as_str() {
            "SHAPE" => {
                let extents: Vec<f32> = shape.iter().map(|&extent| extent as f32).collect();
                let id = self.emit_constant(n, &[rank], extents)?;
                Ok(self.value(id, false))
            }
            "RESHAPE" => {
                let to = match x.optional(1) {
                    Some(list) => self.integers(list)?,
                    None => o.ints(0)?.into_iter().map(i64::from).collect(),
                };
                self.reshape(n, value, &wanted(&shape, &to)?)
            }
            "EXPAND_DIMS" => {
                let along = self.integers(x.get(1)?)?;
                let &[along] = &along[..] else { return Err("it does not have one axis".to_owned()) };
                let mut to = shape;
                to.insert(axis(along, rank + 1)?, 1);
                self.reshape(n, value, &to)
            }
            "SQUEEZE" => {
                let list = o.ints(0)?;
                let list = list.iter().map(|&k| axis(k.into(), rank)).collect::<Result<Vec<_>, _>>()?;
                let removed = |k: &usize| shape[*k] == 1 && (list.is_empty() || list.contains(k));
                if let Some(k) = list.iter().find(|&&k| shape[k] != 1) {
                    return Err(format!("axis {k} of {shape:?} is removed"));
                }
                let to: Vec<usize> = (0..rank).filter(|k| !removed(k)).map(|k| shape[k]).collect();
                self.reshape(n, value, &to)
            }
            "TRANSPOSE" => {
                let perm = self.integers(x.get(1)?)?;
                let perm = perm.iter().map(|&k| axis(k, rank)).collect::<Result<Vec<_>, _>>()?;
                self.permuted(n, value, &perm)
            }
            "CONCATENATION" => {
                let along = axis(o.int(0, 0)?.into(), rank)?;
                self.concat(n, &x.all()?, along)
            }
            "SLICE" => {
                let (starts, lengths) = (self.integers(x.get(1)?)?, self.integers(x.get(2)?)?);
                if starts.len() != rank || lengths.len() != rank {
                    return Err(format!("begin {starts:?} and size {lengths:?} for {rank} dimensions"));
                }
                let starts = sizes(&starts)?;
                let rest =
                    |k: usize| if lengths[k] < 0 { shape[k].saturating_sub(starts[k]) } else { lengths[k] as usize };
                let lengths: Vec<usize> = (0..rank).map(rest).collect();
                self.slice(n, value, &starts, &vec![1; rank], &lengths)
            }
            "STRIDED_SLICE" => self.strided_slice(o, n, x),
            "GATHER" => {
                if o.int(1, 0)? != 0 {
                    return Err("batch dimensions are not supported".to_owned());
                }
                let (indices, along) = (x.get(1)?, axis(o.int(0, 0)?.into(), rank)?);
                let list = sizes(&self.integers(indices)?)?;
                if list.len() > 4096 {
                    return Err(format!("{} elements are gathered", list.len()));
                }
                let mut parts: Vec<Value> = Vec::new();
                let mut at = 0;
                while at < list.len() {
                    let mut end = at + 1;
                    while end < list.len() && list[end] == list[end - 1] + 1 {
                        end += 1;
                    }
                    let (mut starts, mut lengths) = (vec![0; rank], shape.clone());
                    (starts[along], lengths[along]) = (list[at], end - at);
                    parts.push(self.slice(n, value, &starts, &vec![1; rank], &lengths)?);
                    at = end;
                }
                let joined = self.concat(n, &parts.iter().collect::<Vec<_>>(), along)?;
                self.reshape(n, &joined, &[&shape[..along], &indices.shape, &shape[along + 1..]].concat())
            }
            "TILE" | "BROADCAST_TO" => {
                let list = sizes(&self.integers(x.get(1)?)?)?;
                let shape = [vec![1; list.len().saturating_sub(rank)], shape].concat();
                let mut value = self.reshape(n, value, &shape)?;
                for (k, &count) in list.iter().enumerate().take(shape.len()) {
                    let count = if o.name == "TILE" || shape[k] == 1 { count } else { 1 };
                    if count > 4096 {
                        return Err(format!("{count} repetitions"));
                    }
                    value = self.concat(n, &vec![&value.clone(); count], k)?;
                }
                Ok(value)
            }
            "PAD" | "PADV2" | "MIRROR_PAD" => {
                let pads = sizes(&self.integers(x.get(1)?)?)?;
                if pads.len() != 2 * rank {
                    return Err(format!("paddings {pads:?} for {rank} dimensions"));
                }
                let mode = match (o.name.as_str(), x.optional(2)) {
                    ("MIRROR_PAD", _) if o.choice(0)? == 0 => PadMode::Reflect,
                    ("MIRROR_PAD", _) => return Err("a mirror that repeats the edge is not supported".to_owned()),
                    ("PADV2", Some(with)) => match self.numbers(with)?[..] {
                        [with] => PadMode::Constant(with),
                        _ => return Err("its padding is not one value".to_owned()),
                    },
                    _ => PadMode::Constant(0.0),
                };
                let side =
                    |side: usize| value.per_axis(&pads.chunks_exact(2).map(|pads| pads[side]).collect::<Vec<_>>());
                let id = self.emit(n, Op::Pad { mode, before: side(0), after: side(1) }, &[value.id])?;
                Ok(self.value(id, value.first))
            }
            name => {
                let value = self.ordered(n, value, true)?;
                let block = [o.size(0, 0)?; 2];
                let op = match name {
                    "DEPTH_TO_SPACE" => Op::DepthToSpace { block, order: BlockOrder::Dcr },
                    _ => Op::SpaceToDepth { block },
                };
                let id = self.emit(n, op, &[value.id])?;
                Ok(self.value(id, true))
            }
        }
    }

    /// A transposition of TFLite's axes. It may be only another order of the graph's.
    pub(super) fn permuted(&mut self, n: &str, value: &Value, perm: &[usize]) -> Result<Value, String> {
        let rank = value.shape.len();
        let mut seen = vec![false; rank];
        for &axis in perm {
            seen[axis] = true;
        }
        if perm.len() != rank || seen.contains(&false) {
            return Err(format!("{perm:?} is not an order of {rank} dimensions"));
        }
        // The graph's axis of each axis of the output, in each of its orders.
        let order = |first: bool| -> Vec<usize> {
            let axes = if first && rank > 2 { first_axes(rank) } else { (0..rank).collect() };
            axes.iter().map(|&axis| value.axis(perm[axis])).collect()
        };
        let first =
            [value.first, !value.first].into_iter().find(|&first| order(first).is_sorted()).unwrap_or(value.first);
        let id = self.transpose(n, value.id, &order(first))?;
        Ok(self.value(id, first))
    }

    pub(super) fn concat(&mut self, n: &str, values: &[&Value], along: usize) -> Result<Value, String> {
        if values.is_empty() || values.iter().any(|value| value.shape.len() <= along) {
            return Err("it has no inputs, or their dimensions differ".to_owned());
        }
        let (ids, first) = self.together(n, values)?;
        if let &[id] = &ids[..] {
            return Ok(self.value(id, first));
        }
        let axis = Value { first, ..values[0].clone() }.axis(along);
        let id = self.emit(n, Op::Concat { axis }, &ids)?;
        Ok(self.value(id, first))
    }

    /// A part of a tensor; the numbers are one per axis of TFLite's.
    pub(super) fn slice(
        &mut self,
        n: &str,
        value: &Value,
        starts: &[usize],
        steps: &[isize],
        lengths: &[usize],
    ) -> Result<Value, String> {
        if starts.iter().all(|&start| start == 0) && steps.iter().all(|&step| step == 1) && lengths == value.shape {
            return Ok(value.clone());
        }
        let (starts, steps) = (value.per_axis(starts), value.per_axis(steps));
        let id = self.emit(n, Op::Slice { starts, steps, lengths: value.per_axis(lengths) }, &[value.id])?;
        Ok(self.value(id, value.first))
    }

    fn strided_slice(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        let value = x.get(0)?;
        let shape = &value.shape;
        let [begin, end, strides] = [1, 2, 3].map(|k| x.get(k).and_then(|list| self.integers(list)));
        let (begin, end, strides) = (begin?, end?, strides?);
        let mask = |slot: usize| o.int(slot, 0);
        if mask(2)? != 0 || mask(3)? != 0 {
            return Err("an ellipsis and new axes are not supported".to_owned());
        }
        if o.flag(5)? {
            return Err("an end that counts from the beginning is not supported".to_owned());
        }
        if begin.len() > shape.len() || end.len() != begin.len() || strides.len() != begin.len() {
            return Err(format!("begin {begin:?}, end {end:?} and strides {strides:?} for {shape:?}"));
        }
        let (mut starts, mut steps, mut lengths) = (vec![0; shape.len()], vec![1; shape.len()], shape.clone());
        let mut kept = Vec::new();
        for k in 0..shape.len() {
            let bit = |mask: i32| k < 31 && mask >> k & 1 != 0;
            let Some(&step) = strides.get(k) else {
                kept.push(shape[k]);
                continue;
            };
            let extent = shape[k] as i64;
            let place = |at: i64| if at < 0 { at.saturating_add(extent) } else { at };
            if bit(mask(4)?) {
                let at = usize::try_from(place(begin[k])).ok().filter(|&at| at < shape[k]);
                (starts[k], lengths[k]) = (at.ok_or_else(|| format!("element {} of {extent}", begin[k]))?, 1);
                continue;
            }
            let step = isize::try_from(step).ok().filter(|&step| step != 0 && step.unsigned_abs() <= 1 << 31);
            let step = step.ok_or_else(|| format!("strides {strides:?}"))?;
            let (low, high) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
            let from = if bit(mask(0)?) {
                if step > 0 {
                    low
                } else {
                    high
                }
            } else {
                place(begin[k]).clamp(low, high)
            };
            let to = if bit(mask(1)?) {
                if step > 0 {
                    high
                } else {
                    low
                }
            } else {
                place(end[k]).clamp(low, high)
            };
            let distance = if step > 0 { to - from } else { from - to };
            lengths[k] = (distance.max(0) as usize).div_ceil(step.unsigned_abs());
            (starts[k], steps[k]) = (from.max(0) as usize, step);
            kept.push(lengths[k]);
        }
        let part = self.slice(n, value, &starts, &steps, &lengths)?;
        if kept.len() == shape.len() {
            return Ok(part);
        }
        self.reshape(n, &part, &kept)
    }

    pub(super) fn split(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Vec<Value>, String> {
        let (value, along) = match o.name.as_str() {
            "SPLIT" => (x.get(1)?, self.integers(x.get(0)?)?),
            "SPLIT_V" => (x.get(0)?, self.integers(x.get(2)?)?),
            _ => (x.get(0)?, vec![o.int(1, 0)?.into()]),
        };
        let (&[along], rank) = (&along[..], value.shape.len()) else {
            return Err("it does not have one axis".to_owned());
        };
        let (along, count) = (axis(along, rank)?, o.outputs.len());
        let extent = value.shape[along];
        let parts = if o.name == "SPLIT_V" {
            let list = self.integers(x.get(1)?)?;
            let open = list.iter().filter(|&&part| part < 0).count();
            let known = list.iter().filter_map(|&part| usize::try_from(part).ok()).fold(0, usize::saturating_add);
            let rest = if open == 1 { extent.saturating_sub(known) } else { 0 };
            list.iter().map(|&part| usize::try_from(part).unwrap_or(rest)).collect()
        } else if count > 0 && extent % count == 0 {
            vec![extent / count; count]
        } else {
            return Err(format!("{extent} in {count} parts"));
        };
        let mut outputs = Vec::new();
        let mut at = 0usize;
        for part in parts {
            let (mut starts, mut lengths) = (vec![0; rank], value.shape.clone());
            (starts[along], lengths[along]) = (at, part);
            at = at.saturating_add(part);
            let mut part = self.slice(n, value, &starts, &vec![1; rank], &lengths)?;
            if o.name == "UNPACK" {
                let mut shape = part.shape.clone();
                shape.remove(along);
                part = self.reshape(n, &part, &shape)?;
            }
            outputs.push(part);
        }
        Ok(outputs)
    }
}

/// The shape of a reshape. One size may be -1: what the others leave.
fn wanted(from: &[usize], to: &[i64]) -> Result<Vec<usize>, String> {
    let elements: usize = from.iter().product();
    let mut sizes = to.iter().filter(|&&size| size != -1);
    let known = sizes.try_fold(1usize, |product, &size| product.checked_mul(usize::try_from(size).ok()?));
    let bad = || format!("{from:?} in the shape {to:?}");
    let known = known.filter(|&known| known > 0).ok_or_else(bad)?;
    if to.iter().filter(|&&size| size == -1).count() > 1 || !elements.is_multiple_of(known) {
        return Err(bad());
    }
    Ok(to.iter().map(|&size| if size == -1 { elements / known } else { size as usize }).collect())
}
