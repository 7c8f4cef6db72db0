// SPDX-License-Identifier: MIT OR Apache-2.0

//! The interface of the inner loops: [`Tile`] is what a loop computes, [`Kernel`] is what an instruction set provides.

use super::super::operation::Operation;
use super::panel::Weight;
use super::shape::{Element, Run, Shape};

/// The number of int8 products whose sum always fits 32 bits.
pub(super) const MAX_DEPTH: usize = (1 << 17) - 1;

/// Smallest number of multiplications for which a second thread is worth its cost: work of one to four microseconds.
pub(super) const PARALLEL: usize = 500_000;

/// The work of one call of an inner loop: the sums of some windows with the kernels of a panel.
#[derive(Debug)]
pub struct Tile<'t, D, W, const N: usize> {
    /// The copied input from the first window on.
    pub data: &'t [D],
    /// Elements from one window to the next in a line.
    pub step: usize,
    /// Elements from the windows of one line to those of the next.
    pub line: usize,
    /// The runs of data that a window reads.
    pub runs: &'t [Run],
    /// The weights.
    pub panel: &'t [W],
    /// The initial sums.
    pub start: &'t [i32; N],
    /// The number of the panel's kernels that exist. The weights of the others are zero, and so are their initial sums.
    pub kernels: usize,
    /// The number of windows per line.
    pub windows: usize,
    /// The number of lines: 1, or 2 with [`Kernel::TWO_LINES`].
    pub lines: usize,
    /// The results: one array of sums per window, and arrays of other panels between them.
    pub sums: &'t mut [[i32; N]],
    /// The distance between the arrays of two windows.
    pub apart: usize,
}

/// Calls `tile` compiled for the tile's number of windows, or with `by` for that number of groups of windows. The
/// listed numbers must be all that the condition of [`Kernel::tile`] allows.
macro_rules! by_pixels {
    ($tile:ident: $($count:literal)+) => { by_pixels!($tile by 1: $($count)+) };
    ($tile:ident by $together:literal: $($count:literal)+) => {
        match $tile.windows.div_ceil($together) {
            $($count => tile::<$count>($tile),)+
            _ => {}
        }
    };
    ($tile:ident in lines $lines:literal: $($count:literal)+) => {
        match $tile.windows {
            $($count => tile::<$count, $lines>($tile),)+
            _ => {}
        }
    };
}
pub(super) use by_pixels;

/// An inner loop over panels of `N` kernels.
pub trait Kernel<const N: usize> {
    /// An element of the copied input.
    type Data: Element + Sync;
    /// An element of a panel.
    type Weight: Weight;
    /// Elements per group, which a step of the loop multiplies together.
    const GROUP: usize;
    /// Largest number of pixels per tile.
    const PIXELS: usize;
    /// Whether a tile may have two lines.
    const TWO_LINES: bool = false;
    /// The amount by which data is stored too high.
    const BIAS: i32;

    /// Computes the sums of the tile's windows with all kernels of the panel.
    ///
    /// # Safety
    /// The machine has the instructions. The tile has 1 to `PIXELS` windows in all its lines, and all runs of all windows lie in its
    /// data. The panel has `N` weights per element of the runs. The lengths of the runs are multiples of `GROUP`.
    unsafe fn tile(tile: Tile<'_, Self::Data, Self::Weight, N>);

    /// Packs a panel, and sets the initial sums.
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
