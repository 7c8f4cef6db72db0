// SPDX-License-Identifier: MIT OR Apache-2.0

//! The steps of one chunk, compiled once per instruction set.

use super::super::operation::Operation;
use super::super::tally::Tally;
#[cfg(target_arch = "x86_64")]
use super::avx512::{self, int8, Tail};
#[cfg(target_arch = "x86_64")]
use super::eight::Avx2;
use super::fused::{self, Fused, Sample};
use super::fused_float::{self, FusedFloat};
use super::lanes::{Each, Lanes, Operands, Scratch, Slot, CHUNK, PERIOD, SLOTS};
use super::load::{self, Data, Format};
use super::lookup::Joint;
use super::plan::{Feed, Plan, Prepare, Step};
use super::{float, int, store};
use crate::lut::sdp::Lookup;
use crate::lut::Tables;
use crate::simd::table::{self, Results};
use nvdla_uapi::isa::Isa;

/// The context of all chunks of an operation.
#[derive(Clone, Copy)]
pub(super) struct ChunkContext<'j> {
    pub operation: &'j Operation,
    pub plan: &'j Plan,
    pub short: Option<&'j Short>,
    pub joint: Option<&'j Joint>,
    /// The loop for the lookup and everything after it.
    #[cfg(target_arch = "x86_64")]
    pub tail: Option<&'j Tail>,
    pub tables: &'j Tables,
    pub isa: Isa,
    /// Whether the output is written with non-temporal stores.
    pub non_temporal: bool,
}

impl ChunkContext<'_> {
    /// The number of elements, at most `length`, for which repeating operands are prepared.
    pub(super) fn prepared(&self, length: usize) -> usize {
        length.min(self.short.map_or(CHUNK, Short::prepared))
    }

    /// Whether the results of a chunk are in [`Scratch::bytes`], and not in its values.
    pub(super) fn makes_bytes(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        if self.tail.is_some() {
            return true;
        }
        self.short.is_some()
    }
}

vectorised! {
    /// Prepares a slot's operands from the bytes in memory.
    pub(super) fn operand(values: &mut [i32], bytes: &[u8], format: Format, prepare: Prepare, flush: bool) {
        load::operand(values, bytes, format, prepare, flush);
    }
}

vectorised! {
    /// Loads the first `length` values of a chunk, and applies every step and the conversion to the output precision.
    pub(super) fn process(context: &ChunkContext, scratch: &mut Scratch, data: Data, length: usize, tally: &mut Tally) {
        let ChunkContext { operation, plan, tables, .. } = *context;
        #[cfg(target_arch = "x86_64")]
        if let (Some(Step::Lookup), Some(tail), Some(joint), Data::Ints(data)) =
            (plan.steps().next(), context.tail, context.joint, data)
        {
            // SAFETY: there is a tail where the machine has its instructions.
            return unsafe { tail.run(joint, data, &mut scratch.bytes[..length]) };
        }
        let Scratch { values: Lanes(values), operands, .. } = scratch;
        let values = &mut values[..length];
        load::data(values, data, operation.lanes);
        if operation.nan_to_zero {
            float::flush_nan(values);
        }
        let strict = plan.strict
            || (matches!(data, Data::Floats(_))
                && values.iter().fold(false, |any, &value| any | float::is_foreign(value as u32)));
        let each = |slot: Slot| each(plan, operands, slot, length);
        let lookup = operation.y.and_then(|y| y.lookup);
        let converter = plan.converter;
        let (offset, scale, shift) = (converter.offset, i32::from(converter.scale), converter.shift);
        for step in plan.steps() {
            #[cfg(target_arch = "x86_64")]
            if let (Step::Lookup, Some(tail), Some(joint)) = (step, context.tail, context.joint) {
                // SAFETY: there is a tail where the machine has its instructions.
                return unsafe { tail.run(joint, values, &mut scratch.bytes[..length]) };
            }
            match step {
                Step::Max(slot) => int::max(values, each(slot)),
                Step::Min(slot) => int::min(values, each(slot)),
                Step::Add(slot) => int::add(values, each(slot)),
                Step::AddSaturating(slot) => int::add_saturating(values, each(slot)),
                Step::Differ(slot) => int::differ(values, each(slot)),
                Step::MultiplyNarrow { operand, shift, prelu, .. } => {
                    int::multiply_narrow(values, each(operand), shift, prelu);
                }
                Step::MultiplyWide { operand, shift, prelu, .. } => int::multiply_wide(values, each(operand), shift, prelu),
                Step::AddMultiplyWide { alu, mul, shift, prelu } => {
                    let mul = mul.map_or(Each::One(1), each);
                    int::add_multiply_wide(values, each(alu), mul, shift, prelu);
                }
                Step::ShiftNarrow(shift) => int::shift_narrow(values, shift),
                Step::ShiftWide(shift) => int::shift_wide(values, shift),
                Step::Relu => int::relu(values),
                Step::Lookup => match (context.joint, &lookup) {
                    (Some(joint), _) => joint.run::<128>(values),
                    (None, Some(lookup)) => look_up_int(values, lookup, tables, tally),
                    (None, None) => {}
                },
                Step::CountSaturated => {
                    let saturated = int::count_saturated(values, offset, scale, shift);
                    tally.saturated = tally.saturated.wrapping_add(saturated);
                }
                Step::ConvertNarrow => int::convert_narrow(values, offset, scale, shift),
                Step::ConvertWide { narrow_difference, .. } => {
                    int::convert_wide(values, offset, scale, shift, narrow_difference);
                }
                Step::FloatMax(slot) => float::max(values, each(slot)),
                Step::FloatMin(slot) => float::min(values, each(slot)),
                Step::FloatAdd(slot) => float::add(values, each(slot), strict),
                Step::FloatMultiply { operand, prelu } => float::multiply(values, each(operand), prelu, strict),
                Step::FloatRelu => float::relu(values),
                Step::FloatLookup => {
                    if let Some(lookup) = &lookup {
                        look_up_float(values, lookup, tables, tally);
                    }
                }
            }
        }
        store::narrow(values, operation, tally);
        if operation.compares() {
            tally.unequal |= values.iter().any(|&value| value != 0);
        }
    }
}

/// A slot's operands for the first `length` values.
#[inline(always)]
fn each<'o>(plan: &Plan, operands: &'o [Lanes; SLOTS], slot: Slot, length: usize) -> Each<'o> {
    match plan.feeds[slot as usize] {
        Some(Feed::One(operand)) => Each::One(operand),
        _ => Each::Many(&operands[slot as usize].0[..length]),
    }
}

// These lookups are chains of branches, so one copy of them serves all instruction sets.
#[inline(never)]
fn look_up_int(values: &mut [i32], lookup: &Lookup, tables: &Tables, tally: &mut Tally) {
    for value in values {
        *value = lookup.int(tables, *value, &mut tally.lookups);
    }
}

#[inline(never)]
fn look_up_float(values: &mut [i32], lookup: &Lookup, tables: &Tables, tally: &mut Tally) {
    for value in values {
        *value = lookup.float(tables, *value as u32, &mut tally.lookups) as i32;
    }
}

/// A fused loop for a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Short {
    /// From int8 or sums to int8.
    Int {
        fused: Fused,
        #[cfg(target_arch = "x86_64")]
        avx512: Option<int8::Loop>,
    },
    /// From fp16 or sums to fp16.
    Float(FusedFloat),
    /// From int8 to int8 by a table of all results.
    Table(Results),
}

impl Short {
    /// The number of elements for which repeating operands are prepared.
    pub(super) fn prepared(&self) -> usize {
        match self {
            Self::Int { .. } => PERIOD,
            Self::Float(_) | Self::Table(_) => CHUNK,
        }
    }

    /// Sets `length` of each operand of which the layer has one.
    pub(super) fn fill(&self, plan: &Plan, length: usize, operands: &mut [Lanes; SLOTS]) {
        let mut fill = |slot: Slot| {
            if let Some(Feed::One(operand)) = plan.feeds[slot as usize] {
                operands[slot as usize].0[..length].fill(operand);
            }
        };
        match self {
            Self::Int { fused, .. } => fused.slots().for_each(&mut fill),
            Self::Float(fused) => fused.slots().for_each(&mut fill),
            Self::Table(_) => {}
        }
    }

    /// Slots with operands that are read directly from memory.
    pub(super) fn direct(&self) -> [bool; SLOTS] {
        match self {
            Self::Int { fused, .. } => fused.direct.map(|shift| shift.is_some()),
            Self::Float(fused) => fused.direct.map(|shift| shift.is_some()),
            Self::Table(_) => [false; SLOTS],
        }
    }

    /// The bytes of this many values.
    pub(super) fn bytes_of(&self, values: usize) -> usize {
        match self {
            Self::Int { .. } | Self::Table(_) => values,
            Self::Float(_) => 2 * values,
        }
    }
}

/// Converts the values of a chunk to bytes, as many as `into` holds.
pub(super) fn process_short(isa: Isa, short: &Short, operands: &Operands, data: Data, into: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if let Short::Int { fused, avx512: Some(way) } = short {
        let done = match data {
            // SAFETY: there is such a loop where the machine has its instructions.
            Data::Ints(data) => unsafe { int8::run(fused, *way, data, operands, into) },
            // SAFETY: as above.
            Data::Int8(data) => unsafe { int8::run(fused, *way, data, operands, into) },
            _ => false,
        };
        if done {
            return;
        }
    }
    #[cfg(target_arch = "x86_64")]
    if let (true, Short::Float(fused)) = (isa.has_avx512(), short) {
        let into = into.as_chunks_mut().0;
        match data {
            // SAFETY: the machine has these instructions, as it has the `Isa`.
            Data::Fp16(data) => return unsafe { avx512::float::run(fused, data.as_chunks().0, operands, into) },
            // SAFETY: as above.
            Data::Floats(data) => return unsafe { avx512::float::run(fused, data, operands, into) },
            _ => {}
        }
    }
    match (short, data) {
        (Short::Int { fused, .. }, Data::Int8(data)) => whole_atoms(isa, fused, data, operands, into),
        (Short::Int { fused, .. }, Data::Ints(data)) => whole_atoms(isa, fused, data, operands, into),
        (Short::Table(results), Data::Int8(data)) => table::look_up(isa, results, data, into),
        (Short::Float(fused), _) => floats(isa, fused, operands.lanes, data, into),
        // The data have the type for which this loop was chosen.
        _ => {}
    }
}

/// The fused loop of int8, for whole atoms.
fn whole_atoms<T: Sample>(isa: Isa, fused: &Fused, data: &[T], operands: &Operands, into: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx2() {
        #[target_feature(enable = "avx2")]
        fn avx2<T: Sample>(fused: &Fused, data: &[T], operands: &Operands, into: &mut [u8]) {
            fused::run::<Avx2, T>(fused, data, operands, into);
        }
        // SAFETY: the machine has AVX2, as it has the `Isa`.
        return unsafe { avx2(fused, data, operands, into) };
    }
    let _ = isa;
    fused::run::<[i32; 8], T>(fused, data, operands, into);
}

vectorised! {
    /// The fused loop of fp16.
    fn floats(fused: &FusedFloat, operands: &[Lanes; SLOTS], data: Data, into: &mut [u8]) {
        match data {
            Data::Fp16(data) => fused_float::run(fused, data.as_chunks().0, operands, into.as_chunks_mut().0),
            Data::Floats(data) => fused_float::run(fused, data, operands, into.as_chunks_mut().0),
            // The data have the type for which this loop was chosen.
            _ => {}
        }
    }
}

/// The layout of a chunk's values in the destination.
#[derive(Clone, Copy)]
pub(super) enum Packing {
    /// A byte each.
    Bytes,
    /// Two bytes each.
    Pairs,
    /// Two bytes each, for half of the channels.
    HalfPairs {
        /// Values of an atom.
        lanes: usize,
        /// 0 or 1.
        half: usize,
    },
}

vectorised! {
    /// Writes a chunk's values.
    pub(super) fn pack(values: &[i32], packing: Packing, into: &mut [u8]) {
        match packing {
            Packing::Bytes => store::bytes(values, into),
            Packing::Pairs => store::pairs(values, into),
            Packing::HalfPairs { lanes, half } => store::half_pairs(values, lanes, half, into),
        }
    }
}
