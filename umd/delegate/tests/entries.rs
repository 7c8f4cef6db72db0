// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions that an application finds in the library.

use std::cell::RefCell;
use std::ffi::{c_char, CStr, CString};
use std::ptr;

use nvdla_delegate::{tflite_plugin_create_delegate, tflite_plugin_destroy_delegate};

thread_local! {
    static REPORTED: RefCell<String> = const { RefCell::new(String::new()) };
}

unsafe extern "C" fn report(text: *const c_char) {
    // SAFETY: the library gives a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    REPORTED.with(|reported| *reported.borrow_mut() = text);
}

fn create(options: &[(&str, &str)]) -> bool {
    let owned = |text: &str| CString::new(text).unwrap();
    let (names, values): (Vec<_>, Vec<_>) = options.iter().map(|(name, value)| (owned(name), owned(value))).unzip();
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
    let (names, values) = (pointers(&names), pointers(&values));
    // SAFETY: there are so many names and values, and the delegate is freed once.
    unsafe {
        let delegate = tflite_plugin_create_delegate(names.as_ptr(), values.as_ptr(), names.len(), Some(report));
        let made = !delegate.is_null();
        tflite_plugin_destroy_delegate(delegate);
        made
    }
}

#[test]
fn options_are_checked_when_the_delegate_is_made() {
    assert!(create(&[("device", "model"), ("config", "nv_small"), ("verbose", "1")]));
    for (name, value, reason) in [
        ("config", "nv_tiny", "config=nv_tiny"),
        ("colour", "red", "no option is \"colour\""),
        ("verbose", "loud", "verbose=loud"),
        ("device", "/nonexistent", "/nonexistent"),
    ] {
        assert!(!create(&[(name, value)]), "{name}={value}");
        REPORTED.with(|reported| assert!(reported.borrow().contains(reason), "{}", reported.borrow()));
    }
    // SAFETY: nothing is read.
    assert!(unsafe { tflite_plugin_create_delegate(ptr::null(), ptr::null(), 1, None) }.is_null());
}
