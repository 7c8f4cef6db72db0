// SPDX-License-Identifier: MIT OR Apache-2.0

//! sync_files, and a timeline with fences that a test signals.
//!
//! Source: the kernel's `include/uapi/linux/sync_file.h`; `drivers/dma-buf/sw_sync.c` and `sync_debug.h` (debugfs).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::drm::{call, read_write, Result};
use crate::system::HANG;

/// `struct sync_fence_info`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct FenceInfo {
    name: [u8; 32],
    driver: [u8; 32],
    status: i32,
    flags: u32,
    timestamp_ns: u64,
}

/// `struct sync_file_info`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct FileInfo {
    name: [u8; 32],
    status: i32,
    flags: u32,
    num_fences: u32,
    pad: u32,
    fences: u64,
}

/// The state of a sync_file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// 0 while pending, 1 after success, else the error.
    pub status: i32,
    /// The time at which it signalled in nanoseconds.
    pub timestamp_ns: u64,
    /// The driver that made it.
    pub driver: String,
}

/// The state of the sync_file.
pub fn info(fd: RawFd) -> Result<Info> {
    let mut fence = FenceInfo::default();
    let mut file = FileInfo { num_fences: 1, fences: std::ptr::from_mut(&mut fence) as u64, ..FileInfo::default() };
    call(fd, read_write(b'>', 4, size_of::<FileInfo>()), &mut file)?;
    let length = fence.driver.iter().position(|&byte| byte == 0).unwrap_or(32);
    Ok(Info {
        status: file.status,
        timestamp_ns: fence.timestamp_ns,
        driver: String::from_utf8_lossy(&fence.driver[..length]).into_owned(),
    })
}

/// Waits at most `milliseconds`. Returns whether the fence has signalled.
pub fn poll_ms(fd: BorrowedFd<'_>, milliseconds: u16) -> Result<bool> {
    let mut list = [PollFd::new(fd, PollFlags::POLLIN)];
    Ok(poll(&mut list, PollTimeout::from(milliseconds))? == 1)
}

/// Waits until the fence has signalled, and returns its status; 0 if it hangs.
pub fn end(fd: &OwnedFd) -> Result<i32> {
    poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], PollTimeout::try_from(HANG).unwrap_or(PollTimeout::MAX))?;
    Ok(info(fd.as_raw_fd())?.status)
}

/// Waits at most `milliseconds` for the fence, and returns its status.
pub fn status(fd: &OwnedFd, milliseconds: u16) -> Result<i32> {
    poll_ms(fd.as_fd(), milliseconds)?;
    Ok(info(fd.as_raw_fd())?.status)
}

/// A timeline that a test advances. Fences that are pending when it is dropped fail.
#[derive(Debug)]
pub struct Timeline(File);

impl Timeline {
    /// A new timeline, at 0.
    pub fn new() -> io::Result<Self> {
        Ok(Self(File::options().read(true).write(true).open("/sys/kernel/debug/sync/sw_sync")?))
    }

    /// A fence that signals when the timeline reaches `value`.
    pub fn fence(&self, value: u32) -> Result<OwnedFd> {
        /// `struct sw_sync_create_fence_data`.
        #[derive(Clone, Copy)]
        #[repr(C)]
        struct Create {
            value: u32,
            name: [u8; 32],
            fence: i32,
        }
        let mut create = Create { value, name: [0; 32], fence: -1 };
        call(self.0.as_raw_fd(), read_write(b'W', 0, size_of::<Create>()), &mut create)?;
        // SAFETY: the ioctl gave a new descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(create.fence) })
    }

    /// Advances the timeline.
    pub fn advance(&self, by: u32) -> Result {
        let mut by = by;
        call(self.0.as_raw_fd(), 1 << 30 | 4 << 16 | (b'W' as u64) << 8 | 1, &mut by).map(drop)
    }
}
