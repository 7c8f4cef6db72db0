// SPDX-License-Identifier: MIT OR Apache-2.0

//! The registers of a convolution from its sizes, for tests and benchmarks, which replace a driver.

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::align::weight_size;
use nvdla_uapi::layout::buffer;
use nvdla_uapi::layout::feature::{Atoms, View};
use nvdla_uapi::layout::pixel::Image;
use nvdla_uapi::reg::values::{ConvMode, DataFormat, PixelFormat, Precision, RamType, WeightFormat};
use nvdla_uapi::reg::{cacc, cdma, cmac_a, cmac_b, csc, Block, Register};

use nvdla_model::conv::operation::{element_bytes, Blocks, Size};
use nvdla_model::conv::pixel;
use nvdla_model::memory::{Memory, Port};
use nvdla_model::registers::Registers;

/// The input of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A packed feature cube.
    Feature,
    /// A packed feature cube, by Winograd convolution. Strides are those of the channel extension.
    Winograd,
    /// An image, and the number of kernel lines per step (1, 2 or 4).
    Pixel(PixelFormat, u32),
}

/// A convolution's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The hardware configuration.
    pub(crate) config: &'static Config,
    /// The precision of CMAC.
    pub(crate) precision: Precision,
    /// The input.
    pub(crate) source: Source,
    /// Input; channels of an image come from its format.
    pub(crate) input: Size,
    /// Kernel width and height; Winograd: 3 and 3 after extension.
    pub(crate) kernel: [usize; 2],
    /// Kernels.
    pub(crate) kernels: usize,
    /// Strides in x and y.
    pub(crate) stride: [usize; 2],
    /// Distances of kernel elements in x and y; 1 for images and Winograd.
    pub(crate) dilation: [usize; 2],
    /// Padding: left, right, top, bottom.
    pub(crate) pads: [usize; 4],
    /// Value of the padding.
    pub(crate) pad_value: u16,
    /// Cubes.
    pub(crate) batch: usize,
    /// Right shift of the sums.
    pub(crate) truncate: u32,
    /// Right shift of Winograd's data transform.
    pub(crate) pra_truncate: u32,
    /// Address of the input, in primary memory.
    pub(crate) data: u64,
    /// Address of the weights, in primary memory.
    pub(crate) weights: u64,
}

/// The registers of the five blocks.
#[derive(Clone, Debug)]
pub(crate) struct Programmed {
    blocks: [Registers; 5],
}

impl Programmed {
    /// The registers, as [`nvdla_model::conv::run`] takes them.
    pub(crate) fn blocks(&self) -> Blocks<'_> {
        let [cdma, csc, cmac_a, cmac_b, cacc] = &self.blocks;
        Blocks { cdma, csc, cmac_a, cmac_b, cacc }
    }

    /// Changes one register.
    pub(crate) fn set(&mut self, block: Block, register: Register, value: u32) {
        for registers in &mut self.blocks {
            if registers.block() == block {
                registers.set(register, value);
            }
        }
    }
}

impl Program {
    /// A direct convolution of a packed feature cube by square kernels, padded so that the output has the input's size
    /// divided by the stride.
    pub(crate) fn feature(
        config: &'static Config,
        precision: Precision,
        input: Size,
        kernel: usize,
        kernels: usize,
    ) -> Self {
        Self {
            config,
            precision,
            source: Source::Feature,
            input,
            kernel: [kernel; 2],
            kernels,
            stride: [1; 2],
            dilation: [1; 2],
            pads: [kernel / 2, (kernel - 1) / 2, kernel / 2, (kernel - 1) / 2],
            pad_value: 0,
            batch: 1,
            truncate: 0,
            pra_truncate: 0,
            data: 0,
            weights: 0x1_0000_0000,
        }
    }

    fn element(&self) -> usize {
        element_bytes(self.precision)
    }

    /// The atoms of the input.
    fn atoms(&self) -> Atoms {
        Atoms::of(self.config, self.precision)
    }

    /// The input's image, if it is one. Its lines are multiples of 32 bytes.
    fn image(&self) -> Option<Image> {
        let Source::Pixel(format, _) = self.source else { return None };
        Image::packed(format, self.input.width as u32, self.input.height as u32, 0, 32).ok()
    }

    /// The input's packed cubes.
    fn cubes(&self) -> View {
        let Size { width, height, channels } = self.input;
        View::packed(self.atoms().surfaces(channels), height, width, self.atoms().bytes())
    }

    /// The output's size; `None` if the kernel is larger than the padded input, or Winograd's tiles do not fit it.
    pub(crate) fn output(&self) -> Option<Size> {
        let [left, right, top, bottom] = self.pads;
        let (width, height) = (left + self.input.width + right, top + self.input.height + bottom);
        let [sx, sy] = self.stride;
        if self.source == Source::Winograd {
            let fits = width % (4 * sx) == 0 && height % (4 * sy) == 0 && width >= 8 * sx && height >= 8 * sy;
            return fits.then(|| Size { width: width / sx - 4, height: height / sy - 4, channels: self.kernels });
        }
        let reach = |axis: usize| (self.kernel[axis] - 1) * self.dilation[axis] + 1;
        Some(Size {
            width: width.checked_sub(reach(0))? / sx + 1,
            height: height.checked_sub(reach(1))? / sy + 1,
            channels: self.kernels,
        })
    }

    /// Bytes of the packed input.
    pub(crate) fn input_bytes(&self) -> usize {
        match self.image() {
            Some(image) => image.span(0) as usize,
            None => self.cubes().cube * self.batch,
        }
    }

    /// Channels of a kernel in CSC's registers.
    fn kernel_channels(&self) -> usize {
        match self.source {
            Source::Feature => self.input.channels,
            Source::Winograd => self.atoms().filled(self.input.channels) * self.stride[0] * self.stride[1],
            Source::Pixel(format, _) => pixel::components(format) * self.kernel[0],
        }
    }

    /// Bytes of one kernel.
    pub(crate) fn kernel_bytes(&self) -> usize {
        let positions = match self.source {
            Source::Feature => self.kernel[0] * self.kernel[1],
            Source::Winograd => 16,
            Source::Pixel(..) => self.kernel[1],
        };
        positions * self.kernel_channels() * self.element()
    }

    /// Bytes of all kernels, padded as the configuration pads them.
    pub(crate) fn weight_bytes(&self) -> usize {
        (self.kernel_bytes() * self.kernels).next_multiple_of(weight_size(self.config) as usize)
    }

    /// Multiplications.
    pub(crate) fn macs(&self) -> Option<usize> {
        let Size { width, height, .. } = self.output()?;
        let positions = match self.source {
            // 16 products give four output elements.
            Source::Winograd => 4,
            Source::Pixel(..) => self.kernel[1],
            Source::Feature => self.kernel[0] * self.kernel[1],
        };
        Some(width * height * self.batch * self.kernels * positions * self.kernel_channels())
    }

    /// Entries of the convolution buffer that a line takes, and entries of a bank.
    fn entries(&self) -> (usize, usize) {
        let [sx, sy] = self.stride;
        let entries = match self.source {
            Source::Pixel(format, _) => {
                let pixels = self.pads[0] + self.input.width + self.pads[1];
                let bytes = pixels * pixel::components(format) * self.element();
                buffer::line_entries(self.config, bytes as u64) as usize
            }
            Source::Winograd => {
                let width = self.pads[0] + self.input.width + self.pads[1];
                let bytes = width / sx * self.atoms().filled(self.input.channels) * sx * sy * self.element();
                bytes / buffer::entry_bytes(self.config) as usize
            }
            Source::Feature => {
                let surfaces = self.atoms().surfaces(self.input.channels);
                buffer::feature_entries(self.config, surfaces as u32, self.input.width as u32) as usize
            }
        };
        (entries, buffer::bank_entries(self.config) as usize)
    }

    /// The registers; `None` if the output has no size, or input and weights do not fit the convolution buffer.
    pub(crate) fn registers(&self) -> Option<Programmed> {
        let output = self.output()?;
        let (entries, per_bank) = self.entries();
        let [sx, sy] = self.stride;
        let [left, right, top, bottom] = self.pads;
        let slices = match self.source {
            Source::Winograd => (top + self.input.height + bottom) / sy,
            _ => self.input.height * self.batch,
        };
        let data_banks = (slices * entries).div_ceil(per_bank);
        let banks = self.config.cbuf_banks as usize;
        let group = self.kernels.min(self.config.mac_atomic_k as usize / self.element()) * self.kernel_bytes();
        if data_banks >= banks || group > (banks - data_banks) * self.config.cbuf_bank_bytes() as usize {
            return None;
        }
        let (mode, format) = match self.source {
            Source::Feature => (ConvMode::Direct, DataFormat::Feature),
            Source::Winograd => (ConvMode::Winograd, DataFormat::Feature),
            Source::Pixel(..) => (ConvMode::Direct, DataFormat::Pixel),
        };
        let (image, extension) = match self.source {
            Source::Pixel(image, extension) => (image, extension.trailing_zeros()),
            _ => (PixelFormat::R8, 0),
        };
        let in_precision = match self.source {
            Source::Pixel(image, _) => pixel::precision(image),
            _ => self.precision,
        };
        let channels = match self.source {
            Source::Pixel(image, _) => pixel::components(image),
            _ => self.input.channels,
        };
        let View { cube, surface, line, .. } = match self.image() {
            // An image has only one line stride.
            Some(image) => View { line: image.line_stride(0) as usize, ..View::default() },
            None => self.cubes(),
        };
        let put = |value: usize| value as u32;
        let pair = |low: usize, high: usize| (low | high << 16) as u32;

        let mut cdma_block = Registers::reset(Block::Cdma);
        let misc = cdma::D_MISC_CFG::CONV_MODE.put(mode)
            | cdma::D_MISC_CFG::IN_PRECISION.put(in_precision)
            | cdma::D_MISC_CFG::PROC_PRECISION.put(self.precision);
        for (register, value) in [
            (cdma::D_MISC_CFG, misc),
            (
                cdma::D_DATAIN_FORMAT,
                cdma::D_DATAIN_FORMAT::DATAIN_FORMAT.put(format) | cdma::D_DATAIN_FORMAT::PIXEL_FORMAT.put(image),
            ),
            (cdma::D_DATAIN_SIZE_0, pair(self.input.width - 1, self.input.height - 1)),
            (cdma::D_DATAIN_SIZE_1, put(channels - 1)),
            (cdma::D_DAIN_RAM_TYPE, RamType::Mcif as u32),
            (cdma::D_DAIN_ADDR_HIGH_0, (self.data >> 32) as u32),
            (cdma::D_DAIN_ADDR_LOW_0, self.data as u32),
            (cdma::D_LINE_STRIDE, put(line)),
            (cdma::D_SURF_STRIDE, put(surface)),
            (cdma::D_DAIN_MAP, cdma::D_DAIN_MAP::LINE_PACKED.mask() | cdma::D_DAIN_MAP::SURF_PACKED.mask()),
            (cdma::D_BATCH_NUMBER, put(self.batch - 1)),
            (cdma::D_BATCH_STRIDE, put(cube)),
            (cdma::D_ENTRY_PER_SLICE, put(entries - 1)),
            (cdma::D_WEIGHT_FORMAT, WeightFormat::Uncompressed as u32),
            (cdma::D_WEIGHT_SIZE_0, put(self.kernel_bytes() - 1)),
            (cdma::D_WEIGHT_SIZE_1, put(self.kernels - 1)),
            (cdma::D_WEIGHT_RAM_TYPE, RamType::Mcif as u32),
            (cdma::D_WEIGHT_ADDR_HIGH, (self.weights >> 32) as u32),
            (cdma::D_WEIGHT_ADDR_LOW, self.weights as u32),
            (cdma::D_WEIGHT_BYTES, put(self.weight_bytes())),
            (cdma::D_CONV_STRIDE, pair(sx - 1, sy - 1)),
            (cdma::D_ZERO_PADDING, put(left | right << 8 | top << 16 | bottom << 24)),
            (cdma::D_ZERO_PADDING_VALUE, u32::from(self.pad_value)),
            (cdma::D_BANK, pair(data_banks - 1, banks - data_banks - 1)),
        ] {
            cdma_block.set(register, value);
        }

        let mut csc_block = Registers::reset(Block::Csc);
        let (width, height, stride, kernel) = match self.source {
            Source::Winograd => ((left + self.input.width + right) / sx, slices, [1; 2], [4; 2]),
            Source::Pixel(..) => (self.input.width, self.input.height, self.stride, [1, self.kernel[1]]),
            Source::Feature => (self.input.width, self.input.height, self.stride, self.kernel),
        };
        let in_channels = if self.source == Source::Winograd { self.kernel_channels() } else { channels };
        for (register, value) in [
            (
                csc::D_MISC_CFG,
                csc::D_MISC_CFG::CONV_MODE.put(mode)
                    | csc::D_MISC_CFG::IN_PRECISION.put(in_precision)
                    | csc::D_MISC_CFG::PROC_PRECISION.put(self.precision),
            ),
            (csc::D_DATAIN_FORMAT, format as u32),
            (csc::D_DATAIN_SIZE_EXT_0, pair(width - 1, height - 1)),
            (csc::D_DATAIN_SIZE_EXT_1, put(in_channels - 1)),
            (csc::D_BATCH_NUMBER, put(self.batch - 1)),
            (csc::D_POST_Y_EXTENSION, extension),
            (csc::D_ENTRY_PER_SLICE, put(entries - 1)),
            (csc::D_WEIGHT_SIZE_EXT_0, pair(kernel[0] - 1, kernel[1] - 1)),
            (csc::D_WEIGHT_SIZE_EXT_1, pair(self.kernel_channels() - 1, self.kernels - 1)),
            (csc::D_WEIGHT_BYTES, put(self.weight_bytes())),
            (csc::D_DATAOUT_SIZE_0, pair(output.width - 1, output.height - 1)),
            (csc::D_DATAOUT_SIZE_1, put(output.channels - 1)),
            (csc::D_ATOMICS, put(output.width * output.height - 1)),
            (csc::D_RELEASE, put(slices - 1)),
            (csc::D_CONV_STRIDE_EXT, pair(stride[0] - 1, stride[1] - 1)),
            (csc::D_DILATION_EXT, pair(self.dilation[0] - 1, self.dilation[1] - 1)),
            (csc::D_ZERO_PADDING, pair(left, top)),
            (csc::D_ZERO_PADDING_VALUE, u32::from(self.pad_value)),
            (csc::D_BANK, pair(data_banks - 1, banks - data_banks - 1)),
            (csc::D_PRA_CFG, self.pra_truncate),
        ] {
            csc_block.set(register, value);
        }

        let mut cmac_a_block = Registers::reset(Block::CmacA);
        let mut cmac_b_block = Registers::reset(Block::CmacB);
        let mut cacc_block = Registers::reset(Block::Cacc);
        cmac_a_block.set(
            cmac_a::D_MISC_CFG,
            cmac_a::D_MISC_CFG::CONV_MODE.put(mode) | cmac_a::D_MISC_CFG::PROC_PRECISION.put(self.precision),
        );
        cmac_b_block.set(
            cmac_b::D_MISC_CFG,
            cmac_b::D_MISC_CFG::CONV_MODE.put(mode) | cmac_b::D_MISC_CFG::PROC_PRECISION.put(self.precision),
        );
        for (register, value) in [
            (
                cacc::D_MISC_CFG,
                cacc::D_MISC_CFG::CONV_MODE.put(mode) | cacc::D_MISC_CFG::PROC_PRECISION.put(self.precision),
            ),
            (cacc::D_DATAOUT_SIZE_0, pair(output.width - 1, output.height - 1)),
            (cacc::D_DATAOUT_SIZE_1, put(output.channels - 1)),
            (cacc::D_BATCH_NUMBER, put(self.batch - 1)),
            (cacc::D_CLIP_CFG, self.truncate),
        ] {
            cacc_block.set(register, value);
        }
        Some(Programmed { blocks: [cdma_block, csc_block, cmac_a_block, cmac_b_block, cacc_block] })
    }
}

/// A memory with a convolution's input and weights, each at its own address.
pub(crate) struct Surfaces([(u64, Vec<u8>); 2]);

impl Surfaces {
    /// The memory for that convolution.
    pub(crate) fn new(program: &Program, input: Vec<u8>, weights: Vec<u8>) -> Self {
        Self([(program.data, input), (program.weights, weights)])
    }
}

impl Memory for Surfaces {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        let (base, bytes) = self.0.iter().rev().find(|(base, _)| address >= *base)?;
        let start = usize::try_from(address - base).ok()?;
        (port == Port::Primary).then(|| bytes.get(start..start.checked_add(length)?))?
    }

    fn write(&mut self, _port: Port, _address: u64, _length: usize) -> Option<&mut [u8]> {
        None
    }
}
