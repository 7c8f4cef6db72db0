// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the steps of a row have in common.

use super::super::rows::{Rows, STEP};
use super::windows::load;
use crate::cdp::operation::REACH;
use crate::lut::cdp::avx512::int::Ints;
use crate::lut::cdp::avx512::whole::Whole;
use std::arch::x86_64::*;

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
pub(super) struct Row<'r> {
    pub(super) values: &'r [i16],
    pub(super) elements: usize,
}

impl<'r> Row<'r> {
    #[inline]
    pub(super) fn new(rows: Rows, values: &'r [i16], number: usize) -> Self {
        Self { values: rows.around(values, number), elements: rows.elements }
    }

    /// Elements from a step on that count: `MOST` or less.
    #[inline]
    pub(super) fn left<const MOST: usize>(&self, step: usize) -> usize {
        self.elements.saturating_sub(step * STEP).min(MOST)
    }
}

/// How steps of a region are taken.
#[derive(Clone, Copy)]
pub(super) struct Ways<'j, A, F> {
    pub(super) job: Job<'j>,
    pub(super) whole: Whole,
    pub(super) answer: A,
    pub(super) finish: F,
}

impl<A, F> Ways<'_, A, F> {
    /// The region's first number, and its last one's distance.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn ends(&self) -> [__m512i; 2] {
        [self.whole.from, self.whole.span].map(|number| _mm512_set1_epi32(number as i32))
    }

    /// What factors of a step's elements are multiplied with, `from` elements after the first of `values`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn operand(&self, values: &[i16], from: usize) -> __m512i {
        self.job.operand(values, from)
    }
}

impl Job<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn operand(&self, values: &[i16], from: usize) -> __m512i {
        if self.skip_multiply {
            _mm512_set1_epi16(1)
        } else {
            load(values, REACH + from)
        }
    }
}
