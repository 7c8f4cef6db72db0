// SPDX-License-Identifier: MIT OR Apache-2.0

//! What operator sets before 7 have otherwise: operands that are broadcast along an axis, inputs that are now attributes, and
//! operators that were removed. From ONNX's changelog of operators.

use super::convert::axis;
use super::proto;
use super::reader::{Node, Reader, TensorValue};
use super::value::types;
use crate::ir::{Binary, Op, TensorId, Unary};

/// Operators whose second operand operator sets before 7 broadcast along an axis.
const BROADCAST: &[&str] = &["Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"];

/// The element type's number of a name, as `Cast` has it before operator set 6.
fn number_of(name: &[u8]) -> Option<i32> {
    Some(match name {
        b"FLOAT" => types::FLOAT,
        b"UINT8" => types::UINT8,
        b"INT8" => types::INT8,
        b"UINT16" => types::UINT16,
        b"INT16" => types::INT16,
        b"INT32" => types::INT32,
        b"INT64" => types::INT64,
        b"BOOL" => types::BOOL,
        b"FLOAT16" => types::FLOAT16,
        b"DOUBLE" => types::DOUBLE,
        b"UINT32" => types::UINT32,
        b"UINT64" => types::UINT64,
        _ => return None,
    })
}

impl Node<'_> {
    /// The element type to which `Cast` converts.
    pub(super) fn target(&self) -> i32 {
        let Some(to) = self.attribute("to") else { return 0 };
        number_of(&to.s).unwrap_or(to.i as i32)
    }

    /// The power of a norm, which is a real number before operator set 2.
    pub(super) fn power(&self) -> Result<i64, String> {
        match self.attribute("p") {
            Some(p) if self.opset < 2 && p.i == 0 && p.f.fract() == 0.0 => Ok(p.f as i64),
            Some(p) if self.opset < 2 && p.i == 0 => {
                Err(format!("the norm with a power of {}; there are 1 and 2", p.f))
            }
            p => Ok(p.map_or(2, |p| p.i)),
        }
    }
}

impl Reader {
    /// The inputs of a node as operator set 7 has them: the second operand gets dimensions of 1 behind those along which it lies.
    pub(super) fn aligned(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<Option<Vec<TensorValue>>, String> {
        let broadcast = n.opset < 7
            && proto::is_standard(&n.proto.domain)
            && BROADCAST.contains(&n.proto.op_type.as_str())
            && n.int("broadcast", 0) != 0;
        let (Some(at), true) = (n.attribute("axis"), broadcast) else { return Ok(None) };
        let [a, b] = inputs else { return Err(format!("it has {} inputs, not 2", inputs.len())) };
        let (Some(whole), Some(own)) = (self.shape_of(a), self.shape_of(b)) else { return Ok(None) };
        if own.iter().all(|&extent| extent == 1) {
            return Ok(None);
        }
        let first = axis(at.i, whole.len())?;
        let behind = whole.len().checked_sub(first + own.len());
        let behind = behind.ok_or_else(|| format!("an operand {own:?} along axis {first} of {whole:?}"))?;
        let shape = [own, vec![1; behind]].concat();
        let b = match b {
            TensorValue::Real(id) => TensorValue::Real(self.reshape(n, *id, &shape)?),
            TensorValue::Integers(integers) => TensorValue::Integers(integers.reshape(shape)?),
            other => other.clone(),
        };
        Ok(Some(vec![a.clone(), b]))
    }

    /// The scales of an `Upsample` before operator set 7.
    pub(super) fn old_scales(n: &Node<'_>, rank: usize) -> Option<Vec<f32>> {
        let [height, width] = ["height_scale", "width_scale"].map(|name| n.attribute(name));
        let (height, width) = (height?.f, width?.f);
        (rank == 4).then(|| vec![1.0, 1.0, height, width])
    }

    /// A `Tile` before operator set 6, which has one count and its axis: the counts of all axes.
    pub(super) fn old_repeats(inputs: &[TensorValue], rank: usize) -> Result<Vec<i64>, String> {
        let one = |k: usize| match Self::list(inputs, k)?.as_deref() {
            Some(&[value]) => Ok(value),
            _ => Err(format!("its input {k} is not one constant integer")),
        };
        let mut repeats = vec![1; rank];
        repeats[axis(one(2)?, rank)?] = one(1)?;
        Ok(repeats)
    }

    /// Operators that operator sets had as experimental ones, and that exporters wrote: `ImageScaler`, `Affine`, `Scale`,
    /// `ScaledTanh`, `ParametricSoftplus`, `Crop`.
    pub(super) fn experimental(&mut self, n: &Node<'_>, x: TensorId) -> Result<TensorId, String> {
        let (alpha, beta) = (n.float("alpha", 1.0), n.float("beta", 1.0));
        match n.proto.op_type.as_str() {
            "ImageScaler" => {
                let channels = self.graph.shape(x).get(1).copied().unwrap_or(0);
                let bias = n.attribute("bias").map_or_else(|| vec![0.0; channels], |bias| bias.floats.clone());
                if bias.len() != channels {
                    return Err(format!("a bias of {} values for {channels} channels", bias.len()));
                }
                self.scale_and_shift(n, x, vec![n.float("scale", 1.0); channels], bias)
            }
            "Scale" => self.times(n, x, n.float("scale", 1.0)),
            "Affine" => {
                let x = self.times(n, x, alpha)?;
                let beta = self.emit_constant(n, &[], vec![n.float("beta", 0.0)])?;
                self.emit(n, Op::Binary(Binary::Add), &[x, beta])
            }
            "Crop" => {
                let shape = self.graph.shape(x).to_vec();
                let border = n.ints("border").map(|ints| super::convert::sizes(ints, "border")).transpose()?;
                let (&[batch, channels, height, width], Some(&[left, top, right, bottom])) =
                    (&shape[..], border.as_deref())
                else {
                    return Err(format!("the border {border:?} of {shape:?}"));
                };
                let scale = n.ints("scale").map(|ints| super::convert::sizes(ints, "scale")).transpose()?;
                let lengths = match scale.as_deref() {
                    Some(&[lines, columns]) => [lines, columns],
                    None => [
                        height.saturating_sub(top.saturating_add(bottom)),
                        width.saturating_sub(left.saturating_add(right)),
                    ],
                    Some(other) => return Err(format!("the scale {other:?}")),
                };
                if lengths.contains(&0)
                    || top.saturating_add(lengths[0]) > height
                    || left.saturating_add(lengths[1]) > width
                {
                    return Err(format!("{lengths:?} lines and columns from {top} and {left} on, of {shape:?}"));
                }
                let lengths = vec![batch, channels, lengths[0], lengths[1]];
                self.emit(n, Op::Slice { starts: vec![0, 0, top, left], steps: vec![1; 4], lengths }, &[x])
            }
            operator => {
                let function = if operator == "ScaledTanh" { Unary::Tanh } else { Unary::Softplus };
                let x = self.times(n, x, beta)?;
                let x = self.emit(n, Op::Unary(function), &[x])?;
                self.times(n, x, alpha)
            }
        }
    }

    /// A tensor times a number.
    fn times(&mut self, n: &Node<'_>, x: TensorId, by: f32) -> Result<TensorId, String> {
        if by.to_bits() == 1f32.to_bits() {
            return Ok(x);
        }
        let by = self.emit_constant(n, &[], vec![by])?;
        self.emit(n, Op::Binary(Binary::Mul), &[x, by])
    }
}
