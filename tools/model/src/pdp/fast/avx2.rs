// SPDX-License-Identifier: MIT OR Apache-2.0

//! Maximum and minimum along lines, written for AVX2. An atom of 32 bytes fills one register.

#![allow(clippy::cast_ptr_alignment)]

use std::arch::x86_64::*;

use super::order::{Kind, Order};
use crate::pdp::setup::Axis;

/// Bytes of a register, and of an atom.
const REGISTER: usize = size_of::<__m256i>();

/// Computes a line of the output from the columns' results.
#[target_feature(enable = "avx2")]
pub(super) fn across<O: Order, const MAX: bool>(axis: &Axis, columns: &[O::Key], line: &mut [u8]) {
    let lanes = REGISTER / size_of::<O::Key>();
    for (x, out) in line.chunks_exact_mut(REGISTER).enumerate() {
        let (left, right) = axis.window(x);
        let mut atoms = columns[left * lanes..right * lanes].chunks_exact(lanes);
        let Some(first) = atoms.next() else { return };
        let mut best = load(first);
        for next in atoms {
            best = better::<O, MAX>(best, load(next));
        }
        if O::KIND == Kind::Halves {
            // The mapping to ordered integers is its own inverse.
            best = _mm256_xor_si256(best, _mm256_srli_epi16(_mm256_srai_epi16(best, 15), 1));
        }
        // SAFETY: 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), best) };
    }
}

/// An atom.
#[inline]
#[target_feature(enable = "avx2")]
fn load<K>(atom: &[K]) -> __m256i {
    debug_assert_eq!(size_of_val(atom), REGISTER);
    // SAFETY: the caller cuts columns into pieces of 32 bytes.
    unsafe { _mm256_loadu_si256(atom.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn better<O: Order, const MAX: bool>(a: __m256i, b: __m256i) -> __m256i {
    match (O::KIND, MAX) {
        (Kind::Bytes, true) => _mm256_max_epi8(a, b),
        (Kind::Bytes, false) => _mm256_min_epi8(a, b),
        (Kind::Shorts | Kind::Halves, true) => _mm256_max_epi16(a, b),
        (Kind::Shorts | Kind::Halves, false) => _mm256_min_epi16(a, b),
    }
}
