// SPDX-License-Identifier: MIT OR Apache-2.0

//! The buffers of a device that the engine drives in this process, with their versions.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use memmap2::{Advice, MmapMut};
use nix::fcntl::{fcntl, FcntlArg, SealFlag};
use nix::sys::memfd::{memfd_create, MFdFlags};
#[cfg(feature = "model")]
use nvdla_model::memory::disjoint;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::RamType;

use super::pages::Pages;
use super::types::{AddressEntry, Buffers, Handle};

/// The address of the first buffer. Address 0 is never valid.
const FIRST_ADDRESS: u64 = 0x1000_0000;
/// The least alignment of buffers.
pub(super) const PAGE: u64 = 4096;
/// The size of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// A buffer: zeroed pages of this process, at an address of the device's memory.
pub(super) struct Buffer {
    address: u64,
    /// Bytes that were requested.
    size: u64,
    /// Whole pages.
    pages: Arc<Pages>,
    /// The file that the pages map, if another process maps it too.
    file: Option<File>,
    /// The memory interface behind which it lies.
    memory: RamType,
}

impl Buffer {
    /// Its first byte's address.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// The memory interface behind which it lies.
    pub(super) fn memory(&self) -> RamType {
        self.memory
    }

    /// Bytes that were requested.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// A number that changes with each access that may change a byte. No other buffer or contents of the store ever has the same
    /// number.
    pub(super) fn version(&self) -> u64 {
        self.pages.version()
    }

    /// The bytes from the entry's offset that the entry makes accessible.
    ///
    /// An entry that reaches the end of its buffer includes the rest of the last page, as with a kernel driver, whose buffers are
    /// whole pages. The hardware reads operands in whole atoms, and compilers do not pad the memory for that.
    pub(super) fn reach(&self, entry: &AddressEntry) -> u64 {
        if entry.offset + entry.size == self.size {
            self.pages.length() as u64 - entry.offset
        } else {
            entry.size
        }
    }

    /// The file that the pages map.
    #[cfg(feature = "direct")]
    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Keeps its pages out of processes that this one starts. Otherwise copy-on-write could give this process new pages while the
    /// device keeps the old ones.
    #[cfg(feature = "direct")]
    pub(super) fn keep_from_children(&self) -> io::Result<()> {
        self.pages.keep_from_children()
    }

    /// Its pages.
    pub(super) fn pages(&self) -> &[u8] {
        // SAFETY: the device reads a buffer in calls of the buffer's owner, and while a task of the owner runs. The
        // bytes are not written in either case, because a context does not access its buffers while a run of it is in
        // flight.
        unsafe { self.pages.bytes() }
    }

    /// Its pages, to be written. None for constants.
    fn pages_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: as above, and the exclusive reference keeps every other slice of this device away.
        Some(unsafe { self.pages.bytes_mut() }).filter(|pages| !pages.is_empty())
    }
}

/// The buffers of a device.
pub(super) struct Store {
    buffers: Vec<Option<Buffer>>,
    /// Buffers are files.
    files: bool,
    /// The addresses at which buffers may lie, in order.
    ranges: Vec<Range<u64>>,
    /// The alignment of buffers.
    page: u64,
    /// Buffers are taken from the end of the memory.
    top_down: Arc<AtomicBool>,
}

/// The addresses that a device of that configuration can access, without the first ones.
pub(super) fn reachable(config: &Config) -> Range<u64> {
    // Address registers have 64 bits, or 32 if the configuration says so; 40 address bits reach memory.
    FIRST_ADDRESS..1 << config.address_width.unwrap_or(40).min(40)
}

impl Store {
    /// The buffers of a device; with `files` each can be mapped by another process.
    pub(super) fn new(config: &Config, files: bool) -> Self {
        Self::within(vec![reachable(config)], PAGE, files)
    }

    /// The buffers of a device that reaches those addresses: whole pages of `page` bytes, a multiple of 4096.
    pub(super) fn within(ranges: Vec<Range<u64>>, page: u64, files: bool) -> Self {
        Self { buffers: Vec::new(), files, ranges, page, top_down: Arc::default() }
    }

    /// While it is true, buffers are taken from the end of the memory.
    #[cfg(feature = "direct")]
    pub(super) fn top_down(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.top_down)
    }

    /// From the first address that a buffer may have to the end of the last.
    #[cfg(feature = "direct")]
    pub(super) fn range(&self) -> Option<Range<u64>> {
        Some(self.ranges.first()?.start..self.ranges.last()?.end)
    }

    /// The first address at which `length` bytes are free, or the last one.
    fn find(&self, length: u64) -> Option<u64> {
        let gaps = self.gaps();
        if self.top_down.load(Ordering::Relaxed) {
            gaps.iter().rev().find_map(|gap| {
                let start = gap.end.checked_sub(length)? / self.page * self.page;
                (gap.start <= start).then_some(start)
            })
        } else {
            gaps.iter().find_map(|gap| (gap.start.checked_add(length)? <= gap.end).then_some(gap.start))
        }
    }

    /// The addresses at which no buffer lies, in order. Between two buffers there is an unused page, so that an access beyond a
    /// buffer's end is a fault.
    fn gaps(&self) -> Vec<Range<u64>> {
        // The memory of a file from outside may end anywhere.
        let whole = |buffer: &Buffer| (buffer.pages.length() as u64).next_multiple_of(self.page);
        let end = |buffer: &Buffer| buffer.address + whole(buffer) + self.page;
        let mut taken: Vec<_> = self.buffers.iter().flatten().map(|buffer| buffer.address..end(buffer)).collect();
        taken.sort_unstable_by_key(|taken| taken.start);
        let mut gaps = Vec::new();
        for range in &self.ranges {
            let mut next = range.start;
            for taken in taken.iter().filter(|taken| range.contains(&taken.start)) {
                gaps.push(next..taken.start.saturating_sub(self.page));
                next = taken.end;
            }
            gaps.push(next..range.end);
        }
        gaps
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

    /// A range to read and one to write, which do not overlap.
    #[cfg(feature = "model")]
    pub(super) fn both(
        &mut self,
        (from, read): (Handle, Range<usize>),
        (to, write): (Handle, Range<usize>),
    ) -> Option<(&[u8], &mut [u8])> {
        if from == to {
            return disjoint(self.pages_mut(from)?, read, write);
        }
        let [from, to] = self.buffers.get_disjoint_mut([from.0 as usize, to.0 as usize]).ok()?;
        Some((from.as_ref()?.pages().get(read)?, to.as_mut()?.pages_mut()?.get_mut(write)?))
    }

    /// A range of a buffer to write, and all other bytes.
    #[cfg(feature = "model")]
    pub(super) fn beside(&mut self, handle: Handle, range: Range<usize>) -> Option<(&mut [u8], Rest<'_>)> {
        let own = handle.0 as usize;
        let (before, rest) = self.buffers.split_at_mut_checked(own)?;
        let (buffer, after) = rest.split_first_mut()?;
        let (front, rest) = buffer.as_mut()?.pages_mut()?.split_at_mut_checked(range.start)?;
        let (bytes, back) = rest.split_at_mut_checked(range.end.checked_sub(range.start)?)?;
        Some((bytes, Rest { buffers: [before, after], own, front, back, range }))
    }

    /// The pages of a buffer, for those who share them.
    pub(super) fn share(&self, handle: Handle) -> Option<Arc<Pages>> {
        self.get(handle).map(|buffer| Arc::clone(&buffer.pages))
    }

    fn add(&mut self, address: u64, size: u64, map: MmapMut, file: Option<File>, memory: RamType) -> Handle {
        let free = self.buffers.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.buffers.push(None);
            self.buffers.len() - 1
        });
        self.buffers[at] = Some(Buffer { address, size, pages: Pages::new(map, size as usize), file, memory });
        Handle(at as u32)
    }

    /// A buffer in primary memory.
    pub(super) fn allocate(&mut self, size: u64) -> io::Result<Handle> {
        self.allocate_in(RamType::Mcif, size)
    }

    /// A buffer behind a memory interface. Buffers of both memories have different addresses, although the hardware does not
    /// need that, because a simulator maps and unmaps addresses for both interfaces at once.
    pub(super) fn allocate_in(&mut self, memory: RamType, size: u64) -> io::Result<Handle> {
        let length = usize::try_from(size).ok().filter(|&length| length > 0).ok_or(io::ErrorKind::InvalidInput)?;
        let mapped = length.checked_next_multiple_of(self.page as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        let address = self.find(mapped as u64).ok_or(io::ErrorKind::OutOfMemory)?;
        let (pages, file) = if self.files {
            let (pages, file) = shared(mapped)?;
            (pages, Some(file))
        } else {
            (MmapMut::map_anon(mapped)?, None)
        };
        if length >= HUGE_PAGE && file.is_none() {
            // With huge pages, filling 20 MB of weights takes a tenth of the time. Systems without huge pages use normal ones.
            if let Err(error) = pages.advise(Advice::HugePage) {
                tracing::debug!("no huge pages for {size} bytes: {error}");
            }
        }
        Ok(self.add(address, size, pages, file, memory))
    }

    /// A file of the buffer's bytes, which other processes can map. A buffer without a file gets new pages.
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

    /// A buffer that shares the memory of a file from outside.
    pub(super) fn import(&mut self, fd: BorrowedFd<'_>) -> io::Result<Handle> {
        let file = File::from(fd.try_clone_to_owned()?);
        let size = super::dma_buf::size(&file)?;
        let whole = size.checked_next_multiple_of(self.page).ok_or(io::ErrorKind::OutOfMemory)?;
        let address = self.find(whole).ok_or(io::ErrorKind::OutOfMemory)?;
        // The last page is mapped whole. The bytes behind the file's end are zero.
        let map = super::dma_buf::map(&file, size.next_multiple_of(PAGE))?;
        Ok(self.add(address, size, map, Some(file), RamType::Mcif))
    }

    pub(super) fn free(&mut self, handle: Handle) {
        self.take(handle);
    }

    /// Removes the buffer from this store and returns it.
    pub(super) fn take(&mut self, handle: Handle) -> Option<Buffer> {
        self.buffers.get_mut(handle.0 as usize)?.take()
    }

    /// Every buffer.
    #[cfg(feature = "direct")]
    pub(super) fn handles(&self) -> Vec<Handle> {
        let present = |(at, buffer): (usize, &Option<Buffer>)| buffer.is_some().then_some(Handle(at as u32));
        self.buffers.iter().enumerate().filter_map(present).collect()
    }
}

/// The bytes of a device beside those of one range.
#[cfg(feature = "model")]
pub(super) struct Rest<'s> {
    /// The buffers before and after the one that has the range.
    buffers: [&'s [Option<Buffer>]; 2],
    own: usize,
    /// That buffer's bytes before and after the range.
    front: &'s [u8],
    back: &'s [u8],
    range: Range<usize>,
}

#[cfg(feature = "model")]
impl Rest<'_> {
    /// Bytes of a buffer, if they do not reach into the range.
    pub(super) fn bytes(&self, handle: Handle, read: Range<usize>) -> Option<&[u8]> {
        if handle.0 as usize != self.own {
            return self.buffer(handle)?.pages().get(read);
        }
        let end = self.range.end;
        match read.start.checked_sub(end) {
            Some(start) => self.back.get(start..read.end.checked_sub(end)?),
            None => self.front.get(read),
        }
    }

    /// The version of a buffer's contents. The buffer with the range has none, because its bytes change.
    pub(super) fn version(&self, handle: Handle) -> Option<u64> {
        Some(self.buffer(handle)?.version())
    }

    fn buffer(&self, handle: Handle) -> Option<&Buffer> {
        let ([before, after], at) = (self.buffers, handle.0 as usize);
        match at.checked_sub(self.own) {
            None => before.get(at)?.as_ref(),
            Some(behind) => after.get(behind.checked_sub(1)?)?.as_ref(),
        }
    }
}

/// Zeroed memory that has a file. Nobody can change the file's size, because a process that accesses a mapped page which the file
/// no longer has is ended.
fn shared(length: usize) -> io::Result<(MmapMut, File)> {
    let file = File::from(memfd_create(c"nvdla buffer", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
    file.set_len(length as u64)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL))?;
    // SAFETY: besides this process only the simulator that gets the file maps it. The simulator changes the bytes only
    // during calls that hold the device exclusively, so there are no references to the bytes then.
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
    fn addresses_are_given_again_and_buffers_stay_apart() {
        let mut store = Store::within(vec![0x1000..0x4000, 0x10000..0x16000], PAGE, false);
        let place = |store: &Store, handle| store.get(handle).unwrap().address();
        let first = store.allocate(1).unwrap();
        assert_eq!(place(&store, first), 0x1000);
        let second = store.allocate(PAGE).unwrap();
        assert_eq!(place(&store, second), 0x3000, "a page of nothing between them");
        let third = store.allocate(2 * PAGE).unwrap();
        assert_eq!(place(&store, third), 0x10000, "the first range is full");
        assert!(store.allocate(4 * PAGE).is_err());
        let last = store.allocate(3 * PAGE).unwrap();
        assert_eq!(place(&store, last), 0x13000);
        for _ in 0..3 {
            store.free(third);
            let again = store.allocate(PAGE).unwrap();
            assert_eq!((again, place(&store, again)), (third, 0x10000));
        }
        store.free(first);
        assert!(store.allocate(2 * PAGE).is_err());
        let again = store.allocate(10).unwrap();
        assert_eq!(place(&store, again), 0x1000);
        assert!(store.allocate(u64::MAX).is_err());
    }

    #[test]
    fn buffers_from_the_end_reach_the_last_byte() {
        let mut store = Store::within(vec![0x1000..0x4000, 0x10000..0x16000], PAGE, false);
        let place = |store: &Store, handle| store.get(handle).unwrap().address();
        let first = store.allocate(1).unwrap();
        store.top_down().store(true, Ordering::Relaxed);
        let last = [2 * PAGE, 2 * PAGE, 1].map(|size| store.allocate(size).unwrap());
        // The second leaves a page to the third buffer, and one between them; the third lies in the other range.
        assert_eq!(last.map(|handle| place(&store, handle)), [0x14000, 0x11000, 0x3000]);
        assert!(store.allocate(1).is_err());
        store.free(last[0]);
        let again = store.allocate(1).unwrap();
        assert_eq!((place(&store, again), place(&store, first)), (0x15000, 0x1000));
    }

    #[test]
    fn memory_of_any_size_keeps_the_addresses_of_others_aligned() {
        let mut store = Store::new(&NV_SMALL, false);
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * PAGE + 13).unwrap();
        let odd = store.import(std::os::fd::AsFd::as_fd(&file)).unwrap();
        assert_eq!(store.get(odd).unwrap().pages().len() as u64, 3 * PAGE);
        assert_eq!(store.bytes(odd).len() as u64, 2 * PAGE + 13);
        for size in [1, PAGE, PAGE + 1] {
            let next = store.allocate(size).unwrap();
            assert_eq!(store.get(next).unwrap().address() % PAGE, 0);
        }
    }

    #[test]
    fn who_receives_a_buffer_cannot_shorten_it() {
        let mut store = Store::new(&NV_SMALL, false);
        let handle = store.allocate(3 * PAGE).unwrap();
        let received = File::from(store.export(handle).unwrap());
        for length in [0, PAGE, 4 * PAGE] {
            assert_eq!(received.set_len(length).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        assert_eq!(store.bytes(handle), [0; 3 * PAGE as usize]);
    }

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

    #[cfg(feature = "model")]
    #[test]
    fn a_range_is_written_beside_all_other_bytes() {
        let mut store = Store::new(&NV_SMALL, false);
        let handles = [1, 2, 3].map(|byte| {
            let handle = store.allocate(PAGE).unwrap();
            store.pages_mut(handle).unwrap().fill(byte);
            handle
        });
        let version = store.get(handles[2]).unwrap().version();
        assert!(store.beside(handles[1], 0..5000).is_none());
        let (bytes, rest) = store.beside(handles[1], 100..200).unwrap();
        bytes.fill(9);
        assert_eq!(rest.bytes(handles[0], 0..4096), Some(&[1; 4096][..]));
        assert_eq!(rest.bytes(handles[2], 90..210), Some(&[3; 120][..]));
        assert_eq!((rest.version(handles[2]), rest.version(handles[1])), (Some(version), None));
        let own = |range| rest.bytes(handles[1], range).map(<[u8]>::len);
        assert_eq!(
            [0..100, 200..4096, 0..101, 199..210, 90..210, 4000..4097].map(own),
            [Some(100), Some(3896), None, None, None, None]
        );
        assert_eq!(store.get(handles[1]).unwrap().pages()[95..105], [2, 2, 2, 2, 2, 9, 9, 9, 9, 9]);
    }
}
