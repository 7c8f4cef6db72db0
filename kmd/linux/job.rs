// SPDX-License-Identifier: GPL-2.0-only

//! A task on its way through the driver: its buffers, its validated operations, its fences, its end.

use kernel::{
    prelude::*,
    sync::aref::ARef, //
};

use super::{
    engine::{
        self,
        Buffer,
        OutOfRange,
        Slot,
        Task,
        TaskMemory, //
    },
    ffi::{
        Fence,
        Watch, //
    },
    gem::{
        Held,
        Object, //
    },
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
    pub(crate) fn new(object: ARef<Object>, offset: u64) -> Result<Self> {
        if offset > object.size() {
            return Err(EINVAL);
        }
        Ok(Self { object: object.into(), offset })
    }
}

/// A task's buffers. The references keep them while the task is queued or runs.
pub(crate) struct Places(KVVec<Place>);

impl TaskMemory for Places {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn buffer(&self, index: usize) -> Option<Buffer> {
        let place = self.0.get(index)?;
        Some(Buffer {
            address: place.object.dma_address() + place.offset,
            size: place.object.size() - place.offset,
        })
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let place = self.0.get(index).ok_or(OutOfRange)?;
        let at = place.offset.checked_add(offset).ok_or(OutOfRange)?;
        if place.object.read(at, into) { Ok(()) } else { Err(OutOfRange) }
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> Result<(), OutOfRange> {
        let place = self.0.get(index).ok_or(OutOfRange)?;
        let at = place.offset.checked_add(offset).ok_or(OutOfRange)?;
        if place.object.write(at, from) { Ok(()) } else { Err(OutOfRange) }
    }
}

impl Places {
    pub(crate) fn new(places: KVVec<Place>) -> Self {
        Self(places)
    }

    /// The memory of the buffers is never given back.
    ///
    /// # Safety
    ///
    /// One caller at a time for all buffers of a device.
    pub(crate) unsafe fn lose(&self) {
        for place in &self.0 {
            // SAFETY: By this function's condition.
            unsafe { place.object.lose() };
        }
    }
}

/// The storage of a validated task.
pub(crate) struct Slots(KVVec<Slot>);

impl Slots {
    /// Room for a task. Apart from its caller, because an empty slot is a good part of a kernel stack.
    #[inline(never)]
    fn new(count: usize) -> Result<Self> {
        Ok(Self(KVVec::from_elem(Slot::default(), count, GFP_KERNEL)?))
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
    /// What the caller is told.
    pub(crate) error: Error,
    /// What is wrong with it, where it is the task that is wrong.
    pub(crate) reason: Option<engine::Error>,
}

/// A task.
pub(crate) struct Job {
    /// Its number among its client's.
    pub(crate) sequence: u64,
    /// Validated; taken when it starts.
    pub(crate) task: Option<Task<Slots>>,
    /// Its buffers.
    pub(crate) places: Places,
    /// Until when it may run.
    pub(crate) deadline: Deadline,
    /// Signalled when it has ended.
    pub(crate) fence: Fence,
    /// What it waits for.
    watches: KVec<Watch>,
}

impl Job {
    /// Copies and validates a task. After this no memory of the user's is read any more.
    pub(crate) fn new(
        config: &'static Config,
        places: Places,
        deadline: Deadline,
        fence: Fence,
    ) -> Result<Self, Refusal> {
        let refused = |reason| Refusal { error: EINVAL, reason: Some(reason) };
        let count = Task::<()>::slots(&places).map_err(refused)?;
        let slots = Slots::new(count).map_err(|_| Refusal { error: ENOMEM, reason: None })?;
        let task = Task::parse(config, &places, slots).map_err(refused)?;
        Ok(Self { sequence: 0, task: Some(task), places, deadline, fence, watches: KVec::new() })
    }

    /// Makes the task wait for a fence.
    pub(crate) fn wait_for(&mut self, watch: Watch) -> Result {
        Ok(self.watches.push(watch, GFP_KERNEL)?)
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
