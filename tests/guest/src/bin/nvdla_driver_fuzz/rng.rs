// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random numbers that are reproducible by their seed.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", figure 17).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of the values.
    pub(crate) fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// A number that a wrong program might use: small, a power of two or near it, all ones, or any.
    pub(crate) fn number(&mut self) -> u64 {
        match self.below(5) {
            0 => self.below(40),
            1 => 1 << self.below(64),
            2 => (1u64 << self.below(64)).wrapping_sub(1 + self.below(2) * 4095),
            3 => u64::MAX - self.below(8192),
            _ => self.next(),
        }
    }
}
