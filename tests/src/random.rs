// SPDX-License-Identifier: MIT OR Apache-2.0

//! The generator of random numbers of tests, and the loop over random graphs. Tests of crates without this one include the file by its path.

use std::panic::{catch_unwind, AssertUnwindSafe};

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

    /// A number below `count`, which is greater than 0.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub fn below<T: TryFrom<u64>>(&mut self, count: T) -> T
    where
        u64: TryFrom<T>,
    {
        let count = u64::try_from(count).ok().filter(|&count| count > 0).expect("a number below it exists");
        T::try_from((self.next() >> 20) % count).ok().expect("the type of the limit holds it")
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

/// Calls `test` with the seed of each random graph: `count` of them, or as many as `NVDLA_GRAPHS` says, from 1 or `NVDLA_SEED` on. A
/// failure names its graph, and the other graphs are still tried. Returns the number of graphs.
///
/// # Panics
///
/// If `test` panics with a graph.
pub fn for_each_graph(count: usize, mut test: impl FnMut(u64)) -> usize {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default);
    let first = number("NVDLA_SEED", 1);
    let count = number("NVDLA_GRAPHS", count as u64);
    let fails = |seed: &u64| catch_unwind(AssertUnwindSafe(|| test(*seed))).is_err();
    let wrong: Vec<u64> = (first..first + count).filter(fails).collect();
    assert!(wrong.is_empty(), "graphs {wrong:?} are wrong");
    count as usize
}
