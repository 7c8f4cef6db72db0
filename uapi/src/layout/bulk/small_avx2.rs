// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! AVX2 code that turns channels of positions into positions of channels, and back, for kernels of 4, 9 and 25 positions.
//!
//! Of 4 positions, elements are grouped by position within 16 bytes, and the groups are transposed. Of an odd number of positions,
//! as many channels as a lane of 16 bytes has elements fill that number of lanes. No two of a position's elements lie at the same
//! place of their lanes, because an odd number has no common factor with 16 or 8. So the registers are first rotated among each
//! other, at each place by another number, until each register has one position, and then permuted. A rotation by the number of
//! the place is a rotation by 1 at places whose number has bit 0, by 2 where it has bit 1, and so on.

#![allow(clippy::needless_range_loop)] // registers are numbered as the shuffles are

use super::contract::Permute;
use super::lanes_avx2::{both, load_lanes};
use core::arch::x86_64::*;
use core::mem::MaybeUninit;

/// The code for that number of positions and size of elements: to positions of channels.
pub(super) fn to_channels(positions: usize, bytes: usize) -> Option<Permute> {
    match (positions, bytes) {
        (4, 1) => Some(four_to_channels::<1>),
        (4, 2) => Some(four_to_channels::<2>),
        (9, 1) => Some(odd_to_channels::<9, 1>),
        (9, 2) => Some(odd_to_channels::<9, 2>),
        (25, 1) => Some(many_to_channels::<25, 1>),
        (25, 2) => Some(many_to_channels::<25, 2>),
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
        (25, 1) => Some(many_to_positions::<25, 1>),
        (25, 2) => Some(many_to_positions::<25, 2>),
        _ => None,
    }
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
unsafe fn four_to_positions<const B: usize>(source: *const u8, _: usize, target: *mut u8, to: usize) {
    let table = both(const { &grouped(B) });
    for half in 0..2 {
        let mut lanes = [_mm256_setzero_si256(); 4];
        for i in 0..4 {
            let [low, high] = [i, i + 4].map(|lane| (8 * half + lane) * 16);
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
unsafe fn four_to_channels<const B: usize>(source: *const u8, from: usize, target: *mut u8, _: usize) {
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
            unsafe { _mm256_storeu_si256(target.add((4 * half + number) * 32).cast(), register) };
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

/// One register at the places whose number has not that bit, another at those whose number has it.
#[inline]
#[target_feature(enable = "avx2")]
fn choose<const B: usize, const BIT: usize>(without: __m256i, with: __m256i) -> __m256i {
    match B * BIT {
        1 => _mm256_blendv_epi8(without, with, _mm256_set1_epi16(!0xff)),
        2 => _mm256_blend_epi16::<0b1010_1010>(without, with),
        4 => _mm256_blend_epi32::<0b1010_1010>(without, with),
        8 => _mm256_blend_epi32::<0b1100_1100>(without, with),
        // Lanes of 8 places have no such bit.
        _ => without,
    }
}

/// Rotates N registers by `BIT`, or back, at those places whose number has that bit.
#[inline]
#[target_feature(enable = "avx2")]
fn turn<const N: usize, const B: usize, const BIT: usize, const BACK: bool>(before: [__m256i; N]) -> [__m256i; N] {
    let mut after = before;
    each_register!(N, |number| {
        after[number] = choose::<B, BIT>(before[number], before[(number + if BACK { BIT } else { N - BIT }) % N]);
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
unsafe fn odd_to_positions<const N: usize, const B: usize>(source: *const u8, _: usize, target: *mut u8, to: usize) {
    let (tables, lanes) = const { (&places::<N>(B, false), lanes::<N>(B)) };
    for half in 0..2 {
        let mut registers = [_mm256_setzero_si256(); N];
        each_register!(N, |number| {
            // SAFETY: the caller's source holds all registers.
            registers[number] = unsafe {
                let low = source.add((half * 2 * N + lanes[number]) * 16);
                load_lanes(low, low.add(N * 16))
            };
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
unsafe fn odd_to_channels<const N: usize, const B: usize>(source: *const u8, from: usize, target: *mut u8, _: usize) {
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
            // SAFETY: the caller's target holds all registers.
            unsafe {
                let low = target.add((half * 2 * N + lanes[number]) * 16);
                _mm256_storeu2_m128i(low.add(N * 16).cast(), low.cast(), registers[number]);
            }
        });
    }
}

/// The same as [`odd_to_positions`] for more positions than there are registers: each position is finished before the next, and
/// only the last few results of each rotation are kept. The lines of many positions may share a set of the cache, so each line is
/// written once, after both its halves are made.
#[target_feature(enable = "avx2")]
unsafe fn many_to_positions<const N: usize, const B: usize>(source: *const u8, _: usize, target: *mut u8, to: usize) {
    let (tables, lanes) = const { (&places::<N>(B, false), lanes::<N>(B)) };
    let mut lines = MaybeUninit::<[[__m256i; 2]; N]>::uninit();
    let lines: *mut __m256i = lines.as_mut_ptr().cast();
    for half in 0..2 {
        let load = |number: usize| {
            // SAFETY: the caller's source holds all registers.
            unsafe {
                let low = source.add((half * 2 * N + lanes[number % N]) * 16);
                load_lanes(low, low.add(N * 16))
            }
        };
        let by_8 = |number: usize| choose::<B, 8>(load(number), load(number + N - 8));
        let mut eight = [_mm256_setzero_si256(); N];
        let (mut four, mut two) = (eight, eight);
        // What the first positions need of the last ones.
        for number in N - 7..N {
            eight[number] = by_8(number);
        }
        for number in N - 3..N {
            four[number] = choose::<B, 4>(eight[number], eight[number - 4]);
        }
        two[N - 1] = choose::<B, 2>(four[N - 1], four[N - 3]);
        each_register!(N, |position| {
            eight[position] = by_8(position);
            four[position] = choose::<B, 4>(eight[position], eight[(position + N - 4) % N]);
            two[position] = choose::<B, 2>(four[position], four[(position + N - 2) % N]);
            let one = choose::<B, 1>(two[position], two[(position + N - 1) % N]);
            // SAFETY: there are N lines of two halves.
            unsafe { lines.add(position * 2 + half).write(_mm256_shuffle_epi8(one, both(&tables[position]))) };
        });
    }
    for position in 0..N {
        // SAFETY: all lines are written; the caller's target holds all registers.
        unsafe { core::ptr::copy_nonoverlapping(lines.add(position * 2).cast(), target.add(position * to), 64) };
    }
}

/// The reverse of [`many_to_positions`]. Places 8 to 15 are stored where the rotation by 8 would bring them.
#[target_feature(enable = "avx2")]
unsafe fn many_to_channels<const N: usize, const B: usize>(source: *const u8, from: usize, target: *mut u8, _: usize) {
    let (tables, lanes) = const { (&places::<N>(B, true), lanes::<N>(B)) };
    for half in 0..2 {
        let load = |position: usize| {
            // SAFETY: the caller's source holds all registers.
            let channels = unsafe { _mm256_loadu_si256(source.add(position * from + half * 32).cast()) };
            _mm256_shuffle_epi8(channels, both(&tables[position]))
        };
        let mut all = [_mm256_setzero_si256(); N];
        let (mut one, mut two) = (all, all);
        // What the last positions need of the first ones.
        for number in 0..7 {
            all[number] = load(number);
        }
        for number in 0..6 {
            one[number] = choose::<B, 1>(all[number], all[number + 1]);
        }
        for number in 0..4 {
            two[number] = choose::<B, 2>(one[number], one[number + 2]);
        }
        each_register!(N, |count| {
            let number = N - 1 - count;
            all[number] = load(number);
            one[number] = choose::<B, 1>(all[number], all[(number + 1) % N]);
            two[number] = choose::<B, 2>(one[number], one[(number + 2) % N]);
            let four = choose::<B, 4>(two[number], two[(number + 4) % N]);
            let (a, b) = (_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four));
            let high = if B == 1 { lanes[(number + N - 8) % N] } else { lanes[number] };
            // SAFETY: the caller's target holds all registers.
            unsafe {
                let [low, high] = [lanes[number] * 16, high * 16 + 8].map(|at| target.add(half * N * 32 + at));
                _mm_storel_epi64(low.cast(), a);
                _mm_storel_epi64(low.add(N * 16).cast(), b);
                _mm_storeh_pd(high.cast(), _mm_castsi128_pd(a));
                _mm_storeh_pd(high.add(N * 16).cast(), _mm_castsi128_pd(b));
            }
        });
    }
}
