// SPDX-License-Identifier: MIT OR Apache-2.0

//! Integer processing.

use nvdla_uapi::reg::values::LutFunction;

use super::super::lookup::{Lookup, Range};
use super::rule::{Answers, Entries, Part, Rule, WIDTH};
use crate::lut::tables::Tables;

/// Whether the end entries are the values below and above the table.
pub(in super::super) fn is_flat(range: &Range) -> [bool; 2] {
    [range.under.scale == 0, range.over.scale == 0]
}

/// A table of integers.
struct Table {
    start: i64,
    select: u32,
    offset: i64,
    entries: Entries<i64>,
}

impl Table {
    /// `None` where the hardware's shifts do what shifts of 64 bits do not.
    fn new(range: &Range, table: &[i16], offset: i32, exponent: bool) -> Option<Self> {
        if !exponent && !(0..=30).contains(&range.select) {
            return None;
        }
        let rise = |from: i16, to: i16| i64::from(to) - i64::from(from);
        let entries = Entries::new(table, i64::from, rise, is_flat(range));
        let select = range.select.clamp(0, 30) as u32;
        Some(Self { start: range.start, select, offset: offset.into(), entries })
    }

    #[inline(always)]
    fn answer<const EXPONENT: bool>(&self, sums: &[i64; WIDTH]) -> Part<i64> {
        let (mut index, mut fractions) = ([0i32; WIDTH], [0i64; WIDTH]);
        let mut places = [0; WIDTH];
        for i in 0..WIDTH {
            let distance = sums[i].wrapping_sub(self.start);
            let positive = distance > 0;
            let (at, fraction) = if EXPONENT {
                let log = if positive { 63 - i64::from(distance.leading_zeros()) } else { 0 };
                let beyond = distance ^ (1i64 << (log & 63));
                // Sixteen bits below the highest: 47 bits at most are shifted out of 64.
                (log - self.offset, ((beyond << ((63 - log) & 63)) as u64 >> 47) as i64)
            } else {
                let beyond = distance & ((1 << self.select) - 1);
                (distance >> self.select, (beyond << 16) >> self.select)
            };
            (index[i], fractions[i]) = (at as i32, fraction);
            places[i] = self.entries.place(positive, at);
        }
        let (mut values, rises) = self.entries.at(index);
        for i in 0..WIDTH {
            let product = rises[i].wrapping_mul(fractions[i]);
            // Half away from zero.
            let value = values[i] + ((product + 0x8000 + (product >> 63)) >> 16);
            values[i] = value.clamp(-0x8000, 0x7fff);
        }
        self.entries.part(places, values, [false; WIDTH])
    }
}

/// Both tables for integer processing.
pub(crate) struct Ints {
    le: Table,
    lo: Table,
    rule: Rule,
}

impl std::fmt::Debug for Ints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ints").finish_non_exhaustive()
    }
}

impl Ints {
    /// The lookup, and whether LE is exponential; `None` where the hardware's shifts do what these do not.
    pub(crate) fn new(lookup: &Lookup, tables: &Tables) -> Option<(Self, bool)> {
        let exponent = lookup.function == LutFunction::Exponent;
        let le = Table::new(&lookup.le, tables.le(), lookup.index_offset, exponent)?;
        let lo = Table::new(&lookup.lo, tables.lo(), 0, false)?;
        Some((Self { le, lo, rule: Rule::new(lookup.priorities) }, exponent))
    }

    /// The factors for sums.
    #[inline(always)]
    pub(crate) fn get<const EXPONENT: bool>(&self, sums: &[i64; WIDTH]) -> Answers<i64> {
        let le = self.le.answer::<EXPONENT>(sums);
        let lo = self.lo.answer::<false>(sums);
        self.rule.join(&le, &lo, &[false; WIDTH])
    }
}
