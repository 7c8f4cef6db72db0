// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device that is not coherent with the processor's caches: every second line that it reads is as old as its last own access.
//!
//! It stands for a processor whose writes stay in its cache. A line is fresh when the device reads it for the first time, and after the
//! device has written it. Between operations the processor may change a line; the device then still reads what it has read before.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use crate::space::{AddressSpace, WINDOWS};

/// Bytes of a line of the processor's caches.
const LINE: u64 = 64;

/// A line that the device has accessed.
#[derive(Clone, Copy, Default)]
struct Line {
    /// The last operation that has read it.
    operation: u64,
    /// The device has written it since.
    written: bool,
}

/// The lines as the device reads them.
pub(crate) struct Stale {
    copies: AddressSpace,
    lines: Mutex<BTreeMap<u64, Line>>,
    /// The number of operations so far.
    operation: u64,
}

impl Stale {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { copies: AddressSpace::new()?, lines: Mutex::default(), operation: 0 })
    }

    /// The next operation begins.
    pub(crate) fn begin(&mut self) {
        self.operation += 1;
    }

    /// Makes room for copies of a piece of the memory, which has whole pages.
    pub(crate) fn map(&mut self, address: u64, length: u64) -> io::Result<()> {
        self.forget(address, length);
        self.copies.put(address, length, None, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Forgets what the device has read of a range.
    pub(crate) fn forget(&mut self, address: u64, length: u64) {
        let lines = self.lines.get_mut().unwrap_or_else(PoisonError::into_inner);
        for window in WINDOWS {
            let (start, end) = (address.max(window.start), address.saturating_add(length).min(window.end));
            if start < end {
                let mut rest = lines.split_off(&(start / LINE));
                lines.append(&mut rest.split_off(&end.div_ceil(LINE)));
            }
        }
    }

    /// The first byte of a range as the device reads it. The range lies in a piece of `memory`.
    pub(crate) fn read(&self, memory: &AddressSpace, address: u64, length: u64) -> *mut u8 {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        for number in address / LINE..(address + length).div_ceil(LINE) {
            let line = lines.insert(number, Line { operation: self.operation, written: false });
            let is_odd = number % 2 == 1;
            if line.is_some_and(|line| !line.written && (is_odd || line.operation == self.operation)) {
                continue;
            }
            // SAFETY: A piece has whole pages, so the line lies in it, and in the copies, which are mapped where pieces are. Nobody reads
            // this line of the copies: slices of earlier operations have ended, and so have those of this operation if the line
            // was written since.
            unsafe {
                let (from, to) = (memory.at(number * LINE), self.copies.at(number * LINE));
                std::ptr::copy_nonoverlapping(from, to, LINE as usize);
            }
        }
        self.copies.at(address)
    }

    /// The device writes a range, and reads it back as it is.
    pub(crate) fn write(&mut self, address: u64, length: u64) {
        let lines = self.lines.get_mut().unwrap_or_else(PoisonError::into_inner);
        for number in address / LINE..(address + length).div_ceil(LINE) {
            lines.entry(number).or_default().written = true;
        }
    }
}
