// SPDX-License-Identifier: MIT OR Apache-2.0

//! A block's register file: single (`S_`) registers, and two ping-pong groups of `D_` registers.
//!
//! Software writes the group that `S_POINTER.PRODUCER` selects. The hardware runs the group that `S_POINTER.CONSUMER`
//! selects, and then switches to the other group. While `D_OP_ENABLE` of a group is set, writes to the group are
//! ignored.
//!
//! Source: the hardware manual ("ping-pong register programming") and the hardware's register files.

use nvdla_uapi::reg::values::GroupStatus;
use nvdla_uapi::reg::{cdma, cdp, sdp, Block, Family, FieldValue, Register};

use crate::registers::{writable, Registers, Writable};

/// `S_STATUS`, which is at the same offset in every block with groups.
const S_STATUS: Register = cdma::S_STATUS;
/// `S_POINTER`, which is at the same offset in every block with groups.
const S_POINTER: Register = cdma::S_POINTER;

/// The register file of a block with two groups.
#[derive(Clone, Debug)]
pub struct Groups {
    writable: &'static Writable,
    /// `D_OP_ENABLE`. The registers before it are single registers.
    op_enable: Register,
    producer: usize,
    consumer: usize,
    /// The two groups. Both have copies of the single registers.
    pair: [Registers; 2],
}

impl Groups {
    /// The block's registers after reset.
    pub fn reset(block: Block, family: Family) -> Self {
        let op_enable = match block {
            Block::Cdma => cdma::D_OP_ENABLE,
            Block::Sdp => sdp::D_OP_ENABLE,
            Block::Cdp => cdp::D_OP_ENABLE,
            // Every other block with groups has only S_STATUS and S_POINTER before it.
            _ => nvdla_uapi::reg::csc::D_OP_ENABLE,
        };
        let registers = Registers::reset(block);
        Self {
            writable: writable(block, family),
            op_enable,
            producer: 0,
            consumer: 0,
            pair: [registers.clone(), registers],
        }
    }

    /// Returns the value that software reads at `offset` of the block, zero if there is no register.
    pub fn read(&self, offset: u32) -> u32 {
        if offset == S_STATUS.offset.into() {
            return self.status(0).to_bits() | self.status(1).to_bits() << 16;
        }
        if offset == S_POINTER.offset.into() {
            return self.producer as u32 | (self.consumer as u32) << 16;
        }
        self.pair[self.producer].at(offset)
    }

    /// Performs a write of software. Returns whether it enabled an operation.
    pub fn write(&mut self, offset: u32, value: u32) -> bool {
        if offset == S_POINTER.offset.into() {
            self.producer = (value & 1) as usize;
            return false;
        }
        let op_enable = self.op_enable.offset.into();
        if offset < op_enable {
            for group in &mut self.pair {
                group.write(self.writable, offset, value);
            }
            return false;
        }
        if self.enabled(self.producer) {
            return false;
        }
        self.pair[self.producer].write(self.writable, offset, value);
        offset == op_enable && self.enabled(self.producer)
    }

    /// The registers of the group that runs next, if software has enabled it.
    pub fn ready(&self) -> Option<&Registers> {
        self.enabled(self.consumer).then(|| &self.pair[self.consumer])
    }

    /// The registers of the group that runs next, enabled or not.
    pub fn next(&self) -> &Registers {
        &self.pair[self.consumer]
    }

    /// The number of the group that runs next.
    pub fn consumer(&self) -> usize {
        self.consumer
    }

    /// Sets the status register at `offset` of the group that runs.
    pub fn report(&mut self, offset: u16, value: u32) {
        self.pair[self.consumer].put(offset, value);
    }

    /// Ends the running group's operation: clears its enable bit and switches to the other group. Returns the number of
    /// the group that ended.
    pub fn finish(&mut self) -> usize {
        let ended = self.consumer;
        self.pair[ended].set(self.op_enable, 0);
        self.consumer = 1 - ended;
        ended
    }

    fn enabled(&self, group: usize) -> bool {
        self.pair[group].get(self.op_enable) & 1 != 0
    }

    fn status(&self, group: usize) -> GroupStatus {
        match (self.enabled(group), group == self.consumer) {
            (false, _) => GroupStatus::Idle,
            (true, true) => GroupStatus::Running,
            (true, false) => GroupStatus::Pending,
        }
    }
}
