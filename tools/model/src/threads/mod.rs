// SPDX-License-Identifier: MIT OR Apache-2.0

//! How the units share an operation among the threads of rayon's pool.

mod global;
pub mod inside;
pub mod keep_awake;
pub(crate) mod share;

pub use global::start;
