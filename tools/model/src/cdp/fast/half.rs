// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16. Its arithmetic is that of fp17 and fp32.
//!
//! The reference computes positions with a NaN or an infinity. The bit-level functions compute elements with lookups
//! that [`Floats`] does not cover, and those with a product near the limits of fp17's range.

mod loops;

use std::sync::OnceLock;

use super::super::super::conv::fast::isa::Isa;
use super::super::operation::counters;
use super::super::operation::{Counts, Operation, REACH};
use super::super::reference;
use super::rows::Rows;
use super::strips::{Engine, Rooms};
use crate::conv::fast::aligned::Aligned;
use crate::lut::cdp::vector::float::Floats;
use crate::lut::cdp::vector::CLASSES;
use crate::lut::Tables;
use crate::num::convert::{fp16_to_fp17, fp17_to_fp16};
use crate::num::{Fp16, Fp17};

/// What belongs to a lookup, and memory.
#[derive(Debug, Default)]
pub(super) struct Memo {
    lookup: OnceLock<Option<(Box<Floats>, bool)>>,
    #[cfg(target_arch = "x86_64")]
    vectors: OnceLock<Option<crate::lut::cdp::avx512::float::Floats>>,
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
    ) -> (Half<'m>, &'m mut Rooms<Room>) {
        #[cfg(target_arch = "x86_64")]
        let vectors = {
            use crate::lut::cdp::avx512::float::Floats;
            let new = || Floats::new(&operation.lookup, tables, operation.reach.is_some());
            self.vectors.get_or_init(new).as_ref().filter(|_| isa == Isa::Avx512)
        };
        let new = || Floats::new(&operation.lookup, tables).map(|(floats, exponent)| (Box::new(floats), exponent));
        let lookup = self.lookup.get_or_init(new).as_ref();
        let engine = Half {
            isa,
            operation,
            tables,
            lookup,
            #[cfg(target_arch = "x86_64")]
            vectors,
        };
        (engine, &mut self.rooms)
    }
}

/// What a thread works in: elements and values are rows with margins, sums and factors have none, the rest is for one row.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The elements, NaN flushed where that is asked for.
    raw: Aligned,
    values: Vec<f32>,
    squares: Vec<f32>,
    sums: Vec<f32>,
    factors: Vec<f32>,
    results: Vec<u16>,
    odd: Vec<bool>,
}

/// An operation of fp16.
pub(super) struct Half<'o> {
    isa: Isa,
    operation: &'o Operation,
    tables: &'o Tables,
    lookup: Option<&'o (Box<Floats>, bool)>,
    #[cfg(target_arch = "x86_64")]
    vectors: Option<&'o crate::lut::cdp::avx512::float::Floats>,
}

impl Half<'_> {
    /// A position with a NaN or an infinity; `around` has its elements and [`REACH`] before.
    fn special(&self, rows: Rows, around: &[u16], into: &mut [u8], counts: &mut Counts) {
        let pairs = into.as_chunks_mut::<2>().0;
        for (bytes, window) in pairs.iter_mut().zip(around.windows(2 * REACH + 1)).take(rows.elements) {
            let mut wide = [0; 2 * REACH + 1];
            wide.iter_mut().zip(window).for_each(|(wide, &bits)| *wide = bits.into());
            *bytes = reference::fp16(self.operation, self.tables, &wide, counts).to_le_bytes();
        }
    }

    /// The result where no NaN is near.
    fn result(&self, value: u16, sum: f32, counts: &mut Counts) -> u16 {
        let factor = self.operation.lookup.float(self.tables, sum.to_bits(), &mut counts.lut);
        let value = fp16_to_fp17(value);
        let result = fp17_to_fp16(if self.operation.skip_multiply { factor } else { Fp17::mul(value, factor) });
        counts.nans += u32::from(Fp16::is_nan(result.into()));
        result
    }

    /// A position of finite numbers; `values` has [`REACH`] before them.
    fn finite(
        &self,
        room: &mut One,
        rows: Rows,
        (raw, values): (&[u16], &[f32]),
        into: &mut [u8],
        counts: &mut Counts,
    ) {
        let One { squares, sums, results, odd } = room;
        let steps = rows.steps();
        let (sums, results, odd) = (&mut sums[..steps], &mut results[..steps], &mut odd[..steps]);
        match self.operation.reach {
            Some(reach) => loops::windows(self.isa, reach, values, squares, sums),
            None => sums.copy_from_slice(&values[REACH..][..steps]),
        }
        let (sums, values) = (&sums[..rows.elements], &values[REACH..]);
        odd.fill(true);
        if let Some((lookup, exponent)) = self.lookup {
            let skip = self.operation.skip_multiply;
            let mut classes = [0; CLASSES];
            loops::results(self.isa, lookup, *exponent, skip, (sums, values), results, odd, &mut classes);
            counts.lut += counters(classes);
        }
        let pairs = into.as_chunks_mut::<2>().0.iter_mut();
        for ((((bytes, &result), &odd), &sum), &raw) in pairs.zip(&*results).zip(&*odd).zip(sums).zip(&raw[REACH..]) {
            let result = if odd { self.result(raw, sum, counts) } else { result };
            *bytes = result.to_le_bytes();
        }
    }
}

/// A [`Room`]'s parts for one row.
struct One<'r> {
    squares: &'r mut [f32],
    sums: &'r mut [f32],
    results: &'r mut [u16],
    odd: &'r mut [bool],
}

#[cfg(target_arch = "x86_64")]
impl Half<'_> {
    /// Some rows of finite numbers.
    fn vectors(
        &self,
        vectors: &crate::lut::cdp::avx512::float::Floats,
        room: &mut Room,
        rows: Rows,
        [first, count]: [usize; 2],
        into: &mut [u8],
    ) -> Counts {
        use super::avx512::half;
        use crate::lut::cdp::avx512::Row;
        use crate::lut::Counters;
        use crate::num::convert::fp17_to_fp32;
        let Operation { reach, skip_multiply, ref lookup, .. } = *self.operation;
        let steps = rows.steps();
        let Room { values, sums, factors, .. } = room;
        let (sums, factors) = (&mut sums[..count * steps], &mut factors[..count * steps]);
        let mut classes = [0; CLASSES];
        let row = Row { steps, elements: rows.elements, is_interleaved: false };
        let other =
            |sum: f32| f32::from_bits(fp17_to_fp32(lookup.float(self.tables, sum.to_bits(), &mut Counters::default())));
        // SAFETY: `vectors` are there where the processor has what `Isa::Avx512` stands for.
        unsafe {
            half::sums(rows, first, reach, values, sums);
            vectors.factors(sums, row, factors, &mut classes, other);
            half::results(rows, first, skip_multiply, factors, values, into);
        }
        Counts { lut: counters(classes), saturated: 0, nans: 0 }
    }

    /// All rows.
    fn all_vectors(
        &self,
        vectors: &crate::lut::cdp::avx512::float::Floats,
        room: &mut Room,
        rows: Rows,
        into: &mut [u8],
    ) -> Counts {
        use super::avx512::half;
        // SAFETY: as in `vectors`.
        let special = unsafe { half::widen(rows.all(&mut room.raw), &mut room.values) };
        if !special {
            return self.vectors(vectors, room, rows, [0, rows.count], into);
        }
        let mut counts = Counts::default();
        let steps = rows.steps();
        for number in 0..rows.count {
            let raw: &[u16] = rows.around(rows.all(&mut room.raw), number);
            if raw.iter().any(|bits| bits & 0x7c00 == 0x7c00) {
                self.special(rows, raw, &mut into[2 * number * steps..][..2 * steps], &mut counts);
            } else {
                counts += self.vectors(vectors, room, rows, [number, 1], into);
            }
        }
        counts
    }
}

impl Engine for Half<'_> {
    const BYTES: usize = 2;
    type Room = Room;

    fn prepare(&self, room: &mut Room, rows: Rows) {
        rows.clear::<u16>(&mut room.raw);
        room.values.clear();
        room.values.resize(rows.room(), 0.0);
        room.squares.resize(rows.steps() + 2 * REACH, 0.0);
        rows.reserve(&mut room.sums);
        rows.reserve(&mut room.factors);
        room.results.resize(rows.steps(), 0);
        room.odd.resize(rows.steps(), true);
    }

    fn load(&self, room: &mut Room, rows: Rows, surface: usize, atoms: &[u8]) {
        loops::take(self.isa, rows, surface, self.operation.flush_nan, atoms, rows.all(&mut room.raw));
    }

    fn normalise(&self, room: &mut Room, rows: Rows, into: &mut [u8]) -> Counts {
        rows.blank::<u16>(rows.all(&mut room.raw));
        #[cfg(target_arch = "x86_64")]
        if let Some(vectors) = self.vectors {
            return self.all_vectors(vectors, room, rows, into);
        }
        let mut counts = Counts::default();
        let Room { raw, values, squares, sums, results, odd, .. } = room;
        let raw = rows.all(raw);
        let mut one = One { squares, sums, results, odd };
        for (row, into) in into.chunks_exact_mut(2 * rows.steps()).enumerate() {
            let raw = rows.around(raw, row);
            let values = &mut values[..raw.len()];
            let mut special = false;
            loops::widen(self.isa, raw, values, &mut special);
            if special {
                self.special(rows, raw, into, &mut counts);
            } else {
                self.finite(&mut one, rows, (raw, values), into, &mut counts);
            }
        }
        counts
    }
}
