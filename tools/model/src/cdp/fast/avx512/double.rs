// SPDX-License-Identifier: MIT OR Apache-2.0

//! Integer steps, two at a time.

use super::output::DOUBLE;
use std::arch::x86_64::*;

use super::super::rows::STEP;
use super::finish::Finish;
use super::ways::{Row, Ways};
use super::windows::sums;
use crate::cdp::operation::REACH;
use crate::lut::cdp::avx512::answer::Answer;

/// Pairs of steps of a row from one on, as long as they lie in the region; answers the first step that was not taken.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
pub(super) fn run<const N: usize, const CARRY: bool, F: Finish>(
    ways: Ways<impl Answer, F>,
    row: Row,
    first: usize,
    into: &mut [u8],
    saturated: &mut u32,
) -> usize {
    let [from, span] = ways.ends();
    let mut step = first;
    for into in into[F::BYTES * STEP * first..].chunks_exact_mut(F::BYTES * DOUBLE) {
        let values = &row.values[step * STEP..][..DOUBLE + 2 * REACH];
        let (one, other) = (sums::<N, CARRY>(values), sums::<N, CARRY>(&values[STEP..]));
        let all = [one.0[0], one.0[1], other.0[0], other.0[1]];
        let far = all.map(|sums| _mm512_sub_epi32(sums, from));
        let farthest = _mm512_max_epu32(_mm512_max_epu32(far[0], far[1]), _mm512_max_epu32(far[2], far[3]));
        if _mm512_cmpgt_epu32_mask(farthest, span) != 0 || one.1 || other.1 {
            break;
        }
        let operands = [ways.operand(values, 0), ways.operand(values, STEP)];
        // SAFETY: the processor has the instructions.
        *saturated += unsafe { ways.finish.two(ways.answer.double(all), operands, row.left::<DOUBLE>(step), into) };
        step += 2;
    }
    step
}
