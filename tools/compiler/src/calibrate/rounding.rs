// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rounds the weights of convolutions so that their sums change little on the samples.
//!
//! Rounding each weight to the nearest step changes the weights least, but not the sums: the elements of a window are correlated,
//! so the changes of several weights can cancel each other. With the covariance C of a window's elements, changes e of a kernel's
//! weights change its sums by a variance of e' C e; the bias subtracts the mean. The weights of a kernel are rounded one after
//! another. Each first moves by what makes up best for the changes so far: Babai's nearest plane, as in Frantar, Ashkboos, Hoefler
//! and Alistarh, "GPTQ", ICLR 2023. Then single weights move by a step while that helps.
//!
//! C is measured between the elements of a block of channels; between blocks it counts as 0. Windows of one sample are alike, so a
//! measured C is less exact than its number of windows suggests. It is mixed with its diagonal, and the more so the fewer windows
//! there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::Measured;
use crate::equalize::planes;
use crate::float::{add_squares, dot, window};
use crate::ir::{Convolution, Graph, Node, Op, Preprocess, RoundedLayer};

/// The most elements of a block.
const BLOCK: usize = 256;
/// The most windows of a sample that are measured.
const WINDOWS: usize = 64;
/// The number of windows, per element of a block, with which half of a covariance counts.
const EVEN: usize = 4;
/// What is added to the diagonal of a covariance, relative to its mean.
const DAMPING: f32 = 0.05;
/// How often each weight of a kernel is tried again.
const PASSES: usize = 4;
/// The largest integer.
const LARGEST: f32 = 127.0;
/// The largest weight of a convolution, divided by that of a kernel which has all 8 bits; lowering has the same limit.
const SMALL_KERNEL: f32 = 128.0;

/// The first and second moments of the elements of a convolution's windows.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    /// The elements of a window that one kernel reads.
    depth: usize,
    /// The elements of a block; the last block of a group may have fewer.
    size: usize,
    windows: usize,
    samples: usize,
    /// The blocks of all groups.
    blocks: Vec<Block>,
}

/// The sum of each element, and of each product of two elements.
#[derive(Clone, Debug)]
struct Block {
    sums: Vec<f32>,
    products: Vec<f32>,
}

impl Moments {
    /// None for what is not a convolution of one batch with constant weights.
    pub(super) fn of(graph: &Graph, node: &Node) -> Option<Self> {
        let Op::Convolution(op) = &node.op else { return None };
        graph.constant(node.inputs[1])?;
        let [1, channels, ..] = graph.tensor(node.inputs[0]).nchw()? else { return None };
        let taps = op.kernel[0] * op.kernel[1];
        let depth = channels / op.group * taps;
        let size = ((BLOCK / taps).max(1) * taps).min(depth);
        let of_group = (0..depth).step_by(size).map(|start| size.min(depth - start));
        let block = |size| Block { sums: vec![0.0; size], products: vec![0.0; size * size] };
        let blocks = (0..op.group).flat_map(|_| of_group.clone()).map(block).collect();
        Some(Self { depth, size, windows: 0, samples: 0, blocks })
    }

    /// The first channel of a block, for kernels of `taps` elements per channel.
    fn channel(&self, block: usize, group: usize, taps: usize) -> usize {
        let per_group = self.blocks.len() / group;
        (block / per_group * self.depth + block % per_group * self.size) / taps
    }

    /// Adds windows of a sample, which are spread evenly. `input` and `output` are lines and columns.
    pub(super) fn add(&mut self, op: &Convolution, values: &[f32], input: [usize; 2], output: [usize; 2]) {
        let pixels = output[0] * output[1];
        let count = pixels.min(WINDOWS);
        // Other places in each sample: multiples of the golden ratio are spread evenly.
        let shift = (self.samples as f64 * 0.618).fract();
        let places: Vec<[usize; 2]> = (0..count)
            .map(|at| ((at as f64 + shift) * pixels as f64 / count as f64) as usize)
            .map(|at| [at / output[1], at % output[1]])
            .collect();
        let (taps, plane) = (op.kernel[0] * op.kernel[1], input[0] * input[1]);
        let firsts: Vec<usize> = (0..self.blocks.len()).map(|block| self.channel(block, op.group, taps)).collect();
        self.blocks.par_iter_mut().zip(firsts).for_each(|(Block { sums, products }, first)| {
            let size = sums.len();
            let mut lines = Vec::with_capacity(size * count);
            for &place in &places {
                for plane in values[first * plane..][..size / taps * plane].chunks_exact(plane) {
                    lines.extend(window(op, plane, input, place));
                }
            }
            for line in lines.chunks_exact(size) {
                sums.iter_mut().zip(line).for_each(|(sum, value)| *sum += value);
            }
            add_squares(&lines, size, products);
        });
        self.windows += count;
        self.samples += 1;
    }

    /// The covariance of a block's elements, each times a factor.
    fn covariance(&self, block: &Block, factors: &[f32]) -> Vec<f32> {
        let (size, count) = (factors.len(), self.windows as f32);
        let share = count / (count + (EVEN * size) as f32);
        let means: Vec<f32> = block.sums.iter().map(|sum| sum / count).collect();
        let mut all = block.products.clone();
        for (j, line) in all.chunks_exact_mut(size).enumerate() {
            for (k, value) in line.iter_mut().enumerate() {
                let covariance = (*value / count - means[j] * means[k]) * factors[j] * factors[k];
                *value = if j == k { covariance.max(0.0) } else { covariance * share };
            }
        }
        let mean = (0..size).map(|j| all[j * size + j]).sum::<f32>() / size as f32;
        (0..size).for_each(|j| all[j * size + j] += (DAMPING * mean).max(1e-30));
        all
    }

    /// Rounds weights. `grid` and `factors` have one value per channel of the input. Weights times `grid` become integers times
    /// their kernel's step. The weights apply to the measured values times `factors`.
    fn round(&self, op: &Convolution, weights: &mut [f32], grid: &[f32], factors: &[f32]) {
        let taps = op.kernel[0] * op.kernel[1];
        let kernels = weights.len() / self.depth / op.group;
        let scaled = |group: usize, kernel: &mut [f32], scale: &dyn Fn(f32) -> f32| {
            let grid = &grid[group * self.depth / taps..];
            kernel.iter_mut().enumerate().for_each(|(at, weight)| *weight *= scale(grid[at / taps]));
        };
        let per_kernel = weights.par_chunks_exact_mut(self.depth).enumerate();
        let over_all = per_kernel
            .map(|(k, kernel)| {
                scaled(k / kernels, kernel, &|grid| grid);
                largest(kernel)
            })
            .reduce(|| 0.0, f32::max);
        let per_group = self.blocks.len() / op.group;
        weights.par_chunks_exact_mut(self.depth * kernels).enumerate().for_each(|(group, all)| {
            let rounder = |block: usize| {
                let (from, block) = (self.channel(block, op.group, taps), &self.blocks[block]);
                let of = |at: usize| factors[from + at / taps] / grid[from + at / taps];
                let factors: Vec<f32> = (0..block.sums.len()).map(of).collect();
                Rounder::new(self.covariance(block, &factors), factors.len())
            };
            let rounders: Vec<Rounder> =
                (group * per_group..(group + 1) * per_group).into_par_iter().map(rounder).collect();
            all.par_chunks_exact_mut(self.depth).for_each(|kernel| {
                let step = step(largest(kernel), over_all);
                for (part, rounder) in kernel.chunks_mut(self.size).zip(&rounders) {
                    part.iter_mut().for_each(|weight| *weight /= step);
                    rounder.round(part);
                    part.iter_mut().for_each(|weight| *weight *= step);
                }
                scaled(group, kernel, &|grid| 1.0 / grid);
            });
        });
    }
}

fn largest(weights: &[f32]) -> f32 {
    weights.iter().fold(0.0, |largest, weight| largest.max(weight.abs()))
}

/// The step of a kernel's weights. `over_all` is the largest weight of the convolution.
fn step(largest: f32, over_all: f32) -> f32 {
    largest.max(over_all / SMALL_KERNEL).max(f32::MIN_POSITIVE) / LARGEST
}

/// Rounds the parts of kernels that belong to one block.
struct Rounder {
    /// The covariance C.
    covariance: Vec<f32>,
    /// R, an upper triangle with C = R' R.
    root: Vec<f32>,
    size: usize,
}

impl Rounder {
    fn new(covariance: Vec<f32>, size: usize) -> Self {
        let mut root = covariance.clone();
        for j in 0..size {
            let (done, rest) = root.split_at_mut((j + 1) * size);
            let line = &mut done[j * size..];
            let diagonal = line[j].max(f32::MIN_POSITIVE).sqrt();
            line[j..].iter_mut().for_each(|value| *value /= diagonal);
            line[j] = diagonal;
            for (i, next) in (j + 1..size).zip(rest.chunks_exact_mut(size)) {
                let factor = line[i];
                next[i..].iter_mut().zip(&line[i..]).for_each(|(value, from)| *value -= factor * from);
            }
        }
        Self { covariance, root, size }
    }

    /// Rounds weights in steps to integers.
    fn round(&self, weights: &mut [f32]) {
        let size = self.size;
        let mut changes = vec![0f32; size];
        for j in (0..size).rev() {
            let line = &self.root[j * size..][..size];
            let carried = dot(&line[j + 1..], &changes[j + 1..]) / line[j];
            let integer = (weights[j] + carried).round().clamp(-LARGEST, LARGEST);
            changes[j] = weights[j] - integer;
            weights[j] = integer;
        }
        let line = |j: usize| &self.covariance[j * size..][..size];
        let mut slopes: Vec<f32> = (0..size).map(|j| dot(line(j), &changes)).collect();
        for _ in 0..PASSES {
            let mut moved = false;
            for j in 0..size {
                let by = (weights[j] + (slopes[j] / line(j)[j]).round()).clamp(-LARGEST, LARGEST) - weights[j];
                if by != 0.0 {
                    weights[j] += by;
                    moved = true;
                    slopes.iter_mut().zip(line(j)).for_each(|(slope, value)| *slope -= by * value);
                }
            }
            if !moved {
                break;
            }
        }
    }
}

/// The weights and biases of the graph's convolutions and deconvolutions, rounded to steps of their kernels. The biases subtract the
/// average of what that changes. Weights of convolutions that were measured are rounded so that the sums change little.
///
/// `inputs` has the preprocessing of each of the graph's inputs that is given as bytes. The steps apply to the weights of bytes.
pub fn rounded_weights(
    graph: &Graph,
    measured: &Measured,
    inputs: &[Option<Preprocess>],
) -> BTreeMap<usize, RoundedLayer> {
    let mut all = BTreeMap::new();
    for (k, node) in graph.nodes.iter().enumerate() {
        let (Some((planes, taps)), Some(weights)) =
            (planes(graph, node), node.inputs.get(1).and_then(|&id| graph.constant(id)))
        else {
            continue;
        };
        let [kernels, channels] =
            [node.output, node.inputs[0]].map(|id| graph.tensor(id).nchw().map_or(0, |shape| shape[1]));
        let mut values = weights.to_vec();
        match (&node.op, &measured.moments[k]) {
            (Op::Convolution(op), Some(moments)) => {
                let input = graph.inputs.iter().position(|&id| id == node.inputs[0]);
                let bytes = input.and_then(|at| inputs.get(at)?.as_ref());
                let grid: Vec<f32> =
                    (0..channels).map(|c| bytes.map_or(1.0, |bytes| bytes.channel(0).1 / bytes.channel(c).1)).collect();
                let factors = measured.factors[node.inputs[0].0].as_deref();
                let factors: Vec<f32> =
                    (0..channels).map(|c| factors.map_or(1.0, |factors| 1.0 / factors[c])).collect();
                moments.round(op, &mut values, &grid, &factors);
            }
            _ => {
                let mut most = vec![0f32; kernels];
                for (&(kernel, _), plane) in planes.iter().zip(weights.chunks_exact(taps)) {
                    most[kernel] = most[kernel].max(largest(plane));
                }
                let over_all = largest(&most);
                for (&(kernel, _), plane) in planes.iter().zip(values.chunks_exact_mut(taps)) {
                    let step = step(most[kernel], over_all);
                    plane.iter_mut().for_each(|weight| *weight = (*weight / step).round() * step);
                }
            }
        }
        let bias = node.inputs.get(2).and_then(|&id| graph.constant(id));
        let mut bias = bias.map_or(vec![0.0; kernels], |bias| bias.to_vec());
        if let Some(means) = measured.means(node.inputs[0]) {
            let changes = weights.chunks_exact(taps).zip(values.chunks_exact(taps));
            for (&(kernel, channel), (old, new)) in planes.iter().zip(changes) {
                bias[kernel] += old.iter().zip(new).map(|(old, new)| old - new).sum::<f32>() * means[channel];
            }
        }
        all.insert(k, RoundedLayer { weights: Arc::from(values), bias: Arc::from(bias) });
    }
    all
}
