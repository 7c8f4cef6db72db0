// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CSC: convolution sequence controller: reads the convolution buffer in the order of the computation.

use super::values::{ConvMode, DataFormat, GroupStatus, Precision, WeightFormat};

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
    D_MISC_CFG @ 0xc, reset 0x1100, writable 0x11113301 / 0x11113301 {
        CONV_MODE: ConvMode = 0, 1;
        IN_PRECISION: Precision = 8, 2;
        PROC_PRECISION: Precision = 12, 2;
        DATA_REUSE: bool = 16, 1;
        WEIGHT_REUSE: bool = 20, 1;
        SKIP_DATA_RLS: bool = 24, 1;
        SKIP_WEIGHT_RLS: bool = 28, 1;
    }
    D_DATAIN_FORMAT @ 0x10, reset 0x0, writable 0x1 / 0x1 {
        DATAIN_FORMAT: DataFormat = 0, 1;
    }
    D_DATAIN_SIZE_EXT_0 @ 0x14, reset 0x0, writable 0x1fff1fff / 0x1fff1fff {
        DATAIN_WIDTH_EXT: u32 = 0, 13;
        DATAIN_HEIGHT_EXT: u32 = 16, 13;
    }
    D_DATAIN_SIZE_EXT_1 @ 0x18, reset 0x0, writable 0x1fff / 0x1fff {
        DATAIN_CHANNEL_EXT: u32 = 0, 13;
    }
    D_BATCH_NUMBER @ 0x1c, reset 0x0, writable 0x1f / 0x1f {
        BATCHES: u32 = 0, 5;
    }
    D_POST_Y_EXTENSION @ 0x20, reset 0x0, writable 0x3 / 0x3 {
        Y_EXTENSION: u32 = 0, 2;
    }
    D_ENTRY_PER_SLICE @ 0x24, reset 0x0, writable 0x3fff / 0xfff {
        ENTRIES: u32 = 0, 14;
    }
    D_WEIGHT_FORMAT @ 0x28, reset 0x0, writable 0x1 / 0x1 {
        WEIGHT_FORMAT: WeightFormat = 0, 1;
    }
    D_WEIGHT_SIZE_EXT_0 @ 0x2c, reset 0x0, writable 0x1f001f / 0x1f001f {
        WEIGHT_WIDTH_EXT: u32 = 0, 5;
        WEIGHT_HEIGHT_EXT: u32 = 16, 5;
    }
    D_WEIGHT_SIZE_EXT_1 @ 0x30, reset 0x0, writable 0x1fff1fff / 0x1fff1fff {
        WEIGHT_CHANNEL_EXT: u32 = 0, 13;
        WEIGHT_KERNEL: u32 = 16, 13;
    }
    D_WEIGHT_BYTES @ 0x34, reset 0x0, writable 0xffffffff / 0xffffff80 {
        WEIGHT_BYTES: u32 = 0, 32;
    }
    D_WMB_BYTES @ 0x38, reset 0x0, writable 0xfffffff / 0xfffff80 {
        WMB_BYTES: u32 = 0, 28;
    }
    D_DATAOUT_SIZE_0 @ 0x3c, reset 0x0, writable 0x1fff1fff / 0x1fff1fff {
        DATAOUT_WIDTH: u32 = 0, 13;
        DATAOUT_HEIGHT: u32 = 16, 13;
    }
    D_DATAOUT_SIZE_1 @ 0x40, reset 0x0, writable 0x1fff / 0x1fff {
        DATAOUT_CHANNEL: u32 = 0, 13;
    }
    D_ATOMICS @ 0x44, reset 0x1, writable 0x1fffff / 0x1fffff {
        ATOMICS: u32 = 0, 21;
    }
    D_RELEASE @ 0x48, reset 0x1, writable 0xfff / 0xfff {
        RLS_SLICES: u32 = 0, 12;
    }
    D_CONV_STRIDE_EXT @ 0x4c, reset 0x0, writable 0x70007 / 0x70007 {
        CONV_X_STRIDE_EXT: u32 = 0, 3;
        CONV_Y_STRIDE_EXT: u32 = 16, 3;
    }
    D_DILATION_EXT @ 0x50, reset 0x0, writable 0x1f001f / 0x1f001f {
        X_DILATION_EXT: u32 = 0, 5;
        Y_DILATION_EXT: u32 = 16, 5;
    }
    D_ZERO_PADDING @ 0x54, reset 0x0, writable 0x1f001f / 0x1f001f {
        PAD_LEFT: u32 = 0, 5;
        PAD_TOP: u32 = 16, 5;
    }
    D_ZERO_PADDING_VALUE @ 0x58, reset 0x0, writable 0xffff / 0xffff {
        PAD_VALUE: u32 = 0, 16;
    }
    D_BANK @ 0x5c, reset 0x0, writable 0x1f001f / 0xf000f {
        DATA_BANK: u32 = 0, 5;
        WEIGHT_BANK: u32 = 16, 5;
    }
    D_PRA_CFG @ 0x60, reset 0x0, writable 0x3 / 0x3 {
        PRA_TRUNCATE: u32 = 0, 2;
    }
    D_CYA @ 0x64, reset 0x0, writable 0xffffffff / 0xffffffff {
        CYA: u32 = 0, 32;
    }
}
