// SPDX-License-Identifier: MIT OR Apache-2.0

//! Entries of a table, answers of a lookup, and the rule that chooses between the two tables.

use super::super::lookup::class;
use crate::lut::tables::{Position, Priorities};
use nvdla_uapi::reg::values::LutTable;

/// Room for either table, so that an index needs no check.
pub(super) const ROOM: usize = 512;

/// What is counted of a lookup: the position in [`crate::lut::Counters`]' order.
pub(crate) const CLASSES: usize = 5;

/// Sums that are looked up together. Loops over this many stay in registers; only the tables' entries are loaded one by
/// one.
pub(crate) const WIDTH: usize = 16;

/// The answers for some sums.
pub(crate) struct Answers<T> {
    pub(crate) factors: [T; WIDTH],
    /// Which counter counts each.
    pub(crate) classes: [u32; WIDTH],
    /// Whether the answer is different, so that [`super::super::Lookup`] must compute it.
    pub(crate) odd: [bool; WIDTH],
}

/// A table's entries, and the values at its ends.
pub(super) struct Entries<T> {
    pub(super) count: usize,
    pub(super) low: [T; ROOM],
    /// From an entry to the next.
    pub(super) rise: [T; ROOM],
    /// Whether the end entries are the values beyond the table.
    pub(super) flat: [bool; 2],
}

impl<T: Copy + Default> Entries<T> {
    /// `number` of each entry, and `rise` from it to the next.
    pub(super) fn new(table: &[i16], number: impl Fn(i16) -> T, rise: impl Fn(i16, i16) -> T, flat: [bool; 2]) -> Self {
        let count = table.len() - 1;
        let (mut low, mut rises) = ([T::default(); ROOM], [T::default(); ROOM]);
        for (low, &entry) in low.iter_mut().zip(table) {
            *low = number(entry);
        }
        for (into, pair) in rises.iter_mut().zip(table.windows(2)) {
            *into = rise(pair[0], pair[1]);
        }
        Self { count, low, rise: rises, flat }
    }

    /// The entries at `index`, and what follows each.
    #[inline(always)]
    pub(super) fn at(&self, index: [i32; WIDTH]) -> ([T; WIDTH], [T; WIDTH]) {
        let (mut low, mut rise) = ([T::default(); WIDTH], [T::default(); WIDTH]);
        for i in 0..WIDTH {
            let at = index[i] as usize & (ROOM - 1);
            (low[i], rise[i]) = (self.low[at], self.rise[at]);
        }
        (low, rise)
    }

    /// Where a value lies that is `index` entries, or less than none, from the first.
    #[inline(always)]
    pub(super) fn place(&self, positive: bool, index: i64) -> u32 {
        let place = if index >= self.count as i64 { OVER } else { HIT };
        if !positive | (index < 0) {
            UNDER
        } else {
            place
        }
    }

    /// Values between entries, `odd` where that is not what the hardware has, and end entries elsewhere.
    #[inline(always)]
    pub(super) fn part(&self, places: [u32; WIDTH], values: [T; WIDTH], odd: [bool; WIDTH]) -> Part<T> {
        let ends = [self.low[0], self.low[self.count & (ROOM - 1)]];
        let mut part = Part { places, values, odd };
        for i in 0..WIDTH {
            let (under, over) = (places[i] == UNDER, places[i] == OVER);
            part.odd[i] = (!under & !over & odd[i]) | (under & !self.flat[0]) | (over & !self.flat[1]);
            let value = if under { ends[0] } else { values[i] };
            part.values[i] = if over { ends[1] } else { value };
        }
        part
    }
}

/// One table's answers.
pub(super) struct Part<T> {
    pub(super) places: [u32; WIDTH],
    pub(super) values: [T; WIDTH],
    pub(super) odd: [bool; WIDTH],
}

impl Rule {
    /// The answers of both tables as one; where `uncertain` is set neither table's place is known.
    #[inline(always)]
    pub(super) fn join<T: Copy>(self, le: &Part<T>, lo: &Part<T>, uncertain: &[bool; WIDTH]) -> Answers<T> {
        let mut answers = Answers { factors: le.values, classes: [0; WIDTH], odd: *uncertain };
        for i in 0..WIDTH {
            let (is_lo, class) = self.apply(le.places[i], lo.places[i]);
            answers.factors[i] = if is_lo { lo.values[i] } else { le.values[i] };
            answers.odd[i] |= if is_lo { lo.odd[i] } else { le.odd[i] };
            answers.classes[i] = class;
        }
        answers
    }
}

/// Where in a table a value lies: 0 below, 1 above, 2 in it.
pub(super) const UNDER: u32 = 0;

pub(super) const OVER: u32 = 1;

pub(super) const HIT: u32 = 2;

/// Which table answers, and what is counted, by where both tables have a value: a bit and three of each of nine cases.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) lo: u32,
    pub(super) classes: u32,
}

impl Rule {
    pub(super) fn new(priorities: Priorities) -> Self {
        let positions = [Position::Under, Position::Over, Position::Hit { index: 0, fraction: 0 }];
        let (mut lo, mut classes) = (0, 0);
        for (i, &le_at) in positions.iter().enumerate() {
            for (j, &lo_at) in positions.iter().enumerate() {
                let case = 3 * i + j;
                lo |= u32::from(priorities.choose(le_at, lo_at) == LutTable::Lo) << case;
                let class = class(le_at, lo_at) as u32;
                classes |= class << (3 * case);
            }
        }
        Self { lo, classes }
    }

    /// Whether LO answers, and the class.
    #[inline(always)]
    pub(super) fn apply(self, le: u32, lo: u32) -> (bool, u32) {
        let case = 3 * le + lo;
        ((self.lo >> case) & 1 != 0, (self.classes >> (3 * case)) & 7)
    }
}
