// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rounding right shifts of SDP's products.
//!
//! A product of more than 32 bits is kept as two vectors of 64-bit products per 16 elements, one for even and one for
//! odd elements. Where the plan has shown that 32 bits of each remain after the shift, they are interleaved again by
//! shifting the even ones right and the odd ones left. To round half away from zero, negative products are lowered by
//! one.

use std::arch::x86_64::*;

use super::super::eight::Round;

/// A rounding right shift.
#[derive(Clone, Copy)]
pub(super) struct Rounding {
    half: __m512i,
    half_narrow: __m512i,
    sign: __m512i,
    narrow: __m512i,
    shift: __m512i,
    left: __m512i,
}

impl Rounding {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(round: Round) -> Self {
        Self {
            half: _mm512_set1_epi64(round.half),
            half_narrow: _mm512_set1_epi32(round.half as i32),
            sign: _mm512_set1_epi32(round.sign as i32),
            narrow: _mm512_set1_epi32(round.shift as i32),
            shift: _mm512_set1_epi64(round.shift.into()),
            left: _mm512_set1_epi64(32 - i64::from(round.shift.min(32))),
        }
    }

    /// Shifts numbers that stay within 32 bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn narrow(self, value: __m512i) -> __m512i {
        let below = _mm512_and_si512(_mm512_srai_epi32(value, 31), self.sign);
        _mm512_srav_epi32(_mm512_add_epi32(_mm512_add_epi32(value, self.half_narrow), below), self.narrow)
    }

    /// A rounding right shift of 64-bit products, of which 32 bits remain.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn product(self, value: __m512i, factor: __m512i) -> __m512i {
        let [even, odd] = products(value, factor);
        let lowered = |product| _mm512_add_epi64(product, _mm512_srai_epi64(product, 63));
        self.shifted(lowered(even), lowered(odd))
    }

    /// The same where negative results may be too high by one.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn product_up(self, value: __m512i, factor: __m512i) -> __m512i {
        let [even, odd] = products(value, factor);
        self.shifted(even, odd)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn shifted(self, even: __m512i, odd: __m512i) -> __m512i {
        let even = _mm512_srlv_epi64(_mm512_add_epi64(even, self.half), self.shift);
        let odd = _mm512_sllv_epi64(_mm512_add_epi64(odd, self.half), self.left);
        _mm512_mask_blend_epi32(0xaaaa, even, odd)
    }
}

/// The products of the even and of the odd elements.
#[inline]
#[target_feature(enable = "avx512f")]
fn products(values: __m512i, factors: __m512i) -> [__m512i; 2] {
    let odd = |all| _mm512_castps_si512(_mm512_movehdup_ps(_mm512_castsi512_ps(all)));
    [_mm512_mul_epi32(values, factors), _mm512_mul_epi32(odd(values), odd(factors))]
}
