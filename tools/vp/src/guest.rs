// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's memory, mapped piece by piece as the virtual machine announces it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nvdla_model::memory::{Memory, Port};

/// A mapped piece of guest memory.
struct Piece {
    start: *mut u8,
    length: usize,
    writable: bool,
}

// SAFETY: The mapping is shared memory that the guest may change at any time from any thread anyway.
unsafe impl Send for Piece {}
// SAFETY: As above.
unsafe impl Sync for Piece {}

impl Drop for Piece {
    fn drop(&mut self) {
        // SAFETY: The range was mapped by `Guest::map` and nothing borrows it any more.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// The memory that the device may reach.
#[derive(Default)]
pub(crate) struct Guest {
    pieces: BTreeMap<u64, Piece>,
    /// Report every access as outside, to see what a driver does then.
    pub(crate) refuse: bool,
}

impl Guest {
    /// Maps `length` bytes of `file` from `offset` at the guest's `address`.
    pub(crate) fn map(
        &mut self,
        address: u64,
        length: u64,
        file: &File,
        offset: u64,
        writable: bool,
    ) -> io::Result<()> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: A new mapping at an address that the kernel chooses.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.pieces.insert(address, Piece { start: start.cast(), length, writable });
        Ok(())
    }

    /// Unmaps what starts in the range.
    pub(crate) fn unmap(&mut self, address: u64, length: u64) {
        let end = address.saturating_add(length);
        self.pieces.retain(|&start, _| start < address || start >= end);
    }

    /// Unmaps everything.
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
    }

    fn find(&self, address: u64, length: usize) -> Option<(&Piece, usize)> {
        if self.refuse {
            return None;
        }
        let (&start, piece) = self.pieces.range(..=address).next_back()?;
        let offset = usize::try_from(address - start).ok()?;
        (offset.checked_add(length)? <= piece.length).then_some((piece, offset))
    }
}

impl Memory for Guest {
    fn read(&self, _port: Port, address: u64, length: usize) -> Option<&[u8]> {
        let (piece, offset) = self.find(address, length)?;
        // SAFETY: The range lies in the mapping. The guest may change it meanwhile, as on a real bus: the model only
        // copies bytes and computes with them, any value is acceptable.
        Some(unsafe { std::slice::from_raw_parts(piece.start.add(offset), length) })
    }

    fn write(&mut self, _port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        let (piece, offset) = self.find(address, length).filter(|(piece, _)| piece.writable)?;
        // SAFETY: As above, and `&mut self` keeps other accesses of this process out.
        Some(unsafe { std::slice::from_raw_parts_mut(piece.start.add(offset), length) })
    }
}
