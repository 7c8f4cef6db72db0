// SPDX-License-Identifier: GPL-2.0-only

//! The memory behind a buffer, and a task's reference to it.
//!
//! `gem.rs` makes a GEM object of it. A task needs no DRM types.

use core::ptr::NonNull;

use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

use super::{
    budget::Charge,
    ffi, //
};

/// The source of a new object's memory.
pub(crate) enum Source {
    /// Allocated, with its charge and the helpers' flags.
    New(Charge, u32),
    /// Allocated in the device's SRAM, with its charge.
    Sram(Charge),
    /// Another driver's buffer, attached and mapped for this device.
    Imported { attachment: *mut bindings::dma_buf_attachment, table: *mut bindings::sg_table },
}

/// The driver's part of a GEM object.
#[pin_data(PinnedDrop)]
pub(crate) struct Data {
    memory: NonNull<ffi::Memory>,
    /// The charge to the client that allocated it, or to the first client with a handle of another driver's memory.
    #[pin]
    charge: Mutex<Option<Charge>>,
}

// SAFETY: The memory's description is protected by the helpers' locks.
unsafe impl Send for Data {}
// SAFETY: As above.
unsafe impl Sync for Data {}

#[pinned_drop]
impl PinnedDrop for Data {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The memory is the object's.
        unsafe { ffi::nvdla_memory_free(self.memory.as_ptr()) };
    }
}

impl Data {
    /// The memory of a new object of the device `drm`.
    ///
    /// # Safety
    ///
    /// `drm` must be a device of this driver, and what `source` imports a mapped attachment of it.
    pub(crate) unsafe fn new(drm: *mut bindings::drm_device, size: usize, source: Source) -> impl PinInit<Self, Error> {
        let size = size as u64;
        let (charge, memory) = match source {
            // SAFETY: `drm` is valid, and the caller of GEM_CREATE holds the device bound.
            Source::New(charge, flags) => (Some(charge), unsafe { ffi::nvdla_memory_alloc(drm, size, flags) }),
            // SAFETY: As above.
            Source::Sram(charge) => (Some(charge), unsafe { ffi::nvdla_memory_alloc_sram(drm, size) }),
            Source::Imported { attachment, table } => {
                // SAFETY: PRIME import passes a mapped attachment.
                (None, unsafe { ffi::nvdla_memory_import(drm, attachment, table) })
            }
        };
        // A memory whose object fails to be made is freed with this value.
        let memory = from_err_ptr(memory).map(New);
        try_pin_init!(Self {
            memory: memory?.take(),
            charge <- new_mutex!(charge),
        }? Error)
    }

    /// The pointer for the C helpers.
    pub(crate) fn raw(&self) -> *mut ffi::Memory {
        self.memory.as_ptr()
    }

    /// The device's address of the first byte.
    pub(crate) fn dma_address(&self) -> u64 {
        // SAFETY: Constant after the creation.
        unsafe { (*self.raw()).dma_address }
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> u64 {
        // SAFETY: As above.
        unsafe { (*self.raw()).size }
    }

    /// Whether the buffer is in the device's SRAM.
    pub(crate) fn is_sram(&self) -> bool {
        // SAFETY: As above.
        unsafe { !(*self.raw()).block.is_null() }
    }

    /// Whether the buffer is another driver's.
    pub(crate) fn is_imported(&self) -> bool {
        // SAFETY: As above.
        unsafe { !(*self.raw()).dma_buf.is_null() }
    }

    /// Charges a client for another driver's memory, unless one has been charged already.
    pub(crate) fn charge(&self, charge: impl FnOnce() -> Result<Charge>) -> Result {
        let mut held = self.charge.lock();
        if held.is_none() {
            *held = Some(charge()?);
        }
        Ok(())
    }

    /// Maps the memory for the kernel. Sleeps. `EOPNOTSUPP` for memory that the processor cannot access like normal memory, as the
    /// SRAM, which may go with its device at any time.
    pub(crate) fn open(&self) -> Result {
        // SAFETY: The memory is the object's.
        to_result(unsafe { ffi::nvdla_memory_open(self.raw()) })
    }

    /// Begins reads: maps the memory, and makes visible what devices have written to another driver's memory. May wait for its
    /// fences.
    pub(crate) fn begin_read(&self) -> Result {
        self.open()?;
        // SAFETY: As above.
        to_result(unsafe { ffi::nvdla_memory_begin_read(self.raw()) })
    }

    /// Ends reads that [`Self::begin_read`] has begun.
    pub(crate) fn end_read(&self) {
        // SAFETY: As above.
        unsafe { ffi::nvdla_memory_end_read(self.raw()) };
    }

    /// Copies bytes out of memory that is open. Returns `false` if the range is not inside the buffer.
    ///
    /// User space may write the buffer at the same time. Therefore the bytes are copied once, by a function that the compiler
    /// cannot inline, and only the copy is examined.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        if !self.holds(offset, into.len()) {
            return false;
        }
        // SAFETY: The range lies inside the memory, which is mapped, and `into` has the same length. Others may write the
        // memory meanwhile, and any value is acceptable.
        unsafe { ffi::nvdla_memory_read(self.raw(), offset, into.as_mut_ptr().cast(), into.len()) };
        true
    }

    /// Copies bytes into memory that is open. Returns `false` if the range is not inside the buffer.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) -> bool {
        if !self.holds(offset, from.len()) {
            return false;
        }
        // SAFETY: The range lies inside the memory, which is mapped; bytes have no invariants.
        unsafe { ffi::nvdla_memory_write(self.raw(), offset, from.as_ptr().cast(), from.len()) };
        true
    }

    /// Makes writes of the processor visible to the device, or writes of devices to the processor, if either caches the memory.
    pub(crate) fn sync(&self, read: bool, write: bool, to_device: bool) -> Result {
        // SAFETY: The memory is the object's.
        to_result(unsafe { ffi::nvdla_memory_sync(self.raw(), read, write, to_device) })
    }

    /// Makes the memory a part of a client's domain of its device, until [`Self::leave`] is called as often as this.
    pub(crate) fn enter(&self, domain: &ffi::Domain) -> Result {
        // SAFETY: The memory is the object's, and a domain's client has buffers of one device.
        unsafe { domain.add(self.raw()) }
    }

    /// The opposite of [`Self::enter`].
    pub(crate) fn leave(&self, domain: &ffi::Domain) {
        // SAFETY: As above.
        unsafe { domain.remove(self.raw()) };
    }

    /// Makes the memory permanent: it is never freed, because a device that cannot be stopped may still write it.
    ///
    /// # Safety
    ///
    /// One caller at a time for all buffers of a device.
    pub(crate) unsafe fn lose(&self) {
        // SAFETY: No other thread reads the mark before the object is dropped.
        unsafe { ffi::nvdla_memory_lose(self.raw()) };
    }

    fn holds(&self, offset: u64, length: usize) -> bool {
        offset.checked_add(length as u64).is_some_and(|end| end <= self.size())
    }
}

/// Memory that no object owns yet.
struct New(*mut ffi::Memory);

impl New {
    fn take(self) -> NonNull<ffi::Memory> {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: The helpers return an error or a valid pointer.
        unsafe { NonNull::new_unchecked(this.0) }
    }
}

impl Drop for New {
    fn drop(&mut self) {
        // SAFETY: Nobody else has the memory.
        unsafe { ffi::nvdla_memory_free(self.0) };
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

// SAFETY: The value has a reference to the object.
unsafe impl ffi::HeldObject for Held {
    fn raw(&self) -> *mut bindings::drm_gem_object {
        self.object.as_ptr()
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
