// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memory that the built-in model can access while a task runs: the buffers of its address list.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use nvdla_model::memory::{Memory, Port, Span};

use super::store::{Rest, Store};
use super::types::{AddressEntry, Handle};

/// A range of a buffer that a task may access.
#[derive(Clone, Copy)]
pub(super) struct Reach {
    start: u64,
    end: u64,
    handle: Handle,
    /// The buffer's address.
    base: u64,
    /// The memory interface behind which the buffer lies.
    port: Port,
}

impl Reach {
    /// The buffer.
    #[cfg(feature = "cli")]
    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    /// Its addresses.
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// The ranges that a task's address list makes accessible, sorted by address. Entries of one buffer are merged.
pub(super) fn reach(store: &Store, addresses: &[AddressEntry]) -> Vec<Reach> {
    let mut all: Vec<Reach> = Vec::new();
    for entry in addresses {
        let Some(buffer) = store.get(entry.handle) else { continue };
        let start = buffer.address() + entry.offset;
        let end = start + buffer.reach(entry);
        if let Some(reach) = all.iter_mut().find(|reach| reach.handle == entry.handle) {
            reach.start = reach.start.min(start);
            reach.end = reach.end.max(end);
        } else {
            let (base, port) = (buffer.address(), buffer.memory().into());
            all.push(Reach { start, end, handle: entry.handle, base, port });
        }
    }
    all.sort_by_key(|reach| reach.start);
    all
}

/// The ranges that a task may access.
struct Places<'a> {
    reach: &'a [Reach],
    /// Index of the range of the last access, in which the next one often is.
    last: AtomicUsize,
}

impl Places<'_> {
    fn place(&self, Span { port, address, length }: Span) -> Option<(Handle, Range<usize>)> {
        let mut at = self.last.load(Ordering::Relaxed);
        // Buffers do not overlap.
        if !self.reach.get(at).is_some_and(|reach| reach.range().contains(&address)) {
            at = self.reach.partition_point(|reach| reach.start <= address).checked_sub(1)?;
            self.last.store(at, Ordering::Relaxed);
        }
        let reach = self.reach.get(at).filter(|reach| reach.port == port)?;
        let end = address.checked_add(length as u64).filter(|&end| end <= reach.end)?;
        Some((reach.handle, (address - reach.base) as usize..(end - reach.base) as usize))
    }
}

/// The memory of a running task for the model. Each memory interface accesses the buffers behind it.
pub(super) struct TaskView<'a> {
    store: &'a mut Store,
    places: Places<'a>,
}

impl<'a> TaskView<'a> {
    pub(super) fn new(store: &'a mut Store, reach: &'a [Reach]) -> Self {
        Self { store, places: Places { reach, last: AtomicUsize::new(0) } }
    }
}

impl Memory for TaskView<'_> {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        let (handle, range) = self.places.place(Span { port, address, length })?;
        self.store.get(handle)?.pages().get(range)
    }

    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        let (handle, range) = self.places.place(Span { port, address, length })?;
        self.store.pages_mut(handle)?.get_mut(range)
    }

    fn both(&mut self, read: Span, write: Span) -> Option<(&[u8], &mut [u8])> {
        let read = self.places.place(read)?;
        let write = self.places.place(write)?;
        self.store.both(read, write)
    }

    fn beside(&mut self, write: Span, work: &mut dyn FnMut(&dyn Memory, &mut [u8])) -> bool {
        let Self { store, places } = self;
        let split = places.place(write).and_then(|(handle, range)| store.beside(handle, range));
        let Some((bytes, rest)) = split else { return false };
        work(&RestView { rest, places }, bytes);
        true
    }

    fn version(&self, span: Span) -> Option<u64> {
        let (handle, _) = self.places.place(span)?;
        Some(self.store.get(handle)?.version())
    }
}

/// A task's memory without the bytes that are being written.
struct RestView<'a> {
    rest: Rest<'a>,
    places: &'a Places<'a>,
}

impl Memory for RestView<'_> {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        let (handle, range) = self.places.place(Span { port, address, length })?;
        self.rest.bytes(handle, range)
    }

    fn write(&mut self, _: Port, _: u64, _: usize) -> Option<&mut [u8]> {
        None
    }

    fn version(&self, span: Span) -> Option<u64> {
        let (handle, _) = self.places.place(span)?;
        self.rest.version(handle)
    }
}
