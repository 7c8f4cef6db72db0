// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! BDMA: bridge DMA: copies between the two memories.

use super::values::RamType;

super::register::registers! {
    CFG_SRC_ADDR_LOW @ 0x0, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        V32: u32 = 5, 27;
    }
    CFG_SRC_ADDR_HIGH @ 0x4, reset 0x0, writable 0xffffffff / 0xffffffff {
        V8: u32 = 0, 32;
    }
    CFG_DST_ADDR_LOW @ 0x8, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        V32: u32 = 5, 27;
    }
    CFG_DST_ADDR_HIGH @ 0xc, reset 0x0, writable 0xffffffff / 0xffffffff {
        V8: u32 = 0, 32;
    }
    CFG_LINE @ 0x10, reset 0x0, writable 0x1fff / 0x1fff {
        SIZE: u32 = 0, 13;
    }
    CFG_CMD @ 0x14, reset 0x0, writable 0x3 / 0x3 {
        SRC_RAM_TYPE: RamType = 0, 1;
        DST_RAM_TYPE: RamType = 1, 1;
    }
    CFG_LINE_REPEAT @ 0x18, reset 0x0, writable 0xffffff / 0xffffff {
        NUMBER: u32 = 0, 24;
    }
    CFG_SRC_LINE @ 0x1c, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        STRIDE: u32 = 5, 27;
    }
    CFG_DST_LINE @ 0x20, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        STRIDE: u32 = 5, 27;
    }
    CFG_SURF_REPEAT @ 0x24, reset 0x0, writable 0xffffff / 0xffffff {
        NUMBER: u32 = 0, 24;
    }
    CFG_SRC_SURF @ 0x28, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        STRIDE: u32 = 5, 27;
    }
    CFG_DST_SURF @ 0x2c, reset 0x0, writable 0xffffffe0 / 0xffffffe0 {
        STRIDE: u32 = 5, 27;
    }
    CFG_OP @ 0x30, reset 0x0, writable 0x1 / 0x1 {
        EN: bool = 0, 1;
    }
    CFG_LAUNCH0 @ 0x34, reset 0x0, writable 0x1 / 0x1 {
        GRP0_LAUNCH: bool = 0, 1;
    }
    CFG_LAUNCH1 @ 0x38, reset 0x0, writable 0x1 / 0x1 {
        GRP1_LAUNCH: bool = 0, 1;
    }
    CFG_STATUS @ 0x3c, reset 0x0, writable 0x1 / 0x1 {
        STALL_COUNT_EN: bool = 0, 1;
    }
    STATUS @ 0x40, reset 0x114, writable 0x0 / 0x0 {
        FREE_SLOT: u32 = 0, 8;
        IDLE: bool = 8, 1;
        GRP0_BUSY: bool = 9, 1;
        GRP1_BUSY: bool = 10, 1;
    }
    STATUS_GRP0_READ_STALL @ 0x44, reset 0x0, writable 0x0 / 0x0 {
        COUNT: u32 = 0, 32;
    }
    STATUS_GRP0_WRITE_STALL @ 0x48, reset 0x0, writable 0x0 / 0x0 {
        COUNT: u32 = 0, 32;
    }
    STATUS_GRP1_READ_STALL @ 0x4c, reset 0x0, writable 0x0 / 0x0 {
        COUNT: u32 = 0, 32;
    }
    STATUS_GRP1_WRITE_STALL @ 0x50, reset 0x0, writable 0x0 / 0x0 {
        COUNT: u32 = 0, 32;
    }
}
