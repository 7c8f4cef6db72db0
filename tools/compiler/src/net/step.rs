// SPDX-License-Identifier: MIT OR Apache-2.0

//! Steps. A step is one pass through the hardware. It computes several nodes if its units allow that.
//!
//! A step begins with a convolution or with a tensor in memory, and continues in SDP's sub-units. [`Pipe::assign`] assigns
//! functions to sub-units:
//!
//! ```text
//! X1  bias or factor per kernel, ReLU
//! X2  one of: a tensor or constants added, compared or multiplied; slopes (PReLU); a limit; an addend; then ReLU
//! Y   one of: a tensor or constants added, compared or multiplied; a limit; then a lookup table (where the configuration has them)
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

use crate::ir::{self, zero_point, Pool, Range, Unary};

/// Identifies a tensor of a network of steps.
pub type TensorId = usize;

/// A tensor.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its name in the model.
    pub name: String,
    /// Channels, height, width.
    pub shape: [u32; 3],
    /// The range of its values.
    pub range: Option<Range>,
    /// In mixed precision, whether its integers have 16 bits. Of an image: those that CDMA makes of its bytes.
    pub wide: bool,
    /// In an int8 network, whether its elements are in half precision: the emulator writes them, and the user alone reads them.
    pub half: bool,
}

impl Tensor {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().map(|&extent| extent as usize).product()
    }
}

/// How two values are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// The sum, with the step's own value negated first if `negate` is set.
    Add {
        /// Whether the step's own value is negated.
        negate: bool,
    },
    /// The larger value.
    Max,
    /// The smaller value.
    Min,
    /// The product.
    Mul,
}

/// A function that SDP applies to a value.
#[derive(Clone, Debug, PartialEq)]
pub enum PostOp {
    /// scale * x + shift, both one value or one per channel.
    Affine(Vec<f32>, Vec<f32>),
    /// Minus the mean of the step's input, which is given as bytes. The quantizer knows its values.
    Mean,
    /// max(x, 0)
    Relu,
    /// Slopes for negative values, one value or one per channel.
    Slopes(Vec<f32>),
    /// min(x, limit)
    Most(f32),
    /// max(x, limit)
    Least(f32),
    /// The limits of a quantized tensor, at which the integers of the step's output saturate, and that tensor: the step may have
    /// been joined with later ones, which have another output. It is the last function of a step.
    Within(f32, f32, TensorId),
    /// Combined with a tensor of the same shape, or with a tensor of one value per channel.
    With(Combine, TensorId),
    /// Combined with one constant per element.
    Elements(Combine, Elements),
    /// A function in a lookup table, with the range of its argument.
    Table(Tabulated, f32, f32),
}

/// One constant per element of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Elements<T = f32> {
    /// Channels, lines and columns.
    pub shape: [u32; 3],
    /// Channels outermost.
    pub values: Arc<[T]>,
}

impl<T: Copy> Elements<T> {
    /// The constant of a position. The tensor may have fewer lines and columns.
    pub fn at(&self, channel: u32, line: u32, column: u32) -> T {
        let [_, height, width] = self.shape;
        self.values[((channel * height + line) * width + column) as usize]
    }
}

/// A function of a lookup table: `factor * unary(x) + offset`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tabulated {
    /// The function.
    pub unary: Unary,
    /// The factor of its values.
    pub factor: f32,
    /// What is added to them.
    pub offset: f32,
}

impl From<Unary> for Tabulated {
    fn from(unary: Unary) -> Self {
        Self { unary, factor: 1.0, offset: 0.0 }
    }
}

impl Tabulated {
    /// Where it jumps.
    pub fn jump(self) -> Option<f64> {
        self.unary.jump().map(f64::from)
    }

    /// The value for an argument.
    pub fn at(self, x: f64) -> f64 {
        f64::from(self.factor) * f64::from(self.unary.apply(x as f32)) + f64::from(self.offset)
    }
}

/// The kind of data that the sequencer reads from the convolution buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Direct,
    Image,
    Winograd,
}

impl PostOp {
    /// Whether it has the same numbers for all channels.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Affine(scale, shift) => scale.len() == 1 && shift.len() == 1,
            Self::Slopes(slopes) => slopes.len() == 1,
            Self::With(..) | Self::Elements(..) => false,
            Self::Mean | Self::Relu | Self::Most(_) | Self::Least(_) | Self::Within(..) | Self::Table(..) => true,
        }
    }

    /// The functions that limit a value.
    pub fn limits(low: f32, high: f32) -> Vec<Self> {
        let mut limits = Vec::new();
        if low == 0.0 {
            limits.push(Self::Relu);
        } else if low.is_finite() {
            limits.push(Self::Least(low));
        }
        if high.is_finite() {
            limits.push(Self::Most(high));
        }
        limits
    }
}

/// A convolution's parameters, in real numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// The size, stride, padding and groups.
    pub op: ir::Convolution,
    /// Number of kernels.
    pub kernels: usize,
    /// `[K, C / group, R, S]`.
    pub weights: Arc<[f32]>,
    /// One value per kernel.
    pub bias: Vec<f32>,
}

impl Convolution {
    /// Whether its kernels read one channel each, over more than one element, and all weights are equal: a sum or an average.
    pub(crate) fn is_average(&self) -> bool {
        let equal = self.weights.iter().all(|weight| weight.to_bits() == self.weights[0].to_bits());
        let window = self.op.kernel[0] * self.op.kernel[1];
        self.op.group == self.kernels && self.weights.len() == self.kernels * window && window > 1 && equal
    }

    /// Each element of a window becomes a channel: of so many channels, lines and columns.
    pub(crate) fn element_each([channels, lines, columns]: [u32; 3]) -> Self {
        let count = (channels * lines * columns) as usize;
        let op = ir::Convolution { kernel: [lines as usize, columns as usize], ..ir::Convolution::pointwise() };
        let weights = (0..count * count).map(|at| f32::from(u8::from(at / count == at % count)));
        Self { op, kernels: count, weights: weights.collect(), bias: vec![0.0; count] }
    }

    /// A copy with zeros around it.
    pub(crate) fn copy(channels: usize, padding: ir::Padding) -> Self {
        let op = ir::Convolution::per_channel(channels, padding);
        Self { op, kernels: channels, weights: vec![1.0; channels].into(), bias: vec![0.0; channels] }
    }
}

/// The first part of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A convolution.
    Convolution(Box<Convolution>),
    /// A convolution with kernels of one element that are the pixels of a second tensor, which has as many channels as the first.
    Product,
    /// A tensor in memory.
    Copy,
    /// A pooling.
    Pool(Pool),
    /// Tensors joined along an axis (0 for channels, 1 for lines, 2 for columns): no operation.
    Concat(usize),
    /// A part of a tensor: no operation.
    Slice {
        /// The first channel, line and column.
        start: [u32; 3],
        /// The distance of channels and of lines.
        step: [u32; 2],
    },
    /// Channel k of the output is channel `from[k]` of the input: no operation.
    Channels(Vec<u32>),
    /// The same elements in the same order in memory, with another shape: no operation.
    Same,
    /// Channel = `phase(y, x) * C + c` of the input becomes line `y` and column `x` of each block of the given size (height,
    /// width).
    Spread([u32; 2]),
    /// Each element becomes a block of the given size (height, width).
    Repeat([u32; 2]),
    /// Every n-th column.
    Columns(u32),
    /// Lines become columns, and columns become lines.
    Transpose,
    /// Channels become the columns of one line, and pixels become channels.
    Turn,
    /// The same pixels in the same order, in lines of another length.
    Pixels,
    /// Softmax over each of so many groups of adjacent channels, on the CPU. If there are several groups, each has two channels.
    Softmax(u32),
    /// A power of each element, on the CPU.
    Power(Power),
    /// Local response normalisation over the channels.
    Lrn(Lrn),
}

/// (factor * x)^exponent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// As in the formula.
    pub exponent: f32,
    /// As in the formula.
    pub factor: f32,
}

/// How many times the bias the sum of squares reaches in a table of values of which nothing is known.
const LRN_REACH: f64 = 32.0;
/// The largest sum of squares of such a table.
const LARGEST_SUM: f64 = 1e9;

/// x / (bias + alpha / size * (sum of the squares of `size` channels around))^beta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lrn {
    /// Channels of the window: 3, 5, 7 or 9.
    pub size: usize,
    /// As in the formula.
    pub alpha: f32,
    /// As in the formula.
    pub beta: f32,
    /// As in the formula.
    pub bias: f32,
}

impl Lrn {
    /// The largest sum of squares for which a table is made if nothing is known of the values: up to where alpha / size times the sum is
    /// many times the bias, and at least that of values of 8.
    pub fn usual(&self) -> f64 {
        let most = LRN_REACH * f64::from(self.bias) * self.size as f64 / f64::from(self.alpha.abs());
        most.max(64.0 * self.size as f64).min(LARGEST_SUM)
    }

    /// The factor for a sum of squares.
    pub fn factor(&self, sum: f64) -> f64 {
        (f64::from(self.bias) + f64::from(self.alpha) / self.size as f64 * sum).powf(-f64::from(self.beta))
    }
}

impl Kind {
    /// Whether its values go through SDP, which gives them another scale and applies functions.
    pub fn in_sdp(&self) -> bool {
        matches!(self, Self::Convolution(_) | Self::Product | Self::Copy)
    }

    /// Whether its output may have another scale than its inputs.
    pub fn rescales(&self) -> bool {
        self.in_sdp() || matches!(self, Self::Softmax(_) | Self::Power(_) | Self::Lrn(_))
    }

    /// Whether its output is a view of its inputs, which needs no operation.
    pub fn is_view(&self) -> bool {
        matches!(self, Self::Concat(_) | Self::Slice { .. } | Self::Channels(_) | Self::Same)
    }

    /// Its name, for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Convolution(_) => "convolution",
            Self::Product => "product of two tensors",
            Self::Copy => "copy",
            Self::Pool(_) => "pooling",
            Self::Concat(_) => "concatenation (no operation)",
            Self::Slice { .. } => "slice (no operation)",
            Self::Channels(_) => "order of channels (no operation)",
            Self::Same => "same elements (no operation)",
            Self::Spread(_) => "channels to blocks",
            Self::Repeat(_) => "elements to blocks",
            Self::Columns(_) => "every n-th column",
            Self::Transpose => "lines to columns",
            Self::Turn => "channels to columns",
            Self::Pixels => "lines of another length",
            Self::Softmax(_) => "softmax (CPU)",
            Self::Power(_) => "power (CPU)",
            Self::Lrn(_) => "normalisation",
        }
    }
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The nodes that it computes.
    pub nodes: Vec<String>,
    /// The first part.
    pub kind: Kind,
    /// The inputs of the first part.
    pub inputs: Vec<TensorId>,
    /// The functions that follow in SDP.
    pub post_ops: Vec<PostOp>,
    /// The tensor that it computes.
    pub output: TensorId,
}

impl Step {
    /// The tensors that are combined with the value of the first part.
    pub fn operands(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.post_ops.iter().filter_map(|post| if let PostOp::With(_, other) = post { Some(*other) } else { None })
    }

    /// All tensors that it reads.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.inputs.iter().copied().chain(self.operands())
    }
}

/// The assignment of a step's post-operations to sub-units, by their indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pipe {
    /// A copy's factor and addend: X1 has the factor, X2 an addend.
    pub affine: bool,
    /// X2 adds the affine's addend.
    pub x2_shift: bool,
    /// ReLU after X1.
    pub x1_relu: bool,
    /// The function of X2.
    pub x2: Option<usize>,
    /// ReLU after X2.
    pub x2_relu: bool,
    /// The function of Y.
    pub y: Option<usize>,
    /// Y's table.
    pub table: Option<usize>,
    /// Whether the step ends with limits at which the output's integers saturate.
    pub within: bool,
    /// The last limit, if it is the value at which the output's integers saturate.
    pub saturate: Option<usize>,
}

impl Pipe {
    /// Assigns a sub-unit to each post-operation; `None` if there are too few. `saturates` means that the output may have its own
    /// scale, so that the end of its integers can be a limit. `has_zero` says whether a tensor's integers have a zero of their own.
    pub fn assign(
        config: &Config,
        conv: bool,
        post_ops: &[PostOp],
        saturates: bool,
        has_zero: impl Fn(TensorId) -> bool,
    ) -> Option<Self> {
        let mut pipe = Self::default();
        for (index, post) in post_ops.iter().enumerate() {
            if let PostOp::Within(..) = post {
                pipe.within = true;
                continue;
            }
            if pipe.table.is_some() || pipe.saturate.is_some() || pipe.within {
                return None;
            }
            let x2_free = pipe.x2.is_none() && !pipe.x2_shift && pipe.y.is_none() && config.sdp_bn;
            let y_free = config.sdp_ew && pipe.y.is_none();
            // Y's converter subtracts the zero of an operand. X2 has none, and only a sum can be corrected later.
            let converted = |other: TensorId| y_free && has_zero(other);
            match post {
                PostOp::Affine(_, shift) if index == 0 && !conv => {
                    pipe.affine = true;
                    pipe.x2_shift = shift.iter().any(|&shift| shift != 0.0);
                    if pipe.x2_shift && !config.sdp_bn {
                        return None;
                    }
                }
                PostOp::Mean if index == 0 && !conv && config.sdp_bn => {
                    (pipe.affine, pipe.x2_shift) = (true, true);
                }
                PostOp::Relu if pipe.y.is_some() => return None,
                PostOp::Relu if pipe.x2.is_none() && !pipe.x2_shift => pipe.x1_relu = true,
                PostOp::Relu => {
                    if pipe.x2.is_some_and(|x2| matches!(post_ops[x2], PostOp::Slopes(_))) {
                        return None;
                    }
                    pipe.x2_relu = true;
                }
                PostOp::With(Combine::Add { negate: true }, _) if index > 0 => return None,
                PostOp::With(Combine::Mul | Combine::Max | Combine::Min, other) if converted(*other) => {
                    pipe.y = Some(index);
                }
                PostOp::Slopes(_) | PostOp::Most(_) | PostOp::Least(_) | PostOp::With(..) | PostOp::Elements(..)
                    if x2_free =>
                {
                    pipe.x2 = Some(index);
                }
                PostOp::Most(_) | PostOp::Least(_) | PostOp::With(..) | PostOp::Elements(..) if y_free => {
                    pipe.y = Some(index);
                }
                PostOp::Most(limit) if saturates && *limit > 0.0 && index + 1 == post_ops.len() => {
                    pipe.saturate = Some(index);
                }
                PostOp::Table(..) if config.sdp_lut && config.sdp_ew => pipe.table = Some(index),
                PostOp::Affine(..)
                | PostOp::Mean
                | PostOp::Slopes(_)
                | PostOp::Most(_)
                | PostOp::Least(_)
                | PostOp::With(..)
                | PostOp::Elements(..)
                | PostOp::Table(..)
                | PostOp::Within(..) => return None,
            }
        }
        Some(pipe)
    }
}

/// The tensor that X2 adds last, so that the output converter's offset can subtract its zero. A convolution's bias subtracts
/// that of a tensor that X2 adds behind X1 without ReLU.
pub(crate) fn added_last(step: &Step, pipe: Pipe) -> Option<TensorId> {
    let sum = |post: &PostOp| matches!(post, PostOp::With(Combine::Add { .. }, _));
    let at = step.post_ops.iter().rposition(sum)?;
    let ends = |(index, post): (usize, &PostOp)| matches!(post, PostOp::Within(..)) || pipe.saturate == Some(index);
    let last = step.post_ops.iter().enumerate().skip(at + 1).all(ends) && pipe.table.is_none() && !pipe.x2_shift;
    let in_bias = matches!(step.kind, Kind::Convolution(_)) && !pipe.x1_relu;
    let by_x2 = pipe.x2 == Some(at) && pipe.y.is_none() && !pipe.x2_relu && !in_bias;
    match step.post_ops[at] {
        PostOp::With(_, other) if last && by_x2 => Some(other),
        _ => None,
    }
}

/// Limits of a quantized tensor that have no step, because the tensor is stored as another one.
#[derive(Clone, Copy, Debug)]
pub struct Within {
    /// The tensor that is stored. Its integers have to saturate at the limits.
    pub tensor: TensorId,
    /// The quantized tensor.
    pub limited: TensorId,
    /// Its least value.
    pub low: f32,
    /// Its greatest value.
    pub high: f32,
}

/// A network of steps.
#[derive(Clone, Debug)]
pub struct Net {
    /// All tensors; those of the graph come first, with the same numbers.
    pub tensors: Vec<Tensor>,
    /// All steps, each after those that compute its inputs.
    pub steps: Vec<Step>,
    /// The tensors that the user gives.
    pub inputs: Vec<TensorId>,
    /// The tensors that the user receives.
    pub outputs: Vec<TensorId>,
    /// Limits of quantized tensors that have no step.
    pub within: Vec<Within>,
    /// Whether tensors have integers, which saturate. Half precision does not.
    pub integers: bool,
}

impl Net {
    /// The steps that read each tensor.
    pub fn readers(&self) -> HashMap<TensorId, Vec<usize>> {
        let mut readers: HashMap<TensorId, Vec<usize>> = HashMap::new();
        for (index, step) in self.steps.iter().enumerate() {
            for tensor in step.reads() {
                readers.entry(tensor).or_default().push(index);
            }
        }
        readers
    }

    /// The precision of a tensor. `precision` is that of tensors that have none of their own.
    pub fn precision(&self, tensor: TensorId, precision: Precision) -> Precision {
        match self.tensors[tensor] {
            Tensor { wide: true, .. } => Precision::Int16,
            Tensor { half: true, .. } => Precision::Fp16,
            _ => precision,
        }
    }

    /// The precision in which a step computes. `precision` is that of steps that are not in int16.
    pub fn computes(&self, step: &Step, precision: Precision) -> Precision {
        let wide = match step.kind {
            Kind::Convolution(_) => self.tensors[step.inputs[0]].wide,
            _ => self.tensors[step.inputs[0]].wide && self.tensors[step.output].wide,
        };
        if wide {
            Precision::Int16
        } else {
            precision
        }
    }

    /// The sub-units of a step with these functions; `None` if there are too few.
    pub(crate) fn pipe(&self, config: &Config, kind: &Kind, post_ops: &[PostOp], output: TensorId) -> Option<Pipe> {
        let conv = matches!(kind, Kind::Convolution(_));
        let has_zero = |id: TensorId| {
            let range = self.tensors[id].range.filter(|range| range.given && self.integers && !self.tensors[id].wide);
            range.is_some_and(|range| zero_point(range.span).1 != 0)
        };
        let saturates = may_saturate(self, output) && ends_at_limit(self.tensors[output].range, post_ops);
        Pipe::assign(config, conv, post_ops, saturates, has_zero)
    }

    /// Adds a tensor like another one.
    pub fn like(&mut self, tensor: TensorId) -> TensorId {
        self.tensors.push(self.tensors[tensor].clone());
        self.tensors.len() - 1
    }

    /// Adds a tensor.
    pub fn tensor(&mut self, name: String, shape: [u32; 3], range: Option<Range>) -> TensorId {
        self.tensors.push(Tensor { name, shape, range, wide: false, half: false });
        self.tensors.len() - 1
    }
}

/// Whether integers around 0 whose largest is the last limit hold the values below 0, too.
pub(crate) fn ends_at_limit(range: Option<Range>, post_ops: &[PostOp]) -> bool {
    match (range, post_ops) {
        (Some(_), [.., PostOp::Relu, PostOp::Most(_)]) => true,
        (Some(range), [.., PostOp::Most(limit)]) => range.span.0 >= -limit * 128.0 / 127.0,
        _ => true,
    }
}

/// Whether a tensor may have its own scale, because no reader shares it.
pub fn may_saturate(net: &Net, tensor: TensorId) -> bool {
    net.integers && net.steps.iter().filter(|step| step.inputs.contains(&tensor)).all(|step| step.kind.rescales())
}
