// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of the model that need only its public interface, one module per source file.

mod cfgrom;
mod conv_convert;
mod conv_pixel;
mod conv_winograd;
mod glb;
mod lut_cdp;
mod lut_sdp;
mod lut_tables;
mod num_convert;
mod num_fixed;
mod num_float;

use nvdla_model::lut::Tables;
use nvdla_model::registers::Registers;
use nvdla_uapi::reg::{Block, Register};

/// Lookup tables with entries that are ten times their index.
fn ramp() -> Tables {
    let mut tables = Tables::default();
    for (access, entries) in [(1 << 17, 65), (3 << 16, 257)] {
        tables.write_access(access);
        for index in 0..entries {
            tables.write_data(index * 10);
        }
    }
    tables
}

/// A block's registers, of which some are not as after reset.
fn registers(block: Block, set: &[(Register, u32)]) -> Registers {
    let mut registers = Registers::reset(block);
    for &(register, value) in set {
        registers.set(register, value);
    }
    registers
}
