// SPDX-License-Identifier: MIT OR Apache-2.0

//! The operations of [`super::super::fused`] whose products may be computed in fp32 ([`super::scaled`]), in four vectors of 32 bits
//! per 64 elements.

use std::arch::x86_64::*;

use super::super::fused::{Fused, MulWidth};
use super::super::lanes::{Operands, Slot};
use super::super::operand::SlotOperands;
use super::super::plan::{Feed, Plan};
use super::convert::{Convert, Converter};
use super::operand::{load_ints, padded, store, widen_step, STEP};
use super::scaled::{least_factor, Scale};

/// How the loop computes an operation.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Loop {
    convert: Convert,
    /// The smallest magnitude of a factor of the multiplier, if it is not zero.
    least_factor: u32,
}

impl Loop {
    /// The loop for the operation, if there is one.
    pub(in super::super) fn new(fused: &Fused, plan: &Plan) -> Option<Self> {
        let Fused { offset, scale, round, largest, .. } = *fused;
        let convert = Convert::new(offset, scale, round.shift, largest.converter)?;
        let operand = |slot: Option<Slot>| slot.and_then(|slot| plan.feeds[slot as usize].as_ref());
        let [second, factor, second_factor] =
            [fused.adds[1], fused.mul, fused.second_mul].map(|slot| operand(slot).map_or(0, Feed::largest));
        // From this magnitude on, a product becomes the end of int8's range.
        let limit = match fused.second_mul {
            None => convert.limit() + i128::from(second),
            Some(_) => i128::MAX,
        };
        if fused.mul_width == MulWidth::Sum || factor.max(second_factor) > 1 << 24 {
            return None;
        }
        // The second factor's products must be exact.
        least_factor(largest.second, fused.second_round.shift, i128::MAX, second_factor).filter(|&least| least == 0)?;
        let least_factor = least_factor(largest.first, fused.mul_round.shift, limit, factor)?;
        Some(Self { convert, least_factor })
    }
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

/// Converts data to int8 in `into`, which has the same length. Returns `false`, and does nothing, if a factor is too small.
///
/// # Safety
/// The machine has AVX-512 (F, BW, DQ, VL); `way` is the operation's [`Loop`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(in super::super) unsafe fn run<T: Sample>(
    fused: &Fused,
    way: Loop,
    data: &[T],
    operands: &Operands,
    into: &mut [u8],
) -> bool {
    let operand = |slot: Option<Slot>| SlotOperands::new(operands, fused.each, fused.direct, slot);
    let (first, second) = (operand(fused.adds[0]), operand(fused.adds[1]));
    let (factor, second_factor) = (operand(fused.mul), operand(fused.second_mul));
    let steps = Steps { fused, convert: way.convert, first, second, factor, second_factor };
    if way.least_factor > 0 && !(factor.repeats() && suit(factor.load_step(0), way.least_factor)) {
        return false;
    }
    let is_simple = first.repeats() && factor.repeats() && fused.second_mul.is_none() && !fused.saturating;
    match (is_simple, fused.mul.is_some()) {
        (false, _) => steps.by_end::<T, false, true>(data, into),
        (true, false) => steps.by_end::<T, true, false>(data, into),
        (true, true) => steps.by_end::<T, true, true>(data, into),
    }
    true
}

/// Whether all factors are zero or have at least this magnitude.
#[inline]
#[target_feature(enable = "avx512f")]
fn suit([low, high, ..]: [__m512i; 4], least: u32) -> bool {
    // Zero becomes the largest number.
    let below_one = |factors| _mm512_sub_epi32(_mm512_abs_epi32(factors), _mm512_set1_epi32(1));
    let smallest = _mm512_min_epu32(below_one(low), below_one(high));
    _mm512_cmplt_epu32_mask(smallest, _mm512_set1_epi32(least as i32 - 1)) == 0
}

/// The values that are the same for all steps.
struct Steps<'s> {
    fused: &'s Fused,
    convert: Convert,
    first: SlotOperands<'s>,
    second: SlotOperands<'s>,
    factor: SlotOperands<'s>,
    second_factor: SlotOperands<'s>,
}

impl Steps<'_> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn by_end<T: Sample, const SIMPLE: bool, const MUL: bool>(&self, data: &[T], into: &mut [u8]) {
        match (matches!(self.second, SlotOperands::None), self.convert == Convert::Limit) {
            (true, true) => self.all::<T, SIMPLE, MUL, false, false>(data, into),
            (true, false) => self.all::<T, SIMPLE, MUL, false, true>(data, into),
            (false, true) => self.all::<T, SIMPLE, MUL, true, false>(data, into),
            (false, false) => self.all::<T, SIMPLE, MUL, true, true>(data, into),
        }
    }

    /// `SIMPLE`: the first sum's operands and the factors are the same for each atom, there is no second factor, and no sum saturates.
    /// Without `MUL` there is no multiplier, without `SECOND` no second sum, and without `CONVERT` values are only limited.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn all<T: Sample, const SIMPLE: bool, const MUL: bool, const SECOND: bool, const CONVERT: bool>(
        &self,
        data: &[T],
        into: &mut [u8],
    ) {
        let Self { fused, convert, first, second, factor, second_factor } = *self;
        let converter = Converter::<CONVERT>::new(convert);
        let saturating = !SIMPLE && fused.saturating;
        let (first_floor, second_floor) = (_mm512_set1_epi32(fused.first_floor), _mm512_set1_epi32(fused.second_floor));
        // Values that are only limited are compared with the floor when they are bytes.
        let least = _mm512_set1_epi8(if SECOND || CONVERT { -128 } else { fused.first_floor.max(-128) as i8 });
        let (repeated, scales) = (first.load_step(0), scaled(factor.load_step(0), fused.mul_round.shift));
        // After packing twice, four values of each of the four vectors follow one another.
        let order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
        let (whole, rest) = data.as_chunks();
        let last = (!rest.is_empty()).then(|| padded(rest));
        for (number, into) in into.chunks_mut(STEP).enumerate() {
            let at = number * STEP;
            let Some(data) = whole.get(number).or(last.as_ref()) else { return };
            // SAFETY: the machine has the instructions.
            let data = unsafe { T::load(data) };
            let mut values = add(data, if SIMPLE { repeated } else { first.load_step(at) }, saturating);
            if MUL && (SIMPLE || fused.mul.is_some()) {
                let shift = fused.mul_round.shift;
                let scales = if SIMPLE { scales } else { scaled(factor.load_step(at), shift) };
                values = products(values, &scales);
            }
            if SECOND || CONVERT {
                values = floored(values, first_floor);
            }
            if SECOND {
                values = add(values, second.load_step(at), saturating);
                if !SIMPLE && fused.second_mul.is_some() {
                    values = products(values, &scaled(second_factor.load_step(at), fused.second_round.shift));
                }
                values = floored(values, second_floor);
            }
            let low = converter.pair(values[0], values[1]);
            let high = converter.pair(values[2], values[3]);
            let bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
            store(into, _mm512_max_epi8(bytes, least));
        }
    }
}

/// The factors of a step with their shift.
#[inline]
#[target_feature(enable = "avx512f")]
fn scaled([a, b, c, d]: [__m512i; 4], shift: u32) -> [Scale; 4] {
    [Scale::new(a, shift), Scale::new(b, shift), Scale::new(c, shift), Scale::new(d, shift)]
}

/// The rounded products of a step.
#[inline]
#[target_feature(enable = "avx512f")]
fn products(values: [__m512i; 4], [e, f, g, h]: &[Scale; 4]) -> [__m512i; 4] {
    let [a, b, c, d] = values;
    [e.of(a), f.of(b), g.of(c), h.of(d)]
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
