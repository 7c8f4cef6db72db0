// SPDX-License-Identifier: MIT OR Apache-2.0

//! [`super::fused`] written for AVX-512.
//!
//! A product of more than 32 bits is kept as two vectors of 64-bit products per 16 elements, one for even and one for
//! odd elements. Where the plan has shown that 32 bits of each remain after the shift, they are interleaved again by
//! shifting the even ones right and the odd ones left. To round half away from zero, negative products are lowered by
//! one; this is left out where ReLU follows.

#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::fused::{Fused, MulWidth, Round};
use super::lanes::{Lanes, Slot, CHUNK, SLOTS};

/// Elements of a step: all lanes of the widest atom, after which operands of kernels repeat.
const STEP: usize = 32;

static ZEROS: Lanes = Lanes([0; CHUNK]);

/// Operands in the form of the loop. `each` tells whether they differ from element to element.
#[derive(Clone, Copy)]
struct LaneOperands<'o> {
    values: &'o Lanes,
    each: bool,
}

impl LaneOperands<'_> {
    /// Loads the operands of the odd elements, in the lanes in which [`Self::load`] has those of the even elements.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load_odd(self, at: usize) -> __m512i {
        if self.each {
            return _mm512_srli_epi64(self.load(at), 32);
        }
        let values = &self.values.0[at % STEP + 1..][..16];
        // SAFETY: 16 values. The last one is the next step's, and in a place of even elements.
        unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
    }

    /// Loads the operands of the 16 elements from `at` on.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(self, at: usize) -> __m512i {
        let at = if self.each { at } else { at % STEP };
        let values = &self.values.0[at..at + 16];
        // SAFETY: 16 values.
        unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
    }
}

/// The widths of a multiplication and of the converter, as parameters of the loop.
const NONE: u8 = 0;
const NARROW: u8 = 1;
const WIDE: u8 = 2;

/// Whether [`run`] supports the operation.
pub(super) fn suits(fused: &Fused) -> bool {
    let narrow = |round: Round| round.shift <= 32;
    let multiplier = match (fused.mul, fused.mul_width) {
        (None, _) | (_, MulWidth::Narrow) => true,
        (_, MulWidth::Product) => fused.mul_fits && narrow(fused.mul_round),
        (_, MulWidth::Sum) => false,
    };
    multiplier && !fused.saturating && (!fused.wide || fused.fits && narrow(fused.round))
}

/// Converts sums to int8 in `into`, which has the same length.
///
/// # Safety
/// The machine has AVX-512 (F, BW, DQ, VL); the operation [`suits`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn run<T: Sample>(fused: &Fused, data: &[T], operands: &[Lanes; SLOTS], into: &mut [u8]) {
    let operand = |slot: Option<Slot>| match slot {
        Some(slot) => LaneOperands { values: &operands[slot as usize], each: fused.each[slot as usize] },
        None => LaneOperands { values: &ZEROS, each: false },
    };
    let (first, second, factor) = (operand(fused.adds[0]), operand(fused.adds[1]), operand(fused.mul));
    let loops = Loop { fused, data, first, second, factor };
    let mul = match (fused.mul, fused.mul_width) {
        (None, _) => NONE,
        (_, MulWidth::Narrow) => NARROW,
        (_, _) => WIDE,
    };
    let identity = fused.offset == 0 && fused.scale == 1 && fused.round.shift == 0;
    let convert = match (identity, fused.wide) {
        (true, _) => NONE,
        (_, false) => NARROW,
        (_, true) => WIDE,
    };
    match (mul, convert) {
        (NONE, NONE) => loops.by_second::<NONE, NONE>(into),
        (NONE, NARROW) => loops.by_second::<NONE, NARROW>(into),
        (NONE, _) => loops.by_second::<NONE, WIDE>(into),
        (NARROW, NONE) => loops.by_second::<NARROW, NONE>(into),
        (NARROW, NARROW) => loops.by_second::<NARROW, NARROW>(into),
        (NARROW, _) => loops.by_second::<NARROW, WIDE>(into),
        (_, NONE) => loops.by_second::<WIDE, NONE>(into),
        (_, NARROW) => loops.by_second::<WIDE, NARROW>(into),
        (_, _) => loops.by_second::<WIDE, WIDE>(into),
    }
}

/// Data that the loop can take.
pub(super) trait Sample: Copy {
    /// The values of the mask's bits.
    ///
    /// # Safety
    /// The machine has AVX-512 (F, BW, VL); there is a value for each of the mask's bits.
    unsafe fn load(from: *const Self, mask: u16) -> __m512i;
}

impl Sample for i32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(from: *const Self, mask: u16) -> __m512i {
        // SAFETY: the caller's.
        unsafe { _mm512_maskz_loadu_epi32(mask, from) }
    }
}

impl Sample for u8 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(from: *const Self, mask: u16) -> __m512i {
        // SAFETY: the caller's.
        _mm512_cvtepi8_epi32(unsafe { _mm_maskz_loadu_epi8(mask, from.cast()) })
    }
}

/// The inputs of a loop.
struct Loop<'l, T> {
    fused: &'l Fused,
    data: &'l [T],
    first: LaneOperands<'l>,
    second: LaneOperands<'l>,
    factor: LaneOperands<'l>,
}

impl<T: Sample> Loop<'_, T> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn by_second<const MUL: u8, const CONVERT: u8>(&self, into: &mut [u8]) {
        let Fused { adds, first_floor, second_floor, offset, scale, .. } = *self.fused;
        let relu = first_floor >= 0;
        if adds[1].is_none() {
            return match (relu, relu && scale >= 0 && offset <= 0) {
                (false, _) => self.each::<MUL, CONVERT, false, false, false>(into),
                (true, false) => self.each::<MUL, CONVERT, false, true, false>(into),
                (true, true) => self.each::<MUL, CONVERT, false, true, true>(into),
            };
        }
        match (relu, second_floor >= 0 && scale >= 0 && offset <= 0) {
            (false, false) => self.each::<MUL, CONVERT, true, false, false>(into),
            (false, true) => self.each::<MUL, CONVERT, true, false, true>(into),
            (true, false) => self.each::<MUL, CONVERT, true, true, false>(into),
            (true, true) => self.each::<MUL, CONVERT, true, true, true>(into),
        }
    }

    /// `RELU` follows the multiplier; `POSITIVE` says that the converter's input is not negative.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn each<const MUL: u8, const CONVERT: u8, const SECOND: bool, const RELU: bool, const POSITIVE: bool>(
        &self,
        into: &mut [u8],
    ) {
        let Self { fused, data, first, second, factor } = *self;
        let mul_round = Rounding::new(fused.mul_round);
        let round = Rounding::new(fused.round);
        let first_floor = _mm512_set1_epi32(fused.first_floor);
        let second_floor = _mm512_set1_epi32(fused.second_floor);
        let offset = _mm512_set1_epi32(fused.offset);
        let scale = _mm512_set1_epi32(fused.scale);
        let mut at = 0;
        while at < into.len() {
            let left = into.len() - at;
            let mask = if left < 16 { (1u16 << left) - 1 } else { u16::MAX };
            let samples = &data[at..at + left.min(16)];
            // SAFETY: the mask has a bit for each of the samples.
            let mut value = unsafe { T::load(samples.as_ptr(), mask) };
            value = _mm512_add_epi32(value, first.load(at));
            if MUL == NARROW {
                value = mul_round.narrow(_mm512_mullo_epi32(value, factor.load(at)));
            } else if MUL == WIDE {
                value = mul_round.product::<RELU>(value, factor.load(at), factor.load_odd(at));
            }
            value = _mm512_max_epi32(value, first_floor);
            if SECOND {
                value = _mm512_max_epi32(_mm512_add_epi32(value, second.load(at)), second_floor);
            }
            if CONVERT != NONE {
                value = _mm512_sub_epi32(value, offset);
                value = if CONVERT == WIDE {
                    round.product::<POSITIVE>(value, scale, scale)
                } else {
                    round.narrow(_mm512_mullo_epi32(value, scale))
                };
            }
            let out = &mut into[at..at + left.min(16)];
            // SAFETY: the mask has a bit for each of these bytes.
            unsafe { _mm512_mask_cvtsepi32_storeu_epi8(out.as_mut_ptr().cast(), mask, value) };
            at += 16;
        }
    }
}

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

    /// A rounding right shift of 64-bit products, of which 32 bits remain. `odd` has the factors of odd elements, `factor` those
    /// of even ones. With `POSITIVE`, negative results may be one too large.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn product<const POSITIVE: bool>(self, value: __m512i, factor: __m512i, odd: __m512i) -> __m512i {
        let high = _mm512_castps_si512(_mm512_movehdup_ps(_mm512_castsi512_ps(value)));
        let mut even = _mm512_mul_epi32(value, factor);
        let mut odd = _mm512_mul_epi32(high, odd);
        if !POSITIVE {
            even = _mm512_add_epi64(even, _mm512_srai_epi64(even, 63));
            odd = _mm512_add_epi64(odd, _mm512_srai_epi64(odd, 63));
        }
        even = _mm512_srlv_epi64(_mm512_add_epi64(even, self.half), self.shift);
        odd = _mm512_sllv_epi64(_mm512_add_epi64(odd, self.half), self.left);
        _mm512_mask_blend_epi32(0xaaaa, even, odd)
    }
}
