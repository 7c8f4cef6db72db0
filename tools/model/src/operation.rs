// SPDX-License-Identifier: MIT OR Apache-2.0

//! An operation that runs: copies of the registers that it was started with, and the state that units keep between
//! operations.
//!
//! It is separate from the device, so that registers can be read and written while it runs.

use nvdla_uapi::config::Config;
use nvdla_uapi::isa::Isa;
use nvdla_uapi::reg::Block;

use crate::limit::{self, Limit};
use crate::memory::{Memory, Span, Stop};
use crate::recent::Recent;
use crate::registers::Registers;
use crate::stream::Report;
use crate::{bdma, cdp, conv, pdp, rubik, sdp};

/// Blocks with two register groups: all from CDMA on.
pub(crate) const FIRST_GROUPED: usize = Block::Cdma as usize;
pub(crate) const GROUPED: usize = Block::ALL.len() - FIRST_GROUPED;

/// The index of the block among the blocks with groups.
pub(crate) fn index(block: Block) -> usize {
    block as usize - FIRST_GROUPED
}

/// A unit that starts operations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Bdma,
    Sdp,
    Pdp,
    Cdp,
    Rubik,
}

impl Unit {
    pub(crate) const ALL: [Self; 5] = [Self::Bdma, Self::Sdp, Self::Pdp, Self::Cdp, Self::Rubik];
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// A launched group of BDMA's copies.
    Bdma,
    /// SDP, optionally with a convolution before it, with operands from memory, and with a pooling after it.
    Sdp { convolution: bool, reads: bool, pooling: bool },
    /// PDP from memory.
    Pdp,
    /// CDP.
    Cdp,
    /// Rubik.
    Rubik,
}

impl Operation {
    /// The blocks that the operation keeps busy.
    pub(crate) fn blocks(self) -> impl Iterator<Item = Block> {
        use Block::{Bdma, Cacc, Cdma, Cdp, CdpRdma, CmacA, CmacB, Csc, Pdp, PdpRdma, Rbk, Sdp, SdpRdma};
        let (convolution, rest): (&[Block], &[Block]) = match self {
            Self::Bdma => (&[], &[Bdma]),
            Self::Sdp { convolution, reads, pooling } => (
                if convolution { &[Cdma, Csc, CmacA, CmacB, Cacc] } else { &[] },
                match (reads, pooling) {
                    (false, false) => &[Sdp],
                    (true, false) => &[Sdp, SdpRdma],
                    (false, true) => &[Sdp, Pdp],
                    (true, true) => &[Sdp, SdpRdma, Pdp],
                },
            ),
            Self::Pdp => (&[], &[Pdp, PdpRdma]),
            Self::Cdp => (&[], &[Cdp, CdpRdma]),
            Self::Rubik => (&[], &[Rbk]),
        };
        convolution.iter().chain(rest).copied()
    }

    /// The blocks with register groups that the operation uses, including those of a read DMA that reads nothing.
    pub(crate) fn reads(self) -> impl Iterator<Item = Block> {
        let all = match self {
            Self::Bdma => Self::Bdma,
            Self::Sdp { convolution, .. } => Self::Sdp { convolution, reads: true, pooling: true },
            other => other,
        };
        let rest = matches!(self, Self::Sdp { .. }).then_some(Block::PdpRdma);
        all.blocks().filter(|&block| block != Block::Bdma).chain(rest)
    }
}

/// The state that units keep between operations, and the registers of the running operation.
#[derive(Debug)]
pub(crate) struct UnitStates {
    pub(crate) conv: conv::State,
    pub(crate) sdp: sdp::State,
    pub(crate) cdp: cdp::State,
    /// Convolutions whose sums SDP takes while they are computed.
    pub(crate) flying: Recent<(conv::Operation, sdp::Decoded, Option<Span>), 7>,
    /// Registers of the blocks that the operation uses; the others are old.
    pub(crate) registers: [Registers; GROUPED],
    /// BDMA's copies.
    pub(crate) copies: Vec<Registers>,
    /// Status registers with the values that the operation leaves there.
    pub(crate) status: Vec<Report>,
}

impl Default for UnitStates {
    fn default() -> Self {
        Self {
            conv: conv::State::default(),
            sdp: sdp::State::default(),
            cdp: cdp::State::default(),
            flying: Recent::default(),
            registers: std::array::from_fn(|index| Registers::reset(Block::ALL[FIRST_GROUPED + index])),
            copies: Vec::new(),
            status: Vec::new(),
        }
    }
}

impl UnitStates {
    fn run(&mut self, operation: Operation, config: &Config, memory: &mut dyn Memory) -> Result<(), Stop> {
        let Self { conv, sdp, cdp, flying, registers, copies, status } = self;
        let of = |block: Block| &registers[index(block)];
        match operation {
            Operation::Bdma => copies.iter().try_for_each(|registers| bdma::copy(registers, memory))?,
            Operation::Sdp { convolution, pooling, .. } => {
                let mut sums = None;
                if convolution {
                    let blocks = conv::Blocks {
                        cdma: of(Block::Cdma),
                        csc: of(Block::Csc),
                        cmac_a: of(Block::CmacA),
                        cmac_b: of(Block::CmacB),
                        cacc: of(Block::Cacc),
                    };
                    let (rdma, points) = (of(Block::SdpRdma), of(Block::Sdp));
                    let conv::Blocks { cdma, csc, cmac_a, cmac_b, cacc } = blocks;
                    let isa = Isa::in_use()?;
                    // If both units support it, SDP takes the sums while they are computed. Errors of SDP are found after the
                    // convolution.
                    let decoded = flying.get([cdma, csc, cmac_a, cmac_b, cacc, rdma, points], || {
                        let (convolution, form) = conv::flying_sums(config, &blocks)?;
                        let points = sdp::Decoded::new(isa, sdp.like, config, rdma, points, form).ok()??;
                        let apart = convolution.reads().and_then(|reads| points.apart(&reads));
                        Some((convolution, points, apart))
                    });
                    if let Some((convolution, points, apart)) = decoded.as_deref() {
                        let flying = sdp::OnFlying::new(points, sdp);
                        let mut run = |memory: &dyn Memory, into: Option<&mut [u8]>| {
                            let sink = flying.sink(memory);
                            let done = conv::run_into(conv, convolution, memory, &sink, into);
                            done.map(|done| (done, sink.found()))
                        };
                        // Where the output shares no byte with what is read, it needs no copy.
                        let mut written = None;
                        let is_written = apart.is_some_and(|span| {
                            memory.beside(span, &mut |rest, into| written = Some(run(rest, Some(into))))
                        });
                        let (done, found) = written.unwrap_or_else(|| run(memory, None))?;
                        status.extend(done.status);
                        sums = done.output;
                        if sums.is_none() {
                            let bytes = (!is_written).then(|| conv.bytes(convolution));
                            let done = flying.finish(&found, bytes, memory)?;
                            status.extend(done.status);
                            if let Some((form, bytes)) = done.output.zip(bytes) {
                                let input = Some(pdp::Input::Bytes(form, bytes));
                                let done = pdp::run(config, of(Block::PdpRdma), of(Block::Pdp), input, memory)?;
                                status.extend(done.status);
                            }
                            return Ok(());
                        }
                    }
                    if sums.is_none() {
                        let done = conv::run(conv, config, &blocks, memory)?;
                        status.extend(done.status);
                        sums = Some(done.output);
                    }
                }
                let done = sdp::run(sdp, config, of(Block::SdpRdma), of(Block::Sdp), sums.as_ref(), memory);
                if let Some(sums) = sums {
                    conv.recycle(sums);
                }
                let done = done?;
                status.extend(done.status);
                if pooling {
                    let output = done.output.ok_or_else(|| Stop::unsupported("PDP", "SDP has no output for it"))?;
                    let input = Some(pdp::Input::Samples(&output));
                    let done = pdp::run(config, of(Block::PdpRdma), of(Block::Pdp), input, memory)?;
                    status.extend(done.status);
                }
            }
            Operation::Pdp => {
                status.extend(pdp::run(config, of(Block::PdpRdma), of(Block::Pdp), None, memory)?.status);
            }
            Operation::Cdp => {
                status.extend(cdp::run(cdp, config, of(Block::CdpRdma), of(Block::Cdp), memory)?.status);
            }
            Operation::Rubik => status.extend(rubik::run(config, of(Block::Rbk), memory)?.status),
        }
        Ok(())
    }
}

/// An operation that has started: [`crate::device::Model::start`] gives it, [`StartedOperation::run`] performs it.
#[derive(Debug)]
#[must_use = "the device starts no other operation until this one is performed and finished"]
pub struct StartedOperation {
    pub(crate) epoch: u64,
    pub(crate) config: &'static Config,
    pub(crate) operation: Operation,
    pub(crate) states: Box<UnitStates>,
}

impl StartedOperation {
    /// Performs the operation in `memory`. The device hears of its end by [`crate::device::Model::finish`].
    pub fn run(self, memory: &mut dyn Memory) -> Finished {
        self.run_within(&Limit::NONE, memory)
    }

    /// As [`StartedOperation::run`]; the operation stops with [`Stop::Late`] when it has not ended in time.
    pub fn run_within(self, limit: &Limit, memory: &mut dyn Memory) -> Finished {
        let Self { epoch, config, operation, mut states } = self;
        let result = limit::within(limit, memory, |memory| states.run(operation, config, memory));
        Finished { epoch, operation, states, result }
    }
}

/// An operation that has ended or stopped, before the device is notified.
#[derive(Debug)]
#[must_use = "the device must hear of the operation's end"]
pub struct Finished {
    pub(crate) epoch: u64,
    pub(crate) operation: Operation,
    pub(crate) states: Box<UnitStates>,
    pub(crate) result: Result<(), Stop>,
}

impl Finished {
    /// The blocks that the operation used.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.operation.blocks()
    }

    /// The values, when the operation started, of the registers of a block that it used. `None` for other blocks, and
    /// for BDMA, which has one set of registers per entry of [`Finished::copies`].
    pub fn registers(&self, block: Block) -> Option<&Registers> {
        let used = block != Block::Bdma && self.operation.blocks().any(|used| used == block);
        used.then(|| &self.states.registers[index(block)])
    }

    /// BDMA's registers, as they were for each copy of the group; none for other units.
    pub fn copies(&self) -> &[Registers] {
        if matches!(self.operation, Operation::Bdma) {
            &self.states.copies
        } else {
            &[]
        }
    }
}
