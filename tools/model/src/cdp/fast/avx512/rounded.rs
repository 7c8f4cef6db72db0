// SPDX-License-Identifier: MIT OR Apache-2.0

//! The output converter of int8 in fp32, for 64 elements.
//!
//! The product of a factor and a value has 24 bits, which fp32 holds exactly. Subtracting the offset and multiplying by
//! `scale / 2^shift` gives a relative error below 2^-23. If every result is farther than that error from the middle
//! between two integers, its rounding is the hardware's. Otherwise [`Scaled`] computes the results.

// Results are compiled for an instruction set only where they are inlined.
#![allow(clippy::inline_always)]

use std::arch::x86_64::*;

use super::super::super::operation::Converter;
use super::super::rows::STEP;
use super::output::DOUBLE;
use super::output::{products, Scaled};

/// Results from here on may be limited.
const END: f32 = 127.4;
/// The largest distance from an integer at which a value is certainly rounded to it: half less 2^-23 of [`END`], and
/// less than that.
const SURE: f32 = 0.499_98;
/// Beyond int8, and what larger results become before they are converted.
const LIMIT: f32 = 1000.0;

/// Any scale and shift.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Rounded {
    scaled: Scaled,
    offset: i32,
    factor: f32,
}

impl Rounded {
    /// `None` where the offset has more than 31 bits.
    pub(in super::super) fn new(converter: Converter) -> Option<Self> {
        let Converter { offset, scale, shift } = converter;
        let factor = (f64::from(scale) / 2f64.powi(shift as i32)) as f32;
        Some(Self { scaled: Scaled::new(converter, 8)?, offset, factor })
    }

    /// What makes single steps' results.
    pub(super) const fn scaled(&self) -> &Scaled {
        &self.scaled
    }

    /// 64 results; how many of the first `left` the hardware counts as saturated.
    ///
    /// # Safety
    /// The processor has what [`Isa::Avx512`](crate::conv::Isa) stands for.
    #[inline(always)]
    pub(super) unsafe fn bytes(
        &self,
        factors: [__m512i; 2],
        values: [__m512i; 2],
        left: usize,
        into: &mut [u8],
    ) -> u32 {
        // SAFETY: the caller has the instructions.
        unsafe {
            let [one, other] = [products(factors[0], values[0]), products(factors[1], values[1])];
            let mut numbers = [self.number(one[0]), self.number(one[1]), self.number(other[0]), self.number(other[1])];
            if is_beyond(farthest(rests(numbers)), SURE) {
                return self.exactly(factors, values, left, into);
            }
            let mut counted = 0;
            if is_beyond(farthest(numbers), END) {
                counted = self.scaled.counted([one, other], left);
                numbers = limited(numbers);
            }
            let into = &mut into[..DOUBLE];
            // There is room for 64 bytes.
            _mm512_storeu_si512(into.as_mut_ptr().cast(), integers(numbers));
            counted
        }
    }

    /// A product's result before it is rounded.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn number(&self, product: __m512i) -> __m512 {
        let number = _mm512_cvtepi32_ps(_mm512_sub_epi32(product, _mm512_set1_epi32(self.offset)));
        _mm512_mul_ps(number, _mm512_set1_ps(self.factor))
    }

    #[cold]
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,popcnt")]
    fn exactly(&self, factors: [__m512i; 2], values: [__m512i; 2], left: usize, into: &mut [u8]) -> u32 {
        let mut one = |step: usize, left: usize| {
            let products = products(factors[step], values[step]);
            let into = &mut into[step * STEP..][..STEP];
            if self.scaled.is_limited() {
                self.scaled.bytes::<true>(products, left, into)
            } else {
                self.scaled.bytes::<false>(products, left, into)
            }
        };
        one(0, left.min(STEP)) + one(1, left.saturating_sub(STEP))
    }
}

/// Of each lane the magnitude that is largest.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn farthest([one, two, three, four]: [__m512; 4]) -> __m512 {
    const MAGNITUDE: i32 = 0b1011;
    let first = _mm512_range_ps::<MAGNITUDE>(one, two);
    _mm512_range_ps::<MAGNITUDE>(first, _mm512_range_ps::<MAGNITUDE>(three, four))
}

/// Whether a lane is as large.
#[inline]
#[target_feature(enable = "avx512f")]
fn is_beyond(numbers: __m512, bound: f32) -> bool {
    _mm512_cmp_ps_mask::<_CMP_GE_OQ>(numbers, _mm512_set1_ps(bound)) != 0
}

/// What each number is more than the integer next to it.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn rests(numbers: [__m512; 4]) -> [__m512; 4] {
    numbers.map(|number| _mm512_reduce_ps::<0>(number))
}

/// Numbers that conversions have bits for.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn limited(numbers: [__m512; 4]) -> [__m512; 4] {
    // The smaller magnitude, with the first one's sign.
    const SMALLER: i32 = 0b0010;
    numbers.map(|number| _mm512_range_ps::<SMALLER>(number, _mm512_set1_ps(LIMIT)))
}

/// Numbers of even and odd elements of two steps as bytes in the elements' order, limited.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn integers(numbers: [__m512; 4]) -> __m512i {
    let [even, odd, other_even, other_odd] = numbers.map(|number| _mm512_cvtps_epi32(number));
    let words = [_mm512_packs_epi32(even, odd), _mm512_packs_epi32(other_even, other_odd)];
    // A quarter has four even elements of the first step, its odd ones, and the second step's.
    const fn quarter(first: i64) -> i64 {
        first * 0x0101_0101_0101_0101 + 0x0703_0602_0501_0400
    }
    let order = _mm512_set_epi64(
        quarter(56),
        quarter(40),
        quarter(24),
        quarter(8),
        quarter(48),
        quarter(32),
        quarter(16),
        quarter(0),
    );
    _mm512_permutexvar_epi8(order, _mm512_packs_epi16(words[0], words[1]))
}
