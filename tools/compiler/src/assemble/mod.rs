// SPDX-License-Identifier: MIT OR Apache-2.0

//! Makes a loadable from operations of the hardware: poolings that take their input on the fly ([`fly`]), the operations' order
//! and events ([`order`]), the places of buffers ([`memory`]) and which of them lie in SRAM ([`sram`]), a check of the order and the
//! places ([`check`]), the file ([`emit`]), and the report ([`report`]).

pub mod check;
pub mod emit;
pub mod fly;
mod html;
pub mod memory;
pub mod order;
pub mod program;
pub mod report;
pub mod sram;
