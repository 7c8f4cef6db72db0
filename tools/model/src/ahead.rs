// SPDX-License-Identifier: MIT OR Apache-2.0

//! Asking for memory before it is read or written.
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
        // SAFETY: every x86-64 has this instruction, which does nothing where there is no memory.
        lines_after(piece, |line| unsafe { _mm_prefetch::<_MM_HINT_T0>(line) });
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = piece;
}

/// As [`fetch_after`], of memory that is to be written.
#[inline(always)]
#[allow(clippy::inline_always)]
pub(crate) fn claim_after<T>(piece: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_ET0};
        // SAFETY: as above; a processor that has not heard of this one does nothing, too.
        lines_after(piece, |line| unsafe { _mm_prefetch::<_MM_HINT_ET0>(line) });
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = piece;
}

/// The cache lines of as many bytes after `piece` as it has itself.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(clippy::inline_always)]
fn lines_after<T>(piece: &[T], fetch: impl Fn(*const i8)) {
    const LINE: usize = 64;
    let length = size_of_val(piece);
    let end = piece.as_ptr().cast::<i8>().wrapping_add(length);
    (0..length).step_by(LINE).for_each(|line| fetch(end.wrapping_add(line)));
}
