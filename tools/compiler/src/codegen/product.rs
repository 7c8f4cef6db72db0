// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lowers a product of two tensors: a convolution whose weights another operation has written.
//!
//! CDMA reads weights from any address. In memory, kernels are in groups, and the channels of a group in blocks of atomic-C ("In-memory
//! data formats", weights for direct convolution):
//!
//! ```text
//! group of kernels   block of channels   kernel   channel
//! ```
//!
//! The pixels of a tensor are the kernels. A pixel's atoms lie a surface apart in feature data, and one behind another in a block, so
//! SDP copies them there. A tensor of one surface is in the order of weights already.

use nvdla_uapi::layout::align::Data;
use nvdla_uapi::layout::weight::{Direct, Geometry};
use nvdla_uapi::layout::{bytes, Extents};
use nvdla_uapi::reg::values::Precision;

use crate::codegen::convolution::{Block, Layer, Part};
use crate::codegen::lowering::Lowering;
use crate::codegen::sdp::{SdpSetup, Strides};
use crate::codegen::view::View;
use crate::error::Error;
use crate::ir;
use crate::net::step::{Convolution, Mode, Step};
use crate::numbers::quantizer::{Numbers, Operand, Stages, X};
use crate::passes::place::Map;
use crate::schedule::program::{Base, Buffer, Cube, Format, Storage};

/// 1 in a precision.
fn one(precision: Precision) -> i16 {
    if precision == Precision::Fp16 {
        0x3c00
    } else {
        1
    }
}

impl Lowering<'_> {
    /// A product: the copies that bring the weights into their order, and the convolution.
    pub(crate) fn product(&mut self, number: usize, step: &Step, numbers: &Numbers) -> Result<(), Error> {
        let [mut source, weights] = [0, 1].map(|at| self.view(step.inputs[at]));
        // The last atoms are multiplied as a whole. The weights of the elements behind the last channel are 0.
        source.map = Map::dense(source.atoms.filled(source.map.extent as usize) as u32);
        self.multiplied(number, step, numbers, (&source, None), &weights)
    }

    /// Channels become columns, and pixels become channels: the product of a unit matrix and a tensor.
    pub(crate) fn turn(&mut self, number: usize, step: &Step, numbers: &Numbers) -> Result<(), Error> {
        let weights = self.view(step.inputs[0]);
        let (atoms, columns) = (weights.atoms, weights.map.extent);
        let channels = atoms.filled(columns as usize) as u32;
        let name = &self.placed.net.tensors[step.output].name;
        let unit = View { map: Map::dense(channels), height: 1, width: columns, ..weights.clone() };
        let unit =
            unit.packed(atoms).ok_or_else(|| Error::unsupported(name, "its unit matrix exceeds 32-bit sizes"))?;
        let mut data = vec![0; unit.cube(&unit.all(), atoms).size as usize];
        let one = one(weights.precision).to_le_bytes();
        let width = bytes(weights.precision) as usize;
        for column in 0..columns as usize {
            let (surface, lane) = atoms.place(column);
            let at = unit.layout().atom_offset(0, surface, 0, column) + lane * width;
            data[at..at + width].copy_from_slice(&one[..width]);
        }
        let constant = self.program.constant(Data::Feature, data);
        self.multiplied(number, step, numbers, (&unit, Some(constant)), &weights)
    }

    /// A convolution of a tensor, or of a constant, by weights that are the pixels of a tensor.
    fn multiplied(
        &mut self,
        number: usize,
        step: &Step,
        numbers: &Numbers,
        (source, constant): (&View, Option<usize>),
        weights: &View,
    ) -> Result<(), Error> {
        let name = &self.placed.net.tensors[step.output].name;
        let target = &self.view(step.output);
        let kernels = target.map.extent;
        let op = ir::Convolution::pointwise();
        let conv = &Convolution { op, kernels: kernels as usize, weights: [].into(), bias: Vec::new() };
        let block = Block { output: (0, kernels), input: (0, source.map.extent) };
        let stages = self.stages(name, &numbers.stages, source.precision, target, Mode::Direct)?;
        for part in self.parts(name, conv, source, target, Mode::Direct, &[block])? {
            let weights = self.packed(number, name, weights, kernels, &part)?;
            let layer = Layer { number, name, conv, numbers, source, constant, target };
            self.in_tiles(layer, &part, &stages, weights, None)?;
        }
        Ok(())
    }

    /// The pixels of a tensor in the order of weights.
    fn packed(&mut self, number: usize, name: &str, view: &View, kernels: u32, part: &Part) -> Result<Cube, Error> {
        let View { height, width, atoms, .. } = *view;
        let channels = view.map.extent as usize;
        let (filled, surfaces) = (atoms.filled(channels), atoms.surfaces(channels) as u32);
        let geometry = Geometry::of(self.config, view.precision);
        let layout = Direct::new(Extents::new(kernels, filled as u32, 1, 1), geometry)
            .map_err(|error| Error::unsupported(name, error.to_string()))?;
        let too_large = |_| Error::unsupported(name, "its weights exceed 32-bit sizes");
        let size = u32::try_from(layout.size()).map_err(too_large)?;
        let in_lines = height == 1 || u64::from(view.line_stride) == atoms.packed_strides(width, height)[0];
        let whole = channels == filled;
        let buffer = &self.program.buffers[view.buffer];
        if surfaces == 1 && in_lines && whole && view.offset + size <= buffer.size {
            return Ok(part.cube(Base::Buffer(view.buffer), view.offset, size));
        }
        self.program.buffers.push(Buffer {
            name: format!("{name}.weights"),
            channels: filled as u32,
            height: 1,
            width: kernels,
            format: Format::Feature,
            precision: view.precision,
            line_stride: size,
            surface_stride: size,
            size,
            place: Storage::Pool,
            pictures: 1,
        });
        let scratch = self.program.buffers.len() - 1;
        let plain = self.stages(name, &Stages::default(), view.precision, view, Mode::Direct)?;
        // The elements behind the last channel become 0.
        let kept = channels - atoms.channels(surfaces as usize - 1);
        let last = if whole { None } else { Some(self.masked(name, view, kept)?) };
        // Surfaces of a block, and kernels of a group. All kernels of one block are one behind another.
        let per_block = (atoms.surfaces(geometry.cube_channels as usize) as u32).clamp(1, surfaces);
        let group = if per_block == surfaces { kernels } else { geometry.group_kernels };
        // Blocks of one surface are copied together.
        let at_once = if per_block == 1 { surfaces } else { per_block };
        let pixels = self.walk(view);
        // The places of a kernel's atom in both orders.
        let packed =
            |kernel: u32, surface: u32| layout.offset(kernel, atoms.channels(surface as usize) as u32, 0, 0) as u32;
        let plane = view.layout();
        let stored = |kernel: u32, surface: u32| {
            let [line, column] = [kernel / width, kernel % width].map(|at| at as usize);
            view.offset + plane.atom_offset(0, surface as usize, line, column) as u32
        };
        for first in (0..kernels).step_by(group as usize) {
            let end = kernels.min(first + group);
            for block in (0..surfaces).step_by(at_once as usize) {
                let own = at_once.min(surfaces - block);
                let mut at = first;
                while at < end {
                    let in_line = if in_lines { kernels } else { width - at % width };
                    let run = in_line.min(end - at);
                    let mut copied = |setup: &SdpSetup, surface: u32, lines: u32| {
                        let start = packed(at, surface);
                        let apart = |next: u32| next - start;
                        let from = Strides { offset: stored(at, surface), line: pixels.surface, surface: 0, ..pixels };
                        let line = if lines > 1 { apart(packed(at, surface + 1)) } else { pixels.pixel };
                        let pixel = if run > 1 { apart(packed(at + 1, surface)) } else { pixels.pixel };
                        let into = Strides { buffer: scratch, offset: start, surface: 0, line, pixel };
                        self.walked(number, setup, from, into, [1, lines, run]);
                    };
                    let masked = last.as_ref().filter(|_| block + own == surfaces);
                    let unmasked = own - u32::from(masked.is_some());
                    if unmasked > 0 {
                        copied(&plain, block, unmasked);
                    }
                    if let Some(last) = masked {
                        copied(last, surfaces - 1, 1);
                    }
                    at += run;
                }
            }
        }
        Ok(part.cube(Base::Buffer(scratch), 0, size))
    }

    /// SDP's functions that keep so many elements of an atom, and make the others 0.
    fn masked(&mut self, name: &str, view: &View, kept: usize) -> Result<SdpSetup, Error> {
        let elements = view.atoms.elements();
        let one = one(view.precision);
        let factors = (0..elements).map(|element| if element < kept { one } else { 0 }).collect();
        let x1 = Some(X { mul: Some(Operand::Kernel(factors)), ..X::default() });
        let atom = View { map: Map::dense(elements as u32), ..view.clone() };
        self.stages(name, &Stages { x1, ..Stages::default() }, view.precision, &atom, Mode::Direct)
    }
}
