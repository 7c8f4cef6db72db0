// SPDX-License-Identifier: GPL-2.0-only

//! A task on its way through the driver: its buffers, its validated operations, its fences, its end.

use core::cell::Cell;

use kernel::prelude::*;

use super::{
    budget::Charge,
    engine::{
        self,
        Buffer,
        OutOfRange,
        Slot,
        Task,
        TaskMemory, //
    },
    ffi::{
        Awake,
        Fence,
        Process,
        Watch, //
    },
    memory::Held,
    uapi::config::Config,
};

/// Until when a task may run.
#[derive(Clone, Copy)]
pub(crate) enum Deadline {
    /// Nanoseconds of `CLOCK_MONOTONIC`; 0 for the driver's default after the task starts.
    Absolute(u64),
    /// Nanoseconds after the task starts.
    Relative(u64),
}

impl Deadline {
    /// The absolute deadline of a task that starts `now`.
    pub(crate) fn from(self, now: u64, default: u64) -> u64 {
        match self {
            Self::Absolute(0) => now.saturating_add(default),
            Self::Absolute(deadline) => deadline,
            Self::Relative(nanoseconds) => now.saturating_add(nanoseconds),
        }
    }
}

/// An entry of a task's address list: a buffer from an offset to its end.
pub(crate) struct Place {
    object: Held,
    offset: u64,
}

impl Place {
    pub(crate) fn new(object: Held, offset: u64) -> Result<Self> {
        if offset > object.size() {
            return Err(EINVAL);
        }
        Ok(Self { object, offset })
    }
}

/// Reads of a task's descriptors after which others may run, and signals are looked for.
const READS_AT_ONCE: u32 = 256;

/// A task's buffers. The references keep them while the task is queued or runs.
pub(crate) struct Places {
    list: KVVec<Place>,
    /// The number of reads so far; `None` after a signal, when nothing more is read.
    reads: Cell<Option<u32>>,
}

impl TaskMemory for Places {
    fn count(&self) -> usize {
        self.list.len()
    }

    fn buffer(&self, index: usize) -> Option<Buffer> {
        let place = self.list.get(index)?;
        Some(Buffer {
            address: place.object.dma_address() + place.offset,
            size: place.object.size() - place.offset,
        })
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let reads = self.reads.get().ok_or(OutOfRange)?;
        if reads % READS_AT_ONCE == READS_AT_ONCE - 1 && Process::is_interrupted() {
            self.reads.set(None);
            return Err(OutOfRange);
        }
        self.reads.set(Some(reads.wrapping_add(1)));
        let place = self.list.get(index).ok_or(OutOfRange)?;
        let at = place.offset.checked_add(offset).ok_or(OutOfRange)?;
        if place.object.read(at, into) { Ok(()) } else { Err(OutOfRange) }
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> Result<(), OutOfRange> {
        let place = self.list.get(index).ok_or(OutOfRange)?;
        let at = place.offset.checked_add(offset).ok_or(OutOfRange)?;
        if place.object.write(at, from) { Ok(()) } else { Err(OutOfRange) }
    }
}

impl Places {
    pub(crate) fn new(list: KVVec<Place>) -> Self {
        Self { list, reads: Cell::new(Some(0)) }
    }

    /// Whether reading ended at a signal.
    fn is_interrupted(&self) -> bool {
        self.reads.get().is_none()
    }

    /// The memory of the buffers is never freed.
    ///
    /// # Safety
    ///
    /// One caller at a time for all buffers of a device.
    pub(crate) unsafe fn lose(&self) {
        for place in &self.list {
            // SAFETY: By this function's condition.
            unsafe { place.object.lose() };
        }
    }
}

/// The storage of a validated task.
pub(crate) struct Slots(KVVec<Slot>);

impl Slots {
    /// Room for a task. An empty slot is written where it stays: copies of its whole size would take longer than the allocation.
    fn new(count: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        for slot in slots.spare_capacity_mut().iter_mut().take(count) {
            slot.write(Slot::Empty);
        }
        // SAFETY: The capacity is at least `count`, and as many elements were written.
        unsafe { slots.inc_len(count) };
        Ok(Self(slots))
    }
}

impl AsRef<[Slot]> for Slots {
    fn as_ref(&self) -> &[Slot] {
        &self.0
    }
}

impl AsMut<[Slot]> for Slots {
    fn as_mut(&mut self) -> &mut [Slot] {
        &mut self.0
    }
}

/// Why a task was refused.
pub(crate) struct Refusal {
    /// The error that the caller gets.
    pub(crate) error: Error,
    /// What is wrong with it, where it is the task that is wrong.
    pub(crate) reason: Option<engine::Error>,
}

/// A task.
pub(crate) struct Job {
    /// Whose it is: the client's number, and the process that submitted it.
    pub(crate) client: u64,
    pub(crate) process: Process,
    /// Its number among its client's.
    pub(crate) sequence: u64,
    /// Validated; the engine has it while it runs.
    pub(crate) task: Option<Task<Slots>>,
    /// Its buffers.
    pub(crate) places: Places,
    /// Until when it may run.
    pub(crate) deadline: Deadline,
    /// Signalled when it has ended.
    pub(crate) fence: Fence,
    /// What it waits for.
    watches: KVec<Watch>,
    /// What it costs its client.
    charge: Charge,
    /// Keeps the device awake from queueing to the end.
    awake: Option<Awake>,
    /// The next job in a list of ended jobs.
    next: Option<KBox<Job>>,
}

/// What a job costs beside its address list and its operations: its own memory, its fence and the sync_file.
const JOB_BYTES: u64 = 1024;
/// What a watch costs, with the fence's part of it.
const WATCH_BYTES: u64 = 256;

/// The charge for a task with this many addresses, before it is read.
pub(crate) fn cost(addresses: u32) -> u64 {
    JOB_BYTES + u64::from(addresses) * size_of::<Place>() as u64
}

impl Job {
    /// Copies and validates a task. After this no memory that the user can write is read again.
    ///
    /// `EINTR` when a signal comes meanwhile. `charge` is what its address list costs.
    pub(crate) fn new(
        config: &'static Config,
        client: u64,
        places: Places,
        deadline: Deadline,
        mut charge: Charge,
    ) -> Result<KBox<Self>, Refusal> {
        let failed = |error: Error| Refusal { error, reason: None };
        let refused = |reason| match places.is_interrupted() {
            true => failed(EINTR),
            false => Refusal { error: EINVAL, reason: Some(reason) },
        };
        let fence = Fence::new().map_err(failed)?;
        let count = Task::<()>::slots(&places).map_err(refused)?;
        charge.grow(count as u64 * size_of::<Slot>() as u64).map_err(failed)?;
        let slots = Slots::new(count).map_err(failed)?;
        let task = Some(Task::parse(config, &places, slots).map_err(refused)?);
        let process = Process::current();
        let watches = KVec::new();
        let job = Self {
            client,
            process,
            sequence: 0,
            task,
            places,
            deadline,
            fence,
            watches,
            charge,
            awake: None,
            next: None,
        };
        KBox::new(job, GFP_KERNEL_ACCOUNT).map_err(|error| failed(error.into()))
    }

    /// Makes the task wait for a fence.
    pub(crate) fn wait_for(&mut self, watch: Watch) -> Result {
        self.charge.grow(WATCH_BYTES)?;
        Ok(self.watches.push(watch, GFP_KERNEL_ACCOUNT)?)
    }

    /// Keeps the device awake for the task.
    pub(crate) fn keep_awake(&mut self, awake: Awake) {
        self.awake = Some(awake);
    }

    /// `None` while a fence that the task waits for is pending; then whether one of them failed.
    pub(crate) fn dependency(&self) -> Option<Result> {
        let mut result = Ok(());
        for watch in &self.watches {
            result = result.and(watch.status()?);
        }
        Some(result)
    }
}

/// Jobs that have ended and wait to be freed. A fence must not wait for what freeing a buffer takes: locks that are held
/// during allocations.
pub(crate) struct Ended(Option<KBox<Job>>);

impl Ended {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Adds a job, without an allocation.
    pub(crate) fn push(&mut self, mut job: KBox<Job>) {
        job.next = self.0.take();
        self.0 = Some(job);
    }

    /// All of them.
    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // One after another: the list is as long as a queue, and the stack is short.
        while let Some(mut job) = self.0.take() {
            self.0 = job.next.take();
        }
    }
}
