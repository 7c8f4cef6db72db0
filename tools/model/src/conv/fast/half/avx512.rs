// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inner loops over fp16 for AVX-512: 64 kernels side by side.
//!
//! Exponents are bytes. Products are plain multiplications, shifted by their distance from the largest exponent; the
//! tables say which of those shifted by 4 or 8 are one below. Products that lie further below, few in any real network,
//! are taken one by one.

#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::super::super::half::{self, Accumulators};
use super::panel::{Active, Lane, KERNELS};
use super::tables::Tables;

/// Products of 28 bits whose sum fits 32.
const CHUNK: usize = 7;

/// The largest exponent of each kernel's products.
///
/// # Safety
/// The machine has AVX-512 ([`super::super::Isa::Avx512`]).
#[target_feature(enable = "avx512f,avx512bw")]
pub fn largest(lanes: &[Lane], active: &[Active]) -> [i8; KERNELS] {
    let mut largest = _mm512_setzero_si512();
    for active in active {
        let exponents = load(&lanes[active.lane as usize].exponent);
        largest = _mm512_max_epi8(largest, _mm512_add_epi8(exponents, _mm512_set1_epi8(active.exponent)));
    }
    let mut out = [0; KERNELS];
    // SAFETY: 64 bytes.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), largest) };
    out
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load<T>(values: &[T; 64]) -> __m512i {
    const { assert!(size_of::<T>() == 1) };
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

/// Each kernel's sum of products at its largest exponent, for the first `kernels` of them.
///
/// # Safety
/// The machine has AVX-512 ([`super::super::Isa::Avx512`]).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi")]
pub fn sum(lanes: &[Lane], active: &[Active], largest: &[i8; KERNELS], kernels: usize, sums: &mut [i64; KERNELS]) {
    if kernels <= 16 {
        quarters::<1>(lanes, active, largest, sums);
    } else if kernels <= 32 {
        quarters::<2>(lanes, active, largest, sums);
    } else {
        quarters::<4>(lanes, active, largest, sums);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi")]
fn quarters<const Q: usize>(lanes: &[Lane], active: &[Active], largest: &[i8; KERNELS], sums: &mut [i64; KERNELS]) {
    let tables = Tables::get();
    *sums = [0; KERNELS];
    let top = load(largest);
    let one = _mm512_set1_epi32(1);
    let wanted = if Q == 4 { u64::MAX } else { (1 << (16 * Q)) - 1 };
    let mut later = Later::new();
    for chunk in active.chunks(CHUNK) {
        let mut acc = [_mm512_setzero_si512(); Q];
        // Far products wait until the accumulators have left the registers.
        let mut fars = [0; CHUNK];
        for (active, far_kernels) in chunk.iter().zip(&mut fars) {
            let lane = &lanes[active.lane as usize];
            let exponents = _mm512_add_epi8(load(&lane.exponent), _mm512_set1_epi8(active.exponent));
            let distance = _mm512_sub_epi8(top, exponents);
            let counts = _mm512_cmplt_epi8_mask(distance, _mm512_set1_epi8(8)) & wanted;
            *far_kernels = _mm512_cmpgt_epi8_mask(distance, _mm512_set1_epi8(2)) & counts;
            let by_4 = _mm512_cmpeq_epi8_mask(distance, _mm512_set1_epi8(1));
            let by_8 = _mm512_cmpeq_epi8_mask(distance, _mm512_set1_epi8(2));
            let (byte, bit) = (load(&lane.byte), load(&lane.bit));
            let row_4 = load(&tables.by_4[active.row_4()].0);
            let row_8 = load(&tables.by_8[active.row_8()].0);
            let below_4 = _mm512_test_epi8_mask(_mm512_permutexvar_epi8(byte, row_4), bit);
            let below_8 = _mm512_test_epi8_mask(_mm512_permutexvar_epi8(byte, row_8), bit);
            let below = (by_4 & below_4 | by_8 & below_8) & wanted;
            let shift = _mm512_slli_epi16(_mm512_and_si512(distance, _mm512_set1_epi8(7)), 2);
            // The datum beside the weight's low half, zero beside its sign.
            let datum = _mm512_set1_epi32(i32::from(active.significand as u16));
            let shifts: [__m128i; 4] = [
                _mm512_castsi512_si128(shift),
                _mm512_extracti32x4_epi32(shift, 1),
                _mm512_extracti32x4_epi32(shift, 2),
                _mm512_extracti32x4_epi32(shift, 3),
            ];
            for q in 0..Q {
                // SAFETY: 16 significands of 64.
                let weights = unsafe { _mm256_loadu_si256(lane.significand.as_ptr().add(16 * q).cast()) };
                let product = _mm512_madd_epi16(_mm512_cvtepi16_epi32(weights), datum);
                let product = _mm512_srav_epi32(product, _mm512_cvtepu8_epi32(shifts[q]));
                acc[q] = _mm512_mask_add_epi32(acc[q], (counts >> (16 * q)) as u16, acc[q], product);
                acc[q] = _mm512_mask_sub_epi32(acc[q], (below >> (16 * q)) as u16, acc[q], one);
            }
        }
        for (q, acc) in acc.iter().enumerate() {
            let halves = [_mm512_castsi512_si256(*acc), _mm512_extracti64x4_epi64(*acc, 1)];
            for (index, half) in halves.into_iter().enumerate() {
                // SAFETY: 8 sums of 64.
                unsafe {
                    let to = sums.as_mut_ptr().add(16 * q + 8 * index).cast::<__m512i>();
                    _mm512_storeu_si512(to, _mm512_add_epi64(_mm512_loadu_si512(to), _mm512_cvtepi32_epi64(half)));
                }
            }
        }
        for (active, far) in chunk.iter().zip(fars) {
            if far != 0 {
                later.push(&lanes[active.lane as usize], *active, largest, far, sums);
            }
        }
    }
    later.add(sums);
}

/// Products that lie further below than the tables say, 16 at a time.
struct Later {
    weights: [i16; BATCH],
    data: [i16; BATCH],
    shifts: [u32; BATCH],
    kernels: [u8; BATCH],
    count: usize,
}

/// Products taken together.
const BATCH: usize = 16;

impl Later {
    const fn new() -> Self {
        Self { weights: [0; BATCH], data: [0; BATCH], shifts: [0; BATCH], kernels: [0; BATCH], count: 0 }
    }

    /// Takes the products of the kernels of a mask.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    fn push(&mut self, lane: &Lane, active: Active, largest: &[i8; KERNELS], mut far: u64, sums: &mut [i64; KERNELS]) {
        while far != 0 {
            let kernel = far.trailing_zeros() as usize;
            far &= far - 1;
            let at = self.count;
            self.weights[at] = lane.significand[kernel];
            self.data[at] = active.significand;
            self.shifts[at] = 4 * (largest[kernel] - lane.exponent[kernel] - active.exponent) as u32;
            self.kernels[at] = kernel as u8;
            self.count += 1;
            if self.count == BATCH {
                self.add(sums);
            }
        }
    }

    /// Adds the difference between the shifted products and what the hardware makes of them.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    fn add(&mut self, sums: &mut [i64; KERNELS]) {
        let mut differences = [0i32; BATCH];
        for (i, difference) in differences.iter_mut().enumerate() {
            let (weight, data) = (i32::from(self.weights[i]), i32::from(self.data[i]));
            let shift = self.shifts[i] & 31;
            let (sum, carry) = half::booth_lane((weight ^ data) < 0, weight.unsigned_abs(), data.unsigned_abs());
            let product = (sum >> shift).wrapping_add(carry >> shift).wrapping_sub(half::BOOTH_OFFSET >> shift);
            *difference = product as i32 - ((weight * data) >> shift);
        }
        for (difference, kernel) in differences.iter().zip(self.kernels).take(self.count) {
            sums[usize::from(kernel) % KERNELS] += i64::from(*difference);
        }
        self.count = 0;
    }
}

/// Takes a lane's weights apart.
///
/// # Safety
/// The machine has AVX-512 ([`super::super::Isa::Avx512`]).
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub fn fill(lane: &mut Lane, weights: &[u16; KERNELS]) {
    lane.set_all(weights);
}

/// Adds a step to the accumulators.
///
/// # Safety
/// The machine has AVX-512 ([`super::super::Isa::Avx512`]).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl")]
pub fn accumulate(accumulators: &mut Accumulators<KERNELS>, largest: &[i8; KERNELS], sums: &[i64; KERNELS]) {
    accumulators.add_all(largest, sums);
}
