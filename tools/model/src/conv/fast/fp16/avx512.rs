// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inner loops of fp16 for AVX-512: 64 kernels at a time.
//!
//! Exponents are bytes. Products are computed by plain multiplications and shifted by their distance from the largest
//! exponent. The tables give the products that are one lower in hardware, for shifts by 4 and 8. Products with larger
//! shifts are rare in networks and are computed one by one.

#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::super::super::fp16::{self, Accumulators};
use super::panel::{Active, Lane, KERNELS};
use super::tables::Tables;

/// Products of 28 bits whose sum fits 32 bits.
const CHUNK: usize = 7;
/// Chunks whose products a byte can count.
const CHUNKS: usize = 36;
/// The largest shift of the plain products, in units of 4 bits. Products with a larger distance are added one by one.
const FARTHEST: u32 = 7;

/// Computes the largest exponent of each kernel's products.
///
/// # Safety
/// The machine has AVX-512 ([`crate::Isa::Avx512`]).
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

/// Sums each kernel's products at the kernel's largest exponent, for the first `kernels` kernels.
///
/// # Safety
/// The machine has AVX-512 with VBMI ([`crate::Isa::Avx512Vbmi`]).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,avx512vbmi2")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,avx512vbmi2")]
fn quarters<const Q: usize>(lanes: &[Lane], active: &[Active], largest: &[i8; KERNELS], sums: &mut [i64; KERNELS]) {
    let tables = Tables::get();
    *sums = [0; KERNELS];
    let top = load(largest);
    let wanted = if Q == 4 { u64::MAX } else { (1 << (16 * Q)) - 1 };
    let mut far_products = FarProducts::new();
    let mut wide = [[_mm512_setzero_si512(); 2]; Q];
    for active in active.chunks(CHUNK * CHUNKS) {
        // Per kernel, the number of products that are one lower in hardware.
        let mut below = _mm512_setzero_si512();
        for chunk in active.chunks(CHUNK) {
            let mut acc = [_mm512_setzero_si512(); Q];
            // Far products are handled after the accumulators have left the registers.
            let mut fars = [0; CHUNK];
            for (active, far_kernels) in chunk.iter().zip(&mut fars) {
                let lane = &lanes[active.lane as usize];
                let exponents = _mm512_add_epi8(load(&lane.exponent), _mm512_set1_epi8(active.exponent));
                let distance = _mm512_sub_epi8(top, exponents);
                // A zero's distance is larger than any other.
                let far = _mm512_cmpgt_epi8_mask(distance, _mm512_set1_epi8(2));
                *far_kernels = _mm512_mask_cmplt_epi8_mask(far & wanted, distance, _mm512_set1_epi8(32));
                let by_4 = _mm512_cmpeq_epi8_mask(distance, _mm512_set1_epi8(1));
                let by_8 = _mm512_cmpeq_epi8_mask(distance, _mm512_set1_epi8(2));
                let (byte, bit) = (load(&lane.byte), load(&lane.bit));
                let row_4 = load(&tables.by_4[active.row_4()].0);
                let row_8 = load(&tables.by_8[active.row_8()].0);
                let below_4 = _mm512_mask_test_epi8_mask(by_4, _mm512_permutexvar_epi8(byte, row_4), bit);
                let below_8 = _mm512_mask_test_epi8_mask(by_8, _mm512_permutexvar_epi8(byte, row_8), bit);
                below = _mm512_mask_sub_epi8(below, below_4 | below_8, below, _mm512_set1_epi8(-1));
                let shift = _mm512_slli_epi16(_mm512_min_epu8(distance, _mm512_set1_epi8(FARTHEST as i8)), 2);
                let shifts = Bytes::of(shift);
                // The datum is at the weight's low half, zero at its sign.
                let datum = _mm512_set1_epi32(i32::from(active.significand as u16));
                for (q, acc) in acc.iter_mut().enumerate() {
                    // SAFETY: 16 significands of 64, and 16 bytes of 64.
                    let (weights, shift) = unsafe {
                        let weights = lane.significand.as_ptr().add(16 * q);
                        (_mm256_loadu_si256(weights.cast()), _mm_load_si128(shifts.0.as_ptr().add(16 * q).cast()))
                    };
                    let product = _mm512_madd_epi16(_mm512_cvtepi16_epi32(weights), datum);
                    *acc = _mm512_add_epi32(*acc, _mm512_srav_epi32(product, _mm512_cvtepu8_epi32(shift)));
                }
            }
            for (wide, acc) in wide.iter_mut().zip(&acc) {
                wide[0] = _mm512_add_epi64(wide[0], _mm512_cvtepi32_epi64(_mm512_castsi512_si256(*acc)));
                wide[1] = _mm512_add_epi64(wide[1], _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(*acc, 1)));
            }
            for (active, far) in chunk.iter().zip(fars) {
                if far != 0 {
                    far_products.push(&lanes[active.lane as usize], *active, top, far, sums);
                }
            }
        }
        let below = Bytes::of(below);
        for (index, wide) in wide.as_flattened_mut().iter_mut().enumerate() {
            // SAFETY: 8 bytes of 64.
            let below = unsafe { _mm_loadl_epi64(below.0.as_ptr().add(8 * index).cast()) };
            *wide = _mm512_sub_epi64(*wide, _mm512_cvtepu8_epi64(below));
        }
    }
    far_products.add(sums);
    for (index, wide) in wide.as_flattened().iter().enumerate() {
        // SAFETY: 8 sums of 64.
        unsafe {
            let to = sums.as_mut_ptr().add(8 * index).cast::<__m512i>();
            _mm512_storeu_si512(to, _mm512_add_epi64(_mm512_loadu_si512(to), *wide));
        }
    }
}

/// The bytes of a vector, in memory.
#[repr(align(64))]
struct Bytes([u8; KERNELS]);

impl Bytes {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn of(vector: __m512i) -> Self {
        let mut bytes = Self([0; KERNELS]);
        // SAFETY: 64 bytes.
        unsafe { _mm512_store_si512(bytes.0.as_mut_ptr().cast(), vector) };
        bytes
    }
}

/// Products with a distance that the tables do not cover, gathered until they fill vectors.
struct FarProducts {
    weights: [i16; CAPACITY],
    data: [i16; CAPACITY],
    distances: [u8; CAPACITY],
    kernels: [u8; CAPACITY],
    count: usize,
}

/// Gathered products are added when there are at least this many.
const BATCH: usize = 64;
/// Capacity for a batch and one more product per kernel.
const CAPACITY: usize = BATCH + KERNELS;
/// Products that are computed together.
const WIDTH: usize = 16;

/// The numbers 0 to 63 of kernels or lanes.
pub(super) static NUMBERS: [u8; KERNELS] = {
    let mut numbers = [0; KERNELS];
    let mut kernel = 0;
    while kernel < KERNELS {
        numbers[kernel] = kernel as u8;
        kernel += 1;
    }
    numbers
};

impl FarProducts {
    const fn new() -> Self {
        Self { weights: [0; CAPACITY], data: [0; CAPACITY], distances: [0; CAPACITY], kernels: [0; CAPACITY], count: 0 }
    }

    /// Gathers the products of the kernels in the mask `far`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi2")]
    fn push(&mut self, lane: &Lane, active: Active, top: __m512i, far: u64, sums: &mut [i64; KERNELS]) {
        let exponents = _mm512_add_epi8(load(&lane.exponent), _mm512_set1_epi8(active.exponent));
        let distance = _mm512_maskz_compress_epi8(far, _mm512_sub_epi8(top, exponents));
        let kernels = _mm512_maskz_compress_epi8(far, load(&NUMBERS));
        let [low, high] = [far as u32, (far >> 32) as u32];
        let datum = _mm512_set1_epi16(active.significand);
        let at = self.count;
        let second = at + low.count_ones() as usize;
        let (distances, numbers) = (&mut self.distances[at..at + KERNELS], &mut self.kernels[at..at + KERNELS]);
        let data = &mut self.data[at..at + KERNELS];
        // SAFETY: each slice has 64 elements. The significands have 64 elements. `second` is at most `at + 32`, so both
        // stores of 32 weights fit the 64 elements after `at`.
        unsafe {
            _mm512_storeu_si512(distances.as_mut_ptr().cast(), distance);
            _mm512_storeu_si512(numbers.as_mut_ptr().cast(), kernels);
            _mm512_storeu_si512(data.as_mut_ptr().cast(), datum);
            _mm512_storeu_si512(data.as_mut_ptr().add(32).cast(), datum);
            let significands = lane.significand.as_ptr();
            let weights = _mm512_maskz_compress_epi16(low, _mm512_loadu_si512(significands.cast()));
            _mm512_storeu_si512(self.weights[at..at + 32].as_mut_ptr().cast(), weights);
            let weights = _mm512_maskz_compress_epi16(high, _mm512_loadu_si512(significands.add(32).cast()));
            _mm512_storeu_si512(self.weights[second..second + 32].as_mut_ptr().cast(), weights);
        }
        self.count += far.count_ones() as usize;
        if self.count >= BATCH {
            self.add(sums);
        }
    }

    /// Adds the differences between the hardware's products and the plain products, which are already in the sums.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    fn add(&mut self, sums: &mut [i64; KERNELS]) {
        let count = self.count;
        let weights = self.weights.as_chunks::<WIDTH>().0.iter().zip(self.data.as_chunks::<WIDTH>().0);
        let places = self.distances.as_chunks::<WIDTH>().0.iter().zip(self.kernels.as_chunks::<WIDTH>().0);
        for (((weights, data), (distances, kernels)), first) in weights.zip(places).zip((0..count).step_by(WIDTH)) {
            let mut differences = [0i32; WIDTH];
            for (i, difference) in differences.iter_mut().enumerate() {
                let (weight, data) = (i32::from(weights[i]), i32::from(data[i]));
                let shift = 4 * u32::from(distances[i]);
                let (sum, carry) = fp16::booth_lane((weight ^ data) < 0, weight.unsigned_abs(), data.unsigned_abs());
                let by = shift & 31;
                let product = (sum >> by).wrapping_add(carry >> by).wrapping_sub(fp16::BOOTH_OFFSET >> by);
                // A shift by 32 or more gives zero.
                let product = if shift < 32 { product as i32 } else { 0 };
                *difference = product - ((weight * data) >> shift.min(4 * FARTHEST));
            }
            for (difference, kernel) in differences.iter().zip(kernels).take(count - first) {
                sums[usize::from(*kernel) % KERNELS] += i64::from(*difference);
            }
        }
        self.count = 0;
    }
}

/// Splits a lane's weights into significands and exponents.
///
/// # Safety
/// The machine has AVX-512 ([`crate::Isa::Avx512`]).
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub fn fill(lane: &mut Lane, weights: &[u16; KERNELS]) {
    lane.set_all(weights);
}

/// Adds a step to the accumulators of the first `kernels`.
///
/// # Safety
/// The machine has AVX-512 ([`crate::Isa::Avx512`]).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl")]
pub fn accumulate(
    accumulators: &mut Accumulators<KERNELS>,
    largest: &[i8; KERNELS],
    sums: &[i64; KERNELS],
    kernels: usize,
) {
    accumulators.add_first(largest, sums, kernels);
}

/// The values that the accumulators deliver.
///
/// # Safety
/// The machine has AVX-512 ([`crate::Isa::Avx512`]).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub fn deliver(accumulators: &Accumulators<KERNELS>) -> [u32; KERNELS] {
    accumulators.to_fp32()
}
