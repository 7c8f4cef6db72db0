// SPDX-License-Identifier: MIT OR Apache-2.0

//! Direct convolution of int16, and Winograd convolution of int8 and int16. The products of 16-bit numbers are summed
//! in 64 bits, in plain code that is compiled once per instruction set.
//!
//! Winograd's output transform is linear, so it is applied after the sum over all channels. No sum reaches the 48 bits
//! at which CACC saturates: a direct convolution has fewer than 2^17 products here, and the nine sums of up to 2^13
//! channels of a Winograd output stay below 2^47.

#![allow(clippy::inline_always)]

use std::sync::atomic::{AtomicU32, Ordering};

use nvdla_uapi::reg::values::Precision;

use super::super::cbuf::Input;
use super::super::operation::{Mode, Operation};
use super::super::reference::{deliver, Walk};
use super::super::winograd::poa;
use super::kernel::{MAX_DEPTH, PARALLEL};
use super::parts::{self, Part};
use super::scratch::Scratch;
use super::shape::Shape;
use crate::limit::is_over;
use crate::stream::{Samples, Stream};
use crate::threads::keep_awake;
use nvdla_uapi::isa::Isa;

/// Positions per Winograd tile.
const TILE: usize = 16;
/// Channels per Winograd step.
const STEP: usize = 4;

/// Whether [`run`] can compute the operation.
pub fn is_fast(operation: &Operation) -> bool {
    match (operation.placement.mode, operation.precision) {
        (_, Precision::Fp16) => false,
        (Mode::Winograd, _) => true,
        (_, Precision::Int16) => operation.kernel_bytes() / 2 <= MAX_DEPTH,
        (_, Precision::Int8) => false,
    }
}

/// The operands of Winograd's dot products. Each kernel and tile has one sum per position.
struct Products<'a> {
    /// Elements per row.
    depth: usize,
    /// The rows of a part's kernels, 16 rows (positions) per kernel.
    weights: &'a [i16],
    data: &'a [i16],
}

#[inline(always)]
fn dot(a: &[i16], b: &[i16]) -> i64 {
    a.iter().zip(b).map(|(&a, &b)| i64::from(i32::from(a) * i32::from(b))).sum()
}

impl Products<'_> {
    /// Computes the 16 sums of a tile with one kernel.
    #[inline(always)]
    fn tile(&self, tile: usize, kernel: usize) -> [i64; TILE] {
        std::array::from_fn(|position| {
            let data = &self.data[(tile * TILE + position) * self.depth..][..self.depth];
            let weights = &self.weights[(kernel * TILE + position) * self.depth..][..self.depth];
            dot(weights, data)
        })
    }
}

/// Computes the output cubes. Also returns the number of sums that were limited to 32 bits.
pub fn run(scratch: &mut Scratch, isa: Isa, operation: &Operation, input: &Input<'_>, weights: &[u8]) -> (Stream, u32) {
    let mut samples = scratch.sums(operation.sums());
    let macs = samples.len() * operation.kernel_bytes() / operation.element();
    let threads = if macs < PARALLEL { 1 } else { keep_awake::threads() };
    let walk = Walk { operation, input, weights };
    let limited = if operation.placement.mode == Mode::Winograd {
        let data = transform(&walk);
        each(operation, &mut samples, threads, false, |part| winograd(isa, &walk, &data, part))
    } else {
        let shape = Shape::of_all(operation, 1);
        let mut data = Vec::new();
        let sizes = [shape.line, shape.lines, shape.channels];
        super::fp16::shape::copy(operation, sizes, input, &mut data, |bits| bits as i16);
        each(operation, &mut samples, threads, true, |part| direct(isa, &walk, &shape, &data, part))
    };
    (super::super::operation::stream(operation, Samples::Int(samples)), limited)
}

/// Computes the output in parts, of whole surfaces or (with `pieces`) of lines. Returns the sum of the results.
fn each(
    operation: &Operation,
    samples: &mut [i32],
    threads: usize,
    pieces: bool,
    compute: impl Fn(Part<'_, i32>) -> u32 + Sync,
) -> u32 {
    let limited = AtomicU32::new(0);
    let output = operation.output;
    // A surface that cannot be split into lines is passed as one line.
    let (width, height) = if pieces { (output.width, output.height) } else { (output.width * output.height, 1) };
    parts::each::<i32, 1>(operation, width, height, samples, threads, 1, &|part| {
        limited.fetch_add(compute(part), Ordering::Relaxed);
    });
    limited.into_inner()
}

/// Approximate cost of an int16 multiplication relative to an int8 multiplication.
const SLOWER: usize = 8;

vectorised! {
    /// Computes a part of a direct convolution. Returns the number of sums that were limited.
    fn direct(walk: &Walk<'_>, shape: &Shape, data: &[i16], part: Part<'_, i32>) -> u32 {
        direct_part(walk, shape, data, part)
    }
}

vectorised! {
    /// Computes a part of a Winograd convolution. Returns the number of sums that were limited.
    fn winograd(walk: &Walk<'_>, data: &[i16], part: Part<'_, i32>) -> u32 {
        winograd_part(walk, data, part)
    }
}

#[inline(always)]
fn direct_part(walk: &Walk<'_>, shape: &Shape, data: &[i16], mut part: Part<'_, i32>) -> u32 {
    let operation = walk.operation;
    let (lanes, depth) = (operation.atomic_k, shape.depth());
    let kernels = operation.kernels.saturating_sub(part.kernel).min(lanes);
    let mut rows = vec![0; kernels * depth];
    for (kernel, rows) in rows.chunks_exact_mut(depth).enumerate() {
        for tap in 0..shape.taps {
            for block in 0..operation.kernel.channels.div_ceil(operation.atomic_c) {
                let row = &walk.weights[operation.weight_row(part.kernel + kernel, block, tap)];
                let to = &mut rows[tap * shape.channels + block * operation.atomic_c..];
                for (to, pair) in to.iter_mut().zip(row.chunks_exact(2)) {
                    *to = i16::from_le_bytes([pair[0], pair[1]]);
                }
            }
        }
    }
    let mut limited = 0;
    let width = operation.output.width;
    let (batch, line) = (part.batch, part.line);
    let Some(surface) = part.surfaces().first_mut() else { return 0 };
    for (index, out) in surface.chunks_exact_mut(lanes).enumerate() {
        if is_over(kernels * depth * SLOWER) {
            return limited;
        }
        let (y, x) = (line + index / width, index % width);
        // The shape may have joined lines. Joining does not change the distances between elements.
        let window = batch * shape.cube() + y * shape.step_y + x * shape.step_x;
        out.fill(0);
        for (out, row) in out.iter_mut().zip(rows.chunks_exact(depth)) {
            let mut sum = 0;
            let mut at = 0;
            for run in &shape.runs {
                let data = &data[window + run.offset..][..run.length];
                sum += dot(&row[at..at + run.length], data);
                at += run.length;
            }
            let (value, limit) = deliver(sum, operation.clip_truncate);
            *out = value;
            limited += u32::from(limit);
        }
    }
    limited
}

/// Transforms the data of all tiles. The result has all channels of position 0 of a tile, then of position 1, and so
/// on.
fn transform(walk: &Walk<'_>) -> Vec<i16> {
    let operation = walk.operation;
    let channels = operation.kernel.channels;
    let (width, height) = (operation.output.width / 2, operation.output.height / 2);
    let mut data = vec![0; width * height * TILE * channels];
    for (tile, data) in data.chunks_exact_mut(TILE * channels).enumerate() {
        let (y, x) = (tile / width * 2, tile % width * 2);
        for block in 0..channels / STEP {
            let step = walk.tile_data(block, y, x);
            for (position, from) in step.chunks_exact(STEP).enumerate() {
                let to = &mut data[position * channels + block * STEP..][..STEP];
                for (to, &bits) in to.iter_mut().zip(from) {
                    *to = walk.signed(bits) as i16;
                }
            }
        }
    }
    data
}

#[inline(always)]
fn winograd_part(walk: &Walk<'_>, data: &[i16], mut part: Part<'_, i32>) -> u32 {
    let operation = walk.operation;
    let (lanes, depth) = (operation.atomic_k, operation.kernel.channels);
    let kernels = operation.kernels.saturating_sub(part.kernel).min(lanes);
    let mut rows = vec![0; kernels * TILE * depth];
    for (kernel, rows) in rows.chunks_exact_mut(TILE * depth).enumerate() {
        for block in 0..depth / STEP {
            let step = walk.tile_weights(part.kernel + kernel, block);
            for (position, from) in step.chunks_exact(STEP).enumerate() {
                for (to, &bits) in rows[position * depth + block * STEP..].iter_mut().zip(from) {
                    *to = walk.signed(bits) as i16;
                }
            }
        }
    }
    let products = Products { depth, weights: &rows, data };
    let width = operation.output.width;
    let mut limited = 0;
    let Some(surface) = part.surfaces().first_mut() else { return 0 };
    surface.fill(0);
    for tile in 0..width / 2 * (operation.output.height / 2) {
        if is_over(kernels * TILE * depth * SLOWER) {
            return limited;
        }
        let (y, x) = (tile / (width / 2) * 2, tile % (width / 2) * 2);
        for kernel in 0..kernels {
            for (index, sum) in poa(&products.tile(tile, kernel)).into_iter().enumerate() {
                let (value, limit) = deliver(sum, operation.clip_truncate);
                surface[((y + index / 2) * width + x + index % 2) * lanes + kernel] = value;
                limited += u32::from(limit);
            }
        }
    }
    limited
}
