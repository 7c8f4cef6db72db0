// SPDX-License-Identifier: MIT OR Apache-2.0

//! The estimate of an operation: its cycles, and what limits them.

use crate::memory::{Bytes, Memory};
use nvdla_uapi::config::Config;
use std::fmt;

/// The estimated time of an operation, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Cycles from enabling the operation, with its unit idle, to its done interrupt.
    pub cycles: u64,
    /// Cycles that the unit needs if it never waits for memory.
    pub compute: u64,
    /// Cycles that memory needs to transfer all bytes of the operation.
    pub memory: u64,
    /// Bytes that it moves.
    pub bytes: Bytes,
    /// The main reason for the time.
    pub limit: Limit,
}

/// The main reason for the time of an operation, or of a group of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Multiply-accumulate cells.
    Macs,
    /// Another unit's throughput.
    Throughput,
    /// DRAM.
    Dram,
    /// SRAM.
    Sram,
    /// Memory's latency: a reader has reached its limit of outstanding requests, or the operation is shorter than its start and
    /// end.
    Latency,
    /// Register writes.
    SetUp,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Macs => "MACs",
            Self::Throughput => "throughput",
            Self::Dram => "memory",
            Self::Sram => "SRAM",
            Self::Latency => "latency",
            Self::SetUp => "set-up",
        })
    }
}

impl Estimate {
    /// An operation whose unit is busy for the longer of `compute` and `reading` (the time of its readers, without the memory's
    /// latency), and for `fixed` additional cycles, unless the transfer of its bytes takes longer. `latency` is the latency of
    /// its first read and of its last write.
    pub(crate) fn new(
        compute: u64,
        reading: u64,
        fixed: u64,
        latency: u64,
        busy: Limit,
        bytes: Bytes,
        memory: &Memory,
    ) -> Self {
        let (dram, sram) = bytes.cycles(memory);
        let moving = dram.max(sram);
        let (unit, transfer) = (compute.max(reading) + fixed, moving + fixed.min(TRANSFER));
        let longest = compute.max(reading).max(moving);
        let limit = if fixed + latency > longest {
            // The start, and the wait for the first data, take longest.
            Limit::Latency
        } else if unit < transfer {
            if moving == dram {
                Limit::Dram
            } else {
                Limit::Sram
            }
        } else if compute >= reading {
            busy
        } else {
            Limit::Latency
        };
        Self { cycles: unit.max(transfer) + latency, compute, memory: moving, bytes, limit }
    }
}

/// Cycles from enabling an operation to its first request, plus those from its last response to its done interrupt. If bytes
/// limit an operation, the stages of its unit add nothing, because reads continue while the first data pass through them. Fitted
/// on SDP, PDP and CDP of nv_large with 4 to 16 bytes per cycle.
const TRANSFER: u64 = 18;

/// Bytes per cycle of the primary memory interface.
pub(crate) fn bus(config: &Config) -> u64 {
    u64::from(config.primary.width / 8).max(1)
}
