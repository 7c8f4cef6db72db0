// SPDX-License-Identifier: MIT OR Apache-2.0

//! SDP: behind a convolution, or from memory to memory; and the copies that move elements.

use nvdla_uapi::desc::{self, Activation, SdpOperandMode, SdpOperation};
use nvdla_uapi::layout::operand::{Component, Format as OperandFormat, Operands};
use nvdla_uapi::layout::Extents;
use nvdla_uapi::reg::values::{AluAlgorithm, OperandMode, OperandSize, OperandUse, Precision};

use super::numbers::{Follow, Numbers, Operand, Stages};
use super::step::{Kind, Step, TensorId};
use super::{Lowering, Region, View};
use crate::assemble::program::{Base, Cube, Unit};
use crate::error::Error;

/// The most channels of a cube.
const MOST_CHANNELS: u32 = 8192;

/// A converter that is in use.
pub(super) fn converter(scale: i16, truncate: u8) -> desc::CvtParam {
    desc::CvtParam { scale, truncate, enable: 1, offset: 0 }
}

/// Where a sub-unit's operands lie.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In registers.
    Registers,
    /// A constant, with this many bytes per atom of channels.
    Constant(usize, u32),
    /// A tensor of the output's shape.
    Element(TensorId),
    /// A tensor of one line and column.
    Gate(TensorId),
}

/// SDP's descriptor, and where operands lie.
pub(super) struct Ready {
    op: desc::SdpOp,
    places: [Place; 3],
}

impl Lowering<'_> {
    /// The descriptor and the constants of what SDP does.
    pub(super) fn stages(&mut self, name: &str, stages: &Stages, target: &View) -> Result<Ready, Error> {
        let mut places = [Place::Registers; 3];
        let mut units = [None, None];
        for (at, x) in [&stages.x1, &stages.x2].into_iter().enumerate() {
            let Some(x) = x else { continue };
            let label = format!("{name}.x{}", at + 1);
            let alu = x.alu.as_ref().map(|(_, operand)| operand);
            let (mode, place, size, registers) = self.operands(&label, alu, x.mul.as_ref(), target)?;
            places[at] = place;
            units[at] = Some(desc::SdpSubUnit {
                enable: true,
                alu_type: x.alu.as_ref().map_or(AluAlgorithm::Sum, |(algorithm, _)| *algorithm),
                op_type: op_type(x.alu.is_some(), x.mul.is_some()),
                mode,
                act: match x.follow {
                    Follow::Nothing => Activation::None,
                    Follow::Relu => Activation::Relu,
                    Follow::Prelu => Activation::Prelu,
                },
                shift_value: x.shift,
                truncate: x.truncate,
                precision: size,
                alu_operand: registers[0],
                mul_operand: registers[1],
                ..Default::default()
            });
        }
        let mut y_op = None;
        let mut lut_index = -1;
        if let Some(y) = &stages.y {
            let alu = y.alu.as_ref().map(|(_, operand, _)| operand);
            let (mode, place, size, registers) = self.operands(&format!("{name}.y"), alu, y.mul.as_ref(), target)?;
            places[2] = place;
            lut_index = y.table.map_or(-1, |table| table as i16);
            let factor = y.alu.as_ref().and_then(|(_, _, factor)| *factor);
            y_op = Some(desc::SdpSubUnit {
                enable: true,
                alu_type: y.alu.as_ref().map_or(AluAlgorithm::Sum, |(algorithm, ..)| *algorithm),
                op_type: op_type(y.alu.is_some(), y.mul.is_some()),
                mode,
                act: if y.table.is_some() { Activation::Lut } else { Activation::None },
                truncate: y.truncate,
                precision: size,
                alu_operand: registers[0],
                mul_operand: registers[1],
                alu_cvt: factor.map_or_else(Default::default, |factor| converter(factor.scale, factor.truncate)),
                ..Default::default()
            });
        }
        let out = stages.out.map_or_else(|| converter(1, 0), |factor| converter(factor.scale, factor.truncate));
        let out = desc::CvtParam { offset: stages.offset, ..out };
        let [x1_op, x2_op] = units;
        let op = desc::SdpOp {
            src_precision: self.precision,
            dst_precision: self.precision,
            lut_index,
            out_cvt: out,
            batch_num: 1,
            x1_op,
            x2_op,
            y_op,
            ..Default::default()
        };
        Ok(Ready { op, places })
    }

    /// Where a sub-unit's operands lie: mode, place, precision in memory, and what registers hold (ALU, multiplier).
    fn operands(
        &mut self,
        name: &str,
        alu: Option<&Operand>,
        mul: Option<&Operand>,
        target: &View,
    ) -> Result<(SdpOperandMode, Place, Precision, [i32; 2]), Error> {
        let wide = if self.precision == Precision::Fp16 { Precision::Fp16 } else { Precision::Int16 };
        let tensor = if self.precision == Precision::Fp16 { Precision::Fp16 } else { Precision::Int8 };
        let given: Vec<&Operand> = [alu, mul].into_iter().flatten().collect();
        if let [Operand::Element(id)] = given[..] {
            return Ok((SdpOperandMode::PerPoint, Place::Element(*id), tensor, [0, 1]));
        }
        if let [Operand::Gate(id)] = given[..] {
            return Ok((SdpOperandMode::PerKernel, Place::Gate(*id), tensor, [0, 1]));
        }
        let one = if self.precision == Precision::Fp16 { 0x3c00 } else { 1 };
        if given.iter().all(|operand| matches!(operand, Operand::Layer(_))) {
            let value = |operand: Option<&Operand>, other| match operand {
                Some(Operand::Layer(value)) => *value,
                _ => other,
            };
            return Ok((SdpOperandMode::PerLayer, Place::Registers, wide, [value(alu, 0), value(mul, one)]));
        }
        let data_use = match (alu.is_some(), mul.is_some()) {
            (true, true) => OperandUse::Both,
            (true, false) => OperandUse::Alu,
            _ => OperandUse::Mul,
        };
        let format = OperandFormat {
            mode: OperandMode::PerKernel,
            data_use,
            data_size: OperandSize::TwoByte,
            processing: self.precision,
            atom: self.config.memory_atomic,
        };
        let atoms = self.program.atoms();
        let channels = atoms.filled(target.map.extent as usize) as u32;
        let layout = Operands::packed(Extents::new(1, channels, 1, 1), format)
            .map_err(|error| Error::unsupported(name, error.to_string()))?;
        let mut bytes = vec![0; layout.span() as usize];
        for (component, operand) in [(Component::Alu, alu), (Component::Mul, mul)] {
            let Some(operand) = operand else { continue };
            for (k, &channel) in target.map.of.iter().enumerate() {
                let value = match operand {
                    Operand::Kernel(values) => values[if values.len() == 1 { 0 } else { k }],
                    Operand::Layer(value) => *value as i16,
                    Operand::Element(_) | Operand::Gate(_) => {
                        return Err(Error::unsupported(name, "a sub-unit with a tensor and a constant"));
                    }
                };
                if let Some(at) = layout.component_offset(component, channel, 0, 0) {
                    bytes[at as usize..][..2].copy_from_slice(&value.to_le_bytes());
                }
            }
        }
        let constant = self.program.constant(name.to_owned(), bytes);
        Ok((SdpOperandMode::PerKernel, Place::Constant(constant, format.bytes_per_atom()), wide, [0, one]))
    }

    /// An SDP operation that makes a part of a tensor: from a view, or from the convolution before.
    pub(super) fn sdp(&mut self, number: usize, ready: &Ready, source: Option<&View>, target: &View, part: &Region) {
        let atoms = self.program.atoms();
        let written = target.cube(part, atoms);
        let read = match source {
            Some(source) => source.cube(part, atoms),
            None => Cube { base: Base::OnTheFly, offset: 0, ..written },
        };
        let operands = ready.places.map(|place| match place {
            Place::Registers => None,
            Place::Constant(constant, stride) => {
                let (first, count) = (part.channels.0 as usize, part.channels.1 as usize);
                Some(Cube {
                    base: Base::Constant(constant),
                    offset: atoms.place(first).0 as u32 * stride,
                    size: atoms.surfaces(count) as u32 * stride,
                    width: 1,
                    height: 1,
                    channels: count as u16,
                    line_stride: stride,
                    surface_stride: stride,
                })
            }
            Place::Element(tensor) => Some(self.view(tensor).cube(part, atoms)),
            Place::Gate(tensor) => {
                Some(self.view(tensor).cube(&Region { lines: (0, 1), columns: (0, 1), ..*part }, atoms))
            }
        });
        let op = Box::new(ready.op);
        self.program.push(number, Unit::Sdp { op, source: read, operands, target: written });
    }

    /// A step from memory to memory.
    pub(super) fn copy(&mut self, number: usize, step: &Step, numbers: &Numbers) -> Result<(), Error> {
        let name = self.placed.net.tensors[step.output].name.clone();
        let (source, target) = (self.view(step.inputs[0]), self.view(step.output));
        let ready = self.stages(&name, &numbers.stages, &target)?;
        self.sdp(number, &ready, Some(&source), &target, &target.all());
        Ok(())
    }

    /// Interleaves the elements of several tensors, or repeats those of one. A line is processed as a column of pixels,
    /// and the lines as surfaces, so that both the distance of pixels and that of lines can be chosen.
    pub(super) fn spread(&mut self, number: usize, step: &Step) -> Result<(), Error> {
        let (by, repeats) = match step.kind {
            Kind::Spread(by) => (by, false),
            Kind::Repeat(by) => (by, true),
            _ => return Ok(()),
        };
        let name = self.placed.net.tensors[step.output].name.clone();
        let (source, target) = (self.view(step.inputs[0]), self.view(step.output));
        let atoms = self.program.atoms();
        let (atom, elements) = (atoms.bytes() as u32, atoms.elements() as u32);
        let ready = self.stages(&name, &Stages::default(), &target)?;
        let surfaces = target.map.extent.div_ceil(elements);
        // If the surfaces of both have no gaps, they are processed as more lines. A single column is already a column
        // of pixels: SDP processes the atoms of a 1x1 cube as one run.
        let column = source.width == 1;
        let joined = !column
            && source.surface_stride == source.height * source.line_stride
            && target.surface_stride == source.height * by[0] * target.line_stride;
        let planes = if joined { 1 } else { surfaces };
        let lines = match (column, joined) {
            (true, _) => 1,
            (false, true) => surfaces * source.height,
            (false, false) => source.height,
        };
        let most = MOST_CHANNELS / elements;
        let pixels = if column { source.height } else { source.width };
        for phase in 0..by[0] * by[1] {
            let (py, px) = (phase / by[1], phase % by[1]);
            for plane in 0..planes {
                let mut first = 0;
                while first < lines {
                    let count = most.min(lines - first);
                    let surface = if repeats { plane } else { phase * surfaces + plane };
                    let from = source.offset + surface * source.surface_stride + first * source.line_stride;
                    let into = target.offset
                        + plane * target.surface_stride
                        + (first * by[0] + py) * target.line_stride
                        + px * atom;
                    let cube = |view: &View, offset: u32, line_stride: u32, surface_stride: u32| Cube {
                        base: Base::Buffer(view.buffer),
                        offset,
                        size: (count - 1) * surface_stride + (pixels - 1) * line_stride + atom,
                        width: 1,
                        height: pixels as u16,
                        channels: (count * elements) as u16,
                        line_stride,
                        surface_stride,
                    };
                    let (read, written) = if column {
                        let line = by[0] * target.line_stride;
                        (cube(&source, from, source.line_stride, source.line_stride), cube(&target, into, line, line))
                    } else {
                        let [y, x] = [by[0] * target.line_stride, by[1] * atom];
                        (cube(&source, from, atom, source.line_stride), cube(&target, into, x, y))
                    };
                    let op = Box::new(ready.op);
                    self.program.push(number, Unit::Sdp { op, source: read, operands: [None; 3], target: written });
                    first += count;
                }
            }
        }
        Ok(())
    }
}

const fn op_type(alu: bool, mul: bool) -> SdpOperation {
    match (alu, mul) {
        (true, true) => SdpOperation::Both,
        (true, false) => SdpOperation::Add,
        (false, true) => SdpOperation::Mul,
        (false, false) => SdpOperation::None,
    }
}
