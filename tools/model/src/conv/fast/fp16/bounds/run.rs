// SPDX-License-Identifier: MIT OR Apache-2.0

//! Data of a step that lie one after another.

/// Channels whose exponents are compared at once.
pub(super) const GROUP: usize = 4;

/// Data of a step that lie one after another, and their weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// From the first datum of an output element's window, in elements.
    pub(super) offset: usize,
    /// Elements.
    pub(super) length: usize,
    /// Number of the first weight of a kernel.
    pub(super) lane: usize,
    /// Number of the first group of weights.
    pub(super) group: usize,
    /// The weights' place: block of channels, and position in the kernel.
    pub(super) block: usize,
    pub(super) position: usize,
}
