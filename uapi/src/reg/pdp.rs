// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! PDP: planar data processor: pooling.

use super::values::{GroupStatus, PdpFlyingMode, PoolingMethod, Precision, RamType};

super::register::registers! {
    S_STATUS @ 0x0, reset 0x0, writable 0x0 / 0x0 {
        STATUS_0: GroupStatus = 0, 2;
        STATUS_1: GroupStatus = 16, 2;
    }
    S_POINTER @ 0x4, reset 0x0, writable 0x1 / 0x1 {
        PRODUCER: u32 = 0, 1;
        CONSUMER: u32 = 16, 1;
    }
    D_OP_ENABLE @ 0x8, reset 0x0, writable 0x1 / 0x1 {
        OP_EN: bool = 0, 1;
    }
    D_DATA_CUBE_IN_WIDTH @ 0xc, reset 0x0, writable 0x1fff / 0x1fff {
        CUBE_IN_WIDTH: u32 = 0, 13;
    }
    D_DATA_CUBE_IN_HEIGHT @ 0x10, reset 0x0, writable 0x1fff / 0x1fff {
        CUBE_IN_HEIGHT: u32 = 0, 13;
    }
    D_DATA_CUBE_IN_CHANNEL @ 0x14, reset 0x0, writable 0x1fff / 0x1fff {
        CUBE_IN_CHANNEL: u32 = 0, 13;
    }
    D_DATA_CUBE_OUT_WIDTH @ 0x18, reset 0x0, writable 0x1fff / 0x1fff {
        CUBE_OUT_WIDTH: u32 = 0, 13;
    }
    D_DATA_CUBE_OUT_HEIGHT @ 0x1c, reset 0x0, writable 0x1fff / 0x1fff {
        CUBE_OUT_HEIGHT: u32 = 0, 13;
    }
    D_DATA_CUBE_OUT_CHANNEL @ 0x20, reset 0x0, writable 0x1fff / 0x1fff {
        CUBE_OUT_CHANNEL: u32 = 0, 13;
    }
    D_OPERATION_MODE_CFG @ 0x24, reset 0x0, writable 0xff13 / 0xff13 {
        POOLING_METHOD: PoolingMethod = 0, 2;
        FLYING_MODE: PdpFlyingMode = 4, 1;
        SPLIT_NUM: u32 = 8, 8;
    }
    D_NAN_FLUSH_TO_ZERO @ 0x28, reset 0x0, writable 0x1 / 0x1 {
        NAN_TO_ZERO: bool = 0, 1;
    }
    D_PARTIAL_WIDTH_IN @ 0x2c, reset 0x0, writable 0x3fffffff / 0x3fffffff {
        PARTIAL_WIDTH_IN_FIRST: u32 = 0, 10;
        PARTIAL_WIDTH_IN_LAST: u32 = 10, 10;
        PARTIAL_WIDTH_IN_MID: u32 = 20, 10;
    }
    D_PARTIAL_WIDTH_OUT @ 0x30, reset 0x0, writable 0x3fffffff / 0x3fffffff {
        PARTIAL_WIDTH_OUT_FIRST: u32 = 0, 10;
        PARTIAL_WIDTH_OUT_LAST: u32 = 10, 10;
        PARTIAL_WIDTH_OUT_MID: u32 = 20, 10;
    }
    D_POOLING_KERNEL_CFG @ 0x34, reset 0x0, writable 0xff0f0f / 0xff0f0f {
        KERNEL_WIDTH: u32 = 0, 4;
        KERNEL_HEIGHT: u32 = 8, 4;
        KERNEL_STRIDE_WIDTH: u32 = 16, 4;
        KERNEL_STRIDE_HEIGHT: u32 = 20, 4;
    }
    D_RECIP_KERNEL_WIDTH @ 0x38, reset 0x0, writable 0x1ffff / 0x1ffff {
        RECIP_KERNEL_WIDTH: u32 = 0, 17;
    }
    D_RECIP_KERNEL_HEIGHT @ 0x3c, reset 0x0, writable 0x1ffff / 0x1ffff {
        RECIP_KERNEL_HEIGHT: u32 = 0, 17;
    }
    D_POOLING_PADDING_CFG @ 0x40, reset 0x0, writable 0x7777 / 0x7777 {
        PAD_LEFT: u32 = 0, 3;
        PAD_TOP: u32 = 4, 3;
        PAD_RIGHT: u32 = 8, 3;
        PAD_BOTTOM: u32 = 12, 3;
    }
    D_POOLING_PADDING_VALUE_1_CFG @ 0x44, reset 0x0, writable 0x7ffff / 0x7ffff {
        PAD_VALUE_1X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_2_CFG @ 0x48, reset 0x0, writable 0x7ffff / 0x7ffff {
        PAD_VALUE_2X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_3_CFG @ 0x4c, reset 0x0, writable 0x7ffff / 0x7ffff {
        PAD_VALUE_3X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_4_CFG @ 0x50, reset 0x0, writable 0x7ffff / 0x7ffff {
        PAD_VALUE_4X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_5_CFG @ 0x54, reset 0x0, writable 0x7ffff / 0x7ffff {
        PAD_VALUE_5X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_6_CFG @ 0x58, reset 0x0, writable 0x7ffff / 0x7ffff {
        PAD_VALUE_6X: u32 = 0, 19;
    }
    D_POOLING_PADDING_VALUE_7_CFG @ 0x5c, reset 0x0, writable 0x7ffff / 0x7ffff {
        PAD_VALUE_7X: u32 = 0, 19;
    }
    D_SRC_BASE_ADDR_LOW @ 0x60, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        SRC_BASE_ADDR_LOW: u32 = 0, 32;
    }
    D_SRC_BASE_ADDR_HIGH @ 0x64, reset 0x0, writable 0xffffffff / 0xffffffff {
        SRC_BASE_ADDR_HIGH: u32 = 0, 32;
    }
    D_SRC_LINE_STRIDE @ 0x68, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        SRC_LINE_STRIDE: u32 = 0, 32;
    }
    D_SRC_SURFACE_STRIDE @ 0x6c, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        SRC_SURFACE_STRIDE: u32 = 0, 32;
    }
    D_DST_BASE_ADDR_LOW @ 0x70, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DST_BASE_ADDR_LOW: u32 = 0, 32;
    }
    D_DST_BASE_ADDR_HIGH @ 0x74, reset 0x0, writable 0xffffffff / 0xffffffff {
        DST_BASE_ADDR_HIGH: u32 = 0, 32;
    }
    D_DST_LINE_STRIDE @ 0x78, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DST_LINE_STRIDE: u32 = 0, 32;
    }
    D_DST_SURFACE_STRIDE @ 0x7c, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DST_SURFACE_STRIDE: u32 = 0, 32;
    }
    D_DST_RAM_CFG @ 0x80, reset 0x0, writable 0x1 / 0x1 {
        DST_RAM_TYPE: RamType = 0, 1;
    }
    D_DATA_FORMAT @ 0x84, reset 0x0, writable 0x3 / 0x3 {
        INPUT_DATA: Precision = 0, 2;
    }
    D_INF_INPUT_NUM @ 0x88, reset 0x0, writable 0x0 / 0x0 {
        INF_INPUT_NUM: u32 = 0, 32;
    }
    D_NAN_INPUT_NUM @ 0x8c, reset 0x0, writable 0x0 / 0x0 {
        NAN_INPUT_NUM: u32 = 0, 32;
    }
    D_NAN_OUTPUT_NUM @ 0x90, reset 0x0, writable 0x0 / 0x0 {
        NAN_OUTPUT_NUM: u32 = 0, 32;
    }
    D_PERF_ENABLE @ 0x94, reset 0x0, writable 0x1 / 0x1 {
        DMA_EN: bool = 0, 1;
    }
    D_PERF_WRITE_STALL @ 0x98, reset 0x0, writable 0x0 / 0x0 {
        PERF_WRITE_STALL: u32 = 0, 32;
    }
    D_CYA @ 0x9c, reset 0x0, writable 0xffffffff / 0xffffffff {
        CYA: u32 = 0, 32;
    }
}
