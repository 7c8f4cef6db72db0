// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What is known of a task that is to be ended: the values of all registers, and the operations that ran.
//!
//! Reading the registers of both groups of a unit changes which of them software accesses. The device must therefore be reset
//! after that.

use super::hardware::Hardware;
use super::image::Program;
use super::slot::Operation;
use crate::uapi::config::Config;
use crate::uapi::dump::{kind, Writer};
use crate::uapi::reg::{bdma, cdma, cdp, sdp, Block};

/// Registers whose reads have an effect: the next entry of a lookup table is selected.
const SELECTING: [(Block, u16); 2] =
    [(Block::Sdp, sdp::S_LUT_ACCESS_DATA.offset), (Block::Cdp, cdp::S_LUT_ACCESS_DATA.offset)];

/// Writes the values of all registers that the configuration has.
pub(crate) fn registers(hw: &mut impl Hardware, config: &Config, out: &mut Writer<'_>) {
    for group in 0..2 {
        out.section(kind::REGISTERS);
        out.put(group);
        for block in Block::ALL {
            let exists = match block {
                Block::PdpRdma | Block::Pdp => config.pdp,
                Block::CdpRdma | Block::Cdp => config.cdp,
                Block::Rbk => config.rubik,
                Block::Bdma => config.bdma,
                Block::Cvif => config.secondary_memif,
                _ => true,
            };
            let Some(base) = block.base(config.family).filter(|_| exists) else { continue };
            let grouped = block as usize >= Block::Cdma as usize;
            if group == 1 && !grouped {
                continue;
            }
            if grouped {
                hw.write(base + u32::from(cdma::S_POINTER.offset), group);
            }
            for described in block.registers() {
                let offset = described.register.offset;
                if !SELECTING.contains(&(block, offset)) {
                    out.put(base + u32::from(offset));
                    out.put(hw.read(base + u32::from(offset)));
                }
            }
        }
    }
}

/// Writes an operation and the register values that it is programmed with. The caller has begun the section.
pub(crate) fn programmed(config: &Config, operation: &Operation, out: &mut Writer<'_>) {
    match &operation.program {
        Program::Blocks(image) => {
            for (block, registers) in image.blocks() {
                let base = block.base(config.family).unwrap_or(0);
                for (word, value) in registers {
                    out.put(base + word as u32 * 4);
                    out.put(value);
                }
            }
        }
        Program::Bdma(transfers) => {
            let base = Block::Bdma.base(config.family).unwrap_or(0) + u32::from(bdma::CFG_SRC_ADDR_LOW.offset);
            for words in transfers.used() {
                for (word, &value) in words.iter().enumerate() {
                    out.put(base + word as u32 * 4);
                    out.put(value);
                }
            }
        }
    }
}
