// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16, whose arithmetic is fp17's and fp32's.
//!
//! Positions with a NaN or an infinity go through the reference; elements whose lookup [`Floats`] does not have, or whose
//! product comes near the ends of fp17's range, through the bit-level functions.

use super::super::reference::{self, outside};
use super::super::{Counts, Operation, REACH};
use super::{counters, Position};
use crate::lut::cdp::vector::{outside as uncertain, round, Floats, CLASSES, WIDTH};
use crate::lut::Tables;
use crate::num::convert::{fp16_to_fp17, fp17_to_fp16};
use crate::num::{plain, Fp16, Fp17};

vectorised! {
    /// The sums of `2 * reach + 1` squares around each value but the first and last [`REACH`]: squares and sums in fp32,
    /// each pair of neighbours added before it joins the sum.
    ///
    /// The squares of fp17 numbers and sums of nine of them are far from the ends of fp32's range, where the hardware's
    /// arithmetic differs from the processor's.
    fn windows_half(reach: usize, values: &[f32], squares: &mut [f32], sums: &mut [f32]) {
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
    /// Widens an atom's elements; true if one is infinite or NaN.
    fn widen(atom: &[u8], flush: bool, raw: &mut [i32], values: &mut [f32], special: &mut bool) {
        let mut found = false;
        for ((raw, value), bytes) in raw.iter_mut().zip(values).zip(atom.as_chunks::<2>().0) {
            let bits = u16::from_le_bytes(*bytes);
            let bits = if flush & (bits & 0x7fff > 0x7c00) { 0 } else { bits };
            found |= bits & 0x7c00 == 0x7c00;
            *raw = bits.into();
            *value = f32::from_bits(plain::widen_finite(bits));
        }
        *special |= found;
    }
}

vectorised! {
    /// The results of all sums; those that are not certain are marked.
    fn results(
        lookup: &Floats,
        exponent: bool,
        skip_multiply: bool,
        operands: (&[f32], &[f32]),
        results: &mut [u16],
        odd: &mut [bool],
        counts: &mut [u32; CLASSES],
    ) {
        #[inline(always)]
        fn all<const EXPONENT: bool>(
            lookup: &Floats,
            skip_multiply: bool,
            (sums, values): (&[f32], &[f32]),
            results: &mut [u16],
            odd: &mut [bool],
            counts: &mut [u32; CLASSES],
        ) {
            let mut classes = [0u32; CLASSES];
            let (results, odd) = (results.as_chunks_mut::<WIDTH>().0, odd.as_chunks_mut::<WIDTH>().0);
            let (sums, values) = (sums.as_chunks::<WIDTH>().0, values.as_chunks::<WIDTH>().0);
            for (((results, odd), sums), values) in results.iter_mut().zip(odd).zip(sums).zip(values) {
                let answers = lookup.get::<EXPONENT>(sums);
                let mut again = answers.odd;
                for i in 0..WIDTH {
                    let product = round(answers.factors[i] * values[i]);
                    again[i] |= (product != 0.0) & uncertain(product) & !skip_multiply;
                    let product = if skip_multiply { answers.factors[i] } else { product };
                    results[i] = plain::narrow(product.to_bits());
                }
                for (class, count) in classes.iter_mut().enumerate() {
                    let counts = |i: usize| u32::from((answers.classes[i] == class as u32) & !again[i]);
                    *count += (0..WIDTH).map(counts).sum::<u32>();
                }
                *odd = again;
            }
            for (count, class) in counts.iter_mut().zip(classes) {
                *count = count.wrapping_add(class);
            }
        }
        if exponent {
            all::<true>(lookup, skip_multiply, operands, results, odd, counts);
        } else {
            all::<false>(lookup, skip_multiply, operands, results, odd, counts);
        }
    }
}

/// The lookup for vectors, where the registers allow it.
pub(super) fn lookup(operation: &Operation, tables: &Tables) -> Option<(Box<Floats>, bool)> {
    Floats::new(&operation.lookup, tables).map(|(floats, exponent)| (Box::new(floats), exponent))
}

pub(super) struct Half<'o> {
    operation: &'o Operation,
    tables: &'o Tables,
    lookup: Option<&'o (Box<Floats>, bool)>,
    /// The elements, NaN flushed where that is asked for.
    raw: Vec<i32>,
    values: Vec<f32>,
    squares: Vec<f32>,
    sums: Vec<f32>,
    results: Vec<u16>,
    odd: Vec<bool>,
    classes: [u32; CLASSES],
    counts: Counts,
}

impl<'o> Half<'o> {
    pub(super) fn new(operation: &'o Operation, tables: &'o Tables, lookup: Option<&'o (Box<Floats>, bool)>) -> Self {
        let count = operation.elements;
        Self {
            operation,
            tables,
            lookup,
            raw: vec![outside(operation); count + 2 * REACH],
            values: vec![0.0; count + 2 * REACH],
            squares: vec![0.0; count + 2 * REACH],
            sums: vec![0.0; count],
            results: vec![0; count],
            odd: vec![true; count],
            classes: [0; CLASSES],
            counts: Counts::default(),
        }
    }

    /// The result at `channel` where no NaN is near.
    fn result(&mut self, channel: usize) -> u16 {
        let operation = self.operation;
        let value = fp16_to_fp17(self.raw[REACH + channel] as u16);
        let factor = operation.lookup.float(self.tables, self.sums[channel].to_bits(), &mut self.counts.lut);
        let product = if operation.skip_multiply { factor } else { Fp17::mul(value, factor) };
        let result = fp17_to_fp16(product);
        self.counts.nans += u32::from(Fp16::is_nan(result.into()));
        result
    }
}

impl Position for Half<'_> {
    const BYTES: usize = 2;

    fn normalise(&mut self, atoms: &mut [&mut [u8]]) {
        let operation = self.operation;
        let lanes = operation.lanes;
        let count = operation.elements;
        let mut special = false;
        let raw = self.raw[REACH..].chunks_exact_mut(lanes);
        for ((raw, values), atom) in raw.zip(self.values[REACH..].chunks_exact_mut(lanes)).zip(atoms.iter()) {
            widen(atom, operation.flush_nan, raw, values, &mut special);
        }
        self.raw[REACH + operation.channels..].fill(outside(operation));
        self.values[REACH + operation.channels..].fill(0.0);
        if special {
            for channel in 0..count {
                let window = &self.raw[channel..][..=2 * REACH];
                self.results[channel] = reference::fp16(operation, self.tables, window, &mut self.counts);
            }
        } else {
            match operation.reach {
                Some(reach) => windows_half(reach, &self.values, &mut self.squares, &mut self.sums),
                None => self.sums.copy_from_slice(&self.values[REACH..REACH + count]),
            }
            if let Some((lookup, exponent)) = self.lookup {
                let values = &self.values[REACH..REACH + count];
                let (results_of, odd) = (&mut self.results, &mut self.odd);
                let skip = operation.skip_multiply;
                results(lookup, *exponent, skip, (&self.sums, values), results_of, odd, &mut self.classes);
            }
            for channel in 0..count {
                if self.odd[channel] {
                    self.results[channel] = self.result(channel);
                }
            }
        }
        for (atom, results) in atoms.iter_mut().zip(self.results.chunks_exact(lanes)) {
            for (bytes, result) in atom.chunks_exact_mut(2).zip(results) {
                bytes.copy_from_slice(&result.to_le_bytes());
            }
        }
    }

    fn counts(&self) -> Counts {
        let mut counts = self.counts;
        counts.lut += counters(self.classes);
        counts
    }
}
