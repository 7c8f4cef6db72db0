// SPDX-License-Identifier: MIT OR Apache-2.0

//! The device: a register window, an interrupt line, and what happens when software enables operations.
//!
//! Software writes registers and then calls [`Model::run`], which performs every operation that is enabled and whose
//! inputs are ready, one after another, and raises their interrupts. Nothing happens between: the model is the
//! hardware with all its delays at zero.
//!
//! An operation uses several blocks, each with its own two register groups: a convolution needs CDMA, CSC, both CMACs
//! and CACC, and gives its sums to SDP, which must be enabled "on flying"; SDP needs its read DMA where it reads
//! memory through it; PDP needs its own or SDP's output; CDP always needs its own.

use std::collections::VecDeque;

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::{OperandSource, OutputDestination, PdpFlyingMode};
use nvdla_uapi::reg::{
    cdma, cdp as reg_cdp, pdp as reg_pdp, pdp_rdma, sdp as reg_sdp, sdp_rdma, Block, Family, Register,
};

use crate::bdma::Bdma;
use crate::cfgrom;
use crate::glb::{Glb, Source};
use crate::groups::{describe, written, Groups};
use crate::memory::{Memory, Stop};
use crate::registers::Registers;
use crate::{cdp, conv, pdp, rubik, sdp};

/// Blocks with two register groups: all from CDMA on.
const FIRST_GROUPED: usize = Block::Cdma as usize;
const GROUPED: usize = Block::ALL.len() - FIRST_GROUPED;
/// Pages of the register window.
const PAGES: usize = 0x12;
/// The blocks of a convolution, besides SDP, and the interrupts that they raise.
const CONVOLUTION: [(Block, &[Source]); 5] = [
    (Block::Cdma, &[Source::CdmaData, Source::CdmaWeight]),
    (Block::Csc, &[]),
    (Block::CmacA, &[]),
    (Block::CmacB, &[]),
    (Block::Cacc, &[Source::Cacc]),
];

/// Status registers with their values.
type Status = Vec<(Block, Register, u32)>;

/// An NVDLA.
#[derive(Debug)]
pub struct Model {
    config: &'static Config,
    /// The block of each page of the register window.
    pages: [Option<Block>; PAGES],
    rom: [u32; cfgrom::WORDS],
    glb: Glb,
    mcif: Registers,
    cvif: Registers,
    bdma: Bdma,
    groups: [Groups; GROUPED],
    conv: conv::State,
    sdp: sdp::State,
    cdp: cdp::State,
    /// Blocks (by number) whose operation has stopped and will never end.
    halted: u32,
    stops: VecDeque<Stop>,
    /// Software has enabled something since the last run.
    enabled: bool,
}

impl Model {
    /// The device after reset.
    pub fn new(config: &'static Config) -> Self {
        let mut pages = [None; PAGES];
        for block in Block::ALL.into_iter().filter(|&block| exists(config, block)) {
            if let Some(base) = block.base(config.family) {
                pages[(base / Block::SIZE) as usize] = Some(block);
            }
        }
        Self {
            config,
            pages,
            rom: cfgrom::words(config),
            glb: Glb::default(),
            mcif: Registers::reset(Block::Mcif),
            cvif: Registers::reset(Block::Cvif),
            bdma: Bdma::reset(),
            groups: std::array::from_fn(|index| Groups::reset(Block::ALL[FIRST_GROUPED + index], config.family)),
            conv: conv::State::default(),
            sdp: sdp::State::default(),
            cdp: cdp::State::default(),
            halted: 0,
            stops: VecDeque::new(),
            enabled: false,
        }
    }

    /// The device's configuration.
    pub fn config(&self) -> &'static Config {
        self.config
    }

    /// Brings the device back to its state after reset.
    pub fn reset(&mut self) {
        *self = Self::new(self.config);
    }

    /// Reads the register at byte `offset` of the window; zero where there is none.
    pub fn read(&mut self, offset: u32) -> u32 {
        let Some((block, offset)) = self.at(offset) else { return 0 };
        match block {
            Block::Cfgrom => self.rom.get(offset as usize / 4).copied().unwrap_or(0),
            Block::Glb => self.glb.read(offset),
            Block::Mcif => plain(&self.mcif, offset),
            Block::Cvif => plain(&self.cvif, offset),
            Block::Bdma => self.bdma.read(offset),
            Block::Cdma if offset == u32::from(cdma::S_CBUF_FLUSH_STATUS.offset) => 1,
            Block::Sdp if offset == u32::from(reg_sdp::S_LUT_ACCESS_CFG.offset) => self.sdp.tables.read_access(),
            Block::Cdp if offset == u32::from(reg_cdp::S_LUT_ACCESS_CFG.offset) => self.cdp.tables.read_access(),
            Block::Sdp if offset == u32::from(reg_sdp::S_LUT_ACCESS_DATA.offset) => self.sdp.tables.read_data(),
            Block::Cdp if offset == u32::from(reg_cdp::S_LUT_ACCESS_DATA.offset) => self.cdp.tables.read_data(),
            _ => self.groups[index(block)].read(offset),
        }
    }

    /// Writes the register at byte `offset` of the window. Operations start in [`Model::run`].
    pub fn write(&mut self, offset: u32, value: u32) {
        let Some((block, offset)) = self.at(offset) else { return };
        let family = self.config.family;
        match block {
            Block::Cfgrom => {}
            Block::Glb => self.glb.write(offset, value),
            Block::Mcif => write_plain(&mut self.mcif, family, offset, value),
            Block::Cvif => write_plain(&mut self.cvif, family, offset, value),
            Block::Bdma => self.enabled |= self.bdma.write(offset, value),
            Block::Sdp if offset == u32::from(reg_sdp::S_LUT_ACCESS_CFG.offset) => self.sdp.tables.write_access(value),
            Block::Cdp if offset == u32::from(reg_cdp::S_LUT_ACCESS_CFG.offset) => self.cdp.tables.write_access(value),
            Block::Sdp if offset == u32::from(reg_sdp::S_LUT_ACCESS_DATA.offset) => self.sdp.tables.write_data(value),
            Block::Cdp if offset == u32::from(reg_cdp::S_LUT_ACCESS_DATA.offset) => self.cdp.tables.write_data(value),
            _ => self.enabled |= self.groups[index(block)].write(offset, value),
        }
    }

    /// Whether the interrupt line is up.
    pub fn interrupt(&self) -> bool {
        self.glb.line()
    }

    /// Performs every operation that is enabled and ready. True if any ran.
    ///
    /// An operation that cannot end ([`Model::take_stop`] says why) keeps its blocks busy until [`Model::reset`].
    pub fn run(&mut self, memory: &mut dyn Memory) -> bool {
        let mut ran = false;
        while std::mem::take(&mut self.enabled) {
            self.enabled = self.pass(memory);
            ran |= self.enabled;
        }
        ran
    }

    /// The oldest reason, not yet taken, for which an operation stopped.
    pub fn take_stop(&mut self) -> Option<Stop> {
        self.stops.pop_front()
    }

    /// Tries each unit once; true if any ran.
    fn pass(&mut self, memory: &mut dyn Memory) -> bool {
        let mut ran = self.run_bdma(memory);
        ran |= self.skip_idle_readers();
        ran |= self.run_sdp(memory);
        ran |= self.run_pdp(memory);
        ran |= self.run_cdp(memory);
        ran |= self.run_rubik(memory);
        ran
    }

    fn run_bdma(&mut self, memory: &mut dyn Memory) -> bool {
        if self.is_halted(Block::Bdma) {
            return false;
        }
        match self.bdma.run(memory) {
            Ok(Some(group)) => {
                self.glb.raise(Source::Bdma, group);
                true
            }
            Ok(None) => false,
            Err(stop) => self.halt(&[(Block::Bdma, &[])], stop),
        }
    }

    /// A read DMA that was enabled with nothing to read ends at once.
    fn skip_idle_readers(&mut self) -> bool {
        let mut ran = false;
        if self.ready(Block::SdpRdma).is_some_and(|rdma| {
            sdp_rdma::d_feature_mode_cfg::FLYING_MODE.is_set(rdma.get(sdp_rdma::D_FEATURE_MODE_CFG))
                && sdp_rdma::d_brdma_cfg::BRDMA_DISABLE.is_set(rdma.get(sdp_rdma::D_BRDMA_CFG))
                && sdp_rdma::d_nrdma_cfg::NRDMA_DISABLE.is_set(rdma.get(sdp_rdma::D_NRDMA_CFG))
                && sdp_rdma::d_erdma_cfg::ERDMA_DISABLE.is_set(rdma.get(sdp_rdma::D_ERDMA_CFG))
        }) {
            self.finish(Block::SdpRdma);
            ran = true;
        }
        if self.ready(Block::PdpRdma).is_some_and(|rdma| {
            pdp_rdma::d_flying_mode::FLYING_MODE.get(rdma.get(pdp_rdma::D_FLYING_MODE)) == Some(PdpFlyingMode::OnFlying)
        }) {
            self.finish(Block::PdpRdma);
            ran = true;
        }
        ran
    }

    /// SDP, with the convolution before it and the pooling after it where it is set so.
    fn run_sdp(&mut self, memory: &mut dyn Memory) -> bool {
        let Some(sdp) = self.ready(Block::Sdp) else { return false };
        let mode = sdp.get(reg_sdp::D_FEATURE_MODE_CFG);
        let on_flying = reg_sdp::d_feature_mode_cfg::FLYING_MODE.is_set(mode);
        let to_pdp = reg_sdp::d_feature_mode_cfg::OUTPUT_DST.get(mode) == Some(OutputDestination::Pdp);
        let reads = sdp_reads_memory(sdp);

        // Each block with the interrupts that its end raises.
        let mut blocks: Vec<(Block, &[Source])> = Vec::with_capacity(8);
        if on_flying {
            blocks.extend(CONVOLUTION);
        }
        blocks.push((Block::Sdp, &[Source::Sdp]));
        if reads {
            blocks.push((Block::SdpRdma, &[]));
        }
        if to_pdp {
            blocks.push((Block::Pdp, &[Source::Pdp]));
        }
        let pdp_waits = to_pdp && !self.ready(Block::Pdp).is_some_and(pdp_on_flying);
        if pdp_waits || blocks.iter().any(|&(block, _)| self.ready(block).is_none()) {
            return false;
        }
        match self.flow(on_flying, to_pdp, memory) {
            Ok(status) => self.end(&blocks, &status),
            Err(stop) => self.halt(&blocks, stop),
        }
    }

    /// From the convolution or memory through SDP to memory or PDP; the answer is the status that stays behind.
    fn flow(&mut self, on_flying: bool, to_pdp: bool, memory: &mut dyn Memory) -> Result<Status, Stop> {
        let next = |block: Block| self.groups[index(block)].next();
        let mut status = Status::new();
        let mut sums = None;
        if on_flying {
            let blocks = conv::Blocks {
                cdma: next(Block::Cdma),
                csc: next(Block::Csc),
                cmac_a: next(Block::CmacA),
                cmac_b: next(Block::CmacB),
                cacc: next(Block::Cacc),
            };
            let done = conv::run(&mut self.conv, self.config, &blocks, memory)?;
            status.extend(done.status);
            sums = Some(done.output);
        }
        let (rdma, registers) = (next(Block::SdpRdma), next(Block::Sdp));
        let done = sdp::run(&mut self.sdp, self.config, rdma, registers, sums.as_ref(), memory)?;
        status.extend(done.status);
        if to_pdp {
            let output = done.output.ok_or_else(|| Stop::unsupported("PDP", "SDP has no output for it"))?;
            let (rdma, registers) = (next(Block::PdpRdma), next(Block::Pdp));
            let done = pdp::run(self.config, rdma, registers, Some(&output), memory)?;
            status.extend(done.status);
        }
        Ok(status)
    }

    /// PDP from memory.
    fn run_pdp(&mut self, memory: &mut dyn Memory) -> bool {
        let Some(registers) = self.ready(Block::Pdp).filter(|pdp| !pdp_on_flying(pdp)) else { return false };
        let Some(rdma) = self.ready(Block::PdpRdma) else { return false };
        let blocks: [(Block, &[Source]); 2] = [(Block::Pdp, &[Source::Pdp]), (Block::PdpRdma, &[])];
        match pdp::run(self.config, rdma, registers, None, memory) {
            Ok(done) => self.end(&blocks, &done.status),
            Err(stop) => self.halt(&blocks, stop),
        }
    }

    fn run_cdp(&mut self, memory: &mut dyn Memory) -> bool {
        let (Some(_), Some(_)) = (self.ready(Block::Cdp), self.ready(Block::CdpRdma)) else { return false };
        let next = |block: Block| self.groups[index(block)].next();
        let blocks: [(Block, &[Source]); 2] = [(Block::Cdp, &[Source::Cdp]), (Block::CdpRdma, &[])];
        match cdp::run(&mut self.cdp, self.config, next(Block::CdpRdma), next(Block::Cdp), memory) {
            Ok(done) => self.end(&blocks, &done.status),
            Err(stop) => self.halt(&blocks, stop),
        }
    }

    fn run_rubik(&mut self, memory: &mut dyn Memory) -> bool {
        let Some(registers) = self.ready(Block::Rbk) else { return false };
        let blocks: [(Block, &[Source]); 1] = [(Block::Rbk, &[Source::Rubik])];
        match rubik::run(self.config, registers, memory) {
            Ok(done) => self.end(&blocks, &done.status),
            Err(stop) => self.halt(&blocks, stop),
        }
    }

    /// The block at `offset` of the window and the offset in it.
    fn at(&self, offset: u32) -> Option<(Block, u32)> {
        let block = (*self.pages.get((offset / Block::SIZE) as usize)?)?;
        Some((block, offset % Block::SIZE))
    }

    /// The block's registers for its next operation, if software has enabled it and no earlier one stopped.
    fn ready(&self, block: Block) -> Option<&Registers> {
        self.groups[index(block)].ready().filter(|_| !self.is_halted(block))
    }

    fn is_halted(&self, block: Block) -> bool {
        self.halted & (1 << block as u32) != 0
    }

    /// Keeps the blocks of a stopped operation busy. Answers false: nothing ran.
    fn halt(&mut self, blocks: &[(Block, &[Source])], stop: Stop) -> bool {
        for &(block, _) in blocks {
            self.halted |= 1 << block as u32;
        }
        self.stops.push_back(stop);
        false
    }

    /// An operation has ended: its status registers take their values, its blocks turn to their other groups, and
    /// their interrupts are raised. Answers true: something ran.
    fn end(&mut self, blocks: &[(Block, &[Source])], status: &[(Block, Register, u32)]) -> bool {
        for &(block, register, value) in status {
            self.groups[index(block)].report(register, value);
        }
        for &(block, sources) in blocks {
            let group = self.finish(block);
            for &source in sources {
                self.glb.raise(source, group);
            }
        }
        true
    }

    /// The block's operation has ended; the answer is its group.
    fn finish(&mut self, block: Block) -> usize {
        self.groups[index(block)].finish()
    }
}

/// Where the block lies among those with groups.
fn index(block: Block) -> usize {
    block as usize - FIRST_GROUPED
}

/// Whether the configuration has the block.
fn exists(config: &Config, block: Block) -> bool {
    match block {
        Block::Bdma => config.bdma,
        Block::Rbk => config.rubik,
        Block::Cvif => config.secondary_memif,
        Block::Pdp | Block::PdpRdma => config.pdp,
        Block::Cdp | Block::CdpRdma => config.cdp,
        _ => true,
    }
}

fn plain(registers: &Registers, offset: u32) -> u32 {
    describe(registers.block(), offset).map_or(0, |described| registers.get(described.register))
}

fn write_plain(registers: &mut Registers, family: Family, offset: u32, value: u32) {
    if let Some(described) = describe(registers.block(), offset) {
        let old = registers.get(described.register);
        registers.set(described.register, written(described.register, family, old, value));
    }
}

fn pdp_on_flying(pdp: &Registers) -> bool {
    let mode = pdp.get(reg_pdp::D_OPERATION_MODE_CFG);
    reg_pdp::d_operation_mode_cfg::FLYING_MODE.get(mode) == Some(PdpFlyingMode::OnFlying)
}

/// Whether SDP takes its data or any operand from its read DMA.
fn sdp_reads_memory(registers: &Registers) -> bool {
    use reg_sdp::{
        d_dp_bn_alu_cfg, d_dp_bn_cfg, d_dp_bn_mul_cfg, d_dp_bs_alu_cfg, d_dp_bs_cfg, d_dp_bs_mul_cfg, d_dp_ew_alu_cfg,
        d_dp_ew_cfg, d_dp_ew_mul_cfg,
    };
    let from_memory = |source: Option<OperandSource>| source == Some(OperandSource::Mem);
    let x1 = registers.get(reg_sdp::D_DP_BS_CFG);
    let x2 = registers.get(reg_sdp::D_DP_BN_CFG);
    let y = registers.get(reg_sdp::D_DP_EW_CFG);
    let x1_alu = d_dp_bs_alu_cfg::BS_ALU_SRC.get(registers.get(reg_sdp::D_DP_BS_ALU_CFG));
    let x1_mul = d_dp_bs_mul_cfg::BS_MUL_SRC.get(registers.get(reg_sdp::D_DP_BS_MUL_CFG));
    let x2_alu = d_dp_bn_alu_cfg::BN_ALU_SRC.get(registers.get(reg_sdp::D_DP_BN_ALU_CFG));
    let x2_mul = d_dp_bn_mul_cfg::BN_MUL_SRC.get(registers.get(reg_sdp::D_DP_BN_MUL_CFG));
    let y_alu = d_dp_ew_alu_cfg::EW_ALU_SRC.get(registers.get(reg_sdp::D_DP_EW_ALU_CFG));
    let y_mul = d_dp_ew_mul_cfg::EW_MUL_SRC.get(registers.get(reg_sdp::D_DP_EW_MUL_CFG));

    !reg_sdp::d_feature_mode_cfg::FLYING_MODE.is_set(registers.get(reg_sdp::D_FEATURE_MODE_CFG))
        || (!d_dp_bs_cfg::BS_BYPASS.is_set(x1)
            && ((!d_dp_bs_cfg::BS_ALU_BYPASS.is_set(x1) && from_memory(x1_alu))
                || (!d_dp_bs_cfg::BS_MUL_BYPASS.is_set(x1) && from_memory(x1_mul))))
        || (!d_dp_bn_cfg::BN_BYPASS.is_set(x2)
            && ((!d_dp_bn_cfg::BN_ALU_BYPASS.is_set(x2) && from_memory(x2_alu))
                || (!d_dp_bn_cfg::BN_MUL_BYPASS.is_set(x2) && from_memory(x2_mul))))
        || (!d_dp_ew_cfg::EW_BYPASS.is_set(y)
            && ((!d_dp_ew_cfg::EW_ALU_BYPASS.is_set(y) && from_memory(y_alu))
                || (!d_dp_ew_cfg::EW_MUL_BYPASS.is_set(y) && from_memory(y_mul))))
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::{NV_FULL, NV_SMALL};
    use nvdla_uapi::reg::values::RamType;
    use nvdla_uapi::reg::{bdma, glb};

    use super::*;
    use crate::memory::Fault;
    use crate::testing::Bytes;

    const BASE: u64 = 0x1000;

    fn write(model: &mut Model, block: Block, register: nvdla_uapi::reg::Register, value: u32) {
        let base = block.base(model.config().family).unwrap();
        model.write(base + u32::from(register.offset), value);
    }

    fn read(model: &mut Model, block: Block, register: nvdla_uapi::reg::Register) -> u32 {
        let base = block.base(model.config().family).unwrap();
        model.read(base + u32::from(register.offset))
    }

    fn copy(model: &mut Model, from: u64, to: u64) {
        let ram = bdma::cfg_cmd::SRC_RAM_TYPE.put(RamType::Mcif) | bdma::cfg_cmd::DST_RAM_TYPE.put(RamType::Mcif);
        for (register, value) in [
            (bdma::CFG_SRC_ADDR_LOW, from as u32),
            (bdma::CFG_DST_ADDR_LOW, to as u32),
            (bdma::CFG_LINE, 1),
            (bdma::CFG_CMD, ram),
            (bdma::CFG_LINE_REPEAT, 2),
            (bdma::CFG_SRC_LINE, 0x40),
            (bdma::CFG_DST_LINE, 0x80),
            (bdma::CFG_OP, 1),
            (bdma::CFG_LAUNCH1, 1),
        ] {
            write(model, Block::Bdma, register, value);
        }
    }

    #[test]
    fn a_copy_moves_its_lines_and_raises_its_group_s_interrupt() {
        let mut memory = Bytes { base: BASE, bytes: (0..8192u32).map(|byte| (byte / 32) as u8).collect() };
        let mut model = Model::new(&NV_FULL);
        copy(&mut model, BASE, BASE + 0x1000);
        assert!(!model.interrupt());
        assert_eq!(read(&mut model, Block::Bdma, bdma::STATUS), 0x413);
        assert!(model.run(&mut memory));
        assert!(model.interrupt());
        assert_eq!(read(&mut model, Block::Glb, glb::S_INTR_STATUS), 0x80);
        assert_eq!(read(&mut model, Block::Bdma, bdma::STATUS), 0x114);
        assert_eq!(memory.bytes[0x1000], 0);
        assert_eq!(memory.bytes[0x1020], 1);
        assert_eq!(memory.bytes[0x1080], 2);
        assert_eq!(memory.bytes[0x1040], 0x82);
        assert!(!model.run(&mut memory));
    }

    #[test]
    fn an_access_outside_stops_the_unit_until_reset() {
        let mut memory = Bytes { base: BASE, bytes: vec![0; 8192] };
        let mut model = Model::new(&NV_FULL);
        copy(&mut model, BASE, BASE + 0x1fa0);
        assert!(!model.run(&mut memory));
        let Some(Stop::Fault(Fault { unit, address, length, .. })) = model.take_stop() else { panic!("no fault") };
        assert_eq!((unit, address, length), ("BDMA", BASE + 0x2020, 64));
        assert_eq!(model.take_stop(), None);
        copy(&mut model, BASE, BASE);
        assert!(!model.run(&mut memory));
        assert!(!model.interrupt());

        model.reset();
        copy(&mut model, BASE, BASE);
        assert!(model.run(&mut memory));
    }

    #[test]
    fn a_block_that_the_configuration_lacks_reads_as_zero() {
        let mut model = Model::new(&NV_SMALL);
        assert_eq!(read(&mut model, Block::Bdma, bdma::STATUS), 0);
        assert_eq!(read(&mut model, Block::Cfgrom, nvdla_uapi::reg::cfgrom::CFGROM_HW_VERSION), 0x1_0001);
        assert_eq!(read(&mut model, Block::Cdma, cdma::S_CBUF_FLUSH_STATUS), 1);
        assert_eq!(model.read(!0), 0);
        model.write(!0, 1);
    }
}
