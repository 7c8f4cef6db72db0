// SPDX-License-Identifier: MIT OR Apache-2.0

//! Small random networks with shapes near the limits of the hardware: widths up to 300, channels around multiples of an atom, every
//! window, stride, dilation and padding that an operator has.

use nvdla_compiler::ir::{Binary, Convolution, Graph, Op, Padding, Pool, PoolKind, TensorId, Unary};
use nvdla_uapi::config::Config;

use crate::hostile::choices::Choices;

/// Elements of an input or output of a layer, divided by the elements of an atom.
const ATOMS: usize = 700;
/// Columns at which a unit's behaviour changes, and their neighbours.
const WIDTHS: [usize; 20] = [15, 16, 17, 31, 32, 33, 34, 63, 64, 65, 66, 127, 128, 129, 160, 254, 255, 256, 257, 300];

/// A network under construction.
struct Builder<'c, C> {
    graph: Graph,
    choices: &'c mut C,
    atom: usize,
    layers: usize,
}

impl<C: Choices> Builder<'_, C> {
    fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.choices.below(high.max(low) - low + 1)
    }

    /// Channels: few, around one to three atoms, or any number up to four.
    fn channels(&mut self) -> usize {
        let atom = self.atom;
        match self.between(0, 5) {
            0 => self.between(1, 4),
            1 => atom - 1,
            2 => atom,
            3 => atom + 1,
            4 => (self.between(1, 3) * atom + self.between(0, 2)).saturating_sub(1).max(1),
            _ => self.between(1, 4 * atom.min(16)),
        }
    }

    fn constant(&mut self, shape: &[usize]) -> Result<TensorId, String> {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| self.choices.below(400) as f32 / 1000.0 - 0.2).collect();
        self.layers += 1;
        self.graph.add_constant(format!("constant {}", self.layers), shape, values)
    }

    fn add(&mut self, op: Op, inputs: &[TensorId]) -> Result<TensorId, String> {
        self.layers += 1;
        self.graph.add(self.layers.to_string(), op, inputs, format!("{}:0", self.layers))
    }

    fn padding(&mut self, window: [usize; 2]) -> Padding {
        let [height, width] = window.map(|size| size.min(8) - 1);
        if self.choices.chance(1, 2) {
            return Padding::default();
        }
        let mut pad = |most| self.between(0, most);
        Padding { top: pad(height), left: pad(width), bottom: pad(height), right: pad(width) }
    }

    fn convolution(&mut self, input: TensorId) -> Result<TensorId, String> {
        let &[_, channels, height, width] = self.graph.shape(input) else { return Err("four dimensions".into()) };
        let dilation = if self.choices.chance(1, 4) { [self.between(1, 3), self.between(1, 3)] } else { [1; 2] };
        let fit = |size: usize, dilation: usize, most: usize| ((size - 1) / dilation + 1).min(most);
        let most = if self.choices.chance(1, 6) { 11 } else { 4 };
        let kernel = [self.between(1, fit(height, dilation[0], most)), self.between(1, fit(width, dilation[1], most))];
        let stride = if self.choices.chance(1, 2) { [1; 2] } else { [self.between(1, 4), self.between(1, 4)] };
        let group = if self.choices.chance(1, 10) { channels } else { 1 };
        let kernels = if group > 1 { channels } else { self.channels() };
        let padding = self.padding(kernel);
        let weights = self.constant(&[kernels, channels / group, kernel[0], kernel[1]])?;
        let bias = self.constant(&[kernels])?;
        self.add(Op::Convolution(Convolution { group, kernel, stride, dilation, padding }), &[input, weights, bias])
    }

    fn pool(&mut self, input: TensorId) -> Result<TensorId, String> {
        let &[_, _, height, width] = self.graph.shape(input) else { return Err("four dimensions".into()) };
        let kernel = [self.between(1, height.min(8)), self.between(1, width.min(8))];
        let stride = match self.between(0, 3) {
            0 => [1; 2],
            1 => [2; 2],
            2 => kernel,
            _ => [self.between(1, 9), self.between(1, 9)],
        };
        let kind = match self.between(0, 3) {
            0 | 1 => PoolKind::Max,
            2 => PoolKind::Average { count_include_pad: true },
            _ => PoolKind::Average { count_include_pad: false },
        };
        let padding = self.padding(kernel);
        self.add(Op::Pool(Pool { kind, kernel, stride, dilation: [1; 2], padding }), &[input])
    }

    fn layer(&mut self, input: TensorId) -> Result<TensorId, String> {
        match self.between(0, 11) {
            0..=3 => self.convolution(input),
            4..=7 => self.pool(input),
            8 => self.add(Op::Unary(Unary::Relu), &[input]),
            9 => {
                let other = self.convolution(input)?;
                let shape = self.graph.shape(other).to_vec();
                let same = self.graph.shape(input) == shape;
                self.add(Op::Binary(Binary::Add), &[other, if same { input } else { other }])
            }
            10 => {
                let (a, b) = (self.convolution(input)?, self.pool(input)?);
                let same = self.graph.shape(a)[2..] == self.graph.shape(b)[2..];
                self.add(Op::Concat { axis: 1 }, &[a, if same { b } else { a }])
            }
            _ => {
                let size = [1, 3, 5][self.between(0, 2)];
                self.add(Op::Lrn { size, alpha: 0.001, beta: 0.75, bias: 1.0 }, &[input])
            }
        }
    }
}

/// A network with one input.
///
/// # Errors
///
/// If its layers do not fit one another, or it is too large. The next choices give another network.
pub fn network(config: &Config, choices: &mut impl Choices) -> Result<Graph, String> {
    let atom = config.memory_atomic as usize;
    let mut builder = Builder { graph: Graph::new("silicon"), choices, atom, layers: 0 };
    let channels = if builder.choices.chance(1, 4) { [1, 3, 4][builder.between(0, 2)] } else { builder.channels() };
    let (mut height, mut width) = (builder.between(1, 16), builder.between(1, 20));
    if builder.choices.chance(1, 2) {
        width = WIDTHS[builder.between(0, WIDTHS.len() - 1)];
        height = builder.between(1, (ATOMS / width / channels.div_ceil(atom)).clamp(1, 12));
    }
    let mut last = builder.graph.input("data", &[1, channels, height, width])?;
    for _ in 0..builder.between(1, 3) {
        last = builder.layer(last)?;
        let &[_, channels, height, width] = builder.graph.shape(last) else { return Err("four dimensions".into()) };
        if channels.div_ceil(atom) * height * width > 4 * ATOMS {
            return Err("too large".into());
        }
    }
    let mut graph = builder.graph;
    graph.outputs.push(last);
    Ok(graph)
}
