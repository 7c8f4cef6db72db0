// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks of an idle device by its registers alone: whether they hold what is written, whether its interrupt arrives, whether its
//! reset has an effect, and where its registers are if they are not where they should be.
//!
//! Source: the register specification (`spec/manual`): GLB `S_INTR_SET` sets bits of `S_INTR_STATUS`, and the interrupt line is high
//! while `S_INTR_STATUS` has a bit that `S_INTR_MASK` has not.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use nvdla_engine::{identify, Hardware};
use nvdla_uapi::config::{Config, NV_FULL_VERSION, NV_SMALL_VERSION};
use nvdla_uapi::reg::{cacc, cdma, glb, sdp, Block, Family, Register};

use super::transport::Transport;
use super::window::NO_ANSWER;

/// How long an interrupt may take.
const ARRIVAL: Duration = Duration::from_secs(1);
/// How long to wait for an interrupt that must not come.
const SILENCE: Duration = Duration::from_millis(20);
/// Interrupts without a cause in a row, after which there is no doubt. The first may have been on its way.
const WITHOUT_CAUSE: usize = 4;

/// Registers of several blocks that hold any value and have no effect while no operation is enabled.
const HELD: [(Block, Register); 4] = [
    (Block::Glb, glb::S_INTR_MASK),
    (Block::Cdma, cdma::D_DATAIN_SIZE_0),
    (Block::Cacc, cacc::D_DATAOUT_SIZE_0),
    (Block::Sdp, sdp::D_DATA_CUBE_WIDTH),
];
/// The values that are written to them, as far as they have bits for them.
const PATTERNS: [u32; 2] = [0xaaaa_aaaa, 0x5555_5555];

/// A register that holds another value than it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongValue {
    block: Block,
    register: Register,
    /// Its offset in the register window.
    pub offset: u32,
    /// The value that was written.
    pub written: u32,
    /// The value that was read after that.
    pub read: u32,
}

impl fmt::Display for WrongValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block, register, offset, written, read } = *self;
        let name = block.register_name(register);
        write!(f, "{} {name} at {offset:#x} reads {read:#x} after {written:#x} was written", block.name())
    }
}

/// What a check of the interrupt has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InterruptCheck {
    /// It arrives, after that time.
    Arrives(Duration),
    /// The status register does not hold the bits that were set.
    NotSet(WrongValue),
    /// None arrives.
    Missing,
    /// The line is high after the first interrupt, and no second one arrives.
    Once,
    /// Interrupts arrive while the line is low.
    WithoutCause,
}

/// What a check of the reset has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResetCheck {
    /// No register holds what was written before.
    Works,
    /// The kernel has no way to reset the device.
    None,
    /// A register does not hold what was written, so nothing is known of the reset.
    NotWritten(WrongValue),
    /// So many registers of so many hold what was written before. The first of them, with its value.
    WithoutEffect {
        /// The registers that hold it.
        kept: usize,
        /// All registers that were looked at.
        all: usize,
        /// The first of those that hold it.
        first: WrongValue,
    },
}

/// A register's offset in the window, and its writable bits.
fn place(config: &Config, block: Block, register: Register) -> (u32, u32) {
    let offset = block.base(config.family).unwrap_or_default() + u32::from(register.offset);
    let writable = if config.family == Family::NvFull { register.writable_nv_full } else { register.writable };
    (offset, writable)
}

/// Writes a pattern to the registers of [`HELD`].
fn write(transport: &mut dyn Transport, config: &Config, pattern: u32) {
    for (block, register) in HELD {
        let (offset, writable) = place(config, block, register);
        transport.write(offset, pattern & writable);
    }
}

/// Reads the registers of [`HELD`], after the pattern was written.
fn read<'a>(
    transport: &'a mut dyn Transport,
    config: &'a Config,
    pattern: u32,
) -> impl Iterator<Item = WrongValue> + 'a {
    HELD.into_iter().map(move |(block, register)| {
        let (offset, writable) = place(config, block, register);
        WrongValue { block, register, offset, written: pattern & writable, read: transport.read(offset) }
    })
}

/// The first register that does not hold what is written to it. The registers hold other values after that.
pub(super) fn registers(transport: &mut dyn Transport, config: &Config) -> Option<WrongValue> {
    PATTERNS.into_iter().find_map(|pattern| {
        write(transport, config, pattern);
        read(transport, config, pattern).find(|found| found.read != found.written)
    })
}

/// Checks the interrupt of an idle device, whose mask is clear. The status register is clear after that.
pub(super) fn interrupt(transport: &mut dyn Transport, config: &Config) -> io::Result<InterruptCheck> {
    let found = examine(transport, config);
    let (status, all) = place(config, Block::Glb, glb::S_INTR_STATUS);
    transport.write(status, all);
    // The interrupts of these bits belong to no task.
    drain(transport)?;
    found
}

/// Takes interrupts that have arrived, and unmasks the interrupt.
fn drain(transport: &mut dyn Transport) -> io::Result<()> {
    transport.unmask()?;
    for _ in 0..WITHOUT_CAUSE {
        if !transport.wait(Duration::ZERO)? {
            break;
        }
        transport.unmask()?;
    }
    Ok(())
}

fn examine(transport: &mut dyn Transport, config: &Config) -> io::Result<InterruptCheck> {
    let (set, _) = place(config, Block::Glb, glb::S_INTR_SET);
    let (status, all) = place(config, Block::Glb, glb::S_INTR_STATUS);
    transport.write(status, all);
    let mut without_cause = 0;
    transport.unmask()?;
    while transport.wait(SILENCE)? {
        without_cause += 1;
        if without_cause == WITHOUT_CAUSE {
            return Ok(InterruptCheck::WithoutCause);
        }
        transport.unmask()?;
    }
    let began = Instant::now();
    for bit in [glb::S_INTR_SET::SDP_DONE_SET0.mask(), glb::S_INTR_SET::SDP_DONE_SET1.mask()] {
        transport.write(set, bit);
        let found = transport.read(status);
        if found != bit {
            let wrong = WrongValue {
                block: Block::Glb,
                register: glb::S_INTR_STATUS,
                offset: status,
                written: bit,
                read: found,
            };
            return Ok(InterruptCheck::NotSet(wrong));
        }
        if !transport.wait(ARRIVAL)? {
            return Ok(InterruptCheck::Missing);
        }
        if transport.has_line() {
            transport.unmask()?;
            if !transport.wait(ARRIVAL)? {
                return Ok(InterruptCheck::Once);
            }
        }
        transport.write(status, bit);
        // A line that was high until now may have given one more.
        drain(transport)?;
    }
    Ok(InterruptCheck::Arrives(began.elapsed()))
}

/// Checks the reset of an idle device. The registers hold other values after that.
pub(super) fn reset(transport: &mut dyn Transport, config: &Config) -> io::Result<ResetCheck> {
    if let Some(wrong) = registers(transport, config) {
        return Ok(ResetCheck::NotWritten(wrong));
    }
    if !transport.reset()? {
        return Ok(ResetCheck::None);
    }
    let kept: Vec<_> =
        read(transport, config, PATTERNS[PATTERNS.len() - 1]).filter(|found| found.read == found.written).collect();
    Ok(match kept.first() {
        None => ResetCheck::Works,
        Some(&first) => ResetCheck::WithoutEffect { kept: kept.len(), all: HELD.len(), first },
    })
}

/// The registers as they would be if the window were connected in another way.
struct Elsewhere<'a> {
    transport: &'a mut dyn Transport,
    offset: u32,
    swapped: bool,
}

impl Hardware for Elsewhere<'_> {
    fn read(&mut self, offset: u32) -> u32 {
        let place = offset.saturating_add(self.offset);
        let value = if place < self.transport.window() { self.transport.read(place) } else { NO_ANSWER };
        if self.swapped {
            value.swap_bytes()
        } else {
            value
        }
    }

    fn write(&mut self, _offset: u32, _value: u32) {}
}

/// Says where an NVDLA answers that does not answer where it should, or what its registers read. Writes no register.
pub(super) fn whereabouts(transport: &mut dyn Transport) -> String {
    let answers = |transport: &mut dyn Transport, offset, swapped| {
        identify(&mut Elsewhere { transport, offset, swapped }).map(|identity| identity.config.name)
    };
    if let Some(name) = answers(transport, 0, true) {
        return format!("the bytes of each register are in the wrong order: so swapped, {name} answers");
    }
    // A few words, or pages.
    let pages = (Block::SIZE..transport.window()).step_by(Block::SIZE as usize);
    for offset in [4, 8, 16, 64, 0x100].into_iter().chain(pages) {
        if let Some(name) = answers(transport, offset, false) {
            return format!("{name} answers {offset:#x} bytes further up: the window begins too low");
        }
    }
    let [first, second, quarter] = [0, Block::SIZE, Block::SIZE / 4].map(|offset| transport.read(offset));
    let is_version = |value| [NV_SMALL_VERSION, NV_FULL_VERSION].contains(&value);
    if is_version(first) && !is_version(second) && is_version(quarter) {
        return "the registers lie four times as close as they should: the bridge must drop the two low bits of addresses".into();
    }
    format!("registers 0 and {:#x} read {first:#x} and {second:#x}", Block::SIZE)
}
