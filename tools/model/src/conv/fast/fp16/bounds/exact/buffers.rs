// SPDX-License-Identifier: MIT OR Apache-2.0

//! Buffers for the products and sums of some elements, step by step.

use super::super::super::super::super::fp16::{self, Accumulators};
use super::super::super::panel::ZERO;
use super::super::panel::Split;

/// Largest number of products per step.
pub(super) const LANES: usize = 64;

/// Largest number of steps that are computed together, with 16 lanes each.
pub(super) const MAX_STEPS: usize = 4;

/// Sums that are computed together.
pub(in crate::conv::fast::fp16::bounds) const MANY: usize = 16;

/// A product at this distance, in units of 4 bits, or a larger one is shifted to zero.
pub(super) const NOTHING: u8 = 8;

/// The largest distance, in units of 4 bits, at which the low eight bits determine the lost carry.
pub(super) const NEAR: u8 = 2;

/// An output element: a kernel of the panel and a window.
pub(in crate::conv::fast::fp16::bounds) type Element = (usize, usize);

/// Operands of up to [`LANES`] products, whose other exponents are those of zeros.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes {
    pub(super) significands: [i16; LANES],
    pub(super) exponents: [i8; LANES],
}

impl Lanes {
    pub(super) const EMPTY: Self = Self { significands: [0; LANES], exponents: [ZERO; LANES] };

    /// Sets the operands from number `at` on.
    #[inline(always)]
    pub(super) fn set(&mut self, at: usize, Split { significands, exponents }: Split<'_>) {
        self.significands[at..][..significands.len()].copy_from_slice(significands);
        self.exponents[at..][..exponents.len()].copy_from_slice(exponents);
    }
}

/// Buffers for the sums of up to [`MANY`] elements.
#[derive(Debug, Default)]
pub(in crate::conv::fast::fp16::bounds) struct Buffers {
    pub(super) steps: Steps,
    pub(super) far: Far,
}

/// CMAC's results for CACC, by step.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Largest exponents.
    pub(super) exponents: Vec<[i8; MANY]>,
    /// Sums of the products.
    pub(super) sums: Vec<[i64; MANY]>,
}

/// Products with a distance above [`NEAR`].
#[derive(Debug, Default)]
pub(super) struct Far {
    pub(super) weights: Vec<i16>,
    pub(super) data: Vec<i16>,
    /// Distances, in units of 4 bits.
    pub(super) distances: Vec<u8>,
    /// Indices of the sums.
    pub(super) places: Vec<u32>,
    pub(super) count: usize,
}

impl Buffers {
    /// Adds the far products to the steps' sums, and accumulates the steps as CACC does.
    #[inline(always)]
    pub(super) fn finish(&mut self, steps: usize) -> [f32; MANY] {
        let Self { steps: all, far } = self;
        far.settle(all.sums.as_flattened_mut());
        let mut accumulators = Accumulators::<MANY>::ZERO;
        for (exponents, sums) in all.exponents.iter().zip(&all.sums).take(steps) {
            accumulators.add_first(exponents, sums, MANY);
        }
        accumulators.to_fp32().map(f32::from_bits)
    }
}

impl Steps {
    /// Resets to `steps` steps, and those that are computed together with the last one.
    pub(super) fn clear(&mut self, steps: usize) {
        let Self { exponents, sums } = self;
        exponents.clear();
        exponents.resize(steps + MAX_STEPS, [0; MANY]);
        sums.clear();
        sums.resize(steps + MAX_STEPS, [0; MANY]);
    }
}

impl Far {
    /// Makes room for [`LANES`] more products.
    #[inline(always)]
    pub(super) fn reserve(&mut self) {
        let Self { weights, data, distances, places, count } = self;
        let buffers = *count + LANES;
        if places.len() < buffers {
            // Room for several calls.
            let buffers = 2 * buffers;
            weights.resize(buffers, 0);
            data.resize(buffers, 0);
            distances.resize(buffers, 0);
            places.resize(buffers, 0);
        }
    }

    /// Adds a product, for which [`reserve`](Self::reserve) has made room.
    #[inline(always)]
    pub(super) fn push(&mut self, weight: i16, data: i16, distance: u8, place: u32) {
        let at = self.count;
        (self.weights[at], self.data[at]) = (weight, data);
        (self.distances[at], self.places[at]) = (distance, place);
        self.count += 1;
    }

    /// Adds the products to their sums, and removes them.
    #[inline(always)]
    pub(super) fn settle(&mut self, sums: &mut [i64]) {
        const WIDTH: usize = 16;
        let products = self.weights.as_chunks::<WIDTH>().0.iter().zip(self.data.as_chunks::<WIDTH>().0);
        let distances = self.distances.as_chunks::<WIDTH>().0;
        let places = self.places[..self.count].chunks(WIDTH);
        for (((weights, data), distances), places) in products.zip(distances).zip(places) {
            let mut shifted = [0i32; WIDTH];
            for (i, shifted) in shifted.iter_mut().enumerate() {
                let (weight, data) = (i32::from(weights[i]), i32::from(data[i]));
                let (sum, carry) = fp16::booth_lane((weight ^ data) < 0, weight.unsigned_abs(), data.unsigned_abs());
                let by = (4 * u32::from(distances[i])) & 31;
                *shifted = (sum >> by).wrapping_add(carry >> by).wrapping_sub(fp16::BOOTH_OFFSET >> by) as i32;
            }
            for (place, shifted) in places.iter().zip(shifted) {
                sums[*place as usize] += i64::from(shifted);
            }
        }
        self.count = 0;
    }
}
