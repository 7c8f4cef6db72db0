// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! AVX-512 code that moves elements between rows: channel planes and atoms, pixels and surfaces, channels and positions of
//! a kernel.
//!
//! Loads gather distant rows into one register, 16 bytes per lane, which needs no shuffle. Then either the lanes of 16
//! registers are exchanged with the elements within them (as many interleavings as an element's number has bits), or 2,
//! 4 or 8 registers exchange units of 32, 16 or 8 bytes. Interleaving two registers takes one instruction on every
//! machine. Byte permutations of two registers take three on some.

#![allow(clippy::needless_range_loop)] // registers are numbered as the shuffles are

use super::contract::{Channels, PackTiles, Positions, Rows, Transpose, UnpackTiles};
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

/// The code for tiles of that shape.
pub(super) fn transpose(rows: usize, bytes: usize) -> Option<Transpose> {
    let (pack, unpack, lines): (PackTiles, UnpackTiles, UnpackTiles) = match (rows, bytes) {
        (32, 1) => (bytes::pack_32, bytes::unpack::<2, false>, bytes::unpack::<2, true>),
        (16, 1) => (bytes::pack_16, bytes::unpack::<1, false>, bytes::unpack::<1, true>),
        (8, 1) => (pack_8::<8, 1>, unpack_8::<8, 1, false>, unpack_8::<8, 1, true>),
        (16, 2) => (halves::pack_32, halves::unpack::<2, false>, halves::unpack::<2, true>),
        (8, 2) => (halves::pack_16, halves::unpack::<1, false>, halves::unpack::<1, true>),
        (4, 2) => (pack_8::<4, 2>, unpack_8::<4, 2, false>, unpack_8::<4, 2, true>),
        _ => return None,
    };
    Some(Transpose { rows, bytes, pack, unpack, unpack_lines: Some(lines) })
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

/// Elements of 8 pixels of R rows, B bytes each, from row order to pixel order, or back.
const fn within(rows: usize, bytes: usize, back: bool) -> [u8; 64] {
    let mut index = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (element, byte) = (at / bytes, at % bytes);
        let (major, minor) = if back { (element / 8, element % 8) } else { (element / rows, element % rows) };
        let from = if back { minor * rows + major } else { minor * 8 + major };
        index[at] = (from * bytes + byte) as u8;
        at += 1;
    }
    index
}

static WITHIN: [[[u8; 64]; 2]; 2] =
    [[within(8, 1, false), within(8, 1, true)], [within(4, 2, false), within(4, 2, true)]];

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

/// 16 bytes at each of four places, `stride` apart.
///
/// # Safety
/// All of them can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_rows(source: *const u8, stride: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { load_lanes([source, source.add(stride), source.add(2 * stride), source.add(3 * stride)]) }
}

/// The reverse.
///
/// # Safety
/// All of them can be written.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_rows(rows: __m512i, target: *mut u8, stride: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        _mm_storeu_si128(target.cast(), _mm512_castsi512_si128(rows));
        _mm_storeu_si128(target.add(stride).cast(), _mm512_extracti32x4_epi32::<1>(rows));
        _mm_storeu_si128(target.add(2 * stride).cast(), _mm512_extracti32x4_epi32::<2>(rows));
        _mm_storeu_si128(target.add(3 * stride).cast(), _mm512_extracti32x4_epi32::<3>(rows));
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

/// Words of 4 bytes from `n` on, of two registers, have these numbers.
static COUNT: [u32; 32] = {
    let mut count = [0; 32];
    let mut at = 0;
    while at < 32 {
        count[at] = at as u32;
        at += 1;
    }
    count
};

/// The words of two registers that lie in the line before which a tile of a row at `at` begins.
#[inline]
#[target_feature(enable = "avx512f")]
fn line_of(at: *mut u8, previous: __m512i, tile: __m512i) -> __m512i {
    let words = 16 - at.addr() % 64 / 4;
    // SAFETY: 16 numbers follow each of the first 17.
    let numbers = unsafe { _mm512_loadu_si512(COUNT.as_ptr().add(words).cast()) };
    _mm512_permutex2var_epi32(previous, numbers, tile)
}

/// Stores the cache line in which a row's tile at `at` begins, together with the row's previous tile. For the first
/// tile of a row, stores only the tile's part of that line. `at` is a multiple of 4 bytes.
///
/// # Safety
/// The tile can be written, and where it is not the first, the one before it.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_line(is_first: bool, at: *mut u8, previous: &mut __m512i, tile: __m512i) {
    let off = at.addr() % 64;
    let line = line_of(at, *previous, tile);
    let begin = at.wrapping_sub(off);
    // SAFETY: the caller's promise; what lies before a row's first tile is masked.
    unsafe {
        if is_first {
            _mm512_mask_storeu_epi32(begin.cast(), u16::MAX << (off / 4), line);
        } else {
            _mm512_store_si512(begin.cast(), line);
        }
    }
    *previous = tile;
}

/// Stores the rest of a row's last tile, in the cache line that contains `end`, where the row's tiles end.
///
/// # Safety
/// The tile can be written.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_rest(end: *mut u8, last: __m512i) {
    let off = end.addr() % 64;
    let line = line_of(end, last, last);
    // SAFETY: the caller's promise; what lies behind the tile is masked.
    unsafe { _mm512_mask_storeu_epi32(end.wrapping_sub(off).cast(), (1 << (off / 4)) - 1, line) };
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

            /// Atoms of 32 bytes: 2 x N rows.
            #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
            pub(super) unsafe fn pack_32(source: *const u8, stride: usize, target: *mut u8, tiles: usize) {
                for half in 0..tiles * 2 {
                    // SAFETY: each row has `tiles` tiles of two halves of 32 bytes.
                    let load = |row: usize| unsafe {
                        let first = source.add(row * stride + half * 32);
                        let second = first.add(N * stride);
                        load_lanes([first, second, first.add(16), second.add(16)])
                    };
                    let atoms = transpose([$(load($i)),*]);
                    // SAFETY: half a tile makes 2 x N atoms.
                    unsafe {
                        let to = target.add(half * 2 * N * 32);
                        $(
                            _mm256_storeu_si256(to.add($i * 32).cast(), _mm512_castsi512_si256(atoms[$i]));
                            let second = _mm512_extracti64x4_epi64::<1>(atoms[$i]);
                            _mm256_storeu_si256(to.add((N + $i) * 32).cast(), second);
                        )*
                    }
                }
            }

            /// Atoms of 16 bytes: N rows.
            #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
            pub(super) unsafe fn pack_16(source: *const u8, stride: usize, target: *mut u8, tiles: usize) {
                for tile in 0..tiles {
                    // SAFETY: each row has `tiles` tiles of 64 bytes.
                    let load = |row: usize| unsafe { _mm512_loadu_si512(source.add(row * stride + tile * 64).cast()) };
                    let atoms = transpose([$(load($i)),*]);
                    // SAFETY: a tile makes 4 x N atoms.
                    unsafe {
                        let to = target.add(tile * 4 * N * 16);
                        $(store_rows(atoms[$i], to.add($i * 16), N * 16);)*
                    }
                }
            }

            /// Atoms of `PARTS` x 16 bytes to `PARTS` x N rows, 64 bytes of a row at once: at the row's own alignment,
            /// or in whole cache `LINES`.
            #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
            pub(super) unsafe fn unpack<const PARTS: usize, const LINES: bool>(
                source: *const u8,
                target: *mut u8,
                stride: usize,
                tiles: usize,
            ) {
                let mut previous = [[_mm512_setzero_si512(); N]; PARTS];
                for part in 0..tiles * PARTS {
                    let (tile, part) = (part / PARTS, part % PARTS);
                    // SAFETY: a tile has 4 x N atoms.
                    let load = |pixel: usize| unsafe {
                        load_rows(source.add(((tile * 4 * N + pixel) * PARTS + part) * 16), N * PARTS * 16)
                    };
                    let pixels = transpose([$(load($i)),*]);
                    // SAFETY: each row has `tiles` tiles of 64 bytes.
                    unsafe {
                        let to = target.add(part * N * stride + tile * 64);
                        if !LINES {
                            $(_mm512_storeu_si512(to.add($i * stride).cast(), pixels[$i]);)*
                        } else if tile == 0 {
                            $(store_line(true, to.add($i * stride), &mut previous[part][$i], pixels[$i]);)*
                        } else {
                            $(store_line(false, to.add($i * stride), &mut previous[part][$i], pixels[$i]);)*
                        }
                    }
                }
                if LINES && tiles > 0 {
                    for (row, last) in previous.as_flattened().iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { store_rest(target.add(row * stride + tiles * 64), *last) };
                    }
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

/// Atoms of 8 bytes: K rows.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512vbmi")]
unsafe fn pack_8<const K: usize, const B: usize>(source: *const u8, stride: usize, target: *mut u8, tiles: usize) {
    let index = table(&WITHIN[B - 1][0]);
    for tile in 0..tiles {
        let mut registers = [_mm512_setzero_si512(); K];
        each_register!(K, |row| {
            // SAFETY: each row has `tiles` tiles of 64 bytes.
            registers[row] = unsafe { _mm512_loadu_si512(source.add(row * stride + tile * 64).cast()) };
        });
        let registers = square::<K>(registers);
        each_register!(K, |part| {
            let rows = registers[part];
            let atoms = _mm512_permutexvar_epi8(index, rows);
            // SAFETY: a tile makes K x 64 bytes of atoms.
            unsafe { _mm512_storeu_si512(target.add((tile * K + part) * 64).cast(), atoms) };
        });
    }
}

/// The reverse, in whole `LINES` or where they lie.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512vbmi")]
unsafe fn unpack_8<const K: usize, const B: usize, const LINES: bool>(
    source: *const u8,
    target: *mut u8,
    stride: usize,
    tiles: usize,
) {
    let index = table(&WITHIN[B - 1][1]);
    let mut previous = [_mm512_setzero_si512(); K];
    for tile in 0..tiles {
        let mut registers = [_mm512_setzero_si512(); K];
        each_register!(K, |part| {
            // SAFETY: a tile has K x 64 bytes of atoms.
            let atoms = unsafe { _mm512_loadu_si512(source.add((tile * K + part) * 64).cast()) };
            registers[part] = _mm512_permutexvar_epi8(index, atoms);
        });
        let registers = square::<K>(registers);
        each_register!(K, |row| {
            let pixels = registers[row];
            // SAFETY: each row has `tiles` tiles of 64 bytes.
            unsafe {
                let to = target.add(row * stride + tile * 64);
                if LINES {
                    store_line(tile == 0, to, &mut previous[row], pixels);
                } else {
                    _mm512_storeu_si512(to.cast(), pixels);
                }
            }
        });
    }
    if LINES && tiles > 0 {
        each_register!(K, |row| {
            // SAFETY: as above.
            unsafe { store_rest(target.add(row * stride + tiles * 64), previous[row]) };
        });
    }
}

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
            let rows = load_rows(source.add(4 * block * stride), stride);
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
