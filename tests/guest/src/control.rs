// SPDX-License-Identifier: MIT OR Apache-2.0

//! The virtual device's control window (`tools/vp/src/control.rs` has its table).

use std::fs::File;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};

use crate::system::HANG;

const MAGIC: u32 = 0x5056_564e;
const SIZE: usize = 0x1000;
/// How long a page is searched for that is not found. The device may be reset meanwhile, and it may not reach the page.
const SEARCH: Duration = Duration::from_secs(1);

/// A word of the window that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    /// The number of the next starts that never end.
    Hang = 0x04,
    /// The number of the next interrupts that are lost.
    Lose = 0x08,
    /// The number of the next starts whose memory accesses are refused.
    Refuse = 0x0c,
    /// The least time of each start in microseconds.
    Delay = 0x10,
    /// Raises an interrupt without a cause.
    Spurious = 0x14,
    /// While set, registers read all ones.
    Mute = 0x18,
    /// While set, resets and a supply that is off have no effect on what the device does.
    Deaf = 0x1c,
    /// While set, the convolution buffer reads as not clear.
    Unclear = 0x70,
}

/// The device's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Register reads.
    pub reads: u32,
    /// Register writes.
    pub writes: u32,
    /// Interrupts.
    pub interrupts: u32,
    /// Accesses outside the memory that the device may access.
    pub outside: u32,
    /// Starts of operations.
    pub starts: u32,
    /// Resets.
    pub resets: u32,
    /// Register accesses that hardware could not answer, and changes to a clock too fast for its voltage.
    pub unanswered: u32,
    /// The number of times that the clock has stopped.
    pub stops: u32,
}

/// The clock, the reset line and the supply of a device on a board with these lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Whether the clock runs.
    pub clock: bool,
    /// Whether it has the higher of its two rates.
    pub fast: bool,
    /// Whether the reset line is asserted.
    pub reset: bool,
    /// Whether the supply is on.
    pub supply: bool,
    /// Whether it has the higher of its two voltages.
    pub high: bool,
}

/// Waits until `so` returns true or `limit` has passed, and returns the last result of `so`. While the driver resets the device, the
/// window does not answer: reads are invalid and writes have no effect.
fn until(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if so() {
            return true;
        }
        if begin.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Prevents other programs from using the words of the search for a page. Only one program can bind a socket name, and the name
/// is free again once the program has ended.
fn alone() -> io::Result<UnixListener> {
    let name = SocketAddr::from_abstract_name(b"nvdla-control")?;
    loop {
        match UnixListener::bind_addr(&name) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => std::thread::sleep(Duration::from_millis(2)),
            other => return other,
        }
    }
}

/// The control window. Dropping it disables all faults.
#[derive(Debug)]
pub struct Control {
    window: MmapRaw,
    /// Whether an IOMMU translates the device's addresses.
    translated: bool,
}

impl Control {
    /// Maps the window of a device in `/sys`.
    pub fn open(device: &Path) -> io::Result<Self> {
        let function = crate::system::pci_function(device)?;
        let file = File::options().read(true).write(true).open(function.join("resource2"))?;
        let translated = crate::system::is_translated(device);
        let control = Self { window: MmapOptions::new().len(SIZE).map_raw(&file)?, translated };
        if until(HANG, || control.read(0) == MAGIC) {
            Ok(control)
        } else {
            Err(io::Error::other(format!("the control window begins with {:#x}", control.read(0))))
        }
    }

    fn word(&self, offset: usize) -> *mut u32 {
        assert!(offset < SIZE, "{offset:#x} is outside the control window");
        self.window.as_mut_ptr().wrapping_add(offset).cast()
    }

    fn read(&self, offset: usize) -> u32 {
        // SAFETY: the word lies in the mapping.
        unsafe { self.word(offset).read_volatile() }
    }

    fn write(&self, offset: usize, value: u32) {
        // SAFETY: as above.
        unsafe { self.word(offset).write_volatile(value) }
    }

    /// Writes a word whose reads return the written value.
    fn put(&self, offset: usize, value: u32) {
        until(HANG, || {
            self.write(offset, value);
            self.read(offset) == value
        });
    }

    /// Sets a word.
    pub fn set(&self, knob: Knob, value: u32) {
        self.write(knob as usize, value);
        // Writes are posted, so a read waits until they have arrived.
        self.read(0);
    }

    /// The value of a word.
    pub fn get(&self, knob: Knob) -> u32 {
        self.read(knob as usize)
    }

    /// The device's counters.
    pub fn counts(&self) -> Counts {
        let [reads, writes, interrupts, outside, starts, resets, unanswered, stops] =
            std::array::from_fn(|word| self.read(0x20 + 4 * word));
        Counts { reads, writes, interrupts, outside, starts, resets, unanswered, stops }
    }

    /// Waits until the device has started an operation since its number of starts was `before`. Behind an IOMMU a task is started
    /// some time after its submission, because a work first attaches the client's domain.
    pub fn until_started(&self, before: u32) -> io::Result<()> {
        let begin = Instant::now();
        while self.counts().starts == before {
            if begin.elapsed() > HANG {
                return Err(io::Error::other("the device has started nothing for two minutes"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// KiB of the guest's memory that the device can access through its bus.
    pub fn mapped_kib(&self) -> u32 {
        self.read(0x68)
    }

    /// The number of operations that could not access memory because PCI's bus mastering was disabled.
    pub fn blocked(&self) -> u32 {
        self.read(0x6c)
    }

    /// The state of the lines.
    pub fn lines(&self) -> Lines {
        let [clock, reset, supply] = [0x60, 0x64, 0x74].map(|offset| self.read(offset));
        Lines {
            clock: clock & 1 != 0,
            fast: clock & 2 != 0,
            reset: reset & 1 != 0,
            supply: supply & 1 != 0,
            high: supply & 2 != 0,
        }
    }

    /// The device's address of the page of memory that begins with `page`.
    ///
    /// The page temporarily gets a mark, which the device searches for in the whole of the guest's memory, because mappings of
    /// device memory have no entry in `/proc/self/pagemap`.
    pub fn address(&self, page: &mut [u8]) -> io::Result<u64> {
        let _alone = alone()?;
        let mark: [u32; 4] = std::array::from_fn(|word| {
            let now = crate::node::now_ns().wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17 * word as u32);
            (now >> 32) as u32 ^ std::process::id().rotate_left(9 * word as u32)
        });
        let beginning = page.get_mut(..16).ok_or_else(|| io::Error::other("the page is short"))?;
        let mut before = [0; 16];
        before.copy_from_slice(beginning);
        for (index, word) in mark.into_iter().enumerate() {
            for (at, byte) in word.to_le_bytes().into_iter().enumerate() {
                // SAFETY: the byte lies in the slice. The write is volatile, because only the device reads it.
                unsafe { std::ptr::from_mut(&mut beginning[4 * index + at]).write_volatile(byte) };
            }
            self.put(0x40 + 4 * index, word);
        }
        let mut found = u64::MAX;
        until(SEARCH, || {
            self.write(0x50, 1);
            found = u64::from(self.read(0x54)) | u64::from(self.read(0x58)) << 32;
            // During a reset the window reads all ones or zeros, and a reset may begin or end between any two reads.
            found != 0 && found as u32 != u32::MAX && found >> 48 == 0 && self.read(0) == MAGIC
        });
        beginning.copy_from_slice(&before);
        if found >> 48 != 0 || found == 0 {
            return Err(io::Error::other("the device does not find the page"));
        }
        Ok(found)
    }

    /// Lets the device access a buffer by an entry of the list. Behind an IOMMU there is no list: the device reaches the buffers of the
    /// client whose task runs, and no others.
    pub fn allow_buffer(&self, entry: usize, buffer: &mut [u8]) -> io::Result<()> {
        if !self.translated {
            let address = self.address(buffer)?;
            self.allow(entry, address, buffer.len() as u64);
        }
        Ok(())
    }

    /// Sets an entry of the list of memory that the device may access.
    pub fn allow(&self, entry: usize, address: u64, bytes: u64) {
        let words = [address as u32, (address >> 32) as u32, bytes as u32, (bytes >> 32) as u32];
        for (index, word) in words.into_iter().enumerate() {
            self.put(0x800 + 16 * entry + 4 * index, word);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        for knob in [Knob::Hang, Knob::Lose, Knob::Refuse, Knob::Delay, Knob::Mute, Knob::Deaf, Knob::Unclear] {
            self.set(knob, 0);
        }
    }
}
