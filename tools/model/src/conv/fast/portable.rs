// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inner loop in plain code, for machines for which there is no other loop.

use super::kernel::{by_pixels, Kernel, Tile};
use super::shape::Run;

/// Plain code over 16-bit elements.
#[derive(Debug)]
pub struct Portable;

impl Kernel<16> for Portable {
    type Data = i16;
    type Weight = i16;
    const GROUP: usize = 2;
    const PIXELS: usize = 4;
    const BIAS: i32 = 0;

    unsafe fn tile(tile: Tile<'_, i16, i16, 16>) {
        by_pixels!(tile: 1 2 3 4);
    }

    unsafe fn pack(
        operation: &super::super::operation::Operation,
        shape: &super::shape::Shape,
        weights: &[u8],
        first: usize,
        panel: &mut [i16],
        start: &mut [i32; 16],
    ) {
        super::panel::pack::<i16, 16, 2>(operation, shape, weights, first, panel);
        *start = [0; 16];
    }
}

fn tile<const M: usize>(tile: Tile<'_, i16, i16, 16>) {
    let Tile { data, step, runs, panel, start, sums, apart, .. } = tile;
    for (sums, acc) in sums.iter_mut().step_by(apart).zip(add::<M>(data, step, runs, panel, start)) {
        *sums = acc;
    }
}

/// [`tile`] with separate arguments. The compiler knows that argument slices do not overlap, but not that fields of a
/// structure do not. Without this function, the loop takes three times as long.
fn add<const M: usize>(data: &[i16], step: usize, runs: &[Run], panel: &[i16], start: &[i32; 16]) -> [[i32; 16]; M] {
    let mut acc = [*start; M];
    let mut weights = panel.chunks_exact(32);
    for run in runs {
        for at in (run.offset..run.offset + run.length).step_by(2) {
            let Some(weights) = weights.next().and_then(|weights| weights.first_chunk::<32>()) else { return acc };
            for (m, acc) in acc.iter_mut().enumerate() {
                let at = at + m * step;
                let (low, high) = (i32::from(data[at]), i32::from(data[at + 1]));
                for (n, acc) in acc.iter_mut().enumerate() {
                    let sum = low * i32::from(weights[2 * n]) + high * i32::from(weights[2 * n + 1]);
                    *acc = acc.wrapping_add(sum);
                }
            }
        }
    }
    acc
}
