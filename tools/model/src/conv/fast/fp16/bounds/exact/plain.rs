// SPDX-License-Identifier: MIT OR Apache-2.0

//! Steps in plain code that the compiler vectorises.

#![allow(clippy::inline_always)]

use std::ops::Range;

use super::super::sums::Sums;
use super::buffers::{Buffers, Element, Lanes, LANES, MANY, MAX_STEPS, NEAR, NOTHING};

/// Smallest number of lanes per step.
const NARROWEST: usize = LANES / MAX_STEPS;
/// Products of 28 bits and a sign whose sum fits 32 bits.
const CHUNK: usize = 4;

/// Computes all steps of an element.
#[inline(always)]
pub(super) fn walk(sums: &Sums<'_>, buffers: &mut Buffers, number: usize, element: Element) {
    match sums.widest {
        ..=16 => walk_by::<16>(sums, buffers, number, element),
        17..=32 => walk_by::<32>(sums, buffers, number, element),
        _ => walk_by::<64>(sums, buffers, number, element),
    }
}

/// Computes all steps of an element. A step has at most `W` products.
#[inline(always)]
fn walk_by<const W: usize>(sums: &Sums<'_>, buffers: &mut Buffers, number: usize, element: Element) {
    for (first, steps) in (0..).step_by(LANES / W).zip(sums.steps.chunks(LANES / W)) {
        let [weights, data] = joined::<W>(sums, steps, element);
        steps_of::<W>(&weights, &data, buffers, first, number);
    }
}

/// The weights and the data of steps, each from lane `W` times its number on.
#[inline(always)]
pub(super) fn joined<const W: usize>(sums: &Sums<'_>, steps: &[Range<usize>], (kernel, window): Element) -> [Lanes; 2] {
    let [mut weights, mut data] = [Lanes::EMPTY; 2];
    for (step, runs) in steps.iter().enumerate() {
        let mut at = step * W;
        for run in &sums.runs[runs.clone()] {
            weights.set(at, sums.panel.row(kernel, run));
            data.set(at, sums.data.row(window, run));
            at += run.length;
        }
    }
    [weights, data]
}

/// Computes the steps of element `number` from step `first` on, with `W` products each and without NaN: their largest
/// exponents, and the sums of all but the far products ([`fp16::step`](super::fp16::step)).
#[inline(always)]
pub(super) fn steps_of<const W: usize>(
    weights: &Lanes,
    data: &Lanes,
    buffers: &mut Buffers,
    first: usize,
    number: usize,
) {
    let Buffers { steps, far } = buffers;
    let (weight, datum) = (&weights.significands, &data.significands);
    let mut exponents = [0i8; LANES];
    for (exponent, (weight, datum)) in exponents.iter_mut().zip(weights.exponents.iter().zip(&data.exponents)) {
        *exponent = weight + datum;
    }
    let mut distances = [0u8; LANES];
    for (step, (exponents, distances)) in exponents.chunks_exact(W).zip(distances.chunks_exact_mut(W)).enumerate() {
        let top = exponents.iter().fold(0, |top, &exponent| exponent.max(top));
        for (distance, exponent) in distances.iter_mut().zip(exponents) {
            *distance = (top.wrapping_sub(*exponent) as u8).min(NOTHING);
        }
        steps.exponents[first + step][number] = top;
    }
    let mut lost = [0u8; LANES];
    let mut is_far = [0u8; LANES];
    for i in 0..LANES {
        let negative = ((weight[i] ^ datum[i]) >> 15) as u8;
        let (sum, carry) = booth8(negative, weight[i].unsigned_abs() as u8, datum[i].unsigned_abs() as u8);
        let mask = if distances[i] == 1 { 0xf } else { 0xff };
        lost[i] = u8::from(distances[i].wrapping_sub(1) < NEAR && sum & mask > mask - (carry & mask));
        is_far[i] = u8::from(distances[i].wrapping_sub(NEAR + 1) < NOTHING - NEAR - 1);
    }
    for step in 0..LANES / W {
        let mut total = 0;
        for first in (step * W..(step + 1) * W).step_by(CHUNK * NARROWEST) {
            let mut sums = [0i32; NARROWEST];
            for part in (first..(first + CHUNK * NARROWEST).min((step + 1) * W)).step_by(NARROWEST) {
                for (lane, sum) in sums.iter_mut().enumerate() {
                    let i = part + lane;
                    let product = i32::from(weight[i]) * i32::from(datum[i]);
                    let shifted = product >> ((4 * u32::from(distances[i])) & 31);
                    *sum += if distances[i] <= NEAR { shifted - i32::from(lost[i]) } else { 0 };
                }
            }
            total += sums.iter().map(|&sum| i64::from(sum)).sum::<i64>();
        }
        steps.sums[first + step][number] = total;
    }
    if is_far == [0; LANES] {
        return;
    }
    far.reserve();
    for (word, bytes) in is_far.as_chunks().0.iter().enumerate() {
        let mut left = u64::from_le_bytes(*bytes);
        while left != 0 {
            let i = 8 * word + left.trailing_zeros() as usize / 8;
            far.push(weight[i], datum[i], distances[i], ((first + i / W) * MANY + number) as u32);
            left &= left - 1;
        }
    }
}

/// The low 8 bits of the Booth multiplier's sum and carry. `negative` is 0xff or 0.
#[inline(always)]
fn booth8(negative: u8, weight: u8, data: u8) -> (u8, u8) {
    let mut partial = [0u8; 4];
    let mut minus = [0u8; 4];
    // A Booth digit has two bits and the bit below them.
    let (low_bits, bits) = ((weight << 1) ^ negative, weight ^ negative);
    for (i, (partial, minus)) in partial.iter_mut().zip(&mut minus).enumerate() {
        let (low, middle, high) = (low_bits >> (2 * i) & 1, bits >> (2 * i) & 1, bits >> (2 * i + 1) & 1);
        let once = 0u8.wrapping_sub(low ^ middle);
        let twice = 0u8.wrapping_sub(!(low ^ middle) & (middle ^ high) & 1);
        let negate = high & !(low & middle) & 1;
        let multiple = (data & once) | (data << 1 & twice);
        *partial = (multiple ^ 0u8.wrapping_sub(negate)) << (2 * i);
        *minus = negate << (2 * i);
    }
    let compress = |a: u8, b: u8, c: u8| (a ^ b ^ c, ((a & b) | (b & c) | (a & c)) << 1);
    // The order of `fp16::booth`, because another order gives another pair. Higher bits are left out.
    let low = compress(partial[0], partial[1] | minus[0], partial[2] | minus[1]);
    let low = compress(low.0, low.1, partial[3] | minus[2]);
    let low = compress(low.0, low.1, minus[3]);
    let both = compress(low.0, low.1, 0);
    compress(both.0, both.1, 0)
}
