// SPDX-License-Identifier: MIT OR Apache-2.0

use super::super::rounded::Rounded;
use super::super::shift::{Shift16, Shift8};
use super::*;
use crate::conv::Isa;

/// Numbers of sixteen bits, half of them the largest and the smallest there are and what lies around zero.
fn numbers(next: &mut impl FnMut() -> u32, bits: u32) -> [i16; STEP] {
    let most = i16::MAX >> (16 - bits);
    std::array::from_fn(|_| match next() % 12 {
        0 => most,
        1 => -most - 1,
        2 => -most,
        3 => 0,
        4 => 1,
        5 => -1,
        _ => (next() as i16) >> (16 - bits),
    })
}

fn random() -> impl FnMut() -> u32 {
    let mut state = 11u64;
    move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 32) as u32
    }
}

fn converter(next: &mut impl FnMut() -> u32) -> Converter {
    let offset = [0, (next() as i32) >> (2 + next() % 30)][next() as usize % 2];
    let scale = [1, -1, i16::MIN, i16::MAX, 129, -43, next() as i16, next() as i16 >> 9, 0][next() as usize % 9];
    Converter { offset, scale, shift: [next() % 64, next() % 32, next() % 18][next() as usize % 3] }
}

/// Each element's result and how many of the first `left` are counted, by the converter itself.
fn expected<const BITS: u32>(
    converter: Converter,
    factors: [i16; STEP],
    values: [i16; STEP],
    left: usize,
) -> ([i32; STEP], u32) {
    let results: [(i32, bool); STEP] =
        std::array::from_fn(|at| converter.apply_counted::<BITS>(i64::from(factors[at]) * i64::from(values[at])));
    (results.map(|(result, _)| result), results[..left].iter().map(|&(_, counted)| u32::from(counted)).sum())
}

/// Vectors as a step has them: factors in the high halves of even and odd lanes, above anything.
#[target_feature(enable = "avx512f")]
fn operands(factors: &[i16; STEP], values: &[i16; STEP]) -> ([__m512i; 2], __m512i) {
    // SAFETY: 32 numbers each.
    let [factors, values] =
        unsafe { [_mm512_loadu_si512(factors.as_ptr().cast()), _mm512_loadu_si512(values.as_ptr().cast())] };
    let junk = _mm512_set1_epi32(0x7b3d);
    ([_mm512_or_si512(_mm512_slli_epi32::<16>(factors), junk), factors], values)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,popcnt")]
fn bytes_are_the_converter_s() {
    let mut next = random();
    let mut shifts = 0;
    for _ in 0..20_000 {
        let (factors, values) = (numbers(&mut next, 16), numbers(&mut next, 9));
        let left = next() as usize % (STEP + 1);
        let (operands, converter) = (operands(&factors, &values), converter(&mut next));
        let (right, counted) = expected::<8>(converter, factors, values, left);
        let mut into = [0; STEP];
        let check = |found, into: [u8; STEP], way: &str| {
            assert_eq!(into.map(|byte| i32::from(byte as i8)), right, "{way}: {converter:?} {factors:?} {values:?}");
            assert_eq!(found, counted, "{way}: {converter:?} {factors:?} {values:?}");
        };
        if let Some(scaled) = Scaled::new(converter, 8) {
            let found = scaled.bytes::<true>(products_of(operands.0, operands.1), left, &mut into);
            check(found, into, "limited");
            if !scaled.is_limited() {
                let found = scaled.bytes::<false>(products_of(operands.0, operands.1), left, &mut into);
                check(found, into, "scaled");
            }
        }
        if let Some(shift) = Shift8::new(converter) {
            let found = shift.bytes(operands.0, operands.1, left, &mut into);
            check(found, into, "shifted");
            shifts += 1;
        }
    }
    assert!(shifts > 100, "{shifts} shifts");
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,popcnt")]
fn pairs_are_the_converter_s() {
    let mut next = random();
    let (mut shifts, mut unlimited) = (0, 0);
    for _ in 0..20_000 {
        let (factors, values) = (numbers(&mut next, 16), numbers(&mut next, 16));
        let left = next() as usize % (STEP + 1);
        let (operands, converter) = (operands(&factors, &values), converter(&mut next));
        let (right, counted) = expected::<16>(converter, factors, values, left);
        let mut into = [0; 2 * STEP];
        let check = |found, into: &[u8; 2 * STEP], way: &str| {
            let results: [i32; STEP] =
                std::array::from_fn(|at| i16::from_le_bytes([into[2 * at], into[2 * at + 1]]).into());
            assert_eq!(results, right, "{way}: {converter:?} {factors:?} {values:?}");
            assert_eq!(found, counted, "{way}: {converter:?} {factors:?} {values:?}");
        };
        if let Some(scaled) = Scaled::new(converter, 16) {
            let found = scaled.pairs::<true>(products_of(operands.0, operands.1), left, &mut into);
            check(found, &into, "limited");
            if !scaled.is_limited() {
                let found = scaled.pairs::<false>(products_of(operands.0, operands.1), left, &mut into);
                check(found, &into, "scaled");
                unlimited += 1;
            }
        }
        if let Some(shift) = Shift16::new(converter) {
            let found = shift.pairs(products_of(operands.0, operands.1), left, &mut into);
            check(found, &into, "shifted");
            shifts += 1;
        }
    }
    assert!(shifts > 100 && unlimited > 1000, "{shifts} shifts, {unlimited} without a limit");
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,popcnt")]
fn two_steps_are_the_converter_s() {
    let mut next = random();
    let (mut shifts, mut inside) = (0, 0);
    for case in 0..20_000 {
        let pair = |next: &mut _| [numbers(next, 16), numbers(next, 16)];
        let factors = pair(&mut next);
        let values = [numbers(&mut next, 9), numbers(&mut next, 9)];
        let mut converter = converter(&mut next);
        if case % 2 == 0 {
            // Results of which many lie in int8, some of them half way between two.
            converter = Converter { offset: 0, scale: 1 + (next() % 64) as i16, shift: 17 + next() % 6 };
        }
        let left = (next() as usize % (2 * DOUBLE)).min(DOUBLE);
        let lefts = [left.min(STEP), left.saturating_sub(STEP)];
        let right = [0, 1].map(|step: usize| expected::<8>(converter, factors[step], values[step], lefts[step]));
        // SAFETY: 32 numbers each.
        let load = |numbers: [i16; STEP]| unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
        let (wide_factors, wide_values) = (factors.map(load), values.map(load));
        let check = |found: u32, into: [u8; DOUBLE], way: &str| {
            for (step, (right, _)) in right.iter().enumerate() {
                let results: [i32; STEP] = std::array::from_fn(|at| i32::from(into[step * STEP + at] as i8));
                assert_eq!(results, *right, "{way}: {converter:?} {factors:?} {values:?}");
            }
            assert_eq!(found, right[0].1 + right[1].1, "{way}: {converter:?} {factors:?} {values:?}");
        };
        let mut into = [0; DOUBLE];
        if let Some(rounded) = Rounded::new(converter) {
            // SAFETY: as of this function.
            let found = unsafe { rounded.bytes(wide_factors, wide_values, left, &mut into) };
            check(found, into, "rounded");
            inside += usize::from(right.iter().any(|(results, _)| results.iter().any(|&result| result.abs() > 1)));
        }
        if let Some(shift) = Shift8::new(converter) {
            let found = shift.twice(wide_factors, wide_values, left, &mut into);
            check(found, into, "shifted");
            shifts += 1;
        }
    }
    assert!(shifts > 50 && inside > 5000, "{shifts} shifts, {inside} that are not zero");
}

#[test]
fn results_are_the_converter_s() {
    if Isa::best() == Isa::Avx512 {
        // SAFETY: the processor has what `Isa::Avx512` stands for.
        unsafe {
            bytes_are_the_converter_s();
            two_steps_are_the_converter_s();
            pairs_are_the_converter_s();
        }
    }
}
