// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memory that the processor and the device share.

use core::marker::PhantomData;
use core::ptr::NonNull;

/// The arena of a network, and where the device sees it.
///
/// It is kept as a pointer, because the device writes to it while a task runs: a slice that lives during a run would say that
/// nobody else does. A slice is made for each access of the processor, and none lives while a task runs.
pub(crate) struct Arena<'a> {
    start: NonNull<u8>,
    size: usize,
    address: u64,
    owner: PhantomData<&'a mut [u8]>,
}

impl<'a> Arena<'a> {
    /// The arena of these bytes, which the device sees at `address`.
    pub(crate) fn new(bytes: &'a mut [u8], address: u64) -> Self {
        Self { size: bytes.len(), start: NonNull::from(bytes).cast(), address, owner: PhantomData }
    }

    /// The device's address of its first byte.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory belongs to this value for `'a`, and has `size` bytes. The device writes it only during
        // `Device::run`, which has the network exclusively, so no slice lives then.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }

    /// Its bytes, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the exclusive reference keeps every other slice away.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }
}

// SAFETY: it is the only owner of its memory, like the `&mut [u8]` that it was made of.
unsafe impl Send for Arena<'_> {}
