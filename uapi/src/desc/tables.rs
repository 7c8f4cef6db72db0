// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Lookup tables, which SDP and CDP each have one pair of.

use super::super::reg::values::{LutFunction, LutTable};
use super::wire::descriptor;

/// Entries of the first table (LE).
pub const LUT_LINEAR_EXP_ENTRIES: usize = 65;
/// Entries of the second table (LO).
pub const LUT_LINEAR_ONLY_ENTRIES: usize = 257;

descriptor! {
    /// The straight line that continues a table beyond one of its ends.
    LutSlope ("LUT slope", 4, lut_slope) {
        /// Multiplier (integer, or the bits of an fp16).
        0 scale: i16;
        /// Right shift (integer only).
        2 shifter: i8;
    }
    /// A pair of lookup tables.
    Lut ("lookup table", 700, lut) {
        /// LE: exponential or linear.
        0 linear_exp_table: [i16; LUT_LINEAR_EXP_ENTRIES];
        /// LO: linear.
        130 linear_only_table: [i16; LUT_LINEAR_ONLY_ENTRIES];
        /// LE's exponent offset (exponential), or the bits to the right of an index (linear).
        644 linear_exp_offset: i8;
        /// The bits to the right of an index into LO.
        646 linear_only_offset: i8;
        /// Where LE starts.
        648 linear_exp_start: u64;
        /// Where LE ends.
        656 linear_exp_end: u64;
        /// Where LO starts.
        664 linear_only_start: u64;
        /// Where LO ends.
        672 linear_only_end: u64;
        /// The line before LE.
        680 linear_exp_underflow_slope: LutSlope;
        /// The line after LE.
        684 linear_exp_overflow_slope: LutSlope;
        /// The line before LO.
        688 linear_only_underflow_slope: LutSlope;
        /// The line after LO.
        692 linear_only_overflow_slope: LutSlope;
        /// The table to take when both or neither hit.
        696 hybrid_priority: LutTable;
        /// The table to take when both underflow.
        697 underflow_priority: LutTable;
        /// The table to take when both overflow.
        698 overflow_priority: LutTable;
        /// LE's spacing.
        699 method: LutFunction;
    }
}
