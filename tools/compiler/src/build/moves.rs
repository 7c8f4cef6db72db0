// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators that are computed with SDP copies: convolutions with large strides, padding that repeats or mirrors lines, and
//! resizing whose weights repeat.

use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::reg::values::Precision;

use crate::build::nodes::{Builder, MAX_COPIES};
use crate::build::windows::Blocks;
use crate::ir::{self, PadMode};
use crate::net::step::{Convolution, Kind, Tensor, TensorId};
use crate::target::LARGEST_EXTENT;
use crate::target::LARGEST_STRIDE;

/// A convolution's windows along one axis, on every `apart`-th element. `phases` has the first elements.
struct Grid {
    apart: usize,
    stride: usize,
    phases: Vec<usize>,
    /// For each element of the kernel, its phase (an index into `phases`), and its position in the kernel on the grid.
    taps: Vec<(usize, usize)>,
    /// The size of the kernel on the grid, and elements of padding before.
    kernel: usize,
    before: usize,
    /// The number of grid elements that windows read.
    reach: usize,
}

impl Grid {
    fn new(op: &ir::Convolution, axis: usize, output: usize) -> Self {
        let (stride, pad) = (op.stride[axis], [op.padding.top, op.padding.left][axis]);
        let fits = |apart: &usize| stride % apart == 0 && stride / apart <= LARGEST_STRIDE;
        let apart = (1..=stride).find(fits).unwrap_or(stride);
        let place = |tap: usize| (tap * op.dilation[axis]) as i64 - pad as i64;
        let at: Vec<(usize, i64)> = (0..op.kernel[axis])
            .map(|tap| (place(tap).rem_euclid(apart as i64) as usize, place(tap).div_euclid(apart as i64)))
            .collect();
        let mut phases: Vec<usize> = at.iter().map(|(phase, _)| *phase).collect();
        phases.sort_unstable();
        phases.dedup();
        // The first element of the kernel is on or before the first element of the input.
        let first = at.iter().map(|(_, at)| *at).min().unwrap_or(0);
        let last = at.iter().map(|(_, at)| *at).max().unwrap_or(0);
        let taps =
            at.iter().map(|(phase, at)| (phases.partition_point(|p| p < phase), (at - first) as usize)).collect();
        let stride = stride / apart;
        let reach = ((output - 1) * stride) as i64 + last + 1;
        let kernel = (last - first + 1) as usize;
        Self { apart, stride, phases, taps, kernel, before: -first as usize, reach: reach.max(1) as usize }
    }

    /// The number of elements of a phase in an input of this size.
    fn count(&self, phase: usize, size: usize) -> usize {
        size.saturating_sub(phase).div_ceil(self.apart)
    }

    /// The least size of the input with which all phases have as many elements as are read.
    fn wanted(&self, size: usize) -> usize {
        let counts = || self.phases.iter().map(|&phase| self.count(phase, size));
        let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        if least == most && least > 0 || self.reach <= least {
            size
        } else {
            size.next_multiple_of(self.apart)
        }
    }
}

impl Builder<'_> {
    pub(super) fn filled(&self, channels: u32) -> usize {
        Atoms::of(self.config, Precision::Int8).filled(channels as usize)
    }

    /// A convolution with a stride above the hardware's: a convolution with a smaller stride over lines and columns that are
    /// apart, which copies store next to one another as channels.
    pub(crate) fn strided(
        &mut self,
        node: &ir::Node,
        conv: &Convolution,
        mut x: TensorId,
        output: TensorId,
    ) -> Result<(), String> {
        let Tensor { name, shape: [channels, height, width], range, .. } = self.net.tensors[x].clone();
        let [_, rows, columns] = self.net.tensors[output].shape;
        let grid = [(0, rows), (1, columns)].map(|(axis, extent)| Grid::new(&conv.op, axis, extent as usize));
        let phases = grid[0].phases.len() * grid[1].phases.len();
        if phases * self.filled(channels) > LARGEST_EXTENT as usize {
            let [y, x] = conv.op.stride;
            return Err(format!(
                "strides of {y} and {x} over {channels} channels, which need {phases} times as many channels"
            ));
        }
        let size = [height as usize, width as usize];
        let wanted = [0, 1].map(|axis| grid[axis].wanted(size[axis]));
        if wanted != size {
            let shape = [channels, wanted[0] as u32, wanted[1] as u32];
            let padded = self.net.tensor(format!("{name} padded"), shape, range);
            let after = [wanted[0] - size[0], wanted[1] - size[1]];
            self.surrounded_by_zeros(node, x, [0; 2], after, padded)?;
            x = padded;
        }
        let extent = [0, 1].map(|axis| {
            let counts = grid[axis].phases.iter().map(|&phase| grid[axis].count(phase, wanted[axis]));
            counts.min().unwrap_or(1).min(grid[axis].reach).max(1)
        });
        let mut parts = Vec::new();
        for &y in &grid[0].phases {
            for &from in &grid[1].phases {
                let steps = [grid[0].apart as u32, grid[1].apart as u32];
                parts.push(self.every(node, x, [y as u32, from as u32], steps, extent.map(|count| count as u32)));
            }
        }
        let all = [channels * phases as u32, extent[0] as u32, extent[1] as u32];
        let mut from = parts[0];
        if phases > 1 {
            from = self.net.tensor(format!("{name} phases"), all, range);
            self.step(node, Kind::Concat(0), &parts, Vec::new(), from);
        }
        let (group, each) = (conv.op.group, channels as usize / conv.op.group);
        if group > 1 && phases > 1 {
            // The channels of a group are adjacent.
            let of = |at: usize| {
                let (group, phase, channel) = (at / (phases * each), at / each % phases, at % each);
                (phase * channels as usize + group * each + channel) as u32
            };
            let sorted = self.net.tensor(format!("{name} groups"), all, range);
            let order = (0..phases * channels as usize).map(of).collect();
            self.step(node, Kind::Channels(order), &[from], Vec::new(), sorted);
            from = sorted;
        }
        let [tall, wide] = [grid[0].kernel, grid[1].kernel];
        let mut weights = vec![0.0; conv.kernels * each * phases * tall * wide];
        for (at, &weight) in conv.weights.iter().enumerate() {
            let [r, s] = [at / conv.op.kernel[1] % conv.op.kernel[0], at % conv.op.kernel[1]];
            let (kernel, channel) = (
                at / (conv.op.kernel[0] * conv.op.kernel[1]) / each,
                at / (conv.op.kernel[0] * conv.op.kernel[1]) % each,
            );
            let ((y, row), (x, column)) = (grid[0].taps[r], grid[1].taps[s]);
            let channel = (y * grid[1].phases.len() + x) * each + channel;
            weights[((kernel * phases * each + channel) * tall + row) * wide + column] = weight;
        }
        let after = [0, 1].map(|axis| grid[axis].reach - extent[axis]);
        let padding = ir::Padding { top: grid[0].before, left: grid[1].before, bottom: after[0], right: after[1] };
        let stride = [grid[0].stride, grid[1].stride];
        let op = ir::Convolution { group, kernel: [tall, wide], stride, dilation: [1; 2], padding };
        let conv = Convolution { op, kernels: conv.kernels, weights: weights.into(), bias: conv.bias.clone() };
        self.convolve(node, conv, from, output)
    }

    /// Every n-th line and column of a tensor: the first ones, the distances, and how many.
    pub(super) fn every(
        &mut self,
        node: &ir::Node,
        x: TensorId,
        first: [u32; 2],
        apart: [u32; 2],
        count: [u32; 2],
    ) -> TensorId {
        let Tensor { name, shape, range, .. } = self.net.tensors[x].clone();
        let wide = (count[1] - 1) * apart[1] + 1;
        let mut part = self.net.tensor(format!("{name} lines"), [shape[0], count[0], wide], range);
        let lines = if count[0] > 1 { apart[0] } else { 1 };
        let kind = Kind::Slice { start: [0, first[0], first[1]], step: [1, lines] };
        self.step(node, kind, &[x], Vec::new(), part);
        if wide != count[1] {
            let columns = self.net.tensor(format!("{name} columns"), [shape[0], count[0], count[1]], range);
            self.step(node, Kind::Columns(apart[1]), &[part], Vec::new(), columns);
            part = columns;
        }
        part
    }

    /// A tensor surrounded by lines and columns that repeat or mirror its own. `before` and `after` are numbers of lines and
    /// columns.
    pub(crate) fn surrounded(
        &mut self,
        node: &ir::Node,
        mut x: TensorId,
        mode: PadMode,
        before: [usize; 2],
        after: [usize; 2],
    ) -> Result<TensorId, String> {
        for axis in [0, 1] {
            let Tensor { name, mut shape, range, .. } = self.net.tensors[x].clone();
            let size = shape[1 + axis] as usize;
            let (first, last) = (before[axis], after[axis]);
            if first + last == 0 {
                continue;
            }
            let mirrors = mode == PadMode::Reflect;
            if first + last > MAX_COPIES || mirrors && first.max(last) >= size {
                return Err(format!("{first} and {last} elements around {size}"));
            }
            let ahead = (0..first).map(|k| if mirrors { first - k } else { 0 });
            let behind = (0..last).map(|k| if mirrors { size - 2 - k } else { size - 1 });
            let mut part = |at: usize| {
                let (mut one, mut start) = (shape, [0; 3]);
                (one[1 + axis], start[1 + axis]) = (1, at as u32);
                let part = self.net.tensor(format!("{name} part"), one, range);
                self.step(node, Kind::Slice { start, step: [1; 2] }, &[x], Vec::new(), part);
                part
            };
            let mut parts: Vec<TensorId> = ahead.map(&mut part).collect();
            parts.push(x);
            parts.extend(behind.map(part));
            shape[1 + axis] += (first + last) as u32;
            x = self.net.tensor(format!("{name} surrounded"), shape, range);
            self.step(node, Kind::Concat(1 + axis), &parts, Vec::new(), x);
        }
        Ok(x)
    }

    /// A resize whose weights repeat: the elements of a block are sums of elements of the input, with the same weights in all blocks.
    /// A convolution computes them as channels. Beyond the border the first and the last element are repeated.
    pub(crate) fn resampled(
        &mut self,
        node: &ir::Node,
        x: TensorId,
        output: TensorId,
        blocks: &[Blocks; 2],
    ) -> Result<(), String> {
        let [channels, height, width] = self.net.tensors[x].shape;
        let size = [height as usize, width as usize];
        let block = [0, 1].map(|axis| blocks[axis].taps.len());
        let phases = block[0] * block[1];
        if phases * self.filled(channels) > LARGEST_EXTENT as usize {
            return Err(format!("a resize of {channels} channels in blocks of {block:?}"));
        }
        let ends = [0, 1].map(|axis| {
            let Blocks { stride, count, .. } = &blocks[axis];
            let (first, end) = blocks[axis].ends();
            let read = (stride * (count - 1)) as i64 + end;
            (-first as usize, end as usize, read.max(1) as usize)
        });
        // Copies only where all weights are 1.
        let one = |axis: usize| {
            let fits = blocks[axis].taps.len() == 1 && blocks[axis].taps[0].weights.len() == 1 && ends[axis].0 == 0;
            (fits && ends[axis].2 <= size[axis])
                .then(|| (blocks[axis].taps[0].first as u32, blocks[axis].stride as u32))
        };
        if let (Some(down), Some(along)) = (one(0), one(1)) {
            let count = [0, 1].map(|axis| blocks[axis].count as u32);
            self.every(node, x, [down.0, along.0], [down.1, along.1], count);
            self.net.steps.last_mut().into_iter().for_each(|step| step.output = output);
            return Ok(());
        }
        let before = ends.map(|end| end.0);
        let after = [0, 1].map(|axis| ends[axis].2.saturating_sub(size[axis]));
        let from = self.surrounded(node, x, PadMode::Edge, before, after)?;
        let extent = [0, 1].map(|axis| before[axis] + ends[axis].2);
        let from = self.window(node, from, [0; 2], extent);
        let kernel = [0, 1].map(|axis| before[axis] + ends[axis].1);
        let each = channels as usize;
        let mut weights = vec![0.0; each * phases * kernel[0] * kernel[1]];
        for (row, plane) in weights.chunks_exact_mut(kernel[0] * kernel[1]).enumerate() {
            let phase = row % phases;
            let at = [phase / block[1], phase % block[1]];
            for (tap, weight) in plane.iter_mut().enumerate() {
                let share = |axis: usize, tap: usize| {
                    let ir::Taps { first, weights } = &blocks[axis].taps[at[axis]];
                    let at = tap as i64 - before[axis] as i64 - first;
                    usize::try_from(at).ok().and_then(|at| weights.get(at)).copied().unwrap_or(0.0)
                };
                *weight = share(0, tap / kernel[1]) * share(1, tap % kernel[1]);
            }
        }
        let op = ir::Convolution {
            group: each,
            kernel,
            stride: [blocks[0].stride, blocks[1].stride],
            dilation: [1; 2],
            padding: ir::Padding::default(),
        };
        if phases == 1 {
            return self.depthwise(node, op, weights, from, output);
        }
        let Tensor { name, range, .. } = self.net.tensors[output].clone();
        let size = [channels * phases as u32, blocks[0].count as u32, blocks[1].count as u32];
        let made = self.net.tensor(format!("{name} phases"), size, range);
        self.depthwise(node, op, weights, from, made)?;
        let sorted = self.net.tensor(format!("{name} sorted"), size, range);
        let order = (0..each * phases).map(|at| (at % each * phases + at / each) as u32).collect();
        self.step(node, Kind::Channels(order), &[made], Vec::new(), sorted);
        let factors = block.map(|count| count as u32);
        self.spread(node, Kind::Spread(factors), sorted, [size[1] * factors[0], size[2] * factors[1]], output);
        Ok(())
    }
}
