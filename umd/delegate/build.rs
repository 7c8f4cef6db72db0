// SPDX-License-Identifier: MIT OR Apache-2.0

//! Keeps the library loaded after an application has closed it: interpreters that are still open call it, and threads run its code.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
