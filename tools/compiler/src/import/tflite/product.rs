// SPDX-License-Identifier: MIT OR Apache-2.0

//! Products with matrices: with constant ones, convolutions of single pixels.

use super::super::at::At;
use super::super::product::product;
use super::file::Operator;
use super::reader::Reader;
use super::value::{Operands, Value};
use crate::ir::{Convolution, Op, TensorId};

impl Reader<'_> {
    /// The product of each line of a tensor with a constant matrix `[outputs, inputs]`.
    fn product(&mut self, n: &str, value: &Value, weights: &Value, bias: Option<TensorId>) -> Result<Value, String> {
        let (&[_, inputs], Some(_)) = (&weights.shape[..], self.graph.constant(weights.id)) else {
            return Err(format!("its matrix of the shape {:?} is not constant", weights.shape));
        };
        let Some((&last, outer)) = value.shape.split_last().filter(|(last, _)| **last == inputs) else {
            return Err(format!("the input {:?} for a matrix {:?}", value.shape, weights.shape));
        };
        // Lines become pixels.
        let batch = if outer.len() > 1 { outer[0] } else { 1 };
        let lines = outer.iter().product::<usize>() / batch;
        let pixels = self.reshape(n, value, &[batch, lines, 1, last])?;
        let pixels = self.ordered(n, &pixels, true)?;
        let weights = self.reshape(n, weights, &[weights.shape[0], 1, 1, inputs])?;
        let weights = self.ordered(n, &weights, true)?;
        let operands: Vec<_> = [pixels.id, weights.id].into_iter().chain(bias).collect();
        let id = self.emit(n, Op::Convolution(Convolution::pointwise()), &operands)?;
        let product = self.value(id, true);
        let to = [outer, &product.shape[3..]].concat();
        self.reshape(n, &product, &to)
    }

    pub(super) fn fully_connected(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        let (value, weights) = (x.get(0)?, x.get(1)?);
        // FullyConnectedOptions: activation, format of the weights, whether the dimensions are kept.
        if o.choice(1)? != 0 {
            return Err("weights in another order than that of a matrix are not supported".to_owned());
        }
        let &[_, inputs] = &weights.shape[..] else { return Err(format!("weights of the shape {:?}", weights.shape)) };
        let bias = self.bias(n, o, [0, 1, 2], x)?;
        if o.flag(2)? {
            return self.product(n, value, weights, bias);
        }
        let elements: usize = value.shape.iter().product();
        if !elements.is_multiple_of(inputs) {
            return Err(format!("the input {:?} for a matrix {:?}", value.shape, weights.shape));
        }
        let flat = self.reshape(n, value, &[elements / inputs, inputs])?;
        self.product(n, &flat, weights, bias)
    }

    pub(super) fn batch_product(&mut self, o: &Operator<'_>, n: &str, x: &Operands) -> Result<Value, String> {
        let (a, b) = (x.get(0)?, x.get(1)?);
        let (outer, rank) = (b.shape.len().saturating_sub(2), a.shape.len());
        if [a, b].iter().all(|value| value.shape.len() > 1 && self.graph.constant(value.id).is_none()) {
            let [a, b] = [(a, o.flag(0)?), (b, o.flag(1)?)].map(|(value, turned)| {
                let value = self.ordered(n, value, false)?;
                let mut perm: Vec<usize> = (0..value.shape.len()).collect();
                let last = perm.len() - 1;
                perm.swap(last - usize::from(turned), last);
                self.transpose(n, value.id, &perm)
            });
            let y = product(&mut At { graph: &mut self.graph, node: n }, a?, b?)?;
            return Ok(self.value(y, false));
        }
        // BatchMatMulOptions: whether each operand is transposed.
        if o.flag(0)? || rank < 2 || b.shape.len() < 2 || b.shape[..outer].iter().any(|&extent| extent != 1) {
            return Err(format!("the product of {:?} and {:?} is not supported", a.shape, b.shape));
        }
        if self.graph.constant(b.id).is_none() {
            return Err(format!("a constant {:?} by a matrix {:?}", a.shape, b.shape));
        }
        let matrix = self.reshape(n, b, &b.shape[outer..])?;
        let matrix = if o.flag(1)? { matrix } else { self.permuted(n, &matrix, &[1, 0])? };
        self.product(n, a, &matrix, None)
    }
}
