// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/lut/tables.rs`.

use nvdla_model::lut::{Position, Priorities, Tables};
use nvdla_uapi::reg::values::LutTable;

const WRITE_LO: u32 = (1 << 17) | (1 << 16);

#[test]
fn writes_advance_to_the_last_entry() {
    let mut tables = Tables::default();
    tables.write_access(WRITE_LO | 255);
    for value in [1, 2, 3] {
        tables.write_data(value);
    }
    assert_eq!((tables.lo()[255], tables.lo()[256]), (1, 3));
    assert_eq!(tables.read_access(), WRITE_LO | 256);
    assert_eq!(tables.read_data(), 0, "the access is a write");
}

#[test]
fn reads_advance() {
    let mut tables = Tables::default();
    tables.write_access(1 << 17);
    tables.write_data(0xffff);
    tables.write_data(7);
    tables.write_access(0);
    assert_eq!((tables.read_data(), tables.read_data(), tables.read_data()), (0xffff, 7, 0));
    tables.write_data(5);
    assert_eq!(tables.le()[3], 0, "the access is a read");
}

#[test]
fn entries_that_do_not_exist_are_ignored() {
    let mut tables = Tables::default();
    tables.write_access((1 << 17) | 0x3ff);
    tables.write_data(1);
    assert_eq!(tables.read_access(), (1 << 17) | 0x3ff);
    tables.write_access(0x41);
    assert_eq!(tables.read_data(), 0);
}

#[test]
fn one_hit_wins_and_the_priorities_decide_the_rest() {
    let hit = Position::Hit { index: 0, fraction: 0 };
    let rule = Priorities { under: LutTable::Lo, over: LutTable::Le, hybrid: LutTable::Lo };
    for (le, lo, table) in [
        (Position::Under, Position::Under, LutTable::Lo),
        (Position::Over, Position::Over, LutTable::Le),
        (hit, Position::Over, LutTable::Le),
        (Position::Under, hit, LutTable::Lo),
        (hit, hit, LutTable::Lo),
        (Position::Under, Position::Over, LutTable::Lo),
    ] {
        assert_eq!(rule.choose(le, lo), table, "{le:?} {lo:?}");
    }
}
