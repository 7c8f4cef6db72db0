// SPDX-License-Identifier: MIT OR Apache-2.0

//! The values of an estimate: the conditions, and one row per operation.

use nvdla_estimate::{usual, Bytes, Limit};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;

use crate::device::Measured;

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
    /// Those of [`nvdla_estimate::usual`] at 1 GHz, where a byte per cycle is 1 GB/s and a cycle 1 ns.
    fn default() -> Self {
        let (dram, sram) = (usual::DRAM, usual::SRAM);
        Self { clock: 1000.0, dram, sram, latency: usual::LATENCY, register_write: usual::REGISTER_WRITE }
    }
}

/// An operation's estimate.
#[derive(Clone, Debug)]
pub struct Row {
    /// The task's id.
    pub task: u16,
    /// Position in the task's operation list.
    pub operation: usize,
    /// The unit.
    pub unit: OpType,
    /// The layers that it computes, where the loadable says.
    pub layer: Option<String>,
    /// The inputs and outputs.
    pub shape: String,
    /// Multiply-accumulate steps of the algorithm.
    pub macs: u64,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Cycles that the unit needs for the computation.
    pub compute: u64,
    /// Cycles that the operation takes without others.
    pub cycles: u64,
    /// What limits it.
    pub limit: Limit,
    /// The operation of the same task that passes it its data, and with which it runs together.
    pub source: Option<usize>,
    /// When its group starts, in cycles.
    pub start: u64,
    /// How long its group takes, in cycles.
    pub group: u64,
    /// What limits its group.
    pub group_limit: Limit,
    /// The measured values, from a device that counts cycles.
    pub measured: Option<Measured>,
}

/// A network's estimate.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The configuration.
    pub config: &'static Config,
    /// The conditions.
    pub conditions: Conditions,
    /// One row per operation.
    pub rows: Vec<Row>,
}
