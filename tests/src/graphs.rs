// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random graphs of all operators, with ranges for their tensors.

use nvdla_compiler::ir::{
    Binary, BlockOrder, Convolution, Coordinates, Graph, Op, PadMode, Padding, Pool, PoolKind, Preprocess, Range,
    Ranges, Resize, ResizeMode, Rounding, TensorId, Unary,
};
use nvdla_uapi::config::Config;

use crate::random::Random;

/// A graph under construction.
#[derive(Clone, Debug)]
pub struct Builder {
    /// The graph.
    pub graph: Graph,
    /// Where shapes and values come from.
    pub random: Random,
    count: usize,
    /// Tensors of four dimensions that later nodes may use.
    pub known: Vec<TensorId>,
}

impl Builder {
    /// An empty graph, whose shapes and values are those of a seed.
    pub fn new(name: &str, seed: u64) -> Self {
        Self { graph: Graph::new(name), random: Random::new(seed), count: 0, known: Vec::new() }
    }

    fn name(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}{}", self.count)
    }

    /// Channels, lines and columns of a tensor.
    pub fn shape(&self, id: TensorId) -> [usize; 3] {
        let shape = self.graph.shape(id);
        [shape[1], shape[2], shape[3]]
    }

    /// Adds a node; none if its inputs do not fit.
    pub fn add(&mut self, op: Op, inputs: &[TensorId]) -> Option<TensorId> {
        let name = self.name(op.name());
        let out = self.graph.add(name.clone(), op, inputs, format!("{name}:0")).ok()?;
        self.known.push(out);
        Some(out)
    }

    /// Adds a constant of random values up to `size` from `offset`.
    ///
    /// # Panics
    ///
    /// Never: shapes and values fit one another.
    pub fn constant(&mut self, shape: &[usize], size: f32, offset: f32) -> TensorId {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| self.random.real() * size + offset).collect();
        let name = self.name("constant");
        self.graph.add_constant(name, shape, values).unwrap()
    }

    /// Adds a random convolution.
    pub fn convolution(&mut self, from: TensorId) -> Option<TensorId> {
        let [c, h, w] = self.shape(from);
        let random = &mut self.random;
        let kernel = [random.between(1, 4).min(h), random.between(1, 4).min(w)];
        let stride = [random.between(1, 2), random.between(1, 2)];
        let dilation = if random.one_in(4) { [2, random.between(1, 3)] } else { [1, 1] };
        let mut pad = || random.below(3).min(2);
        let padding = Padding { top: pad(), left: pad(), bottom: pad(), right: pad() };
        let divisors: Vec<usize> = (1..=c).filter(|group| c % group == 0).collect();
        let group = if random.one_in(3) { random.pick(&divisors) } else { 1 };
        let kernels =
            if group == c && random.one_in(2) { c } else { group * random.between(1, 20.max(2 * c / group).min(24)) };
        let kernels = kernels.min(group * (40 / group).max(1));
        let each = c / group * kernel[0] * kernel[1];
        let weights = self.constant(&[kernels, c / group, kernel[0], kernel[1]], 1.7 / (each as f32).sqrt(), 0.0);
        let bias = self.constant(&[kernels], 0.3, 0.0);
        self.add(Op::Convolution(Convolution { group, kernel, stride, dilation, padding }), &[from, weights, bias])
    }

    /// One of the tensors that are known, later ones more often.
    pub fn any(&mut self) -> TensorId {
        let back = self.random.below(self.known.len()).min(self.random.below(self.known.len()));
        self.known[self.known.len() - 1 - back]
    }

    /// Adds a node of a random kind; nothing if it does not fit.
    pub fn node(&mut self, config: &Config) -> Option<TensorId> {
        let from = self.any();
        let [c, h, w] = self.shape(from);
        match self.random.below(21) {
            0..=3 => self.convolution(from),
            16 => {
                let size = self.random.pick(&[3, 5, 7, 9]);
                self.add(Op::Lrn { size, alpha: 0.5, beta: 0.75, bias: 1.0 }, &[from])
            }
            17 => self.add(Op::SpaceToDepth { block: [2; 2] }, &[from]),
            18 => self.moved(from),
            19 => self.copied(from),
            20 => self.rarer(from),
            4 | 5 => {
                let unary = match self.random.below(if config.sdp_lut { 10 } else { 6 }) {
                    0 | 1 => Unary::Relu,
                    2 => Unary::LeakyRelu(0.1),
                    3 => Unary::Clip(0.0, 0.7),
                    4 => Unary::HardSwish,
                    5 => Unary::HardSigmoid { alpha: 0.2, beta: 0.5 },
                    6 => Unary::Sigmoid,
                    7 => Unary::Tanh,
                    8 => Unary::Silu,
                    _ => Unary::Elu(1.0),
                };
                self.add(Op::Unary(unary), &[from])
            }
            6 => {
                let slopes = self.constant(&[c], 0.5, 0.2);
                self.add(Op::PRelu, &[from, slopes])
            }
            7 | 8 => {
                // Another tensor of this shape: one that is known, or a convolution's.
                let same: Vec<TensorId> =
                    self.known.iter().copied().filter(|&id| self.shape(id) == [c, h, w]).collect();
                let mut other = self.random.pick(&same);
                if other == from || self.random.one_in(2) {
                    let weights = self.constant(&[c, c, 1, 1], 1.7 / (c as f32).sqrt(), 0.0);
                    let op = Convolution {
                        group: 1,
                        kernel: [1; 2],
                        stride: [1; 2],
                        dilation: [1; 2],
                        padding: Padding::default(),
                    };
                    other = self.add(Op::Convolution(op), &[from, weights])?;
                }
                let binary =
                    self.random.pick(&[Binary::Add, Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min]);
                let inputs = if self.random.one_in(2) { [from, other] } else { [other, from] };
                self.add(Op::Binary(binary), &inputs)
            }
            9 => {
                let shape = if self.random.one_in(2) { vec![1, c, 1, 1] } else { vec![] };
                let offset = 0.3;
                let constant = self.constant(&shape, 0.5, offset);
                let binary = self.random.pick(&[Binary::Add, Binary::Mul, Binary::Sub]);
                self.add(Op::Binary(binary), &[from, constant])
            }
            10 => {
                // A gate: one value per channel.
                let kind = PoolKind::Average { count_include_pad: true };
                let pool = Pool::new(kind, [h, w]);
                let gate = self.add(Op::Pool(pool), &[from])?;
                let gate = self.convolution_1x1(gate, c)?;
                self.add(Op::Binary(Binary::Mul), &[from, gate])
            }
            11 | 12 => {
                let random = &mut self.random;
                let kernel = [random.between(1, 4).min(h), random.between(1, 10).min(w)];
                let stride = [random.between(1, 3), random.between(1, 3)];
                let mut pad = |side: usize| random.below(side.min(3));
                let padding = Padding {
                    top: pad(kernel[0]),
                    left: pad(kernel[1]),
                    bottom: pad(kernel[0]),
                    right: pad(kernel[1]),
                };
                let kind = random.pick(&[
                    PoolKind::Max,
                    PoolKind::Average { count_include_pad: true },
                    PoolKind::Average { count_include_pad: false },
                ]);
                if kernel[1] > 8 && matches!(kind, PoolKind::Average { count_include_pad: false }) {
                    return None;
                }
                self.add(Op::Pool(Pool { kind, kernel, stride, dilation: [1; 2], padding }), &[from])
            }
            13 => {
                let fits: Vec<TensorId> =
                    self.known.iter().copied().filter(|&id| self.shape(id)[1..] == [h, w]).collect();
                let inputs: Vec<TensorId> =
                    (0..self.random.between(2, 3)).map(|_| fits[self.random.below(fits.len())]).collect();
                if inputs.iter().map(|&id| self.shape(id)[0]).sum::<usize>() > 80 {
                    return None;
                }
                self.add(Op::Concat { axis: 1 }, &inputs)
            }
            14 => {
                let random = &mut self.random;
                let mut part = |size: usize| {
                    let start = random.below(size);
                    (start, random.between(1, size - start))
                };
                let parts = [(0, 1), part(c), part(h), part(w)];
                let op = Op::Slice {
                    starts: parts.iter().map(|part| part.0).collect(),
                    steps: vec![1; 4],
                    lengths: parts.iter().map(|part| part.1).collect(),
                };
                self.add(op, &[from])
            }
            _ => {
                if self.random.one_in(3) && c * h * w < 4000 {
                    let kind = Resize::new(
                        ResizeMode::Nearest(Rounding::Floor),
                        Coordinates::Asymmetric,
                        [2.0, 3.0],
                        [2 * h, 3 * w],
                    );
                    return self.add(Op::Resize(kind), &[from]);
                }
                if self.random.one_in(2) && c * h * w < 4000 {
                    let kernels = self.random.between(1, 10);
                    let kernel = [self.random.between(2, 4), self.random.between(2, 4)];
                    let weights = self.constant(&[c, kernels, kernel[0], kernel[1]], 1.7 / (c as f32).sqrt(), 0.0);
                    let padding =
                        Padding { top: self.random.below(2), left: self.random.below(2), bottom: 0, right: 1 };
                    let op = Convolution { group: 1, kernel, stride: [2, 2], dilation: [1; 2], padding };
                    return self.add(Op::Deconvolution(op, [0, 0]), &[from, weights]);
                }
                let mut order: Vec<usize> = (0..c).collect();
                (1..c).for_each(|at| order.swap(at, self.random.below(at + 1)));
                if self.random.one_in(2) {
                    // Some channels repeat, and others are left out.
                    order = (0..c).map(|_| self.random.below(c)).collect();
                }
                self.add(Op::ChannelPermutation { from: order }, &[from])
            }
        }
    }

    /// Operators that few networks have.
    fn rarer(&mut self, from: TensorId) -> Option<TensorId> {
        let [c, h, w] = self.shape(from);
        match self.random.below(13) {
            0 => self.dilated_pool(from),
            1 => self.resized(from),
            2 => {
                let shapes: [&[usize]; 8] =
                    [&[1, c, h, w], &[1, 1, h, w], &[1, c, 1, w], &[1, 1, h, 1], &[h, w], &[w], &[h, 1], &[c, h, 1]];
                let shape = self.random.pick(&shapes);
                let constant = self.constant(shape, 0.5, 0.3);
                let binary = self.random.pick(&[Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min]);
                let inputs = if self.random.one_in(2) { [from, constant] } else { [constant, from] };
                self.add(Op::Binary(binary), &inputs)
            }
            4 => {
                // Lines and columns of a constant.
                let mode = PadMode::Constant(self.random.real());
                let mut pad = || self.random.below(4);
                let (before, after) = (vec![0, 0, pad(), pad()], vec![0, 0, pad(), pad()]);
                self.add(Op::Pad { mode, before, after }, &[from])
            }
            5 => {
                // Lines and columns from the last to the first.
                let random = &mut self.random;
                let mut axis = |size: usize| {
                    let (back, apart) = (random.one_in(2), random.between(1, 2));
                    let start = if back { size - 1 } else { 0 };
                    (start, if back { -(apart as isize) } else { apart as isize }, size.div_ceil(apart))
                };
                let axes = [(0, 1, 1), (0, 1, c), axis(h), axis(w)];
                let op = Op::Slice {
                    starts: axes.iter().map(|axis| axis.0).collect(),
                    steps: axes.iter().map(|axis| axis.1).collect(),
                    lengths: axes.iter().map(|axis| axis.2).collect(),
                };
                self.add(op, &[from])
            }
            6 => {
                // ai.onnx.ml's Scaler.
                let (offset, scale) = (self.constant(&[1, c, 1, 1], 0.5, 0.0), self.constant(&[1, c, 1, 1], 0.8, 0.3));
                let from = self.add(Op::Binary(Binary::Sub), &[from, offset])?;
                self.add(Op::Binary(Binary::Mul), &[from, scale])
            }
            7 => self.add(Op::Softmax { axis: 1 }, &[from]),
            8 => {
                // The start of a stage of ResNet v1.
                let stride = [self.random.between(1, 3), self.random.between(1, 3)];
                let kernels = self.random.between(1, 12);
                let [main, shortcut] = [(); 2].map(|()| self.strided_1x1(from, kernels, stride));
                self.add(Op::Binary(Binary::Add), &[main?, shortcut?])
            }
            9 => {
                // The same pixels in lines of another length.
                let pixels = h * w;
                let lines: Vec<usize> = (1..=pixels).filter(|lines| pixels % lines == 0).collect();
                let lines = self.random.pick(&lines);
                self.add(Op::Reshape { shape: vec![1, c, lines, pixels / lines] }, &[from])
            }
            11 => self.product(from),
            10 => {
                // Blocks of one line or one column.
                let size = self.random.between(2, 3);
                let block = if self.random.one_in(2) { [size, 1] } else { [1, size] };
                if self.random.one_in(2) {
                    return self.add(Op::SpaceToDepth { block }, &[from]);
                }
                let order = self.random.pick(&[BlockOrder::Dcr, BlockOrder::Crd]);
                self.add(Op::DepthToSpace { block, order }, &[from])
            }
            _ => {
                // A comparison with a constant, alone or choosing.
                let at = self.random.real() / 2.0;
                if self.random.one_in(3) {
                    return self.add(Op::Unary(Unary::Threshold(at)), &[from]);
                }
                let step = self.add(Op::Unary(Unary::Step(at)), &[from])?;
                self.add(Op::Binary(Binary::Mul), &[step, from])
            }
        }
    }

    /// A product with a tensor of as many channels, or with itself.
    fn product(&mut self, from: TensorId) -> Option<TensorId> {
        let [c, ..] = self.shape(from);
        let fits = |id: &TensorId| {
            let own = self.graph.shape(*id);
            own[1] == c && own[2] * own[3] <= 150
        };
        let fits: Vec<TensorId> = self.known.iter().copied().filter(fits).collect();
        let weights = if self.random.one_in(2) && !fits.is_empty() {
            self.random.pick(&fits)
        } else {
            let other = self.any();
            let [_, h, w] = self.shape(other);
            if h * w > 150 {
                return None;
            }
            self.convolution_1x1(other, c)?
        };
        self.add(Op::Product, &[from, weights])
    }

    /// A pooling of elements that are apart.
    fn dilated_pool(&mut self, from: TensorId) -> Option<TensorId> {
        let [_, h, w] = self.shape(from);
        let random = &mut self.random;
        let kernel = [random.between(1, 3), random.between(2, 3)];
        let stride = [random.between(1, 3), random.between(1, 3)];
        // No farther apart than the input is large, so that each window has an element.
        let dilation = [random.between(1, 3).min(h), random.between(2, 4).min(w)];
        let mut pad = |axis: usize| random.below(kernel[axis] * dilation[axis] + 1 - dilation[axis]).min(4);
        let padding = Padding { top: pad(0), left: pad(1), bottom: pad(0), right: pad(1) };
        let kind = random.pick(&[PoolKind::Max, PoolKind::Average { count_include_pad: false }]);
        self.add(Op::Pool(Pool { kind, kernel, stride, dilation, padding }), &[from])
    }

    /// A resize by ratios, also to smaller sizes.
    fn resized(&mut self, from: TensorId) -> Option<TensorId> {
        let [c, h, w] = self.shape(from);
        if self.random.one_in(3) {
            return self.resized_apart(from);
        }
        let random = &mut self.random;
        let ratios = [(1, 2), (3, 2), (2, 3), (1, 3), (2, 1), (3, 1), (1, 1)];
        let [down, along] = [random.pick(&ratios), random.pick(&ratios)];
        let (mode, coordinates) = random.pick(&[
            (ResizeMode::Cubic(-0.75), Coordinates::HalfPixel),
            (ResizeMode::Cubic(-0.5), Coordinates::Asymmetric),
            (ResizeMode::Bilinear, Coordinates::HalfPixel),
            (ResizeMode::Nearest(Rounding::Floor), Coordinates::Asymmetric),
        ]);
        let size = [h * down.0 / down.1, w * along.0 / along.1];
        if size.contains(&0) || c * size[0] * size[1] > 4000 {
            return None;
        }
        let scales = [down, along].map(|(by, of)| by as f32 / of as f32);
        self.add(Op::Resize(Resize::new(mode, coordinates, scales, size)), &[from])
    }

    /// A resize along each axis in turn: to any size, with the corners at the same places, with antialiasing, or of a region.
    fn resized_apart(&mut self, from: TensorId) -> Option<TensorId> {
        let [c, h, w] = self.shape(from);
        let random = &mut self.random;
        let mode =
            random.pick(&[ResizeMode::Bilinear, ResizeMode::Cubic(-0.75), ResizeMode::Nearest(Rounding::HalfDown)]);
        let size = [random.between(1, 2 * h), random.between(1, 2 * w)];
        if c * size[0] * size[1] > 4000 {
            return None;
        }
        let scales = [size[0] as f32 / h as f32, size[1] as f32 / w as f32];
        let [last_line, last_column] = [h, w].map(|extent| (extent - 1) as f32);
        let [y, x] = [random.real().abs(), random.real().abs()];
        // From a place of the input to its end, and back.
        let steps = [(last_line * (1.0 - y)) / size[0] as f32, -last_column * x / size[1] as f32];
        let region = Coordinates::Linear { first: [last_line * y, last_column * x], step: steps };
        let coordinates = random.pick(&[Coordinates::HalfPixel, Coordinates::AlignCorners, region]);
        let antialias = random.one_in(2) && !matches!(mode, ResizeMode::Nearest(_));
        let exclude_outside = random.one_in(2) && (antialias || matches!(mode, ResizeMode::Cubic(_)));
        let resize = Resize::new(mode, coordinates, scales, size);
        self.add(Op::Resize(Resize { antialias, exclude_outside, ..resize }), &[from])
    }

    /// Elements that move: a product by a matrix.
    fn moved(&mut self, from: TensorId) -> Option<TensorId> {
        let [c, h, w] = self.shape(from);
        if c * h * w > 400 {
            return None;
        }
        let op = match self.random.below(4) {
            0 => Op::Transpose { perm: self.random.pick(&[[0, 2, 1, 3], [0, 3, 2, 1], [0, 2, 3, 1]]).to_vec() },
            1 => Op::Reshape { shape: vec![1, h, w, c] },
            2 => Op::Slice { starts: vec![0, 0, 0, w - 1], steps: vec![1, 1, 1, -1], lengths: vec![1, c, h, w] },
            _ => {
                let axis = self.random.between(2, 3);
                return self.add(Op::Concat { axis }, &[from, from]);
            }
        };
        self.add(op, &[from])
    }

    /// Elements that SDP copies.
    fn copied(&mut self, from: TensorId) -> Option<TensorId> {
        let [c, h, w] = self.shape(from);
        if c * h * w > 4000 {
            return None;
        }
        let random = &mut self.random;
        let op = match random.below(6) {
            0 => Op::Transpose { perm: vec![0, 1, 3, 2] },
            1 => {
                let (start, step) = (random.below(w), random.between(2, 3));
                let lengths = vec![1, c, h, (w - 1 - start) / step + 1];
                Op::Slice { starts: vec![0, 0, 0, start], steps: vec![1, 1, 1, step as isize], lengths }
            }
            2 => {
                let axis = random.between(2, 3);
                let fits = |id: &TensorId| {
                    let (a, b) = (self.graph.shape(*id), self.graph.shape(from));
                    a[1] == b[1] && a[5 - axis] == b[5 - axis] && a[axis] < 20
                };
                let fits: Vec<TensorId> = self.known.iter().copied().filter(fits).collect();
                if fits.is_empty() {
                    return None;
                }
                let inputs: Vec<TensorId> = (0..3).map(|_| self.random.pick(&fits)).collect();
                return self.add(Op::Concat { axis }, &inputs);
            }
            3 => {
                let mode = if random.one_in(2) { PadMode::Edge } else { PadMode::Reflect };
                let mut pad = |size: usize| random.below(size.min(3));
                let (before, after) = (vec![0, 0, pad(h), pad(w)], vec![0, 0, pad(h), pad(w)]);
                Op::Pad { mode, before, after }
            }
            4 => {
                let factors = [random.between(1, 3), random.between(1, 3)];
                let coordinates = random.pick(&[Coordinates::HalfPixel, Coordinates::Asymmetric]);
                let (scales, size) = (factors.map(|factor| factor as f32), [factors[0] * h, factors[1] * w]);
                Op::Resize(Resize::new(ResizeMode::Bilinear, coordinates, scales, size))
            }
            _ => {
                let divisors: Vec<usize> = (1..=c).filter(|group| c % group == 0).collect();
                let (group, kernel) =
                    (random.pick(&divisors), [random.between(1, 4).min(h), random.between(1, 9).min(w)]);
                let stride = [random.pick(&[1, 9, 10]), random.pick(&[9, 11, 12, 16])];
                let padding =
                    Padding { top: random.below(2), left: random.below(3), bottom: random.below(2), right: 0 };
                let kernels = group * random.between(1, 3);
                let weights = self.constant(&[kernels, c / group, kernel[0], kernel[1]], 0.3, 0.0);
                let op = Convolution { group, kernel, stride, dilation: [1; 2], padding };
                return self.add(Op::Convolution(op), &[from, weights]);
            }
        };
        self.add(op, &[from])
    }

    /// Adds a convolution of 1 x 1.
    pub fn convolution_1x1(&mut self, from: TensorId, kernels: usize) -> Option<TensorId> {
        self.strided_1x1(from, kernels, [1; 2])
    }

    fn strided_1x1(&mut self, from: TensorId, kernels: usize, stride: [usize; 2]) -> Option<TensorId> {
        let [c, ..] = self.shape(from);
        let weights = self.constant(&[kernels, c, 1, 1], 1.7 / (c as f32).sqrt(), 0.0);
        let op = Convolution { group: 1, kernel: [1; 2], stride, dilation: [1; 2], padding: Padding::default() };
        self.add(Op::Convolution(op), &[from, weights])
    }
}

/// A random graph, and how its inputs are given.
///
/// # Panics
///
/// Never: shapes and values fit one another.
pub fn random_graph(seed: u64, config: &Config) -> (Graph, Vec<Option<Preprocess>>) {
    let mut builder = Builder::new(&format!("random {seed}"), seed);
    let mut inputs = Vec::new();
    for number in 0..builder.random.between(1, 2) {
        let random = &mut builder.random;
        let preprocess = random.one_in(2).then(|| Preprocess {
            mean: if random.one_in(2) { vec![0.0] } else { vec![120.0, 110.0, 100.0] },
            std: vec![64.0],
            ..Preprocess::default()
        });
        let channels = if preprocess.is_some() { 3 } else { random.between(1, 40) };
        let shape = [1, channels, random.between(3, 12), random.between(3, 14)];
        let input = builder.graph.input(format!("input{number}"), &shape).unwrap();
        builder.known.push(input);
        inputs.push(preprocess);
        if builder.random.one_in(2) {
            builder.convolution(input);
        }
    }
    for _ in 0..builder.random.between(2, 12) {
        builder.node(config);
    }
    let last = *builder.known.last().unwrap();
    let mut outputs = vec![last];
    if builder.random.one_in(3) {
        outputs.push(builder.any());
    }
    outputs.retain(|id| !builder.graph.inputs.contains(id));
    outputs.dedup();
    if outputs.is_empty() {
        let input = builder.graph.inputs[0];
        outputs.extend(builder.convolution_1x1(input, 5));
    }
    builder.graph.outputs = outputs;
    (builder.graph, inputs)
}

/// The ranges of all tensors: symmetric, smaller on one side, or without negative values.
pub fn ranges(graph: &Graph) -> Ranges {
    ranges_to(graph, &[(-1.5, 2.0), (-0.2, 2.0), (-2.0, 0.3), (-1.8, 2.0)])
}

/// Each tensor gets one of the ranges in `ends`.
pub fn ranges_to(graph: &Graph, ends: &[(f32, f32)]) -> Ranges {
    let mut ranges = Ranges::new();
    for id in 0..graph.tensors.len() {
        let (min, max) = ends[id % ends.len()];
        ranges.set(TensorId(id), Range::of(min, max));
    }
    for node in &graph.nodes {
        if matches!(
            node.op,
            Op::Unary(Unary::Relu | Unary::Clip(..) | Unary::HardSigmoid { .. } | Unary::Sigmoid | Unary::Step(_))
        ) {
            ranges.set(node.output, Range::of(0.0, 2.0));
        }
    }
    ranges
}
