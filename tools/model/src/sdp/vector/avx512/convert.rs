// SPDX-License-Identifier: MIT OR Apache-2.0

//! The output converter to int8, in fp32 ([`super::scaled`]).

use std::arch::x86_64::*;

use super::scaled::{least_factor, Scale};

/// The conversion of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Convert {
    /// Values are only limited.
    Limit,
    /// `value - offset`, times `scale`, shifted by `shift`.
    Scale { offset: i32, scale: i32, shift: u32 },
}

impl Convert {
    /// The converter, if fp32 suffices. `largest` is the largest magnitude of a value after the offset is subtracted, which must fit
    /// 32 bits.
    pub(in super::super) fn new(offset: i32, scale: i32, shift: u32, largest: i64) -> Option<Self> {
        if (offset, scale, shift) == (0, 1, 0) {
            return Some(Self::Limit);
        }
        least_factor(largest, shift, 128, scale.into()).filter(|_| scale > 0)?;
        Some(Self::Scale { offset, scale, shift })
    }

    /// The smallest magnitude from which on all values of one sign become the same end of int8's range.
    pub(super) fn limit(self) -> i128 {
        match self {
            Self::Limit => 128,
            Self::Scale { offset, scale, shift } => (128 << shift) / i128::from(scale) + 1 + i128::from(offset).abs(),
        }
    }
}

/// A [`Convert`] in registers. Without `CONVERT` values are only limited.
#[derive(Clone, Copy)]
pub(super) struct Converter<const CONVERT: bool> {
    offset: __m512i,
    scale: Scale,
}

impl<const CONVERT: bool> Converter<CONVERT> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn new(convert: Convert) -> Self {
        let (offset, scale, shift) = match convert {
            Convert::Limit => (0, 1, 0),
            Convert::Scale { offset, scale, shift } => (offset, scale, shift),
        };
        Self { offset: _mm512_set1_epi32(offset), scale: Scale::new(_mm512_set1_epi32(scale), shift) }
    }

    /// Packs two vectors of 32-bit values to one of 16-bit values, alternating four of the first and four of the second.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn pair(self, low: __m512i, high: __m512i) -> __m512i {
        if !CONVERT {
            return _mm512_packs_epi32(low, high);
        }
        let (low, high) = (_mm512_sub_epi32(low, self.offset), _mm512_sub_epi32(high, self.offset));
        _mm512_packs_epi32(self.scale.of(low), self.scale.of(high))
    }
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
    fn vector(convert: Convert, values: [i32; 32]) -> [i8; 32] {
        let [low, high] = [0, 16].map(|at| {
            let half: &[i32] = &values[at..at + 16];
            // SAFETY: 16 values.
            unsafe { _mm512_loadu_si512(half.as_ptr().cast()) }
        });
        let pairs = match convert {
            Convert::Limit => Converter::<false>::new(convert).pair(low, high),
            Convert::Scale { .. } => Converter::<true>::new(convert).pair(low, high),
        };
        let mut bytes = [0i8; 64];
        // SAFETY: 64 bytes.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), _mm512_packs_epi16(pairs, pairs)) };
        std::array::from_fn(|index| bytes[index % 16 / 4 * 16 + index % 4 + if index < 16 { 0 } else { 4 }])
    }

    /// Values of at most this magnitude near which results change or the arithmetic may be wrong.
    fn interesting(offset: i32, scale: u32, shift: u32, largest: i64) -> Vec<i32> {
        let turns = (-130..=130).map(|result| (((2 * result + 1) << shift) / 2) / i64::from(scale) + i64::from(offset));
        let ends = [i32::MIN, -(1 << 24), -32_768, -1, 0, 1, 32_767, 65_535, 1 << 24, 1 << 25, i32::MAX];
        let ends = ends.into_iter().flat_map(|end| [i64::from(end), i64::from(end) + i64::from(offset)]);
        let near = turns.chain(ends).flat_map(|value| (-2..=2).map(move |by| value + by));
        let fits = |value: &i64| (value - i64::from(offset)).abs() <= largest;
        let mut values: Vec<i32> = near.filter(fits).filter_map(|value| i32::try_from(value).ok()).collect();
        let last = values.last().copied().unwrap_or(offset);
        values.resize(values.len().next_multiple_of(32), last);
        values
    }

    #[test]
    fn converters_are_those_of_the_reference() {
        if !crate::Isa::available().contains(&crate::Isa::Avx512) {
            return;
        }
        let (mut performed, mut limited) = (0, 0);
        for shift in 0..=40 {
            for scale in [1, 2, 3, 127, 128, 129, 255, 256, 1000, 16_383, 16_384, 16_385, 23_170, 32_766, 32_767] {
                for offset in
                    [0, 1, -1, 100, -128, 10_000, -30_000, 31_000, 32_767, -32_768, 70_000, i32::MIN, i32::MAX]
                {
                    for largest in [127, 1 << 15, 1 << 22, 1 << 24, (1 << 31) - 1] {
                        let Some(convert) = Convert::new(offset, scale as i32, shift, largest) else { continue };
                        performed += 1;
                        for values in interesting(offset, scale, shift, largest).as_chunks().0 {
                            // SAFETY: the machine has the instructions.
                            let results = unsafe { vector(convert, *values) };
                            for (&value, result) in values.iter().zip(results) {
                                let expected = plain(offset, scale, shift, value.into());
                                let far = (i128::from(value) - i128::from(offset)).abs() >= convert.limit();
                                limited += usize::from(far);
                                assert!(!far || matches!(expected, -128 | 127), "{value} of {convert:?}");
                                assert_eq!(result, expected, "({value} - {offset}) * {scale} >> {shift}");
                            }
                        }
                    }
                }
            }
        }
        assert!(performed > 10_000 && limited > 10_000, "{performed} converters, {limited} values beyond a limit");
    }
}
