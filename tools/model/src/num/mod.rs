// SPDX-License-Identifier: MIT OR Apache-2.0

//! The hardware's number formats: saturation, rounding shifts, and fp16, fp17 and fp32 as SDP, CDP and PDP compute them.
//!
//! Floats are handled as their bit patterns (`u32`, low bits), because what matters is where the hardware leaves
//! IEEE 754: nothing but inputs is infinite or denormal, NaNs keep their low mantissa bits. [`float`] has the
//! arithmetic of one format, [`convert`] what lies between formats and integers, [`fixed`] the integer side.

// The units' vector loops are compiled once for each instruction set; only code that is inlined into them takes part.
#![allow(clippy::inline_always)]

pub mod convert;
pub mod fixed;
pub mod float;
pub(crate) mod plain;

pub use float::{Float, Fp16, Fp17, Fp32};
