// SPDX-License-Identifier: MIT OR Apache-2.0

//! Convolution.
//!
//! ceil(C / atomic-C) x ceil(K / atomic-K) x R x S x P x Q cycles; 16-bit data halves atomic-K; Winograd has four
//! multiplications per output instead of nine. C, R and S are what the convolution's sequencer is given: in image mode
//! with a kernel's columns laid into channels. K kernels make P x Q outputs each.

use crate::{Bytes, Cube, Estimate, Limit, Memory};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{ConvOp, ConvSurface, DataFormat, MemoryType};
use nvdla_uapi::layout::{self, Nest};
use nvdla_uapi::reg::values::{ConvMode, Precision};

/// A convolution's input as an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    /// Bytes of all its planes.
    pub bytes: u64,
    /// Kernel lines that are processed together (post-extension): 1, 2 or 4.
    pub lines: u32,
}

/// A convolution as CDMA and the sequencer are given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvShape {
    /// The input.
    pub input: Cube,
    /// The input is an image.
    pub image: Option<Image>,
    /// What the kernels make: their number is its channels.
    pub output: Cube,
    /// Channels of a kernel, as the sequencer is given them.
    pub channels: u32,
    /// Lines of a kernel.
    pub kernel_height: u32,
    /// Columns of a kernel.
    pub kernel_width: u32,
    /// Horizontal stride.
    pub stride_x: u32,
    /// Vertical stride.
    pub stride_y: u32,
    /// Bytes of weights in memory.
    pub weight_bytes: u64,
    /// The memory that holds the weights.
    pub weight_memory: MemoryType,
    /// The input is in the convolution buffer already.
    pub data_reuse: bool,
    /// The weights are in the convolution buffer already.
    pub weight_reuse: bool,
    /// Buffer banks for data.
    pub data_banks: u32,
    /// Buffer banks for weights.
    pub weight_banks: u32,
    /// Inputs that are convolved with the same weights.
    pub batch: u32,
    /// Winograd: kernels of 3 x 3 in a quarter of the multiplications of 16 outputs' patches.
    pub winograd: bool,
}

impl ConvShape {
    /// A direct convolution of a feature cube, stride 1, with kernels of (lines, columns); weights lie packed in DRAM, all
    /// of the buffer's banks are shared evenly.
    pub fn direct(input: Cube, kernels: u32, kernel: (u32, u32), output: Cube) -> Self {
        let (kernel_height, kernel_width) = kernel;
        let elements =
            u64::from(input.channels) * u64::from(kernels) * u64::from(kernel_height) * u64::from(kernel_width);
        Self {
            input,
            image: None,
            output: Cube { channels: kernels, ..output }.on_the_fly(),
            channels: input.channels,
            kernel_height,
            kernel_width,
            stride_x: 1,
            stride_y: 1,
            weight_bytes: elements * u64::from(layout::bytes(input.precision)),
            weight_memory: MemoryType::Mc,
            data_reuse: false,
            weight_reuse: false,
            data_banks: 0,
            weight_banks: 0,
            batch: 1,
            winograd: false,
        }
    }

    /// From an operation's descriptors.
    pub fn from_descriptors(operation: &ConvOp, surface: &ConvSurface) -> Self {
        let winograd = operation.conv_mode == ConvMode::Winograd;
        let side = |field: u16| if winograd { 3 } else { u32::from(field) };
        let image = match operation.data_format {
            DataFormat::Feature => None,
            DataFormat::Pixel(_) => {
                let planes = [surface.src_data.line_stride, surface.in_line_uv_stride].map(u64::from);
                let lines = u64::from(surface.src_data.height);
                let bytes = planes.map(|stride| Nest::of_strides([stride]).offset([lines])).iter().sum();
                Some(Image { bytes, lines: 1 << operation.post_extension.min(2) })
            }
        };
        Self {
            input: Cube::from_descriptor(&surface.src_data, operation.in_precision),
            image,
            output: Cube::from_descriptor(&surface.dst_data, operation.out_precision).on_the_fly(),
            channels: operation.kernel_channel_csc.into(),
            kernel_height: side(operation.kernel_height_csc),
            kernel_width: side(operation.kernel_width_csc),
            stride_x: operation.conv_stride_x.into(),
            stride_y: operation.conv_stride_y.into(),
            weight_bytes: surface.weight_data.size.into(),
            weight_memory: surface.weight_data.mem_type,
            data_reuse: operation.data_reuse,
            weight_reuse: operation.weight_reuse,
            data_banks: operation.data_bank.into(),
            weight_banks: operation.weight_bank.into(),
            batch: u32::from(operation.batch.max(1)),
            winograd,
        }
    }

    /// Outputs of one kernel.
    fn outputs(&self) -> u64 {
        self.output.pixels() * u64::from(self.batch)
    }

    /// Multiply-accumulate steps, as the algorithm counts them.
    pub fn macs(&self) -> u64 {
        let kernel = u64::from(self.channels) * u64::from(self.kernel_height) * u64::from(self.kernel_width);
        kernel * u64::from(self.output.channels) * self.outputs()
    }

    /// Cycles that the multiply-accumulate cells are busy.
    pub fn mac_cycles(&self, config: &Config) -> u64 {
        let atomic_k = match self.input.precision {
            Precision::Int8 => config.mac_atomic_k,
            Precision::Int16 | Precision::Fp16 => config.mac_atomic_k / 2,
        };
        let groups = u64::from(self.channels.div_ceil(config.mac_atomic_c.max(1)))
            * u64::from(self.output.channels.div_ceil(atomic_k.max(1)));
        let steps = if self.winograd { 4 } else { u64::from(self.kernel_height) * u64::from(self.kernel_width) };
        groups * steps * self.outputs()
    }

    /// Bytes that CDMA reads.
    pub fn bytes(&self, config: &Config) -> Bytes {
        let mut bytes = Bytes::default();
        if !self.data_reuse {
            bytes += match self.image {
                Some(image) => Bytes::of(self.input.memory, image.bytes),
                None => self.input.bytes(config),
            };
        }
        if !self.weight_reuse {
            bytes += Bytes::of(self.weight_memory, self.weight_bytes);
        }
        bytes
    }
}

/// A convolution's time when what takes its output never makes it wait.
pub fn convolution(shape: &ConvShape, config: &Config, memory: &Memory) -> Estimate {
    Estimate::new(shape.mac_cycles(config), Limit::Macs, shape.bytes(config), memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvdla_uapi::config::{NV_FULL, NV_SMALL};

    #[test]
    fn cycles_of_the_cells() {
        let direct = ConvShape::direct(Cube::int8(100, 12, 10), 33, (3, 3), Cube::int8(33, 10, 8));
        assert_eq!(direct.macs(), 100 * 33 * 9 * 80);
        assert_eq!(direct.mac_cycles(&NV_FULL), 2 * 2 * 9 * 80);
        assert_eq!(ConvShape { winograd: true, ..direct }.mac_cycles(&NV_FULL), 2 * 2 * 4 * 80);
        let fp16 = Cube { precision: Precision::Fp16, ..direct.input };
        assert_eq!(ConvShape { input: fp16, ..direct }.mac_cycles(&NV_FULL), 2 * 3 * 9 * 80);
        assert_eq!(direct.mac_cycles(&NV_SMALL), 100_u64.div_ceil(8) * 33_u64.div_ceil(8) * 9 * 80);
    }
}
