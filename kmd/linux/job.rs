// SPDX-License-Identifier: GPL-2.0-only

//! A task in the driver: its buffers, its validated operations, its fences, its deadline.

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
        Domain,
        Fence,
        PowerReference,
        Process,
        Watch, //
    },
    memory::Held,
    uapi::{
        config::Config,
        reg::values::RamType, //
    },
};

/// The time limit of a task.
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

/// An entry of a task's address list: a buffer, from an offset to its end.
pub(crate) struct AddressEntry {
    object: Held,
    offset: u64,
    /// The client's domain, which the buffer is a part of for this entry.
    domain: Option<Domain>,
    /// Whether reads have begun and not ended.
    is_read: Cell<bool>,
    /// Whether the driver may write it without sleeping.
    is_writable: Cell<bool>,
}

impl AddressEntry {
    pub(crate) fn new(object: Held, offset: u64, domain: Option<&Domain>) -> Result<Self> {
        if offset > object.size() {
            return Err(EINVAL);
        }
        if let Some(domain) = domain {
            object.enter(domain)?;
        }
        let domain = domain.cloned();
        Ok(Self { object, offset, domain, is_read: Cell::new(false), is_writable: Cell::new(false) })
    }
}

impl Drop for AddressEntry {
    fn drop(&mut self) {
        if let Some(domain) = &self.domain {
            self.object.leave(domain);
        }
    }
}

/// The number of reads of a task's descriptors after which the thread yields and checks for signals.
const READS_AT_ONCE: u32 = 256;

/// A task's address list. Its references keep the buffers while the task is queued or runs.
pub(crate) struct AddressList {
    list: KVVec<AddressEntry>,
    /// The number of reads so far.
    reads: Cell<u32>,
    /// Why nothing more is read: a signal, or a buffer that cannot be mapped.
    stopped: Cell<Option<Error>>,
}

impl TaskMemory for AddressList {
    fn count(&self) -> usize {
        self.list.len()
    }

    fn buffer(&self, index: usize) -> Option<Buffer> {
        let entry = self.list.get(index)?;
        Some(Buffer {
            address: entry.object.dma_address() + entry.offset,
            size: entry.object.size() - entry.offset,
            memory: if entry.object.is_sram() { RamType::Cvif } else { RamType::Mcif },
        })
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let entry = self.list.get(index).ok_or(OutOfRange)?;
        let at = entry.offset.checked_add(offset).ok_or(OutOfRange)?;
        self.prepare(entry).map_err(|error| {
            self.stopped.set(Some(error));
            OutOfRange
        })?;
        if entry.object.read(at, into) {
            Ok(())
        } else {
            Err(OutOfRange)
        }
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> Result<(), OutOfRange> {
        let entry = self.list.get(index).ok_or(OutOfRange)?;
        let at = entry.offset.checked_add(offset).ok_or(OutOfRange)?;
        if entry.is_writable.get() && entry.object.write(at, from) {
            Ok(())
        } else {
            Err(OutOfRange)
        }
    }
}

impl AddressList {
    pub(crate) fn new(list: KVVec<AddressEntry>) -> Self {
        Self { list, reads: Cell::new(0), stopped: Cell::new(None) }
    }

    /// The domain through which the device must access the buffers, if not through the common one.
    pub(crate) fn domain(&self) -> Option<&Domain> {
        self.list.first()?.domain.as_ref()
    }

    /// Prepares one more read of an entry's buffer. Yields from time to time. Fails with `EINTR` after a signal.
    fn prepare(&self, entry: &AddressEntry) -> Result {
        if let Some(error) = self.stopped.get() {
            return Err(error);
        }
        let reads = self.reads.get().wrapping_add(1);
        self.reads.set(reads);
        if reads % READS_AT_ONCE == 0 && Process::is_interrupted() {
            return Err(EINTR);
        }
        if !entry.is_read.get() {
            entry.object.begin_read()?;
            entry.is_read.set(true);
        }
        Ok(())
    }

    /// Ends the reads.
    fn end_reads(&self) {
        self.list.iter().filter(|entry| entry.is_read.replace(false)).for_each(|entry| entry.object.end_read());
    }

    /// Lets the driver write a buffer when the task has ended. Another driver's memory cannot be written then, because its exporter
    /// would have to be asked, which may wait for fences.
    fn allow_writes(&self, index: usize) -> Result {
        let entry = self.list.get(index).ok_or(EINVAL)?;
        if entry.object.is_imported() {
            return Err(EINVAL);
        }
        entry.object.open()?;
        entry.is_writable.set(true);
        Ok(())
    }

    /// Makes the memory of the buffers permanent: it is never freed.
    ///
    /// # Safety
    ///
    /// One caller at a time for all buffers of a device.
    pub(crate) unsafe fn lose(&self) {
        for entry in &self.list {
            // SAFETY: By this function's condition.
            unsafe { entry.object.lose() };
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
        // SAFETY: The capacity is at least `count`, and `count` elements were written.
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
    /// The error for the caller.
    pub(crate) error: Error,
    /// What is wrong with the task, if it is invalid.
    pub(crate) reason: Option<engine::Error>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { error, reason: None }
    }
}

impl From<engine::Error> for Refusal {
    fn from(reason: engine::Error) -> Self {
        Self { error: EINVAL, reason: Some(reason) }
    }
}

/// A task.
pub(crate) struct Job {
    /// Its owner: the client's number, and the process that submitted it.
    pub(crate) client: u64,
    pub(crate) process: Process,
    /// Its number among its client's tasks.
    pub(crate) sequence: u64,
    /// The validated task. The engine has it while it runs.
    pub(crate) task: Option<Task<Slots>>,
    /// The fence that is signalled when it has ended. A cancelled task's fence signals before its buffers are released.
    pub(crate) fence: Fence,
    /// Its buffers.
    pub(crate) address_list: AddressList,
    /// Its time limit.
    pub(crate) deadline: Deadline,
    /// Whether it runs before the tasks of clients whose first task is not urgent.
    pub(crate) is_urgent: bool,
    /// The fences that it waits for.
    watches: KVec<Watch>,
    /// Its cost, charged to the client.
    charge: Charge,
    /// Keeps the device active from queueing to the end.
    power: Option<PowerReference>,
    /// The next job in a list.
    next: Option<KBox<Job>>,
}

/// The cost of a job besides its address list and its operations: its own memory, its fence and the sync_file.
const JOB_BYTES: u64 = 1024;
/// The cost of a watch, including the fence's part of it.
const WATCH_BYTES: u64 = 256;

/// The charge for a task with this many addresses, before it is read.
pub(crate) fn cost(addresses: u32) -> u64 {
    JOB_BYTES + u64::from(addresses) * size_of::<AddressEntry>() as u64
}

impl Job {
    /// Copies and validates a task. After this no memory that the user can write is read again.
    ///
    /// Fails with `EINTR` if a signal arrives. `charge` is the cost of its address list. `with_room` calls its
    /// argument, and once more if jobs that have ended left no room.
    pub(crate) fn new(
        config: &'static Config,
        client: u64,
        address_list: AddressList,
        deadline: Deadline,
        mut charge: Charge,
        with_room: impl Fn(&mut dyn FnMut() -> Result) -> Result,
    ) -> Result<KBox<Self>, Refusal> {
        let fence = Fence::new()?;
        let task = Task::parse(config, &address_list, |count| {
            let bytes = count as u64 * size_of::<Slot>() as u64;
            with_room(&mut || charge.grow(bytes))?;
            Ok(Slots::new(count)?)
        });
        address_list.end_reads();
        let task = task.map_err(|refusal: Refusal| address_list.stopped.get().map_or(refusal, Refusal::from))?;
        if let Some(statistics) = task.statistics() {
            address_list.allow_writes(statistics)?;
        }
        // Allocated first, so that the job is not copied.
        let place = KBox::<Self>::new_uninit(GFP_KERNEL_ACCOUNT).map_err(Error::from)?;
        let job = Self {
            client,
            process: Process::current(),
            sequence: 0,
            task: Some(task),
            address_list,
            deadline,
            is_urgent: false,
            fence,
            watches: KVec::new(),
            charge,
            power: None,
            next: None,
        };
        Ok(KBox::write(place, job))
    }

    /// Makes room for as many fences to wait for, and charges the client with them. `with_room` is that of [`Self::new`]. It frees
    /// jobs, so the caller holds no lock of a buffer.
    pub(crate) fn expect(&mut self, fences: usize, with_room: impl Fn(&mut dyn FnMut() -> Result) -> Result) -> Result {
        if fences != 0 {
            let Self { charge, watches, .. } = self;
            with_room(&mut || charge.grow(fences as u64 * WATCH_BYTES))?;
            watches.reserve(fences, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(())
    }

    /// Makes the task wait for a fence, for which there is room.
    pub(crate) fn wait_for(&mut self, watch: Watch) -> Result {
        Ok(self.watches.push_within_capacity(watch)?)
    }

    /// Keeps the device active for the task.
    pub(crate) fn keep_active(&mut self, power: PowerReference) {
        self.power = Some(power);
    }

    /// `None` while a fence that the task waits for is pending; then the first error among them, if any.
    pub(crate) fn dependency(&self) -> Option<Result> {
        let mut result = Ok(());
        for watch in &self.watches {
            result = result.and(watch.status()?);
        }
        Some(result)
    }
}

/// A list of jobs, the newest first. It needs no allocation.
pub(crate) struct Jobs {
    newest: Option<KBox<Job>>,
    count: usize,
}

impl Jobs {
    pub(crate) const fn new() -> Self {
        Self { newest: None, count: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds a job.
    pub(crate) fn push(&mut self, mut job: KBox<Job>) {
        job.next = self.newest.take();
        self.newest = Some(job);
        self.count += 1;
    }

    /// Removes and returns the newest job.
    pub(crate) fn pop(&mut self) -> Option<KBox<Job>> {
        let mut job = self.newest.take()?;
        self.newest = job.next.take();
        self.count -= 1;
        Some(job)
    }

    /// Removes and returns all jobs.
    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// The same jobs, the oldest first.
    pub(crate) fn reversed(mut self) -> Self {
        let mut reversed = Self::new();
        while let Some(job) = self.pop() {
            reversed.push(job);
        }
        reversed
    }

    pub(crate) fn newest(&self) -> Option<&Job> {
        self.newest.as_deref()
    }

    pub(crate) fn oldest_mut(&mut self) -> Option<&mut Job> {
        let mut job = self.newest.as_mut()?;
        loop {
            if job.next.is_none() {
                return Some(job);
            }
            job = job.next.as_mut()?;
        }
    }

    /// Calls `each` with every job, up to the first error.
    pub(crate) fn try_for_each(&mut self, mut each: impl FnMut(&mut Job) -> Result) -> Result {
        let mut next = self.newest.as_deref_mut();
        while let Some(job) = next {
            each(job)?;
            next = job.next.as_deref_mut();
        }
        Ok(())
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        // Freed one after another, because the list may be as long as a queue and the stack is small.
        while self.pop().is_some() {}
    }
}
