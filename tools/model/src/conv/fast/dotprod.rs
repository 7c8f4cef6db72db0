// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inner loop for Arm's dot products (FEAT_DotProd): `sdot`, 6 pixels by 16 kernels.
//!
//! The instruction adds four products of signed bytes to each of four 32-bit sums, which wrap. Its second operand is
//! one group of four bytes of a register, so that one load gives 16 bytes of a pixel.
//!
//! In a release build (`aarch64-linux-gnu-objdump -dC`, the first loop of `dotprod::tile::<6>`) the loop has 117
//! instructions for 1536 multiplications, 0.076 each. `neon` has 0.32 each.

use std::arch::aarch64::*;
use std::arch::asm;

use super::kernel::{by_pixels, Kernel, Tile};

/// NEON with dot products.
#[derive(Debug)]
pub struct Dotprod;

impl Kernel<16> for Dotprod {
    type Data = i8;
    type Weight = i8;
    const GROUP: usize = 4;
    const PIXELS: usize = 6;
    const BIAS: i32 = 0;

    unsafe fn tile(tile: Tile<'_, i8, i8, 16>) {
        // SAFETY: the caller has the dot products, and `tile`'s conditions are the same.
        unsafe { by_pixels!(tile: 1 2 3 4 5 6) }
    }

    unsafe fn pack(
        operation: &super::super::operation::Operation,
        shape: &super::shape::Shape,
        weights: &[u8],
        first: usize,
        panel: &mut [i8],
        start: &mut [i32; 16],
    ) {
        super::interleave::pack::<4, 4>(operation, shape, weights, first, panel);
        *start = [0; 16];
    }
}

/// Adds the products of the data's group `GROUP` with the weights of four kernels to their sums.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn dot<const GROUP: i32>(mut sums: int32x4_t, weights: int8x16_t, data: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction is available and changes only its registers. There is no stable intrinsic for it.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {weights:v}.16b, {data:v}.4b[{group}]",
            sums = inout(vreg) sums,
            weights = in(vreg) weights,
            data = in(vreg) data,
            group = const GROUP,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// Adds the products of a group of each pixel with the 64 weights.
///
/// # Safety
/// There are 64 weights.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn group<const M: usize, const GROUP: i32>(
    acc: &mut [[int32x4_t; 4]; M],
    weights: *const i8,
    data: &[int8x16_t; M],
) {
    for n in 0..4 {
        // SAFETY: by the condition above.
        let weights = unsafe { vld1q_s8(weights.add(16 * n)) };
        for (acc, &data) in acc.iter_mut().zip(data) {
            acc[n] = dot::<GROUP>(acc[n], weights, data);
        }
    }
}

/// # Safety
/// As [`Kernel::tile`] for `M` pixels.
#[target_feature(enable = "neon,dotprod")]
unsafe fn tile<const M: usize>(tile: Tile<'_, i8, i8, 16>) {
    let Tile { data, step, runs, panel, start, sums, apart, .. } = tile;
    let data = data.as_ptr();
    let mut weights = panel.as_ptr();
    // SAFETY: `start` has 16 values.
    let start = std::array::from_fn(|n| unsafe { vld1q_s32(start.as_ptr().add(4 * n)) });
    let mut acc = [start; M];
    for run in runs {
        // SAFETY: the caller checked that every window's runs lie in `data`, and that the panel has 64 weights for
        // every four elements of the runs.
        unsafe {
            let mut at = data.add(run.offset);
            for _ in 0..run.length / 16 {
                let data = std::array::from_fn(|m| vld1q_s8(at.add(m * step)));
                group::<M, 0>(&mut acc, weights, &data);
                group::<M, 1>(&mut acc, weights.add(64), &data);
                group::<M, 2>(&mut acc, weights.add(128), &data);
                group::<M, 3>(&mut acc, weights.add(192), &data);
                at = at.add(16);
                weights = weights.add(256);
            }
            for _ in 0..run.length % 16 / 4 {
                let four = |m| vdupq_n_s32(at.add(m * step).cast::<i32>().read_unaligned());
                let data = std::array::from_fn(|m| vreinterpretq_s8_s32(four(m)));
                group::<M, 0>(&mut acc, weights, &data);
                at = at.add(4);
                weights = weights.add(64);
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
