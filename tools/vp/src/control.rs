// SPDX-License-Identifier: MIT OR Apache-2.0

//! The control window, BAR 2, through which a test in the guest injects faults and reads the device's counters.
//!
//! It has words of 32 bits. It exists only with `--control` or `--lines`; no hardware has one, and the driver does not use it.
//! Three of the words stand for parts of a board around an NVDLA: a clock gate, a reset line and a supply. A device tree assigns
//! each of them to a driver of the kernel (GPIOs, and a reset controller with one register).
//!
//! | offset | meaning |
//! | --- | --- |
//! | 0x00 | [`MAGIC`] |
//! | 0x04 | number of the next starts that never end |
//! | 0x08 | number of the next interrupts that are lost |
//! | 0x0c | number of the next starts whose memory accesses are refused |
//! | 0x10 | each start takes at least this many microseconds |
//! | 0x14 | a write raises an interrupt without a cause |
//! | 0x18 | while not zero, registers read all ones and writes have no effect |
//! | 0x1c | while not zero, resets and a supply that is off have no effect on what the device does, as those of a bus's endpoint |
//! | 0x20 | register reads so far |
//! | 0x24 | register writes so far |
//! | 0x28 | interrupts so far |
//! | 0x2c | accesses outside the memory that the device may access |
//! | 0x30 | starts so far |
//! | 0x34 | resets so far |
//! | 0x38 | register accesses that hardware cannot answer (no clock, no supply, no reset since, in reset); changes to a clock too fast |
//! | 0x3c | number of times that the clock has stopped |
//! | 0x40 | 16 bytes to search for at the beginning of the guest's pages |
//! | 0x50 | a write starts the search |
//! | 0x54 | the address of the page (64 bits); all ones if no page or several pages begin with these bytes |
//! | 0x60 | bit 0: the clock runs; bit 1: it has the higher of two rates, which needs the higher voltage |
//! | 0x64 | bit 0: the reset line is asserted |
//! | 0x68 | KiB of the guest's memory that are mapped for the device: all of it, or what its IOMMU maps |
//! | 0x6c | operations so far that could not access memory because bus mastering was disabled |
//! | 0x70 | while not zero, the convolution buffer reads as not clear, as shortly after a reset |
//! | 0x74 | bit 0: the supply is on; bit 1: it has the higher of two voltages |
//! | 0x800 + 16 n | memory that the device may access: address (64 bits), bytes (64 bits); all memory while every entry has 0 bytes |

use crate::faults::{Armed, Lines};

/// The value of the first word: "NVVP".
pub(crate) const MAGIC: u32 = 0x5056_564e;
const HANG: u64 = 0x04;
const LOSE: u64 = 0x08;
const REFUSE: u64 = 0x0c;
const DELAY: u64 = 0x10;
const SPURIOUS: u64 = 0x14;
const MUTE: u64 = 0x18;
const DEAF: u64 = 0x1c;
const COUNTS: u64 = 0x20;
const MARK: u64 = 0x40;
const FIND: u64 = 0x50;
const FOUND: u64 = 0x54;
const CLOCK: u64 = 0x60;
const RESET: u64 = 0x64;
/// The offset of the list of mapped memory.
pub(crate) const MAPPED: u64 = 0x68;
/// The offset of the number of operations without bus mastering.
pub(crate) const BLOCKED: u64 = 0x6c;
const UNCLEAR: u64 = 0x70;
const SUPPLY: u64 = 0x74;
const RANGES: u64 = 0x800;
/// The number of ranges in the window.
const RANGE_COUNT: usize = 128;

/// The device's counters, in the order of the window.
pub(crate) type Counts = [u64; 8];

/// The action that a write to the window requests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// No action.
    None,
    /// Raise an interrupt without a cause.
    Interrupt,
    /// Apply the changed list of memory ranges.
    Ranges,
    /// Search for a page.
    Find,
    /// Change the clock, the reset line or the supply.
    Lines(Lines),
}

/// The bytes that the guest searches for, and the result.
#[derive(Debug, Default)]
pub(crate) struct Search {
    mark: [u32; 4],
    /// The page's address; all ones if there is none.
    pub(crate) found: u64,
}

impl Search {
    /// The first bytes of the page.
    pub(crate) fn mark(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (to, word) in bytes.chunks_exact_mut(4).zip(self.mark) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// The ranges, in the form in which the guest wrote them.
#[derive(Debug)]
pub(crate) struct Ranges([u32; RANGE_COUNT * 4]);

impl Default for Ranges {
    fn default() -> Self {
        Self([0; RANGE_COUNT * 4])
    }
}

impl Ranges {
    /// Start and length of each range that is not empty.
    pub(crate) fn list(&self) -> Vec<(u64, u64)> {
        let long = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let entries = self.0.chunks_exact(4).map(|entry| (long(entry[0], entry[1]), long(entry[2], entry[3])));
        entries.filter(|&(_, length)| length > 0).collect()
    }

    fn word(&mut self, offset: u64) -> Option<&mut u32> {
        let index = usize::try_from(offset.checked_sub(RANGES)? / 4).ok()?;
        self.0.get_mut(index)
    }
}

/// Reads a word.
pub(crate) fn read(
    offset: u64,
    armed: &Armed,
    lines: Lines,
    counts: &Counts,
    ranges: &mut Ranges,
    search: &Search,
) -> u32 {
    match offset {
        0 => MAGIC,
        CLOCK => u32::from(lines.clock) | u32::from(lines.fast) << 1,
        RESET => lines.reset.into(),
        SUPPLY => u32::from(lines.supply) | u32::from(lines.high) << 1,
        HANG => armed.hang,
        LOSE => armed.lose,
        REFUSE => armed.refuse,
        DELAY => armed.delay,
        MUTE => armed.mute.into(),
        DEAF => armed.deaf.into(),
        UNCLEAR => armed.unclear.into(),
        MARK..FIND => search.mark[((offset - MARK) / 4) as usize],
        FOUND => search.found as u32,
        _ if offset == FOUND + 4 => (search.found >> 32) as u32,
        _ if offset >= RANGES => ranges.word(offset).map_or(0, |word| *word),
        _ => {
            let index = offset.checked_sub(COUNTS).and_then(|offset| usize::try_from(offset / 4).ok());
            index.and_then(|index| counts.get(index)).map_or(0, |&count| count as u32)
        }
    }
}

/// Writes a word.
pub(crate) fn write(
    offset: u64,
    value: u32,
    armed: &mut Armed,
    lines: Lines,
    ranges: &mut Ranges,
    search: &mut Search,
) -> Action {
    match offset {
        CLOCK => return Action::Lines(Lines { clock: value & 1 != 0, fast: value & 2 != 0, ..lines }),
        RESET => return Action::Lines(Lines { reset: value & 1 != 0, ..lines }),
        SUPPLY => return Action::Lines(Lines { supply: value & 1 != 0, high: value & 2 != 0, ..lines }),
        HANG => armed.hang = value,
        LOSE => armed.lose = value,
        REFUSE => armed.refuse = value,
        DELAY => armed.delay = value,
        MUTE => armed.mute = value != 0,
        DEAF => armed.deaf = value != 0,
        UNCLEAR => armed.unclear = value != 0,
        SPURIOUS => return Action::Interrupt,
        FIND => return Action::Find,
        MARK..FIND => {
            search.mark[((offset - MARK) / 4) as usize] = value;
            // The previous result belongs to other bytes.
            search.found = u64::MAX;
        }
        _ => {
            if let Some(word) = ranges.word(offset) {
                *word = value;
                return Action::Ranges;
            }
        }
    }
    Action::None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_what_is_written_and_counts_do_not() {
        let (mut armed, mut ranges, mut search) = (Armed::default(), Ranges::default(), Search::default());
        let lines = Lines::default();
        let mut put = |offset, value| write(offset, value, &mut armed, lines, &mut ranges, &mut search);
        assert_eq!(put(HANG, 7), Action::None);
        assert_eq!(put(COUNTS, 9), Action::None);
        assert_eq!(put(SPURIOUS, 1), Action::Interrupt);
        assert_eq!(put(MARK + 12, 0x4433_2211), Action::None);
        assert_eq!(put(FIND, 0), Action::Find);
        assert_eq!((&search.mark()[12..], search.found), (&[0x11, 0x22, 0x33, 0x44][..], u64::MAX));
        search.found = 0x1_2345_6000;
        let mut get = |offset| read(offset, &armed, lines, &[1, 2, 3, 4, 5, 6, 7, 8], &mut ranges, &search);
        assert_eq!([get(0), get(HANG), get(COUNTS + 12), get(COUNTS + 28)], [MAGIC, 7, 4, 8]);
        assert_eq!([get(FOUND), get(FOUND + 4), get(MARK + 12)], [0x2345_6000, 1, 0x4433_2211]);
    }

    #[test]
    fn each_line_has_a_word_of_its_own() {
        let (mut armed, mut ranges, mut search) = (Armed::default(), Ranges::default(), Search::default());
        let lines = Lines { reset: true, high: true, ..Lines::OFF };
        let get =
            |offset, ranges: &mut Ranges| read(offset, &Armed::default(), lines, &[0; 8], ranges, &Search::default());
        assert_eq!([CLOCK, RESET, SUPPLY].map(|offset| get(offset, &mut ranges)), [0, 1, 2]);
        let mut put = |offset, value| write(offset, value, &mut armed, lines, &mut ranges, &mut search);
        // Other bits are no lines.
        assert_eq!(put(CLOCK, 7), Action::Lines(Lines { clock: true, fast: true, ..lines }));
        assert_eq!(put(RESET, 2), Action::Lines(Lines { reset: false, ..lines }));
        assert_eq!(put(SUPPLY, 5), Action::Lines(Lines { supply: true, high: false, ..lines }));
    }

    #[test]
    fn ranges_are_those_with_bytes() {
        let (mut armed, mut ranges, mut search) = (Armed::default(), Ranges::default(), Search::default());
        let lines = Lines::default();
        let mut put = |offset, value| write(offset, value, &mut armed, lines, &mut ranges, &mut search);
        for (index, value) in [0x1000, 1, 0x2000, 0].into_iter().enumerate() {
            assert_eq!(put(RANGES + 16 * 3 + 4 * index as u64, value), Action::Ranges);
        }
        // Half of the last length, and the bytes after it.
        assert_eq!(put(0xff8, 5), Action::Ranges);
        assert_eq!(put(0x1000, 1), Action::None);
        assert_eq!(ranges.list(), [(0x1_0000_1000, 0x2000), (0, 5)]);
    }
}
