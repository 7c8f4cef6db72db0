// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device for tests of the engine: register groups, pointers and interrupts as in the hardware, without arithmetic. An
//! operation completes without reading or writing memory. Tests can make the device lose interrupts and hang.

use std::collections::{HashMap, VecDeque};

use nvdla_engine::Hardware;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;
use nvdla_uapi::reg::glb::S_INTR_STATUS as Status;
use nvdla_uapi::reg::values::{OperandSource, OutputDestination, PdpFlyingMode};
use nvdla_uapi::reg::{bdma, cdma, cdp, csc, glb, pdp, sdp, Block, Register, Tied, Word};

/// The blocks of a convolution.
const CONVOLUTION: [Block; 5] = [Block::Cdma, Block::Csc, Block::CmacA, Block::CmacB, Block::Cacc];

/// A register access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read of that byte offset, and its value.
    Read(u32, u32),
    /// A write of that value to that byte offset.
    Write(u32, u32),
}

/// The device.
#[derive(Debug)]
pub struct Mock {
    config: &'static Config,
    /// Every access, in order.
    pub log: Vec<Access>,
    /// The interrupt status.
    pub status: u32,
    /// The interrupt mask.
    pub mask: u32,
    /// Interrupts that are never raised: bits of the status.
    pub lost: u32,
    /// Units that never complete an operation.
    pub hung: Vec<OpType>,
    /// The number of reads of the flush status before it reports that the convolution buffer is clear.
    pub flushing: u32,
    /// Status bits in the order in which they were set.
    pub raised: Vec<u32>,
    registers: HashMap<(Block, u8, u16), u32>,
    producer: HashMap<Block, u8>,
    consumer: HashMap<Block, u8>,
    enabled: HashMap<(Block, u8), bool>,
    launched: VecDeque<usize>,
}

const fn op_enable(block: Block) -> Register {
    match block {
        Block::Cdma => cdma::D_OP_ENABLE,
        Block::Sdp => sdp::D_OP_ENABLE,
        Block::Cdp => cdp::D_OP_ENABLE,
        _ => csc::D_OP_ENABLE,
    }
}

impl Mock {
    /// The device after reset.
    pub fn new(config: &'static Config) -> Self {
        Self {
            config,
            log: Vec::new(),
            status: 0,
            mask: 0,
            lost: 0,
            hung: Vec::new(),
            flushing: 0,
            raised: Vec::new(),
            registers: HashMap::new(),
            producer: HashMap::new(),
            consumer: HashMap::new(),
            enabled: HashMap::new(),
            launched: VecDeque::new(),
        }
    }

    /// Writes so far.
    pub fn writes(&self) -> usize {
        self.log.iter().filter(|access| matches!(access, Access::Write(..))).count()
    }

    /// Reads so far.
    pub fn reads(&self) -> usize {
        self.log.len() - self.writes()
    }

    /// Whether the interrupt line is up.
    pub fn line(&self) -> bool {
        self.status & !self.mask != 0
    }

    /// Completes one operation that can complete, together with those connected on the fly. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        self.step_bdma() || self.step_sdp() || self.step_pdp() || self.step_cdp() || self.step_rubik()
    }

    /// Completes all operations that can complete.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// The value of a group's register, as the engine wrote it.
    pub fn register(&self, block: Block, group: u8, register: Register) -> u32 {
        self.registers.get(&(block, group, register.offset)).copied().unwrap_or(register.reset)
    }

    fn next(&self, block: Block) -> u8 {
        self.consumer.get(&block).copied().unwrap_or(0)
    }

    fn current(&self, block: Block, register: Register) -> u32 {
        self.register(block, self.next(block), register)
    }

    fn word<R: Tied>(&self, block: Block) -> Word<R> {
        Word::new(self.current(block, R::REGISTER))
    }

    fn ready(&self, block: Block) -> bool {
        self.enabled.get(&(block, self.next(block))).copied().unwrap_or(false)
    }

    fn is_hung(&self, unit: OpType) -> bool {
        self.hung.contains(&unit)
    }

    /// Completes a block's operation. Returns its register group.
    fn finish(&mut self, block: Block) -> usize {
        let group = self.next(block);
        self.enabled.insert((block, group), false);
        self.consumer.insert(block, 1 - group);
        usize::from(group)
    }

    fn raise(&mut self, bits: u32) {
        self.raised.push(bits);
        self.status |= bits & !self.lost;
    }

    fn step_bdma(&mut self) -> bool {
        if self.is_hung(OpType::Bdma) {
            return false;
        }
        let Some(group) = self.launched.pop_front() else { return false };
        self.raise([Status::BDMA_DONE_STATUS0, Status::BDMA_DONE_STATUS1][group].mask());
        true
    }

    /// Whether SDP's next operation reads memory.
    fn sdp_reads(&self) -> bool {
        let get = |register| self.current(Block::Sdp, register);
        let flying = self.word(Block::Sdp).is_set(sdp::D_FEATURE_MODE_CFG::FLYING_MODE);
        // The registers of the three sub-units, and those of ALU and multiplier, have the same fields.
        let from_memory = |cfg: u32, alu: u32, mul: u32| {
            let is_memory = |value| Word::new(value).get(sdp::D_DP_BS_ALU_CFG::BS_ALU_SRC) == Some(OperandSource::Mem);
            let cfg = Word::new(cfg);
            !cfg.is_set(sdp::D_DP_BS_CFG::BS_BYPASS)
                && (!cfg.is_set(sdp::D_DP_BS_CFG::BS_ALU_BYPASS) && is_memory(alu)
                    || !cfg.is_set(sdp::D_DP_BS_CFG::BS_MUL_BYPASS) && is_memory(mul))
        };
        !flying
            || from_memory(get(sdp::D_DP_BS_CFG), get(sdp::D_DP_BS_ALU_CFG), get(sdp::D_DP_BS_MUL_CFG))
            || from_memory(get(sdp::D_DP_BN_CFG), get(sdp::D_DP_BN_ALU_CFG), get(sdp::D_DP_BN_MUL_CFG))
            || from_memory(get(sdp::D_DP_EW_CFG), get(sdp::D_DP_EW_ALU_CFG), get(sdp::D_DP_EW_MUL_CFG))
    }

    fn step_sdp(&mut self) -> bool {
        if !self.ready(Block::Sdp) || self.is_hung(OpType::Sdp) {
            return false;
        }
        let mode = self.word(Block::Sdp);
        let flying = mode.is_set(sdp::D_FEATURE_MODE_CFG::FLYING_MODE);
        let to_pdp = mode.get(sdp::D_FEATURE_MODE_CFG::OUTPUT_DST) == Some(OutputDestination::Pdp);
        let reads = self.sdp_reads();
        let convolves = !flying || CONVOLUTION.iter().all(|&block| self.ready(block)) && !self.is_hung(OpType::Conv);
        let reader = !reads || self.ready(Block::SdpRdma);
        let pools = !to_pdp || self.ready(Block::Pdp) && !self.is_hung(OpType::Pdp) && self.pdp_takes_sdp();
        if !(convolves && reader && pools) {
            return false;
        }
        let mut status = 0;
        if flying {
            let cdma = self.finish(Block::Cdma);
            status |= [Status::CDMA_DAT_DONE_STATUS0, Status::CDMA_DAT_DONE_STATUS1][cdma].mask();
            status |= [Status::CDMA_WT_DONE_STATUS0, Status::CDMA_WT_DONE_STATUS1][cdma].mask();
            for block in [Block::Csc, Block::CmacA, Block::CmacB] {
                self.finish(block);
            }
            let cacc = self.finish(Block::Cacc);
            status |= [Status::CACC_DONE_STATUS0, Status::CACC_DONE_STATUS1][cacc].mask();
        }
        if reads {
            self.finish(Block::SdpRdma);
        }
        let group = self.finish(Block::Sdp);
        status |= [Status::SDP_DONE_STATUS0, Status::SDP_DONE_STATUS1][group].mask();
        if to_pdp {
            let group = self.finish(Block::Pdp);
            status |= [Status::PDP_DONE_STATUS0, Status::PDP_DONE_STATUS1][group].mask();
        }
        self.raise(status);
        true
    }

    fn pdp_takes_sdp(&self) -> bool {
        self.word(Block::Pdp).get(pdp::D_OPERATION_MODE_CFG::FLYING_MODE) == Some(PdpFlyingMode::OnFlying)
    }

    fn step_pdp(&mut self) -> bool {
        let alone = self.ready(Block::Pdp) && !self.pdp_takes_sdp() && self.ready(Block::PdpRdma);
        if !alone || self.is_hung(OpType::Pdp) {
            return false;
        }
        self.finish(Block::PdpRdma);
        let group = self.finish(Block::Pdp);
        self.raise([Status::PDP_DONE_STATUS0, Status::PDP_DONE_STATUS1][group].mask());
        true
    }

    fn step_cdp(&mut self) -> bool {
        if !self.ready(Block::Cdp) || !self.ready(Block::CdpRdma) || self.is_hung(OpType::Cdp) {
            return false;
        }
        self.finish(Block::CdpRdma);
        let group = self.finish(Block::Cdp);
        self.raise([Status::CDP_DONE_STATUS0, Status::CDP_DONE_STATUS1][group].mask());
        true
    }

    fn step_rubik(&mut self) -> bool {
        if !self.ready(Block::Rbk) || self.is_hung(OpType::Rubik) {
            return false;
        }
        let group = self.finish(Block::Rbk);
        self.raise([Status::RUBIK_DONE_STATUS0, Status::RUBIK_DONE_STATUS1][group].mask());
        true
    }

    /// What a read of a register gives.
    fn value(&mut self, offset: u32) -> u32 {
        let Some(block) = Block::at(self.config.family, offset) else { return 0 };
        let register = (offset % Block::SIZE) as u16;
        match (block, register) {
            (Block::Glb, register) if register == glb::S_INTR_STATUS.offset => self.status,
            (Block::Glb, register) if register == glb::S_INTR_MASK.offset => self.mask,
            (Block::Glb | Block::Cfgrom, _) => 0,
            (Block::Cdma, register) if register == cdma::S_CBUF_FLUSH_STATUS.offset => {
                let done = self.flushing == 0;
                self.flushing = self.flushing.saturating_sub(1);
                u32::from(done)
            }
            (_, register) if register == cdma::S_POINTER.offset && block != Block::Bdma => {
                u32::from(self.producer.get(&block).copied().unwrap_or(0)) | u32::from(self.next(block)) << 16
            }
            _ => {
                let group = self.producer.get(&block).copied().unwrap_or(0);
                self.registers.get(&(block, group, register)).copied().unwrap_or(0)
            }
        }
    }
}

impl Hardware for Mock {
    fn read(&mut self, offset: u32) -> u32 {
        let value = self.value(offset);
        self.log.push(Access::Read(offset, value));
        value
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.log.push(Access::Write(offset, value));
        let Some(block) = Block::at(self.config.family, offset) else { return };
        let register = (offset % Block::SIZE) as u16;
        match block {
            Block::Glb if register == glb::S_INTR_STATUS.offset => self.status &= !value,
            Block::Glb if register == glb::S_INTR_MASK.offset => self.mask = value,
            Block::Bdma => {
                for (group, launch) in [bdma::CFG_LAUNCH0, bdma::CFG_LAUNCH1].into_iter().enumerate() {
                    if register == launch.offset {
                        assert!(!self.launched.contains(&group), "BDMA group {group} is launched while it runs");
                        self.launched.push_back(group);
                    }
                }
            }
            _ if register == cdma::S_POINTER.offset => {
                self.producer.insert(block, value as u8 & 1);
            }
            _ => {
                let group = self.producer.get(&block).copied().unwrap_or(0);
                let busy = self.enabled.get(&(block, group)).copied().unwrap_or(false);
                assert!(!busy, "{} group {group} is written at {register:#x} while it runs", block.name());
                if register == op_enable(block).offset {
                    self.enabled.insert((block, group), value & 1 != 0);
                } else {
                    self.registers.insert((block, group, register), value);
                }
            }
        }
    }
}
