// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a network could not be compiled: always with the layer's name and the values that stand in the way.

use std::path::PathBuf;

use crate::graph::Shape;

/// What went wrong, where.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The model's JSON is not well formed, or a field is missing or of the wrong type.
    #[error("{}: {reason}", path.display())]
    Model {
        /// The model's file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A layer's parameters contradict each other or its input.
    #[error("layer \"{layer}\" ({kind}): {reason}")]
    Layer {
        /// The layer's name.
        layer: String,
        /// Its operation.
        kind: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// An image for calibration cannot be used.
    #[error("calibration image {}: {reason}", path.display())]
    Image {
        /// The image's file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Nothing to take the ranges from.
    #[error("no calibration image (.pgm, .ppm, .png, .jpg) in {}", .0.display())]
    NoImages(PathBuf),
    /// A calibration image has the wrong size.
    #[error("calibration image of {found}, but the input \"{input}\" is {expected}")]
    ImageShape {
        /// The network's input.
        input: String,
        /// Its shape.
        expected: Shape,
        /// The image's.
        found: Shape,
    },
    /// The configuration lacks something that a layer needs.
    #[error("layer \"{layer}\": {reason}")]
    Unsupported {
        /// The layer's name.
        layer: String,
        /// What it would take, with values.
        reason: String,
    },
    /// Nodes cannot be mapped to the hardware.
    #[error("{0}")]
    Refused(crate::ir::Unreadable),
    /// The network as a whole cannot be compiled.
    #[error("{0}")]
    Network(String),
}

impl Error {
    /// An error of a layer that the target cannot do.
    pub(crate) fn unsupported(layer: &str, reason: impl Into<String>) -> Self {
        Self::Unsupported { layer: layer.to_owned(), reason: reason.into() }
    }
}
