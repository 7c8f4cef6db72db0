// SPDX-License-Identifier: MIT OR Apache-2.0

//! `libnvdla`: the runtime for C and C++. `include/nvdla.h` is generated from this crate.
//!
//! Handles are opaque pointers. A call that can fail returns a status, and [`nvdla_last_error`] returns the text of the
//! last failure of the calling thread. A panic does not leave the library: the call returns `NVDLA_STATUS_PANIC`.
//!
//! Any thread may use any handle, and several threads may use one handle at the same time. Calls on one context are executed one
//! after another; waiting for a run is not such a call. No other thread may use a handle while it is freed, or after that.
#![allow(non_camel_case_types)] // the names that C programs see

mod status;
mod tensor;

use std::ffi::{c_char, c_int, CStr, CString};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, IntoRawFd as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nvdla_runtime::device::{self, Selection, Shared};
use nvdla_runtime::image::{Encoder, Given, PictureFile, Target};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::{self, SubmitOptions, TensorInfo};
use nvdla_runtime::{Context, Network, Pending};

use status::{guard, Failure};
pub use status::{nvdla_last_error, nvdla_status, nvdla_status_name};
pub use tensor::{nvdla_direction, nvdla_tensor, nvdla_type};

/// A network on a device. All its contexts use one copy of its weights.
pub struct nvdla_network {
    network: Network,
    device: CString,
}

/// The inputs and outputs of a network. A context executes one run at a time.
pub struct nvdla_context {
    context: Mutex<Context>,
    inputs: Vec<tensor::Described>,
    outputs: Vec<tensor::Described>,
}

/// A submitted run.
pub struct nvdla_run(Pending);

/// All threads may use handles.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<nvdla_network>();
    shared::<nvdla_context>();
    shared::<nvdla_run>();
};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks a pointer of the caller.
fn check<T>(pointer: *const T, what: &str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::argument(format!("{what} is NULL")));
    }
    if !pointer.is_aligned() {
        return Err(Failure::argument(format!("{what} is at {pointer:p}, which is not aligned for its type")));
    }
    Ok(())
}

/// Borrows the value behind a handle.
unsafe fn of<'a, T>(handle: *const T, what: &str) -> Result<&'a T, Failure> {
    check(handle, what)?;
    // SAFETY: the pointer is checked, and the caller passes a handle that this library returned and that is not freed.
    Ok(unsafe { &*handle })
}

/// Borrows a text of the caller.
unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    check(pointer, what)?;
    // SAFETY: the pointer is checked, and the caller passes a text that ends with a zero byte.
    unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// Borrows a text of the caller that may be NULL.
unsafe fn optional_text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as for `text`.
    unsafe { text(pointer, what) }.map(Some)
}

/// Borrows elements of the caller.
unsafe fn slice<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    // An empty vector of C++ has no elements, and may have no pointer.
    if count == 0 {
        return Ok(&[]);
    }
    check(pointer, what)?;
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::argument(format!("{what} cannot have {count} elements")));
    }
    // SAFETY: the pointer and the size are checked, and the caller passes a pointer to that many elements.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Writes a result to the caller's memory.
unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Failure> {
    check(out, "the pointer for the result")?;
    // SAFETY: the pointer is checked, and the caller passes a pointer to memory of that type.
    unsafe { out.write(value) };
    Ok(())
}

/// Returns a new handle to the caller.
unsafe fn give<T>(out: *mut *mut T, value: T) -> Result<(), Failure> {
    check(out, "the pointer for the result")?;
    // SAFETY: as for `put`.
    unsafe { put(out, Box::into_raw(Box::new(value))) }
}

/// Drops the value behind a handle.
unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() && handle.is_aligned() {
        // SAFETY: `give` made the handle, and the caller does not use it again.
        let value = unsafe { Box::from_raw(handle) };
        // A panic in a destructor cannot be reported.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(value)));
    }
}

fn network(loadable: Loadable, beside: Option<&nvdla_network>, device: Option<&str>) -> Result<nvdla_network, Failure> {
    let device = if let Some(beside) = beside {
        beside.network.device().clone()
    } else {
        let selection = match device {
            Some(name) => name.parse::<Selection>().map_err(Failure::argument)?,
            None => Selection::Auto,
        };
        Shared::new(device::open(&selection, &loadable)?.device)
    };
    let network = Network::new(loadable, &device)?;
    let device = CString::new(device.info().to_string()).unwrap_or_default();
    Ok(nvdla_network { network, device })
}

/// Returns the version of the library, such as "0.1.0".
#[no_mangle]
pub extern "C" fn nvdla_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Loads a network from a file onto a device. `device` is an argument of `nvdla run --device`: "auto" or NULL for the first NVDLA
/// of this machine, or the model if there is none; "model", "model:nv_small", or a device node.
///
/// # Safety
///
/// The texts end with a zero byte; `out` is valid.
#[no_mangle]
pub unsafe extern "C" fn nvdla_network_open(
    path: *const c_char,
    device: *const c_char,
    out: *mut *mut nvdla_network,
) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        let path = unsafe { text(path, "the path") }?;
        // SAFETY: as above.
        let device = unsafe { optional_text(device, "the device") }?;
        let network = network(Loadable::open(path)?, None, device)?;
        // SAFETY: as above.
        unsafe { give(out, network) }
    })
}

/// Loads a network from memory onto a device. The library copies the bytes.
///
/// # Safety
///
/// There are `size` bytes; the text ends with a zero byte; `out` is valid.
#[no_mangle]
pub unsafe extern "C" fn nvdla_network_from_memory(
    bytes: *const u8,
    size: usize,
    device: *const c_char,
    out: *mut *mut nvdla_network,
) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        let bytes = unsafe { slice(bytes, size, "the loadable") }?;
        // SAFETY: as above.
        let device = unsafe { optional_text(device, "the device") }?;
        let network = network(Loadable::from_bytes(bytes)?, None, device)?;
        // SAFETY: as above.
        unsafe { give(out, network) }
    })
}

/// Loads a network from a file onto the device of another network.
///
/// # Safety
///
/// As [`nvdla_network_open`]; `other` is a network.
#[no_mangle]
pub unsafe extern "C" fn nvdla_network_open_beside(
    other: *const nvdla_network,
    path: *const c_char,
    out: *mut *mut nvdla_network,
) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        let (other, path) = unsafe { (of(other, "the other network")?, text(path, "the path")?) };
        let network = network(Loadable::open(path)?, Some(other), None)?;
        // SAFETY: as above.
        unsafe { give(out, network) }
    })
}

/// Returns a description of the device of a network, to be shown to users. The text lives as long as the network. NULL for NULL.
///
/// # Safety
///
/// `network` is a network or NULL.
#[no_mangle]
pub unsafe extern "C" fn nvdla_network_device(network: *const nvdla_network) -> *const c_char {
    // SAFETY: as above.
    unsafe { network.as_ref() }.map_or(std::ptr::null(), |network| network.device.as_ptr())
}

/// Frees a network. Its contexts stay usable.
///
/// # Safety
///
/// `network` is a network that is not used again, or NULL.
#[no_mangle]
pub unsafe extern "C" fn nvdla_network_free(network: *mut nvdla_network) {
    // SAFETY: as above.
    unsafe { free(network) }
}

/// Creates a context. Its inputs are zero.
///
/// # Safety
///
/// `network` is a network; `out` is valid.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_new(
    network: *const nvdla_network,
    out: *mut *mut nvdla_context,
) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        let context = unsafe { of(network, "the network") }?.network.context()?;
        let described = |info: &TensorInfo| tensor::Described::new(info);
        let (inputs, outputs) = (context.inputs().map(described).collect(), context.outputs().map(described).collect());
        // SAFETY: as above.
        unsafe { give(out, nvdla_context { context: Mutex::new(context), inputs, outputs }) }
    })
}

/// Frees a context. The device completes a run in flight first; the run's handle stays usable.
///
/// # Safety
///
/// `context` is a context that is not used again, or NULL.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_free(context: *mut nvdla_context) {
    // SAFETY: as above.
    unsafe { free(context) }
}

impl nvdla_context {
    fn tensors(&self, direction: nvdla_direction) -> &[tensor::Described] {
        match direction {
            nvdla_direction::Input => &self.inputs,
            nvdla_direction::Output => &self.outputs,
        }
    }
}

/// Returns the number of inputs (`NVDLA_DIRECTION_INPUT`) or outputs (`NVDLA_DIRECTION_OUTPUT`); 0 for NULL.
///
/// # Safety
///
/// `context` is a context or NULL.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_count(context: *const nvdla_context, direction: u32) -> usize {
    // SAFETY: as above.
    let context = unsafe { context.as_ref() };
    context.zip(nvdla_direction::of(direction).ok()).map_or(0, |(context, direction)| context.tensors(direction).len())
}

/// Describes an input or output. The name in it lives as long as the context.
///
/// # Safety
///
/// `context` is a context; `out` is valid.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_tensor(
    context: *const nvdla_context,
    direction: u32,
    index: usize,
    out: *mut nvdla_tensor,
) -> nvdla_status {
    guard(|| {
        let direction = nvdla_direction::of(direction)?;
        // SAFETY: as above.
        let tensors = unsafe { of(context, "the context") }?.tensors(direction);
        let found = tensors.get(index).ok_or_else(|| {
            Failure::argument(format!("there is no {} {index}, there are {}", direction.name(), tensors.len()))
        })?;
        // SAFETY: as above.
        unsafe { put(out, found.tensor()) }
    })
}

/// Finds an input or output by its name.
///
/// # Safety
///
/// `context` is a context; the text ends with a zero byte; `out` is valid.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_find(
    context: *const nvdla_context,
    direction: u32,
    name: *const c_char,
    out: *mut usize,
) -> nvdla_status {
    guard(|| {
        let direction = nvdla_direction::of(direction)?;
        // SAFETY: as above.
        let (context, name) = unsafe { (of(context, "the context")?, text(name, "the name")?) };
        let found = lock(&context.context).find(direction.into(), name)?;
        // SAFETY: as above.
        unsafe { put(out, found) }
    })
}

/// Writes an input's bytes, as they lie in memory.
///
/// # Safety
///
/// `context` is a context; there are `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_set_input(
    context: *mut nvdla_context,
    index: usize,
    bytes: *const u8,
    size: usize,
) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        let (context, bytes) = unsafe { (of(context, "the context")?, slice(bytes, size, "the input")?) };
        Ok(lock(&context.context).set_input(index, bytes)?)
    })
}

/// Writes an input from real numbers in NCHW order, converted by the scale that this project's compiler writes into the
/// loadable. Without a scale the numbers are the elements.
///
/// # Safety
///
/// `context` is a context; there are `count` numbers.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_set_input_f32(
    context: *mut nvdla_context,
    index: usize,
    values: *const f32,
    count: usize,
) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        let (context, values) = unsafe { (of(context, "the context")?, slice(values, count, "the input")?) };
        Ok(lock(&context.context).set_input_f32(index, values)?)
    })
}

/// Writes an input from a picture file (pgm, ppm, png or jpeg), as `nvdla run --image` does.
///
/// # Safety
///
/// `context` is a context; the text ends with a zero byte.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_set_input_image(
    context: *mut nvdla_context,
    index: usize,
    path: *const c_char,
) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        let (context, path) = unsafe { (of(context, "the context")?, text(path, "the path")?) };
        let mut context = lock(&context.context);
        let input = context.inputs().nth(index);
        let input = input.ok_or_else(|| Failure::argument(format!("there is no input {index}")))?;
        let encoder = Encoder::new(&Target::from(input), &Given::default().settings(input)?)?;
        let file = PictureFile::open(path)?;
        encoder.check_size(file.width(), file.height())?;
        let picture = file.decode(None)?;
        Ok(encoder.encode(&picture, context.input_mut(index)?)?)
    })
}

/// Copies an output's bytes, as they lie in memory.
///
/// # Safety
///
/// `context` is a context; `bytes` has space for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_output(
    context: *const nvdla_context,
    index: usize,
    bytes: *mut u8,
    size: usize,
) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        let context = lock(&unsafe { of(context, "the context") }?.context);
        // SAFETY: as above.
        unsafe { copy(context.output(index)?, bytes, size) }
    })
}

/// Copies an output as real numbers in NCHW order, converted as for `nvdla_context_set_input_f32`.
///
/// # Safety
///
/// `context` is a context; `values` has space for `count` numbers.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_output_f32(
    context: *const nvdla_context,
    index: usize,
    values: *mut f32,
    count: usize,
) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        let context = lock(&unsafe { of(context, "the context") }?.context);
        // SAFETY: as above.
        unsafe { copy(&context.output_f32(index)?, values, count) }
    })
}

/// Copies an output to the caller's memory.
unsafe fn copy<T: Copy>(from: &[T], to: *mut T, count: usize) -> Result<(), Failure> {
    check(to, "the pointer for the result")?;
    if count != from.len() {
        return Err(Failure::argument(format!("the output has {} elements, and {count} were asked for", from.len())));
    }
    // SAFETY: the caller passes memory of its own with space for `count` elements.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, count) };
    Ok(())
}

/// Runs the network, and returns when the run has ended.
///
/// # Safety
///
/// `context` is a context.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_run(context: *mut nvdla_context) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        lock(&unsafe { of(context, "the context") }?.context).run()?;
        Ok(())
    })
}

/// Submits a run, and returns before it has ended. `timeout_ms` is the time limit of each task in milliseconds; 0 means the
/// device's own limit. Until the run has ended, calls that access the context's inputs and outputs return `NVDLA_STATUS_BUSY`.
///
/// # Safety
///
/// `context` is a context; `out` is valid.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_submit(
    context: *mut nvdla_context,
    timeout_ms: u64,
    out: *mut *mut nvdla_run,
) -> nvdla_status {
    guard(|| {
        check(out, "the pointer for the result")?;
        let timeout = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
        // SAFETY: as above.
        let mut context = lock(&unsafe { of(context, "the context") }?.context);
        let pending = context.submit_with(SubmitOptions { timeout, run_timeout: None })?;
        // SAFETY: as above.
        unsafe { give(out, nvdla_run(pending)) }
    })
}

/// Returns a file descriptor that becomes readable when the run has ended, for `poll`. It belongs to the run. -1 for NULL.
///
/// # Safety
///
/// `run` is a run or NULL.
#[no_mangle]
pub unsafe extern "C" fn nvdla_run_fd(run: *const nvdla_run) -> c_int {
    // SAFETY: as above.
    unsafe { run.as_ref() }.map_or(-1, |run| run.0.as_fd().as_raw_fd())
}

/// Waits until a run has ended, at most `timeout_ms` milliseconds, or without limit if that is negative. Several threads may wait
/// for one run, and one of them gets its result; others get `NVDLA_STATUS_ARGUMENT`. `NVDLA_STATUS_PENDING` means that the run has not ended yet. Any other status is the result of the run, which is returned once.
///
/// # Safety
///
/// `run` is a run.
#[no_mangle]
pub unsafe extern "C" fn nvdla_run_wait(run: *mut nvdla_run, timeout_ms: i64) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        unsafe { of(run, "the run") }?.0.wait(deadline(timeout_ms))?;
        Ok(())
    })
}

/// When a wait of that many milliseconds ends; none for a negative number.
fn deadline(timeout_ms: i64) -> Option<Instant> {
    u64::try_from(timeout_ms).ok().and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)))
}

/// Waits until the context's run has ended, as `nvdla_run_wait` does. The handle of the run may have been freed.
/// `NVDLA_STATUS_OK` if no run is in flight and the result of the last one has been returned.
///
/// # Safety
///
/// `context` is a context.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_wait(context: *mut nvdla_context, timeout_ms: i64) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        let pending = lock(&unsafe { of(context, "the context") }?.context).pending();
        // The context is not locked during the wait.
        match pending.map(|pending| pending.wait(deadline(timeout_ms))) {
            None | Some(Ok(_) | Err(session::Error::Taken)) => Ok(()),
            Some(Err(error)) => Err(error.into()),
        }
    })
}

/// Ends the context's run, if one is in flight: on the model within milliseconds, on a kernel driver after the running task.
/// Wait for it afterwards; its result is then usually `NVDLA_STATUS_CANCELLED`.
///
/// # Safety
///
/// `context` is a context.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_cancel(context: *mut nvdla_context) -> nvdla_status {
    guard(|| {
        // SAFETY: as above.
        if let Some(pending) = lock(&unsafe { of(context, "the context") }?.context).pending() {
            pending.cancel();
        }
        Ok(())
    })
}

/// Frees the handle of a run. The run itself is not stopped: `nvdla_context_wait` waits for it, `nvdla_context_cancel` ends it.
///
/// # Safety
///
/// `run` is a run that is not used again, or NULL.
#[no_mangle]
pub unsafe extern "C" fn nvdla_run_free(run: *mut nvdla_run) {
    // SAFETY: as above.
    unsafe { free(run) }
}

/// Exports the memory of a tensor as a file descriptor: a dma-buf, or for the model a file that can be mapped. The caller
/// closes it.
///
/// # Safety
///
/// `context` is a context; `fd` is valid.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_export(
    context: *mut nvdla_context,
    direction: u32,
    index: usize,
    fd: *mut c_int,
) -> nvdla_status {
    guard(|| {
        check(fd, "the pointer for the result")?;
        // SAFETY: as above.
        let mut context = lock(&unsafe { of(context, "the context") }?.context);
        let exported = context.export(nvdla_direction::of(direction)?.into(), index)?;
        // SAFETY: as above.
        unsafe { put(fd, exported.into_raw_fd()) }
    })
}

/// Uses the memory behind a file descriptor (a dma-buf; for the model any file that can be mapped) as the memory of a tensor. The
/// caller may close the descriptor afterwards.
///
/// # Safety
///
/// `context` is a context. Nobody shortens the file while the context lives.
#[no_mangle]
pub unsafe extern "C" fn nvdla_context_bind_fd(
    context: *mut nvdla_context,
    direction: u32,
    index: usize,
    fd: c_int,
) -> nvdla_status {
    guard(|| {
        // SAFETY: the call only checks whether the descriptor is open.
        if fd < 0 || unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            return Err(Failure::argument(format!("{fd} is not an open descriptor")));
        }
        // SAFETY: the descriptor is open, and the caller does not close it during the call.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        // SAFETY: as above.
        let mut context = lock(&unsafe { of(context, "the context") }?.context);
        Ok(context.bind_fd(nvdla_direction::of(direction)?.into(), index, fd)?)
    })
}
