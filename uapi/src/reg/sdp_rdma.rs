// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! SDP_RDMA: read DMA of the single data point processor.

use super::values::{GroupStatus, OperandMode, OperandSize, OperandUse, Precision, RamType};

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
    D_DATA_CUBE_WIDTH @ 0xc, reset 0x0, writable 0x1fff / 0x1fff {
        WIDTH: u32 = 0, 13;
    }
    D_DATA_CUBE_HEIGHT @ 0x10, reset 0x0, writable 0x1fff / 0x1fff {
        HEIGHT: u32 = 0, 13;
    }
    D_DATA_CUBE_CHANNEL @ 0x14, reset 0x0, writable 0x1fff / 0x1fff {
        CHANNEL: u32 = 0, 13;
    }
    D_SRC_BASE_ADDR_LOW @ 0x18, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        SRC_BASE_ADDR_LOW: u32 = 0, 32;
    }
    D_SRC_BASE_ADDR_HIGH @ 0x1c, reset 0x0, writable 0xffffffff / 0xffffffff {
        SRC_BASE_ADDR_HIGH: u32 = 0, 32;
    }
    D_SRC_LINE_STRIDE @ 0x20, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        SRC_LINE_STRIDE: u32 = 0, 32;
    }
    D_SRC_SURFACE_STRIDE @ 0x24, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        SRC_SURFACE_STRIDE: u32 = 0, 32;
    }
    D_BRDMA_CFG @ 0x28, reset 0x1, writable 0x3f / 0x3f {
        BRDMA_DISABLE: bool = 0, 1;
        BRDMA_DATA_USE: OperandUse = 1, 2;
        BRDMA_DATA_SIZE: OperandSize = 3, 1;
        BRDMA_DATA_MODE: OperandMode = 4, 1;
        BRDMA_RAM_TYPE: RamType = 5, 1;
    }
    D_BS_BASE_ADDR_LOW @ 0x2c, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        BS_BASE_ADDR_LOW: u32 = 0, 32;
    }
    D_BS_BASE_ADDR_HIGH @ 0x30, reset 0x0, writable 0xffffffff / 0xffffffff {
        BS_BASE_ADDR_HIGH: u32 = 0, 32;
    }
    D_BS_LINE_STRIDE @ 0x34, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        BS_LINE_STRIDE: u32 = 0, 32;
    }
    D_BS_SURFACE_STRIDE @ 0x38, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        BS_SURFACE_STRIDE: u32 = 0, 32;
    }
    D_BS_BATCH_STRIDE @ 0x3c, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        BS_BATCH_STRIDE: u32 = 0, 32;
    }
    D_NRDMA_CFG @ 0x40, reset 0x1, writable 0x3f / 0x3f {
        NRDMA_DISABLE: bool = 0, 1;
        NRDMA_DATA_USE: OperandUse = 1, 2;
        NRDMA_DATA_SIZE: OperandSize = 3, 1;
        NRDMA_DATA_MODE: OperandMode = 4, 1;
        NRDMA_RAM_TYPE: RamType = 5, 1;
    }
    D_BN_BASE_ADDR_LOW @ 0x44, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        BN_BASE_ADDR_LOW: u32 = 0, 32;
    }
    D_BN_BASE_ADDR_HIGH @ 0x48, reset 0x0, writable 0xffffffff / 0xffffffff {
        BN_BASE_ADDR_HIGH: u32 = 0, 32;
    }
    D_BN_LINE_STRIDE @ 0x4c, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        BN_LINE_STRIDE: u32 = 0, 32;
    }
    D_BN_SURFACE_STRIDE @ 0x50, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        BN_SURFACE_STRIDE: u32 = 0, 32;
    }
    D_BN_BATCH_STRIDE @ 0x54, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        BN_BATCH_STRIDE: u32 = 0, 32;
    }
    D_ERDMA_CFG @ 0x58, reset 0x1, writable 0x3f / 0x3f {
        ERDMA_DISABLE: bool = 0, 1;
        ERDMA_DATA_USE: OperandUse = 1, 2;
        ERDMA_DATA_SIZE: OperandSize = 3, 1;
        ERDMA_DATA_MODE: OperandMode = 4, 1;
        ERDMA_RAM_TYPE: RamType = 5, 1;
    }
    D_EW_BASE_ADDR_LOW @ 0x5c, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        EW_BASE_ADDR_LOW: u32 = 0, 32;
    }
    D_EW_BASE_ADDR_HIGH @ 0x60, reset 0x0, writable 0xffffffff / 0xffffffff {
        EW_BASE_ADDR_HIGH: u32 = 0, 32;
    }
    D_EW_LINE_STRIDE @ 0x64, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        EW_LINE_STRIDE: u32 = 0, 32;
    }
    D_EW_SURFACE_STRIDE @ 0x68, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        EW_SURFACE_STRIDE: u32 = 0, 32;
    }
    D_EW_BATCH_STRIDE @ 0x6c, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        EW_BATCH_STRIDE: u32 = 0, 32;
    }
    D_FEATURE_MODE_CFG @ 0x70, reset 0x14, writable 0x1fff / 0x1fff {
        FLYING_MODE: bool = 0, 1;
        WINOGRAD: bool = 1, 1;
        IN_PRECISION: Precision = 2, 2;
        PROC_PRECISION: Precision = 4, 2;
        OUT_PRECISION: Precision = 6, 2;
        BATCH_NUMBER: u32 = 8, 5;
    }
    D_SRC_DMA_CFG @ 0x74, reset 0x0, writable 0x1 / 0x1 {
        SRC_RAM_TYPE: RamType = 0, 1;
    }
    D_STATUS_NAN_INPUT_NUM @ 0x78, reset 0x0, writable 0x0 / 0x0 {
        STATUS_NAN_INPUT_NUM: u32 = 0, 32;
    }
    D_STATUS_INF_INPUT_NUM @ 0x7c, reset 0x0, writable 0x0 / 0x0 {
        STATUS_INF_INPUT_NUM: u32 = 0, 32;
    }
    D_PERF_ENABLE @ 0x80, reset 0x0, writable 0x3 / 0x3 {
        PERF_DMA_EN: bool = 0, 1;
        PERF_NAN_INF_COUNT_EN: bool = 1, 1;
    }
    D_PERF_MRDMA_READ_STALL @ 0x84, reset 0x0, writable 0x0 / 0x0 {
        MRDMA_STALL: u32 = 0, 32;
    }
    D_PERF_BRDMA_READ_STALL @ 0x88, reset 0x0, writable 0x0 / 0x0 {
        BRDMA_STALL: u32 = 0, 32;
    }
    D_PERF_NRDMA_READ_STALL @ 0x8c, reset 0x0, writable 0x0 / 0x0 {
        NRDMA_STALL: u32 = 0, 32;
    }
    D_PERF_ERDMA_READ_STALL @ 0x90, reset 0x0, writable 0x0 / 0x0 {
        ERDMA_STALL: u32 = 0, 32;
    }
}
