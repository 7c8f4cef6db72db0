// SPDX-License-Identifier: MIT OR Apache-2.0

//! From sums to results, step by step.

use std::arch::x86_64::*;

use super::super::{HALF, STEP};
use super::ways::high;
use super::{Native, Table, BOUNDS};

/// The answers that a region has one of: those of two tables and end entries.
const ANSWERS: usize = 8;
const _: () = assert!(2 + BOUNDS < ANSWERS);

/// Where a region begins, and the number of its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) from: f32,
    pub(super) answer: usize,
}

impl Bound {
    /// Whether the upper half of a sum that is not negative says on which side it lies.
    pub(super) const fn is_short(self) -> bool {
        self.from.to_bits().trailing_zeros() >= 16
    }

    /// The upper half, in all lanes.
    const fn upper(self) -> Lanes {
        Lanes([(self.from.to_bits() >> 16) as i16; STEP])
    }
}

/// Sixteen bits for each lane.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Lanes([i16; STEP]);

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn get(&self) -> __m512i {
        // SAFETY: as many bytes.
        unsafe { _mm512_load_si512(self.0.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn set(&mut self, lanes: __m512i) {
        // SAFETY: as above.
        unsafe { _mm512_store_si512(self.0.as_mut_ptr().cast(), lanes) };
    }
}

/// What is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'j> {
    /// Sums of each row in whole steps: sixteen of even elements before those of odd ones.
    pub(crate) sums: &'j [f32],
    /// The elements of a row behind those of the one before, so many apart.
    pub(crate) elements: &'j [u16],
    pub(crate) stride: usize,
    /// Sums of a row, and how many count.
    pub(crate) steps: usize,
    pub(crate) counted: usize,
    /// The result is the factor alone.
    pub(crate) skip_multiply: bool,
}

impl Native {
    /// The results of all rows, in fp16; adds to what is counted.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,popcnt")]
    pub(crate) fn results(&self, job: Job, counts: &mut [u32; 5], into: &mut [u8]) {
        use Table::{Exponent, Linear, Near};
        let mut uppers = [Lanes([0; STEP]); BOUNDS];
        uppers.iter_mut().zip(&self.bounds).for_each(|(upper, bound)| *upper = bound.upper());
        let from = |[even, odd]: [__m512; 2], bound: usize| {
            let upper = high(_mm512_castps_si512(even), _mm512_castps_si512(odd));
            _mm512_cmpge_epi16_mask(upper, uppers[bound % BOUNDS].get())
        };
        let none = |_: [__m512; 2]| _mm512_setzero_si512();
        macro_rules! walk {
            ($one:ident) => {
                self.walk(job, counts, into, from, |sums| $one.answer::<false>(sums), none)
            };
            ($one:ident, $two:ident) => {
                self.walk(job, counts, into, from, |sums| $one.answer::<false>(sums), |sums| $two.answer::<false>(sums))
            };
        }
        match &self.tables[..] {
            [Exponent(one)] if self.is_short => walk!(one),
            [Near(one)] if self.is_short => walk!(one),
            [Linear(one)] if self.is_short => walk!(one),
            [Exponent(one), Near(two)] if self.is_short => walk!(one, two),
            [Exponent(one), Linear(two)] if self.is_short => walk!(one, two),
            [Near(one), Near(two)] if self.is_short => walk!(one, two),
            [Near(one), Linear(two)] if self.is_short => walk!(one, two),
            [Linear(one), Linear(two)] if self.is_short => walk!(one, two),
            tables => {
                let from = |sums: [__m512; 2], bound: usize| {
                    let bound = _mm512_set1_ps(self.bounds[bound].from);
                    let lanes = sums.map(|sums| _mm512_cmp_ps_mask::<_CMP_GE_OQ>(sums, bound));
                    let [even, odd] = lanes.map(|lanes| _mm512_movm_epi32(lanes));
                    _mm512_movepi16_mask(high(even, odd))
                };
                let answer = |table: Option<&Table>, sums| match table {
                    Some(Exponent(table)) => table.answer::<true>(sums),
                    Some(Near(table)) => table.answer::<true>(sums),
                    Some(Linear(table)) => table.answer::<true>(sums),
                    None => none(sums),
                };
                let [one, two] = [tables.first(), tables.get(1)];
                self.walk(job, counts, into, from, |sums| answer(one, sums), |sums| answer(two, sums));
            }
        }
    }

    /// `from` gives the lanes of sums that a bound is not above, `one` and `two` are the tables' answers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,popcnt")]
    fn walk(
        &self,
        job: Job,
        counts: &mut [u32; 5],
        into: &mut [u8],
        from: impl Fn([__m512; 2], usize) -> u32,
        one: impl Fn([__m512; 2]) -> __m512i,
        two: impl Fn([__m512; 2]) -> __m512i,
    ) {
        let Job { sums, elements, stride, steps, counted, skip_multiply } = job;
        let mut answers = [Lanes([0; STEP]); ANSWERS];
        for (answer, &end) in answers[2..].iter_mut().zip(&self.ends) {
            *answer = Lanes([end; STEP]);
        }
        let mut beyond = [0; BOUNDS];
        let all = (sums.len() / steps * counted) as u32;
        let rows = sums.chunks_exact(steps).zip(elements.chunks(stride)).zip(into.chunks_exact_mut(2 * steps));
        for ((sums, elements), into) in rows {
            let mut left = counted;
            let parts = sums.as_chunks::<STEP>().0.iter().zip(elements.as_chunks::<STEP>().0);
            for ((sums, elements), into) in parts.zip(into.as_chunks_mut::<{ 2 * STEP }>().0) {
                let halves = sums.as_chunks::<HALF>().0;
                // SAFETY: sixteen sums each.
                let sums = [0, 1].map(|half: usize| unsafe { _mm512_loadu_ps(halves[half].as_ptr()) });
                answers[0].set(one(sums));
                answers[1].set(two(sums));
                let mut factors = answers[self.first % ANSWERS].get();
                let counted = if left < STEP { (1 << left) - 1 } else { u32::MAX };
                for ((number, bound), beyond) in self.bounds.iter().enumerate().zip(&mut beyond) {
                    let lanes = from(sums, number);
                    factors = _mm512_mask_mov_epi16(factors, lanes, answers[bound.answer % ANSWERS].get());
                    *beyond += (lanes & counted).count_ones();
                }
                left = left.saturating_sub(STEP);
                let result = if skip_multiply {
                    self.alone(factors)
                } else {
                    // SAFETY: 32 elements.
                    self.product(factors, unsafe { _mm512_loadu_si512(elements.as_ptr().cast()) })
                };
                // SAFETY: room for 32 results.
                unsafe { _mm512_storeu_si512(into.as_mut_ptr().cast(), result) };
            }
        }
        // Those of each region and all above.
        let mut here = all;
        for (at, class) in self.classes[..=self.bounds.len()].iter().enumerate() {
            let next = beyond.get(at).copied().unwrap_or(0);
            counts[*class] = counts[*class].wrapping_add(here - next);
            here = next;
        }
    }
}
