// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The driver's own ioctls, beside the four of [`super::ioctl`]: query, asynchronous submission, wait, access by the processor.
//!
//! They follow the kernel's rules for new interfaces: reserved fields and unknown flags must be zero, arrays come with the
//! size of their elements, deadlines are absolute nanoseconds of `CLOCK_MONOTONIC`, completion is a fence. Records may grow at
//! their end. A program may pass larger ones than the driver knows if the rest is zero, else it gets `E2BIG`.
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
/// DRM driver command of [`Access`].
pub const ACCESS_COMMAND: u32 = 0x07;

/// The PCI subsystem number with which a virtual device says that it is a model ("MO").
pub const PCI_SUBSYSTEM_MODEL: u16 = 0x4d4f;
/// [`Query::flags`]: the device is a model, not hardware.
pub const QUERY_MODEL: u32 = 1 << 0;
/// [`Query::flags`]: the device does not see the processor's cache, and the processor does not cache buffers, so that its reads are
/// slow. A buffer with [`GEM_CREATE_CACHED`] is cached, and the program must tell the driver of its accesses ([`Access`]).
pub const QUERY_UNCACHED: u32 = 1 << 1;
/// [`GemCreateArgs::flags`](super::ioctl::GemCreateArgs::flags): make the buffer in the SRAM behind the device's secondary
/// memory interface.
///
/// Fails with `ENOSPC` if less than the size is free in one piece, if the client would exceed its limit, and on a device without
/// SRAM. A task's descriptors cannot lie in such a buffer, and it cannot be exported (`EOPNOTSUPP`).
pub const GEM_CREATE_SRAM: u32 = 1 << 0;
/// The same: the processor caches the buffer. On a machine whose device does not see the cache, the program must tell the driver of
/// its accesses ([`Access`]); elsewhere the flag has no effect. Not with [`GEM_CREATE_SRAM`].
pub const GEM_CREATE_CACHED: u32 = 1 << 1;
/// [`Submit::flags`]: return a sync_file in [`Submit::out_fence`].
pub const SUBMIT_OUT_FENCE: u32 = 1 << 0;
/// The same: the tasks run before those of clients whose first task is not urgent. Needs `CAP_SYS_NICE` (`EACCES`).
pub const SUBMIT_URGENT: u32 = 1 << 1;
/// [`Address::flags`]: the submission waits for those who write the buffer, and others wait for the submission before they write
/// it, by the fences of the buffer's reservation object.
pub const ADDRESS_READ: u32 = 1 << 0;
/// [`Address::flags`]: the submission waits for all who use the buffer, and others wait for the submission before they use it.
pub const ADDRESS_WRITE: u32 = 1 << 1;
/// [`Access::flags`]: the processor reads the buffer.
pub const ACCESS_READ: u32 = 1 << 0;
/// [`Access::flags`]: the processor writes the buffer.
pub const ACCESS_WRITE: u32 = 1 << 1;
/// [`Access::flags`]: the accesses have ended.
pub const ACCESS_END: u32 = 1 << 2;

/// Most tasks in one submission.
pub const MAX_TASKS: u32 = 64;
/// Most fences that one submission may wait for.
pub const MAX_IN_FENCES: u32 = 64;
/// Most synchronisation objects of one kind in a submission.
pub const MAX_SYNCS: u32 = 64;
/// Most addresses with flags in a submission.
pub const MAX_IMPLICIT: u32 = 256;
/// Most bytes of an array's element.
pub const MAX_RECORD: u32 = 4096;
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
    /// [`QUERY_MODEL`], [`QUERY_UNCACHED`].
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
    /// [`ADDRESS_READ`], [`ADDRESS_WRITE`], or 0 for no implicit fences.
    pub flags: u32,
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
    /// [`SUBMIT_OUT_FENCE`], [`SUBMIT_URGENT`].
    pub flags: u32,
    /// Absolute nanoseconds of `CLOCK_MONOTONIC` by which each task must have ended once it runs; 0 for the default. No
    /// task runs for longer than [`Query::max_timeout_ns`], and one that has started before its deadline may run for the
    /// operator's minimum (100 ms by default).
    pub deadline_ns: u64,
    /// Sequence number of the last task, for [`Wait`] (out).
    pub sequence: u64,
    /// A sync_file of the last task, if asked for, else -1 (out); 0 or -1 when passed in.
    pub out_fence: i32,
    /// Zero.
    pub reserved: u32,
    /// User pointer to an array of [`Sync`] that the tasks wait for.
    pub in_syncs: u64,
    /// User pointer to an array of [`Sync`] that signal when the last task has ended.
    pub out_syncs: u64,
    /// Entries of [`Submit::in_syncs`].
    pub num_in_syncs: u32,
    /// Entries of [`Submit::out_syncs`].
    pub num_out_syncs: u32,
    /// Bytes of an entry of either.
    pub sync_size: u32,
    /// Why a task is invalid, if one is: the number of the reason, as the engine's `Reason::code` gives it (out).
    pub refused_reason: u32,
    /// Which task is invalid (out).
    pub refused_task: u32,
    /// Which of its operations; all ones if none in particular (out).
    pub refused_operation: u32,
}

/// A synchronisation object of DRM, or a point of one that is a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sync {
    /// Its handle.
    pub handle: u32,
    /// Zero.
    pub flags: u32,
    /// The point; 0 for an object that is no timeline.
    pub point: u64,
}

/// Begins or ends accesses of the processor to a buffer.
///
/// At the beginning, waits for the fences of the buffer's reservation object until the deadline (`ETIMEDOUT`): with
/// [`ACCESS_READ`] for those who write it, with [`ACCESS_WRITE`] for all. Then makes visible to the processor what devices have
/// written; at the end, to devices what the processor has written. A signal interrupts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Access {
    /// The buffer's GEM handle.
    pub handle: u32,
    /// [`ACCESS_READ`] and [`ACCESS_WRITE`], at least one of them; [`ACCESS_END`].
    pub flags: u32,
    /// Absolute nanoseconds of `CLOCK_MONOTONIC` at which the wait ends.
    pub deadline_ns: u64,
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
            flags: word(bytes, offset_of!(Self, flags)),
            offset: long(bytes, offset_of!(Self, offset)),
        }
    }
}

impl Sync {
    /// The record in these bytes.
    pub fn from_bytes(bytes: &[u8; size_of::<Self>()]) -> Self {
        Self {
            handle: word(bytes, offset_of!(Self, handle)),
            flags: word(bytes, offset_of!(Self, flags)),
            point: long(bytes, offset_of!(Self, point)),
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
const _: () = assert!(size_of::<Submit>() == 96 && offset_of!(Submit, out_fence) == 48);
const _: () = assert!(size_of::<Sync>() == 16 && size_of::<Access>() == 16);
const _: () = assert!(size_of::<Wait>() == 24 && offset_of!(Wait, status) == 16);
