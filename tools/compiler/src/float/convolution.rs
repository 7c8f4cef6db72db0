// SPDX-License-Identifier: MIT OR Apache-2.0

//! Convolution as a matrix product: the weights times a matrix that has each window's elements in a column.

use std::borrow::Cow;

use rayon::prelude::*;

use super::values::Values;
use crate::ir::Convolution;

/// The greatest number of windows per block, for which the matrix of usual kernels fits the second-level cache.
const BLOCK: usize = 512;

/// The least number of kernels per product. Each product sorts its windows anew.
const KERNELS: usize = 64;

/// A matrix. Several threads write different columns of its lines at the same time.
#[derive(Clone, Copy)]
struct Matrix {
    first: *mut f32,
    elements: usize,
    /// From one line to the next.
    stride: usize,
}

// SAFETY: only `product` writes through the pointer, and its callers see to it that no two threads write the same element.
unsafe impl Send for Matrix {}
// SAFETY: as above.
unsafe impl Sync for Matrix {}

impl Matrix {
    fn new(values: &mut [f32], stride: usize) -> Self {
        Self { first: values.as_mut_ptr(), elements: values.len(), stride }
    }
}

/// `c[m x n] = a[m x k] * b[k x n]`, where c is that part of the matrix whose first element is `at`. Lines of b are `b_stride` apart;
/// those of a have no gaps.
///
/// # Safety
///
/// The values of the matrix live, and nothing else reads or writes this part of them.
unsafe fn product(a: &[f32], b: &[f32], b_stride: usize, c: Matrix, at: usize, [m, k, n]: [usize; 3]) {
    assert!(a.len() >= m * k && (k == 0 || b.len() >= (k - 1) * b_stride + n) && b_stride >= n);
    assert!(m > 0 && c.stride >= n && c.elements >= at + (m - 1) * c.stride + n);
    // SAFETY: a, b and the part of c are as large as the sizes and strides require, as asserted, and the caller has the part alone.
    unsafe {
        matrixmultiply::sgemm(
            m,
            k,
            n,
            1.0,
            a.as_ptr(),
            k as isize,
            1,
            b.as_ptr(),
            b_stride as isize,
            1,
            0.0,
            c.first.add(at),
            c.stride as isize,
            1,
        );
    }
}

/// The position of a window's element on an axis; `None` in the padding.
fn place(at: usize, stride: usize, tap: usize, dilation: usize, before: usize, size: usize) -> Option<usize> {
    (at * stride + tap * dilation).checked_sub(before).filter(|place| *place < size)
}

pub(super) fn convolve(op: &Convolution, inputs: &[Values<'_>], shape: &[usize]) -> Vec<f32> {
    let ((from, x), (weights_shape, weights)) = (inputs[0], inputs[1]);
    let bias = inputs.get(2).map(|(_, bias)| *bias);
    let (channels, [height, width]) = (from[1], [from[2], from[3]]);
    let (kernels, [out_height, out_width]) = (shape[1], [shape[2], shape[3]]);
    let pixels = out_height * out_width;
    let (per_group, kernels_per_group) = (weights_shape[1], kernels / op.group);
    let depth = per_group * op.kernel[0] * op.kernel[1];
    let mut out = vec![0.0; shape.iter().product()];

    if per_group == 1 && kernels_per_group == 1 {
        // Depthwise: one plane times one small kernel.
        out.par_chunks_mut(pixels).enumerate().for_each(|(k, out)| {
            let plane = &x[k * height * width..][..height * width];
            depthwise(op, plane, [height, width], &weights[k % kernels * depth..][..depth], out, out_width);
        });
    } else if pixels == 1
        && op.group == 1
        && op.padding == crate::ir::Padding::default()
        && op.kernel == [height, width]
    {
        // An inner product: each kernel times the whole input.
        for (out, x) in out.chunks_mut(kernels).zip(x.chunks(depth)) {
            out.par_iter_mut()
                .with_min_len(16)
                .zip(weights.par_chunks(depth))
                .for_each(|(out, row)| *out = dot(row, x));
        }
    } else {
        let plain = op.kernel == [1, 1] && op.stride == [1, 1] && op.padding == crate::ir::Padding::default();
        for n in 0..from[0] {
            for group in 0..op.group {
                let data = &x[(n * channels + group * per_group) * height * width..][..per_group * height * width];
                let weights = &weights[group * kernels_per_group * depth..][..kernels_per_group * depth];
                let starts: Vec<usize> = (0..pixels).step_by(BLOCK).collect();
                // A product per thread at least.
                let parts = rayon::current_num_threads().div_ceil(starts.len().max(1));
                let together = kernels_per_group.div_ceil(parts).max(KERNELS);
                let out = &mut out[(n * kernels + group * kernels_per_group) * pixels..][..kernels_per_group * pixels];
                let to = Matrix::new(out, pixels);
                starts.par_iter().for_each(|&start| {
                    let count = BLOCK.min(pixels - start);
                    let (columns, stride) = if plain {
                        (Cow::from(&data[start..]), height * width)
                    } else {
                        (Cow::from(columns(op, data, [height, width], out_width, start, count)), count)
                    };
                    weights.par_chunks(together * depth).enumerate().for_each(|(part, kernels)| {
                        let (at, size) = (part * together * pixels + start, [kernels.len() / depth, depth, count]);
                        // SAFETY: `out` is borrowed until all products are done, and each has its own lines and columns.
                        unsafe { product(kernels, &columns, stride, to, at, size) };
                    });
                });
            }
        }
    }
    add_bias(&mut out, bias, pixels);
    out
}

fn add_bias(out: &mut [f32], bias: Option<&[f32]>, pixels: usize) {
    let Some(bias) = bias else { return };
    out.par_chunks_mut(pixels).enumerate().with_min_len(16).for_each(|(k, plane)| {
        let bias = bias[k % bias.len()];
        for value in plane.iter_mut() {
            *value += bias;
        }
    });
}

/// The inner product, in eight sums that the compiler keeps in vector registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for k in 0..8 {
            sums[k] += a[k] * b[k];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// A matrix with one line per element of a window, and one column per window.
fn columns(op: &Convolution, data: &[f32], size: [usize; 2], out_width: usize, start: usize, count: usize) -> Vec<f32> {
    let [height, width] = size;
    let mut out = Vec::with_capacity(data.len() / (height * width) * op.kernel[0] * op.kernel[1] * count);
    for plane in data.chunks(height * width) {
        for r in 0..op.kernel[0] {
            for s in 0..op.kernel[1] {
                let mut at = start;
                while at < start + count {
                    // All windows that are on one line.
                    let (y, x) = (at / out_width, at % out_width);
                    let end = (start + count - at).min(out_width - x) + x;
                    match place(y, op.stride[0], r, op.dilation[0], op.padding.top, height) {
                        None => out.resize(out.len() + end - x, 0.0),
                        Some(y) => {
                            let (line, [first, last]) = (&plane[y * width..][..width], inside(op, s, width));
                            let [first, last] = [first, last].map(|at| at.clamp(x, end));
                            out.resize(out.len() + first - x, 0.0);
                            let from = (first * op.stride[1] + s * op.dilation[1]).wrapping_sub(op.padding.left);
                            match op.stride[1] {
                                _ if first >= last => {}
                                1 => out.extend_from_slice(&line[from..][..last - first]),
                                stride => out.extend(line[from..].iter().step_by(stride).take(last - first)),
                            }
                            out.resize(out.len() + end - last, 0.0);
                        }
                    }
                    at += end - x;
                }
            }
        }
    }
    out
}

/// The first output on a line for which the element of tap `s` lies in the input, and the one after the last.
fn inside(op: &Convolution, s: usize, width: usize) -> [usize; 2] {
    let offset = s * op.dilation[1];
    [op.padding.left, width + op.padding.left].map(|end| end.saturating_sub(offset).div_ceil(op.stride[1]))
}

fn depthwise(
    op: &Convolution,
    plane: &[f32],
    [height, width]: [usize; 2],
    kernel: &[f32],
    out: &mut [f32],
    out_width: usize,
) {
    for (y, out) in out.chunks_mut(out_width).enumerate() {
        for (r, taps) in kernel.chunks(op.kernel[1]).enumerate() {
            let Some(y) = place(y, op.stride[0], r, op.dilation[0], op.padding.top, height) else { continue };
            let line = &plane[y * width..][..width];
            for (s, &weight) in taps.iter().enumerate() {
                let (offset, [first, end]) = (s * op.dilation[1], inside(op, s, width));
                for x in first..end.min(out_width) {
                    out[x] += weight * line[x * op.stride[1] + offset - op.padding.left];
                }
            }
        }
    }
}

pub(super) fn deconvolve(op: &Convolution, inputs: &[Values<'_>], shape: &[usize]) -> Vec<f32> {
    let ((from, x), (weights_shape, weights)) = (inputs[0], inputs[1]);
    let bias = inputs.get(2).map(|(_, bias)| *bias);
    let (channels, [height, width]) = (from[1], [from[2], from[3]]);
    let (kernels, [out_height, out_width]) = (shape[1], [shape[2], shape[3]]);
    let (per_group, kernels_per_group) = (channels / op.group, weights_shape[1]);
    let taps = op.kernel[0] * op.kernel[1];
    let mut out = vec![0.0; shape.iter().product()];
    out.par_chunks_mut(out_height * out_width).enumerate().for_each(|(plane, out)| {
        let (n, k) = (plane / kernels, plane % kernels);
        let (group, k) = (k / kernels_per_group, k % kernels_per_group);
        let data = &x[(n * channels + group * per_group) * height * width..][..per_group * height * width];
        // This kernel's weights, with one line per tap and one column per channel.
        let of = |c: usize, tap: usize| weights[((group * per_group + c) * kernels_per_group + k) * taps + tap];
        let lines: Vec<f32> = (0..taps).flat_map(|tap| (0..per_group).map(move |c| of(c, tap))).collect();
        let mut spread = vec![0.0; taps * height * width];
        let to = Matrix::new(&mut spread, height * width);
        // SAFETY: `spread` is used again after the product.
        unsafe { product(&lines, data, height * width, to, 0, [taps, per_group, height * width]) };
        for (tap, spread) in spread.chunks(height * width).enumerate() {
            let (r, s) = (tap / op.kernel[1], tap % op.kernel[1]);
            for (at, value) in spread.iter().enumerate() {
                let (y, x) = (at / width, at % width);
                let y = place(y, op.stride[0], r, op.dilation[0], op.padding.top, out_height);
                let x = place(x, op.stride[1], s, op.dilation[1], op.padding.left, out_width);
                if let (Some(y), Some(x)) = (y, x) {
                    out[y * out_width + x] += value;
                }
            }
        }
    });
    add_bias(&mut out, bias, out_height * out_width);
    out
}
