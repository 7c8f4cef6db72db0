// SPDX-License-Identifier: MIT OR Apache-2.0

//! int16.

mod loops;

use std::sync::OnceLock;

use super::super::super::conv::fast::isa::Isa;
use super::super::operation::counters;
#[cfg(target_arch = "x86_64")]
use super::super::operation::Converter;
use super::super::operation::{Counts, Operation, REACH};
use super::integer::{self, Output};
use super::rows::Rows;
use super::strips::{Engine, Rooms};
#[cfg(target_arch = "x86_64")]
use crate::conv::fast::aligned::Aligned;
use crate::lut::cdp::vector::int::Ints;
use crate::lut::cdp::vector::CLASSES;
use crate::lut::{Counters, Tables};

/// Nine squares of 17 bits.
#[cfg(target_arch = "x86_64")]
const LARGEST: i64 = 9 << 32;
/// Single values, which the table's argument is where nothing is squared.
#[cfg(target_arch = "x86_64")]
const SINGLE: [i64; 2] = [-(1 << 16), (1 << 16) - 1];

/// What belongs to a lookup, and memory.
#[derive(Debug, Default)]
pub(super) struct Memo {
    lookup: OnceLock<Option<(Box<Ints>, bool)>>,
    #[cfg(target_arch = "x86_64")]
    vectors: OnceLock<Option<Vectors>>,
    rooms: Rooms<Room>,
}

impl Memo {
    pub(super) fn forget(&mut self) {
        self.lookup = OnceLock::new();
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
    ) -> (Int16<'m>, &'m mut Rooms<Room>) {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut convert = !integer::is_identity(&operation.input);
        let largest = match (operation.skip_multiply, convert) {
            (true, _) => 1 << 15,
            (false, false) => 1 << (15 + 15),
            (false, true) => 1 << (15 + 16),
        };
        let output = Output::new(operation.output, 16, largest);
        #[cfg(target_arch = "x86_64")]
        let vectors = {
            let new = || Vectors::new(operation, tables);
            self.vectors.get_or_init(new).as_ref().filter(|_| isa == Isa::Avx512)
        };
        #[cfg(target_arch = "x86_64")]
        let steps = {
            let Converter { scale, shift, .. } = operation.input;
            let is_offset = scale == 1 && shift == 0;
            vectors.filter(|_| is_offset).zip(super::avx512::output::Scaled::new(operation.output, 16))
        };
        // The offset has been taken away before.
        #[cfg(target_arch = "x86_64")]
        {
            convert &= steps.is_none();
        }
        let new = || Ints::new(&operation.lookup, tables).map(|(ints, exponent)| (Box::new(ints), exponent));
        let lookup = self.lookup.get_or_init(new).as_ref();
        let engine = Int16 {
            isa,
            operation,
            tables,
            lookup,
            convert,
            output,
            #[cfg(target_arch = "x86_64")]
            vectors,
            #[cfg(target_arch = "x86_64")]
            steps,
        };
        (engine, &mut self.rooms)
    }
}

/// The lookup for steps with all sums of 32 bits in one region, and for others.
#[cfg(target_arch = "x86_64")]
#[derive(Debug)]
struct Vectors {
    steps: crate::lut::cdp::avx512::int::Ints<i64>,
    parts: crate::lut::cdp::avx512::int::Ints<f64>,
    ends: [i64; 2],
}

#[cfg(target_arch = "x86_64")]
impl Vectors {
    fn new(operation: &Operation, tables: &Tables) -> Option<Self> {
        use crate::lut::cdp::avx512::int::Ints;
        let ends = if operation.reach.is_some() { [0, LARGEST] } else { SINGLE };
        let steps = Ints::modular(&operation.lookup, tables, ends)?;
        Some(Self { steps, parts: Ints::wide(&operation.lookup, tables, ends)?, ends })
    }
}

/// A thread's buffers: values are rows with margins, factors rows without. The rest is for one row, except the sums of
/// fp64.
#[derive(Debug, Default)]
pub(super) struct Room {
    values: Vec<i32>,
    factors: Vec<i16>,
    #[cfg(target_arch = "x86_64")]
    float_sums: Vec<f64>,
    narrow: Vec<i32>,
    wide: Vec<i64>,
    squares: Vec<i64>,
    sums: Vec<i64>,
    odd: Vec<bool>,
    /// Values of sixteen bits in rows with margins, and whether one has more.
    #[cfg(target_arch = "x86_64")]
    short: Aligned,
    #[cfg(target_arch = "x86_64")]
    over: bool,
    /// The region of the lookup in which sums were found last.
    #[cfg(target_arch = "x86_64")]
    region: usize,
}

/// An operation of int16.
pub(super) struct Int16<'o> {
    isa: Isa,
    operation: &'o Operation,
    tables: &'o Tables,
    lookup: Option<&'o (Box<Ints>, bool)>,
    /// The input converter has something to do.
    convert: bool,
    output: Output,
    #[cfg(target_arch = "x86_64")]
    vectors: Option<&'o Vectors>,
    /// What values of sixteen bits go through.
    #[cfg(target_arch = "x86_64")]
    steps: Option<(&'o Vectors, super::avx512::output::Scaled)>,
}

impl Int16<'_> {
    /// The input converter, for all rows.
    fn convert(&self, room: &mut Room, rows: Rows) {
        // What lies behind a row stays zero.
        for values in rows.inner_mut(&mut room.values) {
            let values = &mut values[..rows.elements];
            integer::convert_input(self.isa, &self.operation.input, [-65_536i64, 65_535], values);
        }
    }

    /// All in steps, if there are values of sixteen bits; otherwise they are made what they are.
    #[cfg(target_arch = "x86_64")]
    fn steps(&self, room: &mut Room, rows: Rows, into: &mut [u8]) -> Option<Counts> {
        use super::avx512::shift::Shift16;
        use super::avx512::steps::{self};
        use super::avx512::ways::Job;
        let (vectors, scaled) = self.steps.as_ref()?;
        let Operation { reach, skip_multiply, output, input, ref lookup, .. } = *self.operation;
        let short = rows.all(&mut room.short);
        if std::mem::take(&mut room.over) {
            for (values, number) in rows.inner_mut(&mut room.values).zip(0..) {
                let short = &rows.inner(short, number)[..rows.channels];
                loops::restore(self.isa, input.offset as i16, short, &mut values[..rows.channels]);
            }
            return None;
        }
        rows.blank(short);
        let job = Job { ints: &vectors.steps, ends: vectors.ends, reach, skip_multiply };
        let shift = Shift16::new(output);
        let other = |values: &[i16], left, classes: &mut [u32; 5]| {
            let other = |sum| lookup.int(self.tables, sum, &mut Counters::default());
            // SAFETY: as below.
            unsafe { super::avx512::parts::int16(&vectors.parts, reach, values, left, classes, other) }
        };
        // SAFETY: `vectors` are there where the processor has what `Isa::Avx512` stands for.
        let found =
            unsafe { steps::pairs(job, (scaled, shift.as_ref()), (rows, &*short), &mut room.region, into, other) };
        Some(Counts { lut: counters(found.classes), saturated: found.saturated, nans: 0 })
    }

    /// The factors of all rows.
    fn look_up(&self, room: &mut Room, rows: Rows) -> Counters {
        let Room { values, factors, wide, squares, sums, odd, .. } = room;
        let steps = rows.steps();
        let factors = &mut factors[..rows.count * steps];
        let Operation { reach, ref lookup, .. } = *self.operation;
        #[cfg(target_arch = "x86_64")]
        if let Some(vectors) = self.vectors {
            use super::avx512::int16;
            use crate::lut::cdp::avx512::Row;
            let sums = &mut room.float_sums[..rows.count * steps];
            let mut classes = [0; CLASSES];
            let row = Row { steps, elements: rows.elements, is_interleaved: false };
            let other = |sum| lookup.int(self.tables, sum, &mut Counters::default());
            // SAFETY: `vectors` are there where the processor has what `Isa::Avx512` stands for.
            unsafe {
                match reach {
                    Some(reach) => int16::sums(rows, reach, values, sums),
                    None => int16::singles(rows, values, sums),
                }
                vectors.parts.factors(sums, row, factors, &mut classes, other);
            }
            return counters(classes);
        }
        let (mut classes, mut counts) = ([0; CLASSES], Counters::default());
        for row in 0..rows.count {
            let (values, factors) = (rows.around(values, row), rows.bare_mut(factors, row));
            integer::widen(self.isa, values, wide);
            match reach {
                Some(reach) => integer::windows(self.isa, reach, wide, squares, sums),
                None => sums.copy_from_slice(&wide[REACH..][..steps]),
            }
            let (sums, factors) = (&sums[..rows.elements], &mut factors[..rows.elements]);
            odd.fill(true);
            if let Some((lookup, exponent)) = self.lookup {
                loops::factors(self.isa, lookup, *exponent, sums, factors, odd, &mut classes);
            }
            for ((factor, &sum), &odd) in factors.iter_mut().zip(sums).zip(odd.iter()) {
                if odd {
                    *factor = lookup.int(self.tables, sum, &mut counts);
                }
            }
        }
        counts += counters(classes);
        counts
    }

    /// The results of all rows.
    fn results(&self, room: &mut Room, rows: Rows, into: &mut [u8]) -> u32 {
        let Room { values, factors, narrow, wide, .. } = room;
        let steps = rows.steps();
        let mut saturated = 0;
        let skip = self.operation.skip_multiply;
        for row in 0..rows.count {
            let values = &rows.inner(values, row)[..rows.elements];
            let factors = &rows.bare(factors, row)[..rows.elements];
            let into = &mut into[2 * row * steps..][..2 * steps];
            let (operands, offset) = ((factors, values), self.output.converter.offset);
            if self.output.is_narrow {
                integer::results(self.isa, &self.output, skip, operands, offset, narrow, &mut saturated);
                integer::to_pairs(self.isa, narrow, into);
            } else {
                integer::results(self.isa, &self.output, skip, operands, i64::from(offset), wide, &mut saturated);
                integer::to_pairs(self.isa, wide, into);
            }
        }
        saturated
    }
}

impl Engine for Int16<'_> {
    const BYTES: usize = 2;
    type Room = Room;

    fn prepare(&self, room: &mut Room, rows: Rows) {
        #[cfg(target_arch = "x86_64")]
        {
            rows.clear::<i16>(&mut room.short);
            room.over = false;
        }
        room.values.clear();
        room.values.resize(rows.room(), 0);
        rows.reserve(&mut room.factors);
        #[cfg(target_arch = "x86_64")]
        if self.vectors.is_some() {
            rows.reserve(&mut room.float_sums);
        }
        let around = rows.steps() + 2 * REACH;
        room.narrow.resize(rows.steps(), 0);
        room.wide.resize(around, 0);
        room.squares.resize(around, 0);
        room.sums.resize(rows.steps(), 0);
        room.odd.resize(rows.steps(), true);
    }

    fn load(&self, room: &mut Room, rows: Rows, surface: usize, atoms: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        if self.steps.is_some() {
            let offset = self.operation.input.offset as i16;
            return loops::take(self.isa, rows, surface, offset, atoms, rows.all(&mut room.short), &mut room.over);
        }
        loops::widen(self.isa, rows, surface, atoms, &mut room.values);
    }

    fn normalise(&self, room: &mut Room, rows: Rows, into: &mut [u8]) -> Counts {
        #[cfg(target_arch = "x86_64")]
        if let Some(counts) = self.steps(room, rows, into) {
            return counts;
        }
        if self.convert {
            self.convert(room, rows);
        }
        rows.blank(&mut room.values);
        let lut = self.look_up(room, rows);
        let saturated = self.results(room, rows, into);
        Counts { lut, saturated, nans: 0 }
    }
}
