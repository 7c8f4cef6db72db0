// SPDX-License-Identifier: MIT OR Apache-2.0

//! Regions of arguments that the same table answers in the same way.
//!
//! As a sum grows, it lies below a table, in it, and above it. The arguments therefore fall into five regions at most;
//! in each of them one table answers in one way, and one counter counts.

use nvdla_uapi::reg::values::{LutFunction, LutTable};

use super::lookup::{class, Lookup, Range};
use crate::lut::tables::{Position, Tables};

/// How a table answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// LE, with entries at powers of two.
    Exponent,
    /// Between two entries at even distances.
    Linear(LutTable),
    /// With an end entry.
    End(i16),
    /// With a slope, or otherwise as [`Lookup`] knows best.
    Other,
}

/// A region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region<T> {
    /// Its first number.
    pub(crate) from: T,
    pub(crate) way: Way,
    /// Which counter counts, in [`crate::lut::Counters`]' order.
    pub(crate) class: usize,
}

/// Where a table begins and ends, for numbers with keys in the same order, from `first` to `last`.
pub(super) fn regions<T>(
    lookup: &Lookup,
    tables: &Tables,
    [first, last]: [i64; 2],
    number: impl Fn(i64) -> T,
    positions: impl Fn(i64) -> (Position, Position),
    flat: impl Fn(&Range, &[i16]) -> [bool; 2],
) -> Vec<Region<T>> {
    // Without the values between entries.
    let places = |key: i64| {
        let place = |position: Position| match position {
            Position::Hit { .. } => Position::Hit { index: 0, fraction: 0 },
            end => end,
        };
        let (le, lo) = positions(key);
        (place(le), place(lo))
    };
    let mut regions = Vec::with_capacity(5);
    let mut from = first;
    loop {
        let here = places(from);
        let (le, lo) = here;
        let table = lookup.priorities.choose(le, lo);
        let (range, entries, position): (_, &[i16], _) = match table {
            LutTable::Le => (&lookup.le, tables.le(), le),
            LutTable::Lo => (&lookup.lo, tables.lo(), lo),
        };
        let end = |entry: i16, over: usize| if flat(range, entries)[over] { Way::End(entry) } else { Way::Other };
        let way = match position {
            Position::Under => end(entries[0], 0),
            Position::Over => end(entries[entries.len() - 1], 1),
            Position::Hit { .. } if table == LutTable::Le && lookup.function == LutFunction::Exponent => Way::Exponent,
            Position::Hit { .. } => Way::Linear(table),
        };
        regions.push(Region { from: number(from), way, class: class(le, lo) });
        if places(last) == here {
            return regions;
        }
        // `inside` is in this region, `beyond` is not.
        let (mut inside, mut beyond) = (from, last);
        while beyond - inside > 1 {
            let middle = inside + (beyond - inside) / 2;
            if places(middle) == here {
                inside = middle;
            } else {
                beyond = middle;
            }
        }
        from = beyond;
    }
}

/// The region of a number: none is before the first one.
#[inline]
pub(crate) fn find<T: PartialOrd + Copy>(regions: &[Region<T>], number: T) -> usize {
    regions.iter().skip(1).take_while(|region| number >= region.from).count()
}
