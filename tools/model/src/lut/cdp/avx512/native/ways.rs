// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tables' answers, for sums of even elements and of odd ones, in the elements' order.

use std::arch::x86_64::*;

use super::super::super::Range;
use super::arithmetic::{add, multiply, number};

/// Fractions of sixteen bits from here on are one, when they are rounded.
const ONE: i16 = 65520u16 as i16;
/// The upper halves of the second lanes of 32 bits, the lower ones of the first.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(lower: __m512i, upper: __m512i) -> __m512i {
    // By bits, which takes a third of the time that a choice of words takes to its result.
    const CHOOSE: i32 = 0xca;
    _mm512_ternarylogic_epi32::<CHOOSE>(_mm512_set1_epi32(0xffff_0000u32 as i32), upper, lower)
}

/// The upper halves of even and odd lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn high(even: __m512i, odd: __m512i) -> __m512i {
    halves(_mm512_srli_epi32::<16>(even), odd)
}

/// The lower halves.
#[inline]
#[target_feature(enable = "avx512f")]
fn low(even: __m512i, odd: __m512i) -> __m512i {
    halves(even, _mm512_slli_epi32::<16>(odd))
}

/// Fractions of sixteen bits as numbers from zero to 65504, and which are one and became zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn fractions(bits: __m512i) -> (__m512i, __mmask32) {
    let ones = _mm512_cmpge_epu16_mask(bits, _mm512_set1_epi16(ONE));
    // SAFETY: there is a table only where the processor has AVX512-FP16.
    (unsafe { number(_mm512_mask_mov_epi16(bits, ones, _mm512_setzero_si512())) }, ones)
}

/// `low + rise * fraction`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn between(low: __m512i, rise: __m512i, fraction: __m512i) -> __m512i {
    // SAFETY: as above.
    unsafe { add(multiply(rise, fraction), low) }
}

/// Pairs of an entry and the rise to the next one, of which no more than 64 are needed.
#[derive(Clone, Debug)]
pub(super) struct Few {
    tables: [[u16; 64]; 2],
    /// No more than 32 are needed, which then lie there twice.
    is_short: bool,
    /// One. Where the compiler knows it, it makes a slower instruction of an addition in some lanes.
    one: i16,
}

impl Few {
    /// Pairs numbered from some number on.
    fn new(first: i32, pairs: &[[u16; 2]]) -> Self {
        let mut tables = [[0; 64]; 2];
        let is_short = pairs.len() <= 32;
        for (at, &pair) in pairs.iter().take(64).enumerate() {
            let place = (first + at as i32) & 63;
            [tables[0][place as usize], tables[1][place as usize]] = pair;
            if is_short {
                [tables[0][place as usize ^ 32], tables[1][place as usize ^ 32]] = pair;
            }
        }
        Self { tables, is_short, one: 1 }
    }

    /// What lies between the entries with these numbers, of which six bits are looked at, and the next.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn between(&self, at: __m512i, fraction: __m512i) -> __m512i {
        let (fraction, ones) = fractions(fraction);
        // With a fraction that is one it is the next entry.
        let at = _mm512_mask_add_epi16(at, ones, at, _mm512_set1_epi16(self.one));
        let [entry, rise] = [0, 1].map(|table: usize| {
            let halves = self.tables[table].as_chunks::<32>().0;
            // SAFETY: 32 numbers each.
            let [first, second] = [0, 1].map(|half: usize| unsafe { _mm512_loadu_si512(halves[half].as_ptr().cast()) });
            if self.is_short {
                _mm512_permutexvar_epi16(at, first)
            } else {
                _mm512_permutex2var_epi16(first, at, second)
            }
        });
        between(entry, rise, fraction)
    }
}

/// LE with its entries at powers of two.
#[derive(Clone, Debug)]
pub(super) struct Exponent {
    start: f32,
    pairs: Few,
}

impl Exponent {
    /// The numbers of the first and last entry before numbers of a range, and one more on either side; `offset` is the
    /// exponent of the first entry's distance.
    pub(super) fn entries(range: &Range, offset: i32, numbers: [f32; 2]) -> (usize, usize) {
        let start = f32::from_bits(range.start as u32);
        let at = |number: f32, more: i32| {
            let exponent = ((number - start).max(0.0).to_bits() >> 23) as i32 - 127;
            (exponent - offset + more).clamp(0, 63) as usize
        };
        (at(numbers[0], -1), at(numbers[1], 1))
    }

    /// Of the pairs from `first` on.
    pub(super) fn new(range: &Range, offset: i32, first: usize, pairs: &[[u16; 2]]) -> Self {
        let start = f32::from_bits(range.start as u32);
        Self { start, pairs: Few::new(127 + offset + first as i32, pairs) }
    }

    pub(super) fn is_moved(&self) -> bool {
        self.start != 0.0
    }

    /// The answers; the table begins at zero if `MOVED` is not set.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn answer<const MOVED: bool>(&self, sums: [__m512; 2]) -> __m512i {
        let [even, odd] = distances::<MOVED>(sums, self.start).map(|distance| _mm512_castps_si512(distance));
        let fraction = halves(_mm512_srli_epi32::<7>(even), _mm512_slli_epi32::<9>(odd));
        self.pairs.between(_mm512_srli_epi16::<7>(high(even, odd)), fraction)
    }
}

/// Where entries lie at even distances.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    start: f32,
    /// Fractions of sixteen bits, and so many entries, for one.
    by: f32,
}

impl Places {
    pub(super) fn new(range: &Range) -> Self {
        Self { start: f32::from_bits(range.start as u32), by: 2f32.powi(16 - range.select) }
    }

    pub(super) fn is_moved(self) -> bool {
        self.start != 0.0
    }

    /// As [`Exponent::entries`].
    pub(super) fn entries(self, numbers: [f32; 2]) -> (usize, usize) {
        let [first, last] = numbers.map(|number| (number - self.start) * self.by / 65536.0);
        ((first - 1.0).clamp(0.0, 255.0) as usize, (last + 1.0).clamp(0.0, 255.0) as usize)
    }

    /// Numbers of entries in the upper halves, fractions in the lower ones.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn at<const MOVED: bool>(self, sums: [__m512; 2]) -> [__m512i; 2] {
        let by = _mm512_set1_ps(self.by);
        distances::<MOVED>(sums, self.start).map(|distance| _mm512_cvttps_epi32(_mm512_mul_ps(distance, by)))
    }
}

/// A linear table of which few entries are needed.
#[derive(Clone, Debug)]
pub(super) struct Near {
    places: Places,
    pairs: Few,
}

impl Near {
    /// Fewer lie between the first and the last entry.
    pub(super) const MOST: usize = 62;

    /// Of the pairs from `first` on.
    pub(super) fn new(places: Places, first: usize, pairs: &[[u16; 2]]) -> Self {
        Self { places, pairs: Few::new(first as i32, pairs) }
    }

    pub(super) fn is_moved(&self) -> bool {
        self.places.is_moved()
    }

    /// The answers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn answer<const MOVED: bool>(&self, sums: [__m512; 2]) -> __m512i {
        let [even, odd] = self.places.at::<MOVED>(sums);
        self.pairs.between(high(even, odd), low(even, odd))
    }
}

/// A linear table.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    places: Places,
    /// Entries in the lower halves and rises in the upper ones.
    pairs: Box<[u32; 512]>,
}

impl Linear {
    pub(super) fn new(places: Places, from: &[[u16; 2]]) -> Self {
        let mut pairs = Box::new([0; 512]);
        for (into, &[entry, rise]) in pairs.iter_mut().zip(from) {
            *into = u32::from(entry) | u32::from(rise) << 16;
        }
        Self { places, pairs }
    }

    /// The pairs of sixteen lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn pairs(&self, at: __m512i) -> __m512i {
        // A fraction that is one when it is rounded belongs to the next entry.
        let index = _mm512_srli_epi32::<16>(_mm512_add_epi32(at, _mm512_set1_epi32(16)));
        let index = _mm512_and_si512(index, _mm512_set1_epi32(511));
        // SAFETY: an index has nine bits, and there are as many pairs.
        unsafe { _mm512_i32gather_epi32::<4>(index, self.pairs.as_ptr().cast()) }
    }

    pub(super) fn is_moved(&self) -> bool {
        self.places.is_moved()
    }

    /// The answers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn answer<const MOVED: bool>(&self, sums: [__m512; 2]) -> __m512i {
        let at = self.places.at::<MOVED>(sums);
        let [even, odd] = at.map(|at| self.pairs(at));
        let (fraction, _) = fractions(low(at[0], at[1]));
        between(low(even, odd), high(even, odd), fraction)
    }
}

/// How far sums are from a table's start.
#[inline]
#[target_feature(enable = "avx512f")]
fn distances<const MOVED: bool>(sums: [__m512; 2], start: f32) -> [__m512; 2] {
    if MOVED {
        sums.map(|sum| _mm512_sub_ps(sum, _mm512_set1_ps(start)))
    } else {
        sums
    }
}
