// SPDX-License-Identifier: GPL-2.0-only

//! The text of the debugfs file, and a way to print `core::fmt` values with the kernel's own formatting.

use kernel::{
    fmt,
    seq_file::SeqFile,
    seq_print, //
};

use super::{
    engine::Failure,
    identity::Identity,
    state::{
        Phase,
        State, //
    }, //
};

/// A value that the kernel's formatting can print.
pub(crate) struct Show<'a, T>(pub(crate) &'a T);

impl<T: core::fmt::Display> fmt::Display for Show<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(self.0, f)
    }
}

/// Prints the identity of the device, and how much of its SRAM is in use.
pub(crate) fn device(to: &SeqFile, identity: &Identity, model: bool, (size, used): (u64, u64)) {
    seq_print!(to, "configuration: {}\n", identity.config.name);
    seq_print!(to, "hardware version: {:#x}\n", identity.version);
    seq_print!(to, "device: {}\n", if model { "model" } else { "hardware" });
    if size != 0 {
        seq_print!(to, "sram: {} of {} KiB in use\n", used >> 10, size >> 10);
    }
}

/// Prints the state of the device, one fact per line. `doing` is the engine's description of the running task.
pub(crate) fn state(to: &SeqFile, state: &State, now_ns: u64, doing: Option<&Failure>) {
    let condition = match &state.phase {
        _ if state.worker.is_none() => "gone",
        Phase::Dead => "dead: it could not be reset",
        _ if state.suspended => "suspended",
        _ if state.in_reset => "is being reset",
        Phase::Running(_) => "busy",
        Phase::Ending(..) => "waits for a reset",
        Phase::Idle => "idle",
    };
    seq_print!(to, "state: {}\n", condition);
    if let Some(job) = state.chosen() {
        let (client, process, sequence) = (job.client, &job.process, job.sequence);
        seq_print!(to, "next: client {} ({}) task {}, which waits for its domain\n", client, process, sequence);
    } else if let Some(running) = state.running() {
        let job = &running.job;
        seq_print!(
            to,
            "running: client {} ({}) task {} for {} us, {} us left\n",
            job.client,
            job.process,
            job.sequence,
            now_ns.saturating_sub(running.started_ns) / 1000,
            state.end_ns().saturating_sub(now_ns) / 1000
        );
    }
    if let Some(doing) = doing {
        seq_print!(to, "engine: {}\n", Show(doing));
    }
    for (client, queue) in state.clients.iter() {
        seq_print!(
            to,
            "client {}: {} tasks queued, {} submitted, {} ended, busy for {} us\n",
            client,
            queue.len(),
            queue.submitted,
            queue.ended,
            queue.busy_ns / 1000
        );
    }
    seq_print!(to, "tasks: {} completed, {} ended by the driver\n", state.completed, state.failed);
    match &state.last_failure {
        Some(failure) => seq_print!(to, "last failure: {}\n", Show(failure)),
        None => seq_print!(to, "last failure: none\n"),
    }
}
