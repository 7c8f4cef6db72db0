// SPDX-License-Identifier: MIT OR Apache-2.0

//! From operations of the hardware to a loadable: their order and events ([`order`]), the places of buffers
//! ([`memory`]), a check of both ([`check`]), the file ([`emit`]), and the report ([`report`]).

pub mod check;
pub mod emit;
mod html;
pub mod memory;
pub mod order;
pub mod program;
pub mod report;
