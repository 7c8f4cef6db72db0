// SPDX-License-Identifier: MIT OR Apache-2.0

//! Keeps the pool's threads from sleeping while a device runs a task.
//!
//! A thread of rayon's pool sleeps when it has found no work for about ten microseconds. An operation of a network often
//! takes no longer than that, and waking a thread takes as long again, in a virtual machine several times as long. Threads
//! that sleep between operations would therefore not help with any of them.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a thread searches for work before it sleeps for the first time.
const SPIN: Duration = Duration::from_millis(1);
/// How long it then sleeps between two searches for work.
const SLEEP: Duration = Duration::from_micros(50);
/// The number of searches for work between two readings of the clock.
const LOOKS_PER_CLOCK: u32 = 64;

thread_local! {
    /// The task that this thread runs, until other threads have been woken for it.
    static UNCALLED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
    /// Whether this thread is kept awake for a task.
    static WATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Prevents the other threads of the pool from sleeping until it is dropped. It takes effect at the first operation that several
/// threads share.
///
/// The caller that runs a task's operations on this thread holds one during the task. It does not change any result.
#[derive(Debug)]
pub struct Awake {
    over: Arc<AtomicBool>,
}

impl Awake {
    /// Begins a task.
    #[must_use = "threads stay awake as long as this lives"]
    pub fn new() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        UNCALLED.set(Some(Arc::clone(&over)));
        Self { over }
    }
}

impl Default for Awake {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        UNCALLED.set(None);
    }
}

/// The number of the pool's threads, which are woken for the operation that they are about to share.
pub(crate) fn threads() -> usize {
    let threads = rayon::current_num_threads();
    if threads > 1 {
        call();
    }
    threads
}

/// Wakes the pool's threads for the running task, unless that has been done.
pub(crate) fn call() {
    if let Some(over) = UNCALLED.take() {
        let caller = rayon::current_thread_index();
        rayon::spawn_broadcast(move |context| {
            if caller != Some(context.index()) {
                watch(&over);
            }
        });
    }
}

/// Runs the pool's jobs until the task is over.
fn watch(over: &AtomicBool) {
    // A job that runs here may itself be such a call.
    if WATCHES.replace(true) {
        return;
    }
    let mut idle = 0u32;
    let mut since = Instant::now();
    while !over.load(Ordering::Relaxed) {
        if rayon::yield_now() == Some(rayon::Yield::Executed) {
            idle = 0;
            continue;
        }
        std::hint::spin_loop();
        idle = idle.wrapping_add(1);
        if idle == 1 {
            since = Instant::now();
        } else if idle.is_multiple_of(LOOKS_PER_CLOCK) {
            if since.elapsed() < SPIN {
                // Gives way to other programs on this processor.
                std::thread::yield_now();
            } else {
                std::thread::sleep(SLEEP);
            }
        }
    }
    WATCHES.set(false);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Waits until this many threads are awake.
    fn watching(pool: &rayon::ThreadPool) -> usize {
        let count = AtomicUsize::new(0);
        let begin = Instant::now();
        loop {
            count.store(0, Ordering::Relaxed);
            pool.broadcast(|_| count.fetch_add(usize::from(WATCHES.get()), Ordering::Relaxed));
            let count = count.load(Ordering::Relaxed);
            if count > 0 || begin.elapsed() > Duration::from_secs(5) {
                return count;
            }
        }
    }

    #[test]
    fn other_threads_stay_awake_and_work_until_the_task_is_over() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        pool.install(|| {
            let awake = Awake::new();
            call();
            call();
            assert_eq!(watching(&pool), 1);
            let (a, b) = rayon::join(|| 1, || 2);
            assert_eq!(a + b, 3);
            drop(awake);
            let begin = Instant::now();
            while pool.broadcast(|_| WATCHES.get()).contains(&true) {
                assert!(begin.elapsed() < Duration::from_secs(5), "a thread watches for ever");
            }
        });
    }

    #[test]
    fn nobody_is_called_without_a_task() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        pool.install(|| {
            drop(Awake::new());
            call();
            assert_eq!(pool.broadcast(|_| WATCHES.get()), [false, false]);
        });
    }
}
