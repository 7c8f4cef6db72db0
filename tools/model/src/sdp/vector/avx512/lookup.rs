// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lookups in the table whose result is used if both tables hit, 32 at a time, and the conversion of the results to int8.
//!
//! Each entry is stored beside the next one, so one gathered word has both values of an interpolation, and one
//! instruction multiplies both entries with their weights. If not all of 32 values hit that table, [`Joint`] looks them
//! up.

use std::arch::x86_64::*;

use nvdla_uapi::reg::values::Precision;

use super::super::super::operation::Operation;
use super::super::lookup::{Joint, Side, ENTRIES};
use super::super::plan::{Plan, Step};
use super::convert::{Convert, Converter};
use super::operand::store;

/// Elements of a step.
const STEP: usize = 64;
/// Elements that are looked up together.
const PART: usize = 32;

/// The end of an operation, from the lookup on.
#[derive(Clone, Debug)]
pub(in crate::sdp) struct Tail {
    /// Each entry of the joint table, with the next entry in the upper half.
    pairs: [i32; ENTRIES],
    /// The table whose result is used.
    side: Side,
    convert: Convert,
}

impl Tail {
    /// The end of an operation to int8 that at most converts the results of the table.
    pub(in super::super) fn new(operation: &Operation, plan: &Plan, joint: &Joint) -> Option<Self> {
        let mut end = plan.steps().skip_while(|&step| step != Step::Lookup).skip(1);
        let converts = end.all(|step| matches!(step, Step::ConvertNarrow | Step::ConvertWide { .. }));
        if operation.output != Precision::Int8 || operation.compares() || !converts {
            return None;
        }
        let converter = plan.converter;
        if converter.offset != 0 {
            // A result of any 32 bits may not fit 32 bits after the offset is subtracted.
            return None;
        }
        Self::of(joint, Convert::new(0, converter.scale.into(), converter.shift, 1 << 31)?)
    }

    /// Lookups in the table whose result is used if both hit, for fractions and weights of 16 bits.
    fn of(joint: &Joint, convert: Convert) -> Option<Self> {
        let side = joint.first_answer().filter(|side| (1..=14).contains(&side.select))?;
        let entry = |at: usize| joint.entries.get(at).copied().unwrap_or_default();
        let pairs = std::array::from_fn(|at| entry(at) & 0xffff | entry(at + 1) << 16);
        Some(Self { pairs, side, convert })
    }

    /// Converts values to int8 in `into`, which has the same length.
    ///
    /// # Safety
    /// The machine has AVX-512 (F, BW, DQ, VL).
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
    pub(in super::super) unsafe fn run(&self, joint: &Joint, values: &[i32], into: &mut [u8]) {
        match self.convert {
            Convert::Limit => self.all::<false>(joint, values, into),
            Convert::Scale { .. } => self.all::<true>(joint, values, into),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
    fn all<const CONVERT: bool>(&self, joint: &Joint, values: &[i32], into: &mut [u8]) {
        let converter = Converter::<CONVERT>::new(self.convert);
        let table = Table::new(self);
        // After packing twice, four values of each of the four vectors follow one another.
        let order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
        let whole = into.len() / STEP * STEP;
        for (values, into) in values.as_chunks::<STEP>().0.iter().zip(into.as_chunks_mut::<STEP>().0) {
            let mut packed = [_mm512_setzero_si512(); 2];
            for (values, packed) in values.as_chunks::<PART>().0.iter().zip(&mut packed) {
                let [low, high] = table.look_up(joint, values);
                *packed = converter.pair(low, high);
            }
            store(into, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(packed[0], packed[1])));
        }
        let into = &mut into[whole..];
        for (values, into) in values[whole..][..into.len()].chunks(PART).zip(into.chunks_mut(PART)) {
            let mut padded = [values[0]; PART];
            padded[..values.len()].copy_from_slice(values);
            let [low, high] = table.look_up(joint, &padded);
            let packed = converter.pair(low, high);
            store(into, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(packed, packed)));
        }
    }
}

/// A [`Tail`]'s table in registers.
#[derive(Clone, Copy)]
struct Table<'t> {
    pairs: &'t [i32; ENTRIES],
    start: __m512i,
    select: __m512i,
    last: __m512i,
    first: __m512i,
    /// The distance between entries: 2^select, half of it, and the bits below.
    one: __m512i,
    half: __m512i,
    fraction: __m512i,
}

impl<'t> Table<'t> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(tail: &'t Tail) -> Self {
        let Side { start, select, last, first, .. } = tail.side;
        let one = 1 << select;
        Self {
            pairs: &tail.pairs,
            start: _mm512_set1_epi32(start),
            select: _mm512_set1_epi32(select as i32),
            last: _mm512_set1_epi32(last as i32),
            first: _mm512_set1_epi32(first as i32),
            one: _mm512_set1_epi32(one),
            half: _mm512_set1_epi32(one >> 1),
            fraction: _mm512_set1_epi32(one - 1),
        }
    }

    /// The results for 32 values.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
    fn look_up(self, joint: &Joint, values: &[i32; PART]) -> [__m512i; 2] {
        let mut results = [_mm512_setzero_si512(); 2];
        let mut all = u16::MAX;
        for (values, result) in values.as_chunks::<16>().0.iter().zip(&mut results) {
            // SAFETY: 16 values.
            let values = unsafe { _mm512_loadu_si512(values.as_ptr().cast()) };
            let (found, hit) = self.find(values);
            *result = found;
            all &= hit;
        }
        if all == u16::MAX {
            return results;
        }
        missing(joint, values)
    }

    /// The results, and for which values they are valid: those that hit the table.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn find(self, values: __m512i) -> (__m512i, __mmask16) {
        let distance = _mm512_sub_epi32(values, self.start);
        let index = _mm512_srlv_epi32(distance, self.select);
        let above = _mm512_cmpgt_epi32_mask(values, self.start);
        let hit = _mm512_mask_cmplt_epu32_mask(above, index, self.last);
        let indices = _mm512_min_epu32(index, self.last);
        let indices = _mm512_add_epi32(indices, self.first);
        // SAFETY: a table's last entry lies within the joint table.
        let pairs = unsafe { _mm512_i32gather_epi32::<4>(indices, self.pairs.as_ptr()) };
        let beyond = _mm512_and_si512(distance, self.fraction);
        // The upper half of the word has the upper entry's weight, the lower half that of the lower entry.
        let weights = _mm512_add_epi32(_mm512_sub_epi32(_mm512_slli_epi32::<16>(beyond), beyond), self.one);
        let sum = _mm512_madd_epi16(pairs, weights);
        let rounded = _mm512_add_epi32(_mm512_add_epi32(sum, self.half), _mm512_srai_epi32::<31>(sum));
        (_mm512_srav_epi32(rounded, self.select), hit)
    }
}

/// The results for values of which not all hit the table.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
fn missing(joint: &Joint, values: &[i32; PART]) -> [__m512i; 2] {
    let mut results = *values;
    joint.run::<PART>(&mut results);
    // SAFETY: twice 16 values.
    [0, 16].map(|at| unsafe { _mm512_loadu_si512(results.as_ptr().add(at).cast()) })
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::reg::{sdp as reg, Block};

    use super::*;
    use crate::like::Like;
    use crate::lut::sdp::Lookup;
    use crate::lut::{Counters, Tables};
    use crate::num::fixed::{round_shift_right, saturate};
    use crate::registers::Registers;
    use crate::support::bytes::noise;

    #[test]
    fn results_at_between_and_beyond_entries_are_the_scalar_lookup_s() {
        if !crate::Isa::available().contains(&crate::Isa::Avx512) {
            return;
        }
        let mut tables = Tables::default();
        for (access, entries) in [(1 << 17, 65), (3 << 16, 257)] {
            tables.write_access(access);
            for (number, pair) in noise(access.into(), 2 * entries).as_chunks().0.iter().enumerate() {
                let entry = [i16::MIN, i16::MAX, i16::MIN, i16::from_le_bytes(*pair)][number % 4];
                tables.write_data(entry as u16 as u32);
            }
        }
        let mut performed = 0;
        for select in 0..=16u32 {
            for (start, answers) in [(0, 0x71), (-70_000, 0x31), (i32::MIN, 0x71), (i32::MAX - 5000, 0x31), (77, 0x70)]
            {
                let mut registers = Registers::reset(Block::Sdp);
                for (register, value) in [
                    (reg::S_LUT_CFG, answers),
                    (reg::S_LUT_INFO, select << 8 | select << 16),
                    (reg::S_LUT_LO_START, start as u32),
                    (reg::S_LUT_LE_START, start.wrapping_sub(100) as u32),
                    (reg::S_LUT_LO_SLOPE_SCALE, 0x0003_8001),
                    (reg::S_LUT_LE_SLOPE_SCALE, 0x7fff_0100),
                ] {
                    registers.set(register, value);
                }
                let lookup = Lookup::new(&registers, Like::Rtl).unwrap();
                let Some(joint) = Joint::new(&lookup, &tables) else { continue };
                for (scale, shift) in [(1, 0), (3, 7), (32_767, 22), (128, 15)] {
                    let Some(convert) = Convert::new(0, scale, shift, 1 << 31) else { continue };
                    let Some(tail) = Tail::of(&joint, convert) else { continue };
                    performed += 1;
                    let near = (0..=258).flat_map(|entry| (-2..=2).map(move |by| i64::from(entry << select) + by));
                    let near = near.chain((0..20_000).map(|by| by * 37)).map(|value| value + i64::from(start));
                    let mut values: Vec<i32> = near.filter_map(|value| i32::try_from(value).ok()).collect();
                    values.extend([i32::MIN, i32::MIN + 1, i32::MAX, i32::MAX - 1, -1, 0, 1]);
                    let mut bytes = vec![0; values.len()];
                    // SAFETY: the machine has the instructions.
                    unsafe { tail.run(&joint, &values, &mut bytes) };
                    for (&value, byte) in values.iter().zip(bytes) {
                        let answer = i64::from(lookup.int(&tables, value, &mut Counters::default()));
                        let expected = saturate::<8>(round_shift_right(answer * i64::from(scale), shift)) as i8;
                        assert_eq!(byte as i8, expected, "{value}, from {start}, 2^{select} apart, {convert:?}");
                    }
                }
            }
        }
        assert!(performed > 100, "{performed}");
    }
}
