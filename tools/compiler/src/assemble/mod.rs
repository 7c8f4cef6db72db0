// SPDX-License-Identifier: MIT OR Apache-2.0

//! From operations of the hardware to a loadable: their order and events ([`order`]), the places of buffers
//! ([`memory`]), the file ([`emit`]), and the report ([`report`]).

pub mod emit;
pub mod memory;
pub mod order;
pub mod program;
pub mod report;
