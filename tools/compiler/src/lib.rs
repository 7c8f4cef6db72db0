// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compiles a trained network to a loadable for one configuration of NVDLA, in int8 or fp16.
//!
//! ```text
//! import ──► ir ──► simplify ──► calibrate ──► build, passes ──► numbers ──► codegen ──► schedule ──► output
//! (file)    (graph) (folding)    (ranges)      (net of steps)    (integers)  (operations) (order,     (loadable,
//!                                                                                          memory)     report)
//! ```
//!
//! [`compiler::Compiler`] is the entry point, and [`pipeline`] has the order of the passes. `docs/compiler.md` describes each part.
//! [`target`] has the limits of the hardware, and [`schedule::cost`] what operations cost. The properties of a configuration come
//! from [`nvdla_uapi::config::Config`], memory layouts from [`nvdla_uapi::layout`], descriptors from [`nvdla_uapi::desc`], and the
//! file's lists from [`nvdla_runtime::loadable::write`].

// A program's output is its own; a library prints nothing.
#![deny(clippy::dbg_macro, clippy::print_stderr, clippy::print_stdout)]

#[doc(hidden)]
pub mod arguments;
pub mod bounds;
pub mod build;
pub mod calibrate;
pub mod codegen;
pub mod compiler;
pub mod equalize;
pub mod error;
pub mod evaluate;
pub mod float;
pub mod import;
pub mod ir;
mod kind;
pub mod net;
pub mod numbers;
pub mod options;
pub mod output;
pub mod partition;
pub mod passes;
pub mod pipeline;
pub mod quantize;
#[allow(dead_code, unreachable_pub, reason = "the module of another crate, in which its items are public")]
#[cfg(test)]
#[path = "../../../tests/src/random.rs"]
mod random;
pub mod schedule;
pub mod simplify;
pub mod suggest;
pub mod survey;
pub mod target;
mod vector;

pub use nvdla_runtime::npy;

pub use error::Error;
pub use kind::{kind_of, refusals_of};
