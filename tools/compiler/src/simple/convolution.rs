// SPDX-License-Identifier: MIT OR Apache-2.0

//! A convolution: the convolution pipeline, and SDP fused to it, which adds the bias and brings the sums to int8.
//!
//! Where not all input lines fit the convolution buffer, the output is made in bands of lines, a pair of operations each.

use nvdla_uapi::desc::{self, Activation, DataFormat, PixelOverride, SdpOperandMode, SdpOperation};
use nvdla_uapi::layout::operand::{Component, Format as OperandFormat, Operands};
use nvdla_uapi::layout::weight::{Direct, Geometry, Image, PostExtension};
use nvdla_uapi::layout::{Extents, Nest};
use nvdla_uapi::reg::values::{AluAlgorithm, OperandMode, OperandSize, OperandUse, Precision};

use super::{limits, Lowering};
use crate::cbuf::{self, Banks, WeightSize};
use crate::error::Error;
use crate::graph::{dilated, Convolution, Extent, NodeId, Shape};
use crate::program::{Base, Cube, Format, Kind, Operation};
use crate::quantize::{Quantized, MULTIPLIER_SHIFT};

/// Whether a convolution can read an image: its rows become channels, which cannot lie apart.
pub(super) fn reads_images(op: &Convolution) -> bool {
    op.dilation == Extent::ONE
}

/// Lines of the output that one pair of operations makes, and what they take of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Band {
    /// First line of the output.
    first: u32,
    /// Lines of the output.
    lines: u32,
    /// First line of the input.
    input_first: u32,
    /// Lines of the input.
    input_lines: u32,
    /// Padding above them.
    top: u32,
    /// Padding below them.
    bottom: u32,
}

impl Band {
    /// The band of `lines` lines from `first` on.
    fn new(op: &Convolution, input_height: u32, first: u32, lines: u32) -> Self {
        let tall = dilated(op.window.y, op.dilation.y);
        // Counted from the topmost line of padding.
        let begin = first * op.stride.y;
        let end = (first + lines - 1) * op.stride.y + tall;
        let input_first = begin.saturating_sub(op.padding.top).min(input_height - 1);
        let input_end = end.saturating_sub(op.padding.top).clamp(input_first + 1, input_height);
        Self {
            first,
            lines,
            input_first,
            input_lines: input_end - input_first,
            top: op.padding.top.saturating_sub(begin),
            bottom: end.saturating_sub(op.padding.top + input_height),
        }
    }

    /// All bands of an output of `height` lines of which each may take `most` lines of the input; `None` if not even
    /// one line of the output can be made.
    fn split(op: &Convolution, input_height: u32, height: u32, most: u32) -> Option<Vec<Self>> {
        let whole = Self::new(op, input_height, 0, height);
        if whole.input_lines <= most {
            return Some(vec![whole]);
        }
        let mut bands = Vec::new();
        let mut first = 0;
        while first < height {
            let fits = |&lines: &u32| Self::new(op, input_height, first, lines).input_lines <= most;
            let lines = (1..=height - first).take_while(fits).last()?;
            bands.push(Self::new(op, input_height, first, lines));
            first += lines;
        }
        Some(bands)
    }
}

/// The weights as they lie in memory.
struct Packed {
    bytes: Vec<u8>,
    /// A kernel's dimensions as CSC sees them.
    kernel: Shape,
    size: WeightSize,
}

impl Lowering<'_> {
    pub(super) fn convolution(&mut self, id: NodeId, op: &Convolution) -> Result<(), Error> {
        let node = self.graph.node(id);
        let layer = node.name.clone();
        limits::convolution(&layer, op)?;
        let (from, source) = self.source(id)?;
        let relu = self.fused_relu(id);
        let result = relu.unwrap_or(id);
        let scale = |node| self.scales.of(node);
        let quantized = Quantized::new(&layer, op, scale(from), scale(result), self.granularity)?;
        let zero = scale(from).zero.round() as i16;

        let input = self.program.surface(source).clone();
        let image = matches!(input.format, Format::Pixel(_));
        let packed =
            self.pack(&layer, op, &quantized.weights, self.graph.node(from).shape.channels, input.shape, image)?;
        let entries = if image {
            let width = op.padding.left + input.shape.width + op.padding.right;
            cbuf::image_entries(self.config, width, input.shape.channels)
        } else {
            cbuf::feature_entries(self.config, input.shape.channels, input.shape.width)
        };
        let most = cbuf::most_lines(self.config, entries, packed.size);
        let bands = Band::split(op, input.shape.height, node.shape.height, most).ok_or_else(|| {
            let bank = self.config.cbuf_bank_bytes();
            let reason = format!(
                "the convolution buffer's {} banks of {bank} bytes hold a kernel group of {} bytes and {most} input \
                 lines of {} bytes, but a line of output takes {}",
                self.config.cbuf_banks,
                packed.size.group,
                cbuf::slice_bytes(self.config, entries),
                dilated(op.window.y, op.dilation.y).min(input.shape.height)
            );
            Error::unsupported(&layer, reason)
        })?;

        let kernel = packed.kernel;
        let weight_bytes = packed.bytes.len() as u32;
        let weights = self.program.constant(format!("{layer}.weights"), packed.bytes);
        let weights = Cube {
            base: Base::Constant(weights),
            offset: 0,
            size: weight_bytes,
            width: kernel.width as u16,
            height: kernel.height as u16,
            channels: kernel.channels as u16,
            line_stride: 0,
            surface_stride: 0,
        };
        let (x1, operands) = self.x1(&layer, &quantized, relu.is_some())?;
        let target = self.output(result)?;
        let target = self.program.whole(target);
        let source = self.program.whole(source);
        for band in bands {
            limits::operation(&layer, entries, kernel, band.lines * u32::from(target.width))?;
            let data = cbuf::data_banks(self.config, entries, band.input_lines);
            let banks = cbuf::weight_banks(self.config, packed.size, data)
                .ok_or_else(|| Error::unsupported(&layer, format!("{data} banks of data leave none for weights")))?;
            let conv = Self::descriptor(op, input.format, (source, target), kernel, band, entries, banks, zero);
            let written = lines(target, band.first, band.lines);
            // What SDP gets has the shape of what it writes.
            let sums = Cube { base: Base::OnTheFly, offset: 0, ..written };
            self.program.push(Operation {
                layer: layer.clone(),
                kind: Kind::Convolution {
                    op: Box::new(conv),
                    source: lines(source, band.input_first, band.input_lines),
                    weights,
                    target: sums,
                },
            });
            let sdp = desc::SdpOp {
                lut_index: -1,
                out_cvt: converter(quantized.output.scale, quantized.output.truncate),
                batch_num: 1,
                x1_op: Some(x1),
                ..Default::default()
            };
            self.program.push(Operation {
                layer: layer.clone(),
                kind: Kind::Sdp { op: Box::new(sdp), source: sums, operands: Some(operands), target: written },
            });
        }
        Ok(())
    }

    fn descriptor(
        op: &Convolution,
        format: Format,
        (source, target): (Cube, Cube),
        kernel: Shape,
        band: Band,
        entries: u32,
        banks: Banks,
        zero: i16,
    ) -> desc::ConvOp {
        desc::ConvOp {
            entry_per_slice: entries as u16,
            data_format: match format {
                Format::Feature => DataFormat::Feature,
                Format::Pixel(format) => DataFormat::Pixel(format),
            },
            // Images hold int8 already.
            pixel_override: PixelOverride::Int,
            fetch_grain: 1,
            batch: 1,
            data_bank: banks.data as u8,
            weight_bank: banks.weights as u8,
            release: band.input_lines as u16,
            input_width_csc: source.width,
            input_height_csc: band.input_lines as u16,
            input_channel_csc: source.channels,
            kernel_width_csc: kernel.width as u16,
            kernel_height_csc: kernel.height as u16,
            kernel_channel_csc: kernel.channels as u16,
            input_width_cmac: target.width,
            input_height_cmac: band.lines as u16,
            bytes_per_kernel: kernel.elements() as u32,
            conv_stride_x: op.stride.x as u8,
            conv_stride_y: op.stride.y as u8,
            pad_x_left: op.padding.left as u8,
            pad_x_right: op.padding.right as u8,
            pad_y_top: band.top as u8,
            pad_y_bottom: band.bottom as u8,
            dilation_x: op.dilation.x as u8,
            dilation_y: op.dilation.y as u8,
            pad_val: zero,
            in_cvt: desc::CvtParam { scale: 1, ..Default::default() },
            out_cvt: converter(1, 0),
            ..Default::default()
        }
    }

    /// Weights in the order in which the hardware reads them. An image's pixels may have more components than the
    /// network's input has channels: those have no weight.
    fn pack(
        &self,
        layer: &str,
        op: &Convolution,
        weights: &[i8],
        channels: u32,
        input: Shape,
        image: bool,
    ) -> Result<Packed, Error> {
        let geometry = Geometry::of(self.config, Precision::Int8);
        let refuse = |error: nvdla_uapi::layout::Error| Error::unsupported(layer, error.to_string());
        let extents = Extents::new(op.kernels, input.channels, op.window.y, op.window.x);
        let plain = Shape { channels, height: op.window.y, width: op.window.x };
        let mut bytes;
        let kernel;
        let fill = |bytes: &mut Vec<u8>, offset: &dyn Fn(u32, u32, u32, u32) -> u64| {
            for (k, weights) in weights.chunks_exact(plain.elements()).enumerate() {
                for c in 0..plain.channels {
                    for r in 0..plain.height {
                        for s in 0..plain.width {
                            bytes[offset(k as u32, c, r, s) as usize] = weights[plain.index(c, r, s)] as u8;
                        }
                    }
                }
            }
        };
        if image {
            let layout = Image::new(extents, geometry, PostExtension::One).map_err(refuse)?;
            bytes = vec![0; layout.size() as usize];
            fill(&mut bytes, &|k, c, r, s| layout.offset(k, c, r, s));
            // Pre-extension makes channels of the columns.
            kernel = Shape { channels: input.channels * op.window.x, height: op.window.y, width: 1 };
        } else {
            let layout = Direct::new(extents, geometry).map_err(refuse)?;
            bytes = vec![0; layout.size() as usize];
            fill(&mut bytes, &|k, c, r, s| layout.offset(k, c, r, s));
            kernel = Shape { channels: input.channels, height: op.window.y, width: op.window.x };
        }
        limits::cube(layer, kernel)?;
        let group = geometry.largest_group(op.kernels) * kernel.elements() as u64;
        let size = WeightSize { all: bytes.len() as u64, group };
        Ok(Packed { bytes, kernel, size })
    }

    /// Sub-unit X1 and its operands: an addend each kernel, and a factor where each kernel has its scale.
    fn x1(&mut self, layer: &str, quantized: &Quantized, relu: bool) -> Result<(desc::SdpSubUnit, Cube), Error> {
        let (op_type, data_use, truncate) = match quantized.multipliers {
            Some(_) => (SdpOperation::Both, OperandUse::Both, MULTIPLIER_SHIFT),
            None => (SdpOperation::Add, OperandUse::Alu, 0),
        };
        let kernels = quantized.bias.len() as u32;
        let format = OperandFormat {
            mode: OperandMode::PerKernel,
            data_use,
            data_size: OperandSize::TwoByte,
            processing: Precision::Int8,
            atom: self.config.memory_atomic,
        };
        let layout = Operands::packed(Extents::new(1, kernels, 1, 1), format)
            .map_err(|error| Error::unsupported(layer, error.to_string()))?;
        let mut bytes = vec![0; layout.span() as usize];
        let mut put = |component, kernel: usize, value: i16| {
            if let Some(at) = layout.component_offset(component, kernel as u32, 0, 0) {
                bytes[at as usize..][..2].copy_from_slice(&value.to_le_bytes());
            }
        };
        for (k, &bias) in quantized.bias.iter().enumerate() {
            put(Component::Alu, k, bias);
        }
        for (k, &multiplier) in quantized.multipliers.iter().flatten().enumerate() {
            put(Component::Mul, k, multiplier);
        }
        let size = bytes.len() as u32;
        let constant = self.program.constant(format!("{layer}.bias"), bytes);
        let stride = format.bytes_per_atom();
        let cube = Cube {
            base: Base::Constant(constant),
            offset: 0,
            size,
            width: 1,
            height: 1,
            channels: kernels as u16,
            line_stride: stride,
            surface_stride: stride,
        };
        let unit = desc::SdpSubUnit {
            enable: true,
            alu_type: AluAlgorithm::Sum,
            op_type,
            mode: SdpOperandMode::PerKernel,
            act: if relu { Activation::Relu } else { Activation::None },
            shift_value: quantized.bias_shift,
            truncate,
            precision: Precision::Int16,
            alu_operand: 0,
            mul_operand: 1,
            ..Default::default()
        };
        Ok((unit, cube))
    }
}

/// A converter that is in use.
pub(super) fn converter(scale: i16, truncate: u8) -> desc::CvtParam {
    desc::CvtParam { scale, truncate, enable: 1, offset: 0 }
}

/// Some lines of a cube: what lies before them is left out, so that a feature cube's size is what remains.
fn lines(cube: Cube, first: u32, lines: u32) -> Cube {
    let offset = Nest::of_strides([u64::from(cube.line_stride)]).offset([first.into()]) as u32;
    Cube { offset: cube.offset + offset, size: cube.size - offset, height: lines as u16, ..cube }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Padding;

    fn op(window: u32, stride: u32, dilation: u32, pad: u32) -> Convolution {
        Convolution {
            kernels: 1,
            window: Extent { y: window, x: 1 },
            stride: Extent { y: stride, x: 1 },
            dilation: Extent { y: dilation, x: 1 },
            padding: Padding { top: pad, left: 0, bottom: pad, right: 0 },
            weights: Vec::new(),
            bias: Vec::new(),
        }
    }

    /// Each line of output reads the same lines of input, whichever band it is in.
    #[test]
    fn bands_read_what_the_whole_reads() {
        for (window, stride, dilation, pad, height, most) in
            [(3, 1, 1, 1, 10, 3), (3, 2, 1, 1, 11, 5), (5, 1, 2, 4, 20, 12), (1, 1, 1, 0, 7, 2), (7, 3, 1, 3, 30, 8)]
        {
            let op = op(window, stride, dilation, pad);
            let out = (height + 2 * pad - dilated(window, dilation)) / stride + 1;
            let bands = Band::split(&op, height, out, most).unwrap();
            assert!(bands.len() > 1);
            let mut next = 0;
            for band in bands {
                assert_eq!(band.first, next);
                assert!(band.input_lines <= most, "{band:?}");
                for y in 0..band.lines {
                    let wanted = (band.first + y) * stride;
                    // Both counted from the topmost line of the whole padding.
                    let found = y * stride + band.input_first + pad - band.top;
                    assert_eq!(wanted, found, "{band:?}");
                }
                let reach = (band.lines - 1) * stride + dilated(window, dilation);
                assert!(band.top + band.input_lines + band.bottom >= reach, "{band:?}");
                next += band.lines;
            }
            assert_eq!(next, out);
        }
        assert_eq!(Band::split(&op(3, 1, 1, 0), 10, 8, 2), None);
    }
}
