// SPDX-License-Identifier: MIT OR Apache-2.0

//! A file with a trained network, in one of the supported formats.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use nvdla_runtime::device::may_compute;
use nvdla_runtime::files;

use super::format::{Failure, Format, MAX_MODEL};
pub use super::options::Options;
use super::{ncnn, onnx, tflite};
use crate::ir::{Binary, Graph, Op, Tensor, TensorId, Unreadable};
use crate::simplify::{simplify_ends, Reshaped};

/// Why a model cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}", .0.display())]
    File(PathBuf, #[source] std::io::Error),
    /// The process cannot compute: it was forked after its parent has computed, or cannot start threads.
    #[error("{}", .0.display())]
    Process(PathBuf, #[source] nvdla_runtime::device::Error),
    /// The file is not a model, or its parts contradict each other.
    #[error("{}: {}", .0.display(), .1)]
    Malformed(PathBuf, String),
    /// Nodes that cannot be read.
    #[error("{}: {}", .0.display(), .1)]
    Nodes(PathBuf, Unreadable),
}

/// A network that was read from a file.
#[derive(Clone, Debug)]
pub struct Model {
    /// What it computes.
    pub graph: Graph,
    /// The inputs and outputs that have another shape than in the file.
    pub reshaped: Vec<Reshaped>,
}

/// The formats that are read.
pub const FORMATS: [&Format; 3] = [&onnx::FORMAT, &tflite::FORMAT, &ncnn::FORMAT];

/// The files of a network beside the model's own: weights, external data. A model that cannot be read has none.
pub fn others(path: &Path) -> Vec<PathBuf> {
    of_extension(path).map_or_else(Vec::new, |format| (format.others)(path))
}

/// The format that a file's extension names.
fn of_extension(path: &Path) -> Option<&'static Format> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    FORMATS.into_iter().find(|format| Some(format.extension) == extension)
}

impl Model {
    /// Reads a model in the format that its extension names: one of [`FORMATS`].
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        may_compute().map_err(|error| Error::Process(path.to_owned(), error))?;
        let bytes = files::read(path, MAX_MODEL).map_err(|source| Error::File(path.to_owned(), source))?;
        let Some(format) = of_extension(path) else {
            let known: Vec<String> = FORMATS.iter().map(|format| format!(".{}", format.extension)).collect();
            return Err(Error::Malformed(path.to_owned(), format!("the extension is none of {}", known.join(", "))));
        };
        let mut graph = (format.read)(path, bytes, options).map_err(|failure| match failure {
            Failure::Malformed(reason) => Error::Malformed(path.to_owned(), reason),
            Failure::Nodes(nodes) => Error::Nodes(path.to_owned(), nodes),
            Failure::File(other, source) => Error::File(other, source),
        })?;
        infinite_masks(&mut graph);
        finite(&graph).map_err(|reason| Error::Malformed(path.to_owned(), reason))?;
        let reshaped = simplify_ends(&mut graph);
        Ok(Self { graph, reshaped })
    }
}

/// A number that no sum with it tells from the least one, and that is finite.
const MASKED: f32 = -1e30;

/// Replaces the infinite addends of what a softmax reads: their elements have no share.
fn infinite_masks(graph: &mut Graph) {
    let only = graph.only_for_softmax();
    let mut masks = HashMap::new();
    for k in 0..graph.nodes.len() {
        let (Op::Binary(Binary::Add), true) = (&graph.nodes[k].op, only[graph.nodes[k].output.0]) else { continue };
        for at in 0..2 {
            let id = graph.nodes[k].inputs[at];
            let Some(values) = graph.constant(id).filter(|values| values.contains(&f32::NEG_INFINITY)) else {
                continue;
            };
            let finite: Vec<f32> =
                values.iter().map(|&value| if value == f32::NEG_INFINITY { MASKED } else { value }).collect();
            let mask = *masks.entry(id).or_insert_with(|| {
                graph.tensors.push(Tensor { constant: Some(finite.into()), ..graph.tensor(id).clone() });
                TensorId(graph.tensors.len() - 1)
            });
            graph.nodes[k].inputs[at] = mask;
        }
    }
}

/// An error if a network computes with a constant that is not finite. A limit may be infinite, which is no limit.
fn finite(graph: &Graph) -> Result<(), String> {
    for node in &graph.nodes {
        if matches!(node.op, Op::Binary(Binary::Max | Binary::Min) | Op::Concat { .. }) {
            continue;
        }
        for &id in &node.inputs {
            let Some(values) = graph.constant(id) else { continue };
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                let name = &graph.tensor(id).name;
                return Err(format!("node {:?}: value {at} of its constant {name:?} is {}", node.name, values[at]));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An infinite constant is a mask if only a softmax reads its sums.
    #[test]
    fn infinite_masks_of_softmaxes_are_finite() {
        for softmax in [true, false] {
            let mut graph = Graph::new("mask");
            let x = graph.input("x", &[1, 3]).unwrap();
            let mask = graph.add_constant("mask", &[3], vec![0.0, f32::NEG_INFINITY, 1.0]).unwrap();
            let sum = graph.add("sum", Op::Binary(Binary::Add), &[x, mask], "sum").unwrap();
            let y = if softmax { graph.add("softmax", Op::Softmax { axis: 1 }, &[sum], "y").unwrap() } else { sum };
            graph.outputs.push(y);
            infinite_masks(&mut graph);
            assert_eq!(finite(&graph).is_ok(), softmax);
            let found = crate::float::run(&graph, &[vec![1.0, 5.0, 0.0]], &mut |_, _| {}).unwrap().remove(0);
            if softmax {
                assert_eq!(found, [0.5, 0.0, 0.5]);
            }
        }
    }
}
