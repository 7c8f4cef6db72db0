// SPDX-License-Identifier: MIT OR Apache-2.0

//! [`super::fused`] written for AVX2. Products of more than 32 bits are two vectors of 64-bit products per 8 elements, which are
//! interleaved again after the shift, as with AVX-512.

#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::avx512::operand::{SlotOperands, PERIOD};
use super::fused::{Fused, MulWidth, Round};
use super::lanes::Operands;

/// The widths of a multiplication and of the converter, as parameters of the loop.
const NONE: u8 = 0;
const NARROW: u8 = 1;
const WIDE: u8 = 2;

/// Whether [`run`] supports the operation, on atoms of `lanes` elements.
pub(super) fn suits(fused: &Fused, lanes: usize) -> bool {
    let interleaves = |round: Round| (1..=32).contains(&round.shift);
    let multiplier = match (fused.mul, fused.mul_width) {
        (None, _) | (_, MulWidth::Narrow) => true,
        (_, MulWidth::Product) => fused.mul_fits && interleaves(fused.mul_round),
        (_, MulWidth::Sum) => false,
    };
    let atoms = lanes.is_multiple_of(8) && PERIOD.is_multiple_of(lanes);
    atoms && multiplier && !fused.saturating && (!fused.wide || fused.fits && interleaves(fused.round))
}

/// Converts whole atoms to int8 in `into`, which has the same length.
///
/// # Safety
/// The machine has AVX2; the operation [`suits`].
#[target_feature(enable = "avx2")]
pub(super) fn run<T: Sample>(fused: &Fused, data: &[T], operands: &Operands, into: &mut [u8]) {
    let operand = |slot| SlotOperands::new(operands, fused.each, fused.direct, slot);
    let (first, second, factor) = (operand(fused.adds[0]), operand(fused.adds[1]), operand(fused.mul));
    let loops = Loop { fused, data, first, second, factor };
    let mul = match (fused.mul, fused.mul_width) {
        (None, _) => NONE,
        (_, MulWidth::Narrow) => NARROW,
        (_, _) => WIDE,
    };
    let identity = fused.offset == 0 && fused.scale == 1 && fused.round.shift == 0;
    match (mul, identity, fused.wide) {
        (NONE, true, _) => loops.by_second::<NONE, NONE>(into),
        (NONE, _, false) => loops.by_second::<NONE, NARROW>(into),
        (NONE, _, true) => loops.by_second::<NONE, WIDE>(into),
        (NARROW, true, _) => loops.by_second::<NARROW, NONE>(into),
        (NARROW, _, false) => loops.by_second::<NARROW, NARROW>(into),
        (NARROW, _, true) => loops.by_second::<NARROW, WIDE>(into),
        (_, true, _) => loops.by_second::<WIDE, NONE>(into),
        (_, _, false) => loops.by_second::<WIDE, NARROW>(into),
        (_, _, true) => loops.by_second::<WIDE, WIDE>(into),
    }
}

/// Data that the loop can take.
pub(super) trait Sample: Copy {
    /// Eight values.
    ///
    /// # Safety
    /// The machine has AVX2.
    unsafe fn load(data: &[Self; 8]) -> __m256i;
}

impl Sample for i32 {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(data: &[Self; 8]) -> __m256i {
        // SAFETY: eight values.
        unsafe { _mm256_loadu_si256(data.as_ptr().cast()) }
    }
}

impl Sample for u8 {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(data: &[Self; 8]) -> __m256i {
        // SAFETY: eight values.
        _mm256_cvtepi8_epi32(unsafe { _mm_loadl_epi64(data.as_ptr().cast()) })
    }
}

/// The inputs of a loop.
struct Loop<'l, T> {
    fused: &'l Fused,
    data: &'l [T],
    first: SlotOperands<'l>,
    second: SlotOperands<'l>,
    factor: SlotOperands<'l>,
}

impl<T: Sample> Loop<'_, T> {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn by_second<const MUL: u8, const CONVERT: u8>(&self, into: &mut [u8]) {
        if self.fused.adds[1].is_none() {
            self.each::<MUL, CONVERT, false>(into);
        } else {
            self.each::<MUL, CONVERT, true>(into);
        }
    }

    #[target_feature(enable = "avx2")]
    fn each<const MUL: u8, const CONVERT: u8, const SECOND: bool>(&self, into: &mut [u8]) {
        let registers = Registers::new(self.fused);
        let data = self.data.as_chunks().0;
        for (number, (data, into)) in data.iter().zip(into.as_chunks_mut::<8>().0).enumerate() {
            let value = self.value::<MUL, CONVERT, SECOND>(&registers, data, number);
            let pairs = _mm_packs_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
            // SAFETY: eight bytes.
            unsafe { _mm_storel_epi64(into.as_mut_ptr().cast(), _mm_packs_epi16(pairs, pairs)) };
        }
    }

    /// The results of the eight elements with this number, before they are limited to int8.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn value<const MUL: u8, const CONVERT: u8, const SECOND: bool>(
        &self,
        registers: &Registers,
        data: &[T; 8],
        number: usize,
    ) -> __m256i {
        // SAFETY: the machine has AVX2, as this function's.
        let mut value = _mm256_add_epi32(unsafe { T::load(data) }, self.first.load_8(number));
        if MUL == NARROW {
            value = registers.mul_round.narrow(_mm256_mullo_epi32(value, self.factor.load_8(number)));
        } else if MUL == WIDE {
            value = registers.mul_round.product(value, self.factor.load_8(number));
        }
        value = _mm256_max_epi32(value, registers.first_floor);
        if SECOND {
            value = _mm256_max_epi32(_mm256_add_epi32(value, self.second.load_8(number)), registers.second_floor);
        }
        if CONVERT != NONE {
            value = _mm256_sub_epi32(value, registers.offset);
            value = if CONVERT == WIDE {
                registers.round.product(value, registers.scale)
            } else {
                registers.round.narrow(_mm256_mullo_epi32(value, registers.scale))
            };
        }
        value
    }
}

/// What is the same for all elements.
struct Registers {
    mul_round: Rounding,
    round: Rounding,
    first_floor: __m256i,
    second_floor: __m256i,
    offset: __m256i,
    scale: __m256i,
}

impl Registers {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(fused: &Fused) -> Self {
        Self {
            mul_round: Rounding::new(fused.mul_round),
            round: Rounding::new(fused.round),
            first_floor: _mm256_set1_epi32(fused.first_floor),
            second_floor: _mm256_set1_epi32(fused.second_floor),
            offset: _mm256_set1_epi32(fused.offset),
            scale: _mm256_set1_epi32(fused.scale),
        }
    }
}

/// A rounding right shift.
struct Rounding {
    half: __m256i,
    half_narrow: __m256i,
    sign: __m256i,
    narrow: __m256i,
    shift: __m256i,
    left: __m256i,
}

impl Rounding {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(round: Round) -> Self {
        Self {
            half: _mm256_set1_epi64x(round.half),
            half_narrow: _mm256_set1_epi32(round.half as i32),
            sign: _mm256_set1_epi32(round.sign as i32),
            narrow: _mm256_set1_epi32(round.shift as i32),
            shift: _mm256_set1_epi64x(round.shift.into()),
            left: _mm256_set1_epi64x(32 - i64::from(round.shift.min(32))),
        }
    }

    /// Shifts numbers that stay within 32 bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn narrow(&self, value: __m256i) -> __m256i {
        let below = _mm256_and_si256(_mm256_srai_epi32(value, 31), self.sign);
        _mm256_srav_epi32(_mm256_add_epi32(_mm256_add_epi32(value, self.half_narrow), below), self.narrow)
    }

    /// A rounding right shift, by at least 1, of 64-bit products of which 32 bits remain.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn product(&self, value: __m256i, factor: __m256i) -> __m256i {
        let even = _mm256_mul_epi32(value, factor);
        let odd = _mm256_mul_epi32(_mm256_srli_epi64(value, 32), _mm256_srli_epi64(factor, 32));
        // Negative products are lowered by one, to round half away from zero.
        let even = _mm256_add_epi64(_mm256_sub_epi64(even, _mm256_srli_epi64(even, 63)), self.half);
        let odd = _mm256_add_epi64(_mm256_sub_epi64(odd, _mm256_srli_epi64(odd, 63)), self.half);
        _mm256_blend_epi32(_mm256_srlv_epi64(even, self.shift), _mm256_sllv_epi64(odd, self.left), 0xaa)
    }
}
