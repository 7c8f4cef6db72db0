// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! AVX2 code that turns channels of positions into positions of channels, and back, for kernels of 4 and 9 positions.
//!
//! Of 4 positions, elements are grouped by position within 16 bytes, and the groups are transposed. Of an odd number of positions,
//! as many channels as a lane of 16 bytes has elements fill that number of lanes. No two of a position's elements lie at the same
//! place of their lanes, because an odd number has no common factor with 16 or 8. So the registers are first rotated among each
//! other, at each place by another number, until each register has one position, and then permuted.

#![allow(clippy::needless_range_loop)] // registers are numbered as the shuffles are

use super::contract::Permute;
use core::arch::x86_64::*;

/// The code for that number of positions and size of elements: to positions of channels.
pub(super) fn to_channels(positions: usize, bytes: usize) -> Option<Permute> {
    match (positions, bytes) {
        (4, 1) => Some(four_to_channels::<1>),
        (4, 2) => Some(four_to_channels::<2>),
        (9, 1) => Some(odd_to_channels::<9, 1>),
        (9, 2) => Some(odd_to_channels::<9, 2>),
        _ => None,
    }
}

/// To channels of positions.
pub(super) fn to_positions(positions: usize, bytes: usize) -> Option<Permute> {
    match (positions, bytes) {
        (4, 1) => Some(four_to_positions::<1>),
        (4, 2) => Some(four_to_positions::<2>),
        (9, 1) => Some(odd_to_positions::<9, 1>),
        (9, 2) => Some(odd_to_positions::<9, 2>),
        _ => None,
    }
}

/// The place of byte `at` in registers of 64 bytes that are `step` bytes apart.
#[inline]
fn place(at: usize, step: usize) -> usize {
    at / 64 * step + at % 64
}

/// A table of 16 bytes in both lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn both(table: &[u8; 16]) -> __m256i {
    // SAFETY: 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}

/// Two lanes of 16 bytes, from two addresses.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_lanes(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_loadu2_m128i(high.cast(), low.cast()) }
}

/// The bytes of a lane in the order of their positions, for 4 positions.
const fn grouped(bytes: usize) -> [u8; 16] {
    let mut table = [0; 16];
    let mut at = 0;
    while at < 16 {
        let (position, channel, byte) = (at / 4, at % 4 / bytes, at % bytes);
        table[at] = (channel * 4 * bytes + position * bytes + byte) as u8;
        at += 1;
    }
    table
}

#[target_feature(enable = "avx2")]
unsafe fn four_to_positions<const B: usize>(source: *const u8, from: usize, target: *mut u8, to: usize) {
    let table = both(const { &grouped(B) });
    for half in 0..2 {
        let mut lanes = [_mm256_setzero_si256(); 4];
        for i in 0..4 {
            let [low, high] = [i, i + 4].map(|lane| place((8 * half + lane) * 16, from));
            // SAFETY: the caller's source holds all registers.
            lanes[i] = _mm256_shuffle_epi8(unsafe { load_lanes(source.add(low), source.add(high)) }, table);
        }
        let [a, b, c, d] = lanes;
        let (low, high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        let (next_low, next_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
        let positions = [
            _mm256_unpacklo_epi64(low, next_low),
            _mm256_unpackhi_epi64(low, next_low),
            _mm256_unpacklo_epi64(high, next_high),
            _mm256_unpackhi_epi64(high, next_high),
        ];
        for (position, register) in positions.into_iter().enumerate() {
            // SAFETY: the caller's target holds all registers.
            unsafe { _mm256_storeu_si256(target.add(position * to + half * 32).cast(), register) };
        }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn four_to_channels<const B: usize>(source: *const u8, from: usize, target: *mut u8, to: usize) {
    for half in 0..2 {
        // SAFETY: the caller's source holds all registers.
        let load = |position| unsafe { _mm256_loadu_si256(source.add(position * from + half * 32).cast()) };
        let (a, b, c, d) = (load(0), load(1), load(2), load(3));
        let lanes = if B == 1 {
            let (low, high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
            let (next_low, next_high) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
            [
                _mm256_unpacklo_epi16(low, next_low),
                _mm256_unpackhi_epi16(low, next_low),
                _mm256_unpacklo_epi16(high, next_high),
                _mm256_unpackhi_epi16(high, next_high),
            ]
        } else {
            let (low, high) = (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b));
            let (next_low, next_high) = (_mm256_unpacklo_epi16(c, d), _mm256_unpackhi_epi16(c, d));
            [
                _mm256_unpacklo_epi32(low, next_low),
                _mm256_unpackhi_epi32(low, next_low),
                _mm256_unpacklo_epi32(high, next_high),
                _mm256_unpackhi_epi32(high, next_high),
            ]
        };
        let [a, b, c, d] = lanes;
        let registers = [
            _mm256_permute2x128_si256::<0x20>(a, b),
            _mm256_permute2x128_si256::<0x20>(c, d),
            _mm256_permute2x128_si256::<0x31>(a, b),
            _mm256_permute2x128_si256::<0x31>(c, d),
        ];
        for (number, register) in registers.into_iter().enumerate() {
            // SAFETY: the caller's target holds all registers.
            unsafe { _mm256_storeu_si256(target.add(place((4 * half + number) * 32, to)).cast(), register) };
        }
    }
}

/// For each of N positions, the place in its lanes of each channel's element, or (`back`) the channel of each place.
const fn places<const N: usize>(bytes: usize, back: bool) -> [[u8; 16]; N] {
    let count = 16 / bytes;
    let mut table = [[0; 16]; N];
    let mut at = 0;
    while at < N * 16 {
        let (position, channel, byte) = (at / 16, at % 16 / bytes, at % bytes);
        let place = (N * channel + position) % count;
        let (to, from) = if back { (place, channel) } else { (channel, place) };
        table[position][to * bytes + byte] = (from * bytes + byte) as u8;
        at += 1;
    }
    table
}

/// For each of N registers, the lane that it has before the rotation: at place 0, that with its position.
const fn lanes<const N: usize>(bytes: usize) -> [usize; N] {
    let mut lanes = [0; N];
    let mut lane = 0;
    while lane < N {
        lanes[lane * (16 / bytes) % N] = lane;
        lane += 1;
    }
    lanes
}

/// The bytes of 16 whose place, modulo N, has that bit.
const fn turned<const N: usize>(bit: usize) -> [u8; 16] {
    let mut mask = [0; 16];
    let mut at = 0;
    while at < 16 {
        mask[at] = if (at % N) & bit != 0 { 0xff } else { 0 };
        at += 1;
    }
    mask
}

/// Rotates N registers by `BIT`, or back, at those places whose number has that bit.
#[inline]
#[target_feature(enable = "avx2")]
fn turn<const N: usize, const B: usize, const BIT: usize, const BACK: bool>(before: [__m256i; N]) -> [__m256i; N] {
    let mut after = before;
    let mask = both(const { &turned::<N>(BIT) });
    each_register!(N, |number| {
        let (here, other) = (before[number], before[(number + if BACK { BIT } else { N - BIT }) % N]);
        after[number] = match (B, BIT) {
            (1, _) => _mm256_blendv_epi8(here, other, mask),
            (_, 1) => _mm256_blend_epi16::<0b1010_1010>(here, other),
            (_, 2) => _mm256_blend_epi32::<0b1010_1010>(here, other),
            (_, 4) => _mm256_blend_epi32::<0b1100_1100>(here, other),
            // Lanes of 8 places have no such bit.
            _ => here,
        };
    });
    after
}

/// Rotates N registers at each place by its number, or back.
#[inline]
#[target_feature(enable = "avx2")]
fn turned_by_place<const N: usize, const B: usize, const BACK: bool>(registers: [__m256i; N]) -> [__m256i; N] {
    let registers = turn::<N, B, 2, BACK>(turn::<N, B, 1, BACK>(registers));
    turn::<N, B, 8, BACK>(turn::<N, B, 4, BACK>(registers))
}

#[target_feature(enable = "avx2")]
unsafe fn odd_to_positions<const N: usize, const B: usize>(source: *const u8, from: usize, target: *mut u8, to: usize) {
    let (tables, lanes) = const { (&places::<N>(B, false), lanes::<N>(B)) };
    for half in 0..2 {
        let mut registers = [_mm256_setzero_si256(); N];
        each_register!(N, |number| {
            let at = |group: usize| place(((2 * half + group) * N + lanes[number]) * 16, from);
            // SAFETY: the caller's source holds all registers.
            registers[number] = unsafe { load_lanes(source.add(at(0)), source.add(at(1))) };
        });
        let registers = turned_by_place::<N, B, false>(registers);
        each_register!(N, |position| {
            let channels = _mm256_shuffle_epi8(registers[position], both(&tables[position]));
            // SAFETY: the caller's target holds all registers.
            unsafe { _mm256_storeu_si256(target.add(position * to + half * 32).cast(), channels) };
        });
    }
}

#[target_feature(enable = "avx2")]
unsafe fn odd_to_channels<const N: usize, const B: usize>(source: *const u8, from: usize, target: *mut u8, to: usize) {
    let (tables, lanes) = const { (&places::<N>(B, true), lanes::<N>(B)) };
    for half in 0..2 {
        let mut registers = [_mm256_setzero_si256(); N];
        each_register!(N, |position| {
            // SAFETY: the caller's source holds all registers.
            let channels = unsafe { _mm256_loadu_si256(source.add(position * from + half * 32).cast()) };
            registers[position] = _mm256_shuffle_epi8(channels, both(&tables[position]));
        });
        let registers = turned_by_place::<N, B, true>(registers);
        each_register!(N, |number| {
            let at = |group: usize| place(((2 * half + group) * N + lanes[number]) * 16, to);
            // SAFETY: the caller's target holds all registers.
            unsafe {
                _mm256_storeu2_m128i(target.add(at(1)).cast(), target.add(at(0)).cast(), registers[number]);
            }
        });
    }
}
