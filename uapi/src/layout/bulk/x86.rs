// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Vector code for x86-64, and which of it this machine has.
//!
//! Transposing tiles with AVX2 uses a perfect shuffle. A byte's number in a tile consists of the channel, the pixel and the
//! byte of the element. Interleaving the first half of the registers with the second half by elements rotates the bits of
//! this number by one. As many interleavings as the channel has bits turn rows into atoms, and as many as the pixel has bits
//! turn atoms into rows. Interleaving instructions work within 128 bits, so each 128-bit lane holds its own pixels.

#![allow(clippy::needless_range_loop)] // registers are numbered as the shuffles are

use super::contract::{
    Block, Channels, Collect, Finish, PackTiles, Permute, Positions, Shuffle, Squares, Transpose, UnpackTiles, TILE,
};
use core::arch::x86_64::*;

/// The fastest code for that shape that this machine has.
pub(super) fn transpose(rows: usize, bytes: usize) -> Option<Transpose> {
    let avx512 = std::is_x86_feature_detected!("avx512vbmi")
        && std::is_x86_feature_detected!("avx512bw")
        && std::is_x86_feature_detected!("avx512vl");
    if avx512 {
        if let Some(transpose) = super::avx512::transpose(rows, bytes) {
            return Some(transpose);
        }
    }
    if std::is_x86_feature_detected!("avx2") {
        return avx2_transpose(rows, bytes);
    }
    None
}

/// AVX2 code.
pub(super) fn avx2_transpose(rows: usize, bytes: usize) -> Option<Transpose> {
    let (pack, unpack): (PackTiles, UnpackTiles) = match (rows, bytes) {
        (32, 1) => (avx2_pack::<32, 1>, avx2_unpack::<32, 1>),
        (16, 1) => (avx2_pack::<16, 1>, avx2_unpack::<16, 1>),
        (8, 1) => (avx2_pack::<8, 1>, avx2_unpack::<8, 1>),
        (16, 2) => (avx2_pack::<16, 2>, avx2_unpack::<16, 2>),
        (8, 2) => (avx2_pack::<8, 2>, avx2_unpack::<8, 2>),
        (4, 2) => (avx2_pack::<4, 2>, avx2_unpack::<4, 2>),
        _ => return None,
    };
    Some(Transpose { rows, bytes, pack, unpack, unpack_lines: None })
}

/// Interleaves the first half of `L` registers with the second half, `stages` times.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave<const L: usize, const B: usize>(registers: &mut [__m256i; 32], stages: u32) {
    for _ in 0..stages {
        let before = *registers;
        for i in 0..L / 2 {
            let (a, b) = (before[i], before[i + L / 2]);
            (registers[2 * i], registers[2 * i + 1]) = if B == 1 {
                (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b))
            } else {
                (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b))
            };
        }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn avx2_pack<const L: usize, const B: usize>(source: *const u8, stride: usize, target: *mut u8, tiles: usize) {
    for half in 0..tiles * (TILE / 32) {
        let mut registers = [_mm256_setzero_si256(); 32];
        for (row, register) in registers[..L].iter_mut().enumerate() {
            // SAFETY: each row has `tiles` tiles of two halves.
            *register = unsafe { _mm256_loadu_si256(source.add(row * stride + half * 32).cast()) };
        }
        interleave::<L, B>(&mut registers, L.ilog2());
        // The low lanes hold the first 16 bytes' pixels, the high lanes the next.
        for pair in 0..L / 2 {
            let (a, b) = (registers[2 * pair], registers[2 * pair + 1]);
            let low = _mm256_permute2x128_si256::<0x20>(a, b);
            let high = _mm256_permute2x128_si256::<0x31>(a, b);
            // SAFETY: a half tile makes L x 32 bytes of atoms.
            unsafe {
                let to = target.add(half * L * 32 + pair * 32);
                _mm256_storeu_si256(to.cast(), low);
                _mm256_storeu_si256(to.add(L * 16).cast(), high);
            }
        }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn avx2_unpack<const L: usize, const B: usize>(source: *const u8, target: *mut u8, stride: usize, tiles: usize) {
    for half in 0..tiles * (TILE / 32) {
        let mut registers = [_mm256_setzero_si256(); 32];
        for pair in 0..L / 2 {
            // SAFETY: a half tile has L x 32 bytes of atoms.
            unsafe {
                let from = source.add(half * L * 32 + pair * 32);
                let low = _mm256_loadu_si256(from.cast());
                let high = _mm256_loadu_si256(from.add(L * 16).cast());
                registers[2 * pair] = _mm256_permute2x128_si256::<0x20>(low, high);
                registers[2 * pair + 1] = _mm256_permute2x128_si256::<0x31>(low, high);
            }
        }
        interleave::<L, B>(&mut registers, (16 / B).ilog2());
        for (row, register) in registers[..L].iter().enumerate() {
            // SAFETY: each row has `tiles` tiles of two halves.
            unsafe { _mm256_storeu_si256(target.add(row * stride + half * 32).cast(), *register) };
        }
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
    let avx512 = std::is_x86_feature_detected!("avx512vbmi") && std::is_x86_feature_detected!("avx512bw");
    if !avx512 {
        return [None; 2];
    }
    [super::small::to_channels(positions, bytes), super::small::to_positions(positions, bytes)]
}

/// The code for [`Positions`] of elements of that size.
pub(super) fn positions(bytes: usize) -> Option<Positions> {
    let avx512 = std::is_x86_feature_detected!("avx512bw") && std::is_x86_feature_detected!("avx512vl");
    avx512.then(|| super::avx512::positions(bytes))
}

/// The code for [`Channels`] of elements of that size.
pub(super) fn channels(bytes: usize) -> Option<Channels> {
    let avx512 = std::is_x86_feature_detected!("avx512bw") && std::is_x86_feature_detected!("avx512vl");
    avx512.then(|| super::avx512::channels(bytes))
}

/// The code for [`Collect`] of atoms of that many bytes.
pub(super) fn collect(atom: usize) -> Option<Collect> {
    if !std::is_x86_feature_detected!("avx512f") {
        return None;
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
    if !std::is_x86_feature_detected!("avx512f") {
        return None;
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
    if std::is_x86_feature_detected!("avx512vbmi") && std::is_x86_feature_detected!("avx512bw") {
        return Some(match finish {
            Finish::Bytes => avx512_shuffle::<0>,
            Finish::Shift(_) => avx512_shuffle::<1>,
            Finish::Half => avx512_shuffle::<2>,
            Finish::Join { .. } => avx512_join,
        });
    }
    let is_bytes = finish == Finish::Bytes && std::is_x86_feature_detected!("ssse3");
    is_bytes.then_some(ssse3_shuffle as Shuffle)
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
            for which in 0..2 {
                let bytes = _mm512_permutexvar_epi8(index[which], rgb);
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

/// 16 bytes of the target at a time, each from the 16 source bytes at its first pixel.
#[target_feature(enable = "ssse3")]
unsafe fn ssse3_shuffle(block: &Block, alpha: u8, source: *const u8, target: *mut u8, blocks: usize) {
    // A piece's pixels are few enough to lie in 16 source bytes only where a pixel has 4 or 8 bytes; the chroma and
    // luma planes take theirs from two loads.
    let pieces = block.len / 16;
    let mut tables = [(0usize, [0x80u8; 16], [0x80u8; 16], [0u8; 16]); 8];
    for (piece, table) in tables[..pieces].iter_mut().enumerate() {
        let (first, low, high, fill) = table;
        let place = |byte: usize| (piece * 16 + byte) / 64 % 2;
        let at = |byte: usize| (piece * 16 + byte) % 64;
        let is_alpha = |byte: usize| block.alpha[place(byte)] >> at(byte) & 1 == 1;
        let lowest = (0..16).filter(|byte| !is_alpha(*byte)).map(|byte| block.index[place(byte)][at(byte)]).min();
        // Both loads stay within the block and the 16 bytes behind it.
        *first = usize::from(lowest.unwrap_or(0)).min(32);
        for byte in 0..16 {
            if is_alpha(byte) {
                fill[byte] = alpha;
                continue;
            }
            let from = usize::from(block.index[place(byte)][at(byte)]) - *first;
            match from {
                0..16 => low[byte] = from as u8,
                16..32 => high[byte] = from as u8 - 16,
                // SAFETY: the caller's promise is the same.
                _ => return unsafe { scalar_shuffle(block, alpha, source, target, blocks) },
            }
        }
    }
    for number in 0..blocks {
        for (piece, (first, low, high, fill)) in tables[..pieces].iter().enumerate() {
            // SAFETY: the caller's source and target hold the blocks and 16 bytes more; `first` is at most 32.
            unsafe {
                let from = source.add(number * 48 + first);
                let load = |table: &[u8; 16]| _mm_loadu_si128(table.as_ptr().cast());
                let a = _mm_shuffle_epi8(_mm_loadu_si128(from.cast()), load(low));
                let b = _mm_shuffle_epi8(_mm_loadu_si128(from.add(16).cast()), load(high));
                let sum = _mm_or_si128(_mm_or_si128(a, b), load(fill));
                _mm_storeu_si128(target.add(number * block.len + piece * 16).cast(), sum);
            }
        }
    }
}

/// One byte at a time, where 16 bytes of a plane come from more than 32 of the source.
///
/// # Safety
/// As for [`Shuffle`].
unsafe fn scalar_shuffle(block: &Block, alpha: u8, source: *const u8, target: *mut u8, blocks: usize) {
    for number in 0..blocks {
        for byte in 0..block.len {
            let (part, lane) = (byte / 64, byte % 64);
            // SAFETY: the caller's source and target hold the blocks.
            unsafe {
                let value = if block.alpha[part] >> lane & 1 == 1 {
                    alpha
                } else {
                    *source.add(number * 48 + usize::from(block.index[part][lane]))
                };
                *target.add(number * block.len + byte) = value;
            }
        }
    }
}
