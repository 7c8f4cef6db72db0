// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Which vector code for x86-64 this process uses, and the pixels of AVX-512.

use super::super::super::isa::Isa;
use super::contract::{Block, Channels, Collect, Finish, Permute, Positions, Shuffle, Squares, Transpose};
use core::arch::x86_64::*;

/// The fastest code for that shape that this machine has.
pub(super) fn transpose(rows: usize, bytes: usize) -> Option<Transpose> {
    if Isa::in_use_or_portable().has_avx2() {
        super::avx2::transpose(rows, bytes)
    } else {
        None
    }
}

/// A table as two registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn tables<T>(tables: &[T; 2]) -> [__m512i; 2] {
    const { assert!(size_of::<T>() == 64) };
    // SAFETY: a table has 64 bytes.
    unsafe { [_mm512_loadu_si512((&raw const tables[0]).cast()), _mm512_loadu_si512((&raw const tables[1]).cast())] }
}

/// The code for kernels of few positions, which are permuted whole: to positions of channels, and back.
pub(super) fn permute(positions: usize, bytes: usize) -> [Option<Permute>; 2] {
    match Isa::in_use_or_portable() {
        Isa::Avx512Vbmi => [super::small::to_channels(positions, bytes), super::small::to_positions(positions, bytes)],
        // Its code for any number of positions is faster than permutations that do not fit in the registers.
        Isa::Avx512 if positions > 16 => [None; 2],
        isa if isa.has_avx2() => {
            [super::small_avx2::to_channels(positions, bytes), super::small_avx2::to_positions(positions, bytes)]
        }
        _ => [None; 2],
    }
}

/// The code for [`Positions`] of elements of that size.
pub(super) fn positions(bytes: usize) -> Option<Positions> {
    match Isa::in_use_or_portable() {
        Isa::Avx512 | Isa::Avx512Vbmi => Some(super::avx512::positions(bytes)),
        Isa::Avx2 | Isa::AvxVnni => Some(super::avx2::positions(bytes)),
        _ => None,
    }
}

/// The code for [`Channels`] of elements of that size.
pub(super) fn channels(bytes: usize) -> Option<Channels> {
    match Isa::in_use_or_portable() {
        Isa::Avx512 | Isa::Avx512Vbmi => Some(super::avx512::channels(bytes)),
        Isa::Avx2 | Isa::AvxVnni => Some(super::avx2::channels(bytes)),
        _ => None,
    }
}

/// The code for [`Collect`] of atoms of that many bytes.
pub(super) fn collect(atom: usize) -> Option<Collect> {
    let isa = Isa::in_use_or_portable();
    if !isa.has_avx512() {
        return (isa.has_avx2() && atom == 8).then_some(super::avx2::collect_8 as Collect);
    }
    match atom {
        32 => Some(super::avx512::collect_32),
        16 => Some(super::avx512::collect_16),
        8 => Some(super::avx512::collect_8),
        _ => None,
    }
}

/// The code for [`Squares`] of units of that many bytes.
pub(super) fn squares(unit: usize) -> Option<Squares> {
    let isa = Isa::in_use_or_portable();
    if !isa.has_avx512() {
        return (isa.has_avx2() && unit == 8).then_some(super::avx2::squares_8 as Squares);
    }
    match unit {
        32 => Some(super::avx512::squares::<2>),
        16 => Some(super::avx512::squares::<4>),
        8 => Some(super::avx512::squares::<8>),
        _ => None,
    }
}

/// The code that shuffles RGB into planes.
pub(super) fn shuffle(finish: Finish) -> Option<Shuffle> {
    let isa = Isa::in_use_or_portable();
    if isa == Isa::Avx512Vbmi {
        return Some(match finish {
            Finish::Bytes => avx512_shuffle::<0>,
            Finish::Shift(_) => avx512_shuffle::<1>,
            Finish::Half => avx512_shuffle::<2>,
            Finish::Join { .. } => avx512_join,
        });
    }
    isa.has_avx2().then(|| super::avx2::shuffle(finish))
}

/// 16-bit lanes of repeated bytes shifted right (1), or as fp16 numbers of the low byte (2).
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn finished<const FINISH: u32>(lanes: __m512i, shift: __m128i) -> __m512i {
    match FINISH {
        0 => lanes,
        1 => _mm512_srl_epi16(lanes, shift),
        _ => {
            let numbers = _mm512_and_si512(lanes, _mm512_set1_epi16(0xff));
            let half = |part: __m256i| {
                let wide = _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(part));
                _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(wide)
            };
            let low = half(_mm512_castsi512_si256(numbers));
            let high = half(_mm512_extracti64x4_epi64::<1>(numbers));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn avx512_shuffle<const FINISH: u32>(
    block: &Block,
    alpha: u8,
    source: *const u8,
    target: *mut u8,
    blocks: usize,
) {
    let index = tables(&block.index);
    let alpha = _mm512_set1_epi8(alpha as i8);
    let shift = match block.finish {
        Finish::Shift(bits) => _mm_cvtsi32_si128(bits as i32),
        Finish::Bytes | Finish::Half | Finish::Join { .. } => _mm_setzero_si128(),
    };
    for number in 0..blocks {
        // SAFETY: the caller's source and target hold the blocks and the 16 bytes that the last one reads more.
        unsafe {
            let rgb = _mm512_loadu_si512(source.add(number * 48).cast());
            let to = target.add(number * block.len);
            let part = |which: usize| {
                let bytes = _mm512_permutexvar_epi8(index[which], rgb);
                finished::<FINISH>(_mm512_mask_mov_epi8(bytes, block.alpha[which], alpha), shift)
            };
            match block.len {
                16 => _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(part(0))),
                32 => _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(part(0))),
                _ => {
                    _mm512_storeu_si512(to.cast(), part(0));
                    if block.len == 128 {
                        _mm512_storeu_si512(to.add(64).cast(), part(1));
                    }
                }
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn avx512_join(block: &Block, alpha: u8, source: *const u8, target: *mut u8, blocks: usize) {
    let Finish::Join { shift, scale, back } = block.finish else { return };
    let index = tables(&block.index);
    let alpha = _mm512_set1_epi8(alpha as i8);
    let four = |lanes: [u16; 4]| {
        let bits = lanes.iter().rev().fold(0u64, |bits, lane| bits << 16 | u64::from(*lane));
        _mm512_set1_epi64(bits as i64)
    };
    let (shift, scale) = (four(shift), four(scale.map(|scale| scale as u16)));
    let back = _mm_cvtsi32_si128(back as i32);
    for number in 0..blocks {
        // SAFETY: the caller's source and target hold the blocks and the 16 bytes that the last one reads more.
        unsafe {
            let rgb = _mm512_loadu_si512(source.add(number * 48).cast());
            for (which, index) in index.into_iter().enumerate() {
                let bytes = _mm512_permutexvar_epi8(index, rgb);
                let bytes = _mm512_mask_mov_epi8(bytes, block.alpha[which], alpha);
                let pairs = _mm512_madd_epi16(_mm512_srlv_epi16(bytes, shift), scale);
                let upper = _mm512_srl_epi64(_mm512_maskz_mov_epi32(0xaaaa, pairs), back);
                let joined = _mm512_or_si512(pairs, upper);
                let to = target.add(number * block.len + which * 32);
                _mm256_storeu_si256(to.cast(), _mm512_cvtepi64_epi32(joined));
            }
        }
    }
}
