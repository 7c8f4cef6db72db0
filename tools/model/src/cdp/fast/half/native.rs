// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where the machine's own fp16 is the hardware's.

use super::super::avx512::native::sums;
use super::super::rows::Rows;
use super::super::{counters, Counts};
use super::{Half, Room};
use crate::cdp::Operation;
use crate::lut::cdp::avx512::native::walk::Job;
use crate::lut::cdp::avx512::native::Native;
use crate::lut::cdp::vector::CLASSES;

/// Elements of rows, about, whose sums are made before their results.
const FEW: usize = 2048;

impl Half<'_> {
    /// All rows of finite numbers; `None` if there is another.
    pub(super) fn native(&self, native: &Native, room: &mut Room, rows: Rows, into: &mut [u8]) -> Option<Counts> {
        let Operation { reach, skip_multiply, .. } = *self.operation;
        let Room { raw, few, .. } = room;
        let (steps, stride, raw) = (rows.steps(), rows.stride(), &*rows.all(raw));
        let each = (FEW / steps).max(1);
        let mut classes = [0; CLASSES];
        for (number, into) in into.chunks_mut(2 * each * steps).enumerate() {
            let first = number * each;
            let some = few.get(into.len() / 2);
            // SAFETY: there is a lookup only where the processor has what `Isa::Avx512` stands for, and AVX512-FP16.
            if !unsafe { sums(rows, first, reach, raw, some) } {
                return None;
            }
            let elements = rows.from(raw, first);
            let job = Job { sums: some, elements, stride, steps, counted: rows.elements, skip_multiply };
            // SAFETY: as above.
            unsafe { native.results(job, &mut classes, into) };
        }
        Some(Counts { lut: counters(classes), saturated: 0, nans: 0 })
    }
}
