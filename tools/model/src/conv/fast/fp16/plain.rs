// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inner loops of fp16 in plain code that the compiler vectorises, 16 kernels at a time.

#![allow(clippy::inline_always)]

use super::super::super::fp16;
use super::panel::{Active, Lane, KERNELS};
use super::tables::Tables;

/// Kernels that are computed together.
const WIDTH: usize = 16;

/// Computes the largest exponent of each kernel's products.
#[inline(always)]
pub fn largest(lanes: &[Lane], active: &[Active]) -> [i8; KERNELS] {
    let mut largest = [0; KERNELS];
    for active in active {
        for (largest, exponent) in largest.iter_mut().zip(&lanes[active.lane as usize].exponent) {
            *largest = (*largest).max(exponent + active.exponent);
        }
    }
    largest
}

/// Sums each kernel's products at the kernel's largest exponent, for the first `kernels` kernels.
#[inline(always)]
pub fn sum(lanes: &[Lane], active: &[Active], largest: &[i8; KERNELS], kernels: usize, sums: &mut [i64; KERNELS]) {
    let tables = Tables::get();
    *sums = [0; KERNELS];
    for active in active {
        let lane = &lanes[active.lane as usize];
        let datum = i32::from(active.significand);
        let (row_4, row_8) = (&tables.by_4[active.row_4()].0, &tables.by_8[active.row_8()].0);
        for first in (0..kernels).step_by(WIDTH) {
            let mut distance = [0i8; WIDTH];
            let mut products = [0i32; WIDTH];
            for i in 0..WIDTH {
                distance[i] = largest[first + i] - (lane.exponent[first + i] + active.exponent);
                let counts = distance[i] < 8;
                let shift = if counts { 4 * distance[i] as u32 } else { 0 };
                let product = (i32::from(lane.significand[first + i]) * datum) >> (shift & 31);
                products[i] = if counts { product } else { 0 };
            }
            // The carries that the hardware loses by shifting sum and carry separately.
            for i in 0..WIDTH {
                let place = usize::from(lane.byte[first + i]) & 63;
                products[i] -= match distance[i] {
                    1 => i32::from(row_4[place] & lane.bit[first + i] != 0),
                    2 => i32::from(row_8[place] & lane.bit[first + i] != 0),
                    far @ 3..=7 => {
                        let weight = lane.significand[first + i];
                        let negative = (weight ^ active.significand) < 0;
                        let magnitudes = (weight.unsigned_abs().into(), active.significand.unsigned_abs().into());
                        products[i] - fp16::product(negative, magnitudes.0, magnitudes.1, 4 * far as u32)
                    }
                    _ => 0,
                };
            }
            for (sum, product) in sums[first..first + WIDTH].iter_mut().zip(products) {
                *sum += i64::from(product);
            }
        }
    }
}
