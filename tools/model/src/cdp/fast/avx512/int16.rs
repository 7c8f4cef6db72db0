// SPDX-License-Identifier: MIT OR Apache-2.0

//! int16, computed in fp64: squares have 33 bits, and the sum of nine squares is exact.

use std::arch::x86_64::*;

use super::super::super::operation::REACH;
use super::super::rows::Rows;

/// Numbers of a vector.
const LANES: usize = 8;

/// The values of rows as fp64.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn singles(rows: Rows, values: &[i32], sums: &mut [f64]) {
    for row in 0..rows.count {
        single(rows.inner(values, row), rows.bare_mut(sums, row));
    }
}

/// Values as fp64.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn single(values: &[i32], sums: &mut [f64]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum = value.into();
    }
}

/// The sums of `2 * reach + 1` squares around the values of rows.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn sums(rows: Rows, reach: usize, values: &[i32], sums: &mut [f64]) {
    for row in 0..rows.count {
        windows(reach, rows.around(values, row), rows.bare_mut(sums, row));
    }
}

/// The sums of `2 * reach + 1` squares around each value but the first and last [`REACH`].
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn windows(reach: usize, values: &[i32], sums: &mut [f64]) {
    match reach {
        1 => each::<1>(values, sums),
        2 => each::<2>(values, sums),
        3 => each::<3>(values, sums),
        _ => each::<4>(values, sums),
    }
}

/// The squares of eight values.
#[inline]
#[target_feature(enable = "avx512f")]
fn squares(values: &[i32]) -> __m512d {
    let values = &values[..LANES];
    // SAFETY: eight values.
    let value = _mm512_cvtepi32_pd(unsafe { _mm256_loadu_si256(values.as_ptr().cast()) });
    _mm512_mul_pd(value, value)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn each<const N: usize>(values: &[i32], sums: &mut [f64]) {
    const { assert!(2 * REACH == LANES) };
    let (mut before, count) = (squares(values), sums.len() / LANES);
    for (number, sums) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate().take(count) {
        // The squares from `REACH` before the first to `REACH` after the last.
        let after = squares(&values[(number + 1) * LANES..]);
        macro_rules! at {
            ($by:literal) => {
                _mm512_castsi512_pd(_mm512_alignr_epi64::<$by>(_mm512_castpd_si512(after), _mm512_castpd_si512(before)))
            };
        }
        let mut sum = _mm512_add_pd(_mm512_add_pd(at!(3), at!(5)), at!(4));
        if N > 1 {
            sum = _mm512_add_pd(sum, _mm512_add_pd(at!(2), at!(6)));
        }
        if N > 2 {
            sum = _mm512_add_pd(sum, _mm512_add_pd(at!(1), at!(7)));
        }
        if N > 3 {
            sum = _mm512_add_pd(sum, _mm512_add_pd(before, after));
        }
        // SAFETY: room for eight sums.
        unsafe { _mm512_storeu_pd(sums.as_mut_ptr(), sum) };
        before = after;
    }
}
