// SPDX-License-Identifier: MIT OR Apache-2.0

//! The factors of a step with sums in several regions of the lookup.

use std::arch::x86_64::*;

use super::super::rows::STEP;
use super::windows::sums_of;
use crate::cdp::operation::REACH;
use crate::lut::cdp::avx512::int::Ints;
use crate::lut::cdp::avx512::Row;

/// Of int8: `values` are those around the step's, of which `left` count.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
pub(in super::super) fn int8(
    ints: &Ints<i32>,
    reach: Option<usize>,
    values: &[i16],
    left: usize,
    classes: &mut [u32; 5],
    other: impl Fn(i64) -> i16,
) -> [i16; STEP] {
    let (mut sums, mut factors) = ([0; STEP], [0; STEP]);
    for (sums, all) in sums.as_chunks_mut::<16>().0.iter_mut().zip(sums_of(reach, values)) {
        // SAFETY: room for sixteen sums.
        unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), all) };
    }
    let row = Row { steps: STEP, elements: left, is_interleaved: true };
    ints.factors(&sums, row, &mut factors, classes, other);
    factors
}

/// For int16, where sums may have more than 32 bits.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
pub(in super::super) fn int16(
    ints: &Ints<f64>,
    reach: Option<usize>,
    values: &[i16],
    left: usize,
    classes: &mut [u32; 5],
    other: impl Fn(i64) -> i16,
) -> [i16; STEP] {
    let mut wide = [0; STEP + 2 * REACH];
    wide.iter_mut().zip(values).for_each(|(wide, &value)| *wide = value.into());
    let (mut sums, mut factors) = ([0.0; STEP], [0; STEP]);
    match reach {
        Some(reach) => super::int16::windows(reach, &wide, &mut sums),
        None => super::int16::single(&wide[REACH..], &mut sums),
    }
    let row = Row { steps: STEP, elements: left, is_interleaved: false };
    ints.factors(&sums, row, &mut factors, classes, other);
    factors
}
