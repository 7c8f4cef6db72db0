// SPDX-License-Identifier: MIT OR Apache-2.0

//! Asking for memory before it is read.
//!
//! The units read a cube in pieces, each through many instructions: too few of the next pieces' cache lines are in sight
//! of the processor at a time to hide how far they are. Asked for while a piece is computed, they are there when it ends.

/// Asks for as many bytes after `piece` as it has itself. Any address may be asked for: there need not be memory.
#[inline(always)]
#[allow(clippy::inline_always)] // the address is often known where it is called
pub(crate) fn fetch_after<T>(piece: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        const LINE: usize = 64;
        let length = size_of_val(piece);
        let end = piece.as_ptr().cast::<i8>().wrapping_add(length);
        for line in (0..length).step_by(LINE) {
            // SAFETY: every x86-64 has this instruction, which does nothing where there is no memory.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(end.wrapping_add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = piece;
}
