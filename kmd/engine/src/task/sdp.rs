// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! SDP and its read DMA.
//!
//! Sources: the register manual for fields; `kmd/firmware/sdp.c` of the reference software for the register
//! of each descriptor field.

use super::super::error::{Name, Reason, Why};
use super::super::image::{code, fit, minus_one, signed, BufferAddress, Builder};
use super::super::memory::TaskMemory;
use super::super::slot::{Handover, Modes, Operation};
use super::surface::{require_memory, Bytes, Context, Named};
use crate::uapi::desc::{Activation, CvtParam, DataCube, SdpOp, SdpOperandMode, SdpOperation, SdpSubUnit, SdpSurface};
use crate::uapi::layout::align::Data;
use crate::uapi::layout::feature::Atoms;
use crate::uapi::layout::operand::{Format, Operands};
use crate::uapi::layout::{precision, Extents};
use crate::uapi::reg::values::{AluAlgorithm, ConvMode, OperandMode, OperandSource, OutputDestination, Precision};
use crate::uapi::reg::{sdp, sdp_rdma, Block, Field, Register, Tied};

/// The input of one of the read DMA's three operand channels.
struct OperandChannel {
    address: BufferAddress,
    format: Format,
}

pub(super) fn translate<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    op: &SdpOp,
    surface: &SdpSurface,
    operation: &mut Operation,
) -> Result<(), Reason> {
    let src = Named { name: "src_data", cube: &surface.src_data };
    let dst = Named { name: "dst_data", cube: &surface.dst_data };
    supported(context, op, src, dst)?;
    let processing = processing(op);
    let sizes = [surface.src_data.width, surface.src_data.height, surface.src_data.channel];
    for ((field, value), expected) in
        [("width", surface.dst_data.width), ("height", surface.dst_data.height), ("channel", surface.dst_data.channel)]
            .into_iter()
            .zip(sizes)
    {
        dst.same(field, value, "that of src_data", expected)?;
    }
    operation.consumed = src.is_on_the_fly().then_some(Handover { sizes, precision: processing });
    operation.produced = dst.is_on_the_fly().then_some(Handover { sizes, precision: op.dst_precision });
    operation.modes = Modes { winograd: op.conv_mode == ConvMode::Winograd, batches: op.batch_num.max(1) };
    operation.output = dst.output();

    let extents = src.extents(u32::from(op.batch_num.max(1)));
    let input = if src.is_on_the_fly() {
        None
    } else {
        require_memory(src.field("type"), surface.src_data.mem_type)?;
        let read = widened(context, extents, op.src_precision, op.dst_precision);
        let bytes = context.feature(src, read, op.src_precision, 0)?;
        Some(context.input_address(src, &bytes, 1)?)
    };
    let x1 = operand(context, op.x1_op.as_ref(), "x1_data", &surface.x1_data, extents, processing)?;
    let x2 = operand(context, op.x2_op.as_ref(), "x2_data", &surface.x2_data, extents, processing)?;
    let y = operand(context, op.y_op.as_ref(), "y_data", &surface.y_data, extents, processing)?;
    operation.rdma = input.is_some() || x1.is_some() || x2.is_some() || y.is_some();

    let mut image = Builder::new(context.config, &mut operation.program)?;
    if operation.rdma {
        image.block(Block::SdpRdma);
        reader(&mut image, context, op, src, input)?;
        let channels =
            [(&x1, &X1_RDMA, &surface.x1_data), (&x2, &X2_RDMA, &surface.x2_data), (&y, &Y_RDMA, &surface.y_data)];
        for (operand, registers, cube) in channels {
            operand_channel(&mut image, operand.as_ref(), registers, cube)?;
        }
    }
    image.block(Block::Sdp);
    writer(&mut image, context, op, src, dst)?;
    sub_unit(&mut image, "x1_op", op.x1_op.as_ref(), &X1)?;
    sub_unit(&mut image, "x2_op", op.x2_op.as_ref(), &X2)?;
    element_wise(&mut image, op.y_op.as_ref())?;
    image.check_accesses(operation.op_type, operation.rdma)
}

/// Checks that the configuration supports the operation.
fn supported<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    op: &SdpOp,
    src: Named<'_>,
    dst: Named<'_>,
) -> Result<(), Reason> {
    let config = context.config;
    context.require_precision(Name::new("src_precision"), op.src_precision)?;
    context.require_precision(Name::new("dst_precision"), op.dst_precision)?;
    if (op.src_precision, op.dst_precision) == (Precision::Fp16, Precision::Int8) {
        let (value, why) = (op.dst_precision as i64, "SDP cannot convert fp16 to int8");
        return Err(Why::Invalid { name: Name::new("dst_precision"), value, why }.reason());
    }
    context.require(op.x1_op.is_none() || config.sdp_bs, Name::of("x1_op", "enable"), "SDP sub-unit X1")?;
    context.require(op.x2_op.is_none() || config.sdp_bn, Name::of("x2_op", "enable"), "SDP sub-unit X2")?;
    context.require(op.y_op.is_none() || config.sdp_ew, Name::of("y_op", "enable"), "SDP sub-unit Y")?;
    let looks_up = op.y_op.as_ref().is_some_and(|unit| unit.act == Activation::Lut);
    let without = !looks_up && op.lut_index == -1;
    context.require(config.sdp_lut || without, Name::new("lut_index"), "SDP lookup tables")?;
    if looks_up && op.lut_index == -1 {
        let why = "sub-unit Y looks up a table, and the operation has none";
        return Err(Why::Invalid { name: Name::new("lut_index"), value: -1, why }.reason());
    }
    let direct = op.conv_mode == ConvMode::Direct;
    context.require(direct || config.winograd, Name::new("conv_mode"), "Winograd convolution")?;
    context.require(op.batch_num <= 1 || config.batch, Name::new("batch_num"), "hardware batches")?;
    let batch = |why| Err(Why::Invalid { name: Name::new("batch_num"), value: i64::from(op.batch_num), why }.reason());
    if op.batch_num > 1 && !src.is_on_the_fly() {
        return batch("only data that a convolution hands over can be a batch");
    }
    let winograd = |why| Err(Why::Invalid { name: Name::new("conv_mode"), value: op.conv_mode as i64, why }.reason());
    if !direct && !src.is_on_the_fly() {
        return winograd("only data that a convolution hands over can be Winograd's tiles");
    }
    let DataCube { width, height, .. } = *src.cube;
    if !direct && (!width.is_multiple_of(2) || !height.is_multiple_of(4)) {
        return winograd("the cube is not a whole number of Winograd's tiles, which have two columns and four lines");
    }
    let widens = processing(op) == Precision::Int8 && op.dst_precision != Precision::Int8;
    if op.batch_num > 1 && (!direct || widens || dst.is_on_the_fly()) {
        return batch("a batch excludes Winograd, conversion from 8 to 16 bits and output to PDP");
    }
    if !direct && (widens || dst.is_on_the_fly()) {
        return winograd("Winograd's tiles exclude conversion from 8 to 16 bits and output to PDP");
    }
    let compares = op.y_op.as_ref().is_some_and(|unit| {
        matches!(unit.op_type, SdpOperation::Add | SdpOperation::Both) && unit.alu_type == AluAlgorithm::Eql
    });
    if compares && (!direct || op.batch_num > 1 || dst.is_on_the_fly()) {
        let (name, value) = (Name::of("y_op", "alu_type"), AluAlgorithm::Eql as i64);
        let why = "a comparison excludes output to PDP, Winograd's tiles and a batch";
        return Err(Why::Invalid { name, value, why }.reason());
    }
    if widens && dst.is_on_the_fly() {
        let (value, why) = (op.dst_precision as i64, "PDP cannot take an output that SDP converts from 8 to 16 bits");
        return Err(Why::Invalid { name: Name::new("dst_precision"), value, why }.reason());
    }
    Ok(())
}

/// The precision that SDP computes in.
fn processing(op: &SdpOp) -> Precision {
    precision::processing(op.src_precision, op.dst_precision)
}

/// The cube as SDP touches it: when one side has 8 bits and the other 16, an atom of the 8-bit side is two of the other,
/// and both are touched though the second may hold no channel.
fn widened<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    extents: Extents,
    precision: Precision,
    other: Precision,
) -> Extents {
    if precision == Precision::Int8 || other != Precision::Int8 {
        return extents;
    }
    let atoms = Atoms::of(context.config, Precision::Int8);
    Extents { c: atoms.filled(extents.c as usize) as u32, ..extents }
}

/// A sub-unit's operands in memory, `None` when it has none there.
fn operand<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    unit: Option<&SdpSubUnit>,
    name: &'static str,
    cube: &DataCube,
    extents: Extents,
    processing: Precision,
) -> Result<Option<OperandChannel>, Reason> {
    let atom = context.config.memory_atomic;
    let Some(format) = unit.and_then(|unit| unit.operands(processing, atom)) else { return Ok(None) };
    let surface = Named { name, cube };
    require_memory(surface.field("type"), cube.mem_type)?;
    let extents = Extents { n: 1, ..extents };
    let (line_stride, surface_stride) = (cube.line_stride, cube.surf_stride);
    let operands = Operands::as_programmed(extents, format, u64::from(line_stride), u64::from(surface_stride))
        .map_err(|error| Why::Layout { surface: name, error }.reason())?;
    let mut span = operands.span();
    if extents.w == 1 && extents.h == 1 {
        // The atoms of a 1x1 cube are read one after another, whatever the strides are.
        let packed =
            Operands::packed(extents, format).map_err(|error| Why::Layout { surface: name, error }.reason())?;
        span = span.max(packed.span());
    }
    let strides = format.mode == OperandMode::PerElement;
    let bytes = Bytes {
        line_stride: strides.then_some(line_stride),
        surface_stride: strides.then_some(surface_stride),
        ..Bytes::plain(Data::Bias, span)
    };
    Ok(Some(OperandChannel { address: context.address(surface, &bytes)?, format }))
}

fn reader<M: TaskMemory + ?Sized>(
    image: &mut Builder<'_>,
    context: &Context<'_, M>,
    op: &SdpOp,
    src: Named<'_>,
    input: Option<BufferAddress>,
) -> Result<(), Reason> {
    use sdp_rdma::D_FEATURE_MODE_CFG as mode;
    let value = code(mode::FLYING_MODE, input.is_none())
        | code(mode::WINOGRAD, op.conv_mode == ConvMode::Winograd)
        | code(mode::IN_PRECISION, op.src_precision)
        | code(mode::PROC_PRECISION, processing(op))
        | code(mode::OUT_PRECISION, op.dst_precision)
        | minus_one(mode::BATCH_NUMBER, Name::new("batch_num"), u32::from(op.batch_num))?;
    image.word(value)?;
    let DataCube { width, height, channel, line_stride, surf_stride, .. } = *src.cube;
    image.word(minus_one(sdp_rdma::D_DATA_CUBE_WIDTH::WIDTH, src.field("width"), u32::from(width))?)?;
    image.word(minus_one(sdp_rdma::D_DATA_CUBE_HEIGHT::HEIGHT, src.field("height"), u32::from(height))?)?;
    image.word(minus_one(sdp_rdma::D_DATA_CUBE_CHANNEL::CHANNEL, src.field("channel"), u32::from(channel))?)?;
    if let Some(address) = input {
        image.address(sdp_rdma::D_SRC_BASE_ADDR_LOW, sdp_rdma::D_SRC_BASE_ADDR_HIGH, &address)?;
        image.put(sdp_rdma::D_SRC_LINE_STRIDE, line_stride)?;
        image.put(sdp_rdma::D_SRC_SURFACE_STRIDE, surf_stride)?;
        image.word(code(sdp_rdma::D_SRC_DMA_CFG::SRC_RAM_TYPE, address.ram()))?;
    }
    use sdp_rdma::D_PERF_ENABLE as perf;
    let value = code(perf::PERF_DMA_EN, context.counted) | code(perf::PERF_NAN_INF_COUNT_EN, context.counted);
    image.word(value)
}

/// The registers of one of the read DMA's operand channels. All three have the same fields.
struct OperandRegisters {
    cfg: Register,
    low: Register,
    high: Register,
    line_stride: Register,
    surface_stride: Register,
}

const X1_RDMA: OperandRegisters = OperandRegisters {
    cfg: sdp_rdma::D_BRDMA_CFG,
    low: sdp_rdma::D_BS_BASE_ADDR_LOW,
    high: sdp_rdma::D_BS_BASE_ADDR_HIGH,
    line_stride: sdp_rdma::D_BS_LINE_STRIDE,
    surface_stride: sdp_rdma::D_BS_SURFACE_STRIDE,
};
const X2_RDMA: OperandRegisters = OperandRegisters {
    cfg: sdp_rdma::D_NRDMA_CFG,
    low: sdp_rdma::D_BN_BASE_ADDR_LOW,
    high: sdp_rdma::D_BN_BASE_ADDR_HIGH,
    line_stride: sdp_rdma::D_BN_LINE_STRIDE,
    surface_stride: sdp_rdma::D_BN_SURFACE_STRIDE,
};
const Y_RDMA: OperandRegisters = OperandRegisters {
    cfg: sdp_rdma::D_ERDMA_CFG,
    low: sdp_rdma::D_EW_BASE_ADDR_LOW,
    high: sdp_rdma::D_EW_BASE_ADDR_HIGH,
    line_stride: sdp_rdma::D_EW_LINE_STRIDE,
    surface_stride: sdp_rdma::D_EW_SURFACE_STRIDE,
};

fn operand_channel(
    image: &mut Builder<'_>,
    operand: Option<&OperandChannel>,
    registers: &OperandRegisters,
    cube: &DataCube,
) -> Result<(), Reason> {
    use sdp_rdma::D_BRDMA_CFG as cfg;
    let Some(OperandChannel { address, format }) = operand else {
        // Off.
        return image.put(registers.cfg, registers.cfg.reset);
    };
    let value = code(cfg::BRDMA_DISABLE, false)
        | code(cfg::BRDMA_DATA_USE, format.data_use)
        | code(cfg::BRDMA_DATA_SIZE, format.data_size)
        | code(cfg::BRDMA_DATA_MODE, format.mode)
        | code(cfg::BRDMA_RAM_TYPE, address.ram());
    image.put(registers.cfg, value.bits())?;
    image.address(registers.low, registers.high, address)?;
    // Operands per kernel lie one after another, so only operands per element have strides.
    if format.mode == OperandMode::PerElement {
        image.put(registers.line_stride, cube.line_stride)?;
        image.put(registers.surface_stride, cube.surf_stride)?;
    }
    Ok(())
}

fn writer<M: TaskMemory + ?Sized>(
    image: &mut Builder<'_>,
    context: &Context<'_, M>,
    op: &SdpOp,
    src: Named<'_>,
    dst: Named<'_>,
) -> Result<(), Reason> {
    let DataCube { width, height, channel, .. } = *src.cube;
    let (width, height, channel) = (u32::from(width), u32::from(height), u32::from(channel));
    image.word(minus_one(sdp::D_DATA_CUBE_WIDTH::WIDTH, src.field("width"), width)?)?;
    image.word(minus_one(sdp::D_DATA_CUBE_HEIGHT::HEIGHT, src.field("height"), height)?)?;
    image.word(minus_one(sdp::D_DATA_CUBE_CHANNEL::CHANNEL, src.field("channel"), channel)?)?;

    let destination = if dst.is_on_the_fly() { OutputDestination::Pdp } else { OutputDestination::Mem };
    use sdp::D_FEATURE_MODE_CFG as mode;
    let value = code(mode::FLYING_MODE, src.is_on_the_fly())
        | code(mode::OUTPUT_DST, destination)
        | code(mode::WINOGRAD, op.conv_mode == ConvMode::Winograd)
        | minus_one(mode::BATCH_NUMBER, Name::new("batch_num"), u32::from(op.batch_num))?;
    image.word(value)?;
    if !dst.is_on_the_fly() {
        require_memory(dst.field("type"), dst.cube.mem_type)?;
        let batches = u32::from(op.batch_num.max(1));
        let stride = if batches > 1 { op.batch_stride } else { 0 };
        // What SDP writes has the sizes of what it reads.
        let written = widened(context, src.extents(batches), op.dst_precision, op.src_precision);
        let bytes = context.feature(dst, written, op.dst_precision, stride)?;
        let address = context.address(dst, &bytes)?;
        image.address(sdp::D_DST_BASE_ADDR_LOW, sdp::D_DST_BASE_ADDR_HIGH, &address)?;
        image.put(sdp::D_DST_LINE_STRIDE, dst.cube.line_stride)?;
        image.put(sdp::D_DST_SURFACE_STRIDE, dst.cube.surf_stride)?;
        image.word(code(sdp::D_DST_DMA_CFG::DST_RAM_TYPE, address.ram()))?;
        if batches > 1 {
            image.put(sdp::D_DST_BATCH_STRIDE, op.batch_stride)?;
        }
    }
    let value = code(sdp::D_DATA_FORMAT::PROC_PRECISION, processing(op))
        | code(sdp::D_DATA_FORMAT::OUT_PRECISION, op.dst_precision);
    image.word(value)?;
    image.put(sdp::D_CVT_OFFSET, op.out_cvt.offset as u32)?;
    image.put(sdp::D_CVT_SCALE, u32::from(op.out_cvt.scale as u16))?;
    let truncate = u32::from(op.out_cvt.truncate);
    image.word(fit(sdp::D_CVT_SHIFT::CVT_SHIFT, Name::of("out_cvt", "truncate"), truncate)?)?;
    use sdp::D_PERF_ENABLE as perf;
    let value = code(perf::PERF_DMA_EN, context.counted)
        | code(perf::PERF_LUT_EN, context.counted)
        | code(perf::PERF_SAT_EN, context.counted)
        | code(perf::PERF_NAN_INF_COUNT_EN, context.counted);
    image.word(value)
}

/// The registers of sub-unit X1 or X2. Both have the same fields.
struct SubUnitRegisters {
    cfg: Register,
    alu_cfg: Register,
    alu_operand: Register,
    mul_cfg: Register,
    mul_operand: Register,
}

const X1: SubUnitRegisters = SubUnitRegisters {
    cfg: sdp::D_DP_BS_CFG,
    alu_cfg: sdp::D_DP_BS_ALU_CFG,
    alu_operand: sdp::D_DP_BS_ALU_SRC_VALUE,
    mul_cfg: sdp::D_DP_BS_MUL_CFG,
    mul_operand: sdp::D_DP_BS_MUL_SRC_VALUE,
};
const X2: SubUnitRegisters = SubUnitRegisters {
    cfg: sdp::D_DP_BN_CFG,
    alu_cfg: sdp::D_DP_BN_ALU_CFG,
    alu_operand: sdp::D_DP_BN_ALU_SRC_VALUE,
    mul_cfg: sdp::D_DP_BN_MUL_CFG,
    mul_operand: sdp::D_DP_BN_MUL_SRC_VALUE,
};

/// Whether a sub-unit's ALU and multiplier work.
const fn uses(op_type: SdpOperation) -> (bool, bool) {
    match op_type {
        SdpOperation::None => (false, false),
        SdpOperation::Mul => (false, true),
        SdpOperation::Add => (true, false),
        SdpOperation::Both => (true, true),
    }
}

fn sub_unit(
    image: &mut Builder<'_>,
    name: &'static str,
    unit: Option<&SdpSubUnit>,
    registers: &SubUnitRegisters,
) -> Result<(), Reason> {
    use sdp::{D_DP_BS_ALU_CFG as alu_cfg, D_DP_BS_CFG as cfg, D_DP_BS_MUL_CFG as mul_cfg};
    let Some(unit) = unit else {
        // Bypassed.
        return image.put(registers.cfg, registers.cfg.reset);
    };
    if unit.act == Activation::Lut {
        let (value, why) = (unit.act as i64, "only sub-unit Y has lookup tables");
        return Err(Why::Invalid { name: Name::of(name, "act"), value, why }.reason());
    }
    let (alu, mul) = uses(unit.op_type);
    if alu && unit.alu_type == AluAlgorithm::Eql {
        let (value, why) = (unit.alu_type as i64, "only sub-unit Y compares");
        return Err(Why::Invalid { name: Name::of(name, "alu_type"), value, why }.reason());
    }
    let value = code(cfg::BS_BYPASS, false)
        | code(cfg::BS_ALU_BYPASS, !alu)
        | code(cfg::BS_ALU_ALGO, unit.alu_type)
        | code(cfg::BS_MUL_BYPASS, !mul)
        | code(cfg::BS_MUL_PRELU, unit.act == Activation::Prelu)
        | code(cfg::BS_RELU_BYPASS, unit.act != Activation::Relu);
    image.put(registers.cfg, value.bits())?;
    let layer = unit.mode == SdpOperandMode::PerLayer;
    let source = if layer { OperandSource::Reg } else { OperandSource::Mem };
    if alu {
        let shift = u32::from(unit.shift_value);
        let value =
            code(alu_cfg::BS_ALU_SRC, source) | fit(alu_cfg::BS_ALU_SHIFT_VALUE, Name::of(name, "shift_value"), shift)?;
        image.put(registers.alu_cfg, value.bits())?;
    }
    if layer && alu {
        put_signed(image, registers.alu_operand, sdp::D_DP_BS_ALU_SRC_VALUE::BS_ALU_OPERAND, name, unit.alu_operand)?;
    }
    if layer && mul {
        put_signed(image, registers.mul_operand, sdp::D_DP_BS_MUL_SRC_VALUE::BS_MUL_OPERAND, name, unit.mul_operand)?;
    }
    // The product's shift takes effect even when the multiplier is bypassed.
    let truncate = u32::from(unit.truncate);
    let value =
        code(mul_cfg::BS_MUL_SRC, source) | fit(mul_cfg::BS_MUL_SHIFT_VALUE, Name::of(name, "truncate"), truncate)?;
    image.put(registers.mul_cfg, value.bits())
}

fn put_signed<R: Tied>(
    image: &mut Builder<'_>,
    register: Register,
    field: Field<u32, R>,
    unit: &'static str,
    value: i32,
) -> Result<(), Reason> {
    image.put(register, signed(field, Name::of(unit, "operand"), value)?.bits())
}

/// Sub-unit Y. It has separate converters for operands from memory.
fn element_wise(image: &mut Builder<'_>, unit: Option<&SdpSubUnit>) -> Result<(), Reason> {
    const NAME: &str = "y_op";
    use sdp::{D_DP_EW_ALU_CFG as alu_cfg, D_DP_EW_CFG as cfg, D_DP_EW_MUL_CFG as mul_cfg};
    let Some(unit) = unit else {
        return image.put(sdp::D_DP_EW_CFG, sdp::D_DP_EW_CFG.reset);
    };
    if unit.act == Activation::Relu {
        let (value, why) = (unit.act as i64, "sub-unit Y has no ReLU");
        return Err(Why::Invalid { name: Name::of(NAME, "act"), value, why }.reason());
    }
    let (alu, mul) = uses(unit.op_type);
    let value = code(cfg::EW_BYPASS, false)
        | code(cfg::EW_ALU_BYPASS, !alu)
        | code(cfg::EW_ALU_ALGO, unit.alu_type)
        | code(cfg::EW_MUL_BYPASS, !mul)
        | code(cfg::EW_MUL_PRELU, unit.act == Activation::Prelu)
        | code(cfg::EW_LUT_BYPASS, unit.act != Activation::Lut);
    image.word(value)?;
    let layer = unit.mode == SdpOperandMode::PerLayer;
    let source = if layer { OperandSource::Reg } else { OperandSource::Mem };
    if alu {
        let value = code(alu_cfg::EW_ALU_SRC, source) | code(alu_cfg::EW_ALU_CVT_BYPASS, unit.alu_cvt.enable == 0);
        image.word(value)?;
        if layer {
            image.put(sdp::D_DP_EW_ALU_SRC_VALUE, unit.alu_operand as u32)?;
        } else {
            converter(image, "y_op.alu_cvt", unit.alu_cvt, &ALU_CONVERTER)?;
        }
    }
    if mul {
        let value = code(mul_cfg::EW_MUL_SRC, source) | code(mul_cfg::EW_MUL_CVT_BYPASS, unit.mul_cvt.enable == 0);
        image.word(value)?;
        if layer {
            image.put(sdp::D_DP_EW_MUL_SRC_VALUE, unit.mul_operand as u32)?;
        } else {
            converter(image, "y_op.mul_cvt", unit.mul_cvt, &MUL_CONVERTER)?;
        }
    }
    image.put(sdp::D_DP_EW_TRUNCATE_VALUE, u32::from(unit.truncate))
}

/// The registers of one of Y's operand converters.
struct ConverterRegisters {
    offset: Register,
    scale: Register,
    truncate: Register,
}

const ALU_CONVERTER: ConverterRegisters = ConverterRegisters {
    offset: sdp::D_DP_EW_ALU_CVT_OFFSET_VALUE,
    scale: sdp::D_DP_EW_ALU_CVT_SCALE_VALUE,
    truncate: sdp::D_DP_EW_ALU_CVT_TRUNCATE_VALUE,
};
const MUL_CONVERTER: ConverterRegisters = ConverterRegisters {
    offset: sdp::D_DP_EW_MUL_CVT_OFFSET_VALUE,
    scale: sdp::D_DP_EW_MUL_CVT_SCALE_VALUE,
    truncate: sdp::D_DP_EW_MUL_CVT_TRUNCATE_VALUE,
};

fn converter(
    image: &mut Builder<'_>,
    name: &'static str,
    converter: CvtParam,
    registers: &ConverterRegisters,
) -> Result<(), Reason> {
    if converter.enable == 0 {
        return Ok(());
    }
    image.put(registers.offset, converter.offset as u32)?;
    image.put(registers.scale, u32::from(converter.scale as u16))?;
    let field = sdp::D_DP_EW_ALU_CVT_TRUNCATE_VALUE::EW_ALU_CVT_TRUNCATE;
    image.put(registers.truncate, fit(field, Name::of(name, "truncate"), u32::from(converter.truncate))?.bits())
}
