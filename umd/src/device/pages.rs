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
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "direct")]
use memmap2::Advice;
use memmap2::{MmapMut, MmapRaw};

/// The most recent version that any pages have.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// What pages need that the processor caches and whose device does not see the cache.
pub(crate) trait Cache: fmt::Debug + Send + Sync {
    /// The device is about to access the pages: it sees what the processor has written.
    fn clean(&self);

    /// The processor is about to access the pages: it sees what the device has written.
    fn invalidate(&self);
}

/// Pages in a cache that their device does not see.
#[derive(Debug)]
struct Cached {
    cache: Box<dyn Cache>,
    /// The version that the device sees.
    seen: AtomicU64,
    /// Whether the device may have written the pages since the processor's last access.
    given: Mutex<bool>,
}

/// Whole pages of memory.
pub struct Pages {
    map: MmapRaw,
    /// Bytes that were requested.
    size: usize,
    /// See [`Pages::version`].
    version: AtomicU64,
    /// The pages hold constants.
    sealed: AtomicBool,
    /// None if the device sees what the processor writes.
    cached: Option<Cached>,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Pages {
    /// The pages of a mapping, of which `size` bytes were requested.
    pub(crate) fn new(map: MmapMut, size: usize) -> Arc<Self> {
        Self::with_cache(map, size, None)
    }

    /// The same, for a mapping in a cache that the device does not see.
    pub(crate) fn with_cache(map: MmapMut, size: usize, cache: Option<Box<dyn Cache>>) -> Arc<Self> {
        let size = size.min(map.len());
        let cached = cache.map(|cache| Cached { cache, seen: AtomicU64::new(0), given: Mutex::new(false) });
        let pages = Self { map: map.into(), size, version: AtomicU64::new(0), sealed: AtomicBool::new(false), cached };
        pages.touch();
        Arc::new(pages)
    }

    /// The device is about to access the pages in a task.
    pub(crate) fn give(&self) {
        let Some(Cached { cache, seen, given }) = &self.cached else { return };
        // The device does not write constants. The mark comes first: the processor accesses them no more until the task has ended.
        *given.lock().unwrap_or_else(PoisonError::into_inner) |= !self.is_sealed();
        if seen.swap(self.version(), Ordering::Relaxed) != self.version() {
            cache.clean();
        }
    }

    /// The processor is about to access the pages.
    pub(crate) fn take(&self) {
        let Some(Cached { cache, given, .. }) = &self.cached else { return };
        let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
        if *given {
            cache.invalidate();
            *given = false;
        }
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
        self.take();
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
        self.take();
        self.touch();
        // SAFETY: the mapping lives as long as this value; the rest is the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr(), self.map.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the calls.
    #[derive(Clone, Debug, Default)]
    struct Counter(Arc<[AtomicU64; 2]>);

    impl Counter {
        fn counts(&self) -> [u64; 2] {
            self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
        }
    }

    impl Cache for Counter {
        fn clean(&self) {
            self.0[0].fetch_add(1, Ordering::Relaxed);
        }

        fn invalidate(&self) {
            self.0[1].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The cache is cleaned after a write, and invalidated at the first access after a task.
    #[test]
    fn a_cache_is_asked_for_no_more_than_is_needed() {
        let counter = Counter::default();
        let cache: Box<dyn Cache> = Box::new(counter.clone());
        let pages = Pages::with_cache(MmapMut::map_anon(4096).unwrap(), 10, Some(cache));
        pages.give();
        assert_eq!(counter.counts(), [1, 0]);
        pages.give();
        assert_eq!(counter.counts(), [1, 0], "nothing was written between two tasks");
        for _ in 0..2 {
            // SAFETY: there is no other reference to these pages.
            assert_eq!(unsafe { pages.bytes() }[3], 0);
            assert_eq!(counter.counts(), [1, 1]);
        }
        pages.give();
        assert_eq!(counter.counts(), [1, 1], "a read changes nothing");
        // SAFETY: as above.
        let bytes = unsafe { pages.bytes_mut() };
        bytes[3] = 7;
        assert_eq!(counter.counts(), [1, 2], "what the device has written would be lost");
        pages.seal();
        for _ in 0..2 {
            pages.give();
            // SAFETY: as above.
            assert_eq!(unsafe { pages.bytes() }[3], 7);
            assert_eq!(counter.counts(), [2, 2], "the device does not write constants");
        }
    }

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
