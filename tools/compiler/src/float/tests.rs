// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares the fast paths with plain loops over every index.

// Values that are only copied stay the same bit for bit.
#![allow(clippy::float_cmp)]

use crate::float::*;
use crate::ir::{Convolution, PadMode, Padding};

/// Distinct values without a pattern.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn close(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (k, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{what}: element {k} is {a}, not {b}");
    }
}

/// Calls `f` for each pair of an input and an output element that a weight connects, with their indices and the weight's. `from`
/// is the side on which the windows move.
fn each(op: &Convolution, from: &[usize], to: &[usize], mut f: impl FnMut(usize, usize, usize)) {
    let (per_group, kernels) = (from[1] / op.group, to[1] / op.group);
    for (n, k, c) in (0..to[0]).flat_map(|n| (0..to[1]).flat_map(move |k| (0..per_group).map(move |c| (n, k, c)))) {
        let channel = k / kernels * per_group + c;
        for (y, x) in (0..to[2]).flat_map(|y| (0..to[3]).map(move |x| (y, x))) {
            for (r, s) in (0..op.kernel[0]).flat_map(|r| (0..op.kernel[1]).map(move |s| (r, s))) {
                let iy = (y * op.stride[0] + r * op.dilation[0]) as isize - op.padding.top as isize;
                let ix = (x * op.stride[1] + s * op.dilation[1]) as isize - op.padding.left as isize;
                if (0..from[2] as isize).contains(&iy) && (0..from[3] as isize).contains(&ix) {
                    let source = ((n * from[1] + channel) * from[2] + iy as usize) * from[3] + ix as usize;
                    let target = ((n * to[1] + k) * to[2] + y) * to[3] + x;
                    f(source, target, ((k * per_group + c) * op.kernel[0] + r) * op.kernel[1] + s);
                }
            }
        }
    }
}

#[test]
fn convolutions_are_those_of_plain_loops() {
    let cases = [
        // Input; kernels; group; kernel; stride; dilation; top, left, bottom, right.
        ([1, 3, 11, 13], 5, 1, [3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
        ([2, 4, 9, 40], 6, 2, [3, 5], [2, 3], [1, 2], [0, 4, 2, 1]),
        ([1, 6, 12, 7], 6, 6, [3, 3], [2, 1], [2, 1], [2, 0, 1, 1]),
        ([1, 6, 12, 50], 6, 6, [5, 4], [1, 3], [1, 2], [2, 6, 2, 0]),
        ([2, 8, 5, 4], 10, 1, [5, 4], [1, 1], [1, 1], [0; 4]),
        ([1, 16, 40, 30], 7, 1, [1, 1], [1, 1], [1, 1], [0; 4]),
        ([1, 3, 60, 31], 4, 1, [1, 1], [2, 2], [1, 1], [0; 4]),
        ([1, 4, 6, 6], 8, 4, [3, 3], [1, 1], [1, 1], [1; 4]),
    ];
    for (k, (from, kernels, group, kernel, stride, dilation, [top, left, bottom, right])) in
        cases.into_iter().enumerate()
    {
        let op = Convolution { group, kernel, stride, dilation, padding: Padding { top, left, bottom, right } };
        let weights = [kernels, from[1] / group, kernel[0], kernel[1]];
        let (x, w) = (noise(from.iter().product(), 1), noise(weights.iter().product(), 2));
        let b = noise(kernels, 3);
        let node = Op::Convolution(op);
        let shape = infer::infer(&node, &[&from, &weights, &[kernels]]).unwrap();
        let plane = shape[2] * shape[3];
        let mut plain: Vec<f32> = (0..shape.iter().product()).map(|at| b[at / plane % kernels]).collect();
        each(&op, &from, &shape, |source, target, weight| plain[target] += x[source] * w[weight]);
        let fast = apply(&node, &[(&from, &x), (&weights, &w), (&[kernels], &b)], &shape);
        close(&fast, &plain, &format!("convolution {k}"));
    }
}

#[test]
fn deconvolutions_are_the_transposition_of_plain_convolutions() {
    for (k, (from, kernels, group, stride, dilation, pad, extra)) in [
        ([1, 3, 4, 5], 2, 1, [2, 2], [1, 1], 1, [1, 1]),
        ([2, 4, 3, 6], 6, 2, [3, 1], [1, 2], 0, [0, 0]),
        ([1, 4, 5, 5], 4, 4, [2, 3], [2, 1], 2, [0, 1]),
    ]
    .into_iter()
    .enumerate()
    {
        let padding = Padding { top: pad, left: pad, bottom: pad, right: pad };
        let op = Convolution { group, kernel: [3, 4], stride, dilation, padding };
        let weights = [from[1], kernels / group, 3, 4];
        let (x, w) = (noise(from.iter().product(), 1), noise(weights.iter().product(), 2));
        let node = Op::Deconvolution(op, extra);
        let shape = infer::infer(&node, &[&from, &weights]).unwrap();
        let mut plain = vec![0.0; shape.iter().product()];
        // A convolution that maps the output to the input; its weights are [C][K / group][R][S].
        each(&op, &shape, &from, |source, target, weight| plain[source] += x[target] * w[weight]);
        let fast = apply(&node, &[(&from, &x), (&weights, &w)], &shape);
        close(&fast, &plain, &format!("deconvolution {k}"));
    }
}

#[test]
fn operands_repeat_along_dimensions_of_one() {
    let (a, b) = (noise(2 * 3 * 4, 1), noise(3 * 5, 2));
    let out = apply(&Op::Binary(Binary::Sub), &[(&[2, 3, 1, 4], &a), (&[3, 5, 1], &b)], &[2, 3, 5, 4]);
    for (at, value) in out.iter().enumerate() {
        let (n, c, y, x) = (at / 60, at / 20 % 3, at / 4 % 5, at % 4);
        assert_eq!(*value, a[(n * 3 + c) * 4 + x] - b[c * 5 + y]);
    }
}

#[test]
fn reflected_padding_mirrors_without_the_border() {
    let op = Op::Pad { mode: PadMode::Reflect, before: vec![1, 2], after: vec![0, 1] };
    let out = apply(&op, &[(&[2, 3], &[1., 2., 3., 4., 5., 6.])], &[3, 6]);
    assert_eq!(out, [6., 5., 4., 5., 6., 5., 3., 2., 1., 2., 3., 2., 6., 5., 4., 5., 6., 5.]);
}

#[test]
fn a_quantized_tensor_is_rounded_and_limited() {
    let quantization = Quantization { scale: vec![0.5], zero_point: vec![-128], axis: None, limits: (-128, 127) };
    let mut values = [-3.0, 0.3, 0.25, 0.75, 200.0];
    quantize(Some(&quantization), &[5], &mut values);
    assert_eq!(values, [0.0, 0.5, 0.0, 1.0, 127.5]);
}

#[test]
fn windows_of_elements_apart_are_those_of_plain_loops() {
    use crate::ir::{Pool, PoolKind};
    let (from, x) = ([1, 2, 9, 8], noise(144, 3));
    let padding = Padding { top: 2, left: 3, bottom: 1, right: 2 };
    for kind in [PoolKind::Max, PoolKind::Average { count_include_pad: false }] {
        let pool = Pool { kind, kernel: [3, 2], stride: [2, 1], dilation: [2, 4], padding };
        let op = Op::Pool(pool);
        let to = infer::infer(&op, &[&from]).unwrap();
        let mut expected = Vec::new();
        let (height, width) = (to[2], to[3]);
        for (c, y, column) in (0..2).flat_map(|c| (0..height).flat_map(move |y| (0..width).map(move |x| (c, y, x)))) {
            let mut inside = Vec::new();
            for (r, s) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
                let (line, place) = ((2 * y + 2 * r) as isize - 2, (column + 4 * s) as isize - 3);
                if (0..9).contains(&line) && (0..8).contains(&place) {
                    inside.push(x[(c * 9 + line as usize) * 8 + place as usize]);
                }
            }
            expected.push(match kind {
                PoolKind::Max => inside.iter().copied().fold(f32::NEG_INFINITY, f32::max),
                PoolKind::Average { .. } => inside.iter().sum::<f32>() / inside.len() as f32,
            });
        }
        close(&apply(&op, &[(&from, &x)], &to), &expected, "a dilated pooling");
    }
}

/// The values are those that ONNX's operator reference gives for its example of a cubic resize by 2.
#[test]
fn a_cubic_resize_is_that_of_onnx() {
    use crate::ir::{Coordinates, Resize, ResizeMode};
    let x: Vec<f32> = (1..17u8).map(f32::from).collect();
    let (coordinates, size) = (Coordinates::HalfPixel, [8, 8]);
    let op = Op::Resize(Resize::new(ResizeMode::Cubic(-0.75), coordinates, [2.0; 2], size));
    let found = apply(&op, &[(&[1, 1, 4, 4], &x)], &[1, 1, 8, 8]);
    // In parts of 256.
    let first = [121.0, 197.0, 319.0, 480.0, 584.0, 745.0, 867.0, 943.0].map(|value: f32| value / 256.0);
    close(&found[..8], &first, "the first line");
}
