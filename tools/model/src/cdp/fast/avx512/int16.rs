// SPDX-License-Identifier: MIT OR Apache-2.0

//! int16: squares of 33 bits, and sums of nine of them, are exact in fp64.

use std::arch::x86_64::*;

use super::super::super::REACH;

/// Numbers of a vector.
const LANES: usize = 8;

/// The squares of values.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn squares(values: &[i32], squares: &mut [f64]) {
    for (values, squares) in values.as_chunks::<LANES>().0.iter().zip(squares.as_chunks_mut::<LANES>().0) {
        // SAFETY: eight values.
        let value = _mm512_cvtepi32_pd(unsafe { _mm256_loadu_si256(values.as_ptr().cast()) });
        // SAFETY: room for eight squares.
        unsafe { _mm512_storeu_pd(squares.as_mut_ptr(), _mm512_mul_pd(value, value)) };
    }
}

/// The values as fp64.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn singles(values: &[i32], sums: &mut [f64]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum = value.into();
    }
}

/// The sums of `2 * reach + 1` squares around each but the first and last [`REACH`].
#[target_feature(enable = "avx512f")]
pub(in super::super) fn sums(reach: usize, squares: &[f64], sums: &mut [f64]) {
    match reach {
        1 => each::<1>(squares, sums),
        2 => each::<2>(squares, sums),
        3 => each::<3>(squares, sums),
        _ => each::<4>(squares, sums),
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn each<const N: usize>(squares: &[f64], sums: &mut [f64]) {
    let squares = &squares[..sums.len() + 2 * REACH];
    for (number, sums) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let at = |by: usize| {
            let squares = &squares[number * LANES + by..][..LANES];
            // SAFETY: eight squares.
            unsafe { _mm512_loadu_pd(squares.as_ptr()) }
        };
        let mut sum = at(REACH);
        for distance in 1..=N {
            sum = _mm512_add_pd(_mm512_add_pd(sum, at(REACH - distance)), at(REACH + distance));
        }
        // SAFETY: room for eight sums.
        unsafe { _mm512_storeu_pd(sums.as_mut_ptr(), sum) };
    }
}
