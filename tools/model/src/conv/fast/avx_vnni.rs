// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inner loop for the dot products of VNNI on 256 bits: `vpdpbusd`, 6 pixels by 16 kernels.
//!
//! The instruction has two encodings, and most processors have one of them: VEX (AVX-VNNI, processors without AVX-512)
//! and EVEX (AVX-512 VL with VNNI). Both compute the same, as Intel's manual says (volume 2, VPDPBUSD). The loops
//! differ in the intrinsic only, so the tests and benchmarks of a machine with AVX-512 run this code too.
//!
//! Data is stored 128 higher, as in `avx512`.

// Loads and stores are the unaligned ones.
#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::super::operation::Operation;
use super::kernel::{by_pixels, Kernel, Tile};
use super::shape::Shape;

/// Defines the loops of one encoding.
macro_rules! encoding {
    ($(#[$attribute:meta])* $name:ident, $features:literal, $dot:ident) => {
        $(#[$attribute])*
        #[derive(Debug)]
        pub struct $name;

        impl Kernel<16> for $name {
            type Data = u8;
            type Weight = i8;
            const GROUP: usize = 4;
            const PIXELS: usize = 6;
            const BIAS: i32 = 128;

            unsafe fn tile(work: Tile<'_, u8, i8, 16>) {
                /// # Safety
                /// As [`Kernel::tile`] for `M` pixels.
                #[target_feature(enable = $features)]
                unsafe fn tile<const M: usize>(tile: Tile<'_, u8, i8, 16>) {
                    let Tile { data, step, runs, panel, start, sums, apart, .. } = tile;
                    let data = data.as_ptr();
                    let mut weights = panel.as_ptr().cast::<__m256i>();
                    let start = start.as_ptr().cast::<__m256i>();
                    // SAFETY: `start` has 16 values.
                    let mut acc = [unsafe { [_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))] }; M];
                    for run in runs {
                        // SAFETY: the caller checked that every window's runs lie in `data`, and that the panel has 64
                        // weights for every four elements of the runs.
                        unsafe {
                            let mut at = data.add(run.offset);
                            for _ in 0..run.length / 4 {
                                let (w0, w1) = (_mm256_loadu_si256(weights), _mm256_loadu_si256(weights.add(1)));
                                for (m, acc) in acc.iter_mut().enumerate() {
                                    let four = _mm256_set1_epi32(at.add(m * step).cast::<i32>().read_unaligned());
                                    *acc = [$dot(acc[0], four, w0), $dot(acc[1], four, w1)];
                                }
                                at = at.add(4);
                                weights = weights.add(2);
                            }
                        }
                    }
                    for (m, acc) in acc.iter().enumerate() {
        let Some(sums) = sums.get_mut(m * apart) else { return };
                        let sums = sums.as_mut_ptr().cast::<__m256i>();
                        // SAFETY: `sums` has 16 values.
                        unsafe {
                            _mm256_storeu_si256(sums, acc[0]);
                            _mm256_storeu_si256(sums.add(1), acc[1]);
                        }
                    }
                }
                // SAFETY: the caller has the instructions, and `tile`'s conditions are the same.
                unsafe { by_pixels!(work: 1 2 3 4 5 6) }
            }

            unsafe fn pack(
                operation: &Operation,
                shape: &Shape,
                weights: &[u8],
                first: usize,
                panel: &mut [i8],
                start: &mut [i32; 16],
            ) {
                // SAFETY: the caller has AVX2.
                unsafe { pack(operation, shape, weights, first, panel, start) }
            }
        }
    };
}

encoding! {
    /// The encoding of AVX-VNNI.
    Vex, "avx2,avxvnni", _mm256_dpbusd_avx_epi32
}
encoding! {
    /// The encoding of AVX-512.
    Evex, "avx2,avx512vl,avx512vnni", _mm256_dpbusd_epi32
}

/// Packs a panel. The sums start at -128 times the sum of each kernel's weights.
#[target_feature(enable = "avx2")]
fn pack(operation: &Operation, shape: &Shape, weights: &[u8], first: usize, panel: &mut [i8], start: &mut [i32; 16]) {
    super::panel::pack::<i8, 16, 4>(operation, shape, weights, first, panel);
    *start = [0; 16];
    for group in panel.as_chunks::<4>().0.as_chunks::<16>().0 {
        for (start, weights) in start.iter_mut().zip(group) {
            *start -= 128 * weights.iter().map(|&weight| i32::from(weight)).sum::<i32>();
        }
    }
}
