// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What the engine needs of a task's memory: its address list.

use crate::uapi::reg::values::RamType;
use core::fmt;

/// A buffer: the bytes that an entry of the address list allows the device to access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The device's address of the first byte.
    pub address: u64,
    /// Bytes, counted from there to the end of the memory that belongs to the task.
    pub size: u64,
    /// The memory interface behind which the buffer lies. Addresses of the two interfaces are apart: the same number
    /// behind each names different bytes.
    pub memory: RamType,
}

/// An access that leaves its buffer, or that names no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("outside the buffer")
    }
}

impl core::error::Error for OutOfRange {}

/// A task's address list. Descriptors name its entries by position.
///
/// The driver reads lists and writes statistics in primary memory only: [`Self::read`] and [`Self::write`] are not called for
/// buffers in secondary memory.
///
/// Addresses and sizes must not change from [`super::Task::parse`] to the end of the task's last run: the register
/// values hold them.
pub trait TaskMemory {
    /// Entries of the list.
    fn count(&self) -> usize;
    /// The buffer of an entry; `None` if the list has no such entry.
    fn buffer(&self, index: usize) -> Option<Buffer>;
    /// Copies bytes out of an entry's buffer.
    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange>;
    /// Copies bytes into an entry's buffer.
    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> Result<(), OutOfRange>;
}
