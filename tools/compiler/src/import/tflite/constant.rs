// SPDX-License-Identifier: MIT OR Apache-2.0

//! Constants of a TFLite file as real numbers.
//!
//! Integers (shapes, axes, paddings) are real numbers, too, so that the evaluation of [`crate::float`] computes with both. They
//! are exact up to 2^24; larger ones are limits of slices, which are cut to the tensor's size.

use super::file::{Kind, Level, Sparsity, Tensor};
use super::reader::Reader;
use super::value::Value;
use crate::ir::infer;

impl Reader<'_> {
    /// Reads a constant of the file.
    pub(super) fn constant(&mut self, index: usize) -> Result<Value, String> {
        let tensor = &self.file.tensors[index];
        let extent = |&extent: &i32| usize::try_from(extent).map_err(|_| format!("the shape {:?}", tensor.shape));
        let shape: Vec<usize> = tensor.shape.iter().map(extent).collect::<Result<_, _>>()?;
        let elements = infer::elements(&shape)?;
        if tensor.data.is_empty() {
            return Err("it has no values, and no operator computes it".to_owned());
        }
        self.graph.budget.spend(4 * elements as u64, 0)?;
        let stored = numbers(tensor)?;
        let mut values = match &tensor.sparsity {
            Some(places) => dense(places.lists()?.as_ref(), &shape, &stored)?,
            None => stored,
        };
        if values.len() != elements {
            return Err(format!("it has {} values for the shape {shape:?}", values.len()));
        }
        // A bias has the scale of the product that it is added to, so its integers are kept here.
        if let Some(q) = tensor.quantization.as_ref().filter(|_| !matches!(tensor.kind, Kind::Int32 | Kind::Int64)) {
            let inner = match q.axis {
                Some(axis) if shape.get(axis) != Some(&q.scale.len()) => {
                    return Err(format!("{} scales along axis {axis} of {shape:?}", q.scale.len()));
                }
                Some(axis) => shape[axis + 1..].iter().product(),
                None => elements,
            };
            for (k, run) in values.chunks_mut(inner).enumerate() {
                let (scale, zero) = (q.scale[k % q.scale.len()], q.zero_point[k % q.scale.len()] as f32);
                for value in run {
                    *value = (*value - zero) * scale;
                }
            }
        }
        if let Some(at) = values.iter().position(|value| value.is_nan()) {
            return Err(format!("its value {at} is not a number"));
        }
        let name = self.unique(&tensor.name);
        let id = self.graph.add_constant(name, &shape, values)?;
        if !matches!(tensor.kind, Kind::Int32 | Kind::Int64) {
            self.graph.tensors[id.0].quantization.clone_from(&tensor.quantization);
        }
        Ok(Value { id, shape, first: false })
    }
}

/// The numbers of a tensor's bytes; those of uint8 with scales as int8.
fn numbers(tensor: &Tensor<'_>) -> Result<Vec<f32>, String> {
    let data = tensor.data;
    macro_rules! all {
        ($type:ty, $number:expr) => {{
            const WIDTH: usize = size_of::<$type>();
            if data.chunks_exact(WIDTH).remainder() != [0u8; 0] {
                return Err(format!("its {} bytes are no multiple of {WIDTH}", data.len()));
            }
            let number = $number;
            let bytes = |bytes: &[u8]| number(<$type>::from_le_bytes(bytes.try_into().unwrap_or_default()));
            data.chunks_exact(WIDTH).map(bytes).collect()
        }};
    }
    Ok(match tensor.kind {
        Kind::Float32 => all!(f32, |value| value),
        Kind::Float64 => all!(f64, |value| value as f32),
        Kind::Float16 => all!(u16, |value| half::f16::from_bits(value).to_f32()),
        Kind::Int64 => all!(i64, |value| value as f32),
        Kind::Int32 => all!(i32, |value| value as f32),
        Kind::Int16 => all!(i16, f32::from),
        Kind::Int8 => all!(i8, f32::from),
        Kind::Uint8 if tensor.quantization.is_some() => all!(u8, |value| f32::from(value) - 128.0),
        Kind::Uint8 | Kind::Bool => all!(u8, f32::from),
        Kind::Int4 => {
            let elements: usize = tensor.shape.iter().map(|&extent| extent.max(0) as usize).product();
            let both = |byte: &u8| [(byte << 4) as i8 >> 4, *byte as i8 >> 4].map(f32::from);
            let mut values: Vec<f32> = data.iter().flat_map(both).collect();
            // An odd number of elements leaves half a byte.
            values.truncate(values.len() - usize::from(values.len() == elements + 1));
            values
        }
        Kind::Other(number) => return Err(format!("elements of the schema's type {number} are not supported")),
    })
}

/// All values of a tensor that stores those that are not zero. `shape` is not empty, and has as many elements as were checked.
fn dense(places: &Sparsity, shape: &[usize], stored: &[f32]) -> Result<Vec<f32>, String> {
    let size = |number: i32| usize::try_from(number).map_err(|_| format!("the number {number} in its sparsity"));
    let sizes = |list: &[i32]| list.iter().map(|&number| size(number)).collect::<Result<Vec<usize>, _>>();
    let (order, blocked, levels) = (sizes(&places.order)?, sizes(&places.blocked)?, &places.levels);
    let rank = shape.len();
    if order.len() != levels.len() || order.len() != rank + blocked.len() || blocked.len() > rank {
        return Err(format!("{} levels of its sparsity for {rank} dimensions", levels.len()));
    }
    // Each level is a dimension, divided by its block, or the inside of a block.
    let (mut extents, mut block) = (shape.to_vec(), vec![1; rank]);
    for (k, &axis) in blocked.iter().enumerate() {
        let level = order.iter().position(|&level| level == rank + k).ok_or("a block without a level")?;
        let Level::Dense(extent) = levels[level] else {
            return Err("a block whose elements are not all stored".to_owned());
        };
        let extent = size(extent)?;
        let whole = shape.get(axis).filter(|&&whole| extent > 0 && whole % extent == 0 && block[axis] == 1);
        let whole = whole.ok_or_else(|| format!("blocks of {extent} along axis {axis} of {shape:?}"))?;
        (block[axis], extents[axis]) = (extent, whole / extent);
        extents.push(extent);
    }
    // The place in the list of a level, and the place of its first element in the tensor.
    let mut nodes = vec![(0usize, 0usize)];
    let mut seen = vec![false; order.len()];
    for (&dimension, level) in order.iter().zip(levels) {
        let extent = *extents.get(dimension).ok_or_else(|| format!("dimension {dimension} in its sparsity"))?;
        if std::mem::replace(&mut seen[dimension], true) {
            return Err(format!("dimension {dimension} occurs twice in its sparsity"));
        }
        let axis = if dimension < rank { dimension } else { blocked[dimension - rank] };
        let inner: usize = shape[axis + 1..].iter().product();
        let step = if dimension < rank { inner * block[axis] } else { inner };
        let mut next = Vec::new();
        match level {
            &Level::Dense(whole) => {
                if size(whole)? != extent {
                    return Err(format!("a level of {whole} for {extent}"));
                }
                next.extend(
                    nodes.iter().flat_map(|&(at, from)| (0..extent).map(move |k| (at * extent + k, from + k * step))),
                );
            }
            Level::Sparse(segments, indices) => {
                for &(at, from) in &nodes {
                    let range = segments.get(at).zip(segments.get(at + 1)).filter(|(start, end)| start <= end);
                    let (&start, &end) = range.ok_or("a segment of its sparsity is missing")?;
                    let own = indices.get(start..end).ok_or("a segment of its sparsity is beyond its indices")?;
                    if own.last().is_some_and(|&last| last >= extent) || !own.windows(2).all(|pair| pair[0] < pair[1]) {
                        return Err(format!("indices of its sparsity are not in order below {extent}"));
                    }
                    next.extend(own.iter().enumerate().map(|(k, &index)| (start + k, from + index * step)));
                }
            }
        }
        nodes = next;
    }
    let mut values = vec![0.0; shape.iter().product()];
    for (at, place) in nodes {
        values[place] = *stored.get(at).ok_or_else(|| format!("value {at} of {} that are stored", stored.len()))?;
    }
    Ok(values)
}
