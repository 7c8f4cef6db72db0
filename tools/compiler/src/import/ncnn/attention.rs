// SPDX-License-Identifier: MIT OR Apache-2.0

//! Products of matrices, and attention. A blob of two dimensions has rows.

use super::reader::{Layer, Reader};
use crate::import::at::At;
use crate::import::product::{product, transposed};
use crate::ir::{Binary, Convolution, Op, TensorId};

/// Weights of a layer over rows: for each output, one per column of the input.
struct Rows {
    outputs: usize,
    weights: Vec<f32>,
    bias: Option<Vec<f32>>,
}

/// A matrix of so many columns, with rows and columns exchanged.
fn exchanged(values: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| values.iter().skip(column).step_by(columns).copied()).collect()
}

impl Reader<'_> {
    /// A layer over the columns of each row. `weights` are a convolution's.
    pub(super) fn each_row(&mut self, l: &Layer<'_>, x: TensorId, weights: &[TensorId]) -> Result<TensorId, String> {
        let &[_, rows, columns] = self.graph.shape(x) else {
            return Err(format!("the input {:?} has no rows", self.graph.shape(x)));
        };
        let mut to = At { graph: &mut self.graph, node: l.name };
        let x = transposed(&mut to, x)?;
        let x = to.emit(Op::Reshape { shape: vec![1, columns, 1, rows] }, &[x])?;
        let y = to.emit(Op::Convolution(Convolution::pointwise()), &[&[x], weights].concat())?;
        let outputs = to.graph.shape(y)[1];
        let y = to.emit(Op::Reshape { shape: vec![1, outputs, rows] }, &[y])?;
        transposed(&mut to, y)
    }

    fn rows(&mut self, l: &Layer<'_>, x: TensorId, of: Rows) -> Result<TensorId, String> {
        let Rows { outputs, weights, bias } = of;
        let columns = weights.len() / outputs.max(1);
        let mut ids = vec![self.constant(l, &[outputs, columns, 1, 1], weights)?];
        if let Some(bias) = bias {
            ids.push(self.constant(l, &[outputs], bias)?);
        }
        self.each_row(l, x, &ids)
    }

    fn exchange(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        transposed(&mut At { graph: &mut self.graph, node: l.name }, x)
    }

    /// The product of two matrices, of which one may be constant.
    fn both(&mut self, l: &Layer<'_>, a: TensorId, b: TensorId) -> Result<TensorId, String> {
        let constant = |id: TensorId| self.graph.constant(id).cloned().filter(|_| self.graph.shape(id).len() == 3);
        let columns = |id: TensorId| self.graph.shape(id)[2];
        if let Some(values) = constant(b) {
            let outputs = columns(b);
            return self.rows(l, a, Rows { outputs, weights: exchanged(&values, outputs), bias: None });
        }
        if let Some(values) = constant(a) {
            let outputs = self.graph.shape(a)[1];
            let turned = self.exchange(l, b)?;
            let y = self.rows(l, turned, Rows { outputs, weights: values.to_vec(), bias: None })?;
            return self.exchange(l, y);
        }
        product(&mut At { graph: &mut self.graph, node: l.name }, a, b)
    }

    pub(super) fn mat_mul(&mut self, l: &Layer<'_>, inputs: &[TensorId]) -> Result<TensorId, String> {
        let &[a, mut b] = inputs else { return Err(format!("{} inputs, not two", inputs.len())) };
        let [shape_a, shape_b] = [a, b].map(|id| self.graph.shape(id).to_vec());
        if shape_a.len() < 3 || shape_b.len() < 3 {
            return Err(format!("a product of {shape_a:?} and {shape_b:?}"));
        }
        if l.int(0, 0) != 0 {
            b = self.exchange(l, b)?;
        }
        self.both(l, a, b)
    }

    /// alpha * (A B + beta * C)
    pub(super) fn gemm(&mut self, l: &Layer<'_>, inputs: &[TensorId]) -> Result<TensorId, String> {
        if l.int(18, 0) != 0 || l.int(11, 0) != 0 {
            return Err("weights in blocks, or an output with dimensions of 1".to_owned());
        }
        let [m, n, k] = [l.size(7, 0)?, l.size(8, 0)?, l.size(9, 0)?];
        let mut left = inputs.iter().copied();
        let mut factor = |reader: &mut Self, fixed: i32, turned: i32, [rows, columns]: [usize; 2]| {
            let turn = l.int(turned, 0) != 0;
            let x = if l.int(fixed, 0) != 0 {
                let shape = if turn { [1, columns, rows] } else { [1, rows, columns] };
                let values = reader.weights.reals(rows.checked_mul(columns))?;
                reader.constant(l, &shape, values)?
            } else {
                left.next().ok_or("it has too few inputs")?
            };
            if turn {
                reader.exchange(l, x)
            } else {
                Ok(x)
            }
        };
        let (a, b) = (factor(self, 4, 2, [m, k])?, factor(self, 5, 3, [k, n])?);
        let [shape_a, shape_b] = [a, b].map(|id| self.graph.shape(id).to_vec());
        let (&[1, m, _], &[1, _, n]) = (&shape_a[..], &shape_b[..]) else {
            return Err(format!("a product of {shape_a:?} and {shape_b:?}"));
        };
        let addend = match (l.int(6, 0), l.int(10, 0)) {
            (0, _) => left.next().map(|c| (c, self.graph.shape(c).to_vec())),
            (_, -1) => None,
            (_, kind) => {
                let shape = match kind {
                    0 => [1, 1, 1],
                    1 | 2 => [1, m, 1],
                    3 => [1, m, n],
                    4 => [1, 1, n],
                    _ => return Err(format!("the addend's form {kind}")),
                };
                let values = self.weights.reals(Some(shape.iter().product()))?;
                Some((self.constant(l, &shape, values)?, shape.to_vec()))
            }
        };
        let mut y = self.both(l, a, b)?;
        if let Some((c, shape)) = addend {
            // A vector is one per column if it fits there.
            let c = match shape[..] {
                [1, length] if length == n => self.reshaped(l, c, &[1, 1, n])?,
                [1, length] if length == m => self.reshaped(l, c, &[1, m, 1])?,
                _ => c,
            };
            let c = self.linear(l, c, l.float(1, 1.0), 0.0)?;
            y = self.emit(l, Op::Binary(Binary::Add), &[y, c])?;
        }
        y = self.linear(l, y, l.float(0, 1.0), 0.0)?;
        if l.int(14, 0) != 0 {
            self.exchange(l, y)
        } else {
            Ok(y)
        }
    }

    pub(super) fn attention(&mut self, l: &Layer<'_>, inputs: &[TensorId]) -> Result<TensorId, String> {
        if l.int(7, 0) != 0 || l.int(18, 0) != 0 {
            return Err("cached keys, or weights in blocks".to_owned());
        }
        let (width, heads, masked) = (l.size(0, 0)?, l.size(1, 1)?, l.int(5, 0) != 0);
        let count = l.size(2, 0)?;
        if width == 0 || heads == 0 || width % heads != 0 || count % width != 0 {
            return Err(format!("{width} columns in {heads} heads, with {count} weights"));
        }
        let (tensors, mask) = match inputs {
            [tensors @ .., mask] if masked => (tensors, Some(*mask)),
            _ => (inputs, None),
        };
        let [query, key, value] = match *tensors {
            [all] => [all; 3],
            [query, other] => [query, other, other],
            [query, key, value] => [query, key, value],
            _ => return Err(format!("{} inputs", inputs.len())),
        };
        let each = width / heads;
        let scale = l.float(6, 1.0 / (each as f32).sqrt());
        let part = |reader: &mut Self, x: TensorId, columns: usize, factor: f32, perm: [usize; 4]| {
            let mut of = reader.layer_of_rows(width, columns)?;
            let numbers = of.weights.iter_mut().chain(of.bias.iter_mut().flatten());
            numbers.for_each(|number| *number *= factor);
            let y = reader.rows(l, x, of)?;
            let rows = reader.graph.shape(y)[1];
            let y = reader.reshaped(l, y, &[1, rows, heads, each])?;
            reader.emit(l, Op::Transpose { perm: perm.to_vec() }, &[y])
        };
        let queries = part(self, query, count / width, scale, [0, 2, 1, 3])?;
        let keys = part(self, key, l.size(3, width)?, 1.0, [0, 2, 3, 1])?;
        let values = part(self, value, l.size(4, width)?, 1.0, [0, 2, 1, 3])?;
        let last = self.layer_of_rows(count / width, width)?;
        let mut scores = product(&mut At { graph: &mut self.graph, node: l.name }, queries, keys)?;
        if let Some(mask) = mask {
            scores = self.emit(l, Op::Binary(Binary::Add), &[scores, mask])?;
        }
        let shares = self.emit(l, Op::Softmax { axis: 3 }, &[scores])?;
        let y = product(&mut At { graph: &mut self.graph, node: l.name }, shares, values)?;
        let rows = self.graph.shape(y)[2];
        let y = self.emit(l, Op::Transpose { perm: vec![0, 2, 1, 3] }, &[y])?;
        let y = self.reshaped(l, y, &[1, rows, width])?;
        self.rows(l, y, last)
    }

    /// Reads weights and a bias.
    fn layer_of_rows(&mut self, outputs: usize, columns: usize) -> Result<Rows, String> {
        let weights = self.weights.reals(outputs.checked_mul(columns))?;
        Ok(Rows { outputs, weights, bias: Some(self.weights.plain(outputs)?) })
    }
}
