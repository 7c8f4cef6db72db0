// SPDX-License-Identifier: MIT OR Apache-2.0

//! NVDLA as software: registers and memory in, bytes and interrupts out.
//!
//! The model is functional and bit-exact: it computes the same bytes as the hardware, without its timing. The
//! differences between hardware configurations are data of [`nvdla_uapi::config`].

// First, because its macro is used below.
#[macro_use]
mod simd;

pub mod bdma;
pub mod cdp;
pub mod cfgrom;
pub mod conv;
pub mod cube;
pub mod device;
pub mod glb;
pub mod groups;
pub mod like;
pub mod limit;
pub mod lut;
pub mod memory;
pub mod num;
pub mod operation;
pub mod pdp;
mod recent;
pub mod record;
pub mod registers;
pub mod rubik;
pub mod sdp;
pub mod simulation;
pub mod stream;
pub mod threads;

pub use like::Like;
pub use nvdla_uapi::isa::{Isa, UnknownIsa};

// Test support uses the crate's public name, as in the tests outside of it.
#[cfg(test)]
extern crate self as nvdla_model;
#[path = "../tests/support/mod.rs"]
#[cfg(test)]
mod support;
