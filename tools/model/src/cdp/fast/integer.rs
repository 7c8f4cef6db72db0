// SPDX-License-Identifier: MIT OR Apache-2.0

//! Converters and windows of integers, in the narrowest integers that hold the intermediate values.

use super::super::operation::{Converter, REACH};

/// Integers to compute with.
pub(super) trait Word: Copy + Default + Ord + Into<i64> {
    fn of(value: i64) -> Self;
    /// The low bits, as a value of rows.
    fn low<V: Value>(self) -> V;
    fn sum(self, other: Self) -> Self;
    fn difference(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    /// Divided by a power of two, rounded half away from zero; `half` is half of that power, or 0.
    fn scaled(self, half: Self, shift: u32) -> Self;
}

macro_rules! word {
    ($type:ident, $unsigned:ident) => {
        impl Word for $type {
            #[inline(always)]
            fn low<V: Value>(self) -> V {
                V::from_low(self as i32)
            }
            #[inline(always)]
            fn of(value: i64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn difference(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn scaled(self, half: Self, shift: u32) -> Self {
                let magnitude = (self.unsigned_abs().wrapping_add(half as $unsigned) >> shift) as $type;
                if self < 0 {
                    magnitude.wrapping_neg()
                } else {
                    magnitude
                }
            }
        }
    };
}
word!(i16, u16);
word!(i32, u32);
word!(i64, u64);

/// Values as rows have them.
pub(super) trait Value: Copy + Default + Into<i64> {
    fn from_low(bits: i32) -> Self;
}

impl Value for i16 {
    #[inline(always)]
    fn from_low(bits: i32) -> Self {
        bits as i16
    }
}

impl Value for i32 {
    #[inline(always)]
    fn from_low(bits: i32) -> Self {
        bits
    }
}

vectorised! {
    /// Values as words to compute with.
    pub(super) fn widen<V: Value, T: Word>(values: &[V], words: &mut [T]) {
        for (word, &value) in words.iter_mut().zip(values) {
            *word = T::of(value.into());
        }
    }
}

vectorised! {
    /// The low bytes of words.
    pub(super) fn to_bytes<T: Word>(words: &[T], into: &mut [u8]) {
        for (byte, &word) in into.iter_mut().zip(words) {
            *byte = word.low::<i16>() as u8;
        }
    }
}

vectorised! {
    /// The low two bytes of words.
    pub(super) fn to_pairs<T: Word>(words: &[T], into: &mut [u8]) {
        for (bytes, &word) in into.as_chunks_mut::<2>().0.iter_mut().zip(words) {
            *bytes = word.low::<i16>().to_le_bytes();
        }
    }
}

/// Half of the last place that a right shift keeps.
const fn half(shift: u32) -> i64 {
    if shift == 0 {
        0
    } else {
        1 << (shift - 1)
    }
}

/// The most bits that an integer's offset from its converter's limits can have after a shift by `shift`.
const fn limit(limit: i64, shift: u32) -> i64 {
    if limit > i64::MAX >> shift {
        i64::MAX
    } else if limit < i64::MIN >> shift {
        i64::MIN
    } else {
        limit << shift
    }
}

/// Whether the converter leaves values as they are.
pub(super) fn is_identity(converter: &Converter) -> bool {
    converter.offset == 0 && converter.scale == 1 && converter.shift == 0
}

vectorised! {
    /// The input converter, in place. Intermediate values have as many bits as the limits.
    pub(super) fn convert_input<V: Value, T: Word>(converter: &Converter, limits: [T; 2], values: &mut [V]) {
        let Converter { offset, scale, shift } = *converter;
        let (offset, scale, half) = (T::of(offset.into()), T::of(scale.into()), T::of(half(shift)));
        for value in values {
            let scaled = T::of((*value).into()).difference(offset).product(scale);
            *value = scaled.scaled(half, shift).max(limits[0]).min(limits[1]).low();
        }
    }
}

vectorised! {
    /// The sums of `2 * reach + 1` squares around each value but the first and last [`REACH`].
    pub(super) fn windows<T: Word>(reach: usize, values: &[T], squares: &mut [T], sums: &mut [T]) {
        for (square, &value) in squares.iter_mut().zip(values) {
            *square = value.product(value);
        }
        sums.copy_from_slice(&squares[REACH..][..sums.len()]);
        for distance in 1..=reach {
            let (before, after) = (&squares[REACH - distance..], &squares[REACH + distance..]);
            for ((sum, &before), &after) in sums.iter_mut().zip(before).zip(after) {
                *sum = sum.sum(before.sum(after));
            }
        }
    }
}

/// The output converter, with its limits as bounds of the values that it shifts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) converter: Converter,
    minimum: i64,
    maximum: i64,
    /// Below and above these the hardware counts a saturation: more than one off without rounding.
    counted: [i64; 2],
    /// Whether 32 bits hold products of a factor and a value, and what becomes of them.
    pub(super) is_narrow: bool,
}

impl Output {
    /// For results of `bits` bits, from products of at most this magnitude.
    pub(super) fn new(converter: Converter, bits: u32, largest: i64) -> Self {
        let (minimum, maximum) = (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1);
        let counted = [limit(minimum - 1, converter.shift), limit(maximum + 2, converter.shift)];
        let scaled = (largest + i64::from(converter.offset).abs()) * i64::from(converter.scale).abs();
        // Rounding adds to the magnitude; the limits must be numbers of 32 bits themselves.
        let is_narrow = converter.shift <= 30
            && scaled + half(converter.shift) <= i64::from(i32::MAX)
            && counted.iter().all(|&limit| i32::try_from(limit).is_ok());
        Self { converter, minimum, maximum, counted, is_narrow }
    }
}

vectorised! {
    /// Factors times values, or factors alone, through the output converter; adds to `saturated` how many it cut off.
    ///
    /// A product, less the offset, is computed in the type of the offset (33 bits at most, of -2^15 * -2^16), and the
    /// rest in the type of the results.
    pub(super) fn results<V: Value, P: Word, T: Word>(
        output: &Output,
        skip_multiply: bool,
        operands: (&[i16], &[V]),
        offset: P,
        results: &mut [T],
        saturated: &mut u32,
    ) {
        let Output { converter, minimum, maximum, counted: [low, high], .. } = *output;
        let Converter { scale, shift, .. } = converter;
        let (scale, half) = (T::of(scale.into()), T::of(half(shift)));
        let (minimum, maximum, low, high) = (T::of(minimum), T::of(maximum), T::of(low), T::of(high));
        let (factors, values) = operands;
        let mut count = 0u32;
        for ((result, &factor), &value) in results.iter_mut().zip(factors).zip(values) {
            let factor = P::of(factor.into());
            let product = if skip_multiply { factor } else { factor.product(P::of(value.into())) };
            let scaled = T::of(product.difference(offset).into()).product(scale);
            count += u32::from((scaled < low) | (scaled >= high));
            *result = scaled.scaled(half, shift).max(minimum).min(maximum);
        }
        *saturated = saturated.wrapping_add(count);
    }
}
