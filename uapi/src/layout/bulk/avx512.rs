// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! AVX-512 code that moves elements between rows: pixels and surfaces, channels and positions of a kernel.
//!
//! Loads gather distant rows into one register, 16 bytes per lane, which needs no shuffle. Then either the lanes of 16
//! registers are exchanged with the elements within them (as many interleavings as an element's number has bits), or 2,
//! 4 or 8 registers exchange units of 32, 16 or 8 bytes. Interleaving two registers takes one instruction on every
//! machine. Byte permutations of two registers take three on some.

#![allow(clippy::needless_range_loop)] // registers are numbered as the shuffles are

use super::contract::{Channels, Positions, Rows};
use core::arch::x86_64::*;

/// The code for [`Positions`] of elements of that size.
pub(super) fn positions(bytes: usize) -> Positions {
    match bytes {
        1 => self::bytes::positions,
        _ => halves::positions,
    }
}

/// The code for [`Channels`] of elements of that size.
pub(super) fn channels(bytes: usize) -> Channels {
    match bytes {
        1 => self::bytes::channels,
        _ => halves::channels,
    }
}

/// Units of 64 / K bytes of K registers from two of them, alternating: from the lower halves, or from the upper.
const fn alternating(k: usize) -> [[u64; 8]; 2] {
    let words = 8 / k;
    let mut tables = [[0; 8]; 2];
    let mut at = 0;
    while at < 16 {
        let (unit, word) = (at / words, at % words);
        tables[at / 8][at % 8] = (unit % 2 * 8 + unit / 2 * words + word) as u64;
        at += 1;
    }
    tables
}

static ALTERNATING: [[[u64; 8]; 2]; 3] = [alternating(2), alternating(4), alternating(8)];

/// A table as a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn table<T>(table: &T) -> __m512i {
    const { assert!(size_of::<T>() == 64) };
    // SAFETY: a table has 64 bytes.
    unsafe { _mm512_loadu_si512((&raw const *table).cast()) }
}

/// 16 bytes at each of four places.
///
/// # Safety
/// All of them can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_lanes(lanes: [*const u8; 4]) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b, c, d] = lanes.map(|lane| _mm_loadu_si128(lane.cast()));
        let rows = _mm512_mask_broadcast_i32x4(_mm512_castsi128_si512(a), 0x00f0, b);
        let rows = _mm512_mask_broadcast_i32x4(rows, 0x0f00, c);
        _mm512_mask_broadcast_i32x4(rows, 0xf000, d)
    }
}

/// One of a register's four lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn lane<const LANE: i32>(register: __m512i) -> __m128i {
    if LANE == 0 {
        _mm512_castsi512_si128(register)
    } else {
        _mm512_extracti32x4_epi32::<LANE>(register)
    }
}

/// Interleaves the first half of the registers with the second half by units of 64 / K bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn alternate<const K: usize>(before: [__m512i; K], [low, high]: [__m512i; 2]) -> [__m512i; K] {
    let mut registers = before;
    for i in 0..K / 2 {
        let (a, b) = (before[i], before[i + K / 2]);
        registers[2 * i] = _mm512_permutex2var_epi64(a, low, b);
        registers[2 * i + 1] = _mm512_permutex2var_epi64(a, high, b);
    }
    registers
}

/// Unit `i` of register `j` and unit `j` of register `i` change places; a unit has 64 / K bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn square<const K: usize>(registers: [__m512i; K]) -> [__m512i; K] {
    let [low, high] = &ALTERNATING[K.ilog2() as usize - 1];
    let tables = [table(low), table(high)];
    let registers = alternate::<K>(registers, tables);
    if K == 2 {
        return registers;
    }
    let registers = alternate::<K>(registers, tables);
    if K == 4 {
        return registers;
    }
    alternate::<K>(registers, tables)
}

/// Makes the code for elements of one size. Every register is written out, as the compiler keeps none of an array that a
/// loop goes through.
macro_rules! lanes {
    ($module:ident, $count:literal, $low:ident, $high:ident, [$($i:literal)*], [$($half:literal)*]) => {
        /// Rows of elements that change places within lanes of 16 bytes.
        mod $module {
            use super::*;

            /// Registers: elements of a lane.
            const N: usize = $count;

            /// Interleaves the first half of the registers with the second half.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw")]
            fn interleave(r: [__m512i; N]) -> [__m512i; N] {
                let pairs = [$([$low(r[$half], r[$half + N / 2]), $high(r[$half], r[$half + N / 2])]),*];
                [$(pairs[$i / 2][$i % 2]),*]
            }

            /// In each lane, element `i` of register `j` and element `j` of register `i` change places.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw")]
            fn transpose(registers: [__m512i; N]) -> [__m512i; N] {
                let eighths = interleave(interleave(interleave(registers)));
                if N == 16 {
                    interleave(eighths)
                } else {
                    eighths
                }
            }

            /// The code for [`super::super::contract::Channels`]: N positions.
            ///
            /// # Safety
            /// As there.
            #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
            pub(in super::super) unsafe fn channels(
                rows: &Rows,
                source: *const u8,
                step: usize,
                count: usize,
                target: *mut u8,
                alone: bool,
            ) {
                // SAFETY: the caller's promise; positions that are not there are the last one again.
                let load = |position: usize| unsafe {
                    _mm512_loadu_si512(source.add(position.min(count - 1) * step).cast())
                };
                let channels = transpose([$(load($i)),*]);
                let mask = (u32::MAX >> (32 - count * (16 / N))) as u16;
                let [a, b, c, d] = rows.lanes;
                // SAFETY: the caller's promise; bytes that do not belong to the channel are masked, or stored before
                // they are overwritten.
                unsafe {
                    if alone {
                        $(_mm_mask_storeu_epi8(target.add(rows.rows[$i] + a).cast(), mask, lane::<0>(channels[$i]));)*
                        $(_mm_mask_storeu_epi8(target.add(rows.rows[$i] + b).cast(), mask, lane::<1>(channels[$i]));)*
                        $(_mm_mask_storeu_epi8(target.add(rows.rows[$i] + c).cast(), mask, lane::<2>(channels[$i]));)*
                    } else {
                        $(_mm_storeu_si128(target.add(rows.rows[$i] + a).cast(), lane::<0>(channels[$i]));)*
                        $(_mm_storeu_si128(target.add(rows.rows[$i] + b).cast(), lane::<1>(channels[$i]));)*
                        $(_mm_storeu_si128(target.add(rows.rows[$i] + c).cast(), lane::<2>(channels[$i]));)*
                    }
                    $(_mm_mask_storeu_epi8(target.add(rows.rows[$i] + d).cast(), mask, lane::<3>(channels[$i]));)*
                }
            }

            /// The code for [`super::super::contract::Positions`]: N positions.
            ///
            /// # Safety
            /// As there.
            #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
            pub(in super::super) unsafe fn positions(
                rows: &Rows,
                source: *const u8,
                target: *mut u8,
                to: usize,
                stored: core::ops::Range<usize>,
            ) {
                // SAFETY: the caller's promise.
                let load = |row: usize| unsafe {
                    let source = source.add(rows.rows[row]);
                    let [a, b, c, d] = rows.lanes;
                    load_lanes([source.add(a), source.add(b), source.add(c), source.add(d)])
                };
                let positions = transpose([$(load($i)),*]);
                if stored == (N - 1..N) {
                    // SAFETY: the caller's promise.
                    return unsafe { _mm512_storeu_si512(target.cast(), positions[N - 1]) };
                }
                let mut target = target;
                $(
                    if stored.contains(&$i) {
                        // SAFETY: the caller's promise.
                        unsafe { _mm512_storeu_si512(target.cast(), positions[$i]) };
                        target = target.wrapping_add(to);
                    }
                )*
                let _behind = target;
            }
        }
    };
}

lanes!(
    bytes, 16, _mm512_unpacklo_epi8, _mm512_unpackhi_epi8,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15], [0 1 2 3 4 5 6 7]
);
lanes!(halves, 8, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16, [0 1 2 3 4 5 6 7], [0 1 2 3]);

/// The code for [`super::contract::Collect`] of 32 bytes. Chunks are joined in a register while they are loaded, so
/// that whole cache lines are stored.
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn collect_32(source: *const u8, stride: usize, target: *mut u8, blocks: usize) {
    for block in 0..blocks {
        // SAFETY: the caller's promise.
        unsafe {
            let from = source.add(2 * block * stride);
            let first = _mm512_castsi256_si512(_mm256_loadu_si256(from.cast()));
            let second = _mm256_loadu_si256(from.add(stride).cast());
            let both = _mm512_mask_broadcast_i64x4(first, 0xf0, second);
            _mm512_storeu_si512(target.add(block * 64).cast(), both);
        }
    }
}

/// The same of 16 bytes.
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn collect_16(source: *const u8, stride: usize, target: *mut u8, blocks: usize) {
    for block in 0..blocks {
        // SAFETY: the caller's promise.
        unsafe {
            let rows = load_lanes([0, 1, 2, 3].map(|row| source.add((4 * block + row) * stride)));
            _mm512_storeu_si512(target.add(block * 64).cast(), rows);
        }
    }
}

/// The same of 8 bytes.
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn collect_8(source: *const u8, stride: usize, target: *mut u8, blocks: usize) {
    for block in 0..blocks {
        let mut register = _mm512_setzero_si512();
        for chunk in 0..8 {
            // SAFETY: the caller's promise.
            let eight = unsafe { source.add((8 * block + chunk) * stride).cast::<i64>().read_unaligned() };
            register = _mm512_mask_set1_epi64(register, 1 << chunk, eight);
        }
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(target.add(block * 64).cast(), register) };
    }
}

/// Blocks of K x K units of 64 / K bytes, transposed: rows `strides[0]` apart become rows `strides[1]` apart, and a block
/// follows the last at `steps`.
///
/// # Safety
/// Both sides hold 64 bytes in each of K rows of each of `blocks`.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn squares<const K: usize>(
    source: *const u8,
    target: *mut u8,
    strides: [usize; 2],
    steps: [usize; 2],
    blocks: usize,
) {
    for block in 0..blocks {
        let mut registers = [_mm512_setzero_si512(); K];
        each_register!(K, |row| {
            // SAFETY: the caller's promise.
            registers[row] = unsafe { _mm512_loadu_si512(source.add(block * steps[0] + row * strides[0]).cast()) };
        });
        let registers = square::<K>(registers);
        each_register!(K, |row| {
            let units = registers[row];
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_si512(target.add(block * steps[1] + row * strides[1]).cast(), units) };
        });
    }
}
