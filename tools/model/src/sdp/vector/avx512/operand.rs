// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operands in the form of the loops of AVX-512.

use std::arch::x86_64::*;

use super::super::lanes::{Lanes, PERIOD};
use super::super::operand::SlotOperands;

/// Elements of a step of the loops of int8.
pub(super) const STEP: usize = 64;

impl<'o> SlotOperands<'o> {
    /// The prepared operands, if they are the same for each atom.
    pub(super) fn repeated(self) -> Option<&'o Lanes> {
        match self {
            Self::Lanes { lanes, mask } if mask < PERIOD => Some(lanes),
            _ => None,
        }
    }

    /// Whether the operands are the same for each step.
    #[inline]
    pub(super) fn repeats(self) -> bool {
        matches!(self, Self::None) || self.repeated().is_some()
    }

    /// Loads the operands of the 16 elements from `at` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn load(self, at: usize) -> __m512i {
        match self {
            Self::None => _mm512_setzero_si512(),
            Self::Lanes { lanes, mask } => load(&lanes.0[at & mask..]),
            Self::Bytes { bytes, shift } => {
                let values = _mm512_cvtepi8_epi32(load_bytes(&bytes[at.min(bytes.len())..]));
                _mm512_sll_epi32(values, _mm_cvtsi32_si128(shift as i32))
            }
        }
    }

    /// Loads the operands of the step from element `at` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn load_step(self, at: usize) -> [__m512i; 4] {
        match self {
            Self::None => [_mm512_setzero_si512(); 4],
            Self::Lanes { lanes, mask } if mask < PERIOD => {
                let (low, high) = (load(&lanes.0), load(&lanes.0[PERIOD / 2..]));
                [low, high, low, high]
            }
            Self::Lanes { lanes, .. } => load_ints(lanes.0[at..].first_chunk().unwrap_or(&[0; STEP])),
            Self::Bytes { bytes, shift } => {
                let bytes = &bytes[at.min(bytes.len())..];
                let [a, b, c, d] = match bytes.first_chunk() {
                    Some(bytes) => widen_step(bytes),
                    None => widen_step(&padded(bytes)),
                };
                let by = _mm_cvtsi32_si128(shift as i32);
                [_mm512_sll_epi32(a, by), _mm512_sll_epi32(b, by), _mm512_sll_epi32(c, by), _mm512_sll_epi32(d, by)]
            }
        }
    }
}

/// Loads the first 16 values.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[i32]) -> __m512i {
    let values: &[i32; 16] = values.first_chunk().unwrap_or(&[0; 16]);
    // SAFETY: 16 values.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

/// The first values of a step, followed by zeros.
#[inline]
pub(super) fn padded<T: Copy + Default>(values: &[T]) -> [T; STEP] {
    let mut step = [T::default(); STEP];
    for (to, &value) in step.iter_mut().zip(values) {
        *to = value;
    }
    step
}

/// Loads a step's values.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_ints(values: &[i32; STEP]) -> [__m512i; 4] {
    let (low, high) = values.split_at(STEP / 2);
    [load(low), load(&low[16..]), load(high), load(&high[16..])]
}

/// Widens a step's bytes to 32 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn widen_step(bytes: &[u8; STEP]) -> [__m512i; 4] {
    let (low, high) = bytes.split_at(STEP / 2);
    let [a, b, c, d] = [load_bytes(low), load_bytes(&low[16..]), load_bytes(high), load_bytes(&high[16..])];
    [_mm512_cvtepi8_epi32(a), _mm512_cvtepi8_epi32(b), _mm512_cvtepi8_epi32(c), _mm512_cvtepi8_epi32(d)]
}

/// Loads up to 16 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn load_bytes(bytes: &[u8]) -> __m128i {
    match bytes.first_chunk::<16>() {
        // SAFETY: 16 bytes.
        Some(bytes) => unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) },
        // SAFETY: the mask has a bit for each of the bytes.
        None => unsafe { _mm_maskz_loadu_epi8((1 << bytes.len()) - 1, bytes.as_ptr().cast()) },
    }
}

/// Stores the first `into.len()` bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn store(into: &mut [u8], bytes: __m512i) {
    match into.first_chunk_mut::<64>() {
        // SAFETY: 64 bytes.
        Some(into) => unsafe { _mm512_storeu_si512(into.as_mut_ptr().cast(), bytes) },
        // SAFETY: the mask has a bit for each of these bytes.
        None => unsafe { _mm512_mask_storeu_epi8(into.as_mut_ptr().cast(), (1 << into.len()) - 1, bytes) },
    }
}
