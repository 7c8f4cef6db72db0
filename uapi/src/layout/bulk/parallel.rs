// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Items that the conversions share: tensors as bytes, and the division of work among threads.

use super::super::element::Element;
use core::ops::Range;

/// Conversions of at least this many bytes use threads.
pub const THREADS_FROM: usize = 8 << 20;

/// A plain slice's bytes. Elements are integers, so their bytes in memory are the little-endian ones here.
#[cfg(target_endian = "little")]
pub(super) fn bytes_of<T: Element>(plain: &[T]) -> &[u8] {
    // SAFETY: every `Element` is an integer without padding (the trait is sealed), and any byte may be read.
    unsafe { core::slice::from_raw_parts(plain.as_ptr().cast(), size_of_val(plain)) }
}

/// A plain slice's bytes, to be written.
#[cfg(target_endian = "little")]
pub(super) fn bytes_of_mut<T: Element>(plain: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, and every bit pattern is a valid integer.
    unsafe { core::slice::from_raw_parts_mut(plain.as_mut_ptr().cast(), size_of_val(plain)) }
}

/// A destination that several threads write, each its own part.
#[derive(Clone, Copy)]
pub(super) struct Destination(pub(super) *mut u8);

// SAFETY: users of `Destination` give each thread bytes that no other thread touches; see `in_parallel`.
unsafe impl Send for Destination {}

// SAFETY: as above.
unsafe impl Sync for Destination {}

impl Destination {
    /// The byte at `offset`.
    ///
    /// # Safety
    /// `offset` lies within the slice from which this was made.
    pub(super) unsafe fn at(self, offset: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset) }
    }
}

/// Calls `work` with parts of `0..units`, on several threads where `bytes` are many.
pub(super) fn in_parallel(units: usize, bytes: usize, work: impl Fn(Range<usize>) + Sync) {
    let threads =
        if bytes < THREADS_FROM { 1 } else { std::thread::available_parallelism().map_or(1, usize::from).min(units) };
    if threads <= 1 {
        return work(0..units);
    }
    let part = |index| units * index / threads..units * (index + 1) / threads;
    std::thread::scope(|scope| {
        for index in 1..threads {
            let (work, part) = (&work, part(index));
            scope.spawn(move || work(part));
        }
        work(part(0));
    });
}
