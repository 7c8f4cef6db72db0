// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16 in two passes: sums in single precision, of even and of odd elements, so that pairs of them lie as pairs of fp16
//! do; then factors and products in the machine's own fp16.

use std::arch::x86_64::*;

use super::super::rows::{Rows, STEP};
use crate::lut::cdp::avx512::native::arithmetic::add_none;

/// Numbers of a vector.
const LANES: usize = 16;

/// What a window adds: squares, or nothing to the value, of even and of odd elements.
type Pair = [__m512; 2];

/// The terms of a step.
#[inline]
#[target_feature(enable = "avx512f")]
fn terms<const N: usize>(raw: &[u16; STEP]) -> Pair {
    let parts = raw.as_chunks::<LANES>().0;
    let [one, two] = [0, 1].map(|part: usize| {
        // SAFETY: sixteen numbers.
        let value = _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(parts[part].as_ptr().cast()) });
        if N == 0 {
            value
        } else {
            _mm512_mul_ps(value, value)
        }
    });
    let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    let odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    [even, odd].map(|order| _mm512_permutex2var_ps(one, order, two))
}

/// The sums of a step, in the order of the plain loops; the steps before and behind it are given.
#[inline]
#[target_feature(enable = "avx512f")]
fn window<const N: usize>(before: Pair, here: Pair, behind: Pair) -> Pair {
    if N == 0 {
        return here;
    }
    // So many lanes before or behind.
    macro_rules! at {
        (-$by:literal, $parity:literal) => {{
            let [before, here] = [before, here].map(|pair| _mm512_castps_si512(pair[$parity]));
            _mm512_castsi512_ps(_mm512_alignr_epi32::<{ 16 - $by }>(here, before))
        }};
        ($by:literal, $parity:literal) => {{
            let [here, behind] = [here, behind].map(|pair| _mm512_castps_si512(pair[$parity]));
            _mm512_castsi512_ps(_mm512_alignr_epi32::<$by>(behind, here))
        }};
    }
    let [even, odd] = here;
    let (odd_before, even_behind) = (at!(-1, 1), at!(1, 0));
    let mut sums =
        [_mm512_add_ps(_mm512_add_ps(odd_before, odd), even), _mm512_add_ps(_mm512_add_ps(even, even_behind), odd)];
    let mut add = |terms: [Pair; 2]| {
        for (sum, [one, two]) in sums.iter_mut().zip(terms) {
            *sum = _mm512_add_ps(*sum, _mm512_add_ps(one, two));
        }
    };
    if N > 1 {
        let (even_before, odd_behind) = (at!(-1, 0), at!(1, 1));
        add([[even_before, even_behind], [odd_before, odd_behind]]);
        if N > 2 {
            let (odd_further, even_further) = (at!(-2, 1), at!(2, 0));
            add([[odd_further, odd_behind], [even_before, even_further]]);
            if N > 3 {
                add([[at!(-2, 0), even_further], [odd_further, at!(2, 1)]]);
            }
        }
    }
    sums
}

/// The sums of rows from `first` on, or the values: sixteen of even elements before those of odd ones. False if a number is
/// infinite or NaN.
///
/// # Safety
///
/// The processor has AVX512-FP16.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in super::super) unsafe fn sums(
    rows: Rows,
    first: usize,
    reach: Option<usize>,
    raw: &[u16],
    sums: &mut [f32],
) -> bool {
    match reach {
        None => each::<0>(rows, first, raw, sums),
        Some(1) => each::<1>(rows, first, raw, sums),
        Some(2) => each::<2>(rows, first, raw, sums),
        Some(3) => each::<3>(rows, first, raw, sums),
        Some(_) => each::<4>(rows, first, raw, sums),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn each<const N: usize>(rows: Rows, first: usize, raw: &[u16], sums: &mut [f32]) -> bool {
    let nothing = [_mm512_setzero_ps(); 2];
    let mut special = _mm512_setzero_si512();
    for (number, sums) in sums.chunks_exact_mut(rows.steps()).enumerate() {
        let raw = rows.inner(raw, first + number).as_chunks::<STEP>().0;
        let (mut before, mut here) = (nothing, terms::<N>(&raw[0]));
        for step in raw {
            // SAFETY: 32 numbers.
            let numbers = unsafe { _mm512_loadu_si512(step.as_ptr().cast()) };
            // SAFETY: the caller has found AVX512-FP16.
            special = unsafe { add_none(special, numbers) };
        }
        for (step, sums) in sums.as_chunks_mut::<STEP>().0.iter_mut().enumerate() {
            let behind = raw.get(step + 1).map_or(nothing, |raw| terms::<N>(raw));
            for (into, sums) in sums.as_chunks_mut::<LANES>().0.iter_mut().zip(window::<N>(before, here, behind)) {
                // SAFETY: room for sixteen sums.
                unsafe { _mm512_storeu_ps(into.as_mut_ptr(), sums) };
            }
            (before, here) = (here, behind);
        }
    }
    _mm512_test_epi16_mask(special, _mm512_set1_epi16(0x7c00)) == 0
}
