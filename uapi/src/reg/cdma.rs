// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CDMA: convolution DMA: fetches data and weights into the convolution buffer.

use super::values::{ConvMode, DataFormat, GroupStatus, PixelFormat, Precision, RamType, WeightFormat};

super::register::registers! {
    S_STATUS @ 0x0, reset 0x0, writable 0x0 / 0x0 {
        STATUS_0: GroupStatus = 0, 2;
        STATUS_1: GroupStatus = 16, 2;
    }
    S_POINTER @ 0x4, reset 0x0, writable 0x1 / 0x1 {
        PRODUCER: u32 = 0, 1;
        CONSUMER: u32 = 16, 1;
    }
    S_ARBITER @ 0x8, reset 0x3000f, writable 0xf000f / 0xf000f {
        ARB_WEIGHT: u32 = 0, 4;
        ARB_WMB: u32 = 16, 4;
    }
    S_CBUF_FLUSH_STATUS @ 0xc, reset 0x0, writable 0x0 / 0x0 {
        FLUSH_DONE: u32 = 0, 1;
    }
    D_OP_ENABLE @ 0x10, reset 0x0, writable 0x1 / 0x1 {
        OP_EN: bool = 0, 1;
    }
    D_MISC_CFG @ 0x14, reset 0x1100, writable 0x11113301 / 0x11113301 {
        CONV_MODE: ConvMode = 0, 1;
        IN_PRECISION: Precision = 8, 2;
        PROC_PRECISION: Precision = 12, 2;
        DATA_REUSE: bool = 16, 1;
        WEIGHT_REUSE: bool = 20, 1;
        SKIP_DATA_RLS: bool = 24, 1;
        SKIP_WEIGHT_RLS: bool = 28, 1;
    }
    D_DATAIN_FORMAT @ 0x18, reset 0xc00, writable 0x113f01 / 0x113f01 {
        DATAIN_FORMAT: DataFormat = 0, 1;
        PIXEL_FORMAT: PixelFormat = 8, 6;
        PIXEL_MAPPING: u32 = 16, 1;
        PIXEL_SIGN_OVERRIDE: u32 = 20, 1;
    }
    D_DATAIN_SIZE_0 @ 0x1c, reset 0x0, writable 0x1fff1fff / 0x1fff1fff {
        DATAIN_WIDTH: u32 = 0, 13;
        DATAIN_HEIGHT: u32 = 16, 13;
    }
    D_DATAIN_SIZE_1 @ 0x20, reset 0x0, writable 0x1fff / 0x1fff {
        DATAIN_CHANNEL: u32 = 0, 13;
    }
    D_DATAIN_SIZE_EXT_0 @ 0x24, reset 0x0, writable 0x1fff1fff / 0x1fff1fff {
        DATAIN_WIDTH_EXT: u32 = 0, 13;
        DATAIN_HEIGHT_EXT: u32 = 16, 13;
    }
    D_PIXEL_OFFSET @ 0x28, reset 0x0, writable 0x7001f / 0x7001f {
        PIXEL_X_OFFSET: u32 = 0, 5;
        PIXEL_Y_OFFSET: u32 = 16, 3;
    }
    D_DAIN_RAM_TYPE @ 0x2c, reset 0x0, writable 0x1 / 0x1 {
        DATAIN_RAM_TYPE: RamType = 0, 1;
    }
    D_DAIN_ADDR_HIGH_0 @ 0x30, reset 0x0, writable 0xffffffff / 0xffffffff {
        DATAIN_ADDR_HIGH_0: u32 = 0, 32;
    }
    D_DAIN_ADDR_LOW_0 @ 0x34, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DATAIN_ADDR_LOW_0: u32 = 0, 32;
    }
    D_DAIN_ADDR_HIGH_1 @ 0x38, reset 0x0, writable 0xffffffff / 0xffffffff {
        DATAIN_ADDR_HIGH_1: u32 = 0, 32;
    }
    D_DAIN_ADDR_LOW_1 @ 0x3c, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DATAIN_ADDR_LOW_1: u32 = 0, 32;
    }
    D_LINE_STRIDE @ 0x40, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        LINE_STRIDE: u32 = 0, 32;
    }
    D_LINE_UV_STRIDE @ 0x44, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        UV_LINE_STRIDE: u32 = 0, 32;
    }
    D_SURF_STRIDE @ 0x48, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        SURF_STRIDE: u32 = 0, 32;
    }
    D_DAIN_MAP @ 0x4c, reset 0x0, writable 0x10001 / 0x10001 {
        LINE_PACKED: bool = 0, 1;
        SURF_PACKED: bool = 16, 1;
    }
    D_RESERVED_X_CFG @ 0x50, reset 0x0, writable 0x3ff03ff / 0x3ff03ff {
        RSV_PER_LINE: u32 = 0, 10;
        RSV_PER_UV_LINE: u32 = 16, 10;
    }
    D_RESERVED_Y_CFG @ 0x54, reset 0x0, writable 0x1f0007 / 0x1f0007 {
        RSV_HEIGHT: u32 = 0, 3;
        RSV_Y_INDEX: u32 = 16, 5;
    }
    D_BATCH_NUMBER @ 0x58, reset 0x0, writable 0x1f / 0x1f {
        BATCHES: u32 = 0, 5;
    }
    D_BATCH_STRIDE @ 0x5c, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        BATCH_STRIDE: u32 = 0, 32;
    }
    D_ENTRY_PER_SLICE @ 0x60, reset 0x0, writable 0x3fff / 0xfff {
        ENTRIES: u32 = 0, 14;
    }
    D_FETCH_GRAIN @ 0x64, reset 0x0, writable 0xfff / 0xfff {
        GRAINS: u32 = 0, 12;
    }
    D_WEIGHT_FORMAT @ 0x68, reset 0x0, writable 0x1 / 0x1 {
        WEIGHT_FORMAT: WeightFormat = 0, 1;
    }
    D_WEIGHT_SIZE_0 @ 0x6c, reset 0x0, writable 0x3ffff / 0x3ffff {
        BYTE_PER_KERNEL: u32 = 0, 18;
    }
    D_WEIGHT_SIZE_1 @ 0x70, reset 0x0, writable 0x1fff / 0x1fff {
        WEIGHT_KERNEL: u32 = 0, 13;
    }
    D_WEIGHT_RAM_TYPE @ 0x74, reset 0x0, writable 0x1 / 0x1 {
        WEIGHT_RAM_TYPE: RamType = 0, 1;
    }
    D_WEIGHT_ADDR_HIGH @ 0x78, reset 0x0, writable 0xffffffff / 0xffffffff {
        WEIGHT_ADDR_HIGH: u32 = 0, 32;
    }
    D_WEIGHT_ADDR_LOW @ 0x7c, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        WEIGHT_ADDR_LOW: u32 = 0, 32;
    }
    D_WEIGHT_BYTES @ 0x80, reset 0x0, writable 0xffffffff / 0xffffff80 {
        WEIGHT_BYTES: u32 = 0, 32;
    }
    D_WGS_ADDR_HIGH @ 0x84, reset 0x0, writable 0xffffffff / 0xffffffff {
        WGS_ADDR_HIGH: u32 = 0, 32;
    }
    D_WGS_ADDR_LOW @ 0x88, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        WGS_ADDR_LOW: u32 = 0, 32;
    }
    D_WMB_ADDR_HIGH @ 0x8c, reset 0x0, writable 0xffffffff / 0xffffffff {
        WMB_ADDR_HIGH: u32 = 0, 32;
    }
    D_WMB_ADDR_LOW @ 0x90, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        WMB_ADDR_LOW: u32 = 0, 32;
    }
    D_WMB_BYTES @ 0x94, reset 0x0, writable 0xfffffff / 0xfffff80 {
        WMB_BYTES: u32 = 0, 28;
    }
    D_MEAN_FORMAT @ 0x98, reset 0x0, writable 0x1 / 0x1 {
        MEAN_FORMAT: bool = 0, 1;
    }
    D_MEAN_GLOBAL_0 @ 0x9c, reset 0x0, writable 0xffffffff / 0xffffffff {
        MEAN_RY: u32 = 0, 16;
        MEAN_GU: u32 = 16, 16;
    }
    D_MEAN_GLOBAL_1 @ 0xa0, reset 0x0, writable 0xffffffff / 0xffffffff {
        MEAN_BV: u32 = 0, 16;
        MEAN_AX: u32 = 16, 16;
    }
    D_CVT_CFG @ 0xa4, reset 0x0, writable 0x3f1 / 0x3f1 {
        CVT_EN: bool = 0, 1;
        CVT_TRUNCATE: u32 = 4, 6;
    }
    D_CVT_OFFSET @ 0xa8, reset 0x0, writable 0xffff / 0xffff {
        CVT_OFFSET: u32 = 0, 16;
    }
    D_CVT_SCALE @ 0xac, reset 0x0, writable 0xffff / 0xffff {
        CVT_SCALE: u32 = 0, 16;
    }
    D_CONV_STRIDE @ 0xb0, reset 0x0, writable 0x70007 / 0x70007 {
        CONV_X_STRIDE: u32 = 0, 3;
        CONV_Y_STRIDE: u32 = 16, 3;
    }
    D_ZERO_PADDING @ 0xb4, reset 0x0, writable 0x3f1f3f1f / 0x3f1f3f1f {
        PAD_LEFT: u32 = 0, 5;
        PAD_RIGHT: u32 = 8, 6;
        PAD_TOP: u32 = 16, 5;
        PAD_BOTTOM: u32 = 24, 6;
    }
    D_ZERO_PADDING_VALUE @ 0xb8, reset 0x0, writable 0xffff / 0xffff {
        PAD_VALUE: u32 = 0, 16;
    }
    D_BANK @ 0xbc, reset 0x0, writable 0x1f001f / 0xf000f {
        DATA_BANK: u32 = 0, 5;
        WEIGHT_BANK: u32 = 16, 5;
    }
    D_NAN_FLUSH_TO_ZERO @ 0xc0, reset 0x0, writable 0x1 / 0x1 {
        NAN_TO_ZERO: bool = 0, 1;
    }
    D_NAN_INPUT_DATA_NUM @ 0xc4, reset 0x0, writable 0x0 / 0x0 {
        NAN_DATA_NUM: u32 = 0, 32;
    }
    D_NAN_INPUT_WEIGHT_NUM @ 0xc8, reset 0x0, writable 0x0 / 0x0 {
        NAN_WEIGHT_NUM: u32 = 0, 32;
    }
    D_INF_INPUT_DATA_NUM @ 0xcc, reset 0x0, writable 0x0 / 0x0 {
        INF_DATA_NUM: u32 = 0, 32;
    }
    D_INF_INPUT_WEIGHT_NUM @ 0xd0, reset 0x0, writable 0x0 / 0x0 {
        INF_WEIGHT_NUM: u32 = 0, 32;
    }
    D_PERF_ENABLE @ 0xd4, reset 0x0, writable 0x1 / 0x1 {
        DMA_EN: u32 = 0, 1;
    }
    D_PERF_DAT_READ_STALL @ 0xd8, reset 0x0, writable 0x0 / 0x0 {
        DAT_RD_STALL: u32 = 0, 32;
    }
    D_PERF_WT_READ_STALL @ 0xdc, reset 0x0, writable 0x0 / 0x0 {
        WT_RD_STALL: u32 = 0, 32;
    }
    D_PERF_DAT_READ_LATENCY @ 0xe0, reset 0x0, writable 0x0 / 0x0 {
        DAT_RD_LATENCY: u32 = 0, 32;
    }
    D_PERF_WT_READ_LATENCY @ 0xe4, reset 0x0, writable 0x0 / 0x0 {
        WT_RD_LATENCY: u32 = 0, 32;
    }
    D_CYA @ 0xe8, reset 0x0, writable 0xffffffff / 0xffffffff {
        CYA: u32 = 0, 32;
    }
}
