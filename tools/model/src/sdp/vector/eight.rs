// SPDX-License-Identifier: MIT OR Apache-2.0

//! Eight 32-bit integers: an array, whose loops the compiler turns into vector code, or a vector of AVX2.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A rounding right shift: rounds half away from zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) shift: u32,
    pub(super) half: i64,
    /// All ones where a negative value is lowered by one before the shift.
    pub(super) sign: i64,
}

impl Round {
    pub(super) fn new(shift: u32) -> Self {
        if shift == 0 {
            Self { shift, half: 0, sign: 0 }
        } else {
            Self { shift, half: 1 << (shift - 1), sign: -1 }
        }
    }

    #[inline(always)]
    fn narrow(self, value: i32) -> i32 {
        value.wrapping_add(self.half as i32).wrapping_add((value >> 31) & self.sign as i32) >> self.shift
    }

    #[inline(always)]
    pub(super) fn wide(self, value: i64) -> i64 {
        value.wrapping_add(self.half).wrapping_add((value >> 63) & self.sign) >> self.shift
    }
}

/// Eight 32-bit integers. Sums, differences and products wrap around.
pub(super) trait Eight: Copy {
    /// A [`Round`] in the form of these integers.
    type Rounding: Copy + From<Round>;

    fn splat(value: i32) -> Self;
    fn load(values: &[i32; 8]) -> Self;
    /// Eight int8.
    fn widen(bytes: [u8; 8]) -> Self;
    fn array(self) -> [i32; 8];
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn shifted_left(self, by: u32) -> Self;
    /// Products that stay within 32 bits, also while they are rounded and shifted.
    fn multiply_narrow(self, factor: Self, round: Self::Rounding) -> Self;
    /// Products of 64 bits, of which 32 bits remain after a shift of 1 to 32.
    fn multiply_product(self, factor: Self, round: Self::Rounding) -> Self;
    /// The integers limited to int8.
    fn int8(self) -> [u8; 8];
}

#[inline(always)]
fn zip(values: [i32; 8], others: [i32; 8], f: impl Fn(i32, i32) -> i32) -> [i32; 8] {
    std::array::from_fn(|lane| f(values[lane], others[lane]))
}

impl Eight for [i32; 8] {
    type Rounding = Round;

    #[inline(always)]
    fn splat(value: i32) -> Self {
        [value; 8]
    }

    #[inline(always)]
    fn load(values: &[i32; 8]) -> Self {
        *values
    }

    #[inline(always)]
    fn widen(bytes: [u8; 8]) -> Self {
        bytes.map(|byte| i32::from(byte as i8))
    }

    #[inline(always)]
    fn array(self) -> [i32; 8] {
        self
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        zip(self, other, i32::wrapping_add)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        zip(self, other, i32::wrapping_sub)
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        zip(self, other, Ord::max)
    }

    #[inline(always)]
    fn shifted_left(self, by: u32) -> Self {
        self.map(|value| value << by)
    }

    #[inline(always)]
    fn multiply_narrow(self, factor: Self, round: Round) -> Self {
        zip(self, factor, |value, factor| round.narrow(value.wrapping_mul(factor)))
    }

    #[inline(always)]
    fn multiply_product(self, factor: Self, round: Round) -> Self {
        zip(self, factor, |value, factor| round.wide(i64::from(value).wrapping_mul(factor.into())) as i32)
    }

    #[inline(always)]
    fn int8(self) -> [u8; 8] {
        self.map(|value| value.clamp(-128, 127) as u8)
    }
}

/// A vector of AVX2. [`super::process`] chooses it where the machine has AVX2, and makes no value of it elsewhere.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256i);

/// A [`Round`] in vectors.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Rounding {
    half: __m256i,
    half_narrow: __m256i,
    sign: __m256i,
    narrow: __m256i,
    shift: __m256i,
    left: __m256i,
}

#[cfg(target_arch = "x86_64")]
impl From<Round> for Rounding {
    #[inline(always)]
    fn from(round: Round) -> Self {
        // SAFETY: the machine has AVX2, as for `Avx2`.
        unsafe {
            Self {
                half: _mm256_set1_epi64x(round.half),
                half_narrow: _mm256_set1_epi32(round.half as i32),
                sign: _mm256_set1_epi32(round.sign as i32),
                narrow: _mm256_set1_epi32(round.shift as i32),
                shift: _mm256_set1_epi64x(round.shift.into()),
                left: _mm256_set1_epi64x(32 - i64::from(round.shift.min(32))),
            }
        }
    }
}

// Each method is inlined into the function that is compiled for AVX2, and the intrinsics with it.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::cast_ptr_alignment)]
impl Eight for Avx2 {
    type Rounding = Rounding;

    #[inline(always)]
    fn splat(value: i32) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_set1_epi32(value) })
    }

    #[inline(always)]
    fn load(values: &[i32; 8]) -> Self {
        // SAFETY: the machine has AVX2; eight values.
        Self(unsafe { _mm256_loadu_si256(values.as_ptr().cast()) })
    }

    #[inline(always)]
    fn widen(bytes: [u8; 8]) -> Self {
        // SAFETY: the machine has AVX2; eight bytes.
        Self(unsafe { _mm256_cvtepi8_epi32(_mm_loadl_epi64(bytes.as_ptr().cast())) })
    }

    #[inline(always)]
    fn array(self) -> [i32; 8] {
        let mut values = [0; 8];
        // SAFETY: the machine has AVX2; eight values.
        unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), self.0) };
        values
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_sub_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_max_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn shifted_left(self, by: u32) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_sll_epi32(self.0, _mm_cvtsi32_si128(by as i32)) })
    }

    #[inline(always)]
    fn multiply_narrow(self, factor: Self, round: Rounding) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe {
            let product = _mm256_mullo_epi32(self.0, factor.0);
            let below = _mm256_and_si256(_mm256_srai_epi32(product, 31), round.sign);
            _mm256_srav_epi32(_mm256_add_epi32(_mm256_add_epi32(product, round.half_narrow), below), round.narrow)
        })
    }

    /// The products of even and odd lanes are two vectors, which are interleaved again after the shift.
    #[inline(always)]
    fn multiply_product(self, factor: Self, round: Rounding) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe {
            let even = _mm256_mul_epi32(self.0, factor.0);
            let odd = _mm256_mul_epi32(_mm256_srli_epi64(self.0, 32), _mm256_srli_epi64(factor.0, 32));
            // Negative products are lowered by one, to round half away from zero.
            let even = _mm256_add_epi64(_mm256_sub_epi64(even, _mm256_srli_epi64(even, 63)), round.half);
            let odd = _mm256_add_epi64(_mm256_sub_epi64(odd, _mm256_srli_epi64(odd, 63)), round.half);
            _mm256_blend_epi32(_mm256_srlv_epi64(even, round.shift), _mm256_sllv_epi64(odd, round.left), 0xaa)
        })
    }

    #[inline(always)]
    fn int8(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        // SAFETY: the machine has AVX2; eight bytes.
        unsafe {
            let pairs = _mm_packs_epi32(_mm256_castsi256_si128(self.0), _mm256_extracti128_si256(self.0, 1));
            _mm_storel_epi64(bytes.as_mut_ptr().cast(), _mm_packs_epi16(pairs, pairs));
        }
        bytes
    }
}
