// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Bulk conversion: the same bytes as the portable code, with vector instructions and threads.
//!
//! Cargo feature `bulk`, which user space has and the kernel module leaves out. Instructions are chosen when the
//! program runs (AVX-512 with VBMI, AVX2, on aarch64 NEON where runs are transposed, else portable blocks). Conversions of
//! [`THREADS_FROM`] bytes or more are
//! spread over the machine's cores.

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
