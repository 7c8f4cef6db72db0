// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inner loop for NEON: `smull` and `sadalp`, 5 pixels by 16 kernels.
//!
//! `smull` multiplies eight pairs of bytes. The largest product, (-128)², fits 16 bits. `sadalp` adds pairs of products
//! to 32-bit sums. A second multiplication into the same 16 bits (`smlal`) would save half of the additions, but the
//! sum of two products of -128 can overflow. A sixth pixel would fill all registers and require moves between them.
//!
//! In a release build (`aarch64-linux-gnu-objdump -dC`, the loop with `smull` in `<Neon as Kernel<16>>::tile`) the loop
//! has 51 instructions for 160 multiplications, 0.32 each. The compiled code of `portable` has 227 for 128, 1.8 each.

use std::arch::aarch64::*;

use super::kernel::{by_pixels, Kernel, Tile};

/// NEON.
#[derive(Debug)]
pub struct Neon;

impl Kernel<16> for Neon {
    type Data = i8;
    type Weight = i8;
    const GROUP: usize = 2;
    const PIXELS: usize = 5;
    const BIAS: i32 = 0;

    unsafe fn tile(tile: Tile<'_, i8, i8, 16>) {
        // SAFETY: `tile`'s conditions are the same.
        unsafe { by_pixels!(tile: 1 2 3 4 5) }
    }

    unsafe fn pack(
        operation: &super::super::operation::Operation,
        shape: &super::shape::Shape,
        weights: &[u8],
        first: usize,
        panel: &mut [i8],
        start: &mut [i32; 16],
    ) {
        super::interleave::pack::<2, 8>(operation, shape, weights, first, panel);
        *start = [0; 16];
    }
}

/// # Safety
/// As [`Kernel::tile`] for `M` pixels.
unsafe fn tile<const M: usize>(tile: Tile<'_, i8, i8, 16>) {
    let Tile { data, step, runs, panel, start, sums, apart, .. } = tile;
    let data = data.as_ptr();
    let mut weights = panel.as_ptr();
    // SAFETY: `start` has 16 values.
    let start = std::array::from_fn(|n| unsafe { vld1q_s32(start.as_ptr().add(4 * n)) });
    let mut acc: [[int32x4_t; 4]; M] = [start; M];
    for run in runs {
        // SAFETY: the caller checked that every window's runs lie in `data`, and that the panel has 32 weights for
        // every pair of elements of the runs. Every aarch64 has NEON.
        unsafe {
            let mut at = data.add(run.offset);
            for _ in 0..run.length / 2 {
                let (w0, w1) = (vld1q_s8(weights), vld1q_s8(weights.add(16)));
                for (m, acc) in acc.iter_mut().enumerate() {
                    let pair = vdupq_n_s16(at.add(m * step).cast::<i16>().read_unaligned());
                    let pair = vreinterpretq_s8_s16(pair);
                    acc[0] = vpadalq_s16(acc[0], vmull_s8(vget_low_s8(pair), vget_low_s8(w0)));
                    acc[1] = vpadalq_s16(acc[1], vmull_high_s8(pair, w0));
                    acc[2] = vpadalq_s16(acc[2], vmull_s8(vget_low_s8(pair), vget_low_s8(w1)));
                    acc[3] = vpadalq_s16(acc[3], vmull_high_s8(pair, w1));
                }
                at = at.add(2);
                weights = weights.add(32);
            }
        }
    }
    for (m, acc) in acc.iter().enumerate() {
        let Some(sums) = sums.get_mut(m * apart) else { return };
        for (n, &acc) in acc.iter().enumerate() {
            // SAFETY: `sums` has 16 values.
            unsafe { vst1q_s32(sums.as_mut_ptr().add(4 * n), acc) };
        }
    }
}
