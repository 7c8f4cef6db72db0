// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP's lookup: from a sum of squares to a factor, in integers or floats.
//!
//! Integer processing: 38-bit table limits, a fraction of 16 bits, results saturated to 16 bits. Roundings go through
//! double precision as in the C-model, so a product beyond 2^53 loses its low bits as there. fp16 processing: fp32
//! sums, a fraction of 16 bits, results in fp17.
//! Source: register manual (CDP `S_LUT_*`), the hardware project's C-model (`cmod/cdp`, `cmod/hls_wrapper`).
//!
//! [`Lookup`] answers any value. [`vector::Vectors`] answers many values at once where a few machine instructions do
//! what the hardware does, and says where they do not.

mod lookup;
pub(crate) mod vector;

pub use self::lookup::Lookup;
