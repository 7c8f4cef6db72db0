// SPDX-License-Identifier: GPL-2.0-only

//! A client's tasks on a device: the queued ones, and the results of the last ones.

use kernel::prelude::*;

use super::{
    job::Job,
    uapi::queue::MAX_QUEUED, //
};

/// How many tasks a client can have queued, and for how many of its ended tasks the result is kept.
const LENGTH: usize = MAX_QUEUED as usize;

/// A client's tasks. Its lists are allocated when it is made, because nothing may be allocated while a fence may be
/// waited for.
pub(crate) struct Queue {
    jobs: KVec<KBox<Job>>,
    /// The last sequence numbers that were assigned, and that have ended.
    pub(crate) submitted: u64,
    pub(crate) ended: u64,
    /// The results of the last tasks, by sequence number modulo the length, which is [`LENGTH`].
    results: KVec<Result>,
    /// Nanoseconds of device time for it.
    pub(crate) busy_ns: u64,
    /// How many of its last tasks hung, one after another.
    hangs: u32,
    /// How many turns it loses.
    lost_turns: u32,
}

/// The most turns that a client loses.
const MAX_LOST_TURNS: u32 = 16;

impl Queue {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            jobs: KVec::with_capacity(LENGTH, GFP_KERNEL_ACCOUNT)?,
            submitted: 0,
            ended: 0,
            results: KVec::from_elem(Ok(()), LENGTH, GFP_KERNEL_ACCOUNT)?,
            busy_ns: 0,
            hangs: 0,
            lost_turns: 0,
        })
    }

    /// Tasks that are queued.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether `more` tasks do not fit the queue.
    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.jobs.len() + more > LENGTH
    }

    /// Queues a task and gives it its number. [`Self::is_full`] must have returned false for it.
    pub(crate) fn push(&mut self, mut job: KBox<Job>) {
        self.submitted += 1;
        job.sequence = self.submitted;
        // The list is large enough: `is_full` was called under the same lock.
        let _ = self.jobs.push_within_capacity(job);
    }

    /// Removes and returns the first task.
    pub(crate) fn pop(&mut self) -> Option<KBox<Job>> {
        self.jobs.remove(0).ok()
    }

    /// Whether the first task may run: the fences that it waits for have signalled.
    pub(crate) fn is_ready(&self) -> bool {
        self.jobs.first().is_some_and(|job| job.dependency().is_some())
    }

    /// Whether the first task is urgent.
    pub(crate) fn is_urgent(&self) -> bool {
        self.jobs.first().is_some_and(|job| job.is_urgent)
    }

    /// Records that a task used the device, and whether it hung.
    pub(crate) fn used(&mut self, hung: bool) {
        self.hangs = if hung { self.hangs.saturating_add(1) } else { 0 };
        self.lost_turns = self.hangs.min(MAX_LOST_TURNS);
    }

    /// Whether the client loses this turn.
    pub(crate) fn loses_turn(&mut self) -> bool {
        let loses = self.lost_turns != 0;
        self.lost_turns = self.lost_turns.saturating_sub(1);
        loses
    }

    /// Whether so many tasks hung that the client may not use the device any more.
    pub(crate) fn is_banned(&self) -> bool {
        let limit = super::module_parameters::max_hangs.value();
        limit != 0 && self.hangs >= limit
    }

    /// Records the end of a task. A client's tasks end in the order of their numbers.
    pub(crate) fn end(&mut self, sequence: u64, result: Result) {
        self.ended = sequence;
        if let Some(slot) = self.results.get_mut(sequence as usize % LENGTH) {
            *slot = result;
        }
    }

    /// The result of a task; `None` while it has not ended. `EINVAL` for a number that was never assigned, `ESTALE` for one whose
    /// result is no longer kept.
    pub(crate) fn outcome(&self, sequence: u64) -> Result<Option<Result>> {
        if sequence == 0 || sequence > self.submitted {
            return Err(EINVAL);
        }
        if sequence > self.ended {
            return Ok(None);
        }
        if sequence + LENGTH as u64 <= self.ended {
            return Err(ESTALE);
        }
        Ok(self.results.get(sequence as usize % LENGTH).copied())
    }
}
