// SPDX-License-Identifier: MIT OR Apache-2.0

//! An operation of SDP that tests change.

use nvdla_model::registers::Registers;
use nvdla_uapi::reg::values::RamType;
use nvdla_uapi::reg::{sdp as reg, sdp_rdma as rdma_reg, Block};

use super::bytes::set;

/// The address of the cube that [`copy`] reads.
pub(crate) const INPUT: u32 = 0x10_0000;

/// An operation of nv_small that copies a packed cube of 8 channels.
pub(crate) fn copy(width: u32, height: u32) -> (Registers, Registers) {
    let (mut rdma, mut sdp) = (Registers::reset(Block::SdpRdma), Registers::reset(Block::Sdp));
    let ram = RamType::Mcif as u32;
    set(
        &mut rdma,
        &[
            (rdma_reg::D_DATA_CUBE_WIDTH, width - 1),
            (rdma_reg::D_DATA_CUBE_HEIGHT, height - 1),
            (rdma_reg::D_DATA_CUBE_CHANNEL, 7),
            (rdma_reg::D_SRC_BASE_ADDR_LOW, INPUT),
            (rdma_reg::D_SRC_LINE_STRIDE, width * 8),
            (rdma_reg::D_SRC_SURFACE_STRIDE, width * height * 8),
            (rdma_reg::D_SRC_DMA_CFG, ram),
            (rdma_reg::D_FEATURE_MODE_CFG, 0),
        ],
    );
    set(
        &mut sdp,
        &[
            (reg::D_DATA_CUBE_WIDTH, width - 1),
            (reg::D_DATA_CUBE_HEIGHT, height - 1),
            (reg::D_DATA_CUBE_CHANNEL, 7),
            (reg::D_DST_BASE_ADDR_LOW, INPUT + 0x1000),
            (reg::D_DST_LINE_STRIDE, width * 8),
            (reg::D_DST_SURFACE_STRIDE, width * height * 8),
            (reg::D_DST_DMA_CFG, ram),
            (reg::D_CVT_SCALE, 1),
        ],
    );
    (rdma, sdp)
}
