// SPDX-License-Identifier: MIT OR Apache-2.0

//! Walks the cube: batches, surfaces, lines, and chunks of a line.
//!
//! If there are no gaps between lines in any memory that is read or written, a surface is processed as one line. A 1x1 cube,
//! whose atoms are adjacent, is processed as one surface.

use std::ops::Range;

use super::addresses::ChunkPosition;
use nvdla_uapi::layout::feature::View;
use nvdla_uapi::reg::values::Precision;

use super::super::operation::{DataCube, Destination, Operation, Source};
use super::super::tally::Tally;
use super::addresses::{feature_bytes, feature_bytes_mut, format, fp16_in, fp16_out, operand_bytes};
use super::lanes::{Direct, Operands};
use super::lanes::{Lanes, Scratch, CHUNK, SLOTS};
use super::load::{self, Data};
use super::plan::{Feed, Plan};
use super::process::{self, ChunkContext, Packing, Short};
use super::store;
use crate::memory::{Fault, Memory};
use crate::simd::non_temporal::copy_non_temporal;
use crate::simd::prefetch::prefetch_after;
use crate::stream::{Samples, Stream};

/// The shape in which a cube is processed.
#[derive(Debug)]
pub(super) struct Walk {
    pub surfaces: usize,
    pub lines: usize,
    /// Atoms (elements of the width) per line.
    pub atoms: usize,
    /// Atoms per chunk.
    pub chunk: usize,
    /// A 1x1 cube, processed along its channels.
    pub folded: bool,
}

impl Walk {
    /// The shape for an operation whose sums arrive by surface, if they are `on_the_fly`, or whose data are in memory.
    pub(super) fn new(operation: &Operation, plan: &Plan, on_the_fly: bool) -> Self {
        let Operation { width, height, surfaces, lanes, .. } = *operation;
        let chunk = CHUNK / lanes;
        let memory_feeds = || {
            plan.feeds.iter().flatten().filter_map(|feed| match feed {
                Feed::Memory { operands, per_kernel, .. } => Some((operands.layout, *per_kernel)),
                Feed::One(_) => None,
            })
        };
        let fp16 = fp16_in(operation) || fp16_out(operation);
        // The atoms of a 1x1 feature cube are adjacent; operands per kernel always are.
        if !on_the_fly
            && width == 1
            && height == 1
            && !fp16
            && memory_feeds().all(|(layout, _)| layout.line_offset(1, 0) == u64::from(layout.bytes_per_atom()))
        {
            return Self { surfaces: 1, lines: 1, atoms: surfaces, chunk, folded: true };
        }
        let packed = |cube: &DataCube| cube.layout.is_line_packed();
        let is_packed = (match &operation.source {
            Source::Memory(cube) => packed(cube),
            Source::Stream { .. } => true,
        }) && (match &operation.destination {
            Destination::Memory(cube) => packed(cube),
            Destination::Pdp | Destination::Comparison => true,
        }) && memory_feeds().all(|(layout, per_kernel)| {
            per_kernel || layout.line_offset(0, 1) == layout.atom_offset(0, 0, width as u32)
        });
        let (lines, atoms) = if is_packed { (1, width * height) } else { (height, width) };
        Self { surfaces, lines, atoms, chunk, folded: false }
    }

    /// The destination, if the operation is large enough for threads and its lines are long enough for strips.
    pub(super) fn strips_suit(&self, operation: &Operation, threads_from: usize) -> Option<DataCube> {
        let elements = operation.view().span(operation.batch);
        match operation.destination {
            Destination::Memory(cube)
                if elements >= threads_from
                    && (self.lines == 1 || self.atoms >= 4 * self.chunk)
                    && !fp16_out(operation) =>
            {
                Some(cube)
            }
            _ => None,
        }
    }

    /// Prepares the operands that vary by kernel for all chunks of a surface.
    pub(super) fn load_kernels(
        &self,
        context: &ChunkContext,
        scratch: &mut Scratch,
        surface: usize,
        memory: &dyn Memory,
    ) -> Result<(), Fault> {
        if self.folded {
            return Ok(());
        }
        let lanes = context.operation.lanes;
        for (slot, feed) in context.plan.feeds.iter().enumerate() {
            if let Some(Feed::Memory { operands, component, prepare, per_kernel: true }) = feed {
                let length = context.prepared(self.chunk.min(self.atoms) * lanes);
                let values = &mut scratch.operands[slot].0[..length];
                let bytes =
                    operand_bytes(operands, ChunkPosition { batch: 0, surface, line: 0, x: 0, atoms: 1 }, memory)?;
                let format = format(operands, *component);
                let flush = context.operation.nan_to_zero;
                process::operand(context.isa, &mut values[..lanes], bytes, format, *prepare, flush);
                load::repeat(values, lanes);
            }
        }
        Ok(())
    }

    /// The bytes in memory of the operands that vary by kernel, for adjacent surfaces.
    pub(super) fn kernel_bytes<'m>(
        plan: &Plan,
        surfaces: Range<usize>,
        memory: &'m dyn Memory,
    ) -> Result<Direct<'m>, Fault> {
        let mut bytes = [&[][..]; SLOTS];
        // Operands per kernel are adjacent, as those of a line are.
        let at = ChunkPosition { batch: 0, surface: 0, line: 0, x: surfaces.start, atoms: surfaces.len() };
        for (bytes, feed) in bytes.iter_mut().zip(&plan.feeds) {
            if let Some(Feed::Memory { operands, per_kernel: true, .. }) = feed {
                *bytes = operand_bytes(operands, at, memory)?;
            }
        }
        Ok(bytes)
    }

    /// Computes a chunk and writes it.
    pub(super) fn chunk(
        &self,
        context: &ChunkContext,
        scratch: &mut Scratch,
        at: ChunkPosition,
        input: Option<&Stream>,
        output: Option<&mut Stream>,
        memory: &mut dyn Memory,
        tally: &mut Tally,
    ) -> Result<(), Fault> {
        let ChunkContext { operation, isa, .. } = *context;
        self.compute(context, scratch, at, input, memory, tally)?;
        match (&operation.destination, output) {
            (Destination::Memory(cube), _) if fp16_out(operation) => {
                let Lanes(values) = &scratch.values;
                let values = &values[..at.atoms * operation.lanes];
                for half in 0..2 {
                    let into = feature_bytes_mut(cube, ChunkPosition { surface: 2 * at.surface + half, ..at }, memory)?;
                    process::pack(isa, values, Packing::HalfPairs { lanes: operation.lanes, half }, into);
                }
            }
            (Destination::Memory(cube), _) => emit(context, scratch, feature_bytes_mut(cube, at, memory)?),
            (Destination::Pdp, Some(stream)) => {
                let Scratch { values: Lanes(values), bytes, .. } = scratch;
                let (first, length) = (self.sample(operation, at), at.atoms * operation.lanes);
                if context.makes_bytes() {
                    load::int8(values, &bytes[..length]);
                }
                store::samples(&values[..length], &mut stream.samples, first);
            }
            (Destination::Pdp, None) | (Destination::Comparison, _) => {}
        }
        Ok(())
    }

    /// Computes a chunk. Leaves its values in `scratch`, or its bytes if a fused loop computes them.
    pub(super) fn compute(
        &self,
        context: &ChunkContext,
        scratch: &mut Scratch,
        at: ChunkPosition,
        input: Option<&Stream>,
        memory: &dyn Memory,
        tally: &mut Tally,
    ) -> Result<(), Fault> {
        let ChunkContext { operation, isa, .. } = *context;
        let mut direct = [&[][..]; SLOTS];
        self.load_elements(context, &mut scratch.operands, at, memory, &mut direct)?;
        let data = self.data(operation, at, input, memory)?;
        data.fetch_next();
        if let (Data::Fp16(bytes), true) = (data, operation.count.nan_input) {
            let (nan, infinite) = load::count_special(bytes);
            tally.nan_input = tally.nan_input.wrapping_add(nan);
            tally.infinite_input = tally.infinite_input.wrapping_add(infinite);
        }
        let length = at.atoms * operation.lanes;
        match context.short {
            Some(short) => {
                let Scratch { operands, bytes, .. } = scratch;
                let operands = Operands { lanes: operands, bytes: &direct };
                process::process_short(isa, short, &operands, data, &mut bytes[..short.bytes_of(length)]);
            }
            None => process::process(isa, context, scratch, data, length, tally),
        }
        Ok(())
    }

    /// The chunk that begins at element `first` of a surface with joined lines, and its number of elements: at most
    /// `count`, and at most to the end of the line.
    pub(super) fn at(&self, batch: usize, surface: usize, first: usize, count: usize) -> (ChunkPosition, usize) {
        let (line, x) = (first / self.atoms, first % self.atoms);
        let atoms = count.min(self.atoms - x).min(self.chunk);
        (ChunkPosition { batch, surface, line, x, atoms }, atoms)
    }

    /// Prepares the operands that vary by element. Operands that are read directly from memory are put into `direct`.
    pub(super) fn load_elements<'m>(
        &self,
        context: &ChunkContext,
        into: &mut [Lanes; SLOTS],
        at: ChunkPosition,
        memory: &'m dyn Memory,
        direct: &mut Direct<'m>,
    ) -> Result<(), Fault> {
        let ChunkContext { operation, plan, isa, .. } = *context;
        let length = at.atoms * operation.lanes;
        let is_direct = context.short.map_or([false; SLOTS], Short::direct);
        for (slot, feed) in plan.feeds.iter().enumerate() {
            if let Some(Feed::Memory { operands, component, prepare, per_kernel }) = feed {
                if !per_kernel || self.folded {
                    let bytes = operand_bytes(operands, at, memory)?;
                    prefetch_after(bytes);
                    if is_direct[slot] {
                        direct[slot] = bytes;
                        continue;
                    }
                    let values = &mut into[slot].0[..length];
                    let flush = operation.nan_to_zero;
                    process::operand(isa, values, bytes, format(operands, *component), *prepare, flush);
                }
            }
        }
        Ok(())
    }

    /// The position of a chunk's samples in a stream.
    fn sample(&self, operation: &Operation, at: ChunkPosition) -> usize {
        let view = View::packed(self.surfaces, self.lines, self.atoms, operation.lanes);
        view.atom_offset(at.batch, at.surface, at.line, at.x)
    }

    fn data<'d>(
        &self,
        operation: &Operation,
        at: ChunkPosition,
        input: Option<&'d Stream>,
        memory: &'d dyn Memory,
    ) -> Result<Data<'d>, Fault> {
        let cube = match (operation.source, input) {
            (Source::Memory(cube), _) => cube,
            (Source::Stream { .. }, Some(stream)) => {
                let first = self.sample(operation, at);
                let range = first..first + at.atoms * operation.lanes;
                return Ok(match &stream.samples {
                    Samples::Int(samples) => Data::Ints(&samples[range]),
                    Samples::Float(samples) => Data::Floats(&samples[range]),
                });
            }
            (Source::Stream { .. }, None) => return Ok(Data::Ints(&[])),
        };
        if fp16_in(operation) {
            let half = |half| feature_bytes(&cube, ChunkPosition { surface: 2 * at.surface + half, ..at }, memory);
            return Ok(Data::Int16Halves(half(0)?, half(1)?));
        }
        let bytes = feature_bytes(&cube, at, memory)?;
        Ok(match cube.layout.precision() {
            Precision::Int8 => Data::Int8(bytes),
            Precision::Int16 => Data::Int16(bytes),
            Precision::Fp16 => Data::Fp16(bytes),
        })
    }
}

/// Writes the chunk in `scratch` if a feature cube has one surface for each surface of the data path.
pub(super) fn emit(context: &ChunkContext, scratch: &mut Scratch, into: &mut [u8]) {
    let Scratch { values: Lanes(values), bytes, .. } = scratch;
    let bytes = &mut bytes[..into.len()];
    if !context.makes_bytes() {
        let (packing, length) = match context.operation.output {
            Precision::Int8 => (Packing::Bytes, into.len()),
            Precision::Int16 | Precision::Fp16 => (Packing::Pairs, into.len() / 2),
        };
        if !context.non_temporal {
            return process::pack(context.isa, &values[..length], packing, into);
        }
        process::pack(context.isa, &values[..length], packing, bytes);
    }
    if context.non_temporal {
        copy_non_temporal(into, bytes);
    } else {
        into.copy_from_slice(bytes);
    }
}
