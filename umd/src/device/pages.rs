// SPDX-License-Identifier: MIT OR Apache-2.0

//! The pages of a device's buffer, which this process has mapped.
//!
//! Several parts of a process share the same pages: the device, and the context whose tensors lie in them. [`super::Shared`] has
//! the rule of who may access the bytes and when: a context while none of its runs is in flight, the device during a run, and any
//! reader at any time if the pages hold a network's constants.

use std::fmt;
#[cfg(feature = "direct")]
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

#[cfg(feature = "direct")]
use memmap2::Advice;
use memmap2::{MmapMut, MmapRaw};

/// The most recent version that any pages have.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// Whole pages of memory.
pub struct Pages {
    map: MmapRaw,
    /// Bytes that were requested.
    size: usize,
    /// See [`Pages::version`].
    version: AtomicU64,
    /// The pages hold constants.
    sealed: AtomicBool,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Pages {
    /// The pages of a mapping, of which `size` bytes were requested.
    pub(crate) fn new(map: MmapMut, size: usize) -> Arc<Self> {
        let size = size.min(map.len());
        let pages = Self { map: map.into(), size, version: AtomicU64::new(0), sealed: AtomicBool::new(false) };
        pages.touch();
        Arc::new(pages)
    }

    /// Bytes that were requested.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes of the whole pages.
    pub fn length(&self) -> usize {
        self.map.len()
    }

    /// A number that changes with each access that may change a byte. No other pages or contents ever have the same number.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    fn touch(&self) {
        self.version.store(CLOCK.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Makes the pages read-only from now on.
    pub(crate) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    /// Whether the pages are read-only.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    /// Keeps the pages out of processes that this one starts.
    #[cfg(feature = "direct")]
    pub(crate) fn keep_from_children(&self) -> io::Result<()> {
        self.map.advise(Advice::DontFork)
    }

    /// All bytes.
    ///
    /// # Safety
    ///
    /// Nobody writes them while the slice lives.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as this value; the rest is the caller's.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), self.map.len()) }
    }

    /// All bytes, to be written. Empty for constants.
    ///
    /// # Safety
    ///
    /// No other slice of them exists while this one lives.
    #[allow(clippy::mut_from_ref)] // the caller knows that it is alone
    pub(crate) unsafe fn bytes_mut(&self) -> &mut [u8] {
        if self.is_sealed() {
            return &mut [];
        }
        self.touch();
        // SAFETY: the mapping lives as long as this value; the rest is the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr(), self.map.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_not_written() {
        let pages = Pages::new(MmapMut::map_anon(4096).unwrap(), 10);
        // SAFETY: there is no other reference to these pages.
        let bytes = unsafe { pages.bytes_mut() };
        bytes[3] = 7;
        let version = pages.version();
        pages.seal();
        // SAFETY: as above.
        assert!(unsafe { pages.bytes_mut() }.is_empty());
        // SAFETY: as above.
        assert_eq!(unsafe { pages.bytes() }[3], 7);
        assert_eq!((pages.version(), pages.size(), pages.length()), (version, 10, 4096));
    }
}
