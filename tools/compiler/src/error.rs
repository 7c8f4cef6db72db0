// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a network could not be compiled. The error has the layer's name and the values that prevent it.

/// What went wrong, where.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration lacks something that a layer needs.
    #[error("layer {layer:?}: {reason}")]
    Unsupported {
        /// The layer's name.
        layer: String,
        /// What would be needed, with values.
        reason: String,
    },
    /// Nodes cannot be mapped to the hardware.
    #[error("{0}")]
    Refused(crate::ir::Unreadable),
    /// Tensors whose range is not known, so that they have no scale.
    #[error("no scale is known for \"{}\"; give samples to measure them (option calibrate)", .0.join("\", \""))]
    NoRange(Vec<String>),
    /// The network as a whole cannot be compiled.
    #[error("{0}")]
    Network(String),
}

impl Error {
    /// An error of a layer that the configuration does not support.
    pub(crate) fn unsupported(layer: &str, reason: impl Into<String>) -> Self {
        Self::Unsupported { layer: layer.to_owned(), reason: reason.into() }
    }
}
