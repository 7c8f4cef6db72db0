// SPDX-License-Identifier: MIT OR Apache-2.0

//! int8.
//!
//! A lookup's argument has 20 bits at most, so that its answers are kept from the first time that they are asked for: a
//! cube has far fewer different sums than elements, and the next inference asks for the same ones.

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::reference::outside;
use super::super::{Converter, Counts, Operation, REACH};
use super::{convert_output, counters, half, Output, Position};
use crate::lut::cdp::Lookup;
use crate::lut::{Counters, Tables};

/// Nine squares of 9 bits.
const LARGEST: usize = 9 << 16;

/// The answers of one lookup, by its argument.
#[derive(Debug, Default)]
pub(in crate::cdp) struct Cache {
    /// What the answers belong to.
    of: Option<(Lookup, Tables)>,
    /// Zero, or [`KNOWN`] with the counter's place and the factor. Threads that find the same answer store the same.
    entries: Vec<AtomicU32>,
}

impl Clone for Cache {
    /// Another device finds its answers itself.
    fn clone(&self) -> Self {
        Self::default()
    }
}

const KNOWN: u32 = 1 << 31;
/// Bits of a counter while a chunk is looked up; an entry has its counter's place.
const COUNT_BITS: u32 = 12;
/// Elements of a chunk: as many as a counter can count.
const CHUNK: usize = (1 << COUNT_BITS) - 1;

impl Cache {
    /// The cache for an operation, empty if it was for another lookup.
    pub(super) fn of(&mut self, operation: &Operation, tables: &Tables) -> &Self {
        let same = self.of.as_ref().is_some_and(|(lookup, of)| {
            *lookup == operation.lookup && of.le() == tables.le() && of.lo() == tables.lo()
        });
        if !same {
            self.of = Some((operation.lookup, tables.clone()));
            self.entries.clear();
            // Single values, which can be negative, lie behind the sums.
            self.entries.resize_with(LARGEST + 1 + 512, AtomicU32::default);
        }
        self
    }

    /// The answer for entry `at`.
    #[inline(always)]
    fn get(&self, operation: &Operation, tables: &Tables, at: usize) -> u32 {
        let entry = self.entries[at].load(Ordering::Relaxed);
        if entry == 0 {
            self.find(operation, tables, at)
        } else {
            entry
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&self, operation: &Operation, tables: &Tables, at: usize) -> u32 {
        let sum = if at > LARGEST { at as i64 - (LARGEST as i64 + 1 + 256) } else { at as i64 };
        let mut counter = Counters::default();
        let factor = operation.lookup.int(tables, sum, &mut counter);
        let Counters { under, over, hybrid, le_hit, lo_hit } = counter;
        let which = [under, over, hybrid, le_hit, lo_hit].iter().position(|&count| count != 0).unwrap_or(0);
        let entry = KNOWN | (COUNT_BITS * which as u32) << 16 | u32::from(factor as u16);
        self.entries[at].store(entry, Ordering::Relaxed);
        entry
    }
}

vectorised! {
    /// The input converter of int8, in place; values have 9 bits and a product 25.
    fn convert8(converter: &Converter, values: &mut [i32]) {
        let (offset, scale, shift) = (converter.offset, i32::from(converter.scale), converter.shift);
        let half = half(shift) as u32;
        for value in values {
            let scaled = (*value).wrapping_sub(offset).wrapping_mul(scale);
            let rounded = (scaled.unsigned_abs().wrapping_add(half) >> shift) as i32;
            let rounded = if scaled < 0 { rounded.wrapping_neg() } else { rounded };
            *value = rounded.clamp(-256, 255);
        }
    }
}

vectorised! {
    /// The sums of `2 * reach + 1` squares around each value but the first and last [`REACH`].
    fn windows8(reach: usize, values: &[i32], squares: &mut [i32], sums: &mut [i32]) {
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
    /// Factors times values. The products have 25 bits.
    fn multiply(factors: &[i32], values: &[i32], skip: bool, products: &mut [i64]) {
        for ((product, &factor), &value) in products.iter_mut().zip(factors).zip(values) {
            *product = i64::from(factor.wrapping_mul(if skip { 1 } else { value }));
        }
    }
}

pub(super) struct Int8<'o> {
    operation: &'o Operation,
    tables: &'o Tables,
    cache: &'o Cache,
    values: Vec<i32>,
    squares: Vec<i32>,
    sums: Vec<i32>,
    factors: Vec<i32>,
    products: Vec<i64>,
    output: Output,
    /// Lookups of each class.
    classes: [u32; 5],
    saturated: u32,
}

impl<'o> Int8<'o> {
    pub(super) fn new(operation: &'o Operation, tables: &'o Tables, cache: &'o Cache) -> Self {
        let count = operation.elements;
        Self {
            operation,
            tables,
            cache,
            values: vec![0; count + 2 * REACH],
            squares: vec![0; count + 2 * REACH],
            sums: vec![0; count],
            factors: vec![0; count],
            products: vec![0; count],
            output: Output::new(operation.output, 8),
            classes: [0; 5],
            saturated: 0,
        }
    }
}

impl Position for Int8<'_> {
    const BYTES: usize = 1;

    fn normalise(&mut self, atoms: &mut [&mut [u8]]) {
        let operation = self.operation;
        let lanes = operation.lanes;
        let count = operation.elements;
        self.values[..REACH].fill(outside(operation));
        for (values, atom) in self.values[REACH..].chunks_exact_mut(lanes).zip(atoms.iter()) {
            values.iter_mut().zip(atom.iter()).for_each(|(value, &byte)| *value = i32::from(byte as i8));
        }
        self.values[REACH + operation.channels..].fill(outside(operation));
        convert8(&operation.input, &mut self.values);
        match operation.reach {
            Some(reach) => windows8(reach, &self.values, &mut self.squares, &mut self.sums),
            None => {
                for (sum, &value) in self.sums.iter_mut().zip(&self.values[REACH..REACH + count]) {
                    *sum = value + 256 + 1 + LARGEST as i32;
                }
            }
        }
        for (factors, sums) in self.factors.chunks_mut(CHUNK).zip(self.sums.chunks(CHUNK)) {
            // All counters in one register.
            let mut counts = 0u64;
            for (factor, &sum) in factors.iter_mut().zip(sums) {
                let entry = self.cache.get(operation, self.tables, sum as usize);
                counts += 1 << ((entry >> 16) & 63);
                *factor = i32::from(entry as i16);
            }
            for (class, count) in self.classes.iter_mut().enumerate() {
                *count = count.wrapping_add((counts >> (COUNT_BITS * class as u32)) as u32 & ((1 << COUNT_BITS) - 1));
            }
        }
        multiply(&self.factors, &self.values[REACH..], operation.skip_multiply, &mut self.products);
        convert_output(&self.output, &mut self.products, &mut self.saturated);
        for (products, atom) in self.products.chunks_exact(lanes).zip(atoms) {
            atom.iter_mut().zip(products).for_each(|(byte, &product)| *byte = product as u8);
        }
    }

    fn counts(&self) -> Counts {
        Counts { lut: counters(self.classes), saturated: self.saturated, nans: 0 }
    }
}
