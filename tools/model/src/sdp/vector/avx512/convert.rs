// SPDX-License-Identifier: MIT OR Apache-2.0

//! The output converter to int8, in lanes of 16 bits where they are enough.
//!
//! A result becomes int8 and is limited at both ends. A value may therefore be limited first, to any range with ends
//! that convert to values outside int8. If 16 bits hold that range ([`Convert::Short`]), one packing instruction limits
//! and narrows the lanes, and one instruction multiplies, rounds and shifts by 15. Otherwise ([`Convert::High`]) the
//! factor is shifted left first, so that the upper half of a 64-bit product is the product shifted by one place less
//! than needed; the last place is rounded off. Rounding the magnitudes rounds half away from zero.

use std::arch::x86_64::*;

/// The conversion of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Convert {
    /// Values are only limited.
    Limit,
    /// In lanes of 16 bits: `min(|value - offset|, largest) << left`, times `scale`, shifted by 15.
    Short { offset: i16, largest: i16, left: i16, scale: i16 },
    /// In lanes of 32 bits: `value - offset`, shifted by `shift`, where the difference and half a step stay within 32 bits.
    Shift { offset: i32, shift: u32 },
    /// In lanes of 32 bits: `|value - offset|` times `scale`; the upper 32 bits of the product are kept.
    High { offset: i32, scale: u32 },
}

impl Convert {
    /// The converter of these operations, if its registers allow it. `wide`: a product may exceed 32 bits.
    pub(in super::super) fn new(offset: i32, scale: i32, shift: u32, wide: bool) -> Option<Self> {
        if (offset, scale, shift) == (0, 1, 0) {
            return Some(Self::Limit);
        }
        let scale = u32::try_from(scale).ok().filter(|&scale| scale > 0)?;
        let in_32_bits = || match (scale, wide) {
            (1, false) if shift > 0 => Some(Self::Shift { offset, shift }),
            _ => Self::high(offset, scale, shift),
        };
        Self::short(offset, scale, shift).or_else(in_32_bits)
    }

    /// A converter of any 32-bit values, if possible.
    pub(in super::super) fn of_any(offset: i32, scale: i16, shift: u32) -> Option<Self> {
        if (offset, scale, shift) == (0, 1, 0) {
            return Some(Self::Limit);
        }
        let scale = u32::try_from(scale).ok().filter(|&scale| scale > 0)?;
        // A difference must fit the lanes of 32 bits.
        Self::short(offset, scale, shift).or_else(|| Self::high(offset, scale, shift).filter(|_| offset == 0))
    }

    /// Whether no value that is at least `floor` is negative after the offset is subtracted.
    pub(super) fn is_positive(self, floor: i32) -> bool {
        let offset = match self {
            Self::Limit => 0,
            Self::Short { offset, .. } => offset.into(),
            Self::Shift { offset, .. } | Self::High { offset, .. } => offset,
        };
        floor >= 0 && offset <= 0
    }

    fn short(offset: i32, scale: u32, shift: u32) -> Option<Self> {
        let total = 15u32.checked_sub(shift)?;
        // The factor is shifted as far as its 16 bits allow, and the value by the rest.
        let by_scale = total.min(scale.leading_zeros() - 17);
        let left = total - by_scale;
        let largest = i32::from(i16::MAX) >> left;
        let offset = i16::try_from(offset).ok()?;
        let limit = (i32::from(i16::MAX) - i32::from(offset.unsigned_abs())).min(largest);
        let half = (1 << shift) >> 1;
        let limited = (i64::from(limit) * i64::from(scale) + half) >> shift >= 128;
        limited.then_some(Self::Short {
            offset,
            largest: largest as i16,
            left: left as i16,
            scale: (scale << by_scale) as i16,
        })
    }

    fn high(offset: i32, scale: u32, shift: u32) -> Option<Self> {
        let left = 33u32.checked_sub(shift)?;
        let scale = u32::try_from(u64::from(scale) << left).ok()?;
        Some(Self::High { offset, scale })
    }
}

/// [`Convert`]'s variants as a parameter of loops.
pub(super) const LIMIT: u8 = 0;
pub(super) const SHORT: u8 = 1;
pub(super) const HIGH: u8 = 2;
pub(super) const SHIFT: u8 = 3;

/// A [`Convert`] of that variant in registers. `POSITIVE`: no value is negative after the offset is subtracted.
#[derive(Clone, Copy)]
pub(super) struct Converter<const CONVERT: u8, const POSITIVE: bool> {
    offset: __m512i,
    largest: __m512i,
    left: __m512i,
    scale: __m512i,
}

impl<const CONVERT: u8, const POSITIVE: bool> Converter<CONVERT, POSITIVE> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn new(convert: Convert) -> Self {
        let (offset, largest, left, scale) = match convert {
            Convert::Limit => return Self::of(0, 0, 0, 0),
            Convert::Short { offset, largest, left, scale } => (offset, largest, left, scale),
            Convert::Shift { offset, shift } => {
                // Half a step, and the shift.
                let (scale, left) = (_mm512_set1_epi32((1 << shift) >> 1), _mm512_set1_epi32(shift as i32));
                return Self { offset: _mm512_set1_epi32(offset), scale, left, ..Self::of(0, 0, 0, 0) };
            }
            Convert::High { offset, scale } => {
                let (offset, scale) = (_mm512_set1_epi32(offset), _mm512_set1_epi32(scale as i32));
                return Self { offset, scale, ..Self::of(0, 0, 0, 0) };
            }
        };
        Self::of(offset, largest, left, scale)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn of(offset: i16, largest: i16, left: i16, scale: i16) -> Self {
        Self {
            offset: _mm512_set1_epi16(offset),
            largest: _mm512_set1_epi16(largest),
            left: _mm512_set1_epi16(left),
            scale: _mm512_set1_epi16(scale),
        }
    }

    /// Packs two vectors of 32-bit values to one of 16-bit values, alternating four of the first and four of the second.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn pair(self, low: __m512i, high: __m512i) -> __m512i {
        if CONVERT != HIGH && CONVERT != SHIFT {
            return self.short(_mm512_packs_epi32(low, high));
        }
        let (low, high) = (_mm512_sub_epi32(low, self.offset), _mm512_sub_epi32(high, self.offset));
        if CONVERT == SHIFT {
            return _mm512_packs_epi32(self.shifted(low), self.shifted(high));
        }
        if POSITIVE {
            return half(_mm512_packs_epi32(self.upper(low), self.upper(high)));
        }
        let (low_magnitude, high_magnitude) = (_mm512_abs_epi32(low), _mm512_abs_epi32(high));
        let result = half(_mm512_packs_epi32(self.upper(low_magnitude), self.upper(high_magnitude)));
        negate(result, _mm512_packs_epi32(low, high))
    }

    /// Values of 16 bits, which [`Convert::High`] does not take.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn short(self, values: __m512i) -> __m512i {
        if CONVERT == LIMIT {
            return values;
        }
        let difference = _mm512_subs_epi16(values, self.offset);
        let magnitude = if POSITIVE { difference } else { _mm512_abs_epi16(difference) };
        let shifted = _mm512_sllv_epi16(_mm512_min_epu16(magnitude, self.largest), self.left);
        let result = _mm512_mulhrs_epi16(shifted, self.scale);
        if POSITIVE {
            result
        } else {
            negate(result, difference)
        }
    }

    /// Values of 32 bits, rounded and shifted.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn shifted(self, values: __m512i) -> __m512i {
        // To round half away from zero, a negative value is lowered by one.
        let below = if POSITIVE { _mm512_setzero_si512() } else { _mm512_srai_epi32(values, 31) };
        _mm512_srav_epi32(_mm512_add_epi32(_mm512_add_epi32(values, self.scale), below), self.left)
    }

    /// The upper halves of the products.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn upper(self, values: __m512i) -> __m512i {
        let odd = _mm512_movehdup_ps(_mm512_castsi512_ps(values));
        let even = _mm512_castsi512_ps(_mm512_mul_epu32(values, self.scale));
        let odd = _mm512_castsi512_ps(_mm512_mul_epu32(_mm512_castps_si512(odd), self.scale));
        _mm512_castps_si512(_mm512_mask_movehdup_ps(odd, 0x5555, even))
    }
}

/// Half of each value, which is not negative, rounded up.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn half(values: __m512i) -> __m512i {
    _mm512_mulhrs_epi16(values, _mm512_set1_epi16(1 << 14))
}

/// The values with the signs of other values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn negate(values: __m512i, signs: __m512i) -> __m512i {
    _mm512_mask_sub_epi16(values, _mm512_movepi16_mask(signs), _mm512_setzero_si512(), values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::fixed::{round_shift_right, saturate};

    /// The reference's result for a value.
    fn plain(offset: i32, scale: u32, shift: u32, value: i64) -> i8 {
        saturate::<8>(saturate::<17>(round_shift_right((value - i64::from(offset)) * i64::from(scale), shift))) as i8
    }

    /// The results of 32 values.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn vector(convert: Convert, floor: i32, values: [i32; 32]) -> [i8; 32] {
        match (convert, convert.is_positive(floor)) {
            (Convert::Limit, _) => with(Converter::<LIMIT, false>::new(convert), values),
            (Convert::Short { .. }, true) => with(Converter::<SHORT, true>::new(convert), values),
            (Convert::Short { .. }, false) => with(Converter::<SHORT, false>::new(convert), values),
            (Convert::Shift { .. }, true) => with(Converter::<SHIFT, true>::new(convert), values),
            (Convert::Shift { .. }, false) => with(Converter::<SHIFT, false>::new(convert), values),
            (Convert::High { .. }, true) => with(Converter::<HIGH, true>::new(convert), values),
            (Convert::High { .. }, false) => with(Converter::<HIGH, false>::new(convert), values),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    fn with<const CONVERT: u8, const POSITIVE: bool>(
        converter: Converter<CONVERT, POSITIVE>,
        values: [i32; 32],
    ) -> [i8; 32] {
        let [low, high] = [0, 16].map(|at| {
            let half: &[i32] = &values[at..at + 16];
            // SAFETY: 16 values.
            unsafe { _mm512_loadu_si512(half.as_ptr().cast()) }
        });
        let pairs = converter.pair(low, high);
        let mut bytes = [0i8; 64];
        // SAFETY: 64 bytes.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), _mm512_packs_epi16(pairs, pairs)) };
        std::array::from_fn(|index| bytes[index % 16 / 4 * 16 + index % 4 + if index < 16 { 0 } else { 4 }])
    }

    /// Values near which results change or the arithmetic may be wrong.
    fn interesting(offset: i32, scale: u32, shift: u32, floor: i32) -> Vec<i32> {
        let turns = (-130..=130).map(|result| (((2 * result + 1) << shift) / 2) / i64::from(scale) + i64::from(offset));
        let ends = [i32::MIN, -65_536, -32_768, -32_767, -1, 0, 1, 32_767, 32_768, 65_535, i32::MAX];
        let ends = ends.into_iter().flat_map(|end| [i64::from(end), i64::from(end) + i64::from(offset)]);
        let near = turns.chain(ends).flat_map(|value| (-2..=2).map(move |by| value + by));
        let fits = |value: &i64| i32::try_from(value - i64::from(offset)).is_ok();
        let floored = near.map(|value| value.max(floor.into())).filter(fits);
        let mut values: Vec<i32> = floored.filter_map(|value| i32::try_from(value).ok()).collect();
        let last = values.last().copied().unwrap_or(offset);
        values.resize(values.len().next_multiple_of(32), last);
        values
    }

    #[test]
    fn converters_are_those_of_the_reference() {
        if !crate::Isa::available().contains(&crate::Isa::Avx512) {
            return;
        }
        let mut performed = [0; 3];
        for shift in 0..=40 {
            for scale in [1, 2, 3, 127, 128, 129, 255, 256, 1000, 16_383, 16_384, 16_385, 23_170, 32_766, 32_767] {
                for offset in
                    [0, 1, -1, 100, -128, 10_000, -30_000, 31_000, 32_767, -32_768, 70_000, i32::MIN, i32::MAX]
                {
                    let by_shift = scale == 1 && (1..31).contains(&shift);
                    let ways = [
                        Convert::short(offset, scale, shift),
                        Convert::high(offset, scale, shift),
                        by_shift.then_some(Convert::Shift { offset, shift }),
                    ];
                    for (way, performed) in ways.into_iter().zip(&mut performed) {
                        let Some(convert) = way else { continue };
                        *performed += 1;
                        for floor in [i32::MIN, 0] {
                            let mut values = interesting(offset, scale, shift, floor);
                            if matches!(convert, Convert::Shift { .. }) {
                                let fits = |value: i32| {
                                    (i64::from(value) - i64::from(offset)).abs() < (1 << 31) - (1 << shift)
                                };
                                for value in &mut values {
                                    *value = if fits(*value) { *value } else { offset.max(floor) };
                                }
                            }
                            for values in values.as_chunks().0 {
                                // SAFETY: the machine has the instructions.
                                let results = unsafe { vector(convert, floor, *values) };
                                for (&value, result) in values.iter().zip(results) {
                                    let expected = plain(offset, scale, shift, value.into());
                                    assert_eq!(
                                        result, expected,
                                        "({value} - {offset}) * {scale} >> {shift}: {convert:?}"
                                    );
                                }
                            }
                        }
                    }
                }
            }
        }
        let [short, high, by_shift] = performed;
        assert!(short > 500 && high > 500 && by_shift > 300, "{performed:?}");
    }
}
