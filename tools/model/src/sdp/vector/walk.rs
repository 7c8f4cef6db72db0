// SPDX-License-Identifier: MIT OR Apache-2.0

//! The way through the cube: batches, surfaces, lines, and chunks of a line.
//!
//! Where no gap lies between the lines of anything that is read or written, a surface is walked as one line; a 1x1 cube,
//! whose atoms lie one after another, is walked as one surface.

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::View;
use nvdla_uapi::layout::operand::Component;
use nvdla_uapi::reg::values::Precision;

use super::super::operation::{Destination, OperandPlace, Operation, Place, Source};
use super::super::{stream_for_pdp, State, Tally};
use super::fused::Fused;
use super::fused_float::FusedFloat;
use super::load::{self, Data, Format};
use super::lookup::Joint;
use super::plan::{Feed, Plan};
use super::process::{self, Instructions, Job, Packing, Short};
use super::table::Answers;
use super::{store, strips, table, Lanes, Scratch, Slot, CHUNK};
use crate::ahead::fetch_after;
use crate::lut::Tables;
use crate::memory::{read, write, Fault, Memory, Stop};
use crate::registers::Registers;
use crate::stream::{Done, Samples, Stream};

/// How an operation is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// With these instructions.
    pub instructions: Instructions,
    /// By several threads from this number of elements on.
    pub threads_from: usize,
}

impl Settings {
    /// What suits this machine.
    pub(crate) fn detect() -> Self {
        Self { instructions: Instructions::detect(), threads_from: 1 << 19 }
    }
}

/// As [`crate::sdp::run`], with these settings.
pub(in super::super) fn run(
    settings: Settings,
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    sdp: &Registers,
    input: Option<&Stream>,
    memory: &mut dyn Memory,
) -> Result<Done<Option<Stream>>, Stop> {
    let operation = Operation::new(config, rdma, sdp, input)?;
    let plan = Plan::new(&operation);
    let mut output = stream_for_pdp(&operation)?;
    let State { tables, scratch } = state;
    let scratch = scratch.get_or_insert_with(Scratch::new);
    let walk = Walk::new(&operation, &plan);
    let joint = joint(&operation, tables);
    let mut job = Job {
        operation: &operation,
        plan: &plan,
        tables,
        short: None,
        joint: joint.as_ref(),
        instructions: settings.instructions,
    };
    let mut tally = Tally::default();
    let short = short(&walk, &job, scratch);
    job.short = short.as_ref();
    let threads = rayon::current_num_threads();
    if let Some(place) = walk.strips_suit(&operation, settings.threads_from).filter(|_| threads > 1) {
        strips::run(&walk, &job, scratch, (&place, threads), input, memory, &mut tally)?;
        return Ok(tally.finish(&operation, output));
    }
    for batch in 0..operation.batch {
        for surface in 0..walk.surfaces {
            walk.load_kernels(&job, scratch, surface, memory)?;
            for line in 0..walk.lines {
                let mut x = 0;
                while x < walk.atoms {
                    let atoms = walk.chunk.min(walk.atoms - x);
                    let at = At { batch, surface, line, x, atoms };
                    walk.chunk(&job, scratch, at, input, output.as_mut(), memory, &mut tally)?;
                    x += atoms;
                }
            }
        }
    }
    Ok(tally.finish(&operation, output))
}

/// The lookup without branches, where the operation has one.
pub(super) fn joint(operation: &Operation, tables: &Tables) -> Option<Joint> {
    let lookup = operation.y.and_then(|y| y.lookup)?;
    let suits = operation.processing != Precision::Fp16 && !operation.count.lookups;
    suits.then(|| Joint::new(&lookup, tables)).flatten()
}

/// The way in one loop, where the operation has one.
pub(super) fn short(walk: &Walk, job: &Job, scratch: &mut Scratch) -> Option<Short> {
    let Job { operation, plan, .. } = *job;
    let mut fill = |slots: &mut dyn Iterator<Item = Slot>| {
        for slot in slots {
            if let Some(Feed::One(operand)) = plan.feeds[slot as usize] {
                scratch.operands[slot as usize].0.fill(operand);
            }
        }
    };
    let of_layer = is_of_layer(operation, plan);
    // Where looking up is cheap, no calculation is cheaper.
    if of_layer && table::is_quick() {
        return Some(Short::Table(all_answers(job, scratch)));
    }
    if let Some(mut fused) = Fused::new(operation, plan) {
        if walk.folded {
            // Operands of kernels follow one another, as do the kernels.
            fused.each = plan.feeds.map(|feed| matches!(feed, Some(Feed::Memory { .. })));
        }
        fill(&mut fused.slots());
        return Some(Short::Int(fused));
    }
    if operation.count.nan_input {
        return None;
    }
    if let Some(fused) = FusedFloat::new(operation, plan) {
        fill(&mut fused.slots());
        return Some(Short::Float(fused));
    }
    of_layer.then(|| Short::Table(all_answers(job, scratch)))
}

/// Whether all that is not the data, which is int8 as the output is, is the same for the layer: 256 answers then say
/// everything.
fn is_of_layer(operation: &Operation, plan: &Plan) -> bool {
    let from_bytes = matches!(operation.source, Source::Memory(place) if place.cube.precision() == Precision::Int8);
    let to_bytes = operation.output == Precision::Int8 && matches!(operation.destination, Destination::Memory(_));
    let elements = operation.width * operation.height * operation.channels;
    from_bytes
        && to_bytes
        && plan.feeds.iter().flatten().all(|feed| matches!(feed, Feed::One(_)))
        && elements > CHUNK
        && !operation.count.any()
}

/// What becomes of each int8.
fn all_answers(job: &Job, scratch: &mut Scratch) -> Answers {
    let all: [u8; 256] = std::array::from_fn(|value| value as u8);
    process::process(job.instructions, job, scratch, Data::Int8(&all), all.len(), &mut Tally::default());
    let mut answers = [0; 256];
    process::pack(job.instructions, &scratch.values.0[..all.len()], Packing::Bytes, &mut answers);
    answers
}

/// The shape in which a cube is walked.
pub(super) struct Walk {
    pub surfaces: usize,
    pub lines: usize,
    /// Atoms (elements of the width) a line.
    pub atoms: usize,
    /// Atoms a chunk.
    pub chunk: usize,
    /// A 1x1 cube, walked along its channels.
    folded: bool,
}

/// A chunk's place.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub batch: usize,
    pub surface: usize,
    pub line: usize,
    pub x: usize,
    pub atoms: usize,
}

impl Walk {
    pub(super) fn new(operation: &Operation, plan: &Plan) -> Self {
        let Operation { width, height, surfaces, lanes, .. } = *operation;
        let chunk = CHUNK / lanes;
        let memory_feeds = || {
            plan.feeds.iter().flatten().filter_map(|feed| match feed {
                Feed::Memory { place, per_kernel, .. } => Some((place.layout, *per_kernel)),
                Feed::One(_) => None,
            })
        };
        let halves = halves_in(operation) || halves_out(operation);
        // The atoms of a 1x1 feature cube follow one another; operands of kernels always do.
        if width == 1
            && height == 1
            && !halves
            && memory_feeds().all(|(layout, _)| layout.line_offset(1, 0) == u64::from(layout.bytes_per_atom()))
        {
            return Self { surfaces: 1, lines: 1, atoms: surfaces, chunk, folded: true };
        }
        let packed = |place: &Place| place.cube.is_line_packed();
        let is_packed = (match &operation.source {
            Source::Memory(place) => packed(place),
            Source::Stream { .. } => true,
        }) && (match &operation.destination {
            Destination::Memory(place) => packed(place),
            Destination::Pdp | Destination::Comparison => true,
        }) && memory_feeds().all(|(layout, per_kernel)| {
            per_kernel || layout.line_offset(0, 1) == layout.atom_offset(0, 0, width as u32)
        });
        let (lines, atoms) = if is_packed { (1, width * height) } else { (height, width) };
        Self { surfaces, lines, atoms, chunk, folded: false }
    }

    /// The destination, where the operation is large enough for threads and its lines are long enough for strips.
    fn strips_suit(&self, operation: &Operation, threads_from: usize) -> Option<Place> {
        let elements = operation.view().span(operation.batch);
        match operation.destination {
            Destination::Memory(place)
                if elements >= threads_from
                    && (self.lines == 1 || self.atoms >= 4 * self.chunk)
                    && !halves_out(operation) =>
            {
                Some(place)
            }
            _ => None,
        }
    }

    /// Prepares the operands that vary by kernel for all chunks of a surface.
    pub(super) fn load_kernels(
        &self,
        job: &Job,
        scratch: &mut Scratch,
        surface: usize,
        memory: &dyn Memory,
    ) -> Result<(), Fault> {
        if self.folded {
            return Ok(());
        }
        let lanes = job.operation.lanes;
        for (slot, feed) in job.plan.feeds.iter().enumerate() {
            if let Some(Feed::Memory { place, component, prepare, per_kernel: true }) = feed {
                let length = self.chunk.min(self.atoms) * lanes;
                let values = &mut scratch.operands[slot].0[..length];
                let bytes = operand_bytes(place, At { batch: 0, surface, line: 0, x: 0, atoms: 1 }, memory)?;
                let format = format(place, *component);
                let flush = job.operation.nan_to_zero;
                process::operand(job.instructions, &mut values[..lanes], bytes, format, *prepare, flush);
                load::repeat(values, lanes);
            }
        }
        Ok(())
    }

    /// Computes a chunk and writes it.
    fn chunk(
        &self,
        job: &Job,
        scratch: &mut Scratch,
        at: At,
        input: Option<&Stream>,
        output: Option<&mut Stream>,
        memory: &mut dyn Memory,
        tally: &mut Tally,
    ) -> Result<(), Fault> {
        let Job { operation, instructions, .. } = *job;
        self.compute(job, scratch, at, input, memory, tally)?;
        match (&operation.destination, output) {
            (Destination::Memory(place), _) if halves_out(operation) => {
                let Lanes(values) = &scratch.values;
                let values = &values[..at.atoms * operation.lanes];
                for half in 0..2 {
                    let into = feature_bytes_mut(place, At { surface: 2 * at.surface + half, ..at }, memory)?;
                    process::pack(instructions, values, Packing::HalfPairs { lanes: operation.lanes, half }, into);
                }
            }
            (Destination::Memory(place), _) => emit(job, scratch, feature_bytes_mut(place, at, memory)?),
            (Destination::Pdp, Some(stream)) => {
                let Lanes(values) = &scratch.values;
                let first = self.sample(operation, at);
                store::samples(&values[..at.atoms * operation.lanes], &mut stream.samples, first);
            }
            (Destination::Pdp, None) | (Destination::Comparison, _) => {}
        }
        Ok(())
    }

    /// Computes a chunk: its values or, the short way, its bytes are in `scratch` then.
    pub(super) fn compute(
        &self,
        job: &Job,
        scratch: &mut Scratch,
        at: At,
        input: Option<&Stream>,
        memory: &dyn Memory,
        tally: &mut Tally,
    ) -> Result<(), Fault> {
        let Job { operation, instructions, .. } = *job;
        self.load_elements(job, scratch, at, memory)?;
        let data = self.data(operation, at, input, memory)?;
        data.fetch_next();
        if let (Data::Fp16(bytes), true) = (data, operation.count.nan_input) {
            let (nan, infinite) = load::count_special(bytes);
            tally.nan_input = tally.nan_input.wrapping_add(nan);
            tally.infinite_input = tally.infinite_input.wrapping_add(infinite);
        }
        let length = at.atoms * operation.lanes;
        match job.short {
            Some(short) => {
                let Scratch { operands, bytes, .. } = scratch;
                process::process_short(instructions, short, operands, data, &mut bytes[..short.bytes_of(length)]);
            }
            None => process::process(instructions, job, scratch, data, length, tally),
        }
        Ok(())
    }

    /// The chunk of a cube's walk that begins at element `first` of a surface, lines joined, and its elements: `count` or
    /// those to the end of a line.
    pub(super) fn at(&self, batch: usize, surface: usize, first: usize, count: usize) -> (At, usize) {
        if self.folded {
            // Its one element stands in a line of surfaces.
            return (At { batch, surface: 0, line: 0, x: surface, atoms: 1 }, 1);
        }
        let (line, x) = (first / self.atoms, first % self.atoms);
        let atoms = count.min(self.atoms - x).min(self.chunk);
        (At { batch, surface, line, x, atoms }, atoms)
    }

    /// Prepares the operands that vary by element.
    pub(super) fn load_elements(
        &self,
        job: &Job,
        scratch: &mut Scratch,
        at: At,
        memory: &dyn Memory,
    ) -> Result<(), Fault> {
        let Job { operation, plan, instructions, .. } = *job;
        let length = at.atoms * operation.lanes;
        for (slot, feed) in plan.feeds.iter().enumerate() {
            if let Some(Feed::Memory { place, component, prepare, per_kernel }) = feed {
                if !per_kernel || self.folded {
                    let bytes = operand_bytes(place, at, memory)?;
                    let values = &mut scratch.operands[slot].0[..length];
                    let flush = operation.nan_to_zero;
                    fetch_after(bytes);
                    process::operand(instructions, values, bytes, format(place, *component), *prepare, flush);
                }
            }
        }
        Ok(())
    }

    /// Where a chunk's samples start in a stream.
    fn sample(&self, operation: &Operation, at: At) -> usize {
        let view = View::packed(self.surfaces, self.lines, self.atoms, operation.lanes);
        view.atom_offset(at.batch, at.surface, at.line, at.x)
    }

    fn data<'d>(
        &self,
        operation: &Operation,
        at: At,
        input: Option<&'d Stream>,
        memory: &'d dyn Memory,
    ) -> Result<Data<'d>, Fault> {
        let place = match (operation.source, input) {
            (Source::Memory(place), _) => place,
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
        if halves_in(operation) {
            let half = |half| feature_bytes(&place, At { surface: 2 * at.surface + half, ..at }, memory);
            return Ok(Data::Int16Halves(half(0)?, half(1)?));
        }
        let bytes = feature_bytes(&place, at, memory)?;
        Ok(match place.cube.precision() {
            Precision::Int8 => Data::Int8(bytes),
            Precision::Int16 => Data::Int16(bytes),
            Precision::Fp16 => Data::Fp16(bytes),
        })
    }
}

/// Writes the chunk in `scratch` where a feature cube has one surface for each of the data path's.
pub(super) fn emit(job: &Job, scratch: &Scratch, into: &mut [u8]) {
    if job.short.is_some() {
        into.copy_from_slice(&scratch.bytes[..into.len()]);
        return;
    }
    let (packing, length) = match job.operation.output {
        Precision::Int8 => (Packing::Bytes, into.len()),
        Precision::Int16 | Precision::Fp16 => (Packing::Pairs, into.len() / 2),
    };
    process::pack(job.instructions, &scratch.values.0[..length], packing, into);
}

/// Whether two surfaces of int16 input make one of the data path.
fn halves_in(operation: &Operation) -> bool {
    operation.processing == Precision::Int8
        && matches!(operation.source, Source::Memory(place) if place.cube.precision() != Precision::Int8)
}

/// Whether a surface of the data path makes two of 16-bit output.
fn halves_out(operation: &Operation) -> bool {
    operation.processing == Precision::Int8 && operation.output != Precision::Int8
}

/// Address and length of a chunk of a feature cube. On walks that join lines or surfaces `x` runs on past them: what it
/// joins lies one after another.
fn feature_range(place: &Place, at: At) -> (u64, usize) {
    let cube = &place.cube;
    let offset = cube.atom_offset_of(at.batch as u32, at.surface as u32, at.line as u32, at.x as u32);
    (place.base.wrapping_add(offset), cube.atoms().span(at.atoms))
}

fn feature_bytes<'m>(place: &Place, at: At, memory: &'m dyn Memory) -> Result<&'m [u8], Fault> {
    let (address, length) = feature_range(place, at);
    read(memory, "SDP_RDMA", place.port, address, length)
}

pub(super) fn feature_bytes_mut<'m>(place: &Place, at: At, memory: &'m mut dyn Memory) -> Result<&'m mut [u8], Fault> {
    let (address, length) = feature_range(place, at);
    write(memory, "SDP", place.port, address, length)
}

/// The bytes of a chunk's operands; batches share them.
fn operand_bytes<'m>(place: &OperandPlace, at: At, memory: &'m dyn Memory) -> Result<&'m [u8], Fault> {
    let layout = &place.layout;
    let offset = layout.atom_offset(at.surface as u32, at.line as u32, at.x as u32);
    read(memory, "SDP_RDMA", place.port, place.base.wrapping_add(offset), layout.span_of(at.atoms))
}

fn format(place: &OperandPlace, component: Component) -> Format {
    let layout = &place.layout;
    Format {
        bytes: layout.component_bytes() as usize,
        components: layout.components() as usize,
        component: usize::from(layout.components() == 2 && component == Component::Mul),
    }
}
