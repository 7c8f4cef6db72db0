// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! PDP and its read DMA.
//!
//! Sources: the register manual for fields; `kmd/firmware/pdp.c` of the reference software for the register
//! of each descriptor field.

use super::super::error::{Name, Reason, Why};
use super::super::image::{bits, code, fit, minus_one, signed, BufferAddress, Builder};
use super::super::memory::TaskMemory;
use super::super::slot::{Handover, Operation};
use super::agree;
use super::surface::{require_memory, Context, Named};
use crate::uapi::config::Config;
use crate::uapi::desc::{MemoryType, PdpOp, PdpSurface, PDP_PADDING_VALUES};
use crate::uapi::reg::values::{PdpFlyingMode, PoolingMethod, Precision};
use crate::uapi::reg::{pdp, pdp_rdma, Block, Field, Register, Tied, Word};

/// The largest window, in each direction.
const MAX_WINDOW: u32 = 8;

pub(super) fn translate<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    op: &PdpOp,
    surface: &PdpSurface,
    operation: &mut Operation,
) -> Result<(), Reason> {
    let src = Named { name: "src_data", cube: &surface.src_data };
    let dst = Named { name: "dst_data", cube: &surface.dst_data };
    context.require(context.config.pdp, Name::new("op_type"), "PDP")?;
    context.require_precision(Name::new("precision"), op.precision)?;
    dst.same("channel", surface.dst_data.channel, "that of src_data", surface.src_data.channel)?;
    window(op, surface)?;
    line_buffer(context.config, op, surface)?;
    operation.output = dst.output();
    operation.rdma = !src.is_on_the_fly();
    let (width, height, channel) = (surface.src_data.width, surface.src_data.height, surface.src_data.channel);
    operation.consumed =
        src.is_on_the_fly().then_some(Handover { sizes: [width, height, channel], precision: op.precision });
    if src.is_on_the_fly() && op.split_num != 1 {
        let (name, value) = (Name::new("split_num"), i64::from(op.split_num));
        return Err(Why::Range { name, value, minimum: 1, maximum: 1 }.reason());
    }

    let mut image = Builder::new(context.config, &mut operation.program)?;
    if operation.rdma {
        require_memory(src.field("type"), surface.src_data.mem_type)?;
        let bytes = context.feature(src, src.extents(1), op.precision, 0)?;
        let address = context.input_address(src, &bytes, 1)?;
        image.block(Block::PdpRdma);
        reader(&mut image, context, op, src, &address)?;
    }
    image.block(Block::Pdp);
    pooling(&mut image, op, src, dst)?;
    writer(&mut image, context, op, dst)?;
    image.check_accesses(operation.op_type, operation.rdma)?;
    agree::pooling(op, surface)?;
    Ok(())
}

/// Checks that the hardware has the window, and that the output has no more elements than there are windows over the padded
/// input.
fn window(op: &PdpOp, surface: &PdpSurface) -> Result<(), Reason> {
    for (name, value) in [
        ("pool_width + 1, the window's width,", op.pool_width),
        ("pool_height + 1, the window's height,", op.pool_height),
    ] {
        let (value, maximum) = (i64::from(value) + 1, i64::from(MAX_WINDOW));
        if value > maximum {
            return Err(Why::Range { name: Name::new(name), value, minimum: 1, maximum }.reason());
        }
    }
    let (src, dst) = (&surface.src_data, &surface.dst_data);
    for (field, size, before, after, window, stride, out) in [
        ("width", src.width, op.pad_left, op.pad_right, op.pool_width, op.stride_x, dst.width),
        ("height", src.height, op.pad_top, op.pad_bottom, op.pool_height, op.stride_y, dst.height),
    ] {
        let padded = i64::from(size) + i64::from(before) + i64::from(after);
        let most = (padded - i64::from(window) - 1).div_euclid(i64::from(stride).max(1)) + 1;
        if i64::from(out) > most {
            let (name, value) = (Name::of("dst_data", field), i64::from(out));
            return Err(Why::Range { name, value, minimum: 1, maximum: most }.reason());
        }
    }
    Ok(())
}

/// Checks that the output's lines, or those of each part, fit PDP's line buffer.
fn line_buffer(config: &Config, op: &PdpOp, surface: &PdpSurface) -> Result<(), Reason> {
    let (window, stride) = (u32::from(op.pool_height) + 1, u32::from(op.stride_y));
    let maximum = i64::from(config.pdp_columns(window, stride));
    let can_split = surface.src_data.mem_type != MemoryType::Hw;
    let check = |name: Name, width: u16| {
        let value = i64::from(width);
        if value <= maximum {
            return Ok(());
        }
        Err(Why::LineBuffer { name, value, maximum, window, stride, can_split }.reason())
    };
    if op.split_num <= 1 {
        return check(Name::of("dst_data", "width"), surface.dst_data.width);
    }
    check(Name::new("partial_width_first"), op.partial_width_first)?;
    check(Name::new("partial_width_last"), op.partial_width_last)?;
    if op.split_num > 2 {
        check(Name::new("partial_width_mid"), op.partial_width_mid)?;
    }
    Ok(())
}

/// A part's width minus one, 0 when there is none.
fn part<R: Tied>(field: Field<u32, R>, name: &'static str, width: u16) -> Result<Word<R>, Reason> {
    match width {
        0 => Ok(Word::new(0)),
        width => minus_one(field, Name::new(name), u32::from(width)),
    }
}

fn parts_in<R: Tied>(op: &PdpOp, [first, last, mid]: [Field<u32, R>; 3]) -> Result<Word<R>, Reason> {
    Ok(part(first, "partial_in_width_first", op.partial_in_width_first)?
        | part(last, "partial_in_width_last", op.partial_in_width_last)?
        | part(mid, "partial_in_width_mid", op.partial_in_width_mid)?)
}

fn parts_out(op: &PdpOp) -> Result<Word<pdp::D_PARTIAL_WIDTH_OUT>, Reason> {
    use pdp::D_PARTIAL_WIDTH_OUT as field;
    Ok(part(field::PARTIAL_WIDTH_OUT_FIRST, "partial_width_first", op.partial_width_first)?
        | part(field::PARTIAL_WIDTH_OUT_LAST, "partial_width_last", op.partial_width_last)?
        | part(field::PARTIAL_WIDTH_OUT_MID, "partial_width_mid", op.partial_width_mid)?)
}

fn split<R: Tied>(op: &PdpOp, field: Field<u32, R>) -> Result<Word<R>, Reason> {
    minus_one(field, Name::new("split_num"), u32::from(op.split_num))
}

fn reader<M: TaskMemory + ?Sized>(
    image: &mut Builder<'_>,
    context: &Context<'_, M>,
    op: &PdpOp,
    src: Named<'_>,
    address: &BufferAddress,
) -> Result<(), Reason> {
    use pdp_rdma::{D_PARTIAL_WIDTH_IN as partial, D_POOLING_KERNEL_CFG as kernel};
    let [width, height, channel] = [src.cube.width, src.cube.height, src.cube.channel].map(u32::from);
    image.word(minus_one(pdp_rdma::D_DATA_CUBE_IN_WIDTH::CUBE_IN_WIDTH, src.field("width"), width)?)?;
    image.word(minus_one(pdp_rdma::D_DATA_CUBE_IN_HEIGHT::CUBE_IN_HEIGHT, src.field("height"), height)?)?;
    image.word(minus_one(pdp_rdma::D_DATA_CUBE_IN_CHANNEL::CUBE_IN_CHANNEL, src.field("channel"), channel)?)?;
    let mode = code(pdp_rdma::D_FLYING_MODE::FLYING_MODE, PdpFlyingMode::OffFlying);
    image.word(mode)?;
    image.address(pdp_rdma::D_SRC_BASE_ADDR_LOW, pdp_rdma::D_SRC_BASE_ADDR_HIGH, address)?;
    image.put(pdp_rdma::D_SRC_LINE_STRIDE, src.cube.line_stride)?;
    image.put(pdp_rdma::D_SRC_SURFACE_STRIDE, src.cube.surf_stride)?;
    image.word(code(pdp_rdma::D_SRC_RAM_CFG::SRC_RAM_TYPE, address.ram()))?;
    image.word(code(pdp_rdma::D_DATA_FORMAT::INPUT_DATA, op.precision))?;
    image.word(split(op, pdp_rdma::D_OPERATION_MODE_CFG::SPLIT_NUM)?)?;
    let value = fit(kernel::KERNEL_WIDTH, Name::new("pool_width"), u32::from(op.pool_width))?
        | minus_one(kernel::KERNEL_STRIDE_WIDTH, Name::new("stride_x"), u32::from(op.stride_x))?;
    image.word(value)?;
    let padding = pdp_rdma::D_POOLING_PADDING_CFG::PAD_WIDTH;
    image.word(fit(padding, Name::new("pad_left"), u32::from(op.pad_left))?)?;
    let parts = [partial::PARTIAL_WIDTH_IN_FIRST, partial::PARTIAL_WIDTH_IN_LAST, partial::PARTIAL_WIDTH_IN_MID];
    image.word(parts_in(op, parts)?)?;
    image.word(code(pdp_rdma::D_PERF_ENABLE::DMA_EN, context.counted))
}

/// 1 / window, by which PDP multiplies: a fraction of 16 bits, or half precision, rounded down.
fn reciprocal(precision: Precision, window_minus_one: u8) -> u32 {
    const FIXED: [u32; MAX_WINDOW as usize] = [0x10000, 0x8000, 0x5555, 0x4000, 0x3333, 0x2aaa, 0x2492, 0x2000];
    const HALF: [u32; MAX_WINDOW as usize] = [0x7c00, 0x7800, 0x7555, 0x7400, 0x7266, 0x7155, 0x7092, 0x7000];
    let table = if precision == Precision::Fp16 { &HALF } else { &FIXED };
    table.get(usize::from(window_minus_one)).copied().unwrap_or(0)
}

fn pooling(image: &mut Builder<'_>, op: &PdpOp, src: Named<'_>, dst: Named<'_>) -> Result<(), Reason> {
    let [width, height, channel] = [src.cube.width, src.cube.height, src.cube.channel].map(u32::from);
    image.word(minus_one(pdp::D_DATA_CUBE_IN_WIDTH::CUBE_IN_WIDTH, src.field("width"), width)?)?;
    image.word(minus_one(pdp::D_DATA_CUBE_IN_HEIGHT::CUBE_IN_HEIGHT, src.field("height"), height)?)?;
    image.word(minus_one(pdp::D_DATA_CUBE_IN_CHANNEL::CUBE_IN_CHANNEL, src.field("channel"), channel)?)?;
    let [width, height, channel] = [dst.cube.width, dst.cube.height, dst.cube.channel].map(u32::from);
    image.word(minus_one(pdp::D_DATA_CUBE_OUT_WIDTH::CUBE_OUT_WIDTH, dst.field("width"), width)?)?;
    image.word(minus_one(pdp::D_DATA_CUBE_OUT_HEIGHT::CUBE_OUT_HEIGHT, dst.field("height"), height)?)?;
    image.word(minus_one(pdp::D_DATA_CUBE_OUT_CHANNEL::CUBE_OUT_CHANNEL, dst.field("channel"), channel)?)?;

    use pdp::{D_OPERATION_MODE_CFG as mode, D_POOLING_KERNEL_CFG as kernel, D_POOLING_PADDING_CFG as padding};
    let flying = if src.is_on_the_fly() { PdpFlyingMode::OnFlying } else { PdpFlyingMode::OffFlying };
    let value =
        code(mode::POOLING_METHOD, op.pool_mode) | code(mode::FLYING_MODE, flying) | split(op, mode::SPLIT_NUM)?;
    image.word(value)?;
    use pdp::D_PARTIAL_WIDTH_IN as partial;
    let parts = [partial::PARTIAL_WIDTH_IN_FIRST, partial::PARTIAL_WIDTH_IN_LAST, partial::PARTIAL_WIDTH_IN_MID];
    image.word(parts_in(op, parts)?)?;
    image.word(parts_out(op)?)?;
    let value = fit(kernel::KERNEL_WIDTH, Name::new("pool_width"), u32::from(op.pool_width))?
        | fit(kernel::KERNEL_HEIGHT, Name::new("pool_height"), u32::from(op.pool_height))?
        | minus_one(kernel::KERNEL_STRIDE_WIDTH, Name::new("stride_x"), u32::from(op.stride_x))?
        | minus_one(kernel::KERNEL_STRIDE_HEIGHT, Name::new("stride_y"), u32::from(op.stride_y))?;
    image.word(value)?;
    let value = fit(padding::PAD_LEFT, Name::new("pad_left"), u32::from(op.pad_left))?
        | fit(padding::PAD_RIGHT, Name::new("pad_right"), u32::from(op.pad_right))?
        | fit(padding::PAD_TOP, Name::new("pad_top"), u32::from(op.pad_top))?
        | fit(padding::PAD_BOTTOM, Name::new("pad_bottom"), u32::from(op.pad_bottom))?;
    image.word(value)?;
    // Only averages divide, and only they add padding.
    if op.pool_mode != PoolingMethod::Average {
        return Ok(());
    }
    image.put(pdp::D_RECIP_KERNEL_WIDTH, reciprocal(op.precision, op.pool_width))?;
    image.put(pdp::D_RECIP_KERNEL_HEIGHT, reciprocal(op.precision, op.pool_height))?;
    const VALUES: [Register; PDP_PADDING_VALUES] = [
        pdp::D_POOLING_PADDING_VALUE_1_CFG,
        pdp::D_POOLING_PADDING_VALUE_2_CFG,
        pdp::D_POOLING_PADDING_VALUE_3_CFG,
        pdp::D_POOLING_PADDING_VALUE_4_CFG,
        pdp::D_POOLING_PADDING_VALUE_5_CFG,
        pdp::D_POOLING_PADDING_VALUE_6_CFG,
        pdp::D_POOLING_PADDING_VALUE_7_CFG,
    ];
    let first = op.padding_value.first().map_or(0, |&value| i64::from(value));
    // The Verilog asserts it: `NV_NVDLA_PDP_core.v`, line 210 of nv_small.
    bits(Name::new("padding_value"), first, if op.precision == Precision::Int8 { 8 } else { 16 })?;
    for ((register, &value), times) in VALUES.into_iter().zip(&op.padding_value).zip(1..) {
        let name = Name::new("padding_value");
        // The Verilog asserts it: `NV_NVDLA_pdp.v`, lines 483 to 708.
        if i64::from(value) != first * times {
            let other = "that number of padding elements times the first padding_value";
            return Err(Why::Mismatch { name, value: value.into(), other, expected: first * times }.reason());
        }
        if op.precision == Precision::Fp16 && value != 0 {
            return Err(Why::Range { name, value: i64::from(value), minimum: 0, maximum: 0 }.reason());
        }
        // All seven have the field of the first.
        let value = signed(pdp::D_POOLING_PADDING_VALUE_1_CFG::PAD_VALUE_1X, name, value)?;
        image.put(register, value.bits())?;
    }
    Ok(())
}

fn writer<M: TaskMemory + ?Sized>(
    image: &mut Builder<'_>,
    context: &Context<'_, M>,
    op: &PdpOp,
    dst: Named<'_>,
) -> Result<(), Reason> {
    require_memory(dst.field("type"), dst.cube.mem_type)?;
    let bytes = context.feature(dst, dst.extents(1), op.precision, 0)?;
    let address = context.address(dst, &bytes)?;
    image.address(pdp::D_DST_BASE_ADDR_LOW, pdp::D_DST_BASE_ADDR_HIGH, &address)?;
    image.put(pdp::D_DST_LINE_STRIDE, dst.cube.line_stride)?;
    image.put(pdp::D_DST_SURFACE_STRIDE, dst.cube.surf_stride)?;
    image.word(code(pdp::D_DST_RAM_CFG::DST_RAM_TYPE, address.ram()))?;
    image.word(code(pdp::D_DATA_FORMAT::INPUT_DATA, op.precision))?;
    image.word(code(pdp::D_PERF_ENABLE::DMA_EN, context.counted))
}
