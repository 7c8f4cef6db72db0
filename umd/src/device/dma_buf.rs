// SPDX-License-Identifier: MIT OR Apache-2.0

//! Buffers that another driver or process has made, and the calls that bracket the processor's accesses to them.
//!
//! Source: the kernel's `include/uapi/linux/dma-buf.h` and `Documentation/driver-api/dma-buf.rst`.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use memmap2::{MmapMut, MmapOptions};
use nix::errno::Errno;

use super::ioctl;

const READ_WRITE: u64 = 3;
const END: u64 = 1 << 2;

/// Bytes of the buffer.
pub(super) fn size(file: &File) -> io::Result<u64> {
    let mut file = file;
    match file.seek(SeekFrom::End(0))? {
        0 => Err(io::Error::other("it has no bytes")),
        size => Ok(size),
    }
}

/// Maps all of it.
pub(super) fn map(file: &File, size: u64) -> io::Result<MmapMut> {
    let size = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: whoever passes a buffer to this library promises that its bytes do not change while the library uses them. All of
    // its bytes are plain data.
    unsafe { MmapOptions::new().len(size).map_mut(file) }
}

/// Marks the beginning or the end of the processor's access to the buffer. If the device is not coherent with the
/// caches, the buffer's driver then synchronises them. Files that are not dma-bufs need nothing.
///
/// # Errors
///
/// When the buffer's driver refuses.
pub(super) fn access(fd: BorrowedFd<'_>, end: bool) -> io::Result<()> {
    let argument = ioctl::Sync { flags: READ_WRITE | if end { END } else { 0 } };
    loop {
        // SAFETY: the descriptor is open and the argument is the structure that the ioctl names.
        match ioctl::once(|| unsafe { ioctl::dma_buf_sync(fd.as_raw_fd(), &raw const argument) }) {
            // QEMU's user emulation answers ENOSYS in place of ENOTTY if the file is not a dma-buf (7.2 does).
            Ok(()) | Err(Errno::ENOTTY | Errno::ENOSYS) => return Ok(()),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
