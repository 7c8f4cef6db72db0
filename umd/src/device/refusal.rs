// SPDX-License-Identifier: MIT OR Apache-2.0

//! The reason why a driver refuses a task. The driver returns the same error number for all reasons. Its validation is that of
//! [`nvdla_engine`], which this library also contains, so the task is validated again here to get the reason.

use nvdla_engine::{Buffer, OutOfRange, Slot, Task, TaskMemory};
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::RamType;

/// The address of the first buffer. The reason does not depend on its value.
const FIRST_ADDRESS: u64 = 0x1000_0000;
/// Buffers are whole pages, with an unused page between two of them.
const PAGE: u64 = 4096;

/// An entry of a task's address list.
pub(crate) struct Entry<'a> {
    /// The buffer's number.
    pub(crate) buffer: usize,
    /// Bytes from the buffer's start.
    pub(crate) offset: u64,
    /// The buffer's whole pages.
    pub(crate) bytes: &'a [u8],
    /// The memory interface behind which the buffer lies.
    pub(crate) memory: RamType,
}

/// A task's address list: for each entry the bytes from its offset to the end of its buffer.
struct List<'a> {
    entries: &'a [Entry<'a>],
    addresses: Vec<u64>,
}

impl List<'_> {
    fn bytes(&self, index: usize, offset: u64, length: usize) -> Result<&[u8], OutOfRange> {
        let &Entry { offset: start, bytes, .. } = self.entries.get(index).ok_or(OutOfRange)?;
        let start = usize::try_from(start.checked_add(offset).ok_or(OutOfRange)?).map_err(|_| OutOfRange)?;
        bytes.get(start..).and_then(|bytes| bytes.get(..length)).ok_or(OutOfRange)
    }
}

impl TaskMemory for List<'_> {
    fn count(&self) -> usize {
        self.entries.len()
    }

    fn buffer(&self, index: usize) -> Option<Buffer> {
        let &Entry { buffer, offset, bytes, memory } = self.entries.get(index)?;
        let address = self.addresses.get(buffer)? + offset;
        Some(Buffer { address, size: (bytes.len() as u64).checked_sub(offset)?, memory })
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        into.copy_from_slice(self.bytes(index, offset, into.len())?);
        Ok(())
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> Result<(), OutOfRange> {
        // Validation writes nothing.
        self.bytes(index, offset, from.len()).map(drop)
    }
}

/// The reason why a task is refused, or `None`.
#[cfg(feature = "kernel")]
pub(super) fn of(config: &'static Config, entries: &[Entry<'_>]) -> Option<nvdla_engine::Error> {
    validate(config, entries, |_| false).err()
}

/// Every reason why a task is refused: those of its operations, or if there is none, that of the whole task.
#[cfg(feature = "model")]
pub(crate) fn all(config: &'static Config, entries: &[Entry<'_>]) -> Vec<nvdla_engine::Error> {
    let mut found = Vec::new();
    match validate(config, entries, |error| {
        found.push(*error);
        true
    }) {
        Err(error) if found.is_empty() => vec![error],
        _ => found,
    }
}

fn validate(
    config: &'static Config,
    entries: &[Entry<'_>],
    go_on: impl FnMut(&nvdla_engine::Error) -> bool,
) -> Result<(), nvdla_engine::Error> {
    let mut sizes = Vec::new();
    for &Entry { buffer, bytes, .. } in entries {
        if sizes.len() <= buffer {
            sizes.resize(buffer + 1, 0);
        }
        sizes[buffer] = bytes.len() as u64;
    }
    let addresses = sizes.iter().scan(FIRST_ADDRESS, |next, &size| {
        let address = *next;
        *next += size.next_multiple_of(PAGE) + PAGE;
        Some(address)
    });
    let list = List { entries, addresses: addresses.collect() };
    Task::parse_with(config, &list, |slots| Ok(vec![Slot::default(); slots]), go_on).map(drop)
}

#[cfg(all(test, feature = "kernel"))]
mod tests {
    use super::*;
    use nvdla_uapi::config::NV_SMALL;

    #[test]
    fn a_task_of_nothing_is_refused() {
        let entry = |buffer, offset, byte: &'static [u8]| Entry { buffer, offset, bytes: byte, memory: RamType::Mcif };
        assert!(of(&NV_SMALL, &[]).is_some());
        let error = of(&NV_SMALL, &[entry(0, 0, &[0xff; 4096])]).unwrap();
        assert!(!error.to_string().is_empty());
        // An offset beyond the buffer's end must not panic.
        assert!(of(&NV_SMALL, &[entry(3, 5000, &[0; 4096])]).is_some());
    }
}
