// SPDX-License-Identifier: MIT OR Apache-2.0

use std::arch::x86_64::*;

use nvdla_uapi::reg::values::Precision;

use super::super::vector::tests::{class, numbers, random};
use super::row::{HALF, STEP};
use super::*;
use crate::conv::Isa;
use crate::lut::{Counters, Tables};
use crate::num::convert::fp17_to_fp32;

const COUNT: usize = 4 * STEP;
const ROW: Row = Row { steps: 2 * STEP, elements: 2 * STEP - 8, is_interleaved: false };

/// Whether the element at that place of two rows counts.
fn counts(at: usize) -> bool {
    at % ROW.steps < ROW.elements
}

/// The counters after these lookups.
fn expected(single: impl Iterator<Item = Counters>) -> [u32; 5] {
    let mut counts = [0; 5];
    single.for_each(|counters| counts[class(counters) as usize] += 1);
    counts
}

#[test]
fn integers_are_the_lookup_s() {
    if Isa::best() != Isa::Avx512 {
        return;
    }
    let mut next = numbers();
    let mut held = 0;
    for case in 0..600 {
        let (lookup, tables) = random(&mut next, Precision::Int16);
        let Some(ints) = int::Ints::wide(&lookup, &tables, [0, 9 << 32]) else { continue };
        let most = if case % 2 == 0 { 9 << 32 } else { 9 << 16 };
        let numbers: [i64; COUNT] = std::array::from_fn(|_| (i64::from(next()) << 4 >> (next() % 36)) % most);
        let right: [_; COUNT] = std::array::from_fn(|at| {
            let mut counters = Counters::default();
            (lookup.int(&tables, numbers[at], &mut counters), counters)
        });
        let other = |sum| lookup.int(&tables, sum, &mut Counters::default());
        let (mut factors, mut found) = ([0; COUNT], [0; 5]);
        let counted = || (0..COUNT).filter(|&at| counts(at));
        // SAFETY: the processor has what `Isa::Avx512` stands for.
        unsafe { ints.factors(&numbers.map(|sum| sum as f64), ROW, &mut factors, &mut found, other) };
        counted().for_each(|at| assert_eq!(factors[at], right[at].0, "{} in {lookup:?}", numbers[at]));
        assert_eq!(found, expected(counted().map(|at| right[at].1)), "{lookup:?}");
        held += usize::from(ints.is_complete());
        let Some(ints) = int::Ints::narrow(&lookup, &tables, [0, 9 << 16]) else { continue };
        if most == 9 << 32 {
            continue;
        }
        // Even elements first.
        let place = |at: usize| at / STEP * STEP + at % HALF * 2 + at % STEP / HALF;
        let sums: [i32; COUNT] = std::array::from_fn(|at| numbers[place(at)] as i32);
        let (mut factors, mut found) = ([0; COUNT], [0; 5]);
        let row = Row { is_interleaved: true, ..ROW };
        // SAFETY: as above.
        unsafe { ints.factors(&sums, row, &mut factors, &mut found, other) };
        counted().for_each(|at| assert_eq!(factors[at], right[at].0, "{} in {lookup:?}", numbers[at]));
        assert_eq!(found, expected(counted().map(|at| right[at].1)), "{lookup:?}");
    }
    assert!(held > 100, "{held} lookups without slopes");
}

#[test]
fn floats_are_the_lookup_s() {
    if Isa::best() != Isa::Avx512 {
        return;
    }
    let mut next = numbers();
    let mut held = 0;
    for case in 0..600 {
        let (lookup, mut tables) = random(&mut next, Precision::Fp16);
        if case % 4 != 0 {
            // Numbers that fall slowly, or of both signs and zero.
            for (access, entries) in [(1 << 17, 65), (3 << 16, 257)] {
                tables.write_access(access);
                for entry in 0..entries {
                    let signed = [0, 0x3000 + next() % 0x1000, 0xb000 + next() % 0x1000][next() as usize % 3];
                    tables.write_data(if case % 4 == 1 { signed } else { 0x4000 - 11 * entry - next() % 8 });
                }
            }
        }
        let Some(floats) = float::Floats::new(&lookup, &tables, true) else { continue };
        let sums: [f32; COUNT] = std::array::from_fn(|_| f32::from_bits(0x2800_0000 + next() % 0x2800_0000));
        let sums = sums.map(|sum| if sum > 3e10 { 0.0 } else { sum });
        let (mut factors, mut found) = ([0.0; COUNT], [0; 5]);
        let single = |sum: f32, counters: &mut Counters| {
            f32::from_bits(fp17_to_fp32(lookup.float(&tables, sum.to_bits(), counters)))
        };
        // SAFETY: the processor has what `Isa::Avx512` stands for.
        unsafe { floats.factors(&sums, ROW, &mut factors, &mut found, |sum| single(sum, &mut Counters::default())) };
        let mut right = Vec::new();
        for at in (0..COUNT).filter(|&at| counts(at)) {
            let mut counters = Counters::default();
            let factor = single(sums[at], &mut counters);
            assert_eq!(
                factors[at].to_bits(),
                factor.to_bits(),
                "{} in {lookup:?}: {}, {factor}",
                sums[at],
                factors[at]
            );
            right.push(counters);
        }
        assert_eq!(found, expected(right.into_iter()), "{lookup:?}");
        held += 1;
    }
    assert!(held > 300, "{held} lookups");
}

/// The answers of 64 sums by planes.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn answers(planes: &planes::Planes, sums: &[i64; 2 * STEP]) -> [i16; 2 * STEP] {
    // What answers sixteen is not asked.
    #[derive(Clone, Copy)]
    struct None;
    impl answer::Answer for None {
        unsafe fn half(self, _: __m512i) -> __m512i {
            unreachable!("only two steps are answered")
        }
    }
    let part = |part: usize| {
        let lanes: [i32; HALF] = std::array::from_fn(|lane| sums[part / 2 * STEP + 2 * lane + part % 2] as i32);
        // SAFETY: sixteen numbers.
        unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
    };
    let mut found = [0; 2 * STEP];
    // SAFETY: the processor has what this function needs.
    let answers = unsafe { answer::Answer::double(planes.beside(None), [part(0), part(1), part(2), part(3)]) };
    for (into, answers) in found.as_chunks_mut::<STEP>().0.iter_mut().zip(answers) {
        // SAFETY: room for 32 numbers.
        unsafe { _mm512_storeu_si512(into.as_mut_ptr().cast(), answers) };
    }
    found
}

#[test]
fn tables_that_fall_or_rise_are_the_lookup_s() {
    if Isa::best() != Isa::Avx512 {
        return;
    }
    let mut next = numbers();
    let mut held = 0;
    for case in 0..2000 {
        let (lookup, mut tables) = random(&mut next, Precision::Int16);
        if case % 4 != 0 {
            // Entries that fall or rise throughout, slowly or as fast as may be.
            let most = [3, 250, 127][case % 3];
            let mut entry = 0x7fff - (next() % 99) as i32;
            tables.write_access(3 << 16);
            for _ in 0..257 {
                tables.write_data((if case % 8 < 4 { entry } else { -entry }) as u32);
                entry = (entry - (next() % most) as i32).max(-0x8000);
            }
        }
        let Some(planes) = planes::Planes::new(&lookup.lo, tables.lo()) else { continue };
        let range = &lookup.lo;
        let sums: [i64; 2 * STEP] = std::array::from_fn(|_| range.start + i64::from(next()) % (256i64 << range.select));
        // SAFETY: the processor has what `Isa::Avx512` stands for.
        let found = unsafe { answers(&planes, &sums) };
        for (sum, found) in sums.into_iter().zip(found) {
            let right = vector_answer(&tables, sum - range.start, range.select);
            assert_eq!(found, right, "{} of {lookup:?}", sum - range.start);
        }
        held += 1;
    }
    assert!(held > 500, "{held} tables");
}

/// Between two entries of LO, half away from zero.
fn vector_answer(tables: &Tables, distance: i64, select: i32) -> i16 {
    let at = (distance >> select) as usize;
    let [low, high] = [tables.lo()[at], tables.lo()[at + 1]].map(i64::from);
    let fraction = ((distance & ((1 << select) - 1)) << 16) >> select;
    let product = (high - low) * fraction;
    let rounded = (product.abs() + (1 << 15)) >> 16;
    (low + product.signum() * rounded) as i16
}
