// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Rubik.
//!
//! Sources: the register manual for fields; `kmd/firmware/rubik.c` of the reference software for the register
//! of each descriptor field; the hardware's C-model for the bytes that are accessed.

use super::super::error::{Name, Reason, Why};
use super::super::image::{code, minus_one, Builder};
use super::super::memory::TaskMemory;
use super::super::slot::Operation;
use super::surface::{require_disjoint, require_memory, Bytes, Context, Named};
use crate::uapi::desc::{RubikOp, RubikSurface};
use crate::uapi::layout::align::Data;
use crate::uapi::layout::feature::Atoms;
use crate::uapi::layout::{Extents, Nest};
use crate::uapi::reg::values::RubikMode;
use crate::uapi::reg::{rbk, Block};

pub(super) fn translate<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    op: RubikOp,
    surface: &RubikSurface,
    operation: &mut Operation,
) -> Result<(), Reason> {
    let config = context.config;
    let contracts = op.mode == RubikMode::Contract;
    context.require(config.rubik, Name::new("op_type"), "Rubik")?;
    context.require(!contracts || config.rubik_contract, Name::new("mode"), "contraction in Rubik")?;
    context.require(contracts || config.rubik_reshape, Name::new("mode"), "split and merge in Rubik")?;
    context.require_precision(Name::new("precision"), op.precision)?;
    let src = Named { name: "src_data", cube: &surface.src_data };
    let dst = Named { name: "dst_data", cube: &surface.dst_data };
    operation.output = dst.output();

    let (width, height) = (u32::from(surface.src_data.width), u32::from(surface.src_data.height));
    let out_channels = u32::from(surface.dst_data.channel);
    let atoms = Atoms::of(config, op.precision);
    let out_surfaces = atoms.surfaces(out_channels as usize);
    let (x, y) = (u32::from(op.stride_x), u32::from(op.stride_y));
    let (read, written) = match op.mode {
        RubikMode::Contract => {
            // Each output atom is made of one input surface for each of its x * y places.
            let read = Extents { c: x * y * atoms.channels(out_surfaces) as u32, ..src.extents(1) };
            let written = Extents::new(1, out_channels, height * y, width * x);
            (context.feature(src, read, op.precision, 0)?, context.feature(dst, written, op.precision, 0)?)
        }
        RubikMode::Split => {
            src.same("channel", surface.src_data.channel, "that of dst_data", surface.dst_data.channel)?;
            let planes = Extents::new(1, out_channels, height, width);
            (context.feature(src, src.extents(1), op.precision, 0)?, planar(context, dst, planes, op)?)
        }
        RubikMode::Merge => {
            src.same("channel", surface.src_data.channel, "that of dst_data", surface.dst_data.channel)?;
            let written = Extents::new(1, out_channels, height, width);
            (planar(context, src, src.extents(1), op)?, context.feature(dst, written, op.precision, 0)?)
        }
    };
    let source = context.input_address(src, &read, 1)?;
    let target = context.address(dst, &written)?;
    require_memory(src.field("type"), surface.src_data.mem_type)?;
    require_memory(dst.field("type"), surface.dst_data.mem_type)?;

    let mut image = Builder::new(config, &mut operation.program)?;
    image.block(Block::Rbk);
    let value = code(rbk::D_MISC_CFG::RUBIK_MODE, op.mode) | code(rbk::D_MISC_CFG::IN_PRECISION, op.precision);
    image.word(value)?;
    image.word(code(rbk::D_DAIN_RAM_TYPE::DATAIN_RAM_TYPE, source.ram()))?;
    let value = minus_one(rbk::D_DATAIN_SIZE_0::DATAIN_WIDTH, src.field("width"), width)?
        | minus_one(rbk::D_DATAIN_SIZE_0::DATAIN_HEIGHT, src.field("height"), height)?;
    image.word(value)?;
    let channels = u32::from(surface.src_data.channel);
    image.word(minus_one(rbk::D_DATAIN_SIZE_1::DATAIN_CHANNEL, src.field("channel"), channels)?)?;
    image.address(rbk::D_DAIN_ADDR_LOW, rbk::D_DAIN_ADDR_HIGH, &source)?;
    image.put(rbk::D_DAIN_LINE_STRIDE, surface.src_data.line_stride)?;
    if op.mode == RubikMode::Merge {
        image.put(rbk::D_DAIN_PLANAR_STRIDE, surface.src_data.plane_stride)?;
    } else {
        image.put(rbk::D_DAIN_SURF_STRIDE, surface.src_data.surf_stride)?;
    }
    image.word(code(rbk::D_DAOUT_RAM_TYPE::DATAOUT_RAM_TYPE, target.ram()))?;
    image.word(minus_one(rbk::D_DATAOUT_SIZE_1::DATAOUT_CHANNEL, dst.field("channel"), out_channels)?)?;
    image.address(rbk::D_DAOUT_ADDR_LOW, rbk::D_DAOUT_ADDR_HIGH, &target)?;
    image.put(rbk::D_DAOUT_LINE_STRIDE, surface.dst_data.line_stride)?;
    if op.mode == RubikMode::Split {
        image.put(rbk::D_DAOUT_PLANAR_STRIDE, surface.dst_data.plane_stride)?;
    } else {
        image.put(rbk::D_DAOUT_SURF_STRIDE, surface.dst_data.surf_stride)?;
    }
    if op.mode == RubikMode::Contract {
        // From the surfaces of one place to those of the next, from the lines of one input line to those of the next.
        let surfaces = Nest::of_strides([u64::from(surface.src_data.surf_stride)]);
        let lines = Nest::of_strides([u64::from(surface.dst_data.line_stride)]);
        let stride_0 = stride(src, surfaces.offset([out_surfaces as u64]))?;
        image.put(rbk::D_CONTRACT_STRIDE_0, stride_0)?;
        let stride_1 = stride(dst, lines.offset([u64::from(y)]))?;
        image.put(rbk::D_CONTRACT_STRIDE_1, stride_1)?;
        use rbk::D_DECONV_STRIDE as field;
        let value = minus_one(field::DECONV_X_STRIDE, Name::new("stride_x"), x)?
            | minus_one(field::DECONV_Y_STRIDE, Name::new("stride_y"), y)?;
        image.word(value)?;
    }
    image.put(rbk::D_PERF_ENABLE, u32::from(context.counted))?;
    image.check_accesses(operation.op_type, operation.rdma)
}

/// A product of strides, in the register's 32 bits.
fn stride(surface: Named<'_>, value: u64) -> Result<u32, Reason> {
    u32::try_from(value).map_err(|_| {
        Why::Range {
            name: surface.field("stride of a contraction"),
            value: i64::try_from(value).unwrap_or(i64::MAX),
            minimum: 0,
            maximum: i64::from(u32::MAX),
        }
        .reason()
    })
}

/// Planes of one channel each, whose lines are read and written in whole atoms. Planes must not overlap.
fn planar<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    surface: Named<'_>,
    extents: Extents,
    op: RubikOp,
) -> Result<Bytes, Reason> {
    let (line_stride, plane_stride) = (surface.cube.line_stride, surface.cube.plane_stride);
    let strides = [plane_stride, line_stride].map(u64::from);
    let layout = |error| Why::Layout { surface: surface.name, error }.reason();
    let line = Atoms::of(context.config, op.precision).planar_line(extents.w as usize) as u64;
    let planes = Nest::as_programmed(line, [extents.c, extents.h].map(u64::from), strides).map_err(layout)?;
    require_disjoint(&planes, ["plane_stride", "line_stride"].map(|field| surface.field(field)), strides)?;
    Ok(Bytes {
        data: Data::Feature,
        span: planes.span(),
        line_stride: Some(line_stride),
        surface_stride: None,
        cube_stride: Some(plane_stride),
        size: None,
    })
}
