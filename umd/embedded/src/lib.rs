// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs NVDLA loadables on a processor without an operating system: a microcontroller, or the soft core beside an NVDLA in an
//! FPGA. `no_std`, and without allocation. The scheduler is [`nvdla_engine`], as in the kernel module.
//!
//! A program gives three things:
//!
//! - the loadable's bytes, for example in flash, which are read where they are;
//! - an arena: memory that the processor and the device access, for the memories of the network;
//! - slots: memory of the processor for the validated operations.
//!
//! [`Requirements::of`] says how large they must be, on the host or on the target. [`Network::load`] fills the arena and validates
//! every task. [`Device::run`] then runs the network: tasks for NVDLA on the device, softmax and power on the processor. The
//! device is reached through a [`Board`].
//!
//! The loadable is checked as far as this crate uses it: no byte outside the file or the arena is accessed, and the engine
//! refuses each task whose operations access memory outside their addresses. Loadables of interface 0.10 and 0.11 (before April
//! 2019) are refused.
//!
//! `include/nvdla_embedded.h` has the same for C.
#![cfg_attr(not(test), no_std)]

mod arena;
mod board;
pub mod c;
mod device;
mod error;
mod flat;
mod functions;
mod loadable;
mod network;
mod tensor;

pub use board::Board;
pub use device::Device;
pub use error::Error;
pub use network::{Network, Requirements, MAX_TASKS};
pub use nvdla_engine::Slot;
pub use tensor::{Element, Tensor};

/// Stops the processor: there is nobody to whom a panic could be reported.
#[cfg(feature = "panic-handler")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
