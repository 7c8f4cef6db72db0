// SPDX-License-Identifier: MIT OR Apache-2.0

//! The operators. Pairs of sizes are height first, then width.

/// Elements added around a tensor's lines and columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Padding {
    /// Lines above.
    pub top: usize,
    /// Elements before each line.
    pub left: usize,
    /// Lines below.
    pub bottom: usize,
    /// Elements after each line.
    pub right: usize,
}

/// A convolution, or its transposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Number of groups; it divides the input's and the output's channels.
    pub group: usize,
    /// A kernel's height and width, not dilated.
    pub kernel: [usize; 2],
    /// Distance between two windows.
    pub stride: [usize; 2],
    /// Distance between two elements of a window.
    pub dilation: [usize; 2],
    /// Zeros around the input; for a deconvolution, lines and columns that are removed from the output.
    pub padding: Padding,
}

impl Convolution {
    /// Kernels of one element that read all channels.
    pub fn pointwise() -> Self {
        Self::per_channel(1, Padding::default())
    }

    /// One weight per channel.
    pub fn per_channel(channels: usize, padding: Padding) -> Self {
        Self { group: channels, kernel: [1; 2], stride: [1; 2], dilation: [1; 2], padding }
    }

    /// Lines and columns that a window spans, dilation included.
    pub fn window(&self) -> [usize; 2] {
        [0, 1].map(|axis| dilated(self.kernel[axis], self.dilation[axis]))
    }
}

/// The size of a kernel with `dilation` between its elements.
pub fn dilated(kernel: usize, dilation: usize) -> usize {
    kernel.saturating_sub(1).saturating_mul(dilation).saturating_add(1)
}

/// The function of a binary operator of a and b.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// a + b
    Add,
    /// a - b
    Sub,
    /// a * b
    Mul,
    /// a / b
    Div,
    /// The larger of a and b.
    Max,
    /// The smaller of a and b.
    Min,
    /// a to the power of b.
    Pow,
}

/// The function of a unary operator of x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// max(x, 0)
    Relu,
    /// x, or the parameter times x where x is negative.
    LeakyRelu(f32),
    /// x limited to the smallest and the largest value; infinite where there is no limit.
    Clip(f32, f32),
    /// 1 / (1 + exp(-x))
    Sigmoid,
    /// tanh(x)
    Tanh,
    /// alpha * x + beta, limited to 0..=1.
    HardSigmoid {
        /// The slope.
        alpha: f32,
        /// The value at 0.
        beta: f32,
    },
    /// x * (x / 6 + 1/2 limited to 0..=1)
    HardSwish,
    /// x * sigmoid(x)
    Silu,
    /// x, or the parameter times (exp(x) - 1) where x is negative.
    Elu(f32),
    /// gamma * x, or gamma * alpha * (exp(x) - 1) where x is not positive.
    Selu {
        /// The factor of the negative side.
        alpha: f32,
        /// The factor of both sides.
        gamma: f32,
    },
    /// x/2 * (1 + erf(x / sqrt(2)))
    Gelu,
    /// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
    GeluTanh,
    /// x * tanh(log(1 + exp(x)))
    Mish,
    /// log(1 + exp(x))
    Softplus,
    /// x / (1 + |x|)
    Softsign,
    /// exp(x)
    Exp,
    /// The natural logarithm.
    Log,
    /// x * log(x), which is 0 for x = 0.
    XLogX,
    /// The square root.
    Sqrt,
    /// 1 / x
    Reciprocal,
    /// The error function.
    Erf,
    /// -x
    Neg,
    /// |x|
    Abs,
    /// sin(x)
    Sin,
    /// cos(x)
    Cos,
    /// The arc cosine.
    Acos,
    /// The inverse hyperbolic cosine.
    Acosh,
    /// The arc sine.
    Asin,
    /// The inverse hyperbolic sine.
    Asinh,
    /// The arc tangent.
    Atan,
    /// The inverse hyperbolic tangent.
    Atanh,
    /// The hyperbolic cosine.
    Cosh,
    /// The hyperbolic sine.
    Sinh,
    /// The largest integer that is not greater than x.
    Floor,
    /// The smallest integer that is not less than x.
    Ceil,
    /// The nearest integer; ties to even.
    Round,
    /// x where x is larger than the parameter, else 0 (ONNX's ThresholdedRelu).
    Threshold(f32),
    /// 1 where x is larger than the parameter, else 0.
    Step(f32),
    /// x to the power of the parameter.
    Power(f32),
    /// The same for positive x, of which a table in half precision has one line per octave. A step of Newton's method follows.
    Octaves(f32),
}

/// The element that a pooling computes from its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The largest element; padding is never the largest.
    Max,
    /// The mean.
    Average {
        /// Whether padding counts in the divisor. Then the divisor is always the window's size, and padding has the value 0.
        count_include_pad: bool,
    },
}

/// A pooling. The output has floor((size + padding - window) / stride) + 1 lines. Padding is less than the window, so every
/// window has an element of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// The function of the window.
    pub kind: PoolKind,
    /// The window's height and width.
    pub kernel: [usize; 2],
    /// Distance between two windows.
    pub stride: [usize; 2],
    /// Distance between two elements of a window.
    pub dilation: [usize; 2],
    /// Elements around the input.
    pub padding: Padding,
}

impl Pool {
    /// A pooling without padding, with a window from each element on.
    pub fn new(kind: PoolKind, kernel: [usize; 2]) -> Self {
        Self { kind, kernel, stride: [1; 2], dilation: [1; 2], padding: Padding::default() }
    }

    /// The height and width of the window, with the elements between.
    pub fn window(&self) -> [usize; 2] {
        [0, 1].map(|axis| dilated(self.kernel[axis], self.dilation[axis]))
    }
}

/// How an output coordinate is rounded to an input coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To the nearest, ties down.
    HalfDown,
    /// To the nearest, ties up.
    HalfUp,
    /// Down.
    Floor,
    /// Up.
    Ceil,
}

/// How a resize computes an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResizeMode {
    /// The element at the rounded coordinate.
    Nearest(Rounding),
    /// The mean of the four elements around the coordinate, weighted by their distance.
    Bilinear,
    /// The sum of the sixteen elements around the coordinate, weighted by a polynomial of their distance. The parameter is its
    /// slope one element away, -0.75 or -0.5.
    Cubic(f32),
}

/// The input coordinate x' for the output coordinate x. `scale` is output size divided by input size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coordinates {
    /// (x + 1/2) / scale - 1/2
    HalfPixel,
    /// The same, but 0 if the output has one element.
    PytorchHalfPixel,
    /// (x + 1/2) / scale
    TensorFlowHalfPixel,
    /// x / scale
    Asymmetric,
    /// x * (input size - 1) / (output size - 1)
    AlignCorners,
    /// As [`Self::HalfPixel`], and the middles of input and output are at the same place, also where the size of the output is no
    /// whole number before it is rounded.
    HalfPixelSymmetric,
    /// first + x * step
    Linear {
        /// The first coordinate of lines and of columns.
        first: [f32; 2],
        /// The distance of two coordinates.
        step: [f32; 2],
    },
}

/// A change of height and width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resize {
    /// How an element is computed.
    pub mode: ResizeMode,
    /// The input coordinate of an element.
    pub coordinates: Coordinates,
    /// Output size divided by input size. It may differ from the quotient of the sizes if the model gives scales.
    pub scales: [f32; 2],
    /// The output's height and width.
    pub size: [usize; 2],
    /// In the modes Bilinear and Cubic: an output that is smaller than the input is computed from all elements of the input, with
    /// weights that reach as much farther as it is smaller.
    pub antialias: bool,
    /// Elements beyond the ends of the input have no weight. Without it they are the first and the last element.
    pub exclude_outside: bool,
}

impl Resize {
    /// A resize without antialiasing.
    pub fn new(mode: ResizeMode, coordinates: Coordinates, scales: [f32; 2], size: [usize; 2]) -> Self {
        Self { mode, coordinates, scales, size, antialias: false, exclude_outside: false }
    }
}

/// The order of channels in the elements of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockOrder {
    /// Channel = (y * block + x) * output channels + c.
    Dcr,
    /// Channel = (c * block + y) * block + x.
    Crd,
}

/// The values of a padding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// This value.
    Constant(f32),
    /// The tensor mirrored at its first and last element, which are not repeated.
    Reflect,
    /// The first and the last element.
    Edge,
}

/// An operator. All tensors may be constant, and those named constant must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Inputs: data `[N, C, H, W]`, weights (constant `[K, C / group, R, S]`), and a bias (constant `[K]`) if there is
    /// one.
    Convolution(Convolution),
    /// Inputs: data `[N, C, H, W]`, weights (constant `[C, K / group, R, S]`), and a bias (constant `[K]`) if there is
    /// one. The output has (size - 1) * stride + dilation * (kernel - 1) + 1 + output padding - padding lines.
    Deconvolution(Convolution, [usize; 2]),
    /// Inputs: data `[1, C, H, W]`, and weights `[1, C, R, S]` that the network computes. Each of the `R * S` pixels of the weights is a
    /// kernel of one element: channel k of the output is the sum over the channels of data times pixel k.
    Product,
    /// Inputs: a and b, either of which may be a constant. Shapes are aligned at their last dimensions, and dimensions of 1 are
    /// repeated, as in ONNX and NumPy; see [`crate::ir::infer::broadcast`].
    Binary(Binary),
    /// Input: x.
    Unary(Unary),
    /// Inputs: x, slopes (constant, `[C]` for the channels of `[N, C, …]`): x, or slope * x where x is negative.
    PRelu,
    /// Input: x `[N, C, H, W]`.
    Pool(Pool),
    /// Input: x `[N, C, H, W]`.
    Resize(Resize),
    /// Input: x `[N, C, H, W]`. The output has `C / (height * width)` channels.
    DepthToSpace {
        /// The block's height and width.
        block: [usize; 2],
        /// The order of a block's elements.
        order: BlockOrder,
    },
    /// Input: x `[N, C, H, W]`. The output has `C * height * width` channels; channel = (y * width + x) * C + c.
    SpaceToDepth {
        /// The block's height and width.
        block: [usize; 2],
    },
    /// Inputs: one or more tensors that differ only in that dimension.
    Concat {
        /// The dimension.
        axis: usize,
    },
    /// Input: x. Element i of an axis is element `start + i * step` of the input's.
    Slice {
        /// One per axis.
        starts: Vec<usize>,
        /// One per axis, never 0.
        steps: Vec<isize>,
        /// One per axis: the output's shape.
        lengths: Vec<usize>,
    },
    /// Input: x.
    Pad {
        /// The values.
        mode: PadMode,
        /// Elements before, one per axis.
        before: Vec<usize>,
        /// Elements after, one per axis.
        after: Vec<usize>,
    },
    /// Input: x. The elements keep their order.
    Reshape {
        /// The output's shape.
        shape: Vec<usize>,
    },
    /// Input: x. Axis i of the output is axis `perm[i]` of the input.
    Transpose {
        /// One per axis.
        perm: Vec<usize>,
    },
    /// Input: x `[N, C, …]`. Channel k of the output is channel `from[k]` of the input.
    ChannelPermutation {
        /// One per output channel.
        from: Vec<usize>,
    },
    /// Input: x `[N, C, H, W]`: x / (bias + alpha / size * (sum of the squares of `size` channels around))^beta.
    /// The sum covers channels c - floor((size - 1) / 2) to c + ceil((size - 1) / 2).
    Lrn {
        /// Number of channels.
        size: usize,
        /// As in the formula.
        alpha: f32,
        /// As in the formula.
        beta: f32,
        /// As in the formula.
        bias: f32,
    },
    /// Input: x. exp(x) divided by its sum along the axis.
    Softmax {
        /// The axis.
        axis: usize,
    },
}

impl Op {
    /// Its name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Convolution(_) => "Convolution",
            Self::Deconvolution(..) => "Deconvolution",
            Self::Product => "MatMul",
            Self::Binary(Binary::Add) => "Add",
            Self::Binary(Binary::Sub) => "Sub",
            Self::Binary(Binary::Mul) => "Mul",
            Self::Binary(Binary::Div) => "Div",
            Self::Binary(Binary::Max) => "Max",
            Self::Binary(Binary::Min) => "Min",
            Self::Binary(Binary::Pow) => "Pow",
            Self::Unary(unary) => unary.name(),
            Self::PRelu => "PRelu",
            Self::Pool(pool) if pool.kind == PoolKind::Max => "MaxPool",
            Self::Pool(_) => "AveragePool",
            Self::Resize(_) => "Resize",
            Self::DepthToSpace { .. } => "DepthToSpace",
            Self::SpaceToDepth { .. } => "SpaceToDepth",
            Self::Concat { .. } => "Concat",
            Self::Slice { .. } => "Slice",
            Self::Pad { .. } => "Pad",
            Self::Reshape { .. } => "Reshape",
            Self::Transpose { .. } => "Transpose",
            Self::ChannelPermutation { .. } => "ChannelPermutation",
            Self::Lrn { .. } => "LRN",
            Self::Softmax { .. } => "Softmax",
        }
    }
}

impl Unary {
    /// Its name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Relu => "Relu",
            Self::LeakyRelu(_) => "LeakyRelu",
            Self::Clip(..) => "Clip",
            Self::Sigmoid => "Sigmoid",
            Self::Tanh => "Tanh",
            Self::HardSigmoid { .. } => "HardSigmoid",
            Self::HardSwish => "HardSwish",
            Self::Silu => "Silu",
            Self::Elu(_) => "Elu",
            Self::Selu { .. } => "Selu",
            Self::Gelu => "Gelu",
            Self::GeluTanh => "GeluTanh",
            Self::Mish => "Mish",
            Self::Softplus => "Softplus",
            Self::Softsign => "Softsign",
            Self::Exp => "Exp",
            Self::Log => "Log",
            Self::XLogX => "XLogX",
            Self::Sqrt => "Sqrt",
            Self::Reciprocal => "Reciprocal",
            Self::Erf => "Erf",
            Self::Neg => "Neg",
            Self::Abs => "Abs",
            Self::Sin => "Sin",
            Self::Cos => "Cos",
            Self::Acos => "Acos",
            Self::Acosh => "Acosh",
            Self::Asin => "Asin",
            Self::Asinh => "Asinh",
            Self::Atan => "Atan",
            Self::Atanh => "Atanh",
            Self::Cosh => "Cosh",
            Self::Sinh => "Sinh",
            Self::Floor => "Floor",
            Self::Ceil => "Ceil",
            Self::Round => "Round",
            Self::Threshold(_) => "ThresholdedRelu",
            Self::Step(_) => "Step",
            Self::Power(_) | Self::Octaves(_) => "Pow",
        }
    }

    /// Where the function jumps: one curve ends at this argument, and another one begins above it.
    pub fn jump(self) -> Option<f32> {
        match self {
            Self::Threshold(at) if at != 0.0 => Some(at),
            Self::Step(at) => Some(at),
            _ => None,
        }
    }

    /// The function's value for x.
    #[inline]
    pub fn apply(self, x: f32) -> f32 {
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        // log(1 + exp(x)) without overflow.
        let softplus = |x: f32| x.max(0.0) + (-x.abs()).exp().ln_1p();
        match self {
            Self::Relu => x.max(0.0),
            Self::LeakyRelu(a) => {
                if x < 0.0 {
                    a * x
                } else {
                    x
                }
            }
            Self::Clip(min, max) => x.max(min).min(max),
            Self::Sigmoid => sigmoid(x),
            Self::Tanh => x.tanh(),
            Self::HardSigmoid { alpha, beta } => (alpha * x + beta).clamp(0.0, 1.0),
            Self::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Self::Silu => x * sigmoid(x),
            Self::Elu(a) => {
                if x < 0.0 {
                    a * x.exp_m1()
                } else {
                    x
                }
            }
            Self::Selu { alpha, gamma } => gamma * if x > 0.0 { x } else { alpha * x.exp_m1() },
            Self::Gelu => 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2)),
            Self::GeluTanh => 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044715 * x * x * x)).tanh()),
            Self::Mish => x * softplus(x).tanh(),
            Self::Softplus => softplus(x),
            Self::Softsign => x / (1.0 + x.abs()),
            Self::Exp => x.exp(),
            Self::Log => x.ln(),
            Self::XLogX => {
                if x == 0.0 {
                    0.0
                } else {
                    x * x.ln()
                }
            }
            Self::Sqrt => x.sqrt(),
            Self::Reciprocal => 1.0 / x,
            Self::Erf => erf(x),
            Self::Neg => -x,
            Self::Abs => x.abs(),
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
            Self::Acos => x.acos(),
            Self::Acosh => x.acosh(),
            Self::Asin => x.asin(),
            Self::Asinh => x.asinh(),
            Self::Atan => x.atan(),
            Self::Atanh => x.atanh(),
            Self::Cosh => x.cosh(),
            Self::Sinh => x.sinh(),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
            Self::Round => x.round_ties_even(),
            Self::Step(at) => f32::from(x > at),
            Self::Power(power) | Self::Octaves(power) => x.powf(power),
            Self::Threshold(a) => {
                if x > a {
                    x
                } else {
                    0.0
                }
            }
        }
    }
}

/// The error function: its Taylor series near 0, and the continued fraction of erfc elsewhere, in f64.
fn erf(x: f32) -> f32 {
    let (magnitude, square) = (f64::from(x.abs()), f64::from(x) * f64::from(x));
    let value = if magnitude < 2.5 {
        let (mut term, mut sum, mut n) = (magnitude, magnitude, 0.0);
        while term.abs() > 1e-12 * sum.abs() {
            n += 1.0;
            term *= -square / n;
            sum += term / (2.0 * n + 1.0);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else if magnitude < 6.0 {
        let mut fraction = 0.0;
        for k in (1..=40).rev() {
            fraction = f64::from(k) / 2.0 / (magnitude + fraction);
        }
        1.0 - (-square).exp() / (magnitude + fraction) / std::f64::consts::PI.sqrt()
    } else {
        1.0
    };
    (value as f32).copysign(x)
}

#[cfg(test)]
mod tests {
    // Signs and the saturated value are exact.
    #![allow(clippy::float_cmp)]

    use super::*;

    #[test]
    fn the_error_function_is_exact() {
        // Values of Abramowitz and Stegun, table 7.1, and on both sides of the limit between the two formulas.
        for (x, value) in [
            (0.0, 0.0),
            (0.5, 0.520_499_9),
            (1.0, 0.842_700_8),
            (2.0, 0.995_322_3),
            (2.49, 0.999_571),
            (2.51, 0.999_614_5),
        ] {
            assert!((erf(x) - value).abs() < 3e-7, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert_eq!(erf(7.0), 1.0);
    }

    #[test]
    fn far_values_stay_finite() {
        for unary in [Unary::Sigmoid, Unary::Silu, Unary::Mish, Unary::Softplus, Unary::Gelu, Unary::Elu(1.0)] {
            for x in [-1e4, 1e4] {
                assert!(unary.apply(x).is_finite(), "{} of {x}", unary.name());
            }
        }
    }
}
