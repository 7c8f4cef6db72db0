// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inputs of the bounds.

use super::super::super::weight_cache::WeightCache;
use super::panel::{self, Panel, Panels, Split};
use super::run::{Run, GROUP};
use nvdla_uapi::isa::Isa;
use std::ops::Range;

/// 2^-50: a sum's unit at exponent 0.
pub(super) const UNIT: f64 = 1.0 / (1_u64 << 50) as f64;

/// The copied input in split form.
#[derive(Debug, Default)]
pub(super) struct Data {
    /// The fp16 values, as in the convolution buffer.
    pub(super) bits: Vec<u16>,
    /// Significands times 16^exponent.
    pub(super) values: Vec<f64>,
    /// Signed significands.
    pub(super) significands: Vec<i16>,
    /// High bits of the exponents, [`super::super::panel::ZERO`] for zeros, with padding for reads of the last group.
    pub(super) exponents: Vec<i8>,
    /// For each element, the number of nonzero elements before it.
    pub(super) before: Vec<u32>,
}

/// Buffers that are kept between operations.
#[derive(Debug, Default)]
pub struct Buffers {
    pub(super) data: Data,
    pub(super) runs: Vec<Run>,
    pub(super) steps: Vec<Range<usize>>,
    pub(super) weights: WeightCache<Panels>,
}

/// The inputs of the bounds of one panel's sums.
#[derive(Clone, Copy)]
pub(super) struct Sums<'a> {
    pub(super) runs: &'a [Run],
    pub(super) steps: &'a [Range<usize>],
    pub(super) data: &'a Data,
    pub(super) panel: &'a Panel,
    /// Largest number of products per step.
    pub(super) widest: usize,
    /// Elements from a window's first to the end of its last run.
    pub(super) reach: usize,
    pub(super) slack: Slack,
}

/// The largest distances from the exact sum, per unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slack {
    pub(super) below: f64,
    pub(super) above: f64,
    /// The part of each step's number of units that is not counted, because one product is exact.
    pub(super) spared: f32,
}

impl Data {
    /// The values of a run in a window.
    pub(super) fn row(&self, window: usize, run: &Run) -> Split<'_> {
        Split::of(&self.significands, &self.exponents, window + run.offset, run.length)
    }

    /// Computes the other vectors from `bits`.
    pub(super) fn decompose(&mut self, isa: Isa) {
        let Self { bits, values, significands, exponents, before } = self;
        values.resize(bits.len(), 0.0);
        significands.resize(bits.len(), 0);
        exponents.resize(bits.len() + GROUP, super::super::panel::ZERO);
        before.resize(bits.len() + 1, 0);
        panel::decompose(isa, bits, values, exponents);
        panel::significands(isa, bits, significands);
        let mut count = 0;
        before[0] = 0;
        for (before, bits) in before[1..].iter_mut().zip(bits) {
            count += u32::from(*bits << 1 != 0);
            *before = count;
        }
    }
}
