// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's memory, mapped in pieces as the virtual machine announces it: a few large pieces, or, behind an IOMMU, one page
//! for each mapping of the guest. Pieces that are adjacent for the device are adjacent here too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nvdla_model::memory::{Memory, Port, Span};

use crate::sram::Sram;

/// The device addresses that the guest's memory may have: from 0, and, as an IOMMU assigns addresses, below 2^48.
const WINDOWS: [Range<u64>; 2] = [0..WINDOW, (1 << 48) - WINDOW..1 << 48];
/// Bytes of each window: more than the memory of any guest here.
const WINDOW: u64 = 1 << 39;
/// Bytes of address space that are reserved for both windows.
const RESERVED_BYTES: usize = 2 << 39;

/// The address space in which the guest's memory is mapped: the windows one after another.
struct AddressSpace(NonNull<u8>);

// SAFETY: The mapping is shared memory that the guest may change at any time from any thread anyway.
unsafe impl Send for AddressSpace {}
// SAFETY: As above.
unsafe impl Sync for AddressSpace {}

impl AddressSpace {
    fn new() -> io::Result<Self> {
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
    fn at(&self, address: u64) -> *mut u8 {
        let offset =
            if address < WINDOW { address } else { address.wrapping_sub(WINDOWS[1].start).wrapping_add(WINDOW) };
        self.0.as_ptr().wrapping_add(offset as usize)
    }

    /// Maps a part of a file at a device address, or removes the mapping.
    fn put(&self, address: u64, length: u64, file: Option<(RawFd, u64)>, protection: i32) -> io::Result<()> {
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

/// Adjacent mapped addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    end: u64,
    writable: bool,
}

/// The memory that the device may access: the guest's, and the device's own SRAM.
pub(crate) struct Guest {
    /// The SRAM behind the secondary memory interface.
    pub(crate) sram: Option<Sram>,
    space: AddressSpace,
    /// The pieces by their first address.
    pieces: BTreeMap<u64, Piece>,
    /// Report every access as outside, to test a driver.
    pub(crate) refuse: bool,
    /// The ranges that the device may access, as start and length; all memory if empty. A guest that knows its buffers sets them,
    /// and any other access then counts as outside.
    pub(crate) allowed: Vec<(u64, u64)>,
    /// What the device's addresses are above the guest's, behind a bus that has its own.
    pub(crate) offset: u64,
    /// The number of accesses outside, without those that were refused on purpose.
    pub(crate) outside: AtomicU64,
}

impl Guest {
    pub(crate) fn new(sram: Option<Sram>) -> io::Result<Self> {
        Ok(Self {
            sram,
            space: AddressSpace::new()?,
            pieces: BTreeMap::new(),
            refuse: false,
            allowed: Vec::new(),
            offset: 0,
            outside: AtomicU64::new(0),
        })
    }

    /// Maps `length` bytes of `file` from `offset` at the guest's `address`.
    pub(crate) fn map(
        &mut self,
        address: u64,
        length: u64,
        file: &File,
        offset: u64,
        writable: bool,
    ) -> io::Result<()> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        self.space.put(address, length, Some((file.as_raw_fd(), offset)), protection)?;
        self.forget(address, address + length);
        let (mut start, mut piece) = (address, Piece { end: address + length, writable });
        if let Some((&before, &other)) = self.pieces.range(..address).next_back() {
            if other.end == address && other.writable == writable {
                start = before;
            }
        }
        if let Some(&other) = self.pieces.get(&piece.end).filter(|other| other.writable == writable) {
            self.pieces.remove(&piece.end);
            piece.end = other.end;
        }
        self.pieces.insert(start, piece);
        Ok(())
    }

    /// Unmaps the range.
    pub(crate) fn unmap(&mut self, address: u64, length: u64) -> io::Result<()> {
        for window in WINDOWS {
            let (start, end) = (address.max(window.start), address.saturating_add(length).min(window.end));
            if start < end {
                self.forget(start, end);
                self.space.put(start, end - start, None, libc::PROT_NONE)?;
            }
        }
        Ok(())
    }

    /// The number of mapped bytes.
    pub(crate) fn mapped(&self) -> u64 {
        self.pieces.iter().map(|(start, piece)| piece.end - start).sum()
    }

    /// Unmaps everything.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.unmap(0, u64::MAX)
    }

    /// Removes a range from the pieces.
    fn forget(&mut self, start: u64, end: u64) {
        if let Some((&first, &piece)) = self.pieces.range(..start).next_back().filter(|(_, piece)| piece.end > start) {
            self.pieces.insert(first, Piece { end: start, ..piece });
            self.pieces.insert(start, piece);
        }
        while let Some((&first, &piece)) = self.pieces.range(start..end).next() {
            self.pieces.remove(&first);
            if piece.end > end {
                self.pieces.insert(end, piece);
            }
        }
    }

    /// The address of the only page that begins with these bytes.
    pub(crate) fn find_page(&self, mark: &[u8]) -> Option<u64> {
        const PAGE: usize = 4096;
        let mut found = None;
        for (&start, piece) in &self.pieces {
            // SAFETY: The range is the whole piece. As for `read`, the guest may change it meanwhile.
            let bytes = unsafe { std::slice::from_raw_parts(self.space.at(start), (piece.end - start) as usize) };
            for (number, _) in bytes.chunks(PAGE).enumerate().filter(|(_, page)| page.starts_with(mark)) {
                let address = start + (number * PAGE) as u64 + self.offset;
                if found.replace(address).is_some() {
                    return None;
                }
            }
        }
        found
    }

    /// Bytes of the SRAM for an access of the virtual machine; `None` if they are not inside.
    pub(crate) fn sram_mut(&mut self, offset: u64, length: usize) -> Option<&mut [u8]> {
        let start = self.sram.as_ref()?.at(offset, length)?;
        // SAFETY: The range lies in the SRAM's mapping. The virtual machine may change it meanwhile, and any value is acceptable.
        Some(unsafe { std::slice::from_raw_parts_mut(start, length) })
    }

    /// The first byte of a range that the device may access.
    fn find(&self, Span { port, address, length }: Span, write: bool) -> Option<*mut u8> {
        if self.refuse {
            return None;
        }
        let found = match port {
            Port::Primary => self.lookup(address, length, write),
            Port::Secondary => self.sram.as_ref().and_then(|sram| sram.find(address, length)),
        };
        if found.is_none() {
            self.outside.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    fn lookup(&self, address: u64, length: usize, write: bool) -> Option<*mut u8> {
        let inside = |&(start, size): &(u64, u64)| {
            address
                .checked_sub(start)
                .and_then(|offset| offset.checked_add(length as u64))
                .is_some_and(|end| end <= size)
        };
        if !self.allowed.is_empty() && !self.allowed.iter().any(inside) {
            return None;
        }
        let address = address.checked_sub(self.offset)?;
        let end = address.checked_add(length as u64)?;
        let (_, piece) = self.pieces.range(..=address).next_back()?;
        (end <= piece.end && (piece.writable || !write)).then(|| self.space.at(address))
    }
}

impl Memory for Guest {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        let start = self.find(Span { port, address, length }, false)?;
        // SAFETY: The range lies in the mapping of its memory. The guest may change it meanwhile, as on a real bus. The model only copies bytes
        // and computes with them, so any value is acceptable.
        Some(unsafe { std::slice::from_raw_parts(start, length) })
    }

    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        let start = self.find(Span { port, address, length }, true)?;
        // SAFETY: As above, and `&mut self` keeps other accesses of this process out.
        Some(unsafe { std::slice::from_raw_parts_mut(start, length) })
    }

    fn both(&mut self, read: Span, write: Span) -> Option<(&[u8], &mut [u8])> {
        let ends = |span: Span| Some((span.address, span.address.checked_add(span.length as u64)?));
        let ((read_start, read_end), (write_start, write_end)) = (ends(read)?, ends(write)?);
        if read.port == write.port && read_start < write_end && write_start < read_end {
            return None;
        }
        let (from, to) = (self.find(read, false)?, self.find(write, true)?);
        // SAFETY: As above. Different device addresses have different places in the reservation or in the SRAM, which are
        // different mappings, so the two ranges do not overlap.
        Some(unsafe {
            (std::slice::from_raw_parts(from, read.length), std::slice::from_raw_parts_mut(to, write.length))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A file of `count` pages. Each begins with its number, from 1.
    fn pages(name: &str, count: u8) -> File {
        let path = std::env::temp_dir().join(format!("nvdla-vp-{name}-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for page in 1..=count {
            let mut bytes = [0; 4096];
            bytes[0] = page;
            file.write_all(&bytes).unwrap();
        }
        file
    }

    #[test]
    fn pages_that_follow_each_other_are_one_piece() {
        let file = pages("pages", 4);
        let mut guest = Guest::new(None).unwrap();
        // In reverse order in the file, and mapped out of order.
        guest.map(0xf000_1000, 0x1000, &file, 0x2000, true).unwrap();
        guest.map(0xf000_3000, 0x1000, &file, 0, true).unwrap();
        assert!(guest.read(Port::Primary, 0xf000_1000, 0x1001).is_none());
        guest.map(0xf000_2000, 0x1000, &file, 0x1000, true).unwrap();
        guest.map(0xf000_0000, 0x1000, &file, 0x3000, false).unwrap();
        let bytes = guest.read(Port::Primary, 0xf000_1000, 0x3000).unwrap();
        assert_eq!([bytes[0], bytes[0x1000], bytes[0x2000]], [3, 2, 1]);
        // A read-only part is a separate piece.
        assert!(guest.write(Port::Primary, 0xf000_0000, 1).is_none());
        assert!(guest.read(Port::Primary, 0xf000_0fff, 2).is_none());
        assert_eq!((guest.pieces.len(), guest.mapped()), (2, 0x4000));
        guest.unmap(0xf000_2000, 0x1000).unwrap();
        assert_eq!((guest.pieces.len(), guest.mapped()), (3, 0x3000));
        assert!(guest.read(Port::Primary, 0xf000_2000, 1).is_none());
        assert!(guest.read(Port::Primary, 0xf000_1000, 0x1000).is_some());
        assert!(guest.write(Port::Primary, 0xf000_3000, 0x1000).is_some());
        guest.clear().unwrap();
        assert!(guest.read(Port::Primary, 0xf000_1000, 1).is_none());
        assert!(guest.map(WINDOW, 0x1000, &file, 0, true).is_err());
        // The last page below 2^48, and the first page.
        let last = (1 << 48) - 0x1000;
        guest.map(last, 0x1000, &file, 0x1000, true).unwrap();
        guest.map(0, 0x1000, &file, 0x2000, true).unwrap();
        let first = |guest: &Guest, address| guest.read(Port::Primary, address, 0x1000).map(|bytes| bytes[0]);
        assert_eq!([first(&guest, last), first(&guest, 0), first(&guest, last + 1)], [Some(2), Some(3), None]);
        guest.clear().unwrap();
        assert_eq!([first(&guest, last), first(&guest, 0)], [None, None]);
    }

    #[test]
    fn what_the_guest_does_not_allow_is_outside() {
        let file = pages("guest", 4);
        let mut guest = Guest::new(None).unwrap();
        guest.map(0x1000, 0x4000, &file, 0, true).unwrap();
        assert!(guest.read(Port::Primary, 0x1000, 0x4000).is_some());
        assert!(guest.read(Port::Primary, 0x1000, 0x4001).is_none());
        guest.write(Port::Primary, 0x3000, 4).unwrap().copy_from_slice(b"here");
        let span = |address, length| Span { port: Port::Primary, address, length };
        let (from, to) = guest.both(span(0x3000, 4), span(0x3004, 4)).unwrap();
        to.copy_from_slice(from);
        assert_eq!(guest.read(Port::Primary, 0x3000, 8), Some(&b"herehere"[..]));
        assert!(guest.both(span(0x3000, 4), span(0x3003, 4)).is_none());
        assert!(guest.both(span(0x3000, 4), span(0x4fff, 2)).is_none());
        guest.write(Port::Primary, 0x3004, 4).unwrap().fill(0);
        assert_eq!(guest.find_page(b"here"), Some(0x3000));
        assert_eq!((guest.find_page(b"none"), guest.find_page(&[0; 4])), (None, None));
        guest.allowed = vec![(0x2000, 0x100)];
        assert!(guest.write(Port::Primary, 0x2000, 0x100).is_some());
        assert!(guest.write(Port::Primary, 0x20ff, 2).is_none());
        assert!(guest.read(Port::Primary, 0x1fff, 1).is_none());
        assert_eq!(guest.outside.load(Ordering::Relaxed), 4);
    }
    #[test]
    fn each_interface_reaches_its_own_memory() {
        let file = pages("interfaces", 1);
        let mut guest = Guest::new(Some(Sram::new(0x2000).unwrap())).unwrap();
        guest.map(0, 0x1000, &file, 0, true).unwrap();
        guest.write(Port::Secondary, 0, 4).unwrap().copy_from_slice(b"sram");
        assert_eq!(guest.read(Port::Primary, 0, 4), Some(&[1, 0, 0, 0][..]));
        assert_eq!(guest.read(Port::Secondary, 0, 4), Some(&b"sram"[..]));
        let span = |port, address| Span { port, address, length: 4 };
        let (from, to) = guest.both(span(Port::Secondary, 0), span(Port::Primary, 2)).unwrap();
        to.copy_from_slice(from);
        assert_eq!(guest.read(Port::Primary, 0, 6), Some(&b"\x01\0sram"[..]));
        assert!(guest.both(span(Port::Secondary, 0), span(Port::Secondary, 2)).is_none());
        assert_eq!(guest.outside.load(Ordering::Relaxed), 0);
        assert!(guest.read(Port::Secondary, 0x1ffd, 4).is_none());
        assert!(guest.write(Port::Secondary, u64::MAX, 2).is_none());
        assert!(guest.read(Port::Primary, 0x1000, 4).is_none());
        assert_eq!(guest.outside.load(Ordering::Relaxed), 3);
        guest.sram.as_mut().unwrap().set_base(0xfe00_0000);
        for address in [0, 0xfe00_0000] {
            assert_eq!(guest.read(Port::Secondary, address, 4), Some(&b"sram"[..]));
        }
        assert!(guest.sram_mut(0xfe00_0000, 4).is_none());
        guest.sram = None;
        assert!(guest.read(Port::Secondary, 0, 4).is_none());
        assert_eq!(guest.outside.load(Ordering::Relaxed), 4);
    }
}
