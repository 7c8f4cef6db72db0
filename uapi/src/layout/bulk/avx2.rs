// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! AVX2 code for tiles of features, for the positions of kernels, and for pixels.
//!
//! Transposing tiles uses a perfect shuffle. A byte's number in a tile consists of the channel, the pixel and the byte of the
//! element. Interleaving the first half of the registers with the second half by elements rotates the bits of this number by
//! one. As many interleavings as the channel has bits turn rows into atoms, and as many as the pixel has bits turn atoms into
//! rows. Interleaving instructions work within 128 bits, so each 128-bit lane holds its own pixels or channels.

#![allow(clippy::needless_range_loop)] // registers are numbered as the shuffles are

use super::contract::{Block, Channels, Finish, PackTiles, Positions, Rows, Shuffle, Transpose, UnpackTiles, TILE};
use super::lanes_avx2::{both, load_lanes};
use core::arch::x86_64::*;

/// The code for tiles of that shape.
pub(super) fn transpose(rows: usize, bytes: usize) -> Option<Transpose> {
    let (pack, unpack): (PackTiles, UnpackTiles) = match (rows, bytes) {
        (32, 1) => (pack_32, unpack_32),
        (16, 1) => (pack::<16, 1>, unpack::<16, 1>),
        (8, 1) => (pack::<8, 1>, unpack::<8, 1>),
        (16, 2) => (pack::<16, 2>, unpack::<16, 2>),
        (8, 2) => (pack::<8, 2>, unpack::<8, 2>),
        (4, 2) => (pack::<4, 2>, unpack::<4, 2>),
        _ => return None,
    };
    Some(Transpose { rows, bytes, pack, unpack, copy: copy_rows })
}

/// Copies rows with aligned stores.
#[target_feature(enable = "avx2")]
unsafe fn copy_rows(source: *const u8, target: *mut u8, strides: [usize; 2], rows: usize, length: usize) {
    for row in 0..rows {
        // SAFETY: the caller's rows have `length` bytes, at least 32.
        let copy = |at: usize| unsafe {
            let bytes = _mm256_loadu_si256(source.add(row * strides[0] + at).cast());
            _mm256_storeu_si256(target.add(row * strides[1] + at).cast(), bytes);
        };
        // The first and the last 32 bytes may be copied twice in part.
        copy(0);
        let mut at = 32 - target.addr().wrapping_add(row * strides[1]) % 32;
        while at + 32 <= length {
            copy(at);
            at += 32;
        }
        copy(length - 32);
    }
}

/// Half tiles of other shapes than 32 rows.
#[target_feature(enable = "avx2")]
unsafe fn pack<const L: usize, const B: usize>(source: *const u8, stride: usize, target: *mut u8, tiles: usize) {
    for half in 0..tiles * (TILE / 32) {
        let mut rows = [_mm256_setzero_si256(); L];
        each_register!(L, |row| {
            // SAFETY: each row has `tiles` tiles of two halves.
            rows[row] = unsafe { _mm256_loadu_si256(source.add(row * stride + half * 32).cast()) };
        });
        let atoms = interleaved_times::<L, B>(rows, L.ilog2());
        // The low lanes hold the first 16 bytes' pixels, the high lanes the next.
        each_register!(L / 2, |pair| {
            let (a, b) = (atoms[2 * pair], atoms[2 * pair + 1]);
            let low = _mm256_permute2x128_si256::<0x20>(a, b);
            let high = _mm256_permute2x128_si256::<0x31>(a, b);
            // SAFETY: a half tile makes L x 32 bytes of atoms.
            unsafe {
                let to = target.add(half * L * 32 + pair * 32);
                _mm256_storeu_si256(to.cast(), low);
                _mm256_storeu_si256(to.add(L * 16).cast(), high);
            }
        });
    }
}

/// The reverse of [`pack`].
#[target_feature(enable = "avx2")]
unsafe fn unpack<const L: usize, const B: usize>(source: *const u8, target: *mut u8, stride: usize, tiles: usize) {
    for half in 0..tiles * (TILE / 32) {
        let mut atoms = [_mm256_setzero_si256(); L];
        each_register!(L / 2, |pair| {
            // SAFETY: a half tile has L x 32 bytes of atoms.
            unsafe {
                let from = source.add(half * L * 32 + pair * 32);
                let low = _mm256_loadu_si256(from.cast());
                let high = _mm256_loadu_si256(from.add(L * 16).cast());
                atoms[2 * pair] = _mm256_permute2x128_si256::<0x20>(low, high);
                atoms[2 * pair + 1] = _mm256_permute2x128_si256::<0x31>(low, high);
            }
        });
        let rows = interleaved_times::<L, B>(atoms, (16 / B).ilog2());
        each_register!(L, |row| {
            // SAFETY: each row has `tiles` tiles of two halves.
            unsafe { _mm256_storeu_si256(target.add(row * stride + half * 32).cast(), rows[row]) };
        });
    }
}

/// One interleaving of N registers.
#[inline]
#[target_feature(enable = "avx2")]
fn interleaved<const N: usize, const B: usize>(before: [__m256i; N]) -> [__m256i; N] {
    let mut registers = before;
    each_register!(N / 2, |i| {
        let (a, b) = (before[i], before[i + N / 2]);
        (registers[2 * i], registers[2 * i + 1]) = if B == 1 {
            (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b))
        } else {
            (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b))
        };
    });
    registers
}

/// Two to four interleavings of N registers.
#[inline]
#[target_feature(enable = "avx2")]
fn interleaved_times<const N: usize, const B: usize>(registers: [__m256i; N], times: u32) -> [__m256i; N] {
    let registers = interleaved::<N, B>(interleaved::<N, B>(registers));
    match times {
        2 => registers,
        3 => interleaved::<N, B>(registers),
        _ => interleaved::<N, B>(interleaved::<N, B>(registers)),
    }
}

/// Squares of N x N elements, one in each 128-bit lane of N registers, transposed.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed<const N: usize, const B: usize>(registers: [__m256i; N]) -> [__m256i; N] {
    interleaved_times::<N, B>(registers, N.ilog2())
}

/// Atoms of 32 bytes, int8: 16 pixels of 32 rows at a time.
#[target_feature(enable = "avx2")]
unsafe fn pack_32(source: *const u8, stride: usize, target: *mut u8, tiles: usize) {
    for first in (0..tiles * TILE).step_by(16) {
        let mut rows = [_mm256_setzero_si256(); 16];
        each_register!(16, |row| {
            // SAFETY: each row has `tiles` tiles.
            rows[row] = unsafe {
                let low = source.add(row * stride + first);
                load_lanes(low, low.add(16 * stride))
            };
        });
        let atoms = transposed::<16, 1>(rows);
        each_register!(16, |pixel| {
            // SAFETY: the target has an atom of 32 bytes per pixel.
            unsafe { _mm256_storeu_si256(target.add((first + pixel) * 32).cast(), atoms[pixel]) };
        });
    }
}

/// The reverse of [`pack_32`].
#[target_feature(enable = "avx2")]
unsafe fn unpack_32(source: *const u8, target: *mut u8, stride: usize, tiles: usize) {
    for first in (0..tiles * TILE).step_by(16) {
        let mut atoms = [_mm256_setzero_si256(); 16];
        each_register!(16, |pixel| {
            // SAFETY: the source has an atom of 32 bytes per pixel.
            atoms[pixel] = unsafe { _mm256_loadu_si256(source.add((first + pixel) * 32).cast()) };
        });
        let rows = transposed::<16, 1>(atoms);
        each_register!(16, |row| {
            // SAFETY: each row has `tiles` tiles.
            unsafe {
                let low = target.add(row * stride + first);
                _mm256_storeu2_m128i(low.add(16 * stride).cast(), low.cast(), rows[row]);
            }
        });
    }
}

/// The code for [`Positions`] of elements of that size.
pub(super) fn positions(bytes: usize) -> Positions {
    if bytes == 1 {
        positions_of::<16, 1>
    } else {
        positions_of::<8, 2>
    }
}

/// The code for [`Channels`] of elements of that size.
pub(super) fn channels(bytes: usize) -> Channels {
    if bytes == 1 {
        channels_of::<16, 1>
    } else {
        channels_of::<8, 2>
    }
}

#[target_feature(enable = "avx2")]
unsafe fn positions_of<const N: usize, const B: usize>(
    rows: &Rows,
    source: *const u8,
    target: *mut u8,
    to: usize,
    stored: core::ops::Range<usize>,
) {
    for half in 0..2 {
        let mut registers = [_mm256_setzero_si256(); N];
        each_register!(N, |row| {
            // SAFETY: the caller's promise.
            registers[row] = unsafe {
                let source = source.add(rows.rows[row]);
                load_lanes(source.add(rows.lanes[2 * half]), source.add(rows.lanes[2 * half + 1]))
            };
        });
        let positions = transposed::<N, B>(registers);
        each_register!(N, |position| {
            if stored.contains(&position) {
                // SAFETY: the caller's promise.
                unsafe {
                    let target = target.add((position - stored.start) * to + half * 32);
                    _mm256_storeu_si256(target.cast(), positions[position]);
                }
            }
        });
    }
}

#[target_feature(enable = "avx2")]
unsafe fn channels_of<const N: usize, const B: usize>(
    rows: &Rows,
    source: *const u8,
    step: usize,
    count: usize,
    target: *mut u8,
    alone: bool,
) {
    for half in 0..2 {
        let mut registers = [_mm256_setzero_si256(); N];
        each_register!(N, |position| {
            // SAFETY: the caller's promise; positions that are not there are the last one again.
            registers[position] =
                unsafe { _mm256_loadu_si256(source.add(position.min(count - 1) * step + half * 32).cast()) };
        });
        let channels = transposed::<N, B>(registers);
        // SAFETY: the caller's promise. Bytes that do not belong to a channel are stored before they are overwritten.
        unsafe {
            each_register!(N, |row| {
                let target = target.add(rows.rows[row] + rows.lanes[2 * half]);
                let lane = _mm256_castsi256_si128(channels[row]);
                if alone {
                    store_part(target, lane, count * B);
                } else {
                    _mm_storeu_si128(target.cast(), lane);
                }
            });
            each_register!(N, |row| {
                let target = target.add(rows.rows[row] + rows.lanes[2 * half + 1]);
                let lane = _mm256_extracti128_si256::<1>(channels[row]);
                if alone || half == 1 {
                    store_part(target, lane, count * B);
                } else {
                    _mm_storeu_si128(target.cast(), lane);
                }
            });
        }
    }
}

/// Stores the first `len` bytes of a register, 1 to 16.
///
/// # Safety
/// They can be written.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_part(target: *mut u8, register: __m128i, len: usize) {
    let mut bytes = [0u8; 16];
    // SAFETY: the array has 16 bytes, and the target `len`; the second copy ends there.
    unsafe {
        _mm_storeu_si128(bytes.as_mut_ptr().cast(), register);
        let copy = |size: usize| {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), target, size);
            core::ptr::copy_nonoverlapping(bytes.as_ptr().add(len - size), target.add(len - size), size);
        };
        match len {
            8.. => copy(8),
            4.. => copy(4),
            2.. => copy(2),
            _ => copy(1),
        }
    }
}

/// The code for [`super::contract::Collect`] of atoms of 8 bytes.
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn collect_8(source: *const u8, stride: usize, target: *mut u8, blocks: usize) {
    for half in 0..blocks * 2 {
        // SAFETY: the caller's promise.
        unsafe {
            let chunk = |number: usize| _mm_loadl_epi64(source.add((4 * half + number) * stride).cast());
            let pair = |number: usize| _mm_unpacklo_epi64(chunk(number), chunk(number + 1));
            _mm256_storeu_si256(target.add(half * 32).cast(), _mm256_set_m128i(pair(2), pair(0)));
        }
    }
}

/// The code for [`super::contract::Squares`] of units of 8 bytes: squares of 4 x 4 of them.
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn squares_8(
    source: *const u8,
    target: *mut u8,
    strides: [usize; 2],
    steps: [usize; 2],
    blocks: usize,
) {
    for part in 0..blocks * 4 {
        let (block, row, unit) = (part / 4, part / 2 % 2 * 4, part % 2 * 4);
        // SAFETY: the caller's promise.
        unsafe {
            let from = source.add(block * steps[0] + row * strides[0] + unit * 8);
            let to = target.add(block * steps[1] + unit * strides[1] + row * 8);
            let [a, b, c, d] = [0, 1, 2, 3].map(|row| _mm256_loadu_si256(from.add(row * strides[0]).cast()));
            let (ab, cd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpacklo_epi64(c, d));
            let (ab_high, cd_high) = (_mm256_unpackhi_epi64(a, b), _mm256_unpackhi_epi64(c, d));
            let units = [
                _mm256_permute2x128_si256::<0x20>(ab, cd),
                _mm256_permute2x128_si256::<0x20>(ab_high, cd_high),
                _mm256_permute2x128_si256::<0x31>(ab, cd),
                _mm256_permute2x128_si256::<0x31>(ab_high, cd_high),
            ];
            for (row, unit) in units.into_iter().enumerate() {
                _mm256_storeu_si256(to.add(row * strides[1]).cast(), unit);
            }
        }
    }
}

/// The code that shuffles RGB into planes.
pub(super) fn shuffle(finish: Finish) -> Shuffle {
    match finish {
        Finish::Bytes => shuffled::<0>,
        Finish::Shift(_) => shuffled::<1>,
        Finish::Half => shuffled::<2>,
        Finish::Join { .. } => joined,
    }
}

/// 16 bytes of a plane hold whole pixels, so all of them are made from the source in the same way.
#[target_feature(enable = "avx2")]
unsafe fn shuffled<const FINISH: u32>(block: &Block, alpha: u8, source: *const u8, target: *mut u8, blocks: usize) {
    let count = blocks * block.len / 16;
    // SAFETY: the caller's source and target hold the blocks. The tables of a piece read at most 16 bytes after its block.
    unsafe {
        match block.len {
            16 => pieces::<FINISH, 48>(block, alpha, source, target, count),
            32 => pieces::<FINISH, 24>(block, alpha, source, target, count),
            64 => pieces::<FINISH, 12>(block, alpha, source, target, count),
            _ => pieces::<FINISH, 6>(block, alpha, source, target, count),
        }
    }
}

/// Makes `count` times 16 bytes from `STEP` bytes of the source each.
///
/// # Safety
/// As for [`Shuffle`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pieces<const FINISH: u32, const STEP: usize>(
    block: &Block,
    alpha: u8,
    source: *const u8,
    target: *mut u8,
    count: usize,
) {
    // For each 16 source bytes, where they go to.
    let (mut tables, mut fill) = ([[0x80; 16]; 3], [0; 16]);
    for byte in 0..16 {
        let from = block.index[0][byte];
        match block.alpha[0] >> byte & 1 {
            0 => tables[usize::from(from / 16)][byte] = from % 16,
            _ => fill[byte] = alpha,
        }
    }
    let (tables, fill) = (tables.map(|table| both(&table)), both(&fill));
    let shift = match block.finish {
        Finish::Shift(bits) => _mm_cvtsi32_si128(bits as i32),
        Finish::Bytes | Finish::Half | Finish::Join { .. } => _mm_setzero_si128(),
    };
    // Each lane makes 16 bytes. If their number is odd, both lanes make the last ones.
    for low in (0..count).step_by(2) {
        let high = (low + 1).min(count - 1);
        // SAFETY: the caller's promise.
        unsafe {
            let mut bytes = fill;
            for window in 0..STEP.div_ceil(16) {
                let at = |number: usize| source.add(number * STEP + window * 16);
                let rgb = load_lanes(at(low), at(high));
                bytes = _mm256_or_si256(bytes, _mm256_shuffle_epi8(rgb, tables[window]));
            }
            let made = match FINISH {
                0 => bytes,
                1 => _mm256_srl_epi16(bytes, shift),
                _ => halves(bytes),
            };
            _mm256_storeu2_m128i(target.add(high * 16).cast(), target.add(low * 16).cast(), made);
        }
    }
}

/// The low byte of each 16 bits as a number in fp16. The number times 2^-112 has the exponent in fp32 that the number has in fp16,
/// and the rest of its bits are 0 from the eighth of the fraction on.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(lanes: __m256i) -> __m256i {
    let scale = _mm256_set1_ps(f32::from_bits((127 - 112) << 23));
    let single = |number: __m256i| _mm256_castps_si256(_mm256_mul_ps(_mm256_cvtepi32_ps(number), scale));
    let even = single(_mm256_and_si256(lanes, _mm256_set1_epi32(0xff)));
    let odd = single(_mm256_srli_epi32::<24>(lanes));
    _mm256_or_si256(_mm256_srli_epi32::<13>(even), _mm256_slli_epi32::<3>(odd))
}

/// Joins 10-bit components, 8 pixels at a time. A component of ten bits is its byte with the byte's upper two bits below.
#[target_feature(enable = "avx2")]
unsafe fn joined(block: &Block, alpha: u8, source: *const u8, target: *mut u8, blocks: usize) {
    let Finish::Join { shift, .. } = block.finish else { return };
    // The lowest bit of each of the lanes in which components lie, from the lowest up, and the lanes of colours.
    let mut lsb = [0; 4];
    for lane in 1..4 {
        lsb[lane] = lsb[lane - 1] + 16 - u32::from(shift[lane - 1]);
    }
    let is_alpha = |lane: usize| block.alpha[0] >> (2 * lane) & 1 == 1;
    let first = usize::from(is_alpha(0));
    let channel = |colour: usize| block.index[0][2 * (first + colour)];
    let [low, middle, high] = [0, 1, 2].map(|colour| lsb[first + colour] + 2);
    // The lowest and the highest byte of each pixel in 16 bits each, and the middle one at bit 8.
    let mut outer = [0x80u8; 16];
    let mut inner = [0x80u8; 16];
    for pixel in 0..4 {
        outer[4 * pixel] = 3 * pixel as u8 + channel(0);
        outer[4 * pixel + 2] = 3 * pixel as u8 + channel(2);
        inner[4 * pixel + 1] = 3 * pixel as u8 + channel(1);
    }
    // SAFETY: a table has 16 bytes.
    let [outer, inner] =
        [outer, inner].map(|table| _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) }));
    let factors = _mm256_set1_epi32(1 << low | 1 << high);
    let by = _mm_cvtsi32_si128(middle as i32 - 8);
    let below = _mm256_set1_epi32((0b11 << (low - 2)) | (0b11 << (middle - 2)) | (0b11 << (high - 2)));
    let alpha = _mm256_set1_epi32((u32::from(alpha >> 6) << if first == 1 { 0 } else { 30 }) as i32);
    for half in 0..blocks * 2 {
        // SAFETY: the caller's source and target hold the blocks and 16 bytes more.
        unsafe {
            let from = source.add(half * 24);
            let rgb = load_lanes(from, from.add(12));
            let outer = _mm256_mullo_epi16(_mm256_shuffle_epi8(rgb, outer), factors);
            let inner = _mm256_sll_epi32(_mm256_shuffle_epi8(rgb, inner), by);
            let bytes = _mm256_or_si256(outer, inner);
            let lower = _mm256_and_si256(_mm256_srli_epi32::<8>(bytes), below);
            let pixels = _mm256_or_si256(_mm256_or_si256(bytes, lower), alpha);
            _mm256_storeu_si256(target.add(half * 32).cast(), pixels);
        }
    }
}
