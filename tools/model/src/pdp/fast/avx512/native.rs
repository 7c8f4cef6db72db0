// SPDX-License-Identifier: MIT OR Apache-2.0

//! The average of fp16 by the machine's own fp16 (AVX512-FP16), where it is the hardware's.
//!
//! fp17 has the 11 significant bits of fp16 and more exponents. A sum of fp16 is a multiple of 2^-24, which is the unit of
//! fp16's denormals: as long as none is above fp16's range, both round it alike. A product is rounded alike where it is
//! no denormal. What left the range is an infinity or a NaN in the end, and its line is made in another way; so are lines
//! with infinities and NaNs. A small product is made again in single precision.
//!
//! The sign of a sum of zero is not kept. Where it may be negative, the line must be made in another way, too.

use std::arch::asm;
use std::arch::x86_64::*;

use super::half::{scale, ATOM, LANES};
use crate::memory::Stop;
use crate::num::convert::{fp16_to_fp32, fp32_to_fp16};
use crate::pdp::fast::{slot, At, Rows};
use crate::pdp::{Axis, KERNEL_MAX};

/// The smallest number that is no denormal: 2^-14.
const NORMAL: f32 = 1.0 / 16384.0;

/// What is added to sums, and what they are multiplied with.
#[derive(Clone, Debug)]
pub(in super::super) struct Native {
    columns: [u16; KERNEL_MAX],
    lines: [u16; KERNEL_MAX],
    factors: [f32; 2],
    /// A number that is added has a sign.
    negative: bool,
}

impl Native {
    /// `None` where a number is no fp16, or a product can be larger than the sum.
    pub(in super::super) fn new(
        columns: [f32; KERNEL_MAX],
        lines: [f32; KERNEL_MAX],
        factors: [f32; 2],
    ) -> Option<Self> {
        let half = |value: f32| fp32_to_fp16(value.to_bits());
        let is_half = |value: &f32| {
            let half = half(*value);
            half & 0x7fff < 0x7c00 && fp16_to_fp32(half) == value.to_bits()
        };
        let negative = columns.iter().chain(&lines).any(|value| value.is_sign_negative());
        let all = columns.iter().chain(&lines).chain(&factors).all(is_half)
            && factors.iter().all(|factor| (NORMAL..=1.0).contains(factor));
        all.then(|| Self { columns: columns.map(half), lines: lines.map(half), factors, negative })
    }

    /// Makes a line of the output, or says that it must be made in another way. The machine has AVX512-FP16.
    pub(in super::super) fn make(&self, rows: &mut Rows, at: At<'_>, line: &mut [u8]) -> Result<bool, Stop> {
        let axis = &at.task.part.axis;
        let vertical = at.task.setup.vertical;
        let length = axis.output * LANES;
        let reduced = rows.reduced.get::<u16>(vertical.kernel.min(vertical.input) * length);
        let covered = at.rows();
        for row in covered.start.max(rows.held.end)..covered.end {
            let slot = slot(&at, row);
            let bytes = at.row(row)?;
            // SAFETY: the caller has found AVX512-FP16, and AVX-512 with it.
            rows.signs[slot] = unsafe { signs(bytes) };
            // SAFETY: as above.
            unsafe { reduce(axis, &self.columns, bytes, &mut reduced[slot * length..][..length]) };
        }
        rows.held = covered.clone();
        let mut signs = if self.negative { u16::MAX } else { 0 };
        let mut parts = [&[][..]; KERNEL_MAX];
        for (row, part) in covered.clone().zip(&mut parts) {
            let slot = slot(&at, row);
            signs |= rows.signs[slot];
            *part = &reduced[slot * length..][..length];
        }
        // SAFETY: as above.
        let zeros = unsafe { finish(&parts[..covered.len()], self.lines[at.outside()], self.factors, line) };
        Ok(zeros.is_some_and(|zeros| zeros & signs == 0))
    }
}

/// Adds fp16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn add(a: __m256i, b: __m256i) -> __m256i {
    let sum;
    // SAFETY: the machine has AVX512-FP16: the instruction reads and writes these registers.
    unsafe {
        asm!("vaddph {}, {}, {}", lateout(ymm_reg) sum, in(ymm_reg) a, in(ymm_reg) b, options(pure, nomem, nostack));
    }
    sum
}

/// Multiplies fp16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn multiply(a: __m256i, b: __m256i) -> __m256i {
    let product;
    // SAFETY: as in `add`.
    unsafe {
        asm!("vmulph {}, {}, {}", lateout(ymm_reg) product, in(ymm_reg) a, in(ymm_reg) b, options(pure, nomem, nostack));
    }
    product
}

/// Classes of numbers.
const ZERO: u8 = 0b0000_0110;
const DENORMAL: u8 = 0b0010_0000;
const NO_NUMBER: u8 = 0b1001_1001;

/// The lanes whose number is of one of these classes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn are<const CLASSES: u8>(values: __m256i) -> u16 {
    let lanes;
    // SAFETY: as in `add`.
    unsafe {
        asm!(
            "vfpclassph {}, {}, {}", lateout(kreg) lanes, in(ymm_reg) values, const CLASSES,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    lanes
}

/// The lanes of a line that have a negative element.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn signs(line: &[u8]) -> u16 {
    let mut signs = _mm256_setzero_si256();
    for atom in line.chunks_exact(ATOM) {
        // SAFETY: 32 bytes.
        signs = _mm256_or_si256(signs, unsafe { _mm256_loadu_si256(atom.as_ptr().cast()) });
    }
    _mm256_movepi16_mask(signs)
}

/// An atom of input.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn atom(line: &[u8], column: usize) -> __m256i {
    let atom = &line.as_chunks::<ATOM>().0[column];
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_si256(atom.as_ptr().cast()) }
}

/// The elements of a column's atom.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn load(values: &[u16], column: usize) -> __m256i {
    let values = &values[column * LANES..][..LANES];
    // SAFETY: 16 elements.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

/// Sums a line along its windows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn reduce(axis: &Axis, padding: &[u16; KERNEL_MAX], line: &[u8], row: &mut [u16]) {
    for (x, to) in row.chunks_exact_mut(LANES).enumerate() {
        let (left, right) = axis.window(x);
        let mut sum = atom(line, left);
        for column in left + 1..right {
            sum = add(sum, atom(line, column));
        }
        let outside = axis.kernel - (right - left);
        if outside > 0 {
            sum = add(sum, _mm256_set1_epi16(padding[outside] as i16));
        }
        // SAFETY: 16 elements.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), sum) };
    }
}

/// Ends the windows of an output line; the answer is the lanes in which a sum was zero, `None` where a sum left fp16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn finish(rows: &[&[u16]], lines: u16, factors: [f32; 2], line: &mut [u8]) -> Option<u16> {
    let [width, height] = factors.map(|factor| _mm256_set1_epi16(fp32_to_fp16(factor.to_bits()) as i16));
    let Some((first, rest)) = rows.split_first() else { return Some(0) };
    let mut zeros = 0;
    for (x, out) in line.chunks_exact_mut(ATOM).enumerate() {
        let mut sum = load(first, x);
        for row in rest {
            sum = add(load(row, x), sum);
        }
        if lines != 0 {
            sum = add(sum, _mm256_set1_epi16(lines as i16));
        }
        let mut result = multiply(multiply(sum, width), height);
        let nothing = are::<ZERO>(sum);
        zeros |= nothing;
        // No factor is above 1: where the second product is no denormal, the first is none.
        if are::<{ ZERO | DENORMAL | NO_NUMBER }>(result) & !nothing != 0 {
            if are::<NO_NUMBER>(sum) != 0 {
                return None;
            }
            result = scale(_mm512_cvtph_ps(sum), factors.map(|factor| _mm512_set1_ps(factor)));
        }
        // SAFETY: 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), result) };
    }
    Some(zeros)
}
