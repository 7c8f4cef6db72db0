// SPDX-License-Identifier: MIT OR Apache-2.0

//! The device: a register window, an interrupt line, and the start of operations.
//!
//! Software writes registers and calls [`Model::run`]. It performs all operations that are enabled and ready, one after
//! another, and raises their interrupts. The model has no delays: nothing happens between two calls. If registers must
//! be accessible while an operation runs, as behind a bus, the caller uses [`Model::start`], performs the operation
//! itself, and passes the result to [`Model::finish`].
//!
//! An operation uses several blocks, each with its own two register groups. A convolution needs CDMA, CSC, both CMACs
//! and CACC, and passes its sums to SDP, which must be enabled "on flying". SDP needs its read DMA if it reads memory.
//! PDP needs its read DMA or SDP's output. CDP always needs its read DMA.

use std::collections::VecDeque;

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::{OperandSource, OutputDestination, PdpFlyingMode};
use nvdla_uapi::reg::{cdma, cdp as reg_cdp, pdp as reg_pdp, pdp_rdma, sdp as reg_sdp, sdp_rdma, Block};

use crate::bdma::Bdma;
use crate::cfgrom;
use crate::glb::{Glb, Source};
use crate::groups::Groups;
use crate::like::Like;
use crate::limit::Limit;
use crate::lut::Tables;
use crate::memory::{Memory, Stop};
use crate::operation::{index, Finished, Operation, StartedOperation, Unit, UnitStates, FIRST_GROUPED, GROUPED};
use crate::recent::Recent;
use crate::registers::{writable, Registers};

/// Pages of the register window.
const PAGES: usize = 0x12;

/// An NVDLA.
#[derive(Debug)]
pub struct Model {
    config: &'static Config,
    like: Like,
    /// The block of each page of the register window.
    pages: [Option<Block>; PAGES],
    rom: [u32; cfgrom::WORDS],
    glb: Glb,
    mcif: Registers,
    cvif: Registers,
    bdma: Bdma,
    groups: [Groups; GROUPED],
    sdp_tables: Tables,
    cdp_tables: Tables,
    /// The units' states. `None` while an operation is running.
    states: Option<Box<UnitStates>>,
    /// Number of resets.
    epoch: u64,
    /// Index of the unit that is tried next.
    turn: usize,
    /// Whether a unit started since the first one was tried, so that all must be tried again.
    again: bool,
    /// Whether a read DMA with nothing to read ended since the last run.
    skipped: bool,
    /// Bit set of blocks whose operation has stopped and will never end.
    halted: u32,
    stops: VecDeque<Stop>,
    /// Whether software has enabled an operation since the last run.
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
            like: Like::default(),
            pages,
            rom: cfgrom::words(config),
            glb: Glb::default(),
            mcif: Registers::reset(Block::Mcif),
            cvif: Registers::reset(Block::Cvif),
            bdma: Bdma::reset(),
            groups: std::array::from_fn(|index| Groups::reset(Block::ALL[FIRST_GROUPED + index], config.family)),
            sdp_tables: Tables::default(),
            cdp_tables: Tables::default(),
            states: Some(Box::default()),
            epoch: 0,
            turn: 0,
            again: false,
            skipped: false,
            halted: 0,
            stops: VecDeque::new(),
            enabled: false,
        }
    }

    /// The device with the results of this implementation where the RTL and the C-model differ.
    #[must_use]
    pub fn like(mut self, like: Like) -> Self {
        self.like = like;
        if let Some(states) = &mut self.states {
            states.sdp.like = like;
            states.flying = Recent::default();
        }
        self
    }

    /// The device's configuration.
    pub fn config(&self) -> &'static Config {
        self.config
    }

    /// Resets the device.
    pub fn reset(&mut self) {
        *self = Self { epoch: self.epoch.wrapping_add(1), ..Self::new(self.config).like(self.like) };
    }

    /// Reads the register at byte `offset` of the window. Returns zero if there is none.
    pub fn read(&mut self, offset: u32) -> u32 {
        let Some((block, offset)) = self.at(offset) else { return 0 };
        match block {
            Block::Cfgrom => self.rom.get(offset as usize / 4).copied().unwrap_or(0),
            Block::Glb => self.glb.read(offset),
            Block::Mcif => self.mcif.at(offset),
            Block::Cvif => self.cvif.at(offset),
            Block::Bdma => self.bdma.read(offset),
            Block::Cdma if offset == u32::from(cdma::S_CBUF_FLUSH_STATUS.offset) => 1,
            Block::Sdp if offset == u32::from(reg_sdp::S_LUT_ACCESS_CFG.offset) => self.sdp_tables.read_access(),
            Block::Cdp if offset == u32::from(reg_cdp::S_LUT_ACCESS_CFG.offset) => self.cdp_tables.read_access(),
            Block::Sdp if offset == u32::from(reg_sdp::S_LUT_ACCESS_DATA.offset) => self.sdp_tables.read_data(),
            Block::Cdp if offset == u32::from(reg_cdp::S_LUT_ACCESS_DATA.offset) => self.cdp_tables.read_data(),
            _ => self.groups[index(block)].read(offset),
        }
    }

    /// Writes the register at byte `offset` of the window. This does not start operations; [`Model::run`] does.
    pub fn write(&mut self, offset: u32, value: u32) {
        let Some((block, offset)) = self.at(offset) else { return };
        let family = self.config.family;
        match block {
            Block::Cfgrom => {}
            Block::Glb => self.glb.write(offset, value),
            Block::Mcif => self.mcif.write(writable(block, family), offset, value),
            Block::Cvif => self.cvif.write(writable(block, family), offset, value),
            Block::Bdma => self.enabled |= self.bdma.write(offset, value),
            Block::Sdp if offset == u32::from(reg_sdp::S_LUT_ACCESS_CFG.offset) => self.sdp_tables.write_access(value),
            Block::Cdp if offset == u32::from(reg_cdp::S_LUT_ACCESS_CFG.offset) => self.cdp_tables.write_access(value),
            Block::Sdp if offset == u32::from(reg_sdp::S_LUT_ACCESS_DATA.offset) => self.sdp_tables.write_data(value),
            Block::Cdp if offset == u32::from(reg_cdp::S_LUT_ACCESS_DATA.offset) => self.cdp_tables.write_data(value),
            _ => self.enabled |= self.groups[index(block)].write(offset, value),
        }
    }

    /// Whether the interrupt line is asserted.
    pub fn interrupt(&self) -> bool {
        self.glb.line()
    }

    /// Performs all operations that are enabled and ready. Returns whether any ran.
    ///
    /// An operation that cannot end ([`Model::take_stop`] says why) keeps its blocks busy until [`Model::reset`].
    pub fn run(&mut self, memory: &mut dyn Memory) -> bool {
        self.run_within(&Limit::NONE, memory)
    }

    /// Like [`Model::run`]. An operation that has not ended by the limit stops with [`Stop::Late`].
    pub fn run_within(&mut self, limit: &Limit, memory: &mut dyn Memory) -> bool {
        let mut ran = false;
        while let Some(work) = self.start() {
            ran |= self.finish(work.run_within(limit, memory));
        }
        ran | std::mem::take(&mut self.skipped)
    }

    /// Starts the next operation that is enabled and ready. [`StartedOperation::run`] performs it, and [`Model::finish`] ends it.
    ///
    /// In between, the registers show its blocks as running, and software may access all registers. Returns `None` if
    /// no operation is ready, or if one is already running.
    pub fn start(&mut self) -> Option<StartedOperation> {
        if !self.enabled || self.states.is_none() {
            return None;
        }
        self.skip_idle_readers();
        loop {
            while self.turn < Unit::ALL.len() {
                let unit = Unit::ALL[self.turn];
                self.turn += 1;
                let operation = self.operation(unit);
                if let Some((operation, states)) =
                    operation.and_then(|operation| Some((operation, self.prepare(operation)?)))
                {
                    self.again = true;
                    return Some(StartedOperation { epoch: self.epoch, config: self.config, operation, states });
                }
            }
            self.turn = 0;
            // An operation that ended, or one that software has enabled meanwhile, may have made earlier units ready.
            if !std::mem::take(&mut self.again) {
                self.enabled = false;
                return None;
            }
            self.skip_idle_readers();
        }
    }

    /// Ends an operation: sets its status registers, switches its blocks to their other groups, and raises its
    /// interrupts. Returns false if the operation stopped, or if the device was reset after its start.
    pub fn finish(&mut self, finished: Finished) -> bool {
        let Finished { epoch, operation, states, result } = finished;
        if epoch != self.epoch {
            return false;
        }
        let ended = match result {
            Ok(()) => {
                for &(block, offset, value) in &states.status {
                    self.groups[index(block)].report(offset, value);
                }
                for block in operation.blocks() {
                    let group = if block == Block::Bdma { self.bdma.finish() } else { self.end(block) };
                    for &source in interrupts(block) {
                        self.glb.raise(source, group);
                    }
                }
                true
            }
            Err(stop) => {
                self.halt(operation.blocks(), stop);
                false
            }
        };
        self.states = Some(states);
        ended
    }

    /// Takes the oldest reason for which an operation stopped.
    pub fn take_stop(&mut self) -> Option<Stop> {
        self.stops.pop_front()
    }

    /// Ends read DMAs that are enabled with nothing to read.
    fn skip_idle_readers(&mut self) {
        let mut skipped = false;
        if self.ready(Block::SdpRdma).is_some_and(|rdma| {
            rdma.is_set(sdp_rdma::D_FEATURE_MODE_CFG::FLYING_MODE)
                && rdma.is_set(sdp_rdma::D_BRDMA_CFG::BRDMA_DISABLE)
                && rdma.is_set(sdp_rdma::D_NRDMA_CFG::NRDMA_DISABLE)
                && rdma.is_set(sdp_rdma::D_ERDMA_CFG::ERDMA_DISABLE)
        }) {
            self.end(Block::SdpRdma);
            skipped = true;
        }
        if self
            .ready(Block::PdpRdma)
            .is_some_and(|rdma| rdma.read().get(pdp_rdma::D_FLYING_MODE::FLYING_MODE) == Some(PdpFlyingMode::OnFlying))
        {
            self.end(Block::PdpRdma);
            skipped = true;
        }
        self.skipped |= skipped;
        self.again |= skipped;
    }

    /// The unit's next operation, if all its blocks are enabled.
    fn operation(&mut self, unit: Unit) -> Option<Operation> {
        let operation = match unit {
            Unit::Bdma => {
                if self.is_halted(Block::Bdma) {
                    return None;
                }
                return match self.bdma.start() {
                    Ok(started) => started.then_some(Operation::Bdma),
                    Err(stop) => {
                        self.halt([Block::Bdma], stop);
                        None
                    }
                };
            }
            Unit::Sdp => {
                let sdp = self.ready(Block::Sdp)?;
                let operation = Operation::Sdp {
                    convolution: sdp.is_set(reg_sdp::D_FEATURE_MODE_CFG::FLYING_MODE),
                    reads: sdp_reads_memory(sdp),
                    pooling: sdp.read().get(reg_sdp::D_FEATURE_MODE_CFG::OUTPUT_DST) == Some(OutputDestination::Pdp),
                };
                if matches!(operation, Operation::Sdp { pooling: true, .. })
                    && !self.ready(Block::Pdp).is_some_and(pdp_on_flying)
                {
                    return None;
                }
                operation
            }
            Unit::Pdp => {
                self.ready(Block::Pdp).filter(|pdp| !pdp_on_flying(pdp))?;
                Operation::Pdp
            }
            Unit::Cdp => Operation::Cdp,
            Unit::Rubik => Operation::Rubik,
        };
        operation.blocks().all(|block| self.ready(block).is_some()).then_some(operation)
    }

    /// Takes the units' states and copies the operation's registers and tables to them.
    fn prepare(&mut self, operation: Operation) -> Option<Box<UnitStates>> {
        let mut states = self.states.take()?;
        states.status.clear();
        for block in operation.reads() {
            states.registers[index(block)].clone_from(self.groups[index(block)].next());
        }
        match operation {
            Operation::Bdma => self.bdma.take(&mut states.copies),
            Operation::Sdp { .. } => states.sdp.tables.clone_from(&self.sdp_tables),
            Operation::Cdp => states.cdp.tables.clone_from(&self.cdp_tables),
            Operation::Pdp | Operation::Rubik => {}
        }
        Some(states)
    }

    /// The block at `offset` of the window, and the offset in the block.
    fn at(&self, offset: u32) -> Option<(Block, u32)> {
        let block = (*self.pages.get((offset / Block::SIZE) as usize)?)?;
        Some((block, offset % Block::SIZE))
    }

    /// The registers of the block's next operation, if software has enabled it and no earlier one stopped.
    fn ready(&self, block: Block) -> Option<&Registers> {
        self.groups[index(block)].ready().filter(|_| !self.is_halted(block))
    }

    fn is_halted(&self, block: Block) -> bool {
        self.halted & (1 << block as u32) != 0
    }

    /// Marks the blocks of a stopped operation as busy until reset.
    fn halt(&mut self, blocks: impl IntoIterator<Item = Block>, stop: Stop) {
        for block in blocks {
            self.halted |= 1 << block as u32;
        }
        self.stops.push_back(stop);
    }

    /// Ends the block's operation. Returns its group.
    fn end(&mut self, block: Block) -> usize {
        self.groups[index(block)].finish()
    }
}

/// The interrupts at the end of a block's operation.
fn interrupts(block: Block) -> &'static [Source] {
    match block {
        Block::Bdma => &[Source::Bdma],
        Block::Cdma => &[Source::CdmaData, Source::CdmaWeight],
        Block::Cacc => &[Source::Cacc],
        Block::Sdp => &[Source::Sdp],
        Block::Pdp => &[Source::Pdp],
        Block::Cdp => &[Source::Cdp],
        Block::Rbk => &[Source::Rubik],
        _ => &[],
    }
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

fn pdp_on_flying(pdp: &Registers) -> bool {
    pdp.read().get(reg_pdp::D_OPERATION_MODE_CFG::FLYING_MODE) == Some(PdpFlyingMode::OnFlying)
}

/// Whether SDP takes its data or any operand from its read DMA.
fn sdp_reads_memory(registers: &Registers) -> bool {
    let from_memory = |source: Option<OperandSource>| source == Some(OperandSource::Mem);
    let x1_alu = registers.read().get(reg_sdp::D_DP_BS_ALU_CFG::BS_ALU_SRC);
    let x1_mul = registers.read().get(reg_sdp::D_DP_BS_MUL_CFG::BS_MUL_SRC);
    let x2_alu = registers.read().get(reg_sdp::D_DP_BN_ALU_CFG::BN_ALU_SRC);
    let x2_mul = registers.read().get(reg_sdp::D_DP_BN_MUL_CFG::BN_MUL_SRC);
    let y_alu = registers.read().get(reg_sdp::D_DP_EW_ALU_CFG::EW_ALU_SRC);
    let y_mul = registers.read().get(reg_sdp::D_DP_EW_MUL_CFG::EW_MUL_SRC);

    !registers.is_set(reg_sdp::D_FEATURE_MODE_CFG::FLYING_MODE)
        || (!registers.is_set(reg_sdp::D_DP_BS_CFG::BS_BYPASS)
            && ((!registers.is_set(reg_sdp::D_DP_BS_CFG::BS_ALU_BYPASS) && from_memory(x1_alu))
                || (!registers.is_set(reg_sdp::D_DP_BS_CFG::BS_MUL_BYPASS) && from_memory(x1_mul))))
        || (!registers.is_set(reg_sdp::D_DP_BN_CFG::BN_BYPASS)
            && ((!registers.is_set(reg_sdp::D_DP_BN_CFG::BN_ALU_BYPASS) && from_memory(x2_alu))
                || (!registers.is_set(reg_sdp::D_DP_BN_CFG::BN_MUL_BYPASS) && from_memory(x2_mul))))
        || (!registers.is_set(reg_sdp::D_DP_EW_CFG::EW_BYPASS)
            && ((!registers.is_set(reg_sdp::D_DP_EW_CFG::EW_ALU_BYPASS) && from_memory(y_alu))
                || (!registers.is_set(reg_sdp::D_DP_EW_CFG::EW_MUL_BYPASS) && from_memory(y_mul))))
}
