// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a simulator of the design has counted, beside which the estimate is shown.

/// What an operation took, where a simulator counts cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The cycle in which the unit could start: its operation was enabled, and the operation before had ended.
    pub start: u64,
    /// The cycle of its done pulse.
    pub end: u64,
    /// Bytes that the unit's clients have read since the unit's operation before.
    pub read: u64,
    /// Bytes that they have written.
    pub written: u64,
    /// Cycles in which a client of the unit had a read outstanding and no data came, added up over its clients.
    pub waited: u64,
}

impl Measured {
    /// From the start to the end.
    pub const fn cycles(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}
