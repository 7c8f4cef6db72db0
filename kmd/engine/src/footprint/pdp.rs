// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! PDP and its read DMA.
//!
//! Reader and writer have separate sizes. Without a split a line is as wide as the cube. With a split the cube's width
//! is ignored. The parts lie side by side: the first, then `SPLIT_NUM - 1` middle ones, then the last. The window's
//! width minus its stride is the overlap of two parts: each part of the reader after the first begins earlier by the
//! overlap and is wider by it (a negative overlap makes it begin later and narrower). The reader's sizes have 13 bits
//! and wrap. Reader: `NV_NVDLA_PDP_RDMA_ig.v` lines 254 to 357 (parts, surfaces, lines), 366 to 420 and 660 to 705
//! (addresses), 758 and 801 to 821 (sizes). Writer: `NV_NVDLA_PDP_WDMA_cmd.v` lines 130 to 240 (sizes) and 250 to 350
//! (addresses). Both are as generated for nv_small.

use super::walk::{Access, Lines, Ram, Refusal, Surface, Walk};
use crate::uapi::reg::{pdp, pdp_rdma, Block};

const INPUT: Surface = Surface {
    block: Block::PdpRdma,
    write: false,
    low: pdp_rdma::D_SRC_BASE_ADDR_LOW,
    high: pdp_rdma::D_SRC_BASE_ADDR_HIGH,
    ram: Ram::new(pdp_rdma::D_SRC_RAM_CFG::SRC_RAM_TYPE),
};
const OUTPUT: Surface = Surface {
    block: Block::Pdp,
    write: true,
    low: pdp::D_DST_BASE_ADDR_LOW,
    high: pdp::D_DST_BASE_ADDR_HIGH,
    ram: Ram::new(pdp::D_DST_RAM_CFG::DST_RAM_TYPE),
};

#[inline(always)]
pub(super) fn reader<E, V>(walk: &mut Walk<'_, V>) -> Result<(), E>
where
    E: From<Refusal>,
    V: FnMut(Access) -> Result<(), E>,
{
    use pdp_rdma::*;
    const BLOCK: Block = Block::PdpRdma;
    let precision = walk.precision(BLOCK, D_DATA_FORMAT::INPUT_DATA)?;
    let parts = walk.count(BLOCK, D_OPERATION_MODE_CFG::SPLIT_NUM);
    let width = if parts == 1 {
        walk.count(BLOCK, D_DATA_CUBE_IN_WIDTH::CUBE_IN_WIDTH)
    } else {
        let window = walk.read::<D_POOLING_KERNEL_CFG>(BLOCK);
        let kernel = window.value(D_POOLING_KERNEL_CFG::KERNEL_WIDTH);
        let stride = window.value(D_POOLING_KERNEL_CFG::KERNEL_STRIDE_WIDTH);
        if kernel > 7 {
            return Err(walk.refuse(BLOCK, D_POOLING_KERNEL_CFG, "the window is wider than eight columns").into());
        }
        let values = walk.read::<D_PARTIAL_WIDTH_IN>(BLOCK);
        let first = u64::from(values.value(D_PARTIAL_WIDTH_IN::PARTIAL_WIDTH_IN_FIRST)) + 1;
        let middle = u64::from(values.value(D_PARTIAL_WIDTH_IN::PARTIAL_WIDTH_IN_MID)) + 1;
        let last = u64::from(values.value(D_PARTIAL_WIDTH_IN::PARTIAL_WIDTH_IN_LAST)) + 1;
        // What later parts share with the part before them, and what they leave out.
        let (shared, skipped) = (u64::from(kernel.saturating_sub(stride)), u64::from(stride.saturating_sub(kernel)));
        if shared > first {
            return Err(walk.refuse(BLOCK, D_PARTIAL_WIDTH_IN, "the second part begins before the cube").into());
        }
        if skipped >= last || parts > 2 && skipped >= middle {
            return Err(walk.refuse(BLOCK, D_PARTIAL_WIDTH_IN, "a part has no column").into());
        }
        first + (parts - 2) * middle + last
    };
    let channels = walk.count(BLOCK, D_DATA_CUBE_IN_CHANNEL::CUBE_IN_CHANNEL);
    let cube = Lines {
        bytes: width * walk.atom(),
        height: walk.count(BLOCK, D_DATA_CUBE_IN_HEIGHT::CUBE_IN_HEIGHT),
        line_stride: walk.stride(BLOCK, D_SRC_LINE_STRIDE),
        surfaces: walk.surfaces(channels, precision),
        surface_stride: walk.stride(BLOCK, D_SRC_SURFACE_STRIDE),
    };
    walk.touch(&INPUT, cube.span())
}

#[inline(always)]
pub(super) fn writer<E, V>(walk: &mut Walk<'_, V>) -> Result<(), E>
where
    E: From<Refusal>,
    V: FnMut(Access) -> Result<(), E>,
{
    use pdp::*;
    const BLOCK: Block = Block::Pdp;
    let precision = walk.precision(BLOCK, D_DATA_FORMAT::INPUT_DATA)?;
    let parts = walk.count(BLOCK, D_OPERATION_MODE_CFG::SPLIT_NUM);
    let width = if parts == 1 {
        walk.count(BLOCK, D_DATA_CUBE_OUT_WIDTH::CUBE_OUT_WIDTH)
    } else {
        let values = walk.read::<D_PARTIAL_WIDTH_OUT>(BLOCK);
        let width = |part: u32| u64::from(part) + 1;
        width(values.value(D_PARTIAL_WIDTH_OUT::PARTIAL_WIDTH_OUT_FIRST))
            + (parts - 2) * width(values.value(D_PARTIAL_WIDTH_OUT::PARTIAL_WIDTH_OUT_MID))
            + width(values.value(D_PARTIAL_WIDTH_OUT::PARTIAL_WIDTH_OUT_LAST))
    };
    let channels = walk.count(BLOCK, D_DATA_CUBE_OUT_CHANNEL::CUBE_OUT_CHANNEL);
    if walk.count(BLOCK, D_DATA_CUBE_IN_CHANNEL::CUBE_IN_CHANNEL) != channels {
        return Err(walk
            .refuse(BLOCK, D_DATA_CUBE_OUT_CHANNEL, "the input has another number of channels than the output")
            .into());
    }
    let cube = Lines {
        bytes: width * walk.atom(),
        height: walk.count(BLOCK, D_DATA_CUBE_OUT_HEIGHT::CUBE_OUT_HEIGHT),
        line_stride: walk.stride(BLOCK, D_DST_LINE_STRIDE),
        surfaces: walk.surfaces(channels, precision),
        surface_stride: walk.stride(BLOCK, D_DST_SURFACE_STRIDE),
    };
    walk.touch(&OUTPUT, cube.span())
}
