// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs a device's task on a thread of rayon's pool.
//!
//! A thread outside the pool hands over each operation that threads share, and sleeps until it is done. For operations of ten
//! microseconds this takes longer than the operation. On a thread of the pool only the whole task is handed over.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a task runs inside. Only one does at a time, because a pool's thread that waits for another one runs other jobs meanwhile,
/// and must not begin another task. Further tasks run on the threads of their callers.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Frees the place also after a panic.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        (!TAKEN.swap(true, Ordering::Acquire)).then_some(Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

/// Runs `task` on a thread of the pool if no other task runs there, otherwise on this thread. Returns when it has ended.
pub fn inside_pool<R: Send>(task: impl FnOnce() -> R + Send) -> R {
    let outside = rayon::current_thread_index().is_none() && rayon::current_num_threads() > 1;
    let place = if outside { Place::take() } else { None };
    match place {
        Some(_place) => rayon::scope(|_| task()),
        None => task(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_runs_inside_and_others_run_on_their_threads() {
        if rayon::current_num_threads() < 2 {
            return;
        }
        let index = rayon::current_thread_index;
        let (first, second) = inside_pool(|| {
            let other = std::thread::scope(|scope| scope.spawn(|| inside_pool(index)).join().unwrap());
            (index(), other)
        });
        assert!(first.is_some() && second.is_none(), "{first:?} {second:?}");
        assert!(std::panic::catch_unwind(|| inside_pool(|| panic!("a task"))).is_err());
        assert!(inside_pool(index).is_some());
    }
}
