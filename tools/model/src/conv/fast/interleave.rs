// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packs panels of weights with NEON.
//!
//! Each round interleaves register i with register i + n/2 of n registers. After log2(n) rounds, rows have become
//! columns (see `simd::transpose`). This takes 0.4 to 0.5 instructions per weight. Packing group by group (`panel`)
//! takes 0.9 to 3.5. The difference matters for small cubes, where each weight is used for few pixels.

#![allow(clippy::inline_always)]

use std::arch::aarch64::*;

use super::super::operation::Operation;
use super::panel;
use super::shape::Shape;

/// Kernels per panel.
const KERNELS: usize = 16;
/// Bytes per register.
const BYTES: usize = 16;

/// Packs the kernels `first..first + 16` that exist, in groups of `GROUP` weights (2, 4 or 8), of which a register has
/// `GROUPS`.
#[inline(always)]
pub fn pack<const GROUP: usize, const GROUPS: usize>(
    operation: &Operation,
    shape: &Shape,
    weights: &[u8],
    first: usize,
    panel: &mut [i8],
) {
    const { assert!(GROUP * GROUPS == BYTES) };
    let (channels, atomic_c) = (operation.kernel.channels, operation.atomic_c);
    if operation.kernels < first + KERNELS || channels % BYTES != 0 || atomic_c % BYTES != 0 {
        return panel::pack::<i8, KERNELS, GROUP>(operation, shape, weights, first, panel);
    }
    for tap in 0..shape.taps {
        for block in 0..channels.div_ceil(atomic_c) {
            let at = (tap * shape.channels + block * atomic_c) * KERNELS;
            let row = operation.weight_row(first, block, tap);
            let panel = &mut panel[at..][..row.len() * KERNELS];
            // Rows at a constant distance need one look-up.
            let rows: [&[u8]; KERNELS] = if let Some(stride) = operation.weight_stride(first, KERNELS, block, tap) {
                std::array::from_fn(|index| &weights[row.start + index * stride..][..row.len()])
            } else {
                std::array::from_fn(|index| &weights[operation.weight_row(first + index, block, tap)])
            };
            for (part, panel) in panel.chunks_exact_mut(BYTES * KERNELS).enumerate() {
                for (set, rows) in rows.as_chunks::<GROUPS>().0.iter().enumerate() {
                    square::<GROUP, GROUPS>(rows, part * BYTES, panel, set * BYTES);
                }
            }
        }
    }
}

/// Transposes the registers at byte `from` of `rows`, and writes the columns at byte `to` of each group in `panel`.
#[inline(always)]
fn square<const GROUP: usize, const GROUPS: usize>(rows: &[&[u8]; GROUPS], from: usize, panel: &mut [i8], to: usize) {
    // SAFETY: every aarch64 has NEON.
    let mut square = [unsafe { vdupq_n_s8(0) }; GROUPS];
    for (square, row) in square.iter_mut().zip(rows) {
        let bytes = &row[from..from + BYTES];
        // SAFETY: 16 bytes.
        *square = unsafe { vld1q_s8(bytes.as_ptr().cast()) };
    }
    for _ in 0..GROUPS.ilog2() {
        let old = square;
        for row in 0..GROUPS / 2 {
            let both = interleave::<GROUP>(old[row], old[row + GROUPS / 2]);
            (square[2 * row], square[2 * row + 1]) = both;
        }
    }
    for (panel, &column) in panel.chunks_exact_mut(KERNELS * GROUP).zip(&square) {
        let panel = &mut panel[to..to + BYTES];
        // SAFETY: 16 bytes.
        unsafe { vst1q_s8(panel.as_mut_ptr(), column) };
    }
}

/// Interleaves the groups of two registers.
#[inline(always)]
fn interleave<const GROUP: usize>(upper: int8x16_t, lower: int8x16_t) -> (int8x16_t, int8x16_t) {
    // SAFETY: every aarch64 has NEON.
    unsafe {
        match GROUP {
            2 => {
                let (upper, lower) = (vreinterpretq_s16_s8(upper), vreinterpretq_s16_s8(lower));
                let (low, high) = (vzip1q_s16(upper, lower), vzip2q_s16(upper, lower));
                (vreinterpretq_s8_s16(low), vreinterpretq_s8_s16(high))
            }
            4 => {
                let (upper, lower) = (vreinterpretq_s32_s8(upper), vreinterpretq_s32_s8(lower));
                let (low, high) = (vzip1q_s32(upper, lower), vzip2q_s32(upper, lower));
                (vreinterpretq_s8_s32(low), vreinterpretq_s8_s32(high))
            }
            _ => {
                let (upper, lower) = (vreinterpretq_s64_s8(upper), vreinterpretq_s64_s8(lower));
                let (low, high) = (vzip1q_s64(upper, lower), vzip2q_s64(upper, lower));
                (vreinterpretq_s8_s64(low), vreinterpretq_s8_s64(high))
            }
        }
    }
}
