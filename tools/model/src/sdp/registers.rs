// SPDX-License-Identifier: MIT OR Apache-2.0

//! The registers of each sub-unit: X1 and X2 are alike, and so are the three read DMAs.

use nvdla_uapi::reg::sdp as reg;
use nvdla_uapi::reg::sdp_rdma as rdma_reg;
use nvdla_uapi::reg::values::{AluAlgorithm, OperandMode, OperandSize, OperandSource, OperandUse, RamType};
use nvdla_uapi::reg::{Field, Register};

/// Registers of X1 or X2.
pub(super) struct XRegisters {
    pub name: &'static str,
    pub cfg: Register,
    pub bypass: Field<bool>,
    pub alu_bypass: Field<bool>,
    pub alu_algorithm: Field<AluAlgorithm>,
    pub mul_bypass: Field<bool>,
    pub mul_prelu: Field<bool>,
    pub relu_bypass: Field<bool>,
    pub alu_cfg: Register,
    pub alu_source: Field<OperandSource>,
    pub alu_shift: Field<u32>,
    pub alu_value: Register,
    pub mul_cfg: Register,
    pub mul_source: Field<OperandSource>,
    pub mul_shift: Field<u32>,
    pub mul_value: Register,
}

/// X1's.
pub(super) const X1: XRegisters = {
    use reg::{d_dp_bs_alu_cfg as alu, d_dp_bs_cfg as cfg, d_dp_bs_mul_cfg as mul};
    XRegisters {
        name: "BS",
        cfg: reg::D_DP_BS_CFG,
        bypass: cfg::BS_BYPASS,
        alu_bypass: cfg::BS_ALU_BYPASS,
        alu_algorithm: cfg::BS_ALU_ALGO,
        mul_bypass: cfg::BS_MUL_BYPASS,
        mul_prelu: cfg::BS_MUL_PRELU,
        relu_bypass: cfg::BS_RELU_BYPASS,
        alu_cfg: reg::D_DP_BS_ALU_CFG,
        alu_source: alu::BS_ALU_SRC,
        alu_shift: alu::BS_ALU_SHIFT_VALUE,
        alu_value: reg::D_DP_BS_ALU_SRC_VALUE,
        mul_cfg: reg::D_DP_BS_MUL_CFG,
        mul_source: mul::BS_MUL_SRC,
        mul_shift: mul::BS_MUL_SHIFT_VALUE,
        mul_value: reg::D_DP_BS_MUL_SRC_VALUE,
    }
};

/// X2's.
pub(super) const X2: XRegisters = {
    use reg::{d_dp_bn_alu_cfg as alu, d_dp_bn_cfg as cfg, d_dp_bn_mul_cfg as mul};
    XRegisters {
        name: "BN",
        cfg: reg::D_DP_BN_CFG,
        bypass: cfg::BN_BYPASS,
        alu_bypass: cfg::BN_ALU_BYPASS,
        alu_algorithm: cfg::BN_ALU_ALGO,
        mul_bypass: cfg::BN_MUL_BYPASS,
        mul_prelu: cfg::BN_MUL_PRELU,
        relu_bypass: cfg::BN_RELU_BYPASS,
        alu_cfg: reg::D_DP_BN_ALU_CFG,
        alu_source: alu::BN_ALU_SRC,
        alu_shift: alu::BN_ALU_SHIFT_VALUE,
        alu_value: reg::D_DP_BN_ALU_SRC_VALUE,
        mul_cfg: reg::D_DP_BN_MUL_CFG,
        mul_source: mul::BN_MUL_SRC,
        mul_shift: mul::BN_MUL_SHIFT_VALUE,
        mul_value: reg::D_DP_BN_MUL_SRC_VALUE,
    }
};

/// Registers of a sub-unit's read DMA.
pub(super) struct DmaRegisters {
    pub name: &'static str,
    pub cfg: Register,
    pub disable: Field<bool>,
    pub data_use: Field<OperandUse>,
    pub data_size: Field<OperandSize>,
    pub data_mode: Field<OperandMode>,
    pub ram_type: Field<RamType>,
    pub base_low: Register,
    pub base_high: Register,
    pub line_stride: Register,
    pub surface_stride: Register,
}

/// X1's.
pub(super) const BRDMA: DmaRegisters = {
    use rdma_reg::d_brdma_cfg as cfg;
    DmaRegisters {
        name: "BRDMA",
        cfg: rdma_reg::D_BRDMA_CFG,
        disable: cfg::BRDMA_DISABLE,
        data_use: cfg::BRDMA_DATA_USE,
        data_size: cfg::BRDMA_DATA_SIZE,
        data_mode: cfg::BRDMA_DATA_MODE,
        ram_type: cfg::BRDMA_RAM_TYPE,
        base_low: rdma_reg::D_BS_BASE_ADDR_LOW,
        base_high: rdma_reg::D_BS_BASE_ADDR_HIGH,
        line_stride: rdma_reg::D_BS_LINE_STRIDE,
        surface_stride: rdma_reg::D_BS_SURFACE_STRIDE,
    }
};

/// X2's.
pub(super) const NRDMA: DmaRegisters = {
    use rdma_reg::d_nrdma_cfg as cfg;
    DmaRegisters {
        name: "NRDMA",
        cfg: rdma_reg::D_NRDMA_CFG,
        disable: cfg::NRDMA_DISABLE,
        data_use: cfg::NRDMA_DATA_USE,
        data_size: cfg::NRDMA_DATA_SIZE,
        data_mode: cfg::NRDMA_DATA_MODE,
        ram_type: cfg::NRDMA_RAM_TYPE,
        base_low: rdma_reg::D_BN_BASE_ADDR_LOW,
        base_high: rdma_reg::D_BN_BASE_ADDR_HIGH,
        line_stride: rdma_reg::D_BN_LINE_STRIDE,
        surface_stride: rdma_reg::D_BN_SURFACE_STRIDE,
    }
};

/// Y's.
pub(super) const ERDMA: DmaRegisters = {
    use rdma_reg::d_erdma_cfg as cfg;
    DmaRegisters {
        name: "ERDMA",
        cfg: rdma_reg::D_ERDMA_CFG,
        disable: cfg::ERDMA_DISABLE,
        data_use: cfg::ERDMA_DATA_USE,
        data_size: cfg::ERDMA_DATA_SIZE,
        data_mode: cfg::ERDMA_DATA_MODE,
        ram_type: cfg::ERDMA_RAM_TYPE,
        base_low: rdma_reg::D_EW_BASE_ADDR_LOW,
        base_high: rdma_reg::D_EW_BASE_ADDR_HIGH,
        line_stride: rdma_reg::D_EW_LINE_STRIDE,
        surface_stride: rdma_reg::D_EW_SURFACE_STRIDE,
    }
};
