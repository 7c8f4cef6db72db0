// SPDX-License-Identifier: MIT OR Apache-2.0

//! The measured values of an operation on a simulator of the design, for comparison with the estimate.

/// The measured values of an operation, from a simulator that counts cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The cycle in which software enabled the operation.
    pub enabled: u64,
    /// The cycle in which the unit could start: its operation was enabled, and the previous operation had ended.
    pub start: u64,
    /// The cycle of its done pulse.
    pub end: u64,
    /// Bytes that the unit's clients have read since its previous operation.
    pub read: u64,
    /// Bytes that the unit's clients have written.
    pub written: u64,
    /// Cycles in which a client of the unit had an outstanding read and no data arrived, summed over the unit's clients.
    pub waited: u64,
}

impl Measured {
    /// Cycles from the start to the end.
    pub const fn cycles(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}
