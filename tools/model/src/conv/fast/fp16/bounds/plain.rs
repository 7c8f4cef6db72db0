// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bounds in plain code that the compiler vectorises.

#![allow(clippy::inline_always)]

use super::panel::KERNELS;
use super::run::GROUP;
use super::sums::{Sums, UNIT};

/// Computes bounds of the sums of `windows`, `TILE` windows at a time, which is as many as the registers hold. `FUSED`
/// selects fused multiplications and additions.
#[inline(always)]
pub(super) fn bounds<const TILE: usize, const FUSED: bool>(
    sums: &Sums<'_>,
    windows: &[usize],
    low: &mut [f32],
    high: &mut [f32],
) {
    let [low, high] = [low, high].map(|values| values.as_chunks_mut::<KERNELS>().0);
    let (tiles, rest) = windows.as_chunks::<TILE>();
    for (number, windows) in tiles.iter().enumerate() {
        let range = number * TILE..(number + 1) * TILE;
        tile::<TILE, FUSED>(sums, windows, &mut low[range.clone()], &mut high[range]);
    }
    let done = tiles.len() * TILE;
    for ((window, low), high) in rest.iter().zip(low[done..].chunks_mut(1)).zip(high[done..].chunks_mut(1)) {
        tile::<1, FUSED>(sums, &[*window], low, high);
    }
}

#[inline(always)]
fn tile<const N: usize, const FUSED: bool>(
    sums: &Sums<'_>,
    windows: &[usize; N],
    low: &mut [[f32; KERNELS]],
    high: &mut [[f32; KERNELS]],
) {
    finish(sums, &products::<N, FUSED>(sums, windows), &units(sums, windows), low, high);
}

/// Computes the bounds from the sums of the exact products and of the units.
#[inline(always)]
pub(super) fn finish<const N: usize>(
    sums: &Sums<'_>,
    exact: &[[f64; KERNELS]; N],
    units: &[[f32; KERNELS]; N],
    low: &mut [[f32; KERNELS]],
    high: &mut [[f32; KERNELS]],
) {
    for (window, (low, high)) in low.iter_mut().zip(high).enumerate() {
        for kernel in 0..KERNELS {
            let (sum, unit) = (exact[window][kernel], f64::from(units[window][kernel]));
            low[kernel] = -up(-(sum - unit * sums.slack.below) * UNIT);
            high[kernel] = up((sum + unit * sums.slack.above) * UNIT);
        }
    }
}

/// The smallest fp32 that is not below `value`.
#[inline(always)]
fn up(value: f64) -> f32 {
    let near = value as f32;
    let bits = near.to_bits() as i32;
    // Away from zero if positive, towards zero if negative.
    let next = if bits < 0 { bits.wrapping_sub(1) } else { bits + 1 };
    if f64::from(near) < value {
        f32::from_bits(next as u32)
    } else {
        near
    }
}

/// Sums the exact products.
#[inline(always)]
fn products<const N: usize, const FUSED: bool>(sums: &Sums<'_>, windows: &[usize; N]) -> [[f64; KERNELS]; N] {
    let mut out = [[0.0; KERNELS]; N];
    for run in sums.runs {
        let weights = &sums.panel.values[run.lane..][..run.length];
        let data = windows.map(|window| &sums.data.values[window + run.offset..][..run.length]);
        for (lane, weights) in weights.iter().enumerate() {
            for (out, data) in out.iter_mut().zip(data) {
                let datum = data[lane];
                for (out, weight) in out.iter_mut().zip(weights) {
                    *out = if FUSED { weight.mul_add(datum, *out) } else { *out + weight * datum };
                }
            }
        }
    }
    out
}

/// Sums the units of all steps' products.
#[inline(always)]
fn units<const N: usize>(sums: &Sums<'_>, windows: &[usize; N]) -> [[f32; KERNELS]; N] {
    let mut out = [[0.0; KERNELS]; N];
    for step in sums.steps {
        for (out, window) in out.iter_mut().zip(windows) {
            let mut largest = [i8::MIN; KERNELS];
            let mut count = 0;
            for run in &sums.runs[step.clone()] {
                let first = window + run.offset;
                count += sums.data.before[first + run.length] - sums.data.before[first];
                let groups = &sums.panel.exponents[run.group..][..run.length.div_ceil(GROUP)];
                let data = &sums.data.exponents[first..][..groups.len() * GROUP];
                for (weights, data) in groups.as_flattened().as_chunks::<KERNELS>().0.iter().zip(data) {
                    for (largest, weight) in largest.iter_mut().zip(weights) {
                        *largest = (*largest).max(weight + data);
                    }
                }
            }
            for (out, largest) in out.iter_mut().zip(largest) {
                let power = f32::from_bits((127 + 4 * i32::from(largest.max(0)) as u32) << 23);
                *out += if largest < 0 { 0.0 } else { (count as f32 - sums.slack.spared) * power };
            }
        }
    }
    out
}
