// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the units' vector code shares: instruction sets and the choice among them, aligned memory, prefetch,
//! non-temporal stores, transposition.

#[macro_use]
mod dispatch;
pub(crate) mod aligned;
pub(crate) mod isa;
pub(crate) mod non_temporal;
pub(crate) mod prefetch;
pub(crate) mod transpose;
