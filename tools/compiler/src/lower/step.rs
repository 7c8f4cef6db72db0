// SPDX-License-Identifier: MIT OR Apache-2.0

//! From nodes to steps. A step is one pass through the hardware, and has several nodes if its units allow it.
//!
//! A step begins with a convolution or with a tensor in memory, and continues through SDP's sub-units. [`Pipe::assign`]
//! says which sub-unit does what:
//!
//! ```text
//! X1  bias or factor per kernel, ReLU
//! X2  one of: a tensor added, compared or multiplied; slopes (PReLU); a limit; an addend; then ReLU
//! Y   one of: a tensor added, compared or multiplied; a limit; then a lookup table (where the configuration has them)
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use nvdla_uapi::config::Config;

use crate::ir::{self, infer::Broadcast, Binary, Graph, Op, Pool, Range, Ranges, Refusal, Unary};

/// The largest stride of a convolution.
const LARGEST_STRIDE: usize = 8;

/// Names a tensor of a network of steps.
pub type TensorId = usize;

/// A tensor.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its name in the model.
    pub name: String,
    /// Channels, height, width.
    pub shape: [u32; 3],
    /// The values that it takes.
    pub range: Option<Range>,
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
    /// Added; with the step's own value negated before.
    Add {
        /// The step's own value is negated.
        negate: bool,
    },
    /// The larger.
    Max,
    /// The smaller.
    Min,
    /// Multiplied.
    Mul,
}

/// What SDP does with a value on its way.
#[derive(Clone, Debug, PartialEq)]
pub enum Post {
    /// scale * x + shift, both one value or one per channel.
    Affine(Vec<f32>, Vec<f32>),
    /// max(x, 0)
    Relu,
    /// Slopes of negative values, one or one per channel.
    Slopes(Vec<f32>),
    /// min(x, limit)
    Most(f32),
    /// max(x, limit)
    Least(f32),
    /// Combined with a tensor of the same shape, or with one of one value per channel.
    With(Combine, TensorId),
    /// A function, by table. With the range of its argument.
    Table(Unary, f32, f32),
}

/// A convolution's parameters, in real numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Geometry.
    pub op: ir::Convolution,
    /// Kernels.
    pub kernels: usize,
    /// `[K, C / group, R, S]`.
    pub weights: Arc<[f32]>,
    /// One per kernel.
    pub bias: Vec<f32>,
}

/// What a step begins with.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A convolution.
    Convolution(Box<Convolution>),
    /// A tensor in memory.
    Copy,
    /// A pooling.
    Pool(Pool),
    /// Channels behind one another: no operation.
    Concat,
    /// A part of a tensor: no operation.
    Slice {
        /// The first channel, line and column.
        start: [u32; 3],
        /// The distance of channels and of lines.
        step: [u32; 2],
    },
    /// Channel k of the output is channel `from[k]` of the input: no operation.
    Channels(Vec<u32>),
    /// The same elements in another shape with the same order in memory: no operation.
    Same,
    /// Channel = `phase(y, x) * C + c` of the input becomes line `y` and column `x` of each block of that size (height,
    /// width).
    Spread([u32; 2]),
    /// Each element becomes a block of that size (height, width).
    Repeat([u32; 2]),
    /// Softmax over the channels: the CPU.
    Softmax,
    /// Local response normalisation over the channels.
    Lrn(Lrn),
}

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
    /// The factor for a sum of squares.
    pub fn factor(&self, sum: f64) -> f64 {
        (f64::from(self.bias) + f64::from(self.alpha) / self.size as f64 * sum).powf(-f64::from(self.beta))
    }
}

impl Kind {
    /// Its name, for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Convolution(_) => "convolution",
            Self::Copy => "copy",
            Self::Pool(_) => "pooling",
            Self::Concat => "concatenation (no operation)",
            Self::Slice { .. } => "slice (no operation)",
            Self::Channels(_) => "order of channels (no operation)",
            Self::Same => "same elements (no operation)",
            Self::Spread(_) => "channels to blocks",
            Self::Repeat(_) => "elements to blocks",
            Self::Softmax => "softmax (CPU)",
            Self::Lrn(_) => "normalisation",
        }
    }
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The nodes that it computes.
    pub nodes: Vec<String>,
    /// What it begins with.
    pub kind: Kind,
    /// What it begins with is computed from these.
    pub inputs: Vec<TensorId>,
    /// What follows.
    pub posts: Vec<Post>,
    /// What it makes.
    pub output: TensorId,
}

impl Step {
    /// Everything that it reads.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        let others =
            self.posts.iter().filter_map(|post| if let Post::With(_, other) = post { Some(*other) } else { None });
        self.inputs.iter().copied().chain(others)
    }
}

/// Which sub-unit does what: indices into a step's posts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pipe {
    /// A copy's factor and addend: the factor is X1's, an addend X2's.
    pub affine: bool,
    /// X2 adds the affine's addend.
    pub x2_shift: bool,
    /// ReLU behind X1.
    pub x1_relu: bool,
    /// What X2 does.
    pub x2: Option<usize>,
    /// ReLU behind X2.
    pub x2_relu: bool,
    /// What Y does.
    pub y: Option<usize>,
    /// Y's table.
    pub table: Option<usize>,
    /// The last limit is where the output's integers saturate.
    pub saturate: Option<usize>,
}

impl Pipe {
    /// Assigns a sub-unit to each post; `None` if there are too few. `saturates` means that the output may have a
    /// separate scale, so that the end of its integers can be a limit.
    pub fn assign(config: &Config, conv: bool, posts: &[Post], saturates: bool) -> Option<Self> {
        let mut pipe = Self::default();
        for (index, post) in posts.iter().enumerate() {
            if pipe.table.is_some() || pipe.saturate.is_some() {
                return None;
            }
            let x2_free = pipe.x2.is_none() && !pipe.x2_shift && pipe.y.is_none() && config.sdp_bn;
            let y_free = config.sdp_ew && pipe.y.is_none();
            match post {
                Post::Affine(_, shift) if index == 0 && !conv => {
                    pipe.affine = true;
                    pipe.x2_shift = shift.iter().any(|&shift| shift != 0.0);
                    if pipe.x2_shift && !config.sdp_bn {
                        return None;
                    }
                }
                Post::Relu if pipe.y.is_some() => return None,
                Post::Relu if pipe.x2.is_none() && !pipe.x2_shift => pipe.x1_relu = true,
                Post::Relu => {
                    if pipe.x2.is_some_and(|x2| matches!(posts[x2], Post::Slopes(_))) {
                        return None;
                    }
                    pipe.x2_relu = true;
                }
                Post::With(Combine::Add { negate: true }, _) if index > 0 => return None,
                Post::Slopes(_) | Post::Most(_) | Post::Least(_) | Post::With(..) if x2_free => pipe.x2 = Some(index),
                Post::Most(_) | Post::Least(_) | Post::With(..) if y_free => pipe.y = Some(index),
                Post::Most(limit) if saturates && *limit > 0.0 && index + 1 == posts.len() => {
                    pipe.saturate = Some(index);
                }
                Post::Table(..) if config.sdp_lut && config.sdp_ew => pipe.table = Some(index),
                Post::Affine(..)
                | Post::Slopes(_)
                | Post::Most(_)
                | Post::Least(_)
                | Post::With(..)
                | Post::Table(..) => return None,
            }
        }
        Some(pipe)
    }
}

/// A network of steps.
#[derive(Clone, Debug)]
pub struct Net {
    /// All tensors; those of the graph come first, with the same numbers.
    pub tensors: Vec<Tensor>,
    /// All steps, each behind those that make what it reads.
    pub steps: Vec<Step>,
    /// What the user gives.
    pub inputs: Vec<TensorId>,
    /// What the user gets.
    pub outputs: Vec<TensorId>,
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

    /// Adds a tensor.
    pub fn tensor(&mut self, name: String, shape: [u32; 3], range: Option<Range>) -> TensorId {
        self.tensors.push(Tensor { name, shape, range });
        self.tensors.len() - 1
    }
}

/// Makes steps of a graph: refusals of all nodes that cannot be mapped, if there are any.
pub fn build(graph: &Graph, ranges: &Ranges, config: &'static Config) -> Result<Net, Vec<Refusal>> {
    let mut builder = Builder { graph, config, net: Net::empty(graph, ranges), refusals: Vec::new() };
    let live = live(graph);
    for (index, node) in graph.nodes.iter().enumerate() {
        if !live[index] {
            continue;
        }
        if let Err(reason) = builder.node(node) {
            builder.refusals.push(Refusal {
                node: node.name.clone(),
                operator: node.op.name().to_owned(),
                shapes: node.inputs.iter().map(|&id| graph.shape(id).to_vec()).collect(),
                reason: format!("{reason} ({})", config.name),
            });
        }
    }
    if !builder.refusals.is_empty() {
        return Err(builder.refusals);
    }
    let mut net = builder.net;
    fold_reshapes(&mut net);
    fuse(&mut net, config);
    drop_unused(&mut net);
    Ok(net)
}

fn live(graph: &Graph) -> Vec<bool> {
    let mut needed = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|id| needed[id.0] = true);
    let mut live = vec![false; graph.nodes.len()];
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        if needed[node.output.0] {
            live[index] = true;
            node.inputs.iter().for_each(|id| needed[id.0] = true);
        }
    }
    live
}

impl Net {
    fn empty(graph: &Graph, ranges: &Ranges) -> Self {
        let tensor = |(id, tensor): (usize, &ir::Tensor)| Tensor {
            name: tensor.name.clone(),
            shape: folded(tensor),
            range: ranges.get(ir::TensorId(id)).copied(),
        };
        Self {
            tensors: graph.tensors.iter().enumerate().map(tensor).collect(),
            steps: Vec::new(),
            inputs: graph.inputs.iter().map(|id| id.0).collect(),
            outputs: graph.outputs.iter().map(|id| id.0).collect(),
        }
    }
}

/// Channels, height and width of a tensor. The dimensions before the channels become channels too, so elements keep
/// their order.
fn folded(tensor: &ir::Tensor) -> [u32; 3] {
    let [n, c, h, w] = tensor.nchw().unwrap_or_else(|| {
        let [outer @ .., h, w] = &tensor.shape[..] else { return [1, tensor.elements(), 1, 1] };
        [1, outer.iter().product(), *h, *w]
    });
    [n * c, h, w].map(|extent| extent as u32)
}

/// A network of steps that is being made.
pub(super) struct Builder<'a> {
    pub(super) graph: &'a Graph,
    pub(super) config: &'static Config,
    pub(super) net: Net,
    refusals: Vec<Refusal>,
}

impl Builder<'_> {
    /// Adds a step of a node.
    pub(super) fn step(
        &mut self,
        node: &ir::Node,
        kind: Kind,
        inputs: &[TensorId],
        posts: Vec<Post>,
        output: TensorId,
    ) {
        let nodes = vec![node.name.clone()];
        self.net.steps.push(Step { nodes, kind, inputs: inputs.to_vec(), posts, output });
    }

    /// A step of one input and the node's own output.
    fn simple(&mut self, node: &ir::Node, kind: Kind, posts: Vec<Post>) {
        self.step(node, kind, &[node.inputs[0].0], posts, node.output.0);
    }

    fn node(&mut self, node: &ir::Node) -> Result<(), String> {
        let (graph, output) = (self.graph, node.output.0);
        let shape = graph.shape(node.inputs[0]).to_vec();
        // Several in a batch lie behind one another, as more channels.
        let batch = if shape.len() > 1 { shape[0] } else { 1 };
        let several = |values: &[f32]| values.repeat(batch);
        if matches!(node.op, Op::Convolution(_) | Op::Deconvolution(..) | Op::Pool(_) | Op::PRelu) && shape.len() > 4 {
            return Err("more than two dimensions behind the channels".to_owned());
        }
        let constant = |at: usize| node.inputs.get(at).and_then(|&id| graph.constant(id).cloned());
        match &node.op {
            Op::Convolution(op) => {
                let weights = constant(1).ok_or("its weights are not constant")?;
                let kernels = graph.shape(node.inputs[1])[0];
                let bias = constant(2).map_or_else(|| vec![0.0; kernels], |bias| bias.to_vec());
                if let Some(&stride) = op.stride.iter().find(|&&stride| stride > LARGEST_STRIDE) {
                    return self.linear_node(node, format!("a stride of {stride}: the hardware's largest is 8"));
                }
                let (weights, bias) =
                    if batch > 1 { (several(&weights).into(), several(&bias)) } else { (weights, bias) };
                let op = ir::Convolution { group: op.group * batch, ..*op };
                self.convolve(
                    node,
                    Convolution { op, kernels: kernels * batch, weights, bias },
                    node.inputs[0].0,
                    output,
                );
            }
            Op::Deconvolution(op, _) => {
                let steps = self.net.steps.len();
                let made = if batch > 1 { Err(format!("a batch of {batch}")) } else { self.deconvolution(node, op) };
                if let Err(reason) = made {
                    self.net.steps.truncate(steps);
                    self.linear_node(node, reason)?;
                }
            }
            Op::Unary(unary) => self.unary(node, *unary)?,
            Op::PRelu => {
                let slopes = constant(1).ok_or("its slopes are not constant")?;
                let slopes = if slopes.len() == 1 { slopes.to_vec() } else { several(&slopes) };
                self.simple(node, Kind::Copy, vec![Post::Slopes(slopes)]);
            }
            Op::Binary(binary) => self.binary(node, *binary)?,
            Op::Pool(pool) => self.pool(node, *pool)?,
            Op::Softmax { axis } => self.softmax(node, *axis)?,
            Op::Concat { axis } => {
                let outer: usize = shape[..*axis].iter().product();
                // Channels, or the dimensions before them.
                let channels = match shape.len() {
                    0..=3 => *axis <= 1,
                    rank => *axis + 2 < rank,
                };
                let constants = node.inputs.iter().any(|&id| graph.constant(id).is_some());
                if !channels || outer != 1 || constants {
                    let what = if constants { " with constants" } else { "" };
                    return self.linear_node(node, format!("a concatenation along axis {axis} of {shape:?}{what}"));
                }
                let inputs: Vec<TensorId> = node.inputs.iter().map(|id| id.0).collect();
                self.step(node, Kind::Concat, &inputs, Vec::new(), output);
            }
            Op::Slice { starts, steps, lengths } => self.slice(node, starts, steps, lengths)?,
            Op::ChannelPermutation { from } => {
                let channels = graph.shape(node.inputs[0])[1];
                let from = (0..batch).flat_map(|n| from.iter().map(move |&k| (n * channels + k) as u32)).collect();
                self.simple(node, Kind::Channels(from), Vec::new());
            }
            Op::Reshape { .. } => {
                let [before, after] = [node.inputs[0].0, output].map(|id| self.net.tensors[id].shape);
                if before == after || after[1..] == [1, 1] {
                    self.simple(node, Kind::Same, Vec::new());
                } else {
                    self.linear_node(node, format!("{shape:?} as {:?}", graph.shape(node.output)))?;
                }
            }
            Op::Transpose { perm } => {
                // Where only dimensions of 1 move, no element does.
                let order: Vec<usize> = perm.iter().copied().filter(|&axis| shape[axis] != 1).collect();
                let [before, after] = [node.inputs[0].0, output].map(|id| self.net.tensors[id].shape);
                let stays = order.windows(2).all(|pair| pair[0] < pair[1]);
                if stays && (before == after || after[1..] == [1, 1]) {
                    self.simple(node, Kind::Same, Vec::new());
                } else {
                    self.linear_node(node, format!("the order {perm:?} of {shape:?}"))?;
                }
            }
            Op::Pad { mode, before, after } => {
                if let Err(reason) = self.pad(node, *mode, before, after) {
                    self.linear_node(node, reason)?;
                }
            }
            Op::DepthToSpace { .. } if batch > 1 => self.linear_node(node, format!("a batch of {batch}"))?,
            Op::DepthToSpace { block, order } => {
                let [c, ..] = self.net.tensors[node.inputs[0].0].shape;
                let (square, block) = ((block * block) as u32, *block as u32);
                let mut input = node.inputs[0].0;
                if *order == ir::BlockOrder::Crd && c > square {
                    let of = |at: u32| (at % (c / square)) * square + at / (c / square);
                    let tensor = self.net.tensors[input].clone();
                    let sorted = self.net.tensor(format!("{} sorted", tensor.name), tensor.shape, tensor.range);
                    self.step(node, Kind::Channels((0..c).map(of).collect()), &[input], Vec::new(), sorted);
                    input = sorted;
                }
                self.step(node, Kind::Spread([block; 2]), &[input], Vec::new(), output);
            }
            Op::Resize(resize) => {
                let made = if batch > 1 { Err(format!("a batch of {batch}")) } else { self.resize(node, resize) };
                if let Err(reason) = made {
                    self.linear_node(node, reason)?;
                }
            }
            Op::SpaceToDepth { block } => {
                if batch > 1 || *block > LARGEST_STRIDE {
                    return self.linear_node(node, format!("a batch of {batch}, blocks of {block}"));
                }
                // Kernel (y * block + x) * C + c takes channel c at line y and column x.
                let (channels, square) = (shape[1], block * block);
                let mut weights = vec![0f32; channels * square * channels * square];
                for row in 0..channels * square {
                    weights[(row * channels + row % channels) * square + row / channels] = 1.0;
                }
                let op = ir::Convolution {
                    group: 1,
                    kernel: [*block; 2],
                    stride: [*block; 2],
                    dilation: [1; 2],
                    padding: ir::Padding::default(),
                };
                let kernels = channels * square;
                let conv = Convolution { op, kernels, weights: weights.into(), bias: vec![0.0; kernels] };
                self.simple(node, Kind::Convolution(Box::new(conv)), Vec::new());
            }
            Op::Lrn { size, alpha, beta, bias } => {
                if !self.config.cdp {
                    return Err("the configuration has no CDP".to_owned());
                }
                if ![3, 5, 7, 9].contains(size) {
                    return Err(format!("a window of {size} channels: CDP has 3, 5, 7 or 9"));
                }
                if batch > 1 || shape.len() < 3 {
                    return Err(format!("{shape:?}: CDP's windows pass the limits of a batch"));
                }
                let lrn = Lrn { size: *size, alpha: *alpha, beta: *beta, bias: *bias };
                self.simple(node, Kind::Lrn(lrn), Vec::new());
            }
        }
        Ok(())
    }

    /// A part of a tensor: a view, where the columns that it takes lie beside one another.
    fn slice(&mut self, node: &ir::Node, starts: &[usize], steps: &[isize], lengths: &[usize]) -> Result<(), String> {
        let shape = self.graph.shape(node.inputs[0]);
        let rank = shape.len();
        // Axes of lines and columns; the others are channels.
        let [lines, columns] = match rank {
            0..=2 => [None, None],
            3 => [None, Some(2)],
            _ => [Some(rank - 2), Some(rank - 1)],
        };
        let of = |axis: Option<usize>| axis.map_or((0, 1, 1), |axis| (starts[axis], steps[axis], lengths[axis]));
        let ((y, by, height), (x, along, width)) = (of(lines), of(columns));
        if height > 1 && by < 0 || width > 1 && along != 1 {
            return self.linear_node(node, format!("a slice in steps of {steps:?}"));
        }
        let outer = rank - [lines, columns].iter().flatten().count();
        let mut channels = vec![0usize];
        for axis in 0..outer {
            let at = |k: usize| (starts[axis] as isize + k as isize * steps[axis]) as usize;
            let next =
                channels.iter().flat_map(|&before| (0..lengths[axis]).map(move |k| before * shape[axis] + at(k)));
            channels = next.collect();
        }
        let (input, output) = (node.inputs[0].0, node.output.0);
        let first = channels[0];
        let distance = channels.get(1).map_or(1, |&second| second.wrapping_sub(first));
        let even = channels.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == distance)
            && distance <= shape.iter().product();
        let step = [distance as u32, if height > 1 { by as u32 } else { 1 }];
        if even {
            self.simple(node, Kind::Slice { start: [first as u32, y as u32, x as u32], step }, Vec::new());
            return Ok(());
        }
        let Tensor { name, shape: [_, h, w], range } = self.net.tensors[output].clone();
        let whole = self.net.tensors[input].shape[0];
        let part = self.net.tensor(format!("{name} lines"), [whole, h, w], range);
        self.step(node, Kind::Slice { start: [0, y as u32, x as u32], step: [1, step[1]] }, &[input], Vec::new(), part);
        let from = channels.into_iter().map(|channel| channel as u32).collect();
        self.step(node, Kind::Channels(from), &[part], Vec::new(), output);
        Ok(())
    }

    fn unary(&mut self, node: &ir::Node, unary: Unary) -> Result<(), String> {
        let config = self.config;
        let tables = config.sdp_lut && config.sdp_ew;
        let limits = |low: f32, high: f32| {
            let mut posts = Vec::new();
            if low == 0.0 {
                posts.push(Post::Relu);
            } else if low.is_finite() {
                posts.push(Post::Least(low));
            }
            if high.is_finite() {
                posts.push(Post::Most(high));
            }
            posts
        };
        let posts = match unary {
            Unary::Relu => vec![Post::Relu],
            Unary::LeakyRelu(slope) => vec![Post::Slopes(vec![slope])],
            Unary::Clip(low, high) => limits(low, high),
            Unary::Neg => vec![Post::Affine(vec![-1.0], vec![0.0])],
            Unary::Abs => vec![Post::Slopes(vec![-1.0])],
            Unary::HardSigmoid { alpha, beta } if !tables => {
                let affine = Post::Affine(vec![alpha], vec![beta]);
                [affine].into_iter().chain(limits(0.0, 1.0)).collect()
            }
            Unary::HardSwish if !tables => {
                let x = node.inputs[0].0;
                let Tensor { name, shape, .. } = self.net.tensors[x].clone();
                let gate = self.net.tensor(format!("{name} gate"), shape, Some(Range::of(0.0, 1.0)));
                let posts = [Post::Affine(vec![1.0 / 6.0], vec![0.5])].into_iter().chain(limits(0.0, 1.0)).collect();
                self.split(node, Kind::Copy, x, posts, gate);
                vec![Post::With(Combine::Mul, gate)]
            }
            Unary::Floor | Unary::Ceil | Unary::Round => {
                return Err(format!("{} has steps, which a lookup table draws as slopes", unary.name()));
            }
            _ if tables => {
                let range = self.net.tensors[node.inputs[0].0].range;
                let (low, high) = range.map_or((-8.0, 8.0), |range| (range.min, range.max));
                vec![Post::Table(unary, low, high)]
            }
            _ => return Err(format!("{} needs lookup tables, which this configuration has not", unary.name())),
        };
        self.split(node, Kind::Copy, node.inputs[0].0, posts, node.output.0);
        Ok(())
    }

    /// A step with its posts, divided into as many steps as the sub-units require.
    fn split(&mut self, node: &ir::Node, kind: Kind, mut input: TensorId, mut posts: Vec<Post>, output: TensorId) {
        let mut kind = kind;
        // If readers share the output's scale, it cannot have a separate one.
        let own = output >= self.graph.tensors.len()
            || self.graph.users(ir::TensorId(output)).all(|user| {
                matches!(
                    self.graph.node(user).op,
                    Op::Convolution(_) | Op::Unary(_) | Op::Binary(_) | Op::PRelu | Op::Softmax { .. } | Op::Lrn { .. }
                )
            });
        while Pipe::assign(self.config, matches!(kind, Kind::Convolution(_)), &posts, own).is_none() && posts.len() > 1
        {
            let fits = |&count: &usize| Pipe::assign(self.config, false, &posts[..count], false).is_some();
            let count = (1..posts.len()).rev().find(fits).unwrap_or(1);
            let rest = posts.split_off(count);
            let Tensor { name, shape, .. } = self.net.tensors[output].clone();
            // The part's range is not known: it is that of the output widened by its input's.
            let range = self.net.tensors[input].range;
            let part = self.net.tensor(format!("{name} part"), shape, range);
            self.step(node, std::mem::replace(&mut kind, Kind::Copy), &[input], posts, part);
            (input, posts) = (part, rest);
        }
        self.step(node, kind, &[input], posts, output);
    }

    fn binary(&mut self, node: &ir::Node, binary: Binary) -> Result<(), String> {
        let graph = self.graph;
        let [a, b] = [node.inputs[0], node.inputs[1]];
        let shape = |id| graph.shape(id);
        match (graph.constant(a), graph.constant(b)) {
            (Some(_), Some(_)) => return Err("both operands are constant".to_owned()),
            (constant_a, constant_b) if constant_a.is_some() || constant_b.is_some() => {
                let (data, constant, values) = if let Some(values) = constant_b {
                    (a, b, values)
                } else {
                    (b, a, constant_a.ok_or("no constant")?)
                };
                let reversed = constant == a;
                let one_channel = self.net.tensors[data.0].shape[0] == 1;
                let channels = self.net.tensors[node.output.0].shape[0] as usize;
                // More than four dimensions have channels that a constant of one per index of dimension 1 does not number.
                let few = shape(node.output).len() <= 4;
                let fits = match ir::infer::broadcast(shape(constant), shape(node.output)) {
                    Broadcast::Scalar => true,
                    Broadcast::Channel => few,
                    Broadcast::Element => self.net.tensors[data.0].shape[1..] == [1, 1] || values.len() == 1,
                    Broadcast::Other => one_channel && values.len() == 1,
                };
                if !fits || self.net.tensors[data.0].shape != self.net.tensors[node.output.0].shape {
                    let reason = format!(
                        "a constant of shape {:?}: only one value, or one per channel, can be combined",
                        shape(constant)
                    );
                    return match (binary, reversed) {
                        (Binary::Add | Binary::Sub | Binary::Mul, _) | (Binary::Div, false) => {
                            self.linear_node(node, reason)
                        }
                        _ => Err(reason),
                    };
                }
                // One per channel of a batch is that many times the same.
                let values = if values.len() > 1 && values.len() < channels {
                    values.repeat(channels / values.len())
                } else {
                    values.to_vec()
                };
                let all = |value: f32| vec![value; values.len()];
                let post = match (binary, reversed) {
                    (Binary::Add, _) => Post::Affine(all(1.0), values),
                    (Binary::Sub, false) => Post::Affine(all(1.0), values.iter().map(|value| -value).collect()),
                    (Binary::Sub, true) => Post::Affine(all(-1.0), values),
                    (Binary::Mul, _) => {
                        let shift = all(0.0);
                        Post::Affine(values, shift)
                    }
                    (Binary::Div, false) => {
                        let shift = all(0.0);
                        Post::Affine(values.iter().map(|value| 1.0 / value).collect(), shift)
                    }
                    (Binary::Max, _) if values.len() == 1 && values[0] == 0.0 => Post::Relu,
                    (Binary::Max, _) if values.len() == 1 => Post::Least(values[0]),
                    (Binary::Min, _) if values.len() == 1 => Post::Most(values[0]),
                    (Binary::Pow, false) if values[..] == [1.0] => Post::Affine(vec![1.0], vec![0.0]),
                    (Binary::Pow, false) if values[..] == [2.0] => Post::With(Combine::Mul, data.0),
                    _ => return Err(format!("{} with these constants", node.op.name())),
                };
                if let Post::Affine(scale, shift) = &post {
                    if scale.iter().chain(shift).any(|value| !value.is_finite()) {
                        return Err("a constant is not finite".to_owned());
                    }
                }
                self.split(node, Kind::Copy, data.0, vec![post], node.output.0);
            }
            _ => {
                let out = self.net.tensors[node.output.0].shape;
                let output_shape = shape(node.output).to_vec();
                let rank = output_shape.len();
                let extents = |id: ir::TensorId| {
                    let small = shape(id);
                    [&vec![1; rank - small.len()], small].concat()
                };
                let same = |id| extents(id) == output_shape;
                // One value per channel: the dimensions behind the channels have one element.
                let outer = if rank < 3 { rank } else { (rank - 2).max(2) };
                let gate = |id| {
                    let extents = extents(id);
                    extents[..outer] == output_shape[..outer] && extents[outer..].iter().all(|&extent| extent == 1)
                };
                let (full, gates) = ([same(a), same(b)], [gate(a), gate(b)]);
                let (first, second) = (a, b);
                let (mut a, mut b) = (a.0, b.0);
                // What is neither as large as the output nor one value per channel is extended by a product.
                if !(full[0] || full[1] && gates[0]) {
                    a = self.extended(node, first, &output_shape)?;
                }
                if !(full[1] || full[0] && gates[1]) {
                    b = self.extended(node, second, &output_shape)?;
                }
                let [x, y] = [a, b].map(|id| self.net.tensors[id].shape);
                let swapped = x != out;
                let (own, other) = if swapped { (b, a) } else { (a, b) };
                let combine = match binary {
                    Binary::Add => Combine::Add { negate: false },
                    Binary::Max => Combine::Max,
                    Binary::Min => Combine::Min,
                    Binary::Mul => Combine::Mul,
                    // a - b is -b + a.
                    Binary::Sub if x == y => {
                        let post = Post::With(Combine::Add { negate: true }, a);
                        self.step(node, Kind::Copy, &[b], vec![post], node.output.0);
                        return Ok(());
                    }
                    Binary::Sub if swapped => Combine::Add { negate: true },
                    Binary::Sub => {
                        let Tensor { name, shape, range } = self.net.tensors[other].clone();
                        let range = range.map(|range| Range { min: -range.max, max: -range.min, ..range });
                        let negative = self.net.tensor(format!("{name} negative"), shape, range);
                        let negate = vec![Post::Affine(vec![-1.0], vec![0.0])];
                        self.step(node, Kind::Copy, &[other], negate, negative);
                        let add = vec![Post::With(Combine::Add { negate: false }, negative)];
                        self.step(node, Kind::Copy, &[own], add, node.output.0);
                        return Ok(());
                    }
                    Binary::Div if self.config.sdp_lut && self.config.sdp_ew => {
                        return self.quotient(node, a, b);
                    }
                    _ => return Err("the hardware has no such operation of two tensors".to_owned()),
                };
                self.step(node, Kind::Copy, &[own], vec![Post::With(combine, other)], node.output.0);
            }
        }
        Ok(())
    }

    /// a / b, as a times the reciprocal of b.
    fn quotient(&mut self, node: &ir::Node, a: TensorId, b: TensorId) -> Result<(), String> {
        let Tensor { name, shape, range } = self.net.tensors[b].clone();
        let range = range
            .filter(|range| range.min > 0.0 || range.max < 0.0)
            .ok_or("a division by a tensor whose values are not known to keep away from 0")?;
        let inverse = Some(Range::of(1.0 / range.max, 1.0 / range.min));
        let inverse = self.net.tensor(format!("{name} reciprocal"), shape, inverse);
        let table = Post::Table(Unary::Reciprocal, range.min, range.max);
        self.step(node, Kind::Copy, &[b], vec![table], inverse);
        let whole = self.net.tensors[a].shape == self.net.tensors[node.output.0].shape;
        let (own, other) = if whole { (a, inverse) } else { (inverse, a) };
        self.step(node, Kind::Copy, &[own], vec![Post::With(Combine::Mul, other)], node.output.0);
        Ok(())
    }

    /// A pooling, with a window that may be larger than PDP's.
    fn pool(&mut self, node: &ir::Node, mut pool: Pool) -> Result<(), String> {
        let most = super::pool::LARGEST_WINDOW;
        let mut input = node.inputs[0].0;
        if pool.kernel.iter().all(|&side| side <= most) {
            self.simple(node, Kind::Pool(pool), Vec::new());
            return Ok(());
        }
        let Tensor { name, shape, range } = self.net.tensors[input].clone();
        if let ir::PoolKind::Average { count_include_pad } = pool.kind {
            if !count_include_pad && pool.padding != ir::Padding::default() {
                let reason = format!("an average over windows of {:?} that does not count padding", pool.kernel);
                return self.linear_node(node, reason);
            }
            if let Some(stride) = pool.stride.iter().find(|&&stride| stride > LARGEST_STRIDE) {
                let reason = format!("an average over windows of {:?} with a stride of {stride}", pool.kernel);
                return self.linear_node(node, reason);
            }
            let channels = shape[0] as usize;
            let [tall, wide] = pool.kernel;
            let op = |kernel, stride, padding| {
                let [rows, columns]: [usize; 2] = kernel;
                let weights = vec![1.0 / (rows * columns) as f32; channels * rows * columns];
                (ir::Convolution { group: channels, kernel, stride, dilation: [1; 2], padding }, weights)
            };
            if tall == 1 || wide == 1 {
                let (op, weights) = op(pool.kernel, pool.stride, pool.padding);
                self.depthwise(node, op, weights, input, node.output.0);
                return Ok(());
            }
            // The means of columns, and their means: a convolution for both has as many weights as the window has elements.
            let ir::Padding { top, left, bottom, right } = pool.padding;
            let [_, height, _] = self.net.tensors[node.output.0].shape;
            let means = self.net.tensor(format!("{name} columns"), [shape[0], height, shape[2]], range);
            let none = ir::Padding::default();
            let (down, weights) = op([tall, 1], [pool.stride[0], 1], ir::Padding { top, bottom, ..none });
            self.depthwise(node, down, weights, input, means);
            let (along, weights) = op([1, wide], [1, pool.stride[1]], ir::Padding { left, right, ..none });
            self.depthwise(node, along, weights, means, node.output.0);
            return Ok(());
        }
        // The maximum over a window is the maximum over the maxima of windows inside it.
        let mut size = [shape[1] as usize, shape[2] as usize];
        while pool.kernel.iter().any(|&side| side > most) {
            let ir::Padding { top, left, bottom, right } = pool.padding;
            let part = |axis: usize, before: usize, after: usize| {
                if pool.kernel[axis] > most {
                    (most, before.min(most - 1), after.min(most - 1))
                } else {
                    (1, 0, 0)
                }
            };
            let (rows, columns) = (part(0, top, bottom), part(1, left, right));
            let padding = ir::Padding { top: rows.1, left: columns.1, bottom: rows.2, right: columns.2 };
            let kernel = [rows.0, columns.0];
            for (size, (kernel, before, after)) in size.iter_mut().zip([rows, columns]) {
                *size = *size + before + after + 1 - kernel;
            }
            let inner = Pool { kind: pool.kind, kernel, stride: [1; 2], padding };
            let maxima = self.net.tensor(format!("{name} maxima"), [shape[0], size[0] as u32, size[1] as u32], range);
            self.step(node, Kind::Pool(inner), &[input], Vec::new(), maxima);
            input = maxima;
            pool.kernel = [pool.kernel[0] + 1 - rows.0, pool.kernel[1] + 1 - columns.0];
            pool.padding = ir::Padding {
                top: top - rows.1,
                left: left - columns.1,
                bottom: bottom - rows.2,
                right: right - columns.2,
            };
        }
        self.step(node, Kind::Pool(pool), &[input], Vec::new(), node.output.0);
        Ok(())
    }

    /// A convolution of one weight per channel that pads: CDMA makes the padding.
    fn pad(&mut self, node: &ir::Node, mode: ir::PadMode, before: &[usize], after: &[usize]) -> Result<(), String> {
        let ir::PadMode::Constant(value) = mode else {
            return Err("padding that repeats or mirrors elements".to_owned());
        };
        let rank = before.len();
        if rank != 4 || before[..2] != [0, 0] || after[..2] != [0, 0] {
            return Err("padding of other dimensions than lines and columns".to_owned());
        }
        if value != 0.0 {
            return Err(format!("padding with {value}, which is not 0"));
        }
        let [c, ..] = self.net.tensors[node.inputs[0].0].shape.map(|extent| extent as usize);
        let padding = ir::Padding { top: before[2], left: before[3], bottom: after[2], right: after[3] };
        let op = ir::Convolution { group: c, kernel: [1; 2], stride: [1; 2], dilation: [1; 2], padding };
        self.depthwise(node, op, vec![1.0; c], node.inputs[0].0, node.output.0);
        Ok(())
    }

    fn depthwise(&mut self, node: &ir::Node, op: ir::Convolution, weights: Vec<f32>, from: TensorId, to: TensorId) {
        let kernels = op.group;
        let conv = Convolution { op, kernels, weights: weights.into(), bias: vec![0.0; kernels] };
        self.convolve(node, conv, from, to);
    }

    /// A deconvolution of stride s is s x s convolutions, each with every s-th weight. Their outputs are interleaved.
    fn deconvolution(&mut self, node: &ir::Node, op: &ir::Convolution) -> Result<(), String> {
        let graph = self.graph;
        let weights = graph.constant(node.inputs[1]).ok_or("its weights are not constant")?;
        let [c, per_group, r, s] =
            graph.shape(node.inputs[1]).try_into().map_err(|_| "its weights have no four dimensions")?;
        let kernels = per_group * op.group;
        let bias =
            node.inputs.get(2).and_then(|&id| graph.constant(id)).map_or(vec![0.0; kernels], |bias| bias.to_vec());
        if op.dilation != [1, 1] {
            return Err(format!("a deconvolution of dilation {:?}", op.dilation));
        }
        let (x, out) = (node.inputs[0].0, node.output.0);
        let ([_, h, w], [_, out_h, out_w]) = (self.net.tensors[x].shape, self.net.tensors[out].shape);
        let before = [op.padding.top, op.padding.left];
        // Along one axis: output line `o` takes input line `i` with weight `o + pad - i * stride`. Lines of one phase,
        // o = q * stride + p, take weights of one rest: a convolution with taps in reverse order. All phases get the kernel
        // of the one that reaches farthest, so that they are one convolution.
        let axis = |size: u32, out: u32, kernel: usize, stride: usize, pad: usize| {
            let taps = |p: usize| (0..kernel).filter(move |t| (p + pad) % stride == t % stride);
            // Tap t of phase p reads line q + (p + pad - t) / stride.
            let shift = |p: usize, t: usize| (p as i64 + pad as i64 - t as i64).div_euclid(stride as i64);
            let all = (0..stride).flat_map(|p| taps(p).map(move |t| shift(p, t)));
            let (first, last) = (all.clone().min().unwrap_or(0), all.max().unwrap_or(0));
            let lines = (out as usize).div_ceil(stride);
            let before = -first;
            let after = lines as i64 - 1 + last - (i64::from(size) - 1);
            (first, (last - first + 1) as usize, before, after, lines)
        };
        let (first_y, tall, top, bottom, lines) = axis(h, out_h, r, op.stride[0], before[0]);
        let (first_x, wide, left, right, columns) = axis(w, out_w, s, op.stride[1], before[1]);
        let (bottom, right) = (bottom.max(0), right.max(0));
        if [top, left].iter().any(|&pad| pad < 0) {
            return Err("a deconvolution whose padding cuts off whole input lines".to_owned());
        }
        let phases = op.stride[0] * op.stride[1];
        let from_group = c / op.group;
        // Kernel = group, then phase, then the group's kernel: groups stay together.
        let mut all = vec![0f32; phases * kernels * from_group * tall * wide];
        for group in 0..op.group {
            for py in 0..op.stride[0] {
                for px in 0..op.stride[1] {
                    let phase = py * op.stride[1] + px;
                    for k in 0..per_group {
                        let row = (group * phases + phase) * per_group + k;
                        for ci in 0..from_group {
                            for ty in (0..r).filter(|t| (py + before[0]) % op.stride[0] == t % op.stride[0]) {
                                for tx in (0..s).filter(|t| (px + before[1]) % op.stride[1] == t % op.stride[1]) {
                                    let at = |p: usize, pad: usize, t: usize, stride: usize, first: i64| {
                                        ((p as i64 + pad as i64 - t as i64).div_euclid(stride as i64) - first) as usize
                                    };
                                    let y = at(py, before[0], ty, op.stride[0], first_y);
                                    let x = at(px, before[1], tx, op.stride[1], first_x);
                                    let from = ((group * from_group + ci) * per_group + k) * r * s + ty * s + tx;
                                    all[((row * from_group + ci) * tall + y) * wide + x] = weights[from];
                                }
                            }
                        }
                    }
                }
            }
        }
        let padding =
            ir::Padding { top: top as usize, left: left as usize, bottom: bottom as usize, right: right as usize };
        let conv = ir::Convolution { group: op.group, kernel: [tall, wide], stride: [1, 1], dilation: [1, 1], padding };
        let bias =
            (0..phases * kernels).map(|row| bias[row / (phases * per_group) * per_group + row % per_group]).collect();
        let kernels_all = phases * kernels;
        let kind = Convolution { op: conv, kernels: kernels_all, weights: all.into(), bias };
        let range = self.net.tensors[out].range;
        let name = self.net.tensors[out].name.clone();
        let size = [kernels_all as u32, lines as u32, columns as u32];
        let parts = self.net.tensor(format!("{name} phases"), size, range);
        self.step(node, Kind::Convolution(Box::new(kind)), &[x], Vec::new(), parts);
        if phases == 1 && size == self.net.tensors[out].shape {
            self.net.steps.last_mut().into_iter().for_each(|step| step.output = out);
            return Ok(());
        }
        // The inputs of the interleaving, by phase, then by group.
        let order = |at: usize| {
            let (phase, k) = (at / kernels, at % kernels);
            ((k / per_group * phases + phase) * per_group + k % per_group) as u32
        };
        let sorted = self.net.tensor(format!("{name} sorted"), size, range);
        self.step(node, Kind::Channels((0..kernels_all).map(order).collect()), &[parts], Vec::new(), sorted);
        let stride = [op.stride[0] as u32, op.stride[1] as u32];
        self.spread(node, Kind::Spread(stride), sorted, [lines as u32 * stride[0], columns as u32 * stride[1]], out);
        Ok(())
    }

    /// A step that makes blocks, and the part of its output that is wanted.
    fn spread(&mut self, node: &ir::Node, kind: Kind, from: TensorId, [h, w]: [u32; 2], out: TensorId) {
        let Tensor { name, shape, range } = self.net.tensors[out].clone();
        if shape[1..] == [h, w] {
            self.step(node, kind, &[from], Vec::new(), out);
            return;
        }
        let whole = self.net.tensor(format!("{name} whole"), [shape[0], h, w], range);
        self.step(node, kind, &[from], Vec::new(), whole);
        self.step(node, Kind::Slice { start: [0; 3], step: [1; 2] }, &[whole], Vec::new(), out);
    }

    fn resize(&mut self, node: &ir::Node, resize: &ir::Resize) -> Result<(), String> {
        let (x, out) = (node.inputs[0].0, node.output.0);
        let ([_, h, w], [_, out_h, out_w]) = (self.net.tensors[x].shape, self.net.tensors[out].shape);
        if [out_h, out_w] == [h, w] {
            self.simple(node, Kind::Same, Vec::new());
            return Ok(());
        }
        if out_h % h != 0 || out_w % w != 0 {
            return Err(format!("from {h} x {w} to {out_h} x {out_w}: only whole factors"));
        }
        let factors = [out_h / h, out_w / w];
        match resize.mode {
            ir::ResizeMode::Nearest(rounding) => {
                let map = |axis: usize, o: u32, size: u32| {
                    let scale = f64::from(factors[axis]);
                    let x = match resize.coordinates {
                        ir::Coordinates::HalfPixel | ir::Coordinates::PytorchHalfPixel => {
                            (f64::from(o) + 0.5) / scale - 0.5
                        }
                        ir::Coordinates::Asymmetric => f64::from(o) / scale,
                        ir::Coordinates::AlignCorners => {
                            f64::from(o) * f64::from(size - 1) / f64::from((size * factors[axis]).max(2) - 1)
                        }
                    };
                    let x = match rounding {
                        ir::Rounding::HalfDown => (x - 0.5).ceil(),
                        ir::Rounding::HalfUp => (x + 0.5).floor(),
                        ir::Rounding::Floor => x.floor(),
                        ir::Rounding::Ceil => x.ceil(),
                    };
                    x.clamp(0.0, f64::from(size - 1)) as u32
                };
                let plain =
                    |axis: usize, size: u32| (0..size * factors[axis]).all(|o| map(axis, o, size) == o / factors[axis]);
                if !plain(0, h) || !plain(1, w) {
                    return Err("a nearest resize whose elements do not become blocks".to_owned());
                }
                self.simple(node, Kind::Repeat(factors), Vec::new());
                Ok(())
            }
            ir::ResizeMode::Bilinear => {
                // Phase p of a line lies (p + 1/2) / f - 1/2 from it: between the line before and it, or it and the next.
                // The border repeats the first and last line, which zero padding does not: refused but for one line.
                if h != 1 || w != 1 {
                    return Err("a bilinear resize of more than one element".to_owned());
                }
                self.simple(node, Kind::Repeat(factors), Vec::new());
                Ok(())
            }
        }
    }
}

/// A fully connected layer behind a flattening is a convolution with a kernel as large as the tensor before.
fn fold_reshapes(net: &mut Net) {
    let makers: HashMap<TensorId, usize> =
        net.steps.iter().enumerate().map(|(index, step)| (step.output, index)).collect();
    for index in 0..net.steps.len() {
        let step = &net.steps[index];
        let (Kind::Convolution(conv), from) = (&step.kind, step.inputs[0]) else { continue };
        let [_, h, w] = net.tensors[from].shape;
        if (h, w) != (1, 1) || conv.op.kernel != [1, 1] || conv.op.group != 1 {
            continue;
        }
        let (mut source, mut nodes) = (from, Vec::new());
        while let Some(maker) =
            makers.get(&source).map(|&maker| &net.steps[maker]).filter(|maker| maker.kind == Kind::Same)
        {
            nodes.splice(0..0, maker.nodes.iter().cloned());
            source = maker.inputs[0];
        }
        if source == from {
            continue;
        }
        let [_, h, w] = net.tensors[source].shape;
        if h > 32 || w > 32 || net.tensors[source].elements() != net.tensors[from].elements() {
            continue;
        }
        let mut conv = conv.clone();
        conv.op.kernel = [h as usize, w as usize];
        conv.op.stride = [1, 1];
        let step = &mut net.steps[index];
        step.inputs[0] = source;
        step.nodes = nodes.into_iter().chain(step.nodes.drain(..)).collect();
        step.kind = Kind::Convolution(conv);
    }
}

/// Joins steps through SDP's sub-units.
fn fuse(net: &mut Net, config: &Config) {
    let mut index = 0;
    while index < net.steps.len() {
        if net.steps[index].kind == Kind::Copy {
            if let Some((maker, step)) = joined(net, index, config) {
                net.steps[index] = step;
                net.steps.remove(maker);
                continue;
            }
        }
        index += 1;
    }
}

/// The step that makes the input of a copy, if the copy can be part of it, with its number.
fn joined(net: &Net, index: usize, config: &Config) -> Option<(usize, Step)> {
    let step = &net.steps[index];
    let mut variants = vec![(step.inputs[0], step.posts.clone())];
    if let [Post::With(combine, other), rest @ ..] = &step.posts[..] {
        let same = net.tensors[*other].shape == net.tensors[step.inputs[0]].shape;
        if same && *combine != (Combine::Add { negate: true }) {
            let mut posts = vec![Post::With(*combine, step.inputs[0])];
            posts.extend_from_slice(rest);
            variants.push((*other, posts));
        }
    }
    // The later maker first: its operand is certainly known then.
    let maker_of = |tensor: TensorId| net.steps[..index].iter().rposition(|maker| maker.output == tensor);
    variants.sort_by_key(|(tensor, _)| std::cmp::Reverse(maker_of(*tensor)));
    for (tensor, posts) in variants {
        let Some(maker) = maker_of(tensor) else { continue };
        let before = &net.steps[maker];
        let reads = net.steps.iter().flat_map(Step::reads).filter(|&read| read == tensor).count();
        if reads != 1 || net.outputs.contains(&tensor) || !matches!(before.kind, Kind::Convolution(_) | Kind::Copy) {
            continue;
        }
        let mut kind = before.kind.clone();
        let mut all = before.posts.clone();
        for post in posts {
            let only = all.len() == 1;
            match (&mut kind, all.last_mut(), post) {
                (Kind::Convolution(conv), None, Post::Affine(scale, shift)) => scale_weights(conv, &scale, &shift),
                (Kind::Copy, Some(Post::Affine(scale, shift)), Post::Affine(by, add)) if only => {
                    (*scale, *shift) = both(scale, shift, &by, &add);
                }
                (_, _, post) => all.push(post),
            }
        }
        if let Kind::Copy = kind {
            // Nothing but a factor of one is nothing.
            if let Some(Post::Affine(scale, shift)) = all.first() {
                if all.len() > 1
                    && scale.iter().all(|s| s.to_bits() == 1f32.to_bits())
                    && shift.iter().all(|&s| s == 0.0)
                {
                    all.remove(0);
                }
            }
        }
        let conv = matches!(kind, Kind::Convolution(_));
        if Pipe::assign(config, conv, &all, may_saturate(net, step.output)).is_some() {
            let nodes = before.nodes.iter().chain(&step.nodes).cloned().collect();
            return Some((maker, Step { nodes, kind, inputs: before.inputs.clone(), posts: all, output: step.output }));
        }
    }
    None
}

/// Whether a tensor's scale is its own: no reader shares it.
pub fn may_saturate(net: &Net, tensor: TensorId) -> bool {
    net.steps
        .iter()
        .filter(|step| step.inputs.contains(&tensor))
        .all(|step| matches!(step.kind, Kind::Convolution(_) | Kind::Copy | Kind::Softmax | Kind::Lrn(_)))
}

fn scale_weights(conv: &mut Convolution, scale: &[f32], shift: &[f32]) {
    let of = |values: &[f32], k: usize| values[if values.len() == 1 { 0 } else { k }];
    let each = conv.weights.len() / conv.kernels;
    let weights = conv.weights.iter().enumerate().map(|(at, weight)| weight * of(scale, at / each));
    conv.weights = weights.collect();
    for (k, bias) in conv.bias.iter_mut().enumerate() {
        *bias = *bias * of(scale, k) + of(shift, k);
    }
}

/// (x * scale + shift) * by + add.
fn both(scale: &[f32], shift: &[f32], by: &[f32], add: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let count = scale.len().max(by.len());
    let of = |values: &[f32], k: usize| values[if values.len() == 1 { 0 } else { k }];
    (0..count).map(|k| (of(scale, k) * of(by, k), of(shift, k) * of(by, k) + of(add, k))).unzip()
}

fn drop_unused(net: &mut Net) {
    loop {
        let readers = net.readers();
        let before = net.steps.len();
        let outputs = net.outputs.clone();
        net.steps.retain(|step| outputs.contains(&step.output) || readers.contains_key(&step.output));
        if net.steps.len() == before {
            break;
        }
    }
}
