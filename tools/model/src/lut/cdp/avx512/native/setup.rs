// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which lookups the machine's fp16 has, and their tables.

use std::ops::RangeInclusive;

use nvdla_uapi::reg::values::LutTable;

use super::super::super::regions::{Region, Way};
use super::super::super::vector::float::{number, rise};
use super::super::super::Lookup;
use super::super::float::{domain, Floats};
use super::walk::Bound;
use super::ways::{Exponent, Linear, Near, Places};
use super::{Native, Table, BOUNDS};
use crate::lut::Tables;
use crate::num::convert::{fp16_to_fp32, fp32_to_fp16};

/// The smallest magnitude of an entry, multiplied.
const LEAST: f32 = 4.0;
/// Powers of two to multiply with: entries then lie below 2^15. With these a product whose last place fp16 has not is
/// zero in the end.
const POWERS: RangeInclusive<i32> = 11..=15;
/// The smallest sum of squares that is not zero.
const SMALLEST: f32 = 1.0 / (1u64 << 48) as f32;

/// A number times a power of two, which must be an fp16.
fn scaled(number: f32, power: i32) -> Option<u16> {
    let scaled = number * 2f32.powi(power);
    let half = fp32_to_fp16(scaled.to_bits());
    (half & 0x7fff < 0x7c00 && fp16_to_fp32(half) == scaled.to_bits()).then_some(half)
}

/// The way of a table, and its entries that may answer: from the first to the one after the last.
struct Part<'t> {
    way: Way,
    table: &'t [i16],
    first: usize,
    last: usize,
}

impl Part<'_> {
    fn entries(&self) -> &[i16] {
        &self.table[self.first..=(self.last + 1).min(self.table.len() - 1)]
    }

    /// Entries and rises, none before the first; `None` where they are not what this module can do.
    fn pairs(&self, power: i32) -> Option<Vec<[u16; 2]>> {
        let least = LEAST * 2f32.powi(-power);
        let pair = |pair: &[i16]| {
            let ([low, high], rise) = ([number(pair[0]), number(pair[1])], rise(pair[0], pair[1]));
            let is_usual = low.abs() >= least && high.abs() >= least && low * high > 0.0;
            let are_zero = pair[0] == 0 && pair[1] == 0;
            if !is_usual && !are_zero || (low + rise).to_bits() != high.to_bits() {
                return None;
            }
            Some([scaled(low, power)?, scaled(rise, power - 16)?])
        };
        let entries = self.entries();
        let last = scaled(number(entries[entries.len() - 1]), power).map(|last| [last, 0]);
        let before = std::iter::repeat_n(Some([0; 2]), self.first);
        before.chain(entries.windows(2).map(pair)).chain([last]).collect()
    }
}

/// Where regions begin and end.
struct Map<'r> {
    regions: &'r [Region<f32>],
    squares: bool,
}

impl Map<'_> {
    /// A region's first number; no sum lies before it and behind the last region.
    fn from(&self, region: usize) -> f32 {
        let from = self.regions[region].from;
        if self.squares && from > 0.0 {
            from.max(SMALLEST)
        } else {
            from
        }
    }

    /// The first and the last number of which a table must know the answer.
    fn range(&self, way: Way) -> [f32; 2] {
        let mut range = [f32::INFINITY, f32::NEG_INFINITY];
        for at in (0..self.regions.len()).filter(|&at| self.regions[at].way == way) {
            let to = if at + 1 < self.regions.len() { self.from(at + 1) } else { domain(self.squares)[1] };
            range = [range[0].min(self.from(at)), range[1].max(to)];
        }
        range
    }
}

impl Native {
    /// `None` where the processor has no AVX512-FP16, or the tables no numbers for this; `floats` is the same lookup.
    pub(crate) fn new(floats: &Floats, lookup: &Lookup, tables: &Tables, squares: bool) -> Option<Self> {
        let map = Map { regions: &floats.regions, squares };
        let regions = map.regions;
        if !is_x86_feature_detected!("avx512fp16") || regions.len() > BOUNDS + 1 {
            return None;
        }
        let mut parts: Vec<Part> = Vec::new();
        let mut ends: Vec<i16> = Vec::new();
        for &Region { way, .. } in regions {
            let (range, table): (_, &[i16]) = match way {
                Way::Exponent | Way::Linear(LutTable::Le) => (&lookup.le, tables.le()),
                Way::Linear(LutTable::Lo) => (&lookup.lo, tables.lo()),
                Way::End(entry) => {
                    ends.push(entry);
                    continue;
                }
                Way::Other => return None,
            };
            if parts.iter().any(|part| part.way == way) {
                continue;
            }
            let (first, last) = match way {
                Way::Exponent => Exponent::entries(range, lookup.index_offset, map.range(way)),
                _ => Places::new(range).entries(map.range(way)),
            };
            let last = last.min(table.len() - 1);
            parts.push(Part { way, table, first: first.min(last), last });
        }
        let all = parts.iter().flat_map(Part::entries).chain(&ends);
        let largest = all.fold(0f32, |largest, &entry| largest.max(number(entry).abs()));
        if !(f32::MIN_POSITIVE..16.0).contains(&largest) {
            return None;
        }
        let power = (14 - largest.log2().floor() as i32).min(*POWERS.end());
        let least = LEAST * 2f32.powi(-power);
        if !POWERS.contains(&power) || ends.iter().any(|&end| number(end).abs() < least) {
            return None;
        }
        let mut made = Vec::new();
        for part in &parts {
            let (first, last, pairs) = (part.first, part.last, part.pairs(power)?);
            let few = || pairs.get(first..).filter(|_| last - first < Near::MOST);
            let table = match part.way {
                Way::Exponent => Table::Exponent(Exponent::new(&lookup.le, lookup.index_offset, first, few()?)),
                way => {
                    let places = Places::new(if way == Way::Linear(LutTable::Lo) { &lookup.lo } else { &lookup.le });
                    match few() {
                        Some(few) => Table::Near(Near::new(places, first, few)),
                        None => Table::Linear(Linear::new(places, &pairs)),
                    }
                }
            };
            made.push((part.way, table));
        }
        made.sort_by_key(|(_, table)| table.order());
        let answer = |way: Way| match way {
            Way::End(entry) => 2 + ends.iter().position(|&end| end == entry).unwrap_or(0),
            way => made.iter().position(|made| made.0 == way).unwrap_or(0),
        };
        let bounds: Vec<Bound> =
            (1..regions.len()).map(|at| Bound { from: map.from(at), answer: answer(regions[at].way) }).collect();
        let mut classes = [0; BOUNDS + 1];
        classes.iter_mut().zip(regions).for_each(|(class, region)| *class = region.class);
        let is_short =
            squares && bounds.iter().copied().all(Bound::is_short) && made.iter().all(|(_, table)| !table.is_moved());
        Some(Self {
            first: answer(regions[0].way),
            bounds,
            classes,
            is_short,
            is_bounded: largest <= 1.0,
            power: power as i16,
            scale: scaled(1.0, -power)? as i16,
            ends: ends.iter().map(|&end| scaled(number(end), power).map(|end| end as i16)).collect::<Option<_>>()?,
            tables: made.into_iter().map(|(_, table)| table).collect(),
        })
    }
}

impl Table {
    pub(super) const fn order(&self) -> usize {
        match self {
            Self::Exponent(_) => 0,
            Self::Near(_) => 1,
            Self::Linear(_) => 2,
        }
    }

    fn is_moved(&self) -> bool {
        match self {
            Self::Exponent(table) => table.is_moved(),
            Self::Near(table) => table.is_moved(),
            Self::Linear(table) => table.is_moved(),
        }
    }
}
