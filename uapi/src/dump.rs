// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The file that the driver leaves when it ends a task: what the device's registers hold, which operations ran and with which
//! register values, the last interrupts. It has no bytes of the task's buffers.
//!
//! A file is [`MAGIC`], [`VERSION`] and sections, all in words of 32 bits, the machine's byte order; 64-bit numbers are two words, the
//! lower one first. A section is its kind, the number of its words, and these words. A reader skips kinds that it does not know, and
//! words behind those that it knows.
//!
//! The kernel makes such a file available as `/sys/class/devcoredump/devcd*/data`.

/// The first two words: "NVDLADMP".
pub const MAGIC: [u32; 2] = [u32::from_le_bytes(*b"NVDL"), u32::from_le_bytes(*b"ADMP")];
/// The third word.
pub const VERSION: u32 = 1;
/// The most words of a file, which the driver has room for.
pub const MAX_WORDS: usize = 16 << 10;

/// The kinds of sections.
pub mod kind {
    /// The configuration's name, 8 words; hardware version.
    pub const DEVICE: u32 = 1;
    /// Client, process, sequence number (2 words), times in nanoseconds of `CLOCK_MONOTONIC`: now, start, deadline (2 words each).
    pub const TASK: u32 = 2;
    /// A text in UTF-8: why the task was ended. Zero bytes at the end.
    pub const REASON: u32 = 3;
    /// For each interrupt, the oldest first: time in nanoseconds (2 words), status.
    pub const INTERRUPTS: u32 = 4;
    /// For each address of the task: the device's address (2 words), bytes (2 words), memory interface (0 secondary, 1 primary).
    pub const ADDRESSES: u32 = 5;
    /// Register group; then for each register its offset in the register window and its value.
    pub const REGISTERS: u32 = 6;
    /// Operation, region, unit, group, whether it was enabled, events that it waits for; then for each register that it is
    /// programmed with its offset in the register window and its value.
    pub const OPERATION: u32 = 7;
}

/// Writes a file into words that are there already. What does not fit is left out.
#[derive(Debug)]
pub struct Writer<'a> {
    words: &'a mut [u32],
    used: usize,
    /// Where the number of words of the open section is; 0 if none is open.
    section: usize,
}

impl<'a> Writer<'a> {
    /// Begins a file.
    pub fn new(words: &'a mut [u32]) -> Self {
        let mut this = Self { words, used: 0, section: 0 };
        this.put(MAGIC[0]);
        this.put(MAGIC[1]);
        this.put(VERSION);
        this
    }

    /// Begins a section. The one before ends.
    pub fn section(&mut self, kind: u32) {
        self.section = 0;
        self.put(kind);
        self.section = self.used;
        self.put(0);
    }

    /// Adds a word to the section.
    pub fn put(&mut self, word: u32) {
        if let Some(place) = self.words.get_mut(self.used) {
            *place = word;
            self.used += 1;
            if let Some(length) = self.words.get_mut(self.section).filter(|_| self.used > self.section + 1) {
                if self.section != 0 {
                    *length = (self.used - self.section - 1) as u32;
                }
            }
        }
    }

    /// Adds a 64-bit number.
    pub fn long(&mut self, number: u64) {
        self.put(number as u32);
        self.put((number >> 32) as u32);
    }

    /// Adds bytes, filled up to a word with zeros.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(4) {
            let mut word = [0; 4];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            self.put(u32::from_ne_bytes(word));
        }
    }

    /// The number of words so far.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }
}

impl core::fmt::Write for Writer<'_> {
    /// A text must be written at once, or in parts of whole words.
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// The sections of a file: kind and words. `None` if the file does not begin as one. Ends at a section that is cut off.
pub fn sections(words: &[u32]) -> Option<impl Iterator<Item = (u32, &[u32])>> {
    let mut rest = words.strip_prefix(&MAGIC)?.strip_prefix(&[VERSION])?;
    Some(core::iter::from_fn(move || {
        let [kind, length, behind @ ..] = rest else { return None };
        let section = behind.get(..*length as usize)?;
        rest = &behind[section.len()..];
        Some((*kind, section))
    }))
}
