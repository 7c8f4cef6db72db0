// SPDX-License-Identifier: MIT OR Apache-2.0

//! Small networks of any layers with any parameters.

use nvdla_compiler::graph::{Convolution, Extent, Graph, Image, Op, Padding, Pooling, PoolingMode, Shape};

use crate::hostile::Choices;

/// A network, and images to calibrate it with: one image, of which there are bytes for each input.
///
/// # Panics
///
/// Never: its layers fit one another.
pub fn network(choices: &mut impl Choices) -> (Graph, Vec<Vec<Vec<u8>>>) {
    let mut pick = |from: u32, to: u32| from + choices.below((to - from + 1) as usize) as u32;
    let mut graph = Graph::new("random");
    let channels = [1, 3, 4, pick(2, 40)][pick(0, 3) as usize];
    let input = Shape { channels, height: pick(3, 16), width: pick(3, 16) };
    let mut last = graph.input("data", input, Image { mean: 0.0, divisor: 255.0 }).expect("an image of that size");
    for layer in 0..pick(1, 4) {
        let now = graph.node(last).shape;
        let window = Extent { y: pick(1, now.height.min(4)), x: pick(1, now.width.min(4)) };
        let stride = Extent { y: pick(1, 3), x: pick(1, 3) };
        let padding = Padding {
            top: pick(0, window.y - 1),
            left: pick(0, window.x - 1),
            bottom: pick(0, window.y - 1),
            right: pick(0, window.x - 1),
        };
        let mode = if pick(0, 1) == 0 { PoolingMode::Max } else { PoolingMode::Average };
        let op = match pick(0, 5) {
            0..=2 => {
                let kernels = pick(1, 24);
                let count = (kernels * now.channels * window.y * window.x) as usize;
                let weights = (0..count).map(|_| pick(0, 200) as f32 / 1000.0 - 0.1).collect();
                let bias = (0..kernels).map(|_| pick(0, 200) as f32 / 1000.0 - 0.1).collect();
                Op::Convolution(Convolution { kernels, window, stride, dilation: Extent::ONE, padding, weights, bias })
            }
            3 => Op::Relu,
            _ => Op::Pooling(Pooling { mode, window, stride, padding }),
        };
        last = graph.add(layer.to_string(), op, last).expect("a layer that fits");
    }
    graph.output(last);
    let image = (0..input.elements()).map(|_| pick(0, 255) as u8).collect();
    (graph, vec![vec![image]])
}
