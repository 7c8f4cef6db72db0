// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CFGROM: configuration ROM: what the synthesised hardware has.

super::register::registers! {
    CFGROM_HW_VERSION @ 0x0, reset 0x0, writable 0x0 / 0x0: cfgrom_hw_version {
        HW_VERSION: u32 = 0, 32;
    }
    CFGROM_GLB_DESC @ 0x4, reset 0x0, writable 0x0 / 0x0: cfgrom_glb_desc {
        GLB_DESC: u32 = 0, 32;
    }
    CFGROM_CIF_DESC @ 0x8, reset 0x0, writable 0x0 / 0x0: cfgrom_cif_desc {
        CIF_DESC: u32 = 0, 32;
    }
    CFGROM_CIF_CAP_INCOMPAT @ 0xc, reset 0x0, writable 0x0 / 0x0: cfgrom_cif_cap_incompat {
        CIF_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CIF_CAP_COMPAT @ 0x10, reset 0x0, writable 0x0 / 0x0: cfgrom_cif_cap_compat {
        CIF_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CIF_BASE_WIDTH @ 0x14, reset 0x0, writable 0x0 / 0x0: cfgrom_cif_base_width {
        CIF_BASE_WIDTH: u32 = 0, 8;
    }
    CFGROM_CIF_BASE_LATENCY @ 0x18, reset 0x0, writable 0x0 / 0x0: cfgrom_cif_base_latency {
        CIF_BASE_LATENCY: u32 = 0, 32;
    }
    CFGROM_CIF_BASE_BURST_LENGTH_MAX @ 0x1c, reset 0x0, writable 0x0 / 0x0: cfgrom_cif_base_burst_length_max {
        BASE_BURST_LENGTH_MAX: u32 = 5, 27;
    }
    CFGROM_CIF_BASE_MEM_ADDR_WIDTH @ 0x20, reset 0x0, writable 0x0 / 0x0: cfgrom_cif_base_mem_addr_width {
        CIF_BASE_MEM_ADDR_WIDTH: u32 = 5, 27;
    }
    CFGROM_CDMA_DESC @ 0x24, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_desc {
        CDMA_DESC: u32 = 0, 32;
    }
    CFGROM_CDMA_CAP_INCOMPAT @ 0x28, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_cap_incompat {
        CDMA_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CDMA_CAP_COMPAT @ 0x2c, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_cap_compat {
        CDMA_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_FEATURE_TYPES @ 0x30, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_base_feature_types {
        CDMA_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CDMA_BASE_WEIGHT_TYPES @ 0x34, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_base_weight_types {
        CDMA_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_CDMA_BASE_ATOMIC_C @ 0x38, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_base_atomic_c {
        CDMA_BASE_ATOMIC_C: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_ATOMIC_K @ 0x3c, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_base_atomic_k {
        CDMA_BASE_ATOMIC_K: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_ATOMIC_M @ 0x40, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_base_atomic_m {
        CDMA_BASE_ATOMIC_M: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_CBUF_BANK_NUM @ 0x44, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_base_cbuf_bank_num {
        CDMA_BASE_CBUF_BANK_NUM: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_CBUF_BANK_WIDTH @ 0x48, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_base_cbuf_bank_width {
        CDMA_BASE_CBUF_BANK_WIDTH: u32 = 0, 32;
    }
    CFGROM_CDMA_BASE_CBUF_BANK_DEPTH @ 0x4c, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_base_cbuf_bank_depth {
        CDMA_BASE_CBUF_BANK_DEPTH: u32 = 0, 32;
    }
    CFGROM_CDMA_MULTI_BATCH_MAX @ 0x50, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_multi_batch_max {
        CDMA_MULTI_BATCH_MAX: u32 = 0, 32;
    }
    CFGROM_CDMA_IMAGE_IN_FORMATS_PACKED @ 0x54, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_image_in_formats_packed {
        CDMA_IMAGE_IN_FORMATS_PACKED: u32 = 0, 32;
    }
    CFGROM_CDMA_IMAGE_IN_FORMATS_SEMI @ 0x58, reset 0x0, writable 0x0 / 0x0: cfgrom_cdma_image_in_formats_semi {
        CDMA_IMAGE_IN_FORMATS_SEMI: u32 = 0, 32;
    }
    CFGROM_CBUF_DESC @ 0x5c, reset 0x0, writable 0x0 / 0x0: cfgrom_cbuf_desc {
        CBUF_DESC: u32 = 0, 32;
    }
    CFGROM_CBUF_CAP_INCOMPAT @ 0x60, reset 0x0, writable 0x0 / 0x0: cfgrom_cbuf_cap_incompat {
        CBUF_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CBUF_CAP_COMPAT @ 0x64, reset 0x0, writable 0x0 / 0x0: cfgrom_cbuf_cap_compat {
        CBUF_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CBUF_BASE_CBUF_BANK_NUM @ 0x68, reset 0x0, writable 0x0 / 0x0: cfgrom_cbuf_base_cbuf_bank_num {
        CBUF_BASE_CBUF_BANK_NUM: u32 = 0, 32;
    }
    CFGROM_CBUF_BASE_CBUF_BANK_WIDTH @ 0x6c, reset 0x0, writable 0x0 / 0x0: cfgrom_cbuf_base_cbuf_bank_width {
        CBUF_BASE_CBUF_BANK_WIDTH: u32 = 0, 32;
    }
    CFGROM_CBUF_BASE_CBUF_BANK_DEPTH @ 0x70, reset 0x0, writable 0x0 / 0x0: cfgrom_cbuf_base_cbuf_bank_depth {
        CBUF_BASE_CBUF_BANK_DEPTH: u32 = 0, 32;
    }
    CFGROM_CBUF_BASE_CDMA_ID @ 0x74, reset 0x0, writable 0x0 / 0x0: cfgrom_cbuf_base_cdma_id {
        CBUF_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_CSC_DESC @ 0x78, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_desc {
        CSC_DESC: u32 = 0, 32;
    }
    CFGROM_CSC_CAP_INCOMPAT @ 0x7c, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_cap_incompat {
        CSC_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CSC_CAP_COMPAT @ 0x80, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_cap_compat {
        CSC_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_FEATURE_TYPES @ 0x84, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_base_feature_types {
        CSC_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CSC_BASE_WEIGHT_TYPES @ 0x88, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_base_weight_types {
        CSC_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_CSC_BASE_ATOMIC_C @ 0x8c, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_base_atomic_c {
        CSC_BASE_ATOMIC_C: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_ATOMIC_K @ 0x90, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_base_atomic_k {
        CSC_BASE_ATOMIC_K: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_ATOMIC_M @ 0x94, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_base_atomic_m {
        CSC_BASE_ATOMIC_M: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_CBUF_BANK_NUM @ 0x98, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_base_cbuf_bank_num {
        CSC_BASE_CBUF_BANK_NUM: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_CBUF_BANK_WIDTH @ 0x9c, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_base_cbuf_bank_width {
        CSC_BASE_CBUF_BANK_WIDTH: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_CBUF_BANK_DEPTH @ 0xa0, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_base_cbuf_bank_depth {
        CSC_BASE_CBUF_BANK_DEPTH: u32 = 0, 32;
    }
    CFGROM_CSC_BASE_CDMA_ID @ 0xa4, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_base_cdma_id {
        CSC_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_CSC_MULTI_BATCH_MAX @ 0xa8, reset 0x0, writable 0x0 / 0x0: cfgrom_csc_multi_batch_max {
        CSC_MULTI_BATCH_MAX: u32 = 0, 32;
    }
    CFGROM_CMAC_A_DESC @ 0xac, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_a_desc {
        CMAC_A_DESC: u32 = 0, 32;
    }
    CFGROM_CMAC_A_CAP_INCOMPAT @ 0xb0, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_a_cap_incompat {
        CMAC_A_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CMAC_A_CAP_COMPAT @ 0xb4, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_a_cap_compat {
        CMAC_A_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CMAC_A_BASE_FEATURE_TYPES @ 0xb8, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_a_base_feature_types {
        CMAC_A_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CMAC_A_BASE_WEIGHT_TYPES @ 0xbc, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_a_base_weight_types {
        CMAC_A_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_CMAC_A_BASE_ATOMIC_C @ 0xc0, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_a_base_atomic_c {
        CMAC_A_BASE_ATOMIC_C: u32 = 0, 32;
    }
    CFGROM_CMAC_A_BASE_ATOMIC_K @ 0xc4, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_a_base_atomic_k {
        CMAC_A_BASE_ATOMIC_K: u32 = 0, 32;
    }
    CFGROM_CMAC_A_BASE_CDMA_ID @ 0xc8, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_a_base_cdma_id {
        CMAC_A_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_CMAC_B_DESC @ 0xcc, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_b_desc {
        CMAC_B_DESC: u32 = 0, 32;
    }
    CFGROM_CMAC_B_CAP_INCOMPAT @ 0xd0, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_b_cap_incompat {
        CMAC_B_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CMAC_B_CAP_COMPAT @ 0xd4, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_b_cap_compat {
        CMAC_B_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CMAC_B_BASE_FEATURE_TYPES @ 0xd8, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_b_base_feature_types {
        CMAC_B_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CMAC_B_BASE_WEIGHT_TYPES @ 0xdc, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_b_base_weight_types {
        CMAC_B_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_CMAC_B_BASE_ATOMIC_C @ 0xe0, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_b_base_atomic_c {
        CMAC_B_BASE_ATOMIC_C: u32 = 0, 32;
    }
    CFGROM_CMAC_B_BASE_ATOMIC_K @ 0xe4, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_b_base_atomic_k {
        CMAC_B_BASE_ATOMIC_K: u32 = 0, 32;
    }
    CFGROM_CMAC_B_BASE_CDMA_ID @ 0xe8, reset 0x0, writable 0x0 / 0x0: cfgrom_cmac_b_base_cdma_id {
        CMAC_B_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_CACC_DESC @ 0xec, reset 0x0, writable 0x0 / 0x0: cfgrom_cacc_desc {
        CACC_DESC: u32 = 0, 32;
    }
    CFGROM_CACC_CAP_INCOMPAT @ 0xf0, reset 0x0, writable 0x0 / 0x0: cfgrom_cacc_cap_incompat {
        CACC_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CACC_CAP_COMPAT @ 0xf4, reset 0x0, writable 0x0 / 0x0: cfgrom_cacc_cap_compat {
        CACC_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CACC_BASE_FEATURE_TYPES @ 0xf8, reset 0x0, writable 0x0 / 0x0: cfgrom_cacc_base_feature_types {
        CACC_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CACC_BASE_WEIGHT_TYPES @ 0xfc, reset 0x0, writable 0x0 / 0x0: cfgrom_cacc_base_weight_types {
        CACC_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_CACC_BASE_ATOMIC_C @ 0x100, reset 0x0, writable 0x0 / 0x0: cfgrom_cacc_base_atomic_c {
        CACC_BASE_ATOMIC_C: u32 = 0, 32;
    }
    CFGROM_CACC_BASE_ATOMIC_K @ 0x104, reset 0x0, writable 0x0 / 0x0: cfgrom_cacc_base_atomic_k {
        CACC_BASE_ATOMIC_K: u32 = 0, 32;
    }
    CFGROM_CACC_BASE_CDMA_ID @ 0x108, reset 0x0, writable 0x0 / 0x0: cfgrom_cacc_base_cdma_id {
        CACC_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_CACC_MULTI_BATCH_MAX @ 0x10c, reset 0x0, writable 0x0 / 0x0: cfgrom_cacc_multi_batch_max {
        CACC_MULTI_BATCH_MAX: u32 = 0, 32;
    }
    CFGROM_SDP_RDMA_DESC @ 0x110, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_rdma_desc {
        SDP_RDMA_DESC: u32 = 0, 32;
    }
    CFGROM_SDP_RDMA_CAP_INCOMPAT @ 0x114, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_rdma_cap_incompat {
        SDP_RDMA_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_SDP_RDMA_CAP_COMPAT @ 0x118, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_rdma_cap_compat {
        SDP_RDMA_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_SDP_RDMA_BASE_ATOMIC_M @ 0x11c, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_rdma_base_atomic_m {
        SDP_RDMA_BASE_ATOMIC_M: u32 = 0, 32;
    }
    CFGROM_SDP_RDMA_BASE_SDP_ID @ 0x120, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_rdma_base_sdp_id {
        SDP_RDMA_BASE_SDP_ID: u32 = 0, 32;
    }
    CFGROM_SDP_DESC @ 0x124, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_desc {
        SDP_DESC: u32 = 0, 32;
    }
    CFGROM_SDP_CAP_INCOMPAT @ 0x128, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_cap_incompat {
        SDP_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_SDP_CAP_COMPAT @ 0x12c, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_cap_compat {
        SDP_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_SDP_BASE_FEATURE_TYPES @ 0x130, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_base_feature_types {
        SDP_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_SDP_BASE_WEIGHT_TYPES @ 0x134, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_base_weight_types {
        SDP_BASE_WEIGHT_TYPES: u32 = 0, 12;
    }
    CFGROM_SDP_BASE_CDMA_ID @ 0x138, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_base_cdma_id {
        SDP_BASE_CDMA_ID: u32 = 0, 32;
    }
    CFGROM_SDP_MULTI_BATCH_MAX @ 0x13c, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_multi_batch_max {
        SDP_MULTI_BATCH_MAX: u32 = 0, 32;
    }
    CFGROM_SDP_BS_THROUGHPUT @ 0x140, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_bs_throughput {
        SDP_BS_THROUGHPUT: u32 = 0, 32;
    }
    CFGROM_SDP_BN_THROUGHPUT @ 0x144, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_bn_throughput {
        SDP_BN_THROUGHPUT: u32 = 0, 32;
    }
    CFGROM_SDP_EW_THROUGHPUT @ 0x148, reset 0x0, writable 0x0 / 0x0: cfgrom_sdp_ew_throughput {
        SDP_EW_THROUGHPUT: u32 = 0, 32;
    }
    CFGROM_PDP_RDMA_DESC @ 0x14c, reset 0x0, writable 0x0 / 0x0: cfgrom_pdp_rdma_desc {
        PDP_RDMA_DESC: u32 = 0, 32;
    }
    CFGROM_PDP_RDMA_CAP_INCOMPAT @ 0x150, reset 0x0, writable 0x0 / 0x0: cfgrom_pdp_rdma_cap_incompat {
        PDP_RDMA_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_PDP_RDMA_CAP_COMPAT @ 0x154, reset 0x0, writable 0x0 / 0x0: cfgrom_pdp_rdma_cap_compat {
        PDP_RDMA_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_PDP_RDMA_BASE_ATOMIC_M @ 0x158, reset 0x0, writable 0x0 / 0x0: cfgrom_pdp_rdma_base_atomic_m {
        PDP_RDMA_BASE_ATOMIC_M: u32 = 0, 32;
    }
    CFGROM_PDP_RDMA_BASE_PDP_ID @ 0x15c, reset 0x0, writable 0x0 / 0x0: cfgrom_pdp_rdma_base_pdp_id {
        PDP_RDMA_BASE_PDP_ID: u32 = 0, 32;
    }
    CFGROM_PDP_DESC @ 0x160, reset 0x0, writable 0x0 / 0x0: cfgrom_pdp_desc {
        PDP_DESC: u32 = 0, 32;
    }
    CFGROM_PDP_CAP_INCOMPAT @ 0x164, reset 0x0, writable 0x0 / 0x0: cfgrom_pdp_cap_incompat {
        PDP_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_PDP_CAP_COMPAT @ 0x168, reset 0x0, writable 0x0 / 0x0: cfgrom_pdp_cap_compat {
        PDP_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_PDP_BASE_FEATURE_TYPES @ 0x16c, reset 0x0, writable 0x0 / 0x0: cfgrom_pdp_base_feature_types {
        PDP_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_PDP_BASE_THROUGHPUT @ 0x170, reset 0x0, writable 0x0 / 0x0: cfgrom_pdp_base_throughput {
        PDP_BASE_THROUGHPUT: u32 = 0, 32;
    }
    CFGROM_CDP_RDMA_DESC @ 0x174, reset 0x0, writable 0x0 / 0x0: cfgrom_cdp_rdma_desc {
        CDP_RDMA_DESC: u32 = 0, 32;
    }
    CFGROM_CDP_RDMA_CAP_INCOMPAT @ 0x178, reset 0x0, writable 0x0 / 0x0: cfgrom_cdp_rdma_cap_incompat {
        CDP_RDMA_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CDP_RDMA_CAP_COMPAT @ 0x17c, reset 0x0, writable 0x0 / 0x0: cfgrom_cdp_rdma_cap_compat {
        CDP_RDMA_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CDP_RDMA_BASE_ATOMIC_M @ 0x180, reset 0x0, writable 0x0 / 0x0: cfgrom_cdp_rdma_base_atomic_m {
        CDP_RDMA_BASE_ATOMIC_M: u32 = 0, 32;
    }
    CFGROM_CDP_RDMA_BASE_CDP_ID @ 0x184, reset 0x0, writable 0x0 / 0x0: cfgrom_cdp_rdma_base_cdp_id {
        CDP_RDMA_BASE_CDP_ID: u32 = 0, 32;
    }
    CFGROM_CDP_DESC @ 0x188, reset 0x0, writable 0x0 / 0x0: cfgrom_cdp_desc {
        CDP_DESC: u32 = 0, 32;
    }
    CFGROM_CDP_CAP_INCOMPAT @ 0x18c, reset 0x0, writable 0x0 / 0x0: cfgrom_cdp_cap_incompat {
        CDP_CAP_INCOMPAT: u32 = 0, 32;
    }
    CFGROM_CDP_CAP_COMPAT @ 0x190, reset 0x0, writable 0x0 / 0x0: cfgrom_cdp_cap_compat {
        CDP_CAP_COMPAT: u32 = 0, 32;
    }
    CFGROM_CDP_BASE_FEATURE_TYPES @ 0x194, reset 0x0, writable 0x0 / 0x0: cfgrom_cdp_base_feature_types {
        CDP_BASE_FEATURE_TYPES: u32 = 0, 12;
    }
    CFGROM_CDP_BASE_THROUGHPUT @ 0x198, reset 0x0, writable 0x0 / 0x0: cfgrom_cdp_base_throughput {
        CDP_BASE_THROUGHPUT: u32 = 0, 32;
    }
    CFGROM_END_OF_LIST @ 0x19c, reset 0x0, writable 0x0 / 0x0: cfgrom_end_of_list {
        END_OF_LIST: u32 = 0, 32;
    }
}
