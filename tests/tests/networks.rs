// SPDX-License-Identifier: MIT OR Apache-2.0

//! Small networks that between them use everything the compiler has, for every configuration that it can compile for:
//! each output on the built-in model is what plain loops compute.

mod plain;

use nvdla_compiler::compile;
use nvdla_compiler::graph::{Convolution, Extent, Graph, Image, NodeId, Op, Padding, Pooling, PoolingMode, Shape};
use nvdla_compiler::quantize::{image_value, Granularity, Scales};
use nvdla_runtime::device::ModelDevice;
use nvdla_runtime::loadable::{Interface, Loadable, PixelFormat, Task};
use nvdla_runtime::session::Session;
use nvdla_uapi::config::{
    Config, NV_FULL, NV_LARGE, NV_MEDIUM_1024_FULL, NV_MEDIUM_512, NV_SMALL, NV_SMALL_256, NV_SMALL_256_FULL,
};

const CONFIGS: [&Config; 6] = [&NV_SMALL, &NV_LARGE, &NV_FULL, &NV_SMALL_256, &NV_SMALL_256_FULL, &NV_MEDIUM_1024_FULL];
const GREY: Image = Image { mean: 0.0, divisor: 255.0 };

/// The same numbers in every run (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From -1 to 1.
    fn real(&mut self) -> f32 {
        (self.next() % 2001) as f32 / 1000.0 - 1.0
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.next() >> 20) as u8).collect()
    }
}

fn shape(channels: u32, height: u32, width: u32) -> Shape {
    Shape { channels, height, width }
}

fn around(padding: u32) -> Padding {
    Padding { top: padding, left: padding, bottom: padding, right: padding }
}

/// A convolution of random weights, smaller from kernel to kernel.
fn convolution(random: &mut Random, channels: u32, kernels: u32, window: (u32, u32)) -> Convolution {
    let each = (channels * window.0 * window.1) as usize;
    let size = 1.0 / (each as f32).sqrt();
    Convolution {
        kernels,
        window: Extent { y: window.0, x: window.1 },
        stride: Extent::ONE,
        dilation: Extent::ONE,
        padding: Padding::default(),
        weights: (0..kernels as usize * each).map(|k| random.real() * size / (1 + k / each % 5) as f32).collect(),
        bias: (0..kernels).map(|_| random.real() * 0.1).collect(),
    }
}

fn pooling(mode: PoolingMode, window: (u32, u32), stride: (u32, u32), padding: Padding) -> Op {
    Op::Pooling(Pooling {
        mode,
        window: Extent { y: window.0, x: window.1 },
        stride: Extent { y: stride.0, x: stride.1 },
        padding,
    })
}

/// Compiles a network for a configuration, runs it, and compares every output with the plain one. Whether the elements of
/// each output differ among each other: then the comparison means something.
fn check(graph: &Graph, config: &'static Config, granularity: Granularity, random: &mut Random) -> bool {
    let mut varied = true;
    let inputs: Vec<(NodeId, Shape)> =
        graph.nodes().filter(|(_, node)| node.input.is_none()).map(|(id, node)| (id, node.shape)).collect();
    let mut image = || inputs.iter().map(|(_, shape)| random.bytes(shape.elements())).collect::<Vec<_>>();
    let calibration: Vec<_> = (0..3).map(|_| image()).collect();
    let scales = Scales::calibrate(graph, &calibration);
    let file = compile(graph, &calibration, config, granularity).unwrap();
    let loadable = Loadable::from_bytes(file).unwrap();
    let images: Vec<bool> = loadable
        .inputs()
        .map(|memory| {
            let format = loadable.tensor(memory.tensor_desc_id()).unwrap().pixel_format();
            !matches!(format, PixelFormat::FEATURE | PixelFormat::FEATURE_X8)
        })
        .collect();
    let mut session = Session::new(loadable, ModelDevice::new(config)).unwrap();
    // Twice, so that nothing is left from one run to the next.
    for _ in 0..2 {
        let bytes = image();
        for (index, (bytes, (_, shape))) in bytes.iter().zip(&inputs).enumerate() {
            let values: Vec<i8> = bytes.iter().map(|&byte| image_value(byte)).collect();
            let tensor = plain::pack(&values, *shape, config.memory_atomic, images[index]);
            session.set_input(index, &tensor).unwrap();
        }
        session.run().unwrap();
        let expected = plain::evaluate(graph, &scales, granularity, &bytes);
        for (index, &output) in graph.outputs().iter().enumerate() {
            let node = graph.node(output);
            let found = plain::unpack(session.output(index).unwrap(), node.shape, config.memory_atomic);
            let wrong = found.iter().zip(&expected[&output]).position(|(found, expected)| found != expected);
            if let Some(at) = wrong {
                panic!(
                    "{} on {} ({granularity:?}): element {at} of \"{}\" ({}) is {}, not {}",
                    graph.name, config.name, node.name, node.shape, found[at], expected[&output][at]
                );
            }
            varied &= found.iter().any(|&value| value != found[0]);
        }
    }
    varied
}

fn check_all(graph: &Graph) {
    let mut random = Random(1);
    for config in CONFIGS {
        for granularity in [Granularity::Kernel, Granularity::Layer] {
            let varied = check(graph, config, granularity, &mut random);
            assert!(varied, "{} on {}: an output's elements are all the same", graph.name, config.name);
        }
    }
}

/// An image whose zero is not 0, with padding on all sides of different sizes, strides, and a ReLU that is an output
/// beside the convolution that it follows.
#[test]
fn image_with_a_mean() {
    let mut random = Random(2);
    let mut graph = Graph::new("mean");
    let input = graph.input("data", shape(1, 21, 30), Image { mean: 128.0, divisor: 64.0 }).unwrap();
    let mut op = convolution(&mut random, 1, 9, (5, 3));
    op.stride = Extent { y: 2, x: 3 };
    op.padding = Padding { top: 1, left: 2, bottom: 3, right: 0 };
    let conv = graph.add("conv", Op::Convolution(op), input).unwrap();
    let relu = graph.add("relu", Op::Relu, conv).unwrap();
    graph.output(conv);
    graph.output(relu);
    check_all(&graph);
}

/// Three channels, of which the hardware's pixels have four.
#[test]
fn colour_image() {
    let mut random = Random(3);
    let mut graph = Graph::new("colour");
    let input = graph.input("data", shape(3, 19, 17), GREY).unwrap();
    let mut op = convolution(&mut random, 3, 21, (7, 7));
    op.stride = Extent { y: 2, x: 2 };
    op.padding = around(3);
    let conv = graph.add("conv", Op::Convolution(op), input).unwrap();
    let relu = graph.add("relu", Op::Relu, conv).unwrap();
    let pool =
        graph.add("pool", pooling(PoolingMode::Max, (3, 3), (2, 2), Padding { bottom: 1, ..around(0) }), relu).unwrap();
    graph.output(pool);
    check_all(&graph);
}

/// Poolings of both kinds, with padding, and windows that leave columns over.
#[test]
fn poolings() {
    let mut random = Random(4);
    let mut graph = Graph::new("poolings");
    let input = graph.input("data", shape(13, 20, 23), GREY).unwrap();
    let conv = graph.add("conv", Op::Convolution(convolution(&mut random, 13, 35, (1, 1))), input).unwrap();
    let max = pooling(PoolingMode::Max, (3, 2), (2, 3), Padding { top: 1, left: 1, bottom: 0, right: 1 });
    let average = pooling(PoolingMode::Average, (3, 3), (2, 2), around(1));
    for (name, op) in [("max", max), ("average", average)] {
        let pool = graph.add(name, op, conv).unwrap();
        graph.output(pool);
    }
    let wide = pooling(PoolingMode::Average, (5, 8), (5, 4), Padding::default());
    let wide = graph.add("wide", wide, conv).unwrap();
    let mut last = convolution(&mut random, 35, 4, (4, 4));
    last.weights.iter_mut().for_each(|weight| *weight *= 4.0);
    let last = graph.add("last", Op::Convolution(last), wide).unwrap();
    graph.output(last);
    check_all(&graph);
}

/// Features in, dilation, a tensor that two layers use, two outputs.
#[test]
fn branches() {
    let mut random = Random(5);
    let mut graph = Graph::new("branches");
    let input = graph.input("data", shape(40, 12, 14), GREY).unwrap();
    let mut op = convolution(&mut random, 40, 33, (3, 3));
    op.dilation = Extent { y: 2, x: 3 };
    op.padding = Padding { top: 2, left: 3, bottom: 2, right: 3 };
    let stem = graph.add("stem", Op::Convolution(op), input).unwrap();
    let relu = graph.add("relu", Op::Relu, stem).unwrap();
    let mut left = convolution(&mut random, 33, 16, (3, 3));
    left.stride = Extent { y: 2, x: 1 };
    left.padding = around(1);
    let left = graph.add("left", Op::Convolution(left), relu).unwrap();
    let right = graph.add("right", pooling(PoolingMode::Max, (2, 2), (2, 2), Padding::default()), relu).unwrap();
    let right = graph.add("right2", Op::Convolution(convolution(&mut random, 33, 5, (1, 1))), right).unwrap();
    let right = graph.add("right3", Op::Relu, right).unwrap();
    graph.output(left);
    graph.output(right);
    check_all(&graph);
}

/// Sums: of two convolutions, of a tensor that is used before and after, of a pooling, with a ReLU and without.
#[test]
fn residual_blocks() {
    let mut random = Random(12);
    let mut graph = Graph::new("residual");
    let input = graph.input("data", shape(3, 18, 15), GREY).unwrap();
    let mut add = |graph: &mut Graph, name: &str, from, kernels, window: u32| {
        let mut op = convolution(&mut random, graph.node(from).shape.channels, kernels, (window, window));
        op.padding = around(window / 2);
        graph.add(name, Op::Convolution(op), from).unwrap()
    };
    let stem = add(&mut graph, "stem", input, 37, 3);
    let stem = graph.add("stem relu", Op::Relu, stem).unwrap();
    let max = pooling(PoolingMode::Max, (3, 3), (1, 1), around(1));
    let pool = graph.add("pool", max, stem).unwrap();
    let first = add(&mut graph, "first", pool, 20, 1);
    let first = graph.add("first relu", Op::Relu, first).unwrap();
    let second = add(&mut graph, "second", first, 37, 3);
    let block = graph.add("block", Op::Sum(pool), second).unwrap();
    let block = graph.add("block relu", Op::Relu, block).unwrap();
    let left = add(&mut graph, "left", block, 37, 1);
    let right = add(&mut graph, "right", block, 37, 3);
    let both = graph.add("both", Op::Sum(right), left).unwrap();
    let again = graph.add("again", Op::Sum(block), both).unwrap();
    let last = add(&mut graph, "last", again, 6, 3);
    graph.output(again);
    graph.output(last);
    check_all(&graph);
}

/// More input than the convolution buffer holds: bands of lines, whose seams must not show.
#[test]
fn bands() {
    let mut random = Random(6);
    for config in CONFIGS {
        let mut graph = Graph::new("bands");
        // A third more than the buffer.
        let (channels, width) = (config.memory_atomic * 4, 24);
        let height = config.cbuf_banks * config.cbuf_bank_bytes() / (channels * width) * 4 / 3;
        let input = graph.input("data", shape(channels, height, width), GREY).unwrap();
        let mut op = convolution(&mut random, channels, 5, (3, 3));
        op.stride = Extent { y: 2, x: 2 };
        op.padding = around(1);
        let conv = graph.add("conv", Op::Convolution(op), input).unwrap();
        let relu = graph.add("relu", Op::Relu, conv).unwrap();
        let pool = graph.add("pool", pooling(PoolingMode::Max, (2, 2), (2, 2), Padding::default()), relu).unwrap();
        graph.output(pool);
        let loadable =
            compile(&graph, &[vec![random.bytes((channels * height * width) as usize)]], config, Granularity::Kernel);
        let loadable = Loadable::from_bytes(loadable.unwrap()).unwrap();
        let operations = Session::new(loadable, ModelDevice::new(config)).unwrap().operations();
        // Two bands at least, and the pooling.
        assert!(operations > 2 * 2, "{operations} operations on {}", config.name);
        assert!(check(&graph, config, Granularity::Kernel, &mut random));
    }
}

/// More weights than the convolution buffer holds: kernel groups pass through it.
#[test]
fn many_weights() {
    let mut random = Random(7);
    let mut graph = Graph::new("weights");
    let input = graph.input("data", shape(130, 5, 4), GREY).unwrap();
    let first = graph.add("first", Op::Convolution(convolution(&mut random, 130, 300, (5, 4))), input).unwrap();
    let relu = graph.add("relu", Op::Relu, first).unwrap();
    let second = graph.add("second", Op::Convolution(convolution(&mut random, 300, 20, (1, 1))), relu).unwrap();
    graph.output(second);
    check_all(&graph);
}

/// A softmax between convolutions: three tasks.
#[test]
fn softmax_in_the_middle() {
    let mut random = Random(8);
    let mut graph = Graph::new("softmax");
    let input = graph.input("data", shape(1, 9, 9), GREY).unwrap();
    let first = graph.add("first", Op::Convolution(convolution(&mut random, 1, 11, (3, 3))), input).unwrap();
    let softmax = graph.add("softmax", Op::Softmax, first).unwrap();
    let second = graph.add("second", Op::Convolution(convolution(&mut random, 11, 6, (2, 2))), softmax).unwrap();
    let pool = graph.add("pool", pooling(PoolingMode::Max, (2, 2), (1, 1), Padding::default()), second).unwrap();
    let relu = graph.add("relu", Op::Relu, pool).unwrap();
    graph.output(relu);
    check_all(&graph);
    let file = compile(&graph, &[vec![random.bytes(81)]], &NV_SMALL, Granularity::Kernel).unwrap();
    let tasks: Vec<_> = Loadable::from_bytes(file).unwrap().tasks_in_order().map(Task::interface).collect();
    assert_eq!(tasks, [Interface::Dla1, Interface::Emu1, Interface::Dla1]);
}

/// What cannot be compiled says why.
#[test]
fn refusals() {
    let mut random = Random(9);
    let mut refused = |config, input: Shape, op: Op| {
        let mut graph = Graph::new("refused");
        let data = graph.input("data", input, GREY).unwrap();
        let node = graph.add("layer", op, data).unwrap();
        graph.output(node);
        compile(&graph, &[vec![random.bytes(input.elements())]], config, Granularity::Kernel).unwrap_err().to_string()
    };
    let mut other = Random(10);
    let mut conv = |channels, kernels, window| Op::Convolution(convolution(&mut other, channels, kernels, window));
    let max = |window, stride| pooling(PoolingMode::Max, window, stride, Padding::default());
    let cases = [
        (
            refused(&NV_SMALL, shape(8, 40, 40), conv(8, 1, (33, 1))),
            "layer \"layer\": kernel height 33 is more than the hardware's 32",
        ),
        (
            refused(&NV_SMALL, shape(8, 20, 20), max((9, 2), (1, 1))),
            "layer \"layer\": pooling height 9 is more than the hardware's 8",
        ),
        (
            refused(&NV_SMALL, shape(8, 4, 600), max((2, 2), (2, 1))),
            "layer \"layer\": an output width of 599 passes PDP's line buffer, which holds 512 columns",
        ),
        (
            refused(&NV_SMALL, shape(2048, 3, 30), conv(2048, 1, (3, 3))),
            "layer \"layer\": the convolution buffer's 32 banks of 4096 bytes hold a kernel group of 18432 bytes and 1 \
             input lines of 61440 bytes, but a line of output takes 3",
        ),
        (
            refused(&NV_MEDIUM_512, shape(8, 4, 4), conv(8, 1, (1, 1))),
            "layer \"data\": the loadable format has no name for an input or output with atoms of 16 bytes, as \
             nv_medium_512 has them",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

/// Networks of any layers with any parameters: what can be compiled is exact.
#[test]
fn random_networks() {
    let mut random = Random(11);
    let mut varied = 0;
    for _ in 0..150 {
        let mut pick = |from: u32, to: u32| from + (random.next() >> 24) as u32 % (to - from + 1);
        let mut graph = Graph::new("random");
        let channels = [1, 3, 4, pick(2, 70)][pick(0, 3) as usize];
        let image = Image { mean: [0.0, 100.0][pick(0, 1) as usize], divisor: 255.0 };
        let mut last = graph.input("data", shape(channels, pick(6, 30), pick(6, 30)), image).unwrap();
        for layer in 0..pick(1, 6) {
            let mut pick = |from: u32, to: u32| from + (random.next() >> 24) as u32 % (to - from + 1);
            let now = graph.node(last).shape;
            let window = (pick(1, now.height.min(5)), pick(1, now.width.min(5)));
            let stride = Extent { y: pick(1, 3), x: pick(1, 3) };
            let padding = Padding {
                top: pick(0, window.0 - 1),
                left: pick(0, window.1 - 1),
                bottom: pick(0, window.0 - 1),
                right: pick(0, window.1 - 1),
            };
            let kind = pick(0, 5);
            let kernels = pick(1, 50);
            let op = match kind {
                0..=2 => {
                    let mut op = convolution(&mut random, now.channels, kernels, window);
                    (op.stride, op.padding) = (stride, padding);
                    Op::Convolution(op)
                }
                3 => pooling(PoolingMode::Max, window, (stride.y, stride.x), padding),
                4 => pooling(PoolingMode::Average, window, (stride.y, stride.x), padding),
                _ => Op::Relu,
            };
            last = graph.add(layer.to_string(), op, last).unwrap();
            // Sometimes a value is an output besides.
            if random.next().is_multiple_of(8) {
                graph.output(last);
            }
        }
        graph.output(last);
        let config = CONFIGS[(random.next() >> 24) as usize % CONFIGS.len()];
        varied += u32::from(check(&graph, config, Granularity::Kernel, &mut random));
    }
    assert!(varied > 120, "the elements of an output differ in {varied} networks only");
}
