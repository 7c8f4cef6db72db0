// SPDX-License-Identifier: MIT OR Apache-2.0

//! Linear tables with entries that only fall or only rise, such as those of local response normalisation. Byte
//! permutations look up 64 elements at a time.
//!
//! Between two entries the answer is `low - (low - high) * fraction / 2^16`, with half rounded away from zero. The
//! subtracted term is not negative, so half is rounded up. One instruction does this for fractions of 15 bits, and
//! fractions have no more bits where entries are 2^15 apart or less. For a table that rises, the entries are
//! complemented and the answers complemented back.

// What answers is compiled for an instruction set only where it is inlined.
#![allow(clippy::inline_always)]

use std::arch::x86_64::*;

use super::super::lookup::Range;
use super::answer::Answer;

/// Entries that an index of eight bits finds.
const ENTRIES: usize = 256;
/// Bytes of a register.
const REGISTER: usize = 64;
/// The largest distance of entries.
const LARGEST_SELECT: i32 = 15;

/// The low and high bytes of the entries, and of the difference from each entry to the next.
#[derive(Clone, Debug)]
pub(crate) struct Planes {
    start: i64,
    select: i32,
    /// What answers are complemented with.
    flip: i16,
    bytes: Box<[[u8; ENTRIES]; 4]>,
}

impl Planes {
    /// `None` for other tables.
    pub(super) fn new(range: &Range, table: &[i16]) -> Option<Self> {
        if !(0..=LARGEST_SELECT).contains(&range.select) {
            return None;
        }
        let flip = if table.last() > table.first() { -1 } else { 0 };
        let mut bytes = Box::new([[0; ENTRIES]; 4]);
        for (at, pair) in table.windows(2).take(ENTRIES).enumerate() {
            let [low, high] = [pair[0], pair[1]].map(|entry| entry ^ flip);
            let fall = low.checked_sub(high).filter(|&fall| fall >= 0)?;
            [bytes[0][at], bytes[1][at]] = low.to_le_bytes();
            [bytes[2][at], bytes[3][at]] = fall.to_le_bytes();
        }
        Some(Self { start: range.start, select: range.select, flip, bytes })
    }

    /// The entries in registers, beside what answers sixteen sums.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(crate) fn beside<H>(&self, half: H) -> Loaded<H> {
        let plane = |plane: usize| {
            let registers = self.bytes[plane].as_chunks::<REGISTER>().0;
            // SAFETY: 64 bytes each.
            [0, 1, 2, 3].map(|at: usize| unsafe { _mm512_loadu_si512(registers[at].as_ptr().cast()) })
        };
        Loaded {
            half,
            start: _mm512_set1_epi32(self.start as i32),
            left: _mm_cvtsi32_si128(LARGEST_SELECT + 1 - self.select),
            flip: _mm512_set1_epi16(self.flip),
            planes: [plane(0), plane(1), plane(2), plane(3)],
        }
    }
}

/// A table in registers.
#[derive(Clone, Copy)]
pub(crate) struct Loaded<H> {
    half: H,
    start: __m512i,
    left: __m128i,
    flip: __m512i,
    planes: [[__m512i; 4]; 4],
}

impl<H: Answer> Answer for Loaded<H> {
    #[inline(always)]
    unsafe fn half(self, sums: __m512i) -> __m512i {
        // SAFETY: the caller has what it needs.
        unsafe { self.half.half(sums) }
    }

    #[inline(always)]
    unsafe fn double(self, sums: [__m512i; 4]) -> [__m512i; 2] {
        // SAFETY: the caller has the instructions.
        unsafe {
            let at = [self.at(sums[0]), self.at(sums[1]), self.at(sums[2]), self.at(sums[3])];
            let indices = _mm512_packus_epi16(indices(at[0], at[1]), indices(at[2], at[3]));
            let bit7 = _mm512_movepi8_mask(indices);
            let bit6 = _mm512_movepi8_mask(_mm512_slli_epi16::<1>(indices));
            let quarters = [bit6 & !bit7, bit7 & !bit6, bit6 & bit7];
            let [low, high, fall_low, fall_high] = [
                entries(&self.planes[0], indices, quarters),
                entries(&self.planes[1], indices, quarters),
                entries(&self.planes[2], indices, quarters),
                entries(&self.planes[3], indices, quarters),
            ];
            // The first 32 elements' bytes lie in the low halves of quarters.
            let entry = [_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)];
            let fall = [_mm512_unpacklo_epi8(fall_low, fall_high), _mm512_unpackhi_epi8(fall_low, fall_high)];
            [
                self.between(entry[0], fall[0], fractions(at[0], at[1])),
                self.between(entry[1], fall[1], fractions(at[2], at[3])),
            ]
        }
    }
}

/// The odd elements' words.
const ODD: __mmask32 = 0xaaaa_aaaa;

impl<H> Loaded<H> {
    /// Indices in the high halves, sixteen bits of fractions in the low ones.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn at(&self, sums: __m512i) -> __m512i {
        _mm512_sll_epi32(_mm512_sub_epi32(sums, self.start), self.left)
    }

    /// The answers between entries.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn between(&self, entry: __m512i, fall: __m512i, fraction: __m512i) -> __m512i {
        _mm512_xor_si512(_mm512_sub_epi16(entry, _mm512_mulhrs_epi16(fall, fraction)), self.flip)
    }
}

/// Indices in the elements' order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn indices(even: __m512i, odd: __m512i) -> __m512i {
    _mm512_mask_blend_epi16(ODD, _mm512_srli_epi32::<16>(even), odd)
}

/// Fractions of fifteen bits in the elements' order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn fractions(even: __m512i, odd: __m512i) -> __m512i {
    _mm512_srli_epi16::<1>(_mm512_mask_blend_epi16(ODD, even, _mm512_slli_epi32::<16>(odd)))
}

/// A plane's bytes; which of them lie in the table's quarters after the first is given.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
fn entries(table: &[__m512i; 4], indices: __m512i, quarters: [__mmask64; 3]) -> __m512i {
    let bytes = _mm512_permutexvar_epi8(indices, table[0]);
    let bytes = _mm512_mask_permutexvar_epi8(bytes, quarters[0], indices, table[1]);
    let bytes = _mm512_mask_permutexvar_epi8(bytes, quarters[1], indices, table[2]);
    _mm512_mask_permutexvar_epi8(bytes, quarters[2], indices, table[3])
}
