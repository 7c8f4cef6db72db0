// SPDX-License-Identifier: MIT OR Apache-2.0

//! The operations of [`super::super::fused`] with a [`Convert`] as converter.
//!
//! int8 data to which operands are only added stays in lanes of 16 bits, two vectors per 64 elements, and is limited to
//! 16 bits (see [`super::convert`]). Other operations use 32 bits until the converter, in four vectors.

use std::arch::x86_64::*;

use super::super::fused::{Fused, MulWidth};
use super::super::lanes::{Operands, Slot};
use super::super::operand::SlotOperands;
use super::convert::{Convert, Converter, HIGH, LIMIT, SHIFT, SHORT};
use super::operand::{load_ints, padded, store, widen, widen_step, STEP};
use super::rounding::Rounding;
use super::scaled::Scaled;

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

    /// The data if they are bytes.
    fn bytes(data: &[Self]) -> Option<&[u8]>;
}

impl Sample for i32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(data: &[Self; STEP]) -> [__m512i; 4] {
        load_ints(data)
    }

    fn bytes(_: &[Self]) -> Option<&[u8]> {
        None
    }
}

impl Sample for u8 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(data: &[Self; STEP]) -> [__m512i; 4] {
        widen_step(data)
    }

    fn bytes(data: &[Self]) -> Option<&[u8]> {
        Some(data)
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
        (Convert::Limit, _) => steps.by_width::<T, LIMIT, false>(data, into),
        (Convert::Short { .. }, false) => steps.by_width::<T, SHORT, false>(data, into),
        (Convert::Short { .. }, true) => steps.by_width::<T, SHORT, true>(data, into),
        (Convert::Shift { .. }, false) => steps.by_multiplier::<T, SHIFT, false>(data, into),
        (Convert::Shift { .. }, true) => steps.by_multiplier::<T, SHIFT, true>(data, into),
        (Convert::High { .. }, false) => steps.by_multiplier::<T, HIGH, false>(data, into),
        (Convert::High { .. }, true) => steps.by_multiplier::<T, HIGH, true>(data, into),
    }
}

/// How operands are added in lanes of 16 bits, as a parameter of loops: not at all or the same for each atom; prepared; as bytes.
const REPEATED: u8 = 0;
const EACH: u8 = 1;
const BYTES: u8 = 2;

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
    fn by_width<T: Sample, const CONVERT: u8, const POSITIVE: bool>(&self, data: &[T], into: &mut [u8]) {
        let Self { fused, first, second, .. } = *self;
        let is_alone = matches!(second, SlotOperands::None);
        if let (MulWidth::Narrow, Some(data)) = (fused.mul_width, T::bytes(data)) {
            if let Some(scaled) = Scaled::new(fused, first, second, self.factor) {
                return scaled.run::<CONVERT, POSITIVE>(self.with, data, into);
            }
        }
        // After the first sum, 16 bits must hold the value to which a second operand is added.
        let multiplies = fused.mul.is_some() || fused.second_mul.is_some();
        if multiplies || fused.saturating || !is_alone && !matches!(first, SlotOperands::Bytes { shift: 0, .. }) {
            return self.by_multiplier::<T, CONVERT, POSITIVE>(data, into);
        }
        let Some(data) = T::bytes(data) else { return self.by_multiplier::<T, CONVERT, POSITIVE>(data, into) };
        match (first, first.repeated().is_some()) {
            (SlotOperands::None, _) | (_, true) => self.short::<CONVERT, POSITIVE, REPEATED>(data, into),
            (SlotOperands::Lanes { .. }, false) => self.short::<CONVERT, POSITIVE, EACH>(data, into),
            (SlotOperands::Bytes { .. }, _) => self.short::<CONVERT, POSITIVE, BYTES>(data, into),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn by_multiplier<T: Sample, const CONVERT: u8, const POSITIVE: bool>(&self, data: &[T], into: &mut [u8]) {
        match (self.factor, self.fused.mul_width) {
            (SlotOperands::None, _) => self.wide::<T, CONVERT, POSITIVE, NONE>(data, into),
            (_, MulWidth::Narrow) => self.wide::<T, CONVERT, POSITIVE, NARROW>(data, into),
            _ if self.fused.first_floor >= 0 => self.wide::<T, CONVERT, POSITIVE, UP>(data, into),
            _ => self.wide::<T, CONVERT, POSITIVE, WIDE>(data, into),
        }
    }

    /// In lanes of 16 bits.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn short<const CONVERT: u8, const POSITIVE: bool, const FIRST: u8>(&self, data: &[u8], into: &mut [u8]) {
        let Self { fused, with, first, second, .. } = *self;
        let converter = Converter::<CONVERT, POSITIVE>::new(with);
        let [first_floor, second_floor] =
            [fused.first_floor, fused.second_floor].map(|floor| floor.max(i16::MIN.into()) as i16);
        let (first_floor, second_floor) = (_mm512_set1_epi16(first_floor), _mm512_set1_epi16(second_floor));
        let repeated = if FIRST == REPEATED { first.load_short(0) } else { _mm512_setzero_si512() };
        let has_second = !matches!(second, SlotOperands::None);
        // `packs_epi16` takes eight of one and eight of the other alternately.
        let order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
        for (number, (data, into)) in data.chunks(STEP).zip(into.chunks_mut(STEP)).enumerate() {
            let mut values = [_mm512_setzero_si512(); 2];
            for (from, result) in [0, 32].into_iter().zip(&mut values) {
                let at = number * STEP + from;
                let operands = if FIRST == REPEATED { repeated } else { first.load_short(at) };
                let mut value = _mm512_adds_epi16(widen(&data[from.min(data.len())..]), operands);
                value = _mm512_max_epi16(value, first_floor);
                if has_second {
                    value = _mm512_max_epi16(_mm512_adds_epi16(value, second.load_short(at)), second_floor);
                }
                *result = converter.short(value);
            }
            store(into, _mm512_permutexvar_epi64(order, _mm512_packs_epi16(values[0], values[1])));
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
