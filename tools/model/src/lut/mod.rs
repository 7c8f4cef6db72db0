// SPDX-License-Identifier: MIT OR Apache-2.0

//! The lookup tables of SDP and CDP: LE (65 entries, exponential or linear) and LO (257 entries, linear).
//!
//! Both units load them through `S_LUT_ACCESS_CFG` and `S_LUT_ACCESS_DATA`, look a value up in both tables, and choose one of the
//! results by the same rule ([`Priorities::choose`]). They differ in widths, in the precision of the fraction and in the
//! interpolation: [`sdp`] and [`cdp`].
//!
//! Source: register manual (SDP and CDP `S_LUT_*`); where it is silent, the hardware project's C-model.

pub mod cdp;
pub mod sdp;
mod tables;

pub use self::tables::{Counters, Position, Priorities, Tables, LE_ENTRIES, LO_ENTRIES};
