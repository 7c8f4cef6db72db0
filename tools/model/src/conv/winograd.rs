// SPDX-License-Identifier: MIT OR Apache-2.0

//! Winograd's transforms: CSC's of the data (pre-addition, PRA) and CMAC's of the products (post-addition).
//!
//! CSC transforms a 4x4 tile `d` of each channel to `C^T d C`. Integers are shifted (PRA_TRUNCATE) and limited to the
//! precision; floats are rounded to fp16. CMAC multiplies the result by the kernel's 4x4 tile, sums four channels, and
//! transforms the sums `m` to the 2x2 output tile `A^T m A`.
//!
//! Source: `cmod/hls/csc_libs/csc_cvt.cpp`, `cmod/cmac`.

use nvdla_uapi::reg::values::Precision;

use crate::num::convert::{fp16_to_fp17, fp17_to_fp16};
use crate::num::fixed::shift_right;
use crate::num::Fp17;

/// The four lines of `C^T`: rows (or columns) `a` and `b` of the tile, and whether `b` is subtracted from `a`.
const PRA: [(usize, usize, bool); 4] = [(0, 2, true), (1, 2, false), (2, 1, true), (1, 3, true)];

/// The data transform of integers (`tile[y * 4 + x]`).
pub fn pra_integer(tile: &[i32; 16], truncate: u32, precision: Precision) -> [i32; 16] {
    let add = |a: i32, b: i32, minus: bool| if minus { a - b } else { a + b };
    let mut rows = [0; 16];
    for (i, &(a, b, minus)) in PRA.iter().enumerate() {
        for x in 0..4 {
            rows[4 * i + x] = add(tile[4 * a + x], tile[4 * b + x], minus);
        }
    }
    let mut out = [0; 16];
    for y in 0..4 {
        for (i, &(a, b, minus)) in PRA.iter().enumerate() {
            let value = i64::from(add(rows[4 * y + a], rows[4 * y + b], minus));
            out[4 * y + i] = match precision {
                Precision::Int8 => shift_right::<8>(value, truncate),
                _ => shift_right::<16>(value, truncate),
            } as i32;
        }
    }
    out
}

/// The data transform of fp16 (`tile[y * 4 + x]`).
pub fn pra_half(tile: &[u16; 16]) -> [u16; 16] {
    let add = |a: u32, b: u32, minus: bool| if minus { Fp17::sub(a, b) } else { Fp17::add(a, b) };
    let tile = tile.map(fp16_to_fp17);
    let mut rows = [0; 16];
    for (i, &(a, b, minus)) in PRA.iter().enumerate() {
        for x in 0..4 {
            rows[4 * i + x] = add(tile[4 * a + x], tile[4 * b + x], minus);
        }
    }
    let mut out = [0; 16];
    for y in 0..4 {
        for (i, &(a, b, minus)) in PRA.iter().enumerate() {
            out[4 * y + i] = fp17_to_fp16(add(rows[4 * y + a], rows[4 * y + b], minus));
        }
    }
    out
}

/// The 2x2 output tile (`[y * 2 + x]`), given the 16 sums over channels.
pub fn poa(sums: &[i64; 16]) -> [i64; 4] {
    let mut rows = [0; 8];
    for x in 0..4 {
        rows[x] = sums[x] + sums[4 + x] + sums[8 + x];
        rows[4 + x] = sums[4 + x] - sums[8 + x] - sums[12 + x];
    }
    let mut out = [0; 4];
    for y in 0..2 {
        let row = &rows[4 * y..4 * y + 4];
        out[2 * y] = row[0] + row[1] + row[2];
        out[2 * y + 1] = row[1] - row[2] - row[3];
    }
    out
}
