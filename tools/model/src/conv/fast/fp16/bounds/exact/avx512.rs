// SPDX-License-Identifier: MIT OR Apache-2.0

//! Steps with AVX-512: 64 products at a time. Their exponents and low bits are bytes.

#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::super::super::avx512::NUMBERS;
use super::super::super::panel::ZERO;
use super::super::panel::Split;
use super::super::sums::Sums;
use super::buffers::{Buffers, Element, Lanes, LANES, MANY, NEAR, NOTHING};
use super::plain::joined;

/// Computes the fp32 values that CACC delivers for `elements`.
///
/// # Safety
/// The machine has AVX-512 ([`crate::Isa::Avx512Vbmi`]).
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi2,bmi2,popcnt")]
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

/// Calls [`steps_of`] for operands in memory.
#[cfg(test)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,bmi2,popcnt")]
pub(super) fn steps<const W: usize>(weights: &Lanes, data: &Lanes, buffers: &mut Buffers, first: usize, number: usize) {
    steps_of::<W>(Operands::all(weights), Operands::all(data), buffers, first, number);
}

/// 64 values: signed significands and the high bits of the exponents.
#[derive(Clone, Copy)]
struct Operands {
    significands: [__m512i; 2],
    exponents: __m512i,
    /// Which values there are. The exponents of the others are zero.
    present: u64,
}

impl Operands {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    fn all(Lanes { significands, exponents }: &Lanes) -> Self {
        Self::of::<LANES>([Split { significands, exponents }; 4])
    }

    /// Loads the values of 64 / `W` steps, of which each has at most `W`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    fn of<const W: usize>([a, b, c, d]: [Split<'_>; 4]) -> Self {
        let join = |low, high| _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
        let present = |split: Split<'_>, from: usize| _bzhi_u64(u64::MAX, split.exponents.len() as u32) << from;
        match W {
            16 => {
                let half = |low, high| _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
                let exponents = [half(exponents_16(a), exponents_16(b)), half(exponents_16(c), exponents_16(d))];
                Self {
                    significands: [
                        join(significands_16(a), significands_16(b)),
                        join(significands_16(c), significands_16(d)),
                    ],
                    exponents: join(exponents[0], exponents[1]),
                    present: present(a, 0) | present(b, 16) | present(c, 32) | present(d, 48),
                }
            }
            32 => Self {
                significands: [significands_32(a, 0), significands_32(b, 0)],
                exponents: join(exponents_32(a), exponents_32(b)),
                present: present(a, 0) | present(b, 32),
            },
            _ => {
                let present = present(a, 0);
                // SAFETY: the mask has a bit for each exponent.
                let exponents = unsafe { _mm512_maskz_loadu_epi8(present, a.exponents.as_ptr()) };
                Self { significands: [significands_32(a, 0), significands_32(a, 32)], exponents, present }
            }
        }
    }
}

/// The significands from `from` on, at most 32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn significands_32(split: Split<'_>, from: usize) -> __m512i {
    // A load without elements is quick only at an address that can be read.
    let rest = split.significands.get(from..).unwrap_or(&split.significands[..0]);
    // SAFETY: the mask has a bit for each of them.
    unsafe { _mm512_maskz_loadu_epi16(_bzhi_u32(u32::MAX, rest.len() as u32), rest.as_ptr()) }
}

/// At most 32 exponents.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
fn exponents_32(Split { exponents, .. }: Split<'_>) -> __m256i {
    let mask = _bzhi_u32(u32::MAX, exponents.len() as u32);
    // SAFETY: the mask has a bit for each of them.
    unsafe { _mm256_maskz_loadu_epi8(mask, exponents.as_ptr()) }
}

/// At most 16 significands.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
fn significands_16(Split { significands, .. }: Split<'_>) -> __m256i {
    let mask = _bzhi_u32(0xffff, significands.len() as u32) as __mmask16;
    // SAFETY: the mask has a bit for each of them.
    unsafe { _mm256_maskz_loadu_epi16(mask, significands.as_ptr()) }
}

/// At most 16 exponents.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
fn exponents_16(Split { exponents, .. }: Split<'_>) -> __m128i {
    let mask = _bzhi_u32(0xffff, exponents.len() as u32) as __mmask16;
    // SAFETY: the mask has a bit for each of them.
    unsafe { _mm_maskz_loadu_epi8(mask, exponents.as_ptr()) }
}

/// Computes all steps of an element. A step has at most `W` products.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,bmi2,popcnt")]
fn walk<const W: usize>(sums: &Sums<'_>, buffers: &mut Buffers, number: usize, (kernel, window): Element) {
    for (first, steps) in (0..).step_by(LANES / W).zip(sums.steps.chunks(LANES / W)) {
        if steps.iter().any(|runs| runs.len() != 1) {
            let [weights, data] = joined::<W>(sums, steps, (kernel, window));
            steps_of::<W>(Operands::all(&weights), Operands::all(&data), buffers, first, number);
            continue;
        }
        let row = |step: usize| {
            let run = sums.runs.get(steps.get(step)?.start)?;
            Some([sums.panel.row(kernel, run), sums.data.row(window, run)])
        };
        let none = [Split::of(&sums.data.significands, &sums.data.exponents, 0, 0); 2];
        let step = |step: usize| if step < LANES / W { row(step).unwrap_or(none) } else { none };
        let [a, b, c, d] = [step(0), step(1), step(2), step(3)];
        let (weights, data) =
            (Operands::of::<W>([a[0], b[0], c[0], d[0]]), Operands::of::<W>([a[1], b[1], c[1], d[1]]));
        steps_of::<W>(weights, data, buffers, first, number);
    }
}

/// Narrows two vectors of words to one of bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn narrow(words: [__m512i; 2]) -> __m512i {
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    _mm512_permutexvar_epi64(order, _mm512_packs_epi16(words[0], words[1]))
}

/// The low bytes of two vectors of words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn low_bytes(words: [__m512i; 2]) -> __m512i {
    let [low, high] = words;
    _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(low)), _mm512_cvtepi16_epi8(high), 1)
}

/// Computes steps from number `first` on, like [`super::plain::steps_of`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,bmi2,popcnt")]
fn steps_of<const W: usize>(weights: Operands, data: Operands, buffers: &mut Buffers, first: usize, number: usize) {
    let byte = |value: u8| _mm512_set1_epi8(value as i8);
    let zeros = _mm512_set1_epi8(ZERO);
    let exponents = _mm512_mask_add_epi8(zeros, weights.present, weights.exponents, data.exponents);
    let (weights, data) = (weights.significands, data.significands);
    let largest = tops::<W>(_mm512_max_epi8(exponents, _mm512_setzero_si512()));
    let distances = _mm512_sub_epi8(largest, exponents);
    let far = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(distances, byte(NEAR + 1)), byte(NOTHING - NEAR - 1));

    // Sums of pairs of products. Each class of distances has its own shift. The bits that the shift drops are subtracted before the
    // addition.
    let mut pairs = [_mm512_setzero_si512(); 2];
    let mut products = pairs;
    let mut signs = pairs;
    let mut magnitudes = [pairs; 2];
    let one = _mm512_set1_epi16(1);
    for i in 0..2 {
        let (weight, datum) = (weights[i], data[i]);
        products[i] = _mm512_mullo_epi16(weight, datum);
        signs[i] = _mm512_srai_epi16(_mm512_xor_si512(weight, datum), 15);
        (magnitudes[0][i], magnitudes[1][i]) = (_mm512_abs_epi16(weight), _mm512_abs_epi16(datum));
        let half = if i == 0 { _mm512_castsi512_si256(distances) } else { _mm512_extracti64x4_epi64(distances, 1) };
        let distances = _mm512_cvtepi8_epi16(half);
        let at = |distance: i16| _mm512_cmpeq_epi16_mask(distances, _mm512_set1_epi16(distance));
        let [by_0, by_4, by_8] = [at(0), at(1), at(2)];
        let class = |mask: u32| _mm512_madd_epi16(_mm512_maskz_mov_epi16(mask, weight), datum);
        let dropped = |mask: u32, bits: i16| {
            let low = _mm512_and_si512(products[i], _mm512_set1_epi16(bits));
            _mm512_madd_epi16(_mm512_maskz_mov_epi16(mask, low), one)
        };
        let quarter = _mm512_srai_epi32(_mm512_sub_epi32(class(by_4), dropped(by_4, 0xf)), 4);
        let eighth = _mm512_srai_epi32(_mm512_sub_epi32(class(by_8), dropped(by_8, 0xff)), 8);
        pairs[i] = _mm512_add_epi32(class(by_0), _mm512_add_epi32(quarter, eighth));
    }

    // The product is the multiplier's sum plus its carry. The carry out of the low bits is lost if the sum's low bits
    // are larger than the product's.
    let product = low_bytes(products);
    let sum = booth_sum(narrow(signs), low_bytes(magnitudes[0]), low_bytes(magnitudes[1]));
    let nibble = byte(0xf);
    let [by_4, by_8] = [_mm512_cmpeq_epi8_mask(distances, byte(1)), _mm512_cmpeq_epi8_mask(distances, byte(2))];
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
        let lane = step * W / 16;
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
                let weights = _mm512_maskz_compress_epi16(mask, weights[i]);
                let data = _mm512_maskz_compress_epi16(mask, data[i]);
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
