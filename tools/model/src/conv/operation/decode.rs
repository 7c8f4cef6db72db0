// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads the parts of an operation from the registers of the blocks, and checks that the blocks agree.

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::layout::{weight, Extents};
use nvdla_uapi::reg::values::{ConvMode, DataFormat, Precision, WeightFormat};
use nvdla_uapi::reg::{cacc, cdma, cmac_a, cmac_b, csc, Family};

use super::types::{Blocks, Converter, Mapping, Mode, Placement, Size, Surface, WeightSurface};
use crate::memory::Stop;
use crate::registers::Registers;

/// Checks that two copies of a value agree.
pub(super) fn same(what: &str, a: impl Into<u64>, b: impl Into<u64>) -> Result<(), Stop> {
    let (a, b) = (a.into(), b.into());
    if a == b {
        return Ok(());
    }
    Err(Stop::unsupported("CSC", format!("{what} is {a} in one unit and {b} in another: the operation never ends")))
}

/// Reads the precisions of the input and of CMAC, on which all blocks must agree.
pub(super) fn precisions(config: &Config, blocks: &Blocks) -> Result<(Precision, Precision), Stop> {
    let Blocks { cdma: d, csc: s, cmac_a: a, cmac_b: b, cacc: c } = blocks;
    let in_precision = d.field(cdma::D_MISC_CFG::IN_PRECISION)?;
    let precision = s.field(csc::D_MISC_CFG::PROC_PRECISION)?;
    for other in [
        d.field(cdma::D_MISC_CFG::PROC_PRECISION)?,
        a.field(cmac_a::D_MISC_CFG::PROC_PRECISION)?,
        b.field(cmac_b::D_MISC_CFG::PROC_PRECISION)?,
        c.field(cacc::D_MISC_CFG::PROC_PRECISION)?,
    ] {
        same("PROC_PRECISION", precision as u32, other as u32)?;
    }
    if !config.has_feature_type(precision) || !config.has_feature_type(in_precision) && config.family == Family::NvFull
    {
        let what = format!("{} has no {in_precision:?} to {precision:?}", config.name);
        return Err(Stop::unsupported("CDMA", what));
    }
    Ok((in_precision, precision))
}

impl Mode {
    pub(super) fn new(config: &Config, blocks: &Blocks) -> Result<Self, Stop> {
        let Blocks { cdma: d, csc: s, cmac_a: a, cmac_b: b, cacc: c } = blocks;
        let mode = s.field(csc::D_MISC_CFG::CONV_MODE)?;
        for other in [
            d.field(cdma::D_MISC_CFG::CONV_MODE)?,
            a.field(cmac_a::D_MISC_CFG::CONV_MODE)?,
            b.field(cmac_b::D_MISC_CFG::CONV_MODE)?,
            c.field(cacc::D_MISC_CFG::CONV_MODE)?,
        ] {
            same("CONV_MODE", mode as u32, other as u32)?;
        }
        let format = s.field(csc::D_DATAIN_FORMAT::DATAIN_FORMAT)?;
        let other = d.field(cdma::D_DATAIN_FORMAT::DATAIN_FORMAT)?;
        same("DATAIN_FORMAT", format as u32, other as u32)?;
        match (mode, format) {
            (ConvMode::Direct, DataFormat::Feature) => Ok(Self::Feature),
            (ConvMode::Direct, DataFormat::Pixel) => Ok(Self::Pixel),
            (ConvMode::Winograd, DataFormat::Feature) if config.winograd => Ok(Self::Winograd),
            (ConvMode::Winograd, DataFormat::Feature) => {
                Err(Stop::unsupported("CSC", format!("{} has no Winograd convolution", config.name)))
            }
            (ConvMode::Winograd, DataFormat::Pixel) => {
                Err(Stop::unsupported("CSC", "CONV_MODE is Winograd and DATAIN_FORMAT is pixel"))
            }
        }
    }
}

impl Placement {
    /// Reads CDMA's banks, which must agree with CSC's.
    pub(super) fn new(config: &Config, blocks: &Blocks, mode: Mode) -> Result<Self, Stop> {
        let Blocks { cdma: d, csc: s, .. } = blocks;
        let fetched = [d.value(cdma::D_BANK::DATA_BANK), d.value(cdma::D_BANK::WEIGHT_BANK)];
        let read = [s.value(csc::D_BANK::DATA_BANK), s.value(csc::D_BANK::WEIGHT_BANK)];
        let check = |unit, banks: [u32; 2]| -> Result<[usize; 2], Stop> {
            let [data, weight] = banks.map(|banks| banks as usize + 1);
            if data + weight <= config.cbuf_banks as usize {
                return Ok([data, weight]);
            }
            Err(Stop::unsupported(
                unit,
                format!(
                    "D_BANK gives {data} banks to data and {weight} to weights, the convolution buffer has {}",
                    config.cbuf_banks
                ),
            ))
        };
        let [data_banks, weight_banks] = check("CDMA", fetched)?;
        let [csc_data_banks, csc_weight_banks] = check("CSC", read)?;
        same("DATA_BANK", data_banks as u64, csc_data_banks as u64)?;
        same("WEIGHT_BANK", weight_banks as u64, csc_weight_banks as u64)?;
        Ok(Self { mode, data_banks, weight_banks })
    }
}

/// Reads the number of cubes.
pub(super) fn batches(config: &Config, blocks: &Blocks, mode: Mode) -> Result<usize, Stop> {
    let Blocks { cdma: d, csc: s, cacc: c, .. } = blocks;
    let batches = d.value(cdma::D_BATCH_NUMBER::BATCHES);
    for other in [s.value(csc::D_BATCH_NUMBER::BATCHES), c.value(cacc::D_BATCH_NUMBER::BATCHES)] {
        same("BATCHES", batches, other)?;
    }
    if batches > 0 && (!config.batch || mode != Mode::Feature) {
        let what = format!("BATCHES is {batches} in {mode:?} mode on {}", config.name);
        return Err(Stop::unsupported("CDMA", what));
    }
    Ok(batches as usize + 1)
}

/// The sizes of an operation's cubes and kernels, as in [`Operation`].
pub(super) struct Sizes {
    pub(super) fetch: Size,
    pub(super) input: Size,
    pub(super) kernel: Size,
    pub(super) kernels: usize,
    pub(super) output: Size,
}

impl Sizes {
    pub(super) fn new(blocks: &Blocks) -> Result<Self, Stop> {
        let Blocks { cdma: d, csc: s, cacc: c, .. } = blocks;
        let size = |[width, height, channels]: [u32; 3]| Size {
            width: width as usize + 1,
            height: height as usize + 1,
            channels: channels as usize + 1,
        };
        let output = [
            s.value(csc::D_DATAOUT_SIZE_0::DATAOUT_WIDTH),
            s.value(csc::D_DATAOUT_SIZE_0::DATAOUT_HEIGHT),
            s.value(csc::D_DATAOUT_SIZE_1::DATAOUT_CHANNEL),
        ];
        same("DATAOUT_WIDTH and HEIGHT", s.get(csc::D_DATAOUT_SIZE_0), c.get(cacc::D_DATAOUT_SIZE_0))?;
        same("DATAOUT_CHANNEL", output[2], c.get(cacc::D_DATAOUT_SIZE_1))?;
        Ok(Self {
            fetch: size([
                d.value(cdma::D_DATAIN_SIZE_0::DATAIN_WIDTH),
                d.value(cdma::D_DATAIN_SIZE_0::DATAIN_HEIGHT),
                d.value(cdma::D_DATAIN_SIZE_1::DATAIN_CHANNEL),
            ]),
            input: size([
                s.value(csc::D_DATAIN_SIZE_EXT_0::DATAIN_WIDTH_EXT),
                s.value(csc::D_DATAIN_SIZE_EXT_0::DATAIN_HEIGHT_EXT),
                s.value(csc::D_DATAIN_SIZE_EXT_1::DATAIN_CHANNEL_EXT),
            ]),
            kernel: size([
                s.value(csc::D_WEIGHT_SIZE_EXT_0::WEIGHT_WIDTH_EXT),
                s.value(csc::D_WEIGHT_SIZE_EXT_0::WEIGHT_HEIGHT_EXT),
                s.value(csc::D_WEIGHT_SIZE_EXT_1::WEIGHT_CHANNEL_EXT),
            ]),
            kernels: s.value(csc::D_WEIGHT_SIZE_EXT_1::WEIGHT_KERNEL) as usize + 1,
            output: size(output),
        })
    }
}

/// Reads the number of kernel lines per step of CSC.
pub(super) fn post_extension(s: &Registers, mode: Mode, kernel: Size, atomic_c: usize) -> Result<usize, Stop> {
    match s.value(csc::D_POST_Y_EXTENSION::Y_EXTENSION) {
        0 => Ok(1),
        1 if mode == Mode::Pixel && kernel.channels <= atomic_c / 2 => Ok(2),
        2 if mode == Mode::Pixel && kernel.channels <= atomic_c / 4 => Ok(4),
        value => Err(Stop::unsupported(
            "CSC",
            format!("Y_EXTENSION is {value} in {mode:?} mode with {} kernel channels", kernel.channels),
        )),
    }
}

impl Converter {
    /// Reads CDMA's converter, if it is enabled and changes the data.
    pub(super) fn new(
        d: &Registers,
        mode: Mode,
        in_precision: Precision,
        precision: Precision,
    ) -> Result<Option<Self>, Stop> {
        let unsupported = |what: String| Err(Stop::unsupported("CDMA", what));
        let converter = d.is_set(cdma::D_CVT_CFG::CVT_EN).then(|| {
            let means = [d.get(cdma::D_MEAN_GLOBAL_0), d.get(cdma::D_MEAN_GLOBAL_1)];
            let offset = d.get(cdma::D_CVT_OFFSET) as i16;
            let mean = mode == Mode::Pixel && d.is_set(cdma::D_MEAN_FORMAT::MEAN_FORMAT);
            Self {
                offsets: if mean {
                    [means[0] as i16, (means[0] >> 16) as i16, means[1] as i16, (means[1] >> 16) as i16]
                } else {
                    [offset; 4]
                },
                scale: d.get(cdma::D_CVT_SCALE) as i16,
                truncate: d.value(cdma::D_CVT_CFG::CVT_TRUNCATE),
            }
        });
        let converts = match mode {
            Mode::Feature => converter.is_some() && in_precision != Precision::Fp16,
            Mode::Pixel => converter.is_some(),
            Mode::Winograd => false,
        };
        if converter.is_some() && !converts && (in_precision == Precision::Fp16 || mode == Mode::Winograd) {
            return unsupported(format!("CVT_EN with {in_precision:?} data in {mode:?} mode"));
        }
        // Without the converter, CDMA passes the fetched bits of a pixel unchanged in any precision of CMAC.
        let as_they_are = mode == Mode::Pixel && converter.is_none() && precision != Precision::Int8;
        if in_precision != precision
            && !as_they_are
            && (mode != Mode::Pixel || !converts || in_precision == Precision::Fp16)
        {
            return unsupported(format!(
                "IN_PRECISION is {in_precision:?}, PROC_PRECISION {precision:?}, in {mode:?} mode, CVT_EN {converts}"
            ));
        }
        Ok(converter.filter(|converter| converts && !(mode == Mode::Feature && converter.is_identity())))
    }
}

impl Surface {
    pub(super) fn new(d: &Registers, mode: Mode, fetch: Size, atoms: Atoms) -> Result<Self, Stop> {
        let line_stride = u64::from(d.get(cdma::D_LINE_STRIDE));
        let line_packed = d.is_set(cdma::D_DAIN_MAP::LINE_PACKED);
        let surface_packed = d.is_set(cdma::D_DAIN_MAP::SURF_PACKED);
        let packed = atoms.packed_strides(fetch.width as u32, fetch.height as u32);
        if mode != Mode::Pixel && line_packed && fetch.height > 1 && line_stride != packed[0] {
            return Err(Stop::unsupported(
                "CDMA",
                format!("LINE_PACKED with a line stride of {line_stride:#x} bytes and {} atoms per line", fetch.width),
            ));
        }
        let one = fetch.width == 1 && fetch.height == 1;
        let surface_stride = match mode {
            Mode::Feature if one && line_packed && surface_packed => packed[1],
            _ => u64::from(d.get(cdma::D_SURF_STRIDE)),
        };
        Ok(Self {
            port: d.field(cdma::D_DAIN_RAM_TYPE::DATAIN_RAM_TYPE)?.into(),
            address: [
                d.address(cdma::D_DAIN_ADDR_HIGH_0, cdma::D_DAIN_ADDR_LOW_0),
                d.address(cdma::D_DAIN_ADDR_HIGH_1, cdma::D_DAIN_ADDR_LOW_1),
            ],
            line_stride: [line_stride, u64::from(d.get(cdma::D_LINE_UV_STRIDE))],
            surface_stride,
            batch_stride: u64::from(d.get(cdma::D_BATCH_STRIDE)),
        })
    }
}

impl WeightSurface {
    pub(super) fn new(config: &Config, blocks: &Blocks, kernels: usize, placement: Placement) -> Result<Self, Stop> {
        let Blocks { cdma: d, csc: s, .. } = blocks;
        let unsupported = |what: String| Err(Stop::unsupported("CDMA", what));
        let format = s.field(csc::D_WEIGHT_FORMAT::WEIGHT_FORMAT)?;
        let other = d.field(cdma::D_WEIGHT_FORMAT::WEIGHT_FORMAT)?;
        same("WEIGHT_FORMAT", format as u32, other as u32)?;
        same("WEIGHT_KERNEL", kernels as u64 - 1, d.get(cdma::D_WEIGHT_SIZE_1))?;
        let compressed = format == WeightFormat::Compressed;
        if compressed && !config.weight_compression {
            return unsupported(format!("{} has no weight compression", config.name));
        }
        let Placement { data_banks, weight_banks, .. } = placement;
        if compressed && data_banks + weight_banks >= config.cbuf_banks as usize {
            return unsupported(format!(
                "compressed weights need a bank for their mask: {data_banks} + {weight_banks} banks are taken"
            ));
        }
        let mask = (d.address(cdma::D_WMB_ADDR_HIGH, cdma::D_WMB_ADDR_LOW), d.get(cdma::D_WMB_BYTES) as usize);
        Ok(Self {
            port: d.field(cdma::D_WEIGHT_RAM_TYPE::WEIGHT_RAM_TYPE)?.into(),
            address: d.address(cdma::D_WEIGHT_ADDR_HIGH, cdma::D_WEIGHT_ADDR_LOW),
            bytes: d.get(cdma::D_WEIGHT_BYTES) as usize,
            mask: compressed.then_some(mask),
            sizes: d.address(cdma::D_WGS_ADDR_HIGH, cdma::D_WGS_ADDR_LOW),
        })
    }
}

impl Mapping {
    pub(super) fn new(
        config: &Config,
        precision: Precision,
        mode: Mode,
        kernel: Size,
        kernels: usize,
        lines: usize,
    ) -> Result<Self, Stop> {
        let Size { width, height, channels } = kernel;
        let extents =
            |height: usize, width: usize| Extents::new(kernels as u32, channels as u32, height as u32, width as u32);
        let geometry = weight::Geometry::of(config, precision);
        match mode {
            Mode::Feature => weight::Direct::new(extents(height, width), geometry).map(Self::Direct),
            Mode::Pixel => weight::PostExtension::from_lines(lines as u32)
                .and_then(|lines| weight::Image::new(extents(height, 1), geometry, lines))
                .map(Self::Image),
            // Winograd kernels are transformed 3x3 kernels without strides.
            Mode::Winograd => weight::Winograd::new(extents(3, 3), 1, 1, geometry).map(Self::Winograd),
        }
        .map_err(|error| Stop::unsupported("CSC", error.to_string()))
    }
}
