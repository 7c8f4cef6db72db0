// SPDX-License-Identifier: MIT OR Apache-2.0

//! Comparisons, whose results are 0 and 1, and choices by them, which are products.

use super::at::At;
use crate::ir::{Binary, Graph, Op, TensorId, Unary};

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
}

impl Comparison {
    /// The same with the operands exchanged.
    fn exchanged(self) -> Self {
        match self {
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Equal => Self::Equal,
        }
    }
}

/// The constant of one element.
fn single(graph: &Graph, id: TensorId) -> Option<f32> {
    match graph.constant(id).map(|values| &values[..]) {
        Some(&[value]) => Some(value),
        _ => None,
    }
}

/// 1 where a comparison is true, and else 0.
pub(super) fn compare(to: &mut At<'_>, comparison: Comparison, a: TensorId, b: TensorId) -> Result<TensorId, String> {
    let (x, limit, comparison) = match (single(to.graph, a), single(to.graph, b)) {
        (_, Some(limit)) => (a, limit, comparison),
        (Some(limit), _) => (b, limit, comparison.exchanged()),
        _ => (to.emit(Op::Binary(Binary::Sub), &[a, b])?, 0.0, comparison),
    };
    let mut sides = Vec::new();
    if !matches!(comparison, Comparison::Less | Comparison::GreaterOrEqual) {
        sides.push(to.emit(Op::Unary(Unary::Step(limit)), &[x])?);
    }
    if !matches!(comparison, Comparison::Greater | Comparison::LessOrEqual) {
        let negative = to.emit(Op::Unary(Unary::Neg), &[x])?;
        sides.push(to.emit(Op::Unary(Unary::Step(-limit)), &[negative])?);
    }
    let side = match sides[..] {
        [above, below] => to.emit(Op::Binary(Binary::Add), &[above, below])?,
        _ => sides[0],
    };
    if matches!(comparison, Comparison::Greater | Comparison::Less) {
        Ok(side)
    } else {
        inverse(to, side)
    }
}

/// 1 for positive values, -1 for negative ones, and 0.
pub(super) fn sign(to: &mut At<'_>, x: TensorId) -> Result<TensorId, String> {
    let negative = to.emit(Op::Unary(Unary::Neg), &[x])?;
    let [above, below] = [x, negative].map(|id| to.emit(Op::Unary(Unary::Step(0.0)), &[id]));
    to.emit(Op::Binary(Binary::Sub), &[above?, below?])
}

/// 1 - x
pub(super) fn inverse(to: &mut At<'_>, x: TensorId) -> Result<TensorId, String> {
    let one = to.constant(&[], vec![1.0])?;
    to.emit(Op::Binary(Binary::Sub), &[one, x])
}

/// A choice by a condition that is 0 or 1: condition * a + (1 - condition) * b.
pub(super) fn select(to: &mut At<'_>, condition: TensorId, a: TensorId, b: TensorId) -> Result<TensorId, String> {
    for (id, other, chosen) in [(a, b, true), (b, a, false)] {
        let Some(values) = to.graph.constant(id) else { continue };
        // The elements of a mask are added, and those of the other tensor are finite.
        if let (&[f32::NEG_INFINITY], Some(conditions)) = (&values[..], to.graph.constant(condition)) {
            let mask = |&condition: &f32| if (condition != 0.0) == chosen { f32::NEG_INFINITY } else { 0.0 };
            let (mask, shape) = (conditions.iter().map(mask).collect::<Vec<_>>(), to.graph.shape(condition).to_vec());
            let mask = to.constant(&shape, mask)?;
            return to.emit(Op::Binary(Binary::Add), &[other, mask]);
        }
        if values.iter().any(|value| !value.is_finite()) {
            return Err("it chooses an infinite constant".to_owned());
        }
    }
    let zero =
        |graph: &Graph, id| graph.constant(id).is_some_and(|values| values.iter().all(|&value: &f32| value == 0.0));
    if zero(to.graph, a) && divides_by_what_is_zero(to.graph, condition, b) {
        return Ok(b);
    }
    if let (Some(first), Some(second)) = (single(to.graph, a), single(to.graph, b)) {
        let difference = to.constant(&[], vec![first - second])?;
        let y = to.emit(Op::Binary(Binary::Mul), &[condition, difference])?;
        return to.emit(Op::Binary(Binary::Add), &[y, b]);
    }
    let first = to.emit(Op::Binary(Binary::Mul), &[condition, a])?;
    if zero(to.graph, b) {
        return Ok(first);
    }
    let inverse = inverse(to, condition)?;
    let second = to.emit(Op::Binary(Binary::Mul), &[inverse, b])?;
    if zero(to.graph, a) {
        return Ok(second);
    }
    to.emit(Op::Binary(Binary::Add), &[first, second])
}

/// Whether a condition says that the divisor of a quotient is 0. NVDLA divides only where no divisor is 0.
fn divides_by_what_is_zero(graph: &Graph, condition: TensorId, quotient: TensorId) -> bool {
    let inputs = |id: TensorId, op: Op| {
        let node = graph.node(graph.producer(id)?);
        (node.op == op).then_some(&node.inputs)
    };
    // The condition is 1 - (step(divisor) + step(-divisor)).
    let compared = || {
        let sides = inputs(condition, Op::Binary(Binary::Sub))?[1];
        let above = inputs(sides, Op::Binary(Binary::Add))?[0];
        Some(inputs(above, Op::Unary(Unary::Step(0.0)))?[0])
    };
    inputs(quotient, Op::Binary(Binary::Div)).is_some_and(|inputs| compared() == Some(inputs[1]))
}
