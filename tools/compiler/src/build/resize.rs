// SPDX-License-Identifier: MIT OR Apache-2.0

//! Resizing along each axis in turn, also with weights that do not repeat, as with `align_corners`: each element has weights of its
//! own.
//!
//! Along one axis the elements come in blocks of `count`, and block m begins at element `stride * m` of the input, where `count` /
//! `stride` is the ratio of the sizes. Element p of block m is element `stride * m + base(p)` of the input, plus its differences from
//! the elements beside it, each times a constant of this element of the output. Convolutions compute the elements and the differences,
//! with the elements of a block as channels, and SDP multiplies by the constants. Other resizes are divided into pieces, each of which
//! is one block: a convolution with the weights of its elements.

use std::collections::BTreeMap;

use crate::bounds::weighted;
use crate::build::nodes::Builder;
use crate::build::windows::{Blocks, LARGEST_RATIO};
use crate::ir;
use crate::net::step::{Combine, Convolution, Elements, Kind, PostOp, Tensor, TensorId};
use crate::target::{LARGEST_EXTENT, LARGEST_KERNEL};

/// The farthest element beside that of a block whose difference is used: those of a cubic resize.
const FARTHEST: i64 = 3;

/// One axis of such a resize.
struct Uneven {
    /// 0 for lines, 1 for columns.
    axis: usize,
    /// The distance of the blocks in the input.
    stride: usize,
    /// The elements of a block, relative to the block's first element of the input.
    bases: Vec<usize>,
    /// The number of blocks, of which the last may be beyond the output.
    blocks: usize,
    /// The weights of the elements beside: by their distance, one per element of the output.
    beside: BTreeMap<i64, Vec<f32>>,
}

impl Uneven {
    /// `taps` are those of each element of the output, `size` the number of elements of the input.
    fn new(axis: usize, taps: &[ir::Taps], size: usize) -> Result<Self, String> {
        let out = taps.len();
        let common =
            (1..=out.min(size)).rev().find(|by| out.is_multiple_of(*by) && size.is_multiple_of(*by)).unwrap_or(1);
        let (count, stride) = (out / common, size / common);
        if count.max(stride) > LARGEST_RATIO {
            return Err(format!("{count} / {stride} is no ratio of numbers up to {LARGEST_RATIO}"));
        }
        let bases: Vec<usize> = (0..count).map(|p| p * stride / count).collect();
        let mut beside: BTreeMap<i64, Vec<f32>> = BTreeMap::new();
        for (at, taps) in taps.iter().enumerate() {
            let own = (at / count * stride + bases[at % count]) as i64;
            for (tap, weight) in (taps.first..).zip(&taps.weights) {
                let distance = tap.clamp(0, size as i64 - 1) - own;
                if distance.abs() > FARTHEST {
                    return Err(format!("element {at} is computed from elements that are too far apart"));
                }
                if distance != 0 && *weight != 0.0 {
                    beside.entry(distance).or_insert_with(|| vec![0.0; out])[at] += weight;
                }
            }
        }
        Ok(Self { axis, stride, bases, blocks: out.div_ceil(count), beside })
    }
}

impl Builder<'_> {
    /// A resize along each axis in turn.
    pub(crate) fn resize_along_axes(&mut self, node: &ir::Node, resize: &ir::Resize) -> Result<(), String> {
        let (x, out) = (node.inputs[0].0, node.output.0);
        let Tensor { name, shape, .. } = self.net.tensors[out].clone();
        let Tensor { shape: [channels, h, w], range: own, .. } = self.net.tensors[x];
        // The output may reach less far than the elements between: those of several columns are averaged.
        let reach = |own: ir::Range| {
            let taps = resize.taps(0, h as usize);
            let ends = taps.iter().map(|taps| weighted(taps, (own.min, own.max)));
            let (low, high) = ends.fold((own.min, own.max), |(low, high), (a, b)| (low.min(a), high.max(b)));
            // Weights of 1 in sum have a rounding error.
            let near = (high - low) <= (own.max - own.min) * 1.001;
            if near {
                own
            } else {
                ir::Range::of(low, high)
            }
        };
        let lines = self.net.tensor(format!("{name} lines"), [channels, shape[1], w], own.map(reach));
        for (axis, from, to) in [(0, x, lines), (1, lines, out)] {
            let size = [h, w][axis];
            let taps = resize.taps(axis, size as usize);
            let Some(blocks) = Blocks::of(resize, axis, &taps, size) else {
                // Where elements beyond the ends have no weight, the weights of few elements do not repeat, and pieces round once.
                let uneven = if resize.exclude_outside {
                    Err("elements beyond the ends have no weight".to_owned())
                } else {
                    Uneven::new(axis, &taps, size as usize)
                };
                match uneven {
                    Ok(uneven) => self.unevenly(node, from, to, &uneven)?,
                    Err(reason) => {
                        self.in_pieces(node, from, to, axis, &taps).map_err(|why| format!("{reason}, and {why}"))?;
                    }
                }
                continue;
            };
            let [_, height, width] = self.net.tensors[from].shape;
            let both = if axis == 0 { [blocks, Blocks::same(width)] } else { [Blocks::same(height), blocks] };
            if self.net.tensors[from].shape == self.net.tensors[to].shape && both[axis].count == size as usize {
                self.step(node, Kind::Same, &[from], Vec::new(), to);
            } else {
                self.resampled(node, from, to, &both)?;
            }
        }
        Ok(())
    }

    /// A resize along one axis in pieces of the output, each with weights of its own for all its elements.
    fn in_pieces(
        &mut self,
        node: &ir::Node,
        x: TensorId,
        output: TensorId,
        axis: usize,
        taps: &[ir::Taps],
    ) -> Result<(), String> {
        let Tensor { name, shape, range, .. } = self.net.tensors[output].clone();
        let Tensor { shape: [channels, height, width], .. } = self.net.tensors[x];
        let most = LARGEST_EXTENT as usize / self.filled(channels);
        if most == 0 {
            return Err(format!("{channels} channels are too many"));
        }
        let size = [height, width].map(|extent| extent as usize);
        let taps: Vec<ir::Taps> = taps.iter().map(|taps| taps.clamped(size[axis])).collect();
        let mut pieces = Vec::new();
        let mut rest = &taps[..];
        while !rest.is_empty() {
            let fits = |count: &usize| {
                let (first, end) = ir::Taps::ends(&rest[..*count]);
                end - first <= LARGEST_KERNEL as i64
            };
            let count = (2..=rest.len().min(most)).take_while(fits).last().unwrap_or(1);
            let (piece, behind) = rest.split_at(count);
            rest = behind;
            let (first, end) = ir::Taps::ends(piece);
            let (mut start, mut extent, mut made) = ([0; 2], size, shape);
            (start[axis], extent[axis], made[1 + axis]) = (first as usize, (end - first) as usize, count as u32);
            let from = self.window(node, x, start, extent);
            let made = self.net.tensor(format!("{name} piece"), made, range);
            let shifted = piece.iter().map(|taps| ir::Taps { first: taps.first - first, ..taps.clone() });
            let mut both = [height, width].map(Blocks::same);
            both[axis] = Blocks::one(shifted.collect());
            self.resampled(node, from, made, &both)?;
            pieces.push(made);
        }
        self.step(node, Kind::Concat(1 + axis), &pieces, Vec::new(), output);
        Ok(())
    }

    /// A resize along one axis, whose weights do not repeat.
    fn unevenly(&mut self, node: &ir::Node, x: TensorId, output: TensorId, uneven: &Uneven) -> Result<(), String> {
        let axis = uneven.axis;
        let Tensor { name, shape, range, .. } = self.net.tensors[output].clone();
        let Tensor { shape: from, range: own, .. } = self.net.tensors[x].clone();
        let (count, channels) = (uneven.bases.len(), from[0] as usize);
        if self.filled((channels * count) as u32) > LARGEST_EXTENT as usize {
            return Err(format!("{channels} channels in blocks of {count} are too many"));
        }
        let mut size = [(channels * count) as u32, shape[1], shape[2]];
        size[1 + axis] = uneven.blocks as u32;
        let mut sum = None;
        let mut shares = vec![0f32; shape[1 + axis] as usize];
        for (&distance, weights) in &uneven.beside {
            // The differences so far are together at most so many times the largest difference.
            shares.iter_mut().zip(weights).for_each(|(share, weight)| *share += weight.abs());
            let largest = shares.iter().copied().fold(0f32, f32::max);
            let difference = own.map(|own| own.max - own.min);
            let within = |factor: f32| difference.map(|most| ir::Range::of(-most * factor, most * factor));
            let beside = self.net.tensor(format!("{name} beside"), size, within(1.0));
            self.picked(node, x, beside, uneven, Some(distance))?;
            let [_, lines, columns] = size.map(|extent| extent as usize);
            let weight = |at: usize| {
                let (plane, block) = (at / (lines * columns), [at / columns % lines, at % columns][axis]);
                weights.get(block * count + plane % count).copied().unwrap_or(0.0)
            };
            let values = (0..channels * count * lines * columns).map(weight).collect();
            let mut post_ops = vec![PostOp::Elements(Combine::Mul, Elements { shape: size, values })];
            post_ops.extend(sum.map(|sum| PostOp::With(Combine::Add { negate: false }, sum)));
            let made = self.net.tensor(format!("{name} differences"), size, within(largest));
            self.split(node, Kind::Copy, beside, post_ops, made);
            sum = Some(made);
        }
        let made = if count == 1 { output } else { self.net.tensor(format!("{name} blocks"), size, range) };
        match sum {
            None => self.picked(node, x, made, uneven, None)?,
            Some(sum) => {
                let base = self.net.tensor(format!("{name} base"), size, own);
                self.picked(node, x, base, uneven, None)?;
                self.step(node, Kind::Copy, &[base], vec![PostOp::With(Combine::Add { negate: false }, sum)], made);
            }
        }
        if count == 1 {
            return Ok(());
        }
        let sorted = self.net.tensor(format!("{name} sorted"), size, range);
        let order = (0..channels * count).map(|at| (at % channels * count + at / channels) as u32).collect();
        self.step(node, Kind::Channels(order), &[made], Vec::new(), sorted);
        let (mut block, mut whole) = ([1, 1], [size[1], size[2]]);
        (block[axis], whole[axis]) = (count as u32, size[1 + axis] * count as u32);
        self.spread(node, Kind::Spread(block), sorted, whole, output);
        Ok(())
    }

    /// The elements of the blocks along an axis as channels, or what an element at a distance from them has more.
    fn picked(
        &mut self,
        node: &ir::Node,
        x: TensorId,
        output: TensorId,
        uneven: &Uneven,
        distance: Option<i64>,
    ) -> Result<(), String> {
        let Uneven { axis, stride, bases, blocks, .. } = uneven;
        let axis = *axis;
        let [channels, height, width] = self.net.tensors[x].shape.map(|extent| extent as usize);
        let size = [height, width][axis];
        let apart = distance.unwrap_or(0);
        let last = bases.iter().max().copied().unwrap_or(0) as i64;
        let (first, end) = (apart.min(0), last + apart.max(0) + 1);
        let taps = (end - first) as usize;
        // The input up to the last element that is read, with zeros where a weight of zero reads beyond it.
        let read = (stride * (blocks - 1)) as i64 + end;
        let mut start = [height, width];
        start[axis] = size.min(read.max(1) as usize);
        let from = self.window(node, x, [0; 2], start);
        let (before, after) = (-first as usize, (read.max(1) as usize).saturating_sub(size));
        let count = bases.len();
        let mut weights = vec![0.0; channels * count * taps];
        for (row, weights) in weights.chunks_exact_mut(taps).enumerate() {
            let own = bases[row % count] as i64 - first;
            if distance.is_some() {
                weights[own as usize] -= 1.0;
            }
            weights[(own + apart) as usize] += 1.0;
        }
        let (mut kernel, mut strides, mut padding) = ([1, 1], [1, 1], ir::Padding::default());
        (kernel[axis], strides[axis]) = (taps, *stride);
        if axis == 0 {
            (padding.top, padding.bottom) = (before, after);
        } else {
            (padding.left, padding.right) = (before, after);
        }
        let op = ir::Convolution { group: channels, kernel, stride: strides, dilation: [1; 2], padding };
        let kernels = channels * count;
        let conv = Convolution { op, kernels, weights: weights.into(), bias: vec![0.0; kernels] };
        self.convolve(node, conv, from, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Coordinates, Resize, ResizeMode};

    /// The elements that the differences and the constants make are those of the definition.
    #[test]
    fn differences_times_constants_are_the_resize() {
        for (size, out) in [(8, 16), (7, 21), (12, 18), (18, 12), (5, 5), (9, 6), (16, 40)] {
            for mode in [ResizeMode::Bilinear, ResizeMode::Cubic(-0.75)] {
                let scales = [1.0, out as f32 / size as f32];
                let resize = Resize::new(mode, Coordinates::AlignCorners, scales, [1, out]);
                let taps = resize.taps(1, size);
                let uneven = Uneven::new(1, &taps, size).unwrap();
                let x: Vec<f32> = (0..size).map(|k| ((k * 7 + 3) % 11) as f32).collect();
                for (at, taps) in taps.iter().enumerate() {
                    let tap = |tap: i64| x[tap.clamp(0, size as i64 - 1) as usize];
                    let expected: f32 = (taps.first..).zip(&taps.weights).map(|(at, weight)| tap(at) * weight).sum();
                    let own = at / uneven.bases.len() * uneven.stride + uneven.bases[at % uneven.bases.len()];
                    let beside =
                        |(distance, weights): (&i64, &Vec<f32>)| weights[at] * (tap(own as i64 + distance) - x[own]);
                    let found = x[own] + uneven.beside.iter().map(beside).sum::<f32>();
                    assert!((found - expected).abs() < 1e-4, "{size} to {out}, element {at}: {found}, {expected}");
                }
            }
        }
    }
}
