// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Convolution.

use super::super::reg::values::{ConvMode, Precision, WeightFormat};
use super::cube::{CvtParam, DataCube};
use super::types::{DataFormat, PixelMapping, PixelOverride};
use super::wire::descriptor;

descriptor! {
    /// The convolution pipeline's operation.
    ConvOp ("convolution operation", 92, conv_op) {
        /// The algorithm.
        0 conv_mode: ConvMode;
        /// Input data is still in the convolution buffer.
        1 data_reuse: bool;
        /// Weights are still in the convolution buffer.
        2 weight_reuse: bool;
        /// Input data stays in the convolution buffer.
        3 skip_data_rls: bool;
        /// Weights stay in the convolution buffer.
        4 skip_weight_rls: bool;
        /// Buffer entries of a slice (an input line of all channels).
        6 entry_per_slice: u16;
        /// The input's format.
        8 data_format: DataFormat;
        /// How pixels are placed.
        9 pixel_mapping: PixelMapping;
        /// Slices that must be free before more are fetched.
        10 fetch_grain: u16;
        /// Inputs of a hardware batch.
        20 batch: u8;
        /// Whether weights are compressed.
        21 weight_format: WeightFormat;
        /// Buffer banks for data.
        22 data_bank: u8;
        /// Buffer banks for weights.
        23 weight_bank: u8;
        /// Bytes from one input of a batch to the next.
        24 batch_stride: u32;
        /// Kernel rows that are processed together in image mode: 0 one, 1 two, 2 four.
        28 post_extension: u8;
        /// Whether unsigned pixels stay unsigned.
        29 pixel_override: PixelOverride;
        /// Slices to release.
        30 release: u16;
        /// Width that CSC sees.
        32 input_width_csc: u16;
        /// Height that CSC sees.
        34 input_height_csc: u16;
        /// Channels that CSC sees.
        36 input_channel_csc: u16;
        /// Kernel width that CSC sees.
        38 kernel_width_csc: u16;
        /// Kernel height that CSC sees.
        40 kernel_height_csc: u16;
        /// Kernel channels that CSC sees.
        42 kernel_channel_csc: u16;
        /// Width of the output that CMAC makes.
        44 input_width_cmac: u16;
        /// Height of the output that CMAC makes.
        46 input_height_cmac: u16;
        /// Bytes of a kernel.
        48 bytes_per_kernel: u32;
        /// Mean of red or Y.
        52 mean_ry: i16;
        /// Mean of green or U.
        54 mean_gu: i16;
        /// Mean of blue or V.
        56 mean_bv: i16;
        /// Mean of alpha.
        58 mean_ax: i16;
        /// Whether a mean is subtracted.
        60 mean_format: bool;
        /// Horizontal stride.
        61 conv_stride_x: u8;
        /// Vertical stride.
        62 conv_stride_y: u8;
        /// Padding on the left.
        63 pad_x_left: u8;
        /// Padding on the right.
        64 pad_x_right: u8;
        /// Padding at the top.
        65 pad_y_top: u8;
        /// Padding at the bottom.
        66 pad_y_bottom: u8;
        /// Horizontal dilation.
        67 dilation_x: u8;
        /// Vertical dilation.
        68 dilation_y: u8;
        /// Winograd's truncation after the data transform.
        71 pra_truncate: u8;
        /// Precision of the input.
        72 in_precision: Precision;
        /// Precision of processing.
        73 out_precision: Precision;
        /// Value of padding.
        74 pad_val: i16;
        /// The input converter.
        76 in_cvt: CvtParam;
        /// The output converter; only `truncate` is used.
        84 out_cvt: CvtParam;
    }
    /// The convolution pipeline's surfaces.
    ConvSurface ("convolution surface", 172, conv_surface) {
        /// Weights.
        0 weight_data: DataCube;
        /// Weight mask bits (compressed weights).
        32 wmb_data: DataCube;
        /// Weight group sizes (compressed weights).
        64 wgs_data: DataCube;
        /// The input.
        96 src_data: DataCube;
        /// The output, which SDP stores.
        128 dst_data: DataCube;
        /// Bytes from the first plane of a two-plane image to its second.
        160 offset_u: i64;
        /// Line stride of the second plane.
        168 in_line_uv_stride: u32;
    }
    /// What the convolution pipeline counted.
    ConvStat ("convolution statistics", 40, conv_stat) {
        /// Cycles that reading data stalled.
        0 data_read_stall: u32;
        /// Cycles that reading weights stalled.
        4 weight_read_stall: u32;
        /// Latency of reading data.
        8 data_read_latency: u32;
        /// Latency of reading weights.
        12 weight_read_latency: u32;
        /// Results that saturated.
        16 saturation_count: u32;
        /// NaN in the data.
        20 nan_data_num: u32;
        /// NaN in the weights.
        24 nan_weight_num: u32;
        /// Infinities in the data.
        28 inf_data_num: u32;
        /// Infinities in the weights.
        32 inf_weight_num: u32;
        /// Microseconds from enabling to completion.
        36 runtime: u32;
    }
}
