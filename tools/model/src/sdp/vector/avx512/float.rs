// SPDX-License-Identifier: MIT OR Apache-2.0

//! The operations of [`super::super::fused_float`] in the processor's arithmetic, with its conversions from and to
//! fp16.
//!
//! A block whose results may differ from the hardware's is computed again with the bit-level functions. With fp16 data
//! and operands such blocks are rare: two sums and a product of them are zero or far within the normal range, a
//! multiple of 2^-94 and below 2^35, so it is enough to look for NaNs and infinities in the input. In other cases every
//! result is inspected. A sum of zero takes the sign of the first operand.

use std::arch::x86_64::*;

use super::super::fused_float::{exactly, Element, FusedFloat, Operands as Values};
use super::super::lanes::{Operands, Slot, PERIOD};
use super::super::load::{self, Format};
use super::super::operand::SlotOperands;
use super::super::plan::Prepare;

/// The number of elements that are computed again together.
const STEP: usize = 64;
/// The classes of NaNs, of infinities and of denormal values, and that of the positive zero.
const NAN: i32 = 0x81;
const INFINITE: i32 = 0x18;
const DENORMAL: i32 = 0x20;
const ZERO: i32 = 0x02;
const MAGNITUDE: i32 = 0x7fff_ffff;
/// The smallest normal value, at which rounding must be checked.
const SMALLEST: i32 = 0x0080_0000;
/// The largest fp16 as fp32.
const LARGEST: f32 = 65504.0;

/// Data that the loop can take.
pub(in super::super) trait Sample: Element {
    /// Whether its values have the positions of fp16 values.
    const HALF: bool;

    /// 16 values, and for which of them the machine's interpretation may differ from the hardware's.
    ///
    /// # Safety
    /// The machine has AVX-512 (F, DQ).
    unsafe fn load(data: &[Self; 16]) -> (__m512, __mmask16);
}

impl Sample for [u8; 2] {
    const HALF: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn load(data: &[Self; 16]) -> (__m512, __mmask16) {
        half(data)
    }
}

impl Sample for f32 {
    const HALF: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn load(data: &[Self; 16]) -> (__m512, __mmask16) {
        // SAFETY: 16 values.
        let values = unsafe { _mm512_loadu_ps(data.as_ptr()) };
        (values, _mm512_fpclass_ps_mask::<{ NAN | INFINITE | DENORMAL }>(values))
    }
}

/// 16 values of fp16, and which of them are not finite.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn half(data: &[[u8; 2]; 16]) -> (__m512, __mmask16) {
    // SAFETY: 32 bytes.
    let values = _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(data.as_ptr().cast()) });
    (values, _mm512_fpclass_ps_mask::<{ NAN | INFINITE }>(values))
}

/// Converts data to fp16 in `into`, two bytes each.
///
/// # Safety
/// The machine has AVX-512 (F, BW, DQ, VL).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(in super::super) unsafe fn run<T: Sample>(
    fused: &FusedFloat,
    data: &[T],
    operands: &Operands,
    into: &mut [[u8; 2]],
) {
    let operand = |slot: Option<Slot>| SlotOperands::new(operands, fused.each, fused.direct, slot);
    let ([first, second], factor) = (fused.adds.map(operand), operand(fused.mul));
    let steps = Steps { fused, first, second, factor };
    if T::HALF && [first, second, factor].into_iter().all(stays_normal) {
        steps.all::<T, true>(data, into);
    } else {
        steps.all::<T, false>(data, into);
    }
}

/// Whether finite fp16 values stay within the normal range with these operands.
fn stays_normal(operand: SlotOperands) -> bool {
    match operand {
        SlotOperands::None | SlotOperands::Bytes { .. } => true,
        SlotOperands::Lanes { .. } => operand.repeated().is_some_and(|lanes| {
            lanes.0[..PERIOD].iter().all(|&value| {
                let magnitude = f32::from_bits(value as u32).abs();
                magnitude == 0.0 || (1.0 / 16_777_216.0..=131_072.0).contains(&magnitude)
            })
        }),
    }
}

/// The values that are the same for all steps.
struct Steps<'s> {
    fused: &'s FusedFloat,
    first: SlotOperands<'s>,
    second: SlotOperands<'s>,
    factor: SlotOperands<'s>,
}

impl Steps<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn all<T: Sample, const NORMAL: bool>(&self, data: &[T], into: &mut [[u8; 2]]) {
        let whole = into.len() / STEP * STEP;
        let steps = data.as_chunks::<STEP>().0.iter().zip(into.as_chunks_mut::<STEP>().0);
        for (number, (data, into)) in steps.enumerate() {
            if self.step::<T, NORMAL>(data, number * STEP, into) {
                self.again(data, number * STEP, into);
            }
        }
        let rest = &data[whole..into.len()];
        let Some(&filling) = rest.first() else { return };
        let (mut padded, mut results) = ([filling; STEP], [[0; 2]; STEP]);
        padded[..rest.len()].copy_from_slice(rest);
        let into = &mut into[whole..];
        if self.step::<T, NORMAL>(&padded, whole, &mut results) {
            self.again(rest, whole, into);
        } else {
            into.copy_from_slice(&results[..into.len()]);
        }
    }

    /// Computes the elements from `at` on. Returns whether they must be computed again.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn step<T: Sample, const NORMAL: bool>(&self, data: &[T; STEP], at: usize, into: &mut [[u8; 2]; STEP]) -> bool {
        let Self { fused, first, second, factor } = *self;
        let zero = _mm512_setzero_si512();
        let mut differs = 0;
        let parts = data.as_chunks::<16>().0.iter().zip(into.as_chunks_mut::<16>().0);
        for (number, (data, into)) in parts.enumerate() {
            let at = at + 16 * number;
            // SAFETY: the machine has the instructions.
            let (mut value, other) = unsafe { T::load(data) };
            differs |= other;
            if !matches!(first, SlotOperands::None) {
                let (sum, other) = add::<NORMAL>(value, first, at, fused.relus[0]);
                value = sum;
                differs |= other;
            }
            if !matches!(factor, SlotOperands::None) {
                let (factor, other) = operand(factor, at);
                let product = _mm512_mul_ps(value, factor);
                differs |= other | if NORMAL { 0 } else { edge(product) };
                value = if fused.prelu {
                    _mm512_mask_mov_ps(value, _mm512_movepi32_mask(_mm512_castps_si512(value)), product)
                } else {
                    product
                };
            }
            // As integers, positive floats lie above zero and negative ones below.
            if fused.relus[0] {
                value = _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(value), zero));
            }
            if !matches!(second, SlotOperands::None) {
                let (sum, other) = add::<NORMAL>(value, second, at, fused.relus[1]);
                value = sum;
                differs |= other;
                if fused.relus[1] {
                    value = _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(value), zero));
                }
            }
            let halves = narrow(value);
            // SAFETY: 32 bytes.
            unsafe { _mm256_storeu_si256(into.as_mut_ptr().cast(), halves) };
        }
        differs != 0
    }

    /// Computes elements from `at` on with the bit-level functions.
    #[cold]
    #[inline(never)]
    fn again<T: Sample>(&self, data: &[T], at: usize, into: &mut [[u8; 2]]) {
        let mut all = [[0; STEP]; 3];
        let [first, second, factor] = &mut all;
        let flush = self.fused.flush;
        let operands = Values {
            first: values(self.first, at, flush, &mut first[..data.len()]),
            second: values(self.second, at, flush, &mut second[..data.len()]),
            factor: values(self.factor, at, flush, &mut factor[..data.len()]),
        };
        exactly(*self.fused, data, operands, into);
    }
}

/// Operands from `at` on. Operands that must be converted are written to `room`.
fn values<'v>(operand: SlotOperands<'v>, at: usize, flush: bool, buffers: &'v mut [i32]) -> &'v [i32] {
    match operand {
        SlotOperands::None => &[],
        // Operands that repeat are also prepared for a whole chunk.
        SlotOperands::Lanes { lanes, .. } => &lanes.0[at..at + buffers.len()],
        SlotOperands::Bytes { bytes, .. } => {
            let format = Format { bytes: 2, components: 1, component: 0 };
            load::operand(buffers, &bytes[2 * at..], format, Prepare::Float, flush);
            buffers
        }
    }
}

/// The 16 operands from `at` on, and which of them are not finite.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn operand(operand: SlotOperands, at: usize) -> (__m512, __mmask16) {
    let SlotOperands::Bytes { bytes, .. } = operand else { return (_mm512_castsi512_ps(operand.load(at)), 0) };
    let pairs = bytes.as_chunks::<2>().0;
    let pairs = &pairs[at.min(pairs.len())..];
    if let Some(pairs) = pairs.first_chunk() {
        return half(pairs);
    }
    // After the last element.
    let mut padded = [[0; 2]; 16];
    padded[..pairs.len()].copy_from_slice(pairs);
    half(&padded)
}

/// The sum, and whether the hardware's may differ. If `RELU` follows, the sign of zero has no effect.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn add<const NORMAL: bool>(value: __m512, with: SlotOperands, at: usize, relu: bool) -> (__m512, __mmask16) {
    let (with, other) = operand(with, at);
    let sum = _mm512_add_ps(value, with);
    let differs = other | if NORMAL { 0 } else { _mm512_fpclass_ps_mask::<{ NAN | INFINITE | DENORMAL }>(sum) };
    if relu {
        return (sum, differs);
    }
    let zeros = _mm512_fpclass_ps_mask::<ZERO>(sum);
    (_mm512_mask_and_ps(sum, zeros, value, _mm512_set1_ps(-0.0)), differs)
}

/// The products that the hardware may round differently.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn edge(products: __m512) -> __mmask16 {
    let magnitudes = _mm512_and_si512(_mm512_castps_si512(products), _mm512_set1_epi32(MAGNITUDE));
    _mm512_fpclass_ps_mask::<{ NAN | INFINITE | DENORMAL }>(products)
        | _mm512_cmpeq_epi32_mask(magnitudes, _mm512_set1_epi32(SMALLEST))
}

/// To fp16, limited to its largest value.
#[inline]
#[target_feature(enable = "avx512f")]
fn narrow(values: __m512) -> __m256i {
    let limited = _mm512_min_ps(_mm512_set1_ps(LARGEST), _mm512_max_ps(_mm512_set1_ps(-LARGEST), values));
    _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(limited)
}

#[cfg(test)]
mod tests {
    use super::super::super::float;
    use super::*;

    #[test]
    fn conversions_are_those_of_the_bit_level_functions() {
        if !crate::Isa::available().contains(&crate::Isa::Avx512) {
            return;
        }
        #[target_feature(enable = "avx512f")]
        fn sixteen(bits: [u32; 16]) -> [u16; 16] {
            // SAFETY: 16 values, and 16 of half the size.
            unsafe {
                let mut halves = [0; 16];
                let values = _mm512_castsi512_ps(_mm512_loadu_si512(bits.as_ptr().cast()));
                _mm256_storeu_si256(halves.as_mut_ptr().cast(), narrow(values));
                halves
            }
        }
        let check = |first: u32| {
            let bits: [u32; 16] = std::array::from_fn(|index| first.wrapping_add(index as u32));
            let is_finite = bits.iter().all(|bits| bits & 0x7fff_ffff <= 0x7f80_0000);
            if is_finite {
                // SAFETY: the machine has the instructions.
                let halves = unsafe { sixteen(bits) };
                assert_eq!(halves, bits.map(float::narrow), "from {first:#x}");
            }
        };
        // Every fourth block of all values, and all values near those that round to the smallest and the largest.
        (0..=u32::MAX >> 6).for_each(|block| check(block << 6));
        for near in [0x3280_0000u32, 0x3300_0000, 0x3880_0000, 0x477f_e000, 0x477f_f000, 0x4780_0000, 0x7f80_0000] {
            for sign in [0, 0x8000_0000] {
                (0..0x1000).for_each(|block| check((near | sign).wrapping_sub(0x8000) + (block << 4)));
            }
        }
        for bits in 0..=u16::MAX {
            // SAFETY: the machine has the instructions.
            let (values, differs) = unsafe { half(&[bits.to_le_bytes(); 16]) };
            let mut results = [0.0f32; 16];
            // SAFETY: 16 values.
            unsafe { _mm512_storeu_ps(results.as_mut_ptr(), values) };
            assert_eq!(differs != 0, bits & 0x7c00 == 0x7c00, "{bits:#x}");
            assert!(differs != 0 || results.iter().all(|result| result.to_bits() == float::widen(bits)), "{bits:#x}");
        }
    }
}
