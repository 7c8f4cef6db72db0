// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions that an interpreter calls. Each catches panics, because they must not pass through C.
//!
//! The structure that an interpreter sees as a delegate begins with its table, so a pointer to the table is a pointer to the whole.

use std::ffi::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

use nvdla_frameworks::{c_string, text_of, Failure, Result};

use crate::context::{Context, Part};
use crate::delegate::Delegate;
use crate::kernel::Kernel;
use crate::sys;

/// A delegate with its table.
#[repr(C)]
struct Whole {
    table: sys::Delegate,
    delegate: Delegate,
}

fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let result = catch_unwind(AssertUnwindSafe(call));
    result.unwrap_or_else(|_| Err("an internal error; its message is on the standard error".into()))
}

/// The function that an application finds in the library. A delegate, or null: then the reason is given to `report`.
///
/// # Safety
///
/// There are `count` names and values of options, which end with a zero.
#[no_mangle]
pub unsafe extern "C" fn tflite_plugin_create_delegate(
    names: *const *const c_char,
    values: *const *const c_char,
    count: usize,
    report: Option<unsafe extern "C" fn(*const c_char)>,
) -> *mut sys::Delegate {
    let made = caught(|| {
        if count > 0 && (names.is_null() || values.is_null()) {
            return Err("the options are missing".into());
        }
        // SAFETY: the caller's.
        let given = (0..count).map(|k| unsafe { (text_of(*names.add(k)), text_of(*values.add(k))) });
        Delegate::new(&given.collect::<Vec<_>>())
    });
    match made {
        Ok(delegate) => {
            let table = sys::Delegate {
                data: ptr::null_mut(),
                prepare: Some(prepare_delegate),
                copy_from_buffer_handle: None,
                copy_to_buffer_handle: None,
                free_buffer_handle: None,
                flags: sys::ALLOW_DYNAMIC_TENSORS,
                opaque_delegate_builder: ptr::null_mut(),
            };
            Box::into_raw(Box::new(Whole { table, delegate })).cast()
        }
        Err(Failure(reason)) => {
            if let Some(report) = report {
                let reason = c_string(&format!("NVDLA: {reason}"));
                // SAFETY: the application's, for a text.
                unsafe { report(reason.as_ptr()) };
            }
            ptr::null_mut()
        }
    }
}

/// Frees a delegate.
///
/// # Safety
///
/// The delegate is null or of [`tflite_plugin_create_delegate`], and no interpreter uses it.
#[no_mangle]
pub unsafe extern "C" fn tflite_plugin_destroy_delegate(delegate: *mut sys::Delegate) {
    if !delegate.is_null() {
        // SAFETY: the pointer is of `Box::into_raw` there.
        let _ = catch_unwind(|| drop(unsafe { Box::from_raw(delegate.cast::<Whole>()) }));
    }
}

/// The status of a result, whose error is reported.
///
/// # Safety
///
/// The context is null or an interpreter's.
unsafe fn status(context: *mut sys::Context, result: Result<()>) -> sys::Status {
    let Err(Failure(reason)) = result else { return sys::OK };
    // SAFETY: the caller's.
    if let Some(context) = unsafe { Context::new(context) } {
        context.report(&format!("NVDLA: {reason}"));
    }
    sys::DELEGATE_ERROR
}

unsafe extern "C" fn prepare_delegate(context: *mut sys::Context, delegate: *mut sys::Delegate) -> sys::Status {
    let registration = || sys::Registration {
        init: Some(init),
        free: Some(free),
        prepare: Some(prepare),
        invoke: Some(invoke),
        profiling_string: None,
        builtin_code: 0,
        custom_name: c"NVDLA".as_ptr(),
        version: 1,
        registration_external: ptr::null_mut(),
        async_kernel: ptr::null_mut(),
        inplace_operator: 0,
    };
    let result = caught(|| {
        // SAFETY: the interpreter gives its context, and a delegate of this library.
        unsafe {
            let given = Context::new(context).ok_or("there is no context")?;
            let whole = delegate.cast::<Whole>().as_ref().ok_or("there is no delegate")?;
            whole.delegate.prepare(given, &registration, delegate)
        }
    });
    // SAFETY: as above.
    unsafe { status(context, result) }
}

/// The kernel of a part, or null if there is none.
unsafe extern "C" fn init(_: *mut sys::Context, buffer: *const c_void, _: usize) -> *mut c_void {
    let made = caught(|| {
        // SAFETY: the interpreter gives the parameters of a kernel, with the delegate that `prepare_delegate` has given it.
        unsafe {
            let params = buffer.cast::<sys::DelegateParams>().as_ref().ok_or("a kernel without nodes")?;
            let whole = params.delegate.cast::<Whole>().as_ref().ok_or("a kernel without a delegate")?;
            whole.delegate.take(&Part::new(params)).ok_or_else(|| Failure("a kernel that was not made".to_owned()))
        }
    });
    made.map_or(ptr::null_mut(), |kernel| Box::into_raw(kernel).cast())
}

unsafe extern "C" fn free(_: *mut sys::Context, kernel: *mut c_void) {
    if !kernel.is_null() {
        // SAFETY: the pointer is of `init`.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(kernel.cast::<Kernel>()) })));
    }
}

/// # Safety
///
/// The node is null or an interpreter's with a kernel of `init`.
unsafe fn kernel<'a>(node: *mut sys::Node) -> Result<&'a Kernel> {
    // SAFETY: the caller's.
    let kernel = unsafe { node.as_ref().and_then(|node| node.user_data.cast::<Kernel>().as_ref()) };
    kernel.ok_or_else(|| "the interpreter has changed a group of nodes".into())
}

unsafe extern "C" fn prepare(context: *mut sys::Context, node: *mut sys::Node) -> sys::Status {
    // SAFETY: the interpreter gives its context, and a node of this library.
    unsafe {
        let result = caught(|| {
            let given = Context::new(context).ok_or("there is no context")?;
            kernel(node)?.prepare(given)
        });
        status(context, result)
    }
}

unsafe extern "C" fn invoke(context: *mut sys::Context, node: *mut sys::Node) -> sys::Status {
    // SAFETY: as above; the interpreter has allocated the tensors, and runs one node at a time.
    unsafe {
        let result = caught(|| {
            let given = Context::new(context).ok_or("there is no context")?;
            kernel(node)?.run(given)
        });
        status(context, result)
    }
}
