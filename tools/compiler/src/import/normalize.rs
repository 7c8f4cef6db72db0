// SPDX-License-Identifier: MIT OR Apache-2.0

//! Normalisations: differences from a mean, times the reciprocal of a deviation. Both are computed as the network runs, by poolings and
//! convolutions with equal weights, and the reciprocal is a lookup table.

use super::at::At;
use super::reduce::{reduce, Reduction};
use crate::ir::{Binary, Convolution, Op, Padding, TensorId, Unary};

/// Added to the square of a norm or a deviation for which the operator has no epsilon.
pub(super) const TINY: f32 = 1e-12;

/// Over what a mean is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Over<'a> {
    /// Over dimensions.
    Axes(&'a [usize]),
    /// Over lines, columns and the channels of a group, of `[N, C, H, W]` with so many groups.
    Groups(usize),
}

/// The mean, in a shape that is broadcast to that of the tensor.
fn mean(to: &mut At<'_>, x: TensorId, over: Over<'_>) -> Result<TensorId, String> {
    let (groups, shape) = match over {
        Over::Axes(axes) => return reduce(to, x, axes, Reduction::Mean),
        Over::Groups(groups) => (groups, to.graph.shape(x).to_vec()),
    };
    let planes: Vec<usize> = (2..shape.len()).collect();
    let channels = shape[1];
    let each = channels / groups.max(1);
    let mut y = reduce(to, x, &planes, Reduction::Mean)?;
    if each < 2 {
        return Ok(y);
    }
    let small = to.graph.shape(y).to_vec();
    if small.len() != 4 {
        y = to.emit(Op::Reshape { shape: vec![shape[0], channels, 1, 1] }, &[y])?;
    }
    let weights = to.constant(&[channels, each, 1, 1], vec![1.0 / each as f32; channels * each])?;
    let op = Convolution { group: groups, ..Convolution::per_channel(channels, Padding::default()) };
    y = to.emit(Op::Convolution(op), &[y, weights])?;
    if small.len() != 4 {
        y = to.emit(Op::Reshape { shape: small }, &[y])?;
    }
    Ok(y)
}

/// A normalised tensor.
pub(super) struct Normalized {
    pub(super) y: TensorId,
    /// The mean, if it was subtracted.
    pub(super) mean: Option<TensorId>,
    /// 1 / sqrt(variance + epsilon)
    pub(super) inverse: TensorId,
}

/// (x - mean) / sqrt(variance + epsilon), or, if not `centred`, x / sqrt(mean of squares + epsilon).
pub(super) fn normalize(
    to: &mut At<'_>,
    x: TensorId,
    over: Over<'_>,
    centred: bool,
    epsilon: f32,
) -> Result<Normalized, String> {
    let centre = if centred { Some(mean(to, x, over)?) } else { None };
    let difference = match centre {
        Some(mean) => to.emit(Op::Binary(Binary::Sub), &[x, mean])?,
        None => x,
    };
    let squares = to.emit(Op::Binary(Binary::Mul), &[difference, difference])?;
    let variance = mean(to, squares, over)?;
    let epsilon = to.constant(&[], vec![epsilon.max(f32::MIN_POSITIVE)])?;
    let variance = to.emit(Op::Binary(Binary::Add), &[variance, epsilon])?;
    let inverse = to.emit(Op::Unary(Unary::Power(-0.5)), &[variance])?;
    let y = to.emit(Op::Binary(Binary::Mul), &[difference, inverse])?;
    Ok(Normalized { y, mean: centre, inverse })
}

/// A tensor divided by its norm along an axis. The sum of squares is their mean times their number.
pub(super) fn unit(to: &mut At<'_>, x: TensorId, axis: usize) -> Result<TensorId, String> {
    let count = to.graph.shape(x)[axis] as f32;
    let y = normalize(to, x, Over::Axes(&[axis]), false, TINY)?.y;
    let factor = to.constant(&[], vec![1.0 / count.sqrt()])?;
    scaled(to, y, Some(factor), None)
}

/// The result times a scale, plus a bias, each of which may be missing.
pub(super) fn scaled(
    to: &mut At<'_>,
    mut x: TensorId,
    scale: Option<TensorId>,
    bias: Option<TensorId>,
) -> Result<TensorId, String> {
    for (op, operand) in [(Binary::Mul, scale), (Binary::Add, bias)] {
        if let Some(operand) = operand {
            x = to.emit(Op::Binary(op), &[x, operand])?;
        }
    }
    Ok(x)
}
