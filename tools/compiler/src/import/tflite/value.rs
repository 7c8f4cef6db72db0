// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tensors of a TFLite file as tensors of the graph, and the order of their axes.

use crate::ir::TensorId;

/// A tensor of the file as a tensor of the graph.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) id: TensorId,
    /// Its shape in TFLite's order.
    pub(super) shape: Vec<usize>,
    /// Whether the graph's tensor has the axes `[N, C, ...]`, and not TFLite's `[N, ..., C]`. Tensors of fewer than three
    /// dimensions are the same in both orders.
    pub(super) first: bool,
}

/// What is known of a tensor of the file.
#[derive(Clone, Debug)]
pub(super) enum Known {
    Value(Value),
    /// Pixels that are divided into images: the whole image, the block, and the padding before and after each direction.
    Divided(Value, [usize; 2], [[usize; 2]; 2]),
    /// The output of an operator that cannot be read.
    Unknown,
}

/// The operands of an operator; an omitted one is `None`.
pub(super) struct Operands(pub(super) Vec<Option<Value>>);

impl Operands {
    /// An operand that must be given.
    pub(super) fn get(&self, k: usize) -> Result<&Value, String> {
        self.0.get(k).and_then(Option::as_ref).ok_or_else(|| format!("its input {k} is missing"))
    }

    /// An operand that may be omitted.
    pub(super) fn optional(&self, k: usize) -> Option<&Value> {
        self.0.get(k).and_then(Option::as_ref)
    }

    /// All operands, of which none may be omitted.
    pub(super) fn all(&self) -> Result<Vec<&Value>, String> {
        (0..self.0.len()).map(|k| self.get(k)).collect()
    }
}

/// The axes of `[N, ..., C]` in the order `[N, C, ...]`.
pub(super) fn first_axes(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

/// The axes of `[N, C, ...]` in the order `[N, ..., C]`.
pub(super) fn last_axes(rank: usize) -> Vec<usize> {
    [0].into_iter().chain(2..rank).chain([1]).collect()
}

/// Whether the elements of a shape have the same order with the channels first and last.
pub(super) fn same_in_both(shape: &[usize]) -> bool {
    shape.len() < 3 || shape[shape.len() - 1] == 1 || shape[1..shape.len() - 1].iter().all(|&extent| extent == 1)
}

/// A shape in the graph's order.
pub(super) fn in_order(shape: &[usize], first: bool) -> Vec<usize> {
    if first && shape.len() > 2 {
        first_axes(shape.len()).iter().map(|&axis| shape[axis]).collect()
    } else {
        shape.to_vec()
    }
}

/// An axis that counts from the end if it is negative.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    let whole = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    let index = usize::try_from(whole).ok().filter(|&axis| axis < rank);
    index.ok_or_else(|| format!("axis {axis} of {rank} dimensions"))
}

impl Value {
    /// The axis of the graph's tensor for an axis of TFLite's.
    pub(super) fn axis(&self, axis: usize) -> usize {
        let rank = self.shape.len();
        match axis {
            0 => 0,
            _ if !self.first || rank < 3 => axis,
            _ if axis == rank - 1 => 1,
            _ => axis + 1,
        }
    }

    /// One number per axis, from TFLite's order to that of the graph's tensor.
    pub(super) fn per_axis<T: Copy>(&self, list: &[T]) -> Vec<T> {
        if self.first && self.shape.len() > 2 {
            first_axes(list.len()).iter().map(|&axis| list[axis]).collect()
        } else {
            list.to_vec()
        }
    }
}

/// Sizes that must not be negative.
pub(super) fn sizes(list: &[i64]) -> Result<Vec<usize>, String> {
    list.iter().map(|&size| usize::try_from(size).map_err(|_| format!("the sizes {list:?}"))).collect()
}
