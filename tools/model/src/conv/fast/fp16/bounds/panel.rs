// SPDX-License-Identifier: MIT OR Apache-2.0

//! The weights of a panel's kernels, and the split of fp16 values into fp64 values and exponents.

// Only code that is inlined into a loop is compiled for the loop's instruction set.
#![allow(clippy::inline_always)]

use std::cell::Cell;

use rayon::prelude::*;

use super::super::super::super::cbuf::Weights;
use super::super::super::super::fp16::is_nan;
use super::super::super::super::operation::Operation;
use super::super::super::weight_cache::{Key, WeightCache};
use super::super::panel::{signed_lane, ZERO};
use super::run::{Run, GROUP};
use crate::simd::prefetch::prefetch;
use crate::simd::transpose::transpose;
use nvdla_uapi::isa::Isa;

/// Kernels per panel, which are the kernels of one surface.
pub(super) const KERNELS: usize = 16;

/// The weights of a panel's kernels, for all lanes of all runs.
#[derive(Debug, Default)]
pub(super) struct Panel {
    /// Signed significands, kernel by kernel, and the high bits of their exponents.
    significands: Vec<i16>,
    row_exponents: Vec<i8>,
    /// Lanes per kernel.
    depth: usize,
    /// Significands times 16^exponent, lane by lane.
    pub values: Vec<[f64; KERNELS]>,
    /// The same for AVX-512, which converts them while it computes: half of the memory.
    pub narrow: Vec<[f32; KERNELS]>,
    /// High bits of the exponents, four lanes per group. [`ZERO`] if there is no weight.
    pub exponents: Vec<[i8; GROUP * KERNELS]>,
}

thread_local! {
    /// A thread's buffers for the bytes of one panel, kernel by kernel and lane by lane.
    static BYTES: Cell<[Vec<u8>; 2]> = Cell::default();
}

/// The panels of an operation, and whether a weight is NaN.
#[derive(Debug, Default)]
pub(super) struct Panels {
    pub panels: Vec<Panel>,
    pub has_nan: bool,
}

impl Panels {
    /// Returns the panels of an operation with weights in memory. Packs them if they are not in the cache. `None` if they cannot
    /// be cached.
    pub(super) fn cached<'c>(
        cache: &'c mut WeightCache<Self>,
        isa: Isa,
        operation: &Operation,
        weights: &Weights<'_>,
        runs: &[Run],
    ) -> Option<&'c Self> {
        let (depth, groups) = size(runs);
        let count = operation.kernels.div_ceil(KERNELS);
        let value = if isa.has_avx512() { size_of::<f32>() } else { size_of::<f64>() };
        let bytes = count * KERNELS * (depth * (size_of::<i16>() + size_of::<i8>() + value) + groups * GROUP);
        let packed = cache.packed(Key::new(isa, operation, weights.version?), bytes, |Self { panels, has_nan }| {
            panels.resize_with(count, Panel::default);
            *has_nan = has_nan_in(weights);
            panels.par_iter_mut().enumerate().for_each(|(number, panel)| {
                panel.fill(isa, operation, weights, runs, number * KERNELS);
            });
        })?;
        Some(packed)
    }
}

/// Whether an fp16 is NaN.
pub(super) fn has_nan_in(bytes: &[u8]) -> bool {
    bytes.as_chunks().0.iter().fold(false, |any, &half| any | is_nan(u16::from_le_bytes(half)))
}

impl Panel {
    /// Fills the panel with the weights of the kernels from `first` on.
    pub(super) fn fill(&mut self, isa: Isa, operation: &Operation, weights: &[u8], runs: &[Run], first: usize) {
        let (depth, groups) = size(runs);
        let Self { significands, row_exponents, values, narrow, exponents, .. } = self;
        self.depth = depth;
        let [mut rows, mut turned] = BYTES.take();
        rows.clear();
        rows.resize(KERNELS * depth * 2, 0);
        exponents.clear();
        exponents.resize(groups, [ZERO; GROUP * KERNELS]);
        let count = operation.kernels.saturating_sub(first).min(KERNELS);
        for (kernel, row) in rows.chunks_exact_mut(depth * 2).enumerate().take(count) {
            for run in runs {
                let from = &weights[operation.weight_row(first + kernel, run.block, run.position)];
                row[run.lane * 2..][..run.length * 2].copy_from_slice(&from[..run.length * 2]);
            }
        }
        significands.resize(KERNELS * depth, 0);
        row_exponents.resize(KERNELS * depth, ZERO);
        split(isa, rows.as_chunks().0, significands, row_exponents);
        turned.resize(depth * KERNELS * 2, 0);
        transpose::<u16>([KERNELS, depth], &rows, depth * 2, &mut turned, KERNELS * 2);
        let lanes = turned.as_chunks::<{ KERNELS * 2 }>().0;
        if isa.has_avx512() {
            fill_lanes(isa, runs, lanes, narrow, exponents);
        } else {
            fill_lanes(isa, runs, lanes, values, exponents);
        }
        BYTES.set([rows, turned]);
    }

    /// A kernel's weights in a run.
    pub(super) fn row(&self, kernel: usize, run: &Run) -> Split<'_> {
        Split::of(&self.significands, &self.row_exponents, kernel * self.depth + run.lane, run.length)
    }

    /// Prefetches a kernel's weights.
    pub(super) fn prefetch(&self, kernel: usize) {
        let Split { significands, exponents } =
            Split::of(&self.significands, &self.row_exponents, kernel * self.depth, self.depth);
        prefetch(significands);
        prefetch(exponents);
    }

    /// Whether the panel has weights for all of `runs`, in the form of the instruction set.
    pub(super) fn holds(&self, isa: Isa, runs: &[Run]) -> bool {
        let lanes = if isa.has_avx512() { self.narrow.len() } else { self.values.len() };
        runs.last()
            .is_none_or(|run| run.lane + run.length <= lanes && run.group + groups(run.length) <= self.exponents.len())
    }
}

/// Splits the bytes of weights, lane by lane.
fn fill_lanes<V: From<f32> + Copy>(
    isa: Isa,
    runs: &[Run],
    lanes: &[[u8; 2 * KERNELS]],
    values: &mut Vec<[V; KERNELS]>,
    exponents: &mut [[i8; GROUP * KERNELS]],
) {
    values.resize(lanes.len(), [V::from(0.0); KERNELS]);
    for run in runs {
        let values = values[run.lane..][..run.length].chunks_mut(GROUP);
        let lanes = lanes[run.lane..][..run.length].chunks(GROUP);
        for ((values, lanes), exponents) in values.zip(lanes).zip(&mut exponents[run.group..]) {
            let mut bits = [0; GROUP * KERNELS];
            for (half, &bytes) in bits.iter_mut().zip(lanes.as_flattened().as_chunks().0) {
                *half = u16::from_le_bytes(bytes);
            }
            let count = lanes.len() * KERNELS;
            decompose(isa, &bits[..count], values.as_flattened_mut(), &mut exponents[..count]);
        }
    }
}

/// The lanes and the groups of all runs.
fn size(runs: &[Run]) -> (usize, usize) {
    runs.last().map_or((0, 0), |run| (run.lane + run.length, run.group + groups(run.length)))
}

/// Groups of a run of `length` lanes.
const fn groups(length: usize) -> usize {
    length.div_ceil(GROUP)
}

/// Adjacent fp16 values: signed significands, and the high bits of the exponents, [`ZERO`] for zeros.
#[derive(Clone, Copy)]
pub(super) struct Split<'s> {
    pub(super) significands: &'s [i16],
    pub(super) exponents: &'s [i8],
}

impl<'s> Split<'s> {
    /// `length` values from `first` on.
    pub(super) fn of(significands: &'s [i16], exponents: &'s [i8], first: usize, length: usize) -> Self {
        Self { significands: &significands[first..][..length], exponents: &exponents[first..][..length] }
    }
}

vectorised! {
    /// Splits the bytes of fp16 values.
    fn split(halves: &[[u8; 2]], significands: &mut [i16], exponents: &mut [i8]) {
        for ((&half, significand), exponent) in halves.iter().zip(significands).zip(exponents) {
            (*significand, *exponent) = signed_lane(u16::from_le_bytes(half));
        }
    }
}

vectorised! {
    /// The signed significands of fp16 values.
    pub(super) fn significands(bits: &[u16], significands: &mut [i16]) {
        for (&half, significand) in bits.iter().zip(significands) {
            *significand = signed_lane(half).0;
        }
    }
}

vectorised! {
    /// Splits fp16 into its value (significand times 16^exponent) and its exponent's high bits.
    pub(super) fn decompose<V: From<f32>>(bits: &[u16], values: &mut [V], exponents: &mut [i8]) {
        for ((&half, value), exponent) in bits.iter().zip(values).zip(exponents) {
            // All exponents count as numbers, the largest too. An fp32 with these bits is 2^-112 times the fp16's number,
            // and the value is 2^25 times that.
            let small = f32::from_bits(u32::from(half & 0x7fff) << 13 | u32::from(half >> 15) << 31);
            *value = V::from(small * f32::from_bits((127 + 112) << 23) * f32::from_bits((127 + 25) << 23));
            *exponent = if half << 1 == 0 { ZERO } else { (half >> 12 & 7) as i8 };
        }
    }
}
