// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operands in the form of the fused loops.

use super::eight::Eight;
use super::lanes::{Lanes, Operands, Shifts, Slot, CHUNK, PERIOD, SLOTS};

/// The operands of one slot.
#[derive(Clone, Copy)]
pub(super) enum SlotOperands<'o> {
    /// No operands.
    None,
    /// Prepared operands. The operand of element `at` is at index `at & mask`.
    Lanes { lanes: &'o Lanes, mask: usize },
    /// One operand per element, as it is in memory. int8 is shifted left by at most 15.
    Bytes { bytes: &'o [u8], shift: u32 },
}

impl<'o> SlotOperands<'o> {
    /// The operands of `slot`. `each` tells, per slot, whether the operands differ from element to element. `direct`
    /// has the shifts of those that are read directly from memory.
    #[inline(always)]
    pub(super) fn new(operands: &Operands<'o>, each: [bool; SLOTS], direct: Shifts, slot: Option<Slot>) -> Self {
        let Some(slot) = slot else { return Self::None };
        let slot = slot as usize;
        match direct[slot] {
            Some(shift) => Self::Bytes { bytes: operands.bytes[slot], shift },
            None => {
                Self::Lanes { lanes: &operands.lanes[slot], mask: if each[slot] { usize::MAX } else { PERIOD - 1 } }
            }
        }
    }

    /// Loads the operands of the eight elements with this number.
    #[inline(always)]
    pub(super) fn load_8<V: Eight>(self, number: usize) -> V {
        match self {
            Self::None => V::splat(0),
            Self::Lanes { lanes, mask } => V::load(&lanes.0.as_chunks().0[number & (mask / 8) & (CHUNK / 8 - 1)]),
            Self::Bytes { bytes, shift } => {
                V::widen(bytes.as_chunks().0.get(number).copied().unwrap_or_default()).shifted_left(shift)
            }
        }
    }
}
