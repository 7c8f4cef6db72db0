// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! CDP and its read DMA.
//!
//! Sources: the register manual for fields; `kmd/firmware/cdp.c` of the reference software for the register
//! of each descriptor field.

use super::super::error::{Name, Reason, Why};
use super::super::image::{bits, code, fit, minus_one, signed, Builder};
use super::super::memory::TaskMemory;
use super::super::slot::Operation;
use super::surface::{require_memory, Context, Named};
use crate::uapi::desc::{CdpOp, CdpSurface, Lut};
use crate::uapi::reg::values::{LutFunction, NormalizationLength, Precision};
use crate::uapi::reg::{cdp, cdp_rdma, Block};

pub(super) fn translate<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    op: &CdpOp,
    surface: &CdpSurface,
    operation: &mut Operation,
) -> Result<(), Reason> {
    let src = Named { name: "src_data", cube: &surface.src_data };
    let dst = Named { name: "dst_data", cube: &surface.dst_data };
    context.require(context.config.cdp, Name::new("op_type"), "CDP")?;
    context.require_precision(Name::new("in_precision"), op.in_precision)?;
    if op.in_precision != op.out_precision {
        let why = "CDP's output has the precision of its input";
        return Err(Why::Invalid { name: Name::new("out_precision"), value: op.out_precision as i64, why }.reason());
    }
    if op.lut_index == -1 {
        let why = "CDP always uses a lookup table, and without one it would use that of another task";
        return Err(Why::Invalid { name: Name::new("lut_index"), value: -1, why }.reason());
    }
    for (field, value, expected) in [
        ("width", surface.dst_data.width, surface.src_data.width),
        ("height", surface.dst_data.height, surface.src_data.height),
        ("channel", surface.dst_data.channel, surface.src_data.channel),
    ] {
        dst.same(field, value, "that of src_data", expected)?;
    }
    operation.rdma = true;
    operation.output = dst.output();

    let mut image = Builder::new(context.config, &mut operation.program)?;
    reader(&mut image, context, op, src)?;
    normalization(&mut image, op)?;
    require_memory(dst.field("type"), surface.dst_data.mem_type)?;
    let bytes = context.feature(dst, dst.extents(1), op.out_precision, 0)?;
    let address = context.address(dst, &bytes)?;
    image.address(cdp::D_DST_BASE_ADDR_LOW, cdp::D_DST_BASE_ADDR_HIGH, &address)?;
    image.put(cdp::D_DST_LINE_STRIDE, surface.dst_data.line_stride)?;
    image.put(cdp::D_DST_SURFACE_STRIDE, surface.dst_data.surf_stride)?;
    image.word(code(cdp::D_DST_DMA_CFG::DST_RAM_TYPE, address.ram()))?;
    image.word(code(cdp::D_DATA_FORMAT::INPUT_DATA_TYPE, op.in_precision))?;
    let value = code(cdp::D_PERF_ENABLE::DMA_EN, context.counted) | code(cdp::D_PERF_ENABLE::LUT_EN, context.counted);
    image.word(value)?;
    image.check_accesses(operation.op_type, operation.rdma)
}

fn reader<M: TaskMemory + ?Sized>(
    image: &mut Builder<'_>,
    context: &Context<'_, M>,
    op: &CdpOp,
    src: Named<'_>,
) -> Result<(), Reason> {
    require_memory(src.field("type"), src.cube.mem_type)?;
    let bytes = context.feature(src, src.extents(1), op.in_precision, 0)?;
    let address = context.input_address(src, &bytes, 1)?;
    image.block(Block::CdpRdma);
    let [width, height, channel] = [src.cube.width, src.cube.height, src.cube.channel].map(u32::from);
    image.word(minus_one(cdp_rdma::D_DATA_CUBE_WIDTH::WIDTH, src.field("width"), width)?)?;
    image.word(minus_one(cdp_rdma::D_DATA_CUBE_HEIGHT::HEIGHT, src.field("height"), height)?)?;
    image.word(minus_one(cdp_rdma::D_DATA_CUBE_CHANNEL::CHANNEL, src.field("channel"), channel)?)?;
    image.address(cdp_rdma::D_SRC_BASE_ADDR_LOW, cdp_rdma::D_SRC_BASE_ADDR_HIGH, &address)?;
    image.put(cdp_rdma::D_SRC_LINE_STRIDE, src.cube.line_stride)?;
    image.put(cdp_rdma::D_SRC_SURFACE_STRIDE, src.cube.surf_stride)?;
    image.word(code(cdp_rdma::D_SRC_DMA_CFG::SRC_RAM_TYPE, address.ram()))?;
    image.word(code(cdp_rdma::D_DATA_FORMAT::INPUT_DATA, op.in_precision))?;
    image.word(code(cdp_rdma::D_PERF_ENABLE::DMA_EN, context.counted))
}

fn normalization(image: &mut Builder<'_>, op: &CdpOp) -> Result<(), Reason> {
    let length = match op.local_size {
        3 => NormalizationLength::Len3,
        5 => NormalizationLength::Len5,
        7 => NormalizationLength::Len7,
        9 => NormalizationLength::Len9,
        size => {
            let (value, why) = (i64::from(size), "the window has 3, 5, 7 or 9 channels");
            return Err(Why::Invalid { name: Name::new("local_size"), value, why }.reason());
        }
    };
    image.block(Block::Cdp);
    let value = code(cdp::D_FUNC_BYPASS::SQSUM_BYPASS, op.bypass_sqsum)
        | code(cdp::D_FUNC_BYPASS::MUL_BYPASS, op.bypass_out_mul);
    image.word(value)?;
    image.word(code(cdp::D_LRN_CFG::NORMALZ_LEN, length))?;
    let name = Name::of("in_cvt", "offset");
    // The Verilog asserts it, and the three below: `NV_NVDLA_cdp.v`, lines 457 to 772 of nv_small, 561 to 877 of nv_full's release.
    if op.in_precision == Precision::Int8 {
        bits(name, op.in_cvt.offset.into(), 8)?;
    }
    image.word(signed(cdp::D_DATIN_OFFSET::DATIN_OFFSET, name, op.in_cvt.offset)?)?;
    image.put(cdp::D_DATIN_SCALE, u32::from(op.in_cvt.scale as u16))?;
    let (name, truncate) = (Name::of("in_cvt", "truncate"), u32::from(op.in_cvt.truncate));
    image.word(fit(cdp::D_DATIN_SHIFTER::DATIN_SHIFTER, name, truncate)?)?;
    match op.in_precision {
        Precision::Int8 => bits(Name::of("out_cvt", "offset"), op.out_cvt.offset.into(), 25)?,
        Precision::Fp16 => bits(Name::of("out_cvt", "offset"), op.out_cvt.offset.into(), 16)?,
        Precision::Int16 => {}
    }
    image.put(cdp::D_DATOUT_OFFSET, op.out_cvt.offset as u32)?;
    image.put(cdp::D_DATOUT_SCALE, u32::from(op.out_cvt.scale as u16))?;
    let (name, truncate) = (Name::of("out_cvt", "truncate"), u32::from(op.out_cvt.truncate));
    image.word(fit(cdp::D_DATOUT_SHIFTER::DATOUT_SHIFTER, name, truncate)?)
}

/// The bounds and indices of a lookup table, which have fewer bits in CDP than in its registers.
pub(super) fn check_table(lut: &Lut, precision: Precision) -> Result<(), Reason> {
    let bounds = match precision {
        Precision::Int8 => 22,
        Precision::Int16 => 38,
        Precision::Fp16 => 32,
    };
    for (name, value) in [
        ("linear_exp_start", lut.linear_exp_start),
        ("linear_exp_end", lut.linear_exp_end),
        ("linear_only_start", lut.linear_only_start),
        ("linear_only_end", lut.linear_only_end),
    ] {
        // The registers have 38 bits.
        bits(Name::new(name), ((value << 26) as i64) >> 26, bounds)?;
    }
    let indices = match precision {
        Precision::Int8 => 6,
        Precision::Int16 => 7,
        Precision::Fp16 => 8,
    };
    if lut.method == LutFunction::Linear {
        bits(Name::new("linear_exp_offset"), lut.linear_exp_offset.into(), indices)?;
    }
    bits(Name::new("linear_only_offset"), lut.linear_only_offset.into(), indices)
}
