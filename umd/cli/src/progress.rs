// SPDX-License-Identifier: MIT OR Apache-2.0

//! A progress bar for long runs.

use indicatif::{ProgressBar, ProgressStyle};
use nvdla_runtime::session::Completed;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// A run shorter than this shows no bar.
const BAR_DELAY: Duration = Duration::from_millis(700);

/// Counts operations, and shows how many are done when the standard error is a terminal.
pub(crate) struct Progress {
    started: Instant,
    done: u64,
    all: u64,
    wanted: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(operations: usize, rounds: u32) -> Self {
        let all = operations as u64 * u64::from(rounds);
        Self { started: Instant::now(), done: 0, all, wanted: std::io::stderr().is_terminal(), bar: None }
    }

    /// Whether a long run shows a bar.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Counts a completed operation.
    pub(crate) fn operation(&mut self, completed: &Completed<'_>) {
        self.done += 1;
        if self.bar.is_none() && self.wanted && self.started.elapsed() > BAR_DELAY {
            let style = ProgressStyle::with_template("{msg:5} {wide_bar} {pos}/{len} operations, {eta} left");
            self.bar = style
                .ok()
                .map(|style| ProgressBar::new(self.all).with_style(style).with_elapsed(self.started.elapsed()));
        }
        if let Some(bar) = &self.bar {
            bar.set_message(completed.unit.name());
            bar.set_position(self.done);
        }
    }

    /// Removes the bar after the last operation.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
