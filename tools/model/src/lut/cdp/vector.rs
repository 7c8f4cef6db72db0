// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP's lookup without branches, for loops that compile to vector code.
//!
//! Integers are computed in fp64, which holds all their intermediate values exactly: sums have 36 bits, limits 38, and
//! the product of a difference of entries with a fraction has 33. fp16 is computed in fp32: fp17 has 11 significant
//! bits and fp32 more than twice as many, so a sum or product in fp32, rounded again to 11 bits, is the correctly rounded
//! one.
//!
//! Each result has a flag that says whether it is valid. Where the hardware's arithmetic differs from a few machine instructions
//! (slopes beyond a table's end, the ends of fp17's range, distances that the hardware treats as zero), the caller uses
//! [`Lookup`].
//!
//! ```text
//! for both tables:
//!     distance = sum - start
//!     index, fraction = the exponent and mantissa of distance, or distance / step
//!     place = under if distance <= 0 or index < 0, over if index >= last, else hit
//!     value = the first entry, the last entry, or entry[index] + rise[index] * fraction
//! factor, class = one of both values and a counter, by both places
//! ```

// A loop is compiled for an instruction set only together with the functions that are inlined into it.
#![allow(clippy::inline_always)]
// A lazy operator is a branch, which vectors do not have.
#![allow(clippy::needless_bitwise_bool)]

use nvdla_uapi::reg::values::{LutFunction, LutTable};

use super::lookup::{class, Lookup, Range};
use crate::lut::tables::{Counters, Position, Priorities, Tables};
use crate::num::convert::{fp16_to_fp32, fp17_to_fp32, fp32_to_fp17};
use crate::num::{Fp16, Fp32};

/// The number of sums that are looked up together. Loops over this many stay in registers; only the tables' entries are loaded
/// one by one.
pub(crate) const WIDTH: usize = 16;

/// The counters of a lookup, in the order of [`Counters`]' fields.
pub(crate) const CLASSES: usize = 5;

/// The length of an array for the entries of either table. Every index fits it, so indices are not checked.
const LENGTH: usize = 512;

/// The possible positions of a value in a table.
const UNDER: u32 = 0;
const OVER: u32 = 1;
const HIT: u32 = 2;

/// The counters after `counts` lookups of each class.
pub(crate) fn counters(counts: [u32; CLASSES]) -> Counters {
    let [under, over, hybrid, le_hit, lo_hit] = counts;
    Counters { under, over, hybrid, le_hit, lo_hit }
}

/// The number type of sums and factors: fp64 for integers, fp32 for fp16.
pub(crate) trait Real:
    Copy + Default + PartialOrd + std::ops::Sub<Output = Self> + std::ops::Mul<Output = Self>
{
    /// 2^16.
    const FRACTION: Self;
    /// 2^`exponent`.
    fn power(exponent: i32) -> Self;
    /// A table's start, as it is in [`Range`].
    fn start(range: &Range) -> Self;
    /// Whether this arithmetic can represent the table's start, steps and entries. `offset` is log2 of the first distance of an
    /// exponential table.
    fn is_regular(range: &Range, table: &[i16], offset: Option<i32>) -> bool;
    /// Whether values below and above the table have the results of the end entries.
    fn is_flat(range: &Range, table: &[i16]) -> [bool; 2];
    /// A table entry.
    fn entry(entry: i16) -> Self;
    /// The difference between an entry and the next.
    fn rise(from: i16, to: i16) -> Self;
    fn from_index(index: i32) -> Self;
    /// The whole part.
    ///
    /// # Safety
    /// It is from 0 to 2^31 - 1.
    unsafe fn to_int(self) -> i32;
    /// log2 of a positive number, and the sixteen bits below its leading one.
    fn log(self) -> (i32, i32);
    /// Whether the hardware may treat a distance as zero that is not zero.
    fn is_uncertain(distance: Self) -> bool;
    /// `entry + rise * fraction / 2^16`, and whether the hardware's result may differ.
    fn interpolate(entry: Self, rise: Self, fraction: i32) -> (Self, bool);
}

impl Real for f64 {
    const FRACTION: Self = 65536.0;

    fn power(exponent: i32) -> Self {
        2f64.powi(exponent)
    }

    fn start(range: &Range) -> Self {
        range.start as Self
    }

    /// For distances without such steps the hardware's shifts differ from 64-bit shifts.
    fn is_regular(range: &Range, _: &[i16], offset: Option<i32>) -> bool {
        offset.is_some() || (0..=30).contains(&range.select)
    }

    fn is_flat(range: &Range, _: &[i16]) -> [bool; 2] {
        [range.under.scale == 0, range.over.scale == 0]
    }

    fn entry(entry: i16) -> Self {
        entry.into()
    }

    fn rise(from: i16, to: i16) -> Self {
        Self::from(to) - Self::from(from)
    }

    #[inline(always)]
    fn from_index(index: i32) -> Self {
        index.into()
    }

    #[inline(always)]
    unsafe fn to_int(self) -> i32 {
        // SAFETY: as the caller promises.
        unsafe { self.to_int_unchecked() }
    }

    #[inline(always)]
    fn log(self) -> (i32, i32) {
        // The mantissa's bits below the sixteen are ignored: the high word has four more.
        let bits = self.to_bits();
        (((bits >> 52) as i32 & 0x7ff) - 1023, (bits >> 36) as i32 & 0xffff)
    }

    #[inline(always)]
    fn is_uncertain(_: Self) -> bool {
        false
    }

    #[inline(always)]
    fn interpolate(entry: Self, rise: Self, fraction: i32) -> (Self, bool) {
        let product = rise * Self::from(fraction) * (1.0 / 65536.0);
        // Half away from zero.
        // SAFETY: 17 bits.
        let whole: i32 = unsafe { (product + 0.5f64.copysign(product)).to_int_unchecked() };
        let value = entry + Self::from(whole);
        let value = if value < -32768.0 { -32768.0 } else { value };
        (if value > 32767.0 { 32767.0 } else { value }, false)
    }
}

/// The magnitudes of fp17 that are far enough from the ends of its range, as bits of fp32: from 2^-29 up to 2^31.
const SMALLEST: u32 = (127 - 29) << 23;
const LARGEST: u32 = (127 + 31) << 23;
const MAGNITUDE: u32 = 0x7fff_ffff;

/// Rounds an fp32 to 11 significant bits, half to even.
#[inline(always)]
pub(crate) fn round(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(bits.wrapping_add(0xfff + ((bits >> 13) & 1)) & !0x1fff)
}

/// Whether fp17 may represent this value differently. A zero is represented exactly.
#[inline(always)]
pub(crate) fn is_outside(value: f32) -> bool {
    (value != 0.0) & ((value.to_bits() & MAGNITUDE).wrapping_sub(SMALLEST) >= LARGEST - SMALLEST)
}

impl Real for f32 {
    const FRACTION: Self = 65536.0;

    fn power(exponent: i32) -> Self {
        2f32.powi(exponent)
    }

    fn start(range: &Range) -> Self {
        Self::from_bits(range.start as u32)
    }

    fn is_regular(range: &Range, table: &[i16], offset: Option<i32>) -> bool {
        let start = range.start as u32;
        let is_finite = |&entry: &i16| Fp16::expo(u32::from(entry as u16)) != Fp16::EXPO_MAX;
        table.iter().all(is_finite)
            && (Fp32::is_zero(start) || (1..255).contains(&Fp32::expo(start)))
            && (-60..=60).contains(&range.select)
            && (-120..=120).contains(&offset.unwrap_or(0))
    }

    /// The sign of a sum of zeros is the slope's, and a distance from a NaN is a NaN.
    fn is_flat(range: &Range, table: &[i16]) -> [bool; 2] {
        let flat = |scale: i16, end: i16| scale << 1 == 0 && end << 1 != 0;
        let [under, over] = [range.under.scale, range.over.scale];
        [flat(under, table[0]), flat(over, table[table.len() - 1]) && !Fp32::is_nan(range.end as u32)]
    }

    fn entry(entry: i16) -> Self {
        Self::from_bits(fp16_to_fp32(entry as u16))
    }

    fn rise(from: i16, to: i16) -> Self {
        let rise = Fp32::sub(fp16_to_fp32(to as u16), fp16_to_fp32(from as u16));
        Self::from_bits(fp17_to_fp32(fp32_to_fp17(rise)))
    }

    #[inline(always)]
    fn from_index(index: i32) -> Self {
        index as Self
    }

    #[inline(always)]
    unsafe fn to_int(self) -> i32 {
        // SAFETY: as the caller promises.
        unsafe { self.to_int_unchecked() }
    }

    #[inline(always)]
    fn log(self) -> (i32, i32) {
        let bits = self.to_bits() as i32;
        (((bits >> 23) & 0xff) - 127, (bits >> 7) & 0xffff)
    }

    #[inline(always)]
    fn is_uncertain(distance: Self) -> bool {
        (distance != 0.0) & (distance.abs() < Self::MIN_POSITIVE)
    }

    #[inline(always)]
    fn interpolate(entry: Self, rise: Self, fraction: i32) -> (Self, bool) {
        let rise = round(rise * round(fraction as Self * (1.0 / 65536.0)));
        let sum = round(rise + entry);
        // An exact sum of zero has the sign of the first operand.
        let value = if sum == 0.0 { Self::from_bits(rise.to_bits() & !MAGNITUDE) } else { sum };
        (value, is_outside(rise) | is_outside(sum))
    }
}

/// A table.
struct Table<T> {
    start: T,
    /// One over the distance of two entries of a linear table.
    steps: T,
    /// log2 of the first entry's distance, of an exponential table.
    offset: i32,
    /// The number of the last entry.
    last: usize,
    entries: [T; LENGTH],
    /// The differences between entries.
    rises: [T; LENGTH],
    /// Whether values beyond the table have the results of the end entries.
    flat: [bool; 2],
}

/// The results of one table.
struct Part<T> {
    places: [u32; WIDTH],
    values: [T; WIDTH],
    odd: [bool; WIDTH],
}

impl<T: Real> Table<T> {
    /// `None` if this arithmetic differs from the hardware's.
    fn new(range: &Range, table: &[i16], offset: Option<i32>) -> Option<Self> {
        if !T::is_regular(range, table, offset) {
            return None;
        }
        let (mut entries, mut rises) = ([T::default(); LENGTH], [T::default(); LENGTH]);
        entries.iter_mut().zip(table).for_each(|(into, &entry)| *into = T::entry(entry));
        rises.iter_mut().zip(table.windows(2)).for_each(|(into, pair)| *into = T::rise(pair[0], pair[1]));
        Some(Self {
            start: T::start(range),
            // The steps of an exponential table are not used.
            steps: T::power(-range.select.clamp(-60, 60)),
            offset: offset.unwrap_or(0),
            last: table.len() - 1,
            entries,
            rises,
            flat: T::is_flat(range, table),
        })
    }

    #[inline(always)]
    fn look_up<const EXPONENT: bool>(&self, sums: &[T; WIDTH]) -> Part<T> {
        let zero = T::default();
        let (mut index, mut fractions) = ([0i32; WIDTH], [0i32; WIDTH]);
        let mut part = Part { places: [0; WIDTH], values: [zero; WIDTH], odd: [false; WIDTH] };
        for i in 0..WIDTH {
            let distance = sums[i] - self.start;
            let is_positive = distance > zero;
            let (at, fraction) = if EXPONENT {
                let (log, fraction) = distance.log();
                (log - self.offset, fraction)
            } else {
                let last = T::from_index(self.last as i32);
                // Values outside the table must not overflow here.
                let scaled = if is_positive { distance * self.steps } else { zero };
                let scaled = if scaled < last { scaled } else { last };
                // SAFETY: the number is from 0 to `last`.
                let at = unsafe { scaled.to_int() };
                // SAFETY: the difference is from 0 to 1.
                (at, unsafe { ((scaled - T::from_index(at)) * T::FRACTION).to_int() })
            };
            (index[i], fractions[i]) = (at, fraction);
            let place = if at >= self.last as i32 { OVER } else { HIT };
            part.places[i] = if !is_positive | (at < 0) { UNDER } else { place };
        }
        let mut rises = [zero; WIDTH];
        for i in 0..WIDTH {
            let at = index[i] as usize & (LENGTH - 1);
            (part.values[i], rises[i]) = (self.entries[at], self.rises[at]);
        }
        let ends = [self.entries[0], self.entries[self.last & (LENGTH - 1)]];
        for i in 0..WIDTH {
            let (value, odd) = T::interpolate(part.values[i], rises[i], fractions[i]);
            let (under, over) = (part.places[i] == UNDER, part.places[i] == OVER);
            part.odd[i] |= (!under & !over & odd) | (under & !self.flat[0]) | (over & !self.flat[1]);
            let value = if under { ends[0] } else { value };
            part.values[i] = if over { ends[1] } else { value };
        }
        part
    }
}

/// Which table's result is used, and which counter is incremented, by the positions in both tables: one bit and three bits for
/// each of nine cases.
#[derive(Clone, Copy)]
struct Rule {
    lo: u32,
    classes: u32,
}

impl Rule {
    fn new(priorities: Priorities) -> Self {
        let positions = [Position::Under, Position::Over, Position::Hit { index: 0, fraction: 0 }];
        let (mut lo, mut classes) = (0, 0);
        for case in 0..9 {
            let (le_at, lo_at) = (positions[case / 3], positions[case % 3]);
            lo |= u32::from(priorities.choose(le_at, lo_at) == LutTable::Lo) << case;
            classes |= (class(le_at, lo_at) as u32) << (3 * case);
        }
        Self { lo, classes }
    }

    /// Whether LO's result is used, and the counter's class.
    #[inline(always)]
    const fn apply(self, le: u32, lo: u32) -> (bool, u32) {
        let case = 3 * le + lo;
        ((self.lo >> case) & 1 != 0, (self.classes >> (3 * case)) & 7)
    }
}

/// The results for several sums.
pub(crate) struct LookupResults<T> {
    pub(crate) factors: [T; WIDTH],
    /// The counter of each sum.
    pub(crate) classes: [u32; WIDTH],
    /// Whether the result is invalid, so that [`Lookup`] must be used.
    pub(crate) odd: [bool; WIDTH],
}

impl<T> LookupResults<T> {
    /// Counts the valid results.
    #[inline(always)]
    pub(crate) fn count(&self, counts: &mut [u32; CLASSES]) {
        for (class, count) in counts.iter_mut().enumerate() {
            let counts = |i: usize| u32::from((self.classes[i] == class as u32) & !self.odd[i]);
            *count = count.wrapping_add((0..WIDTH).map(counts).sum::<u32>());
        }
    }
}

/// Both tables.
pub(crate) struct Vectors<T> {
    le: Table<T>,
    lo: Table<T>,
    rule: Rule,
    /// Whether LE is exponential.
    pub(crate) is_exponential: bool,
}

impl<T> std::fmt::Debug for Vectors<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vectors").finish_non_exhaustive()
    }
}

impl<T: Real> Vectors<T> {
    /// `None` if a table has numbers for which this arithmetic differs from the hardware's.
    pub(crate) fn new(lookup: &Lookup, tables: &Tables) -> Option<Box<Self>> {
        let is_exponential = lookup.function == LutFunction::Exponent;
        let le = Table::new(&lookup.le, tables.le(), is_exponential.then_some(lookup.index_offset))?;
        let lo = Table::new(&lookup.lo, tables.lo(), None)?;
        Some(Box::new(Self { le, lo, rule: Rule::new(lookup.priorities), is_exponential }))
    }

    /// The factors for sums that are neither NaN nor infinite; `EXPONENT` is [`Self::is_exponential`].
    #[inline(always)]
    pub(crate) fn get<const EXPONENT: bool>(&self, sums: &[T; WIDTH]) -> LookupResults<T> {
        let le = self.le.look_up::<EXPONENT>(sums);
        let lo = self.lo.look_up::<false>(sums);
        let mut results = LookupResults { factors: le.values, classes: [0; WIDTH], odd: [false; WIDTH] };
        for (i, &sum) in sums.iter().enumerate() {
            let (is_lo, class) = self.rule.apply(le.places[i], lo.places[i]);
            results.factors[i] = if is_lo { lo.values[i] } else { le.values[i] };
            // If the hardware may treat a distance as zero, the positions in both tables are unknown.
            let uncertain = T::is_uncertain(sum - self.le.start) | T::is_uncertain(sum - self.lo.start);
            results.odd[i] = uncertain | if is_lo { lo.odd[i] } else { le.odd[i] };
            results.classes[i] = class;
        }
        results
    }
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::reg::values::Precision;
    use nvdla_uapi::reg::{cdp as reg, Block};

    use super::*;
    use crate::registers::Registers;

    /// A lookup with random registers similar to those of networks.
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

    /// Compares the valid results with those of [`Lookup`]; `one` computes the factor of a sum with it.
    fn compare<T: Real + std::fmt::Debug>(
        precision: Precision,
        sum: impl Fn(&mut dyn FnMut() -> u32) -> T,
        one: impl Fn(&Lookup, &Tables, T, &mut Counters) -> T,
    ) {
        let mut state = 3u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 32) as u32
        };
        let (mut held, mut all) = (0, 0);
        for _ in 0..300 {
            let (lookup, tables) = random(&mut next, precision);
            let Some(vectors) = Vectors::<T>::new(&lookup, &tables) else { continue };
            for _ in 0..40 {
                let sums = std::array::from_fn(|_| sum(&mut next));
                let results =
                    if vectors.is_exponential { vectors.get::<true>(&sums) } else { vectors.get::<false>(&sums) };
                for (i, sum) in sums.into_iter().enumerate() {
                    all += 1;
                    if results.odd[i] {
                        continue;
                    }
                    held += 1;
                    let mut counted = Counters::default();
                    let expected = one(&lookup, &tables, sum, &mut counted);
                    // Compared as text, in which the two zeros differ.
                    let same = format!("{:?}", results.factors[i]) == format!("{expected:?}");
                    assert!(same, "{sum:?} in {lookup:?}: not {expected:?}");
                    let mut counts = [0; CLASSES];
                    counts[results.classes[i] as usize] = 1;
                    assert_eq!(counters(counts), counted, "{sum:?} in {lookup:?}");
                }
            }
        }
        assert!(all > 50_000 && held * 2 > all, "{held} of {all}");
    }

    #[test]
    fn integers_are_the_lookup_s() {
        compare(
            Precision::Int16,
            |next| (i64::from(next() >> (next() % 32)) << (next() % 6)) as f64,
            |lookup, tables, sum, counters| lookup.int(tables, sum as i64, counters).into(),
        );
    }

    #[test]
    fn floats_are_the_lookup_s() {
        compare(
            Precision::Fp16,
            |next| f32::from_bits(0x3000_0000 + next() % 0x1800_0000),
            |lookup, tables, sum, counters| f32::from_bits(fp17_to_fp32(lookup.float(tables, sum.to_bits(), counters))),
        );
    }
}
