// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP: local response normalisation across channels.
//!
//! Each element is multiplied by a factor. The lookup tables give it for the sum of the squares of the element's
//! neighbours: 3, 5, 7 or 9 channels around it. Integers pass a converter before (9 bits for int8, 17 for int16) and
//! after. fp16 is computed in fp17, its squares and their sum in fp32. Squaring and summing (the table's argument is
//! then the element itself) and multiplying can be switched off. Outside the cube's channels a window reads
//! `DATIN_OFFSET`, which the input converter turns into zero. The lanes after the last channel are computed in the same
//! way, and written.
//!
//! Source: the register specification (CDP, CDP_RDMA), the hardware manual ("CDP"), and for the arithmetic the C-model
//! (`cmod/cdp`, `cmod/hls/cdp_libs`, `cmod/hls_wrapper/cdp_hls_wrapper.cpp`).

mod fast;
mod operation;
pub mod reference;

use self::operation::{done, Operation};

use nvdla_uapi::config::Config;

use crate::conv::Isa;
use crate::lut::Tables;
use crate::memory::{Memory, Stop};
use crate::registers::Registers;
use crate::stream::Done;

/// What CDP keeps from one operation to the next.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The lookup tables.
    pub tables: Tables,
    /// What the last lookup was made into.
    memo: fast::Memo,
}

/// Normalises: one operation of CDP with the registers of its group and of its read DMA's.
pub fn run(
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    run_with(Isa::best(), state, config, rdma, registers, memory)
}

/// As [`run`], with an instruction set that this machine has.
fn run_with(
    isa: Isa,
    state: &mut State,
    config: &Config,
    rdma: &Registers,
    registers: &Registers,
    memory: &mut dyn Memory,
) -> Result<Done<()>, Stop> {
    let operation = Operation::new(config, rdma, registers)?;
    let counts = fast::normalise(isa, &operation, &state.tables, &mut state.memo, memory)?;
    Ok(done(counts))
}

#[cfg(test)]
mod tests;
