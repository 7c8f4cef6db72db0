// SPDX-License-Identifier: GPL-2.0-only

//! The kernel module of NVDLA.
//!
//! The module makes a device available to user space as a DRM render node: buffers, tasks, fences. The engine
//! (`kmd/engine`) interprets tasks and programs registers. It is compiled in from the same files that user space uses,
//! and so is `uapi`.

// The parts of the two that only user space needs are unused here.
#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../../uapi/src/lib.rs"]
mod uapi;

#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../engine/src/lib.rs"]
mod engine;

mod accelerator;
mod budget;
mod callbacks;
mod client;
mod clients;
mod driver;
mod dump;
mod ffi;
mod gem;
mod identity;
mod ioctl;
mod job;
mod memory;
mod pci;
mod platform;
mod queue;
mod run;
mod show;
mod state;
mod trace;
mod window;

use kernel::{
    driver::Registration,
    prelude::*, //
};

/// The module: a driver for each bus.
#[pin_data]
struct Module {
    #[pin]
    pci: Registration<kernel::pci::Adapter<pci::Driver>>,
    #[pin]
    platform: Registration<kernel::platform::Adapter<platform::Driver>>,
}

impl kernel::InPlaceModule for Module {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            pci <- Registration::new(c"nvdla", module),
            platform <- Registration::new(c"nvdla", module),
        })
    }
}

module! {
    type: Module,
    name: "nvdla",
    authors: ["The NVDLA driver stack's authors"],
    description: "NVDLA deep learning accelerator",
    license: "GPL v2",
    params: {
        timeout_ms: u32 {
            default: 10000,
            description: "Milliseconds that a task without a deadline may run",
        },
        max_timeout_ms: u32 {
            default: 60000,
            description: "Milliseconds that a task may run whatever its deadline, 0 for no limit",
        },
        min_timeout_ms: u32 {
            default: 100,
            description: "Milliseconds that a task that has started may run whatever its deadline",
        },
        max_hangs: u32 {
            default: 64,
            description: "Tasks of a client that may hang one after another before it is refused, 0 for no limit",
        },
        client_tasks_mib: u32 {
            default: 128,
            description: "MiB of kernel memory that the queued tasks of a client may take",
        },
        client_buffers_mib: u32 {
            default: 0,
            description: "MiB of buffers that a client may make, 0 for half of the machine's memory",
        },
        client_domains: u32 {
            default: 1,
            description: "Whether an IOMMU keeps the buffers of clients apart, 0 for no",
        },
        client_sram_kib: u32 {
            default: 0,
            description: "KiB of the device's SRAM that a client may take, 0 for all of it",
        },
    },
}
