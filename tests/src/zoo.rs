// SPDX-License-Identifier: MIT OR Apache-2.0

//! Well-known networks with random weights, as graphs, for tests and measurements of compiling and running.
//!
//! Shapes, strides and groups are those of the published networks, with folded batch normalisation. `side` is the height and
//! width of the image: 224 in the publications.

use nvdla_compiler::ir::{
    Binary, Convolution, Coordinates, Graph, Op, Padding, Pool, PoolKind, Preprocess, Range, Ranges, Resize,
    ResizeMode, Rounding, TensorId, Unary,
};

use crate::random::Random;

/// The networks that [`graph`] makes.
pub const NAMES: [&str; 12] = [
    "resnet18",
    "resnet50",
    "resnet50_quarter",
    "mnist_resnet",
    "mobilenet",
    "squeezenet",
    "unet",
    "googlenet",
    "densenet",
    "shufflenet",
    "vgg11",
    "yolov8n",
];

/// The network of that name, for images with three channels.
pub fn graph(name: &str, side: usize) -> Result<Graph, String> {
    let mut net = Builder { graph: Graph::new(name), random: Random::from_state(0x9e37_79b9_7f4a_7c15) };
    let input = net.graph.input("data", &[1, 3, side, side])?;
    let last = match name {
        "resnet18" => net.resnet(input, [2, 2, 2, 2], None)?,
        "resnet50" => net.resnet(input, [3, 4, 6, 3], Some([false, true]))?,
        "resnet50_v1" => net.resnet(input, [3, 4, 6, 3], Some([true, false]))?,
        "resnet50_quarter" => net.quarter(input)?,
        "mnist_resnet" => net.mnist_resnet(input)?,
        "unet" => net.unet(input)?,
        "mobilenet" => net.mobilenet(input)?,
        "squeezenet" => net.squeezenet(input)?,
        "googlenet" => net.googlenet(input)?,
        "densenet" => net.densenet(input)?,
        "shufflenet" => net.shufflenet(input)?,
        "vgg11" => net.vgg(input)?,
        "efficientnet_lite0" => net.efficientnet_lite0(input)?,
        "yolov8n" => net.yolov8n(input, Unary::Relu)?,
        "yolov8n_silu" => net.yolov8n(input, Unary::Silu)?,
        _ => return Err(format!("no network \"{name}\"")),
    };
    net.graph.outputs.push(last);
    Ok(net.graph)
}

/// How pictures become values: from -2 to 2.
pub fn preprocess() -> Preprocess {
    Preprocess { mean: vec![127.5], std: vec![64.0], ..Preprocess::default() }
}

/// The same range for every tensor, for tests in which only shapes matter.
pub fn uniform(graph: &Graph, largest: f32) -> Ranges {
    let mut ranges = Ranges::new();
    (0..graph.tensors.len()).for_each(|id| ranges.set(TensorId(id), Range::of(-largest, largest)));
    ranges
}

struct Builder {
    graph: Graph,
    random: Random,
}

impl Builder {
    fn add(&mut self, op: Op, inputs: &[TensorId]) -> Result<TensorId, String> {
        let name = format!("{}{}", op.name(), self.graph.nodes.len());
        self.graph.add(name.clone(), op, inputs, format!("{name}:0"))
    }

    fn channels(&self, id: TensorId) -> usize {
        self.graph.shape(id)[1]
    }

    /// A convolution with padding that keeps the size, divided by the stride.
    fn conv(
        &mut self,
        from: TensorId,
        kernels: usize,
        side: usize,
        stride: usize,
        group: usize,
    ) -> Result<TensorId, String> {
        let channels = self.channels(from) / group;
        let each = channels * side * side;
        // Values keep their magnitude in a convolution with ReLU.
        let size = (6.0 / each as f32).sqrt();
        let weights: Vec<f32> = (0..kernels * each).map(|_| self.random.real() * size).collect();
        let bias: Vec<f32> = (0..kernels).map(|_| self.random.real() * 0.1).collect();
        let number = self.graph.nodes.len();
        let weights = self.graph.add_constant(format!("weights{number}"), &[kernels, channels, side, side], weights)?;
        let bias = self.graph.add_constant(format!("bias{number}"), &[kernels], bias)?;
        let pad = side / 2;
        let padding = Padding { top: pad, left: pad, bottom: pad, right: pad };
        let op = Convolution { group, kernel: [side; 2], stride: [stride; 2], dilation: [1; 2], padding };
        self.add(Op::Convolution(op), &[from, weights, bias])
    }

    fn relu(&mut self, from: TensorId) -> Result<TensorId, String> {
        self.add(Op::Unary(Unary::Relu), &[from])
    }

    fn conv_relu(&mut self, from: TensorId, kernels: usize, side: usize, stride: usize) -> Result<TensorId, String> {
        let conv = self.conv(from, kernels, side, stride, 1)?;
        self.relu(conv)
    }

    fn pool(
        &mut self,
        from: TensorId,
        kind: PoolKind,
        side: usize,
        stride: usize,
        pad: usize,
    ) -> Result<TensorId, String> {
        let padding = Padding { top: pad, left: pad, bottom: pad, right: pad };
        self.add(Op::Pool(Pool { kind, kernel: [side; 2], stride: [stride; 2], dilation: [1; 2], padding }), &[from])
    }

    /// The mean of each channel, followed by a fully connected layer of 1000 classes.
    fn classes(&mut self, from: TensorId) -> Result<TensorId, String> {
        self.mean_and_classes(from, 1000)
    }

    fn mean_and_classes(&mut self, from: TensorId, classes: usize) -> Result<TensorId, String> {
        let side = self.graph.shape(from)[2];
        let mean = self.pool(from, PoolKind::Average { count_include_pad: true }, side, 1, 0)?;
        self.conv(mean, classes, 1, 1, 1)
    }

    /// A ResNet of basic blocks, or of blocks with a bottleneck: which of its first two convolutions has the block's stride.
    fn resnet(
        &mut self,
        input: TensorId,
        blocks: [usize; 4],
        bottleneck: Option<[bool; 2]>,
    ) -> Result<TensorId, String> {
        let stem = self.conv_relu(input, 64, 7, 2)?;
        let mut last = self.pool(stem, PoolKind::Max, 3, 2, 1)?;
        for (stage, blocks) in blocks.into_iter().enumerate() {
            let width = 64 << stage;
            let wide = if bottleneck.is_some() { 4 * width } else { width };
            for block in 0..blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let branch = if let Some(strided) = bottleneck {
                    let [first, second] = strided.map(|strided| if strided { stride } else { 1 });
                    let narrow = self.conv_relu(last, width, 1, first)?;
                    let middle = self.conv_relu(narrow, width, 3, second)?;
                    self.conv(middle, wide, 1, 1, 1)?
                } else {
                    let first = self.conv_relu(last, width, 3, stride)?;
                    self.conv(first, width, 3, 1, 1)?
                };
                let shortcut =
                    if stride > 1 || self.channels(last) != wide { self.conv(last, wide, 1, stride, 1)? } else { last };
                let sum = self.add(Op::Binary(Binary::Add), &[branch, shortcut])?;
                last = self.relu(sum)?;
            }
        }
        self.classes(last)
    }

    /// ResNet-50 with a quarter of its channels and 100 classes. As in the Caffe model, the stride of a block is in its first
    /// convolution.
    fn quarter(&mut self, input: TensorId) -> Result<TensorId, String> {
        let stem = self.conv_relu(input, 16, 7, 2)?;
        let mut last = self.pool(stem, PoolKind::Max, 3, 2, 1)?;
        for (stage, blocks) in [3, 4, 6, 3].into_iter().enumerate() {
            let width = 16 << stage;
            for block in 0..blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let narrow = self.conv_relu(last, width, 1, stride)?;
                let middle = self.conv_relu(narrow, width, 3, 1)?;
                let wide = self.conv(middle, 4 * width, 1, 1, 1)?;
                let shortcut = if block == 0 { self.conv(last, 4 * width, 1, stride, 1)? } else { last };
                let sum = self.add(Op::Binary(Binary::Add), &[wide, shortcut])?;
                last = self.relu(sum)?;
            }
        }
        self.mean_and_classes(last, 100)
    }

    /// Three residual blocks, for digits.
    fn mnist_resnet(&mut self, input: TensorId) -> Result<TensorId, String> {
        let mut last = self.conv_relu(input, 16, 3, 1)?;
        for (kernels, stride) in [(16, 1), (32, 2), (64, 2)] {
            let first = self.conv_relu(last, kernels, 3, stride)?;
            let second = self.conv(first, kernels, 3, 1, 1)?;
            let shortcut = if stride > 1 { self.conv(last, kernels, 1, stride, 1)? } else { last };
            let sum = self.add(Op::Binary(Binary::Add), &[second, shortcut])?;
            last = self.relu(sum)?;
        }
        self.mean_and_classes(last, 10)
    }

    /// A U-Net with three scales, for sides that are multiples of 4.
    fn unet(&mut self, input: TensorId) -> Result<TensorId, String> {
        let fine = self.conv_relu(input, 16, 3, 1)?;
        let pooled = self.pool(fine, PoolKind::Max, 2, 2, 0)?;
        let middle = self.conv_relu(pooled, 32, 3, 1)?;
        let pooled = self.pool(middle, PoolKind::Max, 2, 2, 0)?;
        let coarse = self.conv_relu(pooled, 64, 3, 1)?;
        let up = self.twice(coarse, 32)?;
        let both = self.add(Op::Concat { axis: 1 }, &[up, middle])?;
        let middle = self.conv_relu(both, 32, 3, 1)?;
        let up = self.twice(middle, 16)?;
        let both = self.add(Op::Concat { axis: 1 }, &[up, fine])?;
        let fine = self.conv_relu(both, 16, 3, 1)?;
        self.conv(fine, 4, 1, 1, 1)
    }

    /// A deconvolution of 2 x 2 with stride 2.
    fn twice(&mut self, from: TensorId, kernels: usize) -> Result<TensorId, String> {
        let channels = self.channels(from);
        let size = (6.0 / channels as f32).sqrt();
        let weights: Vec<f32> = (0..channels * kernels * 4).map(|_| self.random.real() * size).collect();
        let number = self.graph.nodes.len();
        let weights = self.graph.add_constant(format!("weights{number}"), &[channels, kernels, 2, 2], weights)?;
        let padding = Padding::default();
        let op = Convolution { group: 1, kernel: [2; 2], stride: [2; 2], dilation: [1; 2], padding };
        self.add(Op::Deconvolution(op, [0; 2]), &[from, weights])
    }

    fn mobilenet(&mut self, input: TensorId) -> Result<TensorId, String> {
        let mut last = self.conv_relu(input, 32, 3, 2)?;
        for (kernels, stride) in [
            (64, 1),
            (128, 2),
            (128, 1),
            (256, 2),
            (256, 1),
            (512, 2),
            (512, 1),
            (512, 1),
            (512, 1),
            (512, 1),
            (512, 1),
            (1024, 2),
            (1024, 1),
        ] {
            let channels = self.channels(last);
            let deep = self.conv(last, channels, 3, stride, channels)?;
            let deep = self.add(Op::Unary(Unary::Clip(0.0, 6.0)), &[deep])?;
            last = self.conv_relu(deep, kernels, 1, 1)?;
        }
        self.classes(last)
    }

    fn squeezenet(&mut self, input: TensorId) -> Result<TensorId, String> {
        let mut last = self.conv_relu(input, 64, 3, 2)?;
        for (stage, squeeze) in [16, 16, 32, 32, 48, 48, 64, 64].into_iter().enumerate() {
            if matches!(stage, 0 | 2 | 4) {
                last = self.pool(last, PoolKind::Max, 3, 2, 0)?;
            }
            let small = self.conv_relu(last, squeeze, 1, 1)?;
            let left = self.conv_relu(small, 4 * squeeze, 1, 1)?;
            let right = self.conv_relu(small, 4 * squeeze, 3, 1)?;
            last = self.add(Op::Concat { axis: 1 }, &[left, right])?;
        }
        let classes = self.conv_relu(last, 1000, 1, 1)?;
        let side = self.graph.shape(classes)[2];
        let mean = self.pool(classes, PoolKind::Average { count_include_pad: true }, side, 1, 0)?;
        self.add(Op::Softmax { axis: 1 }, &[mean])
    }

    fn inception(&mut self, from: TensorId, kernels: [usize; 6]) -> Result<TensorId, String> {
        let one = self.conv_relu(from, kernels[0], 1, 1)?;
        let three = self.conv_relu(from, kernels[1], 1, 1)?;
        let three = self.conv_relu(three, kernels[2], 3, 1)?;
        let five = self.conv_relu(from, kernels[3], 1, 1)?;
        let five = self.conv_relu(five, kernels[4], 5, 1)?;
        let pool = self.pool(from, PoolKind::Max, 3, 1, 1)?;
        let pool = self.conv_relu(pool, kernels[5], 1, 1)?;
        self.add(Op::Concat { axis: 1 }, &[one, three, five, pool])
    }

    fn googlenet(&mut self, input: TensorId) -> Result<TensorId, String> {
        let stem = self.conv_relu(input, 64, 7, 2)?;
        let pool = self.pool(stem, PoolKind::Max, 3, 2, 1)?;
        let norm = self.conv_relu(pool, 64, 1, 1)?;
        let wide = self.conv_relu(norm, 192, 3, 1)?;
        let mut last = self.pool(wide, PoolKind::Max, 3, 2, 1)?;
        let modules = [
            [64, 96, 128, 16, 32, 32],
            [128, 128, 192, 32, 96, 64],
            [192, 96, 208, 16, 48, 64],
            [160, 112, 224, 24, 64, 64],
            [128, 128, 256, 24, 64, 64],
            [112, 144, 288, 32, 64, 64],
            [256, 160, 320, 32, 128, 128],
            [256, 160, 320, 32, 128, 128],
            [384, 192, 384, 48, 128, 128],
        ];
        for (number, kernels) in modules.into_iter().enumerate() {
            if number == 2 || number == 7 {
                last = self.pool(last, PoolKind::Max, 3, 2, 1)?;
            }
            last = self.inception(last, kernels)?;
        }
        let classes = self.classes(last)?;
        self.add(Op::Softmax { axis: 1 }, &[classes])
    }

    /// DenseNet-121's first two blocks and transitions, and a shorter third.
    fn densenet(&mut self, input: TensorId) -> Result<TensorId, String> {
        let stem = self.conv_relu(input, 64, 7, 2)?;
        let mut last = self.pool(stem, PoolKind::Max, 3, 2, 1)?;
        for (stage, layers) in [6, 12, 8].into_iter().enumerate() {
            let mut parts = vec![last];
            for _ in 0..layers {
                let all = if parts.len() == 1 { parts[0] } else { self.add(Op::Concat { axis: 1 }, &parts)? };
                let normal = self.normalise(all)?;
                let narrow = self.conv_relu(normal, 128, 1, 1)?;
                parts.push(self.conv(narrow, 32, 3, 1, 1)?);
            }
            last = self.add(Op::Concat { axis: 1 }, &parts)?;
            last = self.normalise(last)?;
            if stage < 2 {
                let channels = self.channels(last) / 2;
                last = self.conv(last, channels, 1, 1, 1)?;
                last = self.pool(last, PoolKind::Average { count_include_pad: true }, 2, 2, 0)?;
            }
        }
        self.classes(last)
    }

    /// Batch normalisation before a convolution, followed by ReLU.
    fn normalise(&mut self, from: TensorId) -> Result<TensorId, String> {
        let channels = self.channels(from);
        let number = self.graph.nodes.len();
        let constant = |builder: &mut Self, name: &str, size: f32, offset: f32| {
            let values: Vec<f32> = (0..channels).map(|_| builder.random.real() * size + offset).collect();
            builder.graph.add_constant(format!("{name}{number}"), &[1, channels, 1, 1], values)
        };
        let factors = constant(self, "factors", 0.3, 1.0)?;
        let addends = constant(self, "addends", 0.2, 0.0)?;
        let product = self.add(Op::Binary(Binary::Mul), &[from, factors])?;
        let sum = self.add(Op::Binary(Binary::Add), &[product, addends])?;
        self.relu(sum)
    }

    /// ShuffleNet-v2, x1.0.
    fn shufflenet(&mut self, input: TensorId) -> Result<TensorId, String> {
        let stem = self.conv_relu(input, 24, 3, 2)?;
        let mut last = self.pool(stem, PoolKind::Max, 3, 2, 1)?;
        for (channels, blocks) in [(116, 4), (232, 8), (464, 4)] {
            for block in 0..blocks {
                let half = channels / 2;
                let (left, right) = if block == 0 {
                    let from = self.channels(last);
                    let left = self.conv(last, from, 3, 2, from)?;
                    (self.conv_relu(left, half, 1, 1)?, last)
                } else {
                    (self.half(last, 0, half)?, self.half(last, half, half)?)
                };
                let right = self.conv_relu(right, half, 1, 1)?;
                let right = self.conv(right, half, 3, if block == 0 { 2 } else { 1 }, half)?;
                let right = self.conv_relu(right, half, 1, 1)?;
                let both = self.add(Op::Concat { axis: 1 }, &[left, right])?;
                let from = (0..channels).map(|k| k % 2 * half + k / 2).collect();
                last = self.add(Op::ChannelPermutation { from }, &[both])?;
            }
        }
        let last = self.conv_relu(last, 1024, 1, 1)?;
        self.classes(last)
    }

    fn half(&mut self, from: TensorId, start: usize, length: usize) -> Result<TensorId, String> {
        let shape = self.graph.shape(from).to_vec();
        let op =
            Op::Slice { starts: vec![0, start, 0, 0], steps: vec![1; 4], lengths: vec![1, length, shape[2], shape[3]] };
        self.add(op, &[from])
    }

    /// VGG-11 with one fully connected layer of 512.
    fn vgg(&mut self, input: TensorId) -> Result<TensorId, String> {
        let mut last = input;
        for kernels in [&[64][..], &[128], &[256, 256], &[512, 512], &[512, 512]] {
            for &kernels in kernels {
                last = self.conv_relu(last, kernels, 3, 1)?;
            }
            last = self.pool(last, PoolKind::Max, 2, 2, 0)?;
        }
        let count = self.graph.shape(last).iter().product();
        let flat = self.add(Op::Reshape { shape: vec![1, count, 1, 1] }, &[last])?;
        let hidden = self.conv_relu(flat, 512, 1, 1)?;
        self.conv(hidden, 1000, 1, 1, 1)
    }

    /// EfficientNet-Lite0: blocks that widen, filter each channel and narrow, with a sum where the shape stays.
    fn efficientnet_lite0(&mut self, input: TensorId) -> Result<TensorId, String> {
        let limited = |net: &mut Self, from| net.add(Op::Unary(Unary::Clip(0.0, 6.0)), &[from]);
        let stem = self.conv(input, 32, 3, 2, 1)?;
        let mut last = limited(self, stem)?;
        for (wider, kernels, blocks, stride, side) in [
            (1, 16, 1, 1, 3),
            (6, 24, 2, 2, 3),
            (6, 40, 2, 2, 5),
            (6, 80, 3, 2, 3),
            (6, 112, 3, 1, 5),
            (6, 192, 4, 2, 5),
            (6, 320, 1, 1, 3),
        ] {
            for block in 0..blocks {
                let (from, stride) = (last, if block == 0 { stride } else { 1 });
                let wide = self.channels(from) * wider;
                if wider > 1 {
                    let conv = self.conv(from, wide, 1, 1, 1)?;
                    last = limited(self, conv)?;
                }
                let deep = self.conv(last, wide, side, stride, wide)?;
                let deep = limited(self, deep)?;
                last = self.conv(deep, kernels, 1, 1, 1)?;
                if block > 0 {
                    last = self.add(Op::Binary(Binary::Add), &[last, from])?;
                }
            }
        }
        let head = self.conv(last, 1280, 1, 1, 1)?;
        let head = limited(self, head)?;
        self.classes(head)
    }

    /// YOLOv8n with its three heads of 80 classes, up to the decoding of boxes, for sides that are multiples of 32. `activation`
    /// follows its convolutions.
    fn yolov8n(&mut self, input: TensorId, activation: Unary) -> Result<TensorId, String> {
        let mut yolo = Yolo { net: self, activation };
        let last = yolo.conv(input, 16, 3, 2)?;
        let last = yolo.conv(last, 32, 3, 2)?;
        let last = yolo.c2f(last, 32, 1, true)?;
        let last = yolo.conv(last, 64, 3, 2)?;
        let fine = yolo.c2f(last, 64, 2, true)?;
        let last = yolo.conv(fine, 128, 3, 2)?;
        let middle = yolo.c2f(last, 128, 2, true)?;
        let last = yolo.conv(middle, 256, 3, 2)?;
        let last = yolo.c2f(last, 256, 1, true)?;
        let narrow = yolo.conv(last, 128, 1, 1)?;
        let mut pools = vec![narrow];
        for _ in 0..3 {
            pools.push(yolo.net.pool(pools[pools.len() - 1], PoolKind::Max, 5, 1, 2)?);
        }
        let pools = yolo.net.add(Op::Concat { axis: 1 }, &pools)?;
        let coarse = yolo.conv(pools, 256, 1, 1)?;
        let up = yolo.up(coarse, middle)?;
        let middle = yolo.c2f(up, 128, 1, false)?;
        let up = yolo.up(middle, fine)?;
        let fine = yolo.c2f(up, 64, 1, false)?;
        let down = yolo.down(fine, middle, 64)?;
        let middle = yolo.c2f(down, 128, 1, false)?;
        let down = yolo.down(middle, coarse, 128)?;
        let coarse = yolo.c2f(down, 256, 1, false)?;
        let [fine, middle, coarse] = [yolo.head(fine)?, yolo.head(middle)?, yolo.head(coarse)?];
        self.graph.outputs.extend([fine, middle]);
        Ok(coarse)
    }
}

/// The parts of YOLOv8.
struct Yolo<'a> {
    net: &'a mut Builder,
    activation: Unary,
}

impl Yolo<'_> {
    fn conv(&mut self, from: TensorId, kernels: usize, side: usize, stride: usize) -> Result<TensorId, String> {
        let conv = self.net.conv(from, kernels, side, stride, 1)?;
        self.net.add(Op::Unary(self.activation), &[conv])
    }

    /// Two halves, of which the second one passes through blocks, and all of them beside one another.
    fn c2f(&mut self, from: TensorId, kernels: usize, blocks: usize, sums: bool) -> Result<TensorId, String> {
        let half = kernels / 2;
        let both = self.conv(from, kernels, 1, 1)?;
        let mut parts = vec![self.net.half(both, 0, half)?, self.net.half(both, half, half)?];
        for _ in 0..blocks {
            let before = parts[parts.len() - 1];
            let first = self.conv(before, half, 3, 1)?;
            let second = self.conv(first, half, 3, 1)?;
            let last = if sums { self.net.add(Op::Binary(Binary::Add), &[before, second])? } else { second };
            parts.push(last);
        }
        let parts = self.net.add(Op::Concat { axis: 1 }, &parts)?;
        self.conv(parts, kernels, 1, 1)
    }

    /// A tensor at twice its size, beside another one.
    fn up(&mut self, from: TensorId, beside: TensorId) -> Result<TensorId, String> {
        let shape = self.net.graph.shape(from);
        let size = [2 * shape[2], 2 * shape[3]];
        let mode = ResizeMode::Nearest(Rounding::Floor);
        let op = Resize::new(mode, Coordinates::Asymmetric, [2.0; 2], size);
        let up = self.net.add(Op::Resize(op), &[from])?;
        self.net.add(Op::Concat { axis: 1 }, &[up, beside])
    }

    /// A tensor at half its size, beside another one.
    fn down(&mut self, from: TensorId, beside: TensorId, kernels: usize) -> Result<TensorId, String> {
        let down = self.conv(from, kernels, 3, 2)?;
        self.net.add(Op::Concat { axis: 1 }, &[down, beside])
    }

    /// Distances of boxes and scores of classes.
    fn head(&mut self, from: TensorId) -> Result<TensorId, String> {
        let mut branch = |kernels: usize, outputs: usize| -> Result<TensorId, String> {
            let first = self.conv(from, kernels, 3, 1)?;
            let second = self.conv(first, kernels, 3, 1)?;
            self.net.conv(second, outputs, 1, 1, 1)
        };
        let parts = [branch(64, 64)?, branch(80, 80)?];
        self.net.add(Op::Concat { axis: 1 }, &parts)
    }
}
