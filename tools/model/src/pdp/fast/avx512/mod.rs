// SPDX-License-Identifier: MIT OR Apache-2.0

//! Averages written for AVX-512, for atoms of 32 bytes: the sums of a column fill one register.

#![allow(clippy::cast_ptr_alignment)]

pub(super) mod fp16;
pub(super) mod sums;
