// SPDX-License-Identifier: MIT OR Apache-2.0

//! Items that tests, fuzz targets and benchmarks of the model share. The model does not use them.

pub mod exercise;
pub mod program;
#[cfg(test)]
pub(crate) mod testing;
