// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The definitions that the kernel driver, the runtime and the tools of NVDLA share.
//!
//! | module | contents |
//! | --- | --- |
//! | [`reg`] | the register map: blocks, registers and typed fields |
//! | [`config`] | the hardware configurations |
//! | [`desc`] | the descriptors of a task for NVDLA |
//! | [`dump`] | the file that the driver leaves when it ends a task |
//! | [`emu`] | the descriptors of a task that the runtime emulates on the CPU: softmax and power |
//! | [`ioctl`] | NVIDIA's ioctls |
//! | `isa` | the instruction sets of vector code |
//! | [`queue`] | this project's ioctls |
//! | [`layout`] | where every element of a tensor lies in memory; `layout::tpu` has those of a TPU's local memory |
//!
//! All of it is `no_std`, without allocation and dependencies, except the folder `layout/bulk` and `isa`. That folder has fast
//! conversions for user space, which need `std` for threads, and vector instructions. The feature `bulk` adds both.
//!
//! Cargo builds this source as a crate, Kbuild as a module of the kernel module. Therefore paths within it start with
//! `super::`, never with `crate::`. The kernel module is built without [`emu`] and `layout::tpu`, because it uses neither.
#![cfg_attr(not(MODULE), no_std)]

#[cfg(feature = "bulk")]
extern crate std;

pub mod config;
pub mod desc;
pub mod dump;
#[cfg(not(MODULE))]
pub mod emu;
pub mod ioctl;
#[cfg(feature = "bulk")]
pub mod isa;
pub mod layout;
pub mod queue;
pub mod reg;
