// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a convolution is, once its registers are read: sizes, places, modes.

use std::ops::Range;

use nvdla_uapi::layout::feature::{Atoms, Cube};
use nvdla_uapi::layout::pixel::Image;
use nvdla_uapi::layout::{weight, Extents};
use nvdla_uapi::reg::values::{PixelFormat, Precision};

use crate::conv::pixel;
use crate::memory::{Port, Stop};
use crate::registers::Registers;

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

impl Operation {
    /// Bytes of an element in CMAC's precision.
    pub fn element(&self) -> usize {
        element_bytes(self.precision)
    }

    /// Bytes of one kernel.
    pub fn kernel_bytes(&self) -> usize {
        self.taps_of_all_lines() * self.kernel.channels * self.element()
    }

    /// Kernel positions: each has all channels.
    pub(super) fn taps_of_all_lines(&self) -> usize {
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
                (self.pads[0] + self.fetch.width + self.pads[1]) * pixel::components(self.pixel) * self.element()
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
