// SPDX-License-Identifier: MIT OR Apache-2.0

//! Windows and results for AVX-512.

pub(super) mod half;
pub(super) mod int16;
pub(super) mod int8;
