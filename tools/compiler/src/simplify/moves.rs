// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rules for operators that only move elements or rename dimensions. Two of them are merged, and arithmetic is moved before them,
//! so that it can be folded into its convolution.

use super::pass::Pass;
use crate::ir::{BlockOrder, Op, TensorId};

/// The most elements of a tensor for which a permutation is examined, so that each index is exact as f32.
const MAX_INDICES: usize = 1 << 24;

/// The index of each element, with which the source of each moved element is found; `None` if there are too many.
pub(super) fn indices(count: usize) -> Option<Vec<f32>> {
    (count <= MAX_INDICES).then(|| (0..count).map(|at| at as f32).collect())
}

/// Whether two shapes differ only in dimensions of 1.
pub(super) fn same_extents(a: &[usize], b: &[usize]) -> bool {
    let extents = |shape: &'_ [usize]| shape.iter().copied().filter(|&extent| extent != 1).collect::<Vec<_>>();
    extents(a) == extents(b)
}

impl Pass<'_> {
    /// Merges two reshapes or two transpositions, and replaces transpositions that only move dimensions of 1.
    pub(super) fn merge_moves(&mut self, k: usize) -> bool {
        let (node, x) = (&self.graph.nodes[k], self.inputs(k)[0]);
        let origin = self.origin(x).map(|k| &self.graph.nodes[k]);
        match (&node.op, origin.map(|origin| (&origin.op, origin.inputs[0]))) {
            (Op::Reshape { shape }, Some((Op::Reshape { .. }, from))) => {
                let shape = shape.clone();
                self.replace(k, Op::Reshape { shape }, &[from])
            }
            (Op::Transpose { perm: outer }, Some((Op::Transpose { perm: inner }, from))) => {
                let perm = outer.iter().map(|&axis| inner[axis]).collect();
                self.replace(k, Op::Transpose { perm }, &[from])
            }
            (Op::Transpose { perm }, _) => {
                let extents = self.graph.shape(x);
                let moved: Vec<usize> = perm.iter().copied().filter(|&axis| extents[axis] != 1).collect();
                if !moved.is_sorted() {
                    return false;
                }
                let shape = self.graph.shape(self.output(k)).to_vec();
                self.replace(k, Op::Reshape { shape }, &[x])
            }
            _ => false,
        }
    }

    /// A constant operand in the shape before a reshape or transposition; `None` if it has no such shape.
    fn operand_before(
        &mut self,
        moves: &Op,
        constant: TensorId,
        before: &[usize],
        after: &[usize],
    ) -> Option<TensorId> {
        let values = self.graph.constant(constant)?.clone();
        if values.len() == 1 {
            return Some(constant);
        }
        let shape = self.graph.shape(constant).to_vec();
        let rank = after.len();
        let aligned = [vec![1; rank.checked_sub(shape.len())?], shape].concat();
        match moves {
            Op::Transpose { perm } => {
                let mut inverse = vec![0; rank];
                perm.iter().enumerate().for_each(|(k, &axis)| inverse[axis] = k);
                let op = Op::Transpose { perm: inverse.clone() };
                let to: Vec<usize> = inverse.iter().map(|&axis| aligned[axis]).collect();
                let turned = crate::float::apply(&op, &[(&aligned, &values)], &to);
                self.constant(constant, &to, turned)
            }
            // Only dimensions of 1 are added or removed; the others keep their order.
            Op::Reshape { .. } => {
                if !same_extents(before, after) {
                    return None;
                }
                let axes = |shape: &[usize]| (0..shape.len()).filter(|&axis| shape[axis] != 1).collect::<Vec<_>>();
                let (from, to) = (axes(before), axes(after));
                let mut own = vec![1; before.len()];
                from.iter().zip(&to).for_each(|(&from, &to)| own[from] = aligned[to]);
                self.constant(constant, &own, values)
            }
            _ => None,
        }
    }

    /// f(reshape(x)) becomes reshape(f(x)), for arithmetic with constants. Softmax moves too if its
    /// axis is one before the move.
    pub(super) fn sink_moves(&mut self, k: usize) -> bool {
        let inner = match self.graph.nodes[k].op {
            Op::Unary(_) | Op::Softmax { .. } => 0,
            Op::Binary(_) => {
                let constant = |at: usize| self.graph.constant(self.inputs(k)[at]).is_some();
                if constant(1) {
                    0
                } else if constant(0) {
                    1
                } else {
                    return false;
                }
            }
            _ => return false,
        };
        let (y, moved) = (self.output(k), self.inputs(k)[inner]);
        let Some(m) = self.only_origin(moved) else { return false };
        let moves = self.graph.nodes[m].op.clone();
        if !matches!(moves, Op::Reshape { .. } | Op::Transpose { .. }) || self.graph.shape(moved) != self.graph.shape(y)
        {
            return false;
        }
        let x = self.inputs(m)[0];
        let before = self.graph.shape(x).to_vec();
        let after = self.graph.shape(y).to_vec();
        let mut inputs = self.inputs(k).to_vec();
        if inputs.len() == 2 {
            let Some(operand) = self.operand_before(&moves, inputs[1 - inner], &before, &after) else { return false };
            inputs[1 - inner] = operand;
        }
        inputs[inner] = x;
        let op = match (&self.graph.nodes[k].op, &moves) {
            (&Op::Softmax { axis }, Op::Transpose { perm }) => Op::Softmax { axis: perm[axis] },
            (&Op::Softmax { axis }, _) => {
                if same_extents(&before, &after) {
                    return false;
                }
                // The reshape keeps an axis if the numbers of elements before and behind the axis stay the same.
                let place = |shape: &[usize], axis: usize| (shape[..axis].iter().product::<usize>(), shape[axis]);
                let wanted = place(&after, axis);
                let Some(axis) = (0..before.len()).find(|&axis| place(&before, axis) == wanted) else { return false };
                Op::Softmax { axis }
            }
            (op, _) => op.clone(),
        };
        let shapes: Vec<_> = inputs.iter().map(|&id| self.graph.shape(id)).collect();
        if crate::ir::infer::infer(&op, &shapes).as_deref() != Ok(&before) {
            return false;
        }
        // The two nodes are swapped; the tensor between them is now the output of the arithmetic.
        self.graph.tensors[moved.0].shape = before;
        self.graph.tensors[moved.0].name = format!("{}'", self.graph.tensor(y).name);
        for &id in &inputs {
            self.readers[id.0] += 1;
        }
        let name = self.graph.nodes[k].name.clone();
        let old = std::mem::replace(&mut self.graph.nodes[m].inputs, inputs);
        let old_operands: Vec<_> = self.inputs(k).iter().copied().filter(|&id| id != moved).collect();
        self.graph.nodes[m].op = op;
        self.graph.nodes[k].name = std::mem::replace(&mut self.graph.nodes[m].name, name);
        self.graph.nodes[k].op = moves;
        self.graph.nodes[k].inputs = vec![moved];
        old.into_iter().chain(old_operands).for_each(|id| self.release(id));
        true
    }

    /// Reshape, Transpose, Reshape that together permute channels or move blocks between channels and pixels.
    pub(super) fn permutation(&mut self, k: usize) -> bool {
        let chain = |k: usize| {
            let middle = self.origin(self.inputs(k)[0])?;
            let first = self.origin(self.inputs(middle)[0])?;
            let ops = [first, middle, k].map(|k| &self.graph.nodes[k].op);
            matches!(ops, [Op::Reshape { .. }, Op::Transpose { .. }, Op::Reshape { .. }]).then_some([first, middle])
        };
        let Some([first, middle]) = chain(k) else { return false };
        let (x, y) = (self.inputs(first)[0], self.output(k));
        let (&[n, c, h, w], &[_, channels, height, width]) = (self.graph.shape(x), self.graph.shape(y)) else {
            return false;
        };
        if n != self.graph.shape(y)[0] {
            return false;
        }
        let Some(indices) = indices(n * c * h * w) else { return false };
        let (inner, op) = (self.graph.shape(self.inputs(middle)[0]), &self.graph.nodes[middle].op);
        let moved = crate::float::apply(op, &[(inner, &indices)], self.graph.shape(self.output(middle)));
        let mut candidates = Vec::new();
        if (h, w) == (height, width) {
            candidates.push(Op::ChannelPermutation {
                from: (0..channels).map(|k| moved[k * h * w] as usize / (h * w)).collect(),
            });
        }
        if height > h && height % h == 0 {
            candidates
                .extend([BlockOrder::Dcr, BlockOrder::Crd].map(|order| Op::DepthToSpace { block: height / h, order }));
        }
        if height < h && h % height == 0 {
            candidates.push(Op::SpaceToDepth { block: h / height });
        }
        let shape = self.graph.shape(y).to_vec();
        let same = |op: &Op| {
            let fits = crate::ir::infer::infer(op, &[&[n, c, h, w]]).as_ref() == Ok(&shape);
            fits && crate::float::apply(op, &[(&[n, c, h, w], &indices)], &shape) == moved
        };
        match candidates.into_iter().find(same) {
            Some(op) => self.replace(k, op, &[x]),
            None => false,
        }
    }
}
