// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! SDP: bias, batch normalisation, element-wise operations, activation.

use super::super::layout::operand::Format;
use super::super::reg::values::{AluAlgorithm, ConvMode, OperandMode, OperandSize, OperandUse, Precision};
use super::cube::{CvtParam, DataCube};
use super::types::{Activation, SdpOperandMode, SdpOperation};
use super::wire::{descriptor, Error, Part, Wire};

descriptor! {
    /// One of SDP's sub-units X1, X2 and Y, as it stands in the descriptor.
    SdpSubUnit ("SDP sub-unit", 32, sdp_sub_unit) {
        /// Whether it is used.
        0 enable: bool;
        /// What its ALU does.
        1 alu_type: AluAlgorithm;
        /// Which of ALU and multiplier are used.
        2 op_type: SdpOperation;
        /// Where operands come from.
        3 mode: SdpOperandMode;
        /// The activation.
        4 act: Activation;
        /// Left shift of ALU operands.
        5 shift_value: u8;
        /// Right shift of the product.
        6 truncate: u8;
        /// Precision of the operands in memory.
        7 precision: Precision;
        /// ALU operand for the whole layer.
        8 alu_operand: i32;
        /// Multiplier operand for the whole layer.
        12 mul_operand: i32;
        /// Converter of ALU operands (Y only).
        16 alu_cvt: CvtParam;
        /// Converter of multiplier operands (Y only).
        24 mul_cvt: CvtParam;
    }
    /// SDP's operation.
    SdpOp ("SDP operation", 116, sdp_op) {
        /// Precision of the input.
        0 src_precision: Precision;
        /// Precision of the output.
        1 dst_precision: Precision;
        /// The lookup table, -1 for none.
        2 lut_index: i16;
        /// The output converter.
        4 out_cvt: CvtParam;
        /// The algorithm of the convolution whose output SDP processes on the fly.
        12 conv_mode: ConvMode;
        /// Inputs of a hardware batch.
        13 batch_num: u8;
        /// Bytes from one output of a batch to the next.
        16 batch_stride: u32;
        /// Sub-unit X1, `None` when it is not used (its bytes then mean nothing).
        20 x1_op: Option<SdpSubUnit>;
        /// Sub-unit X2.
        52 x2_op: Option<SdpSubUnit>;
        /// Sub-unit Y.
        84 y_op: Option<SdpSubUnit>;
    }
    /// SDP's surfaces.
    SdpSurface ("SDP surface", 160, sdp_surface) {
        /// The input.
        0 src_data: DataCube;
        /// Operands of X1.
        32 x1_data: DataCube;
        /// Operands of X2.
        64 x2_data: DataCube;
        /// Operands of Y.
        96 y_data: DataCube;
        /// The output.
        128 dst_data: DataCube;
    }
    /// What SDP counted.
    SdpStat ("SDP statistics", 44, sdp_stat) {
        /// NaN in the input.
        0 nan_input_num: u32;
        /// Infinities in the input.
        4 inf_input_num: u32;
        /// NaN in the output.
        8 nan_output_num: u32;
        /// Cycles that writing stalled.
        12 wdma_write_stall: u32;
        /// Inputs below the lookup table.
        16 lut_underflow: u32;
        /// Inputs above the lookup table.
        20 lut_overflow: u32;
        /// Inputs that both tables hit, or neither.
        24 lut_hybrid: u32;
        /// Inputs that the first table hit.
        28 lut_le_hit: u32;
        /// Inputs that the second table hit.
        32 lut_lo_hit: u32;
        /// Results that saturated.
        36 saturation_count: u32;
        /// Microseconds from enabling to completion.
        40 runtime: u32;
    }
}

impl SdpSubUnit {
    /// The format of its operands in memory, `None` if it has none there. `processing` is the precision that SDP computes in, and
    /// `atom` the bytes of an atom.
    pub fn operands(&self, processing: Precision, atom: u32) -> Option<Format> {
        let data_use = match self.op_type {
            SdpOperation::None => return None,
            SdpOperation::Mul => OperandUse::Mul,
            SdpOperation::Add => OperandUse::Alu,
            SdpOperation::Both => OperandUse::Both,
        };
        let mode = match self.mode {
            SdpOperandMode::PerLayer => return None,
            SdpOperandMode::PerKernel => OperandMode::PerKernel,
            SdpOperandMode::PerPoint => OperandMode::PerElement,
        };
        let data_size = match self.precision {
            Precision::Int8 => OperandSize::OneByte,
            Precision::Int16 | Precision::Fp16 => OperandSize::TwoByte,
        };
        Some(Format { mode, data_use, data_size, processing, atom })
    }
}

impl Wire for Option<SdpSubUnit> {
    const SIZE: usize = SdpSubUnit::SIZE;
    const PARTS: &'static [Part] = SdpSubUnit::PARTS;
    const ZERO: Self = None;

    #[inline]
    fn load(bytes: &[u8]) -> Result<Self, Error> {
        if bytes[sdp_sub_unit::enable] == 0 {
            Ok(None)
        } else {
            SdpSubUnit::load(bytes).map(Some)
        }
    }

    #[inline]
    fn store(&self, bytes: &mut [u8]) {
        if let Some(unit) = self {
            SdpSubUnit { enable: true, ..*unit }.store(bytes);
        }
    }
}
