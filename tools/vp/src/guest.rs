// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's memory, mapped piece by piece as the virtual machine announces it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Where the device may reach, as start and length; everywhere while it is empty. A guest that knows its buffers
    /// says so here, and then an access elsewhere is outside.
    pub(crate) allowed: Vec<(u64, u64)>,
    /// Accesses outside, those that were refused on purpose apart.
    pub(crate) outside: AtomicU64,
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

    /// The address of the one page that begins with these bytes.
    pub(crate) fn find_page(&self, mark: &[u8]) -> Option<u64> {
        const PAGE: usize = 4096;
        let mut found = None;
        for (&start, piece) in &self.pieces {
            // SAFETY: The whole of the mapping; as for `read`, the guest may change it meanwhile.
            let bytes = unsafe { std::slice::from_raw_parts(piece.start, piece.length) };
            for (number, _) in bytes.chunks(PAGE).enumerate().filter(|(_, page)| page.starts_with(mark)) {
                let address = start + (number * PAGE) as u64;
                if found.replace(address).is_some() {
                    return None;
                }
            }
        }
        found
    }

    fn find(&self, address: u64, length: usize) -> Option<(&Piece, usize)> {
        if self.refuse {
            return None;
        }
        let found = self.lookup(address, length);
        if found.is_none() {
            self.outside.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    fn lookup(&self, address: u64, length: usize) -> Option<(&Piece, usize)> {
        let inside = |&(start, size): &(u64, u64)| {
            address
                .checked_sub(start)
                .and_then(|offset| offset.checked_add(length as u64))
                .is_some_and(|end| end <= size)
        };
        if !self.allowed.is_empty() && !self.allowed.iter().any(inside) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guest_does_not_allow_is_outside() {
        let path = std::env::temp_dir().join(format!("nvdla-vp-guest-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(0x4000).unwrap();
        let mut guest = Guest::default();
        guest.map(0x1000, 0x4000, &file, 0, true).unwrap();
        assert!(guest.read(Port::Primary, 0x1000, 0x4000).is_some());
        assert!(guest.read(Port::Primary, 0x1000, 0x4001).is_none());
        guest.write(Port::Primary, 0x3000, 4).unwrap().copy_from_slice(b"here");
        assert_eq!(guest.find_page(b"here"), Some(0x3000));
        assert_eq!((guest.find_page(b"none"), guest.find_page(&[0; 4])), (None, None));
        guest.allowed = vec![(0x2000, 0x100)];
        assert!(guest.write(Port::Primary, 0x2000, 0x100).is_some());
        assert!(guest.write(Port::Primary, 0x20ff, 2).is_none());
        assert!(guest.read(Port::Primary, 0x1fff, 1).is_none());
        assert_eq!(guest.outside.load(Ordering::Relaxed), 3);
    }
}
