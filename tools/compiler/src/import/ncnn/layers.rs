// SPDX-License-Identifier: MIT OR Apache-2.0

//! The layers. The keys of parameters are those of NCNN.

use super::reader::{Layer, Reader};
use crate::import::at::At;
use crate::import::normalize::{normalize, scaled, Over};
use crate::import::options::Options;
use crate::import::reduce::{reduce, Reduction};
use crate::ir::{
    dilated, infer, Binary, BlockOrder, Convolution, Coordinates, Op, PadMode, Padding, Pool, PoolKind, Resize,
    ResizeMode, Rounding, TensorId, Unary,
};

const LAYERS: &[&str] = &[
    "AbsVal",
    "BNLL",
    "BatchNorm",
    "Bias",
    "BinaryOp",
    "CELU",
    "Cast",
    "Clip",
    "Concat",
    "Convolution",
    "Convolution1D",
    "ConvolutionDepthWise",
    "ConvolutionDepthWise1D",
    "Crop",
    "Deconvolution",
    "Deconvolution1D",
    "DeconvolutionDepthWise",
    "DeconvolutionDepthWise1D",
    "DeepCopy",
    "Dropout",
    "ELU",
    "Eltwise",
    "Erf",
    "Exp",
    "ExpandDims",
    "Flatten",
    "Flip",
    "GELU",
    "GLU",
    "GRU",
    "Gemm",
    "GroupNorm",
    "HardSigmoid",
    "HardSwish",
    "InnerProduct",
    "Input",
    "InstanceNorm",
    "Interp",
    "LRN",
    "LSTM",
    "LayerNorm",
    "Log",
    "MatMul",
    "MemoryData",
    "Mish",
    "MultiHeadAttention",
    "Noop",
    "PReLU",
    "Packing",
    "Padding",
    "Permute",
    "PixelShuffle",
    "Pooling",
    "Pooling1D",
    "Power",
    "RNN",
    "ReLU",
    "Reduction",
    "Reorg",
    "Reshape",
    "SELU",
    "Scale",
    "Shrink",
    "ShuffleChannel",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Softplus",
    "Split",
    "Squeeze",
    "Swish",
    "TanH",
    "Threshold",
    "Tile",
    "UnaryOp",
];

/// The value of a parameter that is not given, or is determined by the input.
const ABSENT: i64 = -233;

pub(super) fn is_known(kind: &str) -> bool {
    LAYERS.contains(&kind)
}

pub(super) const WHY_NOT: &str = "the layer is not supported";

/// The greatest number of copies of a tensor along one axis.
const MAX_TILES: usize = 1024;

impl Reader<'_> {
    /// Adds a layer's nodes. Returns its outputs.
    pub(super) fn layer(
        &mut self,
        l: &Layer<'_>,
        inputs: &[TensorId],
        options: &Options,
    ) -> Result<Vec<TensorId>, String> {
        if !is_known(l.kind) {
            return Err(WHY_NOT.to_owned());
        }
        match l.kind {
            "Input" => {
                let top = *l.tops.first().ok_or("it has no output")?;
                let shape = Self::input_shape(l, top, options)?;
                return self.graph.input(top, &shape).map(|id| vec![id]);
            }
            "MemoryData" => {
                let shape = Self::extents(l)?;
                let values = self.weights.plain(infer::elements(&shape)?)?;
                return self.constant(l, &shape, values).map(|id| vec![id]);
            }
            _ => {}
        }
        let &x = inputs.first().ok_or("it has no input")?;
        match l.kind {
            "Split" => return Ok(vec![x; l.tops.len()]),
            "Noop" if l.tops.len() == inputs.len() => return Ok(inputs.to_vec()),
            "Slice" => return self.slices(l, x),
            "LSTM" | "GRU" | "RNN" => return self.recurrent(l, inputs),
            _ => {}
        }
        let unary = |reader: &mut Self, unary| reader.emit(l, Op::Unary(unary), &[x]);
        let y = match l.kind {
            "Convolution" | "ConvolutionDepthWise" => self.convolution(l, x),
            "Deconvolution" | "DeconvolutionDepthWise" => self.deconvolution(l, x),
            "InnerProduct" => self.inner_product(l, x),
            "MatMul" => self.mat_mul(l, inputs),
            "Gemm" => self.gemm(l, inputs),
            "MultiHeadAttention" => self.attention(l, inputs),
            "Pooling" => self.pooling(l, x),
            "ReLU" if l.float(0, 0.0) == 0.0 => unary(self, Unary::Relu),
            "ReLU" => unary(self, Unary::LeakyRelu(l.float(0, 0.0))),
            "Clip" => unary(self, Unary::Clip(l.float(0, f32::MIN), l.float(1, f32::MAX))),
            "Sigmoid" => unary(self, Unary::Sigmoid),
            "TanH" => unary(self, Unary::Tanh),
            "Mish" => unary(self, Unary::Mish),
            "Swish" => unary(self, Unary::Silu),
            "Softplus" | "BNLL" => unary(self, Unary::Softplus),
            "AbsVal" => unary(self, Unary::Abs),
            "ELU" => unary(self, Unary::Elu(l.float(0, 0.1))),
            "SELU" => unary(self, Unary::Selu { alpha: l.float(0, 1.673_263_2), gamma: l.float(1, 1.050_701) }),
            "GELU" if l.int(0, 0) != 0 => unary(self, Unary::GeluTanh),
            "GELU" => unary(self, Unary::Gelu),
            "Erf" => unary(self, Unary::Erf),
            "Threshold" => unary(self, Unary::Step(l.float(0, 0.0))),
            // A base of -1 is that of the natural logarithm.
            "Exp" => {
                let rate = if l.float(0, -1.0) == -1.0 { 1.0 } else { l.float(0, -1.0).ln() };
                let x = self.linear(l, x, l.float(1, 1.0) * rate, l.float(2, 0.0) * rate)?;
                self.emit(l, Op::Unary(Unary::Exp), &[x])
            }
            "Log" => {
                let rate = if l.float(0, -1.0) == -1.0 { 1.0 } else { l.float(0, -1.0).ln() };
                let x = self.linear(l, x, l.float(1, 1.0), l.float(2, 0.0))?;
                let y = self.emit(l, Op::Unary(Unary::Log), &[x])?;
                self.linear(l, y, 1.0 / rate, 0.0)
            }
            "Power" => {
                let x = self.linear(l, x, l.float(1, 1.0), l.float(2, 0.0))?;
                if l.float(0, 1.0) == 1.0 {
                    return Ok(vec![x]);
                }
                let power = self.constant(l, &[], vec![l.float(0, 1.0)])?;
                self.emit(l, Op::Binary(Binary::Pow), &[x, power])
            }
            "CELU" => {
                let alpha = l.float(0, 1.0);
                let inner = self.linear(l, x, 1.0 / alpha, 0.0)?;
                let y = self.emit(l, Op::Unary(Unary::Elu(1.0)), &[inner])?;
                self.linear(l, y, alpha, 0.0)
            }
            "Shrink" => self.shrink(l, x),
            "GLU" => self.gated(l, x),
            "Bias" => {
                let count = l.size(0, 0)?;
                let values = self.weights.plain(count)?;
                self.affine(l, x, vec![1.0; count], Some(values))
            }
            "Reduction" => self.reduction(l, x),
            "Reorg" => self.reorg(l, x),
            "Tile" => self.tile(l, x),
            "Flip" => self.flip(l, x),
            "Squeeze" | "ExpandDims" => self.dimensions(l, x),
            "Convolution1D"
            | "ConvolutionDepthWise1D"
            | "Deconvolution1D"
            | "DeconvolutionDepthWise1D"
            | "Pooling1D" => self.of_lines(l, x),
            "HardSigmoid" => unary(self, Unary::HardSigmoid { alpha: l.float(0, 0.2), beta: l.float(1, 0.5) }),
            "HardSwish" => self.hard_swish(l, x, l.float(0, 0.2), l.float(1, 0.5)),
            "UnaryOp" => self.unary(l, x),
            "PReLU" => {
                let count = l.size(0, 0)?;
                let slopes = self.weights.plain(count)?;
                if let [slope] = slopes[..] {
                    return unary(self, Unary::LeakyRelu(slope)).map(|id| vec![id]);
                }
                let slopes = self.constant(l, &[count], slopes)?;
                self.emit(l, Op::PRelu, &[x, slopes])
            }
            "BatchNorm" => self.batch_norm(l, x),
            "InstanceNorm" | "GroupNorm" => self.groups_norm(l, x),
            "LayerNorm" => self.layer_norm(l, x),
            "Scale" => self.scale(l, inputs),
            "BinaryOp" => self.binary(l, inputs),
            "Eltwise" => self.eltwise(l, inputs),
            "Concat" => {
                let axis = self.axis(l.int(0, 0), x)?;
                if inputs.len() == 1 {
                    Ok(x)
                } else {
                    self.emit(l, Op::Concat { axis }, inputs)
                }
            }
            "Softmax" => {
                let axis = self.axis(l.int(0, 0), x)?;
                self.emit(l, Op::Softmax { axis }, &[x])
            }
            "Flatten" => {
                let elements = self.graph.tensor(x).elements();
                self.reshaped(l, x, &[1, elements])
            }
            "Dropout" if l.float(0, 1.0) != 1.0 => {
                let factor = self.constant(l, &[], vec![l.float(0, 1.0)])?;
                self.emit(l, Op::Binary(Binary::Mul), &[x, factor])
            }
            // 3 is int8.
            "Cast" if l.int(1, 0) == 3 => Err("a cast to integers".to_owned()),
            "Cast" | "Dropout" | "Noop" | "DeepCopy" | "Packing" => Ok(x),
            "Reshape" => self.reshape(l, x),
            "Permute" => self.permute(l, x),
            "Padding" => self.padding(l, x),
            "Crop" => self.crop(l, inputs),
            "Interp" => self.interp(l, inputs),
            "PixelShuffle" => {
                let order = if l.int(1, 0) == 0 { BlockOrder::Crd } else { BlockOrder::Dcr };
                self.emit(l, Op::DepthToSpace { block: [l.size(0, 1)?; 2], order }, &[x])
            }
            "ShuffleChannel" => {
                let (group, channels) = (l.size(0, 1)?, self.graph.shape(x).get(1).copied().unwrap_or(0));
                if group == 0 || channels % group != 0 {
                    return Err(format!("{channels} channels in {group} groups"));
                }
                let group = if l.int(1, 0) == 0 { group } else { channels / group };
                let from = (0..channels).map(|k| k % group * (channels / group) + k / group).collect();
                self.emit(l, Op::ChannelPermutation { from }, &[x])
            }
            "LRN" if l.int(0, 0) == 0 => {
                let (alpha, beta, bias) = (l.float(2, 1.0), l.float(3, 0.75), l.float(4, 1.0));
                self.emit(l, Op::Lrn { size: l.size(1, 5)?, alpha, beta, bias }, &[x])
            }
            "LRN" => Err("normalisation within a channel is not supported".to_owned()),
            _ => Err(WHY_NOT.to_owned()),
        }?;
        Ok(vec![y])
    }

    /// The shape in the parameters 0, 1 and 2 (width, height, channels).
    fn extents(l: &Layer<'_>) -> Result<Vec<usize>, String> {
        let given = [l.size(2, 0)?, l.size(1, 0)?, l.size(0, 0)?];
        Ok([1].into_iter().chain(given.into_iter().filter(|&extent| extent != 0)).collect())
    }

    fn input_shape(l: &Layer<'_>, name: &str, options: &Options) -> Result<Vec<usize>, String> {
        let shape = match options.shapes.get(name) {
            Some(shape) => shape.clone(),
            None => Self::extents(l)?,
        };
        if shape.len() < 2 {
            return Err(format!("its shape is not known; give it with the option shape, as {name}=1x3x224x224"));
        }
        Ok(shape)
    }

    /// An axis of NCNN, which does not number the batch.
    fn axis(&self, axis: i64, x: TensorId) -> Result<usize, String> {
        let rank = self.graph.shape(x).len() as i64 - 1;
        let whole = if axis < 0 { axis.saturating_add(rank) } else { axis };
        if (0..rank).contains(&whole) {
            Ok(whole as usize + 1)
        } else {
            Err(format!("axis {axis} of {rank} dimensions"))
        }
    }

    pub(super) fn reshaped(&mut self, l: &Layer<'_>, x: TensorId, shape: &[usize]) -> Result<TensorId, String> {
        if self.graph.shape(x) == shape {
            return Ok(x);
        }
        self.emit(l, Op::Reshape { shape: shape.to_vec() }, &[x])
    }

    fn hard_swish(&mut self, l: &Layer<'_>, x: TensorId, alpha: f32, beta: f32) -> Result<TensorId, String> {
        let gate = self.emit(l, Op::Unary(Unary::HardSigmoid { alpha, beta }), &[x])?;
        self.emit(l, Op::Binary(Binary::Mul), &[x, gate])
    }

    /// The activation that a layer includes: parameters 9 and 10.
    fn activation(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let parameter =
            |k: usize| l.array(10).get(k).map(|&value| value as f32).ok_or("its activation lacks parameters");
        let unary = match l.int(9, 0) {
            0 => return Ok(x),
            1 => Unary::Relu,
            2 => Unary::LeakyRelu(parameter(0)?),
            3 => Unary::Clip(parameter(0)?, parameter(1)?),
            4 => Unary::Sigmoid,
            5 => Unary::Mish,
            6 => return self.hard_swish(l, x, parameter(0)?, parameter(1)?),
            other => return Err(format!("its activation {other} is not supported")),
        };
        self.emit(l, Op::Unary(unary), &[x])
    }

    /// Weights, converted from int8 if necessary, and the bias. `scales` is the number of int8 scales.
    fn weights_and_bias(
        &mut self,
        l: &Layer<'_>,
        shape: &[usize],
        kernels: usize,
        bias: bool,
        scales: usize,
    ) -> Result<Vec<TensorId>, String> {
        let count = infer::elements(shape)?;
        let declared = l.size(if l.kind == "InnerProduct" { 2 } else { 6 }, 0)?;
        if declared != count {
            return Err(format!("{declared} weights for the shape {shape:?}"));
        }
        let (mut values, integers) = self.weights.tagged(count)?;
        let bias = if bias { Some(self.weights.plain(kernels)?) } else { None };
        let term = l.int(8, 0);
        if term != 0 {
            let single = l.kind == "ConvolutionDepthWise" && matches!(term, 2 | 102);
            let scales = self.weights.plain(if single { 1 } else { scales })?;
            // The scales of the activations are not needed, because they are measured.
            self.weights.plain(1 + usize::from(term > 100))?;
            if let Some(scale) = scales.iter().find(|scale| integers && !(scale.is_finite() && **scale > 0.0)) {
                return Err(format!("the weights' scale {scale} is not a positive number"));
            }
            if integers {
                let each = count / scales.len();
                values.iter_mut().enumerate().for_each(|(k, value)| *value /= scales[(k / each).min(scales.len() - 1)]);
            }
        } else if integers {
            return Err("int8 weights without scales".to_owned());
        }
        let mut ids = vec![self.constant(l, shape, values)?];
        if let Some(bias) = bias {
            ids.push(self.constant(l, &[kernels], bias)?);
        }
        Ok(ids)
    }

    fn four(&self, x: TensorId) -> Result<[usize; 4], String> {
        let shape = self.graph.shape(x);
        shape.try_into().map_err(|_| format!("the input {shape:?} is not (C, H, W)"))
    }

    /// The padding in four keys: left, right, top, bottom.
    fn sides(l: &Layer<'_>, [left, right, top, bottom]: [i32; 4]) -> Result<Padding, String> {
        let first = l.size(left, 0)?;
        let above = l.size(top, first)?;
        Ok(Padding { top: above, left: first, bottom: l.size(bottom, above)?, right: l.size(right, first)? })
    }

    /// The padding with which the output has the size ceil(size / stride).
    fn same(size: [usize; 2], kernel: [usize; 2], stride: [usize; 2], lower: bool) -> Padding {
        let side = |axis: usize| {
            let stride = stride[axis].max(1);
            let total = ((size[axis] - 1) / stride * stride).saturating_add(kernel[axis]).saturating_sub(size[axis]);
            let half = if lower { total - total / 2 } else { total / 2 };
            (half, total - half)
        };
        let ((top, bottom), (left, right)) = (side(0), side(1));
        Padding { top, left, bottom, right }
    }

    fn convolution(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        if let (&[1, channels], [1, 1]) = (self.graph.shape(x), l.pair(11, 1, 0)?) {
            // A vector is one pixel.
            let pixel = self.reshaped(l, x, &[1, channels, 1, 1])?;
            let y = self.convolution(l, pixel)?;
            let kernels = self.graph.tensor(y).elements();
            return self.reshaped(l, y, &[1, kernels]);
        }
        let [_, channels, height, width] = self.four(x)?;
        let (kernels, group) = (l.size(0, 0)?, if l.kind == "Convolution" { 1 } else { l.size(7, 1)? });
        let (kernel, stride, dilation) = (l.pair(11, 1, 0)?, l.pair(13, 3, 1)?, l.pair(12, 2, 1)?);
        if group == 0 || channels % group != 0 || kernels % group != 0 {
            return Err(format!("{channels} channels and {kernels} kernels in {group} groups"));
        }
        let extent = [dilated(kernel[0], dilation[0]), dilated(kernel[1], dilation[1])];
        let padding = match l.int(4, 0) {
            ABSENT => Self::same([height, width], extent, stride, false),
            -234 => Self::same([height, width], extent, stride, true),
            _ => Self::sides(l, [4, 15, 14, 16])?,
        };
        let shape = [kernels, channels / group, kernel[0], kernel[1]];
        let scales = if group == 1 { kernels } else { group };
        let operands = self.weights_and_bias(l, &shape, kernels, l.int(5, 0) != 0, scales)?;
        let mut x = x;
        let mut padding = padding;
        if l.float(18, 0.0) != 0.0 && padding != Padding::default() {
            let (before, after) = (vec![0, 0, padding.top, padding.left], vec![0, 0, padding.bottom, padding.right]);
            x = self.emit(l, Op::Pad { mode: PadMode::Constant(l.float(18, 0.0)), before, after }, &[x])?;
            padding = Padding::default();
        }
        let op = Op::Convolution(Convolution { group, kernel, stride, dilation, padding });
        let y = self.emit(l, op, &[&[x], &operands[..]].concat())?;
        self.activation(l, y)
    }

    fn deconvolution(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let [_, channels, height, width] = self.four(x)?;
        let (kernels, group) = (l.size(0, 0)?, if l.kind == "Deconvolution" { 1 } else { l.size(7, 1)? });
        let (kernel, stride, dilation) = (l.pair(11, 1, 0)?, l.pair(13, 3, 1)?, l.pair(12, 2, 1)?);
        if group == 0 || channels % group != 0 || kernels % group != 0 {
            return Err(format!("{channels} channels and {kernels} kernels in {group} groups"));
        }
        let extra = [l.size(19, l.size(18, 0)?)?, l.size(18, 0)?];
        // Padding of -233 and -234 is what is more than the given size: half of it on each side, the rest below or above.
        let open = |mode: i64| [4, 15, 14, 16].iter().any(|&key| l.int(key, 0) == mode);
        let (upper, lower) = (open(ABSENT), open(-234));
        let padding = if upper || lower {
            let wide = l.size(20, 0)?;
            let wanted = [l.size(21, wide)?, wide];
            let cut = |axis: usize, size: usize| {
                let kernel = dilated(kernel[axis], dilation[axis]);
                let whole = (size - 1).saturating_mul(stride[axis]).saturating_add(kernel).saturating_add(extra[axis]);
                match wanted {
                    [0, _] | [_, 0] => Ok((0, 0)),
                    _ => {
                        let cut = whole.checked_sub(wanted[axis]);
                        let cut = cut.ok_or_else(|| format!("an output of {wanted:?}, larger than {whole}"))?;
                        let first = if upper { cut / 2 } else { cut - cut / 2 };
                        Ok::<_, String>((first, cut - first))
                    }
                }
            };
            let ((top, bottom), (left, right)) = (cut(0, height)?, cut(1, width)?);
            Padding { top, left, bottom, right }
        } else {
            let padding = Self::sides(l, [4, 15, 14, 16])?;
            if padding == Padding::default() && l.size(20, 0)? > 0 && l.size(21, l.size(20, 0)?)? > 0 {
                return Err("a given size with padding of 0, for which NCNN gives no output".to_owned());
            }
            padding
        };
        // NCNN's order: group, kernel, channel; the representation's: channel, kernel.
        let (per_group, each) = (channels / group, kernels / group);
        let stored = [kernels, per_group, kernel[0], kernel[1]];
        let mut operands = self.weights_and_bias(l, &stored, kernels, l.int(5, 0) != 0, kernels)?;
        let shape = [group, each, per_group, kernel[0], kernel[1]];
        operands[0] = self.emit(l, Op::Reshape { shape: shape.to_vec() }, &[operands[0]])?;
        operands[0] = self.emit(l, Op::Transpose { perm: vec![0, 2, 1, 3, 4] }, &[operands[0]])?;
        operands[0] =
            self.emit(l, Op::Reshape { shape: vec![channels, each, kernel[0], kernel[1]] }, &[operands[0]])?;
        let op = Op::Deconvolution(Convolution { group, kernel, stride, dilation, padding }, extra);
        let y = self.emit(l, op, &[&[x], &operands[..]].concat())?;
        self.activation(l, y)
    }

    fn inner_product(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let (kernels, elements) = (l.size(0, 0)?, self.graph.tensor(x).elements());
        // A blob of several rows has weights for one of them.
        if let &[_, rows, columns] = self.graph.shape(x) {
            if rows > 1 && kernels.checked_mul(columns) == Some(l.size(2, 0)?) {
                let bias = l.int(1, 0) != 0;
                let operands = self.weights_and_bias(l, &[kernels, columns, 1, 1], kernels, bias, kernels)?;
                let y = self.each_row(l, x, &operands)?;
                return self.activation(l, y);
            }
        }
        let operands = self.weights_and_bias(l, &[kernels, elements, 1, 1], kernels, l.int(1, 0) != 0, kernels)?;
        let x = self.reshaped(l, x, &[1, elements, 1, 1])?;
        let y = self.emit(l, Op::Convolution(Convolution::pointwise()), &[&[x], &operands[..]].concat())?;
        let y = self.reshaped(l, y, &[1, kernels])?;
        self.activation(l, y)
    }

    fn pooling(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let [_, channels, height, width] = self.four(x)?;
        let size = [height, width];
        let max = match l.int(0, 0) {
            0 => true,
            1 => false,
            other => return Err(format!("the pooling {other} is not supported")),
        };
        let average = |count_include_pad| if max { PoolKind::Max } else { PoolKind::Average { count_include_pad } };
        if l.int(4, 0) != 0 {
            let pool = Pool::new(average(true), size);
            let y = self.emit(l, Op::Pool(pool), &[x])?;
            return self.reshaped(l, y, &[1, channels]);
        }
        if l.int(7, 0) != 0 {
            let out = [l.int(18, l.int(8, 0)), l.int(8, 0)];
            let mut kernel = [1; 2];
            for axis in 0..2 {
                let wanted = if out[axis] == ABSENT { size[axis] } else { usize::try_from(out[axis]).unwrap_or(0) };
                if wanted == 0 || size[axis] % wanted != 0 {
                    return Err(format!("adaptive pooling of {size:?} to {out:?}, with windows of several sizes"));
                }
                kernel[axis] = size[axis] / wanted;
            }
            let pool = Pool { stride: kernel, ..Pool::new(average(true), kernel) };
            return self.emit(l, Op::Pool(pool), &[x]);
        }
        let (kernel, stride) = (l.pair(11, 1, 0)?, l.pair(12, 2, 1)?);
        let pad_mode = l.int(5, 0);
        let mut padding = match pad_mode {
            0 | 1 => Self::sides(l, [3, 14, 13, 15])?,
            mode => Self::same(size, kernel, stride, mode == 3),
        };
        if pad_mode == 0 {
            // The last window may end beyond the input.
            let tail = |size: usize, stride: usize, kernel: usize| match size.checked_sub(kernel) {
                Some(rest) if stride > 0 => (stride - rest % stride) % stride,
                _ => 0,
            };
            let whole = |size: usize, before: usize, after: usize| size.saturating_add(before).saturating_add(after);
            let (below, behind) =
                (whole(height, padding.top, padding.bottom), whole(width, padding.left, padding.right));
            padding.bottom = padding.bottom.saturating_add(tail(below, stride[0], kernel[0]));
            padding.right = padding.right.saturating_add(tail(behind, stride[1], kernel[1]));
        }
        // The padding of modes 2 and 3 (that of TensorFlow's "same") counts in the divisor.
        let (same, include) = (matches!(pad_mode, 2 | 3), l.int(6, 0) != 0);
        if same && !include && !max && [3, 14, 13, 15].iter().any(|&side| l.int(side, 0) > 0) {
            return Err(format!("padding beside that of pad_mode {pad_mode}, by which NCNN leaves out elements"));
        }
        let kind = average(include || same || padding == Padding::default());
        self.emit(l, Op::Pool(Pool { kind, kernel, stride, dilation: [1; 2], padding }), &[x])
    }

    fn unary(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let unary = match l.int(0, 0) {
            0 => Unary::Abs,
            1 => Unary::Neg,
            2 => Unary::Floor,
            3 => Unary::Ceil,
            4 => return self.emit(l, Op::Binary(Binary::Mul), &[x, x]),
            5 => Unary::Sqrt,
            6 => {
                let root = self.emit(l, Op::Unary(Unary::Sqrt), &[x])?;
                return self.emit(l, Op::Unary(Unary::Reciprocal), &[root]);
            }
            7 => Unary::Exp,
            8 => Unary::Log,
            9 => Unary::Sin,
            10 => Unary::Cos,
            12 => Unary::Asin,
            13 => Unary::Acos,
            14 => Unary::Atan,
            15 => Unary::Reciprocal,
            16 => Unary::Tanh,
            17 => {
                let y = self.emit(l, Op::Unary(Unary::Log), &[x])?;
                return self.linear(l, y, std::f32::consts::LOG10_E, 0.0);
            }
            18 => Unary::Round,
            other => return Err(format!("the operation {other} is not supported")),
        };
        self.emit(l, Op::Unary(unary), &[x])
    }

    /// x * factor + offset
    pub(super) fn linear(
        &mut self,
        l: &Layer<'_>,
        mut x: TensorId,
        factor: f32,
        offset: f32,
    ) -> Result<TensorId, String> {
        if factor != 1.0 {
            let factor = self.constant(l, &[], vec![factor])?;
            x = self.emit(l, Op::Binary(Binary::Mul), &[x, factor])?;
        }
        if offset != 0.0 {
            let offset = self.constant(l, &[], vec![offset])?;
            x = self.emit(l, Op::Binary(Binary::Add), &[x, offset])?;
        }
        Ok(x)
    }

    /// x without the part between -lambda and lambda, and nearer to 0 by the bias.
    fn shrink(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let (bias, limit) = (l.float(0, 0.0), l.float(1, 0.5));
        if bias == limit {
            let inner = self.emit(l, Op::Unary(Unary::Clip(-limit, limit)), &[x])?;
            return self.emit(l, Op::Binary(Binary::Sub), &[x, inner]);
        }
        let mut sides = [x; 2];
        for (k, side) in sides.iter_mut().enumerate() {
            let from = if k == 0 { x } else { self.emit(l, Op::Unary(Unary::Neg), &[x])? };
            *side = self.emit(l, Op::Unary(Unary::Threshold(limit)), &[from])?;
            if bias != 0.0 {
                let beyond = self.emit(l, Op::Unary(Unary::Step(limit)), &[from])?;
                let beyond = self.linear(l, beyond, bias, 0.0)?;
                *side = self.emit(l, Op::Binary(Binary::Sub), &[*side, beyond])?;
            }
        }
        self.emit(l, Op::Binary(Binary::Sub), &sides)
    }

    /// The first half of an axis times the sigmoid of the second.
    fn gated(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let shape = self.graph.shape(x).to_vec();
        let axis = self.axis(l.int(0, 0), x)?;
        let half = shape[axis] / 2;
        let part = |start: usize| {
            let (mut starts, mut lengths) = (vec![0; shape.len()], shape.clone());
            (starts[axis], lengths[axis]) = (start, half);
            Op::Slice { starts, steps: vec![1; shape.len()], lengths }
        };
        let value = self.emit(l, part(0), &[x])?;
        let gate = self.emit(l, part(half), &[x])?;
        let gate = self.emit(l, Op::Unary(Unary::Sigmoid), &[gate])?;
        self.emit(l, Op::Binary(Binary::Mul), &[value, gate])
    }

    fn reduction(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let operation = match l.int(0, 0) {
            0 => Reduction::Sum,
            1 | 7 => Reduction::L1,
            2 => Reduction::SumSquare,
            3 => Reduction::Mean,
            4 => Reduction::Max,
            5 => Reduction::Min,
            8 => Reduction::L2,
            9 => Reduction::LogSum,
            10 => Reduction::LogSumExp,
            other => return Err(format!("the operation {other} is not supported")),
        };
        let shape = self.graph.shape(x).to_vec();
        let mut reduced: Vec<usize> = if l.int(1, 1) != 0 || l.array(3).is_empty() {
            (1..shape.len()).collect()
        } else {
            l.array(3).iter().map(|&axis| self.axis(axis as i64, x)).collect::<Result<_, _>>()?
        };
        reduced.sort_unstable();
        reduced.dedup();
        let y = reduce(&mut At { graph: &mut self.graph, node: l.name }, x, &reduced, operation)?;
        let y = self.linear(l, y, l.float(2, 1.0), 0.0)?;
        let keep = l.int(4, 0) != 0;
        let extent = |axis: usize| if reduced.contains(&axis) { 1 } else { shape[axis] };
        let mut to: Vec<usize> = (0..shape.len()).filter(|axis| keep || !reduced.contains(axis)).map(extent).collect();
        if to.len() == 1 {
            to.push(1);
        }
        self.reshaped(l, y, &to)
    }

    fn reorg(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let ([_, channels, ..], block) = (self.four(x)?, l.size(0, 1)?);
        let y = self.emit(l, Op::SpaceToDepth { block: [block; 2] }, &[x])?;
        if l.int(1, 0) != 0 {
            return Ok(y);
        }
        let square = block * block;
        let from = (0..channels * square).map(|k| k % square * channels + k / square).collect();
        self.emit(l, Op::ChannelPermutation { from }, &[y])
    }

    fn tile(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let rank = self.graph.shape(x).len();
        let mut counts = vec![1; rank];
        let repeats = l.array(2);
        if repeats.is_empty() {
            counts[self.axis(l.int(0, 0), x)?] = l.size(1, 1)?;
        } else if repeats.len() < rank {
            // The last dimensions.
            for (count, &repeat) in counts[rank - repeats.len()..].iter_mut().zip(repeats) {
                *count = repeat as usize;
            }
        } else {
            return Err(format!("{} repetitions for {} dimensions", repeats.len(), rank - 1));
        }
        let mut y = x;
        for (axis, &count) in counts.iter().enumerate().filter(|(_, count)| **count != 1) {
            if count == 0 || count > MAX_TILES {
                return Err(format!("{count} repetitions"));
            }
            y = self.emit(l, Op::Concat { axis }, &vec![y; count])?;
        }
        Ok(y)
    }

    fn flip(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let shape = self.graph.shape(x).to_vec();
        let (mut starts, mut steps) = (vec![0; shape.len()], vec![1; shape.len()]);
        for &axis in l.array(0) {
            let axis = self.axis(axis as i64, x)?;
            (starts[axis], steps[axis]) = (shape[axis] - 1, -1);
        }
        self.emit(l, Op::Slice { starts, steps, lengths: shape }, &[x])
    }

    /// Removes or adds dimensions of 1.
    fn dimensions(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let mut shape = self.graph.shape(x).to_vec();
        let (adds, list) = (l.kind == "ExpandDims", l.array(3));
        if list.is_empty() {
            return Err("its axes are given as flags".to_owned());
        }
        let rank = (shape.len() - 1 + if adds { list.len() } else { 0 }) as i64;
        let place = |&axis: &f64| {
            let axis = if axis < 0.0 { axis as i64 + rank } else { axis as i64 };
            if (0..rank).contains(&axis) {
                Ok(axis as usize + 1)
            } else {
                Err(format!("axis {axis} of {rank} dimensions"))
            }
        };
        let mut axes = list.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        axes.sort_unstable();
        axes.dedup();
        if adds {
            for &axis in &axes {
                shape.insert(axis.min(shape.len()), 1);
            }
        } else {
            axes.retain(|&axis| shape[axis] == 1);
            for &axis in axes.iter().rev() {
                shape.remove(axis);
            }
        }
        if shape.len() == 1 {
            shape.push(1);
        }
        self.reshaped(l, x, &shape)
    }

    /// A layer of lines: the layer of pictures with one line.
    fn of_lines(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let &[_, channels, width] = self.graph.shape(x) else {
            return Err(format!("the input {:?} is not (C, W)", self.graph.shape(x)));
        };
        let kind = l.kind.trim_end_matches("1D");
        let mut values = l.values.clone();
        // Kernel, dilation, stride, padding above and below, the size of the output and what is added to it.
        let fixed: &[(i32, f64)] = match kind {
            "Pooling" => &[(11, 1.0), (12, 1.0), (13, 0.0), (15, 0.0), (18, 1.0)],
            "Convolution" | "ConvolutionDepthWise" => {
                &[(11, 1.0), (12, 1.0), (13, 1.0), (14, 0.0), (16, 0.0), (19, 0.0)]
            }
            _ => &[(11, 1.0), (12, 1.0), (13, 1.0), (14, 0.0), (16, 0.0), (19, 0.0), (21, 1.0)],
        };
        if kind.starts_with("Convolution") && l.int(19, 0) != 0 {
            return Err("weights that the network computes are not supported".to_owned());
        }
        values.extend(fixed.iter().copied());
        let (bottoms, tops, arrays) = (l.bottoms.clone(), l.tops.clone(), l.arrays.clone());
        let layer = Layer { kind, name: l.name, bottoms, tops, values, arrays };
        let x = self.reshaped(l, x, &[1, channels, 1, width])?;
        let y = match kind {
            "Pooling" => self.pooling(&layer, x)?,
            "Convolution" | "ConvolutionDepthWise" => self.convolution(&layer, x)?,
            _ => self.deconvolution(&layer, x)?,
        };
        match self.graph.shape(y) {
            &[one, channels, 1, width] => self.reshaped(l, y, &[one, channels, width]),
            _ => Ok(y),
        }
    }

    /// x * factor + offset, per channel.
    fn affine(
        &mut self,
        l: &Layer<'_>,
        x: TensorId,
        factors: Vec<f32>,
        offsets: Option<Vec<f32>>,
    ) -> Result<TensorId, String> {
        let mut shape = vec![1; self.graph.shape(x).len() - 1];
        shape[0] = factors.len();
        let factors = self.constant(l, &shape, factors)?;
        let y = self.emit(l, Op::Binary(Binary::Mul), &[x, factors])?;
        let Some(offsets) = offsets else { return Ok(y) };
        let offsets = self.constant(l, &shape, offsets)?;
        self.emit(l, Op::Binary(Binary::Add), &[y, offsets])
    }

    fn batch_norm(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let (channels, epsilon) = (l.size(0, 0)?, l.float(1, 0.0));
        let (slope, mean) = (self.weights.plain(channels)?, self.weights.plain(channels)?);
        let (variance, bias) = (self.weights.plain(channels)?, self.weights.plain(channels)?);
        let factors: Vec<f32> = (0..channels).map(|k| slope[k] / (variance[k] + epsilon).sqrt()).collect();
        let offsets = (0..channels).map(|k| bias[k] - mean[k] * factors[k]).collect();
        self.affine(l, x, factors, Some(offsets))
    }

    /// InstanceNorm, whose groups are channels, and GroupNorm.
    fn groups_norm(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let first = i32::from(l.kind == "GroupNorm");
        let (groups, channels) = (l.size(0, 1)?, self.graph.shape(x)[1]);
        if groups == 0 || !channels.is_multiple_of(groups) || l.size(first, channels)? != channels {
            return Err(format!("{groups} groups of {channels} channels"));
        }
        let mut to = At { graph: &mut self.graph, node: l.name };
        let y = normalize(&mut to, x, Over::Groups(groups), true, l.float(first + 1, 0.001))?.y;
        if l.int(first + 2, 1) == 0 {
            return Ok(y);
        }
        let (factors, offsets) = (self.weights.plain(channels)?, self.weights.plain(channels)?);
        self.affine(l, y, factors, Some(offsets))
    }

    /// A normalisation over the last dimensions that have so many elements.
    fn layer_norm(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let (shape, count) = (self.graph.shape(x).to_vec(), l.size(0, 0)?);
        let from = (1..shape.len()).find(|&axis| shape[axis..].iter().product::<usize>() == count);
        let from = from.ok_or_else(|| format!("{count} elements of {shape:?}"))?;
        let over: Vec<usize> = (from..shape.len()).collect();
        let mut to = At { graph: &mut self.graph, node: l.name };
        let y = normalize(&mut to, x, Over::Axes(&over), true, l.float(1, 0.001))?.y;
        if l.int(2, 1) == 0 {
            return Ok(y);
        }
        let operands = [self.weights.plain(count)?, self.weights.plain(count)?];
        let mut to = At { graph: &mut self.graph, node: l.name };
        let [scale, bias] = operands.map(|values| to.constant(&shape[from..], values));
        scaled(&mut to, y, Some(scale?), Some(bias?))
    }

    fn scale(&mut self, l: &Layer<'_>, inputs: &[TensorId]) -> Result<TensorId, String> {
        if l.int(0, 0) == ABSENT {
            // The factors are the second input, one per channel.
            let &[x, gate] = inputs else { return Err(format!("{} inputs, not two", inputs.len())) };
            let mut shape = vec![1; self.graph.shape(x).len()];
            shape[1] = self.graph.tensor(gate).elements();
            let gate = self.reshaped(l, gate, &shape)?;
            return self.emit(l, Op::Binary(Binary::Mul), &[x, gate]);
        }
        let count = l.size(0, 0)?;
        let factors = self.weights.plain(count)?;
        let offsets = if l.int(1, 0) != 0 { Some(self.weights.plain(count)?) } else { None };
        self.affine(l, inputs[0], factors, offsets)
    }

    fn binary(&mut self, l: &Layer<'_>, inputs: &[TensorId]) -> Result<TensorId, String> {
        let operand = match inputs {
            [_, b] => *b,
            [_] if l.int(1, 0) != 0 => self.constant(l, &[], vec![l.float(2, 0.0)])?,
            _ => return Err(format!("{} inputs, not two", inputs.len())),
        };
        let (mut a, mut b) = (inputs[0], operand);
        let [of_a, of_b] = [a, b].map(|id| self.graph.shape(id).to_vec());
        // NCNN aligns the first dimensions of the smaller blob. A vector that does not fit there has columns.
        for (id, own, other) in [(&mut a, &of_a, &of_b), (&mut b, &of_b, &of_a)] {
            if own.len() < 2 || own.len() >= other.len() {
                continue;
            }
            let ones = vec![1; other.len() - own.len()];
            let shape = if own.len() == 2 && own[1] != other[1] {
                [&[1], &ones[..], &own[1..]].concat()
            } else {
                [&own[..], &ones].concat()
            };
            *id = self.reshaped(l, *id, &shape)?;
        }
        let (op, turned) = match l.int(0, 0) {
            0 => (Binary::Add, false),
            1 => (Binary::Sub, false),
            2 => (Binary::Mul, false),
            3 => (Binary::Div, false),
            4 => (Binary::Max, false),
            5 => (Binary::Min, false),
            6 => (Binary::Pow, false),
            7 => (Binary::Sub, true),
            8 => (Binary::Div, true),
            9 => (Binary::Pow, true),
            other => return Err(format!("the operation {other} is not supported")),
        };
        self.emit(l, Op::Binary(op), &if turned { [b, a] } else { [a, b] })
    }

    fn eltwise(&mut self, l: &Layer<'_>, inputs: &[TensorId]) -> Result<TensorId, String> {
        let op = match l.int(0, 0) {
            0 => Binary::Mul,
            1 => Binary::Add,
            2 => Binary::Max,
            other => return Err(format!("the operation {other} is not supported")),
        };
        let factors = l.array(1);
        if !factors.is_empty() && (factors.len() != inputs.len() || op != Binary::Add) {
            return Err(format!("{} factors for {} inputs", factors.len(), inputs.len()));
        }
        let mut parts = Vec::new();
        for (k, &x) in inputs.iter().enumerate() {
            parts.push(match factors.get(k) {
                Some(&factor) if factor != 1.0 => {
                    let factor = self.constant(l, &[], vec![factor as f32])?;
                    self.emit(l, Op::Binary(Binary::Mul), &[x, factor])?
                }
                _ => x,
            });
        }
        let (first, rest) = parts.split_first().ok_or("it has no inputs")?;
        rest.iter().try_fold(*first, |sum, &x| self.emit(l, Op::Binary(op), &[sum, x]))
    }

    fn reshape(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        if l.int(3, 0) != 0 {
            return Err("permute is not supported".to_owned());
        }
        let from = self.graph.shape(x).to_vec();
        // Depth, key 11, would be a fifth dimension.
        let given: Vec<i64> =
            [2, 11, 1, 0].into_iter().map(|key| l.int(key, ABSENT)).filter(|&v| v != ABSENT).collect();
        let mut shape = vec![1];
        for (k, &extent) in given.iter().enumerate() {
            shape.push(match extent {
                0 => *from.get(k + 1).ok_or_else(|| format!("{from:?} to {given:?}"))?,
                -1 => 1,
                _ => usize::try_from(extent).map_err(|_| format!("the size {extent}"))?,
            });
        }
        if let Some(open) = given.iter().position(|&extent| extent == -1) {
            let known = infer::elements(&shape)?;
            shape[open + 1] = infer::elements(&from)? / known;
        }
        self.reshaped(l, x, &shape)
    }

    fn permute(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let orders: &[&[usize]] = match self.graph.shape(x).len() {
            // Written from the innermost axis outwards: 0 is width, height, channels as they are.
            4 => &[&[1, 2, 3], &[1, 3, 2], &[2, 1, 3], &[2, 3, 1], &[3, 1, 2], &[3, 2, 1]],
            3 => &[&[1, 2], &[2, 1]],
            rank => return Err(format!("{} dimensions", rank - 1)),
        };
        let order = usize::try_from(l.int(0, 0)).ok().and_then(|k| orders.get(k)).ok_or("its order is not known")?;
        self.emit(l, Op::Transpose { perm: [&[0], *order].concat() }, &[x])
    }

    fn padding(&mut self, l: &Layer<'_>, x: TensorId) -> Result<TensorId, String> {
        let rank = self.four(x)?.len();
        let mode = match l.int(4, 0) {
            0 => PadMode::Constant(l.float(5, 0.0)),
            1 => PadMode::Edge,
            2 => PadMode::Reflect,
            other => return Err(format!("the padding {other} is not supported")),
        };
        if l.int(6, 0) != 0 {
            return Err("values per channel are not supported".to_owned());
        }
        let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
        (before[2], after[2], before[3], after[3]) = (l.size(0, 0)?, l.size(1, 0)?, l.size(2, 0)?, l.size(3, 0)?);
        (before[1], after[1]) = (l.size(7, 0)?, l.size(8, 0)?);
        self.emit(l, Op::Pad { mode, before, after }, &[x])
    }

    fn crop(&mut self, l: &Layer<'_>, inputs: &[TensorId]) -> Result<TensorId, String> {
        let x = inputs[0];
        let shape = self.graph.shape(x).to_vec();
        let (mut starts, mut lengths) = (vec![0; shape.len()], shape.clone());
        let (from, to) = (l.array(9), l.array(10));
        if from.is_empty() {
            let [_, channels, height, width] = self.four(x)?;
            let offsets = [l.size(2, 0)?, l.size(1, 0)?, l.size(0, 0)?];
            let reference = inputs.get(1).map(|&id| self.four(id)).transpose()?;
            for (k, extent) in [channels, height, width].into_iter().enumerate() {
                let left =
                    extent.checked_sub(offsets[k]).ok_or_else(|| format!("an offset of {} in {extent}", offsets[k]))?;
                // Sizes under 3, 4, 5 and cuts at the end under 6, 7, 8: width, height, channels.
                let (size, cut) = (l.int(5 - k as i32, ABSENT), l.size(8 - k as i32, 0)?);
                let rest = left.checked_sub(cut).ok_or_else(|| format!("{cut} cut off {left}"))?;
                starts[k + 1] = offsets[k];
                lengths[k + 1] = match (reference, size) {
                    (Some(reference), _) if k > 0 => reference[k + 1],
                    (_, ABSENT | -1 | 0) => rest,
                    _ => usize::try_from(size).map_err(|_| format!("the size {size}"))?,
                };
            }
        } else {
            // Starts, ends and axes, as ONNX's Slice has them.
            for (k, &start) in from.iter().enumerate() {
                let axis = self.axis(l.array(11).get(k).map_or(k as i64, |&axis| axis as i64), x)?;
                let place = |at: f64| {
                    let extent = shape[axis] as i64;
                    let at = at as i64;
                    (if at < 0 { at.saturating_add(extent) } else { at }).clamp(0, extent) as usize
                };
                let end = place(*to.get(k).ok_or("it has fewer ends than starts")?);
                (starts[axis], lengths[axis]) = (place(start), end.saturating_sub(place(start)));
            }
        }
        self.emit(l, Op::Slice { starts, steps: vec![1; shape.len()], lengths }, &[x])
    }

    fn interp(&mut self, l: &Layer<'_>, inputs: &[TensorId]) -> Result<TensorId, String> {
        let x = inputs[0];
        let [_, _, height, width] = self.four(x)?;
        let mode = match l.int(0, 0) {
            1 => ResizeMode::Nearest(Rounding::Floor),
            2 => ResizeMode::Bilinear,
            3 => ResizeMode::Cubic(-0.75),
            other => return Err(format!("the resizing {other} is not supported")),
        };
        let given = match inputs {
            // The size is that of another blob.
            [_, like] => [self.four(*like)?[2], self.four(*like)?[3]],
            _ => [l.size(3, 0)?, l.size(4, 0)?],
        };
        let factors = [l.float(1, 1.0), l.float(2, 1.0)];
        let extent = |k: usize, from: usize| if given[k] > 0 { given[k] } else { (from as f32 * factors[k]) as usize };
        let size = [extent(0, height), extent(1, width)];
        let scales = [size[0] as f32 / height as f32, size[1] as f32 / width as f32];
        let coordinates = match (l.int(0, 0), l.int(6, 0)) {
            (1, _) => Coordinates::Asymmetric,
            (_, 0) => Coordinates::HalfPixel,
            _ => Coordinates::AlignCorners,
        };
        self.emit(l, Op::Resize(Resize::new(mode, coordinates, scales, size)), &[x])
    }

    fn slices(&mut self, l: &Layer<'_>, x: TensorId) -> Result<Vec<TensorId>, String> {
        let shape = self.graph.shape(x).to_vec();
        let axis = self.axis(l.int(1, 0), x)?;
        let (mut at, mut parts) = (0, Vec::new());
        for (k, &length) in l.array(0).iter().enumerate() {
            let (mut starts, mut lengths) = (vec![0; shape.len()], shape.clone());
            // What is open is divided evenly among those that remain.
            let left = shape[axis].saturating_sub(at);
            lengths[axis] = if length as i64 == ABSENT { left / (l.array(0).len() - k) } else { length as usize };
            starts[axis] = at;
            at = at.saturating_add(lengths[axis]);
            parts.push(self.emit(l, Op::Slice { starts, steps: vec![1; shape.len()], lengths }, &[x])?);
        }
        if parts.len() == l.tops.len() {
            Ok(parts)
        } else {
            Err(format!("{} slices for {} outputs", parts.len(), l.tops.len()))
        }
    }
}
