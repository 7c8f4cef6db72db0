// SPDX-License-Identifier: MIT OR Apache-2.0

//! An address space of the size of a guest's, in which pieces of the guest's memory are mapped at the device's addresses.

use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr::NonNull;

/// The device addresses that the guest's memory may have: from 0, and, as an IOMMU assigns addresses, below 2^48.
pub(crate) const WINDOWS: [Range<u64>; 2] = [0..WINDOW, (1 << 48) - WINDOW..1 << 48];
/// Bytes of each window: more than the memory of any guest here.
const WINDOW: u64 = 1 << 39;
/// Bytes of address space that are reserved for both windows.
const RESERVED_BYTES: usize = 2 << 39;

/// The address space in which the guest's memory is mapped: the windows one after another.
pub(crate) struct AddressSpace(NonNull<u8>);

// SAFETY: The mapping is shared memory that the guest may change at any time from any thread anyway.
unsafe impl Send for AddressSpace {}
// SAFETY: As above.
unsafe impl Sync for AddressSpace {}

impl AddressSpace {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: A new mapping at an address that the kernel chooses; it replaces nothing.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), RESERVED_BYTES, libc::PROT_NONE, flags, -1, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast()).map(Self).ok_or_else(|| io::Error::other("mapped at 0"))
    }

    /// The byte at a device address inside a window.
    pub(crate) fn at(&self, address: u64) -> *mut u8 {
        let offset =
            if address < WINDOW { address } else { address.wrapping_sub(WINDOWS[1].start).wrapping_add(WINDOW) };
        self.0.as_ptr().wrapping_add(offset as usize)
    }

    /// Maps a part of a file at a device address, or removes the mapping.
    pub(crate) fn put(&self, address: u64, length: u64, file: Option<(RawFd, u64)>, protection: i32) -> io::Result<()> {
        let end = address.saturating_add(length);
        if !WINDOWS.iter().any(|window| window.start <= address && end <= window.end) {
            return Err(io::Error::other(format!(
                "{length:#x} bytes at {address:#x} are outside the reserved address space"
            )));
        }
        let (fd, offset, flags) = match file {
            Some((fd, offset)) => (fd, libc::off_t::try_from(offset).map_err(io::Error::other)?, libc::MAP_SHARED),
            None => (-1, 0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE),
        };
        // SAFETY: It replaces a part of this reservation's own mapping. No other reference to that part exists, because the
        // caller has exclusive access.
        let at = unsafe {
            libc::mmap(self.at(address).cast(), length as usize, protection, flags | libc::MAP_FIXED, fd, offset)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        // SAFETY: The range was mapped by `AddressSpace::new` and nothing borrows it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), RESERVED_BYTES) };
    }
}
