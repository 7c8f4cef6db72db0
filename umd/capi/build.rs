// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sets the name (soname) by which programs find the library.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvdla.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
