// SPDX-License-Identifier: MIT OR Apache-2.0

//! Integer lookups without branches.
//!
//! Both tables lie in one array, so an offset selects the table. [`Lookup::int`] handles linear tables with entries
//! that are less than one or at least 2^32 apart, and lookups that are counted.

use nvdla_uapi::reg::values::{LutFunction, LutTable};

use crate::lut::sdp::{Lookup, Range, Slope};
use crate::lut::{Tables, LE_ENTRIES, LO_ENTRIES};

/// The index of LO's first entry in the joint table.
const LO: usize = 128;
pub(super) const ENTRIES: usize = 512;

/// A table's parameters in the form for the loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) start: i32,
    pub(super) select: u32,
    pub(super) last: u32,
    /// The index of the table's first entry in the joint table.
    pub(super) first: u32,
    under: Line,
    over: Line,
}

/// A slope: `entry + (value - origin) * scale / 2^right * 2^left`.
#[derive(Clone, Copy, Debug)]
struct Line {
    origin: i64,
    scale: i64,
    right: u32,
    left: u32,
    entry: i64,
}

/// A lookup that is prepared for chunks.
#[derive(Clone, Debug)]
pub(in super::super) struct Joint {
    pub(super) entries: [i32; ENTRIES],
    le: Side,
    lo: Side,
    exponent: bool,
    index_offset: i32,
    /// Masks: whether LE's result is used if both tables underflow.
    under_le: u32,
    /// Whether LE's result is used if both overflow.
    over_le: u32,
    /// Whether LE's result is used otherwise, unless exactly one table hits.
    hybrid_le: u32,
}

impl Joint {
    /// The lookup for chunks, if its registers allow it.
    pub(super) fn new(lookup: &Lookup, tables: &Tables) -> Option<Self> {
        let exponent = lookup.function == LutFunction::Exponent;
        let is_plain = |range: &Range| (0..32).contains(&range.select);
        if !is_plain(&lookup.lo) || !(exponent || is_plain(&lookup.le)) {
            return None;
        }
        let mut entries = [0; ENTRIES];
        for (entry, &value) in entries.iter_mut().zip(tables.le()) {
            *entry = value.into();
        }
        for (entry, &value) in entries[LO..].iter_mut().zip(tables.lo()) {
            *entry = value.into();
        }
        // The first entry of an exponential table lies 2^offset above the start.
        let first_of_le = if exponent { lookup.first } else { 0 };
        let line = |slope: &Slope, origin: i64, entry: i32| Line {
            origin,
            scale: slope.scale.into(),
            right: slope.shift.max(0) as u32,
            left: (-slope.shift).max(0) as u32,
            entry: entry.into(),
        };
        let side = |range: &Range, first: usize, last: usize, above: i64| Side {
            start: range.start,
            select: range.select.max(0) as u32 & 31,
            last: last as u32,
            first: first as u32,
            under: line(&range.under, i64::from(range.start) + above, entries[first]),
            over: line(&range.over, range.end.into(), entries[first + last]),
        };
        let is_le = |table: LutTable| mask(table == LutTable::Le);
        Some(Self {
            le: side(&lookup.le, 0, LE_ENTRIES - 1, first_of_le),
            lo: side(&lookup.lo, LO, LO_ENTRIES - 1, 0),
            entries,
            exponent,
            index_offset: lookup.index_offset,
            under_le: is_le(lookup.priorities.under),
            over_le: is_le(lookup.priorities.over),
            hybrid_le: is_le(lookup.priorities.hybrid),
        })
    }

    /// The table whose result is used if both hit, if it is linear.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn first_answer(&self) -> Option<Side> {
        match (self.hybrid_le != 0, self.exponent) {
            (true, true) => None,
            (true, false) => Some(self.le),
            (false, _) => Some(self.lo),
        }
    }

    /// Looks every value up, `BLOCK` at a time.
    #[inline(always)]
    pub(super) fn run<const BLOCK: usize>(&self, values: &mut [i32]) {
        if self.exponent {
            self.run_with::<true, false, BLOCK>(values);
        } else if self.le.select < 16 && self.lo.select < 16 {
            self.run_with::<false, true, BLOCK>(values);
        } else {
            self.run_with::<false, false, BLOCK>(values);
        }
    }

    /// `NARROW`: fractions of at most 15 bits, with which an interpolation fits 32.
    #[inline(always)]
    fn run_with<const EXPONENT: bool, const NARROW: bool, const BLOCK: usize>(&self, values: &mut [i32]) {
        for block in values.chunks_mut(BLOCK) {
            // Arrays of one length, whose indices need no check.
            let mut given = [0i32; BLOCK];
            given[..block.len()].copy_from_slice(block);
            let mut indices = [0u32; BLOCK];
            let mut beyond = [0u32; BLOCK];
            let mut bits = [0u32; BLOCK];
            let mut miss = [0u32; BLOCK];
            let mut any = 0;
            for index in 0..BLOCK {
                let position = self.position::<EXPONENT>(given[index]);
                indices[index] = position.entry;
                beyond[index] = position.beyond;
                bits[index] = position.bits;
                miss[index] = position.miss;
                any |= position.miss;
            }
            let mut results = [0i32; BLOCK];
            for index in 0..BLOCK {
                let low = self.entries[indices[index] as usize % ENTRIES];
                let high = self.entries[(indices[index] + 1) as usize % ENTRIES];
                results[index] = if NARROW {
                    interpolate_narrow(low, high, beyond[index], bits[index])
                } else {
                    interpolate_wide(low, high, beyond[index], bits[index])
                };
            }
            if any != 0 {
                for index in 0..BLOCK {
                    let slope = self.extend(given[index], miss[index]);
                    results[index] = if miss[index] == 0 { results[index] } else { slope };
                }
            }
            block.copy_from_slice(&results[..block.len()]);
        }
    }

    /// The position of a value in the table whose result is used.
    #[inline(always)]
    fn position<const EXPONENT: bool>(&self, value: i32) -> TablePosition {
        let (le, lo) = (&self.le, &self.lo);
        let le_distance = value.wrapping_sub(le.start) as u32;
        let (le_index, le_bits, le_below) = if EXPONENT {
            let log = (le_distance | 1).ilog2();
            let index = log as i32 - self.index_offset;
            (index.max(0) as u32, log, mask(index < 0))
        } else {
            (le_distance >> le.select, le.select, 0)
        };
        let le_under = mask(value <= le.start) | le_below;
        let le_over = !le_under & mask(le_index >= le.last);
        let lo_distance = value.wrapping_sub(lo.start) as u32;
        let lo_index = lo_distance >> lo.select;
        let lo_under = mask(value <= lo.start);
        let lo_over = !lo_under & mask(lo_index >= lo.last);

        let le_hit = !(le_under | le_over);
        let lo_hit = !(lo_under | lo_over);
        let (both_under, both_over, one_hit) = (le_under & lo_under, le_over & lo_over, le_hit ^ lo_hit);
        let is_le = (both_under & self.under_le)
            | (both_over & self.over_le)
            | (one_hit & le_hit)
            | (!(both_under | both_over | one_hit) & self.hybrid_le);
        let pick = |le: u32, lo: u32| (le & is_le) | (lo & !is_le);
        let bits = pick(le_bits, lo.select);
        let under = pick(le_under, lo_under);
        let over = pick(le_over, lo_over);
        TablePosition {
            entry: pick(le.first, lo.first) + pick(le_index, lo_index).min(LO_ENTRIES as u32),
            beyond: pick(le_distance, lo_distance) & ((1u32 << (bits & 31)) - 1),
            bits,
            miss: (under & 1) | (over & 2) | ((under | over) & !is_le & 4),
        }
    }

    /// The value on the slope beyond a table: 1 and 2 for below and above LE, 5 and 6 for LO.
    #[inline(always)]
    fn extend(&self, value: i32, miss: u32) -> i32 {
        let lines = [self.le.under, self.le.over, self.lo.under, self.lo.over];
        let pick = |of: fn(&Line) -> i64| {
            let [a, b, c, d] = [of(&lines[0]), of(&lines[1]), of(&lines[2]), of(&lines[3])];
            if miss == 1 {
                a
            } else if miss == 2 {
                b
            } else if miss == 5 {
                c
            } else {
                d
            }
        };
        let origin = pick(|line| line.origin);
        let scale = pick(|line| line.scale);
        let right = pick(|line| line.right.into()) as u32;
        let left = pick(|line| line.left.into()) as u32;
        let entry = pick(|line| line.entry);
        let product = (i64::from(value) - origin).wrapping_mul(scale);
        let half = (1i64 << (right & 63)) >> 1;
        // Without a shift there is nothing to round.
        let sign = if right == 0 { 0 } else { product >> 63 };
        let rounded = product.wrapping_add(half).wrapping_add(sign) >> (right & 63);
        // Bits that a left shift moves out of 40 bits saturate in any case.
        let rise = (rounded.clamp(-(1 << 40), 1 << 40) << (left & 63)).clamp(i32::MIN.into(), i32::MAX.into());
        (entry + rise).clamp(i32::MIN.into(), i32::MAX.into()) as i32
    }
}

/// All ones for true.
#[inline(always)]
fn mask(condition: bool) -> u32 {
    u32::from(condition).wrapping_neg()
}

/// The position of a value.
struct TablePosition {
    /// The entry below, in the joint table.
    entry: u32,
    /// The distance above it, in units of 2^-`bits`.
    beyond: u32,
    bits: u32,
    /// The slope that is used, 0 for none.
    miss: u32,
}

#[inline(always)]
fn interpolate_narrow(low: i32, high: i32, beyond: u32, bits: u32) -> i32 {
    let one = 1i32 << (bits & 15);
    let sum = low.wrapping_mul(one - beyond as i32).wrapping_add(high.wrapping_mul(beyond as i32));
    let sign = if bits == 0 { 0 } else { sum >> 31 };
    sum.wrapping_add(one >> 1).wrapping_add(sign) >> (bits & 15)
}

#[inline(always)]
fn interpolate_wide(low: i32, high: i32, beyond: u32, bits: u32) -> i32 {
    let one = 1i64 << (bits & 31);
    let sum =
        i64::from(low).wrapping_mul(one - i64::from(beyond)).wrapping_add(i64::from(high).wrapping_mul(beyond.into()));
    let sign = if bits == 0 { 0 } else { sum >> 63 };
    (sum.wrapping_add(one >> 1).wrapping_add(sign) >> (bits & 31)) as i32
}
