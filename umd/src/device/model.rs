// SPDX-License-Identifier: MIT OR Apache-2.0

//! The built-in model: [`nvdla_model`] driven by [`nvdla_engine`], in this process.
//!
//! The scheduler is the one that is inserted into a kernel; the model answers register accesses as the hardware would.
//! A task sees the buffers of its address list and nothing else: what reaches outside is a fault.

use std::{
    io,
    time::{Duration, Instant},
};

use memmap2::{Advice, MmapMut};
use nvdla_engine::{Engine, Hardware, OutOfRange, Progress, Slot, Task, TaskMemory};
use nvdla_model::{
    awake::Awake,
    device::Model,
    memory::{apart, Memory, Port, Span},
};
use nvdla_uapi::config::Config;

use super::{AddressEntry, Buffers, Completion, Device, DeviceInfo, Error, Handle, Kind, Observer, TaskReport};

/// Where the first buffer lies. Address 0 stays a fault.
const FIRST_ADDRESS: u64 = 0x1000_0000;
/// The alignment of buffers.
const PAGE: u64 = 4096;
/// What the system can map in one piece.
const HUGE_PAGE: usize = 2 << 20;
/// How long a device that does not answer is left alone between two looks at it.
const NAP: Duration = Duration::from_millis(1);

/// The built-in model of a configuration.
pub struct ModelDevice {
    config: &'static Config,
    model: Model,
    engine: Engine<Vec<Slot>>,
    store: Store,
    mute: bool,
}

impl std::fmt::Debug for ModelDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelDevice").field("config", &self.config.name).finish_non_exhaustive()
    }
}

impl ModelDevice {
    /// A device of that configuration.
    ///
    /// ```
    /// use nvdla_runtime::device::{Device, ModelDevice};
    /// use nvdla_uapi::config::NV_SMALL;
    ///
    /// let device = ModelDevice::new(&NV_SMALL);
    /// assert_eq!(device.info().to_string(), "the built-in model of nv_small");
    /// ```
    pub fn new(config: &'static Config) -> Self {
        Self { config, model: Model::new(config), engine: Engine::new(config), store: Store::new(config), mute: false }
    }

    /// Makes the device stop answering: operations are taken and never end, as on hardware that hangs. For tests of
    /// what happens then.
    pub fn set_mute(&mut self, mute: bool) {
        self.mute = mute;
    }

    fn reset(&mut self) {
        self.model.reset();
        self.engine.reset();
    }
}

/// A buffer: zeroed pages of this process, at an address of the model's memory.
struct Buffer {
    address: u64,
    /// Bytes that were asked for.
    size: u64,
    /// Whole pages.
    pages: MmapMut,
}

impl Buffer {
    /// The bytes from `offset` on, `size` of them, that an address list gives access to.
    ///
    /// As with a kernel driver, whose buffers are whole pages, what reaches to the end of the buffer has the rest of its
    /// last page too: the hardware reads operands in whole atoms, and compilers do not pad the memory for that.
    fn reach(&self, entry: &AddressEntry) -> u64 {
        if entry.offset + entry.size == self.size {
            self.pages.len() as u64 - entry.offset
        } else {
            entry.size
        }
    }
}

/// The buffers of a device.
struct Store {
    buffers: Vec<Option<Buffer>>,
    next_address: u64,
    /// The first address that the device cannot reach.
    end: u64,
}

impl Store {
    fn new(config: &Config) -> Self {
        // Address registers have 64 bits, or 32 where the configuration says so; 40 lead to memory.
        let width = config.address_width.unwrap_or(40).min(40);
        Self { buffers: Vec::new(), next_address: FIRST_ADDRESS, end: 1 << width }
    }

    fn get(&self, handle: Handle) -> Option<&Buffer> {
        self.buffers.get(handle.0 as usize)?.as_ref()
    }

    fn get_mut(&mut self, handle: Handle) -> Option<&mut Buffer> {
        self.buffers.get_mut(handle.0 as usize)?.as_mut()
    }

    fn allocate(&mut self, size: u64) -> io::Result<Handle> {
        let length = usize::try_from(size).ok().filter(|&length| length > 0).ok_or(io::ErrorKind::InvalidInput)?;
        let address = self.next_address;
        // A page of nothing after each buffer, so that running over its end is a fault.
        let whole = size.checked_next_multiple_of(PAGE);
        let next = whole.and_then(|whole| address.checked_add(whole)?.checked_add(PAGE));
        let next = next.filter(|&next| next <= self.end).ok_or(io::ErrorKind::OutOfMemory)?;
        let pages = MmapMut::map_anon(length.next_multiple_of(PAGE as usize))?;
        if length >= HUGE_PAGE {
            // Filling 20 MB of weights takes a tenth of the time in huge pages; a system without them goes on as ever.
            if let Err(error) = pages.advise(Advice::HugePage) {
                log::debug!("no huge pages for {size} bytes: {error}");
            }
        }
        self.next_address = next;
        let free = self.buffers.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.buffers.push(None);
            self.buffers.len() - 1
        });
        self.buffers[at] = Some(Buffer { address, size, pages });
        Ok(Handle(at as u32))
    }

    fn free(&mut self, handle: Handle) {
        if let Some(buffer) = self.buffers.get_mut(handle.0 as usize) {
            *buffer = None;
        }
        if self.buffers.iter().all(Option::is_none) {
            self.next_address = FIRST_ADDRESS;
        }
    }
}

impl Buffers for Store {
    fn bytes(&self, handle: Handle) -> &[u8] {
        self.get(handle).and_then(|buffer| buffer.pages.get(..buffer.size as usize)).unwrap_or_default()
    }
}

/// A task's address list, as the scheduler sees it.
struct AddressList<'a> {
    store: &'a mut Store,
    addresses: &'a [AddressEntry],
}

impl AddressList<'_> {
    /// The buffer's handle and the bytes of it that `offset` and `length` in an entry stand for.
    fn place(&self, index: usize, offset: u64, length: usize) -> Option<(Handle, std::ops::Range<usize>)> {
        let entry = self.addresses.get(index)?;
        let reach = self.store.get(entry.handle)?.reach(entry);
        let end = offset.checked_add(length as u64).filter(|&end| end <= reach)?;
        let start = usize::try_from(entry.offset.checked_add(offset)?).ok()?;
        Some((entry.handle, start..usize::try_from(entry.offset.checked_add(end)?).ok()?))
    }
}

impl TaskMemory for AddressList<'_> {
    fn count(&self) -> usize {
        self.addresses.len()
    }

    fn buffer(&self, index: usize) -> Option<nvdla_engine::Buffer> {
        let entry = self.addresses.get(index)?;
        let buffer = self.store.get(entry.handle)?;
        Some(nvdla_engine::Buffer { address: buffer.address.checked_add(entry.offset)?, size: buffer.reach(entry) })
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let (handle, range) = self.place(index, offset, into.len()).ok_or(OutOfRange)?;
        let bytes = self.store.get(handle).and_then(|buffer| buffer.pages.get(range)).ok_or(OutOfRange)?;
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> Result<(), OutOfRange> {
        let (handle, range) = self.place(index, offset, from.len()).ok_or(OutOfRange)?;
        let bytes = self.store.get_mut(handle).and_then(|buffer| buffer.pages.get_mut(range)).ok_or(OutOfRange)?;
        bytes.copy_from_slice(from);
        Ok(())
    }
}

/// The bytes that a task may touch: one range of a buffer.
#[derive(Clone, Copy)]
struct Reach {
    start: u64,
    end: u64,
    handle: Handle,
    /// The buffer's address.
    base: u64,
}

/// What the address list of a task reaches, sorted by address. Entries of one buffer are taken together.
fn reach(store: &Store, addresses: &[AddressEntry]) -> Vec<Reach> {
    let mut all: Vec<Reach> = Vec::new();
    for entry in addresses {
        let Some(buffer) = store.get(entry.handle) else { continue };
        let start = buffer.address + entry.offset;
        let end = start + buffer.reach(entry);
        match all.iter_mut().find(|reach| reach.handle == entry.handle) {
            Some(reach) => {
                reach.start = reach.start.min(start);
                reach.end = reach.end.max(end);
            }
            None => all.push(Reach { start, end, handle: entry.handle, base: buffer.address }),
        }
    }
    all.sort_by_key(|reach| reach.start);
    all
}

/// The memory of a running task, as the model sees it. Both memory interfaces lead to it: a loadable's SRAM is a buffer
/// like any other here.
struct TaskView<'a> {
    store: &'a mut Store,
    reach: &'a [Reach],
}

impl TaskView<'_> {
    fn place(&self, address: u64, length: usize) -> Option<(Handle, std::ops::Range<usize>)> {
        let at = self.reach.partition_point(|reach| reach.start <= address).checked_sub(1)?;
        let reach = self.reach.get(at)?;
        let end = address.checked_add(length as u64).filter(|&end| end <= reach.end)?;
        Some((reach.handle, (address - reach.base) as usize..(end - reach.base) as usize))
    }
}

impl Memory for TaskView<'_> {
    fn read(&self, _port: Port, address: u64, length: usize) -> Option<&[u8]> {
        let (handle, range) = self.place(address, length)?;
        self.store.get(handle)?.pages.get(range)
    }

    fn write(&mut self, _port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        let (handle, range) = self.place(address, length)?;
        self.store.get_mut(handle)?.pages.get_mut(range)
    }

    fn both(&mut self, read: Span, write: Span) -> Option<(&[u8], &mut [u8])> {
        let (from, read) = self.place(read.address, read.length)?;
        let (to, write) = self.place(write.address, write.length)?;
        if from == to {
            return apart(&mut self.store.get_mut(from)?.pages, read, write);
        }
        let [from, to] = self.store.buffers.get_disjoint_mut([from.0 as usize, to.0 as usize]).ok()?;
        Some((from.as_ref()?.pages.get(read)?, to.as_mut()?.pages.get_mut(write)?))
    }
}

/// The model's register window.
struct Window<'a>(&'a mut Model);

impl Hardware for Window<'_> {
    fn read(&mut self, offset: u32) -> u32 {
        self.0.read(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.0.write(offset, value);
    }
}

impl Buffers for ModelDevice {
    fn bytes(&self, handle: Handle) -> &[u8] {
        self.store.bytes(handle)
    }
}

impl Device for ModelDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { kind: Kind::Model, config: Some(self.config), path: None }
    }

    fn allocate(&mut self, size: u64) -> Result<Handle, Error> {
        let result = self.store.allocate(size);
        result.map_err(|source| Error::Allocate { size, device: self.info().to_string(), source })
    }

    fn free(&mut self, handle: Handle) {
        self.store.free(handle);
    }

    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        let Some(buffer) = self.store.get_mut(handle) else { return &mut [] };
        buffer.pages.get_mut(..buffer.size as usize).unwrap_or_default()
    }

    fn can_observe(&self) -> bool {
        true
    }

    fn submit(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        mut observer: Option<Observer<'_>>,
    ) -> Result<TaskReport, Error> {
        for (position, entry) in addresses.iter().enumerate() {
            let size = self.store.get(entry.handle).map(|buffer| buffer.size);
            let end = entry.offset.checked_add(entry.size);
            if !matches!((size, end), (Some(size), Some(end)) if end <= size) {
                return Err(Error::Address { position });
            }
        }
        let memory = AddressList { store: &mut self.store, addresses };
        let slots = Task::<()>::slots(&memory).map_err(Error::Refused)?;
        let mut storage = Vec::new();
        if storage.try_reserve_exact(slots).is_err() {
            let (size, source) = ((slots * size_of::<Slot>()) as u64, io::ErrorKind::OutOfMemory.into());
            return Err(Error::Allocate { size, device: self.info().to_string(), source });
        }
        storage.resize_with(slots, Slot::default);
        let task = Task::parse(self.config, &memory, storage).map_err(Error::Refused)?;

        let started = Instant::now();
        let now = || u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let deadline = timeout.map_or(u64::MAX, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let reach = reach(memory.store, addresses);
        if let Err(submission) = self.engine.submit(&mut Window(&mut self.model), task, now(), deadline) {
            return Err(Error::NotTaken(submission.error));
        }
        let _awake = Awake::new();
        let mut completed = 0;
        loop {
            let ran = !self.mute && self.model.run(&mut TaskView { store: &mut self.store, reach: &reach });
            let interrupted = self.model.interrupt() && self.engine.interrupt(&mut Window(&mut self.model));
            let before = completed;
            let poll = loop {
                match self.engine.process_events(&mut Window(&mut self.model), now()) {
                    Progress::Completed { operation, roi, unit, output } => {
                        completed += 1;
                        if let Some(observer) = &mut observer {
                            let output = output.map(|region| (usize::from(region.address), region.offset, region.size));
                            let (operation, roi) = (operation as usize, roi as usize);
                            observer(Completion { operation, roi, unit, output }, &self.store);
                        }
                    }
                    Progress::Ended(task) => {
                        task.write_statistics(&mut AddressList { store: &mut self.store, addresses })
                            .map_err(|OutOfRange| Error::Statistics)?;
                        return Ok(TaskReport { operations: Some(completed) });
                    }
                    Progress::Waiting { poll } => break poll,
                    Progress::Idle => return Ok(TaskReport { operations: Some(completed) }),
                }
            };
            if let Some(stop) = self.model.take_stop() {
                let failure = self.engine.abort(&mut Window(&mut self.model)).map(|(_, failure)| Box::new(failure));
                self.reset();
                return Err(Error::Stopped { stop, failure });
            }
            if let Some(failure) = self.engine.check_deadline(&mut Window(&mut self.model), now()) {
                self.engine.abort(&mut Window(&mut self.model));
                self.reset();
                return Err(Error::Deadline { timeout: timeout.unwrap_or_default(), failure: Box::new(failure) });
            }
            if ran || interrupted || completed != before {
                continue;
            }
            if (self.mute && timeout.is_some()) || poll {
                std::thread::sleep(NAP);
                continue;
            }
            // Nothing will ever happen again: waiting for the deadline would not help.
            let failure = self.engine.abort(&mut Window(&mut self.model)).map(|(_, failure)| Box::new(failure));
            self.reset();
            return Err(Error::Stuck { failure });
        }
    }
}
