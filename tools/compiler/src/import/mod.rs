// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files of networks.

mod at;
mod choice;
pub mod format;
pub mod model;
pub mod ncnn;
mod normalize;
pub mod onnx;
pub mod options;
mod product;
mod recurrent;
mod reduce;
pub mod tflite;
