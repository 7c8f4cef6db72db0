// SPDX-License-Identifier: MIT OR Apache-2.0

//! Winograd convolution of fp16.
//!
//! The 64 products of a step are shifted to one exponent and summed per position of the tile (four channels each). The
//! transform turns the 16 sums into four, one per element of the output tile.

use super::super::super::cbuf::Input;
use super::super::super::fp16::{is_nan, Accumulators};
use super::super::super::operation::Operation;
use super::super::super::reference::Walk;
use super::super::kernel::PARALLEL;
use super::super::parts::{self, Part};
use super::super::scratch::Scratch;
use super::loops::Loops;
use super::panel::{Active, Datum, Lane, KERNELS};
use crate::limit::is_over;
use crate::stream::{Samples, Stream};
use crate::threads::keep_awake;
use nvdla_uapi::isa::Isa;
use rayon::prelude::*;

/// Positions per tile.
const TILE: usize = 16;
/// Channels per step.
const STEP: usize = 4;
/// Products per step.
const LANES: usize = TILE * STEP;

/// Computes the output cube.
pub fn run(scratch: &mut Scratch, isa: Isa, operation: &Operation, input: &Input<'_>, weights: &[u8]) -> Stream {
    let walk = Walk { operation, input, weights };
    let (width, height) = (operation.output.width / 2, operation.output.height / 2);
    let blocks = operation.kernel.channels / STEP;
    let data: Vec<Datum> = (0..width * height * blocks)
        .into_par_iter()
        .flat_map_iter(|index| {
            let (tile, block) = (index / blocks, index % blocks);
            walk.tile_data(block, tile / width * 2, tile % width * 2).map(Datum::new)
        })
        .collect();
    // Each part has all lines, because tiles are two lines high.
    let elements = operation.output.width * operation.output.height;
    let mut samples = scratch.floats(operation.sums());
    let macs = samples.len() * operation.kernel_bytes() / 2;
    let threads = if macs * 4 < PARALLEL { 1 } else { keep_awake::threads() };
    let loops = Loops::new(isa);
    parts::each::<f32, KERNELS>(operation, elements, 1, &mut samples, threads, 1, &|part| {
        compute(&walk, &data, loops, part);
    });
    super::super::super::operation::stream(operation, Samples::Float(samples))
}

/// Packs a panel: 64 lanes per block, and whether each block has a NaN.
fn panel(walk: &Walk<'_>, first: usize, kernels: usize, blocks: usize) -> (Vec<Lane>, Vec<bool>) {
    let mut lanes = vec![Lane::EMPTY; blocks * LANES];
    let mut nan = vec![false; blocks];
    for (block, lanes) in lanes.chunks_exact_mut(LANES).enumerate() {
        for kernel in 0..kernels {
            for (lane, bits) in lanes.iter_mut().zip(walk.tile_weights(first + kernel, block)) {
                nan[block] |= is_nan(bits);
                lane.set(kernel, bits);
            }
        }
    }
    (lanes, nan)
}

fn compute(walk: &Walk<'_>, data: &[Datum], loops: Loops, mut part: Part<'_, f32>) {
    let operation = walk.operation;
    let blocks = operation.kernel.channels / STEP;
    let kernels = operation.kernels.saturating_sub(part.kernel).min(KERNELS);
    let (lanes, nan) = panel(walk, part.kernel, kernels, blocks);
    let width = operation.output.width;
    let tiles = width / 2 * (operation.output.height / 2);
    for tile in 0..tiles {
        if is_over(blocks * LANES * KERNELS * super::loops::SLOWER) {
            return;
        }
        let (y, x) = (tile / (width / 2) * 2, tile % (width / 2) * 2);
        let mut sums = [Accumulators::<KERNELS>::ZERO; 4];
        for block in 0..blocks {
            let step = &data[(tile * blocks + block) * LANES..][..LANES];
            if nan[block] || step.iter().any(|datum| datum.nan) {
                for kernel in 0..kernels {
                    let (weights, data) = (walk.tile_weights(part.kernel + kernel, block), walk.tile_data(block, y, x));
                    for (sums, partial) in sums.iter_mut().zip(walk.tile_partials(&weights, &data)) {
                        sums.add(kernel, partial);
                    }
                }
                continue;
            }
            add_step(loops, &lanes[block * LANES..][..LANES], step, kernels, &mut sums);
        }
        let surface_lanes = operation.atomic_k;
        for (index, sums) in sums.iter().enumerate() {
            let at = ((y + index / 2) * width + x + index % 2) * surface_lanes;
            for (surface, to) in part.surfaces().iter_mut().enumerate() {
                for (lane, to) in to[at..at + surface_lanes].iter_mut().enumerate() {
                    *to = f32::from_bits(sums.get(surface * surface_lanes + lane).to_fp32());
                }
            }
        }
    }
}

/// Adds the four results of a step.
fn add_step(loops: Loops, lanes: &[Lane], step: &[Datum], kernels: usize, sums: &mut [Accumulators<KERNELS>; 4]) {
    let mut active = [Active { lane: 0, significand: 0, exponent: 0 }; LANES];
    let mut ends = [0; TILE];
    let mut count = 0;
    for (position, data) in step.chunks_exact(STEP).enumerate() {
        for (channel, datum) in data.iter().enumerate() {
            if datum.significand != 0 {
                let lane = (position * STEP + channel) as u32;
                active[count] = Active { lane, significand: datum.significand, exponent: datum.exponent };
                count += 1;
            }
        }
        ends[position] = count;
    }
    if count == 0 {
        return;
    }
    let largest = (loops.largest)(lanes, &active[..count]);
    let mut positions = [[0i64; KERNELS]; TILE];
    let mut start = 0;
    for (sums, end) in positions.iter_mut().zip(ends) {
        if end > start {
            (loops.sum)(lanes, &active[start..end], &largest, kernels, sums);
        }
        start = end;
    }
    let mut out = [[0i64; KERNELS]; 4];
    for kernel in 0..kernels {
        let tile = super::super::super::winograd::poa(&std::array::from_fn(|position| positions[position][kernel]));
        for (out, value) in out.iter_mut().zip(tile) {
            out[kernel] = value;
        }
    }
    for (sums, out) in sums.iter_mut().zip(&out) {
        (loops.accumulate)(sums, &largest, out, kernels);
    }
}
