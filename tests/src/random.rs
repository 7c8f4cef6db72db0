// SPDX-License-Identifier: MIT OR Apache-2.0

//! The generator of random numbers of tests.

/// The same numbers in every run (xorshift64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| {
            random.next();
        });
        random
    }

    /// The numbers that follow a state, which is not 0.
    pub fn from_state(state: u64) -> Self {
        Self(state)
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait, reason = "the numbers have no end")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        ((self.next() >> 20) % count as u64) as usize
    }

    /// A number from `low` to `high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in one of `count` cases.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// From -1 to 1.
    pub fn real(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// One of some values.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
