// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fast implementation: convolution as blocked matrix products, by the instructions that the machine has.
//!
//! int8: products are summed in 32 bits that wrap. That is exact as long as the whole sum fits, which is so below
//! 2^17 products; deeper kernels are cut into parts that fit, whose sums are added in 64 bits. No sum of int8 products
//! that a kernel can have reaches the 48 bits at which CACC would saturate.

use std::cell::RefCell;

use nvdla_uapi::reg::values::Precision;
use rayon::prelude::*;

use super::cbuf::Input;
use super::operation::{Mode, Operation};
use super::reference::deliver;
use crate::stream::{Samples, Stream};

pub mod aligned;
#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod half;
pub mod isa;
pub mod panel;
pub mod portable;
pub mod shape;
pub mod wide;

use aligned::Aligned;
pub use isa::Isa;
use panel::Weight;
use shape::{Element, Run, Shape};

/// Products of int8 whose sum cannot leave 32 bits.
const MAX_DEPTH: usize = (1 << 17) - 1;
/// Multiplications from which a second thread pays.
const PARALLEL_MACS: usize = 2_000_000;

/// Buffers that operations share.
#[derive(Debug, Default)]
pub struct Scratch {
    data: Aligned,
    spare: Vec<i32>,
    spare_floats: Vec<f32>,
}

impl Scratch {
    /// Takes a finished operation's stream back, for its memory.
    pub fn recycle(&mut self, stream: Stream) {
        match stream.samples {
            Samples::Int(samples) if samples.capacity() > self.spare.capacity() => self.spare = samples,
            Samples::Float(samples) if samples.capacity() > self.spare_floats.capacity() => self.spare_floats = samples,
            Samples::Int(_) | Samples::Float(_) => {}
        }
    }

    /// `count` floats, all to be overwritten.
    fn floats(&mut self, count: usize) -> Vec<f32> {
        let mut sums = std::mem::take(&mut self.spare_floats);
        sums.truncate(count);
        sums.resize(count, 0.0);
        sums
    }

    /// `count` sums, all to be overwritten.
    fn sums(&mut self, count: usize) -> Vec<i32> {
        let mut sums = std::mem::take(&mut self.spare);
        sums.truncate(count);
        sums.resize(count, 0);
        sums
    }
}

/// An inner loop over `N` kernels.
pub trait Kernel<const N: usize> {
    /// An element of the copied input.
    type Data: Element + Sync;
    /// An element of a panel.
    type Weight: Weight;
    /// Elements of a step.
    const GROUP: usize;
    /// Most pixels of a tile.
    const PIXELS: usize;
    /// What the data is too high by.
    const BIAS: i32;

    /// The sums of `pixels` windows, `step` elements apart, with all kernels of a panel; they begin at `start`.
    ///
    /// # Safety
    /// The machine has the instructions; `1 <= pixels <= PIXELS`; `sums` has as many; run offsets and lengths, plus
    /// `(pixels - 1) * step`, lie in `data`; the panel has `N` weights for each element of the runs, whose lengths are
    /// multiples of `GROUP`.
    unsafe fn tile(
        pixels: usize,
        data: &[Self::Data],
        step: usize,
        runs: &[Run],
        panel: &[Self::Weight],
        start: &[i32; N],
        sums: &mut [[i32; N]],
    );

    /// Packs a panel, and gives what its sums begin at.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn pack(
        operation: &Operation,
        shape: &Shape,
        weights: &[u8],
        first: usize,
        panel: &mut [Self::Weight],
        start: &mut [i32; N],
    );
}

/// Whether [`run`] has a fast way for the operation.
fn is_fast(operation: &Operation) -> bool {
    operation.precision == Precision::Int8
        && operation.placement.mode != Mode::Winograd
        && operation.kernel_bytes() <= MAX_DEPTH
}

/// The output cubes, and how many sums were limited to 32 bits.
pub fn run(scratch: &mut Scratch, isa: Isa, operation: &Operation, input: &Input<'_>, weights: &[u8]) -> (Stream, u32) {
    if half::is_fast(operation) {
        return (half::run(scratch, isa, operation, input, weights), 0);
    }
    if wide::is_fast(operation) {
        return wide::run(scratch, isa, operation, input, weights);
    }
    if !is_fast(operation) {
        return super::reference::run(operation, input, weights);
    }
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => direct::<avx512::Avx512, 32>(scratch, operation, input, weights),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => direct::<avx2::Avx2, 16>(scratch, operation, input, weights),
        _ => direct::<portable::Portable, 16>(scratch, operation, input, weights),
    }
}

/// A panel's output lines, part of one cube.
struct Part<'a, T> {
    batch: usize,
    /// First kernel.
    kernel: usize,
    /// First output line.
    line: usize,
    /// Lines.
    lines: usize,
    /// These lines of each surface that the panel covers.
    surfaces: Vec<&'a mut [T]>,
}

thread_local! {
    /// A panel of this thread.
    static PANEL: RefCell<Aligned> = RefCell::new(Aligned::default());
}

fn direct<K: Kernel<N>, const N: usize>(
    scratch: &mut Scratch,
    operation: &Operation,
    input: &Input<'_>,
    weights: &[u8],
) -> (Stream, u32) {
    let shape = Shape::new(operation, K::GROUP);
    let count = operation.sums();
    let mut samples = scratch.sums(count);
    let data = scratch.data.get::<K::Data>(shape.elements(operation));
    shape::copy(operation, &shape, input, data);
    let data = &*data;

    let macs = count * shape.depth();
    let threads = if macs < PARALLEL_MACS { 1 } else { rayon::current_num_threads() };
    let parts = cut::<i32, N>(operation, shape.width, shape.height, &mut samples, threads);
    let compute = |part: Part<'_, i32>| part_sums::<K, N>(operation, &shape, data, weights, part);
    if threads == 1 {
        parts.into_iter().for_each(compute);
    } else {
        parts.into_par_iter().with_max_len(1).for_each(compute);
    }
    (super::stream(operation, Samples::Int(samples)), 0)
}

/// Cuts the output into parts: panels, and lines where panels are too few for all threads.
fn cut<'a, T, const N: usize>(
    operation: &Operation,
    width: usize,
    height: usize,
    samples: &'a mut [T],
    threads: usize,
) -> Vec<Part<'a, T>> {
    let lanes = operation.atomic_k;
    let surfaces = operation.output.channels.div_ceil(lanes);
    let per_panel = (N / lanes).max(1);
    let panels = surfaces.div_ceil(per_panel) * operation.batch;
    let pieces = if threads == 1 { 1 } else { (2 * threads).div_ceil(panels).min(height) };
    let line = width * lanes;
    let step = height.div_ceil(pieces);
    let mut parts = Vec::with_capacity(panels * pieces);
    for (batch, cube) in samples.chunks_exact_mut(surfaces * height * line).enumerate() {
        for (panel, samples) in cube.chunks_mut(per_panel * height * line).enumerate() {
            let first = parts.len();
            for at in (0..height).step_by(step) {
                let lines = step.min(height - at);
                let kernel = panel * per_panel * lanes;
                parts.push(Part { batch, kernel, line: at, lines, surfaces: Vec::with_capacity(per_panel) });
            }
            for surface in samples.chunks_exact_mut(height * line) {
                for (part, lines) in parts[first..].iter_mut().zip(surface.chunks_mut(step * line)) {
                    part.surfaces.push(lines);
                }
            }
        }
    }
    parts
}

/// Computes a part of the output.
fn part_sums<K: Kernel<N>, const N: usize>(
    operation: &Operation,
    shape: &Shape,
    data: &[K::Data],
    weights: &[u8],
    mut part: Part<'_, i32>,
) {
    PANEL.with_borrow_mut(|panel| {
        let panel = panel.get::<K::Weight>(shape.depth() * N);
        // A panel of wide surfaces has kernels of one; its others would be the next panel's.
        for first in (0..operation.atomic_k.max(N)).step_by(N) {
            let mut start = [0; N];
            // SAFETY: `run` chose an instruction set that the machine has.
            unsafe { K::pack(operation, shape, weights, part.kernel + first, panel, &mut start) };
            part_panel::<K, N>(operation, shape, data, panel, &start, first, &mut part);
        }
    });
}

fn part_panel<K: Kernel<N>, const N: usize>(
    operation: &Operation,
    shape: &Shape,
    data: &[K::Data],
    panel: &[K::Weight],
    start: &[i32; N],
    first: usize,
    part: &mut Part<'_, i32>,
) {
    let lanes = operation.atomic_k;
    let reach = shape.runs.iter().map(|run| run.offset + run.length).max().unwrap_or(0);
    let depth: usize = shape.runs.iter().map(|run| run.length).sum();
    assert!(panel.len() >= depth * N);
    // Tiles of nearly one size: none is left so small that it does not fill the pipeline.
    let tiles = shape.width.div_ceil(K::PIXELS);
    let mut sums = [[0; N]; 12];
    for y in 0..part.lines {
        let from = part.batch * shape.cube() + (part.line + y) * shape.step_y;
        for tile in 0..tiles {
            let (x, end) = (shape.width * tile / tiles, shape.width * (tile + 1) / tiles);
            let pixels = end - x;
            let data = &data[from + x * shape.step_x..];
            assert!(data.len() >= (pixels - 1) * shape.step_x + reach);
            // SAFETY: `run` chose an instruction set that the machine has; lengths were checked just now and above; the
            // tile has at most `PIXELS` pixels, which is at most 12; runs have lengths of whole groups.
            unsafe { K::tile(pixels, data, shape.step_x, &shape.runs, panel, start, &mut sums[..pixels]) };
            if operation.clip_truncate != 0 {
                for sum in sums[..pixels].as_flattened_mut() {
                    *sum = deliver(i64::from(*sum), operation.clip_truncate).0;
                }
            }
            let at = (y * shape.width + x) * lanes;
            if lanes == N {
                part.surfaces[0][at..at + pixels * lanes].copy_from_slice(sums[..pixels].as_flattened());
                continue;
            }
            for (index, surface) in part.surfaces.iter_mut().enumerate() {
                for (to, sums) in surface[at..at + pixels * lanes].chunks_exact_mut(lanes).zip(&sums) {
                    if lanes > N {
                        to[first..first + N].copy_from_slice(sums);
                    } else {
                        to.copy_from_slice(&sums[index * lanes..][..lanes]);
                    }
                }
            }
        }
    }
}
