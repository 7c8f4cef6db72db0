// SPDX-License-Identifier: MIT OR Apache-2.0

//! Averages written for AVX-512, for atoms of 32 bytes: a column's sums fill a register.

#![allow(clippy::cast_ptr_alignment)]

pub(super) mod half;
pub(super) mod native;
pub(super) mod sums;
