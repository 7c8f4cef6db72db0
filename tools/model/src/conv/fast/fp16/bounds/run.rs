// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs of adjacent data in a step.

/// Channels whose exponents are compared together.
pub(super) const GROUP: usize = 4;

/// Adjacent data of a step, and their weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Distance from the first datum of an output element's window, in elements.
    pub(super) offset: usize,
    /// Elements.
    pub(super) length: usize,
    /// Index of the first weight in a kernel.
    pub(super) lane: usize,
    /// Index of the first group of weights.
    pub(super) group: usize,
    /// Block of channels.
    pub(super) block: usize,
    /// Position in the kernel.
    pub(super) position: usize,
}
