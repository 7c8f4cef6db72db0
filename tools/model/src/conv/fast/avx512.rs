// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inner loop for AVX-512 VNNI: `vpdpbusd`, 14 pixels by 32 kernels.
//!
//! The instruction multiplies unsigned by signed bytes and wraps at 32 bits. Data is stored 128 higher, so each
//! kernel's sum starts at -128 times the sum of its weights.

// Loads and stores are the unaligned ones.
#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::super::operation::Mapping;
use super::kernel::{by_pixels, Kernel, Tile};

/// Weights are prefetched this many bytes before their use.
const AHEAD: usize = 4096;

/// AVX-512 VNNI.
#[derive(Debug)]
pub struct Avx512;

impl Kernel<32> for Avx512 {
    type Data = u8;
    type Weight = i8;
    const GROUP: usize = 4;
    const PIXELS: usize = 14;
    const TWO_LINES: bool = true;
    const BIAS: i32 = 128;

    unsafe fn tile(tile: Tile<'_, u8, i8, 32>) {
        // SAFETY: the caller has AVX-512 VNNI, and `tile`'s conditions are the same.
        unsafe {
            if tile.lines == 2 {
                return by_pixels!(tile in lines 2: 1 2 3 4 5 6 7);
            }
            by_pixels!(tile in lines 1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
        }
    }

    unsafe fn pack(
        operation: &super::super::operation::Operation,
        shape: &super::shape::Shape,
        weights: &[u8],
        first: usize,
        panel: &mut [i8],
        start: &mut [i32; 32],
    ) {
        // SAFETY: the caller has AVX-512.
        unsafe {
            pack(operation, shape, weights, first, panel);
            sum(panel, start);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn pack(
    operation: &super::super::operation::Operation,
    shape: &super::shape::Shape,
    weights: &[u8],
    first: usize,
    panel: &mut [i8],
) {
    let count = operation.kernels.saturating_sub(first).min(32);
    let channels = operation.kernel.channels;
    if channels.min(operation.atomic_c) < 16 {
        // For short rows, copying groups is cheaper than transposing 64 bytes per row.
        return super::panel::pack::<i8, 32, 4>(operation, shape, weights, first, panel);
    }
    if count < 32 || shape.channels != channels {
        panel.fill(0);
    }
    for block in 0..channels.div_ceil(operation.atomic_c) {
        for half in (0..count).step_by(16) {
            let kernels = (count - half).min(16);
            let row = |tap| operation.weight_row(first + half, block, tap);
            let std::ops::Range { start, end } = row(0);
            let length = end - start;
            // In a direct mapping, both positions and kernels have a constant distance.
            let direct = matches!(operation.mapping, Mapping::Direct(_));
            let first_stride = operation.weight_stride(first + half, kernels, block, 0);
            let step = if direct && shape.taps > 1 { row(1).start - start } else { 0 };
            for tap in 0..shape.taps {
                let at = (tap * shape.channels + block * operation.atomic_c) * 32 + half * 4;
                let mut rows = [_mm512_setzero_si512(); 16];
                let mask = u64::MAX >> (64 - length);
                let stride =
                    if direct { first_stride } else { operation.weight_stride(first + half, kernels, block, tap) };
                match stride {
                    Some(stride) => {
                        let start = if direct { start + tap * step } else { row(tap).start };
                        let from = &weights[start..start + kernels * stride];
                        for (to, from) in rows.iter_mut().zip(from.chunks_exact(stride)) {
                            // SAFETY: the mask has a bit for each byte of the row.
                            *to = unsafe { _mm512_maskz_loadu_epi8(mask, from.as_ptr().cast()) };
                            // The rows of a group are adjacent. An address after the weights is prefetched, but not
                            // read.
                            _mm_prefetch::<_MM_HINT_T0>(from.as_ptr().wrapping_add(AHEAD).cast());
                        }
                    }
                    None => {
                        for (index, to) in rows.iter_mut().enumerate().take(kernels) {
                            let row = &weights[operation.weight_row(first + half + index, block, tap)];
                            // SAFETY: the mask has a bit for each byte of the row.
                            *to = unsafe { _mm512_maskz_loadu_epi8(mask, row.as_ptr().cast()) };
                        }
                    }
                }
                transpose(&mut rows);
                for (step, row) in rows[..length.div_ceil(4)].iter().enumerate() {
                    let to = &mut panel[at + step * 128..][..64];
                    // SAFETY: 64 weights.
                    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), *row) };
                }
            }
        }
    }
}

/// Transposes 16 by 16 groups of 4 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: &mut [__m512i; 16]) {
    let mut pairs = [_mm512_setzero_si512(); 16];
    for i in (0..16).step_by(2) {
        pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    // `fours[4 * i + c]` has rows 4i to 4i + 3 of column c in each 128 bits.
    let mut fours = [_mm512_setzero_si512(); 16];
    for i in (0..16).step_by(4) {
        fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
        fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
        fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
    for c in 0..4 {
        let (a, b, d, e) = (fours[c], fours[4 + c], fours[8 + c], fours[12 + c]);
        // Select the first and third, then the second and fourth 128 bits of two registers.
        let (low0, low1) = (_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(d, e, 0x88));
        let (high0, high1) = (_mm512_shuffle_i32x4(a, b, 0xdd), _mm512_shuffle_i32x4(d, e, 0xdd));
        rows[c] = _mm512_shuffle_i32x4(low0, low1, 0x88);
        rows[8 + c] = _mm512_shuffle_i32x4(low0, low1, 0xdd);
        rows[4 + c] = _mm512_shuffle_i32x4(high0, high1, 0x88);
        rows[12 + c] = _mm512_shuffle_i32x4(high0, high1, 0xdd);
    }
}

/// -128 times the sum of each kernel's weights.
#[target_feature(enable = "avx512f,avx512vnni")]
fn sum(panel: &[i8], start: &mut [i32; 32]) {
    let bias = _mm512_set1_epi8(-128);
    let mut acc = [_mm512_setzero_si512(); 2];
    for step in panel.chunks_exact(128) {
        // SAFETY: a step has 128 weights. -128 is the unsigned byte 128.
        unsafe {
            let step = step.as_ptr().cast::<__m512i>();
            acc[0] = _mm512_dpbusd_epi32(acc[0], bias, _mm512_loadu_si512(step));
            acc[1] = _mm512_dpbusd_epi32(acc[1], bias, _mm512_loadu_si512(step.add(1)));
        }
    }
    // SAFETY: `start` has 32 values.
    unsafe {
        let start = start.as_mut_ptr().cast::<__m512i>();
        _mm512_storeu_si512(start, _mm512_sub_epi32(_mm512_setzero_si512(), acc[0]));
        _mm512_storeu_si512(start.add(1), _mm512_sub_epi32(_mm512_setzero_si512(), acc[1]));
    }
}

/// # Safety
/// As [`Kernel::tile`] for `M` pixels in each of `LINES` lines.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn tile<const M: usize, const LINES: usize>(tile: Tile<'_, u8, i8, 32>) {
    // SAFETY: as this function's.
    unsafe {
        if tile.kernels > 16 {
            columns::<M, LINES, 2>(tile);
        } else {
            columns::<M, LINES, 1>(tile);
        }
    }
}

/// The sums with the first 16 or 32 kernels. The others keep their initial values.
///
/// # Safety
/// As [`Kernel::tile`] for `M` pixels in each of `LINES` lines. `COLUMNS` is 1 or 2.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn columns<const M: usize, const LINES: usize, const COLUMNS: usize>(tile: Tile<'_, u8, i8, 32>) {
    let Tile { data, step, line, runs, panel, start, sums, apart, .. } = tile;
    let data = data.as_ptr();
    let mut weights = panel.as_ptr();
    // SAFETY: `start` has 32 values.
    let (low, high) = unsafe {
        let start = start.as_ptr().cast::<__m512i>();
        (_mm512_loadu_si512(start), _mm512_loadu_si512(start.add(1)))
    };
    let mut acc = [[[low, high]; M]; LINES];
    for run in runs {
        // SAFETY: the caller checked that every window's runs lie in `data`, and that the panel has 128 weights for
        // every four elements of the runs.
        unsafe {
            let mut at = data.add(run.offset);
            for _ in 0..run.length / 4 {
                let w0 = _mm512_loadu_si512(weights.cast());
                let w1 = _mm512_loadu_si512(weights.cast::<__m512i>().add(COLUMNS - 1));
                // The next panel is adjacent. An address after the last panel is prefetched, but not read.
                _mm_prefetch::<_MM_HINT_T0>(weights.wrapping_add(AHEAD).cast());
                _mm_prefetch::<_MM_HINT_T0>(weights.wrapping_add(AHEAD + 64).cast());
                for (l, acc) in acc.iter_mut().enumerate() {
                    let at = at.add(l * line);
                    for (m, acc) in acc.iter_mut().enumerate() {
                        let four = _mm512_set1_epi32(at.add(m * step).cast::<i32>().read_unaligned());
                        acc[0] = _mm512_dpbusd_epi32(acc[0], four, w0);
                        if COLUMNS == 2 {
                            acc[1] = _mm512_dpbusd_epi32(acc[1], four, w1);
                        }
                    }
                }
                at = at.add(4);
                weights = weights.add(128);
            }
        }
    }
    for (m, acc) in acc.as_flattened().iter().enumerate() {
        let Some(sums) = sums.get_mut(m * apart) else { return };
        // SAFETY: `sums` has 32 values.
        unsafe {
            let sums = sums.as_mut_ptr().cast::<__m512i>();
            _mm512_storeu_si512(sums, acc[0]);
            _mm512_storeu_si512(sums.add(1), acc[1]);
        }
    }
}
