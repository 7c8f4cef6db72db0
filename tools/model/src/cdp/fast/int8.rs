// SPDX-License-Identifier: MIT OR Apache-2.0

//! int8.
//!
//! The argument of a lookup has 20 bits at most. A cube has far fewer different sums than elements, and the next
//! inference needs the same ones, so each answer is kept after it was computed first.

use self::answers::{LARGEST, SMALLEST};
mod answers;

#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

use answers::Answers;

use super::super::super::conv::fast::isa::Isa;
use super::super::operation::counters;
use super::super::operation::{Converter, Counts, Operation};
use super::integer::{self, Output};
use super::rows::Rows;
use super::strips::{Engine, Rooms};
use crate::conv::fast::aligned::Aligned;
use crate::lut::Tables;

/// What belongs to a lookup, and memory.
#[derive(Debug, Default)]
pub(super) struct Memo {
    answers: Answers,
    #[cfg(target_arch = "x86_64")]
    vectors: OnceLock<Option<Vectors>>,
    rooms: Rooms<Room>,
}

impl Memo {
    pub(super) fn forget(&mut self) {
        self.answers.clear();
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
        let largest = if operation.skip_multiply { 1 << 15 } else { 1 << (15 + 8) };
        let output = Output::new(operation.output, 8, largest);
        #[cfg(target_arch = "x86_64")]
        let vectors = {
            let new = || Vectors::new(operation, tables);
            let vectors = self.vectors.get_or_init(new).as_ref().filter(|_| isa == Isa::Avx512);
            vectors.zip(super::avx512::rounded::Rounded::new(operation.output))
        };
        #[cfg(target_arch = "x86_64")]
        let is_known = vectors.as_ref().is_some_and(|(vectors, _)| vectors.parts.is_complete());
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
            output,
            #[cfg(target_arch = "x86_64")]
            vectors,
        };
        (engine, rooms)
    }
}

/// The lookup for steps with all sums in one region, and for others.
#[cfg(target_arch = "x86_64")]
#[derive(Debug)]
struct Vectors {
    steps: crate::lut::cdp::avx512::int::Ints<i64>,
    parts: crate::lut::cdp::avx512::int::Ints<i32>,
    ends: [i64; 2],
}

#[cfg(target_arch = "x86_64")]
impl Vectors {
    fn new(operation: &Operation, tables: &Tables) -> Option<Self> {
        use crate::lut::cdp::avx512::int::Ints;
        let ends = if operation.reach.is_some() { [0, LARGEST] } else { [SMALLEST, -SMALLEST - 1] };
        let steps = Ints::modular(&operation.lookup, tables, ends)?;
        Some(Self { steps, parts: Ints::narrow(&operation.lookup, tables, ends)?, ends })
    }
}

vectorised! {
    /// Widens atoms of `N` elements, less the offset of the input converter.
    fn widen(rows: Rows, surface: usize, offset: i16, atoms: &[u8], values: &mut [i16]) {
        #[inline(always)]
        fn all<const N: usize>(rows: Rows, surface: usize, offset: i16, atoms: &[u8], values: &mut [i16]) {
            for (values, atom) in rows.surface_mut(values, surface).zip(atoms.as_chunks::<N>().0) {
                for (value, &byte) in values.iter_mut().zip(atom) {
                    *value = i16::from(byte as i8) - offset;
                }
            }
        }
        match rows.atoms.elements() {
            32 => all::<32>(rows, surface, offset, atoms, values),
            16 => all::<16>(rows, surface, offset, atoms, values),
            _ => all::<8>(rows, surface, offset, atoms, values),
        }
    }
}

/// What a thread works in: values are rows with margins, sums and factors have none, the rest is for one row.
#[derive(Debug, Default)]
pub(super) struct Room {
    values: Aligned,
    sums: Vec<i32>,
    factors: Vec<i16>,
    wide: Vec<i32>,
    squares: Vec<i32>,
    narrow: Vec<i32>,
    long: Vec<i64>,
    /// The region of the lookup in which sums were found last.
    #[cfg(target_arch = "x86_64")]
    region: usize,
}

/// An operation of int8.
pub(super) struct Int8<'o> {
    isa: Isa,
    operation: &'o Operation,
    tables: &'o Tables,
    answers: &'o Answers,
    output: Output,
    #[cfg(target_arch = "x86_64")]
    vectors: Option<(&'o Vectors, super::avx512::rounded::Rounded)>,
}

impl Int8<'_> {
    /// The input converter without its offset, for all rows.
    fn convert(&self, room: &mut Room, rows: Rows) {
        let converter = Converter { offset: 0, ..self.operation.input };
        if integer::is_identity(&converter) {
            return;
        }
        let largest = i32::from(converter.scale).abs() << 8;
        let is_short = converter.shift < 15 && largest + (1 << converter.shift >> 1) <= i16::MAX.into();
        // What lies behind a row stays zero.
        for values in rows.inner_mut(rows.all::<i16>(&mut room.values)) {
            let values = &mut values[..rows.elements];
            if is_short {
                integer::convert_input(self.isa, &converter, [-256i16, 255], values);
            } else {
                integer::convert_input(self.isa, &converter, [-256i32, 255], values);
            }
        }
    }

    /// All in steps.
    #[cfg(target_arch = "x86_64")]
    fn steps(
        &self,
        (vectors, rounded): (&Vectors, &super::avx512::rounded::Rounded),
        room: &mut Room,
        rows: Rows,
        into: &mut [u8],
    ) -> Counts {
        use super::avx512::shift::Shift8;
        use super::avx512::steps::{self};
        use super::avx512::ways::Job;
        let Operation { reach, skip_multiply, output, ref lookup, .. } = *self.operation;
        let job = Job { ints: &vectors.steps, ends: vectors.ends, reach, skip_multiply };
        let shift = Shift8::new(output);
        let other = |values: &[i16], left, classes: &mut [u32; 5]| {
            let other = |sum| self.answers.get(lookup, self.tables, sum) as i16;
            // SAFETY: as below.
            unsafe { super::avx512::parts::int8(&vectors.parts, reach, values, left, classes, other) }
        };
        let operands = (rows, &*rows.all(&mut room.values));
        // SAFETY: `vectors` are there where the processor has what `Isa::Avx512` stands for.
        let found = unsafe { steps::bytes(job, (rounded, shift.as_ref()), operands, &mut room.region, into, other) };
        Counts { lut: counters(found.classes), saturated: found.saturated, nans: 0 }
    }

    /// The factors of all rows.
    fn look_up(&self, room: &mut Room, rows: Rows) -> [u32; 5] {
        let operation = self.operation;
        let mut classes = [0; 5];
        let Room { values, sums, factors, wide, squares, .. } = room;
        let steps = rows.steps();
        let values = rows.all::<i16>(values);
        let (sums, factors) = (&mut sums[..rows.count * steps], &mut factors[..rows.count * steps]);
        for row in 0..rows.count {
            let (values, sums) = (rows.around(values, row), rows.bare_mut(sums, row));
            let factors = rows.bare_mut(factors, row);
            integer::widen(self.isa, values, wide);
            match operation.reach {
                Some(reach) => integer::windows(self.isa, reach, wide, squares, sums),
                None => sums.copy_from_slice(&wide[super::super::operation::REACH..][..steps]),
            }
            self.answers.factors(&operation.lookup, self.tables, sums, rows.elements, factors, &mut classes);
        }
        classes
    }

    /// The results of all rows.
    fn results(&self, room: &mut Room, rows: Rows, into: &mut [u8]) -> u32 {
        let Room { values, factors, narrow, long, .. } = room;
        let (values, mut saturated) = (&*rows.all::<i16>(values), 0);
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
        rows.clear::<i16>(&mut room.values);
        rows.reserve(&mut room.sums);
        rows.reserve(&mut room.factors);
        let around = rows.steps() + 2 * super::super::operation::REACH;
        for words in [&mut room.wide, &mut room.squares] {
            words.resize(around, 0);
        }
        room.narrow.resize(rows.steps(), 0);
        room.long.resize(rows.steps(), 0);
    }

    fn load(&self, room: &mut Room, rows: Rows, surface: usize, atoms: &[u8]) {
        widen(self.isa, rows, surface, self.operation.input.offset as i16, atoms, rows.all(&mut room.values));
    }

    fn normalise(&self, room: &mut Room, rows: Rows, into: &mut [u8]) -> Counts {
        self.convert(room, rows);
        rows.blank::<i16>(rows.all(&mut room.values));
        #[cfg(target_arch = "x86_64")]
        if let Some((vectors, rounded)) = &self.vectors {
            return self.steps((vectors, rounded), room, rows, into);
        }
        let classes = self.look_up(room, rows);
        let saturated = self.results(room, rows, into);
        Counts { lut: counters(classes), saturated, nans: 0 }
    }
}
