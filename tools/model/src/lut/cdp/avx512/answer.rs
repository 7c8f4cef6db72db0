// SPDX-License-Identifier: MIT OR Apache-2.0

//! The contract of the lookups of whole registers.

// What answers is compiled for an instruction set only where it is inlined.
#![allow(clippy::inline_always)]

use std::arch::x86_64::*;

/// Answers sums in one way.
pub(crate) trait Answer: Copy {
    /// The answers of sixteen sums in the high halves.
    ///
    /// # Safety
    /// The processor has what [`Isa::Avx512`](crate::conv::Isa) stands for.
    unsafe fn half(self, sums: __m512i) -> __m512i;

    /// Those of two steps' sums, of even elements and of odd ones each, in the elements' order.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn double(self, sums: [__m512i; 4]) -> [__m512i; 2] {
        // SAFETY: the caller has them.
        unsafe { [joined(self.half(sums[0]), self.half(sums[1])), joined(self.half(sums[2]), self.half(sums[3]))] }
    }
}

/// The high halves of even elements' lanes and of odd ones', in the elements' order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn joined(even: __m512i, odd: __m512i) -> __m512i {
    _mm512_mask_blend_epi16(0xaaaa_aaaa, _mm512_srli_epi32::<16>(even), odd)
}
