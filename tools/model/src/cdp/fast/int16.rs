// SPDX-License-Identifier: MIT OR Apache-2.0

//! int16.

use super::super::reference::outside;
use super::super::{Converter, Counts, Operation, REACH};
use super::{convert_output, counters, half, Output, Position};
use crate::lut::cdp::vector::{Ints, CLASSES, WIDTH};
use crate::lut::{Counters, Tables};

vectorised! {
    /// The input converter of int16, in place; values have 17 bits and a product 33.
    fn convert16(converter: &Converter, values: &mut [i64]) {
        let (offset, scale, shift) = (i64::from(converter.offset), i64::from(converter.scale), converter.shift);
        let half = half(shift) as u64;
        for value in values {
            let scaled = (*value).wrapping_sub(offset).wrapping_mul(scale);
            let rounded = (scaled.unsigned_abs().wrapping_add(half) >> shift) as i64;
            let rounded = if scaled < 0 { rounded.wrapping_neg() } else { rounded };
            *value = rounded.clamp(-65_536, 65_535);
        }
    }
}

vectorised! {
    /// The sums of `2 * reach + 1` squares around each value but the first and last [`REACH`].
    fn windows16(reach: usize, values: &[i64], squares: &mut [i64], sums: &mut [i64]) {
        for (square, &value) in squares.iter_mut().zip(values) {
            *square = value.wrapping_mul(value);
        }
        sums.copy_from_slice(&squares[REACH..][..sums.len()]);
        for distance in 1..=reach {
            let (before, after) = (&squares[REACH - distance..], &squares[REACH + distance..]);
            for ((sum, &before), &after) in sums.iter_mut().zip(before).zip(after) {
                *sum = sum.wrapping_add(before.wrapping_add(after));
            }
        }
    }
}

vectorised! {
    /// The factors of all sums; those that [`Ints`] does not have are marked.
    fn factors(lookup: &Ints, exponent: bool, sums: &[i64], factors: &mut [i64], odd: &mut [bool], counts: &mut [u32; CLASSES]) {
        #[inline(always)]
        fn all<const EXPONENT: bool>(
            lookup: &Ints,
            sums: &[i64],
            factors: &mut [i64],
            odd: &mut [bool],
            counts: &mut [u32; CLASSES],
        ) {
            let mut classes = [0u32; CLASSES];
            let (factors, odd) = (factors.as_chunks_mut::<WIDTH>().0, odd.as_chunks_mut::<WIDTH>().0);
            for ((factors, odd), sums) in factors.iter_mut().zip(odd).zip(sums.as_chunks::<WIDTH>().0) {
                let answers = lookup.get::<EXPONENT>(sums);
                for (class, count) in classes.iter_mut().enumerate() {
                    let counts = |i: usize| u32::from((answers.classes[i] == class as u32) & !answers.odd[i]);
                    *count += (0..WIDTH).map(counts).sum::<u32>();
                }
                (*factors, *odd) = (answers.factors, answers.odd);
            }
            for (count, class) in counts.iter_mut().zip(classes) {
                *count = count.wrapping_add(class);
            }
        }
        if exponent {
            all::<true>(lookup, sums, factors, odd, counts);
        } else {
            all::<false>(lookup, sums, factors, odd, counts);
        }
    }
}

/// The lookup for vectors, where the registers allow it.
pub(super) fn lookup(operation: &Operation, tables: &Tables) -> Option<(Box<Ints>, bool)> {
    Ints::new(&operation.lookup, tables).map(|(ints, exponent)| (Box::new(ints), exponent))
}

pub(super) struct Int16<'o> {
    operation: &'o Operation,
    tables: &'o Tables,
    lookup: Option<&'o (Box<Ints>, bool)>,
    counters: Counters,
    classes: [u32; CLASSES],
    values: Vec<i64>,
    squares: Vec<i64>,
    sums: Vec<i64>,
    products: Vec<i64>,
    odd: Vec<bool>,
    output: Output,
    saturated: u32,
}

impl<'o> Int16<'o> {
    pub(super) fn new(operation: &'o Operation, tables: &'o Tables, lookup: Option<&'o (Box<Ints>, bool)>) -> Self {
        let count = operation.elements;
        Self {
            operation,
            tables,
            lookup,
            counters: Counters::default(),
            classes: [0; CLASSES],
            values: vec![0; count + 2 * REACH],
            squares: vec![0; count + 2 * REACH],
            sums: vec![0; count],
            products: vec![0; count],
            odd: vec![true; count],
            output: Output::new(operation.output, 16),
            saturated: 0,
        }
    }
}

impl Position for Int16<'_> {
    const BYTES: usize = 2;

    fn normalise(&mut self, atoms: &mut [&mut [u8]]) {
        let operation = self.operation;
        let lanes = operation.lanes;
        self.values[..REACH].fill(outside(operation).into());
        for (values, atom) in self.values[REACH..].chunks_exact_mut(lanes).zip(atoms.iter()) {
            for (value, bytes) in values.iter_mut().zip(atom.chunks_exact(2)) {
                *value = i16::from_le_bytes([bytes[0], bytes[1]]).into();
            }
        }
        self.values[REACH + operation.channels..].fill(outside(operation).into());
        convert16(&operation.input, &mut self.values);
        match operation.reach {
            Some(reach) => windows16(reach, &self.values, &mut self.squares, &mut self.sums),
            None => self.sums.copy_from_slice(&self.values[REACH..REACH + operation.elements]),
        }
        if let Some((lookup, exponent)) = self.lookup {
            factors(lookup, *exponent, &self.sums, &mut self.products, &mut self.odd, &mut self.classes);
        }
        for ((product, &sum), &odd) in self.products.iter_mut().zip(&self.sums).zip(&self.odd) {
            if odd {
                *product = operation.lookup.int(self.tables, sum, &mut self.counters).into();
            }
        }
        if !operation.skip_multiply {
            for (product, &value) in self.products.iter_mut().zip(&self.values[REACH..]) {
                *product *= value;
            }
        }
        convert_output(&self.output, &mut self.products, &mut self.saturated);
        for (products, atom) in self.products.chunks_exact(lanes).zip(atoms) {
            for (bytes, &product) in atom.chunks_exact_mut(2).zip(products) {
                bytes.copy_from_slice(&(product as i16).to_le_bytes());
            }
        }
    }

    fn counts(&self) -> Counts {
        let mut lut = self.counters;
        lut += counters(self.classes);
        Counts { lut, saturated: self.saturated, nans: 0 }
    }
}
