// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Bulk conversion: the same bytes as the portable code, with vector instructions and threads.
//!
//! This folder is the only part of the crate that needs `std`. The feature `bulk` adds it; user space enables it, and
//! the kernel module is built without it. `layout/choice.rs` selects between this code and the portable one.
//!
//! The instruction set is chosen at run time: AVX-512 with VBMI, AVX2, NEON for transpositions on aarch64, or portable
//! blocks. Conversions of [`THREADS_FROM`] bytes or more use several threads.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod contract;
mod feature;
#[cfg(target_arch = "aarch64")]
mod neon;
mod parallel;
mod pixel;
mod run;
#[cfg(target_arch = "x86_64")]
mod small;
mod sparse;
mod weight;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(super) use feature::{pack as pack_feature, unpack as unpack_feature};
pub use parallel::THREADS_FROM;
pub(super) use pixel::rgb as pack_rgb;
pub(super) use sparse::{compact, expand};
pub(super) use weight::{pack as pack_direct, unpack as unpack_direct};
