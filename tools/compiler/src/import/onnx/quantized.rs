// SPDX-License-Identifier: MIT OR Apache-2.0

//! Quantized models: `QuantizeLinear`, `DequantizeLinear`, and the operators that compute on integers.
//!
//! Integers are represented by their real numbers. A tensor that the model quantizes has the scale
//! ([`crate::ir::Tensor::quantization`]), by which it is rounded. Its limits are a part of the network's function, because tools
//! that quantize leave out a Relu or a Clip that ends where the integers end. So a [`Unary::Clip`] to the values of the least and
//! the greatest integer makes the tensor. The lowering leaves it out where the hardware's integers end there, too.
//!
//! A network may also measure the scale of a tensor while it runs, so that a processor multiplies bytes, and multiplies the sums by that
//! scale. NVDLA has the scales that samples show. So these integers stand for their real numbers, and the scale that is measured for 1.

use super::convert::limits;
use super::product::with_height;
use super::reader::{Node, Reader, TensorValue};
use super::value::{types, Integers};
use crate::ir::{Binary, Op, Pool, PoolKind, Quantization, TensorId, Unary};

impl Reader {
    /// The scale and zero point in two inputs.
    fn parameters(
        &self,
        n: &Node<'_>,
        inputs: &[TensorValue],
        scale: usize,
        zero: usize,
    ) -> Result<Quantization, String> {
        let scales = self.values(inputs, scale)?;
        let (zero_point, kind) = match inputs.get(zero) {
            Some(TensorValue::Integers(zero)) => {
                let values: Result<Vec<i32>, _> = zero.values.iter().map(|&value| i32::try_from(value)).collect();
                (values.map_err(|_| "a zero point beyond 32 bits")?, zero.kind)
            }
            _ => (vec![0; scales.len()], n.int("output_dtype", i64::from(types::UINT8)) as i32),
        };
        if scales.len() != zero_point.len() || scales.is_empty() {
            return Err(format!("{} scales and {} zero points", scales.len(), zero_point.len()));
        }
        if let Some(scale) = scales.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
            return Err(format!("the scale {scale} is not a positive number"));
        }
        Ok(Quantization { scale: scales, zero_point, axis: None, limits: limits(kind)? })
    }

    /// Sets the axis along which scales differ, for a tensor of that shape.
    fn along(mut q: Quantization, axis: i64, shape: &[usize]) -> Result<Quantization, String> {
        if q.scale.len() > 1 {
            let axis = super::convert::axis(axis, shape.len())?;
            if shape[axis] != q.scale.len() {
                return Err(format!("{} scales along axis {axis} of {shape:?}", q.scale.len()));
            }
            q.axis = Some(axis);
        }
        Ok(q)
    }

    /// The output of an operator that only moves integers of that scale.
    pub(super) fn keep(&mut self, output: TensorValue, q: &Quantization) -> Result<TensorValue, String> {
        match output {
            TensorValue::Real(_) if q.axis.is_some() => Err("integers with scales per channel are moved".to_owned()),
            TensorValue::Real(id) => {
                self.graph.tensors[id.0].quantization = Some(q.clone());
                Ok(TensorValue::Quantized(id, q.clone()))
            }
            other => Ok(other),
        }
    }

    /// A tensor as integers of that scale. A constant is rounded immediately.
    fn quantize(&mut self, n: &Node<'_>, x: TensorId, q: Quantization) -> Result<TensorValue, String> {
        let shape = self.graph.shape(x).to_vec();
        let id = if let Some(constant) = self.graph.constant(x) {
            let mut values = constant.to_vec();
            crate::float::quantize(Some(&q), &shape, &mut values);
            self.emit_constant(n, &shape, values)?
        } else {
            let limits = q.values();
            let one = |of: fn(&(f32, f32)) -> f32| limits.iter().map(of).collect::<Vec<f32>>();
            match (&limits[..], q.axis) {
                (&[(low, high)], _) => self.emit(n, Op::Unary(Unary::Clip(low, high)), &[x])?,
                (_, Some(axis)) => {
                    let mut along = vec![1; shape.len() - axis];
                    along[0] = limits.len();
                    let low = self.emit_constant(n, &along, one(|limits| limits.0))?;
                    let high = self.emit_constant(n, &along, one(|limits| limits.1))?;
                    let x = self.emit(n, Op::Binary(Binary::Max), &[x, low])?;
                    self.emit(n, Op::Binary(Binary::Min), &[x, high])?
                }
                _ => return Err(format!("{} scales without an axis", limits.len())),
            }
        };
        self.graph.tensors[id.0].quantization = Some(q.clone());
        Ok(TensorValue::Quantized(id, q))
    }

    /// The real numbers of an input's integers. Scale and zero point are two other inputs.
    fn dequantize(
        &mut self,
        n: &Node<'_>,
        inputs: &[TensorValue],
        [x, s, z]: [usize; 3],
        axis: i64,
    ) -> Result<TensorId, String> {
        let q = self.parameters(n, inputs, s, z)?;
        match inputs.get(x) {
            Some(TensorValue::Measured(id)) if (&q.scale[..], &q.zero_point[..]) == (&[1.0], &[0]) => Ok(*id),
            Some(TensorValue::Quantized(id, own)) => {
                let id = *id;
                let mut read = Self::along(q, axis, self.graph.shape(id))?;
                read.limits = own.limits;
                if (&read.scale, &read.zero_point) == (&own.scale, &own.zero_point) {
                    return Ok(id);
                }
                let (&[scale], &[zero], &[own_scale], &[own_zero]) =
                    (&read.scale[..], &read.zero_point[..], &own.scale[..], &own.zero_point[..])
                else {
                    return Err("integers with scales per channel are read with other scales".to_owned());
                };
                // The same integers stand for other numbers.
                let factor = self.emit_constant(n, &[], vec![scale / own_scale])?;
                let shift = self.emit_constant(n, &[], vec![(own_zero - zero) as f32 * scale])?;
                let x = self.emit(n, Op::Binary(Binary::Mul), &[id, factor])?;
                let x = self.emit(n, Op::Binary(Binary::Add), &[x, shift])?;
                self.graph.tensors[x.0].quantization = Some(read);
                Ok(x)
            }
            Some(TensorValue::Integers(integers)) => {
                let mut q = Self::along(q, axis, &integers.shape)?;
                if !matches!(inputs.get(z), Some(TensorValue::Integers(_))) {
                    q.limits = limits(integers.kind)?;
                }
                let inner: usize = q.axis.map_or(1, |axis| integers.shape[axis + 1..].iter().product());
                let value = |(k, &value): (usize, &i64)| {
                    let k = k / inner.max(1) % q.scale.len();
                    (value - i64::from(q.zero_point[k])) as f32 * q.scale[k]
                };
                let values: Vec<f32> = integers.values.iter().enumerate().map(value).collect();
                let id = self.emit_constant(n, &integers.shape.clone(), values)?;
                self.graph.tensors[id.0].quantization = Some(q);
                Ok(id)
            }
            // An input of the network that is given as integers. The zero point has their type.
            Some(TensorValue::Real(id)) if q.scale.len() == 1 => {
                let zero = self.emit_constant(n, &[], vec![q.zero_point[0] as f32])?;
                let scale = self.emit_constant(n, &[], vec![q.scale[0]])?;
                let typed = matches!(inputs.get(z), Some(TensorValue::Integers(_)));
                if typed && self.graph.inputs.contains(id) {
                    let own = Quantization { scale: vec![1.0], zero_point: vec![0], axis: None, limits: q.limits };
                    self.graph.tensors[id.0].quantization = Some(own);
                }
                let x = self.emit(n, Op::Binary(Binary::Sub), &[*id, zero])?;
                let x = self.emit(n, Op::Binary(Binary::Mul), &[x, scale])?;
                self.graph.tensors[x.0].quantization = Some(q).filter(|_| typed);
                Ok(x)
            }
            _ => Err(format!("its input {x} has no integers")),
        }
    }

    /// The bias of a product of integers: its scale is the product of the operands' scales.
    fn bias(
        &mut self,
        n: &Node<'_>,
        inputs: &[TensorValue],
        k: usize,
        from: usize,
        weights: usize,
    ) -> Result<Option<TensorId>, String> {
        let Some(TensorValue::Integers(bias)) = inputs.get(k) else { return Ok(None) };
        let (from, weights) = (self.values(inputs, from)?, self.values(inputs, weights)?);
        let scale = |k: usize| from.first().unwrap_or(&1.0) * weights.get(k).or(weights.first()).unwrap_or(&1.0);
        let values: Vec<f32> = bias.values.iter().enumerate().map(|(k, &value)| value as f32 * scale(k)).collect();
        self.emit_constant(n, &bias.shape.clone(), values).map(Some)
    }

    /// A tensor as integers whose scale is measured: the integers, the scale and the zero point.
    pub(super) fn measured(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<Vec<TensorValue>, String> {
        let x = self.real(n, inputs, 0)?;
        let scale = self.emit_constant(n, &[], vec![1.0])?;
        let zero = Integers { shape: Vec::new(), values: [0].into(), kind: types::UINT8 };
        Ok(vec![TensorValue::Measured(x), TensorValue::Real(scale), TensorValue::Integers(zero)])
    }

    /// The integers of an input less their zero point, which is another input, as real numbers.
    fn shifted(
        &mut self,
        n: &Node<'_>,
        inputs: &[TensorValue],
        [x, zero]: [usize; 2],
        axis: i64,
    ) -> Result<TensorId, String> {
        let of = |k: usize| inputs.get(k).cloned().unwrap_or(TensorValue::Nothing);
        let count = Self::list(inputs, zero)?.map_or(1, |zeros| zeros.len());
        let ones = TensorValue::Real(self.emit_constant(n, &[count], vec![1.0; count])?);
        self.dequantize(n, &[of(x), ones, of(zero)], [0, 1, 2], axis)
    }

    pub(super) fn quantized(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorValue, String> {
        if n.int("block_size", 0) != 0 {
            return Err("scales per block are not supported".to_owned());
        }
        let axis = n.int("axis", 1);
        let (id, q) = match n.proto.op_type.as_str() {
            "DequantizeLinear" => return self.dequantize(n, inputs, [0, 1, 2], axis).map(TensorValue::Real),
            "ConvInteger" => {
                let (x, w) = (self.shifted(n, inputs, [0, 2], 1)?, self.shifted(n, inputs, [1, 3], 0)?);
                return self.convolution(n, x, w, None).map(TensorValue::Real);
            }
            "MatMulInteger" => {
                let (a, b) = (self.shifted(n, inputs, [0, 2], -2)?, self.shifted(n, inputs, [1, 3], -1)?);
                return self.product(n, a, b, None).map(TensorValue::Real);
            }
            "MatMulIntegerToFloat" => {
                let (a, b) = (self.dequantize(n, inputs, [0, 2, 4], -2)?, self.dequantize(n, inputs, [1, 3, 5], -1)?);
                let bias = self.optional(n, inputs, 6)?;
                return self.product(n, a, b, bias).map(TensorValue::Real);
            }
            "DynamicQuantizeMatMul" => {
                let (a, b) = (self.real(n, inputs, 0)?, self.dequantize(n, inputs, [1, 2, 3], -1)?);
                let bias = self.optional(n, inputs, 4)?;
                return self.product(n, a, b, bias).map(TensorValue::Real);
            }
            "QuantizeLinear" => {
                let x = self.real(n, inputs, 0)?;
                (x, Self::along(self.parameters(n, inputs, 1, 2)?, axis, self.graph.shape(x))?)
            }
            "QLinearConv" => {
                let (x, w) = (self.dequantize(n, inputs, [0, 1, 2], 1)?, self.dequantize(n, inputs, [3, 4, 5], 0)?);
                let bias = self.bias(n, inputs, 8, 1, 4)?;
                (self.convolution(n, x, w, bias)?, self.parameters(n, inputs, 6, 7)?)
            }
            "QLinearMatMul" => {
                let (a, b) = (self.dequantize(n, inputs, [0, 1, 2], -2)?, self.dequantize(n, inputs, [3, 4, 5], -1)?);
                (self.product(n, a, b, None)?, self.parameters(n, inputs, 6, 7)?)
            }
            "QGemm" => {
                if n.float("alpha", 1.0) != 1.0 || !n.has(7) {
                    return Err("alpha, and an output of real numbers, are not supported".to_owned());
                }
                let turned = n.int("transB", 0) != 0;
                let along = i64::from(!turned);
                let mut a = self.dequantize(n, inputs, [0, 1, 2], 0)?;
                let mut b = self.dequantize(n, inputs, [3, 4, 5], along)?;
                if n.int("transA", 0) != 0 {
                    a = self.transpose(n, a, &[1, 0])?;
                }
                if turned {
                    b = self.transpose(n, b, &[1, 0])?;
                }
                let bias = self.bias(n, inputs, 6, 1, 4)?;
                (self.product(n, a, b, bias)?, self.parameters(n, inputs, 7, 8)?)
            }
            "QLinearAdd" | "QLinearMul" => {
                let (a, b) = (self.dequantize(n, inputs, [0, 1, 2], 1)?, self.dequantize(n, inputs, [3, 4, 5], 1)?);
                let op = if n.proto.op_type == "QLinearAdd" { Binary::Add } else { Binary::Mul };
                (self.emit(n, Op::Binary(op), &[a, b])?, self.parameters(n, inputs, 6, 7)?)
            }
            "QLinearConcat" => {
                let parts: Result<Vec<_>, _> =
                    (2..inputs.len()).step_by(3).map(|k| self.dequantize(n, inputs, [k, k + 1, k + 2], 1)).collect();
                let parts = parts?;
                let rank = parts.first().map_or(0, |&id| self.graph.shape(id).len());
                let axis = super::convert::axis(axis, rank)?;
                (self.emit(n, Op::Concat { axis }, &parts)?, self.parameters(n, inputs, 0, 1)?)
            }
            "QLinearGlobalAveragePool" | "QLinearAveragePool" => {
                if n.int("channels_last", 0) != 0 {
                    return Err("channels_last is not supported".to_owned());
                }
                let x = self.dequantize(n, inputs, [0, 1, 2], 1)?;
                let q = self.parameters(n, inputs, 3, 4)?;
                if n.proto.op_type == "QLinearAveragePool" {
                    (self.pool(n, &[TensorValue::Real(x)])?, q)
                } else {
                    let rank = self.spatial(x)?;
                    let x = self.reshape(n, x, &with_height(self.graph.shape(x)))?;
                    let kernel = [self.graph.shape(x)[2], self.graph.shape(x)[3]];
                    let pool = Pool::new(PoolKind::Average { count_include_pad: true }, kernel);
                    let y = self.emit(n, Op::Pool(pool), &[x])?;
                    (self.without_height(n, y, rank)?, q)
                }
            }
            "QLinearLeakyRelu" | "QLinearSigmoid" => {
                let x = self.dequantize(n, inputs, [0, 1, 2], 1)?;
                let leaky = n.proto.op_type == "QLinearLeakyRelu";
                let unary = if leaky { Unary::LeakyRelu(n.float("alpha", 0.01)) } else { Unary::Sigmoid };
                (self.emit(n, Op::Unary(unary), &[x])?, self.parameters(n, inputs, 3, 4)?)
            }
            "QLinearSoftmax" => {
                let x = self.dequantize(n, inputs, [0, 1, 2], 1)?;
                let opset = n.int("opset", 13);
                (
                    self.softmax(&Node { proto: n.proto, name: n.name.clone(), opset }, x)?,
                    self.parameters(n, inputs, 3, 4)?,
                )
            }
            _ => return Err("the operator is not supported".to_owned()),
        };
        let q = if q.axis.is_none() { Self::along(q, 1, self.graph.shape(id))? } else { q };
        self.quantize(n, id, q)
    }
}
