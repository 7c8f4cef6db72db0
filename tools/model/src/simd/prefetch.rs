// SPDX-License-Identifier: MIT OR Apache-2.0

//! Prefetch of memory that is read or written next.
//!
//! The units read a cube in pieces and spend many instructions on each piece. The processor looks too few instructions
//! ahead to start the loads of the next piece in time, so the latency of memory would show. The units therefore prefetch
//! the next piece while they compute the current one.

/// Prefetches the bytes of `piece`.
#[inline(always)]
#[allow(clippy::inline_always)]
pub(crate) fn prefetch<T>(piece: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: every x86-64 has this instruction.
        lines(piece.as_ptr().cast(), size_of_val(piece), |line| unsafe { _mm_prefetch::<_MM_HINT_T0>(line) });
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = piece;
}

/// Prefetches the bytes that follow `piece`, as many as `piece` has. The address need not be valid.
#[inline(always)]
#[allow(clippy::inline_always)] // the address is often known where it is called
pub(crate) fn prefetch_after<T>(piece: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: every x86-64 has this instruction; it does nothing at an invalid address.
        lines_after(piece, |line| unsafe { _mm_prefetch::<_MM_HINT_T0>(line) });
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = piece;
}

/// As [`prefetch_after`], for memory that will be written.
#[inline(always)]
#[allow(clippy::inline_always)]
pub(crate) fn prefetch_write_after<T>(piece: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_ET0};
        // SAFETY: as above; a processor without this instruction treats it as no operation.
        lines_after(piece, |line| unsafe { _mm_prefetch::<_MM_HINT_ET0>(line) });
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = piece;
}

/// Calls `fetch` per cache line of the bytes that follow `piece`, as many as `piece` has.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(clippy::inline_always)]
fn lines_after<T>(piece: &[T], fetch: impl Fn(*const i8)) {
    lines(piece.as_ptr_range().end.cast(), size_of_val(piece), fetch);
}

/// Calls `fetch` per cache line of `length` bytes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(clippy::inline_always)]
fn lines(from: *const i8, length: usize, fetch: impl Fn(*const i8)) {
    const LINE: usize = 64;
    (0..length).step_by(LINE).for_each(|line| fetch(from.wrapping_add(line)));
}
