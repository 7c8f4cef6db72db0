// SPDX-License-Identifier: MIT OR Apache-2.0

//! The numbers of each step.

pub(crate) mod doubts;
pub mod fp16;
pub mod int8;
pub mod quantizer;
pub(crate) mod tables;
pub mod tails;
