// SPDX-License-Identifier: MIT OR Apache-2.0

//! Integers of 16 bits, from values to results, one step at a time in registers.
//!
//! The short path takes a step with sums that have 32 bits and lie in the same region of the lookup as the sums before.
//! For any other step the caller finds the factors.

use super::ways::{Job, Row, Ways};
use std::arch::x86_64::*;

use super::super::rows::{Rows, STEP};
use super::double;
use super::finish::{Finish, Shifted, Wide};
use super::output::Scaled;
use super::rounded::Rounded;
use super::shift::{Shift16, Shift8};
use super::windows::sums;
use crate::cdp::operation::REACH;
use crate::lut::cdp::avx512::answer::Answer;
use crate::lut::cdp::avx512::whole::Whole;

/// A step of a row.
#[derive(Clone, Copy)]
struct At {
    row: usize,
    step: usize,
}

impl At {
    /// Elements from another step to this one.
    fn since(self, first: Self, rows: Rows) -> usize {
        let before = |at: Self| at.row * rows.elements + (at.step * STEP).min(rows.elements);
        before(self) - before(first)
    }
}

/// What is counted.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Found {
    pub(in super::super) classes: [u32; 5],
    pub(in super::super) saturated: u32,
}

/// The results of int8.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
pub(in super::super) fn bytes(
    job: Job,
    output: (&Rounded, Option<&Shift8>),
    operands: (Rows, &[i16]),
    region: &mut usize,
    into: &mut [u8],
    other: impl FnMut(&[i16], usize, &mut [u32; 5]) -> [i16; STEP],
) -> Found {
    match output {
        (_, Some(shift)) => all::<false, _>(job, operands, region, into, other, shift),
        (rounded, None) => all::<false, _>(job, operands, region, into, other, rounded),
    }
}

/// The results of int16.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
pub(in super::super) fn pairs(
    job: Job,
    output: (&Scaled, Option<&Shift16>),
    operands: (Rows, &[i16]),
    region: &mut usize,
    into: &mut [u8],
    other: impl FnMut(&[i16], usize, &mut [u32; 5]) -> [i16; STEP],
) -> Found {
    match output {
        (_, Some(shift)) => all::<true, _>(job, operands, region, into, other, Shifted(shift)),
        (scaled, None) if scaled.is_limited() => {
            all::<true, _>(job, operands, region, into, other, Wide::<true>(scaled))
        }
        (scaled, None) => all::<true, _>(job, operands, region, into, other, Wide::<false>(scaled)),
    }
}

/// All rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
fn all<const CARRY: bool, F: Finish>(
    job: Job,
    (rows, values): (Rows, &[i16]),
    region: &mut usize,
    into: &mut [u8],
    mut other: impl FnMut(&[i16], usize, &mut [u32; 5]) -> [i16; STEP],
    finish: F,
) -> Found {
    let mut found = Found::default();
    let steps = rows.steps() / STEP;
    let mut whole = job.ints.whole(*region, job.ends);
    let mut at = At { row: 0, step: 0 };
    loop {
        if let Some(whole) = whole {
            let first = at;
            at = window::<CARRY, F>(job, whole, (rows, values), at, into, &mut found.saturated, finish);
            found.classes[whole.class] = found.classes[whole.class].wrapping_add(at.since(first, rows) as u32);
        }
        if at.row == rows.count {
            return found;
        }
        let row = Row::new(rows, values, at.row);
        let values = &row.values[at.step * STEP..][..STEP + 2 * REACH];
        let left = row.left::<STEP>(at.step);
        let factors = other(values, left, &mut found.classes);
        // SAFETY: 32 factors.
        let factors = unsafe { _mm512_loadu_si512(factors.as_ptr().cast()) };
        let answers = [_mm512_slli_epi32::<16>(factors), factors];
        let into = &mut into[F::BYTES * STEP * (at.row * steps + at.step)..];
        // SAFETY: the processor has the instructions.
        found.saturated += unsafe { finish.one(answers, job.operand(values, 0), left, into) };
        *region = job.ints.find(first(job.reach, values));
        whole = job.ints.whole(*region, job.ends);
        at.step += 1;
        if at.step == steps {
            at = At { row: at.row + 1, step: 0 };
        }
    }
}

/// The sum of a window, that around the first element.
fn first(reach: Option<usize>, values: &[i16]) -> i64 {
    match reach {
        None => values[REACH].into(),
        Some(reach) => values[REACH - reach..=REACH + reach].iter().map(|&value| i64::from(value).pow(2)).sum(),
    }
}

/// Computes steps while they lie in the region, and returns the number of the first that does not.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
fn window<const CARRY: bool, F: Finish>(
    job: Job,
    whole: Whole,
    operands: (Rows, &[i16]),
    at: At,
    into: &mut [u8],
    saturated: &mut u32,
    finish: F,
) -> At {
    match whole.linear {
        None => {
            let answer = job.ints.exponential();
            reaches::<CARRY, F>(Ways { job, whole, answer, finish }, operands, at, into, saturated)
        }
        Some(table) => {
            let answer = job.ints.even(table);
            match job.ints.planes(table) {
                None => reaches::<CARRY, F>(Ways { job, whole, answer, finish }, operands, at, into, saturated),
                Some(planes) => {
                    let answer = planes.beside(answer);
                    reaches::<CARRY, F>(Ways { job, whole, answer, finish }, operands, at, into, saturated)
                }
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
fn reaches<const CARRY: bool, F: Finish>(
    ways: Ways<impl Answer, F>,
    operands: (Rows, &[i16]),
    at: At,
    into: &mut [u8],
    saturated: &mut u32,
) -> At {
    match ways.job.reach {
        None => spans::<0, CARRY, F>(ways, operands, at, into, saturated),
        Some(1) => spans::<1, CARRY, F>(ways, operands, at, into, saturated),
        Some(2) => spans::<2, CARRY, F>(ways, operands, at, into, saturated),
        Some(3) => spans::<3, CARRY, F>(ways, operands, at, into, saturated),
        Some(_) => spans::<4, CARRY, F>(ways, operands, at, into, saturated),
    }
}

/// Row by row, two steps at a time and then those that are left.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
fn spans<const N: usize, const CARRY: bool, F: Finish>(
    ways: Ways<impl Answer, F>,
    (rows, values): (Rows, &[i16]),
    mut at: At,
    into: &mut [u8],
    saturated: &mut u32,
) -> At {
    while at.row < rows.count {
        let row = Row::new(rows, values, at.row);
        let into = &mut into[F::BYTES * at.row * rows.steps()..][..F::BYTES * rows.steps()];
        at.step = double::run::<N, CARRY, F>(ways, row, at.step, into, saturated);
        at.step = run::<N, CARRY, F>(ways, row, at.step, into, saturated);
        if at.step * STEP < rows.steps() {
            return at;
        }
        at = At { row: at.row + 1, step: 0 };
    }
    at
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
fn run<const N: usize, const CARRY: bool, F: Finish>(
    ways: Ways<impl Answer, F>,
    row: Row,
    first: usize,
    into: &mut [u8],
    saturated: &mut u32,
) -> usize {
    let [from, span] = ways.ends();
    let outside = |sums: __m512i| _mm512_cmpgt_epu32_mask(_mm512_sub_epi32(sums, from), span);
    let mut step = first;
    for into in into[F::BYTES * STEP * first..].chunks_exact_mut(F::BYTES * STEP) {
        let values = &row.values[step * STEP..][..STEP + 2 * REACH];
        let (sums, carries) = sums::<N, CARRY>(values);
        if outside(sums[0]) | outside(sums[1]) != 0 || carries {
            break;
        }
        // SAFETY: the processor has the instructions.
        *saturated += unsafe {
            let factors = [ways.answer.half(sums[0]), ways.answer.half(sums[1])];
            ways.finish.one(factors, ways.operand(values, 0), row.left::<STEP>(step), into)
        };
        step += 1;
    }
    step
}
