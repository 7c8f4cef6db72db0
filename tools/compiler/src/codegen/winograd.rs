// SPDX-License-Identifier: MIT OR Apache-2.0

//! The choice between direct convolution and Winograd's mode, by estimated time.
//!
//! Winograd's mode does 4 multiplications where direct convolution of 3 x 3 kernels does 9. But its weights have 16/9 of the
//! bytes, its output is whole tiles of 4 x 4, and PDP cannot take it on the fly. Measured on five convolutions of a trained
//! residual network, it reduces the signal-to-noise ratio by 3 to 5 dB of 75 in fp16, and by 7 to 11 dB of 45 in int8, because
//! the data transform keeps 8 of 10 bits.

use nvdla_estimate::{Cube as Volume, PdpShape, SdpOperand, SdpShape};
use nvdla_uapi::desc::{MemoryType, SdpOperandMode};
use nvdla_uapi::layout::bytes;

use crate::codegen::lowering::Lowering;
use crate::net::step::Mode;
use crate::net::step::{Convolution, Kind, PostOp, Step};
use crate::options::Winograd;
use crate::schedule::program::Format;
use crate::target::TILE;

impl Lowering<'_> {
    /// Whether a step is a convolution that runs in Winograd's mode.
    pub(crate) fn winograd(&self, step: &Step, wanted: Winograd) -> bool {
        let Kind::Convolution(conv) = &step.kind else { return false };
        let [_, height, width] = self.placed.net.tensors[step.output].shape;
        let op = &conv.op;
        let possible = self.config.winograd
            && (op.kernel, op.stride, op.dilation, op.group) == ([3, 3], [1, 1], [1, 1], 1)
            && height.is_multiple_of(TILE)
            && width.is_multiple_of(TILE)
            && self.view(step.inputs[0]).format == Format::Feature;
        let narrow = !step.reads().chain([step.output]).any(|id| self.placed.net.tensors[id].wide);
        if !possible || !narrow || wanted == Winograd::Never {
            return false;
        }
        let [direct, winograd] = [Mode::Direct, Mode::Winograd].map(|mode| self.time(step, conv, mode));
        match (direct, winograd) {
            (_, None) => false,
            (None, _) => true,
            (Some(direct), Some(winograd)) => wanted == Winograd::Always || winograd < direct,
        }
    }

    /// The cycles of a convolution, and of a pooling that may take its output on the fly.
    fn time(&self, step: &Step, conv: &Convolution, mode: Mode) -> Option<u64> {
        let net = &self.placed.net;
        let (source, target) = (self.view(step.inputs[0]), self.view(step.output));
        let divisions = self.divisions(conv, &source, &target, mode);
        let parts =
            self.parts(&net.tensors[step.output].name, conv, &source, &target, mode, divisions.first()?).ok()?;
        let shapes = Self::shapes(&parts, mode);
        let volume =
            |channels, height, width| Volume { precision: self.precision, ..Volume::int8(channels, height, width) };
        let mut readers = net.steps.iter().filter(|reader| reader.reads().any(|read| read == step.output));
        let pooling = match (readers.next(), readers.next()) {
            (Some(Step { kind: Kind::Pool(pool), output, .. }), None) if !net.outputs.contains(&step.output) => {
                let [_, height, width] = net.tensors[*output].shape;
                let output = volume(target.map.extent, height, width);
                let input = volume(target.map.extent, target.height, target.width);
                let [kernel, stride] = [pool.kernel, pool.stride].map(|[y, x]| (y as u32, x as u32));
                Some(PdpShape::new(input, output, kernel, stride))
            }
            _ => None,
        };
        let flies = mode == Mode::Direct && shapes.len() == 1;
        let operand = |mode, bytes| Some(SdpOperand { mode, bytes, memory: MemoryType::Mc });
        let combines = step.post_ops.iter().any(|post| matches!(post, PostOp::With(..) | PostOp::Elements(..)));
        let written = self.cost.part_writes();
        let mut cycles = 0;
        for shape in &shapes {
            let output = Volume { memory: MemoryType::Mc, ..shape.output };
            let sdp = SdpShape {
                x1: operand(SdpOperandMode::PerKernel, 4),
                x2: if combines { operand(SdpOperandMode::PerPoint, bytes(self.precision)) } else { None },
                ..SdpShape::new(shape.output, if flies && pooling.is_some() { shape.output } else { output })
            };
            let behind = pooling.map(|shape| PdpShape { input: shape.input.on_the_fly(), ..shape }).filter(|_| flies);
            let time = self.cost.pipeline(shape, &sdp, behind.as_ref());
            cycles += time.max(written) + self.cost.hand_over();
        }
        if let Some(shape) = pooling.filter(|_| !flies) {
            cycles += self.cost.pooling(&shape) + self.cost.hand_over();
        }
        Some(cycles)
    }
}
