// SPDX-License-Identifier: MIT OR Apache-2.0

use nvdla_uapi::reg::values::Precision;

use super::super::float::Floats;
use super::super::STEP;
use super::walk::Job;
use super::*;
use crate::conv::Isa;
use crate::lut::cdp::vector::tests::{class, numbers, random};
use crate::lut::{Counters, Tables};
use crate::num::convert::{fp16_to_fp17, fp16_to_fp32, fp17_to_fp16};
use crate::num::Fp17;

const ROWS: usize = 3;
const STEPS: usize = 2 * STEP;
const COUNTED: usize = STEPS - 8;

/// Tables whose numbers fall, of one sign, from some number on; some end in zeros or with a step.
fn falling(next: &mut impl FnMut() -> u32) -> Tables {
    let mut tables = Tables::default();
    let (first, slope) = ([0x3800, 0x3c00, 0x3e00, 0x4800][next() as usize % 4], next() % 40);
    let (sign, last) = (next() & 0x8000 & (next() << 3), 40 + next() % 600);
    for (access, entries) in [(1 << 17, 65), (3 << 16, 257)] {
        tables.write_access(access);
        for entry in 0..entries {
            let number = first - slope * entry - next() % (slope + 1);
            tables.write_data(if entry < last { sign | number } else { 0 });
        }
    }
    tables
}

/// Single values, or what may be a sum of squares: any, or near a power of two.
fn sum(next: &mut impl FnMut() -> u32, squares: bool, spread: u32) -> f32 {
    let half = next() as u16 & 0xbfff;
    match next() % 8 {
        _ if !squares => f32::from_bits(fp16_to_fp32(half)),
        0 => 0.0,
        1 => f32::from_bits((0x3f80_0000 + ((next() % 40) << 23)).wrapping_sub(next() % 3)).min(3e10),
        2 => 2f32.powi(-48) * (1 + next() % 3) as f32,
        _ => f32::from_bits(0x4b00_0000u32.wrapping_sub((next() % 24) << 23) + next() % spread).min(3e10),
    }
}

#[test]
fn results_are_the_lookup_s() {
    if Isa::best() != Isa::Avx512 {
        return;
    }
    let mut next = numbers();
    let (mut held, mut kinds) = (0, [0; 3]);
    for case in 0..3000 {
        let (lookup, _) = random(&mut next, Precision::Fp16);
        let tables = falling(&mut next);
        let squares = case % 4 != 0;
        let Some(floats) = Floats::new(&lookup, &tables, squares) else { continue };
        let Some(native) = Native::new(&floats, &lookup, &tables, squares) else { continue };
        held += 1;
        native.tables.iter().for_each(|table| kinds[table.order()] += 1);
        let spread = 1 << (8 + next() % 20);
        let sums: Vec<f32> = (0..ROWS * STEPS).map(|_| sum(&mut next, squares, spread)).collect();
        let elements: Vec<u16> = (0..ROWS * STEPS).map(|_| next() as u16 & !(0x4000 & next() as u16)).collect();
        let elements: Vec<u16> =
            elements.into_iter().map(|bits| if bits & 0x7c00 == 0x7c00 { bits ^ 0x4000 } else { bits }).collect();
        // Even elements' sums before those of odd ones.
        let order = |at: usize| at / STEP * STEP + at % STEP / 2 + at % 2 * STEP / 2;
        let mut ordered = vec![0.0; sums.len()];
        sums.iter().enumerate().for_each(|(at, &sum)| ordered[order(at)] = sum);
        for skip_multiply in [true, false] {
            let (mut into, mut counts, mut expected) = (vec![0; 2 * sums.len()], [0; 5], [0; 5]);
            let job = Job {
                sums: &ordered,
                elements: &elements,
                stride: STEPS,
                steps: STEPS,
                counted: COUNTED,
                skip_multiply,
            };
            // SAFETY: there is a `Native` only where the processor has what it needs.
            unsafe { native.results(job, &mut counts, &mut into) };
            for at in (0..sums.len()).filter(|at| at % STEPS < COUNTED) {
                let mut counters = Counters::default();
                let factor = lookup.float(&tables, sums[at].to_bits(), &mut counters);
                expected[class(counters) as usize] += 1;
                let product = Fp17::mul(fp16_to_fp17(elements[at]), factor);
                let right = fp17_to_fp16(if skip_multiply { factor } else { product });
                let found = u16::from_le_bytes([into[2 * at], into[2 * at + 1]]);
                assert_eq!(found, right, "{} and {:#x} in {lookup:?}, {native:?}", sums[at], elements[at]);
            }
            assert_eq!(counts, expected, "{lookup:?}");
        }
    }
    assert!(held > 500 && kinds.iter().all(|&kind| kind > 100), "{held} lookups, {kinds:?}");
}
