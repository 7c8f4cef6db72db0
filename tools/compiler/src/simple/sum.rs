// SPDX-License-Identifier: MIT OR Apache-2.0

//! A sum of two tensors: SDP alone, whose X1 adds an operand an element, from memory to memory.

use nvdla_uapi::desc::{self, Activation, SdpOperandMode, SdpOperation};
use nvdla_uapi::reg::values::{AluAlgorithm, Precision};

use super::convolution::converter;
use super::Lowering;
use crate::error::Error;
use crate::graph::NodeId;
use crate::program::{Kind, Operation};
use crate::quantize::Factor;

impl Lowering<'_> {
    pub(super) fn sum(&mut self, id: NodeId, other: NodeId) -> Result<(), Error> {
        let layer = self.graph.node(id).name.clone();
        let (from, source) = self.feature_source(id)?;
        let operands =
            *self.made.get(&other).ok_or_else(|| Error::Network(format!("layer \"{layer}\" has no second operand")))?;
        self.check_feature(id, operands)?;
        let relu = self.fused_relu(id);
        let result = relu.unwrap_or(id);
        let (a, b) = (self.scales.of(from), self.scales.of(other));
        if a != b || a.zero != 0.0 {
            let reason = format!(
                "its operands must have one scale and no mean: steps of {:e} and {:e}, zeros {} and {}",
                a.scale, b.scale, a.zero, b.zero
            );
            return Err(Error::unsupported(&layer, reason));
        }
        let factor = Factor::nearest(&layer, a.scale / self.scales.of(result).scale)?;
        let x1 = desc::SdpSubUnit {
            enable: true,
            alu_type: AluAlgorithm::Sum,
            op_type: SdpOperation::Add,
            mode: SdpOperandMode::PerPoint,
            act: if relu.is_some() { Activation::Relu } else { Activation::None },
            precision: Precision::Int8,
            mul_operand: 1,
            ..Default::default()
        };
        let sdp = desc::SdpOp {
            lut_index: -1,
            out_cvt: converter(factor.scale, factor.truncate),
            batch_num: 1,
            x1_op: Some(x1),
            ..Default::default()
        };
        let (source, operands) = (self.program.whole(source), self.program.whole(operands));
        let target = self.output(result)?;
        let target = self.program.whole(target);
        let kind = Kind::Sdp { op: Box::new(sdp), source, operands: Some(operands), target };
        self.program.push(Operation { layer, kind });
        Ok(())
    }
}
