// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CACC: convolution accumulator: sums, shifts and passes the result to SDP.

use super::values::{ConvMode, GroupStatus, Precision};

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
    D_MISC_CFG @ 0xc, reset 0x1000, writable 0x3001 / 0x3001 {
        CONV_MODE: ConvMode = 0, 1;
        PROC_PRECISION: Precision = 12, 2;
    }
    D_DATAOUT_SIZE_0 @ 0x10, reset 0x0, writable 0x1fff1fff / 0x1fff1fff {
        DATAOUT_WIDTH: u32 = 0, 13;
        DATAOUT_HEIGHT: u32 = 16, 13;
    }
    D_DATAOUT_SIZE_1 @ 0x14, reset 0x0, writable 0x1fff / 0x1fff {
        DATAOUT_CHANNEL: u32 = 0, 13;
    }
    D_DATAOUT_ADDR @ 0x18, reset 0x0, writable 0xffffffff / 0xffffffe0 {
        DATAOUT_ADDR: u32 = 0, 32;
    }
    D_BATCH_NUMBER @ 0x1c, reset 0x0, writable 0x1f / 0x1f {
        BATCHES: u32 = 0, 5;
    }
    D_LINE_STRIDE @ 0x20, reset 0x0, writable 0xffffff / 0xffffe0 {
        LINE_STRIDE: u32 = 0, 24;
    }
    D_SURF_STRIDE @ 0x24, reset 0x0, writable 0xffffff / 0xffffe0 {
        SURF_STRIDE: u32 = 0, 24;
    }
    D_DATAOUT_MAP @ 0x28, reset 0x0, writable 0x10001 / 0x10001 {
        LINE_PACKED: bool = 0, 1;
        SURF_PACKED: bool = 16, 1;
    }
    D_CLIP_CFG @ 0x2c, reset 0x0, writable 0x1f / 0x1f {
        CLIP_TRUNCATE: u32 = 0, 5;
    }
    D_OUT_SATURATION @ 0x30, reset 0x0, writable 0x0 / 0x0 {
        SAT_COUNT: u32 = 0, 32;
    }
    D_CYA @ 0x34, reset 0x0, writable 0xffffffff / 0xffffffff {
        CYA: u32 = 0, 32;
    }
}
