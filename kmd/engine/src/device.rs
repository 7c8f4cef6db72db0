// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The state of the device's registers, as far as the engine has written or read them. Only values that change are
//! written.

use super::hardware::Hardware;
use super::image::{Program, RegisterImage, Transfers, TRANSFER_WORDS};
use super::schedule::{GroupIndices, GROUPS};
use super::slot::Table;
use crate::uapi::config::Config;
use crate::uapi::desc::{Lut, OpType, LUT_LINEAR_EXP_ENTRIES, LUT_LINEAR_ONLY_ENTRIES, PROCESSORS};
use crate::uapi::reg::values::{LutAccess, LutFunction, LutTable};
use crate::uapi::reg::{
    bdma, cacc, cdma, cdp, cdp_rdma, cmac_a, csc, glb, pdp, pdp_rdma, rbk, sdp, sdp_rdma, Block, Register, Word,
};

/// The first block that has register groups; all after it have them too.
const FIRST: usize = Block::Cdma as usize;
const BLOCKS: usize = Block::ALL.len() - FIRST;

/// Words of each block's registers, as far as operations program them.
const WORDS: [usize; BLOCKS] = [
    words(cdma::D_PERF_ENABLE),
    words(csc::D_PRA_CFG),
    words(cmac_a::D_MISC_CFG),
    words(cmac_a::D_MISC_CFG),
    words(cacc::D_CLIP_CFG),
    words(sdp_rdma::D_PERF_ENABLE),
    words(sdp::D_PERF_ENABLE),
    words(pdp_rdma::D_PERF_ENABLE),
    words(pdp::D_PERF_ENABLE),
    words(cdp_rdma::D_PERF_ENABLE),
    words(cdp::D_PERF_ENABLE),
    words(rbk::D_PERF_ENABLE),
];

const fn words(last: Register) -> usize {
    last.offset as usize / 4 + 1
}

/// Where each block's words begin.
const STARTS: [usize; BLOCKS + 1] = {
    let mut starts = [0; BLOCKS + 1];
    let mut block = 0;
    while block < BLOCKS {
        starts[block + 1] = starts[block] + WORDS[block];
        block += 1;
    }
    starts
};

const SHADOW: usize = STARTS[BLOCKS];

/// The blocks of each unit that have register groups, in the order in which they are enabled: those that take data
/// before those that give it.
const fn unit_blocks(unit: OpType, rdma: bool) -> &'static [Block] {
    match (unit, rdma) {
        (OpType::Bdma, _) => &[],
        (OpType::Conv, _) => &[Block::Cacc, Block::CmacA, Block::CmacB, Block::Csc, Block::Cdma],
        (OpType::Sdp, true) => &[Block::SdpRdma, Block::Sdp],
        (OpType::Sdp, false) => &[Block::Sdp],
        (OpType::Pdp, true) => &[Block::PdpRdma, Block::Pdp],
        (OpType::Pdp, false) => &[Block::Pdp],
        (OpType::Cdp, _) => &[Block::CdpRdma, Block::Cdp],
        (OpType::Rubik, _) => &[Block::Rbk],
    }
}

/// Whether a block's groups alternate with those of the unit's read DMA.
const fn is_rdma(block: Block) -> bool {
    matches!(block, Block::SdpRdma | Block::PdpRdma | Block::CdpRdma)
}

const fn op_enable(block: Block) -> Register {
    match block {
        Block::Cdma => cdma::D_OP_ENABLE,
        Block::Sdp => sdp::D_OP_ENABLE,
        Block::Cdp => cdp::D_OP_ENABLE,
        _ => csc::D_OP_ENABLE,
    }
}

// // `D_OP_ENABLE` has the same offset in these blocks; `S_POINTER` and `S_STATUS` have it in all blocks.
const _: () = {
    let offset = csc::D_OP_ENABLE.offset;
    assert!(offset == cmac_a::D_OP_ENABLE.offset && offset == cacc::D_OP_ENABLE.offset);
    assert!(offset == sdp_rdma::D_OP_ENABLE.offset && offset == pdp_rdma::D_OP_ENABLE.offset);
    assert!(offset == pdp::D_OP_ENABLE.offset && offset == cdp_rdma::D_OP_ENABLE.offset);
    assert!(offset == rbk::D_OP_ENABLE.offset);
    let pointer = cdma::S_POINTER.offset;
    assert!(pointer == csc::S_POINTER.offset && pointer == cmac_a::S_POINTER.offset);
    assert!(pointer == cacc::S_POINTER.offset && pointer == sdp_rdma::S_POINTER.offset);
    assert!(pointer == sdp::S_POINTER.offset && pointer == pdp_rdma::S_POINTER.offset);
    assert!(pointer == pdp::S_POINTER.offset && pointer == cdp_rdma::S_POINTER.offset);
    assert!(pointer == cdp::S_POINTER.offset && pointer == rbk::S_POINTER.offset);
    let status = cdma::S_STATUS.offset;
    assert!(status == csc::S_STATUS.offset && status == cmac_a::S_STATUS.offset);
    assert!(status == cacc::S_STATUS.offset && status == sdp_rdma::S_STATUS.offset);
    assert!(status == sdp::S_STATUS.offset && status == pdp_rdma::S_STATUS.offset);
    assert!(status == pdp::S_STATUS.offset && status == cdp_rdma::S_STATUS.offset);
    assert!(status == cdp::S_STATUS.offset && status == rbk::S_STATUS.offset);
};

/// The interrupt bits of CDMA: weights and data are in the convolution buffer.
pub(crate) const CDMA_DONE: u32 = {
    use glb::S_INTR_MASK as mask;
    mask::CDMA_DAT_DONE_MASK0.mask()
        | mask::CDMA_DAT_DONE_MASK1.mask()
        | mask::CDMA_WT_DONE_MASK0.mask()
        | mask::CDMA_WT_DONE_MASK1.mask()
};

/// Every interrupt bit.
const ALL_DONE: u32 = glb::S_INTR_MASK.writable;

/// What the registers hold.
#[derive(Debug)]
pub(crate) struct Device {
    config: &'static Config,
    bases: [u32; BLOCKS],
    glb: u32,
    bdma: u32,
    /// Values of the registers of both groups, block by block, of those that are `known`.
    shadow: [[u32; SHADOW]; GROUPS],
    /// Registers that were written since reset. What the others hold is not relied on: releases of the hardware differ in
    /// it. On nv_full's, SDP's sub-units and the DMAs of their operands are on (`NV_NVDLA_SDP_REG_dual.v`,
    /// `NV_NVDLA_SDP_RDMA_REG_dual.v` of the branch nvdlav1), on the later ones off. They are stored apart from the values,
    /// because an array of both would be twice as large, and an engine is on the kernel's stack for a moment.
    known: [[bool; SHADOW]; GROUPS],
    /// For each block, the group that software accesses (the producer pointer).
    producer: [u8; BLOCKS],
    transfer: [Option<u32>; TRANSFER_WORDS],
    mask: u32,
    /// CDMA has cleared the convolution buffer since reset.
    flushed: bool,
    /// SDP's and CDP's lookup tables.
    tables: [Option<Table>; 2],
}

impl Device {
    /// The device after reset.
    pub(crate) fn new(config: &'static Config) -> Self {
        let base = |block: Block| block.base(config.family).unwrap_or(0);
        Self {
            config,
            bases: core::array::from_fn(|index| base(Block::ALL[FIRST + index])),
            glb: base(Block::Glb),
            bdma: base(Block::Bdma),
            shadow: [[0; SHADOW]; GROUPS],
            known: [[false; SHADOW]; GROUPS],
            producer: [0; BLOCKS],
            transfer: [None; TRANSFER_WORDS],
            mask: glb::S_INTR_MASK.reset,
            flushed: false,
            tables: [None, None],
        }
    }

    pub(crate) fn config(&self) -> &'static Config {
        self.config
    }

    /// The device has been reset.
    pub(crate) fn reset(&mut self) {
        self.known = [[false; SHADOW]; GROUPS];
        self.producer = [0; BLOCKS];
        self.transfer = [None; TRANSFER_WORDS];
        self.mask = glb::S_INTR_MASK.reset;
        self.flushed = false;
        self.tables = [None, None];
    }

    /// Brings a device that others used, and that is idle, to the values after reset, and reads where its groups are:
    /// for each unit its own and its read DMA's.
    pub(crate) fn adopt(&mut self, hw: &mut impl Hardware) -> [(u8, u8); PROCESSORS] {
        self.reset();
        hw.write(self.glb + u32::from(glb::S_INTR_MASK.offset), self.mask);
        hw.write(self.glb + u32::from(glb::S_INTR_STATUS.offset), ALL_DONE);
        let mut consumers = [0; BLOCKS];
        for (index, block) in Block::ALL[FIRST..].iter().enumerate().filter(|(_, block)| self.exists(**block)) {
            let pointer = self.bases[index] + u32::from(cdma::S_POINTER.offset);
            consumers[index] = Word::new(hw.read(pointer)).value(cdma::S_POINTER::CONSUMER) as u8;
            for group in [1, 0] {
                hw.write(pointer, group);
                for register in block.plain_registers() {
                    let is_group = register.offset > op_enable(*block).offset;
                    if is_group && register.writable != 0 && usize::from(register.offset / 4) < WORDS[index] {
                        hw.write(self.bases[index] + u32::from(register.offset), register.reset);
                    }
                }
            }
        }
        if self.config.bdma {
            for word in 0..TRANSFER_WORDS as u32 {
                hw.write(self.bdma + word * 4, 0);
            }
        }
        let of = |block: Block| consumers[block as usize - FIRST];
        [
            (0, 0),
            (of(Block::Cacc), 0),
            (of(Block::Sdp), of(Block::SdpRdma)),
            (of(Block::Pdp), of(Block::PdpRdma)),
            (of(Block::Cdp), of(Block::CdpRdma)),
            (of(Block::Rbk), 0),
        ]
    }

    fn exists(&self, block: Block) -> bool {
        match block {
            Block::PdpRdma | Block::Pdp => self.config.pdp,
            Block::CdpRdma | Block::Cdp => self.config.cdp,
            Block::Rbk => self.config.rubik,
            _ => true,
        }
    }

    /// Sets the interrupt mask. CDMA's interrupts are enabled only when a task waits for them, because every convolution
    /// raises two.
    pub(crate) fn set_mask(&mut self, hw: &mut impl Hardware, cdma_events: bool) {
        let mask = if cdma_events { 0 } else { CDMA_DONE };
        if mask != self.mask {
            hw.write(self.glb + u32::from(glb::S_INTR_MASK.offset), mask);
            self.mask = mask;
        }
    }

    /// Masks all interrupts.
    pub(crate) fn mask_interrupts(&mut self, hw: &mut impl Hardware) {
        hw.write(self.glb + u32::from(glb::S_INTR_MASK.offset), ALL_DONE);
        self.mask = ALL_DONE;
    }

    /// The interrupt status. `None` when all bits are set, including those that no device has: a bus answers so when
    /// the device is gone.
    pub(crate) fn status(&self, hw: &mut impl Hardware) -> Option<u32> {
        let status = hw.read(self.glb + u32::from(glb::S_INTR_STATUS.offset));
        (status != u32::MAX).then_some(status & ALL_DONE)
    }

    /// Whether no unit runs an operation. A device that does not answer is not idle: it may still run behind a link
    /// that is down.
    pub(crate) fn is_idle(&self, hw: &mut impl Hardware) -> bool {
        let blocks = Block::ALL[FIRST..].iter().zip(self.bases);
        // Every block with groups has its status at the same offset.
        let status = u32::from(cdma::S_STATUS.offset);
        let groups = blocks.filter(|(block, _)| self.exists(**block)).all(|(_, base)| hw.read(base + status) == 0);
        groups && (!self.config.bdma || Word::new(self.read_bdma(hw, bdma::STATUS)).is_set(bdma::STATUS::IDLE))
    }

    /// Clears bits of the interrupt status.
    pub(crate) fn clear(&self, hw: &mut impl Hardware, status: u32) {
        hw.write(self.glb + u32::from(glb::S_INTR_STATUS.offset), status);
    }

    /// Whether the convolution buffer is clear, which it is shortly after reset and then stays.
    pub(crate) fn is_flushed(&mut self, hw: &mut impl Hardware) -> bool {
        if !self.flushed {
            let status = hw.read(self.block(Block::Cdma) + u32::from(cdma::S_CBUF_FLUSH_STATUS.offset));
            self.flushed = Word::new(status).value(cdma::S_CBUF_FLUSH_STATUS::FLUSH_DONE) != 0;
        }
        self.flushed
    }

    fn block(&self, block: Block) -> u32 {
        self.bases[block as usize - FIRST]
    }

    /// Selects the register group of a block for reads and writes.
    fn select(&mut self, hw: &mut impl Hardware, block: Block, group: u8) {
        let index = block as usize - FIRST;
        if self.producer[index] != group {
            self.producer[index] = group;
            hw.write(self.bases[index] + u32::from(cdma::S_POINTER.offset), u32::from(group));
        }
    }

    /// Writes the registers of an operation that do not hold its values yet.
    pub(crate) fn program(&mut self, hw: &mut impl Hardware, program: &Program, groups: GroupIndices) {
        match program {
            Program::Blocks(image) => self.program_blocks(hw, image, groups),
            Program::Bdma(transfers) => self.program_transfers(hw, transfers),
        }
    }

    fn program_blocks(&mut self, hw: &mut impl Hardware, image: &RegisterImage, groups: GroupIndices) {
        for (block, registers) in image.blocks() {
            let group = if is_rdma(block) { groups.rdma } else { groups.group };
            self.select(hw, block, group);
            let index = block as usize - FIRST;
            let base = self.bases[index];
            let (group, words) = (usize::from(group & 1), STARTS[index]..STARTS[index + 1]);
            let (shadow, known) = (&mut self.shadow[group][words.clone()], &mut self.known[group][words]);
            for (word, value) in registers {
                match (shadow.get_mut(word), known.get_mut(word)) {
                    (Some(held), Some(known)) if !*known || *held != value => {
                        (*held, *known) = (value, true);
                        hw.write(base + word as u32 * 4, value);
                    }
                    _ => {}
                }
            }
        }
    }

    fn program_transfers(&mut self, hw: &mut impl Hardware, transfers: &Transfers) {
        for words in transfers.used() {
            for (word, (&value, known)) in words.iter().zip(&mut self.transfer).enumerate() {
                if *known != Some(value) {
                    *known = Some(value);
                    hw.write(self.bdma + word as u32 * 4, value);
                }
            }
            hw.write(self.bdma + u32::from(bdma::CFG_OP.offset), bdma::CFG_OP::EN.put(true));
        }
    }

    /// Starts an operation that is programmed.
    pub(crate) fn enable(
        &mut self,
        hw: &mut impl Hardware,
        unit: OpType,
        rdma: bool,
        groups: GroupIndices,
        counted: bool,
    ) {
        if unit == OpType::Bdma {
            if counted {
                hw.write(self.bdma + u32::from(bdma::CFG_STATUS.offset), bdma::CFG_STATUS::STALL_COUNT_EN.put(true));
            }
            let launch = if groups.group == 0 { bdma::CFG_LAUNCH0 } else { bdma::CFG_LAUNCH1 };
            hw.write(self.bdma + u32::from(launch.offset), 1);
            return;
        }
        for &block in unit_blocks(unit, rdma) {
            let group = if is_rdma(block) { groups.rdma } else { groups.group };
            self.select(hw, block, group);
            hw.write(self.block(block) + u32::from(op_enable(block).offset), 1);
        }
    }

    /// Loads a lookup table into SDP or CDP, unless it is there already. The unit must be idle.
    pub(crate) fn load_table(&mut self, hw: &mut impl Hardware, unit: OpType, table: &Table) {
        let (index, block) = if unit == OpType::Cdp { (1, Block::Cdp) } else { (0, Block::Sdp) };
        if self.tables[index].as_ref() == Some(table) {
            return;
        }
        let mut writer = TableWriter { hw, base: self.block(block), wide: index == 1 };
        writer.load(&table.lut, table.half);
        self.tables[index] = Some(table.clone());
    }

    /// Reads a register of a block's group.
    pub(crate) fn read(
        &mut self,
        hw: &mut impl Hardware,
        block: Block,
        register: Register,
        groups: GroupIndices,
    ) -> u32 {
        self.select(hw, block, if is_rdma(block) { groups.rdma } else { groups.group });
        hw.read(self.block(block) + u32::from(register.offset))
    }

    /// Reads a register of BDMA.
    pub(crate) fn read_bdma(&self, hw: &mut impl Hardware, register: Register) -> u32 {
        hw.read(self.bdma + u32::from(register.offset))
    }
}

/// Writes a pair of lookup tables. SDP and CDP have the same registers, but CDP's starts and ends have 38 bits in two
/// registers each.
struct TableWriter<'a, H> {
    hw: &'a mut H,
    base: u32,
    wide: bool,
}

impl<H: Hardware> TableWriter<'_, H> {
    fn put(&mut self, sdp: Register, cdp: Register, value: u32) {
        let register = if self.wide { cdp } else { sdp };
        self.hw.write(self.base + u32::from(register.offset), value);
    }

    fn load(&mut self, lut: &Lut, half: bool) {
        self.entries(LutTable::Le, &lut.linear_exp_table);
        self.entries(LutTable::Lo, &lut.linear_only_table);

        use sdp::S_LUT_CFG as cfg;
        let value = Word::new(0)
            .with(cfg::LUT_LE_FUNCTION, lut.method)
            .with(cfg::LUT_UFLOW_PRIORITY, lut.underflow_priority)
            .with(cfg::LUT_OFLOW_PRIORITY, lut.overflow_priority)
            .with(cfg::LUT_HYBRID_PRIORITY, lut.hybrid_priority);
        self.put(sdp::S_LUT_CFG, cdp::S_LUT_CFG, value.bits());

        use sdp::S_LUT_INFO as info;
        let first = lut.linear_exp_offset as u8;
        let field = match lut.method {
            LutFunction::Exponent => info::LUT_LE_INDEX_OFFSET,
            LutFunction::Linear => info::LUT_LE_INDEX_SELECT,
        };
        let second = u32::from(lut.linear_only_offset as u8);
        let value = Word::new(0).with(field, u32::from(first)).with(info::LUT_LO_INDEX_SELECT, second);
        self.put(sdp::S_LUT_INFO, cdp::S_LUT_INFO, value.bits());

        self.bound(sdp::S_LUT_LE_START, cdp::S_LUT_LE_START_LOW, cdp::S_LUT_LE_START_HIGH, lut.linear_exp_start);
        self.bound(sdp::S_LUT_LE_END, cdp::S_LUT_LE_END_LOW, cdp::S_LUT_LE_END_HIGH, lut.linear_exp_end);
        self.bound(sdp::S_LUT_LO_START, cdp::S_LUT_LO_START_LOW, cdp::S_LUT_LO_START_HIGH, lut.linear_only_start);
        self.bound(sdp::S_LUT_LO_END, cdp::S_LUT_LO_END_LOW, cdp::S_LUT_LO_END_HIGH, lut.linear_only_end);

        // One layout of fields serves all four slope registers.
        use sdp::{S_LUT_LE_SLOPE_SCALE as scale, S_LUT_LE_SLOPE_SHIFT as shift};
        let slopes = [
            (lut.linear_exp_underflow_slope, lut.linear_exp_overflow_slope),
            (lut.linear_only_underflow_slope, lut.linear_only_overflow_slope),
        ];
        let registers = [
            (
                (sdp::S_LUT_LE_SLOPE_SCALE, cdp::S_LUT_LE_SLOPE_SCALE),
                (sdp::S_LUT_LE_SLOPE_SHIFT, cdp::S_LUT_LE_SLOPE_SHIFT),
            ),
            (
                (sdp::S_LUT_LO_SLOPE_SCALE, cdp::S_LUT_LO_SLOPE_SCALE),
                (sdp::S_LUT_LO_SLOPE_SHIFT, cdp::S_LUT_LO_SLOPE_SHIFT),
            ),
        ];
        for ((under, over), (scales, shifts)) in slopes.into_iter().zip(registers) {
            let value = Word::new(0)
                .with(scale::LUT_LE_SLOPE_UFLOW_SCALE, u32::from(under.scale as u16))
                .with(scale::LUT_LE_SLOPE_OFLOW_SCALE, u32::from(over.scale as u16));
            self.put(scales.0, scales.1, value.bits());
            // Half precision has no shift; the registers keep what they hold.
            if !half {
                let value = Word::new(0)
                    .with(shift::LUT_LE_SLOPE_UFLOW_SHIFT, u32::from(under.shifter as u8))
                    .with(shift::LUT_LE_SLOPE_OFLOW_SHIFT, u32::from(over.shifter as u8));
                self.put(shifts.0, shifts.1, value.bits());
            }
        }
    }

    /// The entries of a table; the address counts up by itself.
    fn entries(&mut self, table: LutTable, entries: &[i16]) {
        use sdp::S_LUT_ACCESS_CFG as access;
        let value = Word::new(0).with(access::LUT_TABLE_ID, table).with(access::LUT_ACCESS_TYPE, LutAccess::Write);
        self.put(sdp::S_LUT_ACCESS_CFG, cdp::S_LUT_ACCESS_CFG, value.bits());
        for &entry in entries {
            self.put(sdp::S_LUT_ACCESS_DATA, cdp::S_LUT_ACCESS_DATA, u32::from(entry as u16));
        }
    }

    fn bound(&mut self, sdp: Register, low: Register, high: Register, value: u64) {
        self.put(sdp, low, value as u32);
        if self.wide {
            self.put(high, high, (value >> 32) as u32 & high.writable);
        }
    }
}

const _: () = assert!(LUT_LINEAR_EXP_ENTRIES == 65 && LUT_LINEAR_ONLY_ENTRIES == 257);
