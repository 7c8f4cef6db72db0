// SPDX-License-Identifier: MIT OR Apache-2.0

//! A block's register file: single (`S_`) registers, and two ping-pong groups of `D_` registers.
//!
//! Software writes the group that `S_POINTER.PRODUCER` selects. The hardware runs the group that `S_POINTER.CONSUMER`
//! selects, and then switches to the other group. While `D_OP_ENABLE` of a group is set, writes to the group are
//! ignored.
//!
//! Source: the hardware manual ("ping-pong register programming") and the hardware's register files.

use nvdla_uapi::reg::values::GroupStatus;
use nvdla_uapi::reg::{cdma, cdp, sdp, Block, Described, Family, FieldValue, Register};

use crate::registers::{Registers, WORDS};

/// `S_STATUS`, which is at the same offset in every block with groups.
const S_STATUS: Register = cdma::S_STATUS;
/// `S_POINTER`, which is at the same offset in every block with groups.
const S_POINTER: Register = cdma::S_POINTER;

/// The description of the register at `offset` of `block`.
pub(crate) fn describe(block: Block, offset: u32) -> Option<&'static Described> {
    let registers = block.registers();
    // In a block without gaps, the index of the word is the index of the register.
    registers.get(offset as usize / 4).filter(|described| u32::from(described.register.offset) == offset).or_else(
        || {
            let found = registers.binary_search_by_key(&offset, |described| described.register.offset.into()).ok()?;
            registers.get(found)
        },
    )
}

/// The value of the register after a write of `value` over `old`.
pub(crate) fn written(register: Register, family: Family, old: u32, value: u32) -> u32 {
    let mask = match family {
        Family::NvFull => register.writable_nv_full,
        Family::NvSmall => register.writable,
    };
    (old & !mask) | (value & mask)
}

/// The register file of a block with two groups.
#[derive(Clone, Debug)]
pub struct Groups {
    family: Family,
    /// `D_OP_ENABLE`. The registers before it are single registers.
    op_enable: Register,
    producer: usize,
    consumer: usize,
    /// The two groups. Both have copies of the single registers.
    pair: [Registers; 2],
    /// The descriptions of the registers, and for each word the number of its register, or a larger number.
    registers: &'static [Described],
    numbers: [u8; WORDS],
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
        let values = Registers::reset(block);
        let registers = block.registers();
        let mut numbers = [u8::MAX; WORDS];
        for (number, described) in (0..).zip(registers) {
            numbers[usize::from(described.register.offset / 4)] = number;
        }
        Self { family, op_enable, producer: 0, consumer: 0, pair: [values.clone(), values], registers, numbers }
    }

    /// The register at `offset` of the block.
    fn at(&self, offset: u32) -> Option<Register> {
        let number = *self.numbers.get(offset as usize / 4)?;
        let described = self.registers.get(usize::from(number)).filter(|_| offset.is_multiple_of(4))?;
        Some(described.register)
    }

    /// Returns the value that software reads at `offset` of the block, zero if there is no register.
    pub fn read(&self, offset: u32) -> u32 {
        let Some(register) = self.at(offset) else { return 0 };
        if register.offset == S_STATUS.offset {
            return self.status(0).to_bits() | self.status(1).to_bits() << 16;
        }
        if register.offset == S_POINTER.offset {
            return self.producer as u32 | (self.consumer as u32) << 16;
        }
        self.pair[self.producer].get(register)
    }

    /// Performs a write of software. Returns whether it enabled an operation.
    pub fn write(&mut self, offset: u32, value: u32) -> bool {
        let Some(register) = self.at(offset) else { return false };
        if register.offset == S_POINTER.offset {
            self.producer = (value & 1) as usize;
            return false;
        }
        if register.offset < self.op_enable.offset {
            for group in &mut self.pair {
                group.set(register, written(register, self.family, group.get(register), value));
            }
            return false;
        }
        if self.enabled(self.producer) {
            return false;
        }
        let group = &mut self.pair[self.producer];
        group.set(register, written(register, self.family, group.get(register), value));
        register.offset == self.op_enable.offset && self.enabled(self.producer)
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

    /// Sets a status register of the group that runs.
    pub fn report(&mut self, register: Register, value: u32) {
        self.pair[self.consumer].set(register, value);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::FIRST_GROUPED;

    #[test]
    fn every_register_is_found_at_its_offset() {
        for block in Block::ALL {
            for described in block.registers() {
                let found = describe(block, described.register.offset.into()).map(|found| found.name);
                assert_eq!(found, Some(described.name), "{}", block.name());
            }
            if block as usize >= FIRST_GROUPED {
                let groups = Groups::reset(block, Family::NvFull);
                let found = |offset: u32| groups.at(offset).map(|register| u32::from(register.offset));
                let all = block.registers().iter().map(|described| u32::from(described.register.offset));
                assert!((0..0x1000).filter_map(found).eq(all), "{}", block.name());
            }
            assert!(describe(block, 0xffc).is_none());
        }
    }
}
