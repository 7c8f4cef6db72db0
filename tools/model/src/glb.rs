// SPDX-License-Identifier: MIT OR Apache-2.0

//! GLB: the version register and the interrupts.
//!
//! When a unit ends, it sets its group's bit in `S_INTR_STATUS`. Writing 1 to a bit clears it in `S_INTR_STATUS`;
//! writing 1 to `S_INTR_SET` sets it. The line is asserted while `S_INTR_STATUS` has a bit that is clear in
//! `S_INTR_MASK`.

use nvdla_uapi::reg::glb::{S_INTR_MASK, S_INTR_SET, S_INTR_STATUS, S_NVDLA_HW_VERSION};

/// An interrupt source. It has one status bit per register group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// SDP ended.
    Sdp,
    /// CDP ended.
    Cdp,
    /// PDP ended.
    Pdp,
    /// A launched group of copies ended.
    Bdma,
    /// Rubik ended.
    Rubik,
    /// CDMA has fetched its data.
    CdmaData,
    /// CDMA has fetched its weights.
    CdmaWeight,
    /// CACC has passed all its sums to SDP.
    Cacc,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 8] =
        [Self::Sdp, Self::Cdp, Self::Pdp, Self::Bdma, Self::Rubik, Self::CdmaData, Self::CdmaWeight, Self::Cacc];

    /// The source's bit in `S_INTR_STATUS`, `S_INTR_SET` and `S_INTR_MASK` for register group 0 or 1.
    pub const fn bit(self, group: usize) -> u32 {
        let first = match self {
            Self::Sdp => S_INTR_STATUS::SDP_DONE_STATUS0,
            Self::Cdp => S_INTR_STATUS::CDP_DONE_STATUS0,
            Self::Pdp => S_INTR_STATUS::PDP_DONE_STATUS0,
            Self::Bdma => S_INTR_STATUS::BDMA_DONE_STATUS0,
            Self::Rubik => S_INTR_STATUS::RUBIK_DONE_STATUS0,
            Self::CdmaData => S_INTR_STATUS::CDMA_DAT_DONE_STATUS0,
            Self::CdmaWeight => S_INTR_STATUS::CDMA_WT_DONE_STATUS0,
            Self::Cacc => S_INTR_STATUS::CACC_DONE_STATUS0,
        };
        first.mask() << group
    }
}

/// GLB's registers.
#[derive(Clone, Debug, Default)]
pub struct Glb {
    status: u32,
    mask: u32,
}

impl Glb {
    /// Returns the value that software reads at `offset` of the block.
    pub fn read(&self, offset: u32) -> u32 {
        match u16::try_from(offset) {
            Ok(offset) if offset == S_NVDLA_HW_VERSION.offset => S_NVDLA_HW_VERSION.reset,
            Ok(offset) if offset == S_INTR_MASK.offset => self.mask,
            Ok(offset) if offset == S_INTR_STATUS.offset => self.status,
            _ => 0,
        }
    }

    /// Performs a write of software at `offset` of the block.
    pub fn write(&mut self, offset: u32, value: u32) {
        match u16::try_from(offset) {
            Ok(offset) if offset == S_INTR_MASK.offset => self.mask = value & S_INTR_MASK.writable,
            Ok(offset) if offset == S_INTR_SET.offset => self.status |= value & S_INTR_SET.writable,
            Ok(offset) if offset == S_INTR_STATUS.offset => self.status &= !value,
            _ => {}
        }
    }

    /// Sets the status bit of a source, because an operation of that group has ended.
    pub fn raise(&mut self, source: Source, group: usize) {
        self.status |= source.bit(group);
    }

    /// Whether the interrupt line is asserted.
    pub fn line(&self) -> bool {
        self.status & !self.mask != 0
    }
}
