// SPDX-License-Identifier: MIT OR Apache-2.0

//! From the graph to steps: one function per operator or group of operators.

pub mod arithmetic;
pub mod linear;
pub mod moves;
pub mod nodes;
pub(crate) mod permute;
pub(crate) mod resize;
pub mod windows;
