// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs a device's task on a thread of a pool.
//!
//! A thread outside a pool hands over each operation that threads share, and sleeps until it is done. For operations of ten
//! microseconds this takes longer than the operation. On a thread of a pool only the whole task is handed over.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuilder};

use super::global::start;

/// Ended threads leave the list at the first collection; their memory is free two epochs later, and each flush advances by one.
const EPOCHS: usize = 4;

/// A pool, and its threads, which end with it.
///
/// It is not rayon's global one, because all threads of that may wait for a lock that the caller holds.
struct Pool {
    /// None while it ends.
    rayon: Option<ThreadPool>,
    threads: Vec<JoinHandle<()>>,
    process: u32,
}

impl Pool {
    fn start() -> io::Result<Self> {
        let mut threads = Vec::new();
        let spawn = |thread: ThreadBuilder| {
            threads.push(std::thread::Builder::new().name("nvdla model".into()).spawn(|| thread.run())?);
            Ok(())
        };
        let pool = ThreadPoolBuilder::new().spawn_handler(spawn).build().map_err(io::Error::other)?;
        Ok(Self { rayon: Some(pool), threads, process: std::process::id() })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // A forked process does not have the threads.
            std::mem::forget((self.rayon.take(), std::mem::take(&mut self.threads)));
            return;
        }
        drop(self.rayon.take());
        for thread in self.threads.drain(..) {
            // A thread that has panicked has told it.
            let _ = thread.join();
        }
        // Under rayon's queues this library keeps memory of ended threads until its epoch has advanced often enough. A program in C
        // that closed all devices would have a leak according to memory checkers.
        for _ in 0..EPOCHS {
            crossbeam_epoch::pin().flush();
        }
    }
}

/// The pool of the devices of this process, while there is one.
static POOL: Mutex<Weak<Pool>> = Mutex::new(Weak::new());

/// Keeps the pool. Its threads end when the last device drops this.
#[derive(Clone)]
pub struct Lease(Arc<Pool>);

impl Lease {
    /// The pool, which is started if no device has it.
    ///
    /// # Errors
    ///
    /// When a thread cannot be started.
    pub fn new() -> io::Result<Self> {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pool.upgrade() {
            return Ok(Self(pool));
        }
        let started = Arc::new(Pool::start()?);
        *pool = Arc::downgrade(&started);
        Ok(Self(started))
    }

    /// The pool, if it has more than one thread.
    fn pool(&self) -> Option<&ThreadPool> {
        self.0.rayon.as_ref().filter(|pool| pool.current_num_threads() > 1)
    }
}

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

/// Runs `task` on a thread of the pool if this thread is in no pool and no other task runs there, otherwise on this thread. Returns
/// when it has ended.
///
/// # Errors
///
/// When the threads that a task outside the pool needs cannot be started.
pub fn inside_pool<R: Send>(lease: &Lease, task: impl FnOnce() -> R + Send) -> io::Result<R> {
    if rayon::current_thread_index().is_some() {
        return Ok(task());
    }
    if let Some((pool, _place)) = lease.pool().and_then(|pool| Some((pool, Place::take()?))) {
        return Ok(pool.install(task));
    }
    start()?;
    Ok(task())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_runs_inside_and_others_run_on_their_threads() {
        let lease = Lease::new().unwrap();
        if lease.pool().is_none() {
            return;
        }
        let index = rayon::current_thread_index;
        let (first, second) = inside_pool(&lease, || {
            let other = std::thread::scope(|scope| scope.spawn(|| inside_pool(&lease, index).unwrap()).join().unwrap());
            (index(), other)
        })
        .unwrap();
        assert!(first.is_some() && second.is_none(), "{first:?} {second:?}");
        let panics = std::panic::AssertUnwindSafe(|| inside_pool(&lease, || panic!("a task")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(inside_pool(&lease, index).unwrap().is_some());
    }
}
