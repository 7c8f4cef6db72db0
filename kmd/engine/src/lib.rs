// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The scheduler of NVDLA.
#![cfg_attr(not(MODULE), no_std)]

// In the kernel module `uapi` is a module of the crate root; here it is a crate under the same name, so that
// `crate::uapi::` holds in both.
#[cfg(not(MODULE))]
extern crate nvdla_uapi as uapi;
