// SPDX-License-Identifier: MIT OR Apache-2.0

//! Normalisations.

use super::convert::{axes, axis};
use super::reader::{Node, Reader, TensorValue};
use crate::import::at::At;
use crate::import::normalize::{normalize, scaled, unit, Over, TINY};
use crate::ir::{Op, TensorId};

impl Reader {
    /// A normalisation. Layer normalisation has its mean and the reciprocal of its deviation as further outputs.
    pub(super) fn normalization(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<Vec<TensorId>, String> {
        let mut x = self.real(n, inputs, 0)?;
        let given = self.graph.shape(x).to_vec();
        let epsilon = n.float("epsilon", 1e-5);
        let [scale, bias] = [self.optional(n, inputs, 1)?, self.optional(n, inputs, 2)?];
        let operator = n.proto.op_type.as_str();
        if given.len() < 2 {
            return Err(format!("{given:?} has no channels"));
        }
        let channels = given[1];
        match operator {
            "InstanceNormalization" | "GroupNormalization" => {
                let mut groups = channels;
                if operator == "GroupNormalization" {
                    groups = usize::try_from(n.int("num_groups", 1)).unwrap_or(0);
                } else if let Some(whole) = self.groups_of(x) {
                    // PyTorch's exporter writes the normalisation of groups as one of the instances of a reshaped tensor.
                    x = whole;
                }
                let shape = self.graph.shape(x).to_vec();
                if groups == 0 || !shape[1].is_multiple_of(groups) {
                    return Err(format!("{groups} groups of {} channels", shape[1]));
                }
                let mut to = At { graph: &mut self.graph, node: &n.name };
                let mut y = normalize(&mut to, x, Over::Groups(groups), true, epsilon)?.y;
                let mut operands = [None; 2];
                for (operand, id) in operands.iter_mut().zip([scale, bias]) {
                    let Some(id) = id else { continue };
                    let mut own = vec![1; shape.len()];
                    own[1] = shape[1];
                    let Some(values) = self.graph.constant(id).cloned() else {
                        *operand = Some(self.reshape(n, id, &own)?);
                        continue;
                    };
                    if values.is_empty() || !shape[1].is_multiple_of(values.len()) {
                        return Err(format!("{} scales of {} channels", values.len(), shape[1]));
                    }
                    // One per channel, or one per group.
                    let each = shape[1] / values.len();
                    let all: Vec<f32> = values.iter().flat_map(|&value| std::iter::repeat_n(value, each)).collect();
                    *operand = Some(self.emit_constant(n, &own, all)?);
                }
                let mut to = At { graph: &mut self.graph, node: &n.name };
                y = scaled(&mut to, y, operands[0], operands[1])?;
                Ok(vec![self.reshape(n, y, &given)?])
            }
            "MeanVarianceNormalization" => {
                let list = n.ints("axes").map_or(vec![0, 2, 3], <[i64]>::to_vec);
                let over = axes(&list, given.len())?;
                let mut to = At { graph: &mut self.graph, node: &n.name };
                Ok(vec![normalize(&mut to, x, Over::Axes(&over), true, TINY)?.y])
            }
            "LpNormalization" => {
                let along = axis(n.int("axis", -1), given.len())?;
                if n.int("p", 2) != 2 {
                    return Err(format!("the norm with a power of {}", n.int("p", 2)));
                }
                Ok(vec![unit(&mut At { graph: &mut self.graph, node: &n.name }, x, along)?])
            }
            _ => {
                let over: Vec<usize> = (axis(n.int("axis", -1), given.len())?..given.len()).collect();
                let centred = operator == "LayerNormalization";
                let mut to = At { graph: &mut self.graph, node: &n.name };
                let made = normalize(&mut to, x, Over::Axes(&over), centred, epsilon)?;
                let y = scaled(&mut to, made.y, scale, bias)?;
                Ok([y].into_iter().chain(made.mean).chain([made.inverse]).collect())
            }
        }
    }

    /// The tensor `[N, C, …]` that a reshape gives as `[N, G, …]` with fewer, longer rows.
    fn groups_of(&self, x: TensorId) -> Option<TensorId> {
        let node = self.graph.node(self.graph.producer(x)?);
        let (Op::Reshape { .. }, from) = (&node.op, node.inputs[0]) else { return None };
        let (whole, rows) = (self.graph.shape(from), self.graph.shape(x));
        let fits = whole.len() >= 3 && rows.len() >= 3 && whole[0] == rows[0] && rows[1] > 0;
        (fits && whole[1] > rows[1] && whole[1].is_multiple_of(rows[1])).then_some(from)
    }
}
