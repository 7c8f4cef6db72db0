// SPDX-License-Identifier: MIT OR Apache-2.0

//! Shows on a terminal how far a long compilation is.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Shorter work shows nothing.
const DELAY: Duration = Duration::from_millis(700);

/// One line of the standard error, which is written again and again.
pub(crate) struct Progress {
    started: Instant,
    shows: bool,
    shown: AtomicBool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), shows: io::stderr().is_terminal(), shown: AtomicBool::new(false) }
    }

    pub(crate) fn tell(&self, what: &str, done: f64) {
        if self.shows && self.started.elapsed() > DELAY {
            self.shown.store(true, Ordering::Relaxed);
            // Nothing depends on the line.
            let _ = write!(io::stderr(), "\r\x1b[K{what}: {:.0} %", done * 100.0);
        }
    }

    /// Removes the line.
    pub(crate) fn finish(&self) {
        if self.shown.swap(false, Ordering::Relaxed) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
