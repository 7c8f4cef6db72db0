// SPDX-License-Identifier: MIT OR Apache-2.0

//! A file with a trained network, in one of the supported formats.

use std::path::{Path, PathBuf};

use nvdla_runtime::device::may_compute;
use nvdla_runtime::files;

use super::format::{Failure, Format, MAX_MODEL};
pub use super::options::Options;
use super::{ncnn, onnx, tflite};
use crate::ir::{Binary, Graph, Op, Unreadable};
use crate::simplify::{simplify_ends, Reshaped};

/// Why a model cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{}", .0.display())]
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
        finite(&graph).map_err(|reason| Error::Malformed(path.to_owned(), reason))?;
        let reshaped = simplify_ends(&mut graph);
        Ok(Self { graph, reshaped })
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
