// SPDX-License-Identifier: MIT OR Apache-2.0

//! SDP in chunks: loads, steps and stores are plain loops that the compiler turns into vector code.
//!
//! A [`plan`] lists the steps of an operation. Each step is as narrow as the range of its values allows (most products
//! fit 32 bits). [`walk`] cuts the cube into chunks of [`CHUNK`] elements that stay in the first-level cache. [`load`]
//! widens data and operands to 32 bits, [`int`] and [`float`] have the steps, and [`store`] narrows the result.
//! [`process`] is compiled once per instruction set and chosen at run time. [`strips`] divides large cubes among
//! threads.

// The steps are compiled into one function per instruction set, together with the functions that are inlined into it.
#![allow(clippy::inline_always)]

mod addresses;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
mod choose;
mod eight;
mod float;
mod flying;
mod fused;
mod fused_float;
mod int;
pub(super) mod lanes;
mod load;
pub(super) mod lookup;
mod operand;
mod plan;
mod process;
mod run;
mod store;
mod strips;
mod walk;

pub(crate) use flying::{Decoded, OnFlying};
pub(super) use run::run;
pub(super) use run::Settings;
