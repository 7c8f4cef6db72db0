// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators that only move elements.

use super::values::Values;
use crate::ir::{BlockOrder, Op, PadMode};

/// The number of elements from each index of an axis to the next.
pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// A tensor of the shape `lengths`. Its element at index i is `x[start + sum of i[axis] * strides[axis]]`.
fn strided(x: &[f32], start: usize, strides: &[isize], lengths: &[usize]) -> Vec<f32> {
    let Some((&last, outer)) = lengths.split_last() else { return vec![x[start]] };
    let step = strides[outer.len()];
    let count: usize = lengths.iter().product();
    let mut out = Vec::with_capacity(count);
    let (mut index, mut at) = (vec![0; outer.len()], start as isize);
    loop {
        if step == 1 {
            out.extend_from_slice(&x[at as usize..at as usize + last]);
        } else {
            out.extend((0..last as isize).map(|k| x[(at + k * step) as usize]));
        }
        // The next index of the outer axes.
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return out;
            }
            axis -= 1;
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < outer[axis] {
                break;
            }
            at -= strides[axis] * outer[axis] as isize;
            index[axis] = 0;
        }
    }
}

/// A tensor repeated to a shape along its dimensions of 1 and along missing dimensions.
pub(super) fn expand((from, x): Values<'_>, shape: &[usize]) -> Vec<f32> {
    let (own, missing) = (strides(from), shape.len() - from.len());
    let stride = |axis: usize| match axis.checked_sub(missing) {
        Some(axis) if from[axis] > 1 => own[axis] as isize,
        _ => 0,
    };
    strided(x, 0, &(0..shape.len()).map(stride).collect::<Vec<_>>(), shape)
}

fn transpose((from, x): Values<'_>, perm: &[usize]) -> Vec<f32> {
    let own = strides(from);
    let lengths: Vec<_> = perm.iter().map(|&axis| from[axis]).collect();
    strided(x, 0, &perm.iter().map(|&axis| own[axis] as isize).collect::<Vec<_>>(), &lengths)
}

pub(super) fn permuted(op: &Op, (from, x): Values<'_>) -> Vec<f32> {
    match (op, from) {
        (Op::Transpose { perm }, _) => transpose((from, x), perm),
        (&Op::DepthToSpace { block: [a, b], order: BlockOrder::Dcr }, &[n, c, h, w]) => {
            transpose((&[n, a, b, c / a / b, h, w], x), &[0, 3, 4, 1, 5, 2])
        }
        (&Op::DepthToSpace { block: [a, b], order: BlockOrder::Crd }, &[n, c, h, w]) => {
            transpose((&[n, c / a / b, a, b, h, w], x), &[0, 1, 4, 2, 5, 3])
        }
        (&Op::SpaceToDepth { block: [a, b] }, &[n, c, h, w]) => {
            transpose((&[n, c, h / a, a, w / b, b], x), &[0, 3, 5, 1, 2, 4])
        }
        _ => x.to_vec(),
    }
}

pub(super) fn slice((from, x): Values<'_>, starts: &[usize], steps: &[isize], lengths: &[usize]) -> Vec<f32> {
    let own = strides(from);
    let start = starts.iter().zip(&own).map(|(start, stride)| start * stride).sum();
    let strides: Vec<_> = steps.iter().zip(&own).map(|(step, &stride)| step * stride as isize).collect();
    strided(x, start, &strides, lengths)
}

pub(super) fn concat(inputs: &[Values<'_>], axis: usize) -> Vec<f32> {
    let outer: usize = inputs[0].0[..axis].iter().product();
    let mut out = Vec::with_capacity(inputs.iter().map(|(_, x)| x.len()).sum());
    for k in 0..outer {
        for (shape, x) in inputs {
            let run: usize = shape[axis..].iter().product();
            out.extend_from_slice(&x[k * run..][..run]);
        }
    }
    out
}

pub(super) fn pad(mode: PadMode, (from, x): Values<'_>, before: &[usize], shape: &[usize]) -> Vec<f32> {
    // For each axis, the input's index of each output index; `None` for the constant.
    let place = |axis: usize, at: usize| {
        let (at, last) = (at as isize - before[axis] as isize, from[axis] as isize - 1);
        let inside = match mode {
            PadMode::Constant(_) => return (0..=last).contains(&at).then_some(at as usize),
            PadMode::Edge => at.clamp(0, last),
            PadMode::Reflect if at < 0 => -at,
            PadMode::Reflect if at > last => 2 * last - at,
            PadMode::Reflect => at,
        };
        Some(inside as usize)
    };
    let value = if let PadMode::Constant(value) = mode { value } else { 0.0 };
    // One axis after another. `current` is the output so far, as runs of the elements of inner axes.
    let mut current = x.to_vec();
    for axis in (0..from.len()).filter(|&axis| shape[axis] != from[axis]) {
        let run: usize = from[axis + 1..].iter().product();
        let block = from[axis] * run;
        let places: Vec<_> = (0..shape[axis]).map(|at| place(axis, at)).collect();
        // Outer axes are already padded and inner axes are not, so runs have the input's length.
        let mut padded = Vec::with_capacity(current.len() / block * shape[axis] * run);
        for outer in current.chunks(block) {
            for place in &places {
                match place {
                    Some(at) => padded.extend_from_slice(&outer[at * run..][..run]),
                    None => padded.resize(padded.len() + run, value),
                }
            }
        }
        current = padded;
    }
    current
}
