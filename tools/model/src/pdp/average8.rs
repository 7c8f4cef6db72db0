// SPDX-License-Identifier: MIT OR Apache-2.0

//! The average of int8 in atoms of 32 bytes, for AVX-512.
//!
//! Sums of 16 bits that wrap can be taken apart again: the sums of the columns follow the window down by what enters and
//! what leaves it, and so do the window's along a line. An element costs the same whatever the window's size.

#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::Axis;

/// Elements of an atom.
pub(super) const LANES: usize = 32;

/// What a window's sum becomes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending<'e> {
    /// What as many columns outside add to each line inside.
    pub columns: &'e [i32; 8],
    /// What the lines outside add.
    pub lines: i32,
    /// Lines inside.
    pub inside: usize,
    /// Factors, below one, in 2^-16.
    pub factors: [u16; 2],
}

/// Adds an input line to the columns' sums, or takes it away.
///
/// # Safety
/// The machine has AVX-512 (F, BW).
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn follow<const ENTERS: bool>(line: &[u8], columns: &mut [i16]) {
    for (atom, column) in line.chunks_exact(LANES).zip(columns.chunks_exact_mut(LANES)) {
        // SAFETY: 32 bytes and 32 sums.
        unsafe {
            let values = _mm512_cvtepi8_epi16(_mm256_loadu_si256(atom.as_ptr().cast()));
            let to = column.as_mut_ptr().cast::<__m512i>();
            let sums = _mm512_loadu_si512(to);
            let sums = if ENTERS { _mm512_add_epi16(sums, values) } else { _mm512_sub_epi16(sums, values) };
            _mm512_storeu_si512(to, sums);
        }
    }
}

/// The 32 sums of a column.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(columns: &[i16], column: usize) -> __m512i {
    let column = &columns[column * LANES..][..LANES];
    // SAFETY: 32 sums.
    unsafe { _mm512_loadu_si512(column.as_ptr().cast()) }
}

/// Ends the windows of an output line.
///
/// # Safety
/// The machine has AVX-512 (F, BW).
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn finish(axis: &Axis, ending: Ending<'_>, columns: &[i16], line: &mut [u8]) {
    let factors = ending.factors.map(|factor| [factor; LANES]);
    let mut sum = _mm512_setzero_si512();
    let (mut from, mut to) = (0, 0);
    let mut x = 0;
    let mut atoms = line.chunks_exact_mut(LANES);
    while let Some(out) = atoms.next() {
        let (left, right) = axis.window(x);
        if left >= to {
            sum = _mm512_setzero_si512();
            (from, to) = (left, left);
        }
        for column in from..left {
            sum = _mm512_sub_epi16(sum, load(columns, column));
        }
        for column in to..right {
            sum = _mm512_add_epi16(sum, load(columns, column));
        }
        (from, to) = (left, right);
        x += 1;
        ending.store(&factors, axis.kernel - (right - left), sum, out);
        if axis.stride != 1 || right - left != axis.kernel {
            continue;
        }
        // The windows after a whole one that are whole too: one column enters and one leaves.
        let whole = axis.input - right;
        let (leaving, entering) = (&columns[left * LANES..], &columns[right * LANES..]);
        let both = leaving.chunks_exact(LANES).zip(entering.chunks_exact(LANES));
        for ((leaving, entering), out) in both.zip(atoms.by_ref().take(whole)) {
            sum = _mm512_sub_epi16(_mm512_add_epi16(sum, load(entering, 0)), load(leaving, 0));
            ending.store(&factors, 0, sum, out);
            x += 1;
        }
        let done = x - 1 - (left + axis.pad);
        (from, to) = (left + done, right + done);
    }
}

impl Ending<'_> {
    /// Writes the average of a window with so many columns outside.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn store(&self, factors: &[[u16; LANES]; 2], padded: usize, sum: __m512i, out: &mut [u8]) {
        let padded = self.columns[padded].wrapping_mul(self.inside as i32);
        let total = _mm512_add_epi16(sum, _mm512_set1_epi16(padded.wrapping_add(self.lines) as i16));
        let magnitude = scale(scale(_mm512_abs_epi16(total), &factors[0]), &factors[1]);
        let negative = _mm512_movepi16_mask(total);
        let result = _mm512_mask_sub_epi16(magnitude, negative, _mm512_setzero_si512(), magnitude);
        let out = &mut out[..LANES];
        // SAFETY: 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm512_cvtepi16_epi8(result)) };
    }
}

/// Magnitudes times a factor, rounded half up.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn scale(magnitude: __m512i, factor: &[u16; LANES]) -> __m512i {
    // Were it known to be the same in every round, it would be widened before the loop, and the multiplication with it.
    let factor = std::hint::black_box(factor);
    // SAFETY: 32 factors.
    let factor = unsafe { _mm512_loadu_si512(factor.as_ptr().cast()) };
    let rest = _mm512_srli_epi16(_mm512_mullo_epi16(magnitude, factor), 15);
    _mm512_add_epi16(_mm512_mulhi_epu16(magnitude, factor), rest)
}
