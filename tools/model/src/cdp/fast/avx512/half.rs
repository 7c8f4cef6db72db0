// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16, computed in fp32.

use std::arch::x86_64::*;

use super::super::super::operation::REACH;
use super::super::rows::Rows;
use crate::lut::cdp::avx512::float::round;

/// Numbers of a vector.
const LANES: usize = 16;

/// Widens whole vectors of fp16; true if a number is infinite or NaN.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(in super::super) fn widen(raw: &[u16], values: &mut [f32]) -> bool {
    let infinity = _mm256_set1_epi16(0x7c00);
    let mut special = 0;
    for (raw, values) in raw.as_chunks::<LANES>().0.iter().zip(values.as_chunks_mut::<LANES>().0) {
        // SAFETY: sixteen numbers.
        let bits = unsafe { _mm256_loadu_si256(raw.as_ptr().cast()) };
        special |= _mm256_cmpeq_epi16_mask(_mm256_and_si256(bits, infinity), infinity);
        // SAFETY: room for sixteen numbers.
        unsafe { _mm512_storeu_ps(values.as_mut_ptr(), _mm512_cvtph_ps(bits)) };
    }
    special != 0
}

/// The sums of squares in the order of the plain loops, of rows from `first` on, or the values.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn sums(rows: Rows, first: usize, reach: Option<usize>, values: &[f32], sums: &mut [f32]) {
    for (number, sums) in sums.chunks_exact_mut(rows.steps()).enumerate() {
        let values = rows.around(values, first + number);
        match reach {
            None => sums.copy_from_slice(&values[REACH..][..rows.steps()]),
            Some(1) => each::<1>(values, sums),
            Some(2) => each::<2>(values, sums),
            Some(3) => each::<3>(values, sums),
            Some(_) => each::<4>(values, sums),
        }
    }
}

/// The squares of sixteen numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn squares(values: &[f32]) -> __m512i {
    let values = &values[..LANES];
    // SAFETY: sixteen numbers.
    let value = unsafe { _mm512_loadu_ps(values.as_ptr()) };
    _mm512_castps_si512(_mm512_mul_ps(value, value))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn each<const N: usize>(values: &[f32], sums: &mut [f32]) {
    const { assert!(4 * REACH == LANES) };
    let (values, last) = (&values[..sums.len() + 2 * REACH], sums.len() + 2 * REACH - LANES);
    let mut before = squares(values);
    for (number, sums) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        // The squares from `REACH` before the first on; half a vector follows the last.
        let next = (number + 1) * LANES;
        let after = if next <= last { squares(&values[next..]) } else { rest(squares(&values[last..])) };
        macro_rules! at {
            ($by:literal) => {
                _mm512_castsi512_ps(_mm512_alignr_epi32::<$by>(after, before))
            };
        }
        let mut sum = _mm512_add_ps(_mm512_add_ps(at!(3), at!(5)), at!(4));
        if N > 1 {
            sum = _mm512_add_ps(sum, _mm512_add_ps(at!(2), at!(6)));
        }
        if N > 2 {
            sum = _mm512_add_ps(sum, _mm512_add_ps(at!(1), at!(7)));
        }
        if N > 3 {
            sum = _mm512_add_ps(sum, _mm512_add_ps(_mm512_castsi512_ps(before), at!(8)));
        }
        // SAFETY: room for sixteen sums.
        unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), sum) };
        before = after;
    }
}

/// Moves the upper half to the place of the lower one.
#[inline]
#[target_feature(enable = "avx512f")]
fn rest(squares: __m512i) -> __m512i {
    _mm512_alignr_epi32::<8>(squares, squares)
}

/// Factors times values, or factors alone, in fp16, of rows from `first` on.
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
pub(in super::super) fn results(
    rows: Rows,
    first: usize,
    skip_multiply: bool,
    factors: &[f32],
    values: &[f32],
    into: &mut [u8],
) {
    for (number, factors) in factors.chunks_exact(rows.steps()).enumerate() {
        let into = &mut into[2 * (first + number) * rows.steps()..][..2 * rows.steps()];
        row(skip_multiply, factors, rows.inner(values, first + number), into);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn row(skip_multiply: bool, factors: &[f32], values: &[f32], into: &mut [u8]) {
    let largest = _mm512_set1_ps(65504.0);
    let into = into.as_chunks_mut::<{ 2 * LANES }>().0;
    let operands = factors.as_chunks::<LANES>().0.iter().zip(values.as_chunks::<LANES>().0);
    for (into, (factors, values)) in into.iter_mut().zip(operands) {
        // SAFETY: sixteen numbers each.
        let [factor, value] = unsafe { [_mm512_loadu_ps(factors.as_ptr()), _mm512_loadu_ps(values.as_ptr())] };
        let product = if skip_multiply { factor } else { _mm512_mul_ps(factor, value) };
        // The smaller magnitude with the first number's sign.
        let rounded = _mm512_range_ps::<0b0010>(round(product), largest);
        // Rounding takes a zero's sign away.
        let sign = _mm512_and_si512(_mm512_castps_si512(product), _mm512_set1_epi32(i32::MIN));
        let rounded = _mm512_or_si512(_mm512_castps_si512(rounded), sign);
        let half = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_castsi512_ps(rounded));
        // SAFETY: room for sixteen fp16.
        unsafe { _mm256_storeu_si256(into.as_mut_ptr().cast(), half) };
    }
}
