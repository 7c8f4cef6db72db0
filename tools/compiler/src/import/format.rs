// SPDX-License-Identifier: MIT OR Apache-2.0

//! A format of files with trained networks. A new one is a folder with a reader and a row of [`super::model::FORMATS`].

use std::path::{Path, PathBuf};

use super::options::Options;
use crate::ir::{Graph, Unreadable};

/// The greatest size of a model file in bytes: that of a protobuf message.
pub(crate) const MAX_MODEL: u64 = 2 << 30;

/// A format.
pub struct Format {
    /// The extension of its files, without a dot.
    pub extension: &'static str,
    /// Reads a file's bytes. The path is for other files of the network, and for its name.
    pub read: fn(&Path, Vec<u8>, &Options) -> Result<Graph, Failure>,
    /// The other files of a network, which exist or not.
    pub others: fn(&Path) -> Vec<PathBuf>,
}

/// Why a reader cannot read a network.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The file is not a model, or its parts contradict each other.
    #[error("{0}")]
    Malformed(String),
    /// Nodes that cannot be read.
    #[error(transparent)]
    Nodes(#[from] Unreadable),
    /// Another file of the network cannot be read.
    #[error("cannot read {}", .0.display())]
    File(PathBuf, #[source] std::io::Error),
}
