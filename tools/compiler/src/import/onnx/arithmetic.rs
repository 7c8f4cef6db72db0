// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators on elements, normalisation by constants, softmax.

use super::reader::{Node, Reader, TensorValue};
use super::value::types;
use crate::import::at::At;
use crate::import::choice::{compare, inverse, select, sign, Comparison};
use crate::ir::{Binary, Op, TensorId, Unary};

impl Reader {
    pub(super) fn arithmetic(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let operator = n.proto.op_type.as_str();
        let unary = match operator {
            "Relu" => Unary::Relu,
            "LeakyRelu" => Unary::LeakyRelu(n.float("alpha", 0.01)),
            "Sigmoid" => Unary::Sigmoid,
            "Tanh" => Unary::Tanh,
            "HardSigmoid" => Unary::HardSigmoid { alpha: n.float("alpha", 0.2), beta: n.float("beta", 0.5) },
            "HardSwish" => Unary::HardSwish,
            "Elu" => Unary::Elu(n.float("alpha", 1.0)),
            "Selu" => {
                // The defaults before operator set 6 have fewer digits.
                let (alpha, gamma) = if n.opset < 6 { (1.6732, 1.0507) } else { (1.673_263_2, 1.050_701) };
                Unary::Selu { alpha: n.float("alpha", alpha), gamma: n.float("gamma", gamma) }
            }
            "Gelu" if n.text("approximate", "none") == "tanh" => Unary::GeluTanh,
            "Gelu" => Unary::Gelu,
            "Mish" => Unary::Mish,
            "Softplus" => Unary::Softplus,
            "Softsign" => Unary::Softsign,
            "Exp" => Unary::Exp,
            "Log" => Unary::Log,
            "Sqrt" => Unary::Sqrt,
            "Reciprocal" => Unary::Reciprocal,
            "Erf" => Unary::Erf,
            "Neg" => Unary::Neg,
            "Abs" => Unary::Abs,
            "Sin" => Unary::Sin,
            "Cos" => Unary::Cos,
            "Acos" => Unary::Acos,
            "Acosh" => Unary::Acosh,
            "Asin" => Unary::Asin,
            "Asinh" => Unary::Asinh,
            "Atan" => Unary::Atan,
            "Atanh" => Unary::Atanh,
            "Cosh" => Unary::Cosh,
            "Sinh" => Unary::Sinh,
            "Floor" => Unary::Floor,
            "Ceil" => Unary::Ceil,
            "Round" => Unary::Round,
            "ThresholdedRelu" => Unary::Threshold(n.float("alpha", 1.0)),
            "Clip"
                if (1..3).any(
                    |k| matches!(inputs.get(k), Some(TensorValue::Real(id)) if self.graph.constant(*id).is_none()),
                ) =>
            {
                return self.computed_limits(n, inputs);
            }
            "Clip" => {
                let limit = |name: &str, k, default: f32| match n.attribute(name) {
                    Some(attribute) => Ok(attribute.f),
                    None => self.scalar(inputs, k, default),
                };
                Unary::Clip(limit("min", 1, f32::NEG_INFINITY)?, limit("max", 2, f32::INFINITY)?)
            }
            "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "Equal" => {
                let comparison = match n.proto.op_type.as_str() {
                    "Greater" => Comparison::Greater,
                    "GreaterOrEqual" => Comparison::GreaterOrEqual,
                    "Less" => Comparison::Less,
                    "LessOrEqual" => Comparison::LessOrEqual,
                    _ => Comparison::Equal,
                };
                let [a, b] = [self.real(n, inputs, 0)?, self.real(n, inputs, 1)?];
                return compare(&mut At { graph: &mut self.graph, node: &n.name }, comparison, a, b);
            }
            "Sign" => {
                let x = self.real(n, inputs, 0)?;
                return sign(&mut At { graph: &mut self.graph, node: &n.name }, x);
            }
            "Where" => {
                let [condition, a, b] = [0, 1, 2].map(|k| self.real(n, inputs, k));
                return select(&mut At { graph: &mut self.graph, node: &n.name }, condition?, a?, b?);
            }
            _ => return self.other_arithmetic(n, inputs),
        };
        let x = self.real(n, inputs, 0)?;
        self.emit(n, Op::Unary(unary), &[x])
    }

    fn other_arithmetic(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let x = self.real(n, inputs, 0)?;
        let operator = n.proto.op_type.as_str();
        let binary = match operator {
            "Add" | "Sum" | "Mean" => Binary::Add,
            "Sub" => Binary::Sub,
            "Mul" | "And" => Binary::Mul,
            "Div" => Binary::Div,
            "Max" | "Or" => Binary::Max,
            "Min" => Binary::Min,
            "Pow" => Binary::Pow,
            "Not" => return inverse(&mut At { graph: &mut self.graph, node: &n.name }, x),
            "Identity" => return Ok(x),
            "Dropout" => {
                if let Some(TensorValue::Integers(training)) = inputs.get(2) {
                    if training.values.iter().any(|&value| value != 0) {
                        return Err("training_mode is set: this model is for training".to_owned());
                    }
                }
                return Ok(x);
            }
            "Cast" if types::is_real(n.target()) => return Ok(x),
            "Cast" => return Err(format!("activations are cast to integers of type {}", n.target())),
            "CastLike" if matches!(inputs.get(1), Some(TensorValue::Real(_))) => return Ok(x),
            "Celu" | "Swish" | "QuickGelu" => return self.scaled(n, x),
            "PRelu" => return self.prelu(n, x, inputs),
            "BatchNormalization" => return self.batch_normalization(n, x, inputs),
            "LRN" => {
                let size = usize::try_from(n.int("size", 0)).map_err(|_| "its size is negative")?;
                let (alpha, beta, bias) = (n.float("alpha", 1e-4), n.float("beta", 0.75), n.float("bias", 1.0));
                return self.emit(n, Op::Lrn { size, alpha, beta, bias }, &[x]);
            }
            "Softmax" | "LogSoftmax" => return self.softmax(n, x),
            "Affine" | "Crop" | "ImageScaler" | "ParametricSoftplus" | "Scale" | "ScaledTanh" => {
                return self.experimental(n, x)
            }
            "Scaler" => return self.scaler(n, x),
            "Shrink" => return self.shrink(n, x),
            "SwiGLU" => {
                let (gate, value) = (self.scaled(n, x)?, self.real(n, inputs, 1)?);
                return self.emit(n, Op::Binary(Binary::Mul), &[gate, value]);
            }
            _ => return Err("it is supported for constants only".to_owned()),
        };
        let mut sum = x;
        for k in 1..inputs.len() {
            let other = self.real(n, inputs, k)?;
            sum = self.emit(n, Op::Binary(binary), &[sum, other])?;
        }
        if operator == "Mean" && inputs.len() > 1 {
            let factor = self.emit_constant(n, &[], vec![1.0 / inputs.len() as f32])?;
            sum = self.emit(n, Op::Binary(Binary::Mul), &[sum, factor])?;
        }
        Ok(sum)
    }

    /// (x - offset) * scale, per feature: what machine learning libraries write for the standardisation of their inputs.
    fn scaler(&mut self, n: &Node<'_>, x: TensorId) -> Result<TensorId, String> {
        let features = self.graph.shape(x).get(1).copied().unwrap_or(0);
        let list = |name: &str| match n.attribute(name).map(|attribute| &attribute.floats[..]) {
            Some(&[one]) => Ok(vec![one; features]),
            Some(list) if list.len() == features => Ok(list.to_vec()),
            list => Err(format!("{} values of {name} for {features} features", list.map_or(0, <[f32]>::len))),
        };
        let (offset, scale) = (list("offset")?, list("scale")?);
        let shift = offset.iter().zip(&scale).map(|(offset, scale)| -offset * scale).collect();
        self.scale_and_shift(n, x, scale, shift)
    }

    /// x without the part between -lambd and lambd, and nearer to 0 by the bias.
    fn shrink(&mut self, n: &Node<'_>, x: TensorId) -> Result<TensorId, String> {
        let (lambd, bias) = (n.float("lambd", 0.5), n.float("bias", 0.0));
        if lambd < 0.0 {
            return Err(format!("a lambd of {lambd}"));
        }
        if bias.to_bits() == lambd.to_bits() {
            let inner = self.emit(n, Op::Unary(Unary::Clip(-lambd, lambd)), &[x])?;
            return self.emit(n, Op::Binary(Binary::Sub), &[x, inner]);
        }
        if bias != 0.0 {
            return Err(format!("a bias of {bias}, which is neither 0 nor lambd, {lambd}"));
        }
        let above = self.emit(n, Op::Unary(Unary::Threshold(lambd)), &[x])?;
        let negated = self.emit(n, Op::Unary(Unary::Neg), &[x])?;
        let below = self.emit(n, Op::Unary(Unary::Threshold(lambd)), &[negated])?;
        self.emit(n, Op::Binary(Binary::Sub), &[above, below])
    }

    /// A Clip whose limits the network computes.
    fn computed_limits(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let mut x = self.real(n, inputs, 0)?;
        for (k, binary) in [(1, Binary::Max), (2, Binary::Min)] {
            if let Some(limit) = self.optional(n, inputs, k)? {
                x = self.emit(n, Op::Binary(binary), &[x, limit])?;
            }
        }
        Ok(x)
    }

    /// Functions of alpha * x, expressed by those without alpha.
    fn scaled(&mut self, n: &Node<'_>, x: TensorId) -> Result<TensorId, String> {
        let (alpha, celu) = (n.float("alpha", 1.0), n.proto.op_type == "Celu");
        if alpha == 1.0 {
            return self.emit(n, Op::Unary(if celu { Unary::Elu(1.0) } else { Unary::Silu }), &[x]);
        }
        // Celu: alpha * elu(x / alpha). Swish: silu(alpha * x) / alpha.
        let factor = if celu { 1.0 / alpha } else { alpha };
        let (before, after) =
            (self.emit_constant(n, &[], vec![factor])?, self.emit_constant(n, &[], vec![1.0 / factor])?);
        let x = self.emit(n, Op::Binary(Binary::Mul), &[x, before])?;
        let x = self.emit(n, Op::Unary(if celu { Unary::Elu(1.0) } else { Unary::Silu }), &[x])?;
        self.emit(n, Op::Binary(Binary::Mul), &[x, after])
    }

    fn prelu(&mut self, n: &Node<'_>, x: TensorId, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let slopes = self.real(n, inputs, 1)?;
        let (shape, from) = (self.graph.shape(slopes).to_vec(), self.graph.shape(x).to_vec());
        let constant = self.graph.constant(slopes).ok_or("its slopes are not constant")?;
        if let [slope] = constant[..] {
            return self.emit(n, Op::Unary(Unary::LeakyRelu(slope)), &[x]);
        }
        // Slopes per channel, with the shape [C, 1, 1], or [C] in models of old exporters.
        let channels = from.get(1).copied().unwrap_or(0);
        let per_channel = crate::ir::infer::broadcast(&shape, &from) == crate::ir::infer::Broadcast::Channel
            || constant.len() == channels && from.iter().product::<usize>() == channels;
        let old = n.opset < 7 || from.len() == 2 || from.last() != Some(&channels);
        if per_channel || shape == [channels] && old {
            let slopes = self.reshape(n, slopes, &[channels])?;
            return self.emit(n, Op::PRelu, &[x, slopes]);
        }
        let positive = self.emit(n, Op::Unary(Unary::Relu), &[x])?;
        let negative = self.emit(n, Op::Unary(Unary::Clip(f32::NEG_INFINITY, 0.0)), &[x])?;
        let negative = self.emit(n, Op::Binary(Binary::Mul), &[negative, slopes])?;
        self.emit(n, Op::Binary(Binary::Add), &[positive, negative])
    }

    fn batch_normalization(&mut self, n: &Node<'_>, x: TensorId, inputs: &[TensorValue]) -> Result<TensorId, String> {
        if n.int("training_mode", 0) != 0 {
            return Err("training_mode is set: this model is for training".to_owned());
        }
        if n.opset < 7 && n.int("is_test", 0) == 0 {
            return Err("is_test is not set: this model is for training".to_owned());
        }
        let (epsilon, rank) = (n.float("epsilon", 1e-5), self.graph.shape(x).len());
        // Before operator set 9, each element may have its own statistics.
        let apart = n.opset < 9 && n.int("spatial", 1) == 0;
        let own = if apart { self.graph.shape(x)[1.min(rank)..].to_vec() } else { Vec::new() };
        let channels = match &own[..] {
            [] if rank < 2 => 1,
            [] => self.graph.shape(x)[1],
            own => super::value::count(own)?,
        };
        let [scale, shift, mean, variance] = [1, 2, 3, 4].map(|k| self.values(inputs, k));
        let (scale, shift, mean, variance) = (scale?, shift?, mean?, variance?);
        if [&scale, &shift, &mean, &variance].iter().any(|values| values.len() != channels) {
            return Err(format!("scale, shift, mean and variance do not have {channels} values each"));
        }
        let factors: Vec<f32> =
            scale.iter().zip(&variance).map(|(scale, variance)| scale / (variance + epsilon).sqrt()).collect();
        let offsets: Vec<f32> = (0..channels).map(|c| shift[c] - mean[c] * factors[c]).collect();
        if apart {
            let factors = self.emit_constant(n, &own, factors)?;
            let offsets = self.emit_constant(n, &own, offsets)?;
            let x = self.emit(n, Op::Binary(Binary::Mul), &[x, factors])?;
            return self.emit(n, Op::Binary(Binary::Add), &[x, offsets]);
        }
        self.scale_and_shift(n, x, factors, offsets)
    }

    /// x * factor + offset, per channel.
    pub(super) fn scale_and_shift(
        &mut self,
        n: &Node<'_>,
        x: TensorId,
        factors: Vec<f32>,
        offsets: Vec<f32>,
    ) -> Result<TensorId, String> {
        let mut shape = vec![1; self.graph.shape(x).len().saturating_sub(1)];
        if let Some(first) = shape.first_mut() {
            *first = factors.len();
        }
        let factors = self.emit_constant(n, &shape, factors)?;
        let offsets = self.emit_constant(n, &shape, offsets)?;
        let x = self.emit(n, Op::Binary(Binary::Mul), &[x, factors])?;
        self.emit(n, Op::Binary(Binary::Add), &[x, offsets])
    }

    pub(super) fn softmax(&mut self, n: &Node<'_>, x: TensorId) -> Result<TensorId, String> {
        let shape = self.graph.shape(x).to_vec();
        let axis = super::convert::axis(n.int("axis", if n.opset < 13 { 1 } else { -1 }), shape.len())?;
        let inner: usize = shape[axis + 1..].iter().product();
        let mut y = if n.opset < 13 && inner > 1 {
            // Until operator set 12, softmax covers all dimensions from the axis on.
            let flat = [shape[..axis].iter().product(), shape[axis..].iter().product()];
            let flat = self.reshape(n, x, &flat)?;
            self.emit(n, Op::Softmax { axis: 1 }, &[flat])?
        } else {
            self.emit(n, Op::Softmax { axis }, &[x])?
        };
        if n.proto.op_type == "LogSoftmax" {
            y = self.emit(n, Op::Unary(Unary::Log), &[y])?;
        }
        self.reshape(n, y, &shape)
    }
}
