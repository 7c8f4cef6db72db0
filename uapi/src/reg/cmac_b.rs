// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CMAC_B: multiply-accumulate array, second half of the kernels.

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
}
