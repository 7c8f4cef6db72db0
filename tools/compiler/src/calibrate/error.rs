// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why ranges cannot be determined.

/// Why scales cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A sample cannot be read, or does not fit the network.
    #[error("{0}")]
    Sample(String),
    /// The table of scales cannot be read.
    #[error("{0}")]
    Table(String),
    /// A tensor that has no finite values.
    #[error("the tensor {0:?} has values that are not finite on the samples")]
    NotFinite(String),
}
