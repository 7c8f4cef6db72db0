// SPDX-License-Identifier: MIT OR Apache-2.0

//! ResNet-50 with random weights, compiled: the network that inference libraries are compared with.
//!
//! The stride of a stage's first block is in its 3 x 3 convolution, as in the form that libraries ship.

use nvdla_compiler::graph::{Convolution, Extent, Graph, Image, NodeId, Op, Padding, Pooling, PoolingMode, Shape};
use nvdla_compiler::quantize::{Granularity, Scales};
use nvdla_compiler::{emit, lower, plan, Error};
use nvdla_uapi::config::Config;

/// The largest value that calibration would have found: what random weights make stays below it.
const LARGEST: f64 = 6.0;

/// A graph under construction.
struct Builder {
    graph: Graph,
    random: u64,
}

impl Builder {
    /// A number from -1 to 1, the same in every run (xorshift64).
    fn real(&mut self) -> f32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn convolution(&mut self, from: NodeId, kernels: u32, window: u32, stride: u32) -> Result<NodeId, Error> {
        let channels = self.graph.node(from).shape.channels;
        let each = channels * window * window;
        // Values keep their size through a convolution and its ReLU.
        let size = (6.0 / each as f32).sqrt();
        let weights = (0..kernels * each).map(|_| self.real() * size).collect();
        let bias = (0..kernels).map(|_| self.real() * 0.1).collect();
        let both = |size| Extent { y: size, x: size };
        let around = window / 2;
        let op = Convolution {
            kernels,
            window: both(window),
            stride: both(stride),
            dilation: Extent::ONE,
            padding: Padding { top: around, left: around, bottom: around, right: around },
            weights,
            bias,
        };
        self.add(Op::Convolution(op), from)
    }

    fn relu(&mut self, from: NodeId) -> Result<NodeId, Error> {
        self.add(Op::Relu, from)
    }

    fn add(&mut self, op: Op, from: NodeId) -> Result<NodeId, Error> {
        let name = format!("{}{}", op.kind(), self.graph.len());
        self.graph.add(name, op, from)
    }

    /// A bottleneck block.
    fn block(&mut self, from: NodeId, width: u32, stride: u32, first: bool) -> Result<NodeId, Error> {
        let reduced = self.convolution(from, width, 1, 1)?;
        let reduced = self.relu(reduced)?;
        let middle = self.convolution(reduced, width, 3, stride)?;
        let middle = self.relu(middle)?;
        let wide = self.convolution(middle, 4 * width, 1, 1)?;
        let shortcut = if first { self.convolution(from, 4 * width, 1, stride)? } else { from };
        let sum = self.add(Op::Sum(shortcut), wide)?;
        self.relu(sum)
    }
}

/// The graph: 53 convolutions and an inner product, for pictures of 224 x 224.
pub fn graph() -> Result<Graph, Error> {
    let mut builder = Builder { graph: Graph::new("resnet50"), random: 0x9e37_79b9_7f4a_7c15 };
    let picture = Shape { channels: 3, height: 224, width: 224 };
    let input = builder.graph.input("data", picture, Image { mean: 0.0, divisor: 64.0 })?;
    let stem = builder.convolution(input, 64, 7, 2)?;
    let stem = builder.relu(stem)?;
    let both = |size| Extent { y: size, x: size };
    let padding = Padding { top: 1, left: 1, bottom: 1, right: 1 };
    let pool = Pooling { mode: PoolingMode::Max, window: both(3), stride: both(2), padding };
    let mut last = builder.add(Op::Pooling(pool), stem)?;
    for (stage, blocks) in [3, 4, 6, 3].into_iter().enumerate() {
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            last = builder.block(last, 64 << stage, stride, block == 0)?;
        }
    }
    let (mode, padding) = (PoolingMode::Average, Padding::default());
    let pool = builder.add(Op::Pooling(Pooling { mode, window: both(7), stride: both(1), padding }), last)?;
    let classes = builder.convolution(pool, 1000, 1, 1)?;
    builder.graph.output(classes);
    Ok(builder.graph)
}

/// The loadable, in int8.
pub fn loadable(config: &'static Config) -> Result<Vec<u8>, Error> {
    let graph = graph()?;
    let scales = Scales::uniform(&graph, LARGEST);
    let program = lower::lower(&graph, &scales, config, Granularity::Kernel)?;
    emit::emit(&program, &plan::plan(&program)?)
}

#[cfg(test)]
mod tests {
    use nvdla_runtime::device::ModelDevice;
    use nvdla_runtime::loadable::Loadable;
    use nvdla_runtime::profile::{Conditions, Profile};
    use nvdla_runtime::session::Session;
    use nvdla_uapi::config::NV_FULL;

    use super::*;

    #[test]
    fn it_has_its_size_and_runs() {
        let loadable = Loadable::from_bytes(loadable(&NV_FULL).unwrap()).unwrap();
        let macs = Profile::new(&loadable, &NV_FULL, Conditions::default()).unwrap().macs();
        // 4.09 billion as usually counted; the image's fourth component adds 39 million.
        assert!((4_000_000_000..4_200_000_000).contains(&macs), "{macs}");
        let mut session = Session::new(loadable, ModelDevice::new(&NV_FULL)).unwrap();
        let picture = session.input_mut(0).unwrap();
        picture.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at.wrapping_mul(0x9e37_79b1) >> 13) as u8);
        session.run().unwrap();
        let classes = session.output(0).unwrap();
        let different = classes.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert!(different > 20, "the classes have {different} different values");
        let saturated = classes.iter().filter(|&&byte| byte == 127 || byte == 128).count();
        assert!(saturated < 500, "{saturated} of 1000 classes are saturated");
    }
}
