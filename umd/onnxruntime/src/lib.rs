// SPDX-License-Identifier: MIT OR Apache-2.0

//! The plugin provider of ONNX Runtime: what fits runs on NVDLA, and the rest where it always ran.
//!
//! ```text
//! lib          the functions that ONNX Runtime finds in the library
//! entries      the tables of functions: factory, provider, and compiled node
//! provider     claims nodes and makes runners (`nvdla_frameworks`)
//!   graph      ONNX Runtime's graph as the compiler's model
//!   payload    a group in an EPContext node;  compatibility: the hardware that it is for
//! options      what a user can set
//! api, sys     ONNX Runtime's C interface: as safe calls, and as bindgen makes it of the header
//! ```
//!
//! `docs/frameworks.md` describes its use. The interface is version 23 of ONNX Runtime's, which newer versions have too.

mod api;
mod compatibility;
mod entries;
mod graph;
mod options;
mod payload;
mod provider;
#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, unreachable_pub, dead_code)]
#[allow(clippy::all, clippy::pedantic)]
mod sys;

pub use entries::{CreateEpFactories, ReleaseEpFactory};
