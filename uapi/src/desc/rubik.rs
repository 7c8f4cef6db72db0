// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Rubik: contraction, splitting and merging of cubes.

use super::super::reg::values::{Precision, RubikMode};
use super::cube::DataCube;
use super::wire::descriptor;

descriptor! {
    /// Rubik's operation.
    RubikOp ("Rubik operation", 4, rubik_op) {
        /// What it does.
        0 mode: RubikMode;
        /// Precision of input and output.
        1 precision: Precision;
        /// Horizontal stride of a contraction.
        2 stride_x: u8;
        /// Vertical stride of a contraction.
        3 stride_y: u8;
    }
    /// Rubik's surfaces.
    RubikSurface ("Rubik surface", 64, rubik_surface) {
        /// The input.
        0 src_data: DataCube;
        /// The output.
        32 dst_data: DataCube;
    }
    /// What Rubik counted.
    RubikStat ("Rubik statistics", 12, rubik_stat) {
        /// Cycles that reading stalled.
        0 read_stall: u32;
        /// Cycles that writing stalled.
        4 write_stall: u32;
        /// Microseconds from enabling to completion.
        8 runtime: u32;
    }
}
