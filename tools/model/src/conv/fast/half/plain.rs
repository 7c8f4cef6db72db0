// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inner loops over fp16 in plain code: 16 kernels side by side, which compilers turn into vector instructions.

#![allow(clippy::inline_always)]

use super::super::super::half;
use super::panel::{Active, Lane, KERNELS};

/// Kernels side by side.
const WIDTH: usize = 16;

/// The largest exponent of each kernel's products.
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

/// Each kernel's sum of products at its largest exponent, for the first `kernels` of them.
#[inline(always)]
pub fn sum(lanes: &[Lane], active: &[Active], largest: &[i8; KERNELS], kernels: usize, sums: &mut [i64; KERNELS]) {
    *sums = [0; KERNELS];
    for active in active {
        let lane = &lanes[active.lane as usize];
        for first in (0..kernels).step_by(WIDTH) {
            let mut distance = [0i8; WIDTH];
            let mut any = false;
            for i in 0..WIDTH {
                distance[i] = largest[first + i] - (lane.exponent[first + i] + active.exponent);
                any |= distance[i] < 8;
            }
            if !any {
                continue;
            }
            let products = products(&lane.significand[first..first + WIDTH], active.significand, &distance);
            for (sum, product) in sums[first..first + WIDTH].iter_mut().zip(products) {
                *sum += i64::from(product);
            }
        }
    }
}

/// [`half::product`] of 16 weights with one datum; zero from a distance of 8 on.
#[inline(always)]
fn products(weights: &[i16], data: i16, distance: &[i8; WIDTH]) -> [i32; WIDTH] {
    let mut out = [0; WIDTH];
    let magnitude = u32::from(data.unsigned_abs());
    for i in 0..WIDTH {
        let negative = (weights[i] ^ data) < 0;
        let (sum, carry) = half::booth_lane(negative, u32::from(weights[i].unsigned_abs()), magnitude);
        let counts = distance[i] < 8;
        let shift = if counts { 4 * distance[i] as u32 } else { 0 } & 31;
        let product = (sum >> shift).wrapping_add(carry >> shift).wrapping_sub(half::BOOTH_OFFSET >> shift);
        out[i] = if counts { product as i32 } else { 0 };
    }
    out
}
