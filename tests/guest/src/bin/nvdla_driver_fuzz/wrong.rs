// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers that a wrong program might use.

use nvdla_tests::random::Random;

/// Small, a power of two or near it, all ones, or any.
pub(crate) fn number(random: &mut Random) -> u64 {
    match random.below(5) {
        0 => random.below(40),
        1 => 1 << random.below(64),
        2 => (1u64 << random.below(64)).wrapping_sub(1 + random.below(2u64) * 4095),
        3 => u64::MAX - random.below(8192u64),
        _ => random.next(),
    }
}
