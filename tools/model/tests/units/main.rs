// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of the model that need only its public interface, one module per source file or folder.

mod accesses;
mod cdp;
mod cfgrom;
mod conv;
mod conv_convert;
mod conv_pixel;
mod conv_winograd;
mod device;
mod glb;
mod groups;
mod lut_cdp;
mod lut_sdp;
mod lut_tables;
mod memory;
mod num_convert;
mod num_fixed;
mod num_float;
mod record;
mod rubik;
mod sdp;

#[path = "../support/exercise.rs"]
mod exercise;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "these tests perform no convolution of an image")]
mod support;

use nvdla_model::lut::Tables;
use nvdla_model::registers::Registers;
use nvdla_uapi::reg::{Block, Register};

use support::bytes::set;

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

/// A block's registers after reset, with other values for some.
fn registers(block: Block, values: &[(Register, u32)]) -> Registers {
    let mut registers = Registers::reset(block);
    set(&mut registers, values);
    registers
}
