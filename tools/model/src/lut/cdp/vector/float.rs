// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16 processing.
//!
//! fp17 has 11 significant bits and fp32 more than twice as many, so that a sum or product in fp32, rounded again to 11
//! bits, is the correctly rounded one.

use nvdla_uapi::reg::values::LutFunction;

use super::super::lookup::{Lookup, Range};
use super::rule::{Answers, Entries, Part, Rule, WIDTH};
use crate::lut::tables::Tables;
use crate::num::convert::{fp16_to_fp32, fp17_to_fp32, fp32_to_fp17};
use crate::num::{Fp16, Fp32};

/// fp17's magnitudes that are far enough from its ends, as bits of fp32: from 2^-29 up to 2^31.
const SMALLEST: u32 = (127 - 29) << 23;
const LARGEST: u32 = (127 + 31) << 23;
const MAGNITUDE: u32 = 0x7fff_ffff;

/// An entry as fp32.
pub(in super::super) fn number(entry: i16) -> f32 {
    f32::from_bits(fp16_to_fp32(entry as u16))
}

/// From one entry to the next, in fp17, as fp32.
pub(in super::super) fn rise(from: i16, to: i16) -> f32 {
    let rise = Fp32::sub(fp16_to_fp32(to as u16), fp16_to_fp32(from as u16));
    f32::from_bits(fp17_to_fp32(fp32_to_fp17(rise)))
}

/// Whether the end entries are the values below and above the table. The sign of a sum of zeros is the slope's, and a
/// distance from a NaN is a NaN.
pub(in super::super) fn is_flat(range: &Range, table: &[i16]) -> [bool; 2] {
    let flat = |scale: i16, end: i16| scale << 1 == 0 && end << 1 != 0;
    let [under, over] = [range.under.scale, range.over.scale];
    [flat(under, table[0]), flat(over, table[table.len() - 1]) && !Fp32::is_nan(range.end as u32)]
}

/// Whether arithmetic in fp32 has the table's start and steps.
pub(in super::super) fn is_regular(range: &Range) -> bool {
    let start = range.start as u32;
    (Fp32::is_zero(start) || (1..255).contains(&Fp32::expo(start))) && (-60..=60).contains(&range.select)
}

/// A table of fp16 entries, as fp32.
struct Table {
    start: f32,
    /// One over the distance of two entries.
    steps: f32,
    /// log2 of the first entry's distance, of an exponential table.
    offset: i32,
    entries: Entries<f32>,
}

impl Table {
    /// `None` where a number of it is not finite, or too far from one for this arithmetic.
    fn new(range: &Range, table: &[i16], offset: i32) -> Option<Self> {
        let finite = |entry: &i16| Fp16::expo(u32::from(*entry as u16)) != Fp16::EXPO_MAX;
        if !table.iter().all(finite) || !is_regular(range) || !(-120..=120).contains(&offset) {
            return None;
        }
        let entries = Entries::new(table, number, rise, is_flat(range, table));
        Some(Self { start: f32::from_bits(range.start as u32), steps: 2f32.powi(-range.select), offset, entries })
    }

    /// `uncertain` gets those with a distance that the hardware takes for zero, which may be another place.
    #[inline(always)]
    fn answer<const EXPONENT: bool>(&self, sums: &[f32; WIDTH], uncertain: &mut [bool; WIDTH]) -> Part<f32> {
        let last = self.entries.count as i32;
        let (mut index, mut parts) = ([0i32; WIDTH], [0f32; WIDTH]);
        let mut places = [0; WIDTH];
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
            places[i] = self.entries.place(positive, at.into());
        }
        let (mut values, rises) = self.entries.at(index);
        let mut odd = [false; WIDTH];
        for i in 0..WIDTH {
            let rise = round(rises[i] * parts[i]);
            let value = round(rise + values[i]);
            // An exact sum of zero has the sign of the first operand.
            values[i] = if value == 0.0 { f32::from_bits(rise.to_bits() & !MAGNITUDE) } else { value };
            odd[i] = ((rise != 0.0) & outside(rise)) | ((value != 0.0) & outside(value));
        }
        self.entries.part(places, values, odd)
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
    le: Table,
    lo: Table,
    rule: Rule,
}

impl std::fmt::Debug for Floats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Floats").finish_non_exhaustive()
    }
}

impl Floats {
    /// The lookup, and whether LE is exponential; `None` where a table has numbers that this arithmetic has not.
    pub(crate) fn new(lookup: &Lookup, tables: &Tables) -> Option<(Self, bool)> {
        let le = Table::new(&lookup.le, tables.le(), lookup.index_offset)?;
        let lo = Table::new(&lookup.lo, tables.lo(), 0)?;
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
