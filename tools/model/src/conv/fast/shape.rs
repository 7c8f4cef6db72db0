// SPDX-License-Identifier: MIT OR Apache-2.0

//! The layout of the input for a direct convolution as matrix products.
//!
//! The input is copied once into lines of pixels, with its padding and with all channels of a pixel adjacent. A kernel
//! line is then one run of elements, and the windows of an output line lie at a constant distance. An image already has
//! this layout.

// A loop is compiled for an instruction set only together with the functions that are inlined into it.
#![allow(clippy::inline_always)]

use nvdla_uapi::isa::Isa;
use rayon::prelude::*;

use super::super::cbuf::Input;
use super::super::operation::{Mode, Operation, Size};

/// A run of elements that one kernel line reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Offset of the first element in the window.
    pub offset: usize,
    /// Number of elements, a multiple of [`Shape::group`].
    pub length: usize,
}

/// The layout of the copied input and the windows in it, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements that a step multiplies together. Channels are padded to a multiple of it.
    pub group: usize,
    /// Channels per kernel position, padded.
    pub channels: usize,
    /// Elements per line.
    pub line: usize,
    /// Lines per cube.
    pub lines: usize,
    /// Distances in the input between copied elements and between copied lines. They are above 1 if the kernel has one
    /// position and the stride skips elements.
    pub every: [usize; 2],
    /// Elements from one window to the next in an output line.
    pub step_x: usize,
    /// Elements from the windows of one output line to those of the next.
    pub step_y: usize,
    /// Output elements per line, or of the whole cube if there are no gaps between lines.
    pub width: usize,
    /// Output lines.
    pub height: usize,
    /// The runs that a window reads, in the order of the packed weights.
    pub runs: Vec<Run>,
    /// Number of kernel positions.
    pub taps: usize,
}

impl Shape {
    /// The shape of a direct convolution over a [`copy`], with `group` elements per step. Reuses the memory of `runs`.
    pub fn new(operation: &Operation, group: usize, runs: Vec<Run>) -> Self {
        Self::of(operation, group, true, runs)
    }

    /// The shape if all input elements are copied, including those that no kernel reads.
    pub fn of_all(operation: &Operation, group: usize) -> Self {
        Self::of(operation, group, false, Vec::new())
    }

    fn of(operation: &Operation, group: usize, sparse: bool, mut runs: Vec<Run>) -> Self {
        runs.clear();
        let Operation { kernel, output, stride, dilation, .. } = operation;
        let [mut sx, mut sy] = *stride;
        let mut every = [1; 2];
        let channels = kernel.channels.next_multiple_of(group);
        let [dx, dy] = *dilation;
        let (line, lines, step_x, taps);
        if operation.placement.mode == Mode::Pixel {
            // The last window's padding reads beyond the line's end.
            line = ((output.width - 1) * sx * operation.input.channels + channels).next_multiple_of(group);
            lines = (output.height - 1) * sy + kernel.height;
            step_x = sx * operation.input.channels;
            taps = kernel.height;
            runs.extend((0..taps).map(|r| Run { offset: r * line, length: channels }));
        } else {
            if sparse && kernel.width == 1 {
                std::mem::swap(&mut sx, &mut every[0]);
            }
            if sparse && kernel.height == 1 {
                std::mem::swap(&mut sy, &mut every[1]);
            }
            let columns = (output.width - 1) * sx + (kernel.width - 1) * dx + 1;
            line = columns * channels;
            lines = (output.height - 1) * sy + (kernel.height - 1) * dy + 1;
            step_x = sx * channels;
            taps = kernel.width * kernel.height;
            if dx == 1 {
                let run = |r| Run { offset: r * dy * line, length: kernel.width * channels };
                runs.extend((0..kernel.height).map(run));
            } else {
                let run = |tap| Run {
                    offset: tap / kernel.width * dy * line + tap % kernel.width * dx * channels,
                    length: channels,
                };
                runs.extend((0..taps).map(run));
            }
        }
        let step_y = sy * line;
        let mut shape = Self {
            group,
            channels,
            line,
            lines,
            every,
            step_x,
            step_y,
            width: output.width,
            height: output.height,
            runs,
            taps,
        };
        if shape.step_y == shape.width * shape.step_x {
            shape.width *= shape.height;
            shape.height = 1;
        }
        shape
    }

    /// Elements in the copy of one cube.
    pub fn cube(&self) -> usize {
        self.line * self.lines
    }

    /// Elements in the copies of all cubes.
    pub fn elements(&self, operation: &Operation) -> usize {
        self.cube() * operation.batch
    }

    /// Elements from a window's first to the end of its last run.
    pub fn reach(&self) -> usize {
        self.runs.iter().map(|run| run.offset + run.length).max().unwrap_or(0)
    }

    /// Products per output element, including padding.
    pub fn depth(&self) -> usize {
        self.taps * self.channels
    }
}

/// An element of the copied input.
pub trait Element: crate::simd::aligned::Plain + Send {
    /// Converts an int8 element.
    fn of(byte: u8) -> Self;

    /// Converts the elements of an atom.
    #[inline(always)]
    fn copy<const N: usize>(from: &[u8; N], to: &mut [Self; N]) {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = Self::of(from);
        }
    }
}

/// VNNI multiplies unsigned by signed bytes, so data is stored 128 higher.
impl Element for u8 {
    #[inline(always)]
    fn of(byte: u8) -> Self {
        byte ^ 0x80
    }

    /// Eight at a time, because the compiler does not make vectors of a loop over bytes in this place.
    #[inline(always)]
    fn copy<const N: usize>(from: &[u8; N], to: &mut [u8; N]) {
        for (to, from) in to.as_chunks_mut::<8>().0.iter_mut().zip(from.as_chunks::<8>().0) {
            *to = (u64::from_ne_bytes(*from) ^ 0x8080_8080_8080_8080).to_ne_bytes();
        }
    }
}

impl Element for i8 {
    #[inline(always)]
    fn of(byte: u8) -> Self {
        byte as i8
    }
}

impl Element for i16 {
    #[inline(always)]
    fn of(byte: u8) -> Self {
        Self::from(byte as i8)
    }
}

/// The size in bytes of a copied input from which several threads share the copy. Waiting for the other threads takes longer than
/// copying less.
const SHARED_COPY: usize = 1 << 16;

/// Copies int8 input and adds its padding, on at most `threads` threads.
pub fn copy<T: Element>(
    isa: Isa,
    operation: &Operation,
    shape: &Shape,
    input: &Input<'_>,
    to: &mut [T],
    threads: usize,
) {
    let alone = threads == 1 || size_of_val(to) < SHARED_COPY;
    // If all input is copied and lies without gaps, a cube is one line.
    let Size { width, height, .. } = operation.input;
    let whole = alone
        && operation.placement.mode == Mode::Feature
        && (operation.pad, shape.every) == ([0; 2], [1; 2])
        && (shape.line, shape.lines) == (width * shape.channels, height)
        && (height == 1 || input.view.line == input.view.atom_offset(0, 0, 0, width));
    let (line, lines, width) = if whole { (shape.cube(), 1, width * height) } else { (shape.line, shape.lines, width) };
    let copy = |(number, line): (usize, &mut [T])| {
        copy_line(isa, operation, shape, input, [number / lines, number % lines, width], line);
    };
    if alone {
        to.chunks_exact_mut(line).enumerate().for_each(copy);
    } else {
        to.par_chunks_exact_mut(line).enumerate().for_each(copy);
    }
}

vectorised! {
    /// Copies a line: its cube, its number, and the columns of the input's lines.
    fn copy_line<T: Element>(
        operation: &Operation,
        shape: &Shape,
        input: &Input<'_>,
        at: [usize; 3],
        line: &mut [T],
    ) {
        let pad = T::of(operation.pad_value[1] as u8);
        let [batch, y, width] = at;
        let y = y * shape.every[1];
        match y.checked_sub(operation.pad[1]).filter(|&y| y < operation.input.height) {
            None => line.fill(pad),
            Some(y) if operation.placement.mode == Mode::Pixel => {
                let from = &input.bytes[input.view.line_offset(y)..];
                let length = line.len().min(operation.slice_bytes());
                for (to, &from) in line[..length].iter_mut().zip(from) {
                    *to = T::of(from);
                }
                line[length..].fill(pad);
            }
            Some(y) => copy_feature_line(operation, shape, input, [batch, y, width], line, pad),
        }
    }
}

#[inline(always)]
fn copy_feature_line<T: Element>(
    operation: &Operation,
    shape: &Shape,
    input: &Input<'_>,
    [batch, y, width]: [usize; 3],
    line: &mut [T],
    pad: T,
) {
    let channels = operation.kernel.channels;
    let columns = line.len() / shape.channels;
    let every = shape.every[0];
    // The number of padding columns on the left, the first input column, and the number of input columns.
    let left = operation.pad[0].div_ceil(every).min(columns);
    let first = left * every - operation.pad[0].min(left * every);
    let inside = width.saturating_sub(first).div_ceil(every).min(columns - left);
    line[..left * shape.channels].fill(pad);
    line[(left + inside) * shape.channels..].fill(pad);
    if inside == 0 {
        return;
    }
    let line = &mut line[left * shape.channels..(left + inside) * shape.channels];
    let (atom, next) = (input.view.atom, input.view.surface);
    let step = input.view.atom_offset(0, 0, 0, every);
    for (surface, lane) in (0..channels).step_by(atom).enumerate() {
        // The weights of lanes after the last channel are zero.
        let lanes = (shape.channels - lane).min(atom);
        let from = &input.bytes[input.view.atoms(batch, surface, [y, first], (inside - 1) * every + 1)];
        match lanes {
            32 => copy_atoms::<T, 32>(from, next, line, shape.channels, lane, step),
            16 => copy_atoms::<T, 16>(from, next, line, shape.channels, lane, step),
            8 => copy_atoms::<T, 8>(from, next, line, shape.channels, lane, step),
            _ => {
                for (from, to) in from.chunks(step).zip(line.chunks_exact_mut(shape.channels)) {
                    for (to, &from) in to[lane..lane + lanes].iter_mut().zip(from) {
                        *to = T::of(from);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn copy_atoms<T: Element, const N: usize>(
    from: &[u8],
    next: usize,
    to: &mut [T],
    channels: usize,
    first: usize,
    step: usize,
) {
    for (from, to) in from.chunks(step).zip(to.chunks_exact_mut(channels)) {
        let (Some(from), Some(to)) = (from.first_chunk::<N>(), to[first..].first_chunk_mut::<N>()) else { return };
        fetch(from.as_ptr().wrapping_add(next));
        T::copy(from, to);
    }
}

/// Prefetches the cache line at `at`, if the address is valid. The lines of the next surface are too far away for the
/// hardware prefetcher.
#[inline]
fn fetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, which reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
