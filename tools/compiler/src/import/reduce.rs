// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reductions, as poolings over all of the reduced dimensions.

use super::at::At;
use crate::ir::{Binary, BlockOrder, Convolution, Graph, Op, Padding, Pool, PoolKind, TensorId, Unary};
use crate::target::LARGEST_KERNEL;

/// What the elements are reduced to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    Max,
    Min,
    Mean,
    Sum,
    SumSquare,
    L1,
    L2,
    LogSum,
    LogSumExp,
}

/// Reduces some dimensions of a tensor. They stay, with the size 1.
///
/// Where arithmetic and concatenations alone are between transpositions and the reduction, as TensorFlow's exporters write it, the
/// dimensions are those before the transpositions.
pub(super) fn reduce(
    to: &mut At<'_>,
    mut x: TensorId,
    reduced: &[usize],
    reduction: Reduction,
) -> Result<TensorId, String> {
    let Some(perm) = turned(to.graph, x) else { return straight(to, x, reduced, reduction) };
    let mut inverse = vec![0; perm.len()];
    perm.iter().enumerate().for_each(|(k, &axis)| inverse[axis] = k);
    x = to.emit(Op::Transpose { perm: inverse }, &[x])?;
    let mut before: Vec<usize> = reduced.iter().map(|&axis| perm[axis]).collect();
    before.sort_unstable();
    x = straight(to, x, &before, reduction)?;
    to.emit(Op::Transpose { perm }, &[x])
}

/// The transposition behind which a tensor is computed, by arithmetic and by concatenations of tensors that are transposed alike.
fn turned(graph: &Graph, x: TensorId) -> Option<Vec<usize>> {
    let (mut found, mut seen, mut left) = (None, vec![x], vec![x]);
    while let Some(x) = left.pop() {
        let node = graph.node(graph.producer(x)?);
        let varies = |id: &&TensorId| graph.constant(**id).is_none();
        let sources: Vec<TensorId> = match &node.op {
            Op::Transpose { perm } if found.as_ref().is_none_or(|found| found == perm) => {
                found = Some(perm.clone());
                continue;
            }
            Op::Unary(_) | Op::Pad { .. } | Op::Slice { .. } => vec![node.inputs[0]],
            Op::Binary(_) => {
                let same = |id: &&TensorId| varies(id) && graph.shape(**id) == graph.shape(x);
                vec![*node.inputs.iter().find(same)?]
            }
            Op::Concat { .. } => node.inputs.iter().filter(varies).copied().collect(),
            _ => return None,
        };
        for source in sources {
            if !seen.contains(&source) {
                seen.push(source);
                left.push(source);
            }
        }
    }
    found
}

/// Reduces some dimensions as they are.
fn straight(to: &mut At<'_>, mut x: TensorId, reduced: &[usize], reduction: Reduction) -> Result<TensorId, String> {
    let shape = to.graph.shape(x).to_vec();
    let count: usize = reduced.iter().map(|&axis| shape[axis]).product();
    let kind = match reduction {
        Reduction::Max | Reduction::Min => PoolKind::Max,
        _ => PoolKind::Average { count_include_pad: true },
    };
    let kept: Vec<usize> = (0..shape.len()).map(|axis| if reduced.contains(&axis) { 1 } else { shape[axis] }).collect();
    // exp of a difference from the greatest value is not too large for half precision.
    let greatest = match reduction {
        Reduction::LogSumExp if count > 1 => {
            let greatest = by_pooling(to, x, reduced, PoolKind::Max)?;
            Some(reshape(to, greatest, &kept)?)
        }
        _ => None,
    };
    x = match reduction {
        Reduction::LogSumExp => {
            if let Some(greatest) = greatest {
                x = to.emit(Op::Binary(Binary::Sub), &[x, greatest])?;
            }
            to.emit(Op::Unary(Unary::Exp), &[x])?
        }
        Reduction::Min => to.emit(Op::Unary(Unary::Neg), &[x])?,
        Reduction::L1 => to.emit(Op::Unary(Unary::Abs), &[x])?,
        Reduction::L2 | Reduction::SumSquare => to.emit(Op::Binary(Binary::Mul), &[x, x])?,
        _ => x,
    };
    if count > 1 {
        x = by_pooling(to, x, reduced, kind)?;
    }
    if count > 1 && !matches!(reduction, Reduction::Max | Reduction::Min | Reduction::Mean) {
        let factor = to.constant(&[], vec![count as f32])?;
        x = to.emit(Op::Binary(Binary::Mul), &[x, factor])?;
    }
    x = match reduction {
        Reduction::Min => to.emit(Op::Unary(Unary::Neg), &[x])?,
        Reduction::L2 => to.emit(Op::Unary(Unary::Sqrt), &[x])?,
        Reduction::LogSum | Reduction::LogSumExp => to.emit(Op::Unary(Unary::Log), &[x])?,
        _ => x,
    };
    x = reshape(to, x, &kept)?;
    match greatest {
        Some(greatest) => to.emit(Op::Binary(Binary::Add), &[x, greatest]),
        None => Ok(x),
    }
}

fn reshape(to: &mut At<'_>, x: TensorId, shape: &[usize]) -> Result<TensorId, String> {
    if to.graph.shape(x) == shape {
        return Ok(x);
    }
    to.emit(Op::Reshape { shape: shape.to_vec() }, &[x])
}

fn by_pooling(to: &mut At<'_>, mut x: TensorId, reduced: &[usize], kind: PoolKind) -> Result<TensorId, String> {
    let shape = to.graph.shape(x).to_vec();
    if let &[batch, channels, columns] = &shape[..] {
        // The last of three dimensions lies in columns.
        x = reshape(to, x, &[batch, channels, 1, columns])?;
        let reduced: Vec<usize> = reduced.iter().map(|&axis| if axis == 2 { 3 } else { axis }).collect();
        return by_pooling(to, x, &reduced, kind);
    }
    let pool = |kernel| Op::Pool(Pool::new(kind, kernel));
    if shape.len() == 4 && reduced.iter().all(|&axis| axis >= 2) {
        let extent = |axis: usize| if reduced.contains(&axis) { shape[axis] } else { 1 };
        return to.emit(pool([extent(2), extent(3)]), &[x]);
    }
    if shape.len() == 4 && shape[0] == 1 && reduced.contains(&1) && matches!(kind, PoolKind::Average { .. }) {
        return mean_of_channels(to, x, reduced);
    }
    if let (&[1, _, lines, columns], [1, planes @ ..], PoolKind::Max) = (&shape[..], reduced, kind) {
        let kernel = [(2, lines), (3, columns)].map(|(axis, size)| if planes.contains(&axis) { size } else { 1 });
        if kernel != [1, 1] {
            // The greatest of each plane, and the greatest of these.
            x = to.emit(pool(kernel), &[x])?;
        }
        return greatest_of_channels(to, x);
    }
    if let (&[_, _, lines, columns], [.., 2, 3], PoolKind::Max) = (&shape[..], reduced, kind) {
        if lines * columns > 1 {
            x = to.emit(pool([lines, columns]), &[x])?;
            return by_pooling(to, x, reduced, kind);
        }
    }
    // The reduced dimensions are moved to the end, as lines and columns.
    let kept: Vec<usize> = (0..shape.len()).filter(|axis| !reduced.contains(axis)).collect();
    let perm: Vec<usize> = kept.iter().chain(reduced).copied().collect();
    if !perm.is_sorted() {
        x = to.emit(Op::Transpose { perm }, &[x])?;
    }
    let outer: usize = kept.iter().map(|&axis| shape[axis]).product();
    let columns = if reduced.len() > 1 { reduced.last().map_or(1, |&axis| shape[axis]) } else { 1 };
    let lines: usize = reduced.iter().map(|&axis| shape[axis]).product::<usize>() / columns;
    x = reshape(to, x, &[1, outer, lines, columns])?;
    to.emit(pool([lines, columns]), &[x])
}

/// The greatest of the channels. Four of them become a block of two lines and two columns, which a pooling reduces, until one is left.
fn greatest_of_channels(to: &mut At<'_>, mut x: TensorId) -> Result<TensorId, String> {
    loop {
        let channels = to.graph.shape(x)[1];
        if channels == 1 {
            return Ok(x);
        }
        if !channels.is_multiple_of(4) {
            // The last one repeats.
            let from = (0..channels.next_multiple_of(4)).map(|k| k.min(channels - 1)).collect();
            x = to.emit(Op::ChannelPermutation { from }, &[x])?;
        }
        x = to.emit(Op::DepthToSpace { block: [2; 2], order: BlockOrder::Dcr }, &[x])?;
        x = to.emit(Op::Pool(Pool { stride: [2, 2], ..Pool::new(PoolKind::Max, [2, 2]) }), &[x])?;
    }
}

/// The mean over the channels, and over lines and columns if these are reduced too: a convolution with equal weights.
fn mean_of_channels(to: &mut At<'_>, mut x: TensorId, reduced: &[usize]) -> Result<TensorId, String> {
    let shape = to.graph.shape(x).to_vec();
    let mut kernel = [2, 3].map(|axis| if reduced.contains(&axis) { shape[axis] } else { 1 });
    // Kernels that the hardware has no size for would be computed in parts, whose sums are rounded.
    if kernel.iter().any(|&side| side > LARGEST_KERNEL) {
        let kind = PoolKind::Average { count_include_pad: true };
        x = to.emit(Op::Pool(Pool::new(kind, kernel)), &[x])?;
        kernel = [1, 1];
    }
    let count = shape[1] * kernel[0] * kernel[1];
    let weights = to.constant(&[1, shape[1], kernel[0], kernel[1]], vec![1.0 / count as f32; count])?;
    let (stride, dilation, padding) = ([1, 1], [1, 1], Padding::default());
    to.emit(Op::Convolution(Convolution { group: 1, kernel, stride, dilation, padding }), &[x, weights])
}
