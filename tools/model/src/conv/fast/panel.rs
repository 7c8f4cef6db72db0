// SPDX-License-Identifier: MIT OR Apache-2.0

//! Weights in the form of the inner loops.
//!
//! A panel holds the weights of `N` kernels. For each group of `GROUP` elements, it has `GROUP` weights of each kernel,
//! kernel by kernel. The weights of absent kernels and channels are zero.

use super::super::operation::Operation;
use super::shape::Shape;
use crate::simd::aligned::Plain;

/// A weight in a panel.
pub trait Weight: Plain + Default + Send + Sync {
    /// Converts an int8 weight.
    fn of(byte: u8) -> Self;
}

impl Weight for i8 {
    fn of(byte: u8) -> Self {
        byte as i8
    }
}

impl Weight for i16 {
    fn of(byte: u8) -> Self {
        Self::from(byte as i8)
    }
}

/// Packs the kernels `first..first + N` that exist.
#[inline(always)]
#[allow(clippy::inline_always)]
pub fn pack<T: Weight, const N: usize, const GROUP: usize>(
    operation: &Operation,
    shape: &Shape,
    weights: &[u8],
    first: usize,
    panel: &mut [T],
) {
    let count = operation.kernels.saturating_sub(first).min(N);
    let channels = operation.kernel.channels;
    if count < N || shape.channels != channels {
        panel.fill(T::default());
    }
    for tap in 0..shape.taps {
        for block in 0..channels.div_ceil(operation.atomic_c) {
            let at = (tap * shape.channels + block * operation.atomic_c) * N;
            for index in 0..count {
                let row = operation.weight_row(first + index, block, tap);
                let row = &weights[row];
                let (groups, rest) = row.split_at(row.len() - row.len() % GROUP);
                let to = &mut panel[at + index * GROUP..];
                for (to, from) in to.chunks_mut(N * GROUP).zip(groups.chunks_exact(GROUP)) {
                    let Some(to) = to.first_chunk_mut::<GROUP>() else { break };
                    let Some(from) = from.first_chunk::<GROUP>() else { break };
                    *to = from.map(T::of);
                }
                if !rest.is_empty() {
                    for (to, &from) in to[groups.len() * N..].iter_mut().zip(rest) {
                        *to = T::of(from);
                    }
                }
            }
        }
    }
}
