// SPDX-License-Identifier: MIT OR Apache-2.0

//! The dispatch of operators to the files that read them, their fused activations, and the scales of their outputs.

use super::file::{Kind, Operator};
use super::operators;
use super::reader::Reader;
use super::value::{Known, Operands, Value};
use crate::ir::{Op, Quantization, Unary};

impl Reader<'_> {
    /// Converts an operator. Returns its outputs.
    pub(super) fn convert(
        &mut self,
        operator: &Operator<'_>,
        node: &str,
        inputs: &[Option<Known>],
    ) -> Result<Vec<Known>, String> {
        if let Some(outputs) = self.divided(operator, node, inputs)? {
            return Ok(outputs);
        }
        let value = |known: &Option<Known>| match known {
            Some(Known::Value(value)) => Ok(Some(value.clone())),
            None => Ok(None),
            _ => Err("pixels that are divided into images are read only by one convolution".to_owned()),
        };
        let operands = Operands(inputs.iter().map(value).collect::<Result<_, _>>()?);
        let outputs = self.values(operator, node, &operands)?;
        let finish = |(k, value): (usize, Value)| self.finish(operator, node, k, value).map(Known::Value);
        outputs.into_iter().enumerate().map(finish).collect()
    }

    fn values(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Vec<Value>, String> {
        let one = |value: Value| vec![value];
        match o.name.as_str() {
            "CONV_2D" | "DEPTHWISE_CONV_2D" => self.convolution(o, n, x).map(one),
            "TRANSPOSE_CONV" | "Convolution2DTransposeBias" => self.deconvolution(o, n, x).map(one),
            "FULLY_CONNECTED" => self.fully_connected(o, n, x).map(one),
            "BATCH_MATMUL" => self.batch_product(o, n, x).map(one),
            "AVERAGE_POOL_2D" | "MAX_POOL_2D" => self.pool(o, n, x).map(one),
            "MEAN" | "SUM" | "REDUCE_MAX" | "REDUCE_MIN" => self.reduce(o, n, x).map(one),
            "RESIZE_BILINEAR" | "RESIZE_NEAREST_NEIGHBOR" => self.resize(o, n, x).map(one),
            "SPLIT" | "SPLIT_V" | "UNPACK" => self.split(o, n, x),
            "BROADCAST_TO" | "CONCATENATION" | "DEPTH_TO_SPACE" | "EXPAND_DIMS" | "FILL" | "GATHER" | "MIRROR_PAD"
            | "PACK" | "PAD" | "PADV2" | "RESHAPE" | "SHAPE" | "SLICE" | "SPACE_TO_DEPTH" | "SQUEEZE"
            | "STRIDED_SLICE" | "TILE" | "TRANSPOSE" => self.shaping(o, n, x).map(one),
            _ => self.arithmetic(o, n, x).map(one),
        }
    }

    /// The scale that the model gives to an output of an operator.
    fn scale(&self, operator: &Operator<'_>, k: usize) -> Result<Option<Quantization>, String> {
        let Some(&index) = operator.outputs.get(k) else { return Ok(None) };
        let tensor = &self.file.tensors[index];
        match (&tensor.quantization, tensor.kind) {
            (None, _) | (_, Kind::Int32 | Kind::Int64) => Ok(None),
            (Some(q), _) if q.scale.len() > 1 => Err("its output has scales per channel".to_owned()),
            (Some(q), _) => Ok(Some(q.clone())),
        }
    }

    /// Applies the fused activation, and the rounding and the limits of a quantized model.
    pub(super) fn finish(
        &mut self,
        operator: &Operator<'_>,
        node: &str,
        k: usize,
        mut value: Value,
    ) -> Result<Value, String> {
        let activation = operators::activation(&operator.name).map_or(Ok(0), |slot| operator.choice(slot))?;
        let (mut low, mut high) = match activation {
            0 => (f32::NEG_INFINITY, f32::INFINITY),
            1 => (0.0, f32::INFINITY),
            2 => (-1.0, 1.0),
            3 => (0.0, 6.0),
            4 => {
                value.id = self.emit(node, Op::Unary(Unary::Tanh), &[value.id])?;
                (f32::NEG_INFINITY, f32::INFINITY)
            }
            other => return Err(format!("the fused activation {other} is not supported")),
        };
        let q = self.scale(operator, k)?.filter(|_| self.graph.constant(value.id).is_none());
        if let Some(q) = &q {
            let all = operator.inputs.iter().flatten().map(|&input| &self.file.tensors[input].quantization);
            let mut activations = all.flatten().filter(|other| other.limits == q.limits);
            let same = activations.next() == Some(q)
                && (operators::keeps_integers(&operator.name) || activations.all(|other| other == q));
            if same && activation == 0 && operators::keeps_integers(&operator.name) {
                return Ok(value);
            }
            if operators::stays_within(&operator.name)
                && activation == 0
                && (same || operators::has_range(&operator.name))
            {
                if self.graph.producer(value.id).is_some() && self.graph.tensor(value.id).quantization.is_none() {
                    self.graph.tensors[value.id.0].quantization = Some(q.clone());
                }
                return Ok(value);
            }
            // A limit of the activation that rounds to the end of the integers is that end.
            let real = |integer: i32| (integer as f32 - q.zero_point[0] as f32) * q.scale[0];
            let (least, most, half) = (real(q.limits.0), real(q.limits.1), q.scale[0] / 2.0);
            low = if low > least + half { low } else { least };
            high = if high < most - half { high } else { most };
        }
        if low > high {
            return Err(format!("its output has no value, from {low} to {high}"));
        }
        if (low, high) == (0.0, f32::INFINITY) {
            value.id = self.emit(node, Op::Unary(Unary::Relu), &[value.id])?;
        } else if (low, high) != (f32::NEG_INFINITY, f32::INFINITY) {
            value.id = self.emit(node, Op::Unary(Unary::Clip(low, high)), &[value.id])?;
        }
        if q.is_some() {
            self.graph.tensors[value.id.0].quantization = q;
        }
        Ok(value)
    }
}
