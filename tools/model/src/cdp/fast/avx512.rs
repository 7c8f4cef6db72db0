// SPDX-License-Identifier: MIT OR Apache-2.0

//! The code for [`Isa::Avx512`](crate::conv::Isa).

mod double;
mod finish;
pub(super) mod half;
pub(super) mod int16;
pub(super) mod output;
pub(super) mod parts;
pub(super) mod rounded;
pub(super) mod shift;
pub(super) mod steps;
pub(super) mod ways;
pub(super) mod windows;
