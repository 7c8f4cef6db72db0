// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compiles a network to a loadable for one configuration of NVDLA, in int8.
//!
//! ```text
//! import ──► graph ──► quantize ──► lower ──► schedule, plan ──► emit
//! (file)     (typed,   (scales of   (hardware (events, places    (loadable)
//!            shapes)   each tensor) operations) in memory)
//! ```
//!
//! What a configuration's hardware can do is read from [`nvdla_uapi::config::Config`], where bytes lie from
//! [`nvdla_uapi::layout`], descriptors are [`nvdla_uapi::desc`]'s, and the file's lists
//! [`nvdla_runtime::loadable::write`]'s.
//!
//! ```no_run
//! use std::path::Path;
//! use nvdla_compiler::{calibration, compile, import, quantize::Granularity};
//! use nvdla_uapi::config::Config;
//!
//! let graph = import::read(Path::new("lenet.json"))?;
//! let images = calibration::read(Path::new("calibration"), &graph)?;
//! let config = Config::by_name("nv_small").ok_or("no such configuration")?;
//! let loadable = compile(&graph, &images, config, Granularity::Kernel)?;
//! std::fs::write("lenet.nvdla", loadable)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod assemble;
pub mod calibrate;
pub mod calibration;
pub mod cbuf;
pub mod compiler;
pub mod emit;
pub mod error;
pub mod evaluate;
pub mod float;
pub mod graph;
pub mod import;
pub mod integers;
pub mod ir;
pub mod lower;
pub mod measure;
pub mod model;
pub mod ncnn;
pub mod npy;
pub mod onnx;
pub mod plan;
pub mod program;
pub mod quantize;
pub mod schedule;
pub mod simple;
pub mod simplify;

pub use error::Error;
use nvdla_runtime::half;

use graph::Graph;
use nvdla_uapi::config::Config;
use quantize::{Granularity, Scales};

/// Compiles a graph for a configuration. `images` are sets of inputs (bytes, one tensor an input of the graph) like
/// those that the network will see.
pub fn compile(
    graph: &Graph,
    images: &[Vec<Vec<u8>>],
    config: &'static Config,
    granularity: Granularity,
) -> Result<Vec<u8>, Error> {
    let scales = Scales::calibrate(graph, images);
    let program = simple::lower(graph, &scales, config, granularity)?;
    let plan = plan::plan(&program)?;
    emit::emit(&program, &plan)
}
