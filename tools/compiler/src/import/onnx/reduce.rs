// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reductions.

use super::convert::axes;
use super::reader::{Node, Reader, TensorValue};
use crate::import::at::At;
use crate::import::reduce::{reduce, Reduction};
use crate::ir::TensorId;

impl Reader {
    pub(super) fn reduce(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<TensorId, String> {
        let x = self.real(n, inputs, 0)?;
        let shape = self.graph.shape(x).to_vec();
        let list = Self::attribute_or_list(n, "axes", inputs, 1)?.unwrap_or_default();
        let reduction = match (n.proto.op_type.as_str(), n.power()?) {
            ("GlobalLpPool", 1) | ("ReduceL1", _) => Reduction::L1,
            ("GlobalLpPool", 2) | ("ReduceL2", _) => Reduction::L2,
            ("GlobalLpPool", power) => return Err(format!("the norm with a power of {power}; there are 1 and 2")),
            ("ReduceMax", _) => Reduction::Max,
            ("ReduceMin", _) => Reduction::Min,
            ("ReduceMean", _) => Reduction::Mean,
            ("ReduceSum", _) => Reduction::Sum,
            ("ReduceSumSquare", _) => Reduction::SumSquare,
            ("ReduceLogSum", _) => Reduction::LogSum,
            ("ReduceLogSumExp", _) => Reduction::LogSumExp,
            _ => return Err("it is supported for constants only".to_owned()),
        };
        let reduced = match list[..] {
            _ if n.proto.op_type == "GlobalLpPool" => (2..shape.len()).collect(),
            [] if n.int("noop_with_empty_axes", 0) != 0 => Vec::new(),
            [] => (0..shape.len()).collect(),
            _ => axes(&list, shape.len())?,
        };
        let y = reduce(&mut At { graph: &mut self.graph, node: &n.name }, x, &reduced, reduction)?;
        let keep = n.int("keepdims", 1) != 0;
        let extent = |axis: usize| if reduced.contains(&axis) { 1 } else { shape[axis] };
        let to: Vec<usize> = (0..shape.len()).filter(|axis| keep || !reduced.contains(axis)).map(extent).collect();
        self.reshape(n, y, &to)
    }
}
