// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reductions, as poolings over all of the reduced dimensions.

use super::convert::axes;
use super::reader::{Node, Reader, TensorValue};
use crate::ir::{Binary, Convolution, Op, Padding, Pool, PoolKind, TensorId, Unary};
use crate::target::LARGEST_KERNEL;

impl Reader {
    pub(super) fn reduce(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let mut x = self.real(n, inputs, 0)?;
        let shape = self.graph.shape(x).to_vec();
        let list = Self::attribute_or_list(n, "axes", inputs, 1)?.unwrap_or_default();
        let operator = match (n.proto.op_type.as_str(), n.int("p", 2)) {
            ("GlobalLpPool", 1) => "ReduceL1",
            ("GlobalLpPool", 2) => "ReduceL2",
            ("GlobalLpPool", power) => return Err(format!("the norm with a power of {power}; there are 1 and 2")),
            (operator, _) => operator,
        };
        let reduced = match list[..] {
            _ if n.proto.op_type == "GlobalLpPool" => (2..shape.len()).collect(),
            [] if n.int("noop_with_empty_axes", 0) != 0 => Vec::new(),
            [] => (0..shape.len()).collect(),
            _ => axes(&list, shape.len())?,
        };
        let count: usize = reduced.iter().map(|&axis| shape[axis]).product();
        let kind = match operator {
            "ReduceMax" | "ReduceMin" => PoolKind::Max,
            "ReduceMean" | "ReduceSum" | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceL1" | "ReduceL2"
            | "ReduceSumSquare" => PoolKind::Average { count_include_pad: true },
            _ => return Err("it is supported for constants only".to_owned()),
        };
        // exp of a difference from the greatest value is not too large for half precision.
        let extent = |axis: usize| if reduced.contains(&axis) { 1 } else { shape[axis] };
        let greatest = match operator {
            "ReduceLogSumExp" if count > 1 => {
                let greatest = self.reduce_by_pooling(n, x, &reduced, PoolKind::Max)?;
                let kept: Vec<usize> = (0..shape.len()).map(extent).collect();
                Some(self.reshape(n, greatest, &kept)?)
            }
            _ => None,
        };
        x = match operator {
            "ReduceLogSumExp" => {
                if let Some(greatest) = greatest {
                    x = self.emit(n, Op::Binary(Binary::Sub), &[x, greatest])?;
                }
                self.emit(n, Op::Unary(Unary::Exp), &[x])?
            }
            "ReduceMin" => self.emit(n, Op::Unary(Unary::Neg), &[x])?,
            "ReduceL1" => self.emit(n, Op::Unary(Unary::Abs), &[x])?,
            "ReduceL2" | "ReduceSumSquare" => self.emit(n, Op::Binary(Binary::Mul), &[x, x])?,
            _ => x,
        };
        if count > 1 {
            x = self.reduce_by_pooling(n, x, &reduced, kind)?;
        }
        if count > 1 && !matches!(operator, "ReduceMax" | "ReduceMin" | "ReduceMean") {
            let factor = self.emit_constant(n, &[], vec![count as f32])?;
            x = self.emit(n, Op::Binary(Binary::Mul), &[x, factor])?;
        }
        x = match operator {
            "ReduceMin" => self.emit(n, Op::Unary(Unary::Neg), &[x])?,
            "ReduceL2" => self.emit(n, Op::Unary(Unary::Sqrt), &[x])?,
            "ReduceLogSum" | "ReduceLogSumExp" => self.emit(n, Op::Unary(Unary::Log), &[x])?,
            _ => x,
        };
        if let Some(greatest) = greatest {
            x = self.emit(n, Op::Binary(Binary::Add), &[x, greatest])?;
        }
        let keep = n.int("keepdims", 1) != 0;
        let left = |axis: &usize| keep || !reduced.contains(axis);
        let shape: Vec<usize> = (0..shape.len()).filter(left).map(extent).collect();
        self.reshape(n, x, &shape)
    }

    fn reduce_by_pooling(
        &mut self,
        n: &Node<'_>,
        x: TensorId,
        reduced: &[usize],
        kind: PoolKind,
    ) -> Result<TensorId, String> {
        let shape = self.graph.shape(x).to_vec();
        let pool = |kernel| Op::Pool(Pool { kind, kernel, stride: [1, 1], padding: Padding::default() });
        if shape.len() == 4 && reduced.iter().all(|&axis| axis >= 2) {
            let extent = |axis: usize| if reduced.contains(&axis) { shape[axis] } else { 1 };
            return self.emit(n, pool([extent(2), extent(3)]), &[x]);
        }
        if shape.len() == 4 && shape[0] == 1 && reduced.contains(&1) && matches!(kind, PoolKind::Average { .. }) {
            return self.mean_of_channels(n, x, reduced);
        }
        // The reduced dimensions are moved to the end, as lines and columns.
        let kept: Vec<usize> = (0..shape.len()).filter(|axis| !reduced.contains(axis)).collect();
        let perm: Vec<usize> = kept.iter().chain(reduced).copied().collect();
        let x = self.transpose(n, x, &perm)?;
        let outer: usize = kept.iter().map(|&axis| shape[axis]).product();
        let columns = if reduced.len() > 1 { reduced.last().map_or(1, |&axis| shape[axis]) } else { 1 };
        let lines: usize = reduced.iter().map(|&axis| shape[axis]).product::<usize>() / columns;
        let x = self.reshape(n, x, &[1, outer, lines, columns])?;
        self.emit(n, pool([lines, columns]), &[x])
    }

    /// The mean over the channels, and over lines and columns if these are reduced too: a convolution with equal weights.
    fn mean_of_channels(&mut self, n: &Node<'_>, mut x: TensorId, reduced: &[usize]) -> Result<TensorId, String> {
        let shape = self.graph.shape(x).to_vec();
        let mut kernel = [2, 3].map(|axis| if reduced.contains(&axis) { shape[axis] } else { 1 });
        // Kernels that the hardware has no size for would be computed in parts, whose sums are rounded.
        if kernel.iter().any(|&side| side > LARGEST_KERNEL) {
            let kind = PoolKind::Average { count_include_pad: true };
            let pool = Pool { kind, kernel, stride: [1, 1], padding: Padding::default() };
            x = self.emit(n, Op::Pool(pool), &[x])?;
            kernel = [1, 1];
        }
        let count = shape[1] * kernel[0] * kernel[1];
        let weights = vec![1.0 / count as f32; count];
        let weights = self.emit_constant(n, &[1, shape[1], kernel[0], kernel[1]], weights)?;
        let (stride, dilation, padding) = ([1, 1], [1, 1], Padding::default());
        self.emit(n, Op::Convolution(Convolution { group: 1, kernel, stride, dilation, padding }), &[x, weights])
    }
}
