// SPDX-License-Identifier: MIT OR Apache-2.0

//! Steps with AVX-512: 64 products at a time. Their exponents and low bits are bytes.

#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::super::super::avx512::NUMBERS;
use super::super::super::panel::ZERO;
use super::super::run::Run;
use super::super::sums::Sums;
use super::buffers::{Buffers, Element, LANES, MANY, NEAR, NOTHING};

/// fp16 values in half a register.
const QUARTER: usize = 16;

/// Computes the fp32 values that CACC delivers for `elements`.
///
/// # Safety
/// The machine has AVX-512 ([`crate::Isa::Avx512Vbmi`]).
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi2,bmi2")]
pub(super) fn each(sums: &Sums<'_>, buffers: &mut Buffers, elements: &[Element]) -> [f32; MANY] {
    for (number, &element) in elements.iter().enumerate() {
        match sums.widest {
            ..=16 => walk::<16>(sums, buffers, number, element),
            17..=32 => walk::<32>(sums, buffers, number, element),
            _ => walk::<64>(sums, buffers, number, element),
        }
    }
    buffers.finish(sums.steps.len())
}

/// Calls [`steps_of`] for fp16 values in memory.
#[cfg(test)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,bmi2")]
pub(super) fn steps<const W: usize>(
    weights: &[u16; LANES],
    data: &[u16; LANES],
    buffers: &mut Buffers,
    first: usize,
    number: usize,
) {
    steps_of::<W>(quarters(weights), quarters(data), buffers, first, number);
}

/// 64 fp16 values.
type Halves = [__m256i; 4];

#[inline]
#[target_feature(enable = "avx512f")]
fn quarters(halves: &[u16; LANES]) -> Halves {
    // SAFETY: 16 halves each.
    let quarter = |quarter: usize| unsafe { _mm256_loadu_si256(halves.as_ptr().add(quarter * QUARTER).cast()) };
    [quarter(0), quarter(1), quarter(2), quarter(3)]
}

/// Computes all steps of an element. A step has at most `W` products.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,bmi2")]
fn walk<const W: usize>(sums: &Sums<'_>, buffers: &mut Buffers, number: usize, (kernel, window): Element) {
    for (first, steps) in (0..).step_by(LANES / W).zip(sums.steps.chunks(LANES / W)) {
        let (mut weights, mut data) = ([_mm256_setzero_si256(); 4], [_mm256_setzero_si256(); 4]);
        let width = W / QUARTER;
        for (step, range) in steps.iter().enumerate() {
            let (weights, data) = (&mut weights[step * width..][..width], &mut data[step * width..][..width]);
            match &sums.runs[range.clone()] {
                [run] => {
                    let row = sums.panel.row(kernel, run);
                    let bits = &sums.data.bits[window + run.offset..][..run.length];
                    for (quarter, (weights, data)) in weights.iter_mut().zip(data).enumerate() {
                        let from = (quarter * QUARTER).min(run.length);
                        let mask = _bzhi_u32(0xffff, (run.length - from) as u32) as __mmask16;
                        // SAFETY: the mask has a bit for each element after `from`.
                        unsafe {
                            *weights = _mm256_maskz_loadu_epi16(mask, row.as_ptr().add(from).cast());
                            *data = _mm256_maskz_loadu_epi16(mask, bits.as_ptr().add(from).cast());
                        }
                    }
                }
                runs => {
                    let (row, halves) = joined(sums, runs, kernel, window);
                    let (row, halves) = (quarters(&row), quarters(&halves));
                    weights.copy_from_slice(&row[..width]);
                    data.copy_from_slice(&halves[..width]);
                }
            }
        }
        steps_of::<W>(weights, data, buffers, first, number);
    }
}

/// Joins the runs of one step.
fn joined(sums: &Sums<'_>, runs: &[Run], kernel: usize, window: usize) -> ([u16; LANES], [u16; LANES]) {
    let (mut weights, mut data) = ([0; LANES], [0; LANES]);
    let mut places = weights.iter_mut().zip(&mut data);
    for run in runs {
        let bits = &sums.data.bits[window + run.offset..][..run.length];
        for ((from, half), (weight, datum)) in sums.panel.row(kernel, run).iter().zip(bits).zip(&mut places) {
            *weight = u16::from_le_bytes(*from);
            *datum = *half;
        }
    }
    (weights, data)
}

/// Operands: significands in 16-bit words, the exponents' high bits and the significands' low bits in bytes.
struct Operands {
    significands: [__m512i; 2],
    exponents: __m512i,
    low: __m512i,
}

/// Narrows two vectors of words to one of bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn narrow(words: [__m512i; 2]) -> __m512i {
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    _mm512_permutexvar_epi64(order, _mm512_packs_epi16(words[0], words[1]))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn split(halves: [__m512i; 2]) -> Operands {
    let word = |value: i16| _mm512_set1_epi16(value);
    let mut significands = [_mm512_setzero_si512(); 2];
    let mut exponents = significands;
    let mut low = significands;
    for (i, half) in halves.into_iter().enumerate() {
        let expo = _mm512_and_si512(_mm512_srli_epi16(half, 10), word(0x1f));
        let fraction = _mm512_and_si512(half, word(0x3ff));
        let normal = _mm512_sllv_epi16(_mm512_or_si512(fraction, word(0x400)), _mm512_and_si512(expo, word(3)));
        let denormal = _mm512_testn_epi16_mask(expo, expo);
        let significand = _mm512_mask_slli_epi16(normal, denormal, fraction, 1);
        let zero = _mm512_testn_epi16_mask(significand, significand);
        significands[i] = significand;
        exponents[i] = _mm512_mask_mov_epi16(_mm512_srli_epi16(expo, 2), zero, word(ZERO as i16));
        // Signed, so that packing saturates nothing.
        low[i] = _mm512_srai_epi16(_mm512_slli_epi16(significand, 8), 8);
    }
    Operands { significands, exponents: narrow(exponents), low: narrow(low) }
}

/// Computes steps from number `first` on, like [`super::plain::steps_of`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2")]
fn steps_of<const W: usize>(weights: Halves, data: Halves, buffers: &mut Buffers, first: usize, number: usize) {
    let join = |halves: Halves| {
        let whole = |low, high| _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
        [whole(halves[0], halves[1]), whole(halves[2], halves[3])]
    };
    let byte = |value: u8| _mm512_set1_epi8(value as i8);
    let (weights, data) = (join(weights), join(data));
    let signs = [0, 1].map(|i| _mm512_srai_epi16(_mm512_xor_si512(weights[i], data[i]), 15));
    let (weight, datum) = (split(weights), split(data));
    let exponents = _mm512_add_epi8(weight.exponents, datum.exponents);
    let largest = tops::<W>(_mm512_max_epi8(exponents, _mm512_setzero_si512()));
    let distances = _mm512_sub_epi8(largest, exponents);
    let [by_0, by_4, by_8] = [0, 1, 2].map(|distance| _mm512_cmpeq_epi8_mask(distances, byte(distance)));
    let far = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(distances, byte(NEAR + 1)), byte(NOTHING - NEAR - 1));

    // Sums of pairs of products with signed weights. Each class of distances has its own shift. The bits that the shift
    // drops are subtracted before the addition.
    let mut pairs = [_mm512_setzero_si512(); 2];
    let mut signed = pairs;
    let mut products = pairs;
    let one = _mm512_set1_epi16(1);
    for i in 0..2 {
        signed[i] = _mm512_sub_epi16(_mm512_xor_si512(weight.significands[i], signs[i]), signs[i]);
        products[i] = _mm512_mullo_epi16(signed[i], datum.significands[i]);
        let of = |mask: u64| [mask as u32, (mask >> 32) as u32][i];
        let class = |mask: u64| _mm512_madd_epi16(_mm512_maskz_mov_epi16(of(mask), signed[i]), datum.significands[i]);
        let dropped = |mask: u64, bits: i16| {
            let low = _mm512_and_si512(products[i], _mm512_set1_epi16(bits));
            _mm512_madd_epi16(_mm512_maskz_mov_epi16(of(mask), low), one)
        };
        let quarter = _mm512_srai_epi32(_mm512_sub_epi32(class(by_4), dropped(by_4, 0xf)), 4);
        let eighth = _mm512_srai_epi32(_mm512_sub_epi32(class(by_8), dropped(by_8, 0xff)), 8);
        pairs[i] = _mm512_add_epi32(class(by_0), _mm512_add_epi32(quarter, eighth));
    }

    // The product is the multiplier's sum plus its carry. The carry out of the low bits is lost if the sum's low bits
    // are larger than the product's.
    let low = _mm512_and_si512(products[0], _mm512_set1_epi16(0xff));
    let high = _mm512_and_si512(products[1], _mm512_set1_epi16(0xff));
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    let product = _mm512_permutexvar_epi64(order, _mm512_packus_epi16(low, high));
    let sum = booth_sum(narrow(signs), weight.low, datum.low);
    let nibble = byte(0xf);
    let lost_4 = _mm512_mask_cmpgt_epu8_mask(by_4, _mm512_and_si512(sum, nibble), _mm512_and_si512(product, nibble));
    let lost = lost_4 | _mm512_mask_cmpgt_epu8_mask(by_8, sum, product);

    let Buffers { steps, far: later } = buffers;
    for step in 0..LANES / W {
        let pairs = match W {
            16 => {
                let half = if step % 2 == 0 {
                    _mm512_castsi512_si256(pairs[step / 2])
                } else {
                    _mm512_extracti64x4_epi64(pairs[step / 2], 1)
                };
                _mm512_cvtepi32_epi64(half)
            }
            32 => long(pairs[step]),
            // The sum of two pairs has 31 bits.
            _ => long(_mm512_add_epi32(pairs[0], pairs[1])),
        };
        let lost = (lost >> (step * W)) & (u64::MAX >> (LANES - W));
        let total = _mm512_reduce_add_epi64(pairs) - i64::from(lost.count_ones());
        let lane = (step * W / QUARTER) as i32;
        let top = match lane {
            0 => _mm512_castsi512_si128(largest),
            1 => _mm512_extracti32x4_epi32(largest, 1),
            2 => _mm512_extracti32x4_epi32(largest, 2),
            _ => _mm512_extracti32x4_epi32(largest, 3),
        };
        steps.exponents[first + step][number] = _mm_cvtsi128_si32(top) as i8;
        steps.sums[first + step][number] = total;
    }
    if far != 0 {
        later.reserve();
        let at = later.count;
        let [low, high] = [far as u32, (far >> 32) as u32];
        let second = at + low.count_ones() as usize;
        // SAFETY: 64 bytes.
        let numbers = unsafe { _mm512_loadu_si512(NUMBERS.as_ptr().cast()) };
        let lanes = _mm512_maskz_compress_epi8(far, numbers);
        let distances = _mm512_maskz_compress_epi8(far, distances);
        let mut order = [0u8; LANES];
        let words = [(low, 0, at), (high, 1, second)];
        assert!(at + LANES <= later.places.len());
        // SAFETY: `reserve` made room for 64 more in each vector, and `second` is at most `at + 32`.
        unsafe {
            for (mask, i, at) in words {
                let weights = _mm512_maskz_compress_epi16(mask, signed[i]);
                let data = _mm512_maskz_compress_epi16(mask, datum.significands[i]);
                _mm512_storeu_si512(later.weights.as_mut_ptr().add(at).cast(), weights);
                _mm512_storeu_si512(later.data.as_mut_ptr().add(at).cast(), data);
            }
            _mm512_storeu_si512(later.distances.as_mut_ptr().add(at).cast(), distances);
            _mm512_storeu_si512(order.as_mut_ptr().cast(), lanes);
        }
        let count = far.count_ones() as usize;
        for (place, lane) in later.places[at..].iter_mut().zip(&order[..count]) {
            *place = ((first + usize::from(*lane) / W) * MANY + number) as u32;
        }
        later.count += count;
    }
}

/// Adds lanes of 32 bits in pairs, to lanes of 64 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn long(pairs: __m512i) -> __m512i {
    let low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(pairs));
    _mm512_add_epi64(low, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(pairs, 1)))
}

/// Replaces each byte by the largest of its `W` bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn tops<const W: usize>(bytes: __m512i) -> __m512i {
    let mut top = bytes;
    if W > 32 {
        top = _mm512_max_epi8(top, _mm512_shuffle_i64x2(top, top, 0b01_00_11_10));
    }
    if W > 16 {
        top = _mm512_max_epi8(top, _mm512_permutex_epi64(top, 0b01_00_11_10));
    }
    top = _mm512_max_epi8(top, _mm512_shuffle_epi32(top, 0b01_00_11_10));
    top = _mm512_max_epi8(top, _mm512_shuffle_epi32(top, 0b10_11_00_01));
    // Compare the words and then the bytes of each 32 bits.
    top = _mm512_max_epi8(top, _mm512_rol_epi32(top, 16));
    _mm512_max_epi8(top, _mm512_or_si512(_mm512_srli_epi16(top, 8), _mm512_slli_epi16(top, 8)))
}

/// The low 8 bits of the Booth multiplier's sum. The bytes of `negative` are 0xff or 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn booth_sum(negative: __m512i, weight: __m512i, data: __m512i) -> __m512i {
    let byte = |value: u8| _mm512_set1_epi8(value as i8);
    let bits = _mm512_xor_si512(weight, negative);
    let twice_data = _mm512_add_epi8(data, data);
    let bit = |number: u32| _mm512_test_epi8_mask(bits, byte(1 << number));
    let mut low = _mm512_movepi8_mask(negative);
    let mut partial = [_mm512_setzero_si512(); 4];
    let mut minus = partial;
    for i in 0..4 {
        let (middle, high) = (bit(2 * i as u32), bit(2 * i as u32 + 1));
        let once = low ^ middle;
        let twice = !once & (middle ^ high);
        let negate = high & !(low & middle);
        let multiple = _mm512_mask_mov_epi8(_mm512_maskz_mov_epi8(once, data), twice, twice_data);
        partial[i] = _mm512_mask_sub_epi8(multiple, negate, byte(0xff), multiple);
        minus[i] = _mm512_maskz_mov_epi8(negate, byte(1 << (2 * i)));
        low = high;
    }
    partial[1] = _mm512_and_si512(_mm512_slli_epi16(partial[1], 2), byte(0xfc));
    partial[2] = _mm512_and_si512(_mm512_slli_epi16(partial[2], 4), byte(0xf0));
    partial[3] = _mm512_and_si512(_mm512_slli_epi16(partial[3], 6), byte(0xc0));
    let compress = |a, b, c| {
        let majority = _mm512_ternarylogic_epi64(a, b, c, 0xe8);
        (_mm512_ternarylogic_epi64(a, b, c, 0x96), _mm512_add_epi8(majority, majority))
    };
    let with = |partial, minus| _mm512_or_si512(partial, minus);
    let pair = compress(partial[0], with(partial[1], minus[0]), with(partial[2], minus[1]));
    let pair = compress(pair.0, pair.1, with(partial[3], minus[2]));
    let pair = compress(pair.0, pair.1, minus[3]);
    // Two more compressions, in which the low bits of the high partial products are zero.
    let carry = _mm512_and_si512(pair.0, pair.1);
    _mm512_xor_si512(_mm512_xor_si512(pair.0, pair.1), _mm512_add_epi8(carry, carry))
}
