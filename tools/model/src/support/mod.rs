// SPDX-License-Identifier: MIT OR Apache-2.0

//! What tests, fuzz targets and benchmarks of the model share. Nothing of the model uses it.

pub mod exercise;
pub mod program;
#[cfg(test)]
pub(crate) mod testing;
