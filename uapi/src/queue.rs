// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The driver's own ioctls, beside the four of [`super::ioctl`]: query, asynchronous submission, wait.
//!
//! They follow the kernel's rules for new interfaces: reserved fields and unknown flags must be zero, arrays come with the
//! size of their elements, deadlines are absolute nanoseconds of `CLOCK_MONOTONIC`, completion is a fence.
//!
//! `uapi/include/nvdla_drm.h` has the same definitions for programs in C. A test compares the two.
//!
//! All structures are plain data in the machine's byte order; pointers are 64 bits wide, so that a 32-bit program uses the
//! same layout.

use core::mem::{offset_of, size_of};

/// DRM driver command of [`Query`].
pub const QUERY_COMMAND: u32 = 0x04;
/// DRM driver command of [`Submit`].
pub const SUBMIT_COMMAND: u32 = 0x05;
/// DRM driver command of [`Wait`].
pub const WAIT_COMMAND: u32 = 0x06;

/// The PCI subsystem number with which a virtual device says that it is a model ("MO").
pub const PCI_SUBSYSTEM_MODEL: u16 = 0x4d4f;
/// [`Query::flags`]: the device is a model, not hardware.
pub const QUERY_MODEL: u32 = 1 << 0;
/// [`GemCreateArgs::flags`](super::ioctl::GemCreateArgs::flags): make the buffer in the SRAM behind the device's secondary
/// memory interface.
///
/// Fails with `ENOSPC` if less than the size is free in one piece, if the client would exceed its limit, and on a device without
/// SRAM. A task's descriptors cannot lie in such a buffer, and it cannot be exported (`EOPNOTSUPP`).
pub const GEM_CREATE_SRAM: u32 = 1 << 0;
/// [`Submit::flags`]: return a sync_file in [`Submit::out_fence`].
pub const SUBMIT_OUT_FENCE: u32 = 1 << 0;

/// Most tasks in one submission.
pub const MAX_TASKS: u32 = 64;
/// Most fences that one submission may wait for.
pub const MAX_IN_FENCES: u32 = 64;
/// Most tasks of one client that are queued or running.
pub const MAX_QUEUED: u32 = 1024;

/// What the device is (out only; must be zero when passed in).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Query {
    /// The hardware configuration's name, ended by a zero byte.
    pub config: [u8; 32],
    /// The hardware version register.
    pub hardware_version: u32,
    /// [`QUERY_MODEL`].
    pub flags: u32,
    /// Most addresses of a task.
    pub max_addresses: u32,
    /// Most tasks of a submission.
    pub max_tasks: u32,
    /// Most tasks of a client that are queued or running.
    pub max_queued: u32,
    /// Most fences that a submission may wait for.
    pub max_in_fences: u32,
    /// Nanoseconds that a task may run when it names no deadline.
    pub default_timeout_ns: u64,
    /// The longest time in nanoseconds that a task may run, whatever its deadline; `u64::MAX` if the operator has set
    /// no limit.
    pub max_timeout_ns: u64,
    /// Bytes of the SRAM behind the secondary memory interface that all clients share; 0 if there is none.
    pub sram_size: u64,
}

/// A place in a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Address {
    /// GEM handle.
    pub handle: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes from the buffer's start.
    pub offset: u64,
}

/// One task of a submission. The statistics of its operations are written when its network descriptor names a list for
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Task {
    /// User pointer to an array of [`Address`].
    pub addresses: u64,
    /// Entries of it.
    pub num_addresses: u32,
    /// Bytes of an entry.
    pub address_size: u32,
    /// Zero.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// Queues tasks; returns before they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Submit {
    /// User pointer to an array of [`Task`].
    pub tasks: u64,
    /// Entries of it.
    pub num_tasks: u32,
    /// Bytes of an entry.
    pub task_size: u32,
    /// User pointer to an array of sync_file descriptors (`i32`) that the tasks wait for.
    pub in_fences: u64,
    /// Entries of it.
    pub num_in_fences: u32,
    /// [`SUBMIT_OUT_FENCE`].
    pub flags: u32,
    /// Absolute nanoseconds of `CLOCK_MONOTONIC` by which each task must have ended once it runs; 0 for the default. No
    /// task runs for longer than [`Query::max_timeout_ns`], and one that has started before its deadline may run for the
    /// operator's minimum (100 ms by default).
    pub deadline_ns: u64,
    /// Sequence number of the last task, for [`Wait`] (out).
    pub sequence: u64,
    /// A sync_file of the last task, if asked for (out).
    pub out_fence: i32,
    /// Zero.
    pub reserved: u32,
}

/// Waits for a task of this client.
///
/// Fails with `ETIMEDOUT` when the deadline passes first, with `EINVAL` for a number that was never returned, with
/// `ESTALE` if [`MAX_QUEUED`] other tasks have ended since, and with `ENODEV` when the device is gone. A signal
/// interrupts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Wait {
    /// The task's sequence number.
    pub sequence: u64,
    /// Absolute nanoseconds of `CLOCK_MONOTONIC` at which the wait ends without the task.
    pub deadline_ns: u64,
    /// How the task ended: 0 or a negative error number (out).
    pub status: i32,
    /// Zero.
    pub reserved: u32,
}

/// Reads little fields out of a record.
fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.iter_mut().zip(bytes.iter().skip(at)).for_each(|(to, from)| *to = *from);
    u32::from_ne_bytes(word)
}

/// As [`word`], 64 bits.
fn long(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.iter_mut().zip(bytes.iter().skip(at)).for_each(|(to, from)| *to = *from);
    u64::from_ne_bytes(long)
}

impl Address {
    /// The record in these bytes.
    pub fn from_bytes(bytes: &[u8; size_of::<Self>()]) -> Self {
        Self {
            handle: word(bytes, offset_of!(Self, handle)),
            reserved: word(bytes, offset_of!(Self, reserved)),
            offset: long(bytes, offset_of!(Self, offset)),
        }
    }
}

impl Task {
    /// The record in these bytes.
    pub fn from_bytes(bytes: &[u8; size_of::<Self>()]) -> Self {
        Self {
            addresses: long(bytes, offset_of!(Self, addresses)),
            num_addresses: word(bytes, offset_of!(Self, num_addresses)),
            address_size: word(bytes, offset_of!(Self, address_size)),
            flags: word(bytes, offset_of!(Self, flags)),
            reserved: word(bytes, offset_of!(Self, reserved)),
        }
    }
}

const _: () = assert!(size_of::<Query>() == 80 && offset_of!(Query, sram_size) == 72);
const _: () = assert!(size_of::<Address>() == 16 && offset_of!(Address, offset) == 8);
const _: () = assert!(size_of::<Task>() == 24 && offset_of!(Task, flags) == 16);
const _: () = assert!(size_of::<Submit>() == 56 && offset_of!(Submit, out_fence) == 48);
const _: () = assert!(size_of::<Wait>() == 24 && offset_of!(Wait, status) == 16);
