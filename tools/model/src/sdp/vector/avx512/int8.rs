// SPDX-License-Identifier: MIT OR Apache-2.0

//! The operations of [`super::super::fused`] with a [`Convert`] as converter.
//!
//! Values have 32 bits until the converter, in four vectors per 64 elements.

use std::arch::x86_64::*;

use super::super::fused::{Fused, MulWidth};
use super::super::lanes::{Operands, Slot};
use super::super::operand::SlotOperands;
use super::convert::{Convert, Converter, HIGH, LIMIT, SHIFT, SHORT};
use super::operand::{load_ints, padded, store, widen_step, STEP};
use super::rounding::Rounding;

/// Whether [`run`] supports the operation.
pub(in super::super) fn convert(fused: &Fused) -> Option<Convert> {
    let multiplier = match (fused.mul, fused.mul_width) {
        (None, _) | (_, MulWidth::Narrow) => true,
        (_, MulWidth::Product) => fused.mul_fits && fused.mul_round.shift <= 32,
        (_, MulWidth::Sum) => false,
    };
    multiplier.then(|| Convert::new(fused.offset, fused.scale, fused.round.shift, fused.wide)).flatten()
}

/// Data that a loop can take.
pub(in super::super) trait Sample: Copy + Default {
    /// The values of a step, 16 per vector.
    ///
    /// # Safety
    /// The machine has AVX-512 (F, BW, VL).
    unsafe fn load(data: &[Self; STEP]) -> [__m512i; 4];
}

impl Sample for i32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(data: &[Self; STEP]) -> [__m512i; 4] {
        load_ints(data)
    }
}

impl Sample for u8 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(data: &[Self; STEP]) -> [__m512i; 4] {
        widen_step(data)
    }
}

/// Converts data to int8 in `into`, which has the same length.
///
/// # Safety
/// The machine has AVX-512 (F, BW, DQ, VL); `with` is the operation's [`convert`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(in super::super) unsafe fn run<T: Sample>(
    fused: &Fused,
    with: Convert,
    data: &[T],
    operands: &Operands,
    into: &mut [u8],
) {
    let operand = |slot: Option<Slot>| SlotOperands::new(operands, fused.each, fused.direct, slot);
    let (first, second) = (operand(fused.adds[0]), operand(fused.adds[1]));
    let (factor, second_factor) = (operand(fused.mul), operand(fused.second_mul));
    let steps = Steps { fused, with, first, second, factor, second_factor };
    let floor = if matches!(second, SlotOperands::None) { fused.first_floor } else { fused.second_floor };
    match (with, with.is_positive(floor)) {
        (Convert::Limit, _) => steps.by_multiplier::<T, LIMIT, false>(data, into),
        (Convert::Short { .. }, false) => steps.by_multiplier::<T, SHORT, false>(data, into),
        (Convert::Short { .. }, true) => steps.by_multiplier::<T, SHORT, true>(data, into),
        (Convert::Shift { .. }, false) => steps.by_multiplier::<T, SHIFT, false>(data, into),
        (Convert::Shift { .. }, true) => steps.by_multiplier::<T, SHIFT, true>(data, into),
        (Convert::High { .. }, false) => steps.by_multiplier::<T, HIGH, false>(data, into),
        (Convert::High { .. }, true) => steps.by_multiplier::<T, HIGH, true>(data, into),
    }
}

/// How values are multiplied, as a parameter of loops.
const NONE: u8 = 0;
const NARROW: u8 = 1;
const WIDE: u8 = 2;
/// As [`WIDE`], where negative results do not matter because ReLU follows.
const UP: u8 = 3;

/// The values that are the same for all steps.
struct Steps<'s> {
    fused: &'s Fused,
    with: Convert,
    first: SlotOperands<'s>,
    second: SlotOperands<'s>,
    factor: SlotOperands<'s>,
    second_factor: SlotOperands<'s>,
}

impl Steps<'_> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn by_multiplier<T: Sample, const CONVERT: u8, const POSITIVE: bool>(&self, data: &[T], into: &mut [u8]) {
        match (self.factor, self.fused.mul_width) {
            (SlotOperands::None, _) => self.wide::<T, CONVERT, POSITIVE, NONE>(data, into),
            (_, MulWidth::Narrow) => self.wide::<T, CONVERT, POSITIVE, NARROW>(data, into),
            _ if self.fused.first_floor >= 0 => self.wide::<T, CONVERT, POSITIVE, UP>(data, into),
            _ => self.wide::<T, CONVERT, POSITIVE, WIDE>(data, into),
        }
    }

    /// In lanes of 32 bits.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn wide<T: Sample, const CONVERT: u8, const POSITIVE: bool, const MUL: u8>(&self, data: &[T], into: &mut [u8]) {
        let Self { fused, with, first, second, factor, second_factor } = *self;
        let converter = Converter::<CONVERT, POSITIVE>::new(with);
        let (first_floor, second_floor) = (_mm512_set1_epi32(fused.first_floor), _mm512_set1_epi32(fused.second_floor));
        let (round, second_round) = (Rounding::new(fused.mul_round), Rounding::new(fused.second_round));
        let has_second = !matches!(second, SlotOperands::None);
        // After packing twice, four values of each of the four vectors follow one another.
        let order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
        for (number, (data, into)) in data.chunks(STEP).zip(into.chunks_mut(STEP)).enumerate() {
            let at = number * STEP;
            // SAFETY: the machine has the instructions.
            let mut values = unsafe {
                match data.first_chunk() {
                    Some(data) => T::load(data),
                    None => T::load(&padded(data)),
                }
            };
            values = add(values, first.load_step(at), fused.saturating);
            if MUL != NONE {
                let factors = factor.load_step(at);
                let multiply = |value, factor| match MUL {
                    NARROW => round.narrow(_mm512_mullo_epi32(value, factor)),
                    UP => round.product_up(value, factor),
                    _ => round.product(value, factor),
                };
                values = pairwise(values, factors, multiply);
            }
            values = floored(values, first_floor);
            if has_second {
                values = add(values, second.load_step(at), fused.saturating);
                if fused.second_mul.is_some() {
                    let multiply = |value, factor| second_round.narrow(_mm512_mullo_epi32(value, factor));
                    values = pairwise(values, second_factor.load_step(at), multiply);
                }
                values = floored(values, second_floor);
            }
            let low = converter.pair(values[0], values[1]);
            let high = converter.pair(values[2], values[3]);
            store(into, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high)));
        }
    }
}

/// Applies `f` to each vector and its operands.
#[inline]
#[target_feature(enable = "avx512f")]
fn pairwise(values: [__m512i; 4], operands: [__m512i; 4], f: impl Fn(__m512i, __m512i) -> __m512i) -> [__m512i; 4] {
    let ([a, b, c, d], [e, g, h, i]) = (values, operands);
    [f(a, e), f(b, g), f(c, h), f(d, i)]
}

/// The values, and `floor` in place of smaller ones.
#[inline]
#[target_feature(enable = "avx512f")]
fn floored(values: [__m512i; 4], floor: __m512i) -> [__m512i; 4] {
    pairwise(values, [floor; 4], |value, floor| _mm512_max_epi32(value, floor))
}

/// The sums, limited to 32 bits if they are `saturating`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn add(values: [__m512i; 4], operands: [__m512i; 4], saturating: bool) -> [__m512i; 4] {
    if !saturating {
        return pairwise(values, operands, |value, operand| _mm512_add_epi32(value, operand));
    }
    pairwise(values, operands, |value, operand| {
        let sum = _mm512_add_epi32(value, operand);
        // Where both have one sign and the sum has the other: !(value ^ operand) & (value ^ sum).
        let overflow = _mm512_movepi32_mask(_mm512_ternarylogic_epi32::<0x42>(value, operand, sum));
        let limit = _mm512_xor_si512(_mm512_srai_epi32::<31>(value), _mm512_set1_epi32(i32::MAX));
        _mm512_mask_mov_epi32(sum, overflow, limit)
    })
}
