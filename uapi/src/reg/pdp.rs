// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! PDP: planar data processor: pooling.

use super::values::{GroupStatus, PdpFlyingMode, PoolingMethod, Precision, RamType};

super::register::registers! {
    S_STATUS @ 0x0, reset 0x0, writable 0x0 / 0x0: s_status {
        STATUS_0: GroupStatus = 0, 2;
        STATUS_1: GroupStatus = 16, 2;
    }
    S_POINTER @ 0x4, reset 0x0, writable 0x1 / 0x1: s_pointer {
        PRODUCER: u32 = 0, 1;
        CONSUMER: u32 = 16, 1;
    }
    D_OP_ENABLE @ 0x8, reset 0x0, writable 0x1 / 0x1: d_op_enable {
        OP_EN: bool = 0, 1;
    }
    D_DATA_CUBE_IN_WIDTH @ 0xc, reset 0x0, writable 0x1fff / 0x1fff: d_data_cube_in_width {
        CUBE_IN_WIDTH: u32 = 0, 13;
    }
    D_DATA_CUBE_IN_HEIGHT @ 0x10, reset 0x0, writable 0x1fff / 0x1fff: d_data_cube_in_height {
        CUBE_IN_HEIGHT: u32 = 0, 13;
    }
    D_DATA_CUBE_IN_CHANNEL @ 0x14, reset 0x0, writable 0x1fff / 0x1fff: d_data_cube_in_channel {
        CUBE_IN_CHANNEL: u32 = 0, 13;
    }
    D_DATA_CUBE_OUT_WIDTH @ 0x18, reset 0x0, writable 0x1fff / 0x1fff: d_data_cube_out_width {
        CUBE_OUT_WIDTH: u32 = 0, 13;
    }
    D_DATA_CUBE_OUT_HEIGHT @ 0x1c, reset 0x0, writable 0x1fff / 0x1fff: d_data_cube_out_height {
        CUBE_OUT_HEIGHT: u32 = 0, 13;
    }
    D_DATA_CUBE_OUT_CHANNEL @ 0x20, reset 0x0, writable 0x1fff / 0x1fff: d_data_cube_out_channel {
        CUBE_OUT_CHANNEL: u32 = 0, 13;
    }
    D_OPERATION_MODE_CFG @ 0x24, reset 0x0, writable 0xff13 / 0xff13: d_operation_mode_cfg {
        POOLING_METHOD: PoolingMethod = 0, 2;
        FLYING_MODE: PdpFlyingMode = 4, 1;
        SPLIT_NUM: u32 = 8, 8;
    }
    D_NAN_FLUSH_TO_ZERO @ 0x28, reset 0x0, writable 0x1 / 0x1: d_nan_flush_to_zero {
        NAN_TO_ZERO: bool = 0, 1;
    }
    D_PARTIAL_WIDTH_IN @ 0x2c, reset 0x0, writable 0x3fffffff / 0x3fffffff: d_partial_width_in {
        PARTIAL_WIDTH_IN_FIRST: u32 = 0, 10;
        PARTIAL_WIDTH_IN_LAST: u32 = 10, 10;
        PARTIAL_WIDTH_IN_MID: u32 = 20, 10;
    }
    D_PARTIAL_WIDTH_OUT @ 0x30, reset 0x0, writable 0x3fffffff / 0x3fffffff: d_partial_width_out {
        PARTIAL_WIDTH_OUT_FIRST: u32 = 0, 10;
        PARTIAL_WIDTH_OUT_LAST: u32 = 10, 10;
        PARTIAL_WIDTH_OUT_MID: u32 = 20, 10;
    }
    D_POOLING_KERNEL_CFG @ 0x34, reset 0x0, writable 0xff0f0f / 0xff0f0f: d_pooling_kernel_cfg {
        KERNEL_WIDTH: u32 = 0, 4;
        KERNEL_HEIGHT: u32 = 8, 4;
        KERNEL_STRIDE_WIDTH: u32 = 16, 4;
        KERNEL_STRIDE_HEIGHT: u32 = 20, 4;
    }
    D_RECIP_KERNEL_WIDTH @ 0x38, reset 0x0, writable 0x1ffff / 0x1ffff: d_recip_kernel_width {
        RECIP_KERNEL_WIDTH: u32 = 0, 17;
    }
    D_RECIP_KERNEL_HEIGHT @ 0x3c, reset 0x0, writable 0x1ffff / 0x1ffff: d_recip_kernel_height {
        RECIP_KERNEL_HEIGHT: u32 = 0, 17;
    }
    D_POOLING_PADDING_CFG @ 0x40, reset 0x0, writable 0x7777 / 0x7777: d_pooling_padding_cfg {
        PAD_LEFT: u32 = 0, 3;
        PAD_TOP: u32 = 4, 3;
        PAD_RIGHT: u32 = 8, 3;
        PAD_BOTTOM: u32 = 12, 3;
    }
    D_POOLING_PADDING_VALUE_1_CFG @ 0x44, reset 0x0, writable 0x7ffff / 0x7ffff: d_pooling_padding_value_1_cfg {
        PAD_VALUE_1X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_2_CFG @ 0x48, reset 0x0, writable 0x7ffff / 0x7ffff: d_pooling_padding_value_2_cfg {
        PAD_VALUE_2X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_3_CFG @ 0x4c, reset 0x0, writable 0x7ffff / 0x7ffff: d_pooling_padding_value_3_cfg {
        PAD_VALUE_3X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_4_CFG @ 0x50, reset 0x0, writable 0x7ffff / 0x7ffff: d_pooling_padding_value_4_cfg {
        PAD_VALUE_4X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_5_CFG @ 0x54, reset 0x0, writable 0x7ffff / 0x7ffff: d_pooling_padding_value_5_cfg {
        PAD_VALUE_5X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_6_CFG @ 0x58, reset 0x0, writable 0x7ffff / 0x7ffff: d_pooling_padding_value_6_cfg {
        PAD_VALUE_6X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_7_CFG @ 0x5c, reset 0x0, writable 0x7ffff / 0x7ffff: d_pooling_padding_value_7_cfg {
        PAD_VALUE_7X: u32 = 0, 19;
    }
    D_SRC_BASE_ADDR_LOW @ 0x60, reset 0x0, writable 0xffffffff / 0xffffffe0: d_src_base_addr_low {
        SRC_BASE_ADDR_LOW: u32 = 0, 32;
    }
    D_SRC_BASE_ADDR_HIGH @ 0x64, reset 0x0, writable 0xffffffff / 0xffffffff: d_src_base_addr_high {
        SRC_BASE_ADDR_HIGH: u32 = 0, 32;
    }
    D_SRC_LINE_STRIDE @ 0x68, reset 0x0, writable 0xffffffff / 0xffffffe0: d_src_line_stride {
        SRC_LINE_STRIDE: u32 = 0, 32;
    }
    D_SRC_SURFACE_STRIDE @ 0x6c, reset 0x0, writable 0xffffffff / 0xffffffe0: d_src_surface_stride {
        SRC_SURFACE_STRIDE: u32 = 0, 32;
    }
    D_DST_BASE_ADDR_LOW @ 0x70, reset 0x0, writable 0xffffffff / 0xffffffe0: d_dst_base_addr_low {
        DST_BASE_ADDR_LOW: u32 = 0, 32;
    }
    D_DST_BASE_ADDR_HIGH @ 0x74, reset 0x0, writable 0xffffffff / 0xffffffff: d_dst_base_addr_high {
        DST_BASE_ADDR_HIGH: u32 = 0, 32;
    }
    D_DST_LINE_STRIDE @ 0x78, reset 0x0, writable 0xffffffff / 0xffffffe0: d_dst_line_stride {
        DST_LINE_STRIDE: u32 = 0, 32;
    }
    D_DST_SURFACE_STRIDE @ 0x7c, reset 0x0, writable 0xffffffff / 0xffffffe0: d_dst_surface_stride {
        DST_SURFACE_STRIDE: u32 = 0, 32;
    }
    D_DST_RAM_CFG @ 0x80, reset 0x0, writable 0x1 / 0x1: d_dst_ram_cfg {
        DST_RAM_TYPE: RamType = 0, 1;
    }
    D_DATA_FORMAT @ 0x84, reset 0x0, writable 0x3 / 0x3: d_data_format {
        INPUT_DATA: Precision = 0, 2;
    }
    D_INF_INPUT_NUM @ 0x88, reset 0x0, writable 0x0 / 0x0: d_inf_input_num {
        INF_INPUT_NUM: u32 = 0, 32;
    }
    D_NAN_INPUT_NUM @ 0x8c, reset 0x0, writable 0x0 / 0x0: d_nan_input_num {
        NAN_INPUT_NUM: u32 = 0, 32;
    }
    D_NAN_OUTPUT_NUM @ 0x90, reset 0x0, writable 0x0 / 0x0: d_nan_output_num {
        NAN_OUTPUT_NUM: u32 = 0, 32;
    }
    D_PERF_ENABLE @ 0x94, reset 0x0, writable 0x1 / 0x1: d_perf_enable {
        DMA_EN: bool = 0, 1;
    }
    D_PERF_WRITE_STALL @ 0x98, reset 0x0, writable 0x0 / 0x0: d_perf_write_stall {
        PERF_WRITE_STALL: u32 = 0, 32;
    }
    D_CYA @ 0x9c, reset 0x0, writable 0xffffffff / 0xffffffff: d_cya {
        CYA: u32 = 0, 32;
    }
}
