// SPDX-License-Identifier: MIT OR Apache-2.0

//! A convolution's registers as one checked value.
//!
//! Sizes in registers are "minus one", and CDMA, CSC and CACC each have their own copy. This module compares the copies
//! that must agree for the hardware to end, and the sizes that must fit the convolution buffer. All sizes are bounded
//! afterwards, so later steps can index without further checks.
//!
//! Source: the register specification; the conditions are those that the reference model asserts (`cmod/cdma`,
//! `cmod/csc`, `cmod/cacc`).

use std::ops::Range;

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::{Atoms, Cube};
use nvdla_uapi::layout::pixel::Image;
use nvdla_uapi::layout::{buffer, weight, Extents};
use nvdla_uapi::reg::values::{ConvMode, DataFormat, PixelFormat, Precision, WeightFormat};
use nvdla_uapi::reg::{cacc, cdma, cmac_a, cmac_b, csc, Family};

use crate::memory::{Port, Stop};
use crate::registers::Registers;
use crate::stream::{Samples, Stream};

/// The largest number of accumulators of one operation (256 MiB of them). It is far above what any surface of a real
/// network has, and limits the memory that random registers can make the model allocate.
const MAX_SUMS: usize = 1 << 26;
/// Largest number of elements of an input with its padding.
const MAX_PADDED: usize = 1 << 26;
/// Largest number of multiplications of one operation: some hundred times those of the largest real layers, and a
/// bound on the time that random registers can make the model spend.
const MAX_MACS: usize = 1 << 38;

/// The size of the data that CSC reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Direct convolution of a feature cube.
    Feature,
    /// Direct convolution of an image, a line being one run of channels.
    Pixel,
    /// Winograd convolution: 4x4 tiles of a stride-extended feature cube.
    Winograd,
}

/// The parts of an operation that decide whether the convolution buffer's contents can serve the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The mode of CSC.
    pub mode: Mode,
    /// Banks for data.
    pub data_banks: usize,
    /// Banks for weights.
    pub weight_banks: usize,
}

/// One unit's four reuse and release options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Whether the data of the last operation are used.
    pub reuse: bool,
    /// Leave everything to the next operation.
    pub keep: bool,
}

/// The input converter: `(x - offset) * scale >> truncate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converter {
    /// Subtracted from R or Y, G or U, B or V, A or X.
    pub offsets: [i16; 4],
    /// Multiplier.
    pub scale: i16,
    /// Right shift.
    pub truncate: u32,
}

/// Where input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Memory interface.
    pub port: Port,
    /// First byte; of the second plane too.
    pub address: [u64; 2],
    /// Bytes from line to line; of the second plane too.
    pub line_stride: [u64; 2],
    /// Bytes from surface to surface.
    pub surface_stride: u64,
    /// Bytes from cube to cube of a batch.
    pub batch_stride: u64,
}

/// Where weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightSurface {
    /// Memory interface.
    pub port: Port,
    /// First byte of the weights.
    pub address: u64,
    /// Bytes.
    pub bytes: usize,
    /// Address and bytes of the mask, where weights are compressed.
    pub mask: Option<(u64, usize)>,
    /// Address of the group sizes, where weights are compressed.
    pub sizes: u64,
}

/// How weights lie in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mapping {
    /// Those of a feature cube's convolution.
    Direct(weight::Direct),
    /// Those of an image, channels extended.
    Image(weight::Image),
    /// Those of Winograd convolution, transformed.
    Winograd(weight::Winograd),
}

impl Mapping {
    fn new(
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
            // The transformed kernels are those of a 3x3 convolution without strides.
            Mode::Winograd => weight::Winograd::new(extents(3, 3), 1, 1, geometry).map(Self::Winograd),
        }
        .map_err(|error| Stop::unsupported("CSC", error.to_string()))
    }
}

/// A checked convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// How CMAC computes.
    pub precision: Precision,
    /// How input lies in memory.
    pub in_precision: Precision,
    /// Mode and banks.
    pub placement: Placement,
    /// Input surface.
    pub surface: Surface,
    /// Size of the input that CDMA fetches.
    pub fetch: Size,
    /// Size of the input that CSC reads: after stride extension (Winograd); height with reused lines.
    pub input: Size,
    /// Pixel format.
    pub pixel: PixelFormat,
    /// Pixels between the line's address and its first pixel.
    pub pixel_x_offset: usize,
    /// Integer pixels are signed.
    pub pixel_signed: bool,
    /// Input converter, where enabled.
    pub converter: Option<Converter>,
    /// NaN becomes zero.
    pub flush_nan: bool,
    /// Cubes.
    pub batch: usize,
    /// Padding that CDMA adds: left, right, top, bottom (images: left and right; Winograd: all).
    pub pads: [usize; 4],
    /// Strides that CDMA applies (Winograd): x, y.
    pub extension: [usize; 2],
    /// Padding that CSC adds on the left and at the top.
    pub pad: [usize; 2],
    /// Its value, in CDMA's and in CSC's registers.
    pub pad_value: [u16; 2],
    /// Output size.
    pub output: Size,
    /// Kernel size after extension. Images: width 1, channels of a whole kernel line.
    pub kernel: Size,
    /// Kernels.
    pub kernels: usize,
    /// Strides of CSC: x, y.
    pub stride: [usize; 2],
    /// Distances of kernel elements: x, y.
    pub dilation: [usize; 2],
    /// Kernel lines that one step takes: 1, 2 or 4.
    pub post_extension: usize,
    /// Weights.
    pub weights: WeightSurface,
    /// How they lie in memory.
    pub mapping: Mapping,
    /// Data options of CDMA and of CSC.
    pub data_reuse: [Reuse; 2],
    /// Weight options of CDMA and of CSC.
    pub weight_reuse: [Reuse; 2],
    /// Slices that the end of the operation releases.
    pub release: usize,
    /// Slices (lines of one cube) that CSC needs.
    pub slices: usize,
    /// Right shift of Winograd's data transform.
    pub pra_truncate: u32,
    /// Right shift of the accumulators.
    pub clip_truncate: u32,
    /// Channels of a step.
    pub atomic_c: usize,
    /// Kernels of a step in this precision, and channels of an output surface.
    pub atomic_k: usize,
    /// Atoms of the input in memory.
    pub atoms: Atoms,
}

/// Width, height and channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Elements of a line.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// Channels.
    pub channels: usize,
}

/// Fails unless two copies of a value agree.
fn same(what: &str, a: impl Into<u64>, b: impl Into<u64>) -> Result<(), Stop> {
    let (a, b) = (a.into(), b.into());
    if a == b {
        return Ok(());
    }
    Err(Stop::unsupported("CSC", format!("{what} is {a} in one unit and {b} in another: the operation never ends")))
}

/// How the input lies in memory and how CMAC computes: the precisions that all blocks must agree on.
fn precisions(config: &Config, blocks: &Blocks) -> Result<(Precision, Precision), Stop> {
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
    fn new(config: &Config, blocks: &Blocks) -> Result<Self, Stop> {
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
    /// CDMA's banks, which CSC's must agree with.
    fn new(config: &Config, blocks: &Blocks, mode: Mode) -> Result<Self, Stop> {
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

/// The number of cubes.
fn batches(config: &Config, blocks: &Blocks, mode: Mode) -> Result<usize, Stop> {
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

/// The sizes of an operation's cubes and kernels, as [`Operation`] has them.
struct Sizes {
    fetch: Size,
    input: Size,
    kernel: Size,
    kernels: usize,
    output: Size,
}

impl Sizes {
    fn new(blocks: &Blocks) -> Result<Self, Stop> {
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

/// Kernel lines that one step of CSC takes.
fn post_extension(s: &Registers, mode: Mode, kernel: Size, atomic_c: usize) -> Result<usize, Stop> {
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
    /// CDMA's converter, where it is enabled and changes the data.
    fn new(d: &Registers, mode: Mode, in_precision: Precision, precision: Precision) -> Result<Option<Self>, Stop> {
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
        // Without the converter CDMA passes the fetched bits of a pixel unchanged, whatever precision CMAC has.
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
    fn new(d: &Registers, mode: Mode, fetch: Size, atoms: Atoms) -> Result<Self, Stop> {
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
    fn new(config: &Config, blocks: &Blocks, kernels: usize, placement: Placement) -> Result<Self, Stop> {
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

impl Operation {
    /// Reads and checks the registers.
    pub fn new(config: &Config, blocks: &Blocks) -> Result<Self, Stop> {
        let Blocks { cdma: d, csc: s, cacc: c, .. } = blocks;
        let (in_precision, precision) = precisions(config, blocks)?;
        let mode = Mode::new(config, blocks)?;
        let placement = Placement::new(config, blocks, mode)?;
        let batch = batches(config, blocks, mode)?;
        let Sizes { fetch, input, kernel, kernels, output } = Sizes::new(blocks)?;

        let atoms = Atoms::of(config, in_precision);
        let atomic_c = config.mac_atomic_c as usize;
        let bytes = element_bytes(precision);
        let atomic_k = config.mac_atomic_k as usize / bytes;
        let groups = [output.channels, kernels].map(|kernels| kernels.div_ceil(atomic_k) as u64);
        same("the number of kernel groups", groups[0], groups[1])?;

        let post_extension = post_extension(s, mode, kernel, atomic_c)?;
        let pixel = match mode {
            Mode::Pixel => d.field(cdma::D_DATAIN_FORMAT::PIXEL_FORMAT)?,
            Mode::Feature | Mode::Winograd => PixelFormat::R8,
        };
        if mode == Mode::Pixel && d.value(cdma::D_DATAIN_FORMAT::PIXEL_MAPPING) != 0 {
            return Err(Stop::unsupported("CDMA", "PIXEL_MAPPING is 1, which is no encoding"));
        }
        let pads = d.read::<cdma::D_ZERO_PADDING>();
        let padding = s.read::<csc::D_ZERO_PADDING>();
        let extension = d.read::<cdma::D_CONV_STRIDE>();
        let stride = s.read::<csc::D_CONV_STRIDE_EXT>();
        let dilation = s.read::<csc::D_DILATION_EXT>();
        let operation = Self {
            precision,
            in_precision,
            placement,
            surface: Surface::new(d, mode, fetch, atoms)?,
            fetch,
            input,
            pixel,
            pixel_x_offset: d.value(cdma::D_PIXEL_OFFSET::PIXEL_X_OFFSET) as usize,
            pixel_signed: d.value(cdma::D_DATAIN_FORMAT::PIXEL_SIGN_OVERRIDE) != 0,
            converter: Converter::new(d, mode, in_precision, precision)?,
            flush_nan: d.is_set(cdma::D_NAN_FLUSH_TO_ZERO::NAN_TO_ZERO),
            batch,
            pads: [
                pads.value(cdma::D_ZERO_PADDING::PAD_LEFT) as usize,
                pads.value(cdma::D_ZERO_PADDING::PAD_RIGHT) as usize,
                pads.value(cdma::D_ZERO_PADDING::PAD_TOP) as usize,
                pads.value(cdma::D_ZERO_PADDING::PAD_BOTTOM) as usize,
            ],
            extension: [
                extension.value(cdma::D_CONV_STRIDE::CONV_X_STRIDE) as usize + 1,
                extension.value(cdma::D_CONV_STRIDE::CONV_Y_STRIDE) as usize + 1,
            ],
            pad: [
                padding.value(csc::D_ZERO_PADDING::PAD_LEFT) as usize,
                padding.value(csc::D_ZERO_PADDING::PAD_TOP) as usize,
            ],
            pad_value: [d.get(cdma::D_ZERO_PADDING_VALUE) as u16, s.get(csc::D_ZERO_PADDING_VALUE) as u16],
            output,
            kernel,
            kernels,
            stride: [
                stride.value(csc::D_CONV_STRIDE_EXT::CONV_X_STRIDE_EXT) as usize + 1,
                stride.value(csc::D_CONV_STRIDE_EXT::CONV_Y_STRIDE_EXT) as usize + 1,
            ],
            dilation: [
                dilation.value(csc::D_DILATION_EXT::X_DILATION_EXT) as usize + 1,
                dilation.value(csc::D_DILATION_EXT::Y_DILATION_EXT) as usize + 1,
            ],
            post_extension,
            weights: WeightSurface::new(config, blocks, kernels, placement)?,
            mapping: Mapping::new(config, precision, mode, kernel, kernels, post_extension)?,
            data_reuse: [
                Reuse {
                    reuse: d.is_set(cdma::D_MISC_CFG::DATA_REUSE),
                    keep: d.is_set(cdma::D_MISC_CFG::SKIP_DATA_RLS),
                },
                Reuse { reuse: s.is_set(csc::D_MISC_CFG::DATA_REUSE), keep: s.is_set(csc::D_MISC_CFG::SKIP_DATA_RLS) },
            ],
            weight_reuse: [
                Reuse {
                    reuse: d.is_set(cdma::D_MISC_CFG::WEIGHT_REUSE),
                    keep: d.is_set(cdma::D_MISC_CFG::SKIP_WEIGHT_RLS),
                },
                Reuse {
                    reuse: s.is_set(csc::D_MISC_CFG::WEIGHT_REUSE),
                    keep: s.is_set(csc::D_MISC_CFG::SKIP_WEIGHT_RLS),
                },
            ],
            release: s.value(csc::D_RELEASE::RLS_SLICES) as usize + 1,
            slices: input.height * batch,
            pra_truncate: s.value(csc::D_PRA_CFG::PRA_TRUNCATE),
            clip_truncate: c.value(cacc::D_CLIP_CFG::CLIP_TRUNCATE),
            atomic_c,
            atomic_k,
            atoms,
        };
        operation.check_shapes()?;
        operation.check_buffer(
            config,
            [
                d.value(cdma::D_ENTRY_PER_SLICE::ENTRIES) as usize + 1,
                s.value(csc::D_ENTRY_PER_SLICE::ENTRIES) as usize + 1,
            ],
        )?;
        operation.check_weights(
            d.value(cdma::D_WEIGHT_SIZE_0::BYTE_PER_KERNEL) as usize + 1,
            config.cbuf_bank_bytes() as usize,
        )?;
        Ok(operation)
    }

    /// Bytes of an element in CMAC's precision.
    pub fn element(&self) -> usize {
        element_bytes(self.precision)
    }

    /// Bytes of one kernel.
    pub fn kernel_bytes(&self) -> usize {
        self.taps_of_all_lines() * self.kernel.channels * self.element()
    }

    /// Kernel positions: each has all channels.
    fn taps_of_all_lines(&self) -> usize {
        match self.placement.mode {
            Mode::Winograd => 16,
            _ => self.kernel.width * self.kernel.height,
        }
    }

    /// Kernel positions that the steps of a channel block visit.
    pub fn taps(&self) -> usize {
        match self.placement.mode {
            Mode::Winograd => 1,
            Mode::Feature => self.kernel.width * self.kernel.height,
            Mode::Pixel => self.kernel.height.div_ceil(self.post_extension),
        }
    }

    /// Where the weights of a kernel for one block of channels at one kernel position lie, as bytes of the uncompressed
    /// weights. An image's positions are lines.
    pub fn weight_row(&self, kernel: usize, block: usize, tap: usize) -> Range<usize> {
        let channels = (self.kernel.channels - block * self.atomic_c).min(self.atomic_c);
        let (k, channel) = (kernel as u32, (block * self.atomic_c) as u32);
        let (r, s) = ((tap / self.kernel.width) as u32, (tap % self.kernel.width) as u32);
        let start = match self.mapping {
            Mapping::Direct(weights) => weights.cube_offset(k, block as u32, r, s),
            Mapping::Image(weights) => weights.offset(k, channel, r, s),
            Mapping::Winograd(weights) => weights.offset(k, channel, r, s),
        } as usize;
        start..start + channels * self.element()
    }

    /// The bytes from a kernel's [`Self::weight_row`] to the next one's, where they are as far apart from each of `count`
    /// kernels to the next.
    pub fn weight_stride(&self, kernel: usize, count: usize, block: usize, tap: usize) -> Option<usize> {
        let first = self.weight_row(kernel, block, tap);
        let last = self.weight_row(kernel + count.saturating_sub(1), block, tap);
        // Groups lie at least as far apart as their kernels' rows, so only rows in line have this distance.
        (last.start.checked_sub(first.start)? == count.saturating_sub(1) * first.len()).then_some(first.len())
    }

    /// Where the weights of a kernel for one step of four channels lie, in Winograd convolution.
    pub fn winograd_step(&self, kernel: usize, step: usize) -> usize {
        match self.mapping {
            Mapping::Winograd(weights) => weights.offset(kernel as u32, 4 * step as u32, 0, 0) as usize,
            Mapping::Direct(_) | Mapping::Image(_) => 0,
        }
    }

    /// Where CDMA finds the feature cubes, from their address.
    pub fn cubes(&self) -> Result<Cube, Stop> {
        let Size { width, height, channels } = self.fetch;
        let extents = Extents::new(self.batch as u32, channels as u32, height as u32, width as u32);
        let Surface { line_stride, surface_stride, batch_stride, .. } = self.surface;
        Cube::as_programmed(
            extents,
            self.in_precision,
            self.atoms.bytes() as u32,
            line_stride[0],
            surface_stride,
            batch_stride,
        )
        .map_err(|error| Stop::unsupported("CDMA", error.to_string()))
    }

    /// Where CDMA finds the pixels, from their planes' addresses.
    pub fn image(&self) -> Result<Image, Stop> {
        let Size { width, height, .. } = self.fetch;
        let (x_offset, atom) = (self.pixel_x_offset as u32, self.atoms.bytes() as u32);
        Image::as_programmed(self.pixel, width as u32, height as u32, x_offset, atom, self.surface.line_stride)
            .map_err(|error| Stop::unsupported("CDMA", error.to_string()))
    }

    /// Accumulators of the output, lanes without a kernel included.
    pub fn sums(&self) -> usize {
        let Size { width, height, channels } = self.output;
        self.batch * channels.div_ceil(self.atomic_k) * self.atomic_k * height * width
    }

    /// Bytes of a line of input in the convolution buffer, without what fills up its last entry.
    pub fn slice_bytes(&self) -> usize {
        match self.placement.mode {
            Mode::Feature => self.atoms.span(self.fetch.width * self.fetch_surfaces()),
            Mode::Pixel => {
                (self.pads[0] + self.fetch.width + self.pads[1]) * super::pixel::components(self.pixel) * self.element()
            }
            Mode::Winograd => self.input.width * self.input.channels * self.element(),
        }
    }

    /// Surfaces of the input cube in memory.
    pub fn fetch_surfaces(&self) -> usize {
        self.atoms.surfaces(self.fetch.channels)
    }

    /// Slices that CDMA writes to the convolution buffer.
    pub fn fetched_slices(&self) -> usize {
        match self.placement.mode {
            Mode::Feature | Mode::Pixel => self.fetch.height * self.batch,
            Mode::Winograd => (self.pads[2] + self.fetch.height + self.pads[3]) / self.extension[1],
        }
    }

    fn check_shapes(&self) -> Result<(), Stop> {
        let unsupported = |what: String| Err(Stop::unsupported("CSC", what));
        let Self { fetch, input, kernel, output, .. } = self;
        let lanes = output.channels.div_ceil(self.atomic_k) * self.atomic_k;
        let sums = output.width * output.height * self.batch;
        if sums.checked_mul(lanes).is_none_or(|sums| sums > MAX_SUMS) {
            return unsupported(format!(
                "an output of {}x{}x{} in a batch of {} is more than the {MAX_SUMS} sums that this model holds",
                output.width, output.height, output.channels, self.batch
            ));
        }
        if self.placement.mode != Mode::Winograd {
            // Padding registers reach this far beyond the input.
            const BEYOND: usize = 63;
            let [(right, width), (bottom, height)] = [
                (
                    (output.width - 1) * self.stride[0] + (kernel.width - 1) * self.dilation[0],
                    input.width + self.pad[0],
                ),
                (
                    (output.height - 1) * self.stride[1] + (kernel.height - 1) * self.dilation[1],
                    input.height + self.pad[1],
                ),
            ];
            if self.placement.mode == Mode::Feature && right >= width + BEYOND || bottom >= height + BEYOND {
                return unsupported(format!(
                    "the last kernel ends at column {right}, line {bottom} of a padded input of {width}x{height}"
                ));
            }
            let padded = (right + 1) * (bottom + 1) * kernel.channels * self.batch;
            if padded > MAX_PADDED {
                return unsupported(format!("{padded} elements of padded input are more than {MAX_PADDED}"));
            }
        }
        let macs = (sums * lanes).checked_mul(self.taps_of_all_lines() * kernel.channels);
        if macs.is_none_or(|macs| macs > MAX_MACS) {
            return unsupported(format!(
                "{macs:?} multiplications are more than the {MAX_MACS} that this model performs"
            ));
        }
        match self.placement.mode {
            Mode::Feature => {
                if (fetch.width, fetch.channels) != (input.width, input.channels) || kernel.channels != input.channels {
                    return unsupported(format!(
                        "CDMA fetches {} elements of {} channels per line, CSC reads {} of {}, kernels have {}",
                        fetch.width, fetch.channels, input.width, input.channels, kernel.channels
                    ));
                }
            }
            Mode::Pixel => {
                let components = super::pixel::components(self.pixel);
                if kernel.width != 1 || fetch.channels != components || input.channels != components {
                    return unsupported(format!(
                        "{:?} has {components} channels; CDMA has {}, CSC {}, and its kernels are {} wide",
                        self.pixel, fetch.channels, input.channels, kernel.width
                    ));
                }
                if super::pixel::precision(self.pixel) != self.in_precision {
                    return Err(Stop::unsupported(
                        "CDMA",
                        format!("IN_PRECISION is {:?} for {:?} pixels", self.in_precision, self.pixel),
                    ));
                }
                let last = (output.width - 1) * self.stride[0] * components + kernel.channels;
                if last * self.element() > self.slice_bytes() {
                    return unsupported(format!(
                        "the last kernel ends at element {last} of a line of {}",
                        self.slice_bytes() / self.element()
                    ));
                }
            }
            Mode::Winograd => {
                let [left, right, top, bottom] = self.pads;
                let [sx, sy] = self.extension;
                let (width, height) = (left + fetch.width + right, top + fetch.height + bottom);
                let channels = self.atoms.filled(fetch.channels) * sx * sy;
                if width % (4 * sx) != 0
                    || height % (4 * sy) != 0
                    || (width / sx, channels) != (input.width, input.channels)
                    || kernel.channels != channels
                {
                    return unsupported(format!(
                        "Winograd input of {width}x{height}, {channels} channels at strides {sx} and {sy}; CSC reads \
                         {} elements of {} channels per line, kernels have {}",
                        input.width, input.channels, kernel.channels
                    ));
                }
                if output.width % 4 != 0
                    || output.height % 4 != 0
                    || output.width + 4 > input.width
                    || output.height + 4 > input.height
                {
                    return unsupported(format!(
                        "Winograd output of {}x{} from an extended input of {}x{}",
                        output.width, output.height, input.width, input.height
                    ));
                }
            }
        }
        Ok(())
    }

    /// The input must fit its banks: CSC waits for all of it.
    fn check_buffer(&self, config: &Config, programmed: [usize; 2]) -> Result<(), Stop> {
        let depth = buffer::bank_entries(config) as usize;
        let entries = match self.placement.mode {
            Mode::Feature => {
                buffer::feature_entries(config, self.fetch_surfaces() as u32, self.fetch.width as u32) as usize
            }
            Mode::Pixel => buffer::line_entries(config, self.slice_bytes() as u64) as usize,
            Mode::Winograd => self.slice_bytes() / buffer::entry_bytes(config) as usize,
        };
        for (unit, programmed) in ["CDMA", "CSC"].into_iter().zip(programmed) {
            if programmed != entries {
                return Err(Stop::unsupported(
                    unit,
                    format!("D_ENTRY_PER_SLICE says {programmed} entries, a line of this input takes {entries}"),
                ));
            }
        }
        let room = depth * self.placement.data_banks;
        if self.slices.checked_mul(entries).is_none_or(|needed| needed > room) {
            return Err(Stop::unsupported(
                "CDMA",
                format!("{} slices of {entries} entries do not fit the {room} entries of the data banks", self.slices),
            ));
        }
        Ok(())
    }

    fn check_weights(&self, programmed: usize, bank: usize) -> Result<(), Stop> {
        let bytes = self.kernel_bytes();
        if programmed != bytes {
            return Err(Stop::unsupported(
                "CDMA",
                format!("BYTE_PER_KERNEL says {programmed} bytes, a kernel of this shape has {bytes}"),
            ));
        }
        if self.weights.mask.is_none() && self.weights.bytes < bytes * self.kernels {
            return Err(Stop::unsupported(
                "CDMA",
                format!(
                    "WEIGHT_BYTES is {}, {} kernels have {}",
                    self.weights.bytes,
                    self.kernels,
                    bytes * self.kernels
                ),
            ));
        }
        let room = self.placement.weight_banks * bank;
        let together = if self.weight_reuse[1].keep { self.kernels } else { self.kernels.min(self.atomic_k) };
        if self.weights.mask.is_none() && bytes * together > room {
            return Err(Stop::unsupported(
                "CDMA",
                format!("{together} kernels of {bytes} bytes do not fit the {room} bytes of the weight banks"),
            ));
        }
        Ok(())
    }
}

/// Bytes of an element.
pub const fn element_bytes(precision: Precision) -> usize {
    match precision {
        Precision::Int8 => 1,
        Precision::Int16 | Precision::Fp16 => 2,
    }
}

/// The registers of the five blocks.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    /// Convolution DMA.
    pub cdma: &'a Registers,
    /// Sequence controller.
    pub csc: &'a Registers,
    /// First half of the multiply-accumulate array.
    pub cmac_a: &'a Registers,
    /// Second half of the multiply-accumulate array.
    pub cmac_b: &'a Registers,
    /// Accumulator.
    pub cacc: &'a Registers,
}

/// The operation's output.
pub(super) fn stream(operation: &Operation, samples: Samples) -> Stream {
    let Operation { output, batch, atomic_k, .. } = *operation;
    Stream { width: output.width, height: output.height, channels: output.channels, lanes: atomic_k, batch, samples }
}
