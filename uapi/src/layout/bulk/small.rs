// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! AVX-512 code that turns channels of positions into positions of channels, and partly back, for kernels of so few
//! positions that all of them fit in registers.
//!
//! 2, 3 and 4 positions are one permutation of all bytes: each target register takes from one or two pairs of source
//! registers. Of 9 positions the first 8 are transposed as powers of two are, and the ninth is put between them.

#![allow(clippy::needless_range_loop)] // registers are numbered as the shuffles are

use super::contract::Permute;
use core::arch::x86_64::*;

/// The code for that number of positions and size of elements: to positions of channels.
pub(super) fn to_channels(positions: usize, bytes: usize) -> Option<Permute> {
    match (positions, bytes) {
        (2, 1) => Some(pairs::<2, 1, false>),
        (3, 1) => Some(pairs::<3, 1, false>),
        (4, 1) => Some(pairs::<4, 1, false>),
        (9, 1) => Some(nine::<1>),
        (2, 2) => Some(pairs::<2, 2, false>),
        (3, 2) => Some(pairs::<3, 2, false>),
        (4, 2) => Some(pairs::<4, 2, false>),
        (9, 2) => Some(nine::<2>),
        _ => None,
    }
}

/// To channels of positions, where it is faster than [`super::contract::Positions`].
pub(super) fn to_positions(positions: usize, bytes: usize) -> Option<Permute> {
    match (positions, bytes) {
        (2, 1) => Some(pairs::<2, 1, true>),
        (3, 1) => Some(pairs::<3, 1, true>),
        (4, 1) => Some(pairs::<4, 1, true>),
        (2, 2) => Some(pairs::<2, 2, true>),
        (3, 2) => Some(pairs::<3, 2, true>),
        (4, 2) => Some(pairs::<4, 2, true>),
        _ => None,
    }
}

/// Registers of [`pairs`] at most.
const MAX: usize = 4;

/// Where the elements of `N` registers come from, `B` bytes each: from the positions' channels, or back.
struct Pairs<const N: usize, const B: usize, const BACK: bool> {
    /// For each target register, each element's place within its pair of source registers.
    index: [[u8; 64]; MAX],
    /// For each target register and pair of source registers, which elements come from that pair.
    mask: [[u64; MAX / 2]; MAX],
}

impl<const N: usize, const B: usize, const BACK: bool> Pairs<N, B, BACK> {
    const TABLE: Self = {
        let lanes = 64 / B;
        let mut table = Self { index: [[0; 64]; MAX], mask: [[0; MAX / 2]; MAX] };
        let mut at = 0;
        while at < N * lanes {
            let from = if BACK { at % lanes * N + at / lanes } else { at % N * lanes + at / N };
            let (register, lane) = (at / lanes, at % lanes);
            table.index[register][lane * B] = (from % (2 * lanes)) as u8;
            table.mask[register][from / (2 * lanes)] |= 1 << lane;
            at += 1;
        }
        table
    };
}

/// A table of 64 bytes as a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(table: &[u8; 64]) -> __m512i {
    // SAFETY: a table has 64 bytes.
    unsafe { _mm512_loadu_si512(table.as_ptr().cast()) }
}

/// `N` positions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn pairs<const N: usize, const B: usize, const BACK: bool>(
    source: *const u8,
    from: usize,
    target: *mut u8,
    to: usize,
) {
    let table = &Pairs::<N, B, BACK>::TABLE;
    let mut registers = [_mm512_setzero_si512(); MAX];
    for position in 0..N {
        // SAFETY: the caller's source holds all positions.
        registers[position] = unsafe { _mm512_loadu_si512(source.add(position * from).cast()) };
    }
    for out in 0..N {
        let index = load(&table.index[out]);
        let mut sum = _mm512_setzero_si512();
        for pair in 0..N.div_ceil(2) {
            let (a, b, mask) = (registers[2 * pair], registers[2 * pair + 1], table.mask[out][pair]);
            let part = if B == 1 {
                _mm512_maskz_permutex2var_epi8(mask, a, index, b)
            } else {
                _mm512_maskz_permutex2var_epi16(mask as u32, a, index, b)
            };
            sum = _mm512_or_si512(sum, part);
        }
        // SAFETY: the caller's target holds all registers.
        unsafe { _mm512_storeu_si512(target.add(out * to).cast(), sum) };
    }
}

/// The sources of the bytes of 9 target registers. A group is the first 8 positions of as many channels as fill a
/// register; the next group follows, then the ninth position.
struct Nine<const B: usize> {
    group: [usize; 9],
    /// Each byte's place in the register from which it comes.
    index: [[u8; 64]; 9],
    next: [u64; 9],
    ninth: [u64; 9],
}

impl<const B: usize> Nine<B> {
    const TABLE: Self = {
        let channels = 8 / B;
        let mut table = Self { group: [0; 9], index: [[0; 64]; 9], next: [0; 9], ninth: [0; 9] };
        let mut at = 0;
        while at < 9 * 64 {
            let (out, lane) = (at / 64, at % 64);
            let (channel, byte) = (at / (9 * B), at % (9 * B));
            let group = channel / channels;
            if lane == 0 {
                table.group[out] = group;
            }
            if byte >= 8 * B {
                table.index[out][lane] = (channel * B + byte - 8 * B) as u8;
                table.ninth[out] |= 1 << lane;
            } else {
                table.index[out][lane] = (channel % channels * 8 * B + byte) as u8;
                if group != table.group[out] {
                    table.next[out] |= 1 << lane;
                }
            }
            at += 1;
        }
        table
    };
}

/// Words of 16 bits: lane `l` takes every fourth word from the `l`-th on.
static FOURTHS: [u16; 32] = {
    let mut index = [0; 32];
    let mut at = 0;
    while at < 32 {
        index[at] = (at % 8 * 4 + at / 8) as u16;
        at += 1;
    }
    index
};

/// Interleaves the first half of the registers with the second half by elements of `B` bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleave<const B: usize>(before: &[__m512i; 8]) -> [__m512i; 8] {
    let mut registers = *before;
    for i in 0..4 {
        let (a, b) = (before[i], before[i + 4]);
        (registers[2 * i], registers[2 * i + 1]) = if B == 1 {
            (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b))
        } else {
            (_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b))
        };
    }
    registers
}

/// 9 positions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn nine<const B: usize>(source: *const u8, from: usize, target: *mut u8, to: usize) {
    let table = &Nine::<B>::TABLE;
    // SAFETY: the table has 64 bytes; the caller's source holds all positions.
    let (fourths, ninth) =
        unsafe { (_mm512_loadu_si512(FOURTHS.as_ptr().cast()), _mm512_loadu_si512(source.add(8 * from).cast())) };
    let mut registers = [_mm512_setzero_si512(); 8];
    for position in 0..8 {
        // SAFETY: as above.
        let channels = unsafe { _mm512_loadu_si512(source.add(position * from).cast()) };
        // Each lane gets what it keeps in each group.
        registers[position] = _mm512_permutexvar_epi16(fourths, channels);
    }
    let groups = interleave::<B>(&interleave::<B>(&interleave::<B>(&registers)));
    for out in 0..9 {
        let (index, group) = (load(&table.index[out]), table.group[out]);
        let bytes = _mm512_permutexvar_epi8(index, groups[group]);
        let bytes = _mm512_mask_permutexvar_epi8(bytes, table.next[out], index, groups[(group + 1) % 8]);
        let bytes = _mm512_mask_permutexvar_epi8(bytes, table.ninth[out], index, ninth);
        // SAFETY: the caller's target holds all registers.
        unsafe { _mm512_storeu_si512(target.add(out * to).cast(), bytes) };
    }
}
