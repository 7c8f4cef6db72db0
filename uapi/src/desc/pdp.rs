// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! PDP: pooling.

use super::super::reg::values::{PoolingMethod, Precision};
use super::cube::DataCube;
use super::wire::descriptor;

/// Padding values: for one to seven padded columns under the window.
pub const PDP_PADDING_VALUES: usize = 7;

descriptor! {
    /// PDP's operation.
    PdpOp ("PDP operation", 52, pdp_op) {
        /// Input columns of the first part of a split.
        0 partial_in_width_first: u16;
        /// Input columns of the parts between.
        2 partial_in_width_mid: u16;
        /// Input columns of the last part.
        4 partial_in_width_last: u16;
        /// Output columns of the first part.
        6 partial_width_first: u16;
        /// Output columns of the parts between.
        8 partial_width_mid: u16;
        /// Output columns of the last part.
        10 partial_width_last: u16;
        /// Parts that the width is split into; 1 is no split.
        12 split_num: u8;
        /// The method.
        13 pool_mode: PoolingMethod;
        /// Width of the window, minus one.
        14 pool_width: u8;
        /// Height of the window, minus one.
        15 pool_height: u8;
        /// Horizontal stride.
        16 stride_x: u8;
        /// Vertical stride.
        17 stride_y: u8;
        /// Padding on the left.
        18 pad_left: u8;
        /// Padding on the right.
        19 pad_right: u8;
        /// Padding at the top.
        20 pad_top: u8;
        /// Padding at the bottom.
        21 pad_bottom: u8;
        /// Precision of input and output.
        22 precision: Precision;
        /// What one to seven padded columns add to an average.
        24 padding_value: [i32; PDP_PADDING_VALUES];
    }
    /// PDP's surfaces.
    PdpSurface ("PDP surface", 64, pdp_surface) {
        /// The input.
        0 src_data: DataCube;
        /// The output.
        32 dst_data: DataCube;
    }
    /// What PDP counted.
    PdpStat ("PDP statistics", 20, pdp_stat) {
        /// Infinities in the input.
        0 inf_input_num: u32;
        /// NaN in the input.
        4 nan_input_num: u32;
        /// NaN in the output.
        8 nan_output_num: u32;
        /// Cycles that writing stalled.
        12 write_stall: u32;
        /// Microseconds from enabling to completion.
        16 runtime: u32;
    }
}
