// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Registers of AVX2 as two lanes of 16 bytes.

use core::arch::x86_64::*;

/// A table of 16 bytes in both lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn both(table: &[u8; 16]) -> __m256i {
    // SAFETY: 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}

/// Two lanes of 16 bytes, from two addresses.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_lanes(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_loadu2_m128i(high.cast(), low.cast()) }
}
