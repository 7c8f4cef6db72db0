// SPDX-License-Identifier: MIT OR Apache-2.0

//! The conditions of an estimate: what a board adds to the hardware. The compiler's choices, its report and the runtime's
//! `--profile` have the same ones.

use std::fmt;

use crate::memory::{Interface, Memory};
use crate::schedule::Host;

/// The conditions: clock, memory and bus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Clock in MHz.
    pub clock: f64,
    /// Bandwidth of DRAM, reads and writes together, in GB/s.
    pub dram: f64,
    /// Bandwidth of SRAM behind the secondary memory interface in GB/s.
    pub sram: f64,
    /// Cycles from a read request to its first data, of both memories.
    pub latency: u32,
    /// Time of a register write in ns.
    pub register_write: f64,
}

impl Default for Conditions {
    /// Those where nothing else is known. The bandwidths are of NVIDIA's published figures at 1 GHz, where a byte per cycle is 1 GB/s
    /// and a cycle 1 ns. The others are common in embedded systems.
    fn default() -> Self {
        Self { clock: 1000.0, dram: 10.0, sram: 25.0, latency: 100, register_write: 100.0 }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clock, dram, sram, latency, register_write } = self;
        write!(
            f,
            "{clock} MHz, DRAM {dram} GB/s, SRAM {sram} GB/s, {latency} cycles of latency, {register_write} ns per register write"
        )
    }
}

impl Conditions {
    /// The memories in bytes per cycle.
    pub fn memory(&self) -> Memory {
        // GB/s over MHz is 1000 bytes per cycle.
        let interface = |bandwidth: f64| Interface { latency: self.latency, bandwidth: bandwidth * 1e3 / self.clock };
        Memory { dram: interface(self.dram), sram: interface(self.sram) }
    }

    /// The host's accesses in cycles.
    pub fn host(&self) -> Host {
        Host::new(self.register_write * self.clock / 1e3)
    }
}
