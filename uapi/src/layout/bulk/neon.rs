// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! NEON, which every aarch64 has: runs are transposed a register of each row at a time.
//!
//! A round interleaves each register with the register half of them further down. This rotates the bits of an element's
//! index, which consist of its register's index and then its index within the register, by one bit. After as many
//! rounds as a row's index has bits, rows have become atoms. After as many further rounds as an index within a register
//! has bits, atoms have become rows.

use super::contract::{copy_rows, Transpose, TILE};
use core::arch::aarch64::*;

/// Bytes of a register.
const REGISTER: usize = 16;

/// The code for atoms of that many elements of that many bytes.
pub(super) fn transpose(rows: usize, bytes: usize) -> Option<Transpose> {
    Some(match (rows, bytes) {
        (32, 1) => of::<32, 1>(),
        (16, 1) => of::<16, 1>(),
        (8, 1) => of::<8, 1>(),
        (16, 2) => of::<16, 2>(),
        (8, 2) => of::<8, 2>(),
        (4, 2) => of::<4, 2>(),
        _ => return None,
    })
}

fn of<const ROWS: usize, const BYTES: usize>() -> Transpose {
    let (pack, unpack) = (pack::<ROWS, BYTES>, unpack::<ROWS, BYTES>);
    Transpose { rows: ROWS, bytes: BYTES, pack, unpack, copy: copy_rows }
}

/// The elements of both, alternating.
#[inline]
#[target_feature(enable = "neon")]
fn interleave<const BYTES: usize>(a: uint8x16_t, b: uint8x16_t) -> [uint8x16_t; 2] {
    if BYTES == 1 {
        return [vzip1q_u8(a, b), vzip2q_u8(a, b)];
    }
    let (a, b) = (vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b));
    [vreinterpretq_u8_u16(vzip1q_u16(a, b)), vreinterpretq_u8_u16(vzip2q_u16(a, b))]
}

#[inline]
#[target_feature(enable = "neon")]
fn rounds<const ROWS: usize, const BYTES: usize>(registers: &mut [uint8x16_t; ROWS], count: u32) {
    for _ in 0..count {
        let old = *registers;
        for row in 0..ROWS / 2 {
            let [low, high] = interleave::<BYTES>(old[row], old[row + ROWS / 2]);
            registers[2 * row] = low;
            registers[2 * row + 1] = high;
        }
    }
}

/// # Safety
/// As for [`super::contract::PackTiles`].
#[target_feature(enable = "neon")]
unsafe fn pack<const ROWS: usize, const BYTES: usize>(source: *const u8, stride: usize, target: *mut u8, tiles: usize) {
    for column in 0..tiles * TILE / REGISTER {
        let mut registers = [vdupq_n_u8(0); ROWS];
        for (row, register) in registers.iter_mut().enumerate() {
            // SAFETY: the caller's rows have `tiles` tiles.
            *register = unsafe { vld1q_u8(source.add(row * stride + column * REGISTER)) };
        }
        rounds::<ROWS, BYTES>(&mut registers, ROWS.ilog2());
        for (index, register) in registers.iter().enumerate() {
            // SAFETY: the caller's target has as many bytes as all rows.
            unsafe { vst1q_u8(target.add((column * ROWS + index) * REGISTER), *register) };
        }
    }
}

/// # Safety
/// As for [`super::contract::UnpackTiles`].
#[target_feature(enable = "neon")]
unsafe fn unpack<const ROWS: usize, const BYTES: usize>(
    source: *const u8,
    target: *mut u8,
    stride: usize,
    tiles: usize,
) {
    for column in 0..tiles * TILE / REGISTER {
        let mut registers = [vdupq_n_u8(0); ROWS];
        for (index, register) in registers.iter_mut().enumerate() {
            // SAFETY: the caller's source has as many bytes as all rows.
            *register = unsafe { vld1q_u8(source.add((column * ROWS + index) * REGISTER)) };
        }
        rounds::<ROWS, BYTES>(&mut registers, (REGISTER / BYTES).ilog2());
        for (row, register) in registers.iter().enumerate() {
            // SAFETY: the caller's rows have `tiles` tiles.
            unsafe { vst1q_u8(target.add(row * stride + column * REGISTER), *register) };
        }
    }
}
