// SPDX-License-Identifier: MIT OR Apache-2.0

//! Every ioctl of the runtime: the driver's, DRM's, and those of dma-bufs and sync_files.
//!
//! Source: `nvdla_uapi::{ioctl, queue}` for the driver's; the kernel's `include/uapi/drm/drm.h`, `linux/dma-buf.h` and
//! `linux/sync_file.h` for the others.
#![allow(missing_docs, unreachable_pub, clippy::undocumented_unsafe_blocks)] // the macro's functions

use std::ffi::{c_char, c_int};
use std::io;

use ioctl_sys::ioctl;
use nix::errno::Errno;
use nvdla_uapi::ioctl::{GemCreateArgs, GemDestroyArgs, GemMapOffsetArgs, SubmitArgs};
use nvdla_uapi::queue::{Access, Query, Submit, Wait, ACCESS_COMMAND, QUERY_COMMAND, SUBMIT_COMMAND, WAIT_COMMAND};

/// First ioctl number that DRM leaves to drivers.
const DRIVER: u32 = 0x40;

/// `struct drm_version`.
#[repr(C)]
pub struct Version {
    pub major: c_int,
    pub minor: c_int,
    pub patch_level: c_int,
    pub name_len: usize,
    pub name: *mut c_char,
    pub date_len: usize,
    pub date: *mut c_char,
    pub desc_len: usize,
    pub desc: *mut c_char,
}

/// `struct drm_prime_handle`.
#[repr(C)]
pub struct PrimeHandle {
    pub handle: u32,
    pub flags: u32,
    pub fd: i32,
}

/// `struct dma_buf_sync`.
#[repr(C)]
pub struct Sync {
    pub flags: u64,
}

/// `struct sync_file_info`.
#[derive(Default)]
#[repr(C)]
pub struct FileInfo {
    pub name: [u8; 32],
    pub status: i32,
    pub flags: u32,
    pub num_fences: u32,
    pub pad: u32,
    pub fences: u64,
}

ioctl!(readwrite drm_version with b'd', 0x00; Version);
ioctl!(readwrite prime_handle_to_fd with b'd', 0x2d; PrimeHandle);
ioctl!(readwrite prime_fd_to_handle with b'd', 0x2e; PrimeHandle);
ioctl!(readwrite submit with b'd', DRIVER; SubmitArgs);
ioctl!(readwrite gem_create with b'd', DRIVER + 1; GemCreateArgs);
ioctl!(readwrite gem_mmap with b'd', DRIVER + 2; GemMapOffsetArgs);
ioctl!(readwrite gem_destroy with b'd', DRIVER + 3; GemDestroyArgs);
ioctl!(readwrite query with b'd', DRIVER + QUERY_COMMAND; Query);
ioctl!(readwrite submit_tasks with b'd', DRIVER + SUBMIT_COMMAND; Submit);
ioctl!(readwrite wait with b'd', DRIVER + WAIT_COMMAND; Wait);
ioctl!(readwrite access with b'd', DRIVER + ACCESS_COMMAND; Access);
ioctl!(write dma_buf_sync with b'b', 0x00; Sync);
ioctl!(readwrite file_info with b'>', 0x04; FileInfo);

/// Calls an ioctl once.
pub fn once(call: impl FnOnce() -> c_int) -> nix::Result<()> {
    Errno::result(call()).map(drop)
}

/// Calls an ioctl until no signal interrupts it.
pub fn retry(mut call: impl FnMut() -> c_int) -> io::Result<()> {
    loop {
        match once(&mut call) {
            Err(Errno::EINTR) => {}
            result => return result.map_err(Into::into),
        }
    }
}
