// SPDX-License-Identifier: GPL-2.0-only

//! The memory behind a buffer, and a task's reference to it.
//!
//! `gem.rs` makes a GEM object of it. A task needs no DRM types.

use core::ptr::NonNull;

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::Opaque, //
};

use super::{
    budget::Charge,
    ffi, //
};

/// The source of a new object's memory.
pub(crate) enum Source {
    /// Allocated, with its charge.
    New(Charge),
    /// Allocated in the device's SRAM, with its charge.
    Sram(Charge),
    /// Another driver's buffer, attached and mapped for this device.
    Imported { attachment: *mut bindings::dma_buf_attachment, table: *mut bindings::sg_table },
}

/// The driver's part of a GEM object.
#[pin_data(PinnedDrop)]
pub(crate) struct Data {
    #[pin]
    memory: Opaque<ffi::Memory>,
    /// The charge to the client that allocated it; none for another driver's memory.
    _charge: Option<Charge>,
}

// SAFETY: The memory's description does not change between creation and drop.
unsafe impl Send for Data {}
// SAFETY: As above.
unsafe impl Sync for Data {}

#[pinned_drop]
impl PinnedDrop for Data {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The memory was initialised with the object.
        unsafe { ffi::nvdla_memory_free(self.memory.get()) };
    }
}

impl Data {
    /// The memory of a new object of the device `drm`.
    ///
    /// # Safety
    ///
    /// `drm` must be a device of this driver, and what `source` imports a mapped attachment of it.
    pub(crate) unsafe fn new(drm: *mut bindings::drm_device, size: usize, source: Source) -> impl PinInit<Self, Error> {
        let (charge, import, sram) = match source {
            Source::New(charge) => (Some(charge), None, false),
            Source::Sram(charge) => (Some(charge), None, true),
            Source::Imported { attachment, table } => (None, Some((attachment, table)), false),
        };
        try_pin_init!(Self {
            memory <- Opaque::try_ffi_init(move |slot: *mut ffi::Memory| {
                // SAFETY: `slot` is valid for a write.
                unsafe { slot.write(ffi::Memory::empty()) };
                to_result(match import {
                    // SAFETY: `drm` and `slot` are valid, and the caller of GEM_CREATE holds the device bound.
                    None if sram => unsafe { ffi::nvdla_memory_alloc_sram(drm, size as u64, slot) },
                    // SAFETY: `drm` and `slot` are valid.
                    None => unsafe { ffi::nvdla_memory_alloc(drm, size as u64, slot) },
                    // SAFETY: PRIME import passes a mapped attachment; `slot` is valid.
                    Some((attachment, table)) => unsafe { ffi::nvdla_memory_import(attachment, table, slot) },
                })
            }),
            _charge: charge,
        })
    }

    /// The pointer for the C helpers.
    pub(crate) fn raw(&self) -> *mut ffi::Memory {
        self.memory.get()
    }

    /// The device's address of the first byte.
    pub(crate) fn dma_address(&self) -> u64 {
        // SAFETY: Initialised, and constant from then on.
        unsafe { (*self.memory.get()).dma_address }
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> u64 {
        // SAFETY: As above.
        unsafe { (*self.memory.get()).size }
    }

    /// Whether the buffer is in the device's SRAM.
    pub(crate) fn is_sram(&self) -> bool {
        // SAFETY: As above.
        unsafe { !(*self.memory.get()).block.is_null() }
    }

    /// Copies bytes out. Returns `false` if the range is not inside the buffer, or the buffer is in SRAM.
    ///
    /// User space may write the buffer at the same time. Therefore the bytes are copied once, by a function that the compiler
    /// cannot inline, and only the copy is examined.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        if !self.holds(offset, into.len()) {
            return false;
        }
        // SAFETY: The range lies inside the memory, and `into` has the same length. Others may write the memory
        // meanwhile, and any value is acceptable.
        unsafe { ffi::nvdla_memory_read(self.memory.get(), offset, into.as_mut_ptr().cast(), into.len()) };
        true
    }

    /// Copies bytes in. Returns `false` if the range is not inside the buffer, or the buffer is in SRAM.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) -> bool {
        if !self.holds(offset, from.len()) {
            return false;
        }
        // SAFETY: The range lies inside the memory; bytes have no invariants.
        unsafe {
            core::ptr::copy_nonoverlapping(
                from.as_ptr(),
                (*self.memory.get()).vaddr.cast::<u8>().add(offset as usize),
                from.len(),
            );
        }
        true
    }

    /// Makes the memory permanent: it is never freed, because a device that cannot be stopped may still write it.
    ///
    /// # Safety
    ///
    /// One caller at a time for all buffers of a device.
    pub(crate) unsafe fn lose(&self) {
        // SAFETY: Initialised; no other thread reads the mark before the object is dropped.
        unsafe { ffi::nvdla_memory_lose(self.memory.get()) };
    }

    /// Whether the processor can access the range. The SRAM may go with its device at any time.
    fn holds(&self, offset: u64, length: usize) -> bool {
        !self.is_sram() && offset.checked_add(length as u64).is_some_and(|end| end <= self.size())
    }
}

/// A reference to a buffer that may be sent between threads.
pub(crate) struct Held {
    object: NonNull<bindings::drm_gem_object>,
    data: NonNull<Data>,
}

// SAFETY: A GEM object is reference-counted; our part of it does not change after its creation.
unsafe impl Send for Held {}
// SAFETY: As above.
unsafe impl Sync for Held {}

impl Held {
    /// Takes over a reference to an object; `data` is the object's memory.
    ///
    /// # Safety
    ///
    /// `object` must be a GEM object of this driver with a reference that passes to this value, and `data` a part of
    /// it.
    pub(crate) unsafe fn new(object: *mut bindings::drm_gem_object, data: *const Data) -> Self {
        // SAFETY: By this function's condition neither is null.
        unsafe { Self { object: NonNull::new_unchecked(object), data: NonNull::new_unchecked(data.cast_mut()) } }
    }
}

impl core::ops::Deref for Held {
    type Target = Data;

    fn deref(&self) -> &Data {
        // SAFETY: The reference keeps the object alive, and the data is a part of the object.
        unsafe { self.data.as_ref() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::drm_gem_object_put(self.object.as_ptr()) };
    }
}
