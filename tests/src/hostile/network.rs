// SPDX-License-Identifier: MIT OR Apache-2.0

//! Small random networks.

use nvdla_compiler::ir::{Convolution, Graph, Op, Padding, Pool, PoolKind, Preprocess, Unary};
use nvdla_compiler::options::Options;
use nvdla_compiler::pipeline::compile;
use nvdla_compiler::Error;
use nvdla_uapi::config::Config;

use crate::hostile::choices::Choices;
use crate::zoo;

/// A network with one input.
///
/// # Errors
///
/// Never: its layers fit one another.
pub(super) fn network(choices: &mut impl Choices) -> Result<Graph, String> {
    let mut pick = |from: usize, to: usize| from + choices.below(to - from + 1);
    let mut graph = Graph::new("random");
    let channels = [1, 3, 4, pick(2, 40)][pick(0, 3)];
    let mut last = graph.input("data", &[1, channels, pick(3, 16), pick(3, 16)])?;
    for layer in 0..pick(1, 4) {
        let &[_, channels, height, width] = graph.shape(last) else { return Err("four dimensions".to_owned()) };
        let kernel = [pick(1, height.min(4)), pick(1, width.min(4))];
        let stride = [pick(1, 3), pick(1, 3)];
        let mut pad = |size: usize| pick(0, size - 1);
        let padding =
            Padding { top: pad(kernel[0]), left: pad(kernel[1]), bottom: pad(kernel[0]), right: pad(kernel[1]) };
        let mut inputs = vec![last];
        let op = match pick(0, 5) {
            0..=2 => {
                let kernels = pick(1, 24);
                let mut real = |_| pick(0, 200) as f32 / 1000.0 - 0.1;
                let weights: Vec<f32> = (0..kernels * channels * kernel[0] * kernel[1]).map(&mut real).collect();
                let bias: Vec<f32> = (0..kernels).map(&mut real).collect();
                let shape = [kernels, channels, kernel[0], kernel[1]];
                inputs.push(graph.add_constant(format!("{layer} weights"), &shape, weights)?);
                inputs.push(graph.add_constant(format!("{layer} bias"), &[kernels], bias)?);
                Op::Convolution(Convolution { group: 1, kernel, stride, dilation: [1; 2], padding })
            }
            3 => Op::Unary(Unary::Relu),
            mode => {
                let average = PoolKind::Average { count_include_pad: true };
                Op::Pool(Pool {
                    kind: if mode == 4 { PoolKind::Max } else { average },
                    kernel,
                    stride,
                    dilation: [1; 2],
                    padding,
                })
            }
        };
        last = graph.add(layer.to_string(), op, &inputs, format!("{layer}:0"))?;
    }
    graph.outputs.push(last);
    Ok(graph)
}

/// The loadable of a network whose input is given as bytes. Not every network can be compiled for every configuration.
///
/// # Errors
///
/// The compiler's error.
pub(crate) fn loadable(graph: &Graph, config: &'static Config) -> Result<Vec<u8>, Error> {
    let preprocess = Preprocess { std: vec![255.0], ..Preprocess::default() };
    let options = Options { inputs: vec![Some(preprocess)], ..Options::new(config) };
    Ok(compile(graph, &zoo::uniform(graph, 1.0), &options)?.loadable)
}
