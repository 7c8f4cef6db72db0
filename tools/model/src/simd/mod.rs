// SPDX-License-Identifier: MIT OR Apache-2.0

//! The common base of the units' vector code: selection by instruction set, aligned memory, prefetch, non-temporal
//! stores, tables, transposition.

#[macro_use]
mod dispatch;
pub(crate) mod aligned;
pub(crate) mod non_temporal;
pub(crate) mod prefetch;
pub(crate) mod table;
pub(crate) mod transpose;
