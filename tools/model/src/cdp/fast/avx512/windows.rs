// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sums of squares of 16-bit integers, modulo 2^32. One instruction squares and adds two neighbours.

use std::arch::x86_64::*;

use super::super::super::operation::REACH;
use super::super::rows::STEP;
use crate::lut::cdp::avx512::int::dot;

const EVEN: i32 = 0x0000_ffff;
/// The number of squares of sixteen bits for which the sum always fits 32 bits.
const FIT: usize = 3;

/// 32 values that begin `from` elements after the first.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(values: &[i16], from: usize) -> __m512i {
    let values = &values[from..from + STEP];
    // SAFETY: 32 values.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

/// A sum on its way.
#[derive(Clone, Copy)]
struct Sum {
    value: __m512i,
    squares: usize,
    /// Lanes with a sum of more than 32 bits, if requested.
    carries: __mmask16,
}

impl Sum {
    /// With one or two more squares of each pair: of what `other` has, or of the whole pair.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn add<const CARRY: bool>(self, pair: __m512i, other: __m512i, squares: usize) -> Self {
        let value = dot(self.value, pair, other);
        let squares = self.squares + squares;
        let over = if CARRY && squares > FIT { _mm512_cmplt_epu32_mask(value, self.value) } else { 0 };
        Self { value, squares, carries: self.carries | over }
    }
}

/// The sums of `2 * N + 1` squares around 32 values, or the values where `N` is none: of even values, and of odd ones. And
/// whether one has more than 32 bits; without `CARRY` it is known that none has.
///
/// `values` begin [`REACH`] before the first one's.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn sums<const N: usize, const CARRY: bool>(values: &[i16]) -> ([__m512i; 2], bool) {
    let even = _mm512_set1_epi32(EVEN);
    // Pairs of neighbours, so many pairs before or after.
    let pair = |by: isize| load(values, REACH.wrapping_add_signed(2 * by));
    let middle = pair(0);
    if N == 0 {
        return ([_mm512_srai_epi32::<16>(_mm512_slli_epi32::<16>(middle)), _mm512_srai_epi32::<16>(middle)], false);
    }
    let both = |sum: Sum, pair: __m512i| sum.add::<CARRY>(pair, pair, 2);
    let first = |sum: Sum, pair: __m512i| sum.add::<CARRY>(pair, _mm512_and_si512(pair, even), 1);
    let second = |sum: Sum, pair: __m512i| sum.add::<CARRY>(pair, _mm512_andnot_si512(even, pair), 1);
    // An even element's window begins and ends as far from its own pair's first as an odd one's from the second.
    let mut all = Sum { value: _mm512_madd_epi16(middle, middle), squares: 2, carries: 0 };
    for by in 1..=N as isize / 2 {
        if 2 * by < N as isize {
            all = both(both(all, pair(-by)), pair(by));
        }
    }
    let sums = if N % 2 == 1 {
        let by = N as isize / 2 + 1;
        [second(all, pair(-by)), first(all, pair(by))]
    } else {
        let (before, after) = (pair(-(N as isize / 2)), pair(N as isize / 2));
        [both(first(all, after), before), both(second(all, before), after)]
    };
    (sums.map(|sum| sum.value), sums[0].carries | sums[1].carries != 0)
}

/// The sums around 32 values of nine bits, with `reach` on either side, or the values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn sums_of(reach: Option<usize>, values: &[i16]) -> [__m512i; 2] {
    match reach {
        None => sums::<0, false>(values).0,
        Some(1) => sums::<1, false>(values).0,
        Some(2) => sums::<2, false>(values).0,
        Some(3) => sums::<3, false>(values).0,
        Some(_) => sums::<4, false>(values).0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::Isa;

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn check<const N: usize>(values: &[i16; STEP + 2 * REACH]) -> usize {
        let ([even, odd], carries) = sums::<N, true>(values);
        let mut found = [[0u32; STEP / 2]; 2];
        for (found, sums) in found.iter_mut().zip([even, odd]) {
            // SAFETY: room for sixteen numbers.
            unsafe { _mm512_storeu_si512(found.as_mut_ptr().cast(), sums) };
        }
        let right: [u64; STEP] = std::array::from_fn(|at| {
            values[at + REACH - N..=at + REACH + N].iter().map(|&value| i64::from(value).pow(2) as u64).sum()
        });
        for (at, &sum) in right.iter().enumerate() {
            assert_eq!(found[at % 2][at / 2], sum as u32, "{at} of {values:?}, {N}");
        }
        assert_eq!(carries, right.iter().any(|&sum| sum >> 32 != 0), "{values:?}, {N}");
        usize::from(carries)
    }

    #[test]
    fn sums_of_more_than_32_bits_are_found() {
        if Isa::best() != Isa::Avx512 {
            return;
        }
        let mut state = 5u64;
        let mut carries = 0;
        for round in 0..4000 {
            let values: [i16; STEP + 2 * REACH] = std::array::from_fn(|_| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                // Few are large, but those are as large as can be.
                match (state >> 40) as usize % (3 + round % 40) {
                    0 => i16::MIN,
                    1 => i16::MAX - (state >> 50) as i16 % 20,
                    _ => ((state >> 32) as i16) >> 2,
                }
            });
            // SAFETY: the processor has what `Isa::Avx512` stands for.
            carries += unsafe { check::<1>(&values) + check::<2>(&values) + check::<3>(&values) + check::<4>(&values) };
        }
        assert!((1000..11_000).contains(&carries), "{carries}");
    }
}
