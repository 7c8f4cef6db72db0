// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bounds with AVX-512: 16 kernels and 8 windows at a time.

#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::panel::KERNELS;
use super::run::GROUP;
use super::sums::{Sums, UNIT};

/// For each lane of a vector, the byte of a group that it gets.
static SPREAD: [u8; GROUP * KERNELS] = {
    let mut spread = [0; GROUP * KERNELS];
    let mut lane = 0;
    while lane < spread.len() {
        spread[lane] = (lane / KERNELS) as u8;
        lane += 1;
    }
    spread
};

/// Computes bounds of the sums of `windows`.
///
/// # Safety
/// The machine has AVX-512 ([`crate::Isa::Avx512`]). All runs of each window lie in the data, up to the end of their
/// last group. The panel holds the runs. `low` and `high` have one value per window and kernel.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn bounds(sums: &Sums<'_>, windows: &[usize], low: &mut [f32], high: &mut [f32]) {
    let mut at = 0;
    while at < windows.len() {
        let (low, high) = (&mut low[at * KERNELS..], &mut high[at * KERNELS..]);
        // SAFETY: as this function's.
        unsafe {
            at += match &windows[at..] {
                [a, b, c, d, e, f, g, h, i, j, k, l, ..] => {
                    tile(sums, &[*a, *b, *c, *d, *e, *f, *g, *h, *i, *j, *k, *l], low, high)
                }
                [a, b, c, d, e, f, g, h, ..] => tile(sums, &[*a, *b, *c, *d, *e, *f, *g, *h], low, high),
                [a, b, c, d, ..] => tile(sums, &[*a, *b, *c, *d], low, high),
                [a, b, ..] => tile(sums, &[*a, *b], low, high),
                [a, ..] => tile(sums, &[*a], low, high),
                [] => return,
            }
        };
    }
}

/// Computes the bounds of `N` windows. Returns `N`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn tile<const N: usize>(sums: &Sums<'_>, windows: &[usize; N], low: &mut [f32], high: &mut [f32]) -> usize {
    // SAFETY: as this function's.
    let (exact, units) = unsafe { (products(sums, windows), units(sums, windows)) };
    let (below, above) = (_mm512_set1_pd(sums.slack.below), _mm512_set1_pd(sums.slack.above));
    let unit = _mm512_set1_pd(UNIT);
    let (low, high) = (low[..N * KERNELS].as_chunks_mut::<8>().0, high[..N * KERNELS].as_chunks_mut::<8>().0);
    for window in 0..N {
        let halves = [_mm512_castps512_ps256(units[window]), _mm512_extractf32x8_ps(units[window], 1)];
        for (half, units) in halves.into_iter().enumerate() {
            let (sum, units) = (exact[window][half], _mm512_cvtps_pd(units));
            let (below, above) = (_mm512_fnmadd_pd(units, below, sum), _mm512_fmadd_pd(units, above, sum));
            let below = _mm512_cvt_roundpd_ps(_mm512_mul_pd(below, unit), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
            let above = _mm512_cvt_roundpd_ps(_mm512_mul_pd(above, unit), _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
            // SAFETY: eight floats each.
            unsafe {
                _mm256_storeu_ps(low[2 * window + half].as_mut_ptr(), below);
                _mm256_storeu_ps(high[2 * window + half].as_mut_ptr(), above);
            }
        }
    }
    N
}

/// Sums the exact products.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn products<const N: usize>(sums: &Sums<'_>, windows: &[usize; N]) -> [[__m512d; 2]; N] {
    let mut out = [[_mm512_setzero_pd(); 2]; N];
    for run in sums.runs {
        // SAFETY: the panel holds the run's weights, and the data each window's run.
        unsafe {
            let weights = sums.panel.narrow.as_ptr().add(run.lane).cast::<f32>();
            let data = windows.map(|window| sums.data.values.as_ptr().add(window + run.offset));
            for lane in 0..run.length {
                let first = _mm512_cvtps_pd(_mm256_loadu_ps(weights.add(lane * KERNELS)));
                let second = _mm512_cvtps_pd(_mm256_loadu_ps(weights.add(lane * KERNELS + 8)));
                for (out, data) in out.iter_mut().zip(data) {
                    let datum = _mm512_set1_pd(*data.add(lane));
                    out[0] = _mm512_fmadd_pd(first, datum, out[0]);
                    out[1] = _mm512_fmadd_pd(second, datum, out[1]);
                }
            }
        }
    }
    out
}

/// Sums the units of all steps' products.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn units<const N: usize>(sums: &Sums<'_>, windows: &[usize; N]) -> [__m512; N] {
    // SAFETY: 64 bytes.
    let spread = unsafe { _mm512_loadu_si512(SPREAD.as_ptr().cast()) };
    let mut out = [_mm512_setzero_ps(); N];
    for step in sums.steps {
        let mut largest = [_mm512_set1_epi8(i8::MIN); N];
        let mut count = [0; N];
        for run in &sums.runs[step.clone()] {
            // SAFETY: the panel holds the run's groups, and the data each window's run to the end of its last group.
            unsafe {
                let groups = sums.panel.exponents.as_ptr().add(run.group);
                let data = windows.map(|window| sums.data.exponents.as_ptr().add(window + run.offset));
                for group in 0..run.length.div_ceil(GROUP) {
                    let weights = _mm512_loadu_si512(groups.add(group).cast());
                    for (largest, data) in largest.iter_mut().zip(data) {
                        let four = data.add(group * GROUP).cast::<i32>().read_unaligned();
                        let each = _mm512_shuffle_epi8(_mm512_set1_epi32(four), spread);
                        *largest = _mm512_max_epi8(*largest, _mm512_add_epi8(weights, each));
                    }
                }
                for (count, window) in count.iter_mut().zip(windows) {
                    let before = sums.data.before.as_ptr().add(window + run.offset);
                    *count += *before.add(run.length) - *before;
                }
            }
        }
        for window in 0..N {
            let half =
                _mm256_max_epi8(_mm512_castsi512_si256(largest[window]), _mm512_extracti64x4_epi64(largest[window], 1));
            let bytes = _mm_max_epi8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
            let largest = _mm512_cvtepi8_epi32(bytes);
            let some = _mm512_cmpge_epi32_mask(largest, _mm512_setzero_si512());
            let power = _mm512_add_epi32(_mm512_slli_epi32(largest, 25), _mm512_set1_epi32(127 << 23));
            let count = _mm512_set1_ps(count[window] as f32 - sums.slack.spared);
            out[window] = _mm512_mask3_fmadd_ps(count, _mm512_castsi512_ps(power), out[window], some);
        }
    }
    out
}
