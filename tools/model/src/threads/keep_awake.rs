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

/// How long a thread searches for work before it goes back to the pool, where it sleeps.
const SPIN: Duration = Duration::from_millis(1);
/// The number of searches for work between two readings of the clock.
const LOOKS_PER_CLOCK: u32 = 64;

/// A device's task, for the threads that are kept awake for it.
#[derive(Debug, Default)]
struct Task {
    over: AtomicBool,
    /// Whether the threads have been woken and none of them has gone back to the pool since.
    called: AtomicBool,
}

thread_local! {
    /// The task that this thread runs.
    static TASK: RefCell<Option<Arc<Task>>> = const { RefCell::new(None) };
    /// Whether this thread is kept awake for a task.
    static WATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Prevents the other threads of the pool from sleeping between operations until it is dropped. It takes effect at the first
/// operation that several threads share.
///
/// The caller that runs a task's operations on this thread holds one during the task. It does not change any result.
#[derive(Debug)]
pub struct Awake {
    task: Arc<Task>,
}

impl Awake {
    /// Begins a task.
    #[must_use = "threads stay awake as long as this lives"]
    pub fn new() -> Self {
        let task = Arc::default();
        TASK.set(Some(Arc::clone(&task)));
        Self { task }
    }
}

impl Default for Awake {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.task.over.store(true, Ordering::Relaxed);
        TASK.set(None);
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

/// Wakes the pool's threads for the running task, unless they are awake.
pub(crate) fn call() {
    TASK.with_borrow(|task| {
        let Some(task) = task.as_ref().filter(|task| !task.called.swap(true, Ordering::Relaxed)) else { return };
        let task = Arc::clone(task);
        let caller = rayon::current_thread_index();
        rayon::spawn_broadcast(move |context| {
            if caller != Some(context.index()) {
                watch(&task);
            }
        });
    });
}

/// Runs the pool's jobs until the task is over, or there has been none for a while.
///
/// A thread that waits inside a job for another one runs any job meanwhile, so also this one. The task then ends after that job,
/// and that job continues after this function. Therefore this function must not wait for the end of the task alone.
fn watch(task: &Task) {
    // A job that runs here may itself be such a call.
    if WATCHES.replace(true) {
        return;
    }
    let mut idle = 0u32;
    let mut since = Instant::now();
    while !task.over.load(Ordering::Relaxed) {
        if rayon::yield_now() == Some(rayon::Yield::Executed) {
            idle = 0;
            continue;
        }
        std::hint::spin_loop();
        idle = idle.wrapping_add(1);
        if idle == 1 {
            since = Instant::now();
        } else if idle.is_multiple_of(LOOKS_PER_CLOCK) {
            if since.elapsed() >= SPIN {
                task.called.store(false, Ordering::Relaxed);
                break;
            }
            // Gives way to other programs on this processor.
            std::thread::yield_now();
        }
    }
    WATCHES.set(false);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Calls until threads are awake, and returns their number.
    fn watching(pool: &rayon::ThreadPool) -> usize {
        let count = AtomicUsize::new(0);
        let begin = Instant::now();
        loop {
            call();
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

    /// A thread that waits inside a job may take the call. The task cannot be over before that job has ended.
    #[test]
    fn a_call_inside_a_job_lets_the_job_continue() {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
            let [begun, called] = [AtomicBool::new(false), AtomicBool::new(false)];
            let wait = |event: &AtomicBool| {
                while !event.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            };
            pool.install(|| {
                let _awake = Awake::new();
                let caller = || {
                    wait(&begun);
                    call();
                    called.store(true, Ordering::Relaxed);
                };
                let job = || {
                    begun.store(true, Ordering::Relaxed);
                    wait(&called);
                    rayon::yield_now()
                };
                let ((), taken) = rayon::join(caller, job);
                assert_eq!(taken, Some(rayon::Yield::Executed));
            });
            sender.send(()).unwrap();
        });
        receiver.recv_timeout(Duration::from_secs(20)).expect("the job waits for the end of its own task");
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
