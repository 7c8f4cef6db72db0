// SPDX-License-Identifier: MIT OR Apache-2.0

//! Recognises decomposed functions. Exporters write an activation that the operator set lacks as arithmetic: SiLU as x *
//! sigmoid(x), GELU as x * (erf(x / sqrt(2)) + 1) / 2 in several orders. An expression of one tensor and constants is recognised
//! by its values: if they equal those of a known function at all samples, the expression is replaced by that function.

use super::pass::Pass;
use crate::ir::{Binary, Op, TensorId, Unary};

/// The greatest number of nodes of an expression.
const MAX_NODES: usize = 10;

/// The sample points at which expressions are compared: dense where activations bend, and sparse where they saturate.
fn samples() -> impl Iterator<Item = f32> {
    (-160..=160).map(|k| k as f32 * 0.061).chain([-1000.0, -100.0, -30.0, -15.0, 15.0, 30.0, 80.0])
}

/// An expression of one tensor.
enum Expression {
    Tensor,
    Constant(f32),
    Unary(Unary, Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
}

impl Expression {
    fn at(&self, x: f32) -> f32 {
        match self {
            Self::Tensor => x,
            Self::Constant(value) => *value,
            Self::Unary(unary, of) => unary.apply(of.at(x)),
            Self::Binary(op, a, b) => {
                let (a, b) = (a.at(x), b.at(x));
                match op {
                    Binary::Add => a + b,
                    Binary::Sub => a - b,
                    Binary::Mul => a * b,
                    Binary::Div => a / b,
                    Binary::Max => a.max(b),
                    Binary::Min => a.min(b),
                    Binary::Pow => a.powf(b),
                }
            }
        }
    }
}

impl Expression {
    /// Adds points around each argument at which a comparison changes; false if that is not known.
    fn changes(&self, points: &mut Vec<f32>) -> bool {
        match self {
            Self::Tensor | Self::Constant(_) => true,
            Self::Unary(Unary::Step(at) | Unary::Threshold(at), of) => {
                let at = match of.as_ref() {
                    Self::Tensor => *at,
                    Self::Unary(Unary::Neg, of) if matches!(**of, Self::Tensor) => -at,
                    _ => return false,
                };
                let near = at.abs().max(1.0) * 1e-3;
                points.extend([at - near, at, at + near, -2.0 * at, 2.0 * at]);
                true
            }
            Self::Unary(_, of) => of.changes(points),
            Self::Binary(_, a, b) => a.changes(points) && b.changes(points),
        }
    }
}

impl Pass<'_> {
    /// The expression that computes a tensor from `of`; `None` if it depends on other tensors too, or is too large.
    fn expression(&self, id: TensorId, of: TensorId, budget: &mut usize) -> Option<Expression> {
        if id == of {
            return Some(Expression::Tensor);
        }
        if let Some(value) = self.scalar(id) {
            return Some(Expression::Constant(value));
        }
        *budget = budget.checked_sub(1)?;
        let node = &self.graph.nodes[self.origin(id)?];
        match node.op {
            Op::Unary(unary) => {
                let of = self.expression(node.inputs[0], of, budget)?;
                Some(Expression::Unary(unary, of.into()))
            }
            Op::Binary(op) => {
                let a = self.expression(node.inputs[0], of, budget)?;
                Some(Expression::Binary(op, a.into(), self.expression(node.inputs[1], of, budget)?.into()))
            }
            _ => None,
        }
    }

    /// The tensors that an expression may depend on: those from which only unary and binary nodes lead to the tensor, the
    /// farthest last.
    fn sources(&self, id: TensorId, depth: usize, found: &mut Vec<TensorId>) {
        if depth == 0 || self.scalar(id).is_some() {
            return;
        }
        let Some(node) = self.producer[id.0].map(|k| &self.graph.nodes[k]) else { return };
        if !matches!(node.op, Op::Unary(_) | Op::Binary(_)) {
            return;
        }
        for &input in &node.inputs {
            if self.graph.constant(input).is_none() && !found.contains(&input) && found.len() < 2 * MAX_NODES {
                found.push(input);
                if self.graph.tensor(input).quantization.is_none() {
                    self.sources(input, depth - 1, found);
                }
            }
        }
    }

    pub(super) fn function(&mut self, k: usize) -> bool {
        let (op, inputs) = (&self.graph.nodes[k].op, self.inputs(k));
        // Two consecutive limits.
        if let Op::Unary(outer) = op {
            let Some((low, high)) = limits(*outer) else { return false };
            if let (Unary::Clip(..), true) = (*outer, low == 0.0 && high == f32::INFINITY) {
                return self.replace(k, Op::Unary(Unary::Relu), &[inputs[0]]);
            }
            let inner = self.origin(inputs[0]).map(|k| &self.graph.nodes[k]);
            let Some((Op::Unary(unary), x)) = inner.map(|node| (&node.op, node.inputs[0])) else { return false };
            let Some((inner_low, inner_high)) = limits(*unary) else { return false };
            let clip = Unary::Clip(inner_low.max(low).min(high), inner_high.min(high).max(low));
            return self.replace(k, Op::Unary(clip), &[x]);
        }
        if !matches!(op, Op::Binary(_)) {
            return false;
        }
        if *op == Op::Binary(Binary::Mul) {
            // x where it is above a limit, else 0.
            for (step, x) in [(inputs[0], inputs[1]), (inputs[1], inputs[0])] {
                let of = self.origin(step).map(|k| &self.graph.nodes[k]);
                if let Some((Op::Unary(Unary::Step(at)), true)) = of.map(|node| (&node.op, node.inputs[0] == x)) {
                    let threshold = Op::Unary(Unary::Threshold(*at));
                    return self.replace(k, threshold, &[x]);
                }
            }
        }
        let mut sources = Vec::new();
        self.sources(self.output(k), MAX_NODES, &mut sources);
        // The farthest tensor is tried first, because the longest expression is the whole function.
        for &x in sources.iter().rev() {
            if self.graph.shape(x) != self.graph.shape(self.output(k)) {
                continue;
            }
            let node = &self.graph.nodes[k];
            let Op::Binary(op) = node.op else { return false };
            let mut budget = MAX_NODES;
            let side = |id, budget: &mut usize| self.expression(id, x, budget);
            let (Some(a), Some(b)) = (side(node.inputs[0], &mut budget), side(node.inputs[1], &mut budget)) else {
                continue;
            };
            // One node with a constant is already as simple as a function of it.
            let plain = |e: &Expression| matches!(e, Expression::Tensor | Expression::Constant(_));
            if plain(&a) && plain(&b) {
                continue;
            }
            let expression = Expression::Binary(op, a.into(), b.into());
            let mut points: Vec<f32> = samples().collect();
            if !expression.changes(&mut points) {
                continue;
            }
            if let Some(unary) = recognise(&|x| expression.at(x), &points) {
                return self.replace(k, Op::Unary(unary), &[x]);
            }
        }
        false
    }
}

/// The limits of a function that only limits its argument.
fn limits(unary: Unary) -> Option<(f32, f32)> {
    match unary {
        Unary::Relu => Some((0.0, f32::INFINITY)),
        Unary::Clip(low, high) => Some((low, high)),
        _ => None,
    }
}

/// The function with these values at some points.
fn recognise(f: &dyn Fn(f32) -> f32, points: &[f32]) -> Option<Unary> {
    let (zero, slope) = (f(0.0), f(0.25) - f(-0.25));
    let end = |value: f32| if value.abs() == 1000.0 { value * f32::INFINITY } else { value };
    let candidates = [
        Unary::Silu,
        Unary::HardSwish,
        Unary::Gelu,
        Unary::GeluTanh,
        Unary::Mish,
        Unary::Softplus,
        Unary::Sigmoid,
        Unary::Tanh,
        Unary::Relu,
        Unary::Abs,
        Unary::Softsign,
        Unary::HardSigmoid { alpha: slope * 2.0, beta: zero },
        Unary::LeakyRelu(-f(-1.0)),
        Unary::Elu(-f(-30.0)),
        Unary::Clip(end(f(-1000.0)), end(f(1000.0))),
    ];
    // Sums of large and small numbers have rounding errors; different functions differ by far more.
    // Any number would be near an infinity.
    let close = |a: f32, b: f32| a == b || b.is_finite() && (a - b).abs() <= 4e-6 * (1.0 + b.abs());
    candidates.into_iter().find(|unary| points.iter().all(|&x| close(f(x), unary.apply(x))))
}
