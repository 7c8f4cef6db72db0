// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP's lookup: from a sum of squares to a factor, in integers or floats.
//!
//! Integer processing: 38-bit table limits, a fraction of 16 bits, results saturated to 16 bits; roundings go through
//! double precision as in the C-model, so a product beyond 2^53 loses its low bits as there. fp16 processing: fp32
//! sums, a fraction of 16 bits, results in fp17.
//! Source: register manual (CDP `S_LUT_*`), the hardware project's C-model (`cmod/cdp`, `cmod/hls_wrapper`).

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod lookup;
#[cfg(target_arch = "x86_64")]
pub(crate) mod regions;
pub(crate) mod vector;

pub use self::lookup::Lookup;
