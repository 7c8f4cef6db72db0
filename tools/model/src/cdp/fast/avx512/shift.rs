// SPDX-License-Identifier: MIT OR Apache-2.0

//! Output converters that only shift: the scale is one and the offset zero.

use std::arch::x86_64::*;

use super::super::super::operation::Converter;
use super::super::rows::STEP;
use super::output::DOUBLE;
use super::output::{count, pairs, Counted};

/// Shifts of products of int16.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Shift16 {
    shift: u32,
    counted: Counted,
}

impl Shift16 {
    /// A shift of one to thirty bits.
    pub(in super::super) fn new(converter: Converter) -> Option<Self> {
        let Converter { offset: 0, scale: 1, shift: shift @ 1..=30 } = converter else { return None };
        Some(Self { shift, counted: Counted::new(16, 1, shift) })
    }

    /// A step.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,popcnt")]
    pub(super) fn pairs(&self, products: [__m512i; 2], left: usize, into: &mut [u8]) -> u32 {
        let half = _mm512_set1_epi32(1 << (self.shift - 1));
        let result = |product: __m512i| {
            let sign = _mm512_srai_epi32::<31>(product);
            let rounded = _mm512_add_epi32(_mm512_add_epi32(product, half), sign);
            (_mm512_sra_epi32(rounded, _mm_cvtsi32_si128(self.shift as i32)), self.counted.lanes(product))
        };
        let [even, odd] = products.map(result);
        pairs([even.0, odd.0], into);
        count([even.1, odd.1], left)
    }
}

/// Shifts of products of int8.
///
/// A value of nine bits is shifted left first, so that the high half of the product is the result without rounding.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Shift8 {
    left: u32,
}

impl Shift8 {
    /// A shift of nine to sixteen bits.
    pub(in super::super) fn new(converter: Converter) -> Option<Self> {
        let Converter { offset: 0, scale: 1, shift: shift @ 9..=16 } = converter else { return None };
        Some(Self { left: 16 - shift })
    }

    /// Results, not limited, of factors and values, and which of them are counted.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn results(self, factor: __m512i, values: __m512i) -> (__m512i, __mmask32) {
        let value = _mm512_sll_epi16(values, _mm_cvtsi32_si128(self.left as i32));
        let high = _mm512_mulhi_epi16(factor, value);
        let low = _mm512_mullo_epi16(factor, value);
        // The product's sign, where it is not zero.
        let sign = _mm512_srai_epi16::<15>(_mm512_xor_si512(factor, value));
        let below = _mm512_xor_si512(sign, _mm512_set1_epi16(0x7fff));
        let up = _mm512_cmpgt_epu16_mask(low, below);
        let result = _mm512_mask_sub_epi16(high, up, high, _mm512_set1_epi16(-1));
        (result, _mm512_cmpge_epu16_mask(_mm512_add_epi16(high, _mm512_set1_epi16(129)), _mm512_set1_epi16(258)))
    }

    /// A step. The factors of even and odd elements are in the high halves of lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,popcnt")]
    pub(super) fn bytes(&self, [even, odd]: [__m512i; 2], values: __m512i, left: usize, into: &mut [u8]) -> u32 {
        let factor = _mm512_mask_blend_epi16(0xaaaa_aaaa, _mm512_srli_epi32::<16>(even), odd);
        let (result, off) = self.results(factor, values);
        let counted = if left >= STEP { u32::MAX } else { (1 << left) - 1 };
        let into = &mut into[..STEP];
        // SAFETY: there is room for 32 bytes.
        unsafe { _mm256_storeu_si256(into.as_mut_ptr().cast(), _mm512_cvtsepi16_epi8(result)) };
        (off & counted).count_ones()
    }

    /// Two steps.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,popcnt")]
    pub(super) fn twice(&self, factors: [__m512i; 2], values: [__m512i; 2], left: usize, into: &mut [u8]) -> u32 {
        let [(first, first_off), (second, second_off)] =
            [0, 1].map(|step: usize| self.results(factors[step], values[step]));
        // A quarter has eight of the first step, then the second one's.
        let bytes = _mm512_packs_epi16(first, second);
        let bytes = _mm512_permutexvar_epi64(_mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0), bytes);
        let counted = if left >= DOUBLE { u64::MAX } else { (1 << left) - 1 };
        let into = &mut into[..DOUBLE];
        // SAFETY: there is room for 64 bytes.
        unsafe { _mm512_storeu_si512(into.as_mut_ptr().cast(), bytes) };
        ((u64::from(first_off) | u64::from(second_off) << STEP) & counted).count_ones()
    }
}
