// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the units' vector code shares: prefetch, non-temporal stores, transposition.

pub(crate) mod non_temporal;
pub(crate) mod prefetch;
pub(crate) mod transpose;
