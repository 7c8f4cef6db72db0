// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CDP: local response normalisation.

use super::super::reg::values::Precision;
use super::cube::{CvtParam, DataCube};
use super::wire::descriptor;

descriptor! {
    /// CDP's operation.
    CdpOp ("CDP operation", 24, cdp_op) {
        /// Precision of the input.
        0 in_precision: Precision;
        /// Precision of the output.
        1 out_precision: Precision;
        /// The lookup table, -1 for none.
        2 lut_index: i16;
        /// The input converter.
        4 in_cvt: CvtParam;
        /// The output converter.
        12 out_cvt: CvtParam;
        /// Channels of the window: 3, 5, 7 or 9.
        20 local_size: u8;
        /// The sum of squares is left out.
        21 bypass_sqsum: bool;
        /// The product with the input is left out.
        22 bypass_out_mul: bool;
    }
    /// CDP's surfaces.
    CdpSurface ("CDP surface", 64, cdp_surface) {
        /// The input.
        0 src_data: DataCube;
        /// The output.
        32 dst_data: DataCube;
    }
    /// What CDP counted.
    CdpStat ("CDP statistics", 44, cdp_stat) {
        /// NaN in the input.
        0 nan_input_num: u32;
        /// Infinities in the input.
        4 inf_input_num: u32;
        /// NaN in the output.
        8 nan_output_num: u32;
        /// Cycles that writing stalled.
        12 write_stall: u32;
        /// Inputs below the lookup table.
        16 lut_uflow: u32;
        /// Inputs above the lookup table.
        20 lut_oflow: u32;
        /// Inputs that both tables hit, or neither.
        24 lut_hybrid: u32;
        /// Inputs that the first table hit.
        28 lut_le_hit: u32;
        /// Inputs that the second table hit.
        32 lut_lo_hit: u32;
        /// Results that saturated.
        36 saturation_count: u32;
        /// Microseconds from enabling to completion.
        40 runtime: u32;
    }
}
