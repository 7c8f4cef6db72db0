// SPDX-License-Identifier: MIT OR Apache-2.0

//! Integers of sixteen bits from values to results, a step at a time in registers.
//!
//! A step whose sums have 32 bits and all lie in one region of the lookup, that in which those before lay, goes the short
//! way; for another one the caller finds the factors.

use std::arch::x86_64::*;

use super::super::rows::{Rows, STEP};
use super::output::{Scaled, Shift16, Shift8};
use super::windows::{load, sums};
use crate::cdp::REACH;
use crate::lut::cdp::avx512::int::Ints;
use crate::lut::cdp::avx512::whole::Whole;

/// Lookup and window.
#[derive(Clone, Copy)]
pub(in super::super) struct Job<'j> {
    pub(in super::super) ints: &'j Ints<i64>,
    /// The first and the last sum that there can be.
    pub(in super::super) ends: [i64; 2],
    pub(in super::super) reach: Option<usize>,
    pub(in super::super) skip_multiply: bool,
}

/// Elements of a row, from [`REACH`] before the first on, and how many of its steps' count.
#[derive(Clone, Copy)]
struct Row<'r> {
    values: &'r [i16],
    elements: usize,
}

impl Row<'_> {
    /// Elements of a step that count: as many as it has, or less.
    #[inline]
    fn left(&self, step: usize) -> usize {
        self.elements.saturating_sub(step * STEP).min(STEP)
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
    output: (&Scaled, Option<&Shift8>),
    (rows, values): (Rows, &[i16]),
    region: &mut usize,
    into: &mut [u8],
    other: impl FnMut(&[i16], usize, &mut [u32; 5]) -> [i16; STEP],
) -> Found {
    match output {
        (_, Some(shift)) => {
            let finish = |answers, values, left, into: &mut [u8]| shift.bytes(answers, values, left, into);
            all::<1, false>(job, (rows, values), region, into, other, finish)
        }
        (scaled, None) if scaled.is_limited() => {
            let finish = |answers, values, left, into: &mut [u8]| scaled.bytes::<true>(answers, values, left, into);
            all::<1, false>(job, (rows, values), region, into, other, finish)
        }
        (scaled, None) => {
            let finish = |answers, values, left, into: &mut [u8]| scaled.bytes::<false>(answers, values, left, into);
            all::<1, false>(job, (rows, values), region, into, other, finish)
        }
    }
}

/// The results of int16.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
pub(in super::super) fn pairs(
    job: Job,
    output: (&Scaled, Option<&Shift16>),
    (rows, values): (Rows, &[i16]),
    region: &mut usize,
    into: &mut [u8],
    other: impl FnMut(&[i16], usize, &mut [u32; 5]) -> [i16; STEP],
) -> Found {
    match output {
        (_, Some(shift)) => {
            let finish = |answers, values, left, into: &mut [u8]| shift.pairs(answers, values, left, into);
            all::<2, true>(job, (rows, values), region, into, other, finish)
        }
        (scaled, None) if scaled.is_limited() => {
            let finish = |answers, values, left, into: &mut [u8]| scaled.pairs::<true>(answers, values, left, into);
            all::<2, true>(job, (rows, values), region, into, other, finish)
        }
        (scaled, None) => {
            let finish = |answers, values, left, into: &mut [u8]| scaled.pairs::<false>(answers, values, left, into);
            all::<2, true>(job, (rows, values), region, into, other, finish)
        }
    }
}

/// All rows, whose results have so many bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
fn all<const BYTES: usize, const CARRY: bool>(
    job: Job,
    (rows, values): (Rows, &[i16]),
    region: &mut usize,
    into: &mut [u8],
    mut other: impl FnMut(&[i16], usize, &mut [u32; 5]) -> [i16; STEP],
    finish: impl Fn([__m512i; 2], __m512i, usize, &mut [u8]) -> u32,
) -> Found {
    let finish = |answers, values: &[i16], left, into: &mut [u8]| {
        let values = if job.skip_multiply { _mm512_set1_epi16(1) } else { load(values, REACH) };
        finish(answers, values, left, into)
    };
    let mut found = Found::default();
    let mut whole = job.ints.whole(*region, job.ends);
    for number in 0..rows.count {
        let row = Row { values: rows.around(values, number), elements: rows.elements };
        let into = &mut into[BYTES * number * rows.steps()..][..BYTES * rows.steps()];
        let mut step = 0;
        while step < rows.steps() / STEP {
            if let Some(whole) = whole {
                let first = step;
                step = window::<BYTES, CARRY>(job, whole, row, step, into, &mut found.saturated, &finish);
                let done = (step * STEP).min(row.elements) - (first * STEP).min(row.elements);
                found.classes[whole.class] = found.classes[whole.class].wrapping_add(done as u32);
            }
            if step < rows.steps() / STEP {
                let values = &row.values[step * STEP..][..STEP + 2 * REACH];
                let factors = other(values, row.left(step), &mut found.classes);
                // SAFETY: 32 factors.
                let factors = unsafe { _mm512_loadu_si512(factors.as_ptr().cast()) };
                let answers = [_mm512_slli_epi32::<16>(factors), factors];
                let into = &mut into[BYTES * STEP * step..];
                found.saturated += finish(answers, values, row.left(step), into);
                *region = job.ints.find(first(job.reach, values));
                whole = job.ints.whole(*region, job.ends);
                step += 1;
            }
        }
    }
    found
}

/// The sum of a window, that around the first element.
fn first(reach: Option<usize>, values: &[i16]) -> i64 {
    match reach {
        None => values[REACH].into(),
        Some(reach) => values[REACH - reach..=REACH + reach].iter().map(|&value| i64::from(value).pow(2)).sum(),
    }
}

/// Steps of a row from one on, as long as they lie in the region; answers the one that does not.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
fn window<const BYTES: usize, const CARRY: bool>(
    job: Job,
    whole: Whole,
    row: Row,
    step: usize,
    into: &mut [u8],
    saturated: &mut u32,
    finish: impl Fn([__m512i; 2], &[i16], usize, &mut [u8]) -> u32,
) -> usize {
    match job.reach {
        None => ways::<0, BYTES, CARRY>(job, whole, row, step, into, saturated, finish),
        Some(1) => ways::<1, BYTES, CARRY>(job, whole, row, step, into, saturated, finish),
        Some(2) => ways::<2, BYTES, CARRY>(job, whole, row, step, into, saturated, finish),
        Some(3) => ways::<3, BYTES, CARRY>(job, whole, row, step, into, saturated, finish),
        Some(_) => ways::<4, BYTES, CARRY>(job, whole, row, step, into, saturated, finish),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
fn ways<const N: usize, const BYTES: usize, const CARRY: bool>(
    job: Job,
    whole: Whole,
    row: Row,
    step: usize,
    into: &mut [u8],
    saturated: &mut u32,
    finish: impl Fn([__m512i; 2], &[i16], usize, &mut [u8]) -> u32,
) -> usize {
    match whole.linear {
        None => {
            let answer = job.ints.exponential();
            run::<N, BYTES, CARRY>(whole, row, step, into, saturated, answer, finish)
        }
        Some(table) => {
            let answer = job.ints.even(table);
            run::<N, BYTES, CARRY>(whole, row, step, into, saturated, answer, finish)
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
fn run<const N: usize, const BYTES: usize, const CARRY: bool>(
    whole: Whole,
    row: Row,
    first: usize,
    into: &mut [u8],
    saturated: &mut u32,
    answer: impl Fn(__m512i) -> __m512i,
    finish: impl Fn([__m512i; 2], &[i16], usize, &mut [u8]) -> u32,
) -> usize {
    let [from, span] = [whole.from, whole.span].map(|number| _mm512_set1_epi32(number as i32));
    let outside = |sums: __m512i| _mm512_cmpgt_epu32_mask(_mm512_sub_epi32(sums, from), span);
    let mut step = first;
    for into in into[BYTES * STEP * first..].chunks_exact_mut(BYTES * STEP) {
        let values = &row.values[step * STEP..][..STEP + 2 * REACH];
        let (sums, carries) = sums::<N, CARRY>(values);
        if outside(sums[0]) | outside(sums[1]) != 0 || carries {
            break;
        }
        *saturated += finish(sums.map(&answer), values, row.left(step), into);
        step += 1;
    }
    step
}
