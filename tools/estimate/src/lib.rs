// SPDX-License-Identifier: MIT OR Apache-2.0

//! Estimates how long NVDLA takes for an operation, by formulas from the configuration's parameters, without running it.
//!
//! One function per unit takes the shape of an operation, the hardware's [`Config`] and its [`Memory`], and returns an
//! [`Estimate`]: the cycles, and what limits them. [`pipeline`] is for operations that are connected on the fly and run together
//! (a convolution, its SDP, a PDP after it). A shape is a small structure that a compiler can fill without a descriptor;
//! `from_descriptors` makes one from a loadable's descriptors.
//!
//! The functions allocate nothing and take well below a microsecond, so that a compiler can call them for every choice.
//!
//! ```
//! use nvdla_estimate::{convolution, ConvShape, Cube, Memory};
//! use nvdla_uapi::config::NV_SMALL;
//!
//! // 16 channels of 32 x 32 through 32 kernels of 3 x 3, on nv_small with 8 bytes per cycle and 50 cycles of latency.
//! let shape = ConvShape::direct(Cube::int8(16, 32, 32), 32, (3, 3), Cube::int8(32, 30, 30));
//! let estimate = convolution(&shape, &NV_SMALL, &Memory::new(&NV_SMALL, 50, 8.0));
//! assert!(estimate.cycles >= 2 * 4 * 9 * 30 * 30);
//! ```

mod bdma;
mod cdp;
mod conv;
mod measured;
mod memory;
mod pdp;
mod pipeline;
mod rubik;
mod schedule;
mod sdp;

pub use bdma::{bdma, BdmaShape};
pub use cdp::{cdp, CdpShape};
pub use conv::{convolution, ConvShape, Image};
pub use measured::Measured;
pub use memory::{Bytes, Cube, Interface, Memory};
pub use pdp::{pdp, PdpShape};
pub use pipeline::{pipeline, Shape};
pub use rubik::{rubik, RubikShape};
pub use schedule::{schedule, Host, Slot, Step, Writes};
pub use sdp::{sdp, SdpOperand, SdpShape};

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
    fn new(compute: u64, reading: u64, fixed: u64, latency: u64, busy: Limit, bytes: Bytes, memory: &Memory) -> Self {
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
fn bus(config: &Config) -> u64 {
    u64::from(config.primary.width / 8).max(1)
}
