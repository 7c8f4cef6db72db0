// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs NVDLA loadables, on a device or on the built-in model.

pub mod emulator;
pub mod half;
