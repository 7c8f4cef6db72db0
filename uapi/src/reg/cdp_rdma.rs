// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CDP_RDMA: read DMA of the cross-channel data processor.

use super::values::{GroupStatus, Precision, RamType};

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
    D_SRC_DMA_CFG @ 0x28, reset 0x0, writable 0x1 / 0x1 {
        SRC_RAM_TYPE: RamType = 0, 1;
    }
    D_SRC_COMPRESSION_EN @ 0x2c, reset 0x0, writable 0x0 / 0x0 {
        SRC_COMPRESSION_EN: bool = 0, 1;
    }
    D_OPERATION_MODE @ 0x30, reset 0x0, writable 0x0 / 0x0 {
        OPERATION_MODE: u32 = 0, 2;
    }
    D_DATA_FORMAT @ 0x34, reset 0x0, writable 0x3 / 0x3 {
        INPUT_DATA: Precision = 0, 2;
    }
    D_PERF_ENABLE @ 0x38, reset 0x0, writable 0x1 / 0x1 {
        DMA_EN: bool = 0, 1;
    }
    D_PERF_READ_STALL @ 0x3c, reset 0x0, writable 0x0 / 0x0 {
        PERF_READ_STALL: u32 = 0, 32;
    }
    D_CYA @ 0x40, reset 0x0, writable 0xffffffff / 0xffffffff {
        CYA: u32 = 0, 32;
    }
}
