// SPDX-License-Identifier: MIT OR Apache-2.0

//! The time by which an operation must have ended.
//!
//! An operation can take minutes: the largest convolution that registers can describe has 2^38 multiplications. If an
//! operation has a [`Limit`], its loops check the clock from time to time and stop when the time is over. The operation
//! then ends with [`Stop::Late`], and its output is undefined.
//!
//! Loops find the limit in two ways. Every access to memory passes through `Limited`, which returns `None` when the
//! time is over. Units that access memory line by line or strip by strip need nothing more. The convolution's loops,
//! which compute for long between two accesses, call `is_over`. Its limit belongs to the thread, and `Current` passes
//! it on to the threads that share the work.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use crate::memory::{Memory, Port, Span, Stop};

/// Work between two checks of the clock, in int8 multiplications: less than a millisecond on any machine, and far more
/// than the cost of a check.
const STEP: usize = 1 << 22;
/// Work of an access to memory, and of each of its bytes.
const ACCESS: usize = 1 << 8;
const BYTE: usize = 1 << 6;

/// When an operation must have ended. Clones share one limit.
#[derive(Clone, Debug, Default)]
pub struct Limit(Option<Arc<Deadline>>);

#[derive(Debug)]
struct Deadline {
    at: Option<Instant>,
    /// Ends the operation at any time.
    cancelled: Option<Arc<AtomicBool>>,
    over: AtomicBool,
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self(None);

    /// A limit at the time `at`.
    pub fn until(at: Instant) -> Self {
        Self::new(Some(at), None)
    }

    /// A limit at the time `at`, if there is one, or when the flag is set.
    pub fn new(at: Option<Instant>, cancelled: Option<Arc<AtomicBool>>) -> Self {
        if at.is_none() && cancelled.is_none() {
            return Self::NONE;
        }
        Self(Some(Arc::new(Deadline { at, cancelled, over: AtomicBool::new(false) })))
    }

    /// Whether work was left undone because the time was over.
    pub(crate) fn was_over(&self) -> bool {
        self.0.as_ref().is_some_and(|deadline| deadline.over.load(Ordering::Relaxed))
    }

    /// Checks the clock. Once the time is over, the result stays true.
    fn check_clock(&self) -> bool {
        self.0.as_ref().is_some_and(|deadline| {
            let over = deadline.over.load(Ordering::Relaxed)
                || deadline.cancelled.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Acquire))
                || deadline.at.is_some_and(|at| Instant::now() >= at);
            if over {
                deadline.over.store(true, Ordering::Relaxed);
            }
            over
        })
    }
}

thread_local! {
    /// The limit of this thread's current work.
    static CURRENT: RefCell<Limit> = const { RefCell::new(Limit::NONE) };
    /// Work since this thread last looked at the clock.
    static WORK: Cell<usize> = const { Cell::new(0) };
}

/// Whether the time of this thread's current work is over. `work` is the number of int8 multiplications until the next
/// check, or work that takes as long.
///
/// It is called often, so it checks the clock only after [`STEP`].
#[inline]
pub(crate) fn is_over(work: usize) -> bool {
    let work = WORK.get().saturating_add(work);
    WORK.set(work);
    work >= STEP && check_clock()
}

#[cold]
#[inline(never)]
fn check_clock() -> bool {
    let over = CURRENT.with_borrow(Limit::check_clock);
    // Once the time is over, the next call checks again.
    WORK.set(if over { STEP } else { 0 });
    over
}

/// The limit of a thread's current work, for other threads that share the work.
#[derive(Clone)]
pub(crate) struct Current(Limit);

impl Current {
    pub(crate) fn get() -> Self {
        Self(CURRENT.with_borrow(Limit::clone))
    }

    /// Calls `work` with this limit as the thread's limit, and restores the thread's own limit afterwards.
    pub(crate) fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Restores a limit, even if `work` panics.
        struct Restore(Limit);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(std::mem::take(&mut self.0));
                WORK.set(0);
            }
        }
        if self.0 .0.is_none() {
            // While a thread waits, it may work for another device, which has another limit.
            let own = CURRENT.with_borrow(|current| current.0.is_some());
            if !own {
                return work();
            }
        }
        let _restore = Restore(CURRENT.replace(self.0.clone()));
        WORK.set(0);
        work()
    }
}

/// A memory that returns `None` once the time of the current work is over.
struct Limited<'m>(&'m mut dyn Memory, &'m Limit);

impl Limited<'_> {
    fn is_over(&self, length: usize) -> bool {
        let work = WORK.get().saturating_add(ACCESS + length.saturating_mul(BYTE));
        WORK.set(work);
        work >= STEP && {
            let over = self.1.check_clock();
            WORK.set(if over { STEP } else { 0 });
            over
        }
    }
}

impl Memory for Limited<'_> {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        if self.is_over(length) {
            return None;
        }
        self.0.read(port, address, length)
    }

    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        if self.is_over(length) {
            return None;
        }
        self.0.write(port, address, length)
    }

    fn both(&mut self, read: Span, write: Span) -> Option<(&[u8], &mut [u8])> {
        self.0.both(read, write)
    }

    fn beside(&mut self, write: Span, work: &mut dyn FnMut(&dyn Memory, &mut [u8])) -> bool {
        self.0.beside(write, work)
    }

    fn version(&self, span: Span) -> Option<u64> {
        self.0.version(span)
    }
}

/// Performs `operation` in `memory` within its limit.
pub(crate) fn within(
    limit: &Limit,
    memory: &mut dyn Memory,
    operation: impl FnOnce(&mut dyn Memory) -> Result<(), Stop>,
) -> Result<(), Stop> {
    if limit.0.is_none() {
        return operation(memory);
    }
    // The first piece of work checks the clock.
    let result = Current(limit.clone()).with(|| {
        WORK.set(STEP);
        operation(&mut Limited(memory, limit))
    });
    if limit.was_over() {
        Err(Stop::Late)
    } else {
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::bytes::Bytes;
    use std::time::Duration;

    #[test]
    fn work_after_the_end_is_left_undone() {
        let mut memory = Bytes { base: 0, bytes: vec![0; 64] };
        let mut done = 0;
        let limit = Limit::until(Instant::now());
        let result = within(&limit, &mut memory, |memory| {
            while memory.read(Port::Primary, 0, 64).is_some() {
                done += 1;
            }
            Ok(())
        });
        assert_eq!((result, done), (Err(Stop::Late), 0));
        assert!(!is_over(usize::MAX), "the thread's own limit is back");
    }

    #[test]
    fn work_ends_when_it_is_cancelled() {
        let mut memory = Bytes { base: 0, bytes: vec![0; 64] };
        let cancelled = Arc::new(AtomicBool::new(false));
        let limit = Limit::new(None, Some(Arc::clone(&cancelled)));
        let mut done = 0_u32;
        let result = within(&limit, &mut memory, |memory| {
            while memory.read(Port::Primary, 0, 64).is_some() {
                done += 1;
                cancelled.store(done >= 1000, Ordering::Release);
            }
            Ok(())
        });
        assert_eq!(result, Err(Stop::Late));
        assert!(done >= 1000);
    }

    #[test]
    fn what_ends_in_time_is_not_late() {
        let mut memory = Bytes { base: 0, bytes: vec![0; 64] };
        let limit = Limit::until(Instant::now() + Duration::from_secs(600));
        let result = within(&limit, &mut memory, |memory| {
            assert!(!is_over(usize::MAX));
            assert!(memory.read(Port::Primary, 0, 64).is_some());
            Ok(())
        });
        assert_eq!(result, Ok(()));
    }

    #[test]
    fn threads_that_share_work_share_its_limit() {
        let mut memory = Bytes { base: 0, bytes: Vec::new() };
        let limit = Limit::until(Instant::now());
        let result = within(&limit, &mut memory, |_| {
            let current = Current::get();
            let over = std::thread::scope(|scope| scope.spawn(|| current.with(|| is_over(usize::MAX))).join());
            assert!(matches!(over, Ok(true)));
            assert!(is_over(0));
            Ok(())
        });
        assert_eq!(result, Err(Stop::Late));
    }
}
