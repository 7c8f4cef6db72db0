// SPDX-License-Identifier: MIT OR Apache-2.0

//! Integers.
//!
//! Between two entries the answer is `low + (high - low) * fraction / 2^16`, with half rounded away from zero. That is
//! the high half of `low * 2^16 + (high - low) * fraction + 2^15`, less one where the table falls. It has 32 bits for
//! any entries. With `f` the fraction less 2^15, which fits 16 bits with its sign, it is `low * !f + high * f`, which
//! one instruction computes, plus a number that belongs to the pair of entries.

use std::arch::x86_64::*;

use nvdla_uapi::reg::values::LutTable;

use super::super::lookup::{Lookup, Range};
use super::super::regions::{regions, Region, Way};
use super::super::vector::int::is_flat;
use super::planes::Planes;
use super::row::{entries, gather, walk, Row, HALF};
use crate::lut::tables::Tables;

/// The number of a pair of entries, and the pair.
fn entry(low: i16, high: i16) -> [i32; 2] {
    let (wide, rise) = (i64::from(low), i64::from(high) - i64::from(low));
    // `f` is 2^15 less than the fraction, and `!f` one less than `-f`.
    let number = (wide << 16) + (rise << 15) + wide + (1 << 15) - i64::from(rise < 0);
    [number as i32, i32::from(low as u16 as i16) & 0xffff | i32::from(high) << 16]
}

/// A linear table.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    pub(super) start: i64,
    pub(super) select: i32,
    entries: Box<[[i32; 2]; 256]>,
    planes: Option<Planes>,
}

impl Linear {
    fn new(range: &Range, table: &[i16]) -> Self {
        let mut entries = Box::new([[0; 2]; 256]);
        for (into, pair) in entries.iter_mut().zip(table.windows(2)) {
            *into = entry(pair[0], pair[1]);
        }
        Self { start: range.start, select: range.select, entries, planes: Planes::new(range, table) }
    }
}

/// Both tables.
#[derive(Clone, Debug)]
pub(crate) struct Ints<S> {
    pub(super) regions: Vec<Region<S>>,
    pub(super) start: i64,
    /// Numbers and pairs of an exponential table, by the low six bits of the exponent of a float.
    pub(super) exponents: Box<[[i32; 64]; 2]>,
    le: Linear,
    lo: Linear,
}

/// The exponent of one in the bits that are examined: 127 of fp32 and 1023 of fp64 are the same there.
const ONE: i32 = 63;

impl<S> Ints<S> {
    /// For arguments from `first` to `last`; `None` where the hardware's shifts do what these do not.
    pub(super) fn new(lookup: &Lookup, tables: &Tables, ends: [i64; 2], number: impl Fn(i64) -> S) -> Option<Self> {
        let regular = |range: &Range| (0..=30).contains(&range.select);
        let is_exponent = lookup.function == nvdla_uapi::reg::values::LutFunction::Exponent;
        if !regular(&lookup.lo) || !is_exponent && !regular(&lookup.le) {
            return None;
        }
        let mut exponents = Box::new([[0; 64]; 2]);
        for (at, pair) in tables.le().windows(2).enumerate() {
            let place = (ONE + lookup.index_offset + at as i32) & 63;
            [exponents[0][place as usize], exponents[1][place as usize]] = entry(pair[0], pair[1]);
        }
        let regions = regions(
            lookup,
            tables,
            ends,
            number,
            |sum| {
                let (le, lo) = lookup.both_int(tables, sum);
                (le.position, lo.position)
            },
            |range, _| is_flat(range),
        );
        let (le, lo) = (Linear::new(&lookup.le, tables.le()), Linear::new(&lookup.lo, tables.lo()));
        Some(Self { regions, start: lookup.le.start, exponents, le, lo })
    }

    /// Whether `other` is never asked.
    pub(crate) fn is_complete(&self) -> bool {
        self.regions.iter().all(|region| region.way != Way::Other)
    }

    /// Makes 32 exponents enough, for distances of 32 bits: that of one is the last of them.
    pub(super) fn fold(&mut self) {
        for table in self.exponents.iter_mut() {
            table[31] = table[63];
        }
    }

    /// A table's entries for many at a time, where they can be found so.
    pub(crate) fn planes(&self, table: LutTable) -> Option<&Planes> {
        self.linear(table).planes.as_ref()
    }

    pub(super) fn linear(&self, table: LutTable) -> &Linear {
        match table {
            LutTable::Le => &self.le,
            LutTable::Lo => &self.lo,
        }
    }
}

/// Sixteen bits of each fraction, twice: `f` in the high half and `!f` in the low one.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn weights(fractions: __m512i) -> __m512i {
    _mm512_xor_si512(fractions, _mm512_set1_epi32(0x8000_7fffu32 as i32))
}

/// `sum` and the products of both halves of lanes.
///
/// The intrinsic becomes two instructions where the compiler thinks of an older processor.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(crate) fn dot(mut sum: __m512i, one: __m512i, other: __m512i) -> __m512i {
    // SAFETY: arithmetic alone; the processor has the instruction.
    unsafe {
        std::arch::asm!(
            "vpdpwssd {sum}, {one}, {other}",
            sum = inout(zmm_reg) sum,
            one = in(zmm_reg) one,
            other = in(zmm_reg) other,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// The answers in the high halves, of a float's exponents and the fractions twice.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn exponent<const WIDE: bool>(tables: &[[i32; 64]; 2], exponents: __m512i, fractions: __m512i) -> __m512i {
    let upper = if WIDE { _mm512_test_epi32_mask(exponents, _mm512_set1_epi32(32)) } else { 0 };
    let number = entries::<WIDE>(&tables[0], exponents, upper);
    let pair = entries::<WIDE>(&tables[1], exponents, upper);
    dot(number, pair, weights(fractions))
}

/// The answers in the high halves; `at` has an index of eight bits above a fraction of sixteen.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vbmi,avx512vnni")]
pub(super) fn linear(table: &Linear, at: __m512i) -> __m512i {
    let fractions = _mm512_multishift_epi64_epi8(twice_from(0), at);
    let [number, pair] = gather(&table.entries, _mm512_srli_epi32::<16>(at));
    dot(number, pair, weights(fractions))
}

/// Each byte of a lane pair's result: which bit of the pair it begins at.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn twice_from(bit: i64) -> __m512i {
    let offsets = 0x2820_2820_0800_0800 + bit * 0x0101_0101_0101_0101;
    _mm512_set1_epi64(offsets)
}

/// Smallest and largest of some sums.
macro_rules! range {
    ($sums:expr, $type:ident, $load:ident, $min:ident, $max:ident, $reduce_min:ident, $reduce_max:ident, $lanes:literal) => {{
        let chunks = $sums.as_chunks::<$lanes>().0;
        // SAFETY: as many numbers as a vector has.
        let load = |chunk: &[$type; $lanes]| unsafe { $load(chunk.as_ptr()) };
        let first = load(&chunks[0]);
        let (mut low, mut high) = (first, first);
        for chunk in &chunks[1..] {
            let numbers = load(chunk);
            (low, high) = ($min(low, numbers), $max(high, numbers));
        }
        [$reduce_min(low), $reduce_max(high)]
    }};
}
pub(super) use range;

/// int8: arguments of 32 bits.
impl Ints<i32> {
    pub(crate) fn narrow(lookup: &Lookup, tables: &Tables, ends: [i64; 2]) -> Option<Self> {
        let mut ints = Self::new(lookup, tables, ends, |sum| sum as i32)?;
        for region in &mut ints.regions {
            // Distances must fit a float's mantissa, or 32 bits.
            let start = match region.way {
                Way::Exponent => ints.start << 6,
                Way::Linear(LutTable::Le) => ints.le.start,
                Way::Linear(LutTable::Lo) => ints.lo.start,
                Way::End(_) | Way::Other => 0,
            };
            if start < -(1 << 29) {
                region.way = Way::Other;
            }
        }
        ints.fold();
        Some(ints)
    }

    /// The factors of sums in steps of even and odd elements, in the elements' order.
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
    pub(crate) fn factors(
        &self,
        sums: &[i32],
        row: Row,
        factors: &mut [i16],
        counts: &mut [u32; 5],
        other: impl Fn(i64) -> i16,
    ) {
        // SAFETY: sixteen sums.
        let load = |sums: &[i32; HALF]| unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) };
        let start = _mm512_set1_epi32(self.start as i32);
        let ends = range!(
            sums,
            i32,
            _mm512_loadu_epi32,
            _mm512_min_epi32,
            _mm512_max_epi32,
            _mm512_reduce_min_epi32,
            _mm512_reduce_max_epi32,
            16
        );
        let answer = |way: Way, sums: &[i32; HALF]| match way {
            Way::Exponent => {
                let bits = _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_sub_epi32(load(sums), start)));
                let fractions = _mm512_multishift_epi64_epi8(twice_from(7), bits);
                exponent::<false>(&self.exponents, _mm512_srli_epi32::<23>(bits), fractions)
            }
            Way::Linear(table) => {
                let table = self.linear(table);
                let distance = _mm512_sub_epi32(load(sums), _mm512_set1_epi32(table.start as i32));
                let count = |bits: i32| _mm_cvtsi32_si128(bits.max(0));
                let left = _mm512_sll_epi32(distance, count(16 - table.select));
                linear(table, _mm512_srl_epi32(left, count(table.select - 16)))
            }
            Way::End(entry) => _mm512_set1_epi32(i32::from(entry) << 16),
            Way::Other => _mm512_setzero_si512(),
        };
        let from = |sums: &[i32; HALF], number: i32| _mm512_cmpge_epi32_mask(load(sums), _mm512_set1_epi32(number));
        let factors = factors.as_chunks_mut::<32>().0;
        walk(
            &self.regions,
            ends,
            sums,
            row,
            counts,
            answer,
            from,
            |sum| i32::from(other(sum.into())) << 16,
            |step, [even, odd]| {
                let both = _mm512_mask_blend_epi16(0xaaaa_aaaa, _mm512_srli_epi32::<16>(even), odd);
                // SAFETY: 32 factors.
                unsafe { _mm512_storeu_si512(factors[step].as_mut_ptr().cast(), both) };
            },
        );
    }
}

/// int16: arguments of 36 bits, as fp64.
impl Ints<f64> {
    pub(crate) fn wide(lookup: &Lookup, tables: &Tables, ends: [i64; 2]) -> Option<Self> {
        Self::new(lookup, tables, ends, |sum| sum as f64)
    }

    /// As [`Ints::factors`] of int8, but sums are in the elements' order.
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vnni,popcnt")]
    pub(crate) fn factors(
        &self,
        sums: &[f64],
        row: Row,
        factors: &mut [i16],
        counts: &mut [u32; 5],
        other: impl Fn(i64) -> i16,
    ) {
        // SAFETY: eight sums.
        let load8 = |sums: &[f64]| unsafe { _mm512_loadu_pd(sums[..8].as_ptr()) };
        let load = |sums: &[f64; HALF]| [load8(&sums[..8]), load8(&sums[8..])];
        let start = _mm512_set1_pd(self.start as f64);
        let upper = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
        let ends = range!(
            sums,
            f64,
            _mm512_loadu_pd,
            _mm512_min_pd,
            _mm512_max_pd,
            _mm512_reduce_min_pd,
            _mm512_reduce_max_pd,
            8
        );
        let answer = |way: Way, sums: &[f64; HALF]| match way {
            Way::Exponent => {
                let [one, two] = load(sums).map(|sums| _mm512_castpd_si512(_mm512_sub_pd(sums, start)));
                // Exponent and the first bits behind it are all that is needed.
                let bits = _mm512_permutex2var_epi32(one, upper, two);
                let fractions = _mm512_multishift_epi64_epi8(twice_from(4), bits);
                exponent::<true>(&self.exponents, _mm512_srli_epi32::<20>(bits), fractions)
            }
            Way::Linear(table) => {
                let table = self.linear(table);
                let step = 2f64.powi(16 - table.select);
                let (by, first) = (_mm512_set1_pd(step), _mm512_set1_pd(table.start as f64 * -step));
                let [one, two] = load(sums).map(|sums| _mm512_cvttpd_epi32(_mm512_fmadd_pd(sums, by, first)));
                linear(table, _mm512_inserti64x4::<1>(_mm512_castsi256_si512(one), two))
            }
            Way::End(entry) => _mm512_set1_epi32(i32::from(entry) << 16),
            Way::Other => _mm512_setzero_si512(),
        };
        let from = |sums: &[f64; HALF], number: f64| {
            let number = _mm512_set1_pd(number);
            let [one, two] = load(sums).map(|sums| _mm512_cmp_pd_mask::<_CMP_GE_OQ>(sums, number));
            u16::from(one) | u16::from(two) << 8
        };
        // The high halves of both vectors' lanes.
        let mut high = [0u16; 32];
        high.iter_mut().zip(0..).for_each(|(word, lane)| *word = 2 * lane + 1);
        // SAFETY: 32 words.
        let high = unsafe { _mm512_loadu_si512(high.as_ptr().cast()) };
        let factors = factors.as_chunks_mut::<32>().0;
        walk(
            &self.regions,
            ends,
            sums,
            row,
            counts,
            answer,
            from,
            |sum| i32::from(other(sum as i64)) << 16,
            |step, [one, two]| {
                let both = _mm512_permutex2var_epi16(one, high, two);
                // SAFETY: 32 factors.
                unsafe { _mm512_storeu_si512(factors[step].as_mut_ptr().cast(), both) };
            },
        );
    }
}
