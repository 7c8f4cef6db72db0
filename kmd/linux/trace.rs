// SPDX-License-Identifier: GPL-2.0-only

//! The trace events (`trace.h`) of a task, from the ioctl to its fence.

use kernel::{
    bindings,
    device,
    fmt,
    prelude::*,
    str::CString, //
};

#[allow(improper_ctypes)]
extern "C" {
    fn nvdla_trace_submit(dev: *mut bindings::device, client: u64, tasks: u32);
    fn nvdla_trace_refused_is_on() -> bool;
    fn nvdla_trace_refused(dev: *mut bindings::device, client: u64, task: u32, reason: *const c_char);
    fn nvdla_trace_task_start(dev: *mut bindings::device, client: u64, task: u64);
    fn nvdla_trace_interrupt(dev: *mut bindings::device);
    fn nvdla_trace_operation_end(dev: *mut bindings::device, operation: u32, unit: u8);
    fn nvdla_trace_task_end(dev: *mut bindings::device, client: u64, task: u64, status: c_int, busy_ns: u64);
}

fn raw(dev: &device::Device) -> *mut bindings::device {
    // The kernel crate's device is a transparent wrapper.
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// A submission has entered the driver, and is not checked yet.
pub(crate) fn submit(dev: &device::Device, client: u64, tasks: u32) {
    // SAFETY: The device exists.
    unsafe { nvdla_trace_submit(raw(dev), client, tasks) };
}

/// A task of a submission is invalid. The reason is made only for somebody who traces.
pub(crate) fn refused(dev: &device::Device, client: u64, task: u32, reason: impl fmt::Display) {
    // SAFETY: No conditions.
    if !unsafe { nvdla_trace_refused_is_on() } {
        return;
    }
    if let Ok(text) = CString::try_from_fmt(fmt!("{reason}")) {
        // SAFETY: The device exists, and the text ends with a zero byte.
        unsafe { nvdla_trace_refused(raw(dev), client, task, text.as_char_ptr()) };
    }
}

/// The first register of a task is about to be written.
pub(crate) fn task_start(dev: &device::Device, client: u64, task: u64) {
    // SAFETY: The device exists.
    unsafe { nvdla_trace_task_start(raw(dev), client, task) };
}

/// The interrupt thread runs.
pub(crate) fn interrupt(dev: &device::Device) {
    // SAFETY: The device exists.
    unsafe { nvdla_trace_interrupt(raw(dev)) };
}

/// An operation has completed.
pub(crate) fn operation_end(dev: &device::Device, operation: u32, unit: u8) {
    // SAFETY: The device exists.
    unsafe { nvdla_trace_operation_end(raw(dev), operation, unit) };
}

/// A task has ended and its fence has signalled.
pub(crate) fn task_end(dev: &device::Device, client: u64, task: u64, result: Result, busy_ns: u64) {
    let status = result.err().map_or(0, Error::to_errno);
    // SAFETY: The device exists.
    unsafe { nvdla_trace_task_end(raw(dev), client, task, status, busy_ns) };
}
