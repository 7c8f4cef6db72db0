// SPDX-License-Identifier: MIT OR Apache-2.0

//! Output converters of integers: from factors and values of 16 bits to results.
//!
//! `d` is the magnitude of the product less the offset and has 31 bits. `s` is the magnitude of the scale and has 16
//! bits. The bits of `d * s` from bit 16 on are `d * s / 2^16`, which high and low halves of 16-bit products give. For
//! a shift below 17, the scale and then `d` are shifted left first; `d` is shifted after it has been limited to the
//! value that gives the largest result.

use std::arch::x86_64::*;

use super::super::super::operation::Converter;
use super::super::rows::STEP;

/// The magnitude that `d` is less than or equal to.
const LARGEST: i64 = 1 << 31;

/// Which results the hardware counts as saturated: those of which more than one is cut off without rounding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    add: i32,
    from: i32,
}

impl Counted {
    /// For results of `bits` bits of `d * scale / 2^shift`.
    pub(super) fn new(bits: u32, scale: i64, shift: u32) -> Self {
        let limit = i128::from((1i64 << (bits - 1)) + 1) << shift;
        let magnitude = i128::from(scale.unsigned_abs());
        let clip = |bound: i128| bound.clamp(1, LARGEST.into()) as i64;
        // The first positive result, and the first negative one, which is rounded down first.
        let [up, down] = match magnitude {
            0 => [LARGEST; 2],
            _ => [clip((limit + magnitude - 1) / magnitude), clip(limit / magnitude + 1)],
        };
        let below = if scale < 0 { up } else { down };
        Self { add: (below - 1) as i32, from: (up + down - 1) as u32 as i32 }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn lanes(self, number: __m512i) -> __mmask16 {
        let above = _mm512_add_epi32(number, _mm512_set1_epi32(self.add));
        _mm512_cmpge_epu32_mask(above, _mm512_set1_epi32(self.from))
    }
}

/// How many of the first `left` lanes are set, of even elements' lanes and odd ones'.
#[inline]
#[target_feature(enable = "popcnt")]
pub(super) fn count([even, odd]: [__mmask16; 2], left: usize) -> u32 {
    let first = |lanes: usize| if lanes < 16 { (1 << lanes) - 1 } else { u32::from(u16::MAX) };
    let lanes = (u32::from(even) & first(left.div_ceil(2))) | (u32::from(odd) & first(left / 2)) << 16;
    lanes.count_ones()
}

/// Factors times values: products of even elements and of odd ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn products(factors: __m512i, values: __m512i) -> [__m512i; 2] {
    let low = _mm512_set1_epi32(0xffff);
    let [even, odd] = [_mm512_and_si512(factors, low), _mm512_andnot_si512(low, factors)];
    [_mm512_madd_epi16(even, values), _mm512_madd_epi16(odd, values)]
}

/// As [`products`], of factors in the high halves of lanes for even and for odd elements.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn products_of([even, odd]: [__m512i; 2], values: __m512i) -> [__m512i; 2] {
    let even = _mm512_srli_epi32::<16>(even);
    let odd = _mm512_andnot_si512(_mm512_set1_epi32(0xffff), odd);
    [_mm512_madd_epi16(even, values), _mm512_madd_epi16(odd, values)]
}

/// Results in lanes for even and odd elements, as bytes in their order, limited.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn bytes([even, odd]: [__m512i; 2], into: &mut [u8]) {
    let words = _mm512_packs_epi32(even, odd);
    let bytes = _mm512_packs_epi16(words, words);
    // Of sixteen bytes the first four are of even elements, the next four of odd ones.
    let order = [0x0703_0602_0501_0400i64, 0x1713_1612_1511_1410, 0x2723_2622_2521_2420, 0x3733_3632_3531_3430];
    let order = _mm512_set_epi64(0, 0, 0, 0, order[3], order[2], order[1], order[0]);
    let bytes = _mm512_permutexvar_epi8(order, bytes);
    let into = &mut into[..STEP];
    // SAFETY: there is room for 32 bytes.
    unsafe { _mm256_storeu_si256(into.as_mut_ptr().cast(), _mm512_castsi512_si256(bytes)) };
}

/// As [`bytes`], in two bytes each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn pairs([even, odd]: [__m512i; 2], into: &mut [u8]) {
    let words = _mm512_packs_epi32(even, odd);
    let order = _mm_set_epi8(15, 14, 7, 6, 13, 12, 5, 4, 11, 10, 3, 2, 9, 8, 1, 0);
    let words = _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(order));
    let into = &mut into[..2 * STEP];
    // SAFETY: there is room for 64 bytes.
    unsafe { _mm512_storeu_si512(into.as_mut_ptr().cast(), words) };
}

/// The high halves of products of numbers of sixteen bits without signs.
///
/// Written as an instruction, because the compiler splits the intrinsic into narrower vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn high_halves(one: __m512i, other: __m512i) -> __m512i {
    let product;
    // SAFETY: arithmetic alone; the processor has the instruction.
    unsafe {
        std::arch::asm!(
            "vpmulhuw {product}, {one}, {other}",
            product = lateout(zmm_reg) product,
            one = in(zmm_reg) one,
            other = in(zmm_reg) other,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    product
}

/// Any offset, scale and shift.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Scaled {
    offset: i32,
    /// The magnitude of the scale, shifted left, in both halves.
    scale: i32,
    negative: __mmask16,
    /// `d` is limited to this and then shifted left.
    limit: i32,
    left: u32,
    /// Bits that are shifted out after the first sixteen, and half of the last place that stays.
    shift: u32,
    half: i32,
    counted: Counted,
}

impl Scaled {
    /// For results of `bits` bits; `None` if the offset has more than 31.
    pub(in super::super) fn new(converter: Converter, bits: u32) -> Option<Self> {
        let Converter { offset, scale, shift } = converter;
        let magnitude = u32::from(scale.unsigned_abs());
        if i64::from(offset).abs() >= LARGEST / 2 {
            return None;
        }
        let missing = 17u32.saturating_sub(shift);
        let first = if magnitude == 0 { missing } else { missing.min(magnitude.leading_zeros() - 16) };
        let left = missing - first;
        let limit = if left == 0 || magnitude == 0 {
            LARGEST
        } else {
            (((2i64 << (bits - 1)) << shift) / i64::from(magnitude) + 1).min(LARGEST)
        };
        let after = shift + missing - 16;
        Some(Self {
            offset,
            scale: ((magnitude << first) * 0x1_0001) as i32,
            negative: if scale < 0 { u16::MAX } else { 0 },
            limit: limit as u32 as i32,
            left,
            shift: after,
            half: if after < 32 { (1u32 << (after - 1)) as i32 } else { 0 },
            counted: Counted::new(bits, scale.into(), shift),
        })
    }

    /// Whether the limit is of use.
    pub(in super::super) const fn is_limited(&self) -> bool {
        self.left != 0
    }

    /// How many of two steps' first `left` products have results that the hardware counts as saturated.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,popcnt")]
    pub(super) fn counted(&self, [one, other]: [[__m512i; 2]; 2], left: usize) -> u32 {
        let offset = _mm512_set1_epi32(self.offset);
        let lanes = |product: __m512i| self.counted.lanes(_mm512_sub_epi32(product, offset));
        let (one, other) = (one.map(lanes), other.map(lanes));
        if left >= DOUBLE {
            // For lanes in any order.
            let all = _mm512_kunpackw(one[0].into(), one[1].into());
            let others = _mm512_kunpackw(other[0].into(), other[1].into());
            return all.count_ones() + others.count_ones();
        }
        count(one, left.min(STEP)) + count(other, left.saturating_sub(STEP))
    }

    /// A product's result, not limited, and lanes that the hardware counts as saturated.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    fn result<const LIMIT: bool>(&self, product: __m512i) -> (__m512i, __mmask16) {
        let number = _mm512_sub_epi32(product, _mm512_set1_epi32(self.offset));
        let negative = _mm512_movepi32_mask(number) ^ self.negative;
        let mut magnitude = _mm512_abs_epi32(number);
        if LIMIT {
            magnitude = _mm512_min_epu32(magnitude, _mm512_set1_epi32(self.limit));
            magnitude = _mm512_sll_epi32(magnitude, _mm_cvtsi32_si128(self.left as i32));
        }
        let scale = _mm512_set1_epi32(self.scale);
        let high = high_halves(magnitude, scale);
        let low = _mm512_mullo_epi16(magnitude, scale);
        // The whole product of the upper half, and the carry of the lower one.
        let scaled = _mm512_add_epi32(high, _mm512_srli_epi32::<16>(low));
        let rounded = _mm512_add_epi32(scaled, _mm512_set1_epi32(self.half));
        let shifted = _mm512_srl_epi32(rounded, _mm_cvtsi32_si128(self.shift as i32));
        let signed = _mm512_mask_sub_epi32(shifted, negative, _mm512_setzero_si512(), shifted);
        (signed, self.counted.lanes(number))
    }

    /// Both halves of a step.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    fn both<const LIMIT: bool>(&self, products: [__m512i; 2]) -> ([__m512i; 2], [__mmask16; 2]) {
        let [even, odd] = products.map(|product| self.result::<LIMIT>(product));
        ([even.0, odd.0], [even.1, odd.1])
    }

    /// A step of int8; how many of the first `left` are counted.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,popcnt")]
    pub(super) fn bytes<const LIMIT: bool>(&self, products: [__m512i; 2], left: usize, into: &mut [u8]) -> u32 {
        let (results, lanes) = self.both::<LIMIT>(products);
        bytes(results, into);
        count(lanes, left)
    }

    /// A step of int16.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,popcnt")]
    pub(super) fn pairs<const LIMIT: bool>(&self, products: [__m512i; 2], left: usize, into: &mut [u8]) -> u32 {
        let (results, lanes) = self.both::<LIMIT>(products);
        pairs(results, into);
        count(lanes, left)
    }
}

#[cfg(test)]
mod tests;

/// Elements of two steps.
pub(super) const DOUBLE: usize = 2 * STEP;
