// SPDX-License-Identifier: MIT OR Apache-2.0

//! The average of fp16 where all numbers are ordinary: no infinities, no NaNs, and nothing near the ends of fp17's
//! range.
//!
//! The sums of such numbers are multiples of 2^-24 below 2^24. A sum in fp17 then differs from one in fp32 only by the
//! rounding to 11 bits. To round a number, its power of two times 2^13 is added and subtracted.
//!
//! An addition takes four instructions, and so does a multiplication. With widening, the search for zeros and narrowing, an atom
//! of a 3x3 window at stride 1 takes 33 instructions. A processor with two such ports completes two of them per cycle.
//!
//! The sign of a sum of zero is lost. Lines in which a sum may be negative zero are computed by another method.

use std::arch::x86_64::*;

use crate::memory::Stop;
use crate::pdp::fast::lines::{slot, OutputLine, Rows};
use crate::pdp::setup::{Axis, KERNEL_MAX};

/// Bytes of an atom.
pub(super) const ATOM: usize = 32;
/// Elements of an atom.
pub(super) const LANES: usize = 16;
/// An fp16's infinity; greater bit patterns are NaNs.
const INFINITE: u16 = 0x7c00;

/// Average pooling with AVX-512: the padding and the factors of sums.
#[derive(Clone, Debug)]
pub(in super::super) struct Avx512Pooling {
    flush: bool,
    columns: [f32; KERNEL_MAX],
    lines: [f32; KERNEL_MAX],
    factors: [f32; 2],
}

impl Avx512Pooling {
    /// `None` if a number is not ordinary.
    pub(in super::super) fn new(
        flush: bool,
        columns: [f32; KERNEL_MAX],
        lines: [f32; KERNEL_MAX],
        factors: [f32; 2],
    ) -> Option<Self> {
        let adds = |&value: &f32| value.abs() <= 524_288.0 && (value * 16_777_216.0).fract() == 0.0;
        // With these limits no product exceeds fp17's range, and products below the range become zero.
        let [width, height] = factors;
        let multiplies = width > 0.0 && width <= 256.0 && height > 0.0 && height <= 16.0;
        let all = columns.iter().chain(&lines).all(adds) && multiplies;
        all.then_some(Self { flush, columns, lines, factors })
    }

    /// Computes a line of the output, or reports that another method is needed. The machine has AVX-512.
    pub(in super::super) fn make(&self, rows: &mut Rows, at: OutputLine<'_>, line: &mut [u8]) -> Result<bool, Stop> {
        let axis = &at.task.part.axis;
        let vertical = at.task.setup.vertical;
        let length = axis.output * LANES;
        let loaded = rows.loaded.get::<f32>(axis.input * LANES);
        let reduced = rows.reduced.get::<f32>(vertical.kernel.min(vertical.input) * length);
        let covered = at.rows();
        for row in covered.start.max(rows.held.end)..covered.end {
            let slot = slot(&at, row);
            // SAFETY: the caller has found AVX-512.
            (rows.marks[slot], rows.signs[slot]) = unsafe { widen(self.flush, at.row(row)?, loaded) };
            // SAFETY: as above.
            unsafe { reduce(axis, &self.columns, loaded, &mut reduced[slot * length..][..length]) };
        }
        rows.held = covered.clone();
        let mut signs = 0;
        let mut parts = [&[][..]; KERNEL_MAX];
        for (row, part) in covered.clone().zip(&mut parts) {
            let slot = slot(&at, row);
            if rows.marks[slot] >= INFINITE {
                return Ok(false);
            }
            signs |= rows.signs[slot];
            *part = &reduced[slot * length..][..length];
        }
        if self.columns.iter().chain(&self.lines).any(|value| value.is_sign_negative()) {
            signs = u16::MAX;
        }
        // SAFETY: as above.
        let zeros = unsafe { finish(&parts[..covered.len()], self.lines[at.outside()], self.factors, line) };
        Ok(zeros & signs == 0)
    }
}

/// Widens an input line. Returns the largest magnitude, and the lanes with a negative element.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn widen(flush: bool, line: &[u8], loaded: &mut [f32]) -> (u16, u16) {
    let infinite = _mm256_set1_epi16(INFINITE as i16);
    let mut largest = _mm256_setzero_si256();
    let mut signs = _mm256_setzero_si256();
    for (atom, to) in line.chunks_exact(ATOM).zip(loaded.chunks_exact_mut(LANES)) {
        // SAFETY: 32 bytes.
        let mut bits = unsafe { _mm256_loadu_si256(atom.as_ptr().cast()) };
        let mut magnitude = _mm256_and_si256(bits, _mm256_set1_epi16(0x7fff));
        if flush {
            let nan = _mm256_cmpgt_epi16(magnitude, infinite);
            bits = _mm256_andnot_si256(nan, bits);
            magnitude = _mm256_andnot_si256(nan, magnitude);
        }
        largest = _mm256_max_epu16(largest, magnitude);
        signs = _mm256_or_si256(signs, bits);
        // SAFETY: 16 elements.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtph_ps(bits)) };
    }
    let mut lanes = [0u16; LANES];
    // SAFETY: 32 bytes.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), largest) };
    (lanes.into_iter().max().unwrap_or(0), _mm256_movepi16_mask(signs))
}

/// Rounds to 11 bits, half to even; zero loses its sign.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn round(value: __m512) -> __m512 {
    let power = _mm512_and_ps(value, _mm512_castsi512_ps(_mm512_set1_epi32(0xff80_0000_u32 as i32)));
    let factor = _mm512_set1_ps(8192.0);
    _mm512_fnmadd_ps(power, factor, _mm512_fmadd_ps(power, factor, value))
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn add(a: __m512, b: __m512) -> __m512 {
    round(_mm512_add_ps(a, b))
}

/// The elements of a column's atom.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32], column: usize) -> __m512 {
    let values = &values[column * LANES..][..LANES];
    // SAFETY: 16 elements.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

/// Sums a line along its windows.
#[target_feature(enable = "avx512f,avx512dq")]
fn reduce(axis: &Axis, padding: &[f32; KERNEL_MAX], loaded: &[f32], row: &mut [f32]) {
    for (x, to) in row.chunks_exact_mut(LANES).enumerate() {
        let (left, right) = axis.window(x);
        let mut sum = load(loaded, left);
        for column in left + 1..right {
            sum = add(sum, load(loaded, column));
        }
        let outside = axis.kernel - (right - left);
        if outside > 0 {
            sum = add(sum, _mm512_set1_ps(padding[outside]));
        }
        // SAFETY: 16 elements.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), sum) };
    }
}

/// A sum's average, limited to fp16.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) fn scale(sum: __m512, factors: [__m512; 2]) -> __m256i {
    let result = round(_mm512_mul_ps(round(_mm512_mul_ps(sum, factors[0])), factors[1]));
    // The smaller magnitude, with the sign of the first operand.
    let result = _mm512_range_ps::<0b0010>(result, _mm512_set1_ps(65504.0));
    _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(result)
}

/// Completes the windows of an output line. Returns the lanes in which a sum was zero.
#[target_feature(enable = "avx512f,avx512dq")]
fn finish(rows: &[&[f32]], lines: f32, factors: [f32; 2], line: &mut [u8]) -> u16 {
    let factors = [_mm512_set1_ps(factors[0]), _mm512_set1_ps(factors[1])];
    let Some((first, rest)) = rows.split_first() else { return 0 };
    let mut zeros = 0;
    for (x, out) in line.chunks_exact_mut(ATOM).enumerate() {
        let mut sum = load(first, x);
        for row in rest {
            sum = add(load(row, x), sum);
        }
        if lines != 0.0 {
            sum = add(sum, _mm512_set1_ps(lines));
        }
        zeros |= _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(sum, _mm512_setzero_ps());
        // SAFETY: 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), scale(sum, factors)) };
    }
    zeros
}
