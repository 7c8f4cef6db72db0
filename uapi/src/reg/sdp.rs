// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! SDP: single data point processor: bias, scale, activation, element-wise, conversion.

use super::values::{
    AluAlgorithm, GroupStatus, LutAccess, LutFunction, LutTable, OperandSource, OutputDestination, Precision, RamType,
};

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
    S_LUT_LE_START @ 0x18, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LE_START: u32 = 0, 32;
    }
    S_LUT_LE_END @ 0x1c, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LE_END: u32 = 0, 32;
    }
    S_LUT_LO_START @ 0x20, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LO_START: u32 = 0, 32;
    }
    S_LUT_LO_END @ 0x24, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LO_END: u32 = 0, 32;
    }
    S_LUT_LE_SLOPE_SCALE @ 0x28, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LE_SLOPE_UFLOW_SCALE: u32 = 0, 16;
        LUT_LE_SLOPE_OFLOW_SCALE: u32 = 16, 16;
    }
    S_LUT_LE_SLOPE_SHIFT @ 0x2c, reset 0x0, writable 0x3ff / 0x3ff {
        LUT_LE_SLOPE_UFLOW_SHIFT: u32 = 0, 5;
        LUT_LE_SLOPE_OFLOW_SHIFT: u32 = 5, 5;
    }
    S_LUT_LO_SLOPE_SCALE @ 0x30, reset 0x0, writable 0xffffffff / 0xffffffff {
        LUT_LO_SLOPE_UFLOW_SCALE: u32 = 0, 16;
        LUT_LO_SLOPE_OFLOW_SCALE: u32 = 16, 16;
    }
    S_LUT_LO_SLOPE_SHIFT @ 0x34, reset 0x0, writable 0x3ff / 0x3ff {
        LUT_LO_SLOPE_UFLOW_SHIFT: u32 = 0, 5;
        LUT_LO_SLOPE_OFLOW_SHIFT: u32 = 5, 5;
    }
    D_OP_ENABLE @ 0x38, reset 0x0, writable 0x1 / 0x1 {
        OP_EN: bool = 0, 1;
    }
    D_DATA_CUBE_WIDTH @ 0x3c, reset 0x0, writable 0x1fff / 0x1fff {
        WIDTH: u32 = 0, 13;
    }
    D_DATA_CUBE_HEIGHT @ 0x40, reset 0x0, writable 0x1fff / 0x1fff {
        HEIGHT: u32 = 0, 13;
    }
    D_DATA_CUBE_CHANNEL @ 0x44, reset 0x0, writable 0x1fff / 0x1fff {
        CHANNEL: u32 = 0, 13;
    }
    D_DST_BASE_ADDR_LOW @ 0x48, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DST_BASE_ADDR_LOW: u32 = 0, 32;
    }
    D_DST_BASE_ADDR_HIGH @ 0x4c, reset 0x0, writable 0xffffffff / 0xffffffff {
        DST_BASE_ADDR_HIGH: u32 = 0, 32;
    }
    D_DST_LINE_STRIDE @ 0x50, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DST_LINE_STRIDE: u32 = 0, 32;
    }
    D_DST_SURFACE_STRIDE @ 0x54, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DST_SURFACE_STRIDE: u32 = 0, 32;
    }
    D_DP_BS_CFG @ 0x58, reset 0x73, writable 0x7f / 0x7f {
        BS_BYPASS: bool = 0, 1;
        BS_ALU_BYPASS: bool = 1, 1;
        BS_ALU_ALGO: AluAlgorithm = 2, 2;
        BS_MUL_BYPASS: bool = 4, 1;
        BS_MUL_PRELU: bool = 5, 1;
        BS_RELU_BYPASS: bool = 6, 1;
    }
    D_DP_BS_ALU_CFG @ 0x5c, reset 0x0, writable 0x3f01 / 0x3f01 {
        BS_ALU_SRC: OperandSource = 0, 1;
        BS_ALU_SHIFT_VALUE: u32 = 8, 6;
    }
    D_DP_BS_ALU_SRC_VALUE @ 0x60, reset 0x0, writable 0xffff / 0xffff {
        BS_ALU_OPERAND: u32 = 0, 16;
    }
    D_DP_BS_MUL_CFG @ 0x64, reset 0x0, writable 0xff01 / 0xff01 {
        BS_MUL_SRC: OperandSource = 0, 1;
        BS_MUL_SHIFT_VALUE: u32 = 8, 8;
    }
    D_DP_BS_MUL_SRC_VALUE @ 0x68, reset 0x0, writable 0xffff / 0xffff {
        BS_MUL_OPERAND: u32 = 0, 16;
    }
    D_DP_BN_CFG @ 0x6c, reset 0x53, writable 0x7f / 0x7f {
        BN_BYPASS: bool = 0, 1;
        BN_ALU_BYPASS: bool = 1, 1;
        BN_ALU_ALGO: AluAlgorithm = 2, 2;
        BN_MUL_BYPASS: bool = 4, 1;
        BN_MUL_PRELU: bool = 5, 1;
        BN_RELU_BYPASS: bool = 6, 1;
    }
    D_DP_BN_ALU_CFG @ 0x70, reset 0x0, writable 0x3f01 / 0x3f01 {
        BN_ALU_SRC: OperandSource = 0, 1;
        BN_ALU_SHIFT_VALUE: u32 = 8, 6;
    }
    D_DP_BN_ALU_SRC_VALUE @ 0x74, reset 0x0, writable 0xffff / 0xffff {
        BN_ALU_OPERAND: u32 = 0, 16;
    }
    D_DP_BN_MUL_CFG @ 0x78, reset 0x0, writable 0xff01 / 0xff01 {
        BN_MUL_SRC: OperandSource = 0, 1;
        BN_MUL_SHIFT_VALUE: u32 = 8, 8;
    }
    D_DP_BN_MUL_SRC_VALUE @ 0x7c, reset 0x0, writable 0xffff / 0xffff {
        BN_MUL_OPERAND: u32 = 0, 16;
    }
    D_DP_EW_CFG @ 0x80, reset 0x53, writable 0x7f / 0x7f {
        EW_BYPASS: bool = 0, 1;
        EW_ALU_BYPASS: bool = 1, 1;
        EW_ALU_ALGO: AluAlgorithm = 2, 2;
        EW_MUL_BYPASS: bool = 4, 1;
        EW_MUL_PRELU: bool = 5, 1;
        EW_LUT_BYPASS: bool = 6, 1;
    }
    D_DP_EW_ALU_CFG @ 0x84, reset 0x2, writable 0x3 / 0x3 {
        EW_ALU_SRC: OperandSource = 0, 1;
        EW_ALU_CVT_BYPASS: bool = 1, 1;
    }
    D_DP_EW_ALU_SRC_VALUE @ 0x88, reset 0x0, writable 0xffffffff / 0xffffffff {
        EW_ALU_OPERAND: u32 = 0, 32;
    }
    D_DP_EW_ALU_CVT_OFFSET_VALUE @ 0x8c, reset 0x0, writable 0xffffffff / 0xffffffff {
        EW_ALU_CVT_OFFSET: u32 = 0, 32;
    }
    D_DP_EW_ALU_CVT_SCALE_VALUE @ 0x90, reset 0x0, writable 0xffff / 0xffff {
        EW_ALU_CVT_SCALE: u32 = 0, 16;
    }
    D_DP_EW_ALU_CVT_TRUNCATE_VALUE @ 0x94, reset 0x0, writable 0x3f / 0x3f {
        EW_ALU_CVT_TRUNCATE: u32 = 0, 6;
    }
    D_DP_EW_MUL_CFG @ 0x98, reset 0x2, writable 0x3 / 0x3 {
        EW_MUL_SRC: OperandSource = 0, 1;
        EW_MUL_CVT_BYPASS: bool = 1, 1;
    }
    D_DP_EW_MUL_SRC_VALUE @ 0x9c, reset 0x0, writable 0xffffffff / 0xffffffff {
        EW_MUL_OPERAND: u32 = 0, 32;
    }
    D_DP_EW_MUL_CVT_OFFSET_VALUE @ 0xa0, reset 0x0, writable 0xffffffff / 0xffffffff {
        EW_MUL_CVT_OFFSET: u32 = 0, 32;
    }
    D_DP_EW_MUL_CVT_SCALE_VALUE @ 0xa4, reset 0x0, writable 0xffff / 0xffff {
        EW_MUL_CVT_SCALE: u32 = 0, 16;
    }
    D_DP_EW_MUL_CVT_TRUNCATE_VALUE @ 0xa8, reset 0x0, writable 0x3f / 0x3f {
        EW_MUL_CVT_TRUNCATE: u32 = 0, 6;
    }
    D_DP_EW_TRUNCATE_VALUE @ 0xac, reset 0x0, writable 0x3ff / 0x3ff {
        EW_TRUNCATE: u32 = 0, 10;
    }
    D_FEATURE_MODE_CFG @ 0xb0, reset 0x0, writable 0x1f0f / 0x1f0f {
        FLYING_MODE: bool = 0, 1;
        OUTPUT_DST: OutputDestination = 1, 1;
        WINOGRAD: bool = 2, 1;
        NAN_TO_ZERO: bool = 3, 1;
        BATCH_NUMBER: u32 = 8, 5;
    }
    D_DST_DMA_CFG @ 0xb4, reset 0x0, writable 0x1 / 0x1 {
        DST_RAM_TYPE: RamType = 0, 1;
    }
    D_DST_BATCH_STRIDE @ 0xb8, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DST_BATCH_STRIDE: u32 = 0, 32;
    }
    D_DATA_FORMAT @ 0xbc, reset 0x0, writable 0xf / 0xf {
        PROC_PRECISION: Precision = 0, 2;
        OUT_PRECISION: Precision = 2, 2;
    }
    D_CVT_OFFSET @ 0xc0, reset 0x0, writable 0xffffffff / 0xffffffff {
        CVT_OFFSET: u32 = 0, 32;
    }
    D_CVT_SCALE @ 0xc4, reset 0x0, writable 0xffff / 0xffff {
        CVT_SCALE: u32 = 0, 16;
    }
    D_CVT_SHIFT @ 0xc8, reset 0x0, writable 0x3f / 0x3f {
        CVT_SHIFT: u32 = 0, 6;
    }
    D_STATUS @ 0xcc, reset 0x0, writable 0x0 / 0x0 {
        STATUS_UNEQUAL: u32 = 0, 1;
    }
    D_STATUS_NAN_INPUT_NUM @ 0xd0, reset 0x0, writable 0x0 / 0x0 {
        STATUS_NAN_INPUT_NUM: u32 = 0, 32;
    }
    D_STATUS_INF_INPUT_NUM @ 0xd4, reset 0x0, writable 0x0 / 0x0 {
        STATUS_INF_INPUT_NUM: u32 = 0, 32;
    }
    D_STATUS_NAN_OUTPUT_NUM @ 0xd8, reset 0x0, writable 0x0 / 0x0 {
        STATUS_NAN_OUTPUT_NUM: u32 = 0, 32;
    }
    D_PERF_ENABLE @ 0xdc, reset 0x0, writable 0xf / 0xf {
        PERF_DMA_EN: bool = 0, 1;
        PERF_LUT_EN: bool = 1, 1;
        PERF_SAT_EN: bool = 2, 1;
        PERF_NAN_INF_COUNT_EN: bool = 3, 1;
    }
    D_PERF_WDMA_WRITE_STALL @ 0xe0, reset 0x0, writable 0x0 / 0x0 {
        WDMA_STALL: u32 = 0, 32;
    }
    D_PERF_LUT_UFLOW @ 0xe4, reset 0x0, writable 0x0 / 0x0 {
        LUT_UFLOW: u32 = 0, 32;
    }
    D_PERF_LUT_OFLOW @ 0xe8, reset 0x0, writable 0x0 / 0x0 {
        LUT_OFLOW: u32 = 0, 32;
    }
    D_PERF_OUT_SATURATION @ 0xec, reset 0x0, writable 0x0 / 0x0 {
        OUT_SATURATION: u32 = 0, 32;
    }
    D_PERF_LUT_HYBRID @ 0xf0, reset 0x0, writable 0x0 / 0x0 {
        LUT_HYBRID: u32 = 0, 32;
    }
    D_PERF_LUT_LE_HIT @ 0xf4, reset 0x0, writable 0x0 / 0x0 {
        LUT_LE_HIT: u32 = 0, 32;
    }
    D_PERF_LUT_LO_HIT @ 0xf8, reset 0x0, writable 0x0 / 0x0 {
        LUT_LO_HIT: u32 = 0, 32;
    }
}
