// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16, in fp32's arithmetic.

use std::arch::x86_64::*;

use super::super::super::REACH;
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

/// The squares of numbers, in whole vectors.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn squares(values: &[f32], squares: &mut [f32]) {
    for (values, squares) in values.as_chunks::<LANES>().0.iter().zip(squares.as_chunks_mut::<LANES>().0) {
        // SAFETY: sixteen numbers.
        let value = unsafe { _mm512_loadu_ps(values.as_ptr()) };
        // SAFETY: room for sixteen squares.
        unsafe { _mm512_storeu_ps(squares.as_mut_ptr(), _mm512_mul_ps(value, value)) };
    }
}

/// As [`super::super::half::windows`] of squares.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn sums(reach: usize, squares: &[f32], sums: &mut [f32]) {
    match reach {
        1 => each::<1>(squares, sums),
        2 => each::<2>(squares, sums),
        3 => each::<3>(squares, sums),
        _ => each::<4>(squares, sums),
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn each<const N: usize>(squares: &[f32], sums: &mut [f32]) {
    let squares = &squares[..sums.len() + 2 * REACH];
    for (number, sums) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let at = |by: usize| {
            let squares = &squares[number * LANES + by..][..LANES];
            // SAFETY: sixteen squares.
            unsafe { _mm512_loadu_ps(squares.as_ptr()) }
        };
        let mut sum = _mm512_add_ps(_mm512_add_ps(at(REACH - 1), at(REACH + 1)), at(REACH));
        for distance in 2..=N {
            sum = _mm512_add_ps(sum, _mm512_add_ps(at(REACH - distance), at(REACH + distance)));
        }
        // SAFETY: room for sixteen sums.
        unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), sum) };
    }
}

/// Factors times values, or factors alone, in fp16.
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
pub(in super::super) fn results(skip_multiply: bool, factors: &[f32], values: &[f32], into: &mut [u8]) {
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
