// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bounds of fp16 sums: two numbers that enclose CACC's sum, computed with the processor's own multiplications.
//!
//! The hardware's result differs from the sum of the exact products only by the loss of its shifts and roundings, which
//! is bounded. The unit is `16^largest`, where `largest` is the largest exponent of a step's products (see
//! [`fp16`](super::super::super::fp16)):
//!
//! - A product at the largest exponent, of which each step has one, is exact. Any other product is less than 2 below
//!   and less than 1/3 above the exact one: the hardware shifts sum and carry of the Booth multiplier separately. Each of them, and the constant
//!   that is subtracted, loses less than one unit.
//! - No product is larger than 2^28 units of its step. CACC keeps 39 bits after the sign, so each step loses less than
//!   2^-10 of all units so far.
//! - fp64 holds every product exactly. Each addition loses less than 2^-53 of the sum, which is 2^-25 of the units.
//!
//! Most sums become fp16 in the end, and SDP's result never falls when its input rises. If SDP converts both bounds to
//! the same fp16, it converts every value between them to that fp16. Otherwise `exact` computes the sum. This is
//! necessary for one element in several dozen.

use std::cell::RefCell;
use std::ops::Range;

use super::super::super::cbuf::{Input, Weights};
use super::super::super::fp16::is_nan;
use super::super::super::operation::{Mode, Operation};
use super::super::kernel::PARALLEL;
use super::super::parts::{self, Part};
use super::super::sink::{Bounds, BoundsSink, Position, MOST_BOUNDS};
use super::shape::{copy, Shape};
use crate::limit::is_over;
use crate::threads::keep_awake;
use nvdla_uapi::isa::Isa;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod exact;
mod panel;
mod plain;
mod run;
pub(super) mod sums;

use panel::{has_nan_in, Panel, Panels, KERNELS};
use run::{Run, GROUP};
pub use sums::Buffers;
use sums::{Data, Slack, Sums};

/// The largest distances below and above the exact product, in units.
const BELOW: f64 = 2.0;
const ABOVE: f64 = 1.0 / 3.0;

/// Largest number of output elements that a sink takes at a time.
const ELEMENTS: usize = MOST_BOUNDS / KERNELS;

/// Buffers that a thread reuses for all its parts.
#[derive(Default)]
struct PartBuffers {
    panel: Panel,
    low: Vec<f32>,
    high: Vec<f32>,
    exact: exact::Buffers,
}

thread_local! {
    static BUFFERS: RefCell<PartBuffers> = RefCell::default();
}

/// Whether [`run`] can compute the operation.
pub fn suits(operation: &Operation) -> bool {
    super::shape::is_fast(operation) && operation.placement.mode != Mode::Winograd && operation.atomic_k == KERNELS
}

/// Passes bounds of all sums to `sink`. If the data or the weights have a NaN, passes nothing and returns false.
pub fn run<S: BoundsSink>(
    buffers: &mut super::shape::Buffers,
    isa: Isa,
    operation: &Operation,
    input: &Input<'_>,
    weights: &Weights<'_>,
    sink: &S,
    out: &mut [S::Out],
) -> bool {
    let shape = Shape::new(operation, std::mem::take(&mut buffers.steps), std::mem::take(&mut buffers.offsets));
    let Buffers { data, runs, steps, weights: cache } = &mut buffers.bounds;
    copy(operation, [shape.line, shape.lines, shape.channels], input, &mut data.bits, |bits| bits);
    walk(operation, &shape, runs, steps);
    let cached = Panels::cached(cache, isa, operation, weights, runs);
    let weight_nan = cached.map_or_else(|| has_nan_in(weights), |panels| panels.has_nan);
    let nan = data.bits.iter().fold(weight_nan, |any, &bits| any | is_nan(bits));
    if !nan {
        data.decompose(isa);
        let depth = shape.offsets.len();
        let macs = out.len() * depth;
        let threads = if macs * super::loops::SLOWER < PARALLEL { 1 } else { keep_awake::threads() };
        let widest = shape.steps.iter().map(|step| step.offsets.len()).max().unwrap_or(0);
        let reach = runs.iter().map(|run| run.offset + run.length).max().unwrap_or(0);
        let slack = slack(&shape);
        let work = BoundedConvolution {
            operation,
            shape: &shape,
            weights,
            cached,
            data,
            runs,
            steps,
            isa,
            sink,
            widest,
            reach,
            slack,
        };
        let output = operation.output;
        parts::each::<S::Out, KERNELS>(operation, output.width, output.height, out, threads, 1, &|part| {
            BUFFERS.with_borrow_mut(|buffers| work.part(buffers, part));
        });
    }
    (buffers.steps, buffers.offsets) = (shape.steps, shape.offsets);
    !nan
}

/// The largest distances of CACC's sum below and above the exact sum, in units.
fn slack(shape: &Shape) -> Slack {
    let (steps, products) = (shape.steps.len() as f64, shape.offsets.len() as f64);
    let both = steps / 1024.0 + (products + 2.0) / f64::from(1 << 24);
    // The units are summed in fp32.
    let [below, above] = [BELOW, ABOVE].map(|one| (one + both) * (1.0 + (steps + 2.0) / f64::from(1 << 22)));
    // `n` products of a step lose at most (n - 1) * one + n * both, and this is at most (n - spared) * (one + both).
    let spared = ABOVE / (ABOVE + both);
    Slack { below, above, spared: spared as f32 * (1.0 - f32::EPSILON) }
}

/// Fills `runs` with the runs of all steps, and `steps` with each step's range of runs.
fn walk(operation: &Operation, shape: &Shape, runs: &mut Vec<Run>, steps: &mut Vec<Range<usize>>) {
    runs.clear();
    steps.clear();
    let (mut lane, mut group) = (0, 0);
    for step in &shape.steps {
        let first = runs.len();
        let channels = (operation.kernel.channels - step.block * operation.atomic_c).min(operation.atomic_c);
        for (line, offsets) in shape.offsets[step.offsets.clone()].chunks(channels).enumerate() {
            let (offset, length) = (offsets[0], offsets.len());
            let position = step.tap * operation.post_extension + line;
            runs.push(Run { offset, length, lane, group, block: step.block, position });
            lane += length;
            group += length.div_ceil(GROUP);
        }
        steps.push(first..runs.len());
    }
}

struct BoundedConvolution<'a, S> {
    operation: &'a Operation,
    shape: &'a Shape,
    weights: &'a [u8],
    cached: Option<&'a Panels>,
    data: &'a Data,
    runs: &'a [Run],
    steps: &'a [Range<usize>],
    isa: Isa,
    sink: &'a S,
    widest: usize,
    reach: usize,
    slack: Slack,
}

impl<S: BoundsSink> BoundedConvolution<'_, S> {
    fn part(&self, buffers: &mut PartBuffers, mut part: Part<'_, S::Out>) {
        let Self { operation, shape, data, runs, steps, isa, sink, widest, reach, slack, .. } = *self;
        let PartBuffers { panel, low, high, exact } = buffers;
        let panel = if let Some(cached) = self.cached {
            &cached.panels[part.kernel / KERNELS]
        } else {
            panel.fill(isa, operation, self.weights, runs, part.kernel);
            panel
        };
        low.resize(ELEMENTS * KERNELS, 0.0);
        high.resize(ELEMENTS * KERNELS, 0.0);
        let sums = Sums { runs, steps, data, panel, widest, reach, slack };
        let width = operation.output.width;
        let (elements, before) = (part.lines * width, part.line * width);
        let position = Position { batch: part.batch, surface: part.kernel / KERNELS, first: 0, index: 0 };
        sink.begin(position);
        let cube = part.batch * shape.line * shape.lines;
        let [out] = part.surfaces() else { return };
        let mut windows = [0; ELEMENTS];
        for first in (0..elements).step_by(ELEMENTS) {
            let count = ELEMENTS.min(elements - first);
            if is_over(count * KERNELS * shape.offsets.len() * super::loops::SLOWER) {
                return;
            }
            let windows = &mut windows[..count];
            for (number, window) in (before + first..).zip(&mut *windows) {
                *window = cube + number / width * shape.step_y + number % width * shape.step_x;
            }
            let values = count * KERNELS;
            sums.bounds(isa, windows, &mut low[..values], &mut high[..values]);
            let bounds = Bounds { low: &low[..values], high: &high[..values] };
            let mut exact = |wanted: &[u16], into: &mut [f32]| {
                for wanted in wanted.chunks(exact::MANY) {
                    let mut elements = [(0, 0); exact::MANY];
                    for (element, &index) in elements.iter_mut().zip(wanted) {
                        *element = (usize::from(index) % KERNELS, windows[usize::from(index) / KERNELS]);
                    }
                    let sums = exact::sums(isa, &sums, exact, &elements[..wanted.len()]);
                    for (&index, sum) in wanted.iter().zip(sums) {
                        into[usize::from(index)] = sum;
                    }
                }
            };
            let out = &mut out[first * KERNELS..][..values];
            sink.take(Position { first: before + first, ..position }, bounds, &mut exact, out);
        }
    }
}

impl Sums<'_> {
    /// Computes bounds of the sums of `windows` with all kernels of the panel.
    fn bounds(&self, isa: Isa, windows: &[usize], low: &mut [f32], high: &mut [f32]) {
        // Every run of every window must exist, up to the end of its last group.
        let last = windows.iter().max().map_or(0, |window| window + self.reach);
        let Data { values, exponents, before, .. } = self.data;
        assert!(last <= values.len() && last + GROUP <= exponents.len() && last < before.len());
        assert!(self.panel.holds(isa, self.runs));
        assert!(low.len() >= windows.len() * KERNELS && high.len() >= windows.len() * KERNELS);
        match isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller of `run` guarantees AVX-512. The lengths are checked above.
            Isa::Avx512 | Isa::Avx512Vbmi => unsafe { avx512::bounds(self, windows, low, high) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above, AVX2 and FMA.
            Isa::Avx2 | Isa::AvxVnni => unsafe { avx2::bounds(self, windows, low, high) },
            // NEON has fused instructions and 32 registers. The x86-64 baseline has neither.
            _ if cfg!(target_arch = "aarch64") => plain::bounds::<2, true>(self, windows, low, high),
            _ => plain::bounds::<1, false>(self, windows, low, high),
        }
    }
}
