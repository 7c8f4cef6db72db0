// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators on elements, reductions, and functions along the channels.

use super::file::Operator;
use super::reader::Reader;
use super::value::{axis, Operands, Value};
use crate::import::at::At;
use crate::import::choice::{compare, inverse, select, sign, Comparison};
use crate::import::normalize::unit;
use crate::import::reduce::{reduce, Reduction};
use crate::ir::{Binary, Op, Pool, PoolKind, TensorId, Unary};

impl Reader<'_> {
    pub(super) fn arithmetic(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        let all = Unary::Clip(f32::NEG_INFINITY, f32::INFINITY);
        let value = x.get(0)?.clone();
        let unary = match o.name.as_str() {
            "ABS" => Unary::Abs,
            "CEIL" => Unary::Ceil,
            "COS" => Unary::Cos,
            "ELU" => Unary::Elu(1.0),
            "EXP" => Unary::Exp,
            "FLOOR" => Unary::Floor,
            "GELU" if o.flag(0)? => Unary::GeluTanh,
            "GELU" => Unary::Gelu,
            "HARD_SWISH" => Unary::HardSwish,
            "LEAKY_RELU" => Unary::LeakyRelu(o.float(0)?),
            "LOG" => Unary::Log,
            "LOGISTIC" => Unary::Sigmoid,
            "NEG" => Unary::Neg,
            "RELU" => Unary::Relu,
            "RELU6" => Unary::Clip(0.0, 6.0),
            "RELU_0_TO_1" => Unary::Clip(0.0, 1.0),
            "RELU_N1_TO_1" => Unary::Clip(-1.0, 1.0),
            "ROUND" => Unary::Round,
            "SIN" => Unary::Sin,
            "SQRT" => Unary::Sqrt,
            "TANH" => Unary::Tanh,
            "CAST" | "DENSIFY" | "DEQUANTIZE" | "QUANTIZE" => return self.converted(o, n, value),
            "FAKE_QUANT" => {
                // FakeQuantOptions: the least and the greatest value; the steps between them are for training.
                let (low, high) = (o.float(0)?, o.float(1)?);
                if low < high {
                    Unary::Clip(low, high)
                } else {
                    return Err(format!("values from {low} to {high}"));
                }
            }
            _ => return self.binary(o, n, x),
        };
        if unary == all {
            return Ok(value);
        }
        let id = self.emit(n, Op::Unary(unary), &[value.id])?;
        Ok(Value { id, ..value })
    }

    /// Operators that change the type of the elements.
    fn converted(&mut self, o: &Operator<'_>, n: &str, value: Value) -> Result<Value, String> {
        if o.name != "CAST" || self.graph.constant(value.id).is_some() {
            return Ok(value);
        }
        let output = o.outputs.first().map(|&output| self.file.tensors[output].kind);
        if output.is_some_and(|kind| !kind.is_real()) {
            return Err(format!("activations of \"{n}\" are cast to integers"));
        }
        Ok(value)
    }

    fn with_scalar(&mut self, n: &str, op: Binary, x: TensorId, value: f32) -> Result<TensorId, String> {
        let constant = self.emit_constant(n, &[], vec![value])?;
        self.emit(n, Op::Binary(op), &[x, constant])
    }

    fn binary(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        let op = match o.name.as_str() {
            "ADD" | "ADD_N" => Binary::Add,
            "SUB" | "SQUARED_DIFFERENCE" => Binary::Sub,
            "MUL" | "LOGICAL_AND" => Binary::Mul,
            "DIV" | "FLOOR_DIV" => Binary::Div,
            "MAXIMUM" | "LOGICAL_OR" => Binary::Max,
            "MINIMUM" => Binary::Min,
            "POW" => Binary::Pow,
            "EQUAL" | "GREATER" | "GREATER_EQUAL" | "LESS" | "LESS_EQUAL" | "NOT_EQUAL" | "SELECT" | "SELECT_V2" => {
                return self.chosen(o, n, x);
            }
            _ => return self.other(o, n, x),
        };
        let (ids, first) = self.together(n, &x.all()?)?;
        let (&start, rest) = ids.split_first().filter(|(_, rest)| !rest.is_empty()).ok_or("it has one operand")?;
        let mut id = start;
        for &operand in rest {
            id = self.emit(n, Op::Binary(op), &[id, operand])?;
        }
        id = match o.name.as_str() {
            "SQUARED_DIFFERENCE" => self.emit(n, Op::Binary(Binary::Mul), &[id, id])?,
            "FLOOR_DIV" => self.emit(n, Op::Unary(Unary::Floor), &[id])?,
            _ => id,
        };
        Ok(self.value(id, first))
    }

    /// Comparisons, whose results are 0 and 1, and choices by them.
    fn chosen(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        let (ids, first) = self.together(n, &x.all()?)?;
        let to = &mut At { graph: &mut self.graph, node: n };
        let comparison = match o.name.as_str() {
            "GREATER" => Comparison::Greater,
            "GREATER_EQUAL" => Comparison::GreaterOrEqual,
            "LESS" => Comparison::Less,
            "LESS_EQUAL" => Comparison::LessOrEqual,
            _ => Comparison::Equal,
        };
        let id = match (o.name.as_str(), &ids[..]) {
            ("SELECT" | "SELECT_V2", &[condition, a, b]) => select(to, condition, a, b)?,
            ("NOT_EQUAL", &[a, b]) => {
                let equal = compare(to, comparison, a, b)?;
                inverse(to, equal)?
            }
            (_, &[a, b]) => compare(to, comparison, a, b)?,
            _ => return Err(format!("it has {} operands", ids.len())),
        };
        Ok(self.value(id, first))
    }

    fn other(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        let value = x.get(0)?.clone();
        let rank = value.shape.len();
        let id = match o.name.as_str() {
            "LOGICAL_NOT" => inverse(&mut At { graph: &mut self.graph, node: n }, value.id)?,
            "SIGN" => sign(&mut At { graph: &mut self.graph, node: n }, value.id)?,
            "SQUARE" => self.emit(n, Op::Binary(Binary::Mul), &[value.id, value.id])?,
            "ZEROS_LIKE" => self.with_scalar(n, Binary::Mul, value.id, 0.0)?,
            "RSQRT" => self.emit(n, Op::Unary(Unary::Power(-0.5)), &[value.id])?,
            "L2_NORMALIZATION" => {
                let value = self.ordered(n, &value, true)?;
                let shape = self.graph.shape(value.id);
                if !matches!(shape.len(), 2 | 4) {
                    return Err(format!("the norm of {shape:?}"));
                }
                let id = unit(&mut At { graph: &mut self.graph, node: n }, value.id, 1)?;
                return Ok(self.value(id, true));
            }
            "PRELU" => return self.prelu(n, &value, x.get(1)?),
            "LOCAL_RESPONSE_NORMALIZATION" => {
                let value = self.ordered(n, &value, true)?;
                // LocalResponseNormalizationOptions: radius, bias, alpha, beta. Its alpha is that of one channel.
                let size = o.size(0, 0)?.saturating_mul(2).saturating_add(1);
                let (bias, alpha, beta) = (o.float(1)?, o.float(2)? * size as f32, o.float(3)?);
                let id = self.emit(n, Op::Lrn { size, alpha, beta, bias }, &[value.id])?;
                return Ok(self.value(id, true));
            }
            "SOFTMAX" | "LOG_SOFTMAX" => {
                let axis = value.axis(rank.checked_sub(1).ok_or("its input has no dimensions")?);
                let beta = if o.name == "SOFTMAX" { o.float(0)? } else { 1.0 };
                let scaled = if beta == 1.0 { value.id } else { self.with_scalar(n, Binary::Mul, value.id, beta)? };
                let softmax = self.emit(n, Op::Softmax { axis }, &[scaled])?;
                if o.name == "SOFTMAX" {
                    softmax
                } else {
                    self.emit(n, Op::Unary(Unary::Log), &[softmax])?
                }
            }
            _ => return Err("it is not supported with these operands".to_owned()),
        };
        Ok(Value { id, ..value })
    }

    fn prelu(&mut self, n: &str, value: &Value, slopes: &Value) -> Result<Value, String> {
        let values = self.numbers(slopes)?;
        let value = self.ordered(n, value, true)?;
        let channels = *value.shape.last().unwrap_or(&1);
        let id = if let [slope] = values[..] {
            self.emit(n, Op::Unary(Unary::LeakyRelu(slope)), &[value.id])?
        } else if values.len() == channels && slopes.shape.last() == Some(&channels) && value.shape.len() > 1 {
            let slopes = self.emit_constant(n, &[channels], values)?;
            self.emit(n, Op::PRelu, &[value.id, slopes])?
        } else {
            let positive = self.emit(n, Op::Unary(Unary::Relu), &[value.id])?;
            let negative = self.emit(n, Op::Unary(Unary::Clip(f32::NEG_INFINITY, 0.0)), &[value.id])?;
            let slopes = self.aligned(n, slopes, value.shape.len(), true)?;
            let negative = self.emit(n, Op::Binary(Binary::Mul), &[negative, slopes])?;
            self.emit(n, Op::Binary(Binary::Add), &[positive, negative])?
        };
        Ok(self.value(id, true))
    }

    /// Reductions, as poolings over all of the reduced dimensions.
    pub(super) fn reduce(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        let value = x.get(0)?;
        let (shape, rank) = (value.shape.clone(), value.shape.len());
        let list = self.integers(x.get(1)?)?;
        let mut axes = list.iter().map(|&k| axis(k, rank)).collect::<Result<Vec<_>, _>>()?;
        axes.sort_unstable();
        axes.dedup();
        let extent = |k: usize| if axes.contains(&k) { 1 } else { shape[k] };
        let kept: Vec<usize> = (0..rank).map(extent).collect();
        // ReducerOptions: whether the reduced dimensions stay, with the size 1.
        let to = if o.flag(0)? { kept.clone() } else { (0..rank).filter(|k| !axes.contains(k)).map(extent).collect() };
        let count: usize = axes.iter().map(|&k| shape[k]).product();
        let kind = match o.name.as_str() {
            "REDUCE_MAX" | "REDUCE_MIN" => PoolKind::Max,
            _ => PoolKind::Average { count_include_pad: true },
        };
        let negative = o.name == "REDUCE_MIN";
        let pool = |kernel| Op::Pool(Pool::new(kind, kernel));
        let sign = |reader: &mut Self, id: TensorId| {
            if negative {
                reader.emit(n, Op::Unary(Unary::Neg), &[id])
            } else {
                Ok(id)
            }
        };
        let mut value = if rank == 4 && axes.iter().all(|k| [1, 2].contains(k)) {
            let image = self.ordered(n, value, true)?;
            let window = |k: usize| if axes.contains(&k) { shape[k] } else { 1 };
            let from = sign(self, image.id)?;
            let id = if count > 1 { self.emit(n, pool([window(1), window(2)]), &[from])? } else { from };
            self.value(id, true)
        } else if rank == 4 && shape[0] == 1 && !axes.contains(&0) {
            let image = self.ordered(n, value, true)?;
            let first: Vec<usize> = [1, 2, 3].into_iter().filter(|&k| axes.contains(&[3, 1, 2][k - 1])).collect();
            let from = sign(self, image.id)?;
            let reduction = if kind == PoolKind::Max { Reduction::Max } else { Reduction::Mean };
            let id = reduce(&mut At { graph: &mut self.graph, node: n }, from, &first, reduction)?;
            self.value(id, true)
        } else {
            // The reduced dimensions are moved to the end, as lines.
            let perm: Vec<usize> = (0..rank).filter(|k| !axes.contains(k)).chain(axes.iter().copied()).collect();
            let moved = self.permuted(n, value, &perm)?;
            let moved = self.ordered(n, &moved, false)?;
            let outer: usize = kept.iter().product();
            let id = self.emit(n, Op::Reshape { shape: vec![1, outer, count, 1] }, &[moved.id])?;
            let id = sign(self, id)?;
            let id = self.emit(n, pool([count, 1]), &[id])?;
            let id = self.emit(n, Op::Reshape { shape: kept.clone() }, &[id])?;
            self.value(id, false)
        };
        value.id = sign(self, value.id)?;
        if o.name == "SUM" && count > 1 {
            value.id = self.with_scalar(n, Binary::Mul, value.id, count as f32)?;
        }
        self.reshape(n, &value, &to)
    }
}
