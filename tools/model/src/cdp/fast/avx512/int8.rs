// SPDX-License-Identifier: MIT OR Apache-2.0

//! int8: two neighbours, of sixteen bits each, are squared and added in one instruction.

use std::arch::x86_64::*;

use super::super::super::REACH;
use super::super::rows::{Rows, STEP};

const EVEN: i32 = 0x0000_ffff;

/// 32 values that begin `from` elements after the first of [`super::super::rows::Rows::around`].
#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[i16], from: usize) -> __m512i {
    let values = &values[from..from + STEP];
    // SAFETY: 32 values.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

/// The sums of `2 * reach + 1` squares around each value but the first and last [`REACH`], or the values; of each step
/// the sums of even values before those of odd ones.
///
/// Values have nine bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(in super::super) fn sums(rows: Rows, reach: Option<usize>, values: &[i16], sums: &mut [i32]) {
    for row in 0..rows.count {
        let (values, sums) = (rows.around(values, row), rows.bare_mut(sums, row));
        match reach {
            None => each::<0>(values, sums),
            Some(1) => each::<1>(values, sums),
            Some(2) => each::<2>(values, sums),
            Some(3) => each::<3>(values, sums),
            Some(_) => each::<4>(values, sums),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn each<const N: usize>(values: &[i16], sums: &mut [i32]) {
    let even = _mm512_set1_epi32(EVEN);
    for (step, sums) in sums.as_chunks_mut::<STEP>().0.iter_mut().enumerate() {
        // Pairs of neighbours, so many pairs before or after.
        let pair = |by: isize| load(values, (step * STEP + REACH).wrapping_add_signed(2 * by));
        let middle = pair(0);
        let add = |sum: __m512i, pair: __m512i| _mm512_dpwssd_epi32(sum, pair, pair);
        let first = |pair: __m512i| _mm512_and_si512(pair, even);
        let second = |pair: __m512i| _mm512_andnot_si512(even, pair);
        let both = if N == 0 {
            [_mm512_srai_epi32::<16>(_mm512_slli_epi32::<16>(middle)), _mm512_srai_epi32::<16>(middle)]
        } else {
            // An even element's window begins and ends as far from its own pair's first as an odd one's from the second.
            let mut all = _mm512_madd_epi16(middle, middle);
            for by in 1..=N as isize / 2 {
                if 2 * by < N as isize {
                    all = add(add(all, pair(-by)), pair(by));
                }
            }
            if N % 2 == 1 {
                let by = N as isize / 2 + 1;
                [add(all, second(pair(-by))), add(all, first(pair(by)))]
            } else {
                let (before, after) = (pair(-(N as isize / 2)), pair(N as isize / 2));
                [add(add(all, before), first(after)), add(add(all, second(before)), after)]
            }
        };
        let into = sums.as_mut_ptr();
        // SAFETY: there is room for 32 sums.
        unsafe {
            _mm512_storeu_si512(into.cast(), both[0]);
            _mm512_storeu_si512(into.add(STEP / 2).cast(), both[1]);
        }
    }
}

/// Whether [`results`] has a shift of so many bits.
pub(in super::super) const fn shifts(shift: u32) -> bool {
    shift >= 9 && shift <= 16
}

/// Factors times values, shifted right, half rounded away from zero, in eight bits; how many lose more than rounding.
///
/// A value, of nine bits, is shifted left first, so that the high half of the product is the result without rounding.
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
pub(in super::super) fn results(rows: Rows, shift: u32, factors: &[i16], values: &[i16], into: &mut [u8]) -> u32 {
    let left = _mm_cvtsi32_si128(16 - shift as i32);
    let (minimum, span) = (_mm512_set1_epi16(129), _mm512_set1_epi16(258));
    let mut saturated = 0;
    for row in 0..rows.count {
        let (factors, values) = (rows.bare(factors, row), rows.inner(values, row));
        let into = rows.bare_mut(into, row).as_chunks_mut::<STEP>().0;
        let operands = factors.as_chunks::<STEP>().0.iter().zip(values.as_chunks::<STEP>().0);
        let mut left_over = rows.elements;
        for ((factors, values), into) in operands.zip(into) {
            let value = _mm512_sll_epi16(load(values, 0), left);
            let factor = load(factors, 0);
            let high = _mm512_mulhi_epi16(factor, value);
            let low = _mm512_mullo_epi16(factor, value);
            // The product's sign, where it is not zero.
            let sign = _mm512_srai_epi16::<15>(_mm512_xor_si512(factor, value));
            let below = _mm512_xor_si512(sign, _mm512_set1_epi16(0x7fff));
            let up = _mm512_cmpgt_epu16_mask(low, below);
            let result = _mm512_mask_sub_epi16(high, up, high, _mm512_set1_epi16(-1));
            let off = _mm512_cmpge_epu16_mask(_mm512_add_epi16(high, minimum), span);
            let counted = if left_over >= STEP { u32::MAX } else { (1 << left_over) - 1 };
            left_over = left_over.saturating_sub(STEP);
            saturated += (off & counted).count_ones();
            let bytes = _mm512_cvtsepi16_epi8(result);
            // SAFETY: there is room for 32 bytes.
            unsafe { _mm256_storeu_si256(into.as_mut_ptr().cast(), bytes) };
        }
    }
    saturated
}
