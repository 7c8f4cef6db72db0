// SPDX-License-Identifier: MIT OR Apache-2.0

use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{cdp as reg, Block};

use super::float::Floats;
use super::int::Ints;
use crate::lut::cdp::Lookup;
use crate::lut::{Counters, Tables};
use crate::num::convert::fp17_to_fp32;
use crate::registers::Registers;

/// A lookup of random registers, near what networks have.
pub(in crate::lut::cdp) fn random(next: &mut impl FnMut() -> u32, precision: Precision) -> (Lookup, Tables) {
    let half = precision == Precision::Fp16;
    let mut registers = Registers::reset(Block::Cdp);
    let limit = |value: u32| if half { (value % 1000) as f32 * 0.25 } else { 0.0 }.to_bits();
    let value = next();
    for (register, value) in [
        (reg::S_LUT_CFG, next() & 0x71),
        (reg::S_LUT_INFO, (next() % 12) | (next() % 12) << 8 | (next() % 14) << 16),
        (reg::S_LUT_LE_START_LOW, if half { limit(value) } else { value % 5000 }),
        (reg::S_LUT_LO_START_LOW, if half { limit(value / 7) } else { value % 700 }),
        (reg::S_LUT_LE_END_LOW, next()),
        (reg::S_LUT_LO_END_LOW, next()),
        (reg::S_LUT_LE_SLOPE_SCALE, next() * (next() & 1)),
        (reg::S_LUT_LO_SLOPE_SCALE, next() * (next() & 1)),
    ] {
        registers.set(register, value & register.writable);
    }
    let mut tables = Tables::default();
    for (access, entries) in [(1 << 17, 65), (3 << 16, 257)] {
        tables.write_access(access);
        for _ in 0..entries {
            tables.write_data(if half { next() & 0xbfff } else { next() });
        }
    }
    (Lookup::new(&registers, precision).unwrap(), tables)
}

pub(in crate::lut::cdp) fn numbers() -> impl FnMut() -> u32 {
    let mut state = 3u64;
    move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 32) as u32
    }
}

pub(in crate::lut::cdp) fn class(counters: Counters) -> u32 {
    let Counters { under, over, hybrid, le_hit, lo_hit } = counters;
    [under, over, hybrid, le_hit, lo_hit].iter().position(|&count| count == 1).unwrap() as u32
}

#[test]
fn floats_are_the_lookup_s() {
    let mut next = numbers();
    let (mut held, mut all) = (0, 0);
    for _ in 0..300 {
        let (lookup, tables) = random(&mut next, Precision::Fp16);
        let Some((floats, exponent)) = Floats::new(&lookup, &tables) else { continue };
        for _ in 0..40 {
            let sums = std::array::from_fn(|_| f32::from_bits(0x3000_0000 + next() % 0x1800_0000));
            let answers = if exponent { floats.get::<true>(&sums) } else { floats.get::<false>(&sums) };
            for (i, sum) in sums.into_iter().enumerate() {
                all += 1;
                if answers.odd[i] {
                    continue;
                }
                held += 1;
                let mut counters = Counters::default();
                let expected = lookup.float(&tables, sum.to_bits(), &mut counters);
                assert_eq!(answers.factors[i].to_bits(), fp17_to_fp32(expected), "{sum} in {lookup:?}");
                assert_eq!(answers.classes[i], class(counters), "{sum} in {lookup:?}");
            }
        }
    }
    assert!(all > 50_000 && held * 2 > all, "{held} of {all}");
}

#[test]
fn integers_are_the_lookup_s() {
    let mut next = numbers();
    let (mut held, mut all) = (0, 0);
    for _ in 0..300 {
        let (lookup, tables) = random(&mut next, Precision::Int16);
        let Some((ints, exponent)) = Ints::new(&lookup, &tables) else { continue };
        for _ in 0..40 {
            let sums = std::array::from_fn(|_| i64::from(next() >> (next() % 32)) << (next() % 6));
            let answers = if exponent { ints.get::<true>(&sums) } else { ints.get::<false>(&sums) };
            for (i, sum) in sums.into_iter().enumerate() {
                all += 1;
                if answers.odd[i] {
                    continue;
                }
                held += 1;
                let mut counters = Counters::default();
                let expected = lookup.int(&tables, sum, &mut counters);
                assert_eq!(answers.factors[i], i64::from(expected), "{sum} in {lookup:?}");
                assert_eq!(answers.classes[i], class(counters), "{sum} in {lookup:?}");
            }
        }
    }
    assert!(all > 50_000 && held * 2 > all, "{held} of {all}");
}
