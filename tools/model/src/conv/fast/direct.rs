// SPDX-License-Identifier: MIT OR Apache-2.0

//! Direct convolution of int8.
//!
//! ```text
//! for each part of the output (a panel of kernels and some lines), on any thread:
//!     for each strip of tiles:
//!         for each tile: sums = kernels of the panel * pixels of the tile
//!         give the strip's sums to the sink, while they are in the first-level cache
//! ```

use std::cell::RefCell;

use super::super::cbuf::{Input, Weights};
use super::super::operation::Operation;
use super::super::reference::deliver;
use super::kernel::{Kernel, Tile, PARALLEL};
use super::parts::{self, Part, PANELS, SURFACES};
use super::shape::{self, Run, Shape};
use super::sink::{Position, Sink};
use super::weight_cache::{IntPanels, Panels, WeightCache};
use crate::limit::is_over;
use crate::simd::aligned::Aligned;
use crate::threads::keep_awake;
use nvdla_uapi::isa::Isa;

/// Largest number of sums that are computed before a sink takes them.
const CHUNK: usize = 4096;

/// The multiplications that take as long as a sink takes for a sum.
const SINK: usize = 32;

/// Memory for the copied input, its runs and the packed weights, kept between operations.
#[derive(Debug, Default)]
pub(super) struct InputBuffers {
    data: Aligned,
    runs: Vec<Run>,
    weight_cache: WeightCache<IntPanels>,
}

/// A thread's buffers for a part.
#[derive(Default)]
struct Buffers {
    panel: Aligned,
    strip: Aligned,
    surface: Aligned,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers::default());
}

/// Computes the sums and passes them to `sink`. `out` has one element per sum of the operation.
pub(super) fn run<K: Kernel<N>, const N: usize, S: Sink>(
    input_buffers: &mut InputBuffers,
    isa: Isa,
    operation: &Operation,
    input: &Input<'_>,
    weights: &Weights<'_>,
    sink: &S,
    out: &mut [S::Out],
) {
    let InputBuffers { data, runs, weight_cache } = input_buffers;
    let shape = Shape::new(operation, K::GROUP, std::mem::take(runs));
    let work = out.len() * (shape.depth() + SINK);
    let threads = if work < PARALLEL { 1 } else { keep_awake::threads() };
    let data = data.get::<K::Data>(shape.elements(operation));
    shape::copy(isa, operation, &shape, input, data, threads);
    let data = &*data;
    // SAFETY: the caller chose an instruction set that the machine has.
    let cached = unsafe { weight_cache.panels::<K, N>(isa, operation, &shape, (weights, weights.version), threads) };
    // Joined lines can be split at any pixel.
    let joined = shape.height == 1;
    let (width, height) = if joined { (1, shape.width) } else { (shape.width, shape.height) };
    // A part of few sums takes as long for its set-up as for its sums.
    let unit = N.max(operation.atomic_k);
    let most = if cached.is_some() && sink.takes_units(unit) { SURFACES * operation.atomic_k / unit } else { 1 };
    let units = (CHUNK / (unit * width * height)).clamp(1, most);
    parts::each::<S::Out, N>(operation, width, height, out, threads, units, &|part| {
        BUFFERS.with_borrow_mut(|buffers| {
            DirectConvolution { operation, shape: &shape, data, sink }.part::<K, N>(buffers, weights, cached, part);
        });
    });
    *runs = shape.runs;
}

struct DirectConvolution<'a, D, S> {
    operation: &'a Operation,
    shape: &'a Shape,
    data: &'a [D],
    sink: &'a S,
}

impl<D, S: Sink> DirectConvolution<'_, D, S> {
    /// Computes one part of the output.
    fn part<K: Kernel<N, Data = D>, const N: usize>(
        &self,
        buffers: &mut Buffers,
        weights: &[u8],
        cached: Option<Panels<'_, K::Weight, N>>,
        mut part: Part<'_, S::Out>,
    ) {
        let Self { operation, shape, .. } = *self;
        let lanes = operation.atomic_k;
        // A unit is a surface with one or several panels, or a panel with one or several surfaces.
        let unit = N.max(lanes);
        let apart = parts::panels_of_part::<N>(operation);
        let panels = (part.surfaces().len() * lanes).div_ceil(unit) * apart;
        let by_units = self.sink.takes_units(unit) && (panels > apart || lanes < unit);
        let (depth, reach) = (shape.depth(), shape.reach());
        let mut starts = [[0; N]; PANELS];
        let packed = if let Some(cached) = cached {
            cached.from(part.kernel / parts::panels::<N>(operation).1, panels)
        } else {
            let packed = buffers.panel.get::<K::Weight>(depth * N * panels);
            for (panel, (packed, start)) in packed.chunks_exact_mut(depth * N).zip(&mut starts).enumerate() {
                // SAFETY: `run` chose an instruction set that the machine has.
                unsafe { K::pack(operation, shape, weights, part.kernel + panel * N, packed, start) };
            }
            Panels { weights: &*packed, starts: &starts[..panels] }
        };
        let (batch, kernel) = (part.batch, part.kernel);
        let position = |index: usize, first: usize| Position { batch, surface: kernel / lanes + index, first, index };
        if !by_units {
            for index in 0..part.surfaces().len() {
                self.sink.begin(position(index, 0));
            }
        }

        // Tiles of nearly equal size, so that no small tile leaves the pipeline idle.
        let joined = shape.height == 1;
        let (rows, width) = if joined { (1, part.lines) } else { (part.lines, shape.width) };
        let tiles = width.div_ceil(K::PIXELS);
        let (least, larger) = (width / tiles, width % tiles);
        let edge = |tile: usize| tile * least + tile.min(larger);
        // A strip has some tiles of a line, or several short lines.
        let strip_lines = if joined { 1 } else { (CHUNK / (width * N * panels)).max(1) };
        let per_strip = if strip_lines > 1 { tiles } else { (CHUNK / (panels * N * K::PIXELS)).max(1) };
        let most_pixels = (per_strip * K::PIXELS).max(strip_lines * width);
        let strip = buffers.strip.get::<i32>(most_pixels * N * panels);
        let surface_sums = buffers.surface.get::<i32>(most_pixels * lanes);
        // Two short lines make one tile.
        let tile_lines = if K::TWO_LINES && !joined && 2 * width <= K::PIXELS { 2 } else { 1 };
        for y in (0..rows).step_by(strip_lines) {
            let strip_lines = strip_lines.min(rows - y);
            let (line, before) = if joined { (0, part.line) } else { (part.line + y, 0) };
            let from = batch * shape.cube() + line * shape.step_y + before * shape.step_x;
            for first_tile in (0..tiles).step_by(per_strip) {
                let last_tile = tiles.min(first_tile + per_strip);
                let (x, end) = (edge(first_tile), edge(last_tile));
                let pixels = (end - x) * strip_lines;
                let strip = &mut strip[..pixels * N * panels];
                if is_over(strip.len() * depth) {
                    return;
                }
                for (panel, weights) in packed.weights.chunks_exact(depth * N).enumerate() {
                    let kernels = operation.kernels.saturating_sub(kernel + panel * N);
                    // The sums of a unit follow one another.
                    let first = panel / apart * pixels * apart + panel % apart;
                    let mut left = &mut strip.as_chunks_mut::<N>().0[first..];
                    for dy in (0..strip_lines).step_by(tile_lines) {
                        let lines = tile_lines.min(strip_lines - dy);
                        let mut at = x;
                        for tile in first_tile..last_tile {
                            let windows = edge(tile + 1) - at;
                            let data = &self.data[from + dy * shape.step_y + at * shape.step_x..];
                            assert!(data.len() >= (lines - 1) * shape.step_y + (windows - 1) * shape.step_x + reach);
                            let sums = &mut left[..=(windows * lines - 1) * apart];
                            let (step, line, runs) = (shape.step_x, shape.step_y, &shape.runs);
                            let (panel, start) = (weights, &packed.starts[panel]);
                            let tile =
                                Tile { data, step, line, runs, panel, start, kernels, windows, lines, sums, apart };
                            // SAFETY: `run` chose an instruction set that the machine has. The lengths of data and
                            // weights are checked. A tile has 1 to `PIXELS` pixels. The lengths of runs are multiples
                            // of the group.
                            unsafe { K::tile(tile) };
                            at += windows;
                            left = left.get_mut(windows * lines * apart..).unwrap_or_default();
                        }
                    }
                }
                if operation.clip_truncate != 0 {
                    for sum in &mut *strip {
                        *sum = deliver(i64::from(*sum), operation.clip_truncate).0;
                    }
                }
                let strip = &*strip;
                let own = y * width + x;
                let element = (line * shape.width) + before + x;
                if by_units {
                    self.sink.take_units(position(0, element), strip, unit, part.surfaces(), own * lanes);
                    continue;
                }
                for (index, surface) in part.surfaces().iter_mut().enumerate() {
                    let out = &mut surface[own * lanes..][..pixels * lanes];
                    let sums = if lanes >= N {
                        strip
                    } else {
                        let gathered = &mut surface_sums[..pixels * lanes];
                        gather::<N>(strip, lanes, index, gathered);
                        gathered
                    };
                    self.sink.take(position(index, element), sums, out);
                }
            }
        }
    }
}

/// Copies one surface's sums of a strip to `to`, if a panel has the kernels of several surfaces.
fn gather<const N: usize>(strip: &[i32], lanes: usize, index: usize, to: &mut [i32]) {
    match lanes {
        8 => gather_by::<N, 8>(strip, index, to),
        16 => gather_by::<N, 16>(strip, index, to),
        _ => {
            for (to, sums) in to.chunks_exact_mut(lanes).zip(strip.chunks_exact(N)) {
                to.copy_from_slice(&sums[index * lanes..][..lanes]);
            }
        }
    }
}

/// [`gather`] with copies of a constant length, which are no calls.
fn gather_by<const N: usize, const LANES: usize>(strip: &[i32], index: usize, to: &mut [i32]) {
    for (to, sums) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(strip.as_chunks::<N>().0) {
        to.copy_from_slice(&sums[index * LANES..][..LANES]);
    }
}
