// SPDX-License-Identifier: MIT OR Apache-2.0

//! int16.

use std::sync::OnceLock;

use super::super::{Counts, Operation, REACH};
use super::integer::{self, Output};
use super::rows::Rows;
use super::strips::{Engine, Rooms};
use super::{counters, Isa};
use crate::lut::cdp::vector::int::Ints;
use crate::lut::cdp::vector::{CLASSES, WIDTH};
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
    vectors: OnceLock<Option<crate::lut::cdp::avx512::int::Ints<f64>>>,
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
        let convert = !integer::is_identity(&operation.input);
        let largest = match (operation.skip_multiply, convert) {
            (true, _) => 1 << 15,
            (false, false) => 1 << (15 + 15),
            (false, true) => 1 << (15 + 16),
        };
        let output = Output::new(operation.output, 16, largest);
        #[cfg(target_arch = "x86_64")]
        let vectors = {
            let ends = if operation.reach.is_some() { [0, LARGEST] } else { SINGLE };
            let new = || crate::lut::cdp::avx512::int::Ints::wide(&operation.lookup, tables, ends);
            self.vectors.get_or_init(new).as_ref().filter(|_| isa == Isa::Avx512)
        };
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
        };
        (engine, &mut self.rooms)
    }
}

vectorised! {
    /// Widens atoms of `N` elements.
    fn widen(rows: Rows, surface: usize, atoms: &[u8], values: &mut [i32]) {
        #[inline(always)]
        fn all<const N: usize>(rows: Rows, surface: usize, atoms: &[u8], values: &mut [i32]) {
            let atoms = atoms.as_chunks::<2>().0.as_chunks::<N>().0;
            for (values, atom) in rows.surface_mut(values, surface).zip(atoms) {
                for (value, &bytes) in values.iter_mut().zip(atom) {
                    *value = i16::from_le_bytes(bytes).into();
                }
            }
        }
        match rows.atoms.elements() {
            16 => all::<16>(rows, surface, atoms, values),
            8 => all::<8>(rows, surface, atoms, values),
            _ => all::<4>(rows, surface, atoms, values),
        }
    }
}

vectorised! {
    /// The factors of all sums; those that [`Ints`] does not have are marked.
    fn factors(lookup: &Ints, exponent: bool, sums: &[i64], factors: &mut [i16], odd: &mut [bool], counts: &mut [u32; CLASSES]) {
        #[inline(always)]
        fn all<const EXPONENT: bool>(
            lookup: &Ints,
            sums: &[i64],
            factors: &mut [i16],
            odd: &mut [bool],
            counts: &mut [u32; CLASSES],
        ) {
            let mut classes = [0u32; CLASSES];
            let (factors, odd) = (factors.as_chunks_mut::<WIDTH>().0, odd.as_chunks_mut::<WIDTH>().0);
            for ((factors, odd), sums) in factors.iter_mut().zip(odd).zip(sums.as_chunks::<WIDTH>().0) {
                let answers = lookup.get::<EXPONENT>(sums);
                for (class, count) in classes.iter_mut().enumerate() {
                    let counts = |i: usize| u32::from((answers.classes[i] == class as u32) & !answers.odd[i]);
                    *count += (0..WIDTH).map(counts).sum::<u32>();
                }
                *factors = answers.factors.map(|factor| factor as i16);
                *odd = answers.odd;
            }
            for (count, class) in counts.iter_mut().zip(classes) {
                *count = count.wrapping_add(class);
            }
        }
        if exponent {
            all::<true>(lookup, sums, factors, odd, counts);
        } else {
            all::<false>(lookup, sums, factors, odd, counts);
        }
    }
}

/// What a thread works in: values are rows with margins, factors have none, the rest is for one row but for sums of fp64.
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
}

/// An operation of int16.
pub(super) struct Int16<'o> {
    isa: Isa,
    operation: &'o Operation,
    tables: &'o Tables,
    lookup: Option<&'o (Box<Ints>, bool)>,
    /// The input converter does something.
    convert: bool,
    output: Output,
    #[cfg(target_arch = "x86_64")]
    vectors: Option<&'o crate::lut::cdp::avx512::int::Ints<f64>>,
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
                vectors.factors(sums, row, factors, &mut classes, other);
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
                self::factors(self.isa, lookup, *exponent, sums, factors, odd, &mut classes);
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
        #[cfg(target_arch = "x86_64")]
        if self.output.is_shift() && self.output.is_narrow && !self.convert && !skip && self.isa == Isa::Avx512 {
            let shift = self.output.converter.shift;
            // SAFETY: the processor has what `Isa::Avx512` stands for.
            return unsafe { super::avx512::int16::results(rows, shift, factors, values, into) };
        }
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
        rows.clear(&mut room.values);
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
        widen(self.isa, rows, surface, atoms, &mut room.values);
    }

    fn normalise(&self, room: &mut Room, rows: Rows, into: &mut [u8]) -> Counts {
        if self.convert {
            self.convert(room, rows);
        }
        rows.blank(&mut room.values);
        let lut = self.look_up(room, rows);
        let saturated = self.results(room, rows, into);
        Counts { lut, saturated, nans: 0 }
    }
}
