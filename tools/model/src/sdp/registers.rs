// SPDX-License-Identifier: MIT OR Apache-2.0

//! The registers of each sub-unit: X1 and X2 are alike, and so are the three read DMAs.

use nvdla_uapi::reg::sdp as reg;
use nvdla_uapi::reg::sdp_rdma as rdma_reg;
use nvdla_uapi::reg::values::{AluAlgorithm, OperandMode, OperandSize, OperandSource, OperandUse, RamType};
use nvdla_uapi::reg::{Field, Register};

/// Registers of X1 or X2. The type parameters are the registers with the fields.
pub(super) struct XRegisters<Cfg, Alu, Mul> {
    pub name: &'static str,
    pub bypass: Field<bool, Cfg>,
    pub alu_bypass: Field<bool, Cfg>,
    pub alu_algorithm: Field<AluAlgorithm, Cfg>,
    pub mul_bypass: Field<bool, Cfg>,
    pub mul_prelu: Field<bool, Cfg>,
    pub relu_bypass: Field<bool, Cfg>,
    pub alu_source: Field<OperandSource, Alu>,
    pub alu_shift: Field<u32, Alu>,
    pub alu_value: Register,
    pub mul_source: Field<OperandSource, Mul>,
    pub mul_shift: Field<u32, Mul>,
    pub mul_value: Register,
}

/// X1's.
pub(super) const X1: XRegisters<reg::D_DP_BS_CFG, reg::D_DP_BS_ALU_CFG, reg::D_DP_BS_MUL_CFG> = {
    use reg::{D_DP_BS_ALU_CFG as Alu, D_DP_BS_CFG as Cfg, D_DP_BS_MUL_CFG as Mul};
    XRegisters {
        name: "BS",
        bypass: Cfg::BS_BYPASS,
        alu_bypass: Cfg::BS_ALU_BYPASS,
        alu_algorithm: Cfg::BS_ALU_ALGO,
        mul_bypass: Cfg::BS_MUL_BYPASS,
        mul_prelu: Cfg::BS_MUL_PRELU,
        relu_bypass: Cfg::BS_RELU_BYPASS,
        alu_source: Alu::BS_ALU_SRC,
        alu_shift: Alu::BS_ALU_SHIFT_VALUE,
        alu_value: reg::D_DP_BS_ALU_SRC_VALUE,
        mul_source: Mul::BS_MUL_SRC,
        mul_shift: Mul::BS_MUL_SHIFT_VALUE,
        mul_value: reg::D_DP_BS_MUL_SRC_VALUE,
    }
};

/// X2's.
pub(super) const X2: XRegisters<reg::D_DP_BN_CFG, reg::D_DP_BN_ALU_CFG, reg::D_DP_BN_MUL_CFG> = {
    use reg::{D_DP_BN_ALU_CFG as Alu, D_DP_BN_CFG as Cfg, D_DP_BN_MUL_CFG as Mul};
    XRegisters {
        name: "BN",
        bypass: Cfg::BN_BYPASS,
        alu_bypass: Cfg::BN_ALU_BYPASS,
        alu_algorithm: Cfg::BN_ALU_ALGO,
        mul_bypass: Cfg::BN_MUL_BYPASS,
        mul_prelu: Cfg::BN_MUL_PRELU,
        relu_bypass: Cfg::BN_RELU_BYPASS,
        alu_source: Alu::BN_ALU_SRC,
        alu_shift: Alu::BN_ALU_SHIFT_VALUE,
        alu_value: reg::D_DP_BN_ALU_SRC_VALUE,
        mul_source: Mul::BN_MUL_SRC,
        mul_shift: Mul::BN_MUL_SHIFT_VALUE,
        mul_value: reg::D_DP_BN_MUL_SRC_VALUE,
    }
};

/// Registers of a sub-unit's read DMA. The type parameter is the register with the fields.
pub(super) struct DmaRegisters<Cfg> {
    pub name: &'static str,
    pub disable: Field<bool, Cfg>,
    pub data_use: Field<OperandUse, Cfg>,
    pub data_size: Field<OperandSize, Cfg>,
    pub data_mode: Field<OperandMode, Cfg>,
    pub ram_type: Field<RamType, Cfg>,
    pub base_low: Register,
    pub base_high: Register,
    pub line_stride: Register,
    pub surface_stride: Register,
}

/// X1's.
pub(super) const BRDMA: DmaRegisters<rdma_reg::D_BRDMA_CFG> = {
    use rdma_reg::D_BRDMA_CFG as Cfg;
    DmaRegisters {
        name: "BRDMA",
        disable: Cfg::BRDMA_DISABLE,
        data_use: Cfg::BRDMA_DATA_USE,
        data_size: Cfg::BRDMA_DATA_SIZE,
        data_mode: Cfg::BRDMA_DATA_MODE,
        ram_type: Cfg::BRDMA_RAM_TYPE,
        base_low: rdma_reg::D_BS_BASE_ADDR_LOW,
        base_high: rdma_reg::D_BS_BASE_ADDR_HIGH,
        line_stride: rdma_reg::D_BS_LINE_STRIDE,
        surface_stride: rdma_reg::D_BS_SURFACE_STRIDE,
    }
};

/// X2's.
pub(super) const NRDMA: DmaRegisters<rdma_reg::D_NRDMA_CFG> = {
    use rdma_reg::D_NRDMA_CFG as Cfg;
    DmaRegisters {
        name: "NRDMA",
        disable: Cfg::NRDMA_DISABLE,
        data_use: Cfg::NRDMA_DATA_USE,
        data_size: Cfg::NRDMA_DATA_SIZE,
        data_mode: Cfg::NRDMA_DATA_MODE,
        ram_type: Cfg::NRDMA_RAM_TYPE,
        base_low: rdma_reg::D_BN_BASE_ADDR_LOW,
        base_high: rdma_reg::D_BN_BASE_ADDR_HIGH,
        line_stride: rdma_reg::D_BN_LINE_STRIDE,
        surface_stride: rdma_reg::D_BN_SURFACE_STRIDE,
    }
};

/// Y's.
pub(super) const ERDMA: DmaRegisters<rdma_reg::D_ERDMA_CFG> = {
    use rdma_reg::D_ERDMA_CFG as Cfg;
    DmaRegisters {
        name: "ERDMA",
        disable: Cfg::ERDMA_DISABLE,
        data_use: Cfg::ERDMA_DATA_USE,
        data_size: Cfg::ERDMA_DATA_SIZE,
        data_mode: Cfg::ERDMA_DATA_MODE,
        ram_type: Cfg::ERDMA_RAM_TYPE,
        base_low: rdma_reg::D_EW_BASE_ADDR_LOW,
        base_high: rdma_reg::D_EW_BASE_ADDR_HIGH,
        line_stride: rdma_reg::D_EW_LINE_STRIDE,
        surface_stride: rdma_reg::D_EW_SURFACE_STRIDE,
    }
};
