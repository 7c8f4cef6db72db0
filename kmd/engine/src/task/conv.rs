// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The convolution pipeline: CDMA, CSC, CMAC and CACC.
//!
//! Sources: the register manual for fields; `kmd/firmware/conv.c` of the reference software for the register
//! of each descriptor field; the hardware's C-model for the memory that is read.

use super::super::error::{Name, Reason, Why};
use super::super::image::{code, fit, minus_one, signed, BufferAddress, Builder};
use super::super::memory::TaskMemory;
use super::super::slot::{Handover, Modes, Operation, Sharing};
use super::agree;
use super::surface::{require_memory, Bytes, Context, Named};
use crate::uapi::desc::{ConvOp, ConvSurface, DataFormat};
use crate::uapi::layout::align::{self, Data};
use crate::uapi::layout::feature::Atoms;
use crate::uapi::layout::pixel::{self, Image};
use crate::uapi::layout::weight::Geometry;
use crate::uapi::layout::{bytes, round_up, Error as LayoutError};
use crate::uapi::reg::values::{ConvMode, DataFormat as InputFormat, WeightFormat};
use crate::uapi::reg::{cacc, cdma, cmac_a, csc, Block, Field, Tied, Word};

/// What the pipeline reads.
struct Input {
    address: BufferAddress,
    /// The second plane of an image that has one.
    chroma: Option<BufferAddress>,
}

/// Weights, and the surfaces that go with compressed ones. All lie in the same memory, because one register selects the
/// interface for the three.
struct Weights {
    address: BufferAddress,
    wmb: Option<BufferAddress>,
    wgs: Option<BufferAddress>,
}

pub(super) fn translate<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    op: &ConvOp,
    surface: &ConvSurface,
    operation: &mut Operation,
) -> Result<(), Reason> {
    supported(context, op)?;
    let dst = Named { name: "dst_data", cube: &surface.dst_data };
    if !dst.is_on_the_fly() {
        let why = "a convolution's output is handed to SDP, not stored";
        return Err(Why::Invalid { name: dst.field("type"), value: surface.dst_data.mem_type as i64, why }.reason());
    }
    operation.produced = Some(Handover {
        sizes: [surface.dst_data.width, surface.dst_data.height, surface.dst_data.channel],
        precision: op.out_precision,
    });
    operation.modes = Modes { winograd: op.conv_mode == ConvMode::Winograd, batches: op.batch };
    operation.sharing = Sharing {
        reuses: [op.data_reuse, op.weight_reuse],
        keeps: [op.skip_data_rls, op.skip_weight_rls],
        keeps_lines: u32::from(op.release) < u32::from(op.input_height_csc) * u32::from(op.batch),
        form: [op.conv_mode as u32, input_format(op) as u32, u32::from(op.data_bank) << 16 | u32::from(op.weight_bank)],
    };
    let input = input(context, op, surface)?;
    let weights = weights(context, op, surface)?;

    let mut image = Builder::new(context.config, &mut operation.program)?;
    accumulator(&mut image, context, op, surface)?;
    for block in [Block::CmacA, Block::CmacB] {
        image.block(block);
        let value = code(cmac_a::D_MISC_CFG::CONV_MODE, op.conv_mode)
            | code(cmac_a::D_MISC_CFG::PROC_PRECISION, op.out_precision);
        image.word(value)?;
    }
    sequencer(&mut image, op, surface)?;
    reader(&mut image, context, op, surface, &input, &weights)?;
    image.check_accesses(operation.op_type, operation.rdma)?;
    operation.buffer_use = Some(agree::convolution(context.config, op, surface)?);
    Ok(())
}

/// Checks that the configuration supports the operation.
fn supported<M: TaskMemory + ?Sized>(context: &Context<'_, M>, op: &ConvOp) -> Result<(), Reason> {
    let config = context.config;
    let name = Name::new("out_precision");
    context.require_precision(name, op.out_precision)?;
    context.require(config.weight_types.contains(&op.out_precision), name, "weights of that precision")?;
    if op.data_format == DataFormat::Feature {
        context.require_precision(Name::new("in_precision"), op.in_precision)?;
    }
    let direct = op.conv_mode == ConvMode::Direct;
    context.require(direct || config.winograd, Name::new("conv_mode"), "Winograd convolution")?;
    let compressed = op.weight_format == WeightFormat::Compressed;
    context.require(!compressed || config.weight_compression, Name::new("weight_format"), "weight compression")?;
    context.require(op.batch <= 1 || config.batch, Name::new("batch"), "hardware batches")?;
    if let (Some(most), true) = (config.max_batch, op.batch > 1) {
        let (value, maximum) = (i64::from(op.batch), i64::from(most));
        if value > maximum {
            return Err(Why::Range { name: Name::new("batch"), value, minimum: 1, maximum }.reason());
        }
    }
    // Compressed weights keep their mask in the last bank.
    let banks = i64::from(config.cbuf_banks) - i64::from(compressed);
    let used = i64::from(op.data_bank) + i64::from(op.weight_bank);
    if used > banks {
        return Err(
            Why::Range { name: Name::new("data_bank + weight_bank"), value: used, minimum: 2, maximum: banks }.reason()
        );
    }
    // CACC only shifts and clips; it does not scale.
    if op.out_cvt.scale != 1 {
        let (name, value) = (Name::of("out_cvt", "scale"), i64::from(op.out_cvt.scale));
        return Err(Why::Range { name, value, minimum: 1, maximum: 1 }.reason());
    }
    if op.out_cvt.offset != 0 {
        let (name, value) = (Name::of("out_cvt", "offset"), i64::from(op.out_cvt.offset));
        return Err(Why::Range { name, value, minimum: 0, maximum: 0 }.reason());
    }
    Ok(())
}

fn input<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    op: &ConvOp,
    surface: &ConvSurface,
) -> Result<Input, Reason> {
    let src = Named { name: "src_data", cube: &surface.src_data };
    require_memory(src.field("type"), surface.src_data.mem_type)?;
    let DataFormat::Pixel(format) = op.data_format else {
        let batch_stride = if op.batch > 1 { op.batch_stride } else { 0 };
        let bytes = context.feature(src, src.extents(u32::from(op.batch.max(1))), op.in_precision, batch_stride)?;
        let pixel = bytes_per_pixel(op);
        return Ok(Input { address: context.input_address(src, &bytes, pixel)?, chroma: None });
    };
    if op.batch > 1 {
        let (value, why) = (i64::from(op.batch), "images cannot be batched");
        return Err(Why::Invalid { name: Name::new("batch"), value, why }.reason());
    }
    let (width, height) = (u32::from(surface.src_data.width), u32::from(surface.src_data.height));
    let strides = [u64::from(surface.src_data.line_stride), u64::from(surface.in_line_uv_stride)];
    let layout = |error: LayoutError| {
        let chroma = error.value == strides[1] && error.value != strides[0];
        Why::Layout { surface: if chroma { "second plane of src_data" } else { "src_data" }, error }.reason()
    };
    let image = Image::unpacked(format, width, height, 0, context.config.memory_atomic, strides).map_err(layout)?;
    src.same(
        "channel",
        surface.src_data.channel,
        "the number of channels of its pixel format",
        image.extents().c as u16,
    )?;
    let luma = Bytes { line_stride: Some(surface.src_data.line_stride), ..Bytes::plain(Data::Pixel, image.span(0)) };
    let address = context.input_address(src, &luma, image.format().bytes_per_pixel[0])?;
    if image.format().planes < 2 {
        return Ok(Input { address, chroma: None });
    }
    let chroma = Bytes { line_stride: Some(surface.in_line_uv_stride), ..Bytes::plain(Data::Pixel, image.span(1)) };
    let name = "second plane of src_data";
    let start = i128::from(surface.src_data.offset) + i128::from(surface.offset_u);
    let Ok(start) = u64::try_from(start) else {
        let (value, minimum) = (surface.offset_u, -i64::from(surface.src_data.offset));
        return Err(Why::Range { name: Name::new("offset_u"), value, minimum, maximum: i64::MAX }.reason());
    };
    if surface.offset_u.unsigned_abs() < if surface.offset_u < 0 { chroma.span } else { luma.span } {
        let (value, minimum) = (surface.offset_u, i64::try_from(luma.span).unwrap_or(i64::MAX));
        return Err(Why::Range { name: Name::new("offset_u"), value, minimum, maximum: i64::MAX }.reason());
    }
    if context.region.is_some() {
        let (value, why) = (i64::from(surface.src_data.address), "regions of interest have one plane");
        return Err(Why::Invalid { name: src.field("address"), value, why }.reason());
    }
    let chroma = context.address_at(name, surface.src_data.address, start, &chroma)?;
    Ok(Input { address, chroma: Some(chroma) })
}

/// Bytes by which a region's left edge moves the input: a pixel, or two for features, as the reference driver has it.
fn bytes_per_pixel(op: &ConvOp) -> u32 {
    match op.data_format {
        DataFormat::Pixel(format) => pixel::Format::new(format).bytes_per_pixel[0],
        DataFormat::Feature => 2,
    }
}

fn weights<M: TaskMemory + ?Sized>(
    context: &Context<'_, M>,
    op: &ConvOp,
    surface: &ConvSurface,
) -> Result<Weights, Reason> {
    let data = Named { name: "weight_data", cube: &surface.weight_data };
    require_memory(data.field("type"), surface.weight_data.mem_type)?;
    let kernels = u64::from(surface.dst_data.channel);
    let compressed = op.weight_format == WeightFormat::Compressed;
    let size = surface.weight_data.size;
    // What the kernels need, which a plain surface must hold; reading goes by whole units of the size's alignment.
    let needed = u64::from(op.bytes_per_kernel) * kernels;
    if !compressed && u64::from(size) < needed {
        let (name, value) = (data.field("size"), i64::from(size));
        return Err(Why::Range { name, value, minimum: needed as i64, maximum: i64::from(u32::MAX) }.reason());
    }
    let unit = u64::from(align::weight_size(context.config));
    let span = if compressed { u64::from(size) } else { u64::from(size).max(round_up(needed, unit)) };
    let address = context.address(data, &Bytes { size: Some(size), ..Bytes::plain(Data::Weight, span) })?;
    if !compressed {
        return Ok(Weights { address, wmb: None, wgs: None });
    }

    let mask = Named { name: "wmb_data", cube: &surface.wmb_data };
    let bits = needed / u64::from(bytes(op.out_precision));
    let size = surface.wmb_data.size;
    if u64::from(size) * 8 < bits {
        let (name, value) = (mask.field("size"), i64::from(size));
        return Err(Why::Range { name, value, minimum: bits.div_ceil(8) as i64, maximum: i64::from(u32::MAX) }.reason());
    }
    let spanned = Bytes { size: Some(size), ..Bytes::plain(Data::Wmb, u64::from(size)) };
    let wmb = context.address(mask, &spanned)?;

    let sizes = Named { name: "wgs_data", cube: &surface.wgs_data };
    let geometry = Geometry::of(context.config, op.out_precision);
    let span = geometry.wgs_read(context.config, surface.dst_data.channel.into()).max(surface.wgs_data.size.into());
    let wgs = context.address(sizes, &Bytes::plain(Data::Wgs, span))?;
    for (other, place) in [(mask.name, &wmb), (sizes.name, &wgs)] {
        let (memory, other_memory) = (address.ram(), place.ram());
        if other_memory != memory {
            return Err(Why::Apart { surface: data.name, memory, other, other_memory }.reason());
        }
    }
    Ok(Weights { address, wmb: Some(wmb), wgs: Some(wgs) })
}

fn accumulator<M: TaskMemory + ?Sized>(
    image: &mut Builder<'_>,
    context: &Context<'_, M>,
    op: &ConvOp,
    surface: &ConvSurface,
) -> Result<(), Reason> {
    use cacc::{D_BATCH_NUMBER, D_CLIP_CFG, D_DATAOUT_MAP, D_DATAOUT_SIZE_0, D_DATAOUT_SIZE_1, D_MISC_CFG};
    let dst = Named { name: "dst_data", cube: &surface.dst_data };
    let (width, height) = (u32::from(surface.dst_data.width), u32::from(surface.dst_data.height));
    image.block(Block::Cacc);
    let value = code(D_MISC_CFG::CONV_MODE, op.conv_mode) | code(D_MISC_CFG::PROC_PRECISION, op.out_precision);
    image.word(value)?;
    let value = minus_one(D_DATAOUT_SIZE_0::DATAOUT_WIDTH, dst.field("width"), width)?
        | minus_one(D_DATAOUT_SIZE_0::DATAOUT_HEIGHT, dst.field("height"), height)?;
    image.word(value)?;
    let channels = u32::from(surface.dst_data.channel);
    image.word(minus_one(D_DATAOUT_SIZE_1::DATAOUT_CHANNEL, dst.field("channel"), channels)?)?;
    image.word(minus_one(D_BATCH_NUMBER::BATCHES, Name::new("batch"), u32::from(op.batch))?)?;
    // CACC hands batches over in the order of addresses, and needs strides only for that.
    if op.batch > 1 {
        let (line_stride, surf_stride) = (surface.dst_data.line_stride, surface.dst_data.surf_stride);
        image.word(fit(cacc::D_LINE_STRIDE::LINE_STRIDE, dst.field("line_stride"), line_stride)?)?;
        image.word(fit(cacc::D_SURF_STRIDE::SURF_STRIDE, dst.field("surf_stride"), surf_stride)?)?;
    }
    let packed = width == 1 && height == 1;
    if packed && surface.dst_data.line_stride != context.config.memory_atomic {
        let value = i64::from(surface.dst_data.line_stride);
        let expected = i64::from(context.config.memory_atomic);
        return Err(
            Why::Mismatch { name: dst.field("line_stride"), value, other: "the atom of a 1x1 cube", expected }.reason()
        );
    }
    let value = code(D_DATAOUT_MAP::LINE_PACKED, packed) | code(D_DATAOUT_MAP::SURF_PACKED, packed);
    image.word(value)?;
    let truncate = u32::from(op.out_cvt.truncate);
    image.word(fit(D_CLIP_CFG::CLIP_TRUNCATE, Name::of("out_cvt", "truncate"), truncate)?)
}

/// The register's kind of input.
fn input_format(op: &ConvOp) -> InputFormat {
    match op.data_format {
        DataFormat::Feature => InputFormat::Feature,
        DataFormat::Pixel(_) => InputFormat::Pixel,
    }
}

fn sequencer(image: &mut Builder<'_>, op: &ConvOp, surface: &ConvSurface) -> Result<(), Reason> {
    let dst = Named { name: "dst_data", cube: &surface.dst_data };
    let (width, height) = (u32::from(surface.dst_data.width), u32::from(surface.dst_data.height));
    let kernels = u32::from(surface.dst_data.channel);
    let wide = |value: u16| u32::from(value);
    image.block(Block::Csc);

    use csc::D_MISC_CFG as misc;
    let value = code(misc::CONV_MODE, op.conv_mode)
        | code(misc::IN_PRECISION, op.out_precision)
        | code(misc::PROC_PRECISION, op.out_precision)
        | code(misc::DATA_REUSE, op.data_reuse)
        | code(misc::WEIGHT_REUSE, op.weight_reuse)
        | code(misc::SKIP_DATA_RLS, op.skip_data_rls)
        | code(misc::SKIP_WEIGHT_RLS, op.skip_weight_rls);
    image.word(value)?;
    image.word(code(csc::D_DATAIN_FORMAT::DATAIN_FORMAT, input_format(op)))?;

    use csc::{D_DATAIN_SIZE_EXT_0 as size_0, D_DATAIN_SIZE_EXT_1 as size_1};
    let value = minus_one(size_0::DATAIN_WIDTH_EXT, Name::new("input_width_csc"), wide(op.input_width_csc))?
        | minus_one(size_0::DATAIN_HEIGHT_EXT, Name::new("input_height_csc"), wide(op.input_height_csc))?;
    image.word(value)?;
    let name = Name::new("input_channel_csc");
    image.word(minus_one(size_1::DATAIN_CHANNEL_EXT, name, wide(op.input_channel_csc))?)?;
    let batches = minus_one(csc::D_BATCH_NUMBER::BATCHES, Name::new("batch"), u32::from(op.batch))?;
    image.word(batches)?;
    if op.post_extension > 2 {
        let value = i64::from(op.post_extension);
        return Err(Why::Range { name: Name::new("post_extension"), value, minimum: 0, maximum: 2 }.reason());
    }
    image.word(fit(
        csc::D_POST_Y_EXTENSION::Y_EXTENSION,
        Name::new("post_extension"),
        u32::from(op.post_extension),
    )?)?;
    let entries = minus_one(csc::D_ENTRY_PER_SLICE::ENTRIES, Name::new("entry_per_slice"), wide(op.entry_per_slice))?;
    image.word(entries)?;
    image.word(code(csc::D_WEIGHT_FORMAT::WEIGHT_FORMAT, op.weight_format))?;

    use csc::{D_WEIGHT_SIZE_EXT_0 as kernel_0, D_WEIGHT_SIZE_EXT_1 as kernel_1};
    let value = minus_one(kernel_0::WEIGHT_WIDTH_EXT, Name::new("kernel_width_csc"), wide(op.kernel_width_csc))?
        | minus_one(kernel_0::WEIGHT_HEIGHT_EXT, Name::new("kernel_height_csc"), wide(op.kernel_height_csc))?;
    image.word(value)?;
    let channels = wide(op.kernel_channel_csc);
    let value = minus_one(kernel_1::WEIGHT_CHANNEL_EXT, Name::new("kernel_channel_csc"), channels)?
        | minus_one(kernel_1::WEIGHT_KERNEL, dst.field("channel"), kernels)?;
    image.word(value)?;
    image.put(csc::D_WEIGHT_BYTES, surface.weight_data.size)?;
    if op.weight_format == WeightFormat::Compressed {
        let size = surface.wmb_data.size;
        image.word(fit(csc::D_WMB_BYTES::WMB_BYTES, Name::of("wmb_data", "size"), size)?)?;
    }

    use csc::D_DATAOUT_SIZE_0 as out;
    let value = minus_one(out::DATAOUT_WIDTH, Name::new("input_width_cmac"), wide(op.input_width_cmac))?
        | minus_one(out::DATAOUT_HEIGHT, Name::new("input_height_cmac"), wide(op.input_height_cmac))?;
    image.word(value)?;
    image.word(minus_one(csc::D_DATAOUT_SIZE_1::DATAOUT_CHANNEL, dst.field("channel"), kernels)?)?;
    let atomics = minus_one(csc::D_ATOMICS::ATOMICS, dst.field("width * height"), width * height)?;
    image.word(atomics)?;
    image.word(minus_one(csc::D_RELEASE::RLS_SLICES, Name::new("release"), wide(op.release))?)?;

    // Winograd's input is already cut for its strides and padding.
    let direct = op.conv_mode == ConvMode::Direct;
    let (x, y) = if direct { (op.conv_stride_x, op.conv_stride_y) } else { (1, 1) };
    let (left, top) = if direct { (op.pad_x_left, op.pad_y_top) } else { (0, 0) };
    use csc::{D_CONV_STRIDE_EXT as stride, D_DILATION_EXT as dilation, D_ZERO_PADDING as padding};
    let value = minus_one(stride::CONV_X_STRIDE_EXT, Name::new("conv_stride_x"), u32::from(x))?
        | minus_one(stride::CONV_Y_STRIDE_EXT, Name::new("conv_stride_y"), u32::from(y))?;
    image.word(value)?;
    let value = minus_one(dilation::X_DILATION_EXT, Name::new("dilation_x"), u32::from(op.dilation_x))?
        | minus_one(dilation::Y_DILATION_EXT, Name::new("dilation_y"), u32::from(op.dilation_y))?;
    image.word(value)?;
    let value = fit(padding::PAD_LEFT, Name::new("pad_x_left"), u32::from(left))?
        | fit(padding::PAD_TOP, Name::new("pad_y_top"), u32::from(top))?;
    image.word(value)?;
    image.put(csc::D_ZERO_PADDING_VALUE, u32::from(op.pad_val as u16))?;
    image.word(banks(op, csc::D_BANK::DATA_BANK, csc::D_BANK::WEIGHT_BANK)?)?;
    let truncate = fit(csc::D_PRA_CFG::PRA_TRUNCATE, Name::new("pra_truncate"), u32::from(op.pra_truncate))?;
    image.word(truncate)
}

fn banks<R: Tied>(op: &ConvOp, data: Field<u32, R>, weight: Field<u32, R>) -> Result<Word<R>, Reason> {
    Ok(minus_one(data, Name::new("data_bank"), u32::from(op.data_bank))?
        | minus_one(weight, Name::new("weight_bank"), u32::from(op.weight_bank))?)
}

fn reader<M: TaskMemory + ?Sized>(
    image: &mut Builder<'_>,
    context: &Context<'_, M>,
    op: &ConvOp,
    surface: &ConvSurface,
    input: &Input,
    weights: &Weights,
) -> Result<(), Reason> {
    let src = Named { name: "src_data", cube: &surface.src_data };
    let (width, height) = (u32::from(surface.src_data.width), u32::from(surface.src_data.height));
    let (line_stride, surf_stride) = (surface.src_data.line_stride, surface.src_data.surf_stride);
    let kernels = u32::from(surface.dst_data.channel);
    image.block(Block::Cdma);

    use cdma::D_MISC_CFG as misc;
    let value = code(misc::CONV_MODE, op.conv_mode)
        | code(misc::IN_PRECISION, op.in_precision)
        | code(misc::PROC_PRECISION, op.out_precision)
        | code(misc::DATA_REUSE, op.data_reuse)
        | code(misc::WEIGHT_REUSE, op.weight_reuse)
        | code(misc::SKIP_DATA_RLS, op.skip_data_rls)
        | code(misc::SKIP_WEIGHT_RLS, op.skip_weight_rls);
    image.word(value)?;

    use cdma::D_DATAIN_FORMAT as format;
    let value = match op.data_format {
        // The pixel fields mean nothing then: their values after reset.
        DataFormat::Feature => Word::new(cdma::D_DATAIN_FORMAT.reset).with(format::DATAIN_FORMAT, InputFormat::Feature),
        DataFormat::Pixel(pixel) => {
            code(format::DATAIN_FORMAT, InputFormat::Pixel)
                | code(format::PIXEL_FORMAT, pixel)
                | code(format::PIXEL_MAPPING, op.pixel_mapping as u32)
                | code(format::PIXEL_SIGN_OVERRIDE, op.pixel_override as u32)
        }
    };
    image.word(value)?;

    use cdma::{D_DATAIN_SIZE_0 as size_0, D_DATAIN_SIZE_1 as size_1, D_DATAIN_SIZE_EXT_0 as size_ext};
    let value = minus_one(size_0::DATAIN_WIDTH, src.field("width"), width)?
        | minus_one(size_0::DATAIN_HEIGHT, src.field("height"), height)?;
    image.word(value)?;
    let channels = u32::from(surface.src_data.channel);
    image.word(minus_one(size_1::DATAIN_CHANNEL, src.field("channel"), channels)?)?;
    let (csc_width, csc_height) = (u32::from(op.input_width_csc), u32::from(op.input_height_csc));
    let value = minus_one(size_ext::DATAIN_WIDTH_EXT, Name::new("input_width_csc"), csc_width)?
        | minus_one(size_ext::DATAIN_HEIGHT_EXT, Name::new("input_height_csc"), csc_height)?;
    image.word(value)?;

    if op.data_format != DataFormat::Feature {
        // Descriptors have no such offset: an image's address is that of its first pixel.
        image.put(cdma::D_PIXEL_OFFSET, 0)?;
    }
    image.word(code(cdma::D_DAIN_RAM_TYPE::DATAIN_RAM_TYPE, input.address.ram()))?;
    image.address(cdma::D_DAIN_ADDR_LOW_0, cdma::D_DAIN_ADDR_HIGH_0, &input.address)?;
    image.put(cdma::D_LINE_STRIDE, line_stride)?;
    if let Some(chroma) = &input.chroma {
        image.address(cdma::D_DAIN_ADDR_LOW_1, cdma::D_DAIN_ADDR_HIGH_1, chroma)?;
        image.put(cdma::D_LINE_UV_STRIDE, surface.in_line_uv_stride)?;
    }
    if op.data_format == DataFormat::Feature {
        let strides = [line_stride, surf_stride].map(u64::from);
        let packed = Atoms::of(context.config, op.in_precision).packed_strides(width, height);
        image.put(cdma::D_SURF_STRIDE, surf_stride)?;
        let value = code(cdma::D_DAIN_MAP::LINE_PACKED, strides[0] == packed[0])
            | code(cdma::D_DAIN_MAP::SURF_PACKED, strides[1] == packed[1]);
        image.word(value)?;
    }
    let batches = minus_one(cdma::D_BATCH_NUMBER::BATCHES, Name::new("batch"), u32::from(op.batch))?;
    image.word(batches)?;
    if op.batch > 1 {
        image.put(cdma::D_BATCH_STRIDE, op.batch_stride)?;
    }
    let entries = u32::from(op.entry_per_slice);
    image.word(minus_one(cdma::D_ENTRY_PER_SLICE::ENTRIES, Name::new("entry_per_slice"), entries)?)?;
    let grains = minus_one(cdma::D_FETCH_GRAIN::GRAINS, Name::new("fetch_grain"), u32::from(op.fetch_grain))?;
    image.word(grains)?;

    image.word(code(cdma::D_WEIGHT_FORMAT::WEIGHT_FORMAT, op.weight_format))?;
    let name = Name::new("bytes_per_kernel");
    let bytes = minus_one(cdma::D_WEIGHT_SIZE_0::BYTE_PER_KERNEL, name, op.bytes_per_kernel)?;
    image.word(bytes)?;
    let name = Name::of("dst_data", "channel");
    image.word(minus_one(cdma::D_WEIGHT_SIZE_1::WEIGHT_KERNEL, name, kernels)?)?;
    image.word(code(cdma::D_WEIGHT_RAM_TYPE::WEIGHT_RAM_TYPE, weights.address.ram()))?;
    image.address(cdma::D_WEIGHT_ADDR_LOW, cdma::D_WEIGHT_ADDR_HIGH, &weights.address)?;
    image.put(cdma::D_WEIGHT_BYTES, surface.weight_data.size)?;
    if let (Some(wmb), Some(wgs)) = (&weights.wmb, &weights.wgs) {
        image.address(cdma::D_WGS_ADDR_LOW, cdma::D_WGS_ADDR_HIGH, wgs)?;
        image.address(cdma::D_WMB_ADDR_LOW, cdma::D_WMB_ADDR_HIGH, wmb)?;
        image.put(cdma::D_WMB_BYTES, surface.wmb_data.size)?;
    }

    image.word(code(cdma::D_MEAN_FORMAT::MEAN_FORMAT, op.mean_format))?;
    if op.mean_format {
        let pair = |low: i16, high: i16| u32::from(low as u16) | u32::from(high as u16) << 16;
        image.put(cdma::D_MEAN_GLOBAL_0, pair(op.mean_ry, op.mean_gu))?;
        image.put(cdma::D_MEAN_GLOBAL_1, pair(op.mean_bv, op.mean_ax))?;
    }
    if op.in_cvt.enable == 0 {
        image.word(code(cdma::D_CVT_CFG::CVT_EN, false))?;
    } else {
        let truncate = u32::from(op.in_cvt.truncate);
        let value = code(cdma::D_CVT_CFG::CVT_EN, true)
            | fit(cdma::D_CVT_CFG::CVT_TRUNCATE, Name::of("in_cvt", "truncate"), truncate)?;
        image.word(value)?;
        let name = Name::of("in_cvt", "offset");
        image.word(signed(cdma::D_CVT_OFFSET::CVT_OFFSET, name, op.in_cvt.offset)?)?;
        image.put(cdma::D_CVT_SCALE, u32::from(op.in_cvt.scale as u16))?;
    }

    use cdma::{D_CONV_STRIDE as stride, D_ZERO_PADDING as padding};
    let value = minus_one(stride::CONV_X_STRIDE, Name::new("conv_stride_x"), u32::from(op.conv_stride_x))?
        | minus_one(stride::CONV_Y_STRIDE, Name::new("conv_stride_y"), u32::from(op.conv_stride_y))?;
    image.word(value)?;
    let value = fit(padding::PAD_LEFT, Name::new("pad_x_left"), u32::from(op.pad_x_left))?
        | fit(padding::PAD_RIGHT, Name::new("pad_x_right"), u32::from(op.pad_x_right))?
        | fit(padding::PAD_TOP, Name::new("pad_y_top"), u32::from(op.pad_y_top))?
        | fit(padding::PAD_BOTTOM, Name::new("pad_y_bottom"), u32::from(op.pad_y_bottom))?;
    image.word(value)?;
    image.put(cdma::D_ZERO_PADDING_VALUE, u32::from(op.pad_val as u16))?;
    image.word(banks(op, cdma::D_BANK::DATA_BANK, cdma::D_BANK::WEIGHT_BANK)?)?;
    image.put(cdma::D_PERF_ENABLE, u32::from(context.counted))
}
