// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compiles a trained network to a loadable for one configuration of NVDLA, in int8 or fp16.
//!
//! ```text
//! onnx, ncnn ──► ir ──► simplify ──► calibrate ──► lower ──────► assemble
//! (file)        (graph) (folding)    (scales)      (hardware     (order, memory,
//!                                                  operations)   loadable)
//! ```
//!
//! [`compiler::Compiler`] is the entry point; `docs/compiler.md` describes each part. The properties of a configuration come from
//! [`nvdla_uapi::config::Config`], memory layouts from [`nvdla_uapi::layout`], descriptors from [`nvdla_uapi::desc`], and the
//! file's lists from [`nvdla_runtime::loadable::write`].

pub mod assemble;
pub mod calibrate;
pub mod cbuf;
pub mod compiler;
pub mod equalize;
pub mod error;
pub mod float;
pub mod integers;
pub mod ir;
pub mod lower;
pub mod measure;
pub mod mixed;
pub mod model;
pub mod ncnn;
pub use nvdla_runtime::npy;
pub mod onnx;
pub mod partition;
pub mod quantize;
pub mod simplify;
pub mod survey;

pub use error::Error;
use nvdla_runtime::half;
