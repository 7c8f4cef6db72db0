// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/lut/cdp/lookup.rs`.

use nvdla_model::lut::cdp::Lookup;
use nvdla_model::lut::{Counters, Tables};
use nvdla_model::num::convert::fp16_to_fp17;
use nvdla_uapi::reg::cdp as reg;
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{Block, Register};

use super::{ramp, registers};

fn lookup(precision: Precision, set: &[(Register, u32)]) -> Lookup {
    Lookup::new(&registers(Block::Cdp, set), precision).unwrap()
}

#[test]
fn linear_tables_interpolate_and_extend() {
    let lookup = lookup(
        Precision::Int8,
        &[
            (reg::S_LUT_CFG, 0x71),
            (reg::S_LUT_INFO, 2 << 16),
            (reg::S_LUT_LO_START_LOW, 100),
            (reg::S_LUT_LO_END_LOW, 100 + 4 * 256),
            (reg::S_LUT_LO_SLOPE_SCALE, 0x0003_0002),
        ],
    );
    let (tables, mut counters) = (ramp(), Counters::default());
    assert_eq!(lookup.int(&tables, 100 + 4 * 7 + 1, &mut counters), 73, "a quarter of ten rounds up");
    assert_eq!(lookup.int(&tables, 90, &mut counters), -20);
    assert_eq!(lookup.int(&tables, 100 + 4 * 256 + 5, &mut counters), 2575);
    assert_eq!(counters.under + counters.over + counters.lo_hit + counters.le_hit + counters.hybrid, 3);
}

#[test]
fn an_exponential_table_counts_in_powers_of_two() {
    let lookup = lookup(Precision::Int16, &[(reg::S_LUT_INFO, 3), (reg::S_LUT_LO_START_LOW, 1000)]);
    let (tables, mut counters) = (ramp(), Counters::default());
    assert_eq!(lookup.int(&tables, 8, &mut counters), 0);
    assert_eq!(lookup.int(&tables, 24, &mut counters), 15, "half way between 16 and 32");
    assert_eq!(lookup.int(&tables, 7, &mut counters), 0, "below the first entry, slope 0");
}

#[test]
fn floats_interpolate_in_fp17() {
    let mut tables = Tables::default();
    tables.write_access((3 << 16) | 4);
    tables.write_data(0x3c00);
    tables.write_data(0x4000);
    let lookup = lookup(Precision::Fp16, &[(reg::S_LUT_CFG, 0x71)]);
    let answer = lookup.float(&tables, 4.5f32.to_bits(), &mut Counters::default());
    assert_eq!(answer, fp16_to_fp17(0x3e00));
}
