// SPDX-License-Identifier: MIT OR Apache-2.0

//! The state that SDP keeps between operations.

#[cfg(target_arch = "x86_64")]
use super::vector::avx512::Tail;
use super::vector::lanes::Scratch;
use super::vector::lookup::Joint;
use crate::like::Like;
use crate::lut::Tables;

/// The state that SDP keeps between operations.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Which results the operations have where the RTL and the C-model differ.
    pub like: Like,
    /// The lookup tables.
    pub tables: Tables,
    pub(super) scratch: Option<Box<Scratch>>,
    /// The last operation's lookup.
    pub(super) joint: Option<Joint>,
    #[cfg(target_arch = "x86_64")]
    pub(super) tail: Option<Tail>,
}
