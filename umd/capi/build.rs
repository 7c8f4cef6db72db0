// SPDX-License-Identifier: MIT OR Apache-2.0

//! Gives the library the name by which programs find it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvdla.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
