// SPDX-License-Identifier: MIT OR Apache-2.0

//! Mappings of a device's register window, and of memory that the system does not use.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::super::store::PAGE;

/// The value of a register that does not answer.
pub(super) const NO_ANSWER: u32 = u32::MAX;

/// Bytes of a page of this machine, at least 4096.
pub(super) fn page_size() -> u64 {
    // SAFETY: The call only reads a value.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(PAGE).max(PAGE)
}

/// Orders accesses to memory and to the device, also as the device sees them.
///
/// Rust's fences order memory only between processors, which is not enough on these two architectures.
fn barrier() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: A barrier changes no state.
    unsafe {
        std::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "riscv64")]
    // SAFETY: As above.
    unsafe {
        std::arch::asm!("fence iorw, iorw", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64")))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Memory of a device that is mapped into this process.
pub(super) struct Window(MmapRaw);

impl Window {
    /// Maps `length` bytes of a file from `offset`.
    pub(super) fn map(file: &(impl AsRawFd + ?Sized), offset: u64, length: usize) -> io::Result<Self> {
        Ok(Self(MmapOptions::new().offset(offset).len(length).map_raw(file.as_raw_fd())?))
    }

    /// The register at that offset, if it lies in the window.
    fn register(&self, offset: u32) -> Option<*mut u32> {
        let offset = offset as usize;
        let inside = offset.is_multiple_of(4) && offset + 4 <= self.0.len();
        inside.then(|| self.0.as_mut_ptr().wrapping_add(offset).cast())
    }

    /// Reads a register; all ones outside of the window.
    pub(super) fn read(&self, offset: u32) -> u32 {
        let Some(register) = self.register(offset) else { return NO_ANSWER };
        // SAFETY: The register lies in the mapping, which begins on a page, and is aligned.
        let value = unsafe { register.read_volatile() };
        barrier();
        u32::from_le(value)
    }

    /// Writes a register. A write outside of the window has no effect.
    pub(super) fn write(&self, offset: u32, value: u32) {
        let Some(register) = self.register(offset) else { return };
        barrier();
        // SAFETY: As for reading.
        unsafe { register.write_volatile(value.to_le()) };
    }

    /// The size in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The size in bytes of a register window.
    pub(super) fn size(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Copies bytes into the memory in whole aligned words, because processors refuse other accesses to mappings that are not
    /// cached. `offset` is a multiple of 8.
    pub(super) fn copy_in(&self, offset: usize, bytes: &[u8]) {
        if !self.holds(offset, bytes.len()) {
            return;
        }
        let mut at: *mut u64 = self.0.as_mut_ptr().wrapping_add(offset).cast();
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            // SAFETY: The word lies in the mapping, whose length is a multiple of a page, and is aligned.
            unsafe { at.write_volatile(u64::from_ne_bytes(word)) };
            at = at.wrapping_add(1);
        }
        barrier();
    }

    /// Copies bytes out of the memory in whole aligned words.
    pub(super) fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        if !self.holds(offset, bytes.len()) {
            return;
        }
        barrier();
        let lead = offset % 8;
        let mut at: *const u64 = self.0.as_ptr().wrapping_add(offset - lead).cast();
        let mut next = || {
            // SAFETY: As for writing.
            let word = unsafe { at.read_volatile() }.to_ne_bytes();
            at = at.wrapping_add(1);
            word
        };
        let (first, rest) = bytes.split_at_mut(if lead == 0 { 0 } else { (8 - lead).min(bytes.len()) });
        if !first.is_empty() {
            first.copy_from_slice(&next()[lead..lead + first.len()]);
        }
        for chunk in rest.chunks_mut(8) {
            let word = next();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn holds(&self, offset: usize, length: usize) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.0.len())
    }
}

/// Waits until a file is readable; false if it is not within the limit.
pub(super) fn wait(file: &impl AsRawFd, limit: Duration) -> io::Result<bool> {
    let start = Instant::now();
    // SAFETY: The file is open as long as its owner is borrowed.
    let file = unsafe { BorrowedFd::borrow_raw(file.as_raw_fd()) };
    loop {
        let left = limit.saturating_sub(start.elapsed());
        // Rounded up, so that a short wait does not become zero.
        let milliseconds = i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        let timeout = PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(file, PollFlags::POLLIN)], timeout) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A device file, opened for reading and writing.
pub(super) fn open(path: impl AsRef<std::path::Path>) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn copies_reach_every_byte_and_no_other() {
        let path = std::env::temp_dir().join(format!("nvdla-window-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let contents: Vec<u8> = (0..8192_u32).map(|at| (at * 7 % 251) as u8).collect();
        file.write_all(&contents).unwrap();
        let window = Window::map(&file, 0, 8192).unwrap();
        for (offset, length) in [(0, 8192), (3, 2), (5, 3), (5, 4), (8, 9), (4095, 17), (8191, 1), (16, 0)] {
            let mut bytes = vec![0; length];
            window.copy_out(offset, &mut bytes);
            assert_eq!(bytes, contents[offset..offset + length], "{length} bytes at {offset}");
        }
        let mut bytes = [9; 2];
        window.copy_out(8191, &mut bytes);
        window.copy_in(8192, &[1]);
        assert_eq!(bytes, [9; 2]);
        window.copy_in(4096, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let mut bytes = [0; 10];
        window.copy_out(4096, &mut bytes);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
        assert_eq!((window.read(8192), window.read(2), window.len()), (NO_ANSWER, NO_ANSWER, 8192));
        window.write(4, 0x0403_0201);
        assert_eq!(window.read(4), 0x0403_0201);
    }
}
