// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! SDP's writer, and the four channels of its read DMA.
//!
//! Sizes are counted in surfaces of the processing precision. The writer: `NV_NVDLA_SDP_WDMA_cmd.v` lines 205 to 254
//! (modes; nothing is written for PDP or while EQL compares), 326 to 340 (lines of the modes), 475 (Winograd walks four
//! lines and two atoms at a time), 541 to 716 (addresses), 791 to 797 (sizes). The input's channel:
//! `NV_NVDLA_SDP_MRDMA_ig.v` lines 253 to 297 and 405 to 624. The operands' channels, which are alike:
//! `NV_NVDLA_SDP_BRDMA_ig.v` lines 248 to 372 and 379 to 760. Which channels run: `NV_NVDLA_SDP_rdma.v` lines 520 to 561.
//! A 1x1 cube, and operands per kernel, are one run of atoms; their strides have no effect. nv_small and nv_large (files of the
//! same names, one for all operands in `NV_NVDLA_SDP_RDMA_ig.v`) have no Winograd, no batches and no 16-bit data.

use super::walk::{Access, Lines, Ram, Refusal, Surface, Walk};
use crate::uapi::reg::values::{AluAlgorithm, OperandMode, OperandSize, OperandUse, OutputDestination, Precision};
use crate::uapi::reg::{sdp, sdp_rdma, Block, Register, Word};

const OUTPUT: Surface = Surface {
    block: Block::Sdp,
    write: true,
    low: sdp::D_DST_BASE_ADDR_LOW,
    high: sdp::D_DST_BASE_ADDR_HIGH,
    ram: Ram::new(sdp::D_DST_DMA_CFG::DST_RAM_TYPE),
};
const INPUT: Surface = Surface {
    block: Block::SdpRdma,
    write: false,
    low: sdp_rdma::D_SRC_BASE_ADDR_LOW,
    high: sdp_rdma::D_SRC_BASE_ADDR_HIGH,
    ram: Ram::new(sdp_rdma::D_SRC_DMA_CFG::SRC_RAM_TYPE),
};

/// A cube's columns and lines, rounded up to whole Winograd tiles of two columns and four lines.
const fn tiles(width: u64, height: u64) -> (u64, u64) {
    (width.next_multiple_of(2), height.next_multiple_of(4))
}

#[inline(always)]
pub(super) fn writer<E, V>(walk: &mut Walk<'_, V>) -> Result<(), E>
where
    E: From<Refusal>,
    V: FnMut(Access) -> Result<(), E>,
{
    const BLOCK: Block = Block::Sdp;
    if walk.field(BLOCK, sdp::D_FEATURE_MODE_CFG::OUTPUT_DST)? == OutputDestination::Pdp || compares(walk) {
        return Ok(());
    }
    let modes = walk.read::<sdp::D_FEATURE_MODE_CFG>(BLOCK);
    let (winograd, batches) = (
        modes.is_set(sdp::D_FEATURE_MODE_CFG::WINOGRAD),
        u64::from(modes.value(sdp::D_FEATURE_MODE_CFG::BATCH_NUMBER)) + 1,
    );
    let processing = walk.precision(BLOCK, sdp::D_DATA_FORMAT::PROC_PRECISION)?;
    let output = walk.precision(BLOCK, sdp::D_DATA_FORMAT::OUT_PRECISION)?;
    let widens = processing == Precision::Int8 && output != Precision::Int8;
    if processing != Precision::Int8 && output == Precision::Int8 {
        return Err(walk.refuse(BLOCK, sdp::D_DATA_FORMAT, "an int8 output needs int8 processing").into());
    }
    check_modes(walk, BLOCK, sdp::D_FEATURE_MODE_CFG, winograd, batches)?;
    if u32::from(winograd) + u32::from(batches > 1) + u32::from(widens) > 1 {
        let why = "Winograd, batches and conversion from 8 to 16 bits exclude one another";
        return Err(walk.refuse(BLOCK, sdp::D_FEATURE_MODE_CFG, why).into());
    }
    let width = walk.count(BLOCK, sdp::D_DATA_CUBE_WIDTH::WIDTH);
    let height = walk.count(BLOCK, sdp::D_DATA_CUBE_HEIGHT::HEIGHT);
    let channels = walk.count(BLOCK, sdp::D_DATA_CUBE_CHANNEL::CHANNEL);
    // Each surface of 8 bits becomes two of 16.
    let surfaces = walk.surfaces(channels, processing) << u32::from(widens);
    let atom = walk.atom();
    let mut span = if width == 1 && height == 1 {
        surfaces * atom
    } else {
        let (width, height) = if winograd { tiles(width, height) } else { (width, height) };
        Lines {
            bytes: width * atom,
            height,
            line_stride: walk.stride(BLOCK, sdp::D_DST_LINE_STRIDE),
            surfaces,
            surface_stride: walk.stride(BLOCK, sdp::D_DST_SURFACE_STRIDE),
        }
        .span()
    };
    if batches > 1 {
        // For a batch the strides are used even if the cube is 1x1.
        let surface_stride = walk.stride(BLOCK, sdp::D_DST_SURFACE_STRIDE);
        span = span.max((surfaces - 1) * surface_stride + atom);
        span += (batches - 1) * walk.stride(BLOCK, sdp::D_DST_BATCH_STRIDE);
    }
    walk.touch(&OUTPUT, span)
}

/// Whether sub-unit Y compares two cubes, which writes nothing.
#[inline(always)]
fn compares<V>(walk: &mut Walk<'_, V>) -> bool {
    let value = walk.read::<sdp::D_DP_EW_CFG>(Block::Sdp);
    let works = !value.is_set(sdp::D_DP_EW_CFG::EW_BYPASS) && !value.is_set(sdp::D_DP_EW_CFG::EW_ALU_BYPASS);
    works && value.get(sdp::D_DP_EW_CFG::EW_ALU_ALGO) == Some(AluAlgorithm::Eql)
}

/// The configuration has the modes.
#[inline(always)]
fn check_modes<V>(
    walk: &mut Walk<'_, V>,
    block: Block,
    register: Register,
    winograd: bool,
    batches: u64,
) -> Result<(), Refusal> {
    if winograd && !walk.config().winograd {
        return Err(walk.refuse(block, register, "the configuration has no Winograd"));
    }
    if batches > 1 && !walk.config().batch {
        return Err(walk.refuse(block, register, "the configuration has no hardware batches"));
    }
    Ok(())
}

#[inline(always)]
pub(super) fn reader<E, V>(walk: &mut Walk<'_, V>) -> Result<(), E>
where
    E: From<Refusal>,
    V: FnMut(Access) -> Result<(), E>,
{
    use sdp_rdma::*;
    const BLOCK: Block = Block::SdpRdma;
    let modes = walk.read::<D_FEATURE_MODE_CFG>(BLOCK);
    let winograd = modes.is_set(D_FEATURE_MODE_CFG::WINOGRAD);
    let batches = u64::from(modes.value(D_FEATURE_MODE_CFG::BATCH_NUMBER)) + 1;
    check_modes(walk, BLOCK, D_FEATURE_MODE_CFG, winograd, batches)?;
    let processing = walk.precision(BLOCK, D_FEATURE_MODE_CFG::PROC_PRECISION)?;
    let width = walk.count(BLOCK, D_DATA_CUBE_WIDTH::WIDTH);
    let height = walk.count(BLOCK, D_DATA_CUBE_HEIGHT::HEIGHT);
    let channels = walk.count(BLOCK, D_DATA_CUBE_CHANNEL::CHANNEL);
    let surfaces = walk.surfaces(channels, processing);
    if !modes.is_set(D_FEATURE_MODE_CFG::FLYING_MODE) {
        let input = walk.precision(BLOCK, D_FEATURE_MODE_CFG::IN_PRECISION)?;
        let narrows = input == Precision::Int16 && processing == Precision::Int8;
        if input != processing && !narrows {
            return Err(walk.refuse(BLOCK, D_FEATURE_MODE_CFG, "the input is not of the processing precision").into());
        }
        // Two surfaces of 16 bits become one of 8.
        let surfaces = surfaces << u32::from(narrows);
        let bytes = width * walk.atom();
        let span = if width == 1 && height == 1 {
            surfaces * bytes
        } else {
            Lines {
                bytes,
                height,
                line_stride: walk.stride(BLOCK, D_SRC_LINE_STRIDE),
                surfaces,
                surface_stride: walk.stride(BLOCK, D_SRC_SURFACE_STRIDE),
            }
            .span()
        };
        walk.touch(&INPUT, span)?;
    }
    let cube = Cube { width, height, surfaces, processing, winograd };
    operands(walk, &X1, &cube)?;
    operands(walk, &X2, &cube)?;
    operands(walk, &Y, &cube)
}

/// The cube for which operands are read.
struct Cube {
    width: u64,
    height: u64,
    surfaces: u64,
    processing: Precision,
    winograd: bool,
}

/// The registers of an operand channel. All three have the fields of the first, in the register of the memory interface.
struct Channel {
    surface: Surface,
    line_stride: Register,
    surface_stride: Register,
}

const X1: Channel = Channel {
    surface: Surface {
        block: Block::SdpRdma,
        write: false,
        low: sdp_rdma::D_BS_BASE_ADDR_LOW,
        high: sdp_rdma::D_BS_BASE_ADDR_HIGH,
        ram: Ram::new(sdp_rdma::D_BRDMA_CFG::BRDMA_RAM_TYPE),
    },
    line_stride: sdp_rdma::D_BS_LINE_STRIDE,
    surface_stride: sdp_rdma::D_BS_SURFACE_STRIDE,
};
const X2: Channel = Channel {
    surface: Surface {
        block: Block::SdpRdma,
        write: false,
        low: sdp_rdma::D_BN_BASE_ADDR_LOW,
        high: sdp_rdma::D_BN_BASE_ADDR_HIGH,
        ram: Ram::new(sdp_rdma::D_NRDMA_CFG::NRDMA_RAM_TYPE),
    },
    line_stride: sdp_rdma::D_BN_LINE_STRIDE,
    surface_stride: sdp_rdma::D_BN_SURFACE_STRIDE,
};
const Y: Channel = Channel {
    surface: Surface {
        block: Block::SdpRdma,
        write: false,
        low: sdp_rdma::D_EW_BASE_ADDR_LOW,
        high: sdp_rdma::D_EW_BASE_ADDR_HIGH,
        ram: Ram::new(sdp_rdma::D_ERDMA_CFG::ERDMA_RAM_TYPE),
    },
    line_stride: sdp_rdma::D_EW_LINE_STRIDE,
    surface_stride: sdp_rdma::D_EW_SURFACE_STRIDE,
};

#[inline(always)]
fn operands<E, V>(walk: &mut Walk<'_, V>, channel: &Channel, cube: &Cube) -> Result<(), E>
where
    E: From<Refusal>,
    V: FnMut(Access) -> Result<(), E>,
{
    use sdp_rdma::D_BRDMA_CFG as Cfg;
    const BLOCK: Block = Block::SdpRdma;
    let register = channel.surface.ram.register;
    if Word::<Cfg>::new(walk.get(BLOCK, register)).is_set(Cfg::BRDMA_DISABLE) {
        return Ok(());
    }
    let both = walk.field_of(BLOCK, register, Cfg::BRDMA_DATA_USE)? == OperandUse::Both;
    let two_bytes = walk.field_of(BLOCK, register, Cfg::BRDMA_DATA_SIZE)? == OperandSize::TwoByte;
    let per_kernel = walk.field_of(BLOCK, register, Cfg::BRDMA_DATA_MODE)? == OperandMode::PerKernel;
    let int8 = cube.processing == Precision::Int8;
    if !int8 && !two_bytes {
        return Err(walk.refuse(BLOCK, register, "operands of one byte are for int8 alone").into());
    }
    // Atoms of operands for an atom of data.
    let bytes = walk.atom() << (u32::from(both) + u32::from(int8 && two_bytes));
    let span = if per_kernel || cube.width == 1 && cube.height == 1 {
        cube.surfaces * bytes
    } else {
        let (width, height) = if cube.winograd { tiles(cube.width, cube.height) } else { (cube.width, cube.height) };
        Lines {
            bytes: width * bytes,
            height,
            line_stride: walk.stride(BLOCK, channel.line_stride),
            surfaces: cube.surfaces,
            surface_stride: walk.stride(BLOCK, channel.surface_stride),
        }
        .span()
    };
    walk.touch(&channel.surface, span)
}
