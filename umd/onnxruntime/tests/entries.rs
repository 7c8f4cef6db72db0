// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions that ONNX Runtime finds in the library.

use std::ptr;

use onnxruntime_ep_nvdla::{CreateEpFactories, ReleaseEpFactory};

#[test]
fn a_host_without_tables_gets_no_factory() {
    let (mut factory, mut count) = (ptr::null_mut(), 0);
    // SAFETY: the function checks for the null pointers, and the places are of this function.
    unsafe {
        CreateEpFactories(ptr::null(), ptr::null(), ptr::null(), &raw mut factory, 1, &raw mut count);
        assert!(factory.is_null() && count == 0);
        assert!(ReleaseEpFactory(factory).is_null());
    }
}
