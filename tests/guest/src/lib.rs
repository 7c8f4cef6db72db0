// SPDX-License-Identifier: MIT OR Apache-2.0

//! Common parts of the kernel driver's tests: its ioctls without a library's checks, tasks with known results, the virtual
//! device's control window, and the kernel's messages.
//!
//! The programs run as root in the guest of `cargo xtask vm --test`; they are not meant for other machines.

pub mod control;
pub mod drm;
pub mod fence;
pub mod node;
pub mod system;
pub mod test_task;
pub mod tree;
