// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rubik: contract, split and merge.
//!
//! - Contract is the second half of a deconvolution: the surfaces of stride-x by stride-y cubes become neighbours in
//!   one wider and higher cube, atom by atom.
//! - Split cuts a feature cube into one plane per channel, with lines that are padded with zeros to whole atoms. Merge
//!   combines planes to a feature cube; its lanes after the last channel are zero.
//!
//! Source: the register specification (RBK), the hardware manual ("RUBIK"), and for bytes outside the cube the C-model
//! (`cmod/rubik`).

mod fast;
mod operation;
pub mod reference;

use self::operation::{done, Operation};

use nvdla_uapi::config::Config;

use crate::memory::{Memory, Stop};
use crate::registers::Registers;
use crate::stream::Done;

/// One operation of Rubik.
pub fn run(config: &Config, registers: &Registers, memory: &mut dyn Memory) -> Result<Done<()>, Stop> {
    match Operation::new(config, registers)? {
        Operation::Contract(contract) => fast::contract(&contract, memory)?,
        Operation::Split(cube, planes, extent) => fast::split(&cube, &planes, &extent, memory)?,
        Operation::Merge(planes, cube, extent) => fast::merge(&planes, &cube, &extent, memory)?,
    }
    Ok(done())
}
