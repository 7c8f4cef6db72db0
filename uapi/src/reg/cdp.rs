// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CDP: cross-channel data processor: local response normalisation.

use super::values::{GroupStatus, LutAccess, LutFunction, LutTable, NormalizationLength, Precision, RamType};

super::register::registers! {
    S_STATUS @ 0x0, reset 0x0, writable 0x0 / 0x0 {
        STATUS_0: GroupStatus = 0, 2;
        STATUS_1: GroupStatus = 16, 2;
    }
    S_POINTER @ 0x4, reset 0x0, writable 0x1 / 0x1 {
        PRODUCER: u32 = 0, 1;
        CONSUMER: u32 = 16, 1;
    }
    S_LUT_ACCESS_CFG @ 0x8, reset 0x0, writable 0x303ff / 0x303ff {
        LUT_ADDR: u32 = 0, 10;
        LUT_TABLE_ID: LutTable = 16, 1;
        LUT_ACCESS_TYPE: LutAccess = 17, 1;
    }
    S_LUT_ACCESS_DATA @ 0xc, reset 0x0, writable 0xffff / 0xffff {
        LUT_DATA: u32 = 0, 16;
    }
    S_LUT_CFG @ 0x10, reset 0x0, writable 0x71 / 0x71 {
        LUT_LE_FUNCTION: LutFunction = 0, 1;
        LUT_UFLOW_PRIORITY: LutTable = 4, 1;
        LUT_OFLOW_PRIORITY: LutTable = 5, 1;
        LUT_HYBRID_PRIORITY: LutTable = 6, 1;
    }
    S_LUT_INFO @ 0x14, reset 0x0, writable 0xffffff / 0xffffff {
        LUT_LE_INDEX_OFFSET: u32 = 0, 8;
        LUT_LE_INDEX_SELECT: u32 = 8, 8;
        LUT_LO_INDEX_SELECT: u32 = 16, 8;
    }
    S_LUT_LE_START_LOW @ 0x18, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LE_START_LOW: u32 = 0, 32;
    }
    S_LUT_LE_START_HIGH @ 0x1c, reset 0x0, writable 0x3f / 0x3f {
        LUT_LE_START_HIGH: u32 = 0, 6;
    }
    S_LUT_LE_END_LOW @ 0x20, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LE_END_LOW: u32 = 0, 32;
    }
    S_LUT_LE_END_HIGH @ 0x24, reset 0x0, writable 0x3f / 0x3f {
        LUT_LE_END_HIGH: u32 = 0, 6;
    }
    S_LUT_LO_START_LOW @ 0x28, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LO_START_LOW: u32 = 0, 32;
    }
    S_LUT_LO_START_HIGH @ 0x2c, reset 0x0, writable 0x3f / 0x3f {
        LUT_LO_START_HIGH: u32 = 0, 6;
    }
    S_LUT_LO_END_LOW @ 0x30, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LO_END_LOW: u32 = 0, 32;
    }
    S_LUT_LO_END_HIGH @ 0x34, reset 0x0, writable 0x3f / 0x3f {
        LUT_LO_END_HIGH: u32 = 0, 6;
    }
    S_LUT_LE_SLOPE_SCALE @ 0x38, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LE_SLOPE_UFLOW_SCALE: u32 = 0, 16;
        LUT_LE_SLOPE_OFLOW_SCALE: u32 = 16, 16;
    }
    S_LUT_LE_SLOPE_SHIFT @ 0x3c, reset 0x0, writable 0x3ff / 0x3ff {
        LUT_LE_SLOPE_UFLOW_SHIFT: u32 = 0, 5;
        LUT_LE_SLOPE_OFLOW_SHIFT: u32 = 5, 5;
    }
    S_LUT_LO_SLOPE_SCALE @ 0x40, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LO_SLOPE_UFLOW_SCALE: u32 = 0, 16;
        LUT_LO_SLOPE_OFLOW_SCALE: u32 = 16, 16;
    }
    S_LUT_LO_SLOPE_SHIFT @ 0x44, reset 0x0, writable 0x3ff / 0x3ff {
        LUT_LO_SLOPE_UFLOW_SHIFT: u32 = 0, 5;
        LUT_LO_SLOPE_OFLOW_SHIFT: u32 = 5, 5;
    }
    D_OP_ENABLE @ 0x48, reset 0x0, writable 0x1 / 0x1 {
        OP_EN: bool = 0, 1;
    }
    D_FUNC_BYPASS @ 0x4c, reset 0x0, writable 0x3 / 0x3 {
        SQSUM_BYPASS: bool = 0, 1;
        MUL_BYPASS: bool = 1, 1;
    }
    D_DST_BASE_ADDR_LOW @ 0x50, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DST_BASE_ADDR_LOW: u32 = 0, 32;
    }
    D_DST_BASE_ADDR_HIGH @ 0x54, reset 0x0, writable 0xffffffff / 0xffffffff {
        DST_BASE_ADDR_HIGH: u32 = 0, 32;
    }
    D_DST_LINE_STRIDE @ 0x58, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DST_LINE_STRIDE: u32 = 0, 32;
    }
    D_DST_SURFACE_STRIDE @ 0x5c, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DST_SURFACE_STRIDE: u32 = 0, 32;
    }
    D_DST_DMA_CFG @ 0x60, reset 0x0, writable 0x1 / 0x1 {
        DST_RAM_TYPE: RamType = 0, 1;
    }
    D_DST_COMPRESSION_EN @ 0x64, reset 0x0, writable 0x0 / 0x0 {
        DST_COMPRESSION_EN: bool = 0, 1;
    }
    D_DATA_FORMAT @ 0x68, reset 0x1, writable 0x3 / 0x3 {
        INPUT_DATA_TYPE: Precision = 0, 2;
    }
    D_NAN_FLUSH_TO_ZERO @ 0x6c, reset 0x0, writable 0x1 / 0x1 {
        NAN_TO_ZERO: bool = 0, 1;
    }
    D_LRN_CFG @ 0x70, reset 0x0, writable 0x3 / 0x3 {
        NORMALZ_LEN: NormalizationLength = 0, 2;
    }
    D_DATIN_OFFSET @ 0x74, reset 0x0, writable 0xffff / 0xffff {
        DATIN_OFFSET: u32 = 0, 16;
    }
    D_DATIN_SCALE @ 0x78, reset 0x1, writable 0xffff / 0xffff {
        DATIN_SCALE: u32 = 0, 16;
    }
    D_DATIN_SHIFTER @ 0x7c, reset 0x0, writable 0x1f / 0x1f {
        DATIN_SHIFTER: u32 = 0, 5;
    }
    D_DATOUT_OFFSET @ 0x80, reset 0x0, writable 0xffffffff / 0xffffffff {
        DATOUT_OFFSET: u32 = 0, 32;
    }
    D_DATOUT_SCALE @ 0x84, reset 0x1, writable 0xffff / 0xffff {
        DATOUT_SCALE: u32 = 0, 16;
    }
    D_DATOUT_SHIFTER @ 0x88, reset 0x0, writable 0x3f / 0x3f {
        DATOUT_SHIFTER: u32 = 0, 6;
    }
    D_NAN_INPUT_NUM @ 0x8c, reset 0x0, writable 0x0 / 0x0 {
        NAN_INPUT_NUM: u32 = 0, 32;
    }
    D_INF_INPUT_NUM @ 0x90, reset 0x0, writable 0x0 / 0x0 {
        INF_INPUT_NUM: u32 = 0, 32;
    }
    D_NAN_OUTPUT_NUM @ 0x94, reset 0x0, writable 0x0 / 0x0 {
        NAN_OUTPUT_NUM: u32 = 0, 32;
    }
    D_OUT_SATURATION @ 0x98, reset 0x0, writable 0x0 / 0x0 {
        OUT_SATURATION: u32 = 0, 32;
    }
    D_PERF_ENABLE @ 0x9c, reset 0x0, writable 0x3 / 0x3 {
        DMA_EN: bool = 0, 1;
        LUT_EN: bool = 1, 1;
    }
    D_PERF_WRITE_STALL @ 0xa0, reset 0x0, writable 0x0 / 0x0 {
        PERF_WRITE_STALL: u32 = 0, 32;
    }
    D_PERF_LUT_UFLOW @ 0xa4, reset 0x0, writable 0x0 / 0x0 {
        PERF_LUT_UFLOW: u32 = 0, 32;
    }
    D_PERF_LUT_OFLOW @ 0xa8, reset 0x0, writable 0x0 / 0x0 {
        PERF_LUT_OFLOW: u32 = 0, 32;
    }
    D_PERF_LUT_HYBRID @ 0xac, reset 0x0, writable 0x0 / 0x0 {
        PERF_LUT_HYBRID: u32 = 0, 32;
    }
    D_PERF_LUT_LE_HIT @ 0xb0, reset 0x0, writable 0x0 / 0x0 {
        PERF_LUT_LE_HIT: u32 = 0, 32;
    }
    D_PERF_LUT_LO_HIT @ 0xb4, reset 0x0, writable 0x0 / 0x0 {
        PERF_LUT_LO_HIT: u32 = 0, 32;
    }
    D_CYA @ 0xb8, reset 0x0, writable 0xffffffff / 0xffffffff {
        CYA: u32 = 0, 32;
    }
}
