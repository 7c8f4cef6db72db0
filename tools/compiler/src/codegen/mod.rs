// SPDX-License-Identifier: MIT OR Apache-2.0

//! From steps to operations of the units.

pub mod average;
pub mod cbuf;
pub mod cdp;
pub mod convolution;
pub mod lowering;
pub mod pool;
pub mod product;
pub mod sdp;
pub mod view;
pub mod winograd;
