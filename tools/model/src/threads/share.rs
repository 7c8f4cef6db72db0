// SPDX-License-Identifier: MIT OR Apache-2.0

//! Divides work between the calling thread and the pool's threads.
//!
//! The calling thread starts at once and takes pieces like the others. It does not wait for another thread to wake up, and
//! it does not sleep while another works, because both take longer than many operations.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Mutex;

use crate::limit::{is_over, Current};
use crate::threads::keep_awake;

/// Calls `each` for all pieces on at most `threads` threads. Each thread has its own `local` value.
pub(crate) fn share<T: Send, L>(
    threads: usize,
    pieces: impl Iterator<Item = T> + Send,
    local: impl Fn() -> L + Sync,
    each: impl Fn(&mut L, T) + Sync,
) {
    let pieces = Mutex::new(pieces);
    let limit = Current::get();
    // There are no more pieces once the operation's time is over.
    let next = || if is_over(PIECE) { None } else { pieces.lock().ok()?.next() };
    let work = || {
        let Some(first) = next() else { return };
        let mut local = local();
        each(&mut local, first);
        while let Some(piece) = next() {
            each(&mut local, piece);
        }
    };
    if threads < 2 {
        return work();
    }
    keep_awake::call();
    rayon::in_place_scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| limit.with(work));
        }
        work();
    });
}

/// The work of a piece, in the unit of [`is_over`].
const PIECE: usize = 1 << 18;

/// Bytes that several threads write, each in different parts.
pub(crate) struct Parts<'p> {
    start: *mut u8,
    length: usize,
    bytes: PhantomData<&'p mut [u8]>,
}

// SAFETY: it is a slice, which may be sent.
unsafe impl Send for Parts<'_> {}
// SAFETY: the parts that threads make of it do not overlap, as `Parts::part` demands.
unsafe impl Sync for Parts<'_> {}

impl<'p> Parts<'p> {
    pub(crate) fn new(bytes: &'p mut [u8]) -> Self {
        Self { start: bytes.as_mut_ptr(), length: bytes.len(), bytes: PhantomData }
    }

    /// The bytes of a range.
    ///
    /// # Safety
    /// No two ranges that are in use at the same time may overlap.
    ///
    /// # Panics
    /// If the range reaches past the end.
    #[allow(clippy::mut_from_ref)] // what the caller promises
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.length, "{range:?} of {} bytes", self.length);
        // SAFETY: the range lies in the slice, to which there is no other reference, and the caller passes each byte
        // only once.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

/// Bytes per thread below which a copy is not shared.
const COPY: usize = 1 << 16;

/// Copies bytes, on several threads where they are many. This thread copies the first part: after a [`rayon::join`] over
/// the same bytes, each thread has its part in its cache.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn copy(from: &[u8], to: &mut [u8]) {
    if from.len() < 2 * COPY || rayon::current_num_threads() < 2 {
        return to.copy_from_slice(from);
    }
    keep_awake::call();
    let half = from.len() / 2;
    let ((first, second), (to_first, to_second)) = (from.split_at(half), to.split_at_mut(half));
    rayon::join(|| copy(first, to_first), || copy(second, to_second));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_worked_on_once() {
        for threads in [1, 2, 5] {
            let mut pieces = vec![0u32; 1000];
            share(threads, pieces.iter_mut().enumerate(), || 1, |one, (number, piece)| *piece += *one + number as u32);
            assert!(pieces.iter().enumerate().all(|(number, &piece)| piece == number as u32 + 1), "{threads} threads");
        }
    }
}
