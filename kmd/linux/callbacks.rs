// SPDX-License-Identifier: GPL-2.0-only

//! The functions that C calls with the accelerator that it was given (`worker.c`, `power.c`, `table.c`).

use kernel::{
    bindings,
    drm,
    prelude::*,
    seq_file::SeqFile, //
};

use super::{
    accelerator::Accelerator,
    driver::Driver, //
};

/// The worker was kicked.
///
/// # Safety
///
/// `core` must be the accelerator that the worker was made with.
#[no_mangle]
unsafe extern "C" fn nvdla_core_advance(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.advance();
}

/// A fence that tasks wait for has signalled.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_unblock(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.unblock();
}

/// The task that is next needs another domain.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_attach(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.attach();
}

/// The watchdog fired.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_expired(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.expired();
}

/// Tasks have ended, and are to be freed.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_clean(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.clean();
}

/// The machine is suspended.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_suspend(core: *mut c_void) -> c_int {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.suspend().map_or_else(Error::to_errno, |()| 0)
}

/// The machine is resumed. The device may stay runtime-suspended.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_resume(core: *mut c_void, asleep: bool) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.resume(asleep);
}

/// The sleep of the machine has ended.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_revive(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.revive();
}

/// The device, which has no task, is about to be runtime-suspended.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_rest(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.rest();
}

/// The device was runtime-resumed.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_wake(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.wake();
}

/// Somebody else is about to reset the device.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_reset_prepare(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.reset_prepare();
}

/// The reset of somebody else has ended.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_reset_done(core: *mut c_void, asleep: bool) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.reset_done(asleep);
}

/// The bus has given the device up.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_reset_failed(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.reset_failed();
}

/// The machine is about to be switched off, or to start another kernel.
///
/// # Safety
///
/// As [`nvdla_core_advance`].
#[no_mangle]
unsafe extern "C" fn nvdla_core_stop(core: *mut c_void) {
    // SAFETY: By this function's condition.
    unsafe { &*core.cast::<Accelerator>() }.stop();
}

/// Prints the device's state to a debugfs file.
///
/// # Safety
///
/// `drm` must be a registered device of this driver, `file` one that is being read.
#[no_mangle]
#[allow(improper_ctypes_definitions)]
unsafe extern "C" fn nvdla_core_show(drm: *mut bindings::drm_device, file: *mut bindings::seq_file) {
    // SAFETY: By this function's condition.
    let device: &drm::Device<Driver> = unsafe { drm::Device::from_raw(drm) };
    // SAFETY: As above; the reader holds it.
    (**device).show(unsafe { SeqFile::from_raw(file) });
}
