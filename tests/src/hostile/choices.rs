// SPDX-License-Identifier: MIT OR Apache-2.0

//! The choices of a generator: from a seed, or from a fuzzer's bytes.

/// A source of choices.
pub trait Choices {
    /// Any number.
    fn number(&mut self) -> u64;

    /// A number below `count`; 0 when that is 0.
    fn below(&mut self, count: usize) -> usize {
        if count == 0 {
            0
        } else {
            (self.number() % count as u64) as usize
        }
    }

    /// True in `part` of `of` cases.
    fn chance(&mut self, part: usize, of: usize) -> bool {
        self.below(of) < part
    }
}

/// Choices from a seed (`splitmix64`).
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// The choices of case `number` with that seed, independent of other cases.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut start = Self(seed);
        let mixed = start.number();
        Self(mixed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

impl Choices for Seeded {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Choices from bytes, two bytes per choice; 0 after their end.
#[derive(Clone, Debug)]
pub struct ByteChoices<'b>(pub &'b [u8]);

impl Choices for ByteChoices<'_> {
    fn number(&mut self) -> u64 {
        let Some((&[low, high], rest)) = self.0.split_first_chunk() else {
            self.0 = &[];
            return 0;
        };
        self.0 = rest;
        u64::from(u16::from_le_bytes([low, high]))
    }
}
