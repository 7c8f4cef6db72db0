// SPDX-License-Identifier: MIT OR Apache-2.0

//! The values of an estimate: the conditions, and one row per operation.

use nvdla_estimate::{Bytes, Conditions, Limit};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;

use crate::device::Measured;

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
    /// Cycles that the unit is busy at its full throughput: for a convolution, those of the multiply-accumulate cells, or of the
    /// accumulator where it hands over its sums for longer.
    pub busy: u64,
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

/// Bounds of a network's time in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The sum over layers: of each, the time of the unit or memory that is busy longest.
    pub layers: u64,
    /// The time of the unit or memory that is busy longest in all operations together.
    pub whole: u64,
}

/// A network's estimate.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The configuration.
    pub config: &'static Config,
    /// The conditions.
    pub conditions: Conditions,
    /// The conditions that the network was compiled for, if they are others and the loadable says them.
    pub compiled_for: Option<Conditions>,
    /// Pictures that a run computes.
    pub pictures: u32,
    /// One row per operation.
    pub rows: Vec<Row>,
}
