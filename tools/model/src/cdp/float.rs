// SPDX-License-Identifier: MIT OR Apache-2.0

//! Computes one row of fp16, in fp17 and fp32 arithmetic.
//!
//! ```text
//! values  = elements as fp32, NaN flushed if the operation says so
//! sums    = sums of squares around each value, or the values
//! factors = lookup(sums)
//! results = fp16(fp17(factors * values))
//! ```
//!
//! The reference computes rows with a NaN or an infinity. The bit-level functions compute elements whose lookup
//! [`Vectors`] does not cover, or whose product comes near the ends of fp17's range.

// Only code that is inlined into a loop is compiled for the loop's instruction set.
#![allow(clippy::inline_always)]
// A lazy operator would be a branch, which prevents vectorisation.
#![allow(clippy::needless_bitwise_bool)]

use super::operation::{Counts, Operation, REACH};
use super::reference;
use super::strips::Engine;
use crate::lut::cdp::vector::{counters, is_outside, round, Vectors, CLASSES, WIDTH};
use crate::lut::Tables;
use crate::num::convert::{fp16_to_fp17, fp17_to_fp16};
use crate::num::{plain, Fp16, Fp17};
use nvdla_uapi::isa::Isa;

vectorised! {
    /// Widens the elements, with NaN flushed to zero if `flush` is set. Returns whether any is infinite or NaN.
    fn widen(flush: bool, elements: &[u16], raw: &mut [u16], values: &mut [f32]) -> bool {
        let mut special = false;
        for ((raw, value), &bits) in raw.iter_mut().zip(values).zip(elements) {
            let bits = if flush & (bits & 0x7fff > 0x7c00) { 0 } else { bits };
            special |= bits & 0x7c00 == 0x7c00;
            *raw = bits;
            *value = f32::from_bits(plain::widen_finite(bits));
        }
        special
    }
}

vectorised! {
    /// Sums `2 * reach + 1` squares around each value except the first and last [`REACH`], in fp32. The two squares at
    /// the same distance are added to each other before they are added to the sum.
    ///
    /// The squares of fp17 numbers and sums of nine of them are far from the ends of fp32's range, where the hardware's
    /// arithmetic differs from the processor's.
    fn windows(reach: usize, values: &[f32], squares: &mut [f32], sums: &mut [f32]) {
        for (square, &value) in squares.iter_mut().zip(values) {
            *square = value * value;
        }
        let middle = &squares[REACH..];
        for (((sum, &middle), &before), &after) in
            sums.iter_mut().zip(middle).zip(&squares[REACH - 1..]).zip(&squares[REACH + 1..])
        {
            *sum = (before + after) + middle;
        }
        for distance in 2..=reach {
            let (before, after) = (&squares[REACH - distance..], &squares[REACH + distance..]);
            for ((sum, &before), &after) in sums.iter_mut().zip(before).zip(after) {
                *sum += before + after;
            }
        }
    }
}

vectorised! {
    /// Computes results in whole groups of [`WIDTH`]. Clears `odd` where the result holds; the caller has set all of
    /// it.
    fn results(
        lookup: &Vectors<f32>,
        skip_multiply: bool,
        operands: (&[f32], &[f32]),
        results: &mut [u16],
        odd: &mut [bool],
        classes: &mut [u32; CLASSES],
    ) {
        #[inline(always)]
        fn all<const EXPONENT: bool>(
            lookup: &Vectors<f32>,
            skip_multiply: bool,
            (sums, values): (&[f32], &[f32]),
            results: &mut [u16],
            odd: &mut [bool],
            classes: &mut [u32; CLASSES],
        ) {
            let (results, odd) = (results.as_chunks_mut::<WIDTH>().0, odd.as_chunks_mut::<WIDTH>().0);
            let (sums, values) = (sums.as_chunks::<WIDTH>().0, values.as_chunks::<WIDTH>().0);
            for (((results, odd), sums), values) in results.iter_mut().zip(odd).zip(sums).zip(values) {
                let mut found = lookup.get::<EXPONENT>(sums);
                for i in 0..WIDTH {
                    let product = round(found.factors[i] * values[i]);
                    found.odd[i] |= is_outside(product) & !skip_multiply;
                    let product = if skip_multiply { found.factors[i] } else { product };
                    results[i] = plain::narrow(product.to_bits());
                }
                found.count(classes);
                *odd = found.odd;
            }
        }
        if lookup.is_exponential {
            all::<true>(lookup, skip_multiply, operands, results, odd, classes);
        } else {
            all::<false>(lookup, skip_multiply, operands, results, odd, classes);
        }
    }
}

/// A thread's buffers for one row.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The elements, NaN flushed if the operation says so.
    raw: Vec<u16>,
    values: Vec<f32>,
    squares: Vec<f32>,
    sums: Vec<f32>,
    results: Vec<u16>,
    odd: Vec<bool>,
}

/// An fp16 operation. Without `lookup`, each sum is looked up separately.
pub(super) struct Float<'o> {
    pub(super) isa: Isa,
    pub(super) operation: &'o Operation,
    pub(super) tables: &'o Tables,
    pub(super) lookup: Option<&'o Vectors<f32>>,
}

impl Float<'_> {
    /// Computes a row with a NaN or an infinity.
    fn special(&self, around: &[u16], into: &mut [u8]) -> Counts {
        let mut counts = Counts::default();
        for (bytes, window) in into.as_chunks_mut::<2>().0.iter_mut().zip(around.windows(2 * REACH + 1)) {
            let mut wide = [0; 2 * REACH + 1];
            wide.iter_mut().zip(window).for_each(|(wide, &bits)| *wide = bits.into());
            *bytes = reference::fp16(self.operation, self.tables, &wide, &mut counts).to_le_bytes();
        }
        counts
    }

    /// Computes one element of a row without NaN.
    fn result(&self, value: u16, sum: f32, counts: &mut Counts) -> u16 {
        let factor = self.operation.lookup.float(self.tables, sum.to_bits(), &mut counts.lut);
        let value = fp16_to_fp17(value);
        let result = fp17_to_fp16(if self.operation.skip_multiply { factor } else { Fp17::mul(value, factor) });
        counts.nans += u32::from(Fp16::is_nan(result.into()));
        result
    }
}

impl Engine for Float<'_> {
    type Element = u16;
    type Buffers = Buffers;

    fn outside(&self) -> u16 {
        0
    }

    fn prepare(&self, buffers: &mut Buffers, elements: usize) {
        let around = elements + 2 * REACH;
        buffers.raw.resize(around, 0);
        buffers.values.resize(around, 0.0);
        buffers.squares.resize(around, 0.0);
        buffers.sums.resize(elements, 0.0);
        buffers.results.resize(elements, 0);
        buffers.odd.resize(elements, true);
    }

    fn row(&self, buffers: &mut Buffers, around: &[u16], into: &mut [u8]) -> Counts {
        let Buffers { raw, values, squares, sums, results: row, odd } = buffers;
        let Operation { reach, skip_multiply, flush_nan, .. } = *self.operation;
        if widen(self.isa, flush_nan, around, raw, values) {
            return self.special(raw, into);
        }
        match reach {
            Some(reach) => windows(self.isa, reach, values, squares, sums),
            None => sums.copy_from_slice(&values[REACH..values.len() - REACH]),
        }
        let (mut counts, mut classes) = (Counts::default(), [0; CLASSES]);
        odd.fill(true);
        if let Some(lookup) = self.lookup {
            results(self.isa, lookup, skip_multiply, (&*sums, &values[REACH..]), row, odd, &mut classes);
        }
        counts.lut += counters(classes);
        let pairs = into.as_chunks_mut::<2>().0.iter_mut();
        for ((((bytes, &result), &odd), &sum), &raw) in pairs.zip(&*row).zip(&*odd).zip(&*sums).zip(&raw[REACH..]) {
            *bytes = if odd { self.result(raw, sum, &mut counts) } else { result }.to_le_bytes();
        }
        counts
    }
}
