// SPDX-License-Identifier: MIT OR Apache-2.0

//! The answers of a lookup for int8, each kept after it was computed first.
//!
//! The argument has 20 bits at most. A cube has far fewer different sums than elements, and the next inference needs the
//! same ones.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::lut::cdp::Lookup;
use crate::lut::{Counters, Tables};

/// Nine squares of 9 bits.
const LARGEST: i64 = 9 << 16;

/// The smallest single value, which the table's argument is where nothing is squared.
const SMALLEST: i64 = -256;

/// The answers of one lookup, by its argument.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Zero, or [`KNOWN`] with the counter's place and the factor. Threads that find the same answer store the same.
    entries: Vec<AtomicU32>,
}

const KNOWN: u32 = 1 << 31;
/// Bits of a counter while a chunk is looked up; an entry has its counter's place.
const COUNT_BITS: u32 = 12;
/// Elements per chunk: the largest number that a counter can hold.
const CHUNK: usize = (1 << COUNT_BITS) - 1;

impl Answers {
    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.entries.resize_with((LARGEST - SMALLEST + 1) as usize, AtomicU32::default);
    }

    /// The entry of an argument: the factor in its low sixteen bits.
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

    /// The factors of sums, and how often each class was counted.
    pub(super) fn factors(
        &self,
        lookup: &Lookup,
        tables: &Tables,
        sums: &[i32],
        factors: &mut [i16],
        classes: &mut [u32; 5],
    ) {
        for (factors, sums) in factors.chunks_mut(CHUNK).zip(sums.chunks(CHUNK)) {
            // All counters in one register.
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
