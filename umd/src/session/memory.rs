// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memories of a session: allocated in the loadable's order and filled with its blobs.

use std::sync::Arc;

use super::error::Error;
use super::plan::TaskPlan;
use super::state::{Allocated, Session};
use crate::{
    device::{AddressEntry, Buffers, Device, Handle},
    loadable::{Loadable, Memory, MemoryFlags},
    operations::lists::{wants_sram, Slot},
};

impl<D: Device> Session<D> {
    /// Allocates the memories in the order of the list.
    pub(super) fn allocate_memories(&mut self, constants: &[Option<Handle>]) -> Result<(), Error> {
        let loadable = Arc::clone(&self.loadable);
        for (at, memory) in loadable.memories().iter().enumerate() {
            let size = memory.size();
            if let Some(&Some(handle)) = constants.get(at) {
                self.memories.push(Allocated { handle: Some(handle), size, shared: true, bound: None });
                continue;
            }
            let handle =
                if memory.flags().has(MemoryFlags::ALLOC) { Some(self.allocate_memory(memory)?) } else { None };
            self.memories.push(Allocated { handle, size, shared: false, bound: None });
        }
        Ok(())
    }

    /// Allocates a memory, in SRAM if the loadable wants that and the device has enough. Results are the same in both cases.
    fn allocate_memory(&mut self, memory: Memory<'_>) -> Result<Handle, Error> {
        let (id, size) = (memory.id(), memory.size());
        let failed = |source| Error::Allocate { memory: id, size, source };
        if wants_sram(memory) {
            if let Some(handle) = self.device.allocate_sram(size).map_err(failed)? {
                tracing::info!("memory {id} of {size} bytes is in SRAM");
                return Ok(handle);
            }
            let device = self.device.info();
            tracing::info!("{device} has no free SRAM of {size} bytes: memory {id} is in normal memory");
        }
        self.device.allocate(size).map_err(failed)
    }

    /// Replaces a memory that other sessions also read by a copy for this session.
    pub(super) fn own(&mut self, at: usize) -> Result<(), Error> {
        let Some(&Allocated { handle: Some(old), size, shared: true, .. }) = self.memories.get(at) else {
            return Ok(());
        };
        let memory = self.loadable.memories().get(at).map_or(0, Memory::id);
        let new = self.device.allocate(size).map_err(|source| Error::Allocate { memory, size, source })?;
        let bytes = self.device.bytes(old).to_vec();
        if let Some(into) = self.device.bytes_mut(new).get_mut(..bytes.len()) {
            into.copy_from_slice(&bytes);
        }
        self.device.free(old);
        if let Some(memory) = self.memories.get_mut(at) {
            (memory.handle, memory.shared) = (Some(new), false);
        }
        Ok(())
    }

    /// Fills the memories at the positions that `which` accepts.
    pub(super) fn fill(&mut self, which: impl Fn(usize) -> bool) {
        let loadable = Arc::clone(&self.loadable);
        for (at, memory) in loadable.memories().iter().enumerate().filter(|&(at, _)| which(at)) {
            let own = self.memories.get(at).filter(|memory| !memory.shared);
            let Some(handle) = own.and_then(|memory| memory.handle) else { continue };
            fill(&loadable, memory, self.device.bytes_mut(handle));
        }
    }

    /// A task's address list in the form for the device.
    pub(super) fn addresses(&self, task: &TaskPlan) -> Vec<AddressEntry> {
        let entry = |slot: &Slot| {
            let memory = self.memories.get(slot.memory)?;
            let size = memory.bound.map_or(slot.size, |(_, size)| size.saturating_sub(slot.offset));
            Some(AddressEntry { handle: memory.handle()?, offset: slot.offset, size })
        };
        task.slots.iter().filter_map(entry).collect()
    }

    /// The bytes of an entry of a task's address list.
    pub(super) fn slot_bytes<'b>(&self, buffers: &'b dyn Buffers, task: usize, position: usize) -> Option<&'b [u8]> {
        let slot = self.tasks.get(task)?.slots.get(position)?;
        let handle = self.memories.get(slot.memory)?.handle()?;
        range(buffers.bytes(handle), slot.offset, slot.size)
    }

    pub(super) fn write_slot(&mut self, task: usize, position: i16, bytes: &[u8]) -> Result<(), Error> {
        let slot = usize::try_from(position).ok().and_then(|position| self.tasks.get(task)?.slots.get(position));
        let Some(&Slot { memory, offset, .. }) = slot else { return Ok(()) };
        self.own(memory)?;
        let Some(handle) = self.memories.get(memory).and_then(Allocated::handle) else { return Ok(()) };
        let into =
            self.device.bytes_mut(handle).get_mut(offset as usize..).and_then(|into| into.get_mut(..bytes.len()));
        if let Some(into) = into {
            into.copy_from_slice(bytes);
        }
        Ok(())
    }
}

/// Puts a loadable's blobs into one of its memories.
pub(super) fn fill(loadable: &Loadable, memory: Memory<'_>, bytes: &mut [u8]) {
    for (blob, offset) in loadable.contents(memory) {
        // Opening the loadable has checked that the blob fits.
        let into =
            usize::try_from(offset).ok().and_then(|offset| bytes.get_mut(offset..)?.get_mut(..blob.data().len()));
        if let Some(into) = into {
            into.copy_from_slice(blob.data());
        }
    }
}

/// The part of a slice from `offset` on with `size` bytes; `None` if it is not inside.
pub(super) fn range(bytes: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(offset).ok()?..)?.get(..usize::try_from(size).ok()?)
}
