// SPDX-License-Identifier: MIT OR Apache-2.0

//! The dispatch of operators to the modules that read them, and helpers of the conversions.

use std::path::Path;

use super::proto;
use super::reader::{Node, Reader, TensorValue};
use super::value::{count, types};
use crate::ir::{Op, TensorId};

/// Operators of the default domain.
const OPERATORS: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "Affine",
    "And",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "CastLike",
    "Ceil",
    "Celu",
    "CenterCropPad",
    "Clip",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "Cos",
    "Cosh",
    "Crop",
    "DepthToSpace",
    "DequantizeLinear",
    "Div",
    "Dropout",
    "DynamicQuantizeLinear",
    "Einsum",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Expand",
    "Flatten",
    "Floor",
    "GRU",
    "Gather",
    "GatherND",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "Greater",
    "GreaterOrEqual",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "ImageScaler",
    "InstanceNormalization",
    "LRN",
    "LSTM",
    "LayerNormalization",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "LpPool",
    "MatMul",
    "MatMulInteger",
    "Max",
    "MaxPool",
    "Mean",
    "MeanVarianceNormalization",
    "Min",
    "Mish",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "PRelu",
    "Pad",
    "ParametricSoftplus",
    "Pow",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
    "RMSNormalization",
    "RNN",
    "Range",
    "Reciprocal",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Reshape",
    "Resize",
    "Round",
    "Scale",
    "ScaledTanh",
    "Selu",
    "Shape",
    "Shrink",
    "Sigmoid",
    "Sign",
    "SimplifiedLayerNormalization",
    "Sin",
    "Sinh",
    "Size",
    "Slice",
    "Softmax",
    "Softplus",
    "Softsign",
    "SpaceToDepth",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Sum",
    "SwiGLU",
    "Swish",
    "Tanh",
    "ThresholdedRelu",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Upsample",
    "Where",
];

/// Operators of ONNX Runtime's domain.
const MICROSOFT: &[&str] = &[
    "DequantizeLinear",
    "DynamicQuantizeMatMul",
    "Gelu",
    "MatMulIntegerToFloat",
    "QGemm",
    "QLinearAdd",
    "QLinearAveragePool",
    "QLinearConcat",
    "QLinearGlobalAveragePool",
    "QLinearLeakyRelu",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearSoftmax",
    "QuantizeLinear",
    "QuickGelu",
];

/// Operators that copy integers of their first input to their output.
const MOVING: &[&str] = &[
    "DepthToSpace",
    "Dropout",
    "Expand",
    "Flatten",
    "Gather",
    "GatherND",
    "Identity",
    "MaxPool",
    "Pad",
    "Reshape",
    "Resize",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// Those of [`MOVING`] whose output has all elements of their input, and no others.
const RENAMING: &[&str] = &["Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"];

/// Whether an operator is read.
pub(super) fn is_known(domain: &str, operator: &str) -> bool {
    if proto::is_standard(domain) {
        return OPERATORS.contains(&operator);
    }
    domain == "com.microsoft" && MICROSOFT.contains(&operator) || (domain, operator) == ("ai.onnx.ml", "Scaler")
}

/// Why an operator is not read.
pub(super) fn why_not(operator: &str) -> String {
    match operator {
        "Loop" | "Scan" => "loops are not supported".to_owned(),
        "ArgMax" | "ArgMin" | "TopK" | "NonMaxSuppression" | "NonZero" => {
            "NVDLA computes no indices; leave it to the application, and name the tensor before it as an output"
                .to_owned()
        }
        _ => "the operator is not supported".to_owned(),
    }
}

impl Reader {
    /// Converts a node. Returns its outputs in the node's order; trailing ones may be missing.
    pub(super) fn convert(
        &mut self,
        n: &Node<'_>,
        inputs: &[TensorValue],
        folder: Option<&Path>,
    ) -> Result<Vec<TensorValue>, String> {
        let aligned = self.aligned(n, inputs)?;
        let inputs = aligned.as_deref().unwrap_or(inputs);
        if let Some(folded) = self.integers(n, inputs, folder)? {
            return Ok(folded);
        }
        let operator = n.proto.op_type.as_str();
        if n.proto.domain == "com.microsoft" && operator != "Gelu" && operator != "QuickGelu"
            || operator.starts_with("QLinear")
            || matches!(operator, "ConvInteger" | "DequantizeLinear" | "MatMulInteger" | "QuantizeLinear")
        {
            return self.quantized(n, inputs).map(|value| vec![value]);
        }
        if let Some(&TensorValue::Measured(id)) = inputs.first().filter(|_| MOVING.contains(&operator)) {
            // Their zero is the real number 0.
            let real = with_first(id, inputs);
            let measured = |output| match output {
                TensorValue::Real(id) => TensorValue::Measured(id),
                other => other,
            };
            return Ok(self.operator(n, &real)?.into_iter().map(measured).collect());
        }
        if let Some(TensorValue::Quantized(id, quantization)) = inputs.first() {
            if !MOVING.contains(&operator) {
                return Err(format!("it computes with integers of scale {:?}; only {MOVING:?} do", quantization.scale));
            }
            let mut real = with_first(*id, inputs);
            if let ("Pad", Some(TensorValue::Integers(value))) = (operator, inputs.get(2)) {
                // The integer that is added stands for a number.
                let (&[value], &[scale], &[zero]) =
                    (&value.values[..], &quantization.scale[..], &quantization.zero_point[..])
                else {
                    return Err("integers with scales per channel are padded".to_owned());
                };
                let value = (value - i64::from(zero)) as f32 * scale;
                real[2] = TensorValue::Real(self.emit_constant(n, &[], vec![value])?);
            } else if operator == "Pad" && n.text("mode", "constant") == "constant" && quantization.zero_point != [0] {
                return Err(format!("the integer 0 is added, the zero point is {:?}", quantization.zero_point));
            }
            let outputs = self.operator(n, &real)?;
            if RENAMING.contains(&operator) && quantization.axis.is_none() {
                // The same integers, which need not be rounded again, so that the move can be merged with others.
                let same = |output| match output {
                    TensorValue::Real(id) => TensorValue::Quantized(id, quantization.clone()),
                    other => other,
                };
                return Ok(outputs.into_iter().map(same).collect());
            }
            return outputs.into_iter().map(|output| self.keep(output, quantization)).collect();
        }
        self.operator(n, inputs)
    }

    fn operator(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<Vec<TensorValue>, String> {
        let operator = n.proto.op_type.as_str();
        let one = |id: TensorId| vec![TensorValue::Real(id)];
        let empty = |k: usize| n.has(k) && matches!(inputs.get(k), Some(TensorValue::Nothing));
        match operator {
            "Concat" if (0..inputs.len()).any(empty) => {
                let parts: Vec<TensorValue> =
                    (0..inputs.len()).filter(|&k| !empty(k)).map(|k| inputs[k].clone()).collect();
                if parts.is_empty() {
                    Ok(vec![TensorValue::Nothing])
                } else {
                    self.operator(n, &parts)
                }
            }
            "Add" | "Cast" | "Div" | "Identity" | "Mul" | "Neg" | "Sub" | "Transpose" | "Unsqueeze" if empty(0) => {
                Ok(vec![TensorValue::Nothing])
            }
            "Conv" => self.conv(n, inputs).map(one),
            "ConvTranspose" => self.conv_transpose(n, inputs).map(one),
            "Gemm" => self.gemm(n, inputs).map(one),
            "MatMul" => self.mat_mul(n, inputs).map(one),
            "Einsum" => self.einsum(n, inputs).map(one),
            "MaxPool" | "AveragePool" | "GlobalAveragePool" | "GlobalMaxPool" | "LpPool" => {
                self.pool(n, inputs).map(one)
            }
            "Resize" | "Upsample" => self.resize(n, inputs).map(one),
            _ if operator.starts_with("Reduce") || operator == "GlobalLpPool" => self.reduce(n, inputs).map(one),
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Concat" | "Slice" | "Pad" | "Gather"
            | "GatherND" | "Expand" | "Tile" | "DepthToSpace" | "SpaceToDepth" | "CenterCropPad" => {
                self.shaping(n, inputs).map(one)
            }
            _ if operator.ends_with("Normalization") && operator != "BatchNormalization" => {
                let outputs = self.normalization(n, inputs)?;
                Ok(outputs.into_iter().map(TensorValue::Real).collect())
            }
            "GRU" | "LSTM" | "RNN" => self.recurrent(n, inputs),
            "Split" => self.split(n, inputs),
            "Range" => self.range(n, inputs).map(one),
            "DynamicQuantizeLinear" => self.measured(n, inputs),
            _ => self.arithmetic(n, inputs).map(one),
        }
    }

    /// The tensor of real numbers of an input. Integers are converted to real numbers.
    pub(super) fn real(&mut self, n: &Node<'_>, inputs: &[TensorValue], k: usize) -> Result<TensorId, String> {
        match inputs.get(k) {
            Some(TensorValue::Real(id)) => Ok(*id),
            Some(TensorValue::Integers(integers)) => self.emit_constant(n, &integers.shape, integers.real()),
            Some(TensorValue::Quantized(..) | TensorValue::Measured(_)) => {
                Err(format!("its input {k} has integers of a quantized model"))
            }
            _ => Err(format!("its input {k} is missing")),
        }
    }

    /// An input that may be omitted.
    pub(super) fn optional(
        &mut self,
        n: &Node<'_>,
        inputs: &[TensorValue],
        k: usize,
    ) -> Result<Option<TensorId>, String> {
        if n.has(k) {
            self.real(n, inputs, k).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The values of an input that must be constant.
    pub(super) fn values(&self, inputs: &[TensorValue], k: usize) -> Result<Vec<f32>, String> {
        match inputs.get(k) {
            Some(TensorValue::Integers(integers)) => Ok(integers.real().to_vec()),
            Some(TensorValue::Real(id)) => {
                let values = self.graph.constant(*id).ok_or_else(|| format!("its input {k} is not a constant"))?;
                Ok(values.to_vec())
            }
            Some(TensorValue::Nothing) => Ok(Vec::new()),
            _ => Err(format!("its input {k} is not a constant")),
        }
    }

    /// The only value of an input that must be constant, or `default` if the input is omitted.
    pub(super) fn scalar(&self, inputs: &[TensorValue], k: usize, default: f32) -> Result<f32, String> {
        match inputs.get(k) {
            None | Some(TensorValue::Nothing) => Ok(default),
            Some(_) => self.single(inputs, k),
        }
    }

    /// The only value of an input that must be constant.
    fn single(&self, inputs: &[TensorValue], k: usize) -> Result<f32, String> {
        match self.values(inputs, k)?[..] {
            [value] => Ok(value),
            ref values => Err(format!("its input {k} has {} values, not one", values.len())),
        }
    }

    /// The integers of an input that must be constant; `None` if the input is omitted.
    pub(super) fn list(inputs: &[TensorValue], k: usize) -> Result<Option<Vec<i64>>, String> {
        match inputs.get(k) {
            None | Some(TensorValue::Nothing) => Ok(None),
            Some(TensorValue::Integers(integers)) => Ok(Some(integers.values.to_vec())),
            _ => Err(format!("its input {k} is not a constant of integers")),
        }
    }

    /// Integers from an attribute in older operator sets, or from an input in newer ones.
    pub(super) fn attribute_or_list(
        n: &Node<'_>,
        name: &str,
        inputs: &[TensorValue],
        k: usize,
    ) -> Result<Option<Vec<i64>>, String> {
        match n.ints(name) {
            Some(ints) => Ok(Some(ints.to_vec())),
            None => Self::list(inputs, k),
        }
    }

    /// The numbers from a constant up to another, a constant step apart, as numpy's `arange` gives them.
    fn range(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let value = |k| self.single(inputs, k).map(f64::from);
        let (start, limit, step) = (value(0)?, value(1)?, value(2)?);
        if step == 0.0 {
            return Err("a step of 0".to_owned());
        }
        // A count beyond every tensor's becomes an error.
        let numbers = count(&[((limit - start) / step).ceil().max(0.0) as usize])?;
        self.graph.budget.spend(4 * numbers as u64, 0)?;
        let values: Vec<f32> = (0..numbers).map(|k| (start + k as f64 * step) as f32).collect();
        self.emit_constant(n, &[numbers], values)
    }

    /// The same elements in another shape.
    pub(super) fn reshape(&mut self, n: &Node<'_>, x: TensorId, shape: &[usize]) -> Result<TensorId, String> {
        if self.graph.shape(x) == shape {
            return Ok(x);
        }
        self.emit(n, Op::Reshape { shape: shape.to_vec() }, &[x])
    }

    pub(super) fn transpose(&mut self, n: &Node<'_>, x: TensorId, perm: &[usize]) -> Result<TensorId, String> {
        if perm.iter().enumerate().all(|(k, &axis)| k == axis) && perm.len() == self.graph.shape(x).len() {
            return Ok(x);
        }
        self.emit(n, Op::Transpose { perm: perm.to_vec() }, &[x])
    }
}

/// The inputs with real numbers in place of the first.
fn with_first(id: TensorId, inputs: &[TensorValue]) -> Vec<TensorValue> {
    [TensorValue::Real(id)].into_iter().chain(inputs[1..].iter().cloned()).collect()
}

/// An axis that counts from the end if it is negative.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    super::value::index(axis, rank).map_err(|_| format!("axis {axis} of {rank} dimensions"))
}

/// Axes, none of which may be repeated.
pub(super) fn axes(list: &[i64], rank: usize) -> Result<Vec<usize>, String> {
    let mut axes = list.iter().map(|&a| axis(a, rank)).collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    let count = axes.len();
    axes.dedup();
    if axes.len() < count {
        Err(format!("the axes {list:?} name one twice"))
    } else {
        Ok(axes)
    }
}

/// Sizes that must not be negative.
pub(super) fn sizes(list: &[i64], what: &str) -> Result<Vec<usize>, String> {
    list.iter().map(|&size| usize::try_from(size).map_err(|_| format!("the {what} {list:?} are negative"))).collect()
}

/// The least and greatest integer of a quantized model's type. Other types are an error.
pub(super) fn limits(kind: i32) -> Result<(i32, i32), String> {
    match kind {
        types::INT8 => Ok((-128, 127)),
        types::UINT8 => Ok((0, 255)),
        types::INT16 => Ok((-32768, 32767)),
        types::UINT16 => Ok((0, 65535)),
        types::INT32 => Ok((i32::MIN, i32::MAX)),
        types::INT4 => Ok((-8, 7)),
        types::UINT4 => Ok((0, 15)),
        _ => Err(format!("integers of type {kind} are not supported")),
    }
}
