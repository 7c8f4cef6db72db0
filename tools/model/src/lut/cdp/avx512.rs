// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP's lookup for AVX-512: 32 sums at a time, in two groups of 16.
//!
//! Where all sums of a strip lie in one region of the lookup, one loop answers them all. Otherwise each region that
//! occurs among 16 sums answers all 16, and masks select the answers.

pub(crate) mod answer;
pub(crate) mod float;
pub(crate) mod int;
pub(crate) mod planes;
mod row;
#[cfg(test)]
mod tests;
pub(crate) mod whole;

pub(crate) use self::row::Row;
