// SPDX-License-Identifier: MIT OR Apache-2.0

//! Integers of 32 bits where all sums of a step lie in one region, so that all lanes take the same path.

// What answers is compiled for an instruction set only where it is inlined.
#![allow(clippy::inline_always)]

use super::answer::Answer;
use std::arch::x86_64::*;

use nvdla_uapi::reg::values::LutTable;

use super::super::lookup::Lookup;
use super::super::regions::{find, Way};
use super::int::{dot, linear, twice_from, weights, Ints, Linear};
use super::row::HALF;
use crate::lut::tables::Tables;

/// Numbers that one table answers in one way; they are what they are modulo 2^32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    /// The first of them.
    pub(crate) from: u32,
    /// The last one's distance from it.
    pub(crate) span: u32,
    /// Which counter counts, in [`crate::lut::Counters`]' order.
    pub(crate) class: usize,
    /// The table that answers; `None`: LE, at powers of two.
    pub(crate) linear: Option<LutTable>,
}

impl Ints<i64> {
    /// For arguments from `first` to `last`; `None` where the hardware's shifts do what these do not.
    pub(crate) fn modular(lookup: &Lookup, tables: &Tables, [first, last]: [i64; 2]) -> Option<Self> {
        let mut ints = Self::new(lookup, tables, [first, last.min(u32::MAX.into())], |sum| sum)?;
        ints.fold();
        Some(ints)
    }

    /// The region of a number.
    pub(crate) fn find(&self, number: i64) -> usize {
        find(&self.regions, number)
    }

    /// A region, where its numbers' distances from the table's start have 32 bits.
    pub(crate) fn whole(&self, number: usize, ends: [i64; 2]) -> Option<Whole> {
        let region = self.regions.get(number)?;
        let (start, linear) = match region.way {
            Way::Exponent => (self.start, None),
            Way::Linear(table) => (self.linear(table).start, Some(table)),
            Way::End(_) | Way::Other => return None,
        };
        let last = self.regions.get(number + 1).map_or(ends[1], |next| next.from - 1);
        let last = last.min(u32::MAX.into()).min(start.saturating_add(u32::MAX.into()));
        let span = u32::try_from(last - region.from).ok()?;
        Some(Whole { from: region.from as u32, span, class: region.class, linear })
    }

    /// LE at powers of two.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn exponential(&self) -> Exponential {
        let [numbers, pairs] = [0, 1].map(|table: usize| {
            let entries = &self.exponents[table].as_chunks::<HALF>().0[..2];
            // SAFETY: sixteen entries each.
            [0, 1].map(|half: usize| unsafe { _mm512_loadu_si512(entries[half].as_ptr().cast()) })
        });
        Exponential { start: _mm512_set1_epi32(self.start as i32), numbers, pairs }
    }

    /// A table with even distances.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn even(&self, table: LutTable) -> Even<'_> {
        let table = self.linear(table);
        let count = |bits: i32| _mm_cvtsi32_si128(bits.max(0));
        let [left, right] = [count(16 - table.select), count(table.select - 16)];
        Even { table, start: _mm512_set1_epi32(table.start as i32), left, right }
    }
}

/// LE at powers of two.
#[derive(Clone, Copy)]
pub(crate) struct Exponential {
    start: __m512i,
    numbers: [__m512i; 2],
    pairs: [__m512i; 2],
}

impl Answer for Exponential {
    #[inline(always)]
    unsafe fn half(self, sums: __m512i) -> __m512i {
        // What a float's mantissa has no room for lies below the fraction's sixteen bits.
        const DOWN: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
        // SAFETY: the caller has them.
        unsafe {
            let distance = _mm512_sub_epi32(sums, self.start);
            let bits = _mm512_castps_si512(_mm512_cvt_roundepu32_ps::<DOWN>(distance));
            let fractions = _mm512_multishift_epi64_epi8(twice_from(7), bits);
            let at = _mm512_srli_epi32::<23>(bits);
            let number = _mm512_permutex2var_epi32(self.numbers[0], at, self.numbers[1]);
            let pair = _mm512_permutex2var_epi32(self.pairs[0], at, self.pairs[1]);
            dot(number, pair, weights(fractions))
        }
    }
}

/// A table with even distances.
#[derive(Clone, Copy)]
pub(crate) struct Even<'t> {
    table: &'t Linear,
    start: __m512i,
    left: __m128i,
    right: __m128i,
}

impl Answer for Even<'_> {
    #[inline(always)]
    unsafe fn half(self, sums: __m512i) -> __m512i {
        // SAFETY: the caller has them.
        unsafe {
            let distance = _mm512_sub_epi32(sums, self.start);
            linear(self.table, _mm512_srl_epi32(_mm512_sll_epi32(distance, self.left), self.right))
        }
    }
}
