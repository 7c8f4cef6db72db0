// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the plugins of machine-learning frameworks have in common.
//!
//! ```text
//! options   what a user can set
//! divide    a network as compiled groups
//! device    the devices that sessions share
//! kernel    runs a group in place of nodes;  tensor: the framework's elements
//! memory    of the process
//! ```
//!
//! A plugin reads its framework's graph, gives it to [`divide::divide`], and makes a [`kernel::Runner`] of each group.

pub mod device;
pub mod divide;
mod failure;
pub mod kernel;
pub mod memory;
pub mod options;
pub mod tensor;
mod text;

pub use failure::{guarded, Failure, Result};
pub use text::{c_string, text_of};
