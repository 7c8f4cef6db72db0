// SPDX-License-Identifier: MIT OR Apache-2.0

//! The conditions of an estimate where nothing else is known: those of the runtime's `--profile`, of the compiler's choices and of its
//! report. The bandwidths are those of NVIDIA's published figures at 1 GHz. The others are common in embedded systems.

/// Cycles from a read request to its first data, of both memories.
pub const LATENCY: u32 = 100;
/// Bytes of DRAM per cycle, reads and writes together.
pub const DRAM: f64 = 10.0;
/// Bytes of SRAM per cycle.
pub const SRAM: f64 = 25.0;
/// Cycles of a register write.
pub const REGISTER_WRITE: f64 = 100.0;
