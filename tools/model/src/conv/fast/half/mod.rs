// SPDX-License-Identifier: MIT OR Apache-2.0

//! Direct convolution of fp16, bit for bit, with many kernels side by side.
//!
//! Per output element and step, each datum that is not zero meets the weights of 64 kernels at once. First the largest
//! exponent of each kernel's products is found. Then the products are summed at that exponent. Then CACC adds the sum.
//! The order of the products within a step does not matter, because their sum is exact; the order of the steps does.
//!
//! This is the cost of a sum that is needed to the last bit. Where sums become fp16, [`bounds`] of the sums are enough
//! for most elements.

use std::cell::Cell;
use std::ops::Range;

use nvdla_uapi::reg::values::Precision;

use super::super::cbuf::Input;
use super::super::half::{self, Accumulators};
use super::super::operation::{Mode, Operation};
use super::super::reference::Walk;
use super::parts::{self, Part};
use super::{Isa, Scratch, PARALLEL_MACS};
use crate::limit::is_over;
use crate::simd::transpose::transpose;
use crate::stream::{Samples, Stream};
use crate::threads::keep_awake;

#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod bounds;
pub mod panel;
pub mod plain;
pub mod tables;
pub mod winograd;

use panel::{Active, Datum, Lane, Lists, KERNELS};

/// How much longer a multiplication of fp16 takes than one of int8, about.
const SLOWER: usize = 32;

/// Output elements that are computed while a step's weights are near.
const PIXELS: usize = 16;

/// Sums the products of the first so many kernels at their largest exponents.
type Sum = fn(&[Lane], &[Active], &[i8; KERNELS], usize, &mut [i64; KERNELS]);

/// The inner loops.
#[derive(Clone, Copy)]
struct Loops {
    largest: fn(&[Lane], &[Active]) -> [i8; KERNELS],
    sum: Sum,
    accumulate: fn(&mut Accumulators<KERNELS>, &[i8; KERNELS], &[i64; KERNELS], usize),
    deliver: fn(&Accumulators<KERNELS>) -> [u32; KERNELS],
    fill: fn(&mut Lane, &[u16; KERNELS]),
}

impl Loops {
    fn new(isa: Isa) -> Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Self {
                // SAFETY: the caller of `run` says that the machine has AVX-512.
                largest: |lanes, active| unsafe { avx512::largest(lanes, active) },
                // SAFETY: as above.
                sum: |lanes, active, largest, kernels, sums| unsafe {
                    avx512::sum(lanes, active, largest, kernels, sums);
                },
                // SAFETY: as above.
                accumulate: |accumulators, largest, sums, kernels| unsafe {
                    avx512::accumulate(accumulators, largest, sums, kernels);
                },
                // SAFETY: as above.
                deliver: |accumulators| unsafe { avx512::deliver(accumulators) },
                // SAFETY: as above.
                fill: |lane, weights| unsafe { avx512::fill(lane, weights) },
            },
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self {
                // SAFETY: the caller of `run` says that the machine has AVX2.
                largest: |lanes, active| unsafe { avx2_largest(lanes, active) },
                // SAFETY: as above.
                sum: |lanes, active, largest, kernels, sums| unsafe {
                    avx2_sum(lanes, active, largest, kernels, sums);
                },
                // SAFETY: as above.
                accumulate: |accumulators, largest, sums, kernels| unsafe {
                    avx2_accumulate(accumulators, largest, sums, kernels);
                },
                // SAFETY: as above.
                deliver: |accumulators| unsafe { avx2_deliver(accumulators) },
                // SAFETY: as above.
                fill: |lane, weights| unsafe { avx2_fill(lane, weights) },
            },
            _ => Self {
                largest: plain::largest,
                sum: plain::sum,
                accumulate: Accumulators::add_first,
                deliver: Accumulators::to_fp32,
                fill: Lane::set_all,
            },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2_largest(lanes: &[Lane], active: &[Active]) -> [i8; KERNELS] {
    plain::largest(lanes, active)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2_sum(lanes: &[Lane], active: &[Active], largest: &[i8; KERNELS], kernels: usize, sums: &mut [i64; KERNELS]) {
    plain::sum(lanes, active, largest, kernels, sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,lzcnt")]
fn avx2_accumulate(
    accumulators: &mut Accumulators<KERNELS>,
    largest: &[i8; KERNELS],
    sums: &[i64; KERNELS],
    kernels: usize,
) {
    accumulators.add_first(largest, sums, kernels);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2_deliver(accumulators: &Accumulators<KERNELS>) -> [u32; KERNELS] {
    accumulators.to_fp32()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2_fill(lane: &mut Lane, weights: &[u16; KERNELS]) {
    lane.set_all(weights);
}

/// A step: where its data lie from an output element's window, and the weights' place.
#[derive(Debug)]
struct Step {
    block: usize,
    tap: usize,
    /// Which of the shape's offsets are its own.
    offsets: Range<usize>,
    /// The pixel that they are of, where they are of one.
    pixel: usize,
}

/// The walk over the copied input, in elements.
struct Shape {
    channels: usize,
    line: usize,
    lines: usize,
    step_x: usize,
    step_y: usize,
    steps: Vec<Step>,
    /// Elements of the copied input, one a lane of each step.
    offsets: Vec<usize>,
}

/// Room that operations share.
#[derive(Debug, Default)]
pub struct Room {
    steps: Vec<Step>,
    offsets: Vec<usize>,
    data: Vec<Datum>,
    lists: Lists,
    bounds: bounds::Room,
}

/// Room that a thread's parts share.
#[derive(Default)]
struct PartRoom {
    lanes: Vec<Lane>,
    nan: Vec<bool>,
    /// A step's weights, kernel by kernel and lane by lane.
    kernels: Vec<u8>,
    turned: Vec<u8>,
    sums: Vec<Accumulators<KERNELS>>,
    own: Vec<Active>,
}

thread_local! {
    static ROOM: Cell<PartRoom> = Cell::default();
}

impl Shape {
    /// The walk; the vectors are used again.
    fn new(operation: &Operation, mut steps: Vec<Step>, mut offsets: Vec<usize>) -> Self {
        steps.clear();
        offsets.clear();
        let Operation { kernel, output, stride, dilation, atomic_c, .. } = operation;
        let [sx, sy] = *stride;
        let channels = kernel.channels;
        let pixel = operation.placement.mode == Mode::Pixel;
        let (line, lines, step_x);
        if pixel {
            step_x = sx * operation.input.channels;
            line = (output.width - 1) * step_x + channels;
            lines = (output.height - 1) * sy + kernel.height;
        } else {
            step_x = sx * channels;
            line = ((output.width - 1) * sx + (kernel.width - 1) * dilation[0] + 1) * channels;
            lines = (output.height - 1) * sy + (kernel.height - 1) * dilation[1] + 1;
        }
        for block in 0..channels.div_ceil(*atomic_c) {
            let lanes = block * atomic_c..channels.min((block + 1) * atomic_c);
            for tap in 0..operation.taps() {
                let start = offsets.len();
                if pixel {
                    let first = tap * operation.post_extension;
                    let last = kernel.height.min(first + operation.post_extension);
                    offsets.extend((first..last).flat_map(|r| lanes.clone().map(move |lane| r * line + lane)));
                } else {
                    let (r, s) = (tap / kernel.width, tap % kernel.width);
                    let at = r * dilation[1] * line + s * dilation[0] * channels;
                    offsets.extend(lanes.clone().map(|lane| at + lane));
                }
                let pixel = offsets.get(start).map_or(0, |first| first / channels);
                steps.push(Step { block, tap, pixel, offsets: start..offsets.len() });
            }
        }
        Self { channels, line, lines, step_x, step_y: sy * line, steps, offsets }
    }
}

/// Whether [`run`] has a way for the operation.
pub fn is_fast(operation: &Operation) -> bool {
    operation.precision == Precision::Fp16
}

/// The output cubes.
pub fn run(scratch: &mut Scratch, isa: Isa, operation: &Operation, input: &Input<'_>, weights: &[u8]) -> Stream {
    if operation.placement.mode == Mode::Winograd {
        return winograd::run(scratch, isa, operation, input, weights);
    }
    let mut room = std::mem::take(&mut scratch.half);
    let shape = Shape::new(operation, room.steps, room.offsets);
    let data = &mut room.data;
    copy(operation, [shape.line, shape.lines, shape.channels], input, data, Datum::new);
    let mut samples = scratch.floats(operation.sums());
    let macs = samples.len() * operation.kernel_bytes() / 2;
    let threads = if macs * 16 < PARALLEL_MACS { 1 } else { keep_awake::threads() };
    let output = operation.output;
    let feature = operation.placement.mode != Mode::Pixel;
    if feature {
        room.lists.fill(data, shape.channels, operation.atomic_c);
    }
    let lists = feature.then_some(&room.lists);
    let work = Work { operation, shape: &shape, input, weights, data, lists, loops: Loops::new(isa) };
    parts::each::<f32, KERNELS>(operation, output.width, output.height, &mut samples, threads, &|part| work.part(part));
    (room.steps, room.offsets) = (shape.steps, shape.offsets);
    scratch.half = room;
    super::super::stream(operation, Samples::Float(samples))
}

/// Copies input of 16-bit elements with its padding: lines of pixels, all channels of a pixel side by side.
pub(super) fn copy<T: Copy>(
    operation: &Operation,
    [line, lines, channels]: [usize; 3],
    input: &Input<'_>,
    data: &mut Vec<T>,
    element: impl Fn(u16) -> T,
) {
    data.clear();
    data.resize(line * lines * operation.batch, element(operation.pad_value[1]));
    let halves = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    for (batch, cube) in data.chunks_exact_mut(line * lines).enumerate() {
        for (y, line) in cube.chunks_exact_mut(line).enumerate() {
            let Some(y) = y.checked_sub(operation.pad[1]).filter(|&y| y < operation.input.height) else { continue };
            if operation.placement.mode == Mode::Pixel {
                for (index, to) in line.iter_mut().enumerate() {
                    *to = element(halves(&input.bytes, input.view.line_offset(y) + 2 * index));
                }
                continue;
            }
            for (x, pixel) in line.chunks_exact_mut(channels).enumerate() {
                let Some(x) = x.checked_sub(operation.pad[0]).filter(|&x| x < operation.input.width) else { continue };
                for (surface, lanes) in pixel.chunks_mut(input.view.elements(2)).enumerate() {
                    let atom = &input.bytes[input.view.atoms(batch, surface, [y, x], 1)];
                    for (to, half) in lanes.iter_mut().zip(atom.chunks_exact(2)) {
                        *to = element(halves(half, 0));
                    }
                }
            }
        }
    }
}

struct Work<'a> {
    operation: &'a Operation,
    shape: &'a Shape,
    input: &'a Input<'a>,
    weights: &'a [u8],
    data: &'a [Datum],
    /// What of the data is not zero, of features; an image's steps take more than a pixel.
    lists: Option<&'a Lists>,
    loops: Loops,
}

impl Work<'_> {
    /// The weights of the kernels from `first` on: a lane for each datum of each step. And which steps hold a NaN.
    fn panel(&self, first: usize, room: &mut PartRoom) {
        let operation = self.operation;
        let count = operation.kernels.saturating_sub(first).min(KERNELS);
        let PartRoom { lanes, nan, kernels, turned, .. } = room;
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
            nan.push(weights.iter().fold(false, |found, &pair| found | half::is_nan(u16::from_le_bytes(pair))));
            turned.resize(depth * KERNELS * 2, 0);
            transpose::<u16>([KERNELS, depth], kernels, depth * 2, turned, KERNELS * 2);
            for (to, lane) in lanes[step.offsets.clone()].iter_mut().zip(turned.as_chunks::<{ KERNELS * 2 }>().0) {
                let lane = lane.as_chunks::<2>().0;
                (self.loops.fill)(to, &std::array::from_fn(|kernel| u16::from_le_bytes(lane[kernel])));
            }
        }
    }

    fn part(&self, part: Part<'_, f32>) {
        let mut room = ROOM.take();
        self.part_in(&mut room, part);
        ROOM.set(room);
    }

    fn part_in(&self, room: &mut PartRoom, mut part: Part<'_, f32>) {
        let (operation, shape) = (self.operation, self.shape);
        self.panel(part.kernel, room);
        let PartRoom { lanes, nan, sums, own, .. } = room;
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

    /// The step's data that are not zero; true if one is a NaN.
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

    /// A step with a NaN.
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
            sums.add(kernel, half::step(&weights, &data));
        }
    }
}
