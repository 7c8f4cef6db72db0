// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bit-exact direct convolution of fp16, with 64 kernels at a time.
//!
//! ```text
//! for each output element and step:
//!     active  = the step's data that are not zero
//!     largest = the largest exponent of each kernel's products with them
//!     sums    = the sum of each kernel's products, shifted to that exponent
//!     CACC adds each kernel's sum to its accumulator
//! ```
//!
//! The order of the products within a step does not matter, because their sum is exact. The order of the steps does.
//! [`bounds`] is faster, and sufficient for most elements if the sums become fp16.

use std::cell::Cell;

use super::super::cbuf::Input;
use super::super::fp16::{self, Accumulators};
use super::super::operation::{Mode, Operation};
use super::super::reference::Walk;
use super::kernel::PARALLEL;
use super::parts::{self, Part};
use super::scratch::Scratch;
use crate::limit::is_over;
use crate::simd::transpose::transpose;
use crate::stream::{Samples, Stream};
use crate::threads::keep_awake;
use nvdla_uapi::isa::Isa;

#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod bounds;
mod loops;
pub mod panel;
pub mod plain;
pub mod shape;
pub mod tables;
pub mod winograd;

use loops::{Loops, SLOWER};
use panel::{Active, Datum, Lane, Lists, KERNELS};
pub(super) use shape::copy;
use shape::Shape;
use shape::Step;
pub use shape::{is_fast, Buffers};

/// Output elements that are computed per step, while its weights are in the cache.
const PIXELS: usize = 16;

/// Buffers that a thread reuses for all its parts.
#[derive(Default)]
struct PartBuffers {
    lanes: Vec<Lane>,
    nan: Vec<bool>,
    /// A step's weights, kernel by kernel.
    kernels: Vec<u8>,
    turned: Vec<u8>,
    sums: Vec<Accumulators<KERNELS>>,
    own: Vec<Active>,
}

thread_local! {
    static BUFFERS: Cell<PartBuffers> = Cell::default();
}

/// Computes the output cubes.
pub fn run(scratch: &mut Scratch, isa: Isa, operation: &Operation, input: &Input<'_>, weights: &[u8]) -> Stream {
    if operation.placement.mode == Mode::Winograd {
        return winograd::run(scratch, isa, operation, input, weights);
    }
    let mut buffers = std::mem::take(&mut scratch.fp16);
    let shape = Shape::new(operation, buffers.steps, buffers.offsets);
    let data = &mut buffers.data;
    copy(operation, [shape.line, shape.lines, shape.channels], input, data, Datum::new);
    let mut samples = scratch.floats(operation.sums());
    let macs = samples.len() * operation.kernel_bytes() / 2;
    let threads = if macs * 16 < PARALLEL { 1 } else { keep_awake::threads() };
    let output = operation.output;
    let feature = operation.placement.mode != Mode::Pixel;
    if feature {
        buffers.lists.fill(data, shape.channels, operation.atomic_c);
    }
    let lists = feature.then_some(&buffers.lists);
    let work = Fp16Convolution { operation, shape: &shape, input, weights, data, lists, loops: Loops::new(isa) };
    parts::each::<f32, KERNELS>(operation, output.width, output.height, &mut samples, threads, 1, &|part| {
        work.part(part);
    });
    (buffers.steps, buffers.offsets) = (shape.steps, shape.offsets);
    scratch.fp16 = buffers;
    super::super::operation::stream(operation, Samples::Float(samples))
}

struct Fp16Convolution<'a> {
    operation: &'a Operation,
    shape: &'a Shape,
    input: &'a Input<'a>,
    weights: &'a [u8],
    data: &'a [Datum],
    /// The nonzero data of a feature cube. `None` for an image, because its steps take more than one pixel.
    lists: Option<&'a Lists>,
    loops: Loops,
}

impl Fp16Convolution<'_> {
    /// Packs the weights of the kernels from `first` on, one lane per datum of each step, and marks the steps with a
    /// NaN.
    fn panel(&self, first: usize, buffers: &mut PartBuffers) {
        let operation = self.operation;
        let count = operation.kernels.saturating_sub(first).min(KERNELS);
        let PartBuffers { lanes, nan, kernels, turned, .. } = buffers;
        lanes.resize(self.shape.offsets.len(), Lane::EMPTY);
        nan.clear();
        for step in &self.shape.steps {
            let depth = step.offsets.len();
            kernels.clear();
            kernels.resize(KERNELS * depth * 2, 0);
            for (kernel, kernels) in kernels.chunks_exact_mut(depth * 2).take(count).enumerate() {
                let mut at = 0;
                for line in 0..operation.post_extension {
                    let position = step.tap * operation.post_extension + line;
                    if at == depth * 2 {
                        break;
                    }
                    let row = &self.weights[operation.weight_row(first + kernel, step.block, position)];
                    kernels[at..at + row.len()].copy_from_slice(row);
                    at += row.len();
                }
            }
            let weights = kernels.as_chunks::<2>().0;
            nan.push(weights.iter().fold(false, |found, &pair| found | fp16::is_nan(u16::from_le_bytes(pair))));
            turned.resize(depth * KERNELS * 2, 0);
            transpose::<u16>([KERNELS, depth], kernels, depth * 2, turned, KERNELS * 2);
            for (to, lane) in lanes[step.offsets.clone()].iter_mut().zip(turned.as_chunks::<{ KERNELS * 2 }>().0) {
                let lane = lane.as_chunks::<2>().0;
                (self.loops.fill)(to, &std::array::from_fn(|kernel| u16::from_le_bytes(lane[kernel])));
            }
        }
    }

    fn part(&self, part: Part<'_, f32>) {
        let mut buffers = BUFFERS.take();
        self.part_in(&mut buffers, part);
        BUFFERS.set(buffers);
    }

    fn part_in(&self, buffers: &mut PartBuffers, mut part: Part<'_, f32>) {
        let (operation, shape) = (self.operation, self.shape);
        self.panel(part.kernel, buffers);
        let PartBuffers { lanes, nan, sums, own, .. } = buffers;
        let kernels = operation.kernels.saturating_sub(part.kernel).min(KERNELS);
        let width = operation.output.width;
        let elements = part.lines * width;
        sums.resize(PIXELS, Accumulators::ZERO);
        let mut windows = [0; PIXELS];
        for first in (0..elements).step_by(PIXELS) {
            let count = PIXELS.min(elements - first);
            if is_over(count * KERNELS * shape.offsets.len() * SLOWER) {
                return;
            }
            sums.fill(Accumulators::ZERO);
            for (index, window) in windows[..count].iter_mut().enumerate() {
                let (y, x) = (part.line + (first + index) / width, (first + index) % width);
                *window = part.batch * shape.line * shape.lines + y * shape.step_y + x * shape.step_x;
                if self.lists.is_some() {
                    *window /= shape.channels;
                }
            }
            for (step, &nan) in shape.steps.iter().zip(&*nan) {
                let lanes = &lanes[step.offsets.clone()];
                for (index, sums) in sums[..count].iter_mut().enumerate() {
                    let (active, any_nan) = if let Some(lists) = self.lists {
                        lists.get(windows[index] + step.pixel, step.block)
                    } else {
                        let any_nan = self.activate(step, windows[index], own);
                        (&own[..], any_nan)
                    };
                    if nan || any_nan {
                        let (y, x) = (part.line + (first + index) / width, (first + index) % width);
                        self.plain_step(&part, kernels, step, y, x, sums);
                        continue;
                    }
                    if active.is_empty() {
                        continue;
                    }
                    let largest = (self.loops.largest)(lanes, active);
                    let mut mantissas = [0; KERNELS];
                    (self.loops.sum)(lanes, active, &largest, kernels, &mut mantissas);
                    (self.loops.accumulate)(sums, &largest, &mantissas, kernels);
                }
            }
            let lanes = operation.atomic_k;
            for (index, sums) in sums[..count].iter().enumerate() {
                let at = (first + index) * lanes;
                let delivered = (self.loops.deliver)(sums);
                for (surface, from) in part.surfaces().iter_mut().zip(delivered.chunks_exact(lanes)) {
                    for (to, &bits) in surface[at..at + lanes].iter_mut().zip(from) {
                        *to = f32::from_bits(bits);
                    }
                }
            }
        }
    }

    /// Collects the step's nonzero data. Returns whether one is a NaN.
    fn activate(&self, step: &Step, window: usize, active: &mut Vec<Active>) -> bool {
        active.clear();
        let mut nan = false;
        for (lane, offset) in self.shape.offsets[step.offsets.clone()].iter().enumerate() {
            let Datum { significand, exponent, nan: is_nan } = self.data[window + offset];
            nan |= is_nan;
            if significand != 0 {
                active.push(Active { lane: lane as u32, significand, exponent });
            }
        }
        nan
    }

    /// Computes a step with a NaN.
    fn plain_step(
        &self,
        part: &Part<'_, f32>,
        kernels: usize,
        step: &Step,
        y: usize,
        x: usize,
        sums: &mut Accumulators<KERNELS>,
    ) {
        let walk = Walk { operation: self.operation, input: self.input, weights: self.weights };
        for kernel in 0..kernels {
            let (weights, data) = walk.operands(part.batch, part.kernel + kernel, step.block, step.tap, y, x);
            sums.add(kernel, fp16::step(&weights, &data));
        }
    }
}
