// SPDX-License-Identifier: MIT OR Apache-2.0

//! From operations of the hardware to a loadable: poolings that take their input on the fly ([`fly`]), the operations'
//! order and events ([`order`]), the places of buffers ([`memory`]), a check of both ([`check`]), the file ([`emit`]), and
//! the report ([`report`]).

pub mod check;
pub mod emit;
pub mod fly;
mod html;
pub mod memory;
pub mod order;
pub mod program;
pub mod report;
