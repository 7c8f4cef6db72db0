// SPDX-License-Identifier: MIT OR Apache-2.0

//! A ReLU that no convolution takes in: SDP alone, from memory to memory.

use nvdla_uapi::desc::{self, Activation, SdpOperandMode, SdpOperation};
use nvdla_uapi::reg::values::{AluAlgorithm, Precision};

use super::convolution::converter;
use super::Lowering;
use crate::error::Error;
use crate::graph::NodeId;
use crate::program::{Kind, Operation};
use crate::quantize::Factor;

impl Lowering<'_> {
    pub(super) fn relu(&mut self, id: NodeId) -> Result<(), Error> {
        let layer = self.graph.node(id).name.clone();
        let (from, source) = self.feature_source(id)?;
        let (input, output) = (self.scales.of(from), self.scales.of(id));
        let factor = Factor::nearest(&layer, input.scale / output.scale)?;
        // What stands for zero becomes 0, where ReLU bends.
        let x1 = desc::SdpSubUnit {
            enable: true,
            alu_type: AluAlgorithm::Sum,
            op_type: SdpOperation::Add,
            mode: SdpOperandMode::PerLayer,
            act: Activation::Relu,
            precision: Precision::Int16,
            alu_operand: -(input.zero.round() as i32),
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
        let source = self.program.whole(source);
        let target = self.output(id)?;
        let target = self.program.whole(target);
        let kind = Kind::Sdp { op: Box::new(sdp), source, operands: None, target };
        self.program.push(Operation { layer, kind });
        Ok(())
    }
}
