// SPDX-License-Identifier: MIT OR Apache-2.0

//! The external delegate of LiteRT and TensorFlow Lite: what fits runs on NVDLA, and the rest where it always ran.
//!
//! ```text
//! entries       the functions that the interpreter finds in the library and in its tables
//! delegate      divides an interpreter's graph and gives it the groups (`nvdla_frameworks`)
//!   network     the graph, which groups are compiled from
//!   graph       the graph as a file of the compiler's reader;  parameters: the options of its operators
//! kernel        a group in place of its nodes
//! message       lines for the user
//! context, sys  TensorFlow Lite's C interface: as safe calls, and its structures
//! ```
//!
//! `docs/frameworks.md` describes its use.

mod context;
mod delegate;
mod entries;
mod graph;
mod kernel;
mod message;
mod network;
mod parameters;
mod sys;

pub use entries::{tflite_plugin_create_delegate, tflite_plugin_destroy_delegate};
