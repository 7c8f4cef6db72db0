// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Statistics of an operation: what its unit counted, read when it has completed, and only when the task asks for it.
//!
//! The registers of a group keep their counts until the group runs again.

use super::device::Device;
use super::hardware::Hardware;
use super::schedule::GroupIndices;
use crate::uapi::desc::{BdmaStat, CdpStat, ConvStat, OpType, PdpStat, RubikStat, SdpStat, Stat};
use crate::uapi::reg::{bdma, cacc, cdma, cdp, pdp, rbk, sdp, sdp_rdma, Block, Register};

/// Reads the counters of the unit for the operation that ran at `groups`, for `runtime` microseconds.
pub(crate) fn read(
    device: &mut Device,
    hw: &mut impl Hardware,
    unit: OpType,
    rdma: bool,
    groups: GroupIndices,
    runtime: u32,
) -> Stat {
    let mut get = |block: Block, register: Register| device.read(hw, block, register, groups);
    match unit {
        OpType::Bdma => {
            let (read, write) = if groups.group == 0 {
                (bdma::STATUS_GRP0_READ_STALL, bdma::STATUS_GRP0_WRITE_STALL)
            } else {
                (bdma::STATUS_GRP1_READ_STALL, bdma::STATUS_GRP1_WRITE_STALL)
            };
            Stat::Bdma(BdmaStat {
                read_stall: device.read_bdma(hw, read),
                write_stall: device.read_bdma(hw, write),
                runtime,
            })
        }
        OpType::Conv => Stat::Conv(ConvStat {
            data_read_stall: get(Block::Cdma, cdma::D_PERF_DAT_READ_STALL),
            weight_read_stall: get(Block::Cdma, cdma::D_PERF_WT_READ_STALL),
            data_read_latency: get(Block::Cdma, cdma::D_PERF_DAT_READ_LATENCY),
            weight_read_latency: get(Block::Cdma, cdma::D_PERF_WT_READ_LATENCY),
            saturation_count: get(Block::Cacc, cacc::D_OUT_SATURATION),
            nan_data_num: get(Block::Cdma, cdma::D_NAN_INPUT_DATA_NUM),
            nan_weight_num: get(Block::Cdma, cdma::D_NAN_INPUT_WEIGHT_NUM),
            inf_data_num: get(Block::Cdma, cdma::D_INF_INPUT_DATA_NUM),
            inf_weight_num: get(Block::Cdma, cdma::D_INF_INPUT_WEIGHT_NUM),
            runtime,
        }),
        // The input is counted by the read DMA; SDP's own input counters stay 0.
        OpType::Sdp => Stat::Sdp(SdpStat {
            nan_input_num: if rdma { get(Block::SdpRdma, sdp_rdma::D_STATUS_NAN_INPUT_NUM) } else { 0 },
            inf_input_num: if rdma { get(Block::SdpRdma, sdp_rdma::D_STATUS_INF_INPUT_NUM) } else { 0 },
            nan_output_num: get(Block::Sdp, sdp::D_STATUS_NAN_OUTPUT_NUM),
            wdma_write_stall: get(Block::Sdp, sdp::D_PERF_WDMA_WRITE_STALL),
            lut_underflow: get(Block::Sdp, sdp::D_PERF_LUT_UFLOW),
            lut_overflow: get(Block::Sdp, sdp::D_PERF_LUT_OFLOW),
            lut_hybrid: get(Block::Sdp, sdp::D_PERF_LUT_HYBRID),
            lut_le_hit: get(Block::Sdp, sdp::D_PERF_LUT_LE_HIT),
            lut_lo_hit: get(Block::Sdp, sdp::D_PERF_LUT_LO_HIT),
            saturation_count: get(Block::Sdp, sdp::D_PERF_OUT_SATURATION),
            runtime,
        }),
        OpType::Pdp => Stat::Pdp(PdpStat {
            inf_input_num: get(Block::Pdp, pdp::D_INF_INPUT_NUM),
            nan_input_num: get(Block::Pdp, pdp::D_NAN_INPUT_NUM),
            nan_output_num: get(Block::Pdp, pdp::D_NAN_OUTPUT_NUM),
            write_stall: get(Block::Pdp, pdp::D_PERF_WRITE_STALL),
            runtime,
        }),
        OpType::Cdp => Stat::Cdp(CdpStat {
            nan_input_num: get(Block::Cdp, cdp::D_NAN_INPUT_NUM),
            inf_input_num: get(Block::Cdp, cdp::D_INF_INPUT_NUM),
            nan_output_num: get(Block::Cdp, cdp::D_NAN_OUTPUT_NUM),
            write_stall: get(Block::Cdp, cdp::D_PERF_WRITE_STALL),
            lut_uflow: get(Block::Cdp, cdp::D_PERF_LUT_UFLOW),
            lut_oflow: get(Block::Cdp, cdp::D_PERF_LUT_OFLOW),
            lut_hybrid: get(Block::Cdp, cdp::D_PERF_LUT_HYBRID),
            lut_le_hit: get(Block::Cdp, cdp::D_PERF_LUT_LE_HIT),
            lut_lo_hit: get(Block::Cdp, cdp::D_PERF_LUT_LO_HIT),
            saturation_count: get(Block::Cdp, cdp::D_OUT_SATURATION),
            runtime,
        }),
        OpType::Rubik => Stat::Rubik(RubikStat {
            read_stall: get(Block::Rbk, rbk::D_PERF_READ_STALL),
            write_stall: get(Block::Rbk, rbk::D_PERF_WRITE_STALL),
            runtime,
        }),
    }
}
