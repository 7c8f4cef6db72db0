// SPDX-License-Identifier: MIT OR Apache-2.0

//! The types of a checked convolution: sizes, addresses and modes.

use std::ops::Range;

use nvdla_uapi::layout::feature::{Atoms, Cube};
use nvdla_uapi::layout::pixel::Image;
use nvdla_uapi::layout::{weight, Extents};
use nvdla_uapi::reg::values::{PixelFormat, Precision};

use crate::conv::pixel;
use crate::memory::{Port, Stop};
use crate::registers::Registers;

/// The kind of convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Direct convolution of a feature cube.
    Feature,
    /// Direct convolution of an image, in which a line is one run of channels.
    Pixel,
    /// Winograd convolution: 4x4 tiles of a stride-extended feature cube.
    Winograd,
}

/// The parts of an operation that decide whether the next operation can reuse the convolution buffer's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The mode of CSC.
    pub mode: Mode,
    /// Banks for data.
    pub data_banks: usize,
    /// Banks for weights.
    pub weight_banks: usize,
}

/// One unit's reuse options, for data or for weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Use what the last operation kept.
    pub reuse: bool,
    /// Keep everything for the next operation.
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

/// The input in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Memory interface.
    pub port: Port,
    /// Address of the first byte, of both planes.
    pub address: [u64; 2],
    /// Bytes from line to line, of both planes.
    pub line_stride: [u64; 2],
    /// Bytes from surface to surface.
    pub surface_stride: u64,
    /// Bytes from cube to cube of a batch.
    pub batch_stride: u64,
}

/// The weights in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightSurface {
    /// Memory interface.
    pub port: Port,
    /// First byte of the weights.
    pub address: u64,
    /// Bytes.
    pub bytes: usize,
    /// Address and bytes of the mask, if the weights are compressed.
    pub mask: Option<(u64, usize)>,
    /// Address of the group sizes, if the weights are compressed.
    pub sizes: u64,
}

/// The layout of weights in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mapping {
    /// For a feature cube.
    Direct(weight::Direct),
    /// For an image, with extended channels.
    Image(weight::Image),
    /// For Winograd convolution, transformed.
    Winograd(weight::Winograd),
}

/// A checked convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// CMAC's precision.
    pub precision: Precision,
    /// The input's precision in memory.
    pub in_precision: Precision,
    /// Mode and banks.
    pub placement: Placement,
    /// Input surface.
    pub surface: Surface,
    /// Size of the input that CDMA fetches.
    pub fetch: Size,
    /// Size of the input that CSC reads, after Winograd's stride extension and including reused lines.
    pub input: Size,
    /// Pixel format.
    pub pixel: PixelFormat,
    /// Pixels between the line's address and its first pixel.
    pub pixel_x_offset: usize,
    /// Integer pixels are signed.
    pub pixel_signed: bool,
    /// Input converter, if enabled.
    pub converter: Option<Converter>,
    /// NaN becomes zero.
    pub flush_nan: bool,
    /// Cubes.
    pub batch: usize,
    /// Padding that CDMA adds: left, right, top, bottom. CDMA pads images on the left and right, Winograd input on all
    /// sides.
    pub pads: [usize; 4],
    /// Strides of Winograd's stride extension: x, y.
    pub extension: [usize; 2],
    /// Padding that CSC adds on the left and at the top.
    pub pad: [usize; 2],
    /// Padding value in CDMA's and in CSC's registers.
    pub pad_value: [u16; 2],
    /// Output size.
    pub output: Size,
    /// Kernel size after extension. For images, the width is 1 and the channels are those of a kernel line.
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
    /// The weights' layout.
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
    /// Kernels of a step in this precision, which are the channels of an output surface.
    pub atomic_k: usize,
    /// Atoms of the input in memory.
    pub atoms: Atoms,
}

/// Width, height and channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Elements per line.
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

    /// Kernel positions, each with all channels.
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

    /// The byte range, in the uncompressed weights, of a kernel's weights for one block of channels at one kernel
    /// position. An image's positions are lines.
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

    /// The distance in bytes between the [`Self::weight_row`]s of consecutive kernels, if it is the same for `count`
    /// kernels and equals the length of a row.
    pub fn weight_stride(&self, kernel: usize, count: usize, block: usize, tap: usize) -> Option<usize> {
        let first = self.weight_row(kernel, block, tap);
        let last = self.weight_row(kernel + count.saturating_sub(1), block, tap);
        // Kernel groups are further apart than the rows of a group, so only adjacent rows have this distance.
        (last.start.checked_sub(first.start)? == count.saturating_sub(1) * first.len()).then_some(first.len())
    }

    /// The byte offset of a kernel's weights for one Winograd step of four channels.
    pub fn winograd_step(&self, kernel: usize, step: usize) -> usize {
        match self.mapping {
            Mapping::Winograd(weights) => weights.offset(kernel as u32, 4 * step as u32, 0, 0) as usize,
            Mapping::Direct(_) | Mapping::Image(_) => 0,
        }
    }

    /// The layout of the feature cubes that CDMA reads.
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

    /// The layout of the image that CDMA reads.
    pub fn image(&self) -> Result<Image, Stop> {
        let Size { width, height, .. } = self.fetch;
        let (x_offset, atom) = (self.pixel_x_offset as u32, self.atoms.bytes() as u32);
        Image::as_programmed(self.pixel, width as u32, height as u32, x_offset, atom, self.surface.line_stride)
            .map_err(|error| Stop::unsupported("CDMA", error.to_string()))
    }

    /// The addresses of all bytes that CDMA reads: those of the input's planes, of the weights, of their mask and of the group sizes.
    pub(crate) fn reads(&self) -> Option<[Range<u64>; 5]> {
        let Self { surface: Surface { address: [first, second], .. }, weights, .. } = self;
        let bytes = match self.placement.mode {
            Mode::Feature | Mode::Winograd => [self.cubes().ok()?.span(), 0],
            Mode::Pixel => {
                let image = self.image().ok()?;
                [0, 1].map(|plane| image.span(plane))
            }
        };
        let sizes = if weights.mask.is_some() { 4 * self.kernels as u64 } else { 0 };
        let (mask, of_mask) = weights.mask.unwrap_or_default();
        let all = [
            (*first, bytes[0]),
            (*second, bytes[1]),
            (weights.address, weights.bytes as u64),
            (mask, of_mask as u64),
            (weights.sizes, sizes),
        ];
        let mut ranges = all.map(|_| 0..0);
        for (range, (start, bytes)) in ranges.iter_mut().zip(all) {
            *range = start..start.checked_add(bytes)?;
        }
        Some(ranges)
    }

    /// Number of accumulators, including lanes without a kernel.
    pub fn sums(&self) -> usize {
        let Size { width, height, channels } = self.output;
        self.batch * channels.div_ceil(self.atomic_k) * self.atomic_k * height * width
    }

    /// Bytes of an input line in the convolution buffer, without the padding of its last entry.
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
