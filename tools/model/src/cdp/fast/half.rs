// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16, whose arithmetic is fp17's and fp32's.
//!
//! Positions with a NaN or an infinity go through the reference; elements whose lookup [`Floats`] does not have, or whose
//! product comes near the ends of fp17's range, through the bit-level functions.

use super::super::{reference, Counts, Operation, REACH};
use super::rows::Rows;
use super::strips::{Engine, Rooms};
use super::{counters, Isa};
use crate::lut::cdp::vector::float::{outside as uncertain, round, Floats};
use crate::lut::cdp::vector::{CLASSES, WIDTH};
use crate::lut::{Counters, Tables};
use crate::num::convert::{fp16_to_fp17, fp17_to_fp16, fp17_to_fp32};
use crate::num::{plain, Fp16, Fp17};

vectorised! {
    /// The sums of `2 * reach + 1` squares around each value but the first and last [`REACH`]: squares and sums in fp32,
    /// each pair of neighbours added before it joins the sum.
    ///
    /// The squares of fp17 numbers and sums of nine of them are far from the ends of fp32's range, where the hardware's
    /// arithmetic differs from the processor's.
    fn windows(reach: usize, values: &[f32], squares: &mut [f32], sums: &mut [f32]) {
        for (square, &value) in squares.iter_mut().zip(values) {
            *square = value * value;
        }
        let middle = &squares[REACH..];
        for (((sum, &middle), &before), &after) in
            sums.iter_mut().zip(middle).zip(&squares[REACH - 1..]).zip(&squares[REACH + 1..])
        {
            *sum = (before + after) + middle;
        }
        for distance in 2..=reach {
            let (before, after) = (&squares[REACH - distance..], &squares[REACH + distance..]);
            for ((sum, &before), &after) in sums.iter_mut().zip(before).zip(after) {
                *sum += before + after;
            }
        }
    }
}

vectorised! {
    /// Takes atoms of `N` elements, without NaN where `flush` is set.
    fn take(rows: Rows, surface: usize, flush: bool, atoms: &[u8], raw: &mut [u16]) {
        #[inline(always)]
        fn all<const N: usize>(rows: Rows, surface: usize, flush: bool, atoms: &[u8], raw: &mut [u16]) {
            let atoms = atoms.as_chunks::<2>().0.as_chunks::<N>().0;
            for (raw, atom) in rows.surface_mut(raw, surface).zip(atoms) {
                for (raw, &bytes) in raw.iter_mut().zip(atom) {
                    let bits = u16::from_le_bytes(bytes);
                    *raw = if flush & (bits & 0x7fff > 0x7c00) { 0 } else { bits };
                }
            }
        }
        match rows.atoms.elements() {
            16 => all::<16>(rows, surface, flush, atoms, raw),
            8 => all::<8>(rows, surface, flush, atoms, raw),
            _ => all::<4>(rows, surface, flush, atoms, raw),
        }
    }
}

vectorised! {
    /// Widens elements; true if one is infinite or NaN.
    fn widen(raw: &[u16], values: &mut [f32], special: &mut bool) {
        let mut found = false;
        for (value, &bits) in values.iter_mut().zip(raw) {
            found |= bits & 0x7c00 == 0x7c00;
            *value = f32::from_bits(plain::widen_finite(bits));
        }
        *special = found;
    }
}

vectorised! {
    /// The results of all sums; those that are not certain are marked.
    fn results(
        lookup: &Floats,
        exponent: bool,
        skip_multiply: bool,
        operands: (&[f32], &[f32]),
        results: &mut [u16],
        odd: &mut [bool],
        counts: &mut [u32; CLASSES],
    ) {
        #[inline(always)]
        fn all<const EXPONENT: bool>(
            lookup: &Floats,
            skip_multiply: bool,
            (sums, values): (&[f32], &[f32]),
            results: &mut [u16],
            odd: &mut [bool],
            counts: &mut [u32; CLASSES],
        ) {
            let mut classes = [0u32; CLASSES];
            let (results, odd) = (results.as_chunks_mut::<WIDTH>().0, odd.as_chunks_mut::<WIDTH>().0);
            let (sums, values) = (sums.as_chunks::<WIDTH>().0, values.as_chunks::<WIDTH>().0);
            for (((results, odd), sums), values) in results.iter_mut().zip(odd).zip(sums).zip(values) {
                let answers = lookup.get::<EXPONENT>(sums);
                let mut again = answers.odd;
                for i in 0..WIDTH {
                    let product = round(answers.factors[i] * values[i]);
                    again[i] |= (product != 0.0) & uncertain(product) & !skip_multiply;
                    let product = if skip_multiply { answers.factors[i] } else { product };
                    results[i] = plain::narrow(product.to_bits());
                }
                for (class, count) in classes.iter_mut().enumerate() {
                    let counts = |i: usize| u32::from((answers.classes[i] == class as u32) & !again[i]);
                    *count += (0..WIDTH).map(counts).sum::<u32>();
                }
                *odd = again;
            }
            for (count, class) in counts.iter_mut().zip(classes) {
                *count = count.wrapping_add(class);
            }
        }
        if exponent {
            all::<true>(lookup, skip_multiply, operands, results, odd, counts);
        } else {
            all::<false>(lookup, skip_multiply, operands, results, odd, counts);
        }
    }
}

/// What belongs to a lookup, and memory.
#[derive(Debug, Default)]
pub(super) struct Memo {
    lookup: Option<Option<(Box<Floats>, bool)>>,
    #[cfg(target_arch = "x86_64")]
    vectors: Option<Option<crate::lut::cdp::avx512::float::Floats>>,
    rooms: Rooms<Room>,
}

impl Memo {
    pub(super) fn forget(&mut self) {
        self.lookup = None;
        #[cfg(target_arch = "x86_64")]
        {
            self.vectors = None;
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
            self.vectors.get_or_insert_with(new).as_ref().filter(|_| isa == Isa::Avx512)
        };
        let new = || Floats::new(&operation.lookup, tables).map(|(floats, exponent)| (Box::new(floats), exponent));
        let lookup = self.lookup.get_or_insert_with(new).as_ref();
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

/// What a thread works in: elements, values and squares are rows with margins, sums and factors have none.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The elements, NaN flushed where that is asked for.
    raw: Vec<u16>,
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
            Some(reach) => windows(self.isa, reach, values, squares, sums),
            None => sums.copy_from_slice(&values[REACH..][..steps]),
        }
        let (sums, values) = (&sums[..rows.elements], &values[REACH..]);
        odd.fill(true);
        if let Some((lookup, exponent)) = self.lookup {
            let skip = self.operation.skip_multiply;
            let mut classes = [0; CLASSES];
            self::results(self.isa, lookup, *exponent, skip, (sums, values), results, odd, &mut classes);
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
        let Operation { reach, skip_multiply, ref lookup, .. } = *self.operation;
        let steps = rows.steps();
        let Room { values, squares, sums, factors, .. } = room;
        let (sums, factors) = (&mut sums[..count * steps], &mut factors[..count * steps]);
        let mut classes = [0; CLASSES];
        let row = Row { steps, elements: rows.elements, is_interleaved: false };
        let other =
            |sum: f32| f32::from_bits(fp17_to_fp32(lookup.float(self.tables, sum.to_bits(), &mut Counters::default())));
        let values = || rows.inner(values).skip(first);
        // SAFETY: `vectors` are there where the processor has what `Isa::Avx512` stands for.
        unsafe {
            if let Some(reach) = reach {
                for (squares, sums) in rows.around(squares).skip(first).zip(sums.chunks_exact_mut(steps)) {
                    half::sums(reach, squares, sums);
                }
            } else {
                values().zip(sums.chunks_exact_mut(steps)).for_each(|(values, sums)| sums.copy_from_slice(values));
            }
            vectors.factors(sums, row, factors, &mut classes, other);
            let parts = factors.chunks_exact(steps).zip(values()).zip(into.chunks_exact_mut(2 * steps).skip(first));
            for ((factors, values), into) in parts {
                half::results(skip_multiply, factors, values, into);
            }
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
        let special = unsafe {
            let special = half::widen(&room.raw, &mut room.values);
            if self.operation.reach.is_some() {
                half::squares(&room.values, &mut room.squares);
            }
            special
        };
        if !special {
            return self.vectors(vectors, room, rows, [0, rows.count], into);
        }
        let mut counts = Counts::default();
        let steps = rows.steps();
        for number in 0..rows.count {
            let raw = rows.around(&room.raw).nth(number).unwrap_or_default();
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
        rows.clear(&mut room.raw);
        rows.clear(&mut room.values);
        rows.clear(&mut room.squares);
        rows.reserve(&mut room.sums);
        rows.reserve(&mut room.factors);
        room.results.resize(rows.steps(), 0);
        room.odd.resize(rows.steps(), true);
    }

    fn load(&self, room: &mut Room, rows: Rows, surface: usize, atoms: &[u8]) {
        take(self.isa, rows, surface, self.operation.flush_nan, atoms, &mut room.raw);
    }

    fn normalise(&self, room: &mut Room, rows: Rows, into: &mut [u8]) -> Counts {
        rows.blank(&mut room.raw);
        #[cfg(target_arch = "x86_64")]
        if let Some(vectors) = self.vectors {
            return self.all_vectors(vectors, room, rows, into);
        }
        let mut counts = Counts::default();
        let Room { raw, values, squares, sums, results, odd, .. } = room;
        let mut one = One { squares, sums, results, odd };
        for (raw, into) in rows.around(raw).zip(into.chunks_exact_mut(2 * rows.steps())) {
            let values = &mut values[..raw.len()];
            let mut special = false;
            widen(self.isa, raw, values, &mut special);
            if special {
                self.special(rows, raw, into, &mut counts);
            } else {
                self.finite(&mut one, rows, (raw, values), into, &mut counts);
            }
        }
        counts
    }
}
