// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! RBK: Rubik: contract, split and merge of feature cubes.

use super::values::{GroupStatus, Precision, RamType, RubikMode};

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
    D_MISC_CFG @ 0xc, reset 0x100, writable 0x303 / 0x303 {
        RUBIK_MODE: RubikMode = 0, 2;
        IN_PRECISION: Precision = 8, 2;
    }
    D_DAIN_RAM_TYPE @ 0x10, reset 0x0, writable 0x1 / 0x1 {
        DATAIN_RAM_TYPE: RamType = 0, 1;
    }
    D_DATAIN_SIZE_0 @ 0x14, reset 0x0, writable 0x1fff1fff / 0x1fff1fff {
        DATAIN_WIDTH: u32 = 0, 13;
        DATAIN_HEIGHT: u32 = 16, 13;
    }
    D_DATAIN_SIZE_1 @ 0x18, reset 0x0, writable 0x1fff / 0x1fff {
        DATAIN_CHANNEL: u32 = 0, 13;
    }
    D_DAIN_ADDR_HIGH @ 0x1c, reset 0x0, writable 0xffffffff / 0xffffffff {
        DAIN_ADDR_HIGH: u32 = 0, 32;
    }
    D_DAIN_ADDR_LOW @ 0x20, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        DAIN_ADDR_LOW: u32 = 5, 27;
    }
    D_DAIN_LINE_STRIDE @ 0x24, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        DAIN_LINE_STRIDE: u32 = 5, 27;
    }
    D_DAIN_SURF_STRIDE @ 0x28, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        DAIN_SURF_STRIDE: u32 = 5, 27;
    }
    D_DAIN_PLANAR_STRIDE @ 0x2c, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        DAIN_PLANAR_STRIDE: u32 = 5, 27;
    }
    D_DAOUT_RAM_TYPE @ 0x30, reset 0x0, writable 0x1 / 0x1 {
        DATAOUT_RAM_TYPE: RamType = 0, 1;
    }
    D_DATAOUT_SIZE_1 @ 0x34, reset 0x0, writable 0x1fff / 0x1fff {
        DATAOUT_CHANNEL: u32 = 0, 13;
    }
    D_DAOUT_ADDR_HIGH @ 0x38, reset 0x0, writable 0xffffffff / 0xffffffff {
        DAOUT_ADDR_HIGH: u32 = 0, 32;
    }
    D_DAOUT_ADDR_LOW @ 0x3c, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        DAOUT_ADDR_LOW: u32 = 5, 27;
    }
    D_DAOUT_LINE_STRIDE @ 0x40, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        DAOUT_LINE_STRIDE: u32 = 5, 27;
    }
    D_CONTRACT_STRIDE_0 @ 0x44, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        CONTRACT_STRIDE_0: u32 = 5, 27;
    }
    D_CONTRACT_STRIDE_1 @ 0x48, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        CONTRACT_STRIDE_1: u32 = 5, 27;
    }
    D_DAOUT_SURF_STRIDE @ 0x4c, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        DAOUT_SURF_STRIDE: u32 = 5, 27;
    }
    D_DAOUT_PLANAR_STRIDE @ 0x50, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        DAOUT_PLANAR_STRIDE: u32 = 5, 27;
    }
    D_DECONV_STRIDE @ 0x54, reset 0x0, writable 0x1f001f / 0x1f001f {
        DECONV_X_STRIDE: u32 = 0, 5;
        DECONV_Y_STRIDE: u32 = 16, 5;
    }
    D_PERF_ENABLE @ 0x58, reset 0x0, writable 0x1 / 0x1 {
        PERF_EN: u32 = 0, 1;
    }
    D_PERF_READ_STALL @ 0x5c, reset 0x0, writable 0x0 / 0x0 {
        RD_STALL_CNT: u32 = 0, 32;
    }
    D_PERF_WRITE_STALL @ 0x60, reset 0x0, writable 0x0 / 0x0 {
        WR_STALL_CNT: u32 = 0, 32;
    }
}
