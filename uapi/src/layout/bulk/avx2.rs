// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! AVX2 code for tiles of features, for the positions of kernels, and for pixels.
//!
//! Transposing tiles uses a perfect shuffle. A byte's number in a tile consists of the channel, the pixel and the byte of the
//! element. Interleaving the first half of the registers with the second half by elements rotates the bits of this number by
//! one. As many interleavings as the channel has bits turn rows into atoms, and as many as the pixel has bits turn atoms into
//! rows. Interleaving instructions work within 128 bits, so each 128-bit lane holds its own pixels or channels.

#![allow(clippy::needless_range_loop)] // registers are numbered as the shuffles are

use super::contract::{Block, Channels, Finish, PackTiles, Positions, Rows, Shuffle, Transpose, UnpackTiles, TILE};
use core::arch::x86_64::*;
use std::vec::Vec;

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
    Some(Transpose { rows, bytes, pack, unpack, unpack_lines: None })
}

/// Interleaves the first half of `L` registers with the second half, `stages` times.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave<const L: usize, const B: usize>(registers: &mut [__m256i; 16], stages: u32) {
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
unsafe fn pack<const L: usize, const B: usize>(source: *const u8, stride: usize, target: *mut u8, tiles: usize) {
    for half in 0..tiles * (TILE / 32) {
        let mut registers = [_mm256_setzero_si256(); 16];
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
unsafe fn unpack<const L: usize, const B: usize>(source: *const u8, target: *mut u8, stride: usize, tiles: usize) {
    for half in 0..tiles * (TILE / 32) {
        let mut registers = [_mm256_setzero_si256(); 16];
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

/// Squares of N x N elements, one in each 128-bit lane of N registers, transposed.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed<const N: usize, const B: usize>(registers: [__m256i; N]) -> [__m256i; N] {
    let registers = interleaved::<N, B>(interleaved::<N, B>(interleaved::<N, B>(registers)));
    if N == 16 {
        interleaved::<N, B>(registers)
    } else {
        registers
    }
}

/// Two distant rows of 16 bytes in one register.
///
/// # Safety
/// 16 bytes of both can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_lanes(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_loadu2_m128i(high.cast(), low.cast()) }
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

/// 16 permuted bytes of a block.
struct Piece {
    /// The first source byte that is read.
    first: usize,
    /// For each 16 source bytes from there on, where they go to.
    tables: [__m128i; 3],
    /// How many of these tables are used.
    windows: usize,
    /// Alpha's bytes.
    fill: __m128i,
}

impl Piece {
    #[target_feature(enable = "avx2")]
    fn new(block: &Block, alpha: u8, number: usize) -> Self {
        let at = |byte: usize| ((number * 16 + byte) / 64, (number * 16 + byte) % 64);
        let source = |byte: usize| {
            let (part, at) = at(byte);
            (block.alpha[part] >> at & 1 == 0).then(|| usize::from(block.index[part][at]))
        };
        let first = (0..16).filter_map(source).min().unwrap_or(0);
        let last = (0..16).filter_map(source).max().unwrap_or(0);
        let mut tables = [[0x80u8; 16]; 3];
        let mut fill = [0u8; 16];
        for byte in 0..16 {
            match source(byte) {
                Some(source) => tables[(source - first) / 16][byte] = ((source - first) % 16) as u8,
                None => fill[byte] = alpha,
            }
        }
        // SAFETY: a table has 16 bytes.
        let load = |table: [u8; 16]| unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
        Self { first, tables: tables.map(load), windows: (last - first) / 16 + 1, fill: load(fill) }
    }
}

/// Blocks that are converted piece by piece: as many as stay in the first-level cache.
const TOGETHER: usize = 64;

#[target_feature(enable = "avx2,f16c")]
unsafe fn shuffled<const FINISH: u32>(block: &Block, alpha: u8, source: *const u8, target: *mut u8, blocks: usize) {
    let all: Vec<Piece> = (0..block.len / 16).map(|number| Piece::new(block, alpha, number)).collect();
    for start in (0..blocks).step_by(TOGETHER) {
        let count = TOGETHER.min(blocks - start);
        for (number, piece) in all.iter().enumerate() {
            // SAFETY: the caller's source and target hold the blocks and 16 bytes more. The last window of a piece begins
            // in the block.
            unsafe {
                let from = source.add(start * 48 + piece.first);
                let to = target.add(start * block.len + number * 16);
                match piece.windows {
                    1 => pieces::<FINISH, 1>(block, piece, from, to, count),
                    2 => pieces::<FINISH, 2>(block, piece, from, to, count),
                    _ => pieces::<FINISH, 3>(block, piece, from, to, count),
                }
            }
        }
    }
}

/// A piece of `count` blocks from W windows of the source.
///
/// # Safety
/// As for [`Shuffle`].
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn pieces<const FINISH: u32, const W: usize>(
    block: &Block,
    piece: &Piece,
    source: *const u8,
    target: *mut u8,
    count: usize,
) {
    let shift = match block.finish {
        Finish::Shift(bits) => _mm_cvtsi32_si128(bits as i32),
        Finish::Bytes | Finish::Half | Finish::Join { .. } => _mm_setzero_si128(),
    };
    let tables = piece.tables.map(|table| _mm256_broadcastsi128_si256(table));
    let fill = _mm256_broadcastsi128_si256(piece.fill);
    // Each lane holds a block. If the number of blocks is odd, both lanes hold the last one.
    for low in (0..count).step_by(2) {
        let high = (low + 1).min(count - 1);
        // SAFETY: the caller's promise.
        unsafe {
            let mut bytes = fill;
            for window in 0..W {
                let at = |number: usize| source.add(number * 48 + window * 16);
                let rgb = load_lanes(at(low), at(high));
                bytes = _mm256_or_si256(bytes, _mm256_shuffle_epi8(rgb, tables[window]));
            }
            let [low, high] = [low, high].map(|number| target.add(number * block.len));
            match FINISH {
                0 => _mm256_storeu2_m128i(high.cast(), low.cast(), bytes),
                1 => _mm256_storeu2_m128i(high.cast(), low.cast(), _mm256_srl_epi16(bytes, shift)),
                _ => {
                    let half = |numbers: __m128i| {
                        let wide = _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(numbers));
                        _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide)
                    };
                    let numbers = _mm256_and_si256(bytes, _mm256_set1_epi16(0xff));
                    _mm_storeu_si128(low.cast(), half(_mm256_castsi256_si128(numbers)));
                    _mm_storeu_si128(high.cast(), half(_mm256_extracti128_si256::<1>(numbers)));
                }
            }
        }
    }
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
