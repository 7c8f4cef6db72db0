// SPDX-License-Identifier: MIT OR Apache-2.0

//! CDP's lookup: from a sum of squares to a factor, in integers or floats.
//!
//! Integer processing: 38-bit table limits, a fraction of 16 bits, results saturated to 16 bits. Rounding uses double precision
//! as in the C-model, so products beyond 2^53 lose low bits in the same way. fp16 processing: fp32 sums, a fraction of 16 bits,
//! results in fp17.
//! Source: register manual (CDP `S_LUT_*`), the hardware project's C-model (`cmod/cdp`, `cmod/hls_wrapper`).
//!
//! [`Lookup`] computes the result for any value. `vector::Vectors` computes the results for many values at once if a few
//! machine instructions can do what the hardware does, and marks the values for which they cannot.

mod lookup;
pub(crate) mod vector;

pub use self::lookup::Lookup;
