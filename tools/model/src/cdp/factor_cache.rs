// SPDX-License-Identifier: MIT OR Apache-2.0

//! A cache of the factors that a lookup gives for int8.
//!
//! The argument of an int8 lookup has at most 20 bits. A cube has far fewer different arguments than elements, and the
//! next inference needs the same ones. Each argument is therefore looked up once.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::lut::cdp::Lookup;
use crate::lut::{Counters, Tables};

/// The largest argument: nine squares of 9-bit values.
const LARGEST: i64 = 9 << 16;

/// The smallest argument: a 9-bit value, if squaring is bypassed.
const SMALLEST: i64 = -256;

/// The factors of one lookup, by argument.
#[derive(Debug, Default)]
pub(super) struct FactorCache {
    /// An entry is zero, or [`KNOWN`] with the position of its counter and the factor. Threads that compute the same
    /// entry store the same value.
    entries: Vec<AtomicU32>,
}

const KNOWN: u32 = 1 << 31;
/// Bits per counter in the word that counts a chunk. An entry has the position of its counter in that word.
const COUNT_BITS: u32 = 12;
/// Elements per chunk: the largest number that a counter can hold.
const CHUNK: usize = (1 << COUNT_BITS) - 1;

impl FactorCache {
    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.entries.resize_with((LARGEST - SMALLEST + 1) as usize, AtomicU32::default);
    }

    /// Returns an argument's entry. Its low 16 bits are the factor.
    #[inline]
    fn get(&self, lookup: &Lookup, tables: &Tables, sum: i64) -> u32 {
        match self.entries.get((sum - SMALLEST) as usize).map(|entry| entry.load(Ordering::Relaxed)) {
            None | Some(0) => self.find(lookup, tables, sum),
            Some(entry) => entry,
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&self, lookup: &Lookup, tables: &Tables, sum: i64) -> u32 {
        let mut counter = Counters::default();
        let factor = lookup.int(tables, sum, &mut counter);
        let Counters { under, over, hybrid, le_hit, lo_hit } = counter;
        let which = [under, over, hybrid, le_hit, lo_hit].iter().position(|&count| count != 0).unwrap_or(0);
        let entry = KNOWN | (COUNT_BITS * which as u32) << 16 | u32::from(factor as u16);
        if let Some(place) = self.entries.get((sum - SMALLEST) as usize) {
            place.store(entry, Ordering::Relaxed);
        }
        entry
    }

    /// Looks up the factors of `sums`, and counts the lookups per class.
    pub(super) fn factors(
        &self,
        lookup: &Lookup,
        tables: &Tables,
        sums: &[i32],
        factors: &mut [i16],
        classes: &mut [u32; 5],
    ) {
        for (factors, sums) in factors.chunks_mut(CHUNK).zip(sums.chunks(CHUNK)) {
            // All five counters in one word.
            let mut counts = 0u64;
            for (factor, &sum) in factors.iter_mut().zip(sums) {
                let entry = self.get(lookup, tables, sum.into());
                counts += 1 << ((entry >> 16) & 63);
                *factor = entry as i16;
            }
            for (class, count) in classes.iter_mut().enumerate() {
                *count = count.wrapping_add((counts >> (COUNT_BITS * class as u32)) as u32 & ((1 << COUNT_BITS) - 1));
            }
        }
    }
}
