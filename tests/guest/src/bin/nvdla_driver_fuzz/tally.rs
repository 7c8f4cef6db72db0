// SPDX-License-Identifier: MIT OR Apache-2.0

//! Counters of all programs, in shared memory.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// The file of the memory.
const FILE: &str = "/tmp/nvdla-fuzz";

/// The events that are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    /// ioctls.
    Calls,
    /// Accepted submissions.
    Taken,
    /// Submissions that were refused.
    Refused,
    /// Tasks that succeeded.
    Well,
    /// Tasks that failed.
    Badly,
    /// Files that were opened.
    Opened,
}

/// The names of the counters.
const NAMES: [&str; 6] = ["ioctls", "submissions taken", "refused", "tasks ended well", "badly", "files opened"];

/// The counters.
#[derive(Debug)]
pub(crate) struct Tally(MmapRaw);

impl Tally {
    /// Makes new counters, all zero.
    pub(crate) fn create() -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(FILE)?;
        file.set_len(4096)?;
        Ok(Self(MmapOptions::new().map_raw(&file)?))
    }

    /// Opens the counters of the program that started this one.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self(MmapOptions::new().map_raw(&File::options().read(true).write(true).open(FILE)?)?))
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // A page is aligned for every type.
        #[allow(clippy::cast_ptr_alignment)]
        let words = self.0.as_mut_ptr().cast::<u64>();
        // SAFETY: the mapping has a page, and is only used through atomics of this size.
        unsafe { AtomicU64::from_ptr(words.add(index)) }
    }

    pub(crate) fn add(&self, count: Count) {
        self.word(count as usize).fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn values(&self) -> [u64; NAMES.len()] {
        std::array::from_fn(|index| self.word(index).load(Ordering::Relaxed))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = NAMES.iter().zip(self.values()).map(|(name, value)| format!("{value} {name}")).collect();
        f.write_str(&parts.join(", "))
    }
}
