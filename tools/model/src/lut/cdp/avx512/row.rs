// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sums of some rows, 32 at a time: the regions that they lie in and the loads from tables.

use super::super::regions::{find, Region, Way};
use std::arch::x86_64::*;

/// Sums of a half.
pub(crate) const HALF: usize = 16;

/// Sums that are taken at once.
pub(crate) const STEP: usize = 2 * HALF;

/// Which sums of a step are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Sums of a row, a multiple of [`STEP`].
    pub(crate) steps: usize,
    /// How many of them count.
    pub(crate) elements: usize,
    /// The first half of a step has the even elements and the second one the odd ones; otherwise they follow one another.
    pub(crate) is_interleaved: bool,
}

impl Row {
    /// The lanes that count in both halves of step number `step`.
    #[inline]
    pub(super) fn counted(self, step: usize) -> [u16; 2] {
        let left = self.elements.saturating_sub(step * STEP % self.steps);
        let first = |lanes: usize| if lanes < HALF { (1 << lanes) - 1 } else { u16::MAX };
        if self.is_interleaved {
            [first(left.div_ceil(2)), first(left / 2)]
        } else {
            [first(left), first(left.saturating_sub(HALF))]
        }
    }
}

/// The answers for all sums of some rows; the smallest and largest sum are given.
///
/// `answer` answers a half in one way, `from` gives the lanes of a half that a number is not larger than, `other` a single
/// lane, and `store` takes the answers of a step.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
pub(in crate::lut::cdp) fn walk<S: Copy + PartialOrd>(
    regions: &[Region<S>],
    [smallest, largest]: [S; 2],
    sums: &[S],
    row: Row,
    counts: &mut [u32; 5],
    answer: impl Fn(Way, &[S; HALF]) -> __m512i,
    from: impl Fn(&[S; HALF], S) -> u16,
    other: impl Fn(S) -> i32,
    mut store: impl FnMut(usize, [__m512i; 2]),
) {
    let steps = sums.as_chunks::<HALF>().0.as_chunks::<2>().0;
    let regions = &regions[find(regions, smallest)..=find(regions, largest)];
    count(regions, steps, row, counts, &from);
    let way = regions[0].way;
    if way != Way::Other && regions.iter().all(|region| region.way == way) {
        for (step, [one, two]) in steps.iter().enumerate() {
            store(step, [answer(way, one), answer(way, two)]);
        }
        return;
    }
    for (step, halves) in steps.iter().enumerate() {
        let mut answers = [_mm512_setzero_si512(); 2];
        for half in 0..2 {
            let sums = &halves[half];
            let mut here = u16::MAX;
            let mut number = 0;
            while number < regions.len() {
                let way = regions[number].way;
                // Neighbours that answer in the same way are one.
                number += 1;
                while number < regions.len() && regions[number].way == way {
                    number += 1;
                }
                let beyond = if number < regions.len() { from(sums, regions[number].from) } else { 0 };
                let mask = here & !beyond;
                here = beyond;
                if mask == 0 {
                    continue;
                }
                let answer = if way == Way::Other {
                    let mut single = [0i32; HALF];
                    let mask = mask & row.counted(step)[half];
                    for lane in 0..HALF {
                        if mask >> lane & 1 != 0 {
                            single[lane] = other(sums[lane]);
                        }
                    }
                    // SAFETY: sixteen numbers.
                    unsafe { _mm512_loadu_si512(single.as_ptr().cast()) }
                } else {
                    answer(way, sums)
                };
                answers[half] = _mm512_mask_mov_epi32(answers[half], mask, answer);
            }
        }
        store(step, answers);
    }
}

/// Adds how many sums lie in each region to its counter.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
pub(super) fn count<S: Copy>(
    regions: &[Region<S>],
    steps: &[[[S; HALF]; 2]],
    row: Row,
    counts: &mut [u32; 5],
    from: impl Fn(&[S; HALF], S) -> u16,
) {
    // Those of this region and all above.
    let mut all = (steps.len() * STEP / row.steps * row.elements) as u32;
    for (number, region) in regions.iter().enumerate() {
        let mut beyond = 0;
        if let Some(next) = regions.get(number + 1) {
            let is_whole = row.elements == row.steps;
            for (step, halves) in steps.iter().enumerate() {
                let counted = if is_whole { [u16::MAX; 2] } else { row.counted(step) };
                for half in 0..2 {
                    beyond += (from(&halves[half], next.from) & counted[half]).count_ones();
                }
            }
        }
        counts[region.class] = counts[region.class].wrapping_add(all - beyond);
        all = beyond;
    }
}

/// Pairs of 32 bits, one for each lane, at 256 places that the lanes' low bytes name: first and second numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) fn gather(pairs: &[[i32; 2]; 256], at: __m512i) -> [__m512i; 2] {
    let at = _mm512_and_si512(at, _mm512_set1_epi32(0xff));
    let [low, high] = [_mm512_castsi512_si256(at), _mm512_extracti64x4_epi64::<1>(at)];
    // SAFETY: an index has eight bits, and there are as many pairs.
    let both = unsafe {
        [
            _mm512_i32gather_epi64::<8>(low, pairs.as_ptr().cast()),
            _mm512_i32gather_epi64::<8>(high, pairs.as_ptr().cast()),
        ]
    };
    let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    let odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    [even, odd].map(|order| _mm512_permutex2var_epi32(both[0], order, both[1]))
}

/// The low byte's entries of a table of 64, of which 32 repeat where `WIDE` is false.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn entries<const WIDE: bool>(table: &[i32; 64], at: __m512i, upper: __mmask16) -> __m512i {
    let at16 = |first: usize| {
        let entries = &table[first..first + 16];
        // SAFETY: sixteen entries.
        unsafe { _mm512_loadu_si512(entries.as_ptr().cast()) }
    };
    let low = _mm512_permutex2var_epi32(at16(0), at, at16(16));
    if WIDE {
        _mm512_mask_mov_epi32(low, upper, _mm512_permutex2var_epi32(at16(32), at, at16(48)))
    } else {
        low
    }
}
