// SPDX-License-Identifier: MIT OR Apache-2.0

//! Faults on purpose, to see that a driver survives them.

/// Which events go wrong, counted from 1.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Faults {
    /// Do not deliver these interrupts
    #[arg(long, value_name = "N", value_delimiter = ',')]
    lose_interrupt: Vec<u64>,
    /// Never finish these operations
    #[arg(long, value_name = "N", value_delimiter = ',')]
    hang: Vec<u64>,
    /// Refuse every memory access of these operations
    #[arg(long, value_name = "N", value_delimiter = ',')]
    refuse_memory: Vec<u64>,
}

impl Faults {
    pub(crate) fn loses_interrupt(&self, number: u64) -> bool {
        self.lose_interrupt.contains(&number)
    }

    pub(crate) fn hangs(&self, number: u64) -> bool {
        self.hang.contains(&number)
    }

    pub(crate) fn refuses_memory(&self, number: u64) -> bool {
        self.refuse_memory.contains(&number)
    }
}
