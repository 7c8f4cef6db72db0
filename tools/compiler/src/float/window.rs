// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators that compute an element from its neighbours: pooling, resizing, normalisation across channels.

use rayon::prelude::*;

use super::values::Values;
use crate::ir::{Pool, PoolKind, Resize, Taps};

/// The elements of a window that are inside the input.
fn inside(at: usize, pool: &Pool, axis: usize, size: usize) -> impl Iterator<Item = usize> + Clone {
    let (start, apart) = (at * pool.stride[axis], pool.dilation[axis]);
    let before = [pool.padding.top, pool.padding.left][axis];
    let first = before.saturating_sub(start).div_ceil(apart);
    let end = (before + size).saturating_sub(start).div_ceil(apart).min(pool.kernel[axis]);
    (first..end).map(move |tap| start + tap * apart - before)
}

pub(super) fn pool(pool: &Pool, (from, x): Values<'_>, shape: &[usize]) -> Vec<f32> {
    let (height, width) = (from[2], from[3]);
    let mut out = vec![0.0; shape.iter().product()];
    let planes = out.par_chunks_mut(shape[2] * shape[3]).zip(x.par_chunks(height * width));
    planes.for_each(|(out, plane)| {
        for (at, out) in out.iter_mut().enumerate() {
            let (y, x) = (at / shape[3], at % shape[3]);
            let lines = inside(y, pool, 0, height);
            let columns = inside(x, pool, 1, width);
            let elements = lines.flat_map(|y| columns.clone().map(move |x| plane[y * width + x]));
            *out = match pool.kind {
                PoolKind::Max => elements.fold(f32::NEG_INFINITY, f32::max),
                PoolKind::Average { count_include_pad } => {
                    let (sum, count) = elements.fold((0.0, 0), |(sum, count), x| (sum + x, count + 1));
                    let divisor = if count_include_pad { pool.kernel[0] * pool.kernel[1] } else { count };
                    sum / divisor as f32
                }
            };
        }
    });
    out
}

/// The elements of each output along one axis, and their weights.
fn taps(resize: &Resize, axis: usize, size: usize) -> Vec<Vec<(usize, f32)>> {
    let last = size as i64 - 1;
    let inside = |Taps { first, weights }: Taps| {
        (first..).zip(weights).map(|(at, weight)| (at.clamp(0, last) as usize, weight)).collect()
    };
    resize.taps(axis, size).into_iter().map(inside).collect()
}

pub(super) fn resize(resize: &Resize, (from, x): Values<'_>) -> Vec<f32> {
    let (height, width) = (from[2], from[3]);
    let (lines, columns) = (taps(resize, 0, height), taps(resize, 1, width));
    let mut out = vec![0.0; from[0] * from[1] * resize.size[0] * resize.size[1]];
    let planes = out.par_chunks_mut(resize.size[0] * resize.size[1]).zip(x.par_chunks(height * width));
    planes.for_each(|(out, plane)| {
        for (line, above) in out.chunks_mut(resize.size[1]).zip(&lines) {
            for (out, along) in line.iter_mut().zip(&columns) {
                let across = |y: usize| along.iter().map(|&(x, share)| plane[y * width + x] * share).sum::<f32>();
                *out = above.iter().map(|&(y, share)| across(y) * share).sum();
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
