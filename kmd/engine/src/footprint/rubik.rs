// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Rubik.
//!
//! `NV_NVDLA_RUBIK_seq_gen.v`: lines 311 to 440 (strides of the three modes), 551 to 766 (reads), 790 to 1003 (writes).
//! - A contraction reads one cube per place of a cell, `CONTRACT_STRIDE_0` apart, and of each as many surfaces as the
//!   output has. It writes lines of all places of a cell's row, `DAOUT_LINE_STRIDE` apart; the C-model goes from the lines
//!   of one input line to those of the next by `CONTRACT_STRIDE_1`.
//! - A plane's line is read and written in whole atoms (lines 569 and 805).
//! - Splitting and merging, the reader counts the input's channels and the writer the output's surfaces, each with the
//!   input's channels in its last one (lines 564, 574, 800, 811 and 991).

use super::walk::{Access, Lines, Ram, Refusal, Surface, Walk};
use crate::uapi::reg::rbk::*;
use crate::uapi::reg::values::{Precision, RubikMode};
use crate::uapi::reg::Block;

const BLOCK: Block = Block::Rbk;
/// Atoms of an output line at most: its size register has 13 bits.
const MAX_WIDTH: u64 = 1 << 13;
const INPUT: Surface = Surface {
    block: BLOCK,
    write: false,
    low: D_DAIN_ADDR_LOW,
    high: D_DAIN_ADDR_HIGH,
    ram: Ram::new(D_DAIN_RAM_TYPE::DATAIN_RAM_TYPE),
};
const OUTPUT: Surface = Surface {
    block: BLOCK,
    write: true,
    low: D_DAOUT_ADDR_LOW,
    high: D_DAOUT_ADDR_HIGH,
    ram: Ram::new(D_DAOUT_RAM_TYPE::DATAOUT_RAM_TYPE),
};

#[inline(always)]
pub(super) fn both<E, V>(walk: &mut Walk<'_, V>) -> Result<(), E>
where
    E: From<Refusal>,
    V: FnMut(Access) -> Result<(), E>,
{
    let mode = walk.field(BLOCK, D_MISC_CFG::RUBIK_MODE)?;
    let has = if mode == RubikMode::Contract { walk.config().rubik_contract } else { walk.config().rubik_reshape };
    if !has {
        return Err(walk.refuse(BLOCK, D_MISC_CFG, "the configuration does not have the mode").into());
    }
    let precision = walk.precision(BLOCK, D_MISC_CFG::IN_PRECISION)?;
    let (read, written) = match mode {
        RubikMode::Contract => contract(walk, precision)?,
        RubikMode::Split | RubikMode::Merge => reshape(walk, precision, mode)?,
    };
    walk.touch(&INPUT, read)?;
    walk.touch(&OUTPUT, written)
}

/// The bytes that a contraction spans, input and output.
#[inline(always)]
fn contract<V>(walk: &mut Walk<'_, V>, precision: Precision) -> Result<(u64, u64), Refusal> {
    let width = walk.count(BLOCK, D_DATAIN_SIZE_0::DATAIN_WIDTH);
    let height = walk.count(BLOCK, D_DATAIN_SIZE_0::DATAIN_HEIGHT);
    let x = walk.count(BLOCK, D_DECONV_STRIDE::DECONV_X_STRIDE);
    let y = walk.count(BLOCK, D_DECONV_STRIDE::DECONV_Y_STRIDE);
    if width * x > MAX_WIDTH {
        return Err(walk.refuse(BLOCK, D_DECONV_STRIDE, "an output line has more than 8192 atoms"));
    }
    let channels = walk.count(BLOCK, D_DATAOUT_SIZE_1::DATAOUT_CHANNEL);
    let input = Lines {
        bytes: width * walk.atom(),
        height,
        line_stride: walk.stride(BLOCK, D_DAIN_LINE_STRIDE),
        surfaces: walk.surfaces(channels, precision),
        surface_stride: walk.stride(BLOCK, D_DAIN_SURF_STRIDE),
    };
    let places = (x * y - 1) * walk.stride(BLOCK, D_CONTRACT_STRIDE_0);
    let line = walk.stride(BLOCK, D_DAOUT_LINE_STRIDE);
    let cells = (height - 1) * walk.stride(BLOCK, D_CONTRACT_STRIDE_1) + (y - 1) * line;
    let surfaces = (input.surfaces - 1) * walk.stride(BLOCK, D_DAOUT_SURF_STRIDE);
    let last_line = ((height * y - 1) * line).max(cells);
    Ok((places + input.span(), surfaces + last_line + width * x * walk.atom()))
}

/// The bytes that a split or merge spans, input and output.
#[inline(always)]
fn reshape<V>(walk: &mut Walk<'_, V>, precision: Precision, mode: RubikMode) -> Result<(u64, u64), Refusal> {
    let width = walk.count(BLOCK, D_DATAIN_SIZE_0::DATAIN_WIDTH);
    let height = walk.count(BLOCK, D_DATAIN_SIZE_0::DATAIN_HEIGHT);
    let channels = walk.count(BLOCK, D_DATAIN_SIZE_1::DATAIN_CHANNEL);
    let out_channels = walk.count(BLOCK, D_DATAOUT_SIZE_1::DATAOUT_CHANNEL);
    let surfaces = walk.surfaces(channels, precision);
    if walk.surfaces(out_channels, precision) != surfaces {
        return Err(walk.refuse(BLOCK, D_DATAOUT_SIZE_1, "the input has another number of surfaces than the output"));
    }
    let (line_stride, out_line_stride) =
        (walk.stride(BLOCK, D_DAIN_LINE_STRIDE), walk.stride(BLOCK, D_DAOUT_LINE_STRIDE));
    let splits = mode == RubikMode::Split;
    let (cube_line, plane_line) = if splits { (line_stride, out_line_stride) } else { (out_line_stride, line_stride) };
    let (surface, plane) =
        if splits { (D_DAIN_SURF_STRIDE, D_DAOUT_PLANAR_STRIDE) } else { (D_DAOUT_SURF_STRIDE, D_DAIN_PLANAR_STRIDE) };
    let cube = Lines {
        bytes: width * walk.atom(),
        height,
        line_stride: cube_line,
        surfaces,
        surface_stride: walk.stride(BLOCK, surface),
    };
    let planes = Lines {
        // The number of surfaces that `channels` channels take, as atoms.
        bytes: walk.surfaces(width, precision) * walk.atom(),
        height,
        line_stride: plane_line,
        surfaces: channels.max(out_channels),
        surface_stride: walk.stride(BLOCK, plane),
    };
    Ok(if splits { (cube.span(), planes.span()) } else { (planes.span(), cube.span()) })
}
