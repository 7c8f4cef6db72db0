// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads a network from the project's own format: a JSON file with the graph, and beside it one file of numbers.
//!
//! ```json
//! {
//!   "format": "nvdla-model 1", "name": "lenet", "weights": "lenet.weights",
//!   "inputs": [{"name": "data", "shape": [1, 28, 28], "image": {"mean": 0, "divisor": 255}}],
//!   "layers": [
//!     {"name": "conv1", "op": "convolution", "input": "data", "stride": [1, 1], "padding": [0, 0, 0, 0],
//!      "weights": {"offset": 0, "shape": [20, 1, 5, 5]}, "bias": {"offset": 500, "shape": [20]}},
//!     {"name": "relu1", "op": "relu", "input": "conv1"},
//!     {"name": "pool1", "op": "pooling", "input": "relu1", "mode": "max", "window": [2, 2], "stride": [2, 2]},
//!     {"name": "ip1", "op": "inner_product", "input": "pool1",
//!      "weights": {"offset": 520, "shape": [10, 2880]}, "bias": {"offset": 29320, "shape": [10]}},
//!     {"name": "prob", "op": "softmax", "input": "ip1"}
//!   ],
//!   "outputs": ["prob"]
//! }
//! ```
//!
//! A sum of two layers is `{"name": "add", "op": "sum", "inputs": ["left", "right"]}`.
//!
//! A shape is channels, height, width; weights are kernels, channels, height, width; pairs are height and width; padding
//! is top, left, bottom, right; `dilation` is `[1, 1]` where it is not given, `padding` zeros, `stride` `[1, 1]`. The numbers
//! are little-endian f32, `offset` counts numbers.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::graph::{Convolution, Extent, Graph, Image, NodeId, Op, Padding, Pooling, PoolingMode, Shape};

/// The format's name and version, as in the field `format`.
pub const FORMAT: &str = "nvdla-model 1";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    format: String,
    name: String,
    weights: PathBuf,
    inputs: Vec<Input>,
    layers: Vec<Layer>,
    outputs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
    shape: [u32; 3],
    image: ImageValues,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageValues {
    mean: f32,
    divisor: f32,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Layer {
    Convolution {
        name: String,
        input: String,
        weights: Numbers,
        bias: Numbers,
        #[serde(default = "ones")]
        stride: [u32; 2],
        #[serde(default = "ones")]
        dilation: [u32; 2],
        #[serde(default)]
        padding: [u32; 4],
    },
    InnerProduct {
        name: String,
        input: String,
        weights: Numbers,
        bias: Numbers,
    },
    Pooling {
        name: String,
        input: String,
        mode: Mode,
        window: [u32; 2],
        #[serde(default = "ones")]
        stride: [u32; 2],
        #[serde(default)]
        padding: [u32; 4],
    },
    Relu {
        name: String,
        input: String,
    },
    Softmax {
        name: String,
        input: String,
    },
    Sum {
        name: String,
        inputs: [String; 2],
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Max,
    Average,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbers {
    offset: usize,
    shape: Vec<u32>,
}

fn ones() -> [u32; 2] {
    [1, 1]
}

fn extent([y, x]: [u32; 2]) -> Extent {
    Extent { y, x }
}

fn padding([top, left, bottom, right]: [u32; 4]) -> Padding {
    Padding { top, left, bottom, right }
}

/// The file of numbers.
struct Values {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Values {
    fn read(path: PathBuf) -> Result<Self, Error> {
        match fs::read(&path) {
            Ok(bytes) => Ok(Self { path, bytes }),
            Err(source) => Err(Error::File { path, source }),
        }
    }

    /// The numbers that a layer names, which must have `dimensions` dimensions.
    fn take(&self, layer: &str, kind: &'static str, from: &Numbers, dimensions: usize) -> Result<Vec<f32>, Error> {
        let refuse = |reason| Error::Layer { layer: layer.to_owned(), kind, reason };
        if from.shape.len() != dimensions {
            return Err(refuse(format!("a shape of {dimensions} dimensions is expected, not {:?}", from.shape)));
        }
        let count = from.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size as usize));
        let range = count.and_then(|count| {
            let begin = from.offset.checked_mul(4)?;
            Some(begin..begin.checked_add(count.checked_mul(4)?)?)
        });
        let bytes = range.and_then(|range| self.bytes.get(range)).ok_or_else(|| {
            refuse(format!(
                "numbers of shape {:?} from {} on leave {}, which has {}",
                from.shape,
                from.offset,
                self.path.display(),
                self.bytes.len() / 4
            ))
        })?;
        Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }
}

/// Reads the network whose JSON file is `path`.
pub fn read(path: &Path) -> Result<Graph, Error> {
    let wrong = |reason: String| Error::Model { path: path.to_owned(), reason };
    let text = fs::read(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    let model: Model = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if model.format != FORMAT {
        return Err(wrong(format!("format is \"{}\", this compiler reads \"{FORMAT}\"", model.format)));
    }
    let values = Values::read(path.parent().unwrap_or(Path::new("")).join(&model.weights))?;
    let mut graph = Graph::new(model.name);
    for Input { name, shape: [channels, height, width], image: ImageValues { mean, divisor } } in model.inputs {
        graph.input(name, Shape { channels, height, width }, Image { mean, divisor })?;
    }
    for layer in model.layers {
        add(&mut graph, layer, &values, path)?;
    }
    if model.outputs.is_empty() {
        return Err(wrong("no outputs".to_owned()));
    }
    let mut seen = HashSet::new();
    for name in model.outputs {
        let node = graph.find(&name).ok_or_else(|| wrong(format!("no layer has the name of output \"{name}\"")))?;
        if !seen.insert(node) {
            return Err(wrong(format!("output \"{name}\" is named twice")));
        }
        graph.output(node);
    }
    Ok(graph)
}

fn find(graph: &Graph, layer: &str, input: &str, path: &Path) -> Result<NodeId, Error> {
    graph.find(input).ok_or_else(|| Error::Model {
        path: path.to_owned(),
        reason: format!("layer \"{layer}\" takes its input from \"{input}\", which no earlier layer is"),
    })
}

fn add(graph: &mut Graph, layer: Layer, values: &Values, path: &Path) -> Result<(), Error> {
    let (name, input, op) = match layer {
        Layer::Convolution { name, input, weights, bias, stride, dilation, padding: around } => {
            let numbers = values.take(&name, "convolution", &weights, 4)?;
            let convolution = Convolution {
                kernels: weights.shape[0],
                window: Extent { y: weights.shape[2], x: weights.shape[3] },
                stride: extent(stride),
                dilation: extent(dilation),
                padding: padding(around),
                weights: numbers,
                bias: values.take(&name, "convolution", &bias, 1)?,
            };
            (name, input, Op::Convolution(convolution))
        }
        Layer::InnerProduct { name, input, weights, bias } => {
            let numbers = values.take(&name, "inner product", &weights, 2)?;
            // The window is the whole input: an inner product reads a tensor channel by channel, line by line.
            let window = graph.find(&input).map_or(Extent::ONE, |id| {
                let shape = graph.node(id).shape;
                Extent { y: shape.height, x: shape.width }
            });
            let convolution = Convolution {
                kernels: weights.shape[0],
                window,
                stride: Extent::ONE,
                dilation: Extent::ONE,
                padding: Padding::default(),
                weights: numbers,
                bias: values.take(&name, "inner product", &bias, 1)?,
            };
            (name, input, Op::Convolution(convolution))
        }
        Layer::Pooling { name, input, mode, window, stride, padding: around } => {
            let mode = match mode {
                Mode::Max => PoolingMode::Max,
                Mode::Average => PoolingMode::Average,
            };
            let pooling = Pooling { mode, window: extent(window), stride: extent(stride), padding: padding(around) };
            (name, input, Op::Pooling(pooling))
        }
        Layer::Relu { name, input } => (name, input, Op::Relu),
        Layer::Softmax { name, input } => (name, input, Op::Softmax),
        Layer::Sum { name, inputs: [input, other] } => {
            let other = find(graph, &name, &other, path)?;
            (name, input, Op::Sum(other))
        }
    };
    let from = find(graph, &name, &input, path)?;
    graph.add(name, op, from)?;
    Ok(())
}
