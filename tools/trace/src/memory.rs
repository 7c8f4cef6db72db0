// SPDX-License-Identifier: MIT OR Apache-2.0

//! The whole address space of a device, as memory that is allocated when it is written.
//!
//! A trace does not list the memory of its operations, so every address exists and reads as zero at first. The address space is
//! divided into windows of 64 GiB. Each is mapped when it is first written, without committing memory. A range that extends over
//! two windows counts as outside.

use std::collections::btree_map::{BTreeMap, Entry};
use std::fs::File;
use std::io;

use memmap2::{MmapMut, MmapOptions};
use nix::sys::memfd::{memfd_create, MFdFlags};
use nvdla_model::memory::{disjoint, Memory, Port, Span};
use nvdla_model::simulation::Simulation;

/// log2 of a window's bytes.
const WINDOW_BITS: u32 = 36;

/// Both memories of a device, zero until written.
pub struct TraceMemory {
    windows: BTreeMap<(bool, u64), MmapMut>,
    /// The contents of a window that was never written.
    zero: MmapMut,
}

fn map() -> io::Result<MmapMut> {
    MmapOptions::new().len(1 << WINDOW_BITS).no_reserve_swap().map_anon()
}

/// A window backed by a file, which another process maps too.
fn map_file() -> io::Result<(MmapMut, File)> {
    let file = File::from(memfd_create(c"nvdla trace", MFdFlags::MFD_CLOEXEC)?);
    file.set_len(1 << WINDOW_BITS)?;
    // SAFETY: Besides this process only the simulator that gets the file maps it. It changes the bytes only while it runs; the
    // player, which holds both, has no reference to them then.
    let window = unsafe { MmapOptions::new().len(1 << WINDOW_BITS).no_reserve_swap().map_mut(&file)? };
    Ok((window, file))
}

/// The window that contains the range, and the range's offset in it.
fn locate(port: Port, address: u64, length: usize) -> Option<((bool, u64), usize)> {
    let start = address % (1 << WINDOW_BITS);
    let end = start.checked_add(length as u64)?;
    (end <= 1 << WINDOW_BITS).then_some(((port == Port::Secondary, address >> WINDOW_BITS), start as usize))
}

impl TraceMemory {
    /// Makes memory that reads as zero.
    pub fn new() -> io::Result<Self> {
        Ok(Self { windows: BTreeMap::new(), zero: map()? })
    }

    /// Makes the window that contains an address, and shares it with a simulator.
    pub(crate) fn share(&mut self, port: Port, address: u64, device: &mut dyn Simulation) -> io::Result<()> {
        let number = address >> WINDOW_BITS;
        if let Entry::Vacant(new) = self.windows.entry((port == Port::Secondary, number)) {
            let (window, file) = map_file()?;
            let interfaces = if port == Port::Secondary { 0b10 } else { 0b01 };
            device.map(number << WINDOW_BITS, 1 << WINDOW_BITS, &file, 0, interfaces, true)?;
            new.insert(window);
        }
        Ok(())
    }
}

impl Memory for TraceMemory {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        let (window, start) = locate(port, address, length)?;
        self.windows.get(&window).unwrap_or(&self.zero).get(start..start + length)
    }

    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        let (window, start) = locate(port, address, length)?;
        let window = match self.windows.entry(window) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(map().ok()?),
        };
        window.get_mut(start..start + length)
    }

    fn both(&mut self, read: Span, write: Span) -> Option<(&[u8], &mut [u8])> {
        let (from, read_start) = locate(read.port, read.address, read.length)?;
        let (to, write_start) = locate(write.port, write.address, write.length)?;
        // A window that does not exist yet is created by `write`.
        (from == to).then_some(())?;
        let (read, write) = (read_start..read_start + read.length, write_start..write_start + write.length);
        disjoint(self.windows.get_mut(&to)?, read, write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_memories_are_zero_until_written_and_apart() {
        let mut memory = TraceMemory::new().unwrap();
        assert_eq!(memory.read(Port::Primary, 0xff_8000_0000, 4), Some(&[0; 4][..]));
        memory.write(Port::Primary, 0xff_8000_0001, 2).unwrap().copy_from_slice(&[1, 2]);
        let span = |port, address| Span { port, address, length: 2 };
        let primary = |address| span(Port::Primary, address);
        let both = memory.both(primary(0xff_8000_0001), primary(0xff_8000_0003));
        assert_eq!(both, Some((&[1, 2][..], &mut [0, 0][..])));
        assert_eq!(memory.both(primary(0xff_8000_0001), primary(0xff_8000_0002)), None);
        assert_eq!(memory.both(span(Port::Secondary, 0xff_8000_0001), primary(0xff_8000_0003)), None);
        assert_eq!(memory.read(Port::Primary, 0xff_8000_0000, 4), Some(&[0, 1, 2, 0][..]));
        assert_eq!(memory.read(Port::Secondary, 0xff_8000_0000, 4), Some(&[0; 4][..]));
        assert_eq!(memory.read(Port::Primary, (1 << 36) - 1, 2), None);
        assert!(memory.write(Port::Primary, u64::MAX, 1).is_some());
        assert!(memory.write(Port::Primary, u64::MAX, 2).is_none());
    }
}
