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

use crate::cfgrom::WORDS;
use crate::registers::Registers;

/// `S_STATUS`, which is at the same offset in every block with groups.
const S_STATUS: Register = cdma::S_STATUS;
/// `S_POINTER`, which is at the same offset in every block with groups.
const S_POINTER: Register = cdma::S_POINTER;

/// For each word of each block the number of its register, or a larger number. The configuration ROM has the most words.
static NUMBERS: [[u8; WORDS]; Block::ALL.len()] = {
    let mut numbers = [[u8::MAX; WORDS]; Block::ALL.len()];
    let mut block = 0;
    while block < numbers.len() {
        let registers = Block::ALL[block].registers();
        let mut number = 0;
        while number < registers.len() {
            numbers[block][registers[number].register.offset as usize / 4] = number as u8;
            number += 1;
        }
        block += 1;
    }
    numbers
};

/// The description of the register at `offset` of `block`.
pub(crate) fn describe(block: Block, offset: u32) -> Option<&'static Described> {
    let number = *NUMBERS[block as usize].get(offset as usize / 4)?;
    block.registers().get(usize::from(number)).filter(|_| offset.is_multiple_of(4))
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
        Self { family, op_enable, producer: 0, consumer: 0, pair: [registers.clone(), registers] }
    }

    /// Returns the value that software reads at `offset` of the block, zero if there is no register.
    pub fn read(&self, offset: u32) -> u32 {
        let Some(&Described { register, .. }) = describe(self.pair[0].block(), offset) else { return 0 };
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
        let Some(&Described { register, .. }) = describe(self.pair[0].block(), offset) else { return false };
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

    #[test]
    fn every_register_is_found_at_its_offset() {
        for block in Block::ALL {
            for described in block.registers() {
                let found = describe(block, described.register.offset.into()).map(|found| found.name);
                assert_eq!(found, Some(described.name), "{}", block.name());
            }
            let found = |offset: u32| describe(block, offset).map(|described| u32::from(described.register.offset));
            let all = block.registers().iter().map(|described| u32::from(described.register.offset));
            assert!((0..0x1000).filter_map(found).eq(all), "{}", block.name());
            assert!(describe(block, 0xffc).is_none());
        }
    }
}
