// SPDX-License-Identifier: MIT OR Apache-2.0

//! Texts of C.

use std::ffi::{c_char, CStr, CString};

/// A text for a framework. Zeros inside it are left out.
pub fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// A framework's text; empty if it has none.
///
/// # Safety
///
/// The text is null, or ends with a zero.
pub unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
