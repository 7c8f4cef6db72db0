// SPDX-License-Identifier: MIT OR Apache-2.0

//! int8.
//!
//! A lookup's argument has 20 bits at most, so that answers can be kept from the first time that they are asked for: a
//! cube has far fewer different sums than elements, and the next inference asks for the same ones.

use std::sync::atomic::{AtomicU32, Ordering};
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

use super::super::{Counts, Operation};
use super::integer::{self, Output};
use super::rows::Rows;
use super::strips::{Engine, Rooms};
use super::{counters, Isa};
use crate::lut::cdp::Lookup;
use crate::lut::{Counters, Tables};

/// Nine squares of 9 bits.
const LARGEST: i64 = 9 << 16;
/// The smallest single value, which the table's argument is where nothing is squared.
const SMALLEST: i64 = -256;

/// What belongs to a lookup, and memory.
#[derive(Debug, Default)]
pub(super) struct Memo {
    answers: Answers,
    #[cfg(target_arch = "x86_64")]
    vectors: OnceLock<Option<crate::lut::cdp::avx512::int::Ints<i32>>>,
    rooms: Rooms<Room>,
}

impl Memo {
    pub(super) fn forget(&mut self) {
        self.answers.entries.clear();
        #[cfg(target_arch = "x86_64")]
        {
            self.vectors = OnceLock::new();
        }
    }

    pub(super) fn engine<'m>(
        &'m mut self,
        isa: Isa,
        operation: &'m Operation,
        tables: &'m Tables,
    ) -> (Int8<'m>, &'m mut Rooms<Room>) {
        let Self { answers, rooms, .. } = self;
        let convert = !integer::is_identity(&operation.input);
        let largest = if operation.skip_multiply { 1 << 15 } else { 1 << (15 + 8) };
        let output = Output::new(operation.output, 8, largest);
        #[cfg(target_arch = "x86_64")]
        let vectors = {
            let ends = if operation.reach.is_some() { [0, LARGEST] } else { [SMALLEST, -SMALLEST - 1] };
            let new = || crate::lut::cdp::avx512::int::Ints::narrow(&operation.lookup, tables, ends);
            self.vectors.get_or_init(new).as_ref().filter(|_| isa == Isa::Avx512)
        };
        #[cfg(target_arch = "x86_64")]
        let is_known = vectors.is_some_and(crate::lut::cdp::avx512::int::Ints::is_complete);
        #[cfg(not(target_arch = "x86_64"))]
        let is_known = false;
        if !is_known {
            answers.reserve();
        }
        let engine = Int8 {
            isa,
            operation,
            tables,
            answers,
            convert,
            output,
            #[cfg(target_arch = "x86_64")]
            vectors,
        };
        (engine, rooms)
    }
}

/// The answers of one lookup, by its argument.
#[derive(Debug, Default)]
struct Answers {
    /// Zero, or [`KNOWN`] with the counter's place and the factor. Threads that find the same answer store the same.
    entries: Vec<AtomicU32>,
}

const KNOWN: u32 = 1 << 31;
/// Bits of a counter while a chunk is looked up; an entry has its counter's place.
const COUNT_BITS: u32 = 12;
/// Elements of a chunk: as many as a counter can count.
const CHUNK: usize = (1 << COUNT_BITS) - 1;

impl Answers {
    fn reserve(&mut self) {
        self.entries.resize_with((LARGEST - SMALLEST + 1) as usize, AtomicU32::default);
    }

    #[inline(always)]
    fn get(&self, lookup: &Lookup, tables: &Tables, sum: i64) -> u32 {
        match self.entries.get((sum - SMALLEST) as usize).map(|entry| entry.load(Ordering::Relaxed)) {
            None | Some(0) => self.find(lookup, tables, sum),
            Some(entry) => entry,
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&self, lookup: &Lookup, tables: &Tables, sum: i64) -> u32 {
        let mut counter = Counters::default();
        let factor = lookup.int(tables, sum, &mut counter);
        let Counters { under, over, hybrid, le_hit, lo_hit } = counter;
        let which = [under, over, hybrid, le_hit, lo_hit].iter().position(|&count| count != 0).unwrap_or(0);
        let entry = KNOWN | (COUNT_BITS * which as u32) << 16 | u32::from(factor as u16);
        if let Some(place) = self.entries.get((sum - SMALLEST) as usize) {
            place.store(entry, Ordering::Relaxed);
        }
        entry
    }

    /// The factors of sums, of which `elements` count.
    fn factors(
        &self,
        lookup: &Lookup,
        tables: &Tables,
        sums: &[i32],
        elements: usize,
        factors: &mut [i16],
        classes: &mut [u32; 5],
    ) {
        let (sums, factors) = (&sums[..elements], &mut factors[..elements]);
        for (factors, sums) in factors.chunks_mut(CHUNK).zip(sums.chunks(CHUNK)) {
            // All counters in one register.
            let mut counts = 0u64;
            for (factor, &sum) in factors.iter_mut().zip(sums) {
                let entry = self.get(lookup, tables, sum.into());
                counts += 1 << ((entry >> 16) & 63);
                *factor = entry as i16;
            }
            for (class, count) in classes.iter_mut().enumerate() {
                *count = count.wrapping_add((counts >> (COUNT_BITS * class as u32)) as u32 & ((1 << COUNT_BITS) - 1));
            }
        }
    }
}

vectorised! {
    /// Widens atoms of `N` elements.
    fn widen(rows: Rows, surface: usize, atoms: &[u8], values: &mut [i16]) {
        #[inline(always)]
        fn all<const N: usize>(rows: Rows, surface: usize, atoms: &[u8], values: &mut [i16]) {
            for (values, atom) in rows.surface_mut(values, surface).zip(atoms.as_chunks::<N>().0) {
                for (value, &byte) in values.iter_mut().zip(atom) {
                    *value = i16::from(byte as i8);
                }
            }
        }
        match rows.atoms.elements() {
            32 => all::<32>(rows, surface, atoms, values),
            16 => all::<16>(rows, surface, atoms, values),
            _ => all::<8>(rows, surface, atoms, values),
        }
    }
}

/// What a thread works in: values are rows with margins, sums and factors have none, the rest is for one row.
#[derive(Debug, Default)]
pub(super) struct Room {
    values: Vec<i16>,
    sums: Vec<i32>,
    factors: Vec<i16>,
    wide: Vec<i32>,
    squares: Vec<i32>,
    narrow: Vec<i32>,
    long: Vec<i64>,
}

/// An operation of int8.
pub(super) struct Int8<'o> {
    isa: Isa,
    operation: &'o Operation,
    tables: &'o Tables,
    answers: &'o Answers,
    /// The input converter does something.
    convert: bool,
    output: Output,
    #[cfg(target_arch = "x86_64")]
    vectors: Option<&'o crate::lut::cdp::avx512::int::Ints<i32>>,
}

impl Int8<'_> {
    /// The input converter, for all rows.
    fn convert(&self, room: &mut Room, rows: Rows) {
        // What lies behind a row stays zero.
        for values in rows.inner_mut(&mut room.values) {
            let values = &mut values[..rows.elements];
            integer::convert_input(self.isa, &self.operation.input, [-256, 255], values);
        }
    }

    /// The factors of all rows.
    fn look_up(&self, room: &mut Room, rows: Rows) -> [u32; 5] {
        let operation = self.operation;
        let mut classes = [0; 5];
        let Room { values, sums, factors, wide, squares, .. } = room;
        let steps = rows.steps();
        let (sums, factors) = (&mut sums[..rows.count * steps], &mut factors[..rows.count * steps]);
        #[cfg(target_arch = "x86_64")]
        if let Some(vectors) = self.vectors {
            use crate::lut::cdp::avx512::Row;
            // SAFETY: `vectors` are there where the processor has what `Isa::Avx512` stands for.
            unsafe { super::avx512::int8::sums(rows, operation.reach, values, sums) };
            let row = Row { steps, elements: rows.elements, is_interleaved: true };
            let other = |sum| self.answers.get(&operation.lookup, self.tables, sum) as i16;
            // SAFETY: as above.
            unsafe { vectors.factors(sums, row, factors, &mut classes, other) };
            return classes;
        }
        for row in 0..rows.count {
            let (values, sums) = (rows.around(values, row), rows.bare_mut(sums, row));
            let factors = rows.bare_mut(factors, row);
            integer::widen(self.isa, values, wide);
            match operation.reach {
                Some(reach) => integer::windows(self.isa, reach, wide, squares, sums),
                None => sums.copy_from_slice(&wide[super::super::REACH..][..steps]),
            }
            self.answers.factors(&operation.lookup, self.tables, sums, rows.elements, factors, &mut classes);
        }
        classes
    }

    /// The results of all rows.
    fn results(&self, room: &mut Room, rows: Rows, into: &mut [u8]) -> u32 {
        let Room { values, factors, narrow, long, .. } = room;
        let mut saturated = 0;
        #[cfg(target_arch = "x86_64")]
        {
            use super::avx512::int8::{results, shifts};
            let shift = self.output.converter.shift;
            let is_shift = self.output.is_shift() && shifts(shift) && !self.operation.skip_multiply;
            if is_shift && self.isa == Isa::Avx512 {
                // SAFETY: the processor has what `Isa::Avx512` stands for.
                return unsafe { results(rows, shift, factors, values, into) };
            }
        }
        for row in 0..rows.count {
            let (values, factors) = (rows.inner(values, row), rows.bare(factors, row));
            let into = rows.bare_mut(into, row);
            let (values, factors) = (&values[..rows.elements], &factors[..rows.elements]);
            let skip = self.operation.skip_multiply;
            let (operands, offset) = ((factors, values), self.output.converter.offset);
            if self.output.is_narrow {
                integer::results(self.isa, &self.output, skip, operands, offset, narrow, &mut saturated);
                integer::to_bytes(self.isa, narrow, into);
            } else {
                // A product and an offset have 25 bits each.
                integer::results(self.isa, &self.output, skip, operands, offset, long, &mut saturated);
                integer::to_bytes(self.isa, long, into);
            }
        }
        saturated
    }
}

impl Engine for Int8<'_> {
    const BYTES: usize = 1;
    type Room = Room;

    fn prepare(&self, room: &mut Room, rows: Rows) {
        rows.clear(&mut room.values);
        rows.reserve(&mut room.sums);
        rows.reserve(&mut room.factors);
        let around = rows.steps() + 2 * super::super::REACH;
        for words in [&mut room.wide, &mut room.squares] {
            words.resize(around, 0);
        }
        room.narrow.resize(rows.steps(), 0);
        room.long.resize(rows.steps(), 0);
    }

    fn load(&self, room: &mut Room, rows: Rows, surface: usize, atoms: &[u8]) {
        widen(self.isa, rows, surface, atoms, &mut room.values);
    }

    fn normalise(&self, room: &mut Room, rows: Rows, into: &mut [u8]) -> Counts {
        if self.convert {
            self.convert(room, rows);
        }
        rows.blank(&mut room.values);
        let classes = self.look_up(room, rows);
        let saturated = self.results(room, rows, into);
        Counts { lut: counters(classes), saturated, nans: 0 }
    }
}
