// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's memory, mapped in pieces as the virtual machine announces it: a few large pieces, or, behind an IOMMU, one page
//! for each mapping of the guest. Pieces that are adjacent for the device are adjacent here too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use nvdla_model::memory::{Memory, Port, Span};

use crate::space::{AddressSpace, WINDOWS};
use crate::sram::Sram;
use crate::stale::Stale;

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
    refuse: bool,
    /// The ranges that the device may access, as start and length; all memory if empty. A guest that knows its buffers sets them,
    /// and any other access then counts as outside.
    pub(crate) allowed: Vec<(u64, u64)>,
    /// What the device's addresses are above the guest's, behind a bus that has its own.
    pub(crate) offset: u64,
    /// The first address that the device does not reach.
    pub(crate) end: u64,
    /// What a device reads that is not coherent with the guest's caches.
    pub(crate) stale: Option<Stale>,
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
            end: u64::MAX,
            stale: None,
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
        if let Some(stale) = &mut self.stale {
            stale.map(address, length)?;
        }
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
        if let Some(stale) = &mut self.stale {
            stale.forget(address, length);
        }
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

    /// The next operation begins. With `refuse` its accesses are reported as outside.
    pub(crate) fn begin(&mut self, refuse: bool) {
        self.refuse = refuse;
        if let Some(stale) = &mut self.stale {
            stale.begin();
        }
    }

    /// The first byte of a range that the device may access.
    fn find(&self, Span { port, address, length }: Span, write: bool) -> Option<*mut u8> {
        if self.refuse {
            return None;
        }
        let found = match port {
            Port::Primary => self.lookup(address, length, write).map(|address| match &self.stale {
                Some(stale) if !write => stale.read(&self.space, address, length as u64),
                _ => self.space.at(address),
            }),
            Port::Secondary => self.sram.as_ref().and_then(|sram| sram.find(address, length)),
        };
        if found.is_none() {
            self.outside.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// The guest's address of a range that the device may access.
    fn lookup(&self, address: u64, length: usize, write: bool) -> Option<u64> {
        let inside = |&(start, size): &(u64, u64)| {
            address
                .checked_sub(start)
                .and_then(|offset| offset.checked_add(length as u64))
                .is_some_and(|end| end <= size)
        };
        if !self.allowed.is_empty() && !self.allowed.iter().any(inside) {
            return None;
        }
        if address.checked_add(length as u64)? > self.end {
            return None;
        }
        let address = address.checked_sub(self.offset)?;
        let end = address.checked_add(length as u64)?;
        let (_, piece) = self.pieces.range(..=address).next_back()?;
        (end <= piece.end && (piece.writable || !write)).then_some(address)
    }

    /// The device writes a range, which it may access.
    fn written(&mut self, Span { port, address, length }: Span) {
        if let Some(stale) = self.stale.as_mut().filter(|_| port == Port::Primary) {
            stale.write(address - self.offset, length as u64);
        }
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
        self.written(Span { port, address, length });
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
        self.written(write);
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
        assert!(guest.map(WINDOWS[0].end, 0x1000, &file, 0, true).is_err());
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
    fn a_device_without_coherence_reads_old_lines_and_its_own_writes() {
        let file = pages("stale", 1);
        let mut guest = Guest::new(None).unwrap();
        guest.stale = Some(Stale::new().unwrap());
        guest.map(0x1000, 0x1000, &file, 0, true).unwrap();
        let mapped = guest.space.at(0x1000);
        let processor = |at: usize, value: u8| {
            // SAFETY: The byte lies in the piece.
            unsafe { mapped.wrapping_add(at).write_volatile(value) };
        };
        let device = |guest: &Guest, at: u64| guest.read(Port::Primary, 0x1000 + at, 1).unwrap()[0];
        guest.begin(false);
        assert_eq!([device(&guest, 1), device(&guest, 65)], [0, 0]);
        for at in [0, 1, 65, 66] {
            processor(at, 7);
        }
        assert_eq!(device(&guest, 65), 0, "an operation reads a line once");
        guest.begin(false);
        // The second of two lines is old, also where the device has not looked before.
        assert_eq!([0, 1, 65, 66].map(|at| device(&guest, at)), [7, 7, 0, 0]);
        guest.write(Port::Primary, 0x1041, 1).unwrap()[0] = 9;
        assert_eq!([65, 66].map(|at| device(&guest, at)), [9, 7]);
        processor(65, 8);
        guest.begin(false);
        assert_eq!(device(&guest, 65), 9);
        guest.unmap(0x1000, 0x1000).unwrap();
        guest.map(0x1000, 0x1000, &file, 0, true).unwrap();
        guest.begin(false);
        assert_eq!(device(&guest, 65), 8);
    }

    #[test]
    fn a_bus_that_ends_early_reaches_no_byte_behind_its_end() {
        let file = pages("end", 2);
        let mut guest = Guest::new(None).unwrap();
        guest.map(0x1000, 0x2000, &file, 0, true).unwrap();
        guest.end = 0x2000;
        assert!(guest.read(Port::Primary, 0x1000, 0x1000).is_some());
        assert!(guest.read(Port::Primary, 0x1000, 0x1001).is_none());
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
