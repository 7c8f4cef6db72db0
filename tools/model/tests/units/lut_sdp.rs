// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/lut/sdp.rs`.

use nvdla_model::lut::sdp::Lookup;
use nvdla_model::lut::{Counters, Tables};
use nvdla_model::Like;
use nvdla_uapi::reg::sdp as reg;
use nvdla_uapi::reg::{Block, Register};

use super::{ramp, registers};

fn lookup(set: &[(Register, u32)]) -> Lookup {
    Lookup::new(&registers(Block::Sdp, set), Like::Rtl).unwrap()
}

#[test]
fn linear_interpolation_and_slopes() {
    let lookup = lookup(&[
        (reg::S_LUT_CFG, 0x71),
        (reg::S_LUT_INFO, 2 << 16),
        (reg::S_LUT_LO_START, 100),
        (reg::S_LUT_LO_END, 100 + 4 * 256),
        (reg::S_LUT_LO_SLOPE_SCALE, 0x0003_0002),
    ]);
    let (tables, mut counters) = (ramp(), Counters::default());
    assert_eq!(lookup.int(&tables, 100 + 4 * 7 + 1, &mut counters), 73);
    assert_eq!(lookup.int(&tables, 90, &mut counters), -20);
    assert_eq!(lookup.int(&tables, 100 + 4 * 256 + 5, &mut counters), 2575);
}

#[test]
fn an_exponential_table_continues_from_its_first_entry() {
    let lookup = lookup(&[(reg::S_LUT_INFO, 3), (reg::S_LUT_LE_SLOPE_SCALE, 1), (reg::S_LUT_LO_START, 1000)]);
    let (tables, mut counters) = (ramp(), Counters::default());
    assert_eq!(lookup.int(&tables, 24, &mut counters), 15);
    assert_eq!(lookup.int(&tables, 5, &mut counters), -3);
    assert_eq!((counters.le_hit, counters.under), (1, 1));
    // With an offset of 0 the first entry lies one above the start, which the C-model forgets.
    let set = registers(Block::Sdp, &[(reg::S_LUT_LE_SLOPE_SCALE, 1), (reg::S_LUT_LO_START, 1000)]);
    for (like, below) in [(Like::Rtl, -4), (Like::CModel, -3)] {
        assert_eq!(Lookup::new(&set, like).unwrap().int(&tables, -3, &mut counters), below, "{like:?}");
    }
}

#[test]
fn floats_interpolate_in_fp17() {
    let mut tables = Tables::default();
    tables.write_access((3 << 16) | 4);
    tables.write_data(0x3c00);
    tables.write_data(0x4000);
    let lookup = lookup(&[(reg::S_LUT_CFG, 0x71)]);
    let answer = lookup.float(&tables, 4.5f32.to_bits(), &mut Counters::default());
    assert_eq!(answer, 1.5f32.to_bits());
}

#[test]
fn any_registers_look_up_without_a_panic() {
    let tables = ramp();
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 32) as u32
    };
    for _ in 0..100_000 {
        let lookup = lookup(&[
            (reg::S_LUT_CFG, next() & 0x71),
            (reg::S_LUT_INFO, next()),
            (reg::S_LUT_LE_START, next()),
            (reg::S_LUT_LE_END, next()),
            (reg::S_LUT_LO_START, next()),
            (reg::S_LUT_LO_END, next()),
            (reg::S_LUT_LE_SLOPE_SCALE, next()),
            (reg::S_LUT_LE_SLOPE_SHIFT, next()),
            (reg::S_LUT_LO_SLOPE_SCALE, next()),
            (reg::S_LUT_LO_SLOPE_SHIFT, next()),
        ]);
        let mut counters = Counters::default();
        lookup.int(&tables, next() as i32, &mut counters);
        lookup.float(&tables, next(), &mut counters);
    }
}
