// SPDX-License-Identifier: MIT OR Apache-2.0

//! The reference implementation: the steps of CSC, CMAC and CACC, one output element at a time.
//!
//! A step multiplies the channels of one block (atomic-C of them) at one kernel position, and adds the sum to the
//! accumulator. The order of steps is block, kernel line, kernel column. An image has one step per `post_extension`
//! lines, whose channels share the block. Winograd has one step per four channels of a 4x4 tile. Each integer addition
//! saturates to 48 bits. All faster code of this unit must give the same results.

use nvdla_uapi::reg::values::Precision;

use super::cbuf::Input;
use super::fp16::{self, Accumulator, Partial};
use super::operation::{Mode, Operation};
use super::winograd;
use crate::limit::is_over;
use crate::num::fixed::{round_shift_right, saturate};
use crate::stream::{Samples, Stream};

/// Approximate cost of a multiplication relative to int8 in the fast implementation.
const SLOWER: usize = 64;
/// Largest number of channels per step.
const LANES: usize = 64;
/// Channels per Winograd step.
const WINOGRAD_LANES: usize = 4;

/// Computes the output cubes. Also returns the number of sums that were limited to 32 bits.
pub fn run(operation: &Operation, input: &Input<'_>, weights: &[u8]) -> (Stream, u32) {
    let mut stream = super::operation::stream(operation, empty(operation));
    let mut saturated = 0;
    let walk = Walk { operation, input, weights };
    let line = operation.output.width * operation.kernel_bytes() * SLOWER;
    for batch in 0..operation.batch {
        for kernel in 0..operation.kernels {
            match operation.placement.mode {
                Mode::Winograd => {
                    for y in (0..operation.output.height).step_by(2) {
                        if is_over(2 * line) {
                            return (stream, saturated);
                        }
                        for x in (0..operation.output.width).step_by(2) {
                            let tile = walk.tile(kernel, y, x);
                            for (i, sum) in tile.into_iter().enumerate() {
                                let at = stream.index(batch, kernel, y + i / 2, x + i % 2);
                                saturated += put(operation, &mut stream.samples, at, sum);
                            }
                        }
                    }
                }
                Mode::Feature | Mode::Pixel => {
                    for y in 0..operation.output.height {
                        if is_over(line) {
                            return (stream, saturated);
                        }
                        for x in 0..operation.output.width {
                            let at = stream.index(batch, kernel, y, x);
                            let sum = walk.element(batch, kernel, y, x);
                            saturated += put(operation, &mut stream.samples, at, sum);
                        }
                    }
                }
            }
        }
    }
    (stream, saturated)
}

/// Makes samples of zero.
fn empty(operation: &Operation) -> Samples {
    match operation.precision {
        Precision::Fp16 => Samples::Float(vec![0.0; operation.sums()]),
        Precision::Int8 | Precision::Int16 => Samples::Int(vec![0; operation.sums()]),
    }
}

/// One accumulator.
#[derive(Clone, Copy, Debug)]
enum Sum {
    Integer(i64),
    Half(Accumulator),
}

/// Stores a finished accumulator. Returns 1 if it was limited, otherwise 0.
fn put(operation: &Operation, samples: &mut Samples, at: usize, sum: Sum) -> u32 {
    match (samples, sum) {
        (Samples::Int(samples), Sum::Integer(sum)) => {
            let (value, limited) = deliver(sum, operation.clip_truncate);
            samples[at] = value;
            u32::from(limited)
        }
        (Samples::Float(samples), Sum::Half(sum)) => {
            samples[at] = f32::from_bits(sum.to_fp32());
            0
        }
        _ => 0,
    }
}

/// CACC's output for a 48-bit sum: shifted, rounded half away from zero, and limited to 32 bits. Also returns whether
/// the limit changed it.
pub const fn deliver(sum: i64, truncate: u32) -> (i32, bool) {
    let shifted = round_shift_right(sum, truncate);
    let limited = saturate::<32>(shifted);
    (limited as i32, limited != shifted)
}

/// An operation with its input and weights.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'a> {
    /// The operation.
    pub operation: &'a Operation,
    /// The input that CSC reads.
    pub input: &'a Input<'a>,
    /// Uncompressed weights.
    pub weights: &'a [u8],
}

impl Walk<'_> {
    /// Computes the accumulator of one output element of a direct convolution.
    fn element(&self, batch: usize, kernel: usize, y: usize, x: usize) -> Sum {
        let operation = self.operation;
        let mut sum = self.start();
        for block in 0..operation.kernel.channels.div_ceil(operation.atomic_c) {
            for tap in 0..operation.taps() {
                let (weights, data) = self.operands(batch, kernel, block, tap, y, x);
                match &mut sum {
                    Sum::Integer(sum) => {
                        let step: i64 = weights.iter().zip(data).map(|(&w, d)| self.signed(w) * self.signed(d)).sum();
                        *sum = saturate::<48>(*sum + step);
                    }
                    Sum::Half(sum) => sum.add(fp16::step(&weights, &data)),
                }
            }
        }
        sum
    }

    /// Reads the weights and data of one step of a direct convolution.
    pub fn operands(
        &self,
        batch: usize,
        kernel: usize,
        block: usize,
        tap: usize,
        y: usize,
        x: usize,
    ) -> ([u16; LANES], [u16; LANES]) {
        let mut weights = [0; LANES];
        let mut data = [0; LANES];
        self.weights_of(kernel, block, tap, &mut weights);
        match self.operation.placement.mode {
            Mode::Pixel => self.pixel_data(block, tap, y, x, &mut data),
            _ => self.feature_data(batch, block, tap, y, x, &mut data),
        }
        (weights, data)
    }

    fn start(&self) -> Sum {
        match self.operation.precision {
            Precision::Fp16 => Sum::Half(Accumulator::default()),
            Precision::Int8 | Precision::Int16 => Sum::Integer(0),
        }
    }

    /// Sign-extends an integer operand.
    pub fn signed(&self, bits: u16) -> i64 {
        match self.operation.precision {
            Precision::Int8 => i64::from(bits as u8 as i8),
            _ => i64::from(bits as i16),
        }
    }

    /// Channels of a block.
    fn block_channels(&self, block: usize) -> usize {
        (self.operation.kernel.channels - block * self.operation.atomic_c).min(self.operation.atomic_c)
    }

    /// Reads the weights of one kernel in one step.
    fn weights_of(&self, kernel: usize, block: usize, tap: usize, lanes: &mut [u16; LANES]) {
        let operation = self.operation;
        let extension = operation.post_extension;
        for line in 0..extension {
            let position = tap * extension + line;
            if line > 0 && position >= operation.kernel.height {
                break;
            }
            let row = operation.weight_row(kernel, block, position);
            let row = self.weights[row].chunks_exact(operation.element());
            for (lane, weight) in lanes[line * (operation.atomic_c / extension)..].iter_mut().zip(row) {
                *lane = get(weight, 0, operation.element());
            }
        }
    }

    /// Reads the data of one step of a feature cube's convolution.
    fn feature_data(&self, batch: usize, block: usize, tap: usize, y: usize, x: usize, lanes: &mut [u16; LANES]) {
        let operation = self.operation;
        let element = operation.element();
        let (r, s) = (tap / operation.kernel.width, tap % operation.kernel.width);
        let line = (y * operation.stride[1] + r * operation.dilation[1]).checked_sub(operation.pad[1]);
        let column = (x * operation.stride[0] + s * operation.dilation[0]).checked_sub(operation.pad[0]);
        let inside = line
            .filter(|&line| line < operation.input.height)
            .zip(column.filter(|&column| column < operation.input.width));
        for (channel, lane) in lanes.iter_mut().enumerate().take(self.block_channels(block)) {
            *lane = match inside {
                Some((line, column)) => {
                    let byte = (block * operation.atomic_c + channel) * element;
                    get(&self.input.bytes, self.input.view.offset(batch, line, column, byte), element)
                }
                None => self.pad(),
            };
        }
    }

    fn pad(&self) -> u16 {
        match self.operation.precision {
            Precision::Int8 => self.operation.pad_value[1] & 0xff,
            _ => self.operation.pad_value[1],
        }
    }

    /// Reads the data of one step of an image's convolution: a run of elements in each of `post_extension` lines.
    fn pixel_data(&self, block: usize, tap: usize, y: usize, x: usize, lanes: &mut [u16; LANES]) {
        let operation = self.operation;
        let element = operation.element();
        let extension = operation.post_extension;
        let channels = self.block_channels(block);
        let first = x * operation.stride[0] * operation.input.channels + block * operation.atomic_c;
        for sub in 0..extension {
            let r = tap * extension + sub;
            if r >= operation.kernel.height {
                break;
            }
            let line = (y * operation.stride[1] + r).checked_sub(operation.pad[1]);
            let line = line.filter(|&line| line < operation.input.height);
            for channel in 0..channels {
                lanes[sub * (operation.atomic_c / extension) + channel] = match line {
                    Some(line) => {
                        get(&self.input.bytes, self.input.view.line_offset(line) + (first + channel) * element, element)
                    }
                    None => self.pad(),
                };
            }
        }
    }

    /// Computes the four accumulators of a 2x2 tile of a Winograd convolution.
    fn tile(&self, kernel: usize, y: usize, x: usize) -> [Sum; 4] {
        let mut sums = [self.start(); 4];
        for block in 0..self.operation.kernel.channels / WINOGRAD_LANES {
            let (weights, data) = (self.tile_weights(kernel, block), self.tile_data(block, y, x));
            if self.operation.precision == Precision::Fp16 {
                for (sum, partial) in sums.iter_mut().zip(self.tile_partials(&weights, &data)) {
                    if let Sum::Half(sum) = sum {
                        sum.add(partial);
                    }
                }
                continue;
            }
            let products = std::array::from_fn(|lane| self.signed(weights[lane]) * self.signed(data[lane]));
            for (sum, step) in sums.iter_mut().zip(winograd::poa(&sum_channels(&products))) {
                if let Sum::Integer(sum) = sum {
                    *sum = saturate::<48>(*sum + step);
                }
            }
        }
        sums
    }

    /// Reads a kernel's weights for one Winograd step: 16 positions of four channels.
    pub fn tile_weights(&self, kernel: usize, block: usize) -> [u16; LANES] {
        let operation = self.operation;
        let element = operation.element();
        let at = operation.winograd_step(kernel, block);
        std::array::from_fn(|lane| get(self.weights, at + lane * element, element))
    }

    /// Reads and transforms the data of one Winograd step, for the output tile whose first element is (`y`, `x`).
    pub fn tile_data(&self, block: usize, y: usize, x: usize) -> [u16; LANES] {
        let operation = self.operation;
        let element = operation.element();
        let mut data = [0; LANES];
        for channel in 0..WINOGRAD_LANES {
            let tile: [u16; 16] = std::array::from_fn(|i| {
                let byte = (block * WINOGRAD_LANES + channel) * element;
                get(&self.input.bytes, self.input.view.offset(0, y + i / 4, x + i % 4, byte), element)
            });
            let transformed: [u16; 16] = match operation.precision {
                Precision::Fp16 => winograd::pra_half(&tile),
                precision => {
                    let tile = tile.map(|bits| self.signed(bits) as i32);
                    winograd::pra_integer(&tile, operation.pra_truncate, precision).map(|value| value as u16)
                }
            };
            for (i, value) in transformed.into_iter().enumerate() {
                data[i * WINOGRAD_LANES + channel] = value;
            }
        }
        data
    }

    /// Computes what an fp16 Winograd step adds to each element of a tile.
    pub fn tile_partials(&self, weights: &[u16; LANES], data: &[u16; LANES]) -> [Partial; 4] {
        if let Some(payload) = fp16::first_nan(weights, data) {
            return [Partial::Nan { payload }; 4];
        }
        let (exponent, products) = fp16::products(weights, data);
        winograd::poa(&sum_channels(&products.map(i64::from))).map(|mantissa| Partial::Sum { exponent, mantissa })
    }
}

/// Sums the four channels at each position of a tile.
fn sum_channels(products: &[i64; LANES]) -> [i64; 16] {
    std::array::from_fn(|i| products[i * WINOGRAD_LANES..(i + 1) * WINOGRAD_LANES].iter().sum())
}

/// Reads the element at byte `at`.
fn get(bytes: &[u8], at: usize, element: usize) -> u16 {
    match element {
        1 => u16::from(bytes[at]),
        _ => u16::from_le_bytes([bytes[at], bytes[at + 1]]),
    }
}
