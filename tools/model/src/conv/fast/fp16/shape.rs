// SPDX-License-Identifier: MIT OR Apache-2.0

//! The shape of a convolution of fp16, and the copy of its input.

use super::super::super::cbuf::Input;
use super::super::super::operation::{Mode, Operation};
use super::bounds::sums;
use super::panel::{Datum, Lists};
use std::ops::Range;

use nvdla_uapi::reg::values::Precision;

/// The layout of the copied input, and the elements that each step reads.
pub(super) struct Shape {
    pub(super) channels: usize,
    pub(super) line: usize,
    pub(super) lines: usize,
    pub(super) step_x: usize,
    pub(super) step_y: usize,
    pub(super) steps: Vec<Step>,
    /// Offsets into the copied input, one per lane of each step.
    pub(super) offsets: Vec<usize>,
}

/// Buffers that are kept between operations.
#[derive(Debug, Default)]
pub struct Buffers {
    pub(super) steps: Vec<Step>,
    pub(super) offsets: Vec<usize>,
    pub(super) data: Vec<Datum>,
    pub(super) lists: Lists,
    pub(super) bounds: sums::Buffers,
}

impl Shape {
    /// The shape of an operation. Reuses the memory of the vectors.
    pub(super) fn new(operation: &Operation, mut steps: Vec<Step>, mut offsets: Vec<usize>) -> Self {
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

/// Whether [`run`](super::run) can compute the operation.
pub fn is_fast(operation: &Operation) -> bool {
    operation.precision == Precision::Fp16
}

/// Copies input of 16-bit elements with its padding, to lines of pixels with all channels of a pixel adjacent.
pub(in crate::conv::fast) fn copy<T: Copy>(
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

/// A step of CMAC: the position of its data in a window, and the position of its weights.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) block: usize,
    pub(super) tap: usize,
    /// The step's range in [`Shape::offsets`].
    pub(super) offsets: Range<usize>,
    /// The pixel of a feature cube that the step reads, counted from the window's first.
    pub(super) pixel: usize,
}
