// SPDX-License-Identifier: MIT OR Apache-2.0

//! Products of matrices that the network both computes, as in an attention.

use super::at::At;
use crate::ir::{Op, TensorId};

/// The most products of a node, as the heads of an attention.
const MOST: usize = 64;

/// The product of matrices `[…, M, K]` and `[…, K, N]`, of which either may have no leading dimensions, or only dimensions of 1.
pub(super) fn product(to: &mut At<'_>, a: TensorId, b: TensorId) -> Result<TensorId, String> {
    let [shape_a, shape_b] = [a, b].map(|id| to.graph.shape(id).to_vec());
    let refused = || format!("a matrix {shape_a:?} by a matrix {shape_b:?}, both computed by the network");
    let ([outer_a @ .., rows, inner], [outer_b @ .., same, columns]) = (&shape_a[..], &shape_b[..]) else {
        return Err(refused());
    };
    let [count_a, count_b] = [outer_a, outer_b].map(|outer| outer.iter().product::<usize>());
    let outer =
        if count_a < count_b || count_a == count_b && outer_a.len() < outer_b.len() { outer_b } else { outer_a };
    let count = count_a.max(count_b);
    let is_of = |own: &[usize], count: usize| count == 1 || own == outer;
    if inner != same || count > MOST || !is_of(outer_a, count_a) || !is_of(outer_b, count_b) {
        return Err(refused());
    }
    // The sums go over the channels. Pixels of `a` are rows, and those of `b` are columns.
    let turned = transposed(to, a)?;
    let a = to.emit(Op::Reshape { shape: vec![1, count_a * inner, 1, *rows] }, &[turned])?;
    let b = to.emit(Op::Reshape { shape: vec![1, count_b * inner, 1, *columns] }, &[b])?;
    let products = (0..count).map(|k| {
        let mut part = |id: TensorId, of: usize| {
            if of == 1 {
                return Ok(id);
            }
            let pixels = to.graph.shape(id)[3];
            let (starts, lengths) = (vec![0, k * inner, 0, 0], vec![1, *inner, 1, pixels]);
            to.emit(Op::Slice { starts, steps: vec![1; 4], lengths }, &[id])
        };
        let factors = [part(a, count_a)?, part(b, count_b)?];
        to.emit(Op::Product, &factors)
    });
    let products = products.collect::<Result<Vec<TensorId>, String>>()?;
    let y = if count == 1 { products[0] } else { to.emit(Op::Concat { axis: 1 }, &products)? };
    let shape = [outer, &[*columns, *rows]].concat();
    let y = to.emit(Op::Reshape { shape }, &[y])?;
    transposed(to, y)
}

/// A tensor whose last two dimensions are exchanged.
pub(super) fn transposed(to: &mut At<'_>, x: TensorId) -> Result<TensorId, String> {
    let rank = to.graph.shape(x).len();
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    to.emit(Op::Transpose { perm }, &[x])
}
