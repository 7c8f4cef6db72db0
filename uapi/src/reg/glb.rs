// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! GLB: global: version and interrupts.

super::register::registers! {
    S_NVDLA_HW_VERSION @ 0x0, reset 0x303031, writable 0x0 / 0x0 {
        MAJOR: u32 = 0, 8;
        MINOR: u32 = 8, 16;
    }
    S_INTR_MASK @ 0x4, reset 0x0, writable 0x3f03ff / 0x3f03ff {
        SDP_DONE_MASK0: u32 = 0, 1;
        SDP_DONE_MASK1: u32 = 1, 1;
        CDP_DONE_MASK0: u32 = 2, 1;
        CDP_DONE_MASK1: u32 = 3, 1;
        PDP_DONE_MASK0: u32 = 4, 1;
        PDP_DONE_MASK1: u32 = 5, 1;
        BDMA_DONE_MASK0: u32 = 6, 1;
        BDMA_DONE_MASK1: u32 = 7, 1;
        RUBIK_DONE_MASK0: u32 = 8, 1;
        RUBIK_DONE_MASK1: u32 = 9, 1;
        CDMA_DAT_DONE_MASK0: u32 = 16, 1;
        CDMA_DAT_DONE_MASK1: u32 = 17, 1;
        CDMA_WT_DONE_MASK0: u32 = 18, 1;
        CDMA_WT_DONE_MASK1: u32 = 19, 1;
        CACC_DONE_MASK0: u32 = 20, 1;
        CACC_DONE_MASK1: u32 = 21, 1;
    }
    S_INTR_SET @ 0x8, reset 0x0, writable 0x3f03ff / 0x3f03ff {
        SDP_DONE_SET0: u32 = 0, 1;
        SDP_DONE_SET1: u32 = 1, 1;
        CDP_DONE_SET0: u32 = 2, 1;
        CDP_DONE_SET1: u32 = 3, 1;
        PDP_DONE_SET0: u32 = 4, 1;
        PDP_DONE_SET1: u32 = 5, 1;
        BDMA_DONE_SET0: u32 = 6, 1;
        BDMA_DONE_SET1: u32 = 7, 1;
        RUBIK_DONE_SET0: u32 = 8, 1;
        RUBIK_DONE_SET1: u32 = 9, 1;
        CDMA_DAT_DONE_SET0: u32 = 16, 1;
        CDMA_DAT_DONE_SET1: u32 = 17, 1;
        CDMA_WT_DONE_SET0: u32 = 18, 1;
        CDMA_WT_DONE_SET1: u32 = 19, 1;
        CACC_DONE_SET0: u32 = 20, 1;
        CACC_DONE_SET1: u32 = 21, 1;
    }
    S_INTR_STATUS @ 0xc, reset 0x0, writable 0x3f03ff / 0x3f03ff {
        SDP_DONE_STATUS0: u32 = 0, 1;
        SDP_DONE_STATUS1: u32 = 1, 1;
        CDP_DONE_STATUS0: u32 = 2, 1;
        CDP_DONE_STATUS1: u32 = 3, 1;
        PDP_DONE_STATUS0: u32 = 4, 1;
        PDP_DONE_STATUS1: u32 = 5, 1;
        BDMA_DONE_STATUS0: u32 = 6, 1;
        BDMA_DONE_STATUS1: u32 = 7, 1;
        RUBIK_DONE_STATUS0: u32 = 8, 1;
        RUBIK_DONE_STATUS1: u32 = 9, 1;
        CDMA_DAT_DONE_STATUS0: u32 = 16, 1;
        CDMA_DAT_DONE_STATUS1: u32 = 17, 1;
        CDMA_WT_DONE_STATUS0: u32 = 18, 1;
        CDMA_WT_DONE_STATUS1: u32 = 19, 1;
        CACC_DONE_STATUS0: u32 = 20, 1;
        CACC_DONE_STATUS1: u32 = 21, 1;
    }
}
