// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the tests of the kernel driver share: its ioctls as they are, without a library's checks between; tasks whose
//! answer is known; the virtual device's control window; what the kernel says of itself.
//!
//! The programs run as root in the guest of `cargo xtask vm --test`; nothing here is for other machines.

pub mod control;
pub mod drm;
pub mod fence;
pub mod node;
pub mod system;
pub mod tree;
pub mod work;
