// SPDX-License-Identifier: GPL-2.0-only

//! Buffers: GEM objects whose memory is contiguous in DMA addresses, because NVDLA has no scatter list.
//!
//! `memory.rs` has the parts that a task needs from a buffer. DRM's own PRIME and mmap functions map, export and import a buffer.
//! It lives until the last reference is dropped: a handle, a mapping, a dma-buf, or a queued or running task.

use kernel::{
    bindings,
    drm::{
        self,
        gem::{
            self,
            IntoGEMObject, //
        },
    },
    error::from_err_ptr,
    page,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    }, //
};

use super::{
    budget::{
        self,
        Budget, //
    },
    client::Client,
    driver::{
        drm_raw,
        Driver, //
    },
    ffi,
    memory::{
        Data,
        Held,
        Source, //
    },
    uapi::queue,
};

/// A buffer.
pub(crate) type Object = gem::Object<Data>;

impl gem::DriverObject for Data {
    type Driver = Driver;
    type Args = Source;

    fn new(dev: &drm::Device<Driver>, size: usize, source: Source) -> impl PinInit<Self, Error> {
        // SAFETY: The device is of this driver, and only PRIME imports buffers.
        unsafe { Data::new(drm_raw(dev), size, source) }
    }
}

/// A task's reference to a buffer.
pub(crate) fn hold(object: ARef<Object>) -> Held {
    let data: *const Data = &**object;
    let raw = object.as_raw();
    core::mem::forget(object);
    // SAFETY: The reference to the object is handed over, and the object holds the data.
    unsafe { Held::new(raw, data) }
}

/// Allocates a buffer of at least `size` bytes, and charges the client for it. `flags` are those of GEM_CREATE.
pub(crate) fn create(dev: &drm::Device<Driver>, budget: &Arc<Budget>, size: u64, flags: u32) -> Result<ARef<Object>> {
    let size = usize::try_from(size).ok().and_then(page::page_align).filter(|&size| size != 0).ok_or(EINVAL)?;
    let source = if flags & queue::GEM_CREATE_SRAM != 0 {
        Source::Sram(budget.charge(budget::Kind::Sram, size as u64)?)
    } else {
        let cached = if flags & queue::GEM_CREATE_CACHED != 0 { ffi::MEMORY_CACHED } else { 0 };
        Source::New(budget.charge(budget::Kind::Buffers, budget::cost_of_buffer(size))?, cached)
    };
    let object = Object::new(dev, size, source)?;
    // SAFETY: The object is ours alone so far.
    unsafe { ffi::nvdla_gem_extend(object.as_raw()) };
    Ok(object)
}

/// The buffer behind a dma-buf descriptor. Another driver's buffer is charged to the client.
pub(crate) fn from_fd(dev: &drm::Device<Driver>, budget: &Arc<Budget>, fd: i32) -> Result<ARef<Object>> {
    // SAFETY: The device is valid for the call.
    let raw = from_err_ptr(unsafe { ffi::nvdla_gem_from_fd(drm_raw(dev), fd) })?;
    // SAFETY: The helper gives an object of this driver with a reference for us.
    let object: ARef<Object> = unsafe { ARef::from_raw(core::ptr::NonNull::from(Object::from_raw(raw))) };
    charge(&object, budget)?;
    Ok(object)
}

/// Charges a client for another driver's buffer, unless one has been charged already.
fn charge(object: &Object, budget: &Arc<Budget>) -> Result {
    if !object.is_imported() {
        return Ok(());
    }
    let cost = budget::cost_of_buffer(usize::try_from(Data::size(object))?);
    object.charge(|| budget.charge(budget::Kind::Buffers, cost))
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
    object.raw()
}

/// Makes an object for another driver's buffer: DRM's `gem_prime_import_sg_table`.
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
            // SAFETY: The object is ours alone so far, and its memory is the attachment's.
            unsafe {
                ffi::nvdla_gem_extend(object.as_raw());
                ffi::nvdla_memory_imported(object.raw(), attachment, table);
            }
            let raw = object.as_raw();
            core::mem::forget(object);
            raw
        }
        Err(error) => error.to_ptr(),
    }
}

/// A client gets a handle of an object, which becomes a part of the client's domain. Another driver's memory is charged to the first
/// such client. Returns 0 or an error, after which the client has no handle.
///
/// # Safety
///
/// `object` must be a GEM object of this driver, and `file` an open file of its device.
#[no_mangle]
#[allow(improper_ctypes_definitions)]
unsafe extern "C" fn nvdla_object_opened(
    object: *mut bindings::drm_gem_object,
    file: *mut bindings::drm_file,
) -> c_int {
    // SAFETY: By this function's condition.
    let object: &Object = unsafe { Object::from_raw(object) };
    // SAFETY: As above.
    let file: &drm::File<Client> = unsafe { drm::File::from_raw(file) };
    let client = file.inner();
    client
        .accelerator()
        .with_room(|| charge(object, client.budget()))
        .and_then(|()| client.domain().map_or(Ok(()), |domain| object.enter(domain)))
        .map_or_else(Error::to_errno, |()| 0)
}

/// A client has one handle of an object less.
///
/// # Safety
///
/// As [`nvdla_object_opened`], which has succeeded.
#[no_mangle]
#[allow(improper_ctypes_definitions)]
unsafe extern "C" fn nvdla_object_closed(object: *mut bindings::drm_gem_object, file: *mut bindings::drm_file) {
    // SAFETY: By this function's condition.
    let object: &Object = unsafe { Object::from_raw(object) };
    // SAFETY: As above.
    let file: &drm::File<Client> = unsafe { drm::File::from_raw(file) };
    if let Some(domain) = file.inner().domain() {
        object.leave(domain);
    }
}
