// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CDP and its read DMA.
//!
//! The reader addresses the cube whose sizes are in CDP_RDMA: `NV_NVDLA_CDP_RDMA_ig.v` lines 298 to 314 (surfaces), 376
//! to 466 (lines in pieces of eight atoms) and 481 to 629 (addresses). The writer has no size registers. The data that
//! it receives mark where lines and surfaces end, so it writes as many as the reader reads: `NV_NVDLA_CDP_wdma.v` lines
//! 1400 to 1547.

use super::walk::{Access, Lines, Ram, Refusal, Surface, Walk};
use crate::uapi::reg::{cdp, cdp_rdma, Block};

const INPUT: Surface = Surface {
    block: Block::CdpRdma,
    write: false,
    low: cdp_rdma::D_SRC_BASE_ADDR_LOW,
    high: cdp_rdma::D_SRC_BASE_ADDR_HIGH,
    ram: Ram::new(cdp_rdma::D_SRC_DMA_CFG::SRC_RAM_TYPE),
};
const OUTPUT: Surface = Surface {
    block: Block::Cdp,
    write: true,
    low: cdp::D_DST_BASE_ADDR_LOW,
    high: cdp::D_DST_BASE_ADDR_HIGH,
    ram: Ram::new(cdp::D_DST_DMA_CFG::DST_RAM_TYPE),
};

#[inline(always)]
pub(super) fn both<E, V>(walk: &mut Walk<'_, V>) -> Result<(), E>
where
    E: From<Refusal>,
    V: FnMut(Access) -> Result<(), E>,
{
    let format = cdp_rdma::D_DATA_FORMAT::INPUT_DATA;
    let precision = walk.precision(Block::CdpRdma, format)?;
    if walk.field(Block::Cdp, cdp::D_DATA_FORMAT::INPUT_DATA_TYPE)? != precision {
        return Err(walk.refuse(Block::Cdp, cdp::D_DATA_FORMAT, "CDP_RDMA reads another precision").into());
    }
    let width = walk.count(Block::CdpRdma, cdp_rdma::D_DATA_CUBE_WIDTH::WIDTH);
    let height = walk.count(Block::CdpRdma, cdp_rdma::D_DATA_CUBE_HEIGHT::HEIGHT);
    let channels = walk.count(Block::CdpRdma, cdp_rdma::D_DATA_CUBE_CHANNEL::CHANNEL);
    let input = Lines {
        bytes: width * walk.atom(),
        height,
        line_stride: walk.stride(Block::CdpRdma, cdp_rdma::D_SRC_LINE_STRIDE),
        surfaces: walk.surfaces(channels, precision),
        surface_stride: walk.stride(Block::CdpRdma, cdp_rdma::D_SRC_SURFACE_STRIDE),
    };
    let output = Lines {
        line_stride: walk.stride(Block::Cdp, cdp::D_DST_LINE_STRIDE),
        surface_stride: walk.stride(Block::Cdp, cdp::D_DST_SURFACE_STRIDE),
        ..input
    };
    walk.touch(&INPUT, input.span())?;
    walk.touch(&OUTPUT, output.span())
}
