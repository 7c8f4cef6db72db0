// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memory of an emulated task: ranges of its owner's buffers.

use std::ops::Range;

use super::contract::Device;
use super::types::{AddressEntry, Handle};
use crate::emulator;

/// The owner of buffers.
pub(crate) trait Owned {
    /// The buffer's bytes; empty when there is no such buffer.
    fn bytes(&self, handle: Handle) -> &[u8];

    /// The buffer's bytes, to be written; empty when there is no such buffer.
    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8];
}

impl<D: Device> Owned for &mut D {
    fn bytes(&self, handle: Handle) -> &[u8] {
        (**self).bytes(handle)
    }

    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        (**self).bytes_mut(handle)
    }
}

/// The part of its owner's buffers that an emulated task can access.
pub(crate) struct EmulatedMemory<O> {
    owner: O,
    addresses: Vec<AddressEntry>,
}

impl<O: Owned> EmulatedMemory<O> {
    /// The memory of a task with that address list.
    pub(crate) fn new(owner: O, addresses: Vec<AddressEntry>) -> Self {
        Self { owner, addresses }
    }

    /// The buffer, and the range in it for `length` bytes at `offset` of an entry, if they lie inside the entry.
    fn place(&self, index: usize, offset: u64, length: usize) -> Option<(Handle, Range<usize>)> {
        let address = self.addresses.get(index)?;
        if offset.checked_add(length as u64)? > address.size {
            return None;
        }
        let start = usize::try_from(address.offset.checked_add(offset)?).ok()?;
        Some((address.handle, start..start.checked_add(length)?))
    }
}

impl<O: Owned> emulator::Memory for EmulatedMemory<O> {
    fn size(&self, index: usize) -> Option<u64> {
        self.addresses.get(index).map(|address| address.size)
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> bool {
        let place = self.place(index, offset, into.len());
        let from = place.and_then(|(handle, range)| self.owner.bytes(handle).get(range));
        from.map(|from| into.copy_from_slice(from)).is_some()
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> bool {
        let Some((handle, range)) = self.place(index, offset, from.len()) else { return false };
        let into = self.owner.bytes_mut(handle).get_mut(range);
        into.map(|into| into.copy_from_slice(from)).is_some()
    }
}
