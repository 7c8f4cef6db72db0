// SPDX-License-Identifier: MIT OR Apache-2.0

//! The counters of a running operation of SDP.

use super::operation::Operation;
use crate::lut::Counters;
use crate::stream::{Done, Status, Stream};
use nvdla_uapi::reg::{sdp as reg, sdp_rdma as rdma_reg, Block};

/// The counters of a running operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) lookups: Counters,
    pub(super) saturated: u32,
    pub(super) nan_output: u32,
    pub(super) nan_input: u32,
    pub(super) infinite_input: u32,
    pub(super) unequal: bool,
}

impl Tally {
    /// Adds the counters of another part of the operation.
    pub(super) fn add(&mut self, other: &Self) {
        self.lookups += other.lookups;
        self.saturated = self.saturated.wrapping_add(other.saturated);
        self.nan_output = self.nan_output.wrapping_add(other.nan_output);
        self.nan_input = self.nan_input.wrapping_add(other.nan_input);
        self.infinite_input = self.infinite_input.wrapping_add(other.infinite_input);
        self.unequal |= other.unequal;
    }

    /// The operation's status registers.
    pub(super) fn finish(&self, operation: &Operation, output: Option<Stream>) -> Done<Option<Stream>> {
        let mut status = Status::EMPTY;
        let mut set = |block, register, value| status.push(block, register, value);
        if operation.compares() {
            set(Block::Sdp, reg::D_STATUS, u32::from(self.unequal));
        }
        if operation.count.lookups {
            set(Block::Sdp, reg::D_PERF_LUT_UFLOW, self.lookups.under);
            set(Block::Sdp, reg::D_PERF_LUT_OFLOW, self.lookups.over);
            set(Block::Sdp, reg::D_PERF_LUT_HYBRID, self.lookups.hybrid);
            set(Block::Sdp, reg::D_PERF_LUT_LE_HIT, self.lookups.le_hit);
            set(Block::Sdp, reg::D_PERF_LUT_LO_HIT, self.lookups.lo_hit);
        }
        if operation.count.saturation {
            set(Block::Sdp, reg::D_PERF_OUT_SATURATION, self.saturated);
        }
        if operation.count.nan_output {
            set(Block::Sdp, reg::D_STATUS_NAN_OUTPUT_NUM, self.nan_output);
        }
        if operation.count.nan_input {
            set(Block::SdpRdma, rdma_reg::D_STATUS_NAN_INPUT_NUM, self.nan_input);
            set(Block::SdpRdma, rdma_reg::D_STATUS_INF_INPUT_NUM, self.infinite_input);
        }
        Done { output, status }
    }
}
