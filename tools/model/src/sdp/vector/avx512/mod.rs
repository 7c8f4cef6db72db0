// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loops written for AVX-512, 64 elements at a time.

#![allow(clippy::cast_ptr_alignment)]

pub(super) mod convert;
pub(super) mod float;
pub(super) mod int8;
mod lookup;
mod operand;
mod scaled;

pub(in crate::sdp) use lookup::Tail;
