// SPDX-License-Identifier: MIT OR Apache-2.0

//! Integers times a factor, rounded half away from zero and shifted right, in fp32.
//!
//! The factor times 2^-shift is an fp32 number, and so is an integer of at most 25 bits. The instruction for a product and a sum
//! rounds once. It adds a half with the product's sign and rounds towards zero, and so does the conversion to an integer after it.
//! Below [`EXACT`] there is an fp32 number at every integer, so the first rounding does not pass one, and the result is that of
//! the hardware. With a larger value or result it may differ, but it is not smaller than the one at that bound. This is enough
//! where all larger results become the same output, the end of int8's range.

use std::arch::x86_64::*;

/// The largest magnitude of a value, and the bound of a result and its half, for which the result is exact.
const EXACT: i128 = 1 << 24;
/// The bound of a result that an integer of 32 bits holds even if its value is rounded.
const MOST: i128 = 1 << 30;

/// The smallest factor for which a result is exact, or at least `limit` in magnitude as the exact one is. `None`: no factor up to
/// `most`. `largest` is the largest magnitude of a value. A factor of zero is always exact.
pub(super) fn least_factor(largest: i64, shift: u32, limit: i128, most: i64) -> Option<u32> {
    let product = (i128::from(largest) * i128::from(most)) >> shift;
    if product >= MOST || limit >= EXACT / 2 && product >= EXACT / 2 {
        return None;
    }
    let least = if i128::from(largest) <= EXACT { 0 } else { limit.checked_mul(1 << shift)? / EXACT + 1 };
    u32::try_from(least).ok().filter(|&least| i64::from(least) <= most)
}

/// Factors times 2^-shift, and a half with the sign of each.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    factors: __m512,
    halves: __m512,
}

impl Scale {
    /// The factors times 2^-shift. A shift has six bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(factors: __m512i, shift: u32) -> Self {
        let power = f32::from_bits((127 - shift) << 23);
        let factors = _mm512_mul_ps(_mm512_cvtepi32_ps(factors), _mm512_set1_ps(power));
        Self { factors, halves: with_sign(_mm512_castps_si512(factors), _mm512_set1_ps(0.5)) }
    }

    /// The rounded products.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn of(self, values: __m512i) -> __m512i {
        const TO_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
        let halves = with_sign(values, self.halves);
        let sums = _mm512_fmadd_round_ps::<TO_ZERO>(_mm512_cvtepi32_ps(values), self.factors, halves);
        _mm512_cvttps_epi32(sums)
    }
}

/// The floats, negated where a value is negative.
#[inline]
#[target_feature(enable = "avx512f")]
fn with_sign(values: __m512i, floats: __m512) -> __m512 {
    // values & the sign's bit ^ floats.
    let signs = _mm512_set1_epi32(i32::MIN);
    _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0x6a>(values, signs, _mm512_castps_si512(floats)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::fixed::round_shift_right;
    use crate::support::bytes::noise;

    /// The results of 16 values with one factor.
    #[target_feature(enable = "avx512f")]
    fn sixteen(values: [i32; 16], factor: i32, shift: u32) -> [i32; 16] {
        let mut results = [0; 16];
        // SAFETY: 16 values.
        unsafe {
            let scale = Scale::new(_mm512_set1_epi32(factor), shift);
            let products = scale.of(_mm512_loadu_si512(values.as_ptr().cast()));
            _mm512_storeu_si512(results.as_mut_ptr().cast(), products);
        }
        results
    }

    #[test]
    fn products_are_exact_or_beyond_the_limit() {
        if !crate::Isa::available().contains(&crate::Isa::Avx512) {
            return;
        }
        let random: Vec<i32> = noise(7, 4096).as_chunks().0.iter().map(|&word| i32::from_le_bytes(word)).collect();
        let factors = [0, 1, -1, 2, 3, 127, 255, 1000, -4097, 16_384, -23_170, 32_767, -32_768, 5 << 20, 1 << 24];
        let (mut exact, mut beyond) = (0, 0);
        for shift in 0..=45 {
            for factor in factors.into_iter().chain(random[..8].iter().map(|factor| factor >> 16)) {
                // Values with results near n + 1/2, powers of two, and any.
                let near = |result: i64| (((2 * result + 1) << shift) / 2).checked_div(factor.into()).unwrap_or(result);
                let turns = [0, 1, -1, 2, 5, 126, -127, 128, 1000, -65_000, (1 << 22) - 1].map(near);
                let powers = (0..31).flat_map(|bit| [1i64 << bit, -(1 << bit)]);
                let values = powers.chain(turns).flat_map(|value| (-2..=2).map(move |by| value + by));
                let values = values.chain(random.iter().enumerate().map(|(at, &value)| i64::from(value >> (at % 24))));
                let mut values: Vec<i32> = values.filter_map(|value| i32::try_from(value).ok()).collect();
                values.resize(values.len().next_multiple_of(16), 0);
                for (largest, limit) in
                    [(1 << 20, i128::MAX), (1 << 24, i128::MAX), (1 << 24, 1000), (1 << 31, 128), (1 << 31, 1 << 22)]
                {
                    let magnitude = i64::from(factor).abs();
                    let Some(least) = least_factor(largest, shift, limit, magnitude.max(1 << 15)) else { continue };
                    if magnitude != 0 && magnitude < i64::from(least) {
                        continue;
                    }
                    for values in values.as_chunks().0 {
                        // SAFETY: the machine has the instructions.
                        let results = unsafe { sixteen(*values, factor, shift) };
                        for (&value, result) in values.iter().zip(results) {
                            let expected = round_shift_right(i64::from(value) * i64::from(factor), shift);
                            let same = i64::from(result) == expected;
                            let far =
                                |result: i64| i128::from(result.abs()) >= limit && result.signum() == expected.signum();
                            if i64::from(value).abs() <= largest {
                                let is_right = same || far(expected) && far(result.into());
                                assert!(is_right, "{value} * {factor} >> {shift}: {result} for {expected}, {limit}");
                                exact += usize::from(same);
                                beyond += usize::from(!same);
                            }
                        }
                    }
                }
            }
        }
        assert!(exact > 1_000_000 && beyond > 10_000, "{exact} and {beyond}");
    }
}
