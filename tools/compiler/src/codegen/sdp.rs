// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lowers steps to SDP: after a convolution, or from memory to memory; and the copies that move elements, some of them by Rubik.

use nvdla_uapi::desc::{self, Activation, RubikOp, SdpOperandMode, SdpOperation};
use nvdla_uapi::layout::align::Data;
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::layout::operand::{Component, Format as OperandFormat, Operands};
use nvdla_uapi::layout::{bytes, precision, Extents};
use nvdla_uapi::reg::values::{AluAlgorithm, ConvMode, OperandMode, OperandSize, OperandUse, Precision, RubikMode};

use crate::codegen::lowering::Lowering;
use crate::codegen::view::{Region, View};
use crate::error::Error;
use crate::net::step::Mode;
use crate::net::step::{Elements, Kind, Step, TensorId};
use crate::numbers::quantizer::{Numbers, Operand, Stages, XActivation};
use crate::schedule::program::{Base, Cube, Unit};
use crate::target::{LARGEST_CONTRACTION, LARGEST_EXTENT};

/// An enabled converter.
pub(crate) fn converter(scale: i16, truncate: u8) -> desc::CvtParam {
    desc::CvtParam { scale, truncate, enable: 1, offset: 0 }
}

/// The source of a sub-unit's operands.
#[derive(Clone, Copy, Debug)]
enum OperandSource {
    /// In registers.
    Registers,
    /// A constant, with this many bytes per atom of channels.
    Constant(usize, u32),
    /// A tensor of the output's shape.
    Element(TensorId),
    /// Constants of the output's shape, packed.
    Elements(usize),
    /// A tensor of one line and column.
    Gate(TensorId),
}

/// The distances in bytes between a tensor's surfaces, lines and pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strides {
    pub(super) buffer: usize,
    pub(super) offset: u32,
    pub(super) surface: u32,
    pub(super) line: u32,
    pub(super) pixel: u32,
}

/// SDP's descriptor, the precision that it computes in, and the sources of its operands.
pub(crate) struct SdpSetup {
    op: desc::SdpOp,
    atoms: Atoms,
    places: [OperandSource; 3],
}

impl SdpSetup {
    /// The atoms of the precision that SDP computes in.
    pub(crate) fn atoms(&self) -> Atoms {
        self.atoms
    }
}

impl Lowering<'_> {
    /// Makes the descriptor and the constants for SDP's functions in a step. `source` is the precision of its input, or of the
    /// convolution before it.
    pub(crate) fn stages(
        &mut self,
        name: &str,
        stages: &Stages,
        source: Precision,
        target: &View,
        mode: Mode,
    ) -> Result<SdpSetup, Error> {
        let processing = precision::processing(source, target.precision);
        let mut places = [OperandSource::Registers; 3];
        let mut units = [None, None];
        for (at, x) in [&stages.x1, &stages.x2].into_iter().enumerate() {
            let Some(x) = x else { continue };
            let label = format!("{name}.x{}", at + 1);
            let alu = x.alu.as_ref().map(|(_, operand)| operand);
            let (mode, place, size, registers) = self.operands(&label, alu, x.mul.as_ref(), target, processing)?;
            places[at] = place;
            units[at] = Some(desc::SdpSubUnit {
                enable: true,
                alu_type: x.alu.as_ref().map_or(AluAlgorithm::Sum, |(algorithm, _)| *algorithm),
                op_type: op_type(x.alu.is_some(), x.mul.is_some()),
                mode,
                act: match x.activation {
                    XActivation::Nothing => Activation::None,
                    XActivation::Relu => Activation::Relu,
                    XActivation::Prelu => Activation::Prelu,
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
            let (mode, place, size, registers) =
                self.operands(&format!("{name}.y"), alu, y.mul.as_ref(), target, processing)?;
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
                alu_cvt: factor.map_or_else(Default::default, |factor| desc::CvtParam {
                    offset: y.zero,
                    ..converter(factor.scale, factor.truncate)
                }),
                mul_cvt: if y.mul.is_some() && y.zero != 0 {
                    desc::CvtParam { offset: y.zero, ..converter(1, 0) }
                } else {
                    desc::CvtParam::default()
                },
                ..Default::default()
            });
        }
        let out = stages.out.map_or_else(|| converter(1, 0), |factor| converter(factor.scale, factor.truncate));
        let out = desc::CvtParam { offset: stages.offset, ..out };
        let [x1_op, x2_op] = units;
        let op = desc::SdpOp {
            src_precision: source,
            dst_precision: target.precision,
            lut_index,
            out_cvt: out,
            conv_mode: if mode == Mode::Winograd { ConvMode::Winograd } else { ConvMode::Direct },
            batch_num: 1,
            x1_op,
            x2_op,
            y_op,
            ..Default::default()
        };
        Ok(SdpSetup { op, atoms: Atoms::of(self.config, processing), places })
    }

    /// The operands of a sub-unit: mode, source, precision in memory, and the values of registers (ALU, multiplier).
    fn operands(
        &mut self,
        name: &str,
        alu: Option<&Operand>,
        mul: Option<&Operand>,
        target: &View,
        processing: Precision,
    ) -> Result<(SdpOperandMode, OperandSource, Precision, [i32; 2]), Error> {
        let wide = if processing == Precision::Fp16 { Precision::Fp16 } else { Precision::Int16 };
        let given: Vec<&Operand> = [alu, mul].into_iter().flatten().collect();
        if let [Operand::Element(id)] = given[..] {
            return Ok((SdpOperandMode::PerPoint, OperandSource::Element(*id), processing, [0, 1]));
        }
        if let [Operand::Elements(elements)] = given[..] {
            let place = self.elements(name, elements, target, processing)?;
            return Ok((SdpOperandMode::PerPoint, place, processing, [0, 1]));
        }
        if let [Operand::Gate(id)] = given[..] {
            return Ok((SdpOperandMode::PerKernel, OperandSource::Gate(*id), processing, [0, 1]));
        }
        let one = if processing == Precision::Fp16 { 0x3c00 } else { 1 };
        if given.iter().all(|operand| matches!(operand, Operand::Layer(_))) {
            let value = |operand: Option<&Operand>, other| match operand {
                Some(Operand::Layer(value)) => *value,
                _ => other,
            };
            return Ok((SdpOperandMode::PerLayer, OperandSource::Registers, wide, [value(alu, 0), value(mul, one)]));
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
            processing,
            atom: self.config.memory_atomic,
        };
        let atoms = Atoms::of(self.config, processing);
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
                    Operand::Element(_) | Operand::Elements(_) | Operand::Gate(_) => {
                        return Err(Error::unsupported(name, "a sub-unit with a tensor and a constant"));
                    }
                };
                if let Some(at) = layout.component_offset(component, channel, 0, 0) {
                    bytes[at as usize..][..2].copy_from_slice(&value.to_le_bytes());
                }
            }
        }
        let constant = self.program.constant(Data::BatchNormalization, bytes);
        Ok((SdpOperandMode::PerKernel, OperandSource::Constant(constant, format.bytes_per_atom()), wide, [0, one]))
    }

    /// Constants of the lines of a view, in its channels' places.
    fn elements(
        &mut self,
        name: &str,
        elements: &Elements<i16>,
        target: &View,
        processing: Precision,
    ) -> Result<OperandSource, Error> {
        let atoms = Atoms::of(self.config, processing);
        let too_large = || Error::unsupported(name, "its constants exceed 32-bit sizes");
        let view = target.packed(atoms).ok_or_else(too_large)?;
        let size = view.cube(&view.all(), atoms).size as usize;
        let (layout, width) = (view.layout(), bytes(processing) as usize);
        let mut data = vec![0; size];
        let first = self.band.as_ref().map_or(0, |[_, written]| written.start);
        for (k, &channel) in target.map.of.iter().enumerate() {
            let (surface, lane) = atoms.place(channel as usize);
            for y in 0..target.height {
                for x in 0..target.width {
                    let at = layout.atom_offset(0, surface, y as usize, x as usize) + lane * width;
                    let value = elements.at(k as u32, first + y, x).to_le_bytes();
                    data[at..at + width].copy_from_slice(&value[..width]);
                }
            }
        }
        let constant = self.program.constant(Data::Elementwise, data);
        Ok(OperandSource::Elements(constant))
    }

    /// Adds an SDP operation that computes a part of a tensor: from a view, or from the previous convolution.
    pub(crate) fn sdp(&mut self, number: usize, setup: &SdpSetup, source: Option<&View>, target: &View, part: &Region) {
        let atoms = setup.atoms;
        let written = target.cube(part, atoms);
        let read = match source {
            Some(source) => source.cube(part, atoms),
            None => written.sums(),
        };
        let operands = setup.places.map(|place| match place {
            OperandSource::Registers => None,
            OperandSource::Constant(constant, stride) => {
                let (first, count) = part.channels;
                Some(per_channel(atoms, constant, stride, (first as usize, count as usize)))
            }
            OperandSource::Elements(constant) => {
                let view = target.packed(atoms)?;
                Some(Cube { base: Base::Constant(constant), ..view.cube(part, atoms) })
            }
            OperandSource::Element(tensor) => Some(self.operand(tensor).cube(part, atoms)),
            OperandSource::Gate(tensor) => {
                Some(self.view(tensor).cube(&Region { lines: (0, 1), columns: (0, 1), ..*part }, atoms))
            }
        });
        let op = Box::new(setup.op);
        self.program.push(number, Unit::Sdp { op, source: read, operands, target: written });
    }

    /// Lowers a step from memory to memory.
    pub(crate) fn copy(&mut self, number: usize, step: &Step, numbers: &Numbers) -> Result<(), Error> {
        let name = self.placed.net.tensors[step.output].name.clone();
        let (source, target) = self.ends(step);
        let setup = self.stages(&name, &numbers.stages, source.precision, &target, Mode::Direct)?;
        let surfaces = target.cube(&target.all(), setup.atoms).surfaces;
        let apart = [&source, &target].iter().any(|view| view.surface_stride != self.config.memory_atomic);
        let plain = step.post_ops.is_empty() && source.precision == target.precision;
        if (target.height, target.width) == (1, 1) && surfaces > 1 && apart && plain {
            let [from, into] = [&source, &target].map(|view| self.walk(view));
            self.walked(number, &setup, from, into, [surfaces, 1, 1]);
        } else {
            self.sdp(number, &setup, Some(&source), &target, &target.all());
        }
        Ok(())
    }

    /// The distances in a tensor in memory.
    pub(super) fn walk(&self, view: &View) -> Strides {
        let pixel = self.config.memory_atomic;
        Strides {
            buffer: view.buffer,
            offset: view.offset,
            surface: view.surface_stride,
            line: view.line_stride,
            pixel,
        }
    }

    /// Copies elements to other positions: interleaves those of several tensors, repeats those of one, copies every n-th column,
    /// or transposes lines and columns.
    pub(crate) fn spread(&mut self, number: usize, step: &Step) -> Result<(), Error> {
        let name = self.placed.net.tensors[step.output].name.clone();
        let (source, target) = self.ends(step);
        let setup = self.stages(&name, &Stages::default(), source.precision, &target, Mode::Direct)?;
        let surfaces = setup.atoms.surfaces(target.map.extent as usize) as u32;
        let [mut from, mut into] = [&source, &target].map(|view| self.walk(view));
        let (by, repeats) = match step.kind {
            Kind::Spread(by) => (by, false),
            Kind::Repeat(by) => (by, true),
            Kind::Columns(apart) => {
                from.pixel *= apart;
                self.walked(number, &setup, from, into, [surfaces, target.height, target.width]);
                return Ok(());
            }
            Kind::Pixels => {
                self.pixels(number, &setup, [&source, &target], surfaces);
                return Ok(());
            }
            _ => {
                (into.line, into.pixel) = (into.pixel, into.line);
                self.walked(number, &setup, from, into, [surfaces, source.height, source.width]);
                return Ok(());
            }
        };
        // Each phase begins at an atom of maps.
        let apart = source.atoms.surfaces(self.program.atoms().filled(target.map.extent as usize)) as u32;
        if self.config.rubik_contract && !repeats && apart == surfaces && by.iter().all(|&by| by <= LARGEST_CONTRACTION)
        {
            // Rubik moves the same bytes at the width of the memory interface, in one operation.
            let [stride_y, stride_x] = by.map(|by| by as u8);
            let op = RubikOp { mode: RubikMode::Contract, precision: source.precision, stride_x, stride_y };
            let [source, target] = [&source, &target].map(|view| view.cube(&view.all(), view.atoms));
            self.program.push(number, Unit::Rubik { op, source, target });
            return Ok(());
        }
        let [y, x] = [into.line, into.pixel];
        (into.line, into.pixel) = (by[0] * y, by[1] * x);
        for phase in 0..by[0] * by[1] {
            let into = Strides { offset: into.offset + phase / by[1] * y + phase % by[1] * x, ..into };
            let first = if repeats { 0 } else { phase * apart };
            let from = Strides { offset: from.offset + first * from.surface, ..from };
            self.walked(number, &setup, from, into, [surfaces, source.height, source.width]);
        }
        Ok(())
    }

    /// Adds SDP operations that copy pixels in their order, to lines of another length. Each copies as many pixels as are at equal
    /// distances on both sides: all of them where neither side has gaps between lines.
    fn pixels(&mut self, number: usize, setup: &SdpSetup, ends: [&View; 2], surfaces: u32) {
        let walks = ends.map(|view| self.walk(view));
        let even = ends.iter().zip(&walks).all(|(view, walk)| view.height == 1 || walk.line == view.width * walk.pixel);
        let total = ends[0].height * ends[0].width;
        let mut first = 0;
        while first < total {
            let in_line = ends.iter().map(|view| view.width - first % view.width).min().unwrap_or(1);
            let count = if even { total - first } else { in_line }.min(LARGEST_EXTENT);
            let [from, into] = [0, 1].map(|end| {
                let (walk, width) = (walks[end], ends[end].width);
                let offset = walk.offset + first / width * walk.line + first % width * walk.pixel;
                Strides { offset, line: walk.surface, surface: surfaces * walk.surface, ..walk }
            });
            self.walked(number, setup, from, into, [1, surfaces, count]);
            first += count;
        }
    }

    /// Adds SDP operations that copy surfaces, lines and pixels. A line is processed as a column of pixels, and the lines as
    /// surfaces, so that the distances of both pixels and lines can be chosen.
    /// Operands per channel are those of the first line.
    pub(super) fn walked(&mut self, number: usize, setup: &SdpSetup, from: Strides, into: Strides, counts: [u32; 3]) {
        let SdpSetup { op, atoms, places } = setup;
        let operands = places.map(|place| match place {
            OperandSource::Constant(constant, stride) => {
                Some(per_channel(*atoms, constant, stride, (0, atoms.elements())))
            }
            _ => None,
        });
        let (atom, elements) = (atoms.bytes() as u32, atoms.elements() as u32);
        let ([mut surfaces, mut lines, mut pixels], mut ends) = (counts, [from, into]);
        if pixels == 1 {
            // SDP processes the atoms of a 1x1 cube as one sequence, so the lines are used as pixels.
            std::mem::swap(&mut lines, &mut pixels);
            for walk in &mut ends {
                std::mem::swap(&mut walk.line, &mut walk.pixel);
            }
        }
        // If neither has gaps between surfaces, surfaces are processed as more lines.
        if pixels > 1 && ends.iter().all(|walk| walk.surface == lines * walk.line) {
            (surfaces, lines) = (1, surfaces * lines);
        }
        let most = LARGEST_EXTENT / elements;
        for surface in 0..surfaces {
            for first in (0..lines).step_by(most as usize) {
                let count = most.min(lines - first);
                let [source, target] = ends.map(|walk| Cube {
                    base: Base::Buffer(walk.buffer),
                    offset: walk.offset + surface * walk.surface + first * walk.line,
                    size: (count - 1) * walk.line + (pixels - 1) * walk.pixel + atom,
                    width: 1,
                    height: pixels as u16,
                    channels: (count * elements) as u16,
                    line_stride: walk.pixel,
                    surface_stride: walk.line,
                    surfaces: count,
                });
                self.program.push(number, Unit::Sdp { op: Box::new(*op), source, operands, target });
            }
        }
    }
}

/// A constant with operands for channels: the first one, and how many. `stride` is the bytes of an atom's.
fn per_channel(atoms: Atoms, constant: usize, stride: u32, (first, count): (usize, usize)) -> Cube {
    let surfaces = atoms.surfaces(count) as u32;
    Cube {
        base: Base::Constant(constant),
        offset: atoms.place(first).0 as u32 * stride,
        size: surfaces * stride,
        width: 1,
        height: 1,
        channels: count as u16,
        line_stride: stride,
        surface_stride: stride,
        surfaces,
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
