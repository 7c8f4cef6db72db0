// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP's lookup without branches, for loops that compile to vector code.
//!
//! An answer comes with whether it holds: where the hardware's arithmetic leaves what a few machine instructions do
//! (slopes beyond a table's end, the ends of fp17's range, the sign of a zero) the caller asks [`Lookup`] itself.
//!
//! fp17 has 11 significant bits and fp32 more than twice as many, so that a sum or product in fp32, rounded again to 11
//! bits, is the correctly rounded one.

// Loops are compiled for an instruction set only with what is inlined into them.
#![allow(clippy::inline_always)]
// A lazy operator is a branch, which vectors do not have.
#![allow(clippy::needless_bitwise_bool)]

use nvdla_uapi::reg::values::{LutFunction, LutTable};

use super::{Lookup, Range};
use crate::lut::{Position, Priorities, Tables};
use crate::num::convert::{fp16_to_fp32, fp17_to_fp32, fp32_to_fp17};
use crate::num::{Fp16, Fp32};

/// Room for either table, so that an index needs no check.
const ROOM: usize = 512;
/// fp17's magnitudes that are far enough from its ends, as bits of fp32: from 2^-29 up to 2^31.
const SMALLEST: u32 = (127 - 29) << 23;
const LARGEST: u32 = (127 + 31) << 23;
const MAGNITUDE: u32 = 0x7fff_ffff;

/// What is counted of a lookup: the position in [`crate::lut::Counters`]' order.
pub(crate) const CLASSES: usize = 5;

/// Sums that are looked up together. Loops over so many stay in registers; only the tables' entries are loaded one by one.
pub(crate) const WIDTH: usize = 16;

/// The answers for some sums.
pub(crate) struct Answers<T> {
    pub(crate) factors: [T; WIDTH],
    /// Which counter counts each.
    pub(crate) classes: [u32; WIDTH],
    /// Whether the answer is another, which [`Lookup`] knows.
    pub(crate) odd: [bool; WIDTH],
}

/// One table's answers.
struct Part<T> {
    places: [u32; WIDTH],
    values: [T; WIDTH],
    odd: [bool; WIDTH],
}

impl Rule {
    /// The answers of both tables as one; where `uncertain` is set neither table's place is known.
    #[inline(always)]
    fn join<T: Copy>(self, le: &Part<T>, lo: &Part<T>, uncertain: &[bool; WIDTH]) -> Answers<T> {
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
const UNDER: u32 = 0;
const OVER: u32 = 1;
const HIT: u32 = 2;

/// Which table answers, and what is counted, by where both tables have a value: a bit and three of each of nine cases.
#[derive(Clone, Copy)]
struct Rule {
    lo: u32,
    classes: u32,
}

impl Rule {
    fn new(priorities: Priorities) -> Self {
        let positions = [Position::Under, Position::Over, Position::Hit { index: 0, fraction: 0 }];
        let (mut lo, mut classes) = (0, 0);
        for (i, &le_at) in positions.iter().enumerate() {
            for (j, &lo_at) in positions.iter().enumerate() {
                let case = 3 * i + j;
                lo |= u32::from(priorities.choose(le_at, lo_at) == LutTable::Lo) << case;
                let class = match (i as u32, j as u32) {
                    (UNDER, UNDER) => 0,
                    (OVER, OVER) => 1,
                    (HIT, UNDER | OVER) => 3,
                    (UNDER | OVER, HIT) => 4,
                    _ => 2,
                };
                classes |= class << (3 * case);
            }
        }
        Self { lo, classes }
    }

    /// Whether LO answers, and the class.
    #[inline(always)]
    fn apply(self, le: u32, lo: u32) -> (bool, u32) {
        let case = 3 * le + lo;
        ((self.lo >> case) & 1 != 0, (self.classes >> (3 * case)) & 7)
    }
}

/// A table of fp16 entries, as fp32.
struct FloatTable {
    start: f32,
    /// One over the distance of two entries.
    steps: f32,
    entries: usize,
    /// log2 of the first entry's distance, of an exponential table.
    offset: i32,
    low: [f32; ROOM],
    /// From an entry to the next, in fp17.
    rise: [f32; ROOM],
    /// Whether the end entries stand for what lies beyond.
    flat: [bool; 2],
}

impl FloatTable {
    /// `None` where a number of it is not finite, or too far from one for this arithmetic.
    fn new(range: &Range, table: &[i16], offset: i32) -> Option<Self> {
        let finite = |entry: &i16| Fp16::expo(u32::from(*entry as u16)) != Fp16::EXPO_MAX;
        let start = range.start as u32;
        let normal = Fp32::is_zero(start) || (1..255).contains(&Fp32::expo(start));
        if !table.iter().all(finite)
            || !normal
            || !(-60..=60).contains(&range.select)
            || !(-120..=120).contains(&offset)
        {
            return None;
        }
        let entries = table.len() - 1;
        let (mut low, mut rise) = ([0.0; ROOM], [0.0; ROOM]);
        for (at, pair) in table.windows(2).enumerate() {
            let [from, to] = [pair[0], pair[1]].map(|entry| fp16_to_fp32(entry as u16));
            low[at] = f32::from_bits(from);
            rise[at] = f32::from_bits(fp17_to_fp32(fp32_to_fp17(Fp32::sub(to, from))));
        }
        low[entries] = f32::from_bits(fp16_to_fp32(table[entries] as u16));
        let flat = |scale: i16, end: f32| scale << 1 == 0 && end != 0.0;
        let flat = [flat(range.under.scale, low[0]), flat(range.over.scale, low[entries])];
        let steps = 2f32.powi(-range.select);
        Some(Self { start: f32::from_bits(start), steps, entries, offset, low, rise, flat })
    }

    /// `uncertain` gets those whose distance the hardware takes for zero, which may be another place.
    #[inline(always)]
    fn answer<const EXPONENT: bool>(&self, sums: &[f32; WIDTH], uncertain: &mut [bool; WIDTH]) -> Part<f32> {
        let last = self.entries as i32;
        let (mut index, mut parts) = ([0i32; WIDTH], [0f32; WIDTH]);
        let mut places = [HIT; WIDTH];
        for i in 0..WIDTH {
            let distance = sums[i] - self.start;
            uncertain[i] |= (distance != 0.0) & (distance.abs() < f32::MIN_POSITIVE);
            let positive = distance > 0.0;
            let (at, fraction) = if EXPONENT {
                let bits = distance.to_bits() as i32;
                ((bits >> 23) - 127 - self.offset, (bits >> 7) & 0xffff)
            } else {
                // What is not in the table must not overflow here.
                let scaled = if positive { distance * self.steps } else { 0.0 };
                let scaled = if scaled < last as f32 { scaled } else { last as f32 };
                // SAFETY: the number is from 0 to `last`.
                let at: i32 = unsafe { scaled.to_int_unchecked() };
                // SAFETY: the difference is from 0 to 1.
                (at, unsafe { ((scaled - at as f32) * 65536.0).to_int_unchecked() })
            };
            index[i] = at;
            parts[i] = round(fraction as f32 * (1.0 / 65536.0));
            let place = if at >= last { OVER } else { HIT };
            places[i] = if !positive | (at < 0) { UNDER } else { place };
        }
        let (mut low, mut rise) = ([0.0; WIDTH], [0.0; WIDTH]);
        for i in 0..WIDTH {
            let at = index[i] as usize & (ROOM - 1);
            (low[i], rise[i]) = (self.low[at], self.rise[at]);
        }
        let ends = [self.low[0], self.low[self.entries & (ROOM - 1)]];
        let mut part = Part { places, values: low, odd: [false; WIDTH] };
        for i in 0..WIDTH {
            let rise = round(rise[i] * parts[i]);
            let value = round(rise + low[i]);
            // An exact sum of zero has the sign of the first operand.
            let value = if value == 0.0 { f32::from_bits(rise.to_bits() & !MAGNITUDE) } else { value };
            let ending = ((rise != 0.0) & outside(rise)) | ((value != 0.0) & outside(value));
            let (under, over) = (places[i] == UNDER, places[i] == OVER);
            part.odd[i] = (!under & !over & ending) | (under & !self.flat[0]) | (over & !self.flat[1]);
            let value = if under { ends[0] } else { value };
            part.values[i] = if over { ends[1] } else { value };
        }
        part
    }
}

/// Rounds an fp32 to 11 significant bits, half to even.
#[inline(always)]
pub(crate) fn round(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(bits.wrapping_add(0xfff + ((bits >> 13) & 1)) & !0x1fff)
}

/// Whether fp17 may have another value for this one; zero counts.
#[inline(always)]
pub(crate) fn outside(value: f32) -> bool {
    (value.to_bits() & MAGNITUDE).wrapping_sub(SMALLEST) >= LARGEST - SMALLEST
}

/// Both tables for fp16 processing.
pub(crate) struct Floats {
    le: FloatTable,
    lo: FloatTable,
    rule: Rule,
}

impl Floats {
    /// The lookup, and whether LE is exponential; `None` where a table has numbers that this arithmetic has not.
    pub(crate) fn new(lookup: &Lookup, tables: &Tables) -> Option<(Self, bool)> {
        let le = FloatTable::new(&lookup.le, tables.le(), lookup.index_offset)?;
        let lo = FloatTable::new(&lookup.lo, tables.lo(), 0)?;
        let exponent = lookup.function == LutFunction::Exponent;
        Some((Self { le, lo, rule: Rule::new(lookup.priorities) }, exponent))
    }

    /// The factors for sums that are neither NaN nor infinite.
    #[inline(always)]
    pub(crate) fn get<const EXPONENT: bool>(&self, sums: &[f32; WIDTH]) -> Answers<f32> {
        let mut uncertain = [false; WIDTH];
        let le = self.le.answer::<EXPONENT>(sums, &mut uncertain);
        let lo = self.lo.answer::<false>(sums, &mut uncertain);
        self.rule.join(&le, &lo, &uncertain)
    }
}

/// A table of integers.
struct IntTable {
    start: i64,
    select: u32,
    entries: i64,
    offset: i64,
    low: [i64; ROOM],
    rise: [i64; ROOM],
    flat: [bool; 2],
}

impl IntTable {
    /// `None` where the hardware's shifts do what shifts of 64 bits do not.
    fn new(range: &Range, table: &[i16], offset: i32, exponent: bool) -> Option<Self> {
        if !exponent && !(0..=30).contains(&range.select) {
            return None;
        }
        let (mut low, mut rise) = ([0; ROOM], [0; ROOM]);
        for (at, pair) in table.windows(2).enumerate() {
            low[at] = pair[0].into();
            rise[at] = i64::from(pair[1]) - i64::from(pair[0]);
        }
        let entries = table.len() as i64 - 1;
        low[entries as usize] = table[entries as usize].into();
        let flat = [range.under.scale == 0, range.over.scale == 0];
        let select = range.select.clamp(0, 30) as u32;
        Some(Self { start: range.start, select, entries, offset: offset.into(), low, rise, flat })
    }

    #[inline(always)]
    fn answer<const EXPONENT: bool>(&self, sums: &[i64; WIDTH]) -> Part<i64> {
        let (mut index, mut fractions) = ([0i64; WIDTH], [0i64; WIDTH]);
        let mut places = [HIT; WIDTH];
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
            (index[i], fractions[i]) = (at, fraction);
            let place = if at >= self.entries { OVER } else { HIT };
            places[i] = if !positive | (at < 0) { UNDER } else { place };
        }
        let (mut low, mut rise) = ([0; WIDTH], [0; WIDTH]);
        for i in 0..WIDTH {
            let at = index[i] as usize & (ROOM - 1);
            (low[i], rise[i]) = (self.low[at], self.rise[at]);
        }
        let ends = [self.low[0], self.low[self.entries as usize & (ROOM - 1)]];
        let mut part = Part { places, values: low, odd: [false; WIDTH] };
        for i in 0..WIDTH {
            let product = rise[i].wrapping_mul(fractions[i]);
            // Half away from zero.
            let value = low[i] + ((product + 0x8000 + (product >> 63)) >> 16);
            let (under, over) = (places[i] == UNDER, places[i] == OVER);
            part.odd[i] = (under & !self.flat[0]) | (over & !self.flat[1]);
            let value = if under { ends[0] } else { value };
            let value = if over { ends[1] } else { value };
            part.values[i] = value.clamp(-0x8000, 0x7fff);
        }
        part
    }
}

/// Both tables for integer processing.
pub(crate) struct Ints {
    le: IntTable,
    lo: IntTable,
    rule: Rule,
}

impl Ints {
    /// As [`Floats::new`].
    pub(crate) fn new(lookup: &Lookup, tables: &Tables) -> Option<(Self, bool)> {
        let exponent = lookup.function == LutFunction::Exponent;
        let le = IntTable::new(&lookup.le, tables.le(), lookup.index_offset, exponent)?;
        let lo = IntTable::new(&lookup.lo, tables.lo(), 0, false)?;
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

#[cfg(test)]
mod tests {
    use nvdla_uapi::reg::values::Precision;
    use nvdla_uapi::reg::{cdp as reg, Block};

    use super::*;
    use crate::lut::Counters;
    use crate::registers::Registers;

    /// A lookup of random registers, near what networks have.
    fn random(next: &mut impl FnMut() -> u32, precision: Precision) -> (Lookup, Tables) {
        let half = precision == Precision::Fp16;
        let mut registers = Registers::reset(Block::Cdp);
        let limit = |value: u32| if half { (value % 1000) as f32 * 0.25 } else { 0.0 }.to_bits();
        let value = next();
        for (register, value) in [
            (reg::S_LUT_CFG, next() & 0x71),
            (reg::S_LUT_INFO, (next() % 12) | (next() % 12) << 8 | (next() % 14) << 16),
            (reg::S_LUT_LE_START_LOW, if half { limit(value) } else { value % 5000 }),
            (reg::S_LUT_LO_START_LOW, if half { limit(value / 7) } else { value % 700 }),
            (reg::S_LUT_LE_END_LOW, next()),
            (reg::S_LUT_LO_END_LOW, next()),
            (reg::S_LUT_LE_SLOPE_SCALE, next() * (next() & 1)),
            (reg::S_LUT_LO_SLOPE_SCALE, next() * (next() & 1)),
        ] {
            registers.set(register, value & register.writable);
        }
        let mut tables = Tables::default();
        for (access, entries) in [(1 << 17, 65), (3 << 16, 257)] {
            tables.write_access(access);
            for _ in 0..entries {
                tables.write_data(if half { next() & 0xbfff } else { next() });
            }
        }
        (Lookup::new(&registers, precision).unwrap(), tables)
    }

    fn numbers() -> impl FnMut() -> u32 {
        let mut state = 3u64;
        move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 32) as u32
        }
    }

    fn class(counters: Counters) -> u32 {
        let Counters { under, over, hybrid, le_hit, lo_hit } = counters;
        [under, over, hybrid, le_hit, lo_hit].iter().position(|&count| count == 1).unwrap() as u32
    }

    #[test]
    fn floats_are_the_lookup_s() {
        let mut next = numbers();
        let (mut held, mut all) = (0, 0);
        for _ in 0..300 {
            let (lookup, tables) = random(&mut next, Precision::Fp16);
            let Some((floats, exponent)) = Floats::new(&lookup, &tables) else { continue };
            for _ in 0..40 {
                let sums = std::array::from_fn(|_| f32::from_bits(0x3000_0000 + next() % 0x1800_0000));
                let answers = if exponent { floats.get::<true>(&sums) } else { floats.get::<false>(&sums) };
                for (i, sum) in sums.into_iter().enumerate() {
                    all += 1;
                    if answers.odd[i] {
                        continue;
                    }
                    held += 1;
                    let mut counters = Counters::default();
                    let expected = lookup.float(&tables, sum.to_bits(), &mut counters);
                    assert_eq!(answers.factors[i].to_bits(), fp17_to_fp32(expected), "{sum} in {lookup:?}");
                    assert_eq!(answers.classes[i], class(counters), "{sum} in {lookup:?}");
                }
            }
        }
        assert!(all > 50_000 && held * 2 > all, "{held} of {all}");
    }

    #[test]
    fn integers_are_the_lookup_s() {
        let mut next = numbers();
        let (mut held, mut all) = (0, 0);
        for _ in 0..300 {
            let (lookup, tables) = random(&mut next, Precision::Int16);
            let Some((ints, exponent)) = Ints::new(&lookup, &tables) else { continue };
            for _ in 0..40 {
                let sums = std::array::from_fn(|_| i64::from(next() >> (next() % 32)) << (next() % 6));
                let answers = if exponent { ints.get::<true>(&sums) } else { ints.get::<false>(&sums) };
                for (i, sum) in sums.into_iter().enumerate() {
                    all += 1;
                    if answers.odd[i] {
                        continue;
                    }
                    held += 1;
                    let mut counters = Counters::default();
                    let expected = lookup.int(&tables, sum, &mut counters);
                    assert_eq!(answers.factors[i], i64::from(expected), "{sum} in {lookup:?}");
                    assert_eq!(answers.classes[i], class(counters), "{sum} in {lookup:?}");
                }
            }
        }
        assert!(all > 50_000 && held * 2 > all, "{held} of {all}");
    }
}
