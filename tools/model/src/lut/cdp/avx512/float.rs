// SPDX-License-Identifier: MIT OR Apache-2.0

//! fp16 processing.
//!
//! What the hardware computes in fp17 is computed in fp32 and rounded to fp17's 11 bits. The choice of tables
//! ([`is_tame`]) excludes numbers that fp17 cannot hold: with entries of 2^-18 or more, a difference that fp17 would
//! treat as zero (below 2^-30) is less than half of a last place; where an entry and a difference nearly cancel, the
//! rest is a multiple of 2^-29.

use std::arch::x86_64::*;

use nvdla_uapi::reg::values::{LutFunction, LutTable};

use super::super::lookup::{Lookup, Range};
use super::super::regions::{regions, Region, Way};
use super::super::vector::float::{is_flat, is_regular, number, rise};
use super::int::range;
use super::row::{entries, gather, walk, Row, HALF};
use crate::lut::tables::Tables;
use crate::num::{Fp16, Fp32};

/// The largest sum of nine squares of fp16, about.
const LARGEST: f32 = 4e10;
/// The largest fp16.
const SINGLE: f32 = 65504.0;

/// The smallest and the largest sum of squares, or single value.
pub(super) const fn domain(squares: bool) -> [f32; 2] {
    if squares {
        [0.0, LARGEST]
    } else {
        [-SINGLE, SINGLE]
    }
}

fn is_finite(entry: i16) -> bool {
    Fp16::expo(u32::from(entry as u16)) != Fp16::EXPO_MAX
}

/// Whether fp32's arithmetic is enough between two entries.
fn is_tame(low: i16, high: i16) -> bool {
    let negative_zero = |entry: i16| entry as u16 == 0x8000;
    let rise = rise(low, high);
    is_finite(low)
        && is_finite(high)
        && !negative_zero(low)
        && !negative_zero(high)
        && (number(low).abs() >= 2f32.powi(-18) || number(low) == 0.0 && (rise == 0.0 || rise.abs() >= 2f32.powi(-14)))
}

/// Whether the sum of an entry and a rise can be zero though the rise is not: then the rise has its sign.
fn cancels(low: i16, high: i16) -> bool {
    let (low, high) = (number(low), number(high));
    // One is zero or they have different signs, and they are not both zero.
    low * high <= 0.0 && low.abs() + high.abs() > 0.0
}

/// A linear table: entries and rises.
#[derive(Clone, Debug)]
struct Linear {
    start: f32,
    /// The factor from values to fractions of 16 bits, and to indices.
    by: f32,
    entries: Box<[[i32; 2]; 256]>,
}

impl Linear {
    fn new(range: &Range, table: &[i16]) -> Self {
        let mut entries = Box::new([[0; 2]; 256]);
        for (into, pair) in entries.iter_mut().zip(table.windows(2)) {
            // The fraction is an integer of 16 bits.
            let rise = rise(pair[0], pair[1]) / 65536.0;
            *into = [number(pair[0]).to_bits() as i32, rise.to_bits() as i32];
        }
        Self { start: f32::from_bits(range.start as u32), by: 2f32.powi(16 - range.select), entries }
    }
}

/// Both tables.
#[derive(Clone, Debug)]
pub(crate) struct Floats {
    pub(super) regions: Vec<Region<f32>>,
    start: f32,
    /// Entries and rises of an exponential table, by the low six bits of the exponent of an fp32.
    exponents: Box<[[i32; 64]; 2]>,
    le: Linear,
    lo: Linear,
    /// A sum of zero may need the sign of its first operand.
    signs: bool,
}

/// Integers in the same order as the numbers with these bits.
fn key(number: f32) -> i64 {
    let bits = number.to_bits() as i32;
    if bits < 0 {
        -i64::from(bits & i32::MAX)
    } else {
        bits.into()
    }
}

/// The number of a [`key`].
fn of_key(key: i64) -> f32 {
    let magnitude = f32::from_bits(key.unsigned_abs() as u32);
    if key < 0 {
        -magnitude
    } else {
        magnitude
    }
}

impl Floats {
    /// For sums of squares, or for single values; `None` where a table that answers has numbers that this arithmetic has
    /// not.
    pub(crate) fn new(lookup: &Lookup, tables: &Tables, squares: bool) -> Option<Self> {
        if !is_regular(&lookup.le) || !is_regular(&lookup.lo) || !(-120..=120).contains(&lookup.index_offset) {
            return None;
        }
        let ends = domain(squares);
        let regions = regions(
            lookup,
            tables,
            ends.map(key),
            of_key,
            |at| {
                let (le, lo) = lookup.both_float(tables, of_key(at).to_bits());
                (le.position, lo.position)
            },
            is_flat,
        );
        let slopes = [lookup.le.under, lookup.le.over, lookup.lo.under, lookup.lo.over].map(|slope| slope.scale);
        let far = [lookup.le.end, lookup.lo.end].iter().all(|&end| !Fp32::is_nan(end as u32));
        let mut signs = false;
        for region in &regions {
            let table: &[i16] = match region.way {
                Way::Exponent | Way::Linear(LutTable::Le) => tables.le(),
                Way::Linear(LutTable::Lo) => tables.lo(),
                Way::End(entry) if is_finite(entry) => continue,
                Way::Other
                    if far && slopes.iter().chain(tables.le()).chain(tables.lo()).all(|&entry| is_finite(entry)) =>
                {
                    continue
                }
                Way::End(_) | Way::Other => return None,
            };
            if !table.windows(2).all(|pair| is_tame(pair[0], pair[1])) {
                return None;
            }
            signs |= table.windows(2).any(|pair| cancels(pair[0], pair[1]));
        }
        let mut exponents = Box::new([[0; 64]; 2]);
        if lookup.function == LutFunction::Exponent {
            for (at, pair) in tables.le().windows(2).enumerate() {
                let place = (127 + lookup.index_offset + at as i32) & 63;
                exponents[0][place as usize] = number(pair[0]).to_bits() as i32;
                exponents[1][place as usize] = rise(pair[0], pair[1]).to_bits() as i32;
            }
        }
        let (le, lo) = (Linear::new(&lookup.le, tables.le()), Linear::new(&lookup.lo, tables.lo()));
        Some(Self { regions, start: le.start, exponents, le, lo, signs })
    }

    /// The factors of sums, in fp17's numbers; none of `other`'s is a NaN.
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
    pub(crate) fn factors(
        &self,
        sums: &[f32],
        row: Row,
        factors: &mut [f32],
        counts: &mut [u32; 5],
        other: impl Fn(f32) -> f32,
    ) {
        if self.signs {
            self.all::<true>(sums, row, factors, counts, other);
        } else {
            self.all::<false>(sums, row, factors, counts, other);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
    fn all<const SIGNS: bool>(
        &self,
        sums: &[f32],
        row: Row,
        factors: &mut [f32],
        counts: &mut [u32; 5],
        other: impl Fn(f32) -> f32,
    ) {
        // SAFETY: sixteen sums.
        let load = |sums: &[f32; HALF]| unsafe { _mm512_loadu_ps(sums.as_ptr()) };
        let start = _mm512_set1_ps(self.start);
        let ends = range!(
            sums,
            f32,
            _mm512_loadu_ps,
            _mm512_min_ps,
            _mm512_max_ps,
            _mm512_reduce_min_ps,
            _mm512_reduce_max_ps,
            16
        );
        let answer = |way: Way, sums: &[f32; HALF]| match way {
            Way::Exponent => {
                let distance = _mm512_castps_si512(_mm512_sub_ps(load(sums), start));
                let exponents = _mm512_srli_epi32::<23>(distance);
                let upper = _mm512_test_epi32_mask(exponents, _mm512_set1_epi32(32));
                let [low, rise] = [0, 1].map(|table: usize| entries::<true>(&self.exponents[table], exponents, upper));
                // One and sixteen bits of fraction.
                const AND_OR: i32 = 0xea;
                let one = _mm512_set1_ps(1.0);
                let fraction = _mm512_ternarylogic_epi32::<AND_OR>(
                    distance,
                    _mm512_set1_epi32(0x007f_ff80),
                    _mm512_castps_si512(one),
                );
                let fraction = _mm512_sub_ps(_mm512_castsi512_ps(fraction), one);
                between::<SIGNS>(low, rise, fraction)
            }
            Way::Linear(table) => {
                let table = if table == LutTable::Le { &self.le } else { &self.lo };
                let distance = _mm512_sub_ps(load(sums), _mm512_set1_ps(table.start));
                let at = _mm512_cvttps_epi32(_mm512_mul_ps(distance, _mm512_set1_ps(table.by)));
                let fraction = _mm512_cvtepi32_ps(_mm512_and_si512(at, _mm512_set1_epi32(0xffff)));
                let [low, rise] = gather(&table.entries, _mm512_srli_epi32::<16>(at));
                between::<SIGNS>(low, rise, fraction)
            }
            Way::End(entry) => _mm512_castps_si512(_mm512_set1_ps(number(entry))),
            Way::Other => _mm512_setzero_si512(),
        };
        let from =
            |sums: &[f32; HALF], number: f32| _mm512_cmp_ps_mask::<_CMP_GE_OQ>(load(sums), _mm512_set1_ps(number));
        let factors = factors.as_chunks_mut::<HALF>().0.as_chunks_mut::<2>().0;
        walk(
            &self.regions,
            ends,
            sums,
            row,
            counts,
            answer,
            from,
            |sum| other(sum).to_bits() as i32,
            |step, answers| {
                for (into, answers) in factors[step].iter_mut().zip(answers) {
                    // SAFETY: sixteen factors.
                    unsafe { _mm512_storeu_si512(into.as_mut_ptr().cast(), answers) };
                }
            },
        );
    }
}

/// Rounds to 11 significant bits, half to even: adds 2^13 times the power of two in a number, whose last place is the
/// eleventh of the number's, and takes it away again. A zero loses its sign.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn round(value: __m512) -> __m512 {
    let power = _mm512_and_ps(value, _mm512_castsi512_ps(_mm512_set1_epi32(0xff80_0000u32 as i32)));
    let by = _mm512_set1_ps(8192.0);
    _mm512_fnmadd_ps(power, by, _mm512_fmadd_ps(power, by, value))
}

/// `low + rise * fraction`, each step rounded as in fp17.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn between<const SIGNS: bool>(low: __m512i, rise: __m512i, fraction: __m512) -> __m512i {
    let rise = _mm512_mul_ps(_mm512_castsi512_ps(rise), round(fraction));
    let value = _mm512_castps_si512(round(_mm512_add_ps(round(rise), _mm512_castsi512_ps(low))));
    if SIGNS {
        let zero = _mm512_testn_epi32_mask(value, _mm512_set1_epi32(i32::MAX));
        let sign = _mm512_and_si512(_mm512_castps_si512(rise), _mm512_set1_epi32(i32::MIN));
        _mm512_mask_mov_epi32(value, zero, sign)
    } else {
        value
    }
}
