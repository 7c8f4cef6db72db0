// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CVIF: memory interface of the secondary memory (SRAM).

super::register::registers! {
    CFG_RD_WEIGHT_0 @ 0x0, reset 0x1010101, writable 0xffffffff / 0xffffffff {
        RD_WEIGHT_BDMA: u32 = 0, 8;
        RD_WEIGHT_SDP: u32 = 8, 8;
        RD_WEIGHT_PDP: u32 = 16, 8;
        RD_WEIGHT_CDP: u32 = 24, 8;
    }
    CFG_RD_WEIGHT_1 @ 0x4, reset 0x1010101, writable 0xffffffff / 0xffffffff {
        RD_WEIGHT_SDP_B: u32 = 0, 8;
        RD_WEIGHT_SDP_N: u32 = 8, 8;
        RD_WEIGHT_SDP_E: u32 = 16, 8;
        RD_WEIGHT_CDMA_DAT: u32 = 24, 8;
    }
    CFG_RD_WEIGHT_2 @ 0x8, reset 0x1010101, writable 0xffffffff / 0xffffffff {
        RD_WEIGHT_CDMA_WT: u32 = 0, 8;
        RD_WEIGHT_RBK: u32 = 8, 8;
        RD_WEIGHT_RSV_1: u32 = 16, 8;
        RD_WEIGHT_RSV_0: u32 = 24, 8;
    }
    CFG_WR_WEIGHT_0 @ 0xc, reset 0x1010101, writable 0xffffffff / 0xffffffff {
        WR_WEIGHT_BDMA: u32 = 0, 8;
        WR_WEIGHT_SDP: u32 = 8, 8;
        WR_WEIGHT_PDP: u32 = 16, 8;
        WR_WEIGHT_CDP: u32 = 24, 8;
    }
    CFG_WR_WEIGHT_1 @ 0x10, reset 0x1010101, writable 0xffffffff / 0xffffffff {
        WR_WEIGHT_RBK: u32 = 0, 8;
        WR_WEIGHT_RSV_2: u32 = 8, 8;
        WR_WEIGHT_RSV_1: u32 = 16, 8;
        WR_WEIGHT_RSV_0: u32 = 24, 8;
    }
    CFG_OUTSTANDING_CNT @ 0x14, reset 0xffff, writable 0xffff / 0xffff {
        RD_OS_CNT: u32 = 0, 8;
        WR_OS_CNT: u32 = 8, 8;
    }
    STATUS @ 0x18, reset 0x100, writable 0x0 / 0x0 {
        IDLE: bool = 8, 1;
    }
}
