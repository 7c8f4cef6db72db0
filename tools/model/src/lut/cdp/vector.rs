// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP's lookup without branches, for loops that compile to vector code.
//!
//! An answer comes with a flag that says whether it holds. Where the hardware's arithmetic differs from a few machine
//! instructions (slopes beyond a table's end, the ends of fp17's range, the sign of a zero), the caller asks
//! [`super::Lookup`].

// Loops are compiled for an instruction set only with what is inlined into them.
#![allow(clippy::inline_always)]
// A lazy operator is a branch, which vectors do not have.
#![allow(clippy::needless_bitwise_bool)]

pub(crate) mod float;
pub(crate) mod int;
mod rule;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use self::rule::{CLASSES, WIDTH};
