// SPDX-License-Identifier: MIT OR Apache-2.0

//! Work that a signal ends. Python handles signals in its main thread, between two steps of Python code. A call that computes
//! for minutes would let Ctrl-C wait, so the work has a thread of its own, and the calling thread looks for signals meanwhile.

use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nvdla_runtime::Cancel;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::failure::{Failure, Raise as _};

/// The time between two looks for signals.
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);

/// Waits for the end of a thread, which drops the sender. Returns the exception of a signal's handler, such as KeyboardInterrupt.
fn watch(py: Python<'_>, end: Receiver<()>) -> Option<PyErr> {
    // Only this thread uses the receiver; the mutex lets the closure have it.
    let end = Mutex::new(end);
    let waits = || {
        let end = end.lock().unwrap_or_else(PoisonError::into_inner);
        end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout)
    };
    while py.detach(waits) {
        if let Err(exception) = py.check_signals() {
            return Some(exception);
        }
    }
    None
}

fn not_started(error: std::io::Error) -> Failure {
    Failure::memory(format!("a thread cannot be started: {error}"))
}

fn result<T>(py: Python<'_>, result: std::thread::Result<Result<T, Failure>>) -> PyResult<T> {
    match result {
        Ok(result) => result.raise(py),
        Err(_) => Err(PyRuntimeError::new_err("the library has a bug: a thread of it has panicked")),
    }
}

/// Does work in another thread. If a signal's handler raises an exception, the work is cancelled, which it notices within
/// milliseconds.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Cancel) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let cancel = Cancel::default();
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        let cancel = &cancel;
        let started = std::thread::Builder::new().name("nvdla call".into()).spawn_scoped(scope, move || {
            let _ended = ended;
            work(cancel)
        });
        let thread = started.map_err(not_started).raise(py)?;
        let interrupted = watch(py, end);
        if interrupted.is_some() {
            cancel.cancel();
        }
        let joined = py.detach(|| thread.join());
        interrupted.map_or_else(|| result(py, joined), Err)
    })
}

/// As [`interruptible`], for work that may notice later that it is cancelled. It then ends by itself.
pub(crate) fn detached<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Cancel) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let cancel = Cancel::default();
    let (ended, end) = channel::<()>();
    let own = cancel.clone();
    let started = std::thread::Builder::new().name("nvdla call".into()).spawn(move || {
        let _ended = ended;
        work(&own)
    });
    let thread = started.map_err(not_started).raise(py)?;
    if let Some(interrupted) = watch(py, end) {
        cancel.cancel();
        return Err(interrupted);
    }
    let joined = py.detach(|| thread.join());
    result(py, joined)
}
