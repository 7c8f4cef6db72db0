// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operands in the form of the loops of AVX-512, and of those of AVX2.

use std::arch::x86_64::*;

use super::super::lanes::Operands;
use super::super::lanes::{Lanes, Slot, CHUNK, SLOTS};

/// Elements after which per-kernel operands repeat: the lanes of the widest atom.
pub(in super::super) const PERIOD: usize = 32;

/// The operands of one slot.
#[derive(Clone, Copy)]
pub(in super::super) enum SlotOperands<'o> {
    /// No operands.
    None,
    /// Prepared operands. The operand of element `at` is at index `at & mask`.
    Lanes { lanes: &'o Lanes, mask: usize },
    /// One operand per element, unchanged from memory.
    Bytes(&'o [u8]),
}

impl<'o> SlotOperands<'o> {
    /// The operands of `slot`. `each` tells, per slot, whether the operands differ from element to element. `direct`
    /// tells whether they are read directly from memory.
    pub(in super::super) fn new(
        operands: &Operands<'o>,
        each: [bool; SLOTS],
        direct: [bool; SLOTS],
        slot: Option<Slot>,
    ) -> Self {
        let Some(slot) = slot.map(|slot| slot as usize) else { return Self::None };
        if direct[slot] {
            Self::Bytes(operands.bytes[slot])
        } else {
            Self::Lanes { lanes: &operands.lanes[slot], mask: if each[slot] { usize::MAX } else { PERIOD - 1 } }
        }
    }

    /// The prepared operands, if they are the same for each atom.
    pub(super) fn repeated(self) -> Option<&'o Lanes> {
        match self {
            Self::Lanes { lanes, mask } if mask < PERIOD => Some(lanes),
            _ => None,
        }
    }

    /// Loads the operands of the eight elements with this number.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn load_8(self, number: usize) -> __m256i {
        match self {
            Self::None => _mm256_setzero_si256(),
            Self::Lanes { lanes, mask } => {
                let (values, _) = lanes.0.as_chunks::<8>();
                let values = &values[number & (mask / 8) & (CHUNK / 8 - 1)];
                // SAFETY: eight values.
                unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
            }
            Self::Bytes(bytes) => {
                let bytes = bytes.as_chunks::<8>().0.get(number).unwrap_or(&[0; 8]);
                // SAFETY: eight bytes.
                _mm256_cvtepi8_epi32(unsafe { _mm_loadl_epi64(bytes.as_ptr().cast()) })
            }
        }
    }

    /// Loads the operands of the 16 elements from `at` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn load(self, at: usize) -> __m512i {
        match self {
            Self::None => _mm512_setzero_si512(),
            Self::Lanes { lanes, mask } => load(&lanes.0[at & mask..]),
            Self::Bytes(bytes) => _mm512_cvtepi8_epi32(load_bytes(&bytes[at.min(bytes.len())..])),
        }
    }

    /// Loads the operands of the odd elements, in the lanes in which [`Self::load`] has those of the even elements.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn load_odd(self, at: usize) -> __m512i {
        _mm512_srli_epi64(self.load(at), 32)
    }

    /// Loads the operands of the 32 elements from `at` on, limited to 16 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn load_short(self, at: usize) -> __m512i {
        if let Self::Bytes(bytes) = self {
            return widen(&bytes[at.min(bytes.len())..]);
        }
        let low = _mm512_cvtsepi32_epi16(self.load(at));
        _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm512_cvtsepi32_epi16(self.load(at + 16)), 1)
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

/// Loads up to 32 bytes, and widens each to 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn widen(bytes: &[u8]) -> __m512i {
    _mm512_cvtepi8_epi16(match bytes.first_chunk::<32>() {
        // SAFETY: 32 bytes.
        Some(bytes) => unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) },
        // SAFETY: the mask has a bit for each of the bytes.
        None => unsafe { _mm256_maskz_loadu_epi8((1 << bytes.len()) - 1, bytes.as_ptr().cast()) },
    })
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
