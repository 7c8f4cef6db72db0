// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs a device's task on a thread of a pool.
//!
//! A thread outside a pool hands over each operation that threads share, and sleeps until it is done. For operations of ten
//! microseconds this takes longer than the operation. On a thread of a pool only the whole task is handed over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// The pool, not rayon's global one: all threads of that may wait for a lock that the caller holds. `None` if it has one thread, or
/// if threads could not be started.
static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();

/// Whether a task runs inside. Only one does at a time, because a pool's thread that waits for another one runs other jobs meanwhile,
/// and must not begin another task. Further tasks run on the threads of their callers.
static TAKEN: AtomicBool = AtomicBool::new(false);

fn pool() -> Option<&'static ThreadPool> {
    let build = || ThreadPoolBuilder::new().build().ok().filter(|pool| pool.current_num_threads() > 1);
    POOL.get_or_init(build).as_ref()
}

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

/// Runs `task` on a thread of the pool if this thread is in no pool and no other task runs there, otherwise on this thread. Returns
/// when it has ended.
pub fn inside_pool<R: Send>(task: impl FnOnce() -> R + Send) -> R {
    let pool = if rayon::current_thread_index().is_none() { pool() } else { None };
    match pool.and_then(|pool| Some((pool, Place::take()?))) {
        Some((pool, _place)) => pool.install(task),
        None => task(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_runs_inside_and_others_run_on_their_threads() {
        if pool().is_none() {
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
