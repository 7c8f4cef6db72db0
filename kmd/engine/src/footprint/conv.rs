// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The convolution pipeline, of which CDMA alone reaches memory. It reads, and nothing of the pipeline writes.
//!
//! - Feature cubes, direct convolution: `NV_NVDLA_CDMA_dc.v` lines 3212 to 3329 (sizes) and 6280 to 6930 (addresses). With
//!   `LINE_PACKED` CDMA reads the lines of a grain as one run of atoms. With `SURF_PACKED` it reads a 1x1 cube as one run of
//!   atoms.
//! - Feature cubes, Winograd: `NV_NVDLA_CDMA_wg.v` lines 3003 to 3019, 6517 to 6544 and 6730 to 7012. Padding is not read.
//! - Images: `NV_NVDLA_CDMA_IMG_ctrl.v` lines 2555 to 2829 (atoms of a line), `NV_NVDLA_CDMA_IMG_sg.v` lines 2562 to 3060
//!   (addresses). Reserved lines, means and padding do not affect addresses. nv_small decodes only formats of 8 bits, and treats
//!   every other format as one of four bytes per pixel (the file of the same name, lines 515 to 650).
//! - Weights: `NV_NVDLA_CDMA_wt.v` lines 3391 to 3424 (weights), 4400 to 4424 (WMB), 5499 to 5514 (WGS: four bytes per group
//!   of kernels, in reads of 32 bytes).

use super::walk::{Access, Lines, Ram, Refusal, Surface, Walk};
use crate::uapi::layout::pixel::Format;
use crate::uapi::layout::weight::Geometry;
use crate::uapi::reg::cdma::*;
use crate::uapi::reg::values::{ConvMode, DataFormat, Precision, WeightFormat};
use crate::uapi::reg::{Block, Register};

const BLOCK: Block = Block::Cdma;
const DATA: Ram = Ram::new(D_DAIN_RAM_TYPE::DATAIN_RAM_TYPE);
const WEIGHT: Ram = Ram::new(D_WEIGHT_RAM_TYPE::WEIGHT_RAM_TYPE);
const PLANE_0: Surface = read(D_DAIN_ADDR_LOW_0, D_DAIN_ADDR_HIGH_0, DATA);
const PLANE_1: Surface = read(D_DAIN_ADDR_LOW_1, D_DAIN_ADDR_HIGH_1, DATA);
const WEIGHTS: Surface = read(D_WEIGHT_ADDR_LOW, D_WEIGHT_ADDR_HIGH, WEIGHT);
const MASK: Surface = read(D_WMB_ADDR_LOW, D_WMB_ADDR_HIGH, WEIGHT);
const SIZES: Surface = read(D_WGS_ADDR_LOW, D_WGS_ADDR_HIGH, WEIGHT);

const fn read(low: Register, high: Register, ram: Ram) -> Surface {
    Surface { block: BLOCK, write: false, low, high, ram }
}

#[inline(always)]
pub(super) fn reader<E, V>(walk: &mut Walk<'_, V>) -> Result<(), E>
where
    E: From<Refusal>,
    V: FnMut(Access) -> Result<(), E>,
{
    let mode = walk.field(BLOCK, D_MISC_CFG::CONV_MODE)?;
    let format = walk.field(BLOCK, D_DATAIN_FORMAT::DATAIN_FORMAT)?;
    if mode == ConvMode::Winograd && !(walk.config().winograd && format == DataFormat::Feature) {
        return Err(walk
            .refuse(BLOCK, D_MISC_CFG, "Winograd needs features as input, and a configuration that has it")
            .into());
    }
    let processing = walk.precision(BLOCK, D_MISC_CFG::PROC_PRECISION)?;
    match format {
        DataFormat::Feature => {
            let span = feature(walk, mode, processing)?;
            walk.touch(&PLANE_0, span)?;
        }
        DataFormat::Pixel => {
            let planes = image(walk)?;
            walk.touch(&PLANE_0, planes[0])?;
            if planes[1] != 0 {
                walk.touch(&PLANE_1, planes[1])?;
            }
        }
    }
    weights(walk, processing)
}

/// The bytes that a feature cube spans, or a batch of them.
#[inline(always)]
fn feature<V>(walk: &mut Walk<'_, V>, mode: ConvMode, processing: Precision) -> Result<u64, Refusal> {
    if walk.field(BLOCK, D_MISC_CFG::IN_PRECISION)? != processing {
        return Err(walk.refuse(BLOCK, D_MISC_CFG, "features are not of the processing precision"));
    }
    let width = walk.count(BLOCK, D_DATAIN_SIZE_0::DATAIN_WIDTH);
    let height = walk.count(BLOCK, D_DATAIN_SIZE_0::DATAIN_HEIGHT);
    let channels = walk.count(BLOCK, D_DATAIN_SIZE_1::DATAIN_CHANNEL);
    let mut cube = Lines {
        bytes: width * walk.atom(),
        height,
        line_stride: walk.stride(BLOCK, D_LINE_STRIDE),
        surfaces: walk.surfaces(channels, processing),
        surface_stride: walk.stride(BLOCK, D_SURF_STRIDE),
    };
    let batches = walk.count(BLOCK, D_BATCH_NUMBER::BATCHES);
    if mode == ConvMode::Winograd {
        if batches > 1 {
            return Err(walk.refuse(BLOCK, D_BATCH_NUMBER, "Winograd has no batches"));
        }
        return Ok(cube.span());
    }
    let map = walk.read::<D_DAIN_MAP>(BLOCK);
    if map.is_set(D_DAIN_MAP::LINE_PACKED) && height > 1 && cube.line_stride != cube.bytes {
        return Err(walk.refuse(
            BLOCK,
            D_DAIN_MAP,
            "LINE_PACKED is set, but the line stride is not the size of a line",
        ));
    }
    if map.is_set(D_DAIN_MAP::SURF_PACKED) && width == 1 && height == 1 {
        cube.surface_stride = cube.surface_stride.max(cube.bytes);
    }
    if batches == 1 {
        return Ok(cube.span());
    }
    if !walk.config().batch {
        return Err(walk.refuse(BLOCK, D_BATCH_NUMBER, "the configuration has no hardware batches"));
    }
    Ok(cube.span() + (batches - 1) * walk.stride(BLOCK, D_BATCH_STRIDE))
}

/// The bytes that the planes of an image span, 0 for a plane that it does not have.
#[inline(always)]
fn image<V>(walk: &mut Walk<'_, V>) -> Result<[u64; 2], Refusal> {
    let format = Format::new(walk.field(BLOCK, D_DATAIN_FORMAT::PIXEL_FORMAT)?);
    if walk.read::<D_DATAIN_FORMAT>(BLOCK).value(D_DATAIN_FORMAT::PIXEL_MAPPING) != 0 {
        return Err(walk.refuse(BLOCK, D_DATAIN_FORMAT, "images are pitch linear, which is PIXEL_MAPPING 0"));
    }
    let offset = walk.read::<D_PIXEL_OFFSET>(BLOCK);
    if offset.value(D_PIXEL_OFFSET::PIXEL_Y_OFFSET) != 0 {
        return Err(walk.refuse(BLOCK, D_PIXEL_OFFSET, "pitch linear images have no line offset"));
    }
    let x = u64::from(offset.value(D_PIXEL_OFFSET::PIXEL_X_OFFSET));
    let width = walk.count(BLOCK, D_DATAIN_SIZE_0::DATAIN_WIDTH);
    let height = walk.count(BLOCK, D_DATAIN_SIZE_0::DATAIN_HEIGHT);
    let atom = walk.atom();
    let known = format.component_bytes() == 1 || walk.config().has_feature_type(Precision::Int16);
    // The second plane's first pixel lies in the first atom of its line.
    let plane = |bytes: u32, masked: bool, stride: u64| {
        let bytes = u64::from(if known { bytes } else { bytes.max(4) });
        let first = if masked { x * bytes % atom } else { x * bytes };
        (height - 1) * stride + (first + width * bytes).next_multiple_of(atom)
    };
    let first = plane(format.bytes_per_pixel[0], false, walk.stride(BLOCK, D_LINE_STRIDE));
    if format.planes == 1 {
        return Ok([first, 0]);
    }
    Ok([first, plane(format.bytes_per_pixel[1], true, walk.stride(BLOCK, D_LINE_UV_STRIDE))])
}

#[inline(always)]
fn weights<E, V>(walk: &mut Walk<'_, V>, processing: Precision) -> Result<(), E>
where
    E: From<Refusal>,
    V: FnMut(Access) -> Result<(), E>,
{
    let bytes = u64::from(walk.get(BLOCK, D_WEIGHT_BYTES));
    if bytes < walk.atom() {
        return Err(walk.refuse(BLOCK, D_WEIGHT_BYTES, "the weights have fewer bytes than an atom").into());
    }
    walk.touch(&WEIGHTS, bytes)?;
    if walk.field(BLOCK, D_WEIGHT_FORMAT::WEIGHT_FORMAT)? == WeightFormat::Uncompressed {
        return Ok(());
    }
    if !walk.config().weight_compression {
        return Err(walk.refuse(BLOCK, D_WEIGHT_FORMAT, "the configuration has no weight compression").into());
    }
    let bytes = u64::from(walk.read::<D_WMB_BYTES>(BLOCK).value(D_WMB_BYTES::WMB_BYTES));
    if bytes < walk.atom() {
        return Err(walk.refuse(BLOCK, D_WMB_BYTES, "the mask has fewer bytes than an atom").into());
    }
    walk.touch(&MASK, bytes)?;
    let kernels = walk.count(BLOCK, D_WEIGHT_SIZE_1::WEIGHT_KERNEL) as u32;
    let sizes = Geometry::of(walk.config(), processing).wgs_read(walk.config(), kernels);
    walk.touch(&SIZES, sizes)
}
