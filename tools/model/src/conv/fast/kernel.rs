// SPDX-License-Identifier: MIT OR Apache-2.0

//! The contract of the inner loops: what a loop computes ([`Tile`]), and what an instruction set provides ([`Kernel`]).

use super::super::operation::Operation;
use super::panel::Weight;
use super::shape::{Element, Run, Shape};

/// The number of int8 products for which the sum always fits 32 bits.
pub(super) const MAX_DEPTH: usize = (1 << 17) - 1;

/// Multiplications from which a second thread pays.
pub(super) const PARALLEL_MACS: usize = 1_000_000;

/// What an inner loop computes: the sums of some windows with the kernels of a panel.
#[derive(Debug)]
pub struct Tile<'t, D, W, const N: usize> {
    /// The copied input, from the first window on.
    pub data: &'t [D],
    /// Elements from a window to the next.
    pub step: usize,
    /// What a window takes of the data.
    pub runs: &'t [Run],
    /// The weights.
    pub panel: &'t [W],
    /// What the sums begin at.
    pub start: &'t [i32; N],
    /// The sums, an array for each window.
    pub sums: &'t mut [[i32; N]],
}

/// Calls the loop `tile` that is compiled for as many windows as a tile has (for some at a time, `by` so many). Its
/// numbers are all that [`Kernel::tile`]'s condition leaves.
macro_rules! by_pixels {
    ($tile:ident: $($count:literal)+) => { by_pixels!($tile by 1: $($count)+) };
    ($tile:ident by $together:literal: $($count:literal)+) => {
        match $tile.sums.len().div_ceil($together) {
            $($count => tile::<$count>($tile),)+
            _ => {}
        }
    };
}
pub(super) use by_pixels;

/// An inner loop over `N` kernels.
pub trait Kernel<const N: usize> {
    /// An element of the copied input.
    type Data: Element + Sync;
    /// An element of a panel.
    type Weight: Weight;
    /// Elements of a step.
    const GROUP: usize;
    /// Most pixels of a tile.
    const PIXELS: usize;
    /// What the data is too high by.
    const BIAS: i32;

    /// The sums of the tile's windows with all kernels of the panel.
    ///
    /// # Safety
    /// The machine has the instructions. The tile has 1 to `PIXELS` windows; run offsets and lengths, plus all windows'
    /// steps but one, lie in its data; its panel has `N` weights for each element of the runs, whose lengths are
    /// multiples of `GROUP`.
    unsafe fn tile(tile: Tile<'_, Self::Data, Self::Weight, N>);

    /// Packs a panel, and gives what its sums begin at.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn pack(
        operation: &Operation,
        shape: &Shape,
        weights: &[u8],
        first: usize,
        panel: &mut [Self::Weight],
        start: &mut [i32; N],
    );
}
