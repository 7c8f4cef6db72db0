// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inner loop for AVX2: `vpmaddwd` of int8 widened to 16 bits, 6 pixels by 16 kernels.
//!
//! `vpmaddubsw` would multiply bytes directly, but it saturates its sums to 16 bits.

// Loads and stores are the unaligned ones.
#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::kernel::{by_pixels, Kernel, Tile};

/// AVX2.
#[derive(Debug)]
pub struct Avx2;

impl Kernel<16> for Avx2 {
    type Data = i16;
    type Weight = i16;
    const GROUP: usize = 2;
    const PIXELS: usize = 6;
    const BIAS: i32 = 0;

    unsafe fn tile(tile: Tile<'_, i16, i16, 16>) {
        // SAFETY: the caller has AVX2, and `tile`'s conditions are the same.
        unsafe { by_pixels!(tile: 1 2 3 4 5 6) }
    }

    unsafe fn pack(
        operation: &super::super::operation::Operation,
        shape: &super::shape::Shape,
        weights: &[u8],
        first: usize,
        panel: &mut [i16],
        start: &mut [i32; 16],
    ) {
        // SAFETY: the caller has AVX2.
        unsafe { pack(operation, shape, weights, first, panel) };
        *start = [0; 16];
    }
}

#[target_feature(enable = "avx2")]
fn pack(
    operation: &super::super::operation::Operation,
    shape: &super::shape::Shape,
    weights: &[u8],
    first: usize,
    panel: &mut [i16],
) {
    super::panel::pack::<i16, 16, 2>(operation, shape, weights, first, panel);
}

/// # Safety
/// As [`Kernel::tile`] for `M` pixels.
#[target_feature(enable = "avx2")]
unsafe fn tile<const M: usize>(tile: Tile<'_, i16, i16, 16>) {
    let Tile { data, step, runs, panel, start, sums, apart, .. } = tile;
    let data = data.as_ptr();
    let mut weights = panel.as_ptr();
    // SAFETY: `start` has 16 values.
    let (low, high) = unsafe {
        let start = start.as_ptr().cast::<__m256i>();
        (_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1)))
    };
    let mut acc = [[low, high]; M];
    for run in runs {
        // SAFETY: the caller checked that every window's runs lie in `data`, and that the panel has 32 weights for
        // every pair of elements of the runs.
        unsafe {
            let mut at = data.add(run.offset);
            for _ in 0..run.length / 2 {
                let w0 = _mm256_loadu_si256(weights.cast());
                let w1 = _mm256_loadu_si256(weights.cast::<__m256i>().add(1));
                for (m, acc) in acc.iter_mut().enumerate() {
                    let pair = _mm256_set1_epi32(at.add(m * step).cast::<i32>().read_unaligned());
                    acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(pair, w0));
                    acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(pair, w1));
                }
                at = at.add(2);
                weights = weights.add(32);
            }
        }
    }
    for (m, acc) in acc.iter().enumerate() {
        let Some(sums) = sums.get_mut(m * apart) else { return };
        // SAFETY: `sums` has 16 values.
        unsafe {
            let sums = sums.as_mut_ptr().cast::<__m256i>();
            _mm256_storeu_si256(sums, acc[0]);
            _mm256_storeu_si256(sums.add(1), acc[1]);
        }
    }
}
