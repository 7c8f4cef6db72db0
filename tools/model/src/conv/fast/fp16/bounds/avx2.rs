// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bounds with AVX2: 16 kernels and 3 windows at a time.

#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::panel::KERNELS;
use super::plain;
use super::run::GROUP;
use super::sums::Sums;

/// Computes bounds of the sums of `windows`.
///
/// # Safety
/// The machine has AVX2 and FMA. All runs of each window lie in the data, up to the end of their last group. The panel
/// holds the runs. `low` and `high` have one value per window and kernel.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn bounds(sums: &Sums<'_>, windows: &[usize], low: &mut [f32], high: &mut [f32]) {
    let [low, high] = [low, high].map(|values| values.as_chunks_mut::<KERNELS>().0);
    let mut at = 0;
    while at < windows.len() {
        let (low, high) = (&mut low[at..], &mut high[at..]);
        // SAFETY: as this function's.
        unsafe {
            at += match &windows[at..] {
                [a, b] | [a, b, _, _] => tile(sums, &[*a, *b], low, high),
                [a, b, c, ..] => tile(sums, &[*a, *b, *c], low, high),
                [a, ..] => tile(sums, &[*a], low, high),
                [] => return,
            }
        };
    }
}

/// Computes the bounds of `N` windows. Returns `N`.
#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const N: usize>(
    sums: &Sums<'_>,
    windows: &[usize; N],
    low: &mut [[f32; KERNELS]],
    high: &mut [[f32; KERNELS]],
) -> usize {
    // SAFETY: as this function's.
    let (exact, units) = unsafe { (products(sums, windows), units(sums, windows)) };
    plain::finish(sums, &exact, &units, &mut low[..N], &mut high[..N]);
    N
}

/// Sums the exact products.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn products<const N: usize>(sums: &Sums<'_>, windows: &[usize; N]) -> [[f64; KERNELS]; N] {
    let mut acc = [[_mm256_setzero_pd(); 4]; N];
    for run in sums.runs {
        // SAFETY: the panel holds the run's weights, and the data each window's run.
        unsafe {
            let mut weights = sums.panel.values.as_ptr().add(run.lane).cast::<f64>();
            let data = windows.map(|window| sums.data.values.as_ptr().add(window + run.offset));
            for lane in 0..run.length {
                let mut each = [_mm256_setzero_pd(); N];
                for (each, data) in each.iter_mut().zip(data) {
                    *each = _mm256_broadcast_sd(&*data.add(lane));
                }
                for part in 0..4 {
                    let weights = _mm256_loadu_pd(weights.add(4 * part));
                    for (acc, each) in acc.iter_mut().zip(each) {
                        acc[part] = _mm256_fmadd_pd(weights, each, acc[part]);
                    }
                }
                weights = weights.add(KERNELS);
            }
        }
    }
    let mut out = [[0.0; KERNELS]; N];
    for (out, acc) in out.iter_mut().zip(acc) {
        for (out, acc) in out.as_chunks_mut::<4>().0.iter_mut().zip(acc) {
            // SAFETY: four numbers.
            unsafe { _mm256_storeu_pd(out.as_mut_ptr(), acc) };
        }
    }
    out
}

/// Sums the units of all steps' products.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn units<const N: usize>(sums: &Sums<'_>, windows: &[usize; N]) -> [[f32; KERNELS]; N] {
    // For each lane of two vectors, the byte of a group that it gets.
    let first = _mm256_set_m128i(_mm_set1_epi8(1), _mm_set1_epi8(0));
    let second = _mm256_set_m128i(_mm_set1_epi8(3), _mm_set1_epi8(2));
    let mut acc = [[_mm256_setzero_ps(); 2]; N];
    for step in sums.steps {
        let mut largest = [_mm256_set1_epi8(i8::MIN); N];
        let mut count = [0; N];
        for run in &sums.runs[step.clone()] {
            // SAFETY: the panel holds the run's groups, and the data each window's run to the end of its last group.
            unsafe {
                let groups = sums.panel.exponents.as_ptr().add(run.group);
                let data = windows.map(|window| sums.data.exponents.as_ptr().add(window + run.offset));
                for group in 0..run.length.div_ceil(GROUP) {
                    let weights = groups.add(group).cast::<__m256i>();
                    let (low, high) = (_mm256_loadu_si256(weights), _mm256_loadu_si256(weights.add(1)));
                    for (largest, data) in largest.iter_mut().zip(data) {
                        let four = _mm256_set1_epi32(data.add(group * GROUP).cast::<i32>().read_unaligned());
                        let low = _mm256_add_epi8(low, _mm256_shuffle_epi8(four, first));
                        let high = _mm256_add_epi8(high, _mm256_shuffle_epi8(four, second));
                        *largest = _mm256_max_epi8(*largest, _mm256_max_epi8(low, high));
                    }
                }
                for (count, window) in count.iter_mut().zip(windows) {
                    let before = sums.data.before.as_ptr().add(window + run.offset);
                    *count += *before.add(run.length) - *before;
                }
            }
        }
        for ((acc, largest), count) in acc.iter_mut().zip(largest).zip(count) {
            let bytes = _mm_max_epi8(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
            let count = _mm256_set1_ps(count as f32 - sums.slack.spared);
            for (acc, bytes) in acc.iter_mut().zip([bytes, _mm_srli_si128(bytes, 8)]) {
                let largest = _mm256_cvtepi8_epi32(bytes);
                let power = _mm256_add_epi32(_mm256_slli_epi32(largest, 25), _mm256_set1_epi32(127 << 23));
                // Zero where no product has an exponent.
                let power = _mm256_andnot_si256(_mm256_srai_epi32(largest, 31), power);
                *acc = _mm256_fmadd_ps(count, _mm256_castsi256_ps(power), *acc);
            }
        }
    }
    let mut out = [[0.0; KERNELS]; N];
    for (out, acc) in out.iter_mut().zip(acc) {
        for (out, acc) in out.as_chunks_mut::<8>().0.iter_mut().zip(acc) {
            // SAFETY: eight numbers.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), acc) };
        }
    }
    out
}
