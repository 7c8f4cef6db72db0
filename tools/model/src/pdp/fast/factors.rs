// SPDX-License-Identifier: MIT OR Apache-2.0

//! The padding and the factors of an average of integers.

use super::portable::Method;
use crate::pdp::setup::KERNEL_MAX;
use crate::pdp::setup::{Part, Setup};

/// The padding that rows and windows add to an integer average, and its factors in 2^-16, of 17 bits.
pub(super) struct Factors {
    pub(super) columns: [i32; KERNEL_MAX],
    pub(super) lines: [i32; KERNEL_MAX],
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Factors {
    pub(super) fn new(setup: &Setup, part: &Part) -> Self {
        let columns = std::array::from_fn(|count| setup.pad_int(count));
        Self {
            columns,
            lines: columns.map(|value| value.wrapping_mul(part.axis.kernel as i32)),
            width: setup.recip_width,
            height: setup.recip_height,
        }
    }

    /// `sum` times both factors, rounded after each.
    #[inline(always)]
    pub(super) fn apply(&self, sum: i32) -> i32 {
        let step = |value: i32, factor: u32| {
            let rounded = ((u64::from(value.unsigned_abs()) * u64::from(factor) + 0x8000) >> 16) as i32;
            if value < 0 {
                rounded.wrapping_neg()
            } else {
                rounded
            }
        };
        step(step(sum, self.width), self.height)
    }
}

/// A method that sums integers.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only its vector code asks
pub(super) trait Average: Method {
    /// Elements have 16 bits, their sums 32; else 8 and 16.
    const SHORT: bool;
    fn factors(&self) -> &Factors;
}
