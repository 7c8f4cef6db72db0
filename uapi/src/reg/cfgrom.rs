// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CFGROM: configuration ROM: the units and sizes of the synthesised hardware.

super::register::registers! {
    CFGROM_HW_VERSION @ 0x0, reset 0x0, writable 0x0 / 0x0 {
        HW_VERSION: u32 = 0, 32;
    }
    CFGROM_GLB_DESC @ 0x4, reset 0x0, writable 0x0 / 0x0 {
        GLB_DESC: u32 = 0, 32;
    }
    CFGROM_CIF_DESC @ 0x8, reset 0x0, writable 0x0 / 0x0 {
        CIF_DESC: u32 = 0, 32;
    }
    CFGROM_CIF_CAP_INCOMPAT @ 0xc, reset 0x0, writable 0x0 / 0x0 {
        CIF_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CIF_CAP_COMPAT @ 0x10, reset 0x0, writable 0x0 / 0x0 {
        CIF_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CIF_BASE_WIDTH @ 0x14, reset 0x0, writable 0x0 / 0x0 {
        CIF_BASE_WIDTH: u32 = 0, 8;
    }
    CFGROM_CIF_BASE_LATENCY @ 0x18, reset 0x0, writable 0x0 / 0x0 {
        CIF_BASE_LATENCY: u32 = 0, 32;
    }
    CFGROM_CIF_BASE_BURST_LENGTH_MAX @ 0x1c, reset 0x0, writable 0x0 / 0x0 {
        BASE_BURST_LENGTH_MAX: u32 = 5, 27;
    }
    CFGROM_CIF_BASE_MEM_ADDR_WIDTH @ 0x20, reset 0x0, writable 0x0 / 0x0 {
        CIF_BASE_MEM_ADDR_WIDTH: u32 = 5, 27;
    }
    CFGROM_CDMA_DESC @ 0x24, reset 0x0, writable 0x0 / 0x0 {
        CDMA_DESC: u32 = 0, 32;
    }
    CFGROM_CDMA_CAP_INCOMPAT @ 0x28, reset 0x0, writable 0x0 / 0x0 {
        CDMA_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CDMA_CAP_COMPAT @ 0x2c, reset 0x0, writable 0x0 / 0x0 {
        CDMA_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_FEATURE_TYPES @ 0x30, reset 0x0, writable 0x0 / 0x0 {
        CDMA_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CDMA_BASE_WEIGHT_TYPES @ 0x34, reset 0x0, writable 0x0 / 0x0 {
        CDMA_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_CDMA_BASE_ATOMIC_C @ 0x38, reset 0x0, writable 0x0 / 0x0 {
        CDMA_BASE_ATOMIC_C: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_ATOMIC_K @ 0x3c, reset 0x0, writable 0x0 / 0x0 {
        CDMA_BASE_ATOMIC_K: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_ATOMIC_M @ 0x40, reset 0x0, writable 0x0 / 0x0 {
        CDMA_BASE_ATOMIC_M: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_CBUF_BANK_NUM @ 0x44, reset 0x0, writable 0x0 / 0x0 {
        CDMA_BASE_CBUF_BANK_NUM: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_CBUF_BANK_WIDTH @ 0x48, reset 0x0, writable 0x0 / 0x0 {
        CDMA_BASE_CBUF_BANK_WIDTH: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_CBUF_BANK_DEPTH @ 0x4c, reset 0x0, writable 0x0 / 0x0 {
        CDMA_BASE_CBUF_BANK_DEPTH: u32 = 0, 32;
    }
    CFGROM_CDMA_MULTI_BATCH_MAX @ 0x50, reset 0x0, writable 0x0 / 0x0 {
        CDMA_MULTI_BATCH_MAX: u32 = 0, 32;
    }
    CFGROM_CDMA_IMAGE_IN_FORMATS_PACKED @ 0x54, reset 0x0, writable 0x0 / 0x0 {
        CDMA_IMAGE_IN_FORMATS_PACKED: u32 = 0, 32;
    }
    CFGROM_CDMA_IMAGE_IN_FORMATS_SEMI @ 0x58, reset 0x0, writable 0x0 / 0x0 {
        CDMA_IMAGE_IN_FORMATS_SEMI: u32 = 0, 32;
    }
    CFGROM_CBUF_DESC @ 0x5c, reset 0x0, writable 0x0 / 0x0 {
        CBUF_DESC: u32 = 0, 32;
    }
    CFGROM_CBUF_CAP_INCOMPAT @ 0x60, reset 0x0, writable 0x0 / 0x0 {
        CBUF_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CBUF_CAP_COMPAT @ 0x64, reset 0x0, writable 0x0 / 0x0 {
        CBUF_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CBUF_BASE_CBUF_BANK_NUM @ 0x68, reset 0x0, writable 0x0 / 0x0 {
        CBUF_BASE_CBUF_BANK_NUM: u32 = 0, 32;
    }
    CFGROM_CBUF_BASE_CBUF_BANK_WIDTH @ 0x6c, reset 0x0, writable 0x0 / 0x0 {
        CBUF_BASE_CBUF_BANK_WIDTH: u32 = 0, 32;
    }
    CFGROM_CBUF_BASE_CBUF_BANK_DEPTH @ 0x70, reset 0x0, writable 0x0 / 0x0 {
        CBUF_BASE_CBUF_BANK_DEPTH: u32 = 0, 32;
    }
    CFGROM_CBUF_BASE_CDMA_ID @ 0x74, reset 0x0, writable 0x0 / 0x0 {
        CBUF_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_CSC_DESC @ 0x78, reset 0x0, writable 0x0 / 0x0 {
        CSC_DESC: u32 = 0, 32;
    }
    CFGROM_CSC_CAP_INCOMPAT @ 0x7c, reset 0x0, writable 0x0 / 0x0 {
        CSC_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CSC_CAP_COMPAT @ 0x80, reset 0x0, writable 0x0 / 0x0 {
        CSC_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_FEATURE_TYPES @ 0x84, reset 0x0, writable 0x0 / 0x0 {
        CSC_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CSC_BASE_WEIGHT_TYPES @ 0x88, reset 0x0, writable 0x0 / 0x0 {
        CSC_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_CSC_BASE_ATOMIC_C @ 0x8c, reset 0x0, writable 0x0 / 0x0 {
        CSC_BASE_ATOMIC_C: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_ATOMIC_K @ 0x90, reset 0x0, writable 0x0 / 0x0 {
        CSC_BASE_ATOMIC_K: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_ATOMIC_M @ 0x94, reset 0x0, writable 0x0 / 0x0 {
        CSC_BASE_ATOMIC_M: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_CBUF_BANK_NUM @ 0x98, reset 0x0, writable 0x0 / 0x0 {
        CSC_BASE_CBUF_BANK_NUM: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_CBUF_BANK_WIDTH @ 0x9c, reset 0x0, writable 0x0 / 0x0 {
        CSC_BASE_CBUF_BANK_WIDTH: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_CBUF_BANK_DEPTH @ 0xa0, reset 0x0, writable 0x0 / 0x0 {
        CSC_BASE_CBUF_BANK_DEPTH: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_CDMA_ID @ 0xa4, reset 0x0, writable 0x0 / 0x0 {
        CSC_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_CSC_MULTI_BATCH_MAX @ 0xa8, reset 0x0, writable 0x0 / 0x0 {
        CSC_MULTI_BATCH_MAX: u32 = 0, 32;
    }
    CFGROM_CMAC_A_DESC @ 0xac, reset 0x0, writable 0x0 / 0x0 {
        CMAC_A_DESC: u32 = 0, 32;
    }
    CFGROM_CMAC_A_CAP_INCOMPAT @ 0xb0, reset 0x0, writable 0x0 / 0x0 {
        CMAC_A_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CMAC_A_CAP_COMPAT @ 0xb4, reset 0x0, writable 0x0 / 0x0 {
        CMAC_A_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CMAC_A_BASE_FEATURE_TYPES @ 0xb8, reset 0x0, writable 0x0 / 0x0 {
        CMAC_A_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CMAC_A_BASE_WEIGHT_TYPES @ 0xbc, reset 0x0, writable 0x0 / 0x0 {
        CMAC_A_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_CMAC_A_BASE_ATOMIC_C @ 0xc0, reset 0x0, writable 0x0 / 0x0 {
        CMAC_A_BASE_ATOMIC_C: u32 = 0, 32;
    }
    CFGROM_CMAC_A_BASE_ATOMIC_K @ 0xc4, reset 0x0, writable 0x0 / 0x0 {
        CMAC_A_BASE_ATOMIC_K: u32 = 0, 32;
    }
    CFGROM_CMAC_A_BASE_CDMA_ID @ 0xc8, reset 0x0, writable 0x0 / 0x0 {
        CMAC_A_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_CMAC_B_DESC @ 0xcc, reset 0x0, writable 0x0 / 0x0 {
        CMAC_B_DESC: u32 = 0, 32;
    }
    CFGROM_CMAC_B_CAP_INCOMPAT @ 0xd0, reset 0x0, writable 0x0 / 0x0 {
        CMAC_B_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CMAC_B_CAP_COMPAT @ 0xd4, reset 0x0, writable 0x0 / 0x0 {
        CMAC_B_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CMAC_B_BASE_FEATURE_TYPES @ 0xd8, reset 0x0, writable 0x0 / 0x0 {
        CMAC_B_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CMAC_B_BASE_WEIGHT_TYPES @ 0xdc, reset 0x0, writable 0x0 / 0x0 {
        CMAC_B_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_CMAC_B_BASE_ATOMIC_C @ 0xe0, reset 0x0, writable 0x0 / 0x0 {
        CMAC_B_BASE_ATOMIC_C: u32 = 0, 32;
    }
    CFGROM_CMAC_B_BASE_ATOMIC_K @ 0xe4, reset 0x0, writable 0x0 / 0x0 {
        CMAC_B_BASE_ATOMIC_K: u32 = 0, 32;
    }
    CFGROM_CMAC_B_BASE_CDMA_ID @ 0xe8, reset 0x0, writable 0x0 / 0x0 {
        CMAC_B_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_CACC_DESC @ 0xec, reset 0x0, writable 0x0 / 0x0 {
        CACC_DESC: u32 = 0, 32;
    }
    CFGROM_CACC_CAP_INCOMPAT @ 0xf0, reset 0x0, writable 0x0 / 0x0 {
        CACC_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CACC_CAP_COMPAT @ 0xf4, reset 0x0, writable 0x0 / 0x0 {
        CACC_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CACC_BASE_FEATURE_TYPES @ 0xf8, reset 0x0, writable 0x0 / 0x0 {
        CACC_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CACC_BASE_WEIGHT_TYPES @ 0xfc, reset 0x0, writable 0x0 / 0x0 {
        CACC_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_CACC_BASE_ATOMIC_C @ 0x100, reset 0x0, writable 0x0 / 0x0 {
        CACC_BASE_ATOMIC_C: u32 = 0, 32;
    }
    CFGROM_CACC_BASE_ATOMIC_K @ 0x104, reset 0x0, writable 0x0 / 0x0 {
        CACC_BASE_ATOMIC_K: u32 = 0, 32;
    }
    CFGROM_CACC_BASE_CDMA_ID @ 0x108, reset 0x0, writable 0x0 / 0x0 {
        CACC_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_CACC_MULTI_BATCH_MAX @ 0x10c, reset 0x0, writable 0x0 / 0x0 {
        CACC_MULTI_BATCH_MAX: u32 = 0, 32;
    }
    CFGROM_SDP_RDMA_DESC @ 0x110, reset 0x0, writable 0x0 / 0x0 {
        SDP_RDMA_DESC: u32 = 0, 32;
    }
    CFGROM_SDP_RDMA_CAP_INCOMPAT @ 0x114, reset 0x0, writable 0x0 / 0x0 {
        SDP_RDMA_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_SDP_RDMA_CAP_COMPAT @ 0x118, reset 0x0, writable 0x0 / 0x0 {
        SDP_RDMA_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_SDP_RDMA_BASE_ATOMIC_M @ 0x11c, reset 0x0, writable 0x0 / 0x0 {
        SDP_RDMA_BASE_ATOMIC_M: u32 = 0, 32;
    }
    CFGROM_SDP_RDMA_BASE_SDP_ID @ 0x120, reset 0x0, writable 0x0 / 0x0 {
        SDP_RDMA_BASE_SDP_ID: u32 = 0, 32;
    }
    CFGROM_SDP_DESC @ 0x124, reset 0x0, writable 0x0 / 0x0 {
        SDP_DESC: u32 = 0, 32;
    }
    CFGROM_SDP_CAP_INCOMPAT @ 0x128, reset 0x0, writable 0x0 / 0x0 {
        SDP_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_SDP_CAP_COMPAT @ 0x12c, reset 0x0, writable 0x0 / 0x0 {
        SDP_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_SDP_BASE_FEATURE_TYPES @ 0x130, reset 0x0, writable 0x0 / 0x0 {
        SDP_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_SDP_BASE_WEIGHT_TYPES @ 0x134, reset 0x0, writable 0x0 / 0x0 {
        SDP_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_SDP_BASE_CDMA_ID @ 0x138, reset 0x0, writable 0x0 / 0x0 {
        SDP_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_SDP_MULTI_BATCH_MAX @ 0x13c, reset 0x0, writable 0x0 / 0x0 {
        SDP_MULTI_BATCH_MAX: u32 = 0, 32;
    }
    CFGROM_SDP_BS_THROUGHPUT @ 0x140, reset 0x0, writable 0x0 / 0x0 {
        SDP_BS_THROUGHPUT: u32 = 0, 32;
    }
    CFGROM_SDP_BN_THROUGHPUT @ 0x144, reset 0x0, writable 0x0 / 0x0 {
        SDP_BN_THROUGHPUT: u32 = 0, 32;
    }
    CFGROM_SDP_EW_THROUGHPUT @ 0x148, reset 0x0, writable 0x0 / 0x0 {
        SDP_EW_THROUGHPUT: u32 = 0, 32;
    }
    CFGROM_PDP_RDMA_DESC @ 0x14c, reset 0x0, writable 0x0 / 0x0 {
        PDP_RDMA_DESC: u32 = 0, 32;
    }
    CFGROM_PDP_RDMA_CAP_INCOMPAT @ 0x150, reset 0x0, writable 0x0 / 0x0 {
        PDP_RDMA_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_PDP_RDMA_CAP_COMPAT @ 0x154, reset 0x0, writable 0x0 / 0x0 {
        PDP_RDMA_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_PDP_RDMA_BASE_ATOMIC_M @ 0x158, reset 0x0, writable 0x0 / 0x0 {
        PDP_RDMA_BASE_ATOMIC_M: u32 = 0, 32;
    }
    CFGROM_PDP_RDMA_BASE_PDP_ID @ 0x15c, reset 0x0, writable 0x0 / 0x0 {
        PDP_RDMA_BASE_PDP_ID: u32 = 0, 32;
    }
    CFGROM_PDP_DESC @ 0x160, reset 0x0, writable 0x0 / 0x0 {
        PDP_DESC: u32 = 0, 32;
    }
    CFGROM_PDP_CAP_INCOMPAT @ 0x164, reset 0x0, writable 0x0 / 0x0 {
        PDP_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_PDP_CAP_COMPAT @ 0x168, reset 0x0, writable 0x0 / 0x0 {
        PDP_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_PDP_BASE_FEATURE_TYPES @ 0x16c, reset 0x0, writable 0x0 / 0x0 {
        PDP_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_PDP_BASE_THROUGHPUT @ 0x170, reset 0x0, writable 0x0 / 0x0 {
        PDP_BASE_THROUGHPUT: u32 = 0, 32;
    }
    CFGROM_CDP_RDMA_DESC @ 0x174, reset 0x0, writable 0x0 / 0x0 {
        CDP_RDMA_DESC: u32 = 0, 32;
    }
    CFGROM_CDP_RDMA_CAP_INCOMPAT @ 0x178, reset 0x0, writable 0x0 / 0x0 {
        CDP_RDMA_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CDP_RDMA_CAP_COMPAT @ 0x17c, reset 0x0, writable 0x0 / 0x0 {
        CDP_RDMA_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CDP_RDMA_BASE_ATOMIC_M @ 0x180, reset 0x0, writable 0x0 / 0x0 {
        CDP_RDMA_BASE_ATOMIC_M: u32 = 0, 32;
    }
    CFGROM_CDP_RDMA_BASE_CDP_ID @ 0x184, reset 0x0, writable 0x0 / 0x0 {
        CDP_RDMA_BASE_CDP_ID: u32 = 0, 32;
    }
    CFGROM_CDP_DESC @ 0x188, reset 0x0, writable 0x0 / 0x0 {
        CDP_DESC: u32 = 0, 32;
    }
    CFGROM_CDP_CAP_INCOMPAT @ 0x18c, reset 0x0, writable 0x0 / 0x0 {
        CDP_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CDP_CAP_COMPAT @ 0x190, reset 0x0, writable 0x0 / 0x0 {
        CDP_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CDP_BASE_FEATURE_TYPES @ 0x194, reset 0x0, writable 0x0 / 0x0 {
        CDP_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CDP_BASE_THROUGHPUT @ 0x198, reset 0x0, writable 0x0 / 0x0 {
        CDP_BASE_THROUGHPUT: u32 = 0, 32;
    }
    CFGROM_END_OF_LIST @ 0x19c, reset 0x0, writable 0x0 / 0x0 {
        END_OF_LIST: u32 = 0, 32;
    }
}
