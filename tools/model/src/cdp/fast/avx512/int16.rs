// SPDX-License-Identifier: MIT OR Apache-2.0

//! int16: squares of 33 bits, and sums of nine of them, are exact in fp64.

use std::arch::x86_64::*;

use super::super::super::REACH;
use super::super::rows::Rows;

/// Numbers of a vector.
const LANES: usize = 8;

/// The values as fp64.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn singles(rows: Rows, values: &[i32], sums: &mut [f64]) {
    for row in 0..rows.count {
        for (sum, &value) in rows.bare_mut(sums, row).iter_mut().zip(rows.inner(values, row)) {
            *sum = value.into();
        }
    }
}

/// The sums of `2 * reach + 1` squares around each value but the first and last [`REACH`].
#[target_feature(enable = "avx512f")]
pub(in super::super) fn sums(rows: Rows, reach: usize, values: &[i32], sums: &mut [f64]) {
    for row in 0..rows.count {
        let (values, sums) = (rows.around(values, row), rows.bare_mut(sums, row));
        match reach {
            1 => each::<1>(values, sums),
            2 => each::<2>(values, sums),
            3 => each::<3>(values, sums),
            _ => each::<4>(values, sums),
        }
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

/// Factors times values of sixteen bits, shifted right by at most thirty, half rounded away from zero, in sixteen bits; how
/// many lose more than rounding.
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
pub(in super::super) fn results(rows: Rows, shift: u32, factors: &[i16], values: &[i32], into: &mut [u8]) -> u32 {
    let count = _mm_cvtsi32_si128(shift as i32);
    let half = _mm512_set1_epi32(if shift == 0 { 0 } else { 1 << (shift - 1) });
    let (least, span) = (_mm512_set1_epi32(32_769), _mm512_set1_epi32(65_538));
    let mut saturated = 0;
    for row in 0..rows.count {
        let factors = rows.bare(factors, row).as_chunks::<16>().0;
        let values = rows.inner(values, row).as_chunks::<16>().0;
        let into = into[2 * row * rows.steps()..][..2 * rows.steps()].as_chunks_mut::<32>().0;
        let mut left_over = rows.elements;
        for ((factors, values), into) in factors.iter().zip(values).zip(into) {
            // SAFETY: sixteen numbers each.
            let [factor, value] = unsafe {
                let factors = _mm256_loadu_si256(factors.as_ptr().cast());
                [_mm512_cvtepu16_epi32(factors), _mm512_loadu_si512(values.as_ptr().cast())]
            };
            // A factor's upper half is zero, a value's nothing but its sign.
            let product = _mm512_madd_epi16(factor, value);
            let sign = if shift == 0 { _mm512_setzero_si512() } else { _mm512_srai_epi32::<31>(product) };
            let rounded = _mm512_sra_epi32(_mm512_add_epi32(_mm512_add_epi32(product, half), sign), count);
            let floor = _mm512_add_epi32(_mm512_sra_epi32(product, count), least);
            let off = _mm512_cmpge_epu32_mask(floor, span);
            let counted = if left_over >= 16 { u16::MAX } else { (1 << left_over) - 1 };
            left_over = left_over.saturating_sub(16);
            saturated += (off & counted).count_ones();
            // SAFETY: there is room for 32 bytes.
            unsafe { _mm256_storeu_si256(into.as_mut_ptr().cast(), _mm512_cvtsepi32_epi16(rounded)) };
        }
    }
    saturated
}
