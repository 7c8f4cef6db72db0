// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Bulk conversion: the same bytes as the portable code, with vector instructions and threads.
//!
//! This folder is the only part of the crate that needs `std`. The feature `bulk` adds it; user space enables it, and
//! the kernel module is built without it. `layout/choice.rs` selects between this code and the portable one.
//!
//! [`super::super::isa::Isa`] names the instruction set, which is chosen at run time. Conversions of [`THREADS_FROM`] bytes or more use several threads.

/// Loops over the numbers of registers, each short enough for the compiler to write it out: then the registers are never put
/// into memory.
#[cfg(target_arch = "x86_64")]
macro_rules! each_register {
    ($count:expr, |$index:ident| $body:block) => {
        for $index in 0..usize::min($count, 8) $body
        for $index in 8..usize::min($count, 16) $body
        #[allow(clippy::reversed_empty_ranges)] // of 16 registers there is no 17th
        for $index in 16..usize::min($count, 24) $body
        #[allow(clippy::reversed_empty_ranges)]
        for $index in 24..$count $body
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod contract;
mod feature;
#[cfg(target_arch = "x86_64")]
mod lanes_avx2;
#[cfg(target_arch = "aarch64")]
mod neon;
mod parallel;
mod pixel;
mod run;
#[cfg(target_arch = "x86_64")]
mod small;
#[cfg(target_arch = "x86_64")]
mod small_avx2;
mod sparse;
mod weight;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(super) use feature::{pack as pack_feature, unpack as unpack_feature};
pub use parallel::THREADS_FROM;
pub(super) use pixel::rgb as pack_rgb;
pub(super) use sparse::{compact, expand};
pub(super) use weight::{pack as pack_direct, unpack as unpack_direct};
