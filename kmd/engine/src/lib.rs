// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The scheduler of NVDLA: it turns a task's descriptors into validated register values, orders the operations, programs
//! the device and follows it by its interrupts.
//!
//! A task is read once ([`Task::parse`]): every index is in range, every surface lies in its own buffer, the dependency
//! graph can complete, and the configuration has what the operations ask for. What remains of an operation is the
//! register values that program it, so nothing that a user wrote is read again, and nothing can go wrong later but the
//! device itself. What those values make the device touch has the last word ([`footprint`]): it lies in the task's buffers,
//! or the task is refused. [`Engine`] then runs the task: [`Engine::submit`], [`Engine::interrupt`], [`Engine::process_events`],
//! [`Engine::check_deadline`] and [`Engine::abort`] are plain functions over one device's state; none blocks.
//!
//! `no_std`, without allocation: the caller hands in the storage ([`Slot`]s). Cargo builds this as a crate for user space,
//! Kbuild as a module of the kernel module. Sources of facts about the hardware are named where they are used; what
//! `kmd/firmware` of the reference software does is called "the reference driver".
#![cfg_attr(not(any(MODULE, test)), no_std)]

// In the kernel module `uapi` is a module of the crate root; here it is a crate under the same name, so that
// `crate::uapi::` holds in both.
#[cfg(not(MODULE))]
extern crate nvdla_uapi as uapi;

mod device;
mod engine;
mod error;
mod failure;
pub mod footprint;
mod hardware;
mod identity;
mod image;
mod memory;
mod schedule;
mod slot;
mod statistics;
mod task;

pub use self::engine::{Engine, Progress, Submission, SubmitError};
pub use self::error::{Error, Name, Reason};
pub use self::failure::{Cause, Failure, Running};
pub use self::hardware::Hardware;
pub use self::identity::{identify, Identity};
pub use self::memory::{Buffer, OutOfRange, TaskMemory};
pub use self::slot::{Operation, Region, Slot};
pub use self::task::Task;
