// SPDX-License-Identifier: MIT OR Apache-2.0

//! The hardware's number formats: saturation, rounding shifts, and fp16, fp17 and fp32 as SDP, CDP and PDP compute them.
//!
//! Floats are handled as bit patterns (`u32`, low bits), because the hardware differs from IEEE 754: only inputs can be
//! infinite or denormal, and NaNs keep their low mantissa bits. [`float`] has the arithmetic of one format, [`convert`]
//! the conversions between formats and integers, and [`fixed`] the integer arithmetic.

// The units' vector loops are compiled once for each instruction set, together with the functions that are inlined into them.
#![allow(clippy::inline_always)]

pub mod convert;
pub mod fixed;
pub mod float;
pub(crate) mod plain;

pub use float::{Float, Fp16, Fp17, Fp32};
