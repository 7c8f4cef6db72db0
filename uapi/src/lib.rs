// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What the kernel driver, the runtime and the tools of NVDLA agree on: the register map, the hardware
//! configurations, the descriptors of a task, the ioctls, and where every element of a tensor lies in memory.
//!
//! `no_std`, no allocation, no dependency: Cargo builds it as a crate, Kbuild as a module of the kernel module. For the
//! latter, paths within it start with `super::`, never with `crate::`.
#![cfg_attr(not(MODULE), no_std)]

#[cfg(feature = "bulk")]
extern crate std;

pub mod config;
pub mod desc;
pub mod emu;
pub mod ioctl;
pub mod layout;
pub mod queue;
pub mod reg;
