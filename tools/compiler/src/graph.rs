// SPDX-License-Identifier: MIT OR Apache-2.0

//! The network as a typed graph: what is computed, in real numbers, before anything is known of the hardware.
//!
//! A [`Graph`] is built node by node. Each node names its inputs by [`NodeId`], so that a node can only use what is there
//! already: the order of the nodes is an order of execution, and the graph has no cycle. Adding a node infers its shape
//! and refuses parameters that contradict it.

use std::fmt;

use crate::error::Error;

/// Dimensions of a tensor of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Channels.
    pub channels: u32,
    /// Lines.
    pub height: u32,
    /// Elements of a line.
    pub width: u32,
}

/// The most elements that a tensor has, and the largest extent with padding: more is a mistake, not a network.
const LARGEST: u64 = 1 << 31;

impl Shape {
    /// Whether the tensor has elements, and not too many to be counted.
    fn is_sensible(self) -> bool {
        let elements = u64::from(self.channels).checked_mul(u64::from(self.height) * u64::from(self.width));
        elements.is_some_and(|elements| (1..=LARGEST).contains(&elements))
    }

    /// Number of elements.
    pub fn elements(self) -> usize {
        self.channels as usize * self.height as usize * self.width as usize
    }

    /// Position of an element, channel by channel, line by line.
    pub fn index(self, channel: u32, y: u32, x: u32) -> usize {
        (channel as usize * self.height as usize + y as usize) * self.width as usize + x as usize
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} channels of {} x {}", self.channels, self.height, self.width)
    }
}

/// Two sizes along the lines and across them: of a window, a stride, a dilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Lines.
    pub y: u32,
    /// Elements of a line.
    pub x: u32,
}

impl Extent {
    /// One by one.
    pub const ONE: Self = Self { y: 1, x: 1 };
}

/// Elements added around a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    /// Lines above.
    pub top: u32,
    /// Elements before each line.
    pub left: u32,
    /// Lines below.
    pub bottom: u32,
    /// Elements after each line.
    pub right: u32,
}

/// How an input's bytes stand for real numbers: value = (byte - mean) / divisor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Image {
    /// The byte that stands for zero.
    pub mean: f32,
    /// The difference of bytes that stands for one.
    pub divisor: f32,
}

/// A convolution, or an inner product: its window is then its whole input.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Number of kernels: the output's channels.
    pub kernels: u32,
    /// A kernel's size.
    pub window: Extent,
    /// Distance of two windows.
    pub stride: Extent,
    /// Distance of two elements of a window.
    pub dilation: Extent,
    /// Zeros around the input.
    pub padding: Padding,
    /// `[kernels][channels][window.y][window.x]`.
    pub weights: Vec<f32>,
    /// One a kernel.
    pub bias: Vec<f32>,
}

/// What a pooling takes of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolingMode {
    /// The largest element.
    Max,
    /// The mean of all elements, zeros of the padding included.
    Average,
}

/// A pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// What it takes.
    pub mode: PoolingMode,
    /// Its window.
    pub window: Extent,
    /// Distance of two windows.
    pub stride: Extent,
    /// Elements around the input: never the maximum, zero in an average.
    pub padding: Padding,
}

/// What a node computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// An input of the network.
    Input(Image),
    /// A convolution or an inner product.
    Convolution(Convolution),
    /// A pooling.
    Pooling(Pooling),
    /// max(x, 0).
    Relu,
    /// Softmax over the channels, of each pixel.
    Softmax,
    /// The input and that node's value, element by element.
    Sum(NodeId),
}

impl Op {
    /// Its name, for errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Convolution(_) => "convolution",
            Self::Pooling(_) => "pooling",
            Self::Relu => "relu",
            Self::Softmax => "softmax",
            Self::Sum(_) => "sum",
        }
    }
}

/// Names a node of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) usize);

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name in the model.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// What it computes it from; a sum's other operand is in `op`.
    pub input: Option<NodeId>,
    /// Its output's shape.
    pub shape: Shape,
}

impl Node {
    /// All nodes that it computes from.
    pub fn inputs(&self) -> impl Iterator<Item = NodeId> {
        let other = if let Op::Sum(other) = self.op { Some(other) } else { None };
        self.input.into_iter().chain(other)
    }
}

/// A network.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The network's name.
    pub name: String,
    nodes: Vec<Node>,
    outputs: Vec<NodeId>,
}

impl Graph {
    /// A graph without nodes.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), nodes: Vec::new(), outputs: Vec::new() }
    }

    /// Adds an input.
    pub fn input(&mut self, name: impl Into<String>, shape: Shape, image: Image) -> Result<NodeId, Error> {
        let name = name.into();
        if !shape.is_sensible() {
            return Err(refuse(&name, "input", format!("{shape} is empty, or too large")));
        }
        if !(image.divisor.is_finite() && image.divisor > 0.0 && (0.0..=255.0).contains(&image.mean)) {
            let reason = format!("mean {} must be in 0..=255, divisor {} positive", image.mean, image.divisor);
            return Err(refuse(&name, "input", reason));
        }
        self.push(Node { name, op: Op::Input(image), input: None, shape })
    }

    /// Adds a node that computes from `input`.
    pub fn add(&mut self, name: impl Into<String>, op: Op, input: NodeId) -> Result<NodeId, Error> {
        let name = name.into();
        let from = self.node(input).shape;
        if let Op::Sum(other) = op {
            let other = self.node(other).shape;
            if other != from {
                return Err(refuse(&name, op.kind(), format!("its operands differ: {from}, and {other}")));
            }
        }
        let shape = match infer(&op, from) {
            Ok(shape) if shape.is_sensible() => shape,
            Ok(shape) => return Err(refuse(&name, op.kind(), format!("its output, {shape}, is too large"))),
            Err(reason) => return Err(refuse(&name, op.kind(), reason)),
        };
        self.push(Node { name, op, input: Some(input), shape })
    }

    /// Makes a node an output of the network.
    pub fn output(&mut self, node: NodeId) {
        if !self.outputs.contains(&node) {
            self.outputs.push(node);
        }
    }

    /// The node of that id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// The node of that name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|node| node.name == name).map(NodeId)
    }

    /// All nodes, each after its inputs.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(k, node)| (NodeId(k), node))
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The network's outputs.
    pub fn outputs(&self) -> &[NodeId] {
        &self.outputs
    }

    /// The nodes that compute from `id`.
    pub fn users(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes().filter(move |(_, node)| node.inputs().any(|input| input == id)).map(|(user, _)| user)
    }

    fn push(&mut self, node: Node) -> Result<NodeId, Error> {
        if self.find(&node.name).is_some() {
            return Err(refuse(&node.name, node.op.kind(), "another layer has this name".to_owned()));
        }
        self.nodes.push(node);
        Ok(NodeId(self.nodes.len() - 1))
    }
}

fn refuse(layer: &str, kind: &'static str, reason: String) -> Error {
    Error::Layer { layer: layer.to_owned(), kind, reason }
}

/// How many windows fit along one direction.
fn windows(size: u32, before: u32, after: u32, window: u32, stride: u32, direction: &str) -> Result<u32, String> {
    if window == 0 || stride == 0 {
        return Err(format!("window {window} and stride {stride} of the {direction} must not be zero"));
    }
    let whole = u64::from(size) + u64::from(before) + u64::from(after);
    if whole > LARGEST {
        return Err(format!("the {direction} with its padding, {whole}, is too large"));
    }
    let Some(rest) = whole.checked_sub(u64::from(window)) else {
        return Err(format!(
            "a window of {direction} {window} does not fit {whole} (with {before} + {after} of padding)"
        ));
    };
    if before >= window || after >= window {
        return Err(format!("padding {before} + {after} of the {direction} must be less than the window, {window}"));
    }
    Ok((rest / u64::from(stride) + 1) as u32)
}

/// The extent of a window whose elements lie apart.
pub(crate) fn dilated(window: u32, dilation: u32) -> u32 {
    window.saturating_sub(1).saturating_mul(dilation).saturating_add(1)
}

/// The shape that an operation makes of its input.
fn infer(op: &Op, from: Shape) -> Result<Shape, String> {
    let finite = |what: &str, values: &[f32]| match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(format!("{what} {at} is {}", values[at])),
        None => Ok(()),
    };
    match op {
        Op::Input(_) => Err("an input has no input".to_owned()),
        Op::Relu | Op::Softmax | Op::Sum(_) => Ok(from),
        Op::Convolution(convolution) => {
            let Convolution { kernels, window, stride, dilation, padding, weights, bias } = convolution;
            if *kernels == 0 || dilation.x == 0 || dilation.y == 0 || window.x == 0 || window.y == 0 {
                return Err("kernels, window and dilation must not be zero".to_owned());
            }
            let expected = [kernels, &from.channels, &window.y, &window.x]
                .into_iter()
                .fold(1u64, |product, &size| product.saturating_mul(u64::from(size)));
            if weights.len() as u64 != expected {
                return Err(format!(
                    "{} weights, but {kernels} kernels of {} channels of {} x {} have {expected}",
                    weights.len(),
                    from.channels,
                    window.y,
                    window.x
                ));
            }
            if bias.len() != *kernels as usize {
                return Err(format!("{} biases for {kernels} kernels", bias.len()));
            }
            finite("weight", weights)?;
            finite("bias", bias)?;
            let (tall, wide) = (dilated(window.y, dilation.y), dilated(window.x, dilation.x));
            Ok(Shape {
                channels: *kernels,
                height: windows(from.height, padding.top, padding.bottom, tall, stride.y, "height")?,
                width: windows(from.width, padding.left, padding.right, wide, stride.x, "width")?,
            })
        }
        Op::Pooling(Pooling { window, stride, padding, .. }) => Ok(Shape {
            channels: from.channels,
            height: windows(from.height, padding.top, padding.bottom, window.y, stride.y, "height")?,
            width: windows(from.width, padding.left, padding.right, window.x, stride.x, "width")?,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> (Graph, NodeId) {
        let mut graph = Graph::new("test");
        let shape = Shape { channels: 1, height: 28, width: 28 };
        let input = graph.input("data", shape, Image { mean: 0.0, divisor: 255.0 }).unwrap();
        (graph, input)
    }

    fn convolution(kernels: u32, window: u32) -> Convolution {
        Convolution {
            kernels,
            window: Extent { y: window, x: window },
            stride: Extent::ONE,
            dilation: Extent::ONE,
            padding: Padding::default(),
            weights: vec![0.5; (kernels * window * window) as usize],
            bias: vec![0.0; kernels as usize],
        }
    }

    #[test]
    fn shapes_follow_from_parameters() {
        let (mut graph, input) = image();
        let conv = graph.add("conv", Op::Convolution(convolution(20, 5)), input).unwrap();
        assert_eq!(graph.node(conv).shape, Shape { channels: 20, height: 24, width: 24 });
        let mut wide = convolution(4, 3);
        wide.dilation = Extent { y: 2, x: 3 };
        wide.stride = Extent { y: 2, x: 1 };
        wide.padding = Padding { top: 1, left: 2, bottom: 1, right: 2 };
        let wide = graph.add("wide", Op::Convolution(wide), input).unwrap();
        assert_eq!(graph.node(wide).shape, Shape { channels: 4, height: 13, width: 26 });
        let pool = Pooling {
            mode: PoolingMode::Max,
            window: Extent { y: 3, x: 2 },
            stride: Extent { y: 2, x: 2 },
            padding: Padding::default(),
        };
        let pool = graph.add("pool", Op::Pooling(pool), conv).unwrap();
        assert_eq!(graph.node(pool).shape, Shape { channels: 20, height: 11, width: 12 });
    }

    #[test]
    fn contradictions_are_refused_with_their_values() {
        let (mut graph, input) = image();
        let mut short = convolution(20, 5);
        short.weights.pop();
        let error = graph.add("conv", Op::Convolution(short), input).unwrap_err().to_string();
        assert_eq!(error, "layer \"conv\" (convolution): 499 weights, but 20 kernels of 1 channels of 5 x 5 have 500");
        let error = graph.add("conv", Op::Convolution(convolution(1, 29)), input).unwrap_err().to_string();
        assert!(error.contains("height 29 does not fit 28"), "{error}");
        let small = graph.add("small", Op::Convolution(convolution(1, 5)), input).unwrap();
        let error = graph.add("sum", Op::Sum(small), input).unwrap_err().to_string();
        assert!(error.contains("1 channels of 28 x 28, and 1 channels of 24 x 24"), "{error}");
        graph.add("conv", Op::Relu, input).unwrap();
        let error = graph.add("conv", Op::Relu, input).unwrap_err().to_string();
        assert!(error.contains("another layer has this name"), "{error}");
        let mut infinite = convolution(1, 1);
        infinite.bias[0] = f32::NAN;
        let error = graph.add("nan", Op::Convolution(infinite), input).unwrap_err().to_string();
        assert!(error.contains("bias 0 is NaN"), "{error}");
    }
}
