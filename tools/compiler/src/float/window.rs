// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators that compute an element from its neighbours: pooling, resizing, normalisation across channels.

use rayon::prelude::*;

use super::values::Values;
use crate::ir::{Coordinates, Pool, PoolKind, Resize, ResizeMode, Rounding};

/// The part of a window that is inside the input.
fn inside(at: usize, stride: usize, before: usize, kernel: usize, size: usize) -> std::ops::Range<usize> {
    let start = at * stride;
    start.saturating_sub(before).min(size)..(start + kernel).saturating_sub(before).min(size)
}

pub(super) fn pool(pool: &Pool, (from, x): Values<'_>, shape: &[usize]) -> Vec<f32> {
    let (height, width) = (from[2], from[3]);
    let mut out = vec![0.0; shape.iter().product()];
    let planes = out.par_chunks_mut(shape[2] * shape[3]).zip(x.par_chunks(height * width));
    planes.for_each(|(out, plane)| {
        for (at, out) in out.iter_mut().enumerate() {
            let (y, x) = (at / shape[3], at % shape[3]);
            let lines = inside(y, pool.stride[0], pool.padding.top, pool.kernel[0], height);
            let columns = inside(x, pool.stride[1], pool.padding.left, pool.kernel[1], width);
            let count = lines.len() * columns.len();
            let elements = lines.flat_map(|y| &plane[y * width..][columns.clone()]);
            *out = match pool.kind {
                PoolKind::Max => elements.fold(f32::NEG_INFINITY, |max, &x| max.max(x)),
                PoolKind::Average { count_include_pad } => {
                    let divisor = if count_include_pad { pool.kernel[0] * pool.kernel[1] } else { count };
                    elements.sum::<f32>() / divisor as f32
                }
            };
        }
    });
    out
}

/// For each output along one axis: the two inputs that it is interpolated from, and the weight of the second.
fn taps(resize: &Resize, axis: usize, size: usize) -> Vec<(usize, usize, f32)> {
    let (scale, out) = (resize.scales[axis], resize.size[axis]);
    let last = (size - 1) as f32;
    let tap = |x: usize| {
        let x = x as f32;
        let at = match resize.coordinates {
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if out == 1 => 0.0,
            Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (x + 0.5) / scale - 0.5,
            Coordinates::TensorFlowHalfPixel => (x + 0.5) / scale,
            Coordinates::Asymmetric => x / scale,
            Coordinates::AlignCorners => x * last / (out - 1) as f32,
        };
        let nearest = |at: f32| {
            let at = at.clamp(0.0, last) as usize;
            (at, at, 0.0)
        };
        match resize.mode {
            ResizeMode::Nearest(Rounding::HalfDown) => nearest((at - 0.5).ceil()),
            ResizeMode::Nearest(Rounding::HalfUp) => nearest((at + 0.5).floor()),
            ResizeMode::Nearest(Rounding::Floor) => nearest(at.floor()),
            ResizeMode::Nearest(Rounding::Ceil) => nearest(at.ceil()),
            ResizeMode::Bilinear => {
                let at = at.clamp(0.0, last);
                let first = at.floor() as usize;
                (first, (first + 1).min(size - 1), at - at.floor())
            }
        }
    };
    (0..out).map(tap).collect()
}

pub(super) fn resize(resize: &Resize, (from, x): Values<'_>) -> Vec<f32> {
    let (height, width) = (from[2], from[3]);
    let (lines, columns) = (taps(resize, 0, height), taps(resize, 1, width));
    let mut out = vec![0.0; from[0] * from[1] * resize.size[0] * resize.size[1]];
    let planes = out.par_chunks_mut(resize.size[0] * resize.size[1]).zip(x.par_chunks(height * width));
    planes.for_each(|(out, plane)| {
        for (line, &(above, below, down)) in out.chunks_mut(resize.size[1]).zip(&lines) {
            let (above, below) = (&plane[above * width..][..width], &plane[below * width..][..width]);
            for (out, &(left, right, across)) in line.iter_mut().zip(&columns) {
                let top = above[left] * (1.0 - across) + above[right] * across;
                let bottom = below[left] * (1.0 - across) + below[right] * across;
                *out = top * (1.0 - down) + bottom * down;
            }
        }
    });
    out
}

pub(super) fn lrn((shape, x): Values<'_>, size: usize, alpha: f32, beta: f32, bias: f32) -> Vec<f32> {
    let (channels, plane) = (shape[1], shape[2] * shape[3]);
    let (before, after) = ((size - 1) / 2, (size - 1).div_ceil(2));
    let mut out = vec![0.0; x.len()];
    out.par_chunks_mut(plane).enumerate().for_each(|(k, out)| {
        let (n, c) = (k / channels, k % channels);
        let all = c.saturating_sub(before)..(c + after + 1).min(channels);
        for (at, out) in out.iter_mut().enumerate() {
            let square: f32 = all.clone().map(|c| x[(n * channels + c) * plane + at].powi(2)).sum();
            *out = x[k * plane + at] / (bias + alpha / size as f32 * square).powf(beta);
        }
    });
    out
}
