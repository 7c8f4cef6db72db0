// SPDX-License-Identifier: MIT OR Apache-2.0

//! Poolings.

use super::convert::sizes;
use super::product::{with_height, Windows};
use super::reader::{Node, Reader, TensorValue};
use crate::ir::{Binary, Convolution, Op, PadMode, Padding, Pool, PoolKind, TensorId, Unary};

impl Reader {
    pub(super) fn pool(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let x = self.real(n, inputs, 0)?;
        let rank = self.spatial(x)?;
        let mut x = self.reshape(n, x, &with_height(self.graph.shape(x)))?;
        let power = if n.proto.op_type == "LpPool" { Some(n.power()?) } else { None };
        x = match power {
            None => x,
            Some(1) => self.emit(n, Op::Unary(Unary::Abs), &[x])?,
            Some(2) => self.emit(n, Op::Binary(Binary::Mul), &[x, x])?,
            Some(other) => return Err(format!("the norm with a power of {other}; there are 1 and 2")),
        };
        let size = [self.graph.shape(x)[2], self.graph.shape(x)[3]];
        let operator = n.proto.op_type.as_str();
        let max = operator.ends_with("MaxPool");
        let average = |count_include_pad| if max { PoolKind::Max } else { PoolKind::Average { count_include_pad } };
        if operator.starts_with("Global") {
            let pool = Pool::new(average(true), size);
            let y = self.emit(n, Op::Pool(pool), &[x])?;
            return self.without_height(n, y, rank);
        }
        let kernel = sizes(n.ints("kernel_shape").ok_or("it has no kernel_shape")?, "kernel_shape")?;
        let mut windows = Windows::read(n, &kernel, rank)?;
        windows.resolve(size)?;
        let include = n.int("count_include_pad", 0) != 0 || power.is_some();
        let given = windows.padding();
        let mut further = false;
        if n.int("ceil_mode", 0) != 0 {
            for axis in 0..2 {
                let (before, after) = windows.pads[axis];
                let (stride, kernel) = (windows.stride[axis], windows.extent(axis));
                let whole = size[axis].saturating_add(before).saturating_add(after);
                let Some(rest) = whole.checked_sub(kernel).filter(|_| stride > 0) else { continue };
                let mut outputs = rest.div_ceil(stride) + 1;
                // A window that starts in the padding after the input is omitted.
                if (outputs - 1).saturating_mul(stride) >= size[axis].saturating_add(before) {
                    outputs -= 1;
                }
                let end = (outputs - 1).saturating_mul(stride).saturating_add(kernel);
                let beyond = end.saturating_sub(whole);
                windows.pads[axis].1 = after.saturating_add(beyond);
                further |= beyond > 0;
            }
        }
        let mut padding = windows.padding();
        let mut count_include_pad = include || padding == Padding::default();
        if include && further && !max && power.is_none() {
            // The divisor counts the padding that the model gives, but not the padding that rounding up the size adds.
            let before = vec![0, 0, given.top, given.left];
            let after = vec![0, 0, given.bottom, given.right];
            if given != Padding::default() {
                x = self.emit(n, Op::Pad { mode: PadMode::Constant(0.0), before, after }, &[x])?;
            }
            let (bottom, right) = (padding.bottom - given.bottom, padding.right - given.right);
            padding = Padding { bottom, right, ..Padding::default() };
            count_include_pad = false;
        }
        let dilated = windows.dilation != [1, 1];
        let y = if !dilated || max || !count_include_pad {
            let (kernel, stride, dilation) = (windows.kernel, windows.stride, windows.dilation);
            let kind = average(count_include_pad);
            self.emit(n, Op::Pool(Pool { kind, kernel, stride, dilation, padding }), &[x])?
        } else {
            // The mean of elements that are apart is a convolution with equal weights.
            let (channels, [rows, columns]) = (self.graph.shape(x)[1], windows.kernel);
            let weights = super::value::count(&[channels, rows, columns])?;
            self.graph.budget.spend(4 * weights as u64, 0)?;
            let weights = vec![1.0 / (rows * columns) as f32; weights];
            let weights = self.emit_constant(n, &[channels, 1, rows, columns], weights)?;
            let (kernel, stride, dilation) = (windows.kernel, windows.stride, windows.dilation);
            let op = Convolution { group: channels, kernel, stride, dilation, padding };
            self.emit(n, Op::Convolution(op), &[x, weights])?
        };
        let y = match power {
            None => y,
            Some(power) => {
                let count = (windows.kernel[0] * windows.kernel[1]) as f32;
                let factor = self.emit_constant(n, &[], vec![count])?;
                let sum = self.emit(n, Op::Binary(Binary::Mul), &[y, factor])?;
                if power == 1 {
                    sum
                } else {
                    self.emit(n, Op::Unary(Unary::Sqrt), &[sum])?
                }
            }
        };
        self.without_height(n, y, rank)
    }
}
