// SPDX-License-Identifier: GPL-2.0-only

//! Buffers: GEM objects whose memory is contiguous in DMA addresses, because NVDLA has no scatter list.
//!
//! A buffer is mapped, exported and imported through DRM's own PRIME and mmap. It lives as long as anyone holds it: a
//! handle, a mapping, a dma-buf, or a task that is queued or running.

use kernel::{
    bindings,
    drm::{
        self,
        gem::{
            self,
            IntoGEMObject, //
        },
    },
    error::{
        from_err_ptr,
        to_result, //
    },
    page,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    },
    types::Opaque, //
};

use super::{
    budget::{
        self,
        Budget,
        Charge, //
    },
    client::Client,
    driver::{
        drm_raw,
        Driver, //
    },
    ffi, //
};

/// The driver's part of a GEM object.
#[pin_data(PinnedDrop)]
pub(crate) struct Data {
    #[pin]
    memory: Opaque<ffi::Memory>,
    /// What it costs the client that made it; nothing where it is another driver's.
    _charge: Option<Charge>,
}

// SAFETY: The memory's description does not change between creation and drop.
unsafe impl Send for Data {}
// SAFETY: As above.
unsafe impl Sync for Data {}

/// A buffer.
pub(crate) type Object = gem::Object<Data>;

/// A reference to a buffer that may wander between threads.
///
/// The kernel crate's plain GEM object is neither `Send` nor `Sync`, only because nobody has said that it is.
pub(crate) struct Held(ARef<Object>);

// SAFETY: A GEM object is reference-counted; our part of it does not change after its creation.
unsafe impl Send for Held {}
// SAFETY: As above.
unsafe impl Sync for Held {}

impl From<ARef<Object>> for Held {
    fn from(object: ARef<Object>) -> Self {
        Self(object)
    }
}

impl core::ops::Deref for Held {
    type Target = Data;

    fn deref(&self) -> &Data {
        &self.0
    }
}

/// Where a new object's memory comes from.
pub(crate) enum Source {
    /// Allocated for it, at that cost.
    New(Charge),
    /// Another driver's buffer, attached and mapped for this device.
    Imported { attachment: *mut bindings::dma_buf_attachment, table: *mut bindings::sg_table },
}

impl gem::DriverObject for Data {
    type Driver = Driver;
    type Args = Source;

    fn new(dev: &drm::Device<Driver>, size: usize, source: Source) -> impl PinInit<Self, Error> {
        let drm = drm_raw(dev);
        let (charge, import) = match source {
            Source::New(charge) => (Some(charge), None),
            Source::Imported { attachment, table } => (None, Some((attachment, table))),
        };
        try_pin_init!(Self {
            memory <- Opaque::try_ffi_init(move |slot: *mut ffi::Memory| {
                // SAFETY: `slot` is valid for a write.
                unsafe { slot.write(ffi::Memory::empty()) };
                to_result(match import {
                    // SAFETY: `drm` and `slot` are valid.
                    None => unsafe { ffi::nvdla_memory_alloc(drm, size as u64, slot) },
                    // SAFETY: PRIME import hands over a mapped attachment; `slot` is valid.
                    Some((attachment, table)) => unsafe { ffi::nvdla_memory_import(attachment, table, slot) },
                })
            }),
            _charge: charge,
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Data {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The memory was initialised with the object.
        unsafe { ffi::nvdla_memory_free(self.memory.get()) };
    }
}

impl Data {
    /// The device's address of the first byte.
    pub(crate) fn dma_address(&self) -> u64 {
        // SAFETY: Initialised, and constant from then on.
        unsafe { (*self.memory.get()).dma_address }
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        // SAFETY: As above.
        unsafe { (*self.memory.get()).size }
    }

    /// Copies bytes out. `false` when the range leaves the buffer.
    ///
    /// User space may write the buffer meanwhile: the copy is taken once, by a function that the compiler cannot look into,
    /// and only the copy is looked at.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        if !self.holds(offset, into.len()) {
            return false;
        }
        // SAFETY: The range lies inside the memory, and `into` has as many bytes. Any value that others write there
        // meanwhile is acceptable.
        unsafe { ffi::nvdla_memory_read(self.memory.get(), offset, into.as_mut_ptr().cast(), into.len()) };
        true
    }

    /// Copies bytes in. `false` when the range leaves the buffer.
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

    /// The memory is never given back, because a device that nobody can stop may still write it.
    ///
    /// # Safety
    ///
    /// One caller at a time for all buffers of a device.
    pub(crate) unsafe fn lose(&self) {
        // SAFETY: Initialised; nobody else reads the mark before the object is dropped.
        unsafe { ffi::nvdla_memory_lose(self.memory.get()) };
    }

    fn holds(&self, offset: u64, length: usize) -> bool {
        offset.checked_add(length as u64).is_some_and(|end| end <= self.size())
    }
}

/// Allocates a buffer of at least `size` bytes, which a client is charged for.
pub(crate) fn create(dev: &drm::Device<Driver>, budget: &Arc<Budget>, size: u64) -> Result<ARef<Object>> {
    let size = usize::try_from(size).ok().and_then(page::page_align).filter(|&size| size != 0).ok_or(EINVAL)?;
    let charge = budget.charge(budget::Kind::Buffers, budget::cost_of_buffer(size))?;
    let object = Object::new(dev, size, Source::New(charge))?;
    // SAFETY: The object is ours alone so far.
    unsafe { ffi::nvdla_gem_extend(object.as_raw()) };
    Ok(object)
}

/// The buffer behind a dma-buf descriptor.
pub(crate) fn from_fd(
    dev: &drm::Device<Driver>,
    file: &drm::File<Client>,
    fd: i32,
) -> Result<ARef<Object>> {
    // SAFETY: Device and file are valid for the call.
    let raw = from_err_ptr(unsafe {
        ffi::nvdla_gem_from_fd(drm_raw(dev), core::ptr::from_ref(file).cast_mut().cast(), fd)
    })?;
    // SAFETY: The helper gives an object of this driver with a reference for us.
    Ok(unsafe { ARef::from_raw(core::ptr::NonNull::from(Object::from_raw(raw))) })
}

/// The memory of an object, for the C helpers.
///
/// # Safety
///
/// `object` must be a GEM object of this driver.
#[no_mangle]
#[allow(improper_ctypes_definitions)]
unsafe extern "C" fn nvdla_object_memory(object: *mut bindings::drm_gem_object) -> *mut ffi::Memory {
    // SAFETY: By this function's condition; the reference ends here.
    let object: &Object = unsafe { Object::from_raw(object) };
    object.memory.get()
}

/// Makes an object of another driver's buffer: DRM's `gem_prime_import_sg_table`.
///
/// # Safety
///
/// Called by DRM's PRIME import alone.
#[no_mangle]
#[allow(improper_ctypes_definitions)]
unsafe extern "C" fn nvdla_object_import(
    dev: *mut bindings::drm_device,
    attachment: *mut bindings::dma_buf_attachment,
    table: *mut bindings::sg_table,
) -> *mut bindings::drm_gem_object {
    // SAFETY: DRM calls this for a device of this driver.
    let dev: &drm::Device<Driver> = unsafe { drm::Device::from_raw(dev) };
    // SAFETY: The attachment is valid for the call.
    let size = unsafe { (*(*attachment).dmabuf).size };
    match Object::new(dev, size, Source::Imported { attachment, table }) {
        Ok(object) => {
            // SAFETY: The object is ours alone so far.
            unsafe { ffi::nvdla_gem_extend(object.as_raw()) };
            let raw = object.as_raw();
            core::mem::forget(object);
            raw
        }
        Err(error) => error.to_ptr(),
    }
}
