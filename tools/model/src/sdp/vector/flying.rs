// SPDX-License-Identifier: MIT OR Apache-2.0

//! SDP connected to a convolution: it takes sums, or bounds of fp16 sums, while they are in the first-level cache.
//!
//! The output is written to memory after all of it is computed, unless it shares no byte with the input and the operands. So neither
//! the convolution nor SDP reads bytes that the operation has written.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Mutex;

use nvdla_uapi::config::Config;
use nvdla_uapi::isa::Isa;
use nvdla_uapi::layout::feature::{Atoms, Cube, View};
use nvdla_uapi::reg::values::Precision;

use super::super::operation::{DataCube, Destination, OperandSurface, Operation};
use super::super::state::State;
use super::super::tally::Tally;
use super::addresses::{feature_bytes_mut, format, ChunkPosition};
#[cfg(target_arch = "x86_64")]
use super::avx512::Tail;
#[cfg(target_arch = "x86_64")]
use super::choose::tail;
use super::choose::{fused, joint};
use super::lanes::{Direct, Lanes, Operands, Scratch, PERIOD, SLOTS};
use super::load::{self, Data};
use super::lookup::Joint;
use super::plan::{Feed, Plan};
use super::process::{self, ChunkContext, Short};
use super::walk::{emit, Walk};
use crate::conv::fast::sink::{self, MOST_BOUNDS};
use crate::like::Like;
use crate::lut::Tables;
use crate::memory::{Fault, Memory, Span, Stop};
use crate::registers::Registers;
use crate::stream::{Done, Form};
use crate::threads::share;

/// Results that are compared together. Most blocks have no different ones.
const BLOCK: usize = 32;

thread_local! {
    /// A thread's scratch buffers, one per surface of the part that it computes.
    static SCRATCH: RefCell<Vec<Box<Scratch>>> = const { RefCell::new(Vec::new()) };
}

/// What the registers say about an operation on sums that arrive a few at a time.
#[derive(Debug)]
pub(crate) struct Decoded {
    operation: Operation,
    plan: Plan,
    short: Option<Short>,
    walk: Walk,
    /// The most lanes that can be taken together: all that repeat, or those of one surface where operands vary by element.
    most_lanes: usize,
    /// `None` if the output goes to PDP.
    destination: Option<DataCube>,
    isa: Isa,
}

impl Decoded {
    /// The operation, if its output has the same precision and, for fp16, if bounds are sufficient. The output goes to memory, or
    /// int8 to PDP.
    pub(crate) fn new(
        isa: Isa,
        like: Like,
        config: &Config,
        rdma: &Registers,
        sdp: &Registers,
        form: Form,
    ) -> Result<Option<Self>, Stop> {
        let operation = Operation::of(config, like, rdma, sdp, Some(form))?;
        let is_float = operation.processing == Precision::Fp16;
        let destination = match operation.destination {
            Destination::Memory(destination) => Some(destination),
            Destination::Pdp if !is_float && operation.lanes == Atoms::of(config, Precision::Int8).elements() => None,
            Destination::Pdp | Destination::Comparison => return Ok(None),
        };
        if operation.processing == Precision::Int16 || operation.output != operation.processing {
            return Ok(None);
        }
        let plan = Plan::new(&operation);
        let walk = Walk::new(&operation, &plan, true);
        let short = fused(&walk, &operation, &plan, isa);
        let flies = match short {
            Some(Short::Float(fused)) => fused.is_monotonic(),
            _ => !is_float,
        };
        let varies = |feed: &Feed| matches!(feed, Feed::Memory { per_kernel: false, .. });
        let most_lanes = match (plan.feeds.iter().flatten().any(varies), &short) {
            (_, None | Some(Short::Float(_) | Short::Table(_))) => 0,
            (true, _) if walk.lines > 1 => 0,
            (true, _) => operation.lanes,
            (false, _) => PERIOD,
        };
        Ok(flies.then_some(Self { operation, plan, short, walk, most_lanes, destination, isa }))
    }
}

impl Decoded {
    /// The output, if it is written to memory without a gap and shares no byte with `others` and with the operands in memory.
    pub(crate) fn apart(&self, others: &[Range<u64>]) -> Option<Span> {
        let Self { operation, plan, destination, .. } = self;
        let DataCube { port, base: address, layout } = (*destination)?;
        let Operation { width, height, surfaces, batch, .. } = *operation;
        let length = View::packed(surfaces, height, width, layout.atoms().bytes()).span(batch);
        let output = address..address.checked_add(length as u64)?;
        let is_outside = |range: &Range<u64>| range.end <= output.start || output.end <= range.start;
        let operands = plan.feeds.iter().flatten().all(|feed| match feed {
            Feed::One(_) => true,
            Feed::Memory { operands: OperandSurface { base, layout, .. }, .. } => {
                base.checked_add(layout.span()).is_some_and(|end| is_outside(&(*base..end)))
            }
        });
        let suits = is_one_range(&layout, batch) && operands && others.iter().all(is_outside);
        suits.then_some(Span { port, address, length })
    }
}

/// Whether the cubes have no gap.
fn is_one_range(cube: &Cube, batch: usize) -> bool {
    // A cube of one line is packed, whatever its surface stride is.
    cube.is_packed() && (batch == 1 || cube.cube_stride() == cube.span())
}

/// An operation on sums that arrive a few at a time.
pub(crate) struct OnFlying<'s> {
    decoded: &'s Decoded,
    tables: &'s Tables,
    joint: Option<&'s Joint>,
    #[cfg(target_arch = "x86_64")]
    tail: Option<&'s Tail>,
}

impl<'s> OnFlying<'s> {
    /// The operation with its tables.
    pub(crate) fn new(decoded: &'s Decoded, state: &'s mut State) -> Self {
        let Decoded { operation, .. } = decoded;
        let State { tables, joint: buffers, .. } = state;
        // In the state, because this value is moved and tables are large.
        let joint = joint(operation, tables).map(|joint| &*buffers.insert(joint));
        #[cfg(target_arch = "x86_64")]
        let tail = tail(operation, &decoded.plan, joint, decoded.isa).map(|tail| &*state.tail.insert(tail));
        Self {
            decoded,
            tables,
            joint,
            #[cfg(target_arch = "x86_64")]
            tail,
        }
    }

    fn context(&self) -> ChunkContext<'_> {
        let Decoded { operation, plan, short, isa, .. } = self.decoded;
        ChunkContext {
            operation,
            plan,
            short: short.as_ref(),
            joint: self.joint,
            #[cfg(target_arch = "x86_64")]
            tail: self.tail,
            tables: self.tables,
            isa: *isa,
            non_temporal: false,
        }
    }

    /// The receiver of a convolution's sums. It reads operands from `memory`.
    pub(crate) fn sink<'o>(&'o self, memory: &'o dyn Memory) -> Sink<'o> {
        Sink { flying: self, context: self.context(), memory, found: Mutex::default() }
    }

    /// Writes the output, unless it is written already, and returns the counters, and the form of an output that goes to PDP instead.
    pub(crate) fn finish(
        &self,
        found: &Found,
        bytes: Option<&[u8]>,
        memory: &mut dyn Memory,
    ) -> Result<Done<Option<Form>>, Stop> {
        if let Some((_, fault)) = found.fault {
            return Err(fault.into());
        }
        let Decoded { operation, walk, destination, .. } = self.decoded;
        let Done { status, .. } = found.tally.finish(operation, None);
        let Some(destination) = destination else {
            let Operation { width, height, channels, lanes, .. } = *operation;
            let form = Form { width, height, channels, lanes, batch: 1, is_float: false, largest: 1 << 7 };
            return Ok(Done { output: Some(form), status });
        };
        let done = Done { output: None, status };
        let Some(bytes) = bytes else { return Ok(done) };
        let Walk { surfaces, lines, atoms, .. } = *walk;
        let line_bytes = destination.layout.atoms().span(atoms);
        if is_one_range(&destination.layout, operation.batch) {
            if let Some(into) = memory.write(destination.port, destination.base, bytes.len()) {
                share::copy(bytes, into);
                return Ok(done);
            }
        }
        let cube = (0..surfaces).flat_map(|surface| (0..lines).map(move |line| (surface, line)));
        let lines = (0..).flat_map(|batch| cube.clone().map(move |(surface, line)| (batch, surface, line)));
        for (bytes, (batch, surface, line)) in bytes.chunks_exact(line_bytes).zip(lines) {
            let at = ChunkPosition { batch, surface, line, x: 0, atoms };
            feature_bytes_mut(destination, at, memory)?.copy_from_slice(bytes);
        }
        Ok(done)
    }
}

/// The counters and the first fault of the sums so far.
#[derive(Debug, Default)]
pub(crate) struct Found {
    tally: Tally,
    /// The first element of the output whose operands are outside memory, and the fault.
    fault: Option<((usize, usize, usize), Fault)>,
}

/// Takes sums.
pub(crate) struct Sink<'o> {
    flying: &'o OnFlying<'o>,
    context: ChunkContext<'o>,
    memory: &'o dyn Memory,
    found: Mutex<Found>,
}

impl Sink<'_> {
    /// The errors and counters.
    pub(crate) fn found(self) -> Found {
        self.found.into_inner().unwrap_or_default()
    }

    fn fail(&self, position: sink::Position, fault: Fault) {
        let Ok(mut found) = self.found.lock() else { return };
        let key = (position.batch, position.surface, position.first);
        if found.fault.is_none_or(|(first, _)| key < first) {
            found.fault = Some((key, fault));
        }
    }
}

impl Sink<'_> {
    /// Prepares a thread's scratch memory for a surface.
    fn prepare(&self, position: sink::Position) {
        let result = SCRATCH.with_borrow_mut(|all| {
            while all.len() <= position.index {
                all.push(Scratch::new());
            }
            let Self { flying, context, memory, .. } = self;
            let (walk, scratch) = (&flying.decoded.walk, &mut all[position.index]);
            let length = context.prepared(walk.chunk.min(walk.atoms) * context.operation.lanes);
            if let Some(short) = context.short {
                short.fill(context.plan, length, &mut scratch.operands);
            }
            walk.load_kernels(context, scratch, position.surface, *memory)
        });
        if let Err(fault) = result {
            self.fail(position, fault);
        }
    }

    /// Calls `compute` for the elements in chunks of the walk, with their operands and their position among all lanes.
    fn chunks(
        &self,
        position: sink::Position,
        count: usize,
        mut compute: impl FnMut(&mut Scratch, &Direct, Range<usize>),
    ) {
        let Self { flying, context, memory, .. } = self;
        let (walk, lanes) = (&flying.decoded.walk, context.operation.lanes);
        SCRATCH.with_borrow_mut(|all| {
            let scratch = &mut all[position.index];
            let mut done = 0;
            while done < count {
                let (at, atoms) = walk.at(position.batch, position.surface, position.first + done, count - done);
                let mut direct = [&[][..]; SLOTS];
                if let Err(fault) = walk.load_elements(context, &mut scratch.operands, at, *memory, &mut direct) {
                    return self.fail(sink::Position { first: position.first + done, ..position }, fault);
                }
                compute(scratch, &direct, done * lanes..(done + atoms) * lanes);
                done += atoms;
            }
        });
    }
}

impl sink::Sink for Sink<'_> {
    type Out = u8;

    fn begin(&self, position: sink::Position) {
        self.prepare(position);
    }

    fn take(&self, position: sink::Position, sums: &[i32], out: &mut [u8]) {
        let context = &self.context;
        let mut tally = Tally::default();
        self.chunks(position, sums.chunks_exact(context.operation.lanes).len(), |scratch, direct, range| {
            let (data, out) = (Data::Ints(&sums[range.clone()]), &mut out[range.clone()]);
            if let Some(short) = context.short {
                let operands = Operands { lanes: &scratch.operands, bytes: direct };
                process::process_short(context.isa, short, &operands, data, out);
            } else {
                process::process(context.isa, context, scratch, data, range.len(), &mut tally);
                emit(context, scratch, out);
            }
        });
        if context.short.is_none() && tally != Tally::default() {
            if let Ok(mut found) = self.found.lock() {
                found.tally.add(&tally);
            }
        }
    }

    fn takes_units(&self, kernels: usize) -> bool {
        kernels <= self.flying.decoded.most_lanes && PERIOD.is_multiple_of(kernels)
    }

    fn take_units(&self, position: sink::Position, sums: &[i32], kernels: usize, out: &mut [&mut [u8]], skip: usize) {
        let Self { flying: OnFlying { decoded: Decoded { walk, .. }, .. }, context, memory, .. } = self;
        let ChunkContext { operation, plan, isa, short: Some(short), .. } = *context else { return };
        let surfaces = position.surface..position.surface + out.len();
        let Ok(bytes) = Walk::kernel_bytes(plan, surfaces, *memory) else {
            // One of the surfaces has the fault.
            return (0..out.len()).for_each(|index| {
                self.prepare(sink::Position { surface: position.surface + index, index: 0, ..position });
            });
        };
        let (lanes, per_unit) = (operation.lanes, kernels / operation.lanes);
        let units = out.len().div_ceil(per_unit);
        SCRATCH.with_borrow_mut(|all| {
            if all.is_empty() {
                all.push(Scratch::new());
            }
            let Scratch { operands, bytes: results, .. } = &mut *all[0];
            short.fill(plan, PERIOD, operands);
            let sums = sums.chunks_exact(sums.len() / units);
            for (unit, (sums, out)) in sums.zip(out.chunks_mut(per_unit)).enumerate() {
                for ((Lanes(values), feed), bytes) in operands.iter_mut().zip(&plan.feeds).zip(bytes) {
                    let Some(Feed::Memory { operands, component, prepare, per_kernel: true }) = feed else { continue };
                    let (values, format) = (&mut values[..PERIOD], format(operands, *component));
                    let bytes = &bytes[unit * kernels * format.bytes * format.components..];
                    let (own, missing) = values.split_at_mut(out.len() * lanes);
                    process::operand(isa, own, bytes, format, *prepare, operation.nan_to_zero);
                    missing.fill(0);
                    load::repeat(values, kernels);
                }
                let surface = position.surface + unit * per_unit;
                let mut direct = [&[][..]; SLOTS];
                // All elements are in one line where operands vary by element.
                let (at, _) = walk.at(position.batch, surface, position.first, sums.len() / kernels);
                if let Err(fault) = walk.load_elements(context, operands, at, *memory, &mut direct) {
                    self.fail(sink::Position { surface, ..position }, fault);
                    continue;
                }
                let operands = Operands { lanes: &*operands, bytes: &direct };
                let data = Data::Ints(sums);
                if let (true, [out]) = (per_unit == 1, &mut *out) {
                    process::process_short(isa, short, &operands, data, &mut out[skip..][..sums.len()]);
                    continue;
                }
                let results = &mut results[..sums.len()];
                process::process_short(isa, short, &operands, data, results);
                for (number, out) in out.iter_mut().enumerate() {
                    let (out, results) = (&mut out[skip..], &results[number * lanes..]);
                    match lanes {
                        8 => spread::<8>(results, kernels, out),
                        16 => spread::<16>(results, kernels, out),
                        _ => {
                            for (to, from) in out.chunks_exact_mut(lanes).zip(results.chunks(kernels)) {
                                to.copy_from_slice(&from[..lanes]);
                            }
                        }
                    }
                }
            }
        });
    }
}

/// Copies the first of every `kernels` results, `LANES` at a time.
fn spread<const LANES: usize>(results: &[u8], kernels: usize, out: &mut [u8]) {
    for (to, from) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(results.chunks(kernels)) {
        if let Some(from) = from.first_chunk() {
            *to = *from;
        }
    }
}

impl sink::BoundsSink for Sink<'_> {
    type Out = [u8; 2];

    fn begin(&self, position: sink::Position) {
        self.prepare(position);
    }

    fn take(&self, position: sink::Position, bounds: sink::Bounds<'_>, exact: sink::Exact<'_>, out: &mut [[u8; 2]]) {
        let context = &self.context;
        let Some(short) = context.short else { return };
        let mut sums = [0.0; MOST_BOUNDS];
        let sums = &mut sums[..out.len()];
        sums.copy_from_slice(bounds.low);
        let mut wanted = [0; MOST_BOUNDS];
        let mut count = 0;
        let make = |scratch: &Scratch, direct: &Direct, sums: &[f32], into: &mut [u8]| {
            let operands = Operands { lanes: &scratch.operands, bytes: direct };
            process::process_short(context.isa, short, &operands, Data::Floats(sums), into);
        };
        let elements = out.chunks_exact(context.operation.lanes).len();
        self.chunks(position, elements, |scratch, direct, range| {
            make(scratch, direct, &sums[range.clone()], out[range.clone()].as_flattened_mut());
            let mut high = [[0; 2]; MOST_BOUNDS];
            let high = &mut high[..range.len()];
            make(scratch, direct, &bounds.high[range.clone()], high.as_flattened_mut());
            // If both bounds have the same result, so has every value between them.
            let (low, high) = (out[range.clone()].chunks(BLOCK), high.chunks(BLOCK));
            for (first, (low, high)) in range.step_by(BLOCK).zip(low.zip(high)) {
                if low == high {
                    continue;
                }
                for (index, (low, high)) in (first..).zip(low.iter().zip(high)) {
                    wanted[count] = index as u16;
                    count += usize::from(low != high);
                }
            }
        });
        if count != 0 {
            exact(&wanted[..count], sums);
            self.chunks(position, elements, |scratch, direct, range| {
                make(scratch, direct, &sums[range.clone()], out[range].as_flattened_mut());
            });
        }
    }
}
