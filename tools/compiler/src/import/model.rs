// SPDX-License-Identifier: MIT OR Apache-2.0

//! A file with a trained network, in one of the supported formats.

use std::path::{Path, PathBuf};

pub use super::options::Options;
use super::{ncnn, onnx};
use crate::ir::{Graph, Unreadable};
use crate::simplify::{outer_moves, simplify, Reshaped};

/// Why a model cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{}", .0.display())]
    File(PathBuf, #[source] std::io::Error),
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

impl Model {
    /// Reads a model: ONNX by the extension `.onnx`; NCNN by `.param`, with the weights beside it in `.bin`.
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        let bytes = std::fs::read(path).map_err(|source| Error::File(path.to_owned(), source))?;
        let malformed = |reason: String| Error::Malformed(path.to_owned(), reason);
        let folder = path.parent().map(|folder| if folder == Path::new("") { Path::new(".") } else { folder });
        let mut graph = match path.extension().and_then(|extension| extension.to_str()) {
            Some("onnx") => onnx::read(bytes.into(), folder, options).map_err(|error| match error {
                onnx::Error::Malformed(reason) => malformed(reason),
                onnx::Error::Nodes(nodes) => Error::Nodes(path.to_owned(), nodes),
            })?,
            Some("param") => {
                let text = String::from_utf8(bytes).map_err(|_| malformed("a .param file is text".to_owned()))?;
                let weights = path.with_extension("bin");
                let bin = std::fs::read(&weights).map_err(|source| Error::File(weights, source))?;
                let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                ncnn::read(&text, &bin, &name, options).map_err(|error| match error {
                    ncnn::Error::Malformed(reason) => malformed(reason),
                    ncnn::Error::Nodes(nodes) => Error::Nodes(path.to_owned(), nodes),
                })?
            }
            _ => return Err(malformed("the extension is neither .onnx nor .param".to_owned())),
        };
        simplify(&mut graph);
        let reshaped = outer_moves(&mut graph);
        Ok(Self { graph, reshaped })
    }
}
