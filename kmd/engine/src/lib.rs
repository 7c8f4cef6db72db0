// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The scheduler of NVDLA: it turns a task's descriptors into validated register values, orders the operations,
//! programs the device and handles its interrupts.
//!
//! A task is read once ([`Task::parse`]). Then every index is in range, every surface lies in its buffer, the
//! dependency graph can complete, and the configuration supports the operations. An operation is kept as the register
//! values that program it, so memory that a user can write is not read again, and later only the device itself can
//! fail. The last check uses those register values ([`footprint`]): all memory that they make the device access must
//! lie in the task's buffers, or the task is refused. [`Engine`] then runs the task. [`Engine::submit`],
//! [`Engine::interrupt`], [`Engine::process_events`], [`Engine::check_deadline`] and [`Engine::abort`] are plain
//! functions over one device's state, and none of them blocks.
//!
//! The crate is `no_std` and does not allocate: the caller provides the storage ([`Slot`]s). Cargo builds it as a crate
//! for user space, Kbuild as a module of the kernel module. Sources of facts about the hardware are named where they
//! are used. "The reference driver" is `kmd/firmware` of NVIDIA's software project.
#![cfg_attr(not(any(MODULE, test)), no_std)]

// In the kernel module `uapi` is a module of the crate root; here it is a crate under the same name, so that
// `crate::uapi::` holds in both.
#[cfg(not(MODULE))]
extern crate nvdla_uapi as uapi;

mod device;
mod dump;
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
// The kernel module does not estimate times.
#[cfg(not(MODULE))]
mod writes;

pub use self::engine::{Engine, Progress, Submission, SubmitError};
pub use self::error::{Error, Name, Reason, Why};
pub use self::failure::{Cause, Failure, Running};
pub use self::hardware::Hardware;
pub use self::identity::{identify, Identity};
pub use self::memory::{Buffer, OutOfRange, TaskMemory};
pub use self::slot::{MemoryRange, Operation, Slot};
pub use self::task::Task;
#[cfg(not(MODULE))]
pub use self::writes::{WriteCounter, Writes};
