// SPDX-License-Identifier: MIT OR Apache-2.0

//! The result of a call: a status, and a text for the user.

use std::cell::RefCell;
use std::error::Error;
use std::ffi::{c_char, c_int, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

use nvdla_runtime::program::{plain, sentence};
use nvdla_runtime::{kind_of, session, ErrorKind};

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum nvdla_status {
    /// Success.
    Ok = 0,
    /// An argument is wrong: NULL, no such tensor, a wrong size.
    Argument = 1,
    /// A file cannot be read or written.
    File = 2,
    /// A loadable is malformed, or uses something that this library does not support.
    Loadable = 3,
    /// A task breaks a rule of the hardware or of its configuration.
    Refused = 4,
    /// There is not enough memory.
    Memory = 5,
    /// The device cannot be opened, or failed.
    Device = 6,
    /// Something did not end in time.
    Deadline = 7,
    /// A run of the context is in flight.
    Busy = 8,
    /// The device cannot do this.
    Unsupported = 9,
    /// The library has a bug. Do not use the handles of the call again.
    Panic = 10,
    /// Any other failure.
    Other = 11,
    /// The run has not ended yet. Only `nvdla_run_wait` and `nvdla_context_wait` return it.
    Pending = 12,
    /// The run was cancelled.
    Cancelled = 13,
}

/// A status with its text.
pub(crate) struct Failure {
    status: nvdla_status,
    text: String,
}

impl Failure {
    /// A wrong argument.
    #[allow(clippy::needless_pass_by_value)] // it is passed to `map_err`
    pub(crate) fn argument(text: impl ToString) -> Self {
        Self { status: nvdla_status::Argument, text: text.to_string() }
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        if let Some(session::Error::NotYet) = (&error as &(dyn Error + 'static)).downcast_ref() {
            return Self { status: nvdla_status::Pending, text: error.to_string() };
        }
        let status = match kind_of(&error) {
            Some(ErrorKind::Argument) => nvdla_status::Argument,
            Some(ErrorKind::File) => nvdla_status::File,
            Some(ErrorKind::Loadable) => nvdla_status::Loadable,
            Some(ErrorKind::Refused) => nvdla_status::Refused,
            Some(ErrorKind::Memory) => nvdla_status::Memory,
            Some(ErrorKind::Device) => nvdla_status::Device,
            Some(ErrorKind::Deadline) => nvdla_status::Deadline,
            Some(ErrorKind::Busy) => nvdla_status::Busy,
            Some(ErrorKind::Unsupported) => nvdla_status::Unsupported,
            Some(ErrorKind::Cancelled) => nvdla_status::Cancelled,
            _ => nvdla_status::Other,
        };
        Self { status, text: plain(&sentence(&error)) }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Runs the body of a call, and keeps the text of a failure for [`nvdla_last_error`].
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Failure>) -> nvdla_status {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return nvdla_status::Ok,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Failure { status: nvdla_status::Panic, text: format!("the library has a bug: {text}") }
        }
    };
    let text = CString::new(failure.text.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = text);
    failure.status
}

/// Returns the text of the last failure of the calling thread, empty if there was none. The text lives until the next
/// failure of the thread.
#[no_mangle]
pub extern "C" fn nvdla_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// Returns the name of a status, such as "argument"; "unknown" for a number that is not a status.
#[no_mangle]
pub extern "C" fn nvdla_status_name(status: c_int) -> *const c_char {
    const NAMES: [&CStr; 14] = [
        c"ok",
        c"argument",
        c"file",
        c"loadable",
        c"refused",
        c"memory",
        c"device",
        c"deadline",
        c"busy",
        c"unsupported",
        c"panic",
        c"other",
        c"pending",
        c"cancelled",
    ];
    usize::try_from(status).ok().and_then(|at| NAMES.get(at)).unwrap_or(&c"unknown").as_ptr()
}
