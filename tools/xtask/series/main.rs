// SPDX-License-Identifier: GPL-2.0-only

//! The driver of NVDLA.

// Not all of it is used before the driver is complete.
#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "uapi/lib.rs"]
mod uapi;

use kernel::prelude::*;

struct Module;

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

module! {
    type: Module,
    name: "nvdla",
    authors: ["The NVDLA driver stack's authors"],
    description: "NVDLA deep learning accelerator",
    license: "GPL v2",
}
