// SPDX-License-Identifier: MIT OR Apache-2.0

//! AVX512-FP16's arithmetic, 32 numbers at a time. The compiler has names for these instructions since Rust 1.94 only.

use std::arch::asm;
use std::arch::x86_64::*;

macro_rules! operations {
    ($($(#[$attribute:meta])* $name:ident $instruction:literal $($operand:ident),+;)+) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        ///
        /// The processor has AVX512-FP16.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        pub(crate) unsafe fn $name($($operand: __m512i),+) -> __m512i {
            let result;
            // SAFETY: arithmetic alone; the caller has found the instruction.
            unsafe {
                asm!(
                    concat!($instruction, " {result}", $(", {", stringify!($operand), "}"),+),
                    result = lateout(zmm_reg) result,
                    $($operand = in(zmm_reg) $operand,)+
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            result
        }
    )+};
}

operations! {
    /// Sums.
    add "vaddph" one, other;
    /// Products.
    multiply "vmulph" one, other;
    /// The smaller ones.
    min "vminph" one, other;
    /// The larger ones.
    max "vmaxph" one, other;
    /// Integers without signs as fp16; infinite from 65520 on.
    number "vcvtuw2ph" integer;
}

/// Adds to `sum` what makes it a NaN if a number is infinite or one, and no number otherwise.
///
/// # Safety
///
/// The processor has AVX512-FP16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn add_none(mut sum: __m512i, numbers: __m512i) -> __m512i {
    // SAFETY: as above.
    unsafe {
        asm!(
            "vfmadd231ph {sum}, {numbers}, {zero}",
            sum = inout(zmm_reg) sum,
            numbers = in(zmm_reg) numbers,
            zero = in(zmm_reg) _mm512_setzero_si512(),
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}
