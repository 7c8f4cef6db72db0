// SPDX-License-Identifier: MIT OR Apache-2.0

//! Threads of the pool that stay awake while a device works through a task.
//!
//! An operation of a network takes some ten microseconds, and a pool's thread that has found nothing to do for that long
//! sleeps. Waking it takes as long again, in a virtual machine several times that: threads that sleep between operations
//! help with none of them.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a thread looks for work without a break.
const PATIENCE: Duration = Duration::from_millis(1);
/// How long it sleeps after that before it looks again.
const NAP: Duration = Duration::from_micros(50);
/// Looks from one at the clock to the next.
const LOOKS: u32 = 64;

thread_local! {
    /// The task that this thread works through, until threads are called for it.
    static WANTED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
    /// This thread stays awake for a task.
    static WATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the other threads of this thread's pool awake from the first operation on that several of them share, until it
/// is dropped.
///
/// Whoever runs the operations of a task one after another on this thread holds one meanwhile. It changes no result, and
/// nothing where there are no other threads.
#[derive(Debug)]
pub struct Awake {
    over: Arc<AtomicBool>,
}

impl Awake {
    /// Begins a task.
    #[must_use = "threads stay awake as long as this lives"]
    pub fn new() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        WANTED.set(Some(Arc::clone(&over)));
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
        WANTED.set(None);
    }
}

/// The pool's threads, for an operation that they are about to share.
pub(crate) fn threads() -> usize {
    let threads = rayon::current_num_threads();
    if threads > 1 {
        call();
    }
    threads
}

/// Calls the pool's threads for the task under way, if none has done so yet: several are about to share an operation.
pub(crate) fn call() {
    if let Some(over) = WANTED.take() {
        let caller = rayon::current_thread_index();
        rayon::spawn_broadcast(move |context| {
            if caller != Some(context.index()) {
                watch(&over);
            }
        });
    }
}

/// Does the pool's work until the task is over.
fn watch(over: &AtomicBool) {
    // Work that is done here may be another thread's call.
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
        } else if idle.is_multiple_of(LOOKS) {
            if since.elapsed() < PATIENCE {
                // What else wants to run on this processor goes first.
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }
    WATCHES.set(false);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Waits until so many threads watch.
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
