// SPDX-License-Identifier: MIT OR Apache-2.0

//! The buffers of the built-in model, and what counts their changes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use memmap2::{Advice, MmapMut};
use nix::sys::memfd::{memfd_create, MFdFlags};
use nvdla_model::memory::apart;
use nvdla_uapi::config::Config;

use super::{AddressEntry, Buffers, Handle, Pages};

/// Where the first buffer lies. Address 0 stays a fault.
const FIRST_ADDRESS: u64 = 0x1000_0000;
/// The alignment of buffers.
const PAGE: u64 = 4096;
/// What the system can map in one piece.
const HUGE_PAGE: usize = 2 << 20;

/// A buffer: zeroed pages of this process, at an address of the model's memory.
pub(super) struct Buffer {
    address: u64,
    /// Bytes that were asked for.
    size: u64,
    /// Whole pages.
    pages: Arc<Pages>,
    /// What the pages are a mapping of, where another process maps them too.
    file: Option<File>,
}

impl Buffer {
    /// Its first byte's address.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Bytes that were asked for.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// A number that no buffer of the store has had before for other bytes: it is another after each access that may
    /// change one.
    pub(super) fn version(&self) -> u64 {
        self.pages.version()
    }

    /// The bytes from `offset` on, `size` of them, that an address list gives access to.
    ///
    /// As with a kernel driver, whose buffers are whole pages, what reaches to the end of the buffer has the rest of its
    /// last page too: the hardware reads operands in whole atoms, and compilers do not pad the memory for that.
    pub(super) fn reach(&self, entry: &AddressEntry) -> u64 {
        if entry.offset + entry.size == self.size {
            self.pages.length() as u64 - entry.offset
        } else {
            entry.size
        }
    }

    /// Its pages.
    pub(super) fn pages(&self) -> &[u8] {
        // SAFETY: the device reads a buffer in calls of whoever owns it, and while a task of its owner runs. In both
        // cases nobody writes the bytes: a context keeps away from its buffers while a run of it is in flight.
        unsafe { self.pages.bytes() }
    }

    /// Its pages, to be written; none of constants.
    fn pages_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: as above, and the exclusive reference keeps every other slice away that this device gives.
        Some(unsafe { self.pages.bytes_mut() }).filter(|pages| !pages.is_empty())
    }
}

/// The buffers of a device.
pub(super) struct Store {
    buffers: Vec<Option<Buffer>>,
    /// Buffers are files.
    files: bool,
    /// The first address that the device cannot reach.
    end: u64,
}

impl Store {
    /// The buffers of a device; with `files` each can be mapped by another process.
    pub(super) fn new(config: &Config, files: bool) -> Self {
        // Address registers have 64 bits, or 32 where the configuration says so; 40 lead to memory.
        let width = config.address_width.unwrap_or(40).min(40);
        Self { buffers: Vec::new(), files, end: 1 << width }
    }

    pub(super) fn get(&self, handle: Handle) -> Option<&Buffer> {
        self.buffers.get(handle.0 as usize)?.as_ref()
    }

    /// A buffer that is a file, and the file.
    pub(super) fn file(&self, handle: Handle) -> Option<(&Buffer, &File)> {
        let buffer = self.get(handle)?;
        Some((buffer, buffer.file.as_ref()?))
    }

    /// The pages of a buffer, to be written.
    pub(super) fn pages_mut(&mut self, handle: Handle) -> Option<&mut [u8]> {
        self.buffers.get_mut(handle.0 as usize)?.as_mut()?.pages_mut()
    }

    /// A range to read and one to write, which do not share a byte.
    pub(super) fn both(
        &mut self,
        (from, read): (Handle, Range<usize>),
        (to, write): (Handle, Range<usize>),
    ) -> Option<(&[u8], &mut [u8])> {
        if from == to {
            return apart(self.pages_mut(from)?, read, write);
        }
        let [from, to] = self.buffers.get_disjoint_mut([from.0 as usize, to.0 as usize]).ok()?;
        Some((from.as_ref()?.pages().get(read)?, to.as_mut()?.pages_mut()?.get_mut(write)?))
    }

    /// The pages of a buffer, for who shares them.
    pub(super) fn share(&self, handle: Handle) -> Option<Arc<Pages>> {
        self.get(handle).map(|buffer| Arc::clone(&buffer.pages))
    }

    /// The first place for `size` bytes: between the buffers or behind them, so that places are used again.
    fn free_address(&self, size: u64) -> Option<u64> {
        let mut taken: Vec<_> = self.buffers.iter().flatten().map(|b| (b.address, b.pages.length() as u64)).collect();
        taken.sort_unstable();
        let mut address = FIRST_ADDRESS;
        for (start, length) in taken {
            if address.checked_add(size)?.checked_add(PAGE)? <= start {
                break;
            }
            // A page of nothing after each buffer, so that running over its end is a fault.
            address = start + length + PAGE;
        }
        address.checked_add(size)?.checked_add(PAGE).filter(|&end| end <= self.end).map(|_| address)
    }

    fn add(&mut self, address: u64, size: u64, map: MmapMut, file: Option<File>) -> Handle {
        let free = self.buffers.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.buffers.push(None);
            self.buffers.len() - 1
        });
        self.buffers[at] = Some(Buffer { address, size, pages: Pages::new(map, size as usize), file });
        Handle(at as u32)
    }

    pub(super) fn allocate(&mut self, size: u64) -> io::Result<Handle> {
        let length = usize::try_from(size).ok().filter(|&length| length > 0).ok_or(io::ErrorKind::InvalidInput)?;
        let whole = size.checked_next_multiple_of(PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let address = self.free_address(whole).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapped = length.next_multiple_of(PAGE as usize);
        let (pages, file) = if self.files {
            let (pages, file) = shared(mapped)?;
            (pages, Some(file))
        } else {
            (MmapMut::map_anon(mapped)?, None)
        };
        if length >= HUGE_PAGE && file.is_none() {
            // Filling 20 MB of weights takes a tenth of the time in huge pages; a system without them goes on as ever.
            if let Err(error) = pages.advise(Advice::HugePage) {
                log::debug!("no huge pages for {size} bytes: {error}");
            }
        }
        Ok(self.add(address, size, pages, file))
    }

    /// A file of the buffer's bytes, which other processes can map. Its pages become others where it had no file.
    pub(super) fn export(&mut self, handle: Handle) -> io::Result<OwnedFd> {
        let index = handle.0 as usize;
        let buffer = self.buffers.get_mut(index).and_then(Option::as_mut).ok_or(io::ErrorKind::NotFound)?;
        if buffer.file.is_none() {
            let (mut map, file) = shared(buffer.pages.length())?;
            map.copy_from_slice(buffer.pages());
            buffer.pages = Pages::new(map, buffer.size as usize);
            buffer.file = Some(file);
        }
        Ok(buffer.file.as_ref().ok_or(io::ErrorKind::NotFound)?.try_clone()?.into())
    }

    /// A buffer whose bytes are those of a file that somebody else has made.
    pub(super) fn import(&mut self, fd: BorrowedFd<'_>) -> io::Result<Handle> {
        let file = File::from(fd.try_clone_to_owned()?);
        let size = super::dma_buf::size(&file)?;
        let whole = size.checked_next_multiple_of(PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let address = self.free_address(whole).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = super::dma_buf::map(&file, size)?;
        Ok(self.add(address, size, map, Some(file)))
    }

    pub(super) fn free(&mut self, handle: Handle) {
        if let Some(buffer) = self.buffers.get_mut(handle.0 as usize) {
            *buffer = None;
        }
    }
}

/// Zeroed memory that has a file.
fn shared(length: usize) -> io::Result<(MmapMut, File)> {
    let file = File::from(memfd_create(c"nvdla buffer", MFdFlags::MFD_CLOEXEC)?);
    file.set_len(length as u64)?;
    // SAFETY: Only the simulator that is given the file maps it beside this process. It changes the bytes while it is
    // run, that is in calls that hold the device exclusively, so that nobody has a reference to them then.
    Ok((unsafe { MmapMut::map_mut(&file)? }, file))
}

impl Buffers for Store {
    fn bytes(&self, handle: Handle) -> &[u8] {
        self.get(handle).and_then(|buffer| buffer.pages().get(..buffer.size as usize)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::NV_SMALL;

    use super::*;

    #[test]
    fn versions_change_with_every_access_that_may_write_and_with_nothing_else() {
        let mut store = Store::new(&NV_SMALL, false);
        let [a, b] = [10, 10].map(|size| store.allocate(size).unwrap());
        let versions = |store: &Store| [a, b].map(|handle| store.get(handle).unwrap().version());
        let mut seen = versions(&store).to_vec();
        assert_eq!(store.bytes(a), [0; 10]);
        assert_eq!(versions(&store)[..], seen[..2]);
        store.pages_mut(a).unwrap()[0] = 1;
        assert!(!seen.contains(&versions(&store)[0]));
        assert_eq!(versions(&store)[1], seen[1]);
        seen.extend(versions(&store));
        store.both((a, 0..1), (b, 0..1)).unwrap();
        assert!(!seen.contains(&versions(&store)[1]));
        assert!(seen.contains(&versions(&store)[0]));
        seen.extend(versions(&store));
        store.both((a, 0..1), (a, 1..2)).unwrap();
        assert!(!seen.contains(&versions(&store)[0]));
        seen.extend(versions(&store));
        store.free(a);
        assert_eq!(store.allocate(10).unwrap(), a, "the place is used again");
        assert!(!seen.contains(&versions(&store)[0]));
    }
}
